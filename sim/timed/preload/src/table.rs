//! Functions that this library offers to the program's verbs library.
#![expect(unsafe_code, reason = "an exported symbol, and words by their address")]

use std::ffi::c_void;

use ferroce_timed_protocol::VERSION;
use ferroce_timed_protocol::cm::CmMessage;
use ferroce_timed_protocol::control::Admission;
use ferroce_timed_protocol::page::ProgramPage;
use ferroce_timed_protocol::request::Wait;
use ferroce_timed_protocol::store::{MAX_STORE_WORDS, StoreKind, Work};
use ferroce_timed_protocol::table::{Entry, TimeTable};

use crate::clock;
use crate::inside::Inside;
use crate::thread::state;
use crate::timers;
use crate::{connection, interrupts, joined, relatives, session};

static TABLE: TimeTable = TimeTable {
    version: VERSION,
    join,
    program,
    now_ps,
    spend_ps,
    store,
    catch_up,
    flush,
    wait,
    set_interrupts: interrupts::set,
    outside,
    activity,
    interruptions: timers::interruptions,
    card_memory,
    noting_caller,
    caller,
    thread_count,
    work,
    cm_message,
    refusal,
    request_card,
};

/// Returns the table.
#[unsafe(no_mangle)]
pub extern "C" fn ferroce_time_v1() -> &'static TimeTable {
    &TABLE
}

extern "C" fn outside(is_outside: bool) {
    if is_outside {
        state().enter_real();
    } else {
        state().leave_real();
    }
}

extern "C" fn activity() -> u64 {
    state().other_calls()
}

extern "C" fn card_memory(start: usize, length: usize) {
    crate::spin::note_card_memory(start, length);
}

extern "C" fn noting_caller(entry: Entry, target: *const c_void) -> *const c_void {
    #[cfg(target_arch = "x86_64")]
    return crate::caller::noting(entry, target);
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = entry;
        target
    }
}

extern "C" fn caller() -> u64 {
    #[cfg(target_arch = "x86_64")]
    return crate::caller::fingerprint();
    #[cfg(not(target_arch = "x86_64"))]
    0
}

extern "C" fn thread_count() -> u32 {
    // Relatives may change memory, too.
    joined::thread_count() + u32::from(relatives::may_exist())
}

extern "C" fn refusal() -> u64 {
    connection::refusal()
}

extern "C" fn join() -> i32 {
    match session::join(Admission::Any) {
        Ok(()) => 0,
        Err(error) => error.raw_os_error(),
    }
}

extern "C" fn request_card() -> i32 {
    match connection::request_card() {
        Ok(()) => 0,
        Err(error) => error.raw_os_error(),
    }
}

extern "C" fn program() -> Option<&'static ProgramPage> {
    joined::pages().map(|pages| &pages.program)
}

extern "C" fn now_ps() -> u64 {
    match Inside::enter_for_verbs() {
        Some(inside) => inside.now_ps(),
        None => clock::elsewhere_ps(),
    }
}

extern "C" fn spend_ps(time_ps: u64) {
    if let Some(inside) = Inside::enter_for_verbs() {
        inside.spend(time_ps);
    }
}

extern "C" fn work(work: Work, time_ps: u64) {
    if let Some(inside) = Inside::enter_for_verbs() {
        inside.work(work, time_ps);
    }
}

extern "C" fn cm_message() -> Option<&'static CmMessage> {
    Inside::enter_for_verbs().map(|inside| &inside.page().cm_message)
}

extern "C" fn store(kind: StoreKind, slot: u32, words: *const u64, count: usize) {
    let mut copy = [0; MAX_STORE_WORDS];
    if count > MAX_STORE_WORDS || words.is_null() {
        return;
    }
    // SAFETY: the caller guarantees `count` words at `words`, and `copy` has room for them.
    unsafe { copy.as_mut_ptr().copy_from_nonoverlapping(words, count) };
    if let Some(inside) = Inside::enter_for_verbs() {
        inside.store(kind, slot, &copy[..count]);
    }
}

extern "C" fn catch_up() {
    if let Some(inside) = Inside::enter_for_verbs() {
        inside.check();
    }
}

extern "C" fn flush() {
    if let Some(inside) = Inside::enter_for_verbs() {
        inside.flush();
    }
}

extern "C" fn wait(wait: &Wait) -> u64 {
    Inside::enter_for_verbs().map_or(0, |inside| inside.wait(wait))
}
