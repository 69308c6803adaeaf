//! Decoding of send WQEs: bytes that software wrote into what the NIC executes, or a reason why not.

use crate::scatter_list::ScatterList;
use ferroce_spec::wqe::{
    BLOCK_SIZE, ControlSegment, ControlWord, DataSegment, InlineHeader, MAX_BLOCKS,
    MAX_DATA_SEGMENTS, MAX_INLINE, RemoteAddressSegment, SendOpcode,
};
use ferroce_transport::{Destination, MAX_MESSAGE_LENGTH, Remote, SendOperation, SendRequest};
use ferroce_wire::{Immediate, RKey};
use zerocopy::FromBytes;

/// Where the payload of a send WQE lies.
#[derive(Debug, Clone)]
pub enum SendPayload {
    /// In registered memory.
    Memory(ScatterList),
    /// In the WQE itself.
    Inline(InlinePayload),
}

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

    /// The bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        match self {
            InlinePayload::Short { length, bytes } => &bytes[..usize::from(*length)],
            InlinePayload::Long(bytes) => bytes,
        }
    }
}

/// A send WQE on the chip, from fetch to retirement.
#[derive(Debug)]
pub struct SendWqe {
    /// Producer index of its first block.
    pub index: u32,
    /// Its payload.
    pub payload: SendPayload,
}

/// Why a send WQE cannot be executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WqeError {
    /// The index is not that of its place in the ring: an old WQE, or garbage.
    #[error("WQE is stale: it says index {found}, its place is {expected}")]
    Stale {
        /// Index of its place.
        expected: u32,
        /// Index that it says.
        found: u32,
    },
    /// Zero blocks, or more than a WQE may have, or more than were rung.
    #[error("WQE of {0} blocks")]
    Blocks(u8),
    /// The operation does not exist, or not on this queue pair.
    #[error("operation {0:?} is not available")]
    Opcode(SendOpcode),
    /// The segments do not fit the blocks.
    #[error("segments do not fit in {0} blocks")]
    Segments(u8),
    /// The message is longer than 2^31 bytes, or the inline payload than 512.
    #[error("message is too long")]
    Length,
}

/// Reads the head of a WQE: how many blocks it has. `available` blocks were rung.
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

/// Decodes a whole WQE, whose head [`block_count`] has accepted.
pub fn decode(bytes: &[u8]) -> Result<(SendRequest, SendWqe), WqeError> {
    let blocks = (bytes.len() / BLOCK_SIZE) as u8;
    let short = |_| WqeError::Segments(blocks);
    let (control, rest) = ControlSegment::read_from_prefix(bytes).map_err(|_| short(()))?;
    let word = control.control;
    let (operation, rest) = decode_operation(&control, rest, blocks)?;
    let (payload, length) = decode_payload(word, rest, blocks)?;
    let request = SendRequest {
        id: control.index,
        operation,
        length,
        signaled: word.signaled(),
        solicited: word.solicited(),
        fence: word.fence(),
        destination: Destination::Connected,
    };
    Ok((
        request,
        SendWqe {
            index: control.index,
            payload,
        },
    ))
}

/// The operation, and the bytes behind its segments.
fn decode_operation<'a>(
    control: &ControlSegment,
    rest: &'a [u8],
    blocks: u8,
) -> Result<(SendOperation, &'a [u8]), WqeError> {
    let immediate = Immediate(control.immediate);
    let opcode = SendOpcode(control.control.opcode());
    let remote = || {
        let (segment, rest) =
            RemoteAddressSegment::read_from_prefix(rest).map_err(|_| WqeError::Segments(blocks))?;
        let r_key = RKey(segment.r_key);
        Ok((
            Remote {
                virtual_address: segment.virtual_address,
                r_key,
            },
            rest,
        ))
    };
    Ok(match opcode {
        SendOpcode::SEND => (SendOperation::Send, rest),
        SendOpcode::SEND_IMMEDIATE => (SendOperation::SendImmediate(immediate), rest),
        SendOpcode::RDMA_WRITE => {
            let (remote, rest) = remote()?;
            (SendOperation::RdmaWrite { remote }, rest)
        }
        SendOpcode::RDMA_WRITE_IMMEDIATE => {
            let (remote, rest) = remote()?;
            (
                SendOperation::RdmaWriteImmediate { remote, immediate },
                rest,
            )
        }
        SendOpcode::RDMA_READ => {
            let (remote, rest) = remote()?;
            (SendOperation::RdmaRead { remote }, rest)
        }
        other => return Err(WqeError::Opcode(other)),
    })
}

/// The payload and its length.
fn decode_payload(
    word: ControlWord,
    rest: &[u8],
    blocks: u8,
) -> Result<(SendPayload, u32), WqeError> {
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
