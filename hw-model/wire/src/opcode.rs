//! The opcode byte of the BTH.
//!
//! An opcode is a triple: transport service, operation, position of the packet in its message.
//! The triple fixes everything else, above all which headers follow; nothing is tabulated per
//! opcode (IBTA vol 1, 9.2.1).

use core::fmt;

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
    const fn bits(self) -> u8 {
        match self {
            Self::ReliableConnected => 0b000,
            Self::UnreliableConnected => 0b001,
            Self::ReliableDatagram => 0b010,
            Self::UnreliableDatagram => 0b011,
            Self::CongestionNotification => 0b100,
            Self::ExtendedReliableConnected => 0b101,
        }
    }

    const fn from_bits(bits: u8) -> Option<Self> {
        Some(match bits {
            0b000 => Self::ReliableConnected,
            0b001 => Self::UnreliableConnected,
            0b010 => Self::ReliableDatagram,
            0b011 => Self::UnreliableDatagram,
            0b100 => Self::CongestionNotification,
            0b101 => Self::ExtendedReliableConnected,
            _ => return None,
        })
    }

    /// Whether the service has this operation, in this position.
    const fn offers(self, operation: Operation, position: Position) -> bool {
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

    const fn name(self) -> &'static str {
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

/// What a packet asks for or answers.
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
    /// RESYNC of the Reliable Datagram service
    Resync,
    /// Congestion notification packet
    CongestionNotification,
}

impl Operation {
    /// Whether the packet travels from the requester to the responder.
    #[inline]
    pub const fn is_request(self) -> bool {
        !self.is_response() && !matches!(self, Self::CongestionNotification)
    }

    /// Whether the packet travels from the responder to the requester.
    #[inline]
    pub const fn is_response(self) -> bool {
        matches!(
            self,
            Self::RdmaReadResponse | Self::Acknowledge | Self::AtomicAcknowledge
        )
    }

    /// Whether the packet is a SEND of any kind, or an RDMA WRITE of any kind.
    #[inline]
    const fn is_send_or_write(self) -> bool {
        matches!(
            self,
            Self::Send
                | Self::SendImmediate
                | Self::SendInvalidate
                | Self::RdmaWrite
                | Self::RdmaWriteImmediate
        )
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Send | Self::SendImmediate | Self::SendInvalidate => "SEND",
            Self::RdmaWrite | Self::RdmaWriteImmediate => "RDMA_WRITE",
            Self::RdmaReadRequest => "RDMA_READ_REQUEST",
            Self::RdmaReadResponse => "RDMA_READ_RESPONSE",
            Self::Acknowledge => "ACKNOWLEDGE",
            Self::AtomicAcknowledge => "ATOMIC_ACKNOWLEDGE",
            Self::CompareSwap => "COMPARE_SWAP",
            Self::FetchAdd => "FETCH_ADD",
            Self::Resync => "RESYNC",
            Self::CongestionNotification => "CNP",
        }
    }

    const fn is_split_into_packets(self) -> bool {
        self.is_send_or_write() || matches!(self, Self::RdmaReadResponse)
    }
}

/// The place of a packet in its message.
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
    /// Whether a message starts here.
    #[inline]
    pub const fn starts_message(self) -> bool {
        matches!(self, Self::First | Self::Only)
    }

    /// Whether a message ends here.
    #[inline]
    pub const fn ends_message(self) -> bool {
        matches!(self, Self::Last | Self::Only)
    }

    /// The position of packet `index` of a message of `count` packets (at least one).
    #[inline]
    pub const fn of(index: u32, count: u32) -> Self {
        match (index == 0, index + 1 >= count) {
            (true, true) => Self::Only,
            (true, false) => Self::First,
            (false, true) => Self::Last,
            (false, false) => Self::Middle,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::First => "FIRST",
            Self::Middle => "MIDDLE",
            Self::Last => "LAST",
            Self::Only => "ONLY",
        }
    }
}

/// The headers that follow the BTH, as a set. Their order on the wire is fixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HeaderSet(u16);

impl HeaderSet {
    /// Nothing but the BTH
    pub const NONE: Self = Self(0);
    /// Reliable datagram extended transport header
    pub const RDETH: Self = Self(1 << 0);
    /// Datagram extended transport header
    pub const DETH: Self = Self(1 << 1);
    /// XRC extended transport header
    pub const XRCETH: Self = Self(1 << 2);
    /// RDMA extended transport header
    pub const RETH: Self = Self(1 << 3);
    /// Atomic extended transport header
    pub const ATOMIC_ETH: Self = Self(1 << 4);
    /// Acknowledge extended transport header
    pub const AETH: Self = Self(1 << 5);
    /// Atomic acknowledge extended transport header
    pub const ATOMIC_ACK_ETH: Self = Self(1 << 6);
    /// Immediate data
    pub const IMMEDIATE: Self = Self(1 << 7);
    /// Invalidate extended transport header
    pub const IETH: Self = Self(1 << 8);
    /// The 16 reserved bytes of a congestion notification packet
    pub const CNP: Self = Self(1 << 9);

