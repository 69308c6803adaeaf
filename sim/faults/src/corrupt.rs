//! Damages a frame in a way that its ICRC detects.

use std::ops::Range;

use ferroce_wire::{Bth, Frame};

/// The byte of the BTH with FECN and BECN, which the ICRC does not cover (IBTA annex A17).
const BTH_CONGESTION: usize = 4;

/// The part of a frame to damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Corruption {
    /// A bit of the payload, or of the headers if there is no payload.
    Payload,
    /// A bit of the InfiniBand headers.
    Header,
    /// A bit of the ICRC.
    Icrc,
}

/// Inverts one bit of a frame, chosen by `draw`. Returns false and changes nothing if the frame is
/// not RoCEv2.
///
/// The frame must have its ICRC ([`write_icrc`]), with which the receiver finds the wrong bit: a
/// CRC detects every single-bit error.
pub fn corrupt(frame: &mut [u8], corruption: Corruption, draw: u64) -> bool {
    let Ok(parsed) = Frame::parse(frame) else {
        return false;
    };
    let layout = *parsed.layout();
    let headers = layout.bth()..layout.payload().start;
    let place = match corruption {
        Corruption::Payload if layout.payload().is_empty() => bit_of_headers(&headers, draw),
        Corruption::Payload => bit_of(&layout.payload(), draw),
        Corruption::Header => bit_of_headers(&headers, draw),
        Corruption::Icrc => bit_of(&layout.icrc(), draw),
    };
    frame[place.0] ^= 1 << place.1;
    true
}

/// Computes the ICRC of a frame and writes it; other frames are not changed.
pub fn write_icrc(frame: &mut [u8]) {
    if let Ok(parsed) = Frame::parse(frame) {
        let (icrc, place) = (parsed.computed_icrc(), parsed.layout().icrc());
        frame[place].copy_from_slice(&icrc.to_le_bytes());
    }
}

/// Chooses a byte and a bit of a non-empty range.
fn bit_of(range: &Range<usize>, draw: u64) -> (usize, u32) {
    let byte = (draw >> 3) % range.len() as u64;
    (range.start + byte as usize, (draw & 7) as u32)
}

/// Does the same for the InfiniBand headers that the ICRC covers.
fn bit_of_headers(headers: &Range<usize>, draw: u64) -> (usize, u32) {
    let (byte, bit) = bit_of(headers, draw);
    if byte == headers.start + BTH_CONGESTION {
        (headers.start + Bth::LENGTH - 1, bit)
    } else {
        (byte, bit)
    }
}
