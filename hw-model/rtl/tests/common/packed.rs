//! Ports that are packed structs, as Verilator stores them: the last field has the lowest bits.

/// Extracts fields of a port.
#[derive(Debug)]
pub struct Unpack<'a> {
    words: &'a [u32],
    at: usize,
}

fn bit(words: &[u32], at: usize) -> u128 {
    u128::from(words[at / 32] >> (at % 32) & 1)
}

impl<'a> Unpack<'a> {
    pub fn new(words: &'a [u32]) -> Self {
        Self { words, at: 0 }
    }

    /// Returns the next field.
    pub fn field(&mut self, bits: usize) -> u128 {
        let value = (0..bits).map(|i| bit(self.words, self.at + i) << i).sum();
        self.at += bits;
        value
    }
}

/// Combines fields to a port.
#[derive(Debug)]
pub struct Pack<const WORDS: usize> {
    words: [u32; WORDS],
    at: usize,
}

impl<const WORDS: usize> Pack<WORDS> {
    pub fn new() -> Self {
        Self {
            words: [0; WORDS],
            at: 0,
        }
    }

    /// Appends the next field.
    pub fn field(mut self, bits: usize, value: u128) -> Self {
        assert!(bits == 128 || value >> bits == 0, "{value:#x} is too wide");
        for i in 0..bits {
            let at = self.at + i;
            self.words[at / 32] |= ((value >> i & 1) as u32) << (at % 32);
        }
        self.at += bits;
        self
    }

    pub fn words(self) -> [u32; WORDS] {
        self.words
    }
}

/// A `piece_t`.
pub fn piece(iova: u64, bytes: u16, last: bool) -> [u32; 3] {
    let pack = Pack::new()
        .field(1, last.into())
        .field(13, bytes.into())
        .field(64, iova.into());
    pack.words()
}
