//! Checks whether a run of the model would find something to do at the cable.

use std::sync::atomic::Ordering;

use ferroce_platform::shared_memory::watched;

use super::FabricPort;
use crate::fabric::ring::Receiver;

impl FabricPort {
    /// Returns true if only rings are attached and no fault of the device is active, so that a run
    /// of the model without work has no effect.
    #[inline]
    pub fn is_plain(&self) -> bool {
        let is_alone = self.uplink.is_none() && self.faults.is_none() && self.capture.is_none();
        is_alone && !self.injected.concerns_device()
    }

    /// Returns true if a frame is pending, a fault was injected since the last run of the model, or
    /// the link state of the uplink has changed.
    pub fn has_work(&self) -> bool {
        self.registry.injected(self.place.number()) != self.injected
            || self.liveness.has_loss()
            || watched::losses() != self.losses
            || self.has_frame()
            || self.uplink.as_ref().is_some_and(|uplink| uplink.has_work())
    }

    /// Returns true if a frame is pending.
    pub fn has_frame(&self) -> bool {
        let epoch = self
            .registry
            .announce_epoch(self.place.number())
            .load(Ordering::Acquire);
        epoch != self.announce_epoch || self.incoming.iter().any(Receiver::has_frame)
    }
}
