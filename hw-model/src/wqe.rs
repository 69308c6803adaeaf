//! Decodes send WQEs: from bytes of software to an operation of the NIC, or to the reason why it
//! cannot be executed.

pub mod scatter_list;

use ferroce_spec::wqe::{
    AtomicSegment, BLOCK_SIZE, BindSegment, ControlSegment, ControlWord, DataSegment,
    DatagramSegment, FlushSegment, InlineHeader, MAX_BLOCKS, MAX_DATA_SEGMENTS, MAX_INLINE,
    RemoteAddressSegment, SendOpcode,
};
use ferroce_transport::{
    Destination, LocalKind, MAX_MESSAGE_LENGTH, Remote, SendOperation, SendRequest, Service,
};
use ferroce_wire::{Feth, Immediate, QKey, Qpn, RKey};
use zerocopy::FromBytes;

use crate::wqe::scatter_list::ScatterList;

/// Location of the payload of a send WQE.
#[derive(Debug, Clone)]
pub enum SendPayload {
    /// In registered memory.
    Memory(ScatterList),
    /// In the WQE itself.
    Inline(InlinePayload),
    /// None: the WQE binds a memory window.
    Bind(Box<BindSegment>),
    /// None: the WQE invalidates this local key.
    Invalidate(u32),
}

/// Mask of a QPN or SRQN.
const QPN_MASK: u32 = 0xff_ffff;

/// Inline bytes that are kept without an allocation.
const SHORT_INLINE: usize = 48;

/// The payload of an inline WQE.
#[derive(Debug, Clone)]
pub enum InlinePayload {
    /// Up to 48 bytes.
    Short {
        /// Bytes used.
        length: u8,
        /// The bytes.
        bytes: [u8; SHORT_INLINE],
    },
    /// More bytes.
    Long(Box<[u8]>),
}

impl InlinePayload {
    fn new(bytes: &[u8]) -> Self {
        if bytes.len() > SHORT_INLINE {
            return InlinePayload::Long(bytes.into());
        }
        let mut short = [0; SHORT_INLINE];
        short[..bytes.len()].copy_from_slice(bytes);
        InlinePayload::Short {
            length: bytes.len() as u8,
            bytes: short,
        }
    }

    /// Returns the bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        match self {
            InlinePayload::Short { length, bytes } => &bytes[..usize::from(*length)],
            InlinePayload::Long(bytes) => bytes,
        }
    }
}

/// Location of the WQE of a request when its response arrives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum WqeRecord {
    /// No response needs it.
    #[default]
    Unneeded,
    /// It is on the chip.
    Kept,
    /// It must be read again.
    Missing,
}

/// A send WQE on the chip, from fetch to retirement.
#[derive(Debug)]
pub struct SendWqe {
    /// Producer index of its first block.
    pub index: u32,
    /// Its payload.
    pub payload: SendPayload,
    /// UD: its destination.
    pub datagram: Option<Box<DatagramSegment>>,
    /// Whether the WQE is on the chip when its response arrives.
    pub record: WqeRecord,
}

/// Reason why a send WQE cannot be executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WqeError {
    /// The index does not match its place in the ring: an old WQE, or garbage.
    #[error("WQE is stale: it says index {found}, its place is {expected}")]
    Stale {
        /// Index of its place.
        expected: u32,
        /// Index in the WQE.
        found: u32,
    },
    /// Zero blocks, more than a WQE may have, or more than were rung.
    #[error("WQE of {0} blocks")]
    Blocks(u8),
    /// The operation does not exist, or this queue pair does not support it.
    #[error("operation {0:?} is not available")]
    Opcode(SendOpcode),
    /// The segments do not fit the blocks.
    #[error("segments do not fit in {0} blocks")]
    Segments(u8),
    /// The message is longer than 2^31 bytes, or the inline payload than 512.
    #[error("message is too long")]
    Length,
}

