//! The host of a card in a test.

use std::collections::VecDeque;
use std::sync::Arc;

use ferroce_driver::bus::fake::FakeMemory;
use ferroce_model::{DmaError, Doorbell, UntimedHost};

/// Host memory, interrupts and doorbells.
pub struct CardHost {
    memory: Arc<FakeMemory>,
    pub doorbells: VecDeque<Doorbell>,
    pub raised: Vec<u16>,
}

impl CardHost {
    pub fn new(memory: &Arc<FakeMemory>) -> Self {
        Self {
            memory: Arc::clone(memory),
            doorbells: VecDeque::new(),
            raised: Vec::new(),
        }
    }
}

impl UntimedHost for CardHost {
    fn read(&mut self, iova: u64, destination: &mut [u8]) -> Result<(), DmaError> {
        let refused = DmaError::refused(iova, destination.len());
        let mut place = iova;
        let mut rest = destination;
        while !rest.is_empty() {
            let from = (place % 8) as usize;
            let word = self.memory.load(place & !7).ok_or(refused)?;
            let count = rest.len().min(8 - from);
            let (bytes, behind) = rest.split_at_mut(count);
            bytes.copy_from_slice(&word.to_le_bytes()[from..from + count]);
            place += count as u64;
            rest = behind;
        }
        Ok(())
    }

    fn write(&mut self, iova: u64, source: &[u8]) -> Result<(), DmaError> {
        let refused = DmaError::refused(iova, source.len());
        for (at, byte) in (iova..).zip(source) {
            let (word, shift) = (at & !7, 8 * (at % 8));
            let before = self.memory.load(word).ok_or(refused)?;
            let after = before & !(0xff << shift) | u64::from(*byte) << shift;
            self.memory
                .store(word, after)
                .then_some(())
                .ok_or(refused)?;
        }
        Ok(())
    }

    fn write_descriptor(&mut self, iova: u64, words: &[u64]) -> Result<(), DmaError> {
        let refused = DmaError::refused(iova, 8 * words.len());
        self.memory
            .store_words(iova, words)
            .then_some(())
            .ok_or(refused)
    }

    fn interrupt(&mut self, vector: u16) {
        self.raised.push(vector);
    }

    fn next_doorbell(&mut self) -> Option<Doorbell> {
        self.doorbells.pop_front()
    }
}
