//! Injected faults of the device and of its PCIe link.

use std::sync::atomic::Ordering;

use ferroce_model::Function as _;
use ferroce_model::{DmaError, DmaFault, Doorbell};
use ferroce_spec::register::{Control, VECTOR_COUNT, offset};
use ferroce_units::Instant;

use super::host::ProcessHost;
use super::{InProcess, Model};
use crate::fabric::registry::{DeviceFault, DeviceFaults};

/// All vectors, one bit each.
const ALL_VECTORS: u64 = (1 << VECTOR_COUNT) - 1;

impl ProcessHost {
    /// Fails a DMA read if a fault is pending for it.
    #[cold]
    pub(super) fn fail_read(&mut self, iova: u64, length: usize) -> Result<(), DmaError> {
        let causes = [
            (DeviceFault::CompletionError, DmaFault::Refused),
            (DeviceFault::CompletionTimeout, DmaFault::CompletionTimeout),
            (DeviceFault::PoisonedData, DmaFault::Poisoned),
        ];
        match causes
            .into_iter()
            .find(|(cause, _)| self.faults.take(*cause))
        {
            Some((_, fault)) => Err(DmaError {
                iova,
                length,
                fault,
            }),
            None => Ok(()),
        }
    }

    /// Returns true if a posted write of this kind must be lost.
    #[inline]
    pub(super) fn loses(&mut self, fault: DeviceFault) -> bool {
        !self.faults.is_empty() && self.faults.take(fault)
    }

    /// Returns the next doorbell that is not lost.
    #[cold]
    pub(super) fn next_doorbell_with_faults(&mut self) -> Option<Doorbell> {
        let mut next = self.take_doorbell();
        while next.is_some() && self.faults.take(DeviceFault::StuckDoorbell) {
            next = self.take_doorbell();
        }
        next
    }
}

impl Model {
    /// Performs a function-level reset (PCIe 6.0, 6.6.2): everything returns to its power-on state
    /// except mappings and the MSI-X table, which the kernel restores for a card. Injected faults
    /// of the link are cleared as well. The NIC resets at the start of its next run.
    pub(super) fn request_reset(&mut self) {
        self.forget_doorbells();
        self.host.faults = DeviceFaults::default();
        let mut control = Control::default();
        control.set_reset(true);
        self.nic.write32(offset::control, control.bits());
    }
}

impl InProcess {
    /// Returns true if the card is removed.
    #[inline]
    pub fn is_removed(&self) -> bool {
        self.is_removed.load(Ordering::Acquire)
    }

    /// Applies the faults that `ferroce inject` requests.
    #[cold]
    pub(super) fn inject(&self, model: &mut Model, now: Instant) {
        let injected = model.port.injected();
        if injected.is_device_fatal() {
            self.stop_device(model, now);
        }
        let mut faults = self.registry.take_device_faults(self.place);
        if faults.take(DeviceFault::CommandHang) {
            model.nic.hang_commands();
        }
        if faults.take(DeviceFault::FunctionLevelReset) {
            model.request_reset();
        }
        model.host.faults = model.host.faults.with(faults);
        self.set_removed(model, now, injected.is_removed());
    }

    /// Stops the device until it is reset.
    fn stop_device(&self, model: &mut Model, now: Instant) {
        if !model.nic.has_stopped() && model.was_stopped {
            model.was_stopped = false;
            self.registry.clear_device_fatal(self.place);
            return;
        }
        model.nic.fail(now);
        model.was_stopped = true;
    }

    /// Removes or inserts the card.
    fn set_removed(&self, model: &mut Model, now: Instant, is_removed: bool) {
        if self.is_removed.swap(is_removed, Ordering::AcqRel) == is_removed {
            return;
        }
        model.forget_doorbells();
        if !is_removed {
            return model.request_reset();
        }
        model.nic.power_off(now, &mut model.port);
        if !self.is_served {
            // The contract of `Bus::is_gone`: threads that sleep check the device.
            model.host.raised = ALL_VECTORS;
        }
    }
}
