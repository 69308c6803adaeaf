//! Page faults of on-demand regions: events of the device, and the answers.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use ferroce_spec::context::KEY_VARIANT_BITS;
use ferroce_spec::register::PageFaultAnswer;
use parking_lot::Mutex;

use crate::bus::Bus;
use crate::control::mmio;

/// The pages of an on-demand region.
pub(crate) trait Pages: Send + Sync {
    /// Brings a page into memory, and lets the device see it. Returns false if the program has no
    /// such memory, or none that permits the region's accesses.
    fn serve(&self, page: u64) -> bool;
}

/// The on-demand regions whose pages the device knows.
pub(crate) struct PageFaults {
    bus: Arc<dyn Bus>,
    regions: Mutex<BTreeMap<u32, Weak<dyn Pages>>>,
    /// Events answered so far.
    answered: Mutex<u32>,
}

impl PageFaults {
    pub(crate) fn new(bus: &Arc<dyn Bus>) -> Self {
        Self {
            bus: Arc::clone(bus),
            regions: Mutex::default(),
            answered: Mutex::default(),
        }
    }

    /// Adds the pages of the region with this key.
    pub(crate) fn add(&self, key: u32, pages: Weak<dyn Pages>) {
        self.regions.lock().insert(key >> KEY_VARIANT_BITS, pages);
    }

    /// Removes the region with this key.
    pub(crate) fn remove(&self, key: u32) {
        self.regions.lock().remove(&(key >> KEY_VARIANT_BITS));
    }

    /// Handles the event of a page fault. The access to a region that is gone fails when the device
    /// tries it again.
    pub(crate) fn serve(&self, key: u32, page: u32) {
        let mut answered = self.answered.lock();
        let region = self.regions.lock().get(&(key >> KEY_VARIANT_BITS)).cloned();
        let pages = region.and_then(|region| region.upgrade());
        let is_there = pages.is_none_or(|pages| pages.serve(page.into()));
        if !is_there {
            tracing::info!(key, page, "an on-demand region has no memory at this page");
        }
        *answered = answered.wrapping_add(1) & PageFaultAnswer::COUNT_MASK;
        let mut answer = PageFaultAnswer::default();
        answer.set_count(*answered);
        answer.set_refused(!is_there);
        mmio::PAGE_FAULT_ANSWER.write(&*self.bus, answer);
    }
}
