//! The opcode byte of the BTH.
//!
//! An opcode is a triple: transport service, operation, position of the packet in its message. The
//! triple determines everything else, in particular the headers that follow; no opcode has a
//! hand-written table entry (IBTA vol 1, 9.2.1).

use core::fmt;

use crate::operation::{Operation, Position, Transport};

/// The opcode byte with any value; [`Opcode::parse`] validates it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Opcode(pub u8);

impl Opcode {
    /// The congestion notification packet (IBTA annex A17).
    pub const CNP: Self = Self(0x81);

    /// Returns the opcode of a triple; `None` if there is no such packet.
    #[inline]
    pub const fn new(
        transport: Transport,
        operation: Operation,
        position: Position,
    ) -> Option<Self> {
        let within_service = match Self::within_service(operation, position) {
            Some(code) if transport.offers(operation, position) => code,
            _ => return None,
        };
        Some(Self(transport.bits() << 5 | within_service))
    }

    /// Returns true if it is the first packet of a request.
    #[inline]
    #[must_use]
    pub const fn begins_request(self) -> bool {
        match self.parse() {
            Some(properties) => properties.is_request() && properties.starts_message(),
            None => false,
        }
    }

    /// Returns true if it is a request that takes a responder resource (IBTA vol 1, 9.4.4).
    #[inline]
    #[must_use]
    pub const fn takes_responder_resource(self) -> bool {
        match self.parse() {
            Some(properties) => matches!(
                properties.operation,
                Operation::RdmaReadRequest
                    | Operation::CompareSwap
                    | Operation::FetchAdd
                    | Operation::Flush
                    | Operation::AtomicWrite
            ),
            None => false,
        }
    }

    /// Returns true if it is one of several packets of a READ response.
    #[inline]
    #[must_use]
    pub const fn is_part_of_read_response(self) -> bool {
        match self.parse() {
            Some(properties) => {
                matches!(properties.operation, Operation::RdmaReadResponse)
                    && !matches!(properties.position, Position::Only)
            }
            None => false,
        }
    }

    /// Returns the lower five bits; `None` if the operation has no such position.
    const fn within_service(operation: Operation, position: Position) -> Option<u8> {
        Some(match (operation, position) {
            (Operation::Send, _) => SEND_BASE + plain_slot(position),
            (Operation::RdmaWrite, _) => WRITE_BASE + plain_slot(position),
            (Operation::SendImmediate, Position::Last) => SEND_BASE + 3,
            (Operation::SendImmediate, Position::Only) => SEND_BASE + 5,
            (Operation::RdmaWriteImmediate, Position::Last) => WRITE_BASE + 3,
            (Operation::RdmaWriteImmediate, Position::Only) => WRITE_BASE + 5,
            (Operation::RdmaReadResponse, Position::First) => 0x0d,
            (Operation::RdmaReadResponse, Position::Middle) => 0x0e,
            (Operation::RdmaReadResponse, Position::Last) => 0x0f,
            (Operation::RdmaReadResponse, Position::Only) => 0x10,
            (Operation::SendInvalidate, Position::Last) => 0x16,
            (Operation::SendInvalidate, Position::Only) => 0x17,
            (Operation::RdmaReadRequest, Position::Only) => 0x0c,
            (Operation::Acknowledge, Position::Only) => 0x11,
            (Operation::AtomicAcknowledge, Position::Only) => 0x12,
            (Operation::CompareSwap, Position::Only) => 0x13,
            (Operation::FetchAdd, Position::Only) => 0x14,
            (Operation::Resync, Position::Only) => 0x15,
            (Operation::Flush, Position::Only) => 0x1c,
            (Operation::AtomicWrite, Position::Only) => 0x1d,
            // The congestion notification packet is the whole byte 0x81.
            (Operation::CongestionNotification, Position::Only) => 0x01,
            _ => return None,
        })
    }

    /// Returns the triple; `None` for reserved codes.
    #[inline]
    pub const fn parse(self) -> Option<OpcodeProperties> {
        TRIPLES[self.0 as usize]
    }
}

/// SEND and RDMA WRITE have six codes each from their base: First, Middle, Last, Last with
/// immediate, Only, Only with immediate.
const SEND_BASE: u8 = 0x00;
const WRITE_BASE: u8 = 0x06;

