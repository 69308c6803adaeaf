//! The two tables of a context, which the inline calls of verbs.h use.
//!
//! The inline calls check for empty entries of `verbs_context` and return `EOPNOTSUPP`. They call
//! entries of `ibv_context_ops` without a check, so all entries with a caller are filled.

use std::mem::transmute;

use ferroce_driver::bus::{PollFunction, ProgramClock};
use libc::{c_int, c_void};

use super::super::work_request::{poll_cq, post_recv, post_send, post_srq_recv, req_notify_cq};
use super::{
    completion, device, device_memory, domain, memory, port, queue_pair, shared_receive, window,
    xrc,
};
use crate::abi::*;

/// Fills the tables of a new context.
pub(super) fn fill(context: &mut verbs_context) {
    context.query_port = Some(port::query_port);
    context.query_device_ex = Some(device::query_device_ex);
    context.query_rt_values = Some(device::query_rt_values);
    context.create_cq_ex = Some(completion::create_cq_ex);
    context.modify_cq = Some(completion::modify_cq);
    context.advise_mr = Some(memory::advise_mr);
    context.alloc_null_mr = Some(memory::alloc_null_mr);
    context.alloc_dm = Some(device_memory::alloc_dm);
    context.free_dm = Some(device_memory::free_dm);
    context.reg_dm_mr = Some(device_memory::reg_dm_mr);
    context.create_srq_ex = Some(shared_receive::create_srq_ex);
    context.get_srq_num = Some(shared_receive::get_srq_num);
    context.open_xrcd = Some(xrc::open_xrcd);
    context.close_xrcd = Some(xrc::close_xrcd);
    context.open_qp = Some(queue_pair::open_qp);
    context.alloc_td = Some(domain::alloc_td);
    context.dealloc_td = Some(domain::dealloc_td);
    context.alloc_parent_domain = Some(domain::alloc_parent_domain);
    context.create_qp_ex = Some(queue_pair::create_qp_ex);
    context.alloc_buf = Some(memory::ibv_alloc_buf);
    context.free_buf = Some(memory::ibv_free_buf);
    context.reg_mr_ex = Some(memory::ibv_reg_mr_ex);
    let ops = &mut context.context.ops;
    ops._compat_query_device = Some(device::ibv_query_device);
    ops._compat_query_port = Some(port::ibv_query_port);
    ops.poll_cq = Some(poll_cq);
    ops.req_notify_cq = Some(req_notify_cq);
    ops.post_send = Some(post_send);
    ops.post_recv = Some(post_recv);
    ops.post_srq_recv = Some(post_srq_recv);
    ops.alloc_mw = Some(window::alloc_mw);
    ops.bind_mw = Some(window::bind_mw);
    ops.dealloc_mw = Some(window::dealloc_mw);
}

/// In simulated time, makes `ibv_poll_cq` record its callers.
pub(super) fn note_callers(context: &mut verbs_context, clock: &dyn ProgramClock) {
    type PollCq = unsafe extern "C" fn(*mut ibv_cq, c_int, *mut ibv_wc) -> c_int;
    let target: PollCq = poll_cq;
    let noting = clock.noting_caller(PollFunction::PollCq, target as *const c_void);
    // SAFETY: `noting_caller` returns a function that continues at `target` with the same
    // arguments, so it has the same type.
    context.context.ops.poll_cq = Some(unsafe { transmute::<*const c_void, PollCq>(noting) });
}
