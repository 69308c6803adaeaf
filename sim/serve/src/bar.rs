//! Accesses to the BARs by messages.

use ferroce_platform::doorbells::polled::DoorbellPages;
use ferroce_platform::served::ServedModel;
use ferroce_spec::doorbell::{
    DOORBELL_PAGES_SIZE, RESERVED_SLOTS, SLOT_SIZE, SLOTS, SLOTS_PER_PAGE,
};

const WORD: usize = size_of::<u32>();
const LONG_WORD: usize = size_of::<u64>();

/// Reads registers. Aligned accesses of 4 and 8 bytes read each register as a whole.
pub fn read_registers(function: &dyn ServedModel, offset: u64, destination: &mut [u8]) {
    let (mut at, mut rest) = (offset, destination);
    while !rest.is_empty() {
        let length = part(at, rest.len());
        let (bytes, behind) = rest.split_at_mut(length);
        if length == LONG_WORD {
            bytes.copy_from_slice(&function.read64(at as u32).to_le_bytes());
        } else {
            let word = function.read32(at as u32 & !3).to_le_bytes();
            let start = at as usize % WORD;
            bytes.copy_from_slice(&word[start..start + length]);
        }
        at += length as u64;
        rest = behind;
    }
}

/// Writes registers. A partial write is merged with the value that is read from the register.
pub fn write_registers(function: &dyn ServedModel, offset: u64, source: &[u8]) {
    let (mut at, mut rest) = (offset, source);
    while !rest.is_empty() {
        let length = part(at, rest.len());
        let (bytes, behind) = rest.split_at(length);
        let register = at as u32 & !3;
        match *bytes {
            [a, b, c, d, e, f, g, h] => {
                let value = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
                function.write64(register, value);
            }
            [a, b, c, d] => function.write32(register, u32::from_le_bytes([a, b, c, d])),
            _ => {
                let mut word = function.read32(register).to_le_bytes();
                let start = at as usize % WORD;
                word[start..start + length].copy_from_slice(bytes);
                function.write32(register, u32::from_le_bytes(word));
            }
        }
        at += length as u64;
        rest = behind;
    }
}

/// Returns how many of `length` bytes from `at` on are accessed together: a long word, a word, or
/// the rest of a word.
fn part(at: u64, length: usize) -> usize {
    let in_word = WORD - at as usize % WORD;
    if at % LONG_WORD as u64 == 0 && length >= LONG_WORD {
        LONG_WORD
    } else {
        in_word.min(length)
    }
}

/// Doorbells by messages, from a client that has not mapped the pages.
#[derive(Debug, Default)]
pub struct MessageDoorbells {
    /// One half of a doorbell, from a processor that stores four bytes at a time: byte offset and
    /// value. The other half completes it.
    half: Option<(u64, u32)>,
}

impl MessageDoorbells {
    /// Rings the doorbells of a write. Stores that are neither a doorbell nor half of one have no
    /// effect, as on a card.
    pub fn write(&mut self, function: &dyn ServedModel, offset: u64, source: &[u8]) {
        let unit = if source.len() == WORD {
            WORD
        } else {
            LONG_WORD
        };
        if offset % unit as u64 != 0 || source.len() % unit != 0 {
            return;
        }
        for (number, bytes) in source.chunks_exact(unit).enumerate() {
            let at = offset + (number * unit) as u64;
            let doorbell = match *bytes {
                [a, b, c, d] => self.complete(at, u32::from_le_bytes([a, b, c, d])),
                [a, b, c, d, e, f, g, h] => Some(u64::from_le_bytes([a, b, c, d, e, f, g, h])),
                _ => None,
            };
            let slot = (at / u64::from(SLOT_SIZE)) as u32;
            let is_doorbell = slot < SLOTS && slot % SLOTS_PER_PAGE >= RESERVED_SLOTS;
            if let Some(value) = doorbell.filter(|_| is_doorbell) {
                function.doorbell(slot, value);
            }
        }
    }

    fn complete(&mut self, at: u64, value: u32) -> Option<u64> {
        let other = at ^ WORD as u64;
        let (low, high) = match self.half.take() {
            Some((known, half)) if known == other && at > other => (half, value),
            Some((known, half)) if known == other => (value, half),
            _ => {
                self.half = Some((at, value));
                return None;
            }
        };
        Some(u64::from(high) << 32 | u64::from(low))
    }
}

/// Reads BAR2: the doorbell pages; the rest does not respond.
pub fn read_doorbells(pages: Option<&DoorbellPages>, offset: u64, destination: &mut [u8]) {
    for (at, byte) in (offset..).zip(destination) {
        let pages = pages.filter(|_| at < u64::from(DOORBELL_PAGES_SIZE));
        *byte = pages.map_or(u8::MAX, |pages| {
            let slot = (at / u64::from(SLOT_SIZE)) as u32;
            pages.value(slot).to_le_bytes()[at as usize % LONG_WORD]
        });
    }
}
