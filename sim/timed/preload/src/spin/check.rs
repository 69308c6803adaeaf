//! The check in each iteration of a proven loop.

#![expect(unsafe_code, reason = "assembly")]

use std::arch::global_asm;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use ferroce_timed_protocol::page::NEVER_PS;
use ferroce_timed_protocol::request::{Check, Wait};

use super::card_memory::CARD_MEMORY;
use super::place::{MAX_PLACES, PLACE_WORDS, Place, Places};
use super::registers::{GENERAL, Registers};
use crate::joined;
use crate::os::{keeping_errno, real_ns};
use crate::own::Own;
use crate::relatives;
use crate::tsc::extended_state::{self, SAVE_BYTES, with_extended_state};

/// Maximum number of copied loops.
pub const MAX_LOOPS: usize = 128;
/// Iterations after which a thread of a program with several threads checks again: another thread
/// may have changed the value that it waits for, unknown to the world. Doubles each time, up to the
/// maximum.
const TURNS_WITH_OTHERS: u64 = 128;
const MOST_TURNS_WITH_OTHERS: u64 = 4096;
/// Real time for which a loop may run after the end of the world: an alarm of the program may still
/// end it.
const LOST_LIMIT_NS: u64 = 10_000_000_000;
/// Printed for a program that cannot leave its loop.
const LOST: &[u8] = b"ferroce: the world has ended, and the program polls memory that is not \
                      written any more: it is ended\n";

unsafe extern "C" {
    /// Only for copies of loops: not callable from Rust.
    fn ferroce_check_stub();
}

// On entry the return address is on top of the stack. The next word is twice the loop's index,
// plus one if it is not the first check. All registers and flags are preserved.
global_asm!(
    ".pushsection .text.ferroce_check_stub,\"ax\",@progbits",
    ".balign 16",
    ".globl ferroce_check_stub",
    ".hidden ferroce_check_stub",
    ".type ferroce_check_stub,@function",
    "ferroce_check_stub:",
    "pushfq",
    "push r15",
    "push r14",
    "push r13",
    "push r12",
    "push r11",
    "push r10",
    "push r9",
    "push r8",
    "push rdi",
    "push rsi",
    "push rbp",
    "push rsp",
    "push rbx",
    "push rdx",
    "push rcx",
    "push rax",
    with_extended_state!("mov rdi, rbp", "call {check}"),
    "pop rax",
    "pop rcx",
    "pop rdx",
    "pop rbx",
    // Not into rsp.
    "lea rsp, [rsp + 8]",
    "pop rbp",
    "pop rsi",
    "pop rdi",
    "pop r8",
    "pop r9",
    "pop r10",
    "pop r11",
    "pop r12",
    "pop r13",
    "pop r14",
    "pop r15",
    "popfq",
    "ret",
    ".size ferroce_check_stub, . - ferroce_check_stub",
    ".popsection",
    save_bytes = sym SAVE_BYTES,
    check = sym check,
);

/// The stub's data on the stack.
#[repr(C)]
struct Frame {
    general: [u64; GENERAL],
    flags: u64,
    return_address: u64,
    number: u64,
}

/// A copied loop.
struct Loop {
    /// The registers at its last check, the flags, and the page of the thread.
    last: [AtomicU64; GENERAL + 1],
    page: AtomicUsize,
    /// Time of the first check that was not followed by a wait.
    checked_ps: AtomicU64,
    /// Number of iterations after which it checks again in any case.
    turns: AtomicU64,
    /// True if registers have changed since the first check or the last wait.
    has_settled: AtomicBool,
    /// The places that it checks; empty: unknown.
    places: [[AtomicU64; PLACE_WORDS]; MAX_PLACES],
}

static LOOPS: [Loop; MAX_LOOPS] = [const {
    Loop {
        last: [const { AtomicU64::new(0) }; GENERAL + 1],
        page: AtomicUsize::new(0),
        checked_ps: AtomicU64::new(NEVER_PS),
        turns: AtomicU64::new(TURNS_WITH_OTHERS),
        has_settled: AtomicBool::new(false),
        places: [const { [const { AtomicU64::new(0) }; PLACE_WORDS] }; MAX_PLACES],
    }
}; MAX_LOOPS];
static COUNT: AtomicU32 = AtomicU32::new(0);

/// Returns the writes that end the waiting of a proven loop.
pub fn watched(places: Option<Places>, registers: &Registers) -> Check {
    places.map_or(Check::Everything, |places| {
        places.check(registers, &CARD_MEMORY)
    })
}

