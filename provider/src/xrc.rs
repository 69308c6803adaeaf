//! XRC domains: the state that several opens share, and the target QPs that may be opened again.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use ferroce_driver::{Lease, QueuePair, UseCount, XrcDomain};
use libc::c_int;
use parking_lot::Mutex;

use crate::adapter::Adapter;
use crate::errno::Errno;
use crate::ffi::FileIdentity;
use crate::ffi::abi::*;

/// Domains of an adapter that were opened with a file, by file: opens of the same file share the
/// domain. Other processes have other NIC functions, and so other domains.
#[derive(Default)]
pub struct DomainsByFile(Mutex<BTreeMap<FileIdentity, Weak<SharedXrcd>>>);

/// Body of `struct ibv_xrcd`: one open of a domain.
pub struct Xrcd {
    pub adapter: Arc<Adapter>,
    pub shared: Arc<SharedXrcd>,
    users: UseCount,
}

/// A domain, shared by all its opens.
pub struct SharedXrcd {
    pub domain: Arc<XrcDomain>,
    file: Option<FileIdentity>,
    /// Target QPs by number, for `ibv_open_qp`.
    targets: Mutex<BTreeMap<u32, Weak<QueuePair>>>,
}

impl Xrcd {
    /// `ibv_open_xrcd`.
    ///
    /// # Errors
    /// `EINVAL` when an attribute is missing, or when `O_EXCL` finds a domain; `EBADF` for an
    /// invalid descriptor; `EAGAIN` when there is no domain and `O_CREAT` is not given.
    pub fn open(adapter: &Arc<Adapter>, attr: &ibv_xrcd_init_attr) -> Result<Self, Errno> {
        const REQUIRED: u32 = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
        if attr.comp_mask != REQUIRED {
            return Err(Errno::INVALID);
        }
        adapter.check()?;
        let shared = if attr.fd == -1 {
            SharedXrcd::allocate(adapter, None)?
        } else {
            Self::open_file(adapter, FileIdentity::of(attr.fd)?, attr.oflags)?
        };
        Ok(Self {
            adapter: adapter.clone(),
            shared,
            users: UseCount::default(),
        })
    }

    fn open_file(
        adapter: &Arc<Adapter>,
        file: FileIdentity,
        flags: c_int,
    ) -> Result<Arc<SharedXrcd>, Errno> {
        let mut domains = adapter.xrc_domains().0.lock();
        let found = domains.get(&file).and_then(Weak::upgrade);
        match found {
            Some(_) if flags & libc::O_EXCL != 0 => Err(Errno::INVALID),
            Some(shared) => Ok(shared),
            None if flags & libc::O_CREAT == 0 => Err(Errno::AGAIN),
            None => {
                let shared = SharedXrcd::allocate(adapter, Some(file))?;
                domains.insert(file, Arc::downgrade(&shared));
                Ok(shared)
            }
        }
    }

    /// Adds a user of this open.
    pub fn lease(&self) -> Lease {
        self.users.lease()
    }

    /// `ibv_close_xrcd`: the last close deallocates the domain.
    ///
    /// # Errors
    /// `EBUSY` while objects that were made with this open exist, or, for the last open, while the
    /// domain has any.
    pub fn close(&self) -> Result<(), Errno> {
        self.adapter.check()?;
        if self.users.is_used() {
            return Err(Errno::BUSY);
        }
        let mut domains = self.adapter.xrc_domains().0.lock();
        // The lock prevents another open meanwhile.
        if Arc::strong_count(&self.shared) == 1 {
            self.shared.domain.dealloc()?;
            if let Some(file) = &self.shared.file {
                domains.remove(file);
            }
        }
        Ok(())
    }

    /// `ibv_open_qp`: returns the target QP with that number.
    ///
    /// # Errors
    /// `EINVAL` when the domain has none.
    pub fn target(&self, number: u32) -> Result<Arc<QueuePair>, Errno> {
        let targets = self.shared.targets.lock();
        let target = targets.get(&number).and_then(Weak::upgrade);
        target.ok_or(Errno::INVALID)
    }
}

impl SharedXrcd {
    fn allocate(adapter: &Arc<Adapter>, file: Option<FileIdentity>) -> Result<Arc<Self>, Errno> {
        Ok(Arc::new(Self {
            domain: XrcDomain::alloc(adapter.device()?)?,
            file,
            targets: Mutex::default(),
        }))
    }

    /// Adds a new target QP, which may be opened again.
    pub fn add_target(&self, pair: &Arc<QueuePair>) {
        let mut targets = self.targets.lock();
        targets.insert(pair.number().0, Arc::downgrade(pair));
    }

    /// Releases a target QP; the last handle destroys it.
    pub fn release_target(&self, pair: &Arc<QueuePair>) -> Result<(), Errno> {
        let mut targets = self.targets.lock();
        // The lock prevents another open meanwhile.
        if Arc::strong_count(pair) == 1 {
            pair.destroy()?;
            targets.remove(&pair.number().0);
        }
        Ok(())
    }
}
