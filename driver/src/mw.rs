//! Memory windows.

use crate::error::Error;
use crate::identifier::RKey;
use crate::pd::ProtectionDomain;
use crate::use_count::Lease;
use ferroce_spec::command::CommandOpcode;
use ferroce_spec::context::{MemoryEntry, MemoryEntryWord};
use parking_lot::Mutex;
use std::sync::Arc;

/// Type of a memory window (IBTA vol 1, 10.6.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowType {
    /// Type 1: reached through any QP of its protection domain.
    One,
    /// Type 2B: reached through the QP that has bound it, and invalidated by its key.
    Two,
}

/// A memory window: remote rights to a part of a memory region, given and taken back by work
/// requests.
pub struct MemoryWindow {
    pd: Arc<ProtectionDomain>,
    kind: WindowType,
    key: u32,
    /// Gone when deallocated.
    lease: Mutex<Option<Lease>>,
}

impl MemoryWindow {
    /// Allocates a window, bound to nothing.
    ///
    /// # Errors
    ///
    /// [`Error::NotSupported`] when the device has no windows, [`Error::NoResources`], and what the
    /// device answers.
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

    /// Remote key as it was allocated. Each bind gives the window another variant of it
    /// ([`WindowBinding`](crate::WindowBinding)), of which the poster keeps account.
    pub fn rkey(&self) -> RKey {
        RKey(self.key)
    }

    /// Type.
    pub fn window_type(&self) -> WindowType {
        self.kind
    }

    /// Protection domain.
    pub fn pd(&self) -> &Arc<ProtectionDomain> {
        &self.pd
    }

    /// Deallocates the window; if it is bound, peers do not reach the memory any more.
    ///
    /// # Errors
    ///
    /// What the device answers, [`Error::Destroyed`] the second time.
    pub fn dealloc(&self) -> Result<(), Error> {
        let mut lease = self.lease.lock();
        if lease.is_none() {
            return Err(Error::Destroyed);
        }
        let opcode = CommandOpcode::DESTROY_MR;
        self.pd.device().destroy(opcode, self.key.into())?;
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
