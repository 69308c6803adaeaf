//! Calls that block: event reads, and destruction that waits for acknowledgements.
//!
//! A thread may be cancelled in them. Cancellation unwinds the stack, which Rust code with values
//! to drop does not survive, so these are plain frames: one system call of libc, and helpers that
//! are `extern "C"` and not inlined, so that they add no clean-up to the caller.

use ferroce_driver::bus::Slept;
use libc::{c_int, c_uint, c_void, pthread_cond_t, pthread_mutex_t};

use super::boundary::{guard, or_errno, status};
use super::handle::{Claim, Handle};
use super::objects::{Channel, Context, Cq, Qp};
use crate::abi::*;
use crate::adapter::Adapter;
use crate::errno::Errno;
use crate::event::{EventQueue, Subject};
use crate::os::event_fd::EVENT_BYTES;
use crate::os::{last_errno, set_errno};
use crate::srq::Srq;
use crate::waiting::Wait;

/// Result of taking an event after a count was read.
const FOUND: c_int = 0;
/// The event had been purged: read again.
const PURGED: c_int = 1;

/// `ibv_get_cq_event`: 0, or -1 and errno of reading the channel's descriptor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_cq_event(
    channel: *mut ibv_comp_channel,
    cq: *mut *mut ibv_cq,
    cq_context: *mut *mut c_void,
) -> c_int {
    let mut bytes = [0_u8; EVENT_BYTES];
    loop {
        let fd = channel_fd(channel);
        if fd < 0 {
            return -1;
        }
        let is_unarmed = note_unarmed(channel);
        let mut came = sleep_on_channel(channel, fd) >= 0;
        if came {
            // SAFETY: the kernel writes at most eight bytes to the local `bytes`, which has that
            // size.
            came = unsafe { libc::read(fd, bytes.as_mut_ptr().cast(), EVENT_BYTES) } >= 0;
        }
        if is_unarmed != 0 {
            note_end(Wait::Arming);
        }
        if !came {
            return -1;
        }
        match take_completion_event(channel, cq, cq_context) {
            PURGED => {}
            outcome => return outcome,
        }
    }
}

/// `ibv_get_async_event`: 0, or -1 and errno of reading the context's descriptor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_async_event(
    context: *mut ibv_context,
    event: *mut ibv_async_event,
) -> c_int {
    let mut bytes = [0_u8; EVENT_BYTES];
    loop {
        let fd = context_fd(context);
        if fd < 0 {
            return -1;
        }
        if sleep_on_context(context, fd) < 0 {
            return -1;
        }
        // SAFETY: the kernel writes at most eight bytes to the local `bytes`, which has that size.
        if unsafe { libc::read(fd, bytes.as_mut_ptr().cast(), EVENT_BYTES) } < 0 {
            return -1;
        }
        match take_async_event(context, event) {
            PURGED => {}
            outcome => return outcome,
        }
    }
}

/// Returns the descriptor of a channel, or -1 and errno.
#[inline(never)]
extern "C" fn channel_fd(channel: *mut ibv_comp_channel) -> c_int {
    super::boundary::minus_one("ibv_get_cq_event", || {
        // SAFETY: contract of `channel_fd`: the program passes null or a live channel of this
        // library; `borrow` refuses null.
        let channel = unsafe { Handle::<ibv_comp_channel, Channel>::borrow(channel)? };
        channel.adapter.check()?;
        Ok(channel.events.fd())
    })
}

/// Reports that a call waits for an event that nothing announces: returns 1; 0 if one may come.
#[inline(never)]
extern "C" fn note_unarmed(channel: *mut ibv_comp_channel) -> c_int {
    let noted = guard(|| {
        // SAFETY: contract of `ibv_get_cq_event`: the program passes null or a live channel of this
        // library; `borrow` refuses null.
        let channel = unsafe { Handle::<ibv_comp_channel, Channel>::borrow(channel)? };
        let is_unarmed = channel.events.is_unarmed();
        if is_unarmed {
            Wait::Arming.begin();
        }
        Ok(is_unarmed.into())
    });
    noted.unwrap_or(0)
}

/// Reports that a call waits.
#[inline(never)]
extern "C" fn note_begin(wait: Wait) {
    let _ = guard(|| {
        wait.begin();
        Ok(())
    });
}

