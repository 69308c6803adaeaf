//! Protection domains, thread domains and parent domains.

use super::super::boundary::{pointer, status};
use super::super::handle::Handle;
use super::super::objects::Context;
use crate::domain::{self, Domain, ThreadDomain};
use crate::errno::Errno;
use crate::ffi::abi::*;
use libc::c_int;

/// Gives a domain to the program.
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
    pointer(|| {
        // SAFETY: the program passes a context of this library.
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
    status(|| {
        // SAFETY: the program passes a PD of this library and uses it no more if this succeeds.
        unsafe {
            let claim = Handle::<ibv_pd, Domain>::claim(pd)?;
            claim.deallocate()?;
            claim.free();
        }
        Ok(())
    })
}

/// `ibv_alloc_td`.
pub(in super::super) unsafe extern "C" fn alloc_td(
    context: *mut ibv_context,
    attr: *mut ibv_td_init_attr,
) -> *mut ibv_td {
    pointer(|| {
        // SAFETY: the program's context and struct.
        let (body, attr) = unsafe { (Context::borrow(context)?, attr.as_ref()) };
        body.adapter.check()?;
        if attr.ok_or(Errno::INVALID)?.comp_mask != 0 {
            return Err(Errno::INVALID);
        }
        Ok(Handle::give(ibv_td { context }, ThreadDomain::default()).cast())
    })
}

/// `ibv_dealloc_td`.
pub(in super::super) unsafe extern "C" fn dealloc_td(td: *mut ibv_td) -> c_int {
    status(|| {
        // SAFETY: the program passes a thread domain of this library and uses it no more if this
        // succeeds.
        unsafe {
            let claim = Handle::<ibv_td, ThreadDomain>::claim(td)?;
            claim.check_unused()?;
            claim.free();
        }
        Ok(())
    })
}

/// `ibv_alloc_parent_domain`.
pub(in super::super) unsafe extern "C" fn alloc_parent_domain(
    context: *mut ibv_context,
    attr: *mut ibv_parent_domain_init_attr,
) -> *mut ibv_pd {
    pointer(|| {
        // SAFETY: the program's struct.
        let attr = unsafe { attr.as_ref() }.ok_or(Errno::INVALID)?;
        domain::check_parent(attr.comp_mask, attr.alloc.is_some(), attr.free.is_some())?;
        // SAFETY: the program's objects.
        let (domain, thread) = unsafe {
            let thread = match attr.td.is_null() {
                true => None,
                false => Some(Handle::<ibv_td, ThreadDomain>::borrow(attr.td)?),
            };
            (Handle::<ibv_pd, Domain>::borrow(attr.pd)?, thread)
        };
        Ok(give(context, domain.parent(thread)?))
    })
}
