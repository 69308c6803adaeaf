//! Protection domains, thread domains, and parent domains, which combine them.

use std::sync::Arc;

use ferroce_driver::{Device, Lease, ProtectionDomain, UseCount};

use crate::abi::{
    IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS, IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC,
    IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT,
};
use crate::adapter::Adapter;
use crate::errno::{Errno, within};
use crate::event::EventQueue;

/// Body of `struct ibv_pd`: a protection domain, or a parent domain, which has the protection of
/// the domain that it was made from.
pub struct Domain {
    pub adapter: Arc<Adapter>,
    pub protection: Arc<ProtectionDomain>,
    /// The context's async queue, for QPs and SRQs.
    pub events: Arc<EventQueue>,
    users: UseCount,
    /// Origin of a parent domain.
    origin: Option<Origin>,
}

struct Origin {
    _domain: Lease,
    _thread: Option<Lease>,
}

impl Domain {
    /// Allocates a protection domain.
    pub fn allocate(adapter: &Arc<Adapter>, events: &Arc<EventQueue>) -> Result<Self, Errno> {
        Ok(Self {
            adapter: adapter.clone(),
            protection: Device::alloc_pd(adapter.device()?)?,
            events: events.clone(),
            users: UseCount::default(),
            origin: None,
        })
    }

    /// Returns a parent domain of this one.
    ///
    /// The promise of a thread domain, that only one thread uses it, has no effect: uncontended
    /// locks of queues cost next to nothing.
    pub fn parent(&self, thread: Option<&ThreadDomain>) -> Result<Self, Errno> {
        self.adapter.check()?;
        Ok(Self {
            adapter: self.adapter.clone(),
            protection: self.protection.clone(),
            events: self.events.clone(),
            users: UseCount::default(),
            origin: Some(Origin {
                _domain: self.lease(),
                _thread: thread.map(|thread| thread.users.lease()),
            }),
        })
    }

    /// Returns true if this is a parent domain.
    pub fn is_parent(&self) -> bool {
        self.origin.is_some()
    }

    /// Adds a user.
    pub fn lease(&self) -> Lease {
        self.users.lease()
    }

    /// Deallocates the domain.
    ///
    /// # Errors
    /// `EBUSY` while objects that were made from it exist.
    pub fn deallocate(&self) -> Result<(), Errno> {
        self.adapter.check()?;
        if self.users.is_used() {
            return Err(
                Errno::BUSY.because("the PD has MRs, QPs, SRQs, windows or address handles")
            );
        }
        match self.origin {
            Some(_) => Ok(()),
            None => Ok(self.protection.dealloc()?),
        }
    }
}

/// Body of `struct ibv_td`.
#[derive(Default)]
pub struct ThreadDomain {
    users: UseCount,
}

impl ThreadDomain {
    /// Checks that the thread domain is unused.
    ///
    /// # Errors
    /// `EBUSY` while a parent domain uses it.
    pub fn check_unused(&self) -> Result<(), Errno> {
        if self.users.is_used() {
            return Err(Errno::BUSY.because("a parent domain uses the thread domain"));
        }
        Ok(())
    }
}

/// Checks the `comp_mask` of `ibv_alloc_parent_domain`, and that allocators come in pairs.
///
/// Allocators are accepted and never called: the driver allocates the memory of queues.
pub fn check_parent(comp_mask: u32, has_alloc: bool, has_free: bool) -> Result<(), Errno> {
    // The last one changes memory only for devices that confidential guests must not trust.
    const KNOWN: u32 = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS
        | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT
        | IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC;
    let allocators = comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS != 0;
    // Programs go on without a parent domain after this errno.
    within(Errno::NOT_SUPPORTED, "attr->comp_mask", comp_mask, KNOWN)?;
    if allocators && !(has_alloc && has_free) {
        return Err(Errno::INVALID.because("attr->alloc and attr->free come in pairs"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_for_a_parent_domain() {
        let cc = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC;
        let allocators = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS;
        assert_eq!(check_parent(cc | allocators, true, true), Ok(()));
        let number = |result: Result<(), Errno>| result.map_err(Errno::number);
        assert_eq!(
            number(check_parent(allocators, true, false)),
            Err(libc::EINVAL)
        );
        assert_eq!(
            number(check_parent(cc << 1, true, true)),
            Err(libc::EOPNOTSUPP)
        );
    }
}
