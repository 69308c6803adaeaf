//! Posting and polling: the functions that the inline calls of verbs.h call. Programs call them
//! millions of times a second.

use std::sync::Arc;

use ferroce_driver::bus::ProgramClock;
use ferroce_driver::{
    Addressing, CompletionStatus, DataSegment, Destination, PostError, RKey, SendBatch, SendData,
    SendOperation, Srqn, WorkCompletion,
};
use libc::c_int;

use super::boundary::{fail, guard, status};
use super::handle::Handle;
use super::objects::{Cq, Qp};
use super::request::{binding_of_type_2, datagram, piece, remote, scatter_list, with_pieces};
use crate::abi::*;
use crate::builder::{charge, refusal, request};
use crate::cq::to_wc;
use crate::errno::{Errno, Right};
use crate::srq::Srq;

/// Returns the operation of a work request.
///
/// # Errors
/// `EOPNOTSUPP` for operations that this device lacks, `EINVAL` for unknown ones.
///
/// # Safety
/// The objects that the work request names are of this library.
#[inline]
unsafe fn operation(wr: &ibv_send_wr) -> Result<SendOperation, Errno> {
    let target = || {
        // SAFETY: the members of the union are plain integers, for which any bytes are valid;
        // the opcode selects the one that the program has written.
        let rdma = unsafe { wr.wr.rdma };
        remote(rdma.rkey, rdma.remote_addr)
    };
    // SAFETY: the members of the union are plain integers, for which any bytes are valid.
    let atomic = || unsafe { wr.wr.atomic };
    let immediate = wr.imm_data.to_ne_bytes();
    match wr.opcode {
        IBV_WR_RDMA_WRITE => Ok(SendOperation::RdmaWrite(target())),
        IBV_WR_RDMA_WRITE_WITH_IMM => Ok(SendOperation::RdmaWriteImmediate(target(), immediate)),
        IBV_WR_SEND => Ok(SendOperation::Send),
        IBV_WR_SEND_WITH_IMM => Ok(SendOperation::SendImmediate(immediate)),
        IBV_WR_RDMA_READ => Ok(SendOperation::RdmaRead(target())),
        IBV_WR_ATOMIC_CMP_AND_SWP => Ok(SendOperation::CompareSwap {
            remote: remote(atomic().rkey, atomic().remote_addr),
            compare: atomic().compare_add,
            swap: atomic().swap,
        }),
        IBV_WR_ATOMIC_FETCH_AND_ADD => Ok(SendOperation::FetchAdd {
            remote: remote(atomic().rkey, atomic().remote_addr),
            add: atomic().compare_add,
        }),
        IBV_WR_ATOMIC_WRITE => Ok(SendOperation::AtomicWrite(target())),
        IBV_WR_SEND_WITH_INV => Ok(SendOperation::SendInvalidate(RKey(wr.imm_data))),
        IBV_WR_LOCAL_INV => Ok(SendOperation::LocalInvalidate(RKey(wr.imm_data))),
        // SAFETY: the caller guarantees that the objects that the work request names are of this
        // library.
        IBV_WR_BIND_MW => unsafe { bind_type_2(&wr.bind_mw) },
        other => Err(unknown_operation(other)),
    }
}

/// Returns the error of an operation that the device does not have.
#[cold]
fn unknown_operation(opcode: c_int) -> Errno {
    match opcode {
        IBV_WR_TSO => {
            let right = Right::Text("no segmentation");
            Errno::NOT_SUPPORTED.argument("wr->opcode", opcode, right)
        }
        // struct ibv_send_wr has no place for its arguments.
        IBV_WR_FLUSH => {
            let right = Right::Text("ibv_wr_flush, which posts it");
            Errno::NOT_SUPPORTED.argument("wr->opcode", opcode, right)
        }
        _ => Errno::wrong("wr->opcode", opcode, "a value of enum ibv_wr_opcode"),
    }
}