    /// Both sets.
    #[inline]
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The set less those in `other`.
    #[inline]
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    const fn with_if(self, condition: bool, other: Self) -> Self {
        if condition { self.with(other) } else { self }
    }

    /// Whether all of `other` is in the set.
    #[inline]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Bytes of the headers in the set.
    pub const fn length(self) -> usize {
        const LENGTHS: [(HeaderSet, usize); 10] = [
            (HeaderSet::RDETH, 4),
            (HeaderSet::DETH, 8),
            (HeaderSet::XRCETH, 4),
            (HeaderSet::RETH, 16),
            (HeaderSet::ATOMIC_ETH, 28),
            (HeaderSet::AETH, 4),
            (HeaderSet::ATOMIC_ACK_ETH, 8),
            (HeaderSet::IMMEDIATE, 4),
            (HeaderSet::IETH, 4),
            (HeaderSet::CNP, 16),
        ];
        let mut length = 0;
        let mut index = 0;
        while index < LENGTHS.len() {
            if self.contains(LENGTHS[index].0) {
                length += LENGTHS[index].1;
            }
            index += 1;
        }
        length
    }
}

/// The opcode byte: any value; [`Opcode::parse`] judges it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Opcode(pub u8);

impl Opcode {
    /// The congestion notification packet (RoCEv2 annex A17, 17.9.4).
    pub const CNP: Self = Self(0x81);

    /// The opcode of a triple; None if there is no such packet.
    #[inline]
    pub const fn new(
        transport: Transport,
        operation: Operation,
        position: Position,
    ) -> Option<Self> {
        let within_service = match (Self::within_service(operation, position), transport) {
            (Some(code), transport) if transport.offers(operation, position) => code,
            _ => return None,
        };
        Some(Self(transport.bits() << 5 | within_service))
    }

    /// The lower five bits; None if the operation has no such position.
    const fn within_service(operation: Operation, position: Position) -> Option<u8> {
        use Position::{First, Last, Middle, Only};
        Some(match (operation, position) {
            // SEND and RDMA WRITE: six codes each, in the order First, Middle, Last,
            // Last with immediate, Only, Only with immediate.
            (Operation::Send, First) => 0x00,
            (Operation::Send, Middle) => 0x01,
            (Operation::Send, Last) => 0x02,
            (Operation::SendImmediate, Last) => 0x03,
            (Operation::Send, Only) => 0x04,
            (Operation::SendImmediate, Only) => 0x05,
            (Operation::RdmaWrite, First) => 0x06,
            (Operation::RdmaWrite, Middle) => 0x07,
            (Operation::RdmaWrite, Last) => 0x08,
            (Operation::RdmaWriteImmediate, Last) => 0x09,
            (Operation::RdmaWrite, Only) => 0x0a,
            (Operation::RdmaWriteImmediate, Only) => 0x0b,
            (Operation::RdmaReadRequest, Only) => 0x0c,
            (Operation::RdmaReadResponse, First) => 0x0d,
            (Operation::RdmaReadResponse, Middle) => 0x0e,
            (Operation::RdmaReadResponse, Last) => 0x0f,
            (Operation::RdmaReadResponse, Only) => 0x10,
            (Operation::Acknowledge, Only) => 0x11,
            (Operation::AtomicAcknowledge, Only) => 0x12,
            (Operation::CompareSwap, Only) => 0x13,
            (Operation::FetchAdd, Only) => 0x14,
            (Operation::Resync, Only) => 0x15,
            (Operation::SendInvalidate, Last) => 0x16,
            (Operation::SendInvalidate, Only) => 0x17,
            // The congestion notification packet is the whole byte 0x81.
            (Operation::CongestionNotification, Only) => 0x01,
            _ => return None,
        })
    }

    /// The triple; None for reserved codes.
    #[inline]
    pub const fn parse(self) -> Option<OpcodeProperties> {
        use Position::{First, Last, Middle, Only};
        let Some(transport) = Transport::from_bits(self.0 >> 5) else {
            return None;
        };
        let (operation, position) = match self.0 & 0x1f {
            0x01 if matches!(transport, Transport::CongestionNotification) => {
                (Operation::CongestionNotification, Only)
            }
            0x00 => (Operation::Send, First),
            0x01 => (Operation::Send, Middle),
            0x02 => (Operation::Send, Last),
            0x03 => (Operation::SendImmediate, Last),
            0x04 => (Operation::Send, Only),
            0x05 => (Operation::SendImmediate, Only),
            0x06 => (Operation::RdmaWrite, First),
            0x07 => (Operation::RdmaWrite, Middle),
            0x08 => (Operation::RdmaWrite, Last),
            0x09 => (Operation::RdmaWriteImmediate, Last),
            0x0a => (Operation::RdmaWrite, Only),
            0x0b => (Operation::RdmaWriteImmediate, Only),
            0x0c => (Operation::RdmaReadRequest, Only),
            0x0d => (Operation::RdmaReadResponse, First),
            0x0e => (Operation::RdmaReadResponse, Middle),
            0x0f => (Operation::RdmaReadResponse, Last),
            0x10 => (Operation::RdmaReadResponse, Only),
            0x11 => (Operation::Acknowledge, Only),
            0x12 => (Operation::AtomicAcknowledge, Only),
            0x13 => (Operation::CompareSwap, Only),
            0x14 => (Operation::FetchAdd, Only),
            0x15 => (Operation::Resync, Only),
            0x16 => (Operation::SendInvalidate, Last),
            0x17 => (Operation::SendInvalidate, Only),
            _ => return None,
        };
        if transport.offers(operation, position) {
            Some(OpcodeProperties {
                transport,
                operation,
                position,
            })
        } else {
            None
        }
    }
}

