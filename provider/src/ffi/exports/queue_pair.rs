//! Queue pairs. Destroying is in `blocking.rs`.

use ferroce_driver::QpState;
use libc::{c_int, c_void};

use super::super::boundary::{pointer, status};
use super::super::handle::{Handle, zeroed};
use super::super::objects::{Context, Cq, Qp};
use super::super::send_api;
use crate::abi::*;
use crate::domain::Domain;
use crate::errno::Errno;
use crate::qp::{self, Extras, Queues};
use crate::srq::Srq;
use crate::xrc::Xrcd;

/// Creates the program's handle of a QP.
///
/// # Safety
/// `context`, `pd` and the objects in `created` are null or objects of this library.
unsafe fn give(
    context: *mut ibv_context,
    pd: *mut ibv_pd,
    inner: qp::Qp,
    extras: Extras,
    created: &ibv_qp_init_attr,
) -> *mut ibv_qp {
    // SAFETY: the struct has integers, pointers, `Option`s of functions, and mutex and condition,
    // which zeros initialise.
    let mut public: ibv_qp_ex = unsafe { zeroed() };
    let base = &mut public.qp_base;
    base.context = context;
    base.qp_context = created.qp_context;
    base.pd = pd;
    base.send_cq = created.send_cq;
    base.recv_cq = created.recv_cq;
    base.srq = created.srq;
    base.handle = super::next_handle();
    base.qp_num = inner.pair.number().0;
    base.state = QpState::Reset as c_int;
    base.qp_type = created.qp_type;
    if let Some(operations) = extras.send_operations {
        send_api::fill(&mut public, operations);
    }
    let source = inner.source.clone();
    let qp: *mut ibv_qp = Handle::give(
        public,
        Qp::new(inner, extras.send_operations.is_some(), *created),
    )
    .cast();
    source.set_address(qp.expose_provenance());
    qp
}

/// Creates a QP; sets `attr.cap` to its actual capacity.
///
/// # Safety
/// `pd` and the queues in `attr` are null or objects of this library.
unsafe fn create(
    pd: *mut ibv_pd,
    attr: &mut ibv_qp_init_attr,
    extras: Extras,
) -> Result<*mut ibv_qp, Errno> {
    if attr.qp_type == IBV_QPT_XRC_SEND {
        // An XRC initiator has no receives; the program's CQ is ignored.
        attr.recv_cq = std::ptr::null_mut();
        attr.srq = std::ptr::null_mut();
        attr.cap.max_recv_wr = 0;
        attr.cap.max_recv_sge = 0;
    }
    // SAFETY: the caller guarantees that `pd` and the queues in `attr` are null or objects of this
    // library.
    let (domain, queues) = unsafe {
        let receive_cq = if attr.recv_cq.is_null() {
            None
        } else {
            Some(&**Handle::<ibv_cq_ex, Cq>::look_up(attr.recv_cq)?)
        };
        let srq = if attr.srq.is_null() {
            None
        } else {
            Some(Handle::<ibv_srq, Srq>::look_up(attr.srq)?)
        };
        let queues = Queues {
            send_cq: Handle::<ibv_cq_ex, Cq>::look_up(attr.send_cq)?,
            receive_cq,
            srq,
        };
        (Handle::<ibv_pd, Domain>::look_up(pd)?, queues)
    };
    let inner = qp::Qp::create(domain, &queues, attr, extras)?;
    // SAFETY: the caller guarantees that `pd` and the queues are objects of this library, and
    // `look_up` has accepted them.
    Ok(unsafe { give((*pd).context, pd, inner, extras, attr) })
}

/// `ibv_create_qp`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_qp(
    pd: *mut ibv_pd,
    attr: *mut ibv_qp_init_attr,
) -> *mut ibv_qp {
    pointer("ibv_create_qp", || {
        // SAFETY: contract of `ibv_create_qp`: the program's objects are null or live objects of
        // this library, and its struct null or valid; null is refused.
        unsafe {
            let attr = attr.as_mut().ok_or_else(|| Errno::null("attr"))?;
            create(pd, attr, Extras::default())
        }
    })
}