/// Returns a bind as a work request. Only for windows of type 2; `ibv_bind_mw` binds the others.
///
/// # Safety
/// As for [`binding_of_type_2`].
#[cold]
unsafe fn bind_type_2(bind: &ibv_wr_bind_mw) -> Result<SendOperation, Errno> {
    // SAFETY: the caller guarantees the conditions of `binding_of_type_2`: window and region are
    // null or of this library, and no other thread uses the window meanwhile.
    unsafe { binding_of_type_2(bind.mw, bind.rkey, &bind.bind_info) }
}

/// Returns the number of elements of a scatter list.
#[inline]
fn sge_count(count: c_int) -> Result<usize, Errno> {
    usize::try_from(count).map_err(|_| Errno::wrong("wr->num_sge", count, "not negative"))
}

/// Posts one work request to the batch.
///
/// # Safety
/// The scatter list and, with inline, the memory that it names are readable, and the objects that
/// the work request names are of this library.
#[inline]
unsafe fn post_one(qp: &Qp, batch: &mut SendBatch<'_>, wr: &ibv_send_wr) -> Result<(), Errno> {
    // SAFETY: the caller guarantees that the scatter list and, with inline, the memory that it
    // names are readable, and the objects that the work request names are of this library; for a UD
    // QP the program has written that member of the union.
    unsafe {
        match qp.addressing {
            Addressing::Connected => post_to(qp, batch, Destination::Connected, wr),
            Addressing::Datagram => {
                let ud = wr.wr.ud;
                let target = datagram(qp, ud.ah, ud.remote_qpn, ud.remote_qkey)?;
                post_to(qp, batch, target.destination(), wr)
            }
            Addressing::Xrc => {
                let srqn = Srqn(wr.qp_type);
                post_to(qp, batch, Destination::Xrc { srqn }, wr)
            }
        }
    }
}

/// Posts one work request whose destination is known.
///
/// # Safety
/// As for [`post_one`].
#[inline]
unsafe fn post_to(
    qp: &Qp,
    batch: &mut SendBatch<'_>,
    destination: Destination<'_>,
    wr: &ibv_send_wr,
) -> Result<(), Errno> {
    // SAFETY: the caller guarantees that the scatter list and, with inline, the memory that it
    // names are readable, and the objects that the work request names are of this library.
    let operation = unsafe { operation(wr)? };
    let count = sge_count(wr.num_sge)?;
    // SAFETY: the caller guarantees that the scatter list and, with inline, the memory that it
    // names are readable, and the objects that the work request names are of this library.
    let list = unsafe { scatter_list(wr.sg_list, count)? };
    let mut post = |data: SendData<'_>| {
        let request = request(wr.wr_id, wr.send_flags, operation, destination, data);
        let posted = batch.post(&request);
        posted.map_err(|error| refusal(error, &request))?;
        charge(qp.adapter.program_clock(), data);
        Ok(())
    };
    if wr.send_flags & IBV_SEND_INLINE == 0 {
        return post(SendData::ScatterGather(list));
    }
    let element = |index: usize| {
        let element: &DataSegment = &list[index];
        // SAFETY: the caller guarantees that the scatter list and, with inline, the memory that it
        // names are readable, and the objects that the work request names are of this library.
        unsafe { piece(element.address, element.length as usize) }
    };
    with_pieces(count, element, |pieces| post(SendData::Inline(pieces)))
}

/// `ibv_post_send`.
pub(super) unsafe extern "C" fn post_send(
    qp: *mut ibv_qp,
    wr: *mut ibv_send_wr,
    bad_wr: *mut *mut ibv_send_wr,
) -> c_int {
    let mut next = wr;
    let result = guard(|| {
        // SAFETY: contract of `ibv_post_send`: the program passes null or a live QP of this
        // library; `borrow` refuses null.
        let qp = unsafe { Handle::<ibv_qp_ex, Qp>::borrow(qp)? };
        qp.adapter.check()?;
        qp.adapter.check_world()?;
        let mut batch = qp.send_queue()?.lock();
        let mut result = Ok(());
        // SAFETY: contract of `ibv_post_send`: the program passes a list of valid work requests
        // that ends with null and stays unchanged during the call.
        while let Some(wr) = unsafe { next.as_ref() } {
            // SAFETY: contract of `ibv_post_send`: the scatter list of each work request and, with
            // inline, the memory that it names are readable, and its objects are of this library.
            result = unsafe { post_one(qp, &mut batch, wr) };
            if result.is_err() {
                break;
            }
            next = wr.next;
        }
        // Requests before the failing one are posted: the drop of the batch rings the doorbell.
        drop(batch);
        result.map_err(|errno| errno.of_queue(qp.send_limits()).of_qp(qp.pair.number().0))
    });
    // SAFETY: contract of `ibv_post_send`: `bad_wr` is null or writable.
    unsafe { finish("ibv_post_send", result, next, bad_wr) }
}

