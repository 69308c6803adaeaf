//! The fields of a frame that the engine uses.

use std::fmt;

use ferroce_wire::{Extension, Frame, Gid, Opcode, Operation, Psn, Qpn, Syndrome};

/// The common fields of a flow's packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FlowKey {
    /// Address of the sender.
    pub source: Gid,
    /// Address of the receiver.
    pub destination: Gid,
    /// The sending queue pair: only known for datagrams.
    pub source_qp: Option<Qpn>,
    /// The receiving queue pair.
    pub destination_qp: Qpn,
    /// Requests and responses to one queue pair have separate PSNs.
    pub is_response: bool,
}

/// A RoCEv2 packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    /// Its flow.
    pub key: FlowKey,
    /// Its PSN.
    pub psn: Psn,
    /// Its opcode.
    pub opcode: Opcode,
    /// True if it is a NAK or an RNR NAK.
    pub is_nak: bool,
}

impl Packet {
    /// Parses a frame; `None`: it is not RoCEv2, or malformed.
    #[inline]
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let frame = Frame::parse(bytes).ok()?;
        let bth = &frame.headers.bth;
        let operation = bth.opcode.parse()?.operation;
        let source_qp = match frame.headers.extension {
            Extension::Deth(deth) | Extension::DethImmediate(deth, _) => Some(deth.source_qp),
            _ => None,
        };
        let is_nak = match frame.headers.extension {
            Extension::Aeth(aeth) => !matches!(aeth.syndrome, Syndrome::Ack { .. }),
            _ => false,
        };
        Some(Self {
            key: FlowKey {
                source: frame.ip.source_gid(),
                destination: frame.ip.destination_gid(),
                source_qp,
                destination_qp: bth.dest_qp,
                is_response: operation.is_response(),
            },
            psn: bth.psn,
            opcode: bth.opcode,
            is_nak,
        })
    }

    /// Returns its addresses.
    #[inline]
    #[must_use]
    pub fn hosts(&self) -> (Gid, Gid) {
        (self.key.source, self.key.destination)
    }
}

/// A set of packets that a plan can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketClass {
    /// All packets.
    Any,
    /// Packets from requester to responder.
    Request,
    /// Packets from responder to requester.
    Response,
    /// SENDs of any kind.
    Send,
    /// RDMA WRITEs of any kind.
    Write,
    /// RDMA READ requests.
    ReadRequest,
    /// RDMA READ responses.
    ReadResponse,
    /// Requests of atomic operations.
    Atomic,
    /// Responses to atomic operations.
    AtomicResponse,
    /// ACKs, NAKs and RNR NAKs.
    Acknowledge,
    /// NAKs and RNR NAKs.
    Nak,
    /// MADs to the GSI, QP 1, as RDMA CM sends them.
    Mad,
    /// Congestion notification packets.
    Cnp,
    /// Packets with one opcode.
    Opcode(Opcode),
}

impl PacketClass {
    /// The classes that have names.
    pub const NAMED: [(&'static str, Self); 13] = [
        ("any", Self::Any),
        ("request", Self::Request),
        ("response", Self::Response),
        ("send", Self::Send),
        ("write", Self::Write),
        ("read_request", Self::ReadRequest),
        ("read_response", Self::ReadResponse),
        ("atomic", Self::Atomic),
        ("atomic_response", Self::AtomicResponse),
        ("ack", Self::Acknowledge),
        ("nak", Self::Nak),
        ("mad", Self::Mad),
        ("cnp", Self::Cnp),
    ];

    /// Returns the class with a name: one of [`Self::NAMED`], or an opcode with its name in
    /// rdma-core.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let named = Self::NAMED.iter().find(|(known, _)| *known == name);
        named.map(|(_, class)| *class).or_else(|| {
            let mut opcodes = (0..=u8::MAX).map(Opcode);
            let is_meant = |opcode: &Opcode| opcode_name(*opcode).as_deref() == Some(name);
            opcodes.find(is_meant).map(Self::Opcode)
        })
    }

    /// Returns true if it may contain responses (`is_response`), or requests otherwise.
    #[must_use]
    pub fn may_have(self, is_response: bool) -> bool {
        match self {
            Self::Any => true,
            Self::Response
            | Self::ReadResponse
            | Self::AtomicResponse
            | Self::Acknowledge
            | Self::Nak => is_response,
            Self::Opcode(opcode) => {
                let properties = opcode.parse();
                properties.is_some_and(|properties| properties.is_response() == is_response)
            }
            _ => !is_response,
        }
    }

    /// Returns true if a packet belongs to it.
    #[inline]
    #[must_use]
    pub fn has(self, packet: &Packet) -> bool {
        let Some(operation) = packet.opcode.parse().map(|properties| properties.operation) else {
            return false;
        };
        match self {
            Self::Any => true,
            Self::Request => operation.is_request(),
            Self::Response => operation.is_response(),
            Self::Send => matches!(
                operation,
                Operation::Send | Operation::SendImmediate | Operation::SendInvalidate
            ),
            Self::Write => matches!(
                operation,
                Operation::RdmaWrite | Operation::RdmaWriteImmediate
            ),
            Self::ReadRequest => operation == Operation::RdmaReadRequest,
            Self::ReadResponse => operation == Operation::RdmaReadResponse,
            Self::Atomic => matches!(operation, Operation::CompareSwap | Operation::FetchAdd),
            Self::AtomicResponse => operation == Operation::AtomicAcknowledge,
            Self::Acknowledge => operation == Operation::Acknowledge,
            Self::Nak => packet.is_nak,
            Self::Mad => packet.key.destination_qp == Qpn::GSI,
            Self::Cnp => operation == Operation::CongestionNotification,
            Self::Opcode(opcode) => opcode == packet.opcode,
        }
    }
}

impl fmt::Display for PacketClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = Self::NAMED.iter().find(|(_, class)| class == self);
        match (named, self) {
            (Some((name, _)), _) => f.write_str(name),
            (None, Self::Opcode(opcode)) => {
                f.write_str(&opcode_name(*opcode).unwrap_or_else(|| opcode.to_string()))
            }
            (None, _) => f.write_str("any"),
        }
    }
}

/// Returns the name of a known opcode in lower case: `rc_rdma_write_middle`.
fn opcode_name(opcode: Opcode) -> Option<String> {
    opcode.parse()?;
    Some(opcode.to_string().to_lowercase())
}