impl fmt::Display for Opcode {
    /// The name that rdma-core gives it (`RC_SEND_LAST_WITH_IMMEDIATE`), or the number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.parse() {
            Some(properties) => f.pad(&properties.to_string()),
            None => f.pad(&format!("{:#04x}", self.0)),
        }
    }
}

impl fmt::Debug for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Opcode({:#04x} {self})", self.0)
    }
}

/// The triple that an opcode stands for, and what follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OpcodeProperties {
    /// Transport service
    pub transport: Transport,
    /// Operation
    pub operation: Operation,
    /// Position of the packet in its message
    pub position: Position,
}

impl OpcodeProperties {
    /// The headers that follow the BTH.
    #[inline]
    pub const fn headers(self) -> HeaderSet {
        let is_request = self.operation.is_request();
        let is_rd = matches!(self.transport, Transport::ReliableDatagram);
        let is_ud = matches!(self.transport, Transport::UnreliableDatagram);
        let is_xrc = matches!(self.transport, Transport::ExtendedReliableConnected);
        HeaderSet::NONE
            .with_if(is_rd, HeaderSet::RDETH)
            .with_if(is_request && (is_rd || is_ud), HeaderSet::DETH)
            .with_if(is_request && is_xrc, HeaderSet::XRCETH)
            .with_if(self.has_reth(), HeaderSet::RETH)
            .with_if(self.has_atomic_eth(), HeaderSet::ATOMIC_ETH)
            .with_if(self.has_aeth(), HeaderSet::AETH)
            .with_if(self.has_atomic_ack_eth(), HeaderSet::ATOMIC_ACK_ETH)
            .with_if(self.has_immediate(), HeaderSet::IMMEDIATE)
            .with_if(
                matches!(self.operation, Operation::SendInvalidate),
                HeaderSet::IETH,
            )
            .with_if(
                matches!(self.operation, Operation::CongestionNotification),
                HeaderSet::CNP,
            )
    }

    /// Whether a RETH follows: READ requests, and the packet that starts an RDMA WRITE.
    #[inline]
    pub const fn has_reth(self) -> bool {
        match self.operation {
            Operation::RdmaReadRequest => true,
            Operation::RdmaWrite | Operation::RdmaWriteImmediate => self.position.starts_message(),
            _ => false,
        }
    }

    /// Whether an AETH follows: every response, but for the middle of a READ response.
    #[inline]
    pub const fn has_aeth(self) -> bool {
        self.operation.is_response() && !matches!(self.position, Position::Middle)
    }

    /// Whether immediate data follow.
    #[inline]
    pub const fn has_immediate(self) -> bool {
        matches!(
            self.operation,
            Operation::SendImmediate | Operation::RdmaWriteImmediate
        )
    }

    /// Whether an AtomicETH follows.
    #[inline]
    pub const fn has_atomic_eth(self) -> bool {
        matches!(self.operation, Operation::CompareSwap | Operation::FetchAdd)
    }

    /// Whether an AtomicAckETH follows.
    #[inline]
    pub const fn has_atomic_ack_eth(self) -> bool {
        matches!(self.operation, Operation::AtomicAcknowledge)
    }

    /// Whether the packet may carry payload.
    #[inline]
    pub const fn has_payload(self) -> bool {
        self.operation.is_split_into_packets()
    }

    /// Bytes of BTH and the headers that follow it.
    #[inline]
    pub const fn header_length(self) -> usize {
        crate::bth::Bth::LENGTH + self.headers().length()
    }

    /// Whether the packet travels from the requester to the responder.
    #[inline]
    pub const fn is_request(self) -> bool {
        self.operation.is_request()
    }

    /// Whether the packet travels from the responder to the requester.
    #[inline]
    pub const fn is_response(self) -> bool {
        self.operation.is_response()
    }

    /// Whether a message starts with this packet.
    #[inline]
    pub const fn starts_message(self) -> bool {
        self.position.starts_message()
    }

    /// Whether a message ends with this packet.
    #[inline]
    pub const fn ends_message(self) -> bool {
        self.position.ends_message()
    }
}

impl fmt::Display for OpcodeProperties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.operation == Operation::CongestionNotification {
            return f.write_str(self.operation.name());
        }
        write!(f, "{}_{}", self.transport.name(), self.operation.name())?;
        if self.operation.is_split_into_packets() {
            write!(f, "_{}", self.position.name())?;
        }
        f.write_str(match self.operation {
            Operation::SendImmediate | Operation::RdmaWriteImmediate => "_WITH_IMMEDIATE",
            Operation::SendInvalidate => "_WITH_INVALIDATE",
            _ => "",
        })
    }
}
