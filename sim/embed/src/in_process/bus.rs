//! The function as the driver's [`Bus`].

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ferroce_driver::bus::BufferPages;
use ferroce_driver::bus::{Bus, BusError, DmaMapping, InterruptHandler};
use ferroce_host::mapping::ADDRESS_SPACE;
use ferroce_linux::buffer_memory::BufferMemory;
use ferroce_linux::{clock, huge_page};
use ferroce_model::Function as _;
use ferroce_platform::mapping;
use ferroce_platform::os::memory_calls;
use ferroce_spec::doorbell::{DoorbellKind, DoorbellValue};
use ferroce_spec::register::{
    self, Control, MSIX_ENTRY_SIZE, MSIX_TABLE_OFFSET, MSIX_VECTOR_MASKED,
};

use super::host::MAX_DIRECT;
use super::{GONE, InProcess, flush, mapping_calls};
use crate::schedule::policy::Call;

/// Time limit for sending the last delayed ACKs when the function closes.
const LINGER_NS: u64 = 500_000;
/// Timers later than this are not waited for when the function closes.
const LINGER_HORIZON_NS: u64 = 50_000;

impl Bus for InProcess {
    fn read32(&self, offset: u32) -> u32 {
        self.wait_while_stopped();
        self.read(|nic, now| u64::from(nic.read32(now, offset))) as u32
    }

    fn write32(&self, offset: u32, value: u32) {
        self.wait_while_stopped();
        if offset == register::offset::wake && self.is_served {
            return self.wake();
        }
        let is_reset = offset == register::offset::control && Control::from_bits(value).reset();
        self.write(|model| {
            if is_reset {
                self.keep_counters(model);
                // The reset ends all exports: the device goes on with its own memory.
                model.window = None;
            }
            model.nic.write32(offset, value);
        });
    }

    fn read64(&self, offset: u32) -> u64 {
        self.wait_while_stopped();
        self.read(|nic, now| nic.read64(now, offset))
    }

    fn write64(&self, offset: u32, value: u64) {
        self.wait_while_stopped();
        self.write(|model| model.nic.write64(offset, value));
    }

    #[inline]
    fn doorbell(&self, slot: u32, value: u64) {
        self.wait_while_stopped();
        if self.is_foreign() || !self.doorbells.store(slot, value) {
            return;
        }
        let call = call_of(value);
        let polls = self.calls.note(call, self.clock.ticks());
        let Some(mut model) = self.model.try_lock() else {
            self.mark(slot);
            // The holder of the lock may have checked for marks just before this one was set.
            if self.try_run() && !polls {
                self.notify_background();
            }
            return;
        };
        if model.host.direct.len() < MAX_DIRECT {
            model.host.direct.push(slot);
        } else {
            self.mark(slot);
        }
        if self.calls.leaves(call, polls) {
            return self.unlock(model);
        }
        self.run(model);
        self.run_to_rest();
        if !polls {
            self.receive_own_frames();
            self.notify_background();
        }
    }

    fn read_device_memory(&self, offset: u64, destination: &mut [u8]) {
        if self.is_foreign() || self.is_removed() {
            return destination.fill(GONE as u8);
        }
        let mut model = self.model.lock();
        model.nic.read_device_memory(offset, destination);
        self.unlock(model);
    }

    fn write_device_memory(&self, offset: u64, source: &[u8]) {
        if self.is_foreign() || self.is_removed() {
            return;
        }
        let mut model = self.model.lock();
        model.nic.write_device_memory(offset, source);
        self.unlock(model);
    }

    fn export_device_memory(&self, offset: u64, length: u64) -> Result<i32, BusError> {
        if self.is_foreign() || self.is_removed() {
            return Err(BusError::Disconnected);
        }
        self.export_window(offset..offset.saturating_add(length))
    }

    fn withdraw_device_memory(&self, offset: u64, length: u64) {
        if !self.is_foreign() && !self.is_removed() {
            self.withdraw_window(&(offset..offset.saturating_add(length)));
        }
    }

    fn map(&self, mapping: &DmaMapping) -> Result<(), BusError> {
        if self.is_foreign() {
            return Err(BusError::Disconnected);
        }
        let rights = mapping::rights_of(mapping)?;
        memory_calls::register(mapping.address, mapping.length);
        let mut model = self.model.lock();
        let result =
            model
                .mappings()
                .map(mapping.iova, mapping.address, mapping.length as u64, rights);
        self.unlock(model);
        if result.is_err() {
            memory_calls::deregister(mapping.address, mapping.length);
        }
        result.map_err(BusError::from)
    }

