//! Lets threads join the world and leave it.
//!
//! A thread joins at its first call that takes time, or before it runs if the program starts it
//! inside the world (`threads`). It leaves when it ends.
#![expect(
    unsafe_code,
    reason = "a hook of the C library for the ends of threads"
)]

use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};

use ferroce_timed_protocol::page::{ThreadPage, Turn};
use ferroce_timed_protocol::request::Wait;
use ferroce_timed_protocol::store::StoreKind;
use rustix::io::Errno;
use rustix::thread::gettid;

use crate::signals::unblock_needed;
use crate::thread::{ThreadState, state};
#[cfg(target_arch = "x86_64")]
use crate::tsc_trap;
use crate::turn::wait_for_turn;
use crate::{connection, inner_pipes, joined, sleeper_counts, thread_table};

/// The `pthread` key whose destructor reports the end of a thread, plus one; zero: not created yet.
static KEY: AtomicU32 = AtomicU32::new(0);

/// Requests a page for the calling thread and waits for its first turn. `None`: it cannot join and
/// stays outside of the world, or the world has ended.
#[cold]
pub fn join_thread(state: &ThreadState) -> Option<&'static ThreadPage> {
    match request_page(state) {
        Ok(page) => begin_thread(page).then_some(page),
        Err(_) => {
            inner_pipes::note_outsider();
            state.enter_real();
            None
        }
    }
}

/// Waits for the first turn of the calling thread, which has this page. Returns false if the world
/// has ended.
pub fn begin_thread(page: &ThreadPage) -> bool {
    take_time();
    wait_for_turn(page)
}

/// Requests a page for the calling thread.
pub fn request_page(state: &ThreadState) -> Result<&'static ThreadPage, Errno> {
    let pages = joined::pages().ok_or(Errno::NOTCONN)?;
    let number = connection::request_thread(gettid().as_raw_nonzero().get() as u32)?;
    let page = &pages.threads[number];
    state.set_page(Some(page));
    thread_table::add_own(page);
    joined::count_thread();
    watch_end_of_thread();
    Ok(page)
}

/// Begins simulated time for the calling thread.
pub fn take_time() {
    unblock_needed();
    #[cfg(target_arch = "x86_64")]
    tsc_trap::arm();
}

/// Arranges for a call of `end_thread` when the thread ends.
fn watch_end_of_thread() {
    let mut key = KEY.load(Ordering::Relaxed);
    if key == 0 {
        let mut made: libc::pthread_key_t = 0;
        // SAFETY: `pthread_key_create` writes the key; the destructor accepts any value.
        if unsafe { libc::pthread_key_create(&raw mut made, Some(end_thread)) } != 0 {
            // No keys are left: the world notices only the end of the program.
            return;
        }
        key = made + 1;
        if let Err(earlier) = KEY.compare_exchange(0, key, Ordering::Relaxed, Ordering::Relaxed) {
            // SAFETY: the key was just created, and no other thread has it.
            unsafe { libc::pthread_key_delete(made) };
            key = earlier;
        }
    }
    // SAFETY: the key exists; any value but null lets the destructor be called.
    unsafe { libc::pthread_setspecific(key - 1, std::ptr::without_provenance(1)) };
}

extern "C" fn end_thread(_: *mut c_void) {
    leave(state());
}

/// Ends the thread for the world, or the program: its further calls are real.
pub fn leave(state: &ThreadState) {
    let Some(page) = state.page() else { return };
    if page.turn() == Turn::Thread {
        let address = thread_table::remove(page);
        if let Some(address) = address.filter(|address| sleeper_counts::are_at(*address)) {
            wake_all(page, address);
        }
        page.request.set(&Wait::End);
        page.pass(Turn::World);
    }
    joined::count_end_of_thread();
    state.set_page(None);
    state.enter_real();
}

/// Lets the world execute the stores of the thread, before its process ends: of one that has ended
/// it takes none.
pub fn give_stores(state: &ThreadState) {
    let page = state.page().filter(|page| page.turn() == Turn::Thread);
    if let Some(page) = page.filter(|page| !page.stores.is_empty()) {
        let time_ps = page.clock_ps.load(Ordering::Relaxed);
        page.request.set(&Wait::At { time_ps });
        page.pass(Turn::World);
        wait_for_turn(page);
    }
}

/// Wakes all threads of the program that wait for an address, at the thread's own time.
fn wake_all(page: &ThreadPage, address: usize) {
    let (most, any) = (u32::MAX, u64::from(u32::MAX));
    let clock_ps = page.clock_ps.load(Ordering::Relaxed);
    let words = [address as u64, any];
    while !page.stores.add(StoreKind::Wake, most, clock_ps, &words) {
        // The world empties the list.
        page.request.set(&Wait::Room);
        page.pass(Turn::World);
        if !wait_for_turn(page) {
            return;
        }
    }
}
