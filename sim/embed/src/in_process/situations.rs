//! Situations of the program that its peers notice: from `ferroce inject` and from plans.

use ferroce_faults::Step;
use ferroce_model::{Function as _, SoftwareFault};
use ferroce_platform::os;
use ferroce_units::Instant;

use super::{InProcess, Model};
use crate::fabric::registry::Injection;

impl InProcess {
    /// Takes the steps of situations that are due.
    #[cold]
    pub(super) fn take_steps(&self, model: &mut Model, now: Instant) {
        while let Some(step) = model.port.take_step(now) {
            tracing::info!(?step, "a situation that was asked for");
            match step {
                Step::FailQueuePairs => suffer(model, SoftwareFault::FailQueuePairs),
                Step::RevokeRegions => suffer(model, SoftwareFault::RevokeRegions),
                Step::WithholdReceives => suffer(model, SoftwareFault::WithholdReceives),
                Step::ReturnReceives => suffer(model, SoftwareFault::ReturnReceives),
                Step::LinkDown => self.set_link(Injection::PortDown),
                Step::LinkUp => self.set_link(Injection::PortUp),
                Step::AddressGone => suffer(model, SoftwareFault::RemoveAddresses),
                Step::AddressBack => suffer(model, SoftwareFault::ReturnAddresses),
                // The client is another process, which this one cannot stop.
                Step::Stop if self.is_served => {}
                Step::Stop => self.stopped.stop(),
                Step::Continue => model.host.raised |= self.stopped.end(),
                // In process no memory is persistent: `persistent_flush` is off.
                Step::Kill | Step::PowerFailure => self.kill(model, now),
            }
        }
    }

    fn set_link(&self, injection: Injection) {
        self.registry
            .inject(self.place, injection, self.clock.ticks());
    }

    /// Kills the process, as SIGKILL does. A function of `ferroce serve` loses its objects; its
    /// client, which is another process, lives.
    fn kill(&self, model: &mut Model, now: Instant) {
        self.publish_all(model);
        if !self.is_served {
            return os::kill_this_process();
        }
        model.nic.power_off(now, &mut model.port);
        model.was_stopped = true;
    }
}

fn suffer(model: &mut Model, fault: SoftwareFault) {
    if !model.nic.suffer(fault) {
        tracing::warn!(?fault, "the card in SystemVerilog has no such fault");
    }
}