/// Reports that a call no longer waits. Leaves errno as it is.
#[inline(never)]
extern "C" fn note_end(wait: Wait) {
    let errno = last_errno();
    let _ = guard(|| {
        wait.end();
        Ok(())
    });
    set_errno(errno);
}

/// Returns the descriptor of a context's async queue, or -1 and errno.
#[inline(never)]
extern "C" fn context_fd(context: *mut ibv_context) -> c_int {
    super::boundary::minus_one("ibv_get_async_event", || {
        // SAFETY: contract of `context_fd`: the program passes null or an open context of this
        // library; `borrow` refuses null.
        let context = unsafe { Context::borrow(context)? };
        context.adapter.check()?;
        Ok(context.events.fd())
    })
}

/// In simulated time, waits until an event can be read: 0, or -1 and errno.
#[inline(never)]
extern "C" fn sleep_on_channel(channel: *mut ibv_comp_channel, fd: c_int) -> c_int {
    or_errno(|| {
        // SAFETY: contract of `ibv_get_cq_event`: the program passes null or a live channel of this
        // library; `borrow` refuses null.
        let channel = unsafe { Handle::<ibv_comp_channel, Channel>::borrow(channel)? };
        sleep_until_event(&channel.adapter, &channel.events, fd)
    })
}

/// Like [`sleep_on_channel`], for the async events of a context.
#[inline(never)]
extern "C" fn sleep_on_context(context: *mut ibv_context, fd: c_int) -> c_int {
    or_errno(|| {
        // SAFETY: contract of `ibv_get_async_event`: the program passes null or an open context of
        // this library; `borrow` refuses null.
        let context = unsafe { Context::borrow(context)? };
        sleep_until_event(&context.adapter, &context.events, fd)
    })
}

fn sleep_until_event(adapter: &Adapter, events: &EventQueue, fd: c_int) -> Result<c_int, Errno> {
    let Some(clock) = adapter.program_clock() else {
        return Ok(0);
    };
    // SAFETY: the system call takes no pointers.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    if flags & libc::O_NONBLOCK != 0 {
        clock.catch_up();
        return Ok(0);
    }
    match clock.sleep_until(&mut || !events.is_empty()) {
        Slept::Found => Ok(0),
        Slept::Interrupted => Err(Errno::new(libc::EINTR)),
    }
}

#[inline(never)]
extern "C" fn take_completion_event(
    channel: *mut ibv_comp_channel,
    cq: *mut *mut ibv_cq,
    cq_context: *mut *mut c_void,
) -> c_int {
    super::boundary::minus_one("ibv_get_cq_event", || {
        // SAFETY: contract of `ibv_get_cq_event`: the program passes null or a live channel of
        // this library; `borrow` refuses null.
        let channel = unsafe { Handle::<ibv_comp_channel, Channel>::borrow(channel)? };
        let Some(Subject::Completion(source)) = channel.events.take() else {
            return Ok(PURGED);
        };
        let found: *mut ibv_cq = std::ptr::with_exposed_provenance_mut(source.address());
        // SAFETY: destroying a CQ waits until the events that were taken are acknowledged, so it is
        // alive. The other two pointers are null or writable (contract of `ibv_get_cq_event`).
        unsafe {
            if let Some(cq) = cq.as_mut() {
                *cq = found;
            }
            if let Some(cq_context) = cq_context.as_mut() {
                *cq_context = (*found).cq_context;
            }
        }
        Ok(FOUND)
    })
}

#[inline(never)]
extern "C" fn take_async_event(context: *mut ibv_context, event: *mut ibv_async_event) -> c_int {
    super::boundary::minus_one("ibv_get_async_event", || {
        // SAFETY: contract of `ibv_get_async_event`: the context is null or an open context of this
        // library, and the struct null or valid; null is refused.
        let (context, event) = unsafe { (Context::borrow(context)?, event.as_mut()) };
        let event = event.ok_or_else(|| Errno::null("event"))?;
        let (kind, element) = match context.events.take() {
            Some(Subject::Object(kind, source)) => {
                let object = std::ptr::with_exposed_provenance_mut(source.address());
                (kind, ibv_async_element { qp: object })
            }
            Some(Subject::Port(kind)) => (kind, ibv_async_element { port_num: 1 }),
            _ => return Ok(PURGED),
        };
        *event = ibv_async_event {
            element,
            event_type: kind,
        };
        Ok(FOUND)
    })
}