    fn unmap(&self, iova: u64, length: usize) -> Result<(), BusError> {
        if self.is_foreign() {
            return Err(BusError::Disconnected);
        }
        let mut model = self.model.lock();
        let mappings = model.mappings();
        let address = mappings.address(iova);
        let result = if mappings.has_moved() {
            None
        } else {
            Some(mappings.unmap(iova, length as u64))
        };
        self.unlock(model);
        let result = result.unwrap_or_else(|| mapping_calls::unmap(self, iova, length as u64));
        if let (Ok(()), Some(address)) = (&result, address) {
            memory_calls::deregister(address, length);
        }
        result.map_err(BusError::from)
    }

    /// Only x86-64 has guarded copies: elsewhere an access to memory that is not mapped ends the
    /// program.
    fn address_space(&self) -> Option<Range<u64>> {
        cfg!(target_arch = "x86_64").then_some(ADDRESS_SPACE)
    }

    fn map_address_space(&self) -> Result<(), BusError> {
        if self.is_foreign() {
            return Err(BusError::Disconnected);
        }
        let length = ADDRESS_SPACE.end - ADDRESS_SPACE.start;
        self.with_mappings(|map| map.map_address_space(ADDRESS_SPACE.start, length))?;
        Ok(())
    }

    fn unmap_address_space(&self) -> Result<(), BusError> {
        if self.is_foreign() {
            return Err(BusError::Disconnected);
        }
        let length = ADDRESS_SPACE.end - ADDRESS_SPACE.start;
        self.with_mappings(|map| map.unmap(ADDRESS_SPACE.start, length))?;
        Ok(())
    }

    fn iova_range(&self) -> Range<u64> {
        ferroce_host::mapping::IOVAS
    }

    fn set_interrupt_handler(
        &self,
        vector: u16,
        handler: Option<InterruptHandler>,
    ) -> Result<(), BusError> {
        if self.is_foreign() {
            return Err(BusError::Disconnected);
        }
        let is_masked = handler.is_none();
        if !self.interrupts.set_handler(vector, handler) {
            return Err(BusError::NoSuchVector);
        }
        // The kernel's VFIO driver does the same to the MSI-X table of a card.
        let entry = MSIX_TABLE_OFFSET + u32::from(vector) * MSIX_ENTRY_SIZE;
        let control = if is_masked { MSIX_VECTOR_MASKED } else { 0 };
        self.write32(entry + MSIX_ENTRY_SIZE - 4, control);
        Ok(())
    }

    fn set_health_check(&self, check: Option<InterruptHandler>) {
        self.health_check.set(check);
    }

    fn is_gone(&self) -> bool {
        self.is_removed()
    }

    fn allocate(&self, length: usize) -> Result<BufferPages, BusError> {
        BufferMemory::Private.allocate(length)
    }

    fn log_page_size(&self, address: usize, length: usize, page_sizes: u64) -> u8 {
        huge_page::log_page_size(address, length, page_sizes)
    }

    fn now(&self) -> Duration {
        clock::now()
    }

    #[inline]
    fn relax(&self) {
        self.wait_while_stopped();
        if self.is_foreign() {
            return;
        }
        let now = self.clock.ticks();
        let polls = self.calls.note(Call::EmptyPoll, now);
        let empty_runs = self.run_until_rest(now);
        if polls {
            self.keep_background_near(now);
        } else {
            self.notify_background();
        }
        self.end_empty_poll(empty_runs, now);
    }

    #[inline]
    fn note_poll(&self) {
        self.wait_while_stopped();
        if self.is_foreign() {
            return;
        }
        let now = self.clock.ticks();
        let in_flight = self.has_requests_in_flight();
        if self.calls.note(Call::FullPoll { in_flight }, now) {
            self.keep_background_near(now);
        }
    }

    fn linger(&self) {
        if self.is_foreign() {
            return;
        }
        let end = self.clock.now() + ferroce_units::Duration::from_ns(LINGER_NS);
        while let Some(model) = self.model.try_lock_for(Duration::from_nanos(LINGER_NS)) {
            let worked = self.run(model);
            let now = self.clock.now();
            let horizon = now + ferroce_units::Duration::from_ns(LINGER_HORIZON_NS);
            let is_quiet = self.next_timeout.load(Ordering::Relaxed) > horizon.as_ps();
            if now > end || is_quiet && !worked {
                break;
            }
        }
        if let Some(model) = self.model.try_lock() {
            flush(&model.nic);
        }
    }
}

/// Returns the kind of call that rings this doorbell.
#[inline]
fn call_of(value: u64) -> Call {
    match DoorbellKind(DoorbellValue::from_bits(value).kind()) {
        DoorbellKind::CQ_ARM | DoorbellKind::CQ_ARM_SOLICITED => Call::Arm,
        DoorbellKind::RECEIVE_QUEUE | DoorbellKind::SHARED_RECEIVE_QUEUE => Call::Receive,
        _ => Call::Request,
    }
}
