//! XRC domains: the state that several opens share, and the target QPs that may be opened again.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use ferroce_driver::{Device, QueuePair, XrcDomain};
use libc::c_int;
use parking_lot::Mutex;

use crate::errno::Errno;
use crate::os::descriptor::FileIdentity;

/// Domains of a device that were opened with a file, by file: opens of the same file share the
/// domain, which is on one function. Other processes have other functions, and so other domains.
#[derive(Default)]
pub struct DomainsByFile(Mutex<BTreeMap<FileIdentity, Weak<SharedXrcd>>>);

/// A domain, shared by all its opens.
pub struct SharedXrcd {
    pub domain: Arc<XrcDomain>,
    file: Option<FileIdentity>,
    /// Target QPs by number, for `ibv_open_qp`.
    targets: Mutex<BTreeMap<u32, Weak<QueuePair>>>,
}

impl DomainsByFile {
    /// Returns the domain of a file, or a new one, as `flags` of `open` say.
    ///
    /// # Errors
    /// `EINVAL` when `O_EXCL` finds a domain; `EAGAIN` when there is none and `O_CREAT` is not
    /// given; `EOPNOTSUPP` when it is on another function than `device`.
    pub fn open(
        &self,
        device: &Arc<Device>,
        file: FileIdentity,
        flags: c_int,
    ) -> Result<Arc<SharedXrcd>, Errno> {
        let mut domains = self.0.lock();
        let found = domains.get(&file).and_then(Weak::upgrade);
        match found {
            Some(_) if flags & libc::O_EXCL != 0 => {
                Err(Errno::INVALID.because("the file has a domain, and oflags has O_EXCL"))
            }
            Some(shared) if !Arc::ptr_eq(shared.domain.device(), device) => {
                let text = "the domain of the file is on another function of the device";
                Err(Errno::NOT_SUPPORTED.because(text))
            }
            Some(shared) => Ok(shared),
            None if flags & libc::O_CREAT == 0 => {
                Err(Errno::AGAIN.because("the file has no domain, and oflags lacks O_CREAT"))
            }
            None => {
                let shared = SharedXrcd::allocate(device, Some(file))?;
                domains.insert(file, Arc::downgrade(&shared));
                Ok(shared)
            }
        }
    }

    /// Deallocates a domain if `shared` is its last open.
    ///
    /// # Errors
    /// `EBUSY` while the domain has objects.
    pub fn close(&self, shared: &Arc<SharedXrcd>) -> Result<(), Errno> {
        let mut domains = self.0.lock();
        // The lock prevents another open meanwhile.
        if Arc::strong_count(shared) == 1 {
            shared.domain.dealloc()?;
            if let Some(file) = &shared.file {
                domains.remove(file);
            }
        }
        Ok(())
    }
}

impl SharedXrcd {
    /// Allocates a domain.
    ///
    /// # Errors
    /// The error of the device.
    pub fn allocate(device: &Arc<Device>, file: Option<FileIdentity>) -> Result<Arc<Self>, Errno> {
        Ok(Arc::new(Self {
            domain: XrcDomain::alloc(device)?,
            file,
            targets: Mutex::default(),
        }))
    }

    /// Returns the target QP with a number.
    pub fn target(&self, number: u32) -> Option<Arc<QueuePair>> {
        self.targets.lock().get(&number).and_then(Weak::upgrade)
    }

    /// Adds a new target QP, which may be opened again.
    pub fn add_target(&self, pair: &Arc<QueuePair>) {
        let mut targets = self.targets.lock();
        targets.insert(pair.number().0, Arc::downgrade(pair));
    }

    /// Releases a target QP; the last handle destroys it. Returns true if it did.
    pub fn release_target(&self, pair: &Arc<QueuePair>) -> Result<bool, Errno> {
        let mut targets = self.targets.lock();
        // The lock prevents another open meanwhile.
        let is_last = Arc::strong_count(pair) == 1;
        if is_last {
            pair.destroy()?;
            targets.remove(&pair.number().0);
        }
        Ok(is_last)
    }
}
