//! Transport services.

/// Transport service of a queue pair (IBTA vol 1, table 86).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Service {
    /// RC: acknowledged, in order, one peer.
    #[default]
    ReliableConnected,
    /// UC: one peer, no acknowledge; a broken message is dropped.
    UnreliableConnected,
    /// UD: datagrams to and from any queue pair.
    UnreliableDatagram,
    /// XRC, the sending half: RC to shared receive queues of the peer.
    XrcInitiator,
    /// XRC, the receiving half.
    XrcTarget,
    /// GSI, the general service interface: QP 1 of a port, for management datagrams (IBTA vol 1,
    /// 3.9.4). A datagram service with a fixed QPN and Q_Key.
    Gsi,
}

impl Service {
    /// All services.
    pub const ALL: [Service; 6] = [
        Service::ReliableConnected,
        Service::UnreliableConnected,
        Service::UnreliableDatagram,
        Service::XrcInitiator,
        Service::XrcTarget,
        Service::Gsi,
    ];

    /// Returns true if it sends and receives datagrams: each request names its destination, and
    /// each packet carries a Q_Key.
    #[inline]
    #[must_use]
    pub const fn is_datagram(self) -> bool {
        matches!(self, Service::UnreliableDatagram | Service::Gsi)
    }
}
