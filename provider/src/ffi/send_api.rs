//! `ibv_wr_*`: the entries of `struct ibv_qp_ex`.
//!
//! They run in the critical section of one thread, which holds the send queue's lock from
//! `wr_start` to `wr_complete` or `wr_abort` (ibv_wr_post(3), CONCURRENCY: no other thread can
//! enter the section). Only `wr_complete` can report a failure.

use ferroce_driver::{Addressing, DataSegment, RKey, SendData, SendOperation};
use libc::{c_int, c_void, size_t};

use super::boundary::{guard, status};
use super::handle::Handle;
use super::objects::{Posting, Qp};
use super::request::{
    binding_of_type_2, datagram, flush, piece, remote, scatter_list, with_pieces,
};
use crate::abi::*;
use crate::builder::{Builder, Target};
use crate::errno::Errno;
use crate::os::set_errno;

/// Bytes that `ibv_wr_atomic_write` reads.
const ATOMIC_WRITE_BYTES: usize = 8;

/// Runs a step in the open section of a QP. Without a section it does nothing, and `wr_complete`
/// reports that.
///
/// # Safety
/// `qp` is a QP of this library, and if its section is open, this thread opened it.
#[inline]
unsafe fn step(qp: *mut ibv_qp_ex, step: impl FnOnce(&mut Posting) -> Result<(), Errno>) {
    let mut posting = None;
    let result = guard(|| {
        // SAFETY: the caller guarantees that `qp` is a QP of this library, and if its section is
        // open, this thread opened it.
        let qp = unsafe { Handle::<ibv_qp_ex, Qp>::borrow(qp)? };
        // SAFETY: the caller guarantees that this thread opened the section, so it holds the lock,
        // and no other reference to the cell is in use.
        posting = unsafe { qp.posting.get().as_mut() };
        posting.as_deref_mut().map_or(Ok(()), step)
    });
    if let (Err(errno), Some(posting)) = (result, posting) {
        posting.builder.fail(errno);
    }
}

/// Begins a work request with the `wr_id` and `wr_flags` that the program has set.
///
/// # Safety
/// As for [`step`].
#[inline]
unsafe fn begin(qp: *mut ibv_qp_ex, operation: SendOperation) {
    // SAFETY: the caller guarantees that `qp` is a QP of this library, and if its section is open,
    // this thread opened it.
    unsafe {
        step(qp, |Posting { batch, builder }| {
            builder.begin(batch, (*qp).wr_id, (*qp).wr_flags, operation);
            Ok(())
        });
    }
}

/// Sets the data of the current work request.
///
/// # Safety
/// As for [`step`].
#[inline]
unsafe fn data(qp: *mut ibv_qp_ex, data: SendData<'_>) {
    // SAFETY: the caller guarantees that `qp` is a QP of this library, and if its section is open,
    // this thread opened it.
    unsafe {
        step(qp, |Posting { batch, builder }| {
            builder.data(batch, data);
            Ok(())
        });
    }
}

unsafe extern "C" fn wr_start(qp: *mut ibv_qp_ex) {
    // A failure leaves the section closed; `wr_complete` reports it.
    let _ = guard(|| {
        // SAFETY: contract of `ibv_wr_start`: the program passes null or a live QP of this library;
        // `borrow` refuses null.
        let qp = unsafe { Handle::<ibv_qp_ex, Qp>::borrow(qp)? };
        qp.adapter.check()?;
        // SAFETY: the batch is kept in `posting`, which is dropped before the queue.
        let batch = unsafe { qp.lock()? };
        // SAFETY: this thread has just taken the lock, so no other reference to the cell is in use.
        *unsafe { qp.posting.get() } = Some(Posting {
            batch,
            builder: Builder::new(
                qp.addressing != Addressing::Connected,
                qp.adapter.program_clock(),
            ),
        });
        Ok(())
    });
}

/// Why `ibv_wr_complete` finds nothing to post.
const NO_SECTION: &str = "ibv_wr_start was not called, or was refused";