/// Counts acknowledgements and wakes the waiting threads.
///
/// # Safety
/// The three belong to one object of this library that is alive.
unsafe fn acknowledge(
    mutex: *mut pthread_mutex_t,
    cond: *mut pthread_cond_t,
    completed: *mut u32,
    count: c_uint,
) {
    // SAFETY: the caller guarantees that the three belong to one live object of this library; the
    // counter is only accessed under the mutex.
    unsafe {
        libc::pthread_mutex_lock(mutex);
        *completed = (*completed).wrapping_add(count);
        libc::pthread_cond_signal(cond);
        unlock(mutex);
    }
}

/// Unlocks a mutex by a call that returns here, never by a tail call. The thread sanitizer ignores
/// libc calls from a library that was built without it, which it recognises by the return address.
/// After a tail call that would be the program's address, and the sanitizer would report an unlock
/// of a mutex that was never locked.
///
/// # Safety
/// The contract of `pthread_mutex_unlock`.
#[inline(always)]
unsafe fn unlock(mutex: *mut pthread_mutex_t) {
    // SAFETY: the caller keeps the same contract.
    std::hint::black_box(unsafe { libc::pthread_mutex_unlock(mutex) });
}

/// Waits until all reported events are acknowledged.
///
/// # Safety
/// As for [`acknowledge`].
#[inline(never)]
unsafe extern "C" fn wait_for_acknowledgements(
    mutex: *mut pthread_mutex_t,
    cond: *mut pthread_cond_t,
    completed: *const u32,
    reported: u32,
    wait: Wait,
) {
    // SAFETY: the caller guarantees that the three belong to one object of this library that is
    // alive.
    unsafe {
        libc::pthread_mutex_lock(mutex);
        if completed.read_volatile() != reported {
            note_begin(wait);
            while completed.read_volatile() != reported {
                libc::pthread_cond_wait(cond, mutex);
            }
            note_end(wait);
        }
        unlock(mutex);
    }
}

/// `ibv_ack_cq_events`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_ack_cq_events(cq: *mut ibv_cq, count: c_uint) {
    if cq.is_null() || count == 0 {
        return;
    }
    // SAFETY: contract of `ibv_ack_cq_events`: `cq` is a live CQ of this library.
    unsafe {
        let completed = &raw mut (*cq).comp_events_completed;
        acknowledge(&raw mut (*cq).mutex, &raw mut (*cq).cond, completed, count);
    }
}

/// `ibv_ack_async_event`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_ack_async_event(event: *mut ibv_async_event) {
    // SAFETY: contract of `ibv_ack_async_event`: the program passes an event that it got from
    // `ibv_get_async_event`, whose object is alive.
    unsafe {
        let Some(event) = event.as_ref() else { return };
        match event.event_type {
            IBV_EVENT_CQ_ERR => {
                let cq = event.element.cq;
                let completed = &raw mut (*cq).async_events_completed;
                acknowledge(&raw mut (*cq).mutex, &raw mut (*cq).cond, completed, 1);
            }
            IBV_EVENT_QP_FATAL..=IBV_EVENT_PATH_MIG_ERR | IBV_EVENT_QP_LAST_WQE_REACHED => {
                let qp = event.element.qp;
                let completed = &raw mut (*qp).events_completed;
                acknowledge(&raw mut (*qp).mutex, &raw mut (*qp).cond, completed, 1);
            }
            IBV_EVENT_SRQ_ERR | IBV_EVENT_SRQ_LIMIT_REACHED => {
                let srq = event.element.srq;
                let completed = &raw mut (*srq).events_completed;
                acknowledge(&raw mut (*srq).mutex, &raw mut (*srq).cond, completed, 1);
            }
            _ => {}
        }
    }
}

/// `ibv_destroy_cq`: waits until every event that was read is acknowledged.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_cq(cq: *mut ibv_cq) -> c_int {
    let mut reported = [0_u32; 2];
    if stop_cq(cq, &mut reported) != 0 {
        return last_errno().number();
    }
    // SAFETY: the step before has accepted the CQ, which is alive until `free_cq`.
    unsafe {
        let (mutex, cond) = (&raw mut (*cq).mutex, &raw mut (*cq).cond);
        wait_for_acknowledgements(
            mutex,
            cond,
            &raw const (*cq).comp_events_completed,
            reported[0],
            Wait::CompletionEvents,
        );
        wait_for_acknowledgements(
            mutex,
            cond,
            &raw const (*cq).async_events_completed,
            reported[1],
            Wait::CqEvents,
        );
    }
    free_cq(cq);
    0
}

