//! What can be served.

use std::fmt::Debug;
use std::sync::Arc;

use ferroce_driver::bus::Bus;

use crate::doorbells::polled::DoorbellPages;
use crate::memory::MemoryMap;

/// A model of a card, as the server of vfio-user uses it: the bus, and what a process that
/// has the card for itself does not need.
pub trait ServedModel: Bus + Debug {
    /// Whether doorbells can come through pages that the device polls.
    fn polls_doorbells(&self) -> bool;

    /// From now on doorbells come through these pages, too, which are new; or no longer.
    fn set_doorbell_pages(&self, pages: Option<Arc<DoorbellPages>>);

    /// Changes the mappings. When it returns the device uses the new ones only. `is_removal`: some
    /// go.
    fn change_mappings(&self, is_removal: bool, change: &mut dyn FnMut(&mut MemoryMap));

    /// Whether the device may read and write memory, and interrupt (PCI command register, bit 2).
    fn set_bus_master(&self, is_allowed: bool);

    /// Nobody finds the function by an address any more, until software gives it one.
    fn forget_addresses(&self);

    /// Resets the function: everything but mappings and the MSI-X table is as after power-on.
    fn reset(&self);

    /// Masks all vectors, forgets what is pending and clears their addresses, as after power-on.
    fn reset_vectors(&self);
}

impl dyn ServedModel + '_ {
    /// As [`ServedModel::change_mappings`]; returns what `change` returns.
    pub fn with_mappings<T>(
        &self,
        is_removal: bool,
        change: impl FnOnce(&mut MemoryMap) -> T,
    ) -> Option<T> {
        let mut change = Some(change);
        let mut result = None;
        self.change_mappings(is_removal, &mut |map| {
            result = change.take().map(|change| change(map));
        });
        result
    }
}
