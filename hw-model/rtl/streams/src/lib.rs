//! The AXI4-Streams of AMD's PCIe hard blocks (PG213) with 512 bits, dword-aligned, from the host's
//! side: requests of the card (RQ) and their completions (RC), with and without the straddle
//! option; requests of the host (CQ) and the card's completions (CC), not straddled.

mod completer;
mod requester;

pub use completer::{Completion, HostRequest, RequestBeat};
pub use ferroce_rtl_harness::LINE;
pub use requester::{CompletionSource, Request, RequestSink};

/// A beat of a stream.
pub type Beat = [u8; LINE];

/// Bytes of a descriptor on RQ and on CQ.
pub const DESCRIPTOR: usize = 16;

/// Returns up to 64 bits of little-endian bytes.
pub fn bits(bytes: &[u8], at: usize, count: usize) -> u64 {
    let whole = &bytes[at / 8..(at + count).div_ceil(8)];
    let number = whole.iter().rev();
    let number = number.fold(0u128, |number, byte| number << 8 | u128::from(*byte));
    (number >> (at % 8)) as u64 & (u64::MAX >> (64 - count))
}

/// Sets up to 64 bits of little-endian bytes, which are zero.
pub fn set_bits(bytes: &mut [u8], at: usize, count: usize, value: u64) {
    for bit in 0..count {
        bytes[(at + bit) / 8] |= ((value >> bit & 1) as u8) << ((at + bit) % 8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_lie_anywhere() {
        let mut bytes = [0; 12];
        set_bits(&mut bytes, 13, 62, 0x2bcd_ef01_2345_6789);
        assert_eq!(bits(&bytes, 13, 62), 0x2bcd_ef01_2345_6789);
        assert_eq!(bits(&bytes, 0, 13), 0);
        assert_eq!(bits(&bytes, 75, 21), 0);
        assert_eq!(bits(&bytes, 13, 4), 9);
    }
}