#[inline(never)]
extern "C" fn stop_cq(cq: *mut ibv_cq, reported: &mut [u32; 2]) -> c_int {
    status("ibv_destroy_cq", || {
        // SAFETY: contract of `ibv_destroy_cq`: the program passes null or a CQ of this library;
        // `claim` refuses one that is not live.
        let claim = unsafe { Handle::<ibv_cq_ex, Cq>::claim(cq)? };
        claim.destroy()?;
        *reported = [
            claim.source.completion_reported(),
            claim.source.async_reported(),
        ];
        claim.keep();
        Ok(())
    })
}

#[inline(never)]
extern "C" fn free_cq(cq: *mut ibv_cq) {
    status("ibv_destroy_cq", || {
        // SAFETY: the claim was kept by the first step of this destruction; the CQ is destroyed on
        // the device, and every event of it is acknowledged, so no thread uses it (contract of
        // `ibv_destroy_*`).
        unsafe {
            super::exports::release_channel((*cq).channel);
            Claim::<ibv_cq_ex, Cq>::resume(cq).free();
        }
        Ok(())
    });
}

/// `ibv_destroy_qp`: waits until every async event that was read is acknowledged.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_qp(qp: *mut ibv_qp) -> c_int {
    let mut reported = 0_u32;
    if stop_qp(qp, &mut reported) != 0 {
        return last_errno().number();
    }
    // SAFETY: the step before has accepted the QP, which is alive until `free_qp`.
    unsafe {
        let (mutex, cond) = (&raw mut (*qp).mutex, &raw mut (*qp).cond);
        let completed = &raw const (*qp).events_completed;
        wait_for_acknowledgements(mutex, cond, completed, reported, Wait::QpEvents);
    }
    free_qp(qp);
    0
}

#[inline(never)]
extern "C" fn stop_qp(qp: *mut ibv_qp, reported: &mut u32) -> c_int {
    status("ibv_destroy_qp", || {
        // SAFETY: contract of `ibv_destroy_qp`: the program passes null or a QP of this library;
        // `claim` refuses one that is not live.
        let claim = unsafe { Handle::<ibv_qp_ex, Qp>::claim(qp)? };
        claim.destroy()?;
        *reported = claim.source.async_reported();
        claim.keep();
        Ok(())
    })
}

#[inline(never)]
extern "C" fn free_qp(qp: *mut ibv_qp) {
    status("ibv_destroy_qp", || {
        // SAFETY: the claim was kept by the first step of this destruction; the QP is destroyed on
        // the device, and every event of it is acknowledged, so no thread uses it (contract of
        // `ibv_destroy_*`).
        unsafe { Claim::<ibv_qp_ex, Qp>::resume(qp).free() };
        Ok(())
    });
}

/// `ibv_destroy_srq`: waits until every async event that was read is acknowledged.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_srq(srq: *mut ibv_srq) -> c_int {
    let mut reported = 0_u32;
    if stop_srq(srq, &mut reported) != 0 {
        return last_errno().number();
    }
    // SAFETY: the step before has accepted the SRQ, which is alive until `free_srq`.
    unsafe {
        let (mutex, cond) = (&raw mut (*srq).mutex, &raw mut (*srq).cond);
        let completed = &raw const (*srq).events_completed;
        wait_for_acknowledgements(mutex, cond, completed, reported, Wait::SrqEvents);
    }
    free_srq(srq);
    0
}

#[inline(never)]
extern "C" fn stop_srq(srq: *mut ibv_srq, reported: &mut u32) -> c_int {
    status("ibv_destroy_srq", || {
        // SAFETY: contract of `ibv_destroy_srq`: the program passes null or a SRQ of this library;
        // `claim` refuses one that is not live.
        let claim = unsafe { Handle::<ibv_srq, Srq>::claim(srq)? };
        claim.destroy()?;
        *reported = claim.source.async_reported();
        claim.keep();
        Ok(())
    })
}

#[inline(never)]
extern "C" fn free_srq(srq: *mut ibv_srq) {
    status("ibv_destroy_srq", || {
        // SAFETY: the claim was kept by the first step of this destruction; the SRQ is destroyed on
        // the device, and every event of it is acknowledged, so no thread uses it (contract of
        // `ibv_destroy_*`).
        unsafe { Claim::<ibv_srq, Srq>::resume(srq).free() };
        Ok(())
    });
}
