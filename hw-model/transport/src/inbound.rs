//! An inbound request packet as the responder works on it.

use ferroce_wire::{
    AtomicEth, Extension, Immediate, OpcodeProperties, Operation, PKey, Position, Psn, RKey, Reth,
    TransportHeaders,
};

use crate::request::ATOMIC_LENGTH;
use crate::step::AtomicOperation;

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
    /// All zero if the packet has none; its opcode decides. An atomic has one in effect.
    pub(crate) reth: Reth,
    /// Operand of an atomic: what to swap in, or to add.
    pub(crate) swap_or_add: u64,
    /// Operand of a compare and swap.
    pub(crate) compare: u64,
    pub(crate) immediate: Option<Immediate>,
    /// The key that the message invalidates.
    pub(crate) invalidate: Option<RKey>,
    /// XRC: the shared receive queue that the packet names.
    pub(crate) srqn: Option<u32>,
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
        swap_or_add: 0,
        compare: 0,
        immediate: None,
        invalidate: None,
        srqn: None,
        payload_length: 0,
    };

    /// Takes what the responder needs; `None` if the extension is not that of the opcode.
    #[inline]
    pub(crate) fn new(
        headers: &TransportHeaders,
        properties: OpcodeProperties,
        payload_length: u32,
    ) -> Option<Inbound> {
        let bth = &headers.bth;
        let mut packet = Inbound {
            psn: bth.psn,
            operation: properties.operation,
            position: properties.position,
            ack_request: bth.ack_request,
            solicited: bth.solicited,
            payload_length,
            ..Inbound::NONE
        };
        let (mut has_reth, mut has_atomic) = (false, false);
        match headers.extension {
            Extension::Reth(reth) => {
                packet.reth = reth;
                has_reth = true;
            }
            Extension::RethImmediate(reth, immediate) => {
                packet.reth = reth;
                packet.immediate = Some(immediate);
                has_reth = true;
            }
            Extension::Immediate(immediate) | Extension::DethImmediate(_, immediate) => {
                packet.immediate = Some(immediate);
            }
            Extension::Invalidate(ieth) => packet.invalidate = Some(ieth.r_key),
            Extension::AtomicEth(atomic) => {
                packet.set_atomic(&atomic);
                has_atomic = true;
            }
            _ => {}
        }
        let is_invalidate = matches!(properties.operation, Operation::SendInvalidate);
        let is_legal = has_reth == properties.has_reth()
            && has_atomic == properties.has_atomic_eth()
            && packet.immediate.is_some() == properties.has_immediate()
            && packet.invalidate.is_some() == is_invalidate;
        is_legal.then_some(packet)
    }

    fn set_atomic(&mut self, atomic: &AtomicEth) {
        self.reth = Reth {
            virtual_address: atomic.virtual_address,
            r_key: atomic.r_key,
            dma_length: ATOMIC_LENGTH,
        };
        self.swap_or_add = atomic.swap_or_add;
        self.compare = atomic.compare;
    }

    pub(crate) const fn is_send(&self) -> bool {
        matches!(
            self.operation,
            Operation::Send | Operation::SendImmediate | Operation::SendInvalidate
        )
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

    /// Whether it is answered with data.
    pub(crate) const fn fetches(&self) -> bool {
        self.is_read() || self.is_atomic()
    }

    pub(crate) const fn is_atomic(&self) -> bool {
        matches!(self.operation, Operation::CompareSwap | Operation::FetchAdd)
    }

    /// What an atomic does; `None` for anything else.
    pub(crate) const fn atomic(&self) -> Option<AtomicOperation> {
        match self.operation {
            Operation::CompareSwap => Some(AtomicOperation::CompareSwap {
                compare: self.compare,
                swap: self.swap_or_add,
            }),
            Operation::FetchAdd => Some(AtomicOperation::FetchAdd {
                add: self.swap_or_add,
            }),
            _ => None,
        }
    }
}

/// Whether a packet belongs to this queue pair's partition and protocol; others are dropped
/// without an answer (IBTA vol 1, 9.6.1, header validation).
#[inline]
pub(crate) fn passes_header_checks(headers: &TransportHeaders, p_key: PKey) -> bool {
    headers.bth.header_version == HEADER_VERSION && p_key.matches(headers.bth.p_key)
}