const fn plain_slot(position: Position) -> u8 {
    match position {
        Position::First => 0,
        Position::Middle => 1,
        Position::Last => 2,
        Position::Only => 4,
    }
}

/// The inverse of [`Opcode::new`], computed from it by the compiler.
const TRIPLES: [Option<OpcodeProperties>; 256] = {
    let mut triples = [None; 256];
    let mut index = 0;
    let services = Transport::ALL.len();
    let operations = Operation::ALL.len();
    let positions = Position::ALL.len();
    while index < services * operations * positions {
        let transport = Transport::ALL[index / positions / operations];
        let operation = Operation::ALL[index / positions % operations];
        let position = Position::ALL[index % positions];
        if let Some(opcode) = Opcode::new(transport, operation, position) {
            assert!(
                triples[opcode.0 as usize].is_none(),
                "two triples with one opcode"
            );
            triples[opcode.0 as usize] = Some(OpcodeProperties {
                transport,
                operation,
                position,
            });
        }
        index += 1;
    }
    triples
};

impl fmt::Display for Opcode {
    /// Writes the name in rdma-core (`RC_SEND_LAST_WITH_IMMEDIATE`), or the number.
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

/// The triple of an opcode, and the properties that follow from it.
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
    /// Returns true if a RETH follows: READ requests, FLUSH, ATOMIC WRITE, and the packet that
    /// starts an RDMA WRITE.
    #[inline]
    pub const fn has_reth(self) -> bool {
        match self.operation {
            Operation::RdmaReadRequest | Operation::Flush | Operation::AtomicWrite => true,
            Operation::RdmaWrite | Operation::RdmaWriteImmediate => self.position.starts_message(),
            _ => false,
        }
    }

    /// Returns true if an AETH follows: every response except the middle of a READ response.
    #[inline]
    pub const fn has_aeth(self) -> bool {
        self.operation.is_response() && !matches!(self.position, Position::Middle)
    }

    /// Returns true if immediate data follow.
    #[inline]
    pub const fn has_immediate(self) -> bool {
        matches!(
            self.operation,
            Operation::SendImmediate | Operation::RdmaWriteImmediate
        )
    }

    /// Returns true if an AtomicETH follows.
    #[inline]
    pub const fn has_atomic_eth(self) -> bool {
        matches!(self.operation, Operation::CompareSwap | Operation::FetchAdd)
    }

    /// Returns true if an AtomicAckETH follows.
    #[inline]
    pub const fn has_atomic_ack_eth(self) -> bool {
        matches!(self.operation, Operation::AtomicAcknowledge)
    }

    /// Returns true if the packet may carry payload.
    #[inline]
    pub const fn has_payload(self) -> bool {
        self.operation.is_split_into_packets() || matches!(self.operation, Operation::AtomicWrite)
    }

    /// Returns true if the packet travels from the requester to the responder.
    #[inline]
    pub const fn is_request(self) -> bool {
        self.operation.is_request()
    }

    /// Returns true if the packet travels from the responder to the requester.
    #[inline]
    pub const fn is_response(self) -> bool {
        self.operation.is_response()
    }

    /// Returns true if a message starts with this packet.
    #[inline]
    pub const fn starts_message(self) -> bool {
        self.position.starts_message()
    }

    /// Returns true if a message ends with this packet.
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::header_set::HeaderSet;

    /// Returns all triples that have an opcode, by opcode.
    fn triples() -> BTreeMap<u8, OpcodeProperties> {
        let mut triples = BTreeMap::new();
        for transport in Transport::ALL {
            for operation in Operation::ALL {
                for position in Position::ALL {
                    if let Some(opcode) = Opcode::new(transport, operation, position) {
                        let properties = OpcodeProperties {
                            transport,
                            operation,
                            position,
                        };
                        assert_eq!(triples.insert(opcode.0, properties), None, "{opcode}");
                    }
                }
            }
        }
        triples
    }

    #[test]
    fn parse_inverts_new_for_all_256_values() {
        let triples = triples();
        for value in 0..=u8::MAX {
            assert_eq!(
                Opcode(value).parse(),
                triples.get(&value).copied(),
                "{value:#04x}"
            );
        }
    }

