//! Serves a NIC of a world to another process.

use std::fmt::Debug;
use std::ops::Range;

use ferroce_driver::bus::Bus;
use ferroce_host::mapping::FileIdentity;
use ferroce_host::memory::{MapChange, MemoryMap};
use ferroce_model::time::timing::Timing;
use ferroce_spec::register::{
    Control, MSIX_ENTRY_SIZE, MSIX_TABLE_OFFSET, MSIX_VECTOR_MASKED, VECTOR_COUNT, offset,
};

use super::bus::WorldBus;

/// A NIC of a world, as a server of it uses it: the bus, and operations that a process with an
/// exclusive card does not need.
pub trait ServedCard: Bus + Debug {
    /// Changes the mappings. When it returns the device uses the new ones only.
    fn change_mappings(&self, kind: MapChange, change: &mut dyn FnMut(&mut MemoryMap));

    /// Records that mapped IOVAs are memory of `file` from `offset` on, until they are unmapped.
    fn note_file(&self, iovas: Range<u64>, file: FileIdentity, offset: u64);

    /// Sets whether the device may read and write memory, and interrupt (PCI command register, bit
    /// 2).
    fn set_bus_master(&self, is_allowed: bool);

    /// Resets the function: everything but mappings and the MSI-X table is as after power-on.
    fn reset(&self);

    /// Masks all vectors, clears pending ones and their addresses, as after power-on.
    fn reset_vectors(&self);
}

impl<T: Timing> Debug for WorldBus<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorldBus")
            .field("host", &self.host)
            .finish_non_exhaustive()
    }
}

impl<T: Timing + Send + 'static> ServedCard for WorldBus<T> {
    fn change_mappings(&self, kind: MapChange, change: &mut dyn FnMut(&mut MemoryMap)) {
        let mut event_loop = self.shared.event_loop.lock();
        let host = &mut event_loop.devices.nodes[self.host].host;
        change(host.mappings(kind));
        if kind == MapChange::Removal {
            host.forget_unmapped();
        }
    }

    fn note_file(&self, iovas: Range<u64>, file: FileIdentity, offset: u64) {
        let mut event_loop = self.shared.event_loop.lock();
        let host = &mut event_loop.devices.nodes[self.host].host;
        host.note_file(iovas, file, offset);
    }

    fn set_bus_master(&self, is_allowed: bool) {
        let mut event_loop = self.shared.event_loop.lock();
        event_loop.devices.nodes[self.host]
            .host
            .set_bus_master(is_allowed);
    }

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
