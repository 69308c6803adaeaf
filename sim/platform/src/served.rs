//! Models that can be served.

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use ferroce_driver::bus::Bus;

use crate::doorbells::polled::DoorbellPages;
use ferroce_host::mapping::FileIdentity;
use ferroce_host::memory::{MapChange, MemoryMap};

/// A model of a card, as the vfio-user server uses it: the bus, and operations that a process with
/// an exclusive card does not need.
pub trait ServedModel: Bus + Debug {
    /// Returns true if doorbells can come through pages that the device polls.
    fn polls_doorbells(&self) -> bool;

    /// Sets new shared pages for doorbells, or removes them.
    fn set_doorbell_pages(&self, pages: Option<Arc<DoorbellPages>>);

    /// Changes the mappings. When it returns the device uses the new ones only.
    fn change_mappings(&self, kind: MapChange, change: &mut dyn FnMut(&mut MemoryMap));

    /// Reports that mapped IOVAs are memory of `file` from `offset` on, until they are unmapped. A
    /// model without persistent memory does not use it.
    fn note_file(&self, iovas: Range<u64>, file: FileIdentity, offset: u64) {
        let _ = (iovas, file, offset);
    }

    /// Sets whether the device may read and write memory, and interrupt (PCI command register, bit
    /// 2).
    fn set_bus_master(&self, is_allowed: bool);

    /// Removes all addresses of the function from the fabric, until software gives it new ones.
    fn forget_addresses(&self);

    /// Resets the function: everything but mappings and the MSI-X table is as after power-on.
    fn reset(&self);

    /// Masks all vectors, clears pending ones and their addresses, as after power-on.
    fn reset_vectors(&self);

    /// Returns true if the card is pulled out: nothing of it responds.
    fn is_removed(&self) -> bool {
        false
    }
}

impl dyn ServedModel + '_ {
    /// Does the same as [`ServedModel::change_mappings`]; returns the result of `change`.
    pub fn with_mappings<T>(
        &self,
        kind: MapChange,
        change: impl FnOnce(&mut MemoryMap) -> T,
    ) -> Option<T> {
        let mut change = Some(change);
        let mut result = None;
        self.change_mappings(kind, &mut |map| {
            result = change.take().map(|change| change(map));
        });
        result
    }
}