    #[test]
    fn services_have_the_opcodes_of_the_standard() {
        let known: Vec<u8> = triples().into_keys().collect();
        let expected: Vec<u8> = (0x00..=0x14)
            .chain([0x16, 0x17, 0x1c, 0x1d])
            .chain(0x20..=0x2b)
            .chain(0x40..=0x55)
            .chain([0x5c, 0x5d])
            .chain([0x64, 0x65, 0x81])
            .chain(0xa0..=0xb4)
            .chain([0xb6, 0xb7, 0xbc, 0xbd])
            .collect();
        assert_eq!(known, expected);
    }

    #[test]
    fn each_property_follows_from_the_others() {
        for (value, it) in triples() {
            let headers = it.headers();
            assert_eq!(
                it.has_reth(),
                headers.contains(HeaderSet::RETH),
                "{value:#04x}"
            );
            assert_eq!(
                it.has_aeth(),
                headers.contains(HeaderSet::AETH),
                "{value:#04x}"
            );
            assert_eq!(it.has_immediate(), headers.contains(HeaderSet::IMMEDIATE));
            assert_eq!(it.has_atomic_eth(), headers.contains(HeaderSet::ATOMIC_ETH));
            assert_eq!(
                it.has_atomic_ack_eth(),
                headers.contains(HeaderSet::ATOMIC_ACK_ETH)
            );
            assert!(!(it.is_request() && it.is_response()));
            assert_eq!(
                !it.is_request() && !it.is_response(),
                value == Opcode::CNP.0
            );
            assert!(!(it.has_reth() && it.has_aeth()));
        }
    }

    /// Header lengths from the standard's list of packets, not from the rule.
    #[test]
    fn header_lengths() {
        let length = |value| Opcode(value).parse().map(OpcodeProperties::header_length);
        for (value, expected) in [
            (0x00, 12), // RC SEND First
            (0x03, 16), // RC SEND Last with immediate
            (0x06, 28), // RC RDMA WRITE First
            (0x07, 12), // RC RDMA WRITE Middle
            (0x09, 16), // RC RDMA WRITE Last with immediate
            (0x0b, 32), // RC RDMA WRITE Only with immediate
            (0x0c, 28), // RC RDMA READ request
            (0x0d, 16), // RC RDMA READ response First
            (0x0e, 12), // RC RDMA READ response Middle
            (0x11, 16), // RC Acknowledge
            (0x12, 24), // RC Atomic acknowledge
            (0x13, 40), // RC Compare and swap
            (0x17, 16), // RC SEND Only with invalidate
            (0x1c, 32), // RC FLUSH
            (0x1d, 28), // RC ATOMIC WRITE
            (0x40, 24), // RD SEND First
            (0x51, 20), // RD Acknowledge
            (0x64, 20), // UD SEND Only
            (0x65, 24), // UD SEND Only with immediate
            (0x81, 28), // CNP
            (0xa7, 16), // XRC RDMA WRITE Middle
            (0xac, 32), // XRC RDMA READ request
            (0xb1, 16), // XRC Acknowledge
        ] {
            assert_eq!(length(value), Some(expected), "{value:#04x}");
        }
    }

    #[test]
    fn position_of_a_packet() {
        assert_eq!(Position::of(0, 1), Position::Only);
        assert_eq!(Position::of(0, 2), Position::First);
        assert_eq!(Position::of(1, 3), Position::Middle);
        assert_eq!(Position::of(2, 3), Position::Last);
    }

    #[test]
    fn names_are_those_of_rdma_core() {
        assert_eq!(Opcode(0x05).to_string(), "RC_SEND_ONLY_WITH_IMMEDIATE");
        assert_eq!(Opcode(0x16).to_string(), "RC_SEND_LAST_WITH_INVALIDATE");
        assert_eq!(Opcode(0x2a).to_string(), "UC_RDMA_WRITE_ONLY");
        assert_eq!(Opcode(0x0c).to_string(), "RC_RDMA_READ_REQUEST");
        assert_eq!(Opcode::CNP.to_string(), "CNP");
        assert_eq!(Opcode(0xff).to_string(), "0xff");
    }
}
