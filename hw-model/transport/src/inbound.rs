//! An inbound request packet as the responder works on it.

use ferroce_wire::{Extension, Immediate, OpcodeProperties, Operation, Position, Psn, RKey, Reth};
use ferroce_wire::{PKey, TransportHeaders};

/// Transport header version that this transport speaks.
const HEADER_VERSION: u8 = 0;

/// The responder's copy of a request packet; it outlives the frame's headers while the memory
/// blocks work.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Inbound {
    pub(crate) psn: Psn,
    pub(crate) operation: Operation,
    pub(crate) position: Position,
    pub(crate) ack_request: bool,
    pub(crate) solicited: bool,
    /// All zero if the packet has none; its opcode decides.
    pub(crate) reth: Reth,
    pub(crate) immediate: Option<Immediate>,
    pub(crate) payload_length: u32,
}

impl Inbound {
    pub(crate) const NONE: Inbound = Inbound {
        psn: Psn::new(0),
        operation: Operation::Send,
        position: Position::Only,
        ack_request: false,
        solicited: false,
        reth: Reth {
            virtual_address: 0,
            r_key: RKey(0),
            dma_length: 0,
        },
        immediate: None,
        payload_length: 0,
    };

    /// Takes what the responder needs; `None` if the extension is not that of the opcode.
    #[inline]
    pub(crate) fn new(
        headers: &TransportHeaders,
        properties: OpcodeProperties,
        payload_length: u32,
    ) -> Option<Inbound> {
        let (reth, immediate) = match headers.extension {
            Extension::Reth(reth) => (Some(reth), None),
            Extension::RethImmediate(reth, immediate) => (Some(reth), Some(immediate)),
            Extension::Immediate(immediate) => (None, Some(immediate)),
            _ => (None, None),
        };
        if reth.is_some() != properties.has_reth()
            || immediate.is_some() != properties.has_immediate()
        {
            return None;
        }
        let bth = &headers.bth;
        Some(Inbound {
            psn: bth.psn,
            operation: properties.operation,
            position: properties.position,
            ack_request: bth.ack_request,
            solicited: bth.solicited,
            reth: reth.unwrap_or(Inbound::NONE.reth),
            immediate,
            payload_length,
        })
    }

    pub(crate) const fn is_send(&self) -> bool {
        matches!(self.operation, Operation::Send | Operation::SendImmediate)
    }

    pub(crate) const fn is_write(&self) -> bool {
        matches!(
            self.operation,
            Operation::RdmaWrite | Operation::RdmaWriteImmediate
        )
    }

    pub(crate) const fn is_read(&self) -> bool {
        matches!(self.operation, Operation::RdmaReadRequest)
    }
}

/// Whether a packet belongs to this queue pair's partition and protocol; others are dropped
/// without an answer (IBTA vol 1, 9.6.1, header validation).
#[inline]
pub(crate) fn passes_header_checks(headers: &TransportHeaders, p_key: PKey) -> bool {
    headers.bth.header_version == HEADER_VERSION && p_key.matches(headers.bth.p_key)
}
