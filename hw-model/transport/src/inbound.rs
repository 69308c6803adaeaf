//! An inbound request packet in the responder.

use ferroce_wire::{
    Extension, Feth, Immediate, OpcodeProperties, Operation, PKey, Position, Psn, RKey, Reth,
    TransportHeaders,
};

use crate::completion::{Completion, CompletionStatus, ReceiveKind};
use crate::request::ATOMIC_LENGTH;
use crate::step::AtomicOperation;

/// Supported transport header version.
const HEADER_VERSION: u8 = 0;

/// The responder's copy of a request packet. It must outlive the headers of the frame while the
/// memory blocks work.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Inbound {
    pub(crate) psn: Psn,
    pub(crate) operation: Operation,
    pub(crate) position: Position,
    pub(crate) ack_request: bool,
    pub(crate) solicited: bool,
    /// Further packets of the message follow, although this one has its own address.
    pub(crate) more: bool,
    /// All zero if the packet has none, as its opcode decides. An atomic has an equivalent one.
    pub(crate) reth: Reth,
    /// Operand of an atomic: the value to swap in or to add.
    pub(crate) swap_or_add: u64,
    /// Operand of a compare and swap.
    pub(crate) compare: u64,
    /// What a FLUSH is about.
    pub(crate) feth: Feth,
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
        more: false,
        reth: Reth {
            virtual_address: 0,
            r_key: RKey(0),
            dma_length: 0,
        },
        swap_or_add: 0,
        compare: 0,
        feth: Feth::GLOBAL,
        immediate: None,
        invalidate: None,
        srqn: None,
        payload_length: 0,
    };

    /// Reads the fields that the responder needs; returns false if the extension does not match the
    /// opcode. Fields that the opcode lacks stay unchanged, except those that are read for every
    /// opcode.
    #[inline]
    pub(crate) fn read(
        &mut self,
        headers: &TransportHeaders,
        properties: OpcodeProperties,
        payload_length: u32,
    ) -> bool {
        let bth = &headers.bth;
        self.psn = bth.psn;
        self.operation = properties.operation;
        self.position = properties.position;
        self.ack_request = bth.ack_request;
        self.solicited = bth.solicited;
        self.payload_length = payload_length;
        self.more = false;
        self.reth.dma_length = 0;
        self.immediate = None;
        self.invalidate = None;
        let mut has_reth = false;
        match headers.extension {
            Extension::None | Extension::Deth(_) => {}
            Extension::Reth(reth) => {
                self.reth = reth;
                has_reth = true;
            }
            Extension::RethImmediate(reth, immediate) => {
                self.reth = reth;
                self.immediate = Some(immediate);
                has_reth = true;
            }
            Extension::Immediate(immediate) | Extension::DethImmediate(_, immediate) => {
                self.immediate = Some(immediate);
            }
            _ => return self.read_rare(headers, properties),
        }
        has_reth == properties.has_reth()
            && self.immediate.is_some() == properties.has_immediate()
            && !self.is_rare()
    }

    /// Reads rare fields, separately to keep the common path short.
    #[inline(never)]
    fn read_rare(&mut self, headers: &TransportHeaders, properties: OpcodeProperties) -> bool {
        match headers.extension {
            Extension::Invalidate(ieth) => {
                self.invalidate = Some(ieth.r_key);
                properties.operation == Operation::SendInvalidate
            }
            Extension::AtomicEth(atomic) => {
                self.reth = Reth {
                    virtual_address: atomic.virtual_address,
                    r_key: atomic.r_key,
                    dma_length: ATOMIC_LENGTH,
                };
                self.swap_or_add = atomic.swap_or_add;
                self.compare = atomic.compare;
                properties.has_atomic_eth()
            }
            Extension::Flush(feth, reth) => {
                self.reth = reth;
                self.feth = feth;
                properties.operation == Operation::Flush
            }
            _ => false,
        }
    }

    /// Returns true if the opcode has an extension that [`Inbound::read_rare`] reads.
    const fn is_rare(&self) -> bool {
        self.is_atomic() || matches!(self.operation, Operation::SendInvalidate | Operation::Flush)
    }

    /// Returns the completion of receive WQE `receive`, which served the message that this packet
    /// ends.
    #[inline]
    pub(crate) fn received(&self, receive: u32, byte_length: u32, srqn: Option<u32>) -> Completion {
        Completion::Receive {
            receive,
            status: CompletionStatus::Success,
            operation: if self.is_send() {
                ReceiveKind::Send
            } else {
                ReceiveKind::RdmaWriteImmediate
            },
            byte_length,
            immediate: self.immediate,
            solicited: self.solicited,
            invalidated: self.invalidate,
            source: None,
            with_grh: false,
            srqn,
        }
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

    /// Returns true if it ends a message.
    #[inline]
    pub(crate) const fn ends_message(&self) -> bool {
        self.position.ends_message() && !self.more
    }

    /// Returns true if it is a WRITE that can be placed before earlier packets have arrived.
    pub(crate) const fn is_placeable(&self) -> bool {
        matches!(self.operation, Operation::RdmaWrite) && matches!(self.position, Position::Only)
    }

    /// Returns true if it is answered with a response, and takes a responder resource.
    pub(crate) const fn fetches(&self) -> bool {
        self.is_read() || self.is_atomic() || self.is_flush() || self.is_atomic_write()
    }

    pub(crate) const fn is_flush(&self) -> bool {
        matches!(self.operation, Operation::Flush)
    }

    pub(crate) const fn is_atomic_write(&self) -> bool {
        matches!(self.operation, Operation::AtomicWrite)
    }

    pub(crate) const fn is_atomic(&self) -> bool {
        matches!(self.operation, Operation::CompareSwap | Operation::FetchAdd)
    }

    /// Returns the operation of an atomic.
    pub(crate) const fn atomic(&self) -> AtomicOperation {
        match self.operation {
            Operation::CompareSwap => AtomicOperation::CompareSwap {
                compare: self.compare,
                swap: self.swap_or_add,
            },
            _ => AtomicOperation::FetchAdd {
                add: self.swap_or_add,
            },
        }
    }
}

/// Returns true if a packet matches this queue pair's partition and protocol version; others are
/// dropped silently (IBTA vol 1, 9.6.1, header validation).
#[inline]
pub(crate) fn passes_header_checks(headers: &TransportHeaders, p_key: PKey) -> bool {
    headers.bth.header_version == HEADER_VERSION && p_key.matches(headers.bth.p_key)
}
