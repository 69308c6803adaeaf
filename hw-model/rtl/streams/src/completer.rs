//! Requests of the host to CQ, and CC to completions.

use crate::{Beat, DESCRIPTOR, LINE, bits, set_bits};

/// Request types of PG213.
const MEMORY_READ: u64 = 0;
const MEMORY_WRITE: u64 = 1;
/// Bytes of a completion's descriptor on CC.
const COMPLETION_DESCRIPTOR: usize = 12;
/// Address bits that the aperture of a BAR has here: more than any BAR of the card.
const APERTURE_BITS: u64 = 22;
const ALL_BYTES: u8 = 0xf;

/// A request of the host for whole dwords of a BAR.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostRequest {
    descriptor: [u8; DESCRIPTOR],
    payload: Vec<u8>,
}

/// A beat of CQ: data, whether it is the last one, and `tuser`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestBeat {
    /// Descriptor or payload.
    pub data: Beat,
    /// The request ends here.
    pub is_last: bool,
    /// Byte enables.
    pub user: [u32; 6],
}

impl HostRequest {
    /// Returns a memory write of whole dwords at `at` of a BAR.
    pub fn write(bar: u8, at: u32, payload: &[u8]) -> Self {
        let mut descriptor = place(bar, at, payload.len());
        set_bits(&mut descriptor, 75, 4, MEMORY_WRITE);
        let payload = payload.to_vec();
        Self {
            descriptor,
            payload,
        }
    }

    /// Returns a memory read of `bytes` bytes, whole dwords, at `at` of a BAR.
    pub fn read(bar: u8, at: u32, bytes: usize, tag: u8) -> Self {
        let mut descriptor = place(bar, at, bytes);
        set_bits(&mut descriptor, 75, 4, MEMORY_READ);
        set_bits(&mut descriptor, 96, 8, tag.into());
        let payload = Vec::new();
        Self {
            descriptor,
            payload,
        }
    }

    /// Returns true for a read: PG213 delivers it only with a credit.
    pub fn is_read(&self) -> bool {
        self.payload.is_empty()
    }

    /// Returns its beats.
    pub fn beats(&self) -> Vec<RequestBeat> {
        let dwords = bits(&self.descriptor, 64, 11);
        let last_enables = if dwords > 1 { ALL_BYTES } else { 0 };
        let bytes = [&self.descriptor[..], &self.payload].concat();
        let count = bytes.len().div_ceil(LINE);
        let parts = bytes.chunks(LINE).enumerate();
        let beats = parts.map(|(number, part)| {
            let mut data = [0; LINE];
            data[..part.len()].copy_from_slice(part);
            RequestBeat {
                data,
                is_last: number + 1 == count,
                user: [
                    u32::from(ALL_BYTES) | u32::from(last_enables) << 8,
                    0,
                    0,
                    0,
                    0,
                    0,
                ],
            }
        });
        beats.collect()
    }
}

fn place(bar: u8, at: u32, bytes: usize) -> [u8; DESCRIPTOR] {
    let mut descriptor = [0; DESCRIPTOR];
    set_bits(&mut descriptor, 2, 62, u64::from(at) >> 2);
    set_bits(&mut descriptor, 64, 11, bytes as u64 / 4);
    set_bits(&mut descriptor, 112, 3, bar.into());
    set_bits(&mut descriptor, 115, 6, APERTURE_BITS);
    descriptor
}

/// A completion of the card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// Tag of the request.
    pub tag: u8,
    /// The data of up to two dwords; `None` for a status other than success.
    pub data: Option<u64>,
}

impl Completion {
    /// Reads the beat of a completion: CC is not straddled, and the card's completions have a beat
    /// each.
    pub fn of_beat(beat: &Beat) -> Self {
        let is_success = bits(beat, 43, 3) == 0;
        let count = 32 * bits(beat, 32, 11).clamp(1, 2) as usize;
        Self {
            tag: bits(beat, 64, 8) as u8,
            data: is_success.then(|| bits(beat, 8 * COMPLETION_DESCRIPTOR, count)),
        }
    }
}
