//! A device that violates the contract.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ferroce_driver::bus::{Bus, BusError, DmaMapping, InterruptHandler};
use ferroce_spec::command::CommandStatus;
use ferroce_spec::cqe::{Cqe, CqeWord};
use ferroce_spec::register::offset;
use parking_lot::Mutex;

use crate::rng::Rng;
use crate::support::{HonestDevice, SRQN_BASE};

/// Gives a false answer once in this many times; zero: never.
#[derive(Clone, Copy)]
struct Lies {
    registers: u64,
    commands: u64,
    memory: u64,
    interrupts: u64,
    bus: u64,
}

pub struct HostileDevice {
    pub honest: Arc<HonestDevice>,
    rng: Mutex<Rng>,
    lies: Lies,
    /// Number of accesses that are answered correctly at first, so that some seeds get through
    /// bring-up.
    grace: AtomicU64,
    handlers: Mutex<BTreeMap<u16, InterruptHandler>>,
}

impl HostileDevice {
    pub fn new(seed: u64) -> Arc<Self> {
        let mut rng = Rng::new(seed);
        let mut rate = || [0, 1, 3, 10, 100][rng.below(5) as usize];
        let lies = Lies {
            registers: rate(),
            commands: rate(),
            memory: rate(),
            interrupts: rate(),
            bus: rate(),
        };
        let grace = [0, 50, 200, 1000][rng.below(4) as usize];
        let honest = HonestDevice::lenient(rng.below(6) as u8, rng.below(6) as u32);
        Arc::new(Self {
            honest,
            lies,
            grace: AtomicU64::new(grace),
            rng: Mutex::new(rng),
            handlers: Mutex::default(),
        })
    }

    fn lie(&self, rate: u64) -> bool {
        let grace = self.grace.load(Ordering::Relaxed);
        if grace > 0 {
            self.grace.store(grace - 1, Ordering::Relaxed);
            return false;
        }
        self.rng.lock().one_in(rate)
    }

    fn number(&self) -> u64 {
        self.rng.lock().number()
    }

    /// Writes garbage to memory and sends spurious interrupts.
    pub fn misbehave(&self) {
        if self.lie(self.lies.memory) {
            self.scribble();
        }
        if self.lie(self.lies.interrupts) {
            self.interrupt();
        }
    }

    fn interrupt(&self) {
        let vector = self.rng.lock().below(6) as u16;
        let handler = self.handlers.lock().get(&vector).cloned();
        if let Some(handler) = handler {
            handler();
        }
    }

    /// Writes a few words, mostly near the start of a mapping, where the rings are short.
    fn scribble(&self) {
        let mappings = self.honest.memory.mappings();
        if mappings.is_empty() {
            return;
        }
        let mut rng = self.rng.lock();
        let mapping = mappings[rng.below(mappings.len() as u64) as usize];
        let words = (mapping.length as u64 / 8).min(1 << rng.below(20));
        for _ in 0..rng.below(40) {
            let iova = mapping.iova + 8 * rng.below(words);
            let value = rng.number() ^ rng.below(4) << 62;
            self.honest.memory.store(iova, value);
        }
        if rng.one_in(2) {
            self.forge_completions(&mut rng);
        }
    }

    /// Writes CQEs with plausible numbers and any owner bits.
    fn forge_completions(&self, rng: &mut Rng) {
        let rings = self
            .honest
            .with_state(|state| state.cqs.values().map(|q| q.context).collect::<Vec<_>>());
        for context in rings {
            for place in 0..1u64 << context.log_size.min(4) {
                let mut word = CqeWord::from_bits(rng.next() as u32);
                word.set_opcode(if rng.one_in(2) { 0x80 } else { 2 });
                // Indices and tags, SRQNs: right and wrong ones.
                let first = (0x100 + rng.below(4)) | (rng.below(40) << 32);
                let source = if rng.one_in(2) {
                    u64::from(SRQN_BASE) + rng.below(4)
                } else {
                    rng.number() & 0xffff_ffff
                };
                let last = source | u64::from(word.bits()) << 32;
                let words = [first, rng.next(), rng.next(), last];
                let iova = context.base + place * Cqe::SIZE as u64;
                self.honest.memory.store_words(iova, &words);
            }
        }
    }
}