unsafe extern "C" fn wr_complete(qp: *mut ibv_qp_ex) -> c_int {
    status("ibv_wr_complete", || {
        // SAFETY: contract of `ibv_wr_complete`: the program passes null or a live QP of this
        // library; `borrow` refuses null.
        let qp = unsafe { Handle::<ibv_qp_ex, Qp>::borrow(qp)? };
        qp.adapter.check()?;
        // SAFETY: contract of `ibv_wr_complete`: this thread called `wr_start`, which locked the
        // send queue, and no other reference to the cell is in use.
        let Posting { batch, builder } =
            unsafe { qp.posting.get().take() }.ok_or(Errno::INVALID.because(NO_SECTION))?;
        if let Err(errno) = qp.adapter.check_world() {
            batch.abort();
            return Err(errno);
        }
        let posted = builder.complete(batch);
        posted.map_err(|errno| errno.of_queue(qp.send_limits()).of_qp(qp.pair.number().0))
    })
}

unsafe extern "C" fn wr_abort(qp: *mut ibv_qp_ex) {
    let _ = guard(|| {
        // SAFETY: contract of `ibv_wr_abort`: the program passes null or a live QP of this library;
        // `borrow` refuses null.
        let qp = unsafe { Handle::<ibv_qp_ex, Qp>::borrow(qp)? };
        // SAFETY: contract of `ibv_wr_abort`: this thread called `wr_start`, which locked the send
        // queue, and no other reference to the cell is in use.
        if let Some(posting) = unsafe { qp.posting.get().take() } {
            posting.batch.abort();
        }
        Ok(())
    });
}

unsafe extern "C" fn wr_send(qp: *mut ibv_qp_ex) {
    // SAFETY: contract of `ibv_wr_send`: `qp` is null or a live QP of this library, and this thread
    // opened its section with `ibv_wr_start`.
    unsafe { begin(qp, SendOperation::Send) }
}

unsafe extern "C" fn wr_send_imm(qp: *mut ibv_qp_ex, immediate: u32) {
    // SAFETY: contract of `ibv_wr_send_imm`: `qp` is null or a live QP of this library, and this
    // thread opened its section with `ibv_wr_start`.
    unsafe { begin(qp, SendOperation::SendImmediate(immediate.to_ne_bytes())) }
}

unsafe extern "C" fn wr_rdma_write(qp: *mut ibv_qp_ex, r_key: u32, address: u64) {
    // SAFETY: contract of `ibv_wr_rdma_write`: `qp` is null or a live QP of this library, and this
    // thread opened its section with `ibv_wr_start`.
    unsafe { begin(qp, SendOperation::RdmaWrite(remote(r_key, address))) }
}

unsafe extern "C" fn wr_rdma_write_imm(
    qp: *mut ibv_qp_ex,
    r_key: u32,
    address: u64,
    immediate: u32,
) {
    let operation =
        SendOperation::RdmaWriteImmediate(remote(r_key, address), immediate.to_ne_bytes());
    // SAFETY: contract of `ibv_wr_rdma_write_imm`: `qp` is null or a live QP of this library, and
    // this thread opened its section with `ibv_wr_start`.
    unsafe { begin(qp, operation) }
}

unsafe extern "C" fn wr_rdma_read(qp: *mut ibv_qp_ex, r_key: u32, address: u64) {
    // SAFETY: contract of `ibv_wr_rdma_read`: `qp` is null or a live QP of this library, and this
    // thread opened its section with `ibv_wr_start`.
    unsafe { begin(qp, SendOperation::RdmaRead(remote(r_key, address))) }
}

unsafe extern "C" fn wr_send_inv(qp: *mut ibv_qp_ex, r_key: u32) {
    // SAFETY: contract of `ibv_wr_send_inv`: `qp` is null or a live QP of this library, and this
    // thread opened its section with `ibv_wr_start`.
    unsafe { begin(qp, SendOperation::SendInvalidate(RKey(r_key))) }
}

unsafe extern "C" fn wr_atomic_cmp_swp(
    qp: *mut ibv_qp_ex,
    r_key: u32,
    address: u64,
    compare: u64,
    swap: u64,
) {
    let operation = SendOperation::CompareSwap {
        remote: remote(r_key, address),
        compare,
        swap,
    };
    // SAFETY: contract of `ibv_wr_atomic_cmp_swp`: `qp` is null or a live QP of this library, and
    // this thread opened its section with `ibv_wr_start`.
    unsafe { begin(qp, operation) }
}

unsafe extern "C" fn wr_atomic_fetch_add(qp: *mut ibv_qp_ex, r_key: u32, address: u64, add: u64) {
    let operation = SendOperation::FetchAdd {
        remote: remote(r_key, address),
        add,
    };
    // SAFETY: contract of `ibv_wr_atomic_fetch_add`: `qp` is null or a live QP of this library, and
    // this thread opened its section with `ibv_wr_start`.
    unsafe { begin(qp, operation) }
}

