//! Bytes as a list of decisions. Missing bytes at the end are zero.

/// The rest of an input.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    /// Returns an input from its beginning.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Returns true if nothing is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the next bytes: `length`, or as many as are left.
    pub fn bytes(&mut self, length: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        taken
    }

    fn array<const SIZE: usize>(&mut self) -> [u8; SIZE] {
        let mut array = [0; SIZE];
        let taken = self.bytes(SIZE);
        array[..taken.len()].copy_from_slice(taken);
        array
    }

    /// Returns one byte.
    pub fn u8(&mut self) -> u8 {
        self.array::<1>()[0]
    }

    /// Returns two bytes.
    pub fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    /// Returns four bytes.
    pub fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    /// Returns eight bytes.
    pub fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    /// Returns a decision between two.
    pub fn flag(&mut self) -> bool {
        self.u8() & 1 == 1
    }

    /// Returns one of `choices`.
    pub fn choose<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[usize::from(self.u8()) % choices.len()]
    }

    /// Returns a number below `end`, of one byte.
    pub fn below(&mut self, end: u8) -> u8 {
        self.u8() % end.max(1)
    }

    /// Returns a number of few bytes, which is often small, and sometimes at the end of a type's
    /// range.
    pub fn number(&mut self) -> u64 {
        match self.u8() {
            small @ 0..=0xc0 => u64::from(small),
            0xc1..=0xd0 => u64::from(self.u16()),
            0xd1..=0xd8 => u64::from(self.u32()),
            0xd9..=0xe0 => self.u64(),
            0xe1..=0xe8 => 1 << (self.u8() % 64),
            0xe9..=0xf0 => (1u64 << (self.u8() % 64)).wrapping_sub(1),
            0xf1..=0xf4 => u64::from(u32::MAX) - u64::from(self.below(4)),
            0xf5..=0xf8 => i32::MAX as u64 + u64::from(self.below(4)),
            _ => u64::MAX - u64::from(self.below(16)),
        }
    }
}
