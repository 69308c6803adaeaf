//! Shared receive queues. Destroying is in `blocking.rs`.

use libc::{c_int, c_void};

use super::super::boundary::{pointer, status};
use super::super::handle::{Handle, zeroed};
use super::super::objects::Cq;
use crate::abi::*;
use crate::domain::Domain;
use crate::errno::Errno;
use crate::srq::{self, Kind, Srq};
use crate::xrc::Xrcd;

/// Creates an SRQ; sets `attr` to its actual size.
///
/// # Safety
/// `pd` and the objects in `xrc` are null or objects of this library.
unsafe fn create(
    pd: *mut ibv_pd,
    srq_context: *mut c_void,
    xrc: Option<(*mut ibv_xrcd, *mut ibv_cq)>,
    attr: &mut ibv_srq_attr,
) -> Result<*mut ibv_srq, Errno> {
    // SAFETY: the caller guarantees that `pd` and the objects in `xrc` are null or objects of this
    // library.
    let (domain, xrc) = unsafe {
        let xrc = match xrc {
            Some((xrcd, cq)) => Some((
                Handle::<ibv_xrcd, Xrcd>::borrow(xrcd)?,
                &**Handle::<ibv_cq_ex, Cq>::look_up(cq)?,
            )),
            None => None,
        };
        (Handle::<ibv_pd, Domain>::look_up(pd)?, xrc)
    };
    let inner = Srq::create(domain, xrc, attr)?;
    // SAFETY: the struct has integers, pointers, and mutex and condition, which zeros initialise.
    let mut public: ibv_srq = unsafe { zeroed() };
    // SAFETY: `look_up` has accepted the PD, which is alive during the call (contract of
    // `ibv_create_srq`).
    public.context = unsafe { (*pd).context };
    public.srq_context = srq_context;
    public.pd = pd;
    public.handle = super::next_handle();
    let source = inner.source.clone();
    let srq: *mut ibv_srq = Handle::give(public, inner).cast();
    source.set_address(srq.expose_provenance());
    Ok(srq)
}

/// `ibv_create_srq`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_srq(
    pd: *mut ibv_pd,
    attr: *mut ibv_srq_init_attr,
) -> *mut ibv_srq {
    pointer("ibv_create_srq", || {
        // SAFETY: contract of `ibv_create_srq`: the PD is null or a live domain of this library,
        // and the struct null or valid; null is refused.
        unsafe {
            let attr = attr.as_mut().ok_or_else(|| Errno::null("attr"))?;
            create(pd, attr.srq_context, None, &mut attr.attr)
        }
    })
}

/// `ibv_create_srq_ex`.
pub(super) unsafe extern "C" fn create_srq_ex(
    _context: *mut ibv_context,
    attr: *mut ibv_srq_init_attr_ex,
) -> *mut ibv_srq {
    pointer("ibv_create_srq_ex", || {
        // SAFETY: contract of `ibv_create_srq_ex`: the struct is null or valid; null is refused.
        let attr = unsafe { attr.as_mut() }.ok_or_else(|| Errno::null("attr"))?;
        let xrc = match srq::check_extended(attr)? {
            Kind::Basic => None,
            Kind::Xrc => Some((attr.xrcd, attr.cq)),
        };
        // SAFETY: contract of `ibv_create_srq_ex`: the program's objects are null or live objects
        // of this library; null is refused where an object is required.
        unsafe { create(attr.pd, attr.srq_context, xrc, &mut attr.attr) }
    })
}

/// `ibv_modify_srq`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_modify_srq(
    srq: *mut ibv_srq,
    attr: *mut ibv_srq_attr,
    mask: c_int,
) -> c_int {
    status("ibv_modify_srq", || {
        // SAFETY: contract of `ibv_modify_srq`: the SRQ is null or a live SRQ of this library, and
        // the struct null or valid; null is refused.
        let (body, attr) = unsafe { (Handle::<ibv_srq, Srq>::look_up(srq)?, attr.as_ref()) };
        body.modify(attr.ok_or_else(|| Errno::null("attr"))?, mask)
    })
}

/// `ibv_query_srq`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_srq(srq: *mut ibv_srq, attr: *mut ibv_srq_attr) -> c_int {
    status("ibv_query_srq", || {
        // SAFETY: contract of `ibv_query_srq`: the SRQ is null or a live SRQ of this library, and
        // the struct null or valid; null is refused.
        let (body, attr) = unsafe { (Handle::<ibv_srq, Srq>::look_up(srq)?, attr.as_mut()) };
        *attr.ok_or_else(|| Errno::null("attr"))? = body.query()?;
        Ok(())
    })
}

/// `ibv_get_srq_num`: only SRQs for XRC have a number that a peer can use.
pub(super) unsafe extern "C" fn get_srq_num(srq: *mut ibv_srq, number: *mut u32) -> c_int {
    status("ibv_get_srq_num", || {
        // SAFETY: contract of `ibv_get_srq_num`: the SRQ is null or a live SRQ of this library, and
        // the pointer null or valid; null is refused.
        let (body, number) = unsafe { (Handle::<ibv_srq, Srq>::look_up(srq)?, number.as_mut()) };
        body.adapter.check()?;
        if !body.is_xrc {
            return Err(Errno::INVALID.because("the SRQ is not one for XRC"));
        }
        *number.ok_or_else(|| Errno::null("number"))? = body.queue.number().0;
        Ok(())
    })
}
