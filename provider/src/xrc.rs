//! Opens of XRC domains.

use std::sync::Arc;

use ferroce_driver::{Lease, QueuePair, UseCount};

use crate::abi::*;
use crate::adapter::Adapter;
use crate::errno::{Errno, Shown};
use crate::os::descriptor::FileIdentity;
use crate::xrc_domains::SharedXrcd;

/// Body of `struct ibv_xrcd`: one open of a domain.
pub struct Xrcd {
    pub adapter: Arc<Adapter>,
    pub shared: Arc<SharedXrcd>,
    users: UseCount,
}

impl Xrcd {
    /// `ibv_open_xrcd`.
    ///
    /// # Errors
    /// `EINVAL` when an attribute is missing, or when `O_EXCL` finds a domain; `EBADF` for an
    /// invalid descriptor; `EAGAIN` when there is no domain and `O_CREAT` is not given;
    /// `EOPNOTSUPP` when the domain of the file is on another function of the device.
    pub fn open(adapter: &Arc<Adapter>, attr: &ibv_xrcd_init_attr) -> Result<Self, Errno> {
        const REQUIRED: u32 = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
        if attr.comp_mask != REQUIRED {
            let mask = Shown::Bits(attr.comp_mask.into());
            let right = "IBV_XRCD_INIT_ATTR_FD and IBV_XRCD_INIT_ATTR_OFLAGS";
            return Err(Errno::wrong("attr->comp_mask", mask, right));
        }
        let device = adapter.device()?;
        let shared = if attr.fd == -1 {
            SharedXrcd::allocate(device, None)?
        } else {
            let file = FileIdentity::of(attr.fd)?;
            adapter.xrc_domains().open(device, file, attr.oflags)?
        };
        Ok(Self {
            adapter: adapter.clone(),
            shared,
            users: UseCount::default(),
        })
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
            return Err(Errno::BUSY.because("the domain has QPs or SRQs"));
        }
        self.adapter.xrc_domains().close(&self.shared)
    }

    /// `ibv_open_qp`: returns the target QP with that number.
    ///
    /// # Errors
    /// `EINVAL` when the domain has none.
    pub fn target(&self, number: u32) -> Result<Arc<QueuePair>, Errno> {
        let found = self.shared.target(number);
        found.ok_or_else(|| Errno::wrong("attr->qp_num", number, "a target QP of this domain"))
    }
}
