//! Memory windows: bind, invalidate, and their fate when their queue pair is destroyed.
//!
//! A window is an entry of the memory protection table. A bind copies the region's translation into
//! it, so that an access through a window costs one look-up, like an access through a region. In
//! return the region must not change or disappear while it has windows: it counts them.

use std::collections::BTreeSet;

use ferroce_spec::context::{AccessRights, MemoryEntry, MemoryEntryWord};
use ferroce_spec::counter::Counter;
use ferroce_spec::wqe::BindSegment;

use super::{MemoryUnit, count_fault};
use crate::dma::Dma;
use crate::ports::host::Host;
use crate::translation::mpt::{index_of, with_variant};
use crate::translation::mtt::TranslationTable;
use crate::translation::protection::ProtectionFault;

/// The queue pair that binds or invalidates a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Binder {
    /// Protection domain of the queue pair.
    pub pd: u32,
    /// Its number.
    pub qpn: u32,
}

/// The bound windows of type 2: queue pair and index of the window.
///
/// A queue pair unbinds its windows when it is destroyed; otherwise a later one with the same
/// number would inherit them. A card keeps such a list as a chain through the table.
pub(super) type BoundWindows = BTreeSet<(u32, u32)>;

impl<M: TranslationTable> MemoryUnit<M> {
    /// Executes a BIND_WINDOW. Length zero: a window of type 1 is unbound, under its new key.
    pub fn bind<H: Host>(
        &mut self,
        binder: Binder,
        segment: &BindSegment,
        dma: &mut Dma<'_, H>,
    ) -> Result<(), ProtectionFault> {
        let result = self.bind_checked(binder, segment, dma);
        count_fault(result, dma)
    }

    fn bind_checked<H: Host>(
        &mut self,
        binder: Binder,
        segment: &BindSegment,
        dma: &mut Dma<'_, H>,
    ) -> Result<(), ProtectionFault> {
        let window = *self.mpt.entry(segment.r_key, dma)?;
        check_window(binder, &window, segment)?;
        if segment.length == 0 {
            return self.unbind(&window, segment.r_key, dma);
        }
        let region = *self.mpt.lookup(segment.l_key, dma)?;
        check_region(binder, &region, segment)?;
        self.unbind(&window, segment.r_key, dma)?;
        let counted = self.mpt.entry(segment.l_key, dma)?;
        counted.windows = counted.windows.saturating_add(1);
        *self.mpt.entry(segment.r_key, dma)? = bound_window(binder, &window, &region, segment);
        if window.word.window_type_2() {
            self.bound_windows
                .insert((binder.qpn, index_of(segment.r_key)));
        }
        dma.counters.add(Counter::windows_bound, 1);
        Ok(())
    }

    /// Executes a LOCAL_INVALIDATE. It applies only to a window of type 2, by the queue pair that
    /// bound it, or while the window is free. No work request of this device registers memory
    /// regions, so none invalidates them (IBTA vol 1, 10.6.5).
    pub fn invalidate<H: Host>(
        &mut self,
        binder: Binder,
        key: u32,
        dma: &mut Dma<'_, H>,
    ) -> Result<(), ProtectionFault> {
        let result = self.invalidate_checked(binder, key, dma);
        count_fault(result, dma)
    }

    /// Executes the invalidation that a peer requests with a SEND. As [`MemoryUnit::invalidate`],
    /// but a peer can only invalidate a bound window.
    pub fn invalidate_remotely<H: Host>(
        &mut self,
        binder: Binder,
        key: u32,
        dma: &mut Dma<'_, H>,
    ) -> Result<(), ProtectionFault> {
        let bound = match self.mpt.lookup(key, dma) {
            Ok(entry) if entry.word.bound() => Ok(()),
            Ok(_) => Err(ProtectionFault::Binding { key }),
            Err(fault) => Err(fault),
        };
        count_fault(bound, dma)?;
        self.invalidate(binder, key, dma)
    }

    fn invalidate_checked<H: Host>(
        &mut self,
        binder: Binder,
        key: u32,
        dma: &mut Dma<'_, H>,
    ) -> Result<(), ProtectionFault> {
        let window = *self.mpt.lookup(key, dma)?;
        if !window.word.window() || !window.word.window_type_2() {
            return Err(ProtectionFault::Binding { key });
        }
        if window.pd != binder.pd {
            return Err(ProtectionFault::ProtectionDomain { key });
        }
        if window.word.bound() && window.qpn != binder.qpn {
            return Err(ProtectionFault::QueuePair { key });
        }
        self.unbind(&window, key, dma)?;
        dma.counters.add(Counter::keys_invalidated, 1);
        Ok(())
    }

    /// Makes a window free, with the key `key`, and releases its region.
    pub(super) fn unbind<H: Host>(
        &mut self,
        window: &MemoryEntry,
        key: u32,
        dma: &mut Dma<'_, H>,
    ) -> Result<(), ProtectionFault> {
        if window.word.bound() {
            let region = self.mpt.entry(window.region_key, dma)?;
            region.windows = region.windows.saturating_sub(1);
            self.bound_windows.remove(&(window.qpn, index_of(key)));
        }
        *self.mpt.entry(key, dma)? = free_window(window, key);
        Ok(())
    }

