//! Posting and polling: the entries behind the inline calls that programs make millions of times a
//! second.

use super::boundary::{guard, set_errno, status};
use super::handle::Handle;
use super::objects::{Cq, Qp};
use crate::builder::request;
use crate::cq::to_wc;
use crate::errno::Errno;
use crate::ffi::abi::*;
use ferroce_driver::{
    DataSegment, RKey, RemoteAddress, SendBatch, SendData, SendOperation, WorkCompletion,
};
use libc::c_int;

/// Elements of an inline work request at most.
const MAX_INLINE_PIECES: usize = 16;

const _: () = {
    // Scatter lists are handed to the driver where they lie.
    assert!(size_of::<ibv_sge>() == size_of::<DataSegment>());
    assert!(std::mem::offset_of!(ibv_sge, addr) == std::mem::offset_of!(DataSegment, address));
    assert!(std::mem::offset_of!(ibv_sge, length) == std::mem::offset_of!(DataSegment, length));
    assert!(std::mem::offset_of!(ibv_sge, lkey) == std::mem::offset_of!(DataSegment, l_key));
};

/// A scatter list of the program.
///
/// # Safety
/// `list` points to `count` elements that stay unchanged for `'a`, unless `count` is zero.
#[inline]
pub(super) unsafe fn scatter_list<'a>(
    list: *const ibv_sge,
    count: usize,
) -> Result<&'a [DataSegment], Errno> {
    if count == 0 {
        return Ok(&[]);
    }
    if list.is_null() {
        return Err(Errno::INVALID);
    }
    // SAFETY: by the contract; the layouts are equal by the assertions above, and both are plain
    // integers.
    Ok(unsafe { std::slice::from_raw_parts(list.cast(), count) })
}

/// Memory of the program that is copied now.
///
/// # Safety `address` is readable for `length` bytes, which stay unchanged for `'a`, unless
/// `length` is zero.
#[inline]
pub(super) unsafe fn piece<'a>(address: u64, length: usize) -> &'a [u8] {
    if length == 0 {
        return &[];
    }
    // SAFETY: by the contract; the address is one of this process, with its provenance exposed by
    // the program.
    unsafe {
        std::slice::from_raw_parts(std::ptr::with_exposed_provenance(address as usize), length)
    }
}

