//! `ibv_wr_*`: the entries of `struct ibv_qp_ex`.
//!
//! They run in the critical section of one thread, which holds the send queue's lock from
//! `wr_start` to `wr_complete` or `wr_abort`. None but `wr_complete` can tell of a failure.

use super::boundary::{guard, set_errno, status};
use super::handle::Handle;
use super::objects::{Posting, Qp};
use super::request::{binding_of_type_2, datagram, piece, remote, scatter_list, with_pieces};
use crate::builder::{Builder, Target};
use crate::errno::Errno;
use crate::ffi::abi::*;
use crate::qp::Addressing;
use ferroce_driver::{DataSegment, RKey, SendData, SendOperation};
use libc::{c_int, c_void, size_t};

/// Runs a step in the open section of a QP. Without a section there is nothing to run in, and
/// `wr_complete` says so.
///
/// # Safety
/// `qp` is a QP of this library, and if its section is open, this thread opened it.
#[inline]
unsafe fn step(qp: *mut ibv_qp_ex, step: impl FnOnce(&mut Posting) -> Result<(), Errno>) {
    let mut posting = None;
    let result = guard(|| {
        // SAFETY: by the contract.
        let qp = unsafe { Handle::<ibv_qp_ex, Qp>::borrow(qp)? };
        // SAFETY: this thread holds the lock, by the contract.
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
    // SAFETY: by the contract.
    unsafe {
        step(qp, |Posting { batch, builder }| {
            builder.begin(batch, (*qp).wr_id, (*qp).wr_flags, operation);
            Ok(())
        });
    }
}

/// Gives the data of the work request that was begun.
///
/// # Safety
/// As for [`step`].
#[inline]
unsafe fn data(qp: *mut ibv_qp_ex, data: SendData<'_>) {
    // SAFETY: by the contract.
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
        // SAFETY: the program passes a QP of this library.
        let qp = unsafe { Handle::<ibv_qp_ex, Qp>::borrow(qp)? };
        qp.adapter.check()?;
        // SAFETY: the batch is kept in `posting`.
        let batch = unsafe { qp.lock()? };
        // SAFETY: this thread has just taken the lock.
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

unsafe extern "C" fn wr_complete(qp: *mut ibv_qp_ex) -> c_int {
    status(|| {
        // SAFETY: the program passes a QP of this library.
        let qp = unsafe { Handle::<ibv_qp_ex, Qp>::borrow(qp)? };
        qp.adapter.check()?;
        // SAFETY: this thread holds the lock since `wr_start`.
        let Posting { batch, builder } =
            unsafe { qp.posting.get().take() }.ok_or(Errno::INVALID)?;
        if let Err(errno) = qp.adapter.check_world() {
            batch.abort();
            return Err(errno);
        }
        builder.complete(batch)
    })
}

unsafe extern "C" fn wr_abort(qp: *mut ibv_qp_ex) {
    let _ = guard(|| {
        // SAFETY: the program passes a QP of this library.
        let qp = unsafe { Handle::<ibv_qp_ex, Qp>::borrow(qp)? };
        // SAFETY: this thread holds the lock since `wr_start`.
        if let Some(posting) = unsafe { qp.posting.get().take() } {
            posting.batch.abort();
        }
        Ok(())
    });
}

unsafe extern "C" fn wr_send(qp: *mut ibv_qp_ex) {
    // SAFETY: the program's QP, in its section.
    unsafe { begin(qp, SendOperation::Send) }
}

unsafe extern "C" fn wr_send_imm(qp: *mut ibv_qp_ex, immediate: u32) {
    // SAFETY: the program's QP, in its section.
    unsafe { begin(qp, SendOperation::SendImmediate(immediate.to_ne_bytes())) }
}

unsafe extern "C" fn wr_rdma_write(qp: *mut ibv_qp_ex, r_key: u32, address: u64) {
    // SAFETY: the program's QP, in its section.
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
    // SAFETY: the program's QP, in its section.
    unsafe { begin(qp, operation) }
}

unsafe extern "C" fn wr_rdma_read(qp: *mut ibv_qp_ex, r_key: u32, address: u64) {
    // SAFETY: the program's QP, in its section.
    unsafe { begin(qp, SendOperation::RdmaRead(remote(r_key, address))) }
}

unsafe extern "C" fn wr_send_inv(qp: *mut ibv_qp_ex, r_key: u32) {
    // SAFETY: the program's QP, in its section.
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
    // SAFETY: the program's QP, in its section.
    unsafe { begin(qp, operation) }
}

unsafe extern "C" fn wr_atomic_fetch_add(qp: *mut ibv_qp_ex, r_key: u32, address: u64, add: u64) {
    let operation = SendOperation::FetchAdd {
        remote: remote(r_key, address),
        add,
    };
    // SAFETY: the program's QP, in its section.
    unsafe { begin(qp, operation) }
}

unsafe extern "C" fn wr_local_inv(qp: *mut ibv_qp_ex, r_key: u32) {
    // SAFETY: the program's QP, in its section.
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
    // SAFETY: the program's QP, in its section, its window, its struct and its region.
    unsafe {
        step(qp, |Posting { batch, builder }| {
            let info = info.as_ref().ok_or(Errno::INVALID)?;
            let operation = binding_of_type_2(mw, r_key, info)?;
            builder.local(batch, (*qp).wr_id, (*qp).wr_flags, operation);
            Ok(())
        });
    }
}

unsafe extern "C" fn wr_set_ud_addr(qp: *mut ibv_qp_ex, ah: *mut ibv_ah, qpn: u32, q_key: u32) {
    // SAFETY: the program's QP, in its section, and its address handle.
    unsafe {
        step(qp, |Posting { batch, builder }| {
            let body = Handle::<ibv_qp_ex, Qp>::borrow(qp)?;
            builder.target(batch, datagram(body, ah, qpn, q_key)?);
            Ok(())
        });
    }
}

unsafe extern "C" fn wr_set_xrc_srqn(qp: *mut ibv_qp_ex, srqn: u32) {
    // SAFETY: the program's QP, in its section.
    unsafe {
        step(qp, |Posting { batch, builder }| {
            builder.target(batch, Target::Xrc { srqn });
            Ok(())
        });
    }
}

unsafe extern "C" fn wr_set_sge(qp: *mut ibv_qp_ex, l_key: u32, address: u64, length: u32) {
    // SAFETY: the program's QP, in its section.
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
    // SAFETY: the program's QP, in its section, and its list.
    unsafe {
        step(qp, |Posting { batch, builder }| {
            builder.data(batch, SendData::ScatterGather(scatter_list(list, count)?));
            Ok(())
        });
    }
}

unsafe extern "C" fn wr_set_inline_data(qp: *mut ibv_qp_ex, address: *mut c_void, length: size_t) {
    // SAFETY: the program's QP, in its section, and its memory.
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
    // SAFETY: the program's QP, in its section, its list and its memory.
    unsafe {
        step(qp, |Posting { batch, builder }| {
            if count != 0 && list.is_null() {
                return Err(Errno::INVALID);
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

/// Fills the table of a QP that was created with `send_ops_flags`. Entries of operations that
/// cannot be asked for stay empty, as in every provider.
pub(super) fn fill(qp: &mut ibv_qp_ex) {
    qp.wr_start = Some(wr_start);
    qp.wr_complete = Some(wr_complete);
    qp.wr_abort = Some(wr_abort);
    qp.wr_send = Some(wr_send);
    qp.wr_send_imm = Some(wr_send_imm);
    qp.wr_rdma_write = Some(wr_rdma_write);
    qp.wr_rdma_write_imm = Some(wr_rdma_write_imm);
    qp.wr_rdma_read = Some(wr_rdma_read);
    qp.wr_send_inv = Some(wr_send_inv);
    qp.wr_atomic_cmp_swp = Some(wr_atomic_cmp_swp);
    qp.wr_atomic_fetch_add = Some(wr_atomic_fetch_add);
    qp.wr_local_inv = Some(wr_local_inv);
    qp.wr_bind_mw = Some(wr_bind_mw);
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
    // SAFETY: the program passes a QP of this library.
    match unsafe { Handle::<ibv_qp_ex, Qp>::borrow(qp) } {
        Ok(body) if body.extended => qp.cast(),
        Ok(_) => std::ptr::null_mut(),
        Err(errno) => {
            set_errno(errno);
            std::ptr::null_mut()
        }
    }
}
