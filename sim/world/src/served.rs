//! Serves a NIC of a world to another process.

use std::sync::Arc;

use ferroce_driver::bus::Bus;
use ferroce_model::time::timing::Timing;
use ferroce_platform::doorbells::polled::DoorbellPages;
use ferroce_platform::memory::MemoryMap;
use ferroce_platform::served::ServedModel;
use ferroce_spec::register::{
    Control, MSIX_ENTRY_SIZE, MSIX_TABLE_OFFSET, MSIX_VECTOR_MASKED, VECTOR_COUNT, offset,
};

use super::bus::WorldBus;

impl<T: Timing> std::fmt::Debug for WorldBus<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorldBus")
            .field("host", &self.host)
            .finish_non_exhaustive()
    }
}

impl<T: Timing + Send + 'static> ServedModel for WorldBus<T> {
    fn polls_doorbells(&self) -> bool {
        false
    }

    fn set_doorbell_pages(&self, _pages: Option<Arc<DoorbellPages>>) {}

    fn change_mappings(&self, is_removal: bool, change: &mut dyn FnMut(&mut MemoryMap)) {
        let mut event_loop = self.shared.event_loop.lock();
        change(
            event_loop.devices.nodes[self.host]
                .host
                .mappings(is_removal),
        );
    }

    fn set_bus_master(&self, is_allowed: bool) {
        let mut event_loop = self.shared.event_loop.lock();
        event_loop.devices.nodes[self.host]
            .host
            .set_bus_master(is_allowed);
    }

    /// Does nothing: frames are routed by the host number, which does not change.
    fn forget_addresses(&self) {}

    fn reset(&self) {
        let mut control = Control::default();
        control.set_reset(true);
        let mut event_loop = self.shared.event_loop.lock();
        event_loop.devices.nodes[self.host].host.forget_stores();
        self.write_at_once(&mut event_loop, offset::control, control.bits());
        let node = &mut event_loop.devices.nodes[self.host];
        node.host.forget_stores();
        node.commands = 0;
        node.is_dead = false;
    }

    fn reset_vectors(&self) {
        let entries = (0..VECTOR_COUNT).map(|n| MSIX_TABLE_OFFSET + u32::from(n) * MSIX_ENTRY_SIZE);
        let control = MSIX_ENTRY_SIZE - 4;
        // Unmasking sends pending interrupts, which `forget_stores` drops.
        for entry in entries.clone() {
            self.write32(entry + control, 0);
        }
        let mut event_loop = self.shared.event_loop.lock();
        let node = &mut event_loop.devices.nodes[self.host];
        for entry in entries {
            node.nic.write32(entry + control, MSIX_VECTOR_MASKED);
            for word in (0..control).step_by(4) {
                node.nic.write32(entry + word, 0);
            }
        }
        node.host.forget_stores();
    }
}
