//! Queue pairs. Destroying is in `blocking.rs`.

use super::super::boundary::{pointer, status};
use super::super::handle::{Handle, zeroed};
use super::super::objects::{Cq, Qp};
use super::super::ops;
use crate::domain::Domain;
use crate::errno::Errno;
use crate::ffi::abi::*;
use crate::qp;
use libc::{c_int, c_void};

/// Creates a QP; `attr.cap` becomes what was really given.
///
/// # Safety
/// `pd` and the CQs in `attr` are null or objects of this library.
unsafe fn create(
    pd: *mut ibv_pd,
    attr: &mut ibv_qp_init_attr,
    extended: bool,
) -> Result<*mut ibv_qp, Errno> {
    // SAFETY: by the contract.
    let (domain, send_cq, receive_cq) = unsafe {
        (
            Handle::<ibv_pd, Domain>::borrow(pd)?,
            Handle::<ibv_cq_ex, Cq>::borrow(attr.send_cq)?,
            Handle::<ibv_cq_ex, Cq>::borrow(attr.recv_cq)?,
        )
    };
    if !attr.srq.is_null() {
        return Err(Errno::NOT_SUPPORTED);
    }
    let queues = [&send_cq.queue, &receive_cq.queue];
    let inner = qp::Qp::create(
        &domain.adapter,
        &domain.protection,
        &domain.events,
        queues,
        attr,
    )?;
    // SAFETY: the struct has integers, pointers, `Option`s of functions, and mutex and condition,
    // which zeros initialise.
    let mut public: ibv_qp_ex = unsafe { zeroed() };
    let base = &mut public.qp_base;
    // SAFETY: the program's PD is alive.
    base.context = unsafe { (*pd).context };
    base.qp_context = attr.qp_context;
    base.pd = pd;
    base.send_cq = attr.send_cq;
    base.recv_cq = attr.recv_cq;
    base.handle = super::next_handle();
    base.qp_num = inner.pair.number().0;
    base.state = IBV_QPS_RESET;
    base.qp_type = attr.qp_type;
    if extended {
        ops::fill_qp(&mut public);
    }
    let source = inner.source.clone();
    let qp: *mut ibv_qp = Handle::give(public, Qp::new(inner, extended, *attr)).cast();
    source.set_address(qp.expose_provenance());
    Ok(qp)
}

/// `ibv_create_qp`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_qp(
    pd: *mut ibv_pd,
    attr: *mut ibv_qp_init_attr,
) -> *mut ibv_qp {
    pointer(|| {
        // SAFETY: the program's objects and struct.
        unsafe { create(pd, attr.as_mut().ok_or(Errno::INVALID)?, false) }
    })
}

/// `ibv_create_qp_ex`.
pub(in super::super) unsafe extern "C" fn create_qp_ex(
    _context: *mut ibv_context,
    attr: *mut ibv_qp_init_attr_ex,
) -> *mut ibv_qp {
    pointer(|| {
        // SAFETY: the program's struct.
        let attr = unsafe { attr.as_mut() }.ok_or(Errno::INVALID)?;
        let extended = qp::check_extended(attr)?;
        let mut plain = ibv_qp_init_attr {
            qp_context: attr.qp_context,
            send_cq: attr.send_cq,
            recv_cq: attr.recv_cq,
            srq: attr.srq,
            cap: attr.cap,
            qp_type: attr.qp_type,
            sq_sig_all: attr.sq_sig_all,
        };
        // SAFETY: the program's objects.
        let qp = unsafe { create(attr.pd, &mut plain, extended)? };
        attr.cap = plain.cap;
        Ok(qp)
    })
}

/// `ibv_modify_qp`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_modify_qp(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    mask: c_int,
) -> c_int {
    status(|| {
        // SAFETY: the program's QP and struct.
        let (body, attr) = unsafe { (Handle::<ibv_qp_ex, Qp>::borrow(qp)?, attr.as_ref()) };
        let state = body.modify(attr.ok_or(Errno::INVALID)?, mask)?;
        // SAFETY: the QP is alive.
        unsafe { (*qp).state = state };
        Ok(())
    })
}

/// `ibv_query_qp`. Everything is filled in, whatever the mask asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_qp(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    _mask: c_int,
    init_attr: *mut ibv_qp_init_attr,
) -> c_int {
    status(|| {
        // SAFETY: the program's QP and structs.
        let (body, attr, init_attr) = unsafe {
            (
                Handle::<ibv_qp_ex, Qp>::borrow(qp)?,
                attr.as_mut(),
                init_attr.as_mut(),
            )
        };
        let now = body.query()?;
        // SAFETY: the QP is alive.
        unsafe { (*qp).state = now.qp_state };
        *attr.ok_or(Errno::INVALID)? = now;
        if let Some(init_attr) = init_attr {
            *init_attr = body.created;
        }
        Ok(())
    })
}

/// `ibv_query_qp_data_in_order`: no guarantee is given for any operation.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_qp_data_in_order(
    _qp: *mut ibv_qp,
    _operation: c_int,
    _flags: u32,
) -> c_int {
    0
}

/// `ibv_set_ece`: there is nothing to negotiate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_set_ece(_qp: *mut ibv_qp, _ece: *mut ibv_ece) -> c_int {
    status(|| Err(Errno::NOT_SUPPORTED))
}

/// `ibv_query_ece`: there is nothing to negotiate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_ece(_qp: *mut ibv_qp, _ece: *mut ibv_ece) -> c_int {
    status(|| Err(Errno::NOT_SUPPORTED))
}

/// `ibv_attach_mcast`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_attach_mcast(
    _qp: *mut ibv_qp,
    _gid: *const c_void,
    _lid: u16,
) -> c_int {
    status(|| Err(Errno::NOT_SUPPORTED))
}

/// `ibv_detach_mcast`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_detach_mcast(
    _qp: *mut ibv_qp,
    _gid: *const c_void,
    _lid: u16,
) -> c_int {
    status(|| Err(Errno::NOT_SUPPORTED))
}
