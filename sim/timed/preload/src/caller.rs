//! The place from which a program polls.
//!
//! Two consecutive empty polls prove that a loop only waits if both are made in the same state; a
//! loop that counts its polls ends by itself. The state is the place of the call, the registers
//! that a function preserves for its caller (System V ABI: rbx, rbp, r12 to r15), and the frames of
//! the callers. State that a loop keeps elsewhere in memory is not seen.

#![expect(unsafe_code, reason = "assembly, and the stack of the calling thread")]

use std::arch::global_asm;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicUsize, Ordering};

use ferroce_timed_protocol::table::Entry;

use crate::thread::{ThreadState, is_main_thread, state};

/// Bytes of the stack that are compared: the frames of a progress engine, with its array of
/// completions.
const STACK_BYTES: usize = 4096;
/// Hash lanes that run in parallel, so that no multiplication waits for the one before it.
const LANES: usize = 4;
/// An odd number without pattern (2^64 divided by the golden ratio).
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

static POLL_CQ: AtomicUsize = AtomicUsize::new(0);
static START_POLL: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" {
    /// Only for `noting`: not callable from Rust.
    fn ferroce_poll_cq_entry();
    /// Only for `noting`: not callable from Rust.
    fn ferroce_start_poll_entry();
}

// rax, r10 and r11 carry no argument of a function with a fixed number of them, and are not
// preserved.
macro_rules! entry {
    ($name:literal, $target:ident) => {
        global_asm!(
            concat!(".pushsection .text.", $name, ",\"ax\",@progbits"),
            ".balign 16",
            concat!(".globl ", $name),
            concat!(".hidden ", $name),
            concat!(".type ", $name, ",@function"),
            concat!($name, ":"),
            "mov rax, qword ptr [rip + ferroce_thread_state@GOTTPOFF]",
            "mov r10, rbx",
            "rol r10, 11",
            "xor r10, rbp",
            "rol r10, 11",
            "xor r10, r12",
            "rol r10, 11",
            "xor r10, r13",
            "rol r10, 11",
            "xor r10, r14",
            "rol r10, 11",
            "xor r10, r15",
            "mov qword ptr fs:[rax + {registers}], r10",
            "mov qword ptr fs:[rax + {frame}], rsp",
            "jmp qword ptr [rip + {target}]",
            concat!(".size ", $name, ", . - ", $name),
            ".popsection",
            registers = const ThreadState::POLL_REGISTERS_OFFSET,
            frame = const ThreadState::POLL_FRAME_OFFSET,
            target = sym $target,
        );
    };
}

entry!("ferroce_poll_cq_entry", POLL_CQ);
entry!("ferroce_start_poll_entry", START_POLL);

/// Returns the entry that records the caller and jumps to `target`.
pub fn noting(entry: Entry, target: *const c_void) -> *const c_void {
    let (cell, stub) = match entry {
        Entry::PollCq => (&POLL_CQ, ferroce_poll_cq_entry as *const c_void),
        Entry::StartPoll => (&START_POLL, ferroce_start_poll_entry as *const c_void),
    };
    cell.store(target.expose_provenance(), Ordering::SeqCst);
    stub
}

/// Records that the calling thread is about to run code of the program: its stack so far belongs to
/// this library.
pub fn begin_stack() {
    let here = std::hint::black_box(0_u8);
    state().stack_high.set((&raw const here).addr());
}

/// Returns a number for the state of the caller of the last entry.
pub fn fingerprint() -> u64 {
    let state = state();
    let frame = state.poll_frame.get();
    if frame == 0 {
        return 0;
    }
    let (low, high) = match state.stack_low.get() {
        0 => find_stack(state),
        low => (low, state.stack_high.get()),
    };
    let end = match (low..high).contains(&frame) {
        true => high.min(frame + STACK_BYTES),
        // The stack of a coroutine: its end is unknown, but it contains the return address.
        false => frame + size_of::<usize>(),
    };
    // SAFETY: the contract of `stack`: the range begins at the return address, ends at the end of
    // the stack at most, and only this thread writes to it.
    let words = unsafe { stack(frame, end) };
    mix(state.poll_registers.get(), words)
}

/// Returns the words of the stack from `frame` to `end`.
///
/// # Safety
/// The range is readable, and no thread writes to it during `'a`.
unsafe fn stack<'a>(frame: usize, end: usize) -> &'a [u64] {
    let count = (end - frame) / size_of::<u64>();
    // SAFETY: the caller guarantees that the range is readable and not written; the stack is
    // aligned to words at a call.
    unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance(frame), count) }
}

fn mix(registers: u64, words: &[u64]) -> u64 {
    let mut lanes = [registers; LANES];
    for chunk in words.chunks(LANES) {
        for (lane, word) in lanes.iter_mut().zip(chunk) {
            *lane = (*lane ^ word).wrapping_mul(FACTOR).rotate_left(29);
        }
    }
    let all = |sum: u64, lane: &u64| (sum.rotate_left(17) ^ lane).wrapping_mul(FACTOR);
    // Zero stands for an unknown caller.
    lanes.iter().fold(0, all).max(1)
}

/// Returns the range of the calling thread's stack. The thread-local storage above the program's
/// frames changes and is excluded.
#[cold]
fn find_stack(state: &ThreadState) -> (usize, usize) {
    let (low, high) = stack_of_thread().unwrap_or((1, 1));
    let high = match state.stack_high.get() {
        0 if is_main_thread() => high,
        // The library did not see the start of this thread.
        0 => low,
        known => known.min(high),
    };
    state.stack_low.set(low);
    state.stack_high.set(high);
    (low, high)
}

fn stack_of_thread() -> Option<(usize, usize)> {
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    let (mut low, mut length) = (std::ptr::null_mut(), 0);
    // SAFETY: asks for attributes of the calling thread, which exists, into a local that is
    // destroyed below.
    unsafe {
        if libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) != 0 {
            return None;
        }
        let found = libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut low, &raw mut length);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        if found != 0 {
            return None;
        }
    }
    Some((low.addr(), low.addr().saturating_add(length)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_counts() {
        let words: Vec<u64> = (0..103).collect();
        let plain = mix(7, &words);
        assert_eq!(plain, mix(7, &words));
        assert_ne!(plain, mix(8, &words));
        for place in 0..words.len() {
            let mut other = words.clone();
            other[place] += 1;
            assert_ne!(plain, mix(7, &other), "{place}");
        }
    }

    #[test]
    fn the_stack_of_a_thread_is_where_its_variables_are() {
        let here = 0_u8;
        let (low, high) = stack_of_thread().expect("a thread has a stack");
        assert!((low..high).contains(&(&raw const here).addr()));
    }
}
