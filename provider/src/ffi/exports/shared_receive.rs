//! Shared receive queues. Destroying is in `blocking.rs`.

use super::super::boundary::{pointer, status};
use super::super::handle::{Handle, zeroed};
use super::super::objects::Cq;
use crate::domain::Domain;
use crate::errno::Errno;
use crate::ffi::abi::*;
use crate::srq::{self, Kind, Srq};
use crate::xrc::Xrcd;
use libc::{c_int, c_void};

/// Creates an SRQ; `attr` becomes what was really given.
///
/// # Safety
/// `pd` and the objects in `xrc` are null or objects of this library.
unsafe fn create(
    pd: *mut ibv_pd,
    srq_context: *mut c_void,
    xrc: Option<(*mut ibv_xrcd, *mut ibv_cq)>,
    attr: &mut ibv_srq_attr,
) -> Result<*mut ibv_srq, Errno> {
    // SAFETY: by the contract.
    let (domain, xrc) = unsafe {
        let xrc = match xrc {
            Some((xrcd, cq)) => Some((
                Handle::<ibv_xrcd, Xrcd>::borrow(xrcd)?,
                &**Handle::<ibv_cq_ex, Cq>::borrow(cq)?,
            )),
            None => None,
        };
        (Handle::<ibv_pd, Domain>::borrow(pd)?, xrc)
    };
    let inner = Srq::create(domain, xrc, attr)?;
    // SAFETY: the struct has integers, pointers, and mutex and condition, which zeros initialise.
    let mut public: ibv_srq = unsafe { zeroed() };
    // SAFETY: the program's PD is alive.
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
    pointer(|| {
        // SAFETY: the program's object and struct.
        unsafe {
            let attr = attr.as_mut().ok_or(Errno::INVALID)?;
            create(pd, attr.srq_context, None, &mut attr.attr)
        }
    })
}

/// `ibv_create_srq_ex`.
pub(in super::super) unsafe extern "C" fn create_srq_ex(
    _context: *mut ibv_context,
    attr: *mut ibv_srq_init_attr_ex,
) -> *mut ibv_srq {
    pointer(|| {
        // SAFETY: the program's struct.
        let attr = unsafe { attr.as_mut() }.ok_or(Errno::INVALID)?;
        let xrc = match srq::check_extended(attr)? {
            Kind::Basic => None,
            Kind::Xrc => Some((attr.xrcd, attr.cq)),
        };
        // SAFETY: the program's objects.
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
    status(|| {
        // SAFETY: the program's SRQ and struct.
        let (body, attr) = unsafe { (Handle::<ibv_srq, Srq>::borrow(srq)?, attr.as_ref()) };
        body.modify(attr.ok_or(Errno::INVALID)?, mask)
    })
}

/// `ibv_query_srq`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_srq(srq: *mut ibv_srq, attr: *mut ibv_srq_attr) -> c_int {
    status(|| {
        // SAFETY: the program's SRQ and struct.
        let (body, attr) = unsafe { (Handle::<ibv_srq, Srq>::borrow(srq)?, attr.as_mut()) };
        *attr.ok_or(Errno::INVALID)? = body.query()?;
        Ok(())
    })
}

/// `ibv_get_srq_num`: only SRQs for XRC have a number that means something to a peer.
pub(in super::super) unsafe extern "C" fn get_srq_num(
    srq: *mut ibv_srq,
    number: *mut u32,
) -> c_int {
    status(|| {
        // SAFETY: the program's SRQ and number.
        let (body, number) = unsafe { (Handle::<ibv_srq, Srq>::borrow(srq)?, number.as_mut()) };
        body.adapter.check()?;
        if !body.is_xrc {
            return Err(Errno::INVALID);
        }
        *number.ok_or(Errno::INVALID)? = body.queue.number().0;
        Ok(())
    })
}