/// `ibv_create_qp_ex`.
pub(super) unsafe extern "C" fn create_qp_ex(
    context: *mut ibv_context,
    attr: *mut ibv_qp_init_attr_ex,
) -> *mut ibv_qp {
    pointer("ibv_create_qp_ex", || {
        // SAFETY: contract of `ibv_create_qp_ex`: the context is null or an open context of this
        // library, and the struct null or valid; null is refused.
        let (body, attr) = unsafe { (Context::borrow(context)?, attr.as_mut()) };
        let attr = attr.ok_or_else(|| Errno::null("attr"))?;
        let limits = body.adapter.device()?.capabilities();
        let extras = qp::check_extended(attr, limits)?;
        let mut plain = ibv_qp_init_attr {
            qp_context: attr.qp_context,
            send_cq: attr.send_cq,
            recv_cq: attr.recv_cq,
            srq: attr.srq,
            cap: attr.cap,
            qp_type: attr.qp_type,
            sq_sig_all: attr.sq_sig_all,
        };
        if attr.qp_type == IBV_QPT_XRC_RECV {
            // SAFETY: contract of `ibv_create_qp_ex`: the XRC domain is null or an open domain of
            // this library; `borrow` refuses null.
            let xrcd = unsafe { Handle::<ibv_xrcd, Xrcd>::borrow(attr.xrcd)? };
            let inner = qp::Qp::create_target(xrcd, &body.events)?;
            let created = target_attributes(attr.qp_context);
            // The device does not use it. librdmacm reads it as the id's PD, so it is stored as in
            // rdma-core.
            let pd = match attr.comp_mask & IBV_QP_INIT_ATTR_PD {
                0 => std::ptr::null_mut(),
                _ => attr.pd,
            };
            // SAFETY: `borrow` has accepted the context, which is open during the call (contract of
            // `ibv_create_qp_ex`), and the PD is null or one of this library.
            return Ok(unsafe { give(context, pd, inner, Extras::default(), &created) });
        }
        // SAFETY: contract of `ibv_create_qp_ex`: the program's objects are null or live objects of
        // this library; null is refused where an object is required.
        let qp = unsafe { create(attr.pd, &mut plain, extras)? };
        attr.cap = plain.cap;
        Ok(qp)
    })
}

/// Returns the creation attributes of an XRC target QP: only its type.
fn target_attributes(qp_context: *mut c_void) -> ibv_qp_init_attr {
    ibv_qp_init_attr {
        qp_context,
        send_cq: std::ptr::null_mut(),
        recv_cq: std::ptr::null_mut(),
        srq: std::ptr::null_mut(),
        cap: ibv_qp_cap {
            max_send_wr: 0,
            max_recv_wr: 0,
            max_send_sge: 0,
            max_recv_sge: 0,
            max_inline_data: 0,
        },
        qp_type: IBV_QPT_XRC_RECV,
        sq_sig_all: 0,
    }
}

/// `ibv_open_qp`: another handle of an XRC target QP.
pub(super) unsafe extern "C" fn open_qp(
    context: *mut ibv_context,
    attr: *mut ibv_qp_open_attr,
) -> *mut ibv_qp {
    pointer("ibv_open_qp", || {
        // SAFETY: contract of `ibv_open_qp`: the context is null or an open context of this
        // library, and the struct null or valid; null is refused.
        let (body, attr) = unsafe { (Context::borrow(context)?, attr.as_ref()) };
        let attr = attr.ok_or_else(|| Errno::null("attr"))?;
        qp::check_open(attr)?;
        // SAFETY: contract of `ibv_open_qp`: the XRC domain is null or an open domain of this
        // library; `borrow` refuses null.
        let xrcd = unsafe { Handle::<ibv_xrcd, Xrcd>::borrow(attr.xrcd)? };
        let inner = qp::Qp::open_target(xrcd, &body.events, attr.qp_num)?;
        let state = inner.query()?.qp_state;
        let has_context = attr.comp_mask & IBV_QP_OPEN_ATTR_CONTEXT != 0;
        let created = target_attributes(if has_context {
            attr.qp_context
        } else {
            std::ptr::null_mut()
        });
        // SAFETY: `borrow` has accepted the context, which is open during the call (contract of
        // `ibv_open_qp`), and the new QP is alive.
        unsafe {
            let (pd, extras) = (std::ptr::null_mut(), Extras::default());
            let qp = give(context, pd, inner, extras, &created);
            (*qp).state = state;
            Ok(qp)
        }
    })
}

