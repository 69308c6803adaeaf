//! Host memory, interrupts and cable of the card.

use std::collections::VecDeque;
use std::sync::Arc;

use ferroce_driver::bus::fake::FakeMemory;
use ferroce_model::ports::port::{Port, Reservation, Route};
use ferroce_model::{DmaAtomic, DmaError, Doorbell, UntimedHost};
use ferroce_units::Instant;
use ferroce_units::random::SplitMix64;

use super::Fault;

const PAGE: u64 = 4096;
/// Descriptors begin at multiples of this.
const DESCRIPTOR_ALIGNMENT: u64 = 64;
/// Offset of the BTH opcode in a RoCEv2 frame over IPv6, and the first opcode that does not belong
/// to a reliable connection.
const OPCODE: usize = 14 + 40 + 8;
const NOT_RELIABLE: u8 = 0x20;

/// The NIC's view of the machine.
pub struct CardHost {
    pub memory: Arc<FakeMemory>,
    pub doorbells: VecDeque<Doorbell>,
    pub raised: Vec<u16>,
    pub fault: Fault,
    pub random: SplitMix64,
    /// Start and end of the last read and the last write.
    last_read: Span,
    last_write: Span,
    /// A command entry that was read before a reset, and its address.
    stale: Option<(u64, [u8; 64])>,
    /// The outcome of a command that was in flight at a reset, and its address.
    late: Option<(u64, [u64; 2])>,
}

#[derive(Default)]
struct Span {
    start: u64,
    end: u64,
}

impl Span {
    /// Records an access. Returns true if it continues the last one at the start of a page, and the
    /// last one was payload.
    fn follow(&mut self, start: u64, length: usize) -> bool {
        let is_payload = self.start % DESCRIPTOR_ALIGNMENT != 0;
        let goes_on = start == self.end && start % PAGE == 0 && is_payload;
        *self = Self {
            start,
            end: start + length as u64,
        };
        goes_on
    }
}

impl CardHost {
    pub fn new(memory: Arc<FakeMemory>, fault: Fault, seed: u64) -> Self {
        Self {
            memory,
            doorbells: VecDeque::new(),
            raised: Vec::new(),
            fault,
            random: SplitMix64::new(seed),
            last_read: Span::default(),
            last_write: Span::default(),
            stale: None,
            late: None,
        }
    }

    /// Keeps the command at `iova`, like a card whose DMA engine ignores the reset.
    pub fn keep_command(&mut self, iova: u64) {
        let mut entry = [0; 64];
        if self.load(iova, &mut entry).is_err() {
            return;
        }
        match self.fault {
            Fault::StaleReadAfterReset => self.stale = Some((iova, entry)),
            Fault::WriteAfterReset => self.late = Some((iova + 0x30, [1, 0])),
            _ => {}
        }
    }

    /// Writes the outcome that was in flight at the reset.
    pub fn write_late(&mut self) {
        if let Some((iova, words)) = self.late.take() {
            self.memory.store_words(iova, &words);
        }
    }

    /// Copies from memory, word by word.
    fn load(&self, iova: u64, destination: &mut [u8]) -> Result<(), DmaError> {
        let refused = DmaError::refused(iova, destination.len());
        let mut at = iova;
        let mut rest = destination;
        while !rest.is_empty() {
            let word = self.memory.load(at & !7).ok_or(refused)?.to_le_bytes();
            let begin = (at % 8) as usize;
            let count = rest.len().min(8 - begin);
            rest[..count].copy_from_slice(&word[begin..begin + count]);
            rest = &mut rest[count..];
            at += count as u64;
        }
        Ok(())
    }

    /// Copies to memory, word by word, after checking that all of it is mapped.
    fn store(&self, iova: u64, source: &[u8]) -> Result<(), DmaError> {
        let refused = DmaError::refused(iova, source.len());
        let mut at = iova;
        let mut rest = source;
        while !rest.is_empty() {
            let mut word = self.memory.load(at & !7).ok_or(refused)?.to_le_bytes();
            let begin = (at % 8) as usize;
            let count = rest.len().min(8 - begin);
            word[begin..begin + count].copy_from_slice(&rest[..count]);
            if !self.memory.store(at & !7, u64::from_le_bytes(word)) {
                return Err(refused);
            }
            rest = &rest[count..];
            at += count as u64;
        }
        Ok(())
    }
}

