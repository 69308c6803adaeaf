//! The two tables of a context, through which the inline calls of verbs.h come.
//!
//! Entries of `verbs_context` that are left empty are those whose inline call then answers
//! `EOPNOTSUPP` by itself. Entries of `ibv_context_ops` are called without a look, so all that have
//! a caller are filled.

use super::boundary::{pointer, set_errno, status};
use super::work_request::{poll_cq, post_recv, post_send, req_notify_cq};
use super::{exports, poll_api, send_api};
use crate::errno::Errno;
use crate::ffi::abi::*;
use libc::c_int;

/// Fills the tables of a new context.
pub(super) fn fill_context(context: &mut verbs_context) {
    context.query_port = Some(exports::query_port);
    context.query_device_ex = Some(exports::query_device_ex);
    context.query_rt_values = Some(exports::query_rt_values);
    context.create_cq_ex = Some(exports::create_cq_ex);
    context.alloc_td = Some(exports::alloc_td);
    context.dealloc_td = Some(exports::dealloc_td);
    context.alloc_parent_domain = Some(exports::alloc_parent_domain);
    context.create_qp_ex = Some(exports::create_qp_ex);
    context.alloc_buf = Some(exports::ibv_alloc_buf);
    context.free_buf = Some(exports::ibv_free_buf);
    context.reg_mr_ex = Some(exports::ibv_reg_mr_ex);
    let ops = &mut context.context.ops;
    ops._compat_query_device = Some(exports::ibv_query_device);
    ops._compat_query_port = Some(exports::ibv_query_port);
    ops.poll_cq = Some(poll_cq);
    ops.req_notify_cq = Some(req_notify_cq);
    ops.post_send = Some(post_send);
    ops.post_recv = Some(post_recv);
    ops.post_srq_recv = Some(post_srq_recv);
    ops.alloc_mw = Some(alloc_mw);
    ops.bind_mw = Some(bind_mw);
    ops.dealloc_mw = Some(dealloc_mw);
}

/// Fills the table of a new CQ.
pub(super) fn fill_cq(cq: &mut ibv_cq_ex) {
    poll_api::fill(cq);
}

/// Fills the table of a new QP.
pub(super) fn fill_qp(qp: &mut ibv_qp_ex) {
    send_api::fill(qp);
}

unsafe extern "C" fn post_srq_recv(
    _srq: *mut ibv_srq,
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: the program's pointer.
    if let Some(bad_wr) = unsafe { bad_wr.as_mut() } {
        *bad_wr = wr;
    }
    set_errno(Errno::NOT_SUPPORTED);
    Errno::NOT_SUPPORTED.0
}

unsafe extern "C" fn alloc_mw(_pd: *mut ibv_pd, _kind: c_int) -> *mut ibv_mw {
    pointer(|| Err(Errno::NOT_SUPPORTED))
}

unsafe extern "C" fn bind_mw(_qp: *mut ibv_qp, _mw: *mut ibv_mw, _bind: *mut ibv_mw_bind) -> c_int {
    status(|| Err(Errno::NOT_SUPPORTED))
}

unsafe extern "C" fn dealloc_mw(_mw: *mut ibv_mw) -> c_int {
    status(|| Err(Errno::NOT_SUPPORTED))
}