    /// Returns the bound windows of type 2, in order: queue pair and index of the window.
    pub fn bound_windows(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.bound_windows.iter().copied()
    }

    /// Unbinds the windows that belong to a queue pair which is being destroyed.
    pub fn release_windows<H: Host>(&mut self, qpn: u32, dma: &mut Dma<'_, H>) {
        let own = (qpn, 0)..=(qpn, u32::MAX);
        while let Some(bound) = self.bound_windows.range(own.clone()).next().copied() {
            self.bound_windows.remove(&bound);
            let any_variant = with_variant(bound.1, 0);
            // If the table cannot be read, the next use of the window fails.
            if let Ok(window) = self.mpt.entry(any_variant, dma).copied() {
                let _ = self.unbind(&window, with_variant(bound.1, window.key), dma);
            }
        }
    }
}

/// Returns a window that grants nothing.
pub fn free_window(window: &MemoryEntry, key: u32) -> MemoryEntry {
    let mut word = MemoryEntryWord::default();
    word.set_valid(true);
    word.set_window(true);
    word.set_window_type_2(window.word.window_type_2());
    MemoryEntry {
        word,
        key,
        pd: window.pd,
        ..MemoryEntry::default()
    }
}

/// Returns the window after the bind.
fn bound_window(
    binder: Binder,
    window: &MemoryEntry,
    region: &MemoryEntry,
    segment: &BindSegment,
) -> MemoryEntry {
    let mut word = region.word;
    word.set_window(true);
    word.set_window_type_2(window.word.window_type_2());
    word.set_bound(true);
    let inside = segment.address - region.start;
    let contiguous = word.direct() || word.device_memory();
    let zero_based = segment.access.zero_based();
    MemoryEntry {
        word,
        key: segment.r_key,
        pd: window.pd,
        access: segment.access,
        start: if zero_based { 0 } else { segment.address },
        length: segment.length,
        translation: region
            .translation
            .wrapping_add(if contiguous { inside } else { 0 }),
        first_page_offset: region.first_page_offset.wrapping_add(if contiguous {
            0
        } else {
            inside
        }),
        region_key: region.key,
        qpn: if window.word.window_type_2() {
            binder.qpn
        } else {
            0
        },
        ..MemoryEntry::default()
    }
}

/// Checks that `binder` may bind the window as `segment` requests.
fn check_window(
    binder: Binder,
    window: &MemoryEntry,
    segment: &BindSegment,
) -> Result<(), ProtectionFault> {
    let key = segment.r_key;
    if !window.word.window() {
        return Err(ProtectionFault::InvalidKey { key });
    }
    // IBTA vol 1, C10-72.
    if window.pd != binder.pd {
        return Err(ProtectionFault::ProtectionDomain { key });
    }
    if !window.word.window_type_2() {
        // IBTA vol 1, o10-36.2.2: no zero based windows of type 1.
        return if segment.access.zero_based() {
            Err(ProtectionFault::Binding { key })
        } else {
            Ok(())
        };
    }
    // IBTA vol 1, o10-37.2.30: a window of type 2 must be invalidated before it is bound again; and
    // o10-37.2.40: a bind of zero bytes does not invalidate it.
    if window.word.bound() || segment.length == 0 {
        Err(ProtectionFault::Binding { key })
    } else {
        Ok(())
    }
}

/// Checks that the region allows a window as `segment` requests.
fn check_region(
    binder: Binder,
    region: &MemoryEntry,
    segment: &BindSegment,
) -> Result<(), ProtectionFault> {
    let key = segment.l_key;
    if region.word.window() {
        return Err(ProtectionFault::InvalidKey { key });
    }
    if region.pd != binder.pd {
        return Err(ProtectionFault::ProtectionDomain { key });
    }
    let access = segment.access;
    let changes = access.remote_write() || access.remote_atomic();
    // IBTA vol 1, C10-73 and C10-74. The remote rights of the region do not matter.
    if !region.access.window_bind() || changes && !region.access.local_write() {
        return Err(ProtectionFault::Rights { key });
    }
    if access.bits() & !window_rights().bits() != 0 {
        return Err(ProtectionFault::Rights { key });
    }
    // IBTA vol 1, C10-75.
    let (address, length) = (segment.address, segment.length);
    let inside = address.checked_sub(region.start);
    match inside {
        Some(inside) if inside <= region.length && length <= region.length - inside => Ok(()),
        _ => Err(ProtectionFault::Bounds { address, length }),
    }
}

/// Returns all rights that a window can grant.
fn window_rights() -> AccessRights {
    let mut rights = AccessRights::default();
    rights.set_remote_write(true);
    rights.set_remote_read(true);
    rights.set_remote_atomic(true);
    rights.set_relaxed_ordering(true);
    rights.set_zero_based(true);
    rights
}
