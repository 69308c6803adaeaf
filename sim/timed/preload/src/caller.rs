//! From where a program polls.
//!
//! Two polls in a row that find nothing prove that a loop waits only if the second one is made in
//! the same state as the first: a loop that counts its polls ends by itself. The state is the place
//! of the call, the registers that a function keeps for its caller (System V ABI: rbx, rbp, r12 to
//! r15), and the frames of the callers. What a loop keeps elsewhere in memory is not seen.

#![expect(unsafe_code, reason = "assembly, and the stack of the calling thread")]

use std::arch::global_asm;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicUsize, Ordering};

use ferroce_timed_protocol::table::Entry;

use crate::own::is_main_thread;
use crate::thread::{ThreadState, state};

/// Bytes of the stack that are compared: the frames of a progress engine, with its array of
/// completions.
const STACK_BYTES: usize = 4096;
/// Words that are mixed at a time, so that one does not wait for the other.
const LANES: usize = 4;
/// An odd number without pattern (2^64 divided by the golden ratio).
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

static POLL_CQ: AtomicUsize = AtomicUsize::new(0);
static START_POLL: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" {
    /// Not to be called from here.
    fn ferroce_poll_cq_entry();
    /// Not to be called from here.
    fn ferroce_start_poll_entry();
}

// rax, r10 and r11 are nobody's when a function is called that takes a fixed number of arguments.
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

/// The entry that notes who calls, and goes on to `target`.
pub fn noting(entry: Entry, target: *const c_void) -> *const c_void {
    let (cell, stub) = match entry {
        Entry::PollCq => (&POLL_CQ, ferroce_poll_cq_entry as *const c_void),
        Entry::StartPoll => (&START_POLL, ferroce_start_poll_entry as *const c_void),
    };
    cell.store(target.expose_provenance(), Ordering::SeqCst);
    stub
}

/// The calling thread is about to run what the program wants: what is on its stack by now is none
/// of the program's.
pub fn begin_stack() {
    let here = std::hint::black_box(0_u8);
    state().stack_high.set((&raw const here).addr());
}

/// What the caller of the entry that was called last was like.
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
        // The stack of a coroutine: where it ends is not known, the return address is there.
        false => frame + size_of::<usize>(),
    };
    // SAFETY: from the return address on, which is there, to the end of the stack at most; nobody
    // but this thread writes there.
    let words = unsafe { stack(frame, end) };
    mix(state.poll_registers.get(), words)
}

/// The words of the stack from `frame` to `end`.
///
/// # Safety
/// They are there, and nobody writes to them.
unsafe fn stack<'a>(frame: usize, end: usize) -> &'a [u64] {
    let count = (end - frame) / size_of::<u64>();
    // SAFETY: by the contract; the stack is aligned when a function is called.
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
    // Zero stands for a caller that is not known.
    lanes.iter().fold(0, all).max(1)
}

/// Where the stack of the calling thread is. Behind what a program has there lies its thread-local
/// storage, which changes: that is left out.
#[cold]
fn find_stack(state: &ThreadState) -> (usize, usize) {
    let (low, high) = stack_of_thread().unwrap_or((1, 1));
    let high = match state.stack_high.get() {
        0 if is_main_thread() => high,
        // It was not started with this library's knowledge.
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
    // SAFETY: asks for attributes of the calling thread, which are given back below.
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
        let (low, high) = stack_of_thread().expect("there is one");
        assert!((low..high).contains(&(&raw const here).addr()));
    }
}