/// `ibv_modify_qp`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_modify_qp(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    mask: c_int,
) -> c_int {
    status("ibv_modify_qp", || {
        // SAFETY: contract of `ibv_modify_qp`: the QP is null or a live QP of this library, and the
        // struct null or valid; null is refused.
        let (body, attr) = unsafe { (Handle::<ibv_qp_ex, Qp>::look_up(qp)?, attr.as_ref()) };
        let state = body.modify(attr.ok_or_else(|| Errno::null("attr"))?, mask)?;
        // SAFETY: `look_up` has accepted the QP, which is alive during the call (contract of
        // `ibv_modify_qp`).
        unsafe { (*qp).state = state as c_int };
        Ok(())
    })
}

/// `ibv_query_qp`. All attributes are filled in, for any mask.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_qp(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    _mask: c_int,
    init_attr: *mut ibv_qp_init_attr,
) -> c_int {
    status("ibv_query_qp", || {
        // SAFETY: contract of `ibv_query_qp`: the QP is null or a live QP of this library, and the
        // structs are null or valid; null is refused.
        let (body, attr, init_attr) = unsafe {
            (
                Handle::<ibv_qp_ex, Qp>::look_up(qp)?,
                attr.as_mut(),
                init_attr.as_mut(),
            )
        };
        let now = body.query()?;
        // SAFETY: `look_up` has accepted the QP, which is alive during the call (contract of
        // `ibv_query_qp`).
        unsafe { (*qp).state = now.qp_state };
        *attr.ok_or_else(|| Errno::null("attr"))? = now;
        if let Some(init_attr) = init_attr {
            *init_attr = body.created;
        }
        Ok(())
    })
}

/// `ibv_query_qp_data_in_order`: no operation is guaranteed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_qp_data_in_order(
    _qp: *mut ibv_qp,
    _operation: c_int,
    _flags: u32,
) -> c_int {
    0
}

/// `ibv_set_ece`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_set_ece(qp: *mut ibv_qp, ece: *mut ibv_ece) -> c_int {
    status("ibv_set_ece", || {
        // SAFETY: contract of `ibv_set_ece`: the QP is null or a live QP of this library, and the
        // struct null or valid; null is refused.
        let (body, ece) = unsafe { (Handle::<ibv_qp_ex, Qp>::look_up(qp)?, ece.as_ref()) };
        body.set_enhancements(ece.ok_or_else(|| Errno::null("ece"))?)
    })
}

/// `ibv_query_ece`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_ece(qp: *mut ibv_qp, ece: *mut ibv_ece) -> c_int {
    status("ibv_query_ece", || {
        // SAFETY: contract of `ibv_query_ece`: the QP is null or a live QP of this library, and the
        // struct null or valid; null is refused.
        let (body, ece) = unsafe { (Handle::<ibv_qp_ex, Qp>::look_up(qp)?, ece.as_mut()) };
        *ece.ok_or_else(|| Errno::null("ece"))? = body.enhancements()?;
        Ok(())
    })
}

/// Calls `change` with a QP and a multicast group.
///
/// # Safety
/// `qp` is null or a live QP of this library, and `group` is null or valid.
unsafe fn with_group(
    verb: &str,
    qp: *mut ibv_qp,
    group: *const ibv_gid,
    change: fn(&qp::Qp, [u8; 16]) -> Result<(), Errno>,
) -> c_int {
    status(verb, || {
        // SAFETY: the caller guarantees that `qp` is null or a live QP of this library, and `group`
        // null or valid; null is refused.
        let (body, group) = unsafe { (Handle::<ibv_qp_ex, Qp>::look_up(qp)?, group.as_ref()) };
        change(body, group.ok_or_else(|| Errno::null("group"))?.raw)
    })
}

/// `ibv_attach_mcast`. Ethernet has no LID, so it is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_attach_mcast(
    qp: *mut ibv_qp,
    group: *const ibv_gid,
    _lid: u16,
) -> c_int {
    // SAFETY: contract of `ibv_attach_mcast`: the QP is null or a live QP of this library, and the
    // GID null or valid; null is refused.
    unsafe { with_group("ibv_attach_mcast", qp, group, qp::Qp::attach_multicast) }
}

/// `ibv_detach_mcast`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_detach_mcast(
    qp: *mut ibv_qp,
    group: *const ibv_gid,
    _lid: u16,
) -> c_int {
    // SAFETY: contract of `ibv_detach_mcast`: the QP is null or a live QP of this library, and the
    // GID null or valid; null is refused.
    unsafe { with_group("ibv_detach_mcast", qp, group, qp::Qp::detach_multicast) }
}