/// Posts a list of receives; sets `next` to the one that failed.
///
/// # Safety
/// `next` is a list of work requests that ends with null, with readable scatter lists.
#[inline]
unsafe fn post_receives(
    clock: Option<&Arc<dyn ProgramClock>>,
    next: &mut *mut ibv_recv_wr,
    mut post: impl FnMut(u64, &[DataSegment]) -> Result<(), PostError>,
) -> Result<(), Errno> {
    // SAFETY: the caller guarantees that `next` is a list of work requests that ends with null,
    // with readable scatter lists.
    while let Some(wr) = unsafe { next.as_ref() } {
        let count = sge_count(wr.num_sge)?;
        // SAFETY: the caller guarantees that `next` is a list of work requests that ends with null,
        // with readable scatter lists.
        let list = unsafe { scatter_list(wr.sg_list, count)? };
        let posted = post(wr.wr_id, list);
        posted.map_err(|error| Errno::post(error, None, count))?;
        if let Some(clock) = clock {
            clock.post_receive();
        }
        *next = wr.next;
    }
    Ok(())
}

/// `ibv_post_recv`: `EINVAL` when the QP's receives come from a shared receive queue, or it has
/// none.
pub(super) unsafe extern "C" fn post_recv(
    qp: *mut ibv_qp,
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    let mut next = wr;
    let result = guard(|| {
        // SAFETY: contract of `ibv_post_recv`: the program passes null or a live QP of this
        // library; `borrow` refuses null.
        let qp = unsafe { Handle::<ibv_qp_ex, Qp>::borrow(qp)? };
        qp.adapter.check()?;
        let mut batch = qp.receive_queue()?.lock();
        let post = |wr_id, list: &[DataSegment]| batch.post(wr_id, list);
        // SAFETY: contract of `ibv_post_recv`: the program passes null or a list of valid work
        // requests that ends with null, whose scatter lists are readable.
        let posted = unsafe { post_receives(qp.adapter.program_clock(), &mut next, post) };
        drop(batch);
        posted.map_err(|errno| {
            errno
                .of_queue(qp.receive_limits())
                .of_qp(qp.pair.number().0)
        })
    });
    // SAFETY: contract of `ibv_post_recv`: `bad_wr` is null or writable.
    unsafe { finish("ibv_post_recv", result, next, bad_wr) }
}

/// `ibv_post_srq_recv`.
pub(super) unsafe extern "C" fn post_srq_recv(
    srq: *mut ibv_srq,
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    let mut next = wr;
    let result = guard(|| {
        // SAFETY: contract of `ibv_post_srq_recv`: the program passes null or a live SRQ of this
        // library; `borrow` refuses null.
        let srq = unsafe { Handle::<ibv_srq, Srq>::borrow(srq)? };
        srq.adapter.check()?;
        let mut batch = srq.queue.lock();
        let post = |wr_id, list: &[DataSegment]| batch.post(wr_id, list);
        // SAFETY: contract of `ibv_post_srq_recv`: the program passes null or a list of valid work
        // requests that ends with null, whose scatter lists are readable.
        let posted = unsafe { post_receives(srq.adapter.program_clock(), &mut next, post) };
        posted.map_err(|errno| errno.of_queue(srq.limits()))
    });
    // SAFETY: contract of `ibv_post_srq_recv`: `bad_wr` is null or writable.
    unsafe { finish("ibv_post_srq_recv", result, next, bad_wr) }
}