unsafe extern "C" fn wr_atomic_write(
    qp: *mut ibv_qp_ex,
    r_key: u32,
    address: u64,
    value: *const c_void,
) {
    let operation = SendOperation::AtomicWrite(remote(r_key, address));
    // SAFETY: contract of `ibv_wr_atomic_write`: `qp` is null or a live QP of this library in a
    // section of this thread, and `value` null or eight readable bytes that stay unchanged during
    // the call; null is refused.
    unsafe {
        step(qp, |Posting { batch, builder }| {
            if value.is_null() {
                return Err(Errno::null("atomic_wr"));
            }
            let value = piece(value.expose_provenance() as u64, ATOMIC_WRITE_BYTES)?;
            builder.begin(batch, (*qp).wr_id, (*qp).wr_flags, operation);
            builder.data(batch, SendData::Inline(&[value]));
            Ok(())
        });
    }
}

unsafe extern "C" fn wr_flush(
    qp: *mut ibv_qp_ex,
    r_key: u32,
    address: u64,
    length: size_t,
    placement: u8,
    level: u8,
) {
    // SAFETY: contract of `ibv_wr_flush`: `qp` is null or a live QP of this library, and this
    // thread opened its section with `ibv_wr_start`.
    unsafe {
        step(qp, |Posting { batch, builder }| {
            let operation = flush(remote(r_key, address), length, placement, level)?;
            builder.begin(batch, (*qp).wr_id, (*qp).wr_flags, operation);
            Ok(())
        });
    }
}

unsafe extern "C" fn wr_local_inv(qp: *mut ibv_qp_ex, r_key: u32) {
    // SAFETY: contract of `ibv_wr_local_inv`: `qp` is null or a live QP of this library, and this
    // thread opened its section with `ibv_wr_start`.
    unsafe {
        step(qp, |Posting { batch, builder }| {
            let operation = SendOperation::LocalInvalidate(RKey(r_key));
            builder.local(batch, (*qp).wr_id, (*qp).wr_flags, operation);
            Ok(())
        });
    }
}

unsafe extern "C" fn wr_bind_mw(
    qp: *mut ibv_qp_ex,
    mw: *mut ibv_mw,
    r_key: u32,
    info: *const ibv_mw_bind_info,
) {
    // SAFETY: contract of `ibv_wr_bind_mw`: `qp` is null or a live QP of this library in a section
    // of this thread; window and region are null or live objects of this library, and the struct
    // null or valid; null is refused.
    unsafe {
        step(qp, |Posting { batch, builder }| {
            let info = info.as_ref().ok_or_else(|| Errno::null("info"))?;
            let operation = binding_of_type_2(mw, r_key, info)?;
            builder.local(batch, (*qp).wr_id, (*qp).wr_flags, operation);
            Ok(())
        });
    }
}

unsafe extern "C" fn wr_set_ud_addr(qp: *mut ibv_qp_ex, ah: *mut ibv_ah, qpn: u32, q_key: u32) {
    // SAFETY: contract of `ibv_wr_set_ud_addr`: `qp` is null or a live QP of this library in a
    // section of this thread, and the address handle null or one of this library.
    unsafe {
        step(qp, |Posting { batch, builder }| {
            let body = Handle::<ibv_qp_ex, Qp>::borrow(qp)?;
            builder.target(batch, datagram(body, ah, qpn, q_key)?);
            Ok(())
        });
    }
}

unsafe extern "C" fn wr_set_xrc_srqn(qp: *mut ibv_qp_ex, srqn: u32) {
    // SAFETY: contract of `ibv_wr_set_xrc_srqn`: `qp` is null or a live QP of this library, and
    // this thread opened its section with `ibv_wr_start`.
    unsafe {
        step(qp, |Posting { batch, builder }| {
            builder.target(batch, Target::Xrc { srqn });
            Ok(())
        });
    }
}

unsafe extern "C" fn wr_set_sge(qp: *mut ibv_qp_ex, l_key: u32, address: u64, length: u32) {
    // SAFETY: contract of `ibv_wr_set_sge`: `qp` is null or a live QP of this library, and this
    // thread opened its section with `ibv_wr_start`.
    unsafe {
        data(
            qp,
            SendData::ScatterGather(&[DataSegment {
                address,
                length,
                l_key,
            }]),
        );
    }
}

