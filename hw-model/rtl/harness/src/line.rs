//! Lines of 64 bytes, as Verilator stores a port of 512 bits.

/// Bytes of a line: a beat of the data path, or the data of one DMA read.
pub const LINE: usize = 64;

/// Converts a line to words; pads a short line with `fill`.
pub fn words(bytes: &[u8], fill: u8) -> [u32; LINE / 4] {
    let mut whole = [fill; LINE];
    whole[..bytes.len()].copy_from_slice(bytes);
    let word = |i: usize| core::array::from_fn(|byte| whole[4 * i + byte]);
    core::array::from_fn(|i| u32::from_le_bytes(word(i)))
}

/// Converts words to a line.
pub fn bytes(words: [u32; LINE / 4]) -> [u8; LINE] {
    core::array::from_fn(|i| words[i / 4].to_le_bytes()[i % 4])
}
