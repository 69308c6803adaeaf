//! Protection domains, thread domains and parent domains.

use libc::c_int;

use super::super::boundary::{pointer, status};
use super::super::handle::Handle;
use super::super::objects::Context;
use crate::abi::*;
use crate::domain::{self, Domain, ThreadDomain};
use crate::errno::{Errno, within};

/// Creates the program's handle of a domain.
fn give(context: *mut ibv_context, domain: Domain) -> *mut ibv_pd {
    let public = ibv_pd {
        context,
        handle: super::next_handle(),
    };
    Handle::give(public, domain).cast()
}

/// `ibv_alloc_pd`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_alloc_pd(context: *mut ibv_context) -> *mut ibv_pd {
    pointer("ibv_alloc_pd", || {
        // SAFETY: contract of `ibv_alloc_pd`: the program passes null or an open context of this
        // library; `borrow` refuses null.
        let body = unsafe { Context::borrow(context)? };
        Ok(give(
            context,
            Domain::allocate(&body.adapter, &body.events)?,
        ))
    })
}

/// `ibv_dealloc_pd`, also for parent domains.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_dealloc_pd(pd: *mut ibv_pd) -> c_int {
    status("ibv_dealloc_pd", || {
        // SAFETY: contract of `ibv_dealloc_pd`: the program passes null or a PD of this library,
        // and does not use it any more if this succeeds; `claim` refuses one that is not live.
        unsafe {
            let claim = Handle::<ibv_pd, Domain>::claim(pd)?;
            claim.deallocate()?;
            claim.free();
        }
        Ok(())
    })
}

/// `ibv_alloc_td`.
pub(super) unsafe extern "C" fn alloc_td(
    context: *mut ibv_context,
    attr: *mut ibv_td_init_attr,
) -> *mut ibv_td {
    pointer("ibv_alloc_td", || {
        // SAFETY: contract of `ibv_alloc_td`: the context is null or an open context of this
        // library, and the struct null or valid; null is refused.
        let (body, attr) = unsafe { (Context::borrow(context)?, attr.as_ref()) };
        body.adapter.check()?;
        let attr = attr.ok_or_else(|| Errno::null("attr"))?;
        within(Errno::INVALID, "attr->comp_mask", attr.comp_mask, 0_u64)?;
        Ok(Handle::give(ibv_td { context }, ThreadDomain::default()).cast())
    })
}

/// `ibv_dealloc_td`.
pub(super) unsafe extern "C" fn dealloc_td(td: *mut ibv_td) -> c_int {
    status("ibv_dealloc_td", || {
        // SAFETY: contract of `ibv_dealloc_td`: the program passes null or a thread domain of this
        // library, and does not use it any more if this succeeds; `claim` refuses one that is not
        // live.
        unsafe {
            let claim = Handle::<ibv_td, ThreadDomain>::claim(td)?;
            claim.check_unused()?;
            claim.free();
        }
        Ok(())
    })
}

/// `ibv_alloc_parent_domain`.
pub(super) unsafe extern "C" fn alloc_parent_domain(
    context: *mut ibv_context,
    attr: *mut ibv_parent_domain_init_attr,
) -> *mut ibv_pd {
    pointer("ibv_alloc_parent_domain", || {
        // SAFETY: contract of `ibv_alloc_parent_domain`: the struct is null or valid; null is
        // refused.
        let attr = unsafe { attr.as_ref() }.ok_or_else(|| Errno::null("attr"))?;
        domain::check_parent(attr.comp_mask, attr.alloc.is_some(), attr.free.is_some())?;
        // SAFETY: contract of `ibv_alloc_parent_domain`: the program's objects are null or live
        // objects of this library; null is refused where an object is required.
        let (domain, thread) = unsafe {
            let thread = if attr.td.is_null() {
                None
            } else {
                Some(Handle::<ibv_td, ThreadDomain>::borrow(attr.td)?)
            };
            (Handle::<ibv_pd, Domain>::look_up(attr.pd)?, thread)
        };
        Ok(give(context, domain.parent(thread)?))
    })
}