/// Returns the number of blocks in the head of a WQE. `available` blocks were rung.
pub fn block_count(head: &[u8], index: u32, available: u32) -> Result<u8, WqeError> {
    let Ok((control, _)) = ControlSegment::read_from_prefix(head) else {
        return Err(WqeError::Blocks(0));
    };
    if control.index != index {
        return Err(WqeError::Stale {
            expected: index,
            found: control.index,
        });
    }
    let blocks = control.control.blocks();
    if blocks == 0 || usize::from(blocks) > MAX_BLOCKS || u32::from(blocks) > available {
        return Err(WqeError::Blocks(blocks));
    }
    Ok(blocks)
}

/// Decodes a whole WQE of a queue pair of `service`, after [`block_count`] has accepted its head.
#[inline]
pub fn decode(bytes: &[u8], service: Service) -> Result<(SendRequest, SendWqe), WqeError> {
    let mut segments = Segments {
        rest: bytes,
        blocks: (bytes.len() / BLOCK_SIZE) as u8,
    };
    let control: ControlSegment = segments.take()?;
    let (word, index) = (control.control, control.index);
    let opcode = SendOpcode(word.opcode());
    if !has_operation(service, opcode) {
        return Err(WqeError::Opcode(opcode));
    }
    let mut datagram = None;
    let mut destination = Destination::Connected;
    let operation;
    let (payload, length);
    if let Some(local) = local_kind(opcode) {
        operation = SendOperation::Local(local);
        (payload, length) = (decode_local(local, &control, &mut segments)?, 0);
    } else {
        match service {
            Service::UnreliableDatagram | Service::Gsi => {
                let segment: DatagramSegment = segments.take()?;
                destination = Destination::Datagram {
                    qpn: Qpn::new(segment.dest_qpn & QPN_MASK),
                    q_key: QKey(segment.q_key),
                };
                datagram = Some(Box::new(segment));
            }
            Service::XrcInitiator => {
                let srqn = control.remote_srqn & QPN_MASK;
                destination = Destination::Xrc { srqn };
            }
            _ => {}
        }
        operation = decode_operation(&control, &mut segments)?;
        (payload, length) = decode_payload(word, &segments)?;
    }
    let request = SendRequest {
        id: index,
        operation,
        length,
        signaled: word.signaled(),
        solicited: word.solicited(),
        fence: word.fence(),
        destination,
    };
    let wqe = SendWqe {
        index,
        payload,
        datagram,
        record: WqeRecord::Unneeded,
    };
    Ok((request, wqe))
}

/// The remaining segments of a WQE.
struct Segments<'a> {
    rest: &'a [u8],
    blocks: u8,
}

impl Segments<'_> {
    #[inline]
    fn take<T: FromBytes>(&mut self) -> Result<T, WqeError> {
        let (segment, rest) = T::read_from_prefix(self.rest).map_err(|_| self.too_few())?;
        self.rest = rest;
        Ok(segment)
    }

    fn too_few(&self) -> WqeError {
        WqeError::Segments(self.blocks)
    }
}

/// Returns true if a queue pair of `service` supports the operation. UD and GSI only send, an XRC
/// target sends nothing; the transport refuses RC operations that UC lacks.
#[inline]
fn has_operation(service: Service, opcode: SendOpcode) -> bool {
    match service {
        Service::UnreliableDatagram | Service::Gsi => matches!(
            opcode,
            SendOpcode::NOP | SendOpcode::SEND | SendOpcode::SEND_IMMEDIATE
        ),
        Service::XrcTarget => false,
        _ => true,
    }
}

/// Returns the kind of an operation that the NIC executes without a packet.
#[inline]
fn local_kind(opcode: SendOpcode) -> Option<LocalKind> {
    Some(match opcode {
        SendOpcode::NOP => LocalKind::Nop,
        SendOpcode::LOCAL_INVALIDATE => LocalKind::Invalidate,
        SendOpcode::BIND_WINDOW => LocalKind::Bind,
        _ => return None,
    })
}

/// Decodes the operand of a local operation, which is in the place of the payload.
#[cold]
fn decode_local(
    kind: LocalKind,
    control: &ControlSegment,
    segments: &mut Segments<'_>,
) -> Result<SendPayload, WqeError> {
    Ok(match kind {
        LocalKind::Nop => SendPayload::Memory(ScatterList::new(&[])),
        LocalKind::Invalidate => SendPayload::Invalidate(u32::from_le_bytes(control.immediate)),
        LocalKind::Bind => SendPayload::Bind(Box::new(segments.take()?)),
    })
}

