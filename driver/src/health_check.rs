//! The periodic check of the device: has it stopped, has it lost an interrupt or a doorbell?

use std::sync::Arc;

use crate::command::has_stopped;
use crate::device::Device;

/// Lets the bus check the device until the device is dropped.
pub(crate) fn start(device: &Arc<Device>) {
    let device_of_check = Arc::downgrade(device);
    let check = move || {
        if let Some(device) = device_of_check.upgrade() {
            check(&device);
        }
    };
    device.bus().set_health_check(Some(Arc::new(check)));
}

fn check(device: &Device) {
    if device.is_dead() {
        return;
    }
    if has_stopped(&**device.bus()) {
        device.dispatch().device_gone();
        return;
    }
    for queue in device.event_queues() {
        queue.recover_interrupt();
    }
    if device.doorbell_checks().run() {
        tracing::error!("the device does not take its doorbells");
        device.dispatch().device_gone();
    }
}