/// Returns the result of posting: the errno. Stores the failed request in `bad_wr`.
///
/// # Safety
/// `bad_wr` is null or writable.
#[inline]
unsafe fn finish<T>(
    verb: &str,
    result: Result<(), Errno>,
    at: *mut T,
    bad_wr: *mut *mut T,
) -> c_int {
    let Err(errno) = result else { return 0 };
    // SAFETY: the caller guarantees that `bad_wr` is null or writable.
    if let Some(bad_wr) = unsafe { bad_wr.as_mut() } {
        *bad_wr = at;
    }
    fail(verb, errno)
}

/// Takes up to `max` completions to the array `wc`.
///
/// # Safety
/// `wc` has room for `max` completions.
#[inline]
unsafe fn poll_to(cq: &Cq, max: usize, wc: *mut ibv_wc) -> usize {
    let mut slot = wc;
    cq.queue.poll(max, |completion: WorkCompletion| {
        if completion.status != CompletionStatus::Success {
            cq.show_failed(&completion);
        }
        // SAFETY: the driver calls this at most `max` times, and the caller guarantees that there
        // is room for `max` completions.
        unsafe {
            slot.write(to_wc(&completion));
            slot = slot.add(1);
        }
    })
}

/// Handles an empty poll. The device may have failed since; then outstanding requests are flushed
/// now.
///
/// # Safety
/// As for [`poll_to`].
#[cold]
unsafe fn poll_of_dead_device(
    cq: &Cq,
    max: usize,
    wc: *mut ibv_wc,
    errno: Errno,
) -> Result<usize, Errno> {
    // SAFETY: the caller guarantees that there is room for `max` completions.
    match unsafe { poll_to(cq, max, wc) } {
        0 => Err(errno),
        count => Ok(count),
    }
}

/// `ibv_poll_cq`: the number of completions, or a negative value.
pub(super) unsafe extern "C" fn poll_cq(cq: *mut ibv_cq, entries: c_int, wc: *mut ibv_wc) -> c_int {
    let polled = guard(|| {
        // SAFETY: contract of `ibv_poll_cq`: the program passes null or a live CQ of this library;
        // `borrow` refuses null.
        let cq = unsafe { Handle::<ibv_cq_ex, Cq>::borrow(cq)? };
        cq.adapter.check()?;
        let max = usize::try_from(entries)
            .map_err(|_| Errno::wrong("num_entries", entries, "not negative"))?;
        if max != 0 && wc.is_null() {
            return Err(Errno::null("wc"));
        }
        if let Some(clock) = cq.adapter.program_clock() {
            clock.before_poll(&*cq.queue);
        }
        // SAFETY: the program's array has `max` entries (contract of `ibv_poll_cq`); null was
        // refused above.
        let mut count = unsafe { poll_to(cq, max, wc) };
        if let Some(clock) = cq.adapter.program_clock() {
            clock.polled(cq.queue.number(), count);
        }
        if count == 0 {
            if let Err(errno) = cq.check_device() {
                // SAFETY: the program's array has `max` entries (contract of `ibv_poll_cq`), and
                // null was refused above.
                count = unsafe { poll_of_dead_device(cq, max, wc, errno)? };
            }
        }
        Ok(c_int::try_from(count).unwrap_or(c_int::MAX))
    });
    polled.unwrap_or_else(|errno| -fail("ibv_poll_cq", errno))
}

/// `ibv_req_notify_cq`.
pub(super) unsafe extern "C" fn req_notify_cq(cq: *mut ibv_cq, solicited_only: c_int) -> c_int {
    status("ibv_req_notify_cq", || {
        // SAFETY: contract of `ibv_req_notify_cq`: the program passes null or a live CQ of this
        // library; `look_up` refuses null.
        let cq = unsafe { Handle::<ibv_cq_ex, Cq>::look_up(cq)? };
        cq.adapter.check()?;
        cq.check_device()?;
        // Before, because the event of a completion may follow at once.
        cq.note_armed();
        if solicited_only == 0 {
            cq.queue.arm();
        } else {
            cq.queue.arm_solicited();
        }
        Ok(())
    })
}