unsafe extern "C" fn wr_set_sge_list(qp: *mut ibv_qp_ex, count: size_t, list: *const ibv_sge) {
    // SAFETY: contract of `ibv_wr_set_sge_list`: `qp` is null or a live QP of this library in a
    // section of this thread, and the list has that many elements, unchanged during the call.
    unsafe {
        step(qp, |Posting { batch, builder }| {
            builder.data(batch, SendData::ScatterGather(scatter_list(list, count)?));
            Ok(())
        });
    }
}

unsafe extern "C" fn wr_set_inline_data(qp: *mut ibv_qp_ex, address: *mut c_void, length: size_t) {
    // SAFETY: contract of `ibv_wr_set_inline_data`: `qp` is null or a live QP of this library in a
    // section of this thread, and the memory is readable and unchanged during the call.
    unsafe {
        step(qp, |Posting { batch, builder }| {
            let piece = piece(address.expose_provenance() as u64, length)?;
            builder.data(batch, SendData::Inline(&[piece]));
            Ok(())
        });
    }
}

unsafe extern "C" fn wr_set_inline_data_list(
    qp: *mut ibv_qp_ex,
    count: size_t,
    list: *const ibv_data_buf,
) {
    // SAFETY: contract of `ibv_wr_set_inline_data_list`: `qp` is null or a live QP of this library
    // in a section of this thread; the list has that many elements, and the memory that it names is
    // readable and unchanged during the call.
    unsafe {
        step(qp, |Posting { batch, builder }| {
            if count != 0 && list.is_null() {
                return Err(Errno::null("buf_list"));
            }
            let buffer = |index| {
                let buffer: ibv_data_buf = *list.add(index);
                piece(buffer.addr.expose_provenance() as u64, buffer.length)
            };
            with_pieces(count, buffer, |pieces| {
                builder.data(batch, SendData::Inline(pieces));
                Ok(())
            })
        });
    }
}

/// Fills the entries of those operations whose flag is set.
macro_rules! fill_operations {
    ($qp:ident, $operations:ident: $($flag:ident => $entry:ident,)*) => {
        $(if $operations & $flag != 0 {
            $qp.$entry = Some($entry);
        })*
    };
}

/// Fills the table of a QP that was created with these `send_ops_flags`. Entries of other
/// operations stay empty, as in every provider: programs look which are there.
pub(super) fn fill(qp: &mut ibv_qp_ex, operations: u64) {
    fill_operations! { qp, operations:
        IBV_QP_EX_WITH_SEND => wr_send,
        IBV_QP_EX_WITH_SEND_WITH_IMM => wr_send_imm,
        IBV_QP_EX_WITH_SEND_WITH_INV => wr_send_inv,
        IBV_QP_EX_WITH_RDMA_WRITE => wr_rdma_write,
        IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM => wr_rdma_write_imm,
        IBV_QP_EX_WITH_RDMA_READ => wr_rdma_read,
        IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP => wr_atomic_cmp_swp,
        IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD => wr_atomic_fetch_add,
        IBV_QP_EX_WITH_ATOMIC_WRITE => wr_atomic_write,
        IBV_QP_EX_WITH_FLUSH => wr_flush,
        IBV_QP_EX_WITH_LOCAL_INV => wr_local_inv,
        IBV_QP_EX_WITH_BIND_MW => wr_bind_mw,
    }
    qp.wr_start = Some(wr_start);
    qp.wr_complete = Some(wr_complete);
    qp.wr_abort = Some(wr_abort);
    qp.wr_set_ud_addr = Some(wr_set_ud_addr);
    qp.wr_set_xrc_srqn = Some(wr_set_xrc_srqn);
    qp.wr_set_sge = Some(wr_set_sge);
    qp.wr_set_sge_list = Some(wr_set_sge_list);
    qp.wr_set_inline_data = Some(wr_set_inline_data);
    qp.wr_set_inline_data_list = Some(wr_set_inline_data_list);
}

/// `ibv_qp_to_qp_ex`: null unless the QP was created with `send_ops_flags`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_qp_to_qp_ex(qp: *mut ibv_qp) -> *mut ibv_qp_ex {
    // SAFETY: contract of `ibv_qp_to_qp_ex`: the program passes null or a live QP of this library;
    // `borrow` refuses null.
    match unsafe { Handle::<ibv_qp_ex, Qp>::borrow(qp) } {
        Ok(body) if body.extended => qp.cast(),
        Ok(_) => std::ptr::null_mut(),
        Err(errno) => {
            set_errno(errno);
            std::ptr::null_mut()
        }
    }
}
