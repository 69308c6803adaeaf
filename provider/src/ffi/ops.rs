//! The two tables of a context, which the inline calls of verbs.h use.
//!
//! The inline calls of empty entries of `verbs_context` return `EOPNOTSUPP` by themselves. Entries
//! of `ibv_context_ops` are called without a check, so all that have a caller are filled.

use std::mem::transmute;

use ferroce_driver::bus::{PollFunction, ProgramClock};
use libc::{c_int, c_void};

use super::work_request::{poll_cq, post_recv, post_send, post_srq_recv, req_notify_cq};
use super::{exports, poll_api, send_api};
use crate::ffi::abi::*;

/// Fills the tables of a new context.
pub(super) fn fill_context(context: &mut verbs_context) {
    context.query_port = Some(exports::query_port);
    context.query_device_ex = Some(exports::query_device_ex);
    context.query_rt_values = Some(exports::query_rt_values);
    context.create_cq_ex = Some(exports::create_cq_ex);
    context.modify_cq = Some(exports::modify_cq);
    context.alloc_null_mr = Some(exports::alloc_null_mr);
    context.alloc_dm = Some(exports::alloc_dm);
    context.free_dm = Some(exports::free_dm);
    context.reg_dm_mr = Some(exports::reg_dm_mr);
    context.create_srq_ex = Some(exports::create_srq_ex);
    context.get_srq_num = Some(exports::get_srq_num);
    context.open_xrcd = Some(exports::open_xrcd);
    context.close_xrcd = Some(exports::close_xrcd);
    context.open_qp = Some(exports::open_qp);
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
    ops.alloc_mw = Some(exports::alloc_mw);
    ops.bind_mw = Some(exports::bind_mw);
    ops.dealloc_mw = Some(exports::dealloc_mw);
}

/// Fills the table of a new CQ.
pub(super) fn fill_cq(cq: &mut ibv_cq_ex) {
    poll_api::fill(cq);
}

/// In simulated time, makes `ibv_poll_cq` record its callers.
pub(super) fn note_callers_of_context(context: &mut verbs_context, clock: &dyn ProgramClock) {
    type PollCq = unsafe extern "C" fn(*mut ibv_cq, c_int, *mut ibv_wc) -> c_int;
    let target: PollCq = poll_cq;
    let noting = clock.noting_caller(PollFunction::PollCq, target as *const c_void);
    // SAFETY: `noting_caller` returns a function that continues at `target` with the same
    // arguments, so it has the same type.
    context.context.ops.poll_cq = Some(unsafe { transmute::<*const c_void, PollCq>(noting) });
}

/// In simulated time, makes `ibv_start_poll` record its callers.
pub(super) fn note_callers_of_cq(cq: &mut ibv_cq_ex, clock: &dyn ProgramClock) {
    type StartPoll = unsafe extern "C" fn(*mut ibv_cq_ex, *mut ibv_poll_cq_attr) -> c_int;
    let Some(target) = cq.start_poll else { return };
    let noting = clock.noting_caller(PollFunction::StartPoll, target as *const c_void);
    // SAFETY: `noting_caller` returns a function that continues at `target` with the same
    // arguments, so it has the same type.
    cq.start_poll = Some(unsafe { transmute::<*const c_void, StartPoll>(noting) });
}

/// Fills the table of a new QP.
pub(super) fn fill_qp(qp: &mut ibv_qp_ex) {
    send_api::fill(qp);
}
