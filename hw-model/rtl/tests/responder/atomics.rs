//! DMA of atomics: one line is read, and one word of it is written.

use ferroce_rtl::words;
use ferroce_units::random::mixed;

use crate::Bench;
use crate::memory::Words;

impl Bench {
    /// Serves the DMA of atomics.
    pub fn take_atomics(&mut self) {
        if self.rtl.atomic_read_valid() == 1 && self.rtl.atomic_read_ready() == 1 {
            assert_eq!(self.frames_done, self.number, "earlier WRITEs are written");
            self.atomic_read = Some(self.rtl.atomic_read_iova());
        }
        if self.rtl.atomic_write_valid() == 1 && self.rtl.atomic_write_ready() == 1 {
            let (place, line) = self.atomic_write();
            assert_eq!(self.rtl.atomic_write_strobe(), 0xff << (place % 64));
            self.words[1].write(place, line);
        }
    }

    /// Returns address and value of the write that is offered.
    fn atomic_write(&self) -> (u64, u64) {
        let offset = self.rtl.atomic_write_strobe().trailing_zeros() as usize;
        let line = self.rtl.atomic_write_line();
        let word = &line[offset / 4 % 16..];
        let value = u64::from(word[1]) << 32 | u64::from(word[0]);
        (self.rtl.atomic_write_iova() + offset as u64, value)
    }

    /// Sets the inputs for the DMA of atomics.
    pub fn set_atomics(&mut self) {
        let ready = self.is_ready();
        self.rtl.set_atomic_read_ready(u8::from(ready));
        let line = self.atomic_read.take_if(|_| self.random.below(4) == 0);
        self.rtl.set_atomic_line_valid(u8::from(line.is_some()));
        if let Some(iova) = line {
            let memory = &self.words[1];
            let places = (0..8).map(|number| iova + 8 * number);
            let values = places.map(|at| memory.0.get(&at).copied().unwrap_or(mixed(at)));
            let bytes: Vec<u8> = values.flat_map(u64::to_le_bytes).collect();
            self.rtl.set_atomic_line_data(words(&bytes, 0));
            // A line fails with each of its words.
            let fails = self
                .packet
                .is_some_and(|(_, packet)| memory.read(iova + packet.address % 64).is_none());
            self.rtl.set_atomic_line_error(fails.into());
        }
        let ready = self.is_ready();
        self.rtl.set_atomic_write_ready(ready.into());
        self.rtl.settle();
        let fails = self.rtl.atomic_write_valid() == 1 && {
            let (iova, value) = self.atomic_write();
            !Words::default().write(iova, value)
        };
        self.rtl.set_atomic_write_error(fails.into());
    }
}