/// Collects `count` pieces of inline data for `post`.
#[inline]
pub(super) fn with_pieces<'a, R>(
    count: usize,
    piece: impl Fn(usize) -> &'a [u8],
    post: impl FnOnce(&[&'a [u8]]) -> Result<R, Errno>,
) -> Result<R, Errno> {
    if count == 1 {
        return post(&[piece(0)]);
    }
    if count > MAX_INLINE_PIECES {
        return Err(Errno::INVALID);
    }
    let mut pieces: [&[u8]; MAX_INLINE_PIECES] = [&[]; MAX_INLINE_PIECES];
    for (index, slot) in pieces.iter_mut().take(count).enumerate() {
        *slot = piece(index);
    }
    post(&pieces[..count])
}

/// Operation of a work request.
///
/// # Errors
/// `EOPNOTSUPP` for operations that this device lacks, `EINVAL` for unknown ones.
#[inline]
fn operation(wr: &ibv_send_wr) -> Result<SendOperation, Errno> {
    // SAFETY: each member of the union is plain integers; the opcode says that this one was
    // written.
    let rdma = unsafe { wr.wr.rdma };
    let remote = RemoteAddress {
        virtual_address: rdma.remote_addr,
        r_key: RKey(rdma.rkey),
    };
    let immediate = wr.imm_data.to_ne_bytes();
    match wr.opcode {
        IBV_WR_RDMA_WRITE => Ok(SendOperation::RdmaWrite(remote)),
        IBV_WR_RDMA_WRITE_WITH_IMM => Ok(SendOperation::RdmaWriteImmediate(remote, immediate)),
        IBV_WR_SEND => Ok(SendOperation::Send),
        IBV_WR_SEND_WITH_IMM => Ok(SendOperation::SendImmediate(immediate)),
        IBV_WR_RDMA_READ => Ok(SendOperation::RdmaRead(remote)),
        // Atomics to TSO, then flush and atomic write.
        5..=10 | 14 | 15 => Err(Errno::NOT_SUPPORTED),
        _ => Err(Errno::INVALID),
    }
}

/// Posts one work request to the batch.
///
/// # Safety
/// The scatter list and, with inline, the memory that it names are readable.
#[inline]
unsafe fn post_one(batch: &mut SendBatch<'_>, wr: &ibv_send_wr) -> Result<(), Errno> {
    let operation = operation(wr)?;
    let count = usize::try_from(wr.num_sge).map_err(|_| Errno::INVALID)?;
    // SAFETY: by the contract.
    let list = unsafe { scatter_list(wr.sg_list, count)? };
    if wr.send_flags & IBV_SEND_INLINE == 0 {
        let data = SendData::ScatterGather(list);
        return Ok(batch.post(&request(wr.wr_id, wr.send_flags, operation, data))?);
    }
    let element = |index: usize| {
        let element: &DataSegment = &list[index];
        // SAFETY: by the contract.
        unsafe { piece(element.address, element.length as usize) }
    };
    with_pieces(count, element, |pieces| {
        let data = SendData::Inline(pieces);
        Ok(batch.post(&request(wr.wr_id, wr.send_flags, operation, data))?)
    })
}

/// `ibv_post_send`.
pub(super) unsafe extern "C" fn post_send(
    qp: *mut ibv_qp,
    wr: *mut ibv_send_wr,
    bad_wr: *mut *mut ibv_send_wr,
) -> c_int {
    let mut next = wr;
    let result = guard(|| {
        // SAFETY: the program passes a QP of this library.
        let qp = unsafe { Handle::<ibv_qp_ex, Qp>::borrow(qp)? };
        qp.adapter.check()?;
        let mut batch = qp.pair.send_queue().lock();
        let mut result = Ok(());
        // SAFETY: the program passes a list of work requests that ends with null.
        while let Some(wr) = unsafe { next.as_ref() } {
            // SAFETY: as above.
            result = unsafe { post_one(&mut batch, wr) };
            if result.is_err() {
                break;
            }
            next = wr.next;
        }
        // What came before the failing one is posted: going, the batch rings the doorbell.
        drop(batch);
        result
    });
    // SAFETY: `bad_wr` is the program's.
    unsafe { finish(result, next, bad_wr) }
}

/// `ibv_post_recv`.
pub(super) unsafe extern "C" fn post_recv(
    qp: *mut ibv_qp,
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    let mut next = wr;
    let result = guard(|| {
        // SAFETY: the program passes a QP of this library.
        let qp = unsafe { Handle::<ibv_qp_ex, Qp>::borrow(qp)? };
        qp.adapter.check()?;
        let mut batch = qp.pair.receive_queue().lock();
        let mut result = Ok(());
        // SAFETY: the program passes a list of work requests that ends with null.
        while let Some(wr) = unsafe { next.as_ref() } {
            let count = usize::try_from(wr.num_sge).map_err(|_| Errno::INVALID);
            // SAFETY: the program's scatter list.
            let list = count.and_then(|count| unsafe { scatter_list(wr.sg_list, count) });
            result = list.and_then(|list| Ok(batch.post(wr.wr_id, list)?));
            if result.is_err() {
                break;
            }
            next = wr.next;
        }
        drop(batch);
        result
    });
    // SAFETY: `bad_wr` is the program's.
    unsafe { finish(result, next, bad_wr) }
}

/// Result of posting: the errno, and where the list was stopped.
///
/// # Safety
/// `bad_wr` is null or writable.
#[inline]
unsafe fn finish<T>(result: Result<(), Errno>, at: *mut T, bad_wr: *mut *mut T) -> c_int {
    let Err(errno) = result else { return 0 };
    // SAFETY: by the contract.
    if let Some(bad_wr) = unsafe { bad_wr.as_mut() } {
        *bad_wr = at;
    }
    set_errno(errno);
    errno.0
}

/// `ibv_poll_cq`: the number of completions, or a negative value.
pub(super) unsafe extern "C" fn poll_cq(cq: *mut ibv_cq, entries: c_int, wc: *mut ibv_wc) -> c_int {
    let polled = guard(|| {
        // SAFETY: the program passes a CQ of this library.
        let cq = unsafe { Handle::<ibv_cq_ex, Cq>::borrow(cq)? };
        cq.adapter.check()?;
        let max = usize::try_from(entries).map_err(|_| Errno::INVALID)?;
        if max != 0 && wc.is_null() {
            return Err(Errno::INVALID);
        }
        let mut slot = wc;
        let count = cq.queue.poll(max, |completion: WorkCompletion| {
            // SAFETY: the driver calls this `max` times at most, and the program's array has `max`
            // entries.
            unsafe {
                slot.write(to_wc(&completion));
                slot = slot.add(1);
            }
        });
        Ok(c_int::try_from(count).unwrap_or(c_int::MAX))
    });
    polled.unwrap_or_else(|errno| {
        set_errno(errno);
        -errno.0
    })
}

/// `ibv_req_notify_cq`.
pub(super) unsafe extern "C" fn req_notify_cq(cq: *mut ibv_cq, solicited_only: c_int) -> c_int {
    status(|| {
        // SAFETY: the program passes a CQ of this library.
        let cq = unsafe { Handle::<ibv_cq_ex, Cq>::borrow(cq)? };
        cq.adapter.check()?;
        cq.queue.arm(solicited_only != 0);
        Ok(())
    })
}