impl UntimedHost for CardHost {
    fn read(&mut self, iova: u64, destination: &mut [u8]) -> Result<(), DmaError> {
        if self.fault == Fault::DmaRefused || self.fault == Fault::CommandReadsLost {
            let length = destination.len();
            return Err(DmaError::refused(iova, length));
        }
        self.load(iova, destination)?;
        let length = destination.len();
        let stale = self
            .stale
            .take_if(|(at, entry)| *at == iova && entry.len() == length);
        if let Some((_, entry)) = stale {
            destination.copy_from_slice(&entry);
        }
        let goes_on = self.last_read.follow(iova, destination.len());
        if goes_on && self.fault == Fault::ReadsEndAtPage {
            destination.fill(0);
        }
        Ok(())
    }

    fn write(&mut self, iova: u64, source: &[u8]) -> Result<(), DmaError> {
        let mut bytes = source.to_vec();
        let mut place = iova;
        let goes_on = self.last_write.follow(iova, source.len());
        match self.fault {
            Fault::WritesEndAtPage if goes_on => bytes.clear(),
            Fault::WritesEndAfter(length) => bytes.truncate(length),
            Fault::NoByteEnables => bytes.resize(source.len().next_multiple_of(4), 0),
            Fault::Misaligned if iova % 4 != 0 && source.len() > 8 => place = iova & !3,
            Fault::RandomDma(_) => bytes.fill_with(|| self.random.number() as u8),
            _ => {}
        }
        self.store(place, &bytes)
    }

    fn write_descriptor(&mut self, iova: u64, words: &[u64]) -> Result<(), DmaError> {
        if self.fault == Fault::CommandWritesLost {
            return Ok(());
        }
        let change = |word: u64| match self.fault {
            Fault::WrongByteOrder => word.swap_bytes(),
            _ => word,
        };
        let mut words: Vec<u64> = words.iter().map(|word| change(*word)).collect();
        if let Fault::RandomDma(_) = self.fault {
            words.fill_with(|| self.random.number());
        }
        let refused = DmaError::refused(iova, 8 * words.len());
        if self.memory.store_words(iova, &words) {
            Ok(())
        } else {
            Err(refused)
        }
    }

    fn atomic(&mut self, iova: u64, operation: DmaAtomic) -> Result<u64, DmaError> {
        let refused = DmaError::refused(iova, 8);
        let original = self.memory.load(iova).ok_or(refused)?;
        if self.memory.store(iova, operation.apply(original)) {
            Ok(original)
        } else {
            Err(refused)
        }
    }

    fn interrupt(&mut self, vector: u16) {
        match self.fault {
            Fault::VectorDead(dead) if dead == vector => {}
            Fault::VectorSwapped(from, to) if from == vector => self.raised.push(to),
            Fault::InterruptsTwice => self.raised.extend([vector, (vector + 1) % 16]),
            _ => self.raised.push(vector),
        }
    }

    fn next_doorbell(&mut self) -> Option<Doorbell> {
        self.doorbells.pop_front()
    }
}

/// A cable whose ends are both in the card.
pub struct LoopbackPlug {
    frames: VecDeque<Vec<u8>>,
    fault: Fault,
    sent: u32,
}

impl LoopbackPlug {
    pub fn new(fault: Fault) -> Self {
        Self {
            frames: VecDeque::new(),
            fault,
            sent: 0,
        }
    }
}

impl Port for LoopbackPlug {
    type Frame = Vec<u8>;

    fn reserve(&mut self, _route: &Route, length: usize) -> Reservation<Vec<u8>> {
        Reservation::Ready(vec![0; length])
    }

    fn transmit(&mut self, _at: Instant, mut frame: Vec<u8>) {
        self.sent += 1;
        match self.fault {
            Fault::NoLoopback => return,
            Fault::LossyLoopback(every) if self.sent % every == 0 => return,
            Fault::LossyReliable(every)
                if self.sent % every == 0 && frame[OPCODE] < NOT_RELIABLE =>
            {
                return;
            }
            Fault::CorruptFrames => {
                let last = frame.len() - 5;
                frame[last] ^= 1;
            }
            _ => {}
        }
        self.frames.push_back(frame);
    }

    fn cancel(&mut self, _frame: Vec<u8>) {}

    fn receive(&mut self, now: Instant) -> Option<(Instant, Vec<u8>)> {
        Some((now, self.frames.pop_front()?))
    }

    fn release(&mut self, _frame: Vec<u8>) {}

    fn computes_icrc(&self) -> bool {
        true
    }

    fn carries_icrc(&self, _frame: &Vec<u8>) -> bool {
        true
    }
}