impl Bus for HostileDevice {
    fn read32(&self, at: u32) -> u32 {
        if self.lie(self.lies.registers) {
            return self.number() as u32;
        }
        self.honest.read32(at)
    }

    fn read64(&self, at: u32) -> u64 {
        if self.lie(self.lies.registers) {
            return self.number();
        }
        self.honest.read64(at)
    }

    fn write32(&self, at: u32, value: u32) {
        if at == offset::command_queue_doorbell {
            let lie = if self.lie(self.lies.commands) {
                self.rng.lock().below(4)
            } else {
                4
            };
            match lie {
                0 => return,
                1 => {
                    // Completes commands before or instead of executing them.
                    for _ in 0..100 {
                        self.scribble();
                    }
                    return;
                }
                2 => {
                    *self.honest.refuse.lock() = Some(CommandStatus(self.number() as u8));
                }
                _ => {}
            }
            let entry_words = self.command_words();
            self.honest.write32(at, value);
            if lie == 3 {
                // Executes commands, then changes result and output.
                for iova in entry_words {
                    let garbage = self.number();
                    if self.rng.lock().one_in(3) {
                        self.honest.memory.store(iova, garbage & !(1 << 63));
                    }
                }
            }
            return;
        }
        self.honest.write32(at, value);
        self.misbehave();
    }

    fn write64(&self, at: u32, value: u64) {
        self.honest.write64(at, value);
    }

    fn doorbell(&self, slot: u32, value: u64) {
        self.honest.doorbell(slot, value);
        self.misbehave();
    }

    fn push_blocks(&self) -> u32 {
        self.honest.push_blocks()
    }

    fn push(&self, slot: u32, words: &[u64]) {
        self.honest.push(slot, words);
        self.misbehave();
    }

    fn read_device_memory(&self, offset: u64, destination: &mut [u8]) {
        self.honest.read_device_memory(offset, destination);
        self.misbehave();
    }

    fn write_device_memory(&self, offset: u64, source: &[u8]) {
        self.honest.write_device_memory(offset, source);
    }

    fn map(&self, mapping: &DmaMapping) -> Result<(), BusError> {
        if self.lie(self.lies.bus * 20) {
            return Err(BusError::LimitReached);
        }
        self.honest.map(mapping)
    }

    fn unmap(&self, iova: u64, length: usize) -> Result<(), BusError> {
        if self.lie(self.lies.bus * 20) {
            return Err(BusError::Disconnected);
        }
        self.honest.unmap(iova, length)
    }

    fn iova_range(&self) -> Range<u64> {
        self.honest.iova_range()
    }

    fn set_interrupt_handler(
        &self,
        vector: u16,
        handler: Option<InterruptHandler>,
    ) -> Result<(), BusError> {
        if self.lie(self.lies.bus * 20) {
            return Err(BusError::Os(libc::EINTR));
        }
        let mut handlers = self.handlers.lock();
        match &handler {
            Some(handler) => drop(handlers.insert(vector, Arc::clone(handler))),
            None => drop(handlers.remove(&vector)),
        }
        drop(handlers);
        self.honest.set_interrupt_handler(vector, handler)
    }

    fn now(&self) -> Duration {
        self.honest.now()
    }

    fn relax(&self) {
        self.misbehave();
        // A command that is not answered must not take the whole time-out on a busy machine.
        std::thread::yield_now();
    }
}

impl HostileDevice {
    /// Returns the IOVAs of the words of the command queue's results and of the output mailbox.
    fn command_words(&self) -> Vec<u64> {
        let base = self.honest.with_state(|state| state.command_base());
        let results = (0..16).flat_map(|entry| [0x30, 0x38].map(|at| base + entry * 64 + at));
        let output = (0..32).map(|word| base + 8192 + 8 * word);
        results.chain(output).collect()
    }
}
