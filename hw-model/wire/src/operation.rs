//! The parts of an opcode: transport service, operation, position in the message.

/// The transport service: the upper three bits of the opcode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transport {
    /// RC
    ReliableConnected,
    /// UC
    UnreliableConnected,
    /// RD: its opcodes are known here, its headers are not supported.
    ReliableDatagram,
    /// UD
    UnreliableDatagram,
    /// No service: the congestion notification packet of RoCEv2.
    CongestionNotification,
    /// XRC
    ExtendedReliableConnected,
}

impl Transport {
    /// Every service.
    pub const ALL: [Self; 6] = [
        Self::ReliableConnected,
        Self::UnreliableConnected,
        Self::ReliableDatagram,
        Self::UnreliableDatagram,
        Self::CongestionNotification,
        Self::ExtendedReliableConnected,
    ];

    pub(crate) const fn bits(self) -> u8 {
        match self {
            Self::ReliableConnected => 0b000,
            Self::UnreliableConnected => 0b001,
            Self::ReliableDatagram => 0b010,
            Self::UnreliableDatagram => 0b011,
            Self::CongestionNotification => 0b100,
            Self::ExtendedReliableConnected => 0b101,
        }
    }

    /// Returns true if the service has this operation, in this position.
    pub(crate) const fn offers(self, operation: Operation, position: Position) -> bool {
        match self {
            Self::ReliableConnected | Self::ExtendedReliableConnected => !matches!(
                operation,
                Operation::Resync | Operation::CongestionNotification
            ),
            Self::ReliableDatagram => !matches!(
                operation,
                Operation::SendInvalidate | Operation::CongestionNotification
            ),
            Self::UnreliableConnected => matches!(
                operation,
                Operation::Send
                    | Operation::SendImmediate
                    | Operation::RdmaWrite
                    | Operation::RdmaWriteImmediate
            ),
            Self::UnreliableDatagram => {
                matches!(operation, Operation::Send | Operation::SendImmediate)
                    && matches!(position, Position::Only)
            }
            Self::CongestionNotification => matches!(operation, Operation::CongestionNotification),
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::ReliableConnected => "RC",
            Self::UnreliableConnected => "UC",
            Self::ReliableDatagram => "RD",
            Self::UnreliableDatagram => "UD",
            Self::CongestionNotification => "CNP",
            Self::ExtendedReliableConnected => "XRC",
        }
    }
}

/// The operation that a packet requests or answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// SEND
    Send,
    /// SEND with immediate: the packet that carries the immediate data, Last or Only.
    SendImmediate,
    /// SEND with invalidate: the packet that carries the key, Last or Only.
    SendInvalidate,
    /// RDMA WRITE
    RdmaWrite,
    /// RDMA WRITE with immediate: the packet that carries the immediate data, Last or Only.
    RdmaWriteImmediate,
    /// RDMA READ request
    RdmaReadRequest,
    /// RDMA READ response
    RdmaReadResponse,
    /// Acknowledge: ACK, NAK or RNR NAK, as the AETH says.
    Acknowledge,
    /// Response to an atomic operation.
    AtomicAcknowledge,
    /// ATOMIC compare and swap
    CompareSwap,
    /// ATOMIC fetch and add
    FetchAdd,
    /// FLUSH (IBTA annex A19)
    Flush,
    /// ATOMIC WRITE (IBTA annex A19)
    AtomicWrite,
    /// RESYNC of the Reliable Datagram service
    Resync,
    /// Congestion notification packet
    CongestionNotification,
}

impl Operation {
    /// Every operation.
    pub const ALL: [Self; 15] = [
        Self::Send,
        Self::SendImmediate,
        Self::SendInvalidate,
        Self::RdmaWrite,
        Self::RdmaWriteImmediate,
        Self::RdmaReadRequest,
        Self::RdmaReadResponse,
        Self::Acknowledge,
        Self::AtomicAcknowledge,
        Self::CompareSwap,
        Self::FetchAdd,
        Self::Flush,
        Self::AtomicWrite,
        Self::Resync,
        Self::CongestionNotification,
    ];

    /// Returns true if the packet travels from the requester to the responder.
    #[inline]
    pub const fn is_request(self) -> bool {
        !self.is_response() && !matches!(self, Self::CongestionNotification)
    }

    /// Returns true if the packet travels from the responder to the requester.
    #[inline]
    pub const fn is_response(self) -> bool {
        matches!(
            self,
            Self::RdmaReadResponse | Self::Acknowledge | Self::AtomicAcknowledge
        )
    }

    /// Returns true if the packet is a SEND of any kind, or an RDMA WRITE of any kind.
    #[inline]
    pub(crate) const fn is_send_or_write(self) -> bool {
        matches!(
            self,
            Self::Send
                | Self::SendImmediate
                | Self::SendInvalidate
                | Self::RdmaWrite
                | Self::RdmaWriteImmediate
        )
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Send | Self::SendImmediate | Self::SendInvalidate => "SEND",
            Self::RdmaWrite | Self::RdmaWriteImmediate => "RDMA_WRITE",
            Self::RdmaReadRequest => "RDMA_READ_REQUEST",
            Self::RdmaReadResponse => "RDMA_READ_RESPONSE",
            Self::Acknowledge => "ACKNOWLEDGE",
            Self::AtomicAcknowledge => "ATOMIC_ACKNOWLEDGE",
            Self::CompareSwap => "COMPARE_SWAP",
            Self::FetchAdd => "FETCH_ADD",
            Self::Flush => "FLUSH",
            Self::AtomicWrite => "ATOMIC_WRITE",
            Self::Resync => "RESYNC",
            Self::CongestionNotification => "CNP",
        }
    }

    pub(crate) const fn is_split_into_packets(self) -> bool {
        self.is_send_or_write() || matches!(self, Self::RdmaReadResponse)
    }
}

/// The position of a packet in its message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Position {
    /// The first of several
    First,
    /// Neither first nor last
    Middle,
    /// The last of several
    Last,
    /// The message is this packet
    Only,
}

impl Position {
    /// Every position.
    pub const ALL: [Self; 4] = [Self::First, Self::Middle, Self::Last, Self::Only];

    /// Returns true if a message starts here.
    #[inline]
    pub const fn starts_message(self) -> bool {
        matches!(self, Self::First | Self::Only)
    }

    /// Returns true if a message ends here.
    #[inline]
    pub const fn ends_message(self) -> bool {
        matches!(self, Self::Last | Self::Only)
    }

    /// Returns the position of packet `index` of a message of `count` packets (at least one).
    #[inline]
    pub const fn of(index: u32, count: u32) -> Self {
        match (index == 0, index + 1 >= count) {
            (true, true) => Self::Only,
            (true, false) => Self::First,
            (false, true) => Self::Last,
            (false, false) => Self::Middle,
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::First => "FIRST",
            Self::Middle => "MIDDLE",
            Self::Last => "LAST",
            Self::Only => "ONLY",
        }
    }
}
