//! `ibv_start_poll` and the calls after it: the entries of `struct ibv_cq_ex`.
//!
//! A thread holds the CQ's lock from `ibv_start_poll` to `ibv_end_poll`.

use std::mem::transmute;

use ferroce_driver::bus::{PollFunction, ProgramClock};
use ferroce_driver::{CompletionStatus, WorkCompletion};
use libc::{c_int, c_uint, c_void};

use super::boundary::{guard, refused};
use super::handle::Handle;
use super::objects::{Cq, Polling};
use crate::abi::*;
use crate::cq::{flags, immediate, opcode_number, service_level, status_number};
use crate::errno::Errno;

/// Copies a completion to the public part of the CQ.
///
/// # Safety
/// `cq` is a CQ of this library.
#[inline]
unsafe fn show(cq: *mut ibv_cq_ex, completion: &WorkCompletion) {
    // SAFETY: the caller guarantees that `cq` is a CQ of this library.
    unsafe {
        (*cq).status = status_number(completion.status);
        (*cq).wr_id = completion.wr_id;
    }
}

/// Charges a poll with this many completions.
#[inline]
fn charge(cq: &Cq, completions: usize) {
    if let Some(clock) = cq.adapter.program_clock() {
        clock.polled(cq.queue.number(), completions);
    }
}

/// Shows the QP of a failed completion as failed in `ferroce top`.
#[inline]
fn note_failure(cq: &Cq, completion: &WorkCompletion) {
    if completion.status != CompletionStatus::Success {
        cq.show_failed(completion);
    }
}

/// Returns the errno of a call that has no completion.
#[inline]
fn failed(verb: &str, errno: Errno) -> c_int {
    if !errno.is_usual() {
        refused(verb, errno);
    }
    errno.number()
}

unsafe extern "C" fn start_poll(cq: *mut ibv_cq_ex, attr: *mut ibv_poll_cq_attr) -> c_int {
    let found = guard(|| {
        // SAFETY: contract of `ibv_start_poll`: `cq` is null or a live CQ of this library, and the
        // struct null or valid; null is refused.
        let (body, attr) = unsafe { (Handle::<ibv_cq_ex, Cq>::borrow(cq)?, attr.as_ref()) };
        body.adapter.check()?;
        if attr.is_some_and(|attr| attr.comp_mask != 0) {
            let mask = attr.map_or(0, |attr| attr.comp_mask);
            return Err(Errno::wrong("attr->comp_mask", mask, "0"));
        }
        if let Some(clock) = body.adapter.program_clock() {
            clock.before_poll(&*body.queue);
        }
        if body.queue.is_empty() {
            body.queue.relax();
        } else {
            body.queue.note_poll();
        }
        // SAFETY: the poller is kept in `polling`, which is dropped before the CQ, or dropped in
        // this function.
        let mut poller = unsafe { body.lock() };
        let mut found = poller.next();
        charge(body, usize::from(found.is_some()));
        if found.is_none() && body.check_device().is_err() {
            // The device may have failed since; then its outstanding requests are flushed now.
            found = poller.next();
        }
        let Some(current) = found else {
            body.check_device()?;
            return Err(Errno::NO_ENTRY);
        };
        note_failure(body, &current);
        // SAFETY: `borrow` has accepted the CQ, which is alive during the call (contract of
        // `ibv_start_poll`), and `poller` holds its lock, so no other reference to the cell is in
        // use.
        unsafe {
            show(cq, &current);
            *body.polling.get() = Some(Polling { poller, current });
        }
        Ok(())
    });
    // An empty CQ does not set errno.
    found.map_or_else(|errno| failed("ibv_start_poll", errno), |()| 0)
}

unsafe extern "C" fn next_poll(cq: *mut ibv_cq_ex) -> c_int {
    let found = guard(|| {
        // SAFETY: contract of `ibv_next_poll`: the program passes null or a live CQ of this
        // library; `borrow` refuses null.
        let body = unsafe { Handle::<ibv_cq_ex, Cq>::borrow(cq)? };
        // SAFETY: contract of `ibv_next_poll`: this thread called `start_poll`, which locked the
        // CQ, and no other reference to the cell is in use.
        let polling = unsafe { body.polling.get() }
            .as_mut()
            .ok_or(Errno::INVALID.because("ibv_start_poll was not called, or was refused"))?;
        polling.current = polling.poller.next().ok_or(Errno::NO_ENTRY)?;
        charge(body, 1);
        note_failure(body, &polling.current);
        // SAFETY: `borrow` has accepted the CQ, which is alive during the call (contract of
        // `ibv_next_poll`).
        unsafe { show(cq, &polling.current) };
        Ok(())
    });
    found.map_or_else(|errno| failed("ibv_next_poll", errno), |()| 0)
}

