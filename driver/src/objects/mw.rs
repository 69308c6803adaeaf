//! Memory windows.

use std::sync::Arc;

use ferroce_spec::context::{MemoryEntry, MemoryEntryWord};
use parking_lot::Mutex;

use crate::error::Error;
use crate::identifier::RKey;
use crate::objects::pd::ProtectionDomain;
use crate::use_count::Lease;

/// Type of a memory window (IBTA vol 1, 10.6.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowType {
    /// Type 1: usable through any QP of its protection domain.
    One,
    /// Type 2B: usable through the QP that has bound it, and invalidated by its key.
    Two,
}

/// A memory window: remote rights to a part of a memory region, granted and revoked by work
/// requests.
pub struct MemoryWindow {
    pd: Arc<ProtectionDomain>,
    kind: WindowType,
    key: u32,
    /// `None` when deallocated.
    lease: Mutex<Option<Lease>>,
}

impl MemoryWindow {
    /// Allocates an unbound window.
    ///
    /// # Errors
    ///
    /// [`Error::NotSupported`] when the device has no windows, [`Error::NoResources`], and errors
    /// of the device.
    pub fn alloc(pd: &Arc<ProtectionDomain>, kind: WindowType) -> Result<Arc<Self>, Error> {
        let device = pd.device();
        if !device.limits().features.memory_windows() {
            let what = "memory windows";
            return Err(Error::NotSupported { what });
        }
        let lease = pd.lease()?;
        let mut word = MemoryEntryWord::default();
        word.set_valid(true);
        word.set_window(true);
        word.set_window_type_2(kind == WindowType::Two);
        let entry = MemoryEntry {
            word,
            key: device.next_key_variant().into(),
            pd: pd.number(),
            ..MemoryEntry::default()
        };
        let key = device.create_mr(&entry)?;
        Ok(Arc::new(Self {
            pd: Arc::clone(pd),
            kind,
            key,
            lease: Mutex::new(Some(lease)),
        }))
    }

    /// Returns the remote key at allocation. Each bind gives the window another variant of it
    /// ([`WindowBinding`](crate::WindowBinding)), which the poster keeps track of.
    pub fn rkey(&self) -> RKey {
        RKey(self.key)
    }

    /// Returns the type.
    pub fn window_type(&self) -> WindowType {
        self.kind
    }

    /// Returns the protection domain.
    pub fn pd(&self) -> &Arc<ProtectionDomain> {
        &self.pd
    }

    /// Deallocates the window; if it is bound, peers can no longer access the memory.
    ///
    /// # Errors
    ///
    /// Errors of the device, [`Error::Destroyed`] the second time.
    pub fn dealloc(&self) -> Result<(), Error> {
        let mut lease = self.lease.lock();
        if lease.is_none() {
            return Err(Error::Destroyed);
        }
        self.pd.device().destroy_mr(self.key)?;
        *lease = None;
        Ok(())
    }
}

impl Drop for MemoryWindow {
    fn drop(&mut self) {
        match self.dealloc() {
            Ok(()) | Err(Error::Destroyed) => {}
            Err(error) => tracing::warn!(key = self.key, %error, "MW not deallocated"),
        }
    }
}
