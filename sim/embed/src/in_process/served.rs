//! A function that another process uses: the part of `ferroce serve` beyond the bus.

use std::sync::Arc;

use ferroce_host::memory::{MapChange, MemoryMap};
use ferroce_model::Function as _;
use ferroce_platform::doorbells::polled::{DoorbellPages, PageTaker};
use ferroce_platform::served::ServedModel;
use ferroce_spec::register::{Control, MSIX_ENTRY_SIZE, MSIX_TABLE_OFFSET, MSIX_VECTOR_MASKED};
use ferroce_spec::register::{VECTOR_COUNT, offset};

use super::{InProcess, Model};

/// A reset completes within this many runs of the model: the first run performs it.
const RESET_RUNS: u32 = 4;

impl Model {
    /// Publishes that the device sleeps. Returns false if a doorbell is pending.
    pub(super) fn fall_asleep(&mut self) -> bool {
        let Some(taker) = &mut self.host.pages else {
            return true;
        };
        taker.pages().set_sleeping(true);
        taker.is_quiet()
    }

    /// Publishes that the device polls its pages.
    pub(super) fn wake_up(&mut self) {
        if let Some(taker) = &self.host.pages {
            taker.pages().set_sleeping(false);
        }
    }

    /// Returns the mappings, even while bus mastering is disabled.
    pub(super) fn mappings(&mut self) -> &mut MemoryMap {
        let host = &mut self.host;
        host.parked.as_mut().unwrap_or(&mut host.memory)
    }

    pub(super) fn forget_doorbells(&mut self) {
        self.host.direct.clear();
        while self.host.taker.next(&self.host.doorbells).is_some() {}
        if let Some(taker) = &mut self.host.pages {
            taker.forget();
        }
    }
}

impl InProcess {
    /// Sets new shared doorbell pages, or removes them.
    pub fn set_doorbell_pages(&self, pages: Option<Arc<DoorbellPages>>) {
        let mut model = self.model.lock();
        if let Some(pages) = &pages {
            // The background thread may have fallen asleep before the pages existed.
            pages.set_sleeping(true);
        }
        model.host.pages = pages.map(PageTaker::new);
        self.unlock(model);
    }

    /// Changes the mappings. When it returns, the device uses only the new ones.
    pub fn with_mappings<T>(&self, change: impl FnOnce(&mut MemoryMap) -> T) -> T {
        let mut model = self.model.lock();
        let result = change(model.mappings());
        self.unlock(model);
        result
    }

    /// Sets whether the device may access memory and send interrupts (bus master enable, bit 2 of
    /// the PCI command register).
    pub fn set_bus_master(&self, is_allowed: bool) {
        let mut model = self.model.lock();
        let host = &mut model.host;
        match (is_allowed, host.parked.take()) {
            (true, Some(parked)) => host.memory = parked,
            (false, None) => host.parked = Some(std::mem::take(&mut host.memory)),
            (_, parked) => host.parked = parked,
        }
        self.unlock(model);
    }

    /// Removes all addresses of the function from the fabric until software sets new ones.
    pub fn forget_addresses(&self) {
        self.registry.forget_gids(self.place);
    }

    /// Handles a notification from software to a sleeping device: takes its doorbells, and lets the
    /// background thread check for more.
    pub fn wake(&self) {
        self.model.lock().wake_up();
        self.words.wake_background(self.clock.ticks());
        self.try_run();
    }

    /// Resets the function to its power-on state, except for mappings and the MSI-X table.
    pub fn reset(&self) {
        let mut model = self.model.lock();
        self.keep_counters(&mut model);
        model.request_reset();
        for _ in 0..RESET_RUNS {
            self.run(model);
            model = self.model.lock();
            let control = model.nic.read32(self.clock.now(), offset::control);
            if !Control::from_bits(control).reset() {
                break;
            }
        }
        // Doorbells from before the end of the reset refer to objects that no longer exist.
        model.forget_doorbells();
    }

    /// Masks all vectors, clears pending ones and their addresses, as after power-on. Removes all
    /// interrupt handlers.
    pub fn reset_vectors(&self) {
        let entries = (0..VECTOR_COUNT).map(|n| MSIX_TABLE_OFFSET + u32::from(n) * MSIX_ENTRY_SIZE);
        let control = MSIX_ENTRY_SIZE - 4;
        let mut model = self.model.lock();
        // Sends pending interrupts, which have no receiver any more.
        for entry in entries.clone() {
            model.nic.write32(entry + control, 0);
        }
        self.run(model);
        let mut model = self.model.lock();
        for entry in entries {
            model.nic.write32(entry + control, MSIX_VECTOR_MASKED);
            for word in (0..control).step_by(4) {
                model.nic.write32(entry + word, 0);
            }
        }
    }
}

impl ServedModel for InProcess {
    fn polls_doorbells(&self) -> bool {
        true
    }

    fn set_doorbell_pages(&self, pages: Option<Arc<DoorbellPages>>) {
        self.set_doorbell_pages(pages);
    }

    fn change_mappings(&self, _kind: MapChange, change: &mut dyn FnMut(&mut MemoryMap)) {
        self.with_mappings(change);
    }

    fn set_bus_master(&self, is_allowed: bool) {
        self.set_bus_master(is_allowed);
    }

    fn forget_addresses(&self) {
        self.forget_addresses();
    }

    fn reset(&self) {
        self.reset();
    }

    fn reset_vectors(&self) {
        self.reset_vectors();
    }

    fn is_removed(&self) -> bool {
        self.is_removed()
    }
}