unsafe extern "C" fn end_poll(cq: *mut ibv_cq_ex) {
    let _ = guard(|| {
        // SAFETY: contract of `ibv_end_poll`: the program passes null or a live CQ of this library;
        // `borrow` refuses null.
        let body = unsafe { Handle::<ibv_cq_ex, Cq>::borrow(cq)? };
        // SAFETY: contract of `ibv_end_poll`: this thread called `start_poll`, which locked the CQ,
        // and no other reference to the cell is in use.
        drop(unsafe { body.polling.get() }.take());
        Ok(())
    });
}

/// Reads a field of the current completion; zero outside of a poll.
///
/// # Safety
/// `cq` is a CQ of this library, and if it is being polled, this thread polls it.
#[inline]
unsafe fn read<T: Default>(cq: *mut ibv_cq_ex, field: impl FnOnce(&WorkCompletion) -> T) -> T {
    // SAFETY: the caller guarantees that `cq` is a CQ of this library, and if it is being polled,
    // this thread polls it.
    let polling = unsafe {
        match Handle::<ibv_cq_ex, Cq>::borrow(cq) {
            Ok(body) => body.polling.get().as_ref(),
            Err(_) => None,
        }
    };
    polling.map_or_else(T::default, |polling| field(&polling.current))
}

/// Declares entries that read one field.
macro_rules! readers {
    ($($name:ident: $type:ty = $field:expr;)*) => {$(
        unsafe extern "C" fn $name(cq: *mut ibv_cq_ex) -> $type {
            // SAFETY: contract of `ibv_wc_read_*`: `cq` is null or a live CQ of this library, and
            // this thread is between `ibv_start_poll` and `ibv_end_poll` on it.
            unsafe { read(cq, $field) }
        }
    )*};
}

readers! {
    read_opcode: c_int = |completion| opcode_number(completion.opcode);
    read_vendor_err: u32 = |completion| completion.vendor_error;
    read_byte_len: u32 = |completion| completion.byte_length;
    read_imm_data: u32 = immediate;
    read_qp_num: u32 = |completion| completion.qpn.0;
    read_src_qp: u32 = |completion| completion.source_qpn.0;
    read_wc_flags: c_uint = flags;
    read_completion_ts: u64 = |completion| completion.timestamp_ns;
    read_sl: u8 = service_level;
    // Ethernet has no local identifiers and paths.
    read_slid: u32 = |_| 0;
    read_dlid_path_bits: u8 = |_| 0;
}

/// Returns the nanoseconds since 1970 at which the completion was made.
unsafe extern "C" fn read_completion_wallclock_ns(cq: *mut ibv_cq_ex) -> u64 {
    // SAFETY: contract of `ibv_wc_read_completion_wallclock_ns`: `cq` is null or a live CQ of this
    // library; `borrow` refuses null.
    let Ok(body) = (unsafe { Handle::<ibv_cq_ex, Cq>::borrow(cq) }) else {
        return 0;
    };
    // SAFETY: contract of `ibv_wc_read_completion_wallclock_ns`: `cq` is null or a live CQ of this
    // library, and this thread is between `ibv_start_poll` and `ibv_end_poll` on it.
    let made_ns = unsafe { read(cq, |completion| completion.timestamp_ns) };
    body.adapter.wall_clock_ns(made_ns).unwrap_or(0)
}

/// Fills the table of a CQ. Entries of fields that cannot be requested stay empty, as in every
/// provider.
pub(super) fn fill(cq: &mut ibv_cq_ex) {
    cq.start_poll = Some(start_poll);
    cq.next_poll = Some(next_poll);
    cq.end_poll = Some(end_poll);
    cq.read_opcode = Some(read_opcode);
    cq.read_vendor_err = Some(read_vendor_err);
    cq.read_byte_len = Some(read_byte_len);
    cq.read_imm_data = Some(read_imm_data);
    cq.read_qp_num = Some(read_qp_num);
    cq.read_src_qp = Some(read_src_qp);
    cq.read_wc_flags = Some(read_wc_flags);
    cq.read_completion_ts = Some(read_completion_ts);
    cq.read_completion_wallclock_ns = Some(read_completion_wallclock_ns);
    cq.read_slid = Some(read_slid);
    cq.read_sl = Some(read_sl);
    cq.read_dlid_path_bits = Some(read_dlid_path_bits);
}

/// In simulated time, makes `ibv_start_poll` record its callers.
pub(super) fn note_callers(cq: &mut ibv_cq_ex, clock: &dyn ProgramClock) {
    type StartPoll = unsafe extern "C" fn(*mut ibv_cq_ex, *mut ibv_poll_cq_attr) -> c_int;
    let Some(target) = cq.start_poll else { return };
    let noting = clock.noting_caller(PollFunction::StartPoll, target as *const c_void);
    // SAFETY: `noting_caller` returns a function that continues at `target` with the same
    // arguments, so it has the same type.
    cq.start_poll = Some(unsafe { transmute::<*const c_void, StartPoll>(noting) });
}
