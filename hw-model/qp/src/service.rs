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
}

impl Service {
    /// All services.
    pub const ALL: [Service; 5] = [
        Service::ReliableConnected,
        Service::UnreliableConnected,
        Service::UnreliableDatagram,
        Service::XrcInitiator,
        Service::XrcTarget,
    ];
}
