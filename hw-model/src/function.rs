//! A function as the bus uses it: the model's NIC, or a card in RTL instead.

use std::sync::Arc;

use ferroce_units::Instant;

use crate::config::NicConfig;
use crate::counters::Counters;
use crate::host_interface::device_memory::LentMemory;
use crate::nic::{Nic, Progress, SoftwareFault};
use crate::ports::host::Host;
use crate::ports::port::Port;

/// One NIC function with a port, without timing: the caller passes the time.
pub trait Function<P: Port>: std::fmt::Debug + Send {
    /// Returns a function after power-on.
    fn new(config: NicConfig) -> Self;

    /// Reads 4 bytes of BAR0.
    fn read32(&mut self, now: Instant, offset: u32) -> u32;

    /// Reads 8 bytes of BAR0.
    fn read64(&mut self, now: Instant, offset: u32) -> u64;

    /// Writes 4 bytes of BAR0. The next [`Function::advance`] acts on them.
    fn write32(&mut self, offset: u32, value: u32);

    /// Writes 8 bytes of BAR0. The next [`Function::advance`] acts on them.
    fn write64(&mut self, offset: u32, value: u64);

    /// Reads the device's own memory (BAR4).
    fn read_device_memory(&mut self, offset: u64, destination: &mut [u8]);

    /// Writes the device's own memory (BAR4).
    fn write_device_memory(&mut self, offset: u64, source: &[u8]);

    /// Keeps the device's own memory in `memory` from now on, which has the same content, until the
    /// next reset. Returns false if the function cannot do that.
    fn lend_memory(&mut self, _memory: Arc<dyn LentMemory>) -> bool {
        false
    }

    /// Returns the counters.
    fn counters(&mut self) -> Counters;

    /// Returns the clock cycles since power-on. `None`: the function has no clock.
    fn cycles(&self) -> Option<u64> {
        None
    }

    /// Runs until nothing moves, or the budget of this call is used up.
    fn advance<H: Host>(&mut self, now: Instant, host: &mut H, port: &mut P) -> Progress;

    /// Returns the time at which it has to run again if nothing else happens.
    fn next_timeout(&self, now: Instant) -> Option<Instant>;

    /// Returns true if there is a delayed ACK.
    fn holds_acknowledges(&self) -> bool;

    /// Sends delayed ACKs with the next [`Function::advance`].
    fn flush_acknowledges(&mut self);

    /// Fault injection: stops the function with DEVICE_FATAL, as an internal error would.
    fn fail(&mut self, now: Instant);

    /// Fault injection: no command completes from the next one on, until a reset.
    fn hang_commands(&mut self);

    /// Fault injection: the software that uses the function fails. Returns false if the function
    /// has no such faults.
    fn suffer(&mut self, _fault: SoftwareFault) -> bool {
        false
    }

    /// Returns true if the function has stopped.
    fn has_stopped(&self) -> bool;

    /// Removes the power; a reset brings the function up again.
    fn power_off(&mut self, now: Instant, port: &mut P);
}

/// Each method calls the method of [`Nic`] with the same name.
impl<P: Port + std::fmt::Debug> Function<P> for Nic<P>
where
    Nic<P>: Send,
{
    fn new(config: NicConfig) -> Self {
        Self::new(config)
    }

    #[inline]
    fn read32(&mut self, now: Instant, offset: u32) -> u32 {
        Self::read32(self, now, offset)
    }

    #[inline]
    fn read64(&mut self, now: Instant, offset: u32) -> u64 {
        Self::read64(self, now, offset)
    }

    #[inline]
    fn write32(&mut self, offset: u32, value: u32) {
        Self::write32(self, offset, value);
    }

    #[inline]
    fn write64(&mut self, offset: u32, value: u64) {
        Self::write64(self, offset, value);
    }

    #[inline]
    fn read_device_memory(&mut self, offset: u64, destination: &mut [u8]) {
        Self::read_device_memory(self, offset, destination);
    }

    #[inline]
    fn write_device_memory(&mut self, offset: u64, source: &[u8]) {
        Self::write_device_memory(self, offset, source);
    }

    fn lend_memory(&mut self, memory: Arc<dyn LentMemory>) -> bool {
        Self::lend_memory(self, memory);
        true
    }

    fn counters(&mut self) -> Counters {
        Self::counters(self).clone()
    }

    #[inline]
    fn advance<H: Host>(&mut self, now: Instant, host: &mut H, port: &mut P) -> Progress {
        Self::advance(self, now, host, port)
    }

    #[inline]
    fn next_timeout(&self, now: Instant) -> Option<Instant> {
        Self::next_timeout(self, now)
    }

    #[inline]
    fn holds_acknowledges(&self) -> bool {
        Self::holds_acknowledges(self)
    }

    #[inline]
    fn flush_acknowledges(&mut self) {
        Self::flush_acknowledges(self);
    }

    fn fail(&mut self, now: Instant) {
        Self::fail(self, now);
    }

    fn hang_commands(&mut self) {
        Self::hang_commands(self);
    }

    fn suffer(&mut self, fault: SoftwareFault) -> bool {
        Self::suffer(self, fault);
        true
    }

    fn has_stopped(&self) -> bool {
        Self::has_stopped(self)
    }

    fn power_off(&mut self, now: Instant, port: &mut P) {
        Self::power_off(self, now, port);
    }
}