/// Decodes the operation.
#[inline]
fn decode_operation(
    control: &ControlSegment,
    segments: &mut Segments<'_>,
) -> Result<SendOperation, WqeError> {
    let immediate = Immediate(control.immediate);
    Ok(match SendOpcode(control.control.opcode()) {
        SendOpcode::SEND => SendOperation::Send,
        SendOpcode::SEND_IMMEDIATE => SendOperation::SendImmediate(immediate),
        SendOpcode::SEND_INVALIDATE => {
            SendOperation::SendInvalidate(RKey(u32::from_le_bytes(control.immediate)))
        }
        SendOpcode::RDMA_WRITE => SendOperation::RdmaWrite {
            remote: decode_remote(segments)?,
        },
        SendOpcode::RDMA_WRITE_IMMEDIATE => SendOperation::RdmaWriteImmediate {
            remote: decode_remote(segments)?,
            immediate,
        },
        SendOpcode::RDMA_READ => SendOperation::RdmaRead {
            remote: decode_remote(segments)?,
        },
        opcode @ (SendOpcode::COMPARE_SWAP | SendOpcode::FETCH_ADD) => {
            if control.control.inline() {
                return Err(segments.too_few());
            }
            let remote = decode_remote(segments)?;
            let AtomicSegment { swap_add, compare } = segments.take()?;
            match opcode {
                SendOpcode::COMPARE_SWAP => SendOperation::CompareSwap {
                    remote,
                    compare,
                    swap: swap_add,
                },
                _ => SendOperation::FetchAdd {
                    remote,
                    add: swap_add,
                },
            }
        }
        SendOpcode::FLUSH => {
            let remote = decode_remote(segments)?;
            let segment: FlushSegment = segments.take()?;
            SendOperation::Flush {
                remote,
                length: segment.length,
                feth: Feth::from_bits(segment.kind),
            }
        }
        SendOpcode::ATOMIC_WRITE => SendOperation::AtomicWrite {
            remote: decode_remote(segments)?,
        },
        other => return Err(WqeError::Opcode(other)),
    })
}

/// Decodes the peer's address and key.
#[inline]
fn decode_remote(segments: &mut Segments<'_>) -> Result<Remote, WqeError> {
    let segment: RemoteAddressSegment = segments.take()?;
    Ok(Remote {
        virtual_address: segment.virtual_address,
        r_key: RKey(segment.r_key),
    })
}

/// Decodes the payload and its length.
#[inline]
fn decode_payload(
    word: ControlWord,
    segments: &Segments<'_>,
) -> Result<(SendPayload, u32), WqeError> {
    let &Segments { rest, blocks } = segments;
    if word.inline() {
        let (header, bytes) =
            InlineHeader::read_from_prefix(rest).map_err(|_| WqeError::Segments(blocks))?;
        let length = header.length as usize;
        if length > MAX_INLINE {
            return Err(WqeError::Length);
        }
        let bytes = bytes.get(..length).ok_or(WqeError::Segments(blocks))?;
        return Ok((
            SendPayload::Inline(InlinePayload::new(bytes)),
            header.length,
        ));
    }
    let count = usize::from(word.data_segments());
    if count > MAX_DATA_SEGMENTS || count * DataSegment::SIZE > rest.len() {
        return Err(WqeError::Segments(blocks));
    }
    let mut segments = [DataSegment::default(); MAX_DATA_SEGMENTS];
    let mut length = 0u64;
    for (segment, bytes) in segments
        .iter_mut()
        .zip(rest.chunks_exact(DataSegment::SIZE))
        .take(count)
    {
        *segment = DataSegment::read_from_bytes(bytes).map_err(|_| WqeError::Segments(blocks))?;
        length += u64::from(segment.length);
    }
    if length > u64::from(MAX_MESSAGE_LENGTH) {
        return Err(WqeError::Length);
    }
    Ok((
        SendPayload::Memory(ScatterList::new(&segments[..count])),
        length as u32,
    ))
}
