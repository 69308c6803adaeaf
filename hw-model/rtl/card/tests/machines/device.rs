//! A function of either kind.

use ferroce_model::{Function, Nic, NicConfig, Progress};
use ferroce_rtl_card::RtlNic;
use ferroce_units::Instant;

use super::cable::Cable;
use super::host::TestHost;

/// The kind of function in a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Model,
    Rtl,
}

impl Kind {
    /// Returns a function after power-on.
    pub fn device(self, config: NicConfig) -> Box<dyn Device> {
        match self {
            Kind::Model => Box::new(<Nic<Cable> as Function<Cable>>::new(config)),
            Kind::Rtl => Box::new(RtlNic::<Cable>::new(config)),
        }
    }
}

/// The part of [`Function`] that the tests use.
pub trait Device {
    fn read32(&mut self, now: Instant, offset: u32) -> u32;
    fn read64(&mut self, now: Instant, offset: u32) -> u64;
    fn write32(&mut self, offset: u32, value: u32);
    fn write64(&mut self, offset: u32, value: u64);
    fn advance(&mut self, now: Instant, host: &mut TestHost, port: &mut Cable) -> Progress;
    fn next_timeout(&self, now: Instant) -> Option<Instant>;
    /// Sends delayed ACKs with the next `advance`. Returns true if there are some.
    fn flush_acknowledges(&mut self) -> bool;
}

impl<F: Function<Cable>> Device for F {
    fn read32(&mut self, now: Instant, offset: u32) -> u32 {
        Function::read32(self, now, offset)
    }

    fn read64(&mut self, now: Instant, offset: u32) -> u64 {
        Function::read64(self, now, offset)
    }

    fn write32(&mut self, offset: u32, value: u32) {
        Function::write32(self, offset, value);
    }

    fn write64(&mut self, offset: u32, value: u64) {
        Function::write64(self, offset, value);
    }

    fn advance(&mut self, now: Instant, host: &mut TestHost, port: &mut Cable) -> Progress {
        Function::advance(self, now, host, port)
    }

    fn next_timeout(&self, now: Instant) -> Option<Instant> {
        Function::next_timeout(self, now)
    }

    fn flush_acknowledges(&mut self) -> bool {
        let holds = self.holds_acknowledges();
        Function::flush_acknowledges(self);
        holds
    }
}
