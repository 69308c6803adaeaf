//! Bundles of `card_pkg` as ports of a Verilated module.

/// A packed structure, built from its last member on, which is in the lowest bits.
#[derive(Debug, Default)]
pub struct Bundle {
    words: Vec<u32>,
    bits: usize,
}

impl Bundle {
    /// Adds a member above the existing ones.
    pub fn member(mut self, bits: usize, value: u128) -> Self {
        assert!(
            bits >= 128 || value >> bits == 0,
            "{value:#x} in {bits} bits"
        );
        for bit in 0..bits {
            let at = self.bits + bit;
            self.words.resize(at / 32 + 1, 0);
            self.words[at / 32] |= ((value >> bit) as u32 & 1) << (at % 32);
        }
        self.bits += bits;
        self
    }

    /// Returns the port.
    pub fn port<const WORDS: usize>(self) -> [u32; WORDS] {
        self.words
            .try_into()
            .expect("the bundle is as wide as the port")
    }
}

/// Returns a `piece_t`.
pub fn piece(iova: u64, bytes: u32, last: bool) -> [u32; 3] {
    let bundle = Bundle::default()
        .member(1, last.into())
        .member(13, bytes.into());
    bundle.member(64, iova.into()).port()
}

/// Returns address, bytes and `last` of a `piece_t`.
pub fn fields_of_piece(port: [u32; 3]) -> (u64, u32, bool) {
    let all = port
        .iter()
        .rev()
        .fold(0u128, |all, &word| all << 32 | u128::from(word));
    ((all >> 14) as u64, (all >> 1) as u32 & 0x1fff, all & 1 != 0)
}