/// Reserves an entry of the table for a loop. `None`: the table is full, or the processor does not
/// support it.
pub fn reserve(places: Option<Places>) -> Option<(u64, u32)> {
    let count = COUNT.load(Ordering::Relaxed);
    let own = LOOPS.get(count as usize)?;
    if !extended_state::can_be_saved() {
        return None;
    }
    own.set_places(places);
    COUNT.store(count + 1, Ordering::Relaxed);
    Some((ferroce_check_stub as *const () as u64, 2 * count))
}

impl Loop {
    fn set_places(&self, places: Option<Places>) {
        let places = places.unwrap_or_default().0;
        for (cells, place) in self.places.iter().zip(places) {
            let words = place.map_or([0; PLACE_WORDS], Place::to_words);
            for (cell, word) in cells.iter().zip(words) {
                cell.store(word, Ordering::Relaxed);
            }
        }
    }

    fn places(&self) -> Option<Places> {
        let place = |place: usize| {
            let words =
                [0, 1, 2].map(|word: usize| self.places[place][word].load(Ordering::Relaxed));
            Place::of_words(words)
        };
        let places: [_; MAX_PLACES] = std::array::from_fn(place);
        places[0].is_some().then_some(Places(places))
    }

    /// Returns true if the registers equal the ones of the last check, and records them.
    fn is_as_before(&self, frame: &Frame, flags: u64, page: usize) -> bool {
        let mut is_same = self.page.swap(page, Ordering::Relaxed) == page;
        let words = frame.general.iter().chain(std::iter::once(&flags));
        for (cell, word) in self.last.iter().zip(words) {
            is_same &= cell.swap(*word, Ordering::Relaxed) == *word;
        }
        is_same
    }
}

/// Checks memory; called in each iteration of a copied loop.
///
/// The first check is of memory as it was when the thread's turn began. If it finds nothing, the
/// thread waits from the time of that check on, and the world also considers writes since then: so
/// a loop passes the turn once for each wait, and not once more to see the result.
extern "C" fn check(frame: &Frame) {
    keeping_errno(|| {
        let Some(own) = Own::enter_uncharged() else {
            return end_if_lost();
        };
        let Some(known) = LOOPS.get((frame.number / 2) as usize) else {
            return;
        };
        let registers = Registers::new(frame.general, frame.flags);
        let is_same = known.is_as_before(frame, registers.flags(), own.page_address());
        let check_ps = own.memory_poll_ps();
        if frame.number % 2 == 0 {
            known.checked_ps.store(own.now_ps(), Ordering::Relaxed);
            known.has_settled.store(false, Ordering::Relaxed);
            known.turns.store(TURNS_WITH_OTHERS, Ordering::Relaxed);
            own.spend(check_ps);
        } else if is_same {
            let checked_ps = known.checked_ps.swap(NEVER_PS, Ordering::Relaxed);
            own.take_back(checked_ps, check_ps);
            known.has_settled.store(false, Ordering::Relaxed);
            let turns = known.turns.load(Ordering::Relaxed);
            let more = (2 * turns).min(MOST_TURNS_WITH_OTHERS);
            known.turns.store(more, Ordering::Relaxed);
            wait_for_change(&own, watched(known.places(), &registers), turns);
        } else if known.has_settled.swap(true, Ordering::Relaxed) {
            own.catch_up();
            own.spend(check_ps);
        }
        // Otherwise the registers were only initialised; this counts as the same check.
    });
}

/// Ends the program if the world ended some time ago: no card writes to its memory any more, and a
/// loop that only checks memory cannot end in another way.
#[cold]
pub fn end_if_lost() {
    let lost_for = joined::ended_at_ns().map(|ended| real_ns().saturating_sub(ended));
    if lost_for.is_some_and(|lost_for| lost_for > LOST_LIMIT_NS) && !relatives::others_may_act() {
        // SAFETY: `write` reads a static buffer, and `_exit` ends the process without running more
        // of its code: the thread may be anywhere in it.
        unsafe {
            libc::write(libc::STDERR_FILENO, LOST.as_ptr().cast(), LOST.len());
            libc::_exit(libc::EXIT_FAILURE);
        }
    }
}

/// Does the same as [`wait_for_change`], for a loop that has just been proven.
pub fn wait_for_first_change(own: &Own, check: Check) {
    wait_for_change(own, check, TURNS_WITH_OTHERS);
}

/// Waits until the memory that a loop checks has changed, and charges the check that finds the
/// change. With other threads in the program it waits `turns` iterations at most.
fn wait_for_change(own: &Own, check: Check, turns: u64) {
    let grid_ps = own.memory_poll_ps().max(1);
    let check = if relatives::others_may_act() {
        let wait_ps = turns.saturating_mul(grid_ps);
        let time_ps = own.now_ps().saturating_add(wait_ps);
        Check::EverythingUntil { time_ps }
    } else {
        check
    };
    own.wait(&Wait::OnWrite { grid_ps, check }, NEVER_PS);
    own.spend(own.memory_poll_ps());
}
