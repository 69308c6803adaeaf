//! What happens in each turn of a proven loop.

#![expect(unsafe_code, reason = "assembly")]

use std::arch::global_asm;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use ferroce_timed_protocol::page::NEVER_PS;
use ferroce_timed_protocol::request::{Look, Wait};

use super::card_memory::CARD_MEMORY;
use super::place::{MAX_PLACES, PLACE_WORDS, Place, Places};
use super::registers::{GENERAL, Registers};
use crate::clock::real_ns;
use crate::os::keeping_errno;
use crate::own::Own;
use crate::session;
use crate::tsc::SAVE_BYTES;

/// Most loops that are copied.
pub const MAX_LOOPS: usize = 128;
/// Turns after which a thread that is not alone looks again: another may have changed what it
/// waits for, of which the world knows nothing. Each time it is twice as many, up to the most.
const TURNS_WITH_OTHERS: u64 = 128;
const MOST_TURNS_WITH_OTHERS: u64 = 4096;
/// How long a loop may go on when the world has ended, in real time: an alarm of the program's own
/// may still get it out.
const LOST_LIMIT_NS: u64 = 10_000_000_000;
/// What is said of a program that nothing can get out of its loop.
const LOST: &[u8] = b"ferroce: the world has ended, and the program looks for ever at memory that \
                      nobody writes any more: it is ended\n";

unsafe extern "C" {
    /// Not to be called as a function of C.
    fn ferroce_look_stub();
}

// On entry the return address lies on top of the stack, and below it a number: twice that of the
// loop, plus one if it is not the first look. All registers and flags are as before on return.
global_asm!(
    ".pushsection .text.ferroce_look_stub,\"ax\",@progbits",
    ".balign 16",
    ".globl ferroce_look_stub",
    ".hidden ferroce_look_stub",
    ".type ferroce_look_stub,@function",
    "ferroce_look_stub:",
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
    "cld",
    "mov rbp, rsp",
    "sub rsp, qword ptr [rip + {save_bytes}]",
    "and rsp, -64",
    // The header of the saved state has to be zero where xsave does not write it.
    "xor eax, eax",
    "mov qword ptr [rsp + 512], rax",
    "mov qword ptr [rsp + 520], rax",
    "mov qword ptr [rsp + 528], rax",
    "mov qword ptr [rsp + 536], rax",
    "mov qword ptr [rsp + 544], rax",
    "mov qword ptr [rsp + 552], rax",
    "mov qword ptr [rsp + 560], rax",
    "mov qword ptr [rsp + 568], rax",
    "mov eax, -1",
    "mov edx, -1",
    "xsave64 [rsp]",
    "mov rdi, rbp",
    "call {look}",
    "mov eax, -1",
    "mov edx, -1",
    "xrstor64 [rsp]",
    "mov rsp, rbp",
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
    ".size ferroce_look_stub, . - ferroce_look_stub",
    ".popsection",
    save_bytes = sym SAVE_BYTES,
    look = sym look,
);

/// What the stub leaves on the stack.
#[repr(C)]
struct Frame {
    general: [u64; GENERAL],
    flags: u64,
    return_address: u64,
    number: u64,
}

/// A loop that has been copied.
struct Loop {
    /// The registers at its last look, the flags, and the page of the thread.
    last: [AtomicU64; GENERAL + 1],
    page: AtomicUsize,
    /// When the first look was made that has not been waited for yet.
    looked_ps: AtomicU64,
    /// After how many turns it looks again, whatever has happened.
    turns: AtomicU64,
    /// Registers have changed since the first look, or since it has waited.
    has_settled: AtomicBool,
    /// Where it looks; nothing: that is not known.
    places: [[AtomicU64; PLACE_WORDS]; MAX_PLACES],
}

static LOOPS: [Loop; MAX_LOOPS] = [const {
    Loop {
        last: [const { AtomicU64::new(0) }; GENERAL + 1],
        page: AtomicUsize::new(0),
        looked_ps: AtomicU64::new(NEVER_PS),
        turns: AtomicU64::new(TURNS_WITH_OTHERS),
        has_settled: AtomicBool::new(false),
        places: [const { [const { AtomicU64::new(0) }; PLACE_WORDS] }; MAX_PLACES],
    }
}; MAX_LOOPS];
static COUNT: AtomicU32 = AtomicU32::new(0);

/// What ends the waiting of a proven loop.
pub fn watched(places: Option<Places>, registers: &Registers) -> Look {
    places.map_or(Look::Everything, |places| {
        places.look(registers, &CARD_MEMORY)
    })
}

/// A place in the table for a loop. `None`: there are too many, or the processor cannot do it.
pub fn reserve(places: Option<Places>) -> Option<(u64, u32)> {
    let count = COUNT.load(Ordering::Relaxed);
    let own = LOOPS.get(count as usize)?;
    if SAVE_BYTES.load(Ordering::Relaxed) == 0 {
        return None;
    }
    own.set_places(places);
    COUNT.store(count + 1, Ordering::Relaxed);
    Some((ferroce_look_stub as *const () as u64, 2 * count))
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

    /// Whether the registers are those of the last look; they are from now on.
    fn is_as_before(&self, frame: &Frame, flags: u64, page: usize) -> bool {
        let mut is_same = self.page.swap(page, Ordering::Relaxed) == page;
        let words = frame.general.iter().chain(std::iter::once(&flags));
        for (cell, word) in self.last.iter().zip(words) {
            is_same &= cell.swap(*word, Ordering::Relaxed) == *word;
        }
        is_same
    }
}

/// A turn of a loop.
///
/// The first look is at memory as it was when the thread's turn began. If it finds nothing the
/// thread waits from the time of that look on, and the world says what has come meanwhile: so a loop
/// gives the turn up once for a wait, and not once more to see what there is.
extern "C" fn look(frame: &Frame) {
    keeping_errno(|| {
        let Some(own) = Own::enter_uncharged() else {
            return end_if_lost();
        };
        let Some(known) = LOOPS.get((frame.number / 2) as usize) else {
            return;
        };
        let registers = Registers::new(frame.general, frame.flags);
        let is_same = known.is_as_before(frame, registers.flags(), own.page_address());
        let look_ps = own.memory_poll_ps();
        if frame.number % 2 == 0 {
            known.looked_ps.store(own.now_ps(), Ordering::Relaxed);
            known.has_settled.store(false, Ordering::Relaxed);
            known.turns.store(TURNS_WITH_OTHERS, Ordering::Relaxed);
            own.spend(look_ps);
        } else if is_same {
            let looked_ps = known.looked_ps.swap(NEVER_PS, Ordering::Relaxed);
            own.take_back(looked_ps, look_ps);
            known.has_settled.store(false, Ordering::Relaxed);
            let turns = known.turns.load(Ordering::Relaxed);
            let more = (2 * turns).min(MOST_TURNS_WITH_OTHERS);
            known.turns.store(more, Ordering::Relaxed);
            wait_for_change(&own, watched(known.places(), &registers), turns);
        } else if known.has_settled.swap(true, Ordering::Relaxed) {
            own.catch_up();
            own.spend(look_ps);
        }
        // Else registers have got the values that they have in this loop: it is the same look.
    });
}

/// Ends the program if the world has ended some time ago: no card writes to its memory any more, and
/// a loop that is proven to do nothing but look has no other way out.
#[cold]
pub fn end_if_lost() {
    let lost_for = session::ended_at_ns().map(|ended| real_ns().saturating_sub(ended));
    if lost_for.is_some_and(|lost_for| lost_for > LOST_LIMIT_NS) && session::thread_count() <= 1 {
        // SAFETY: writes bytes that are there, and ends the process without running anything of
        // its: this may be any place of it.
        unsafe {
            libc::write(libc::STDERR_FILENO, LOST.as_ptr().cast(), LOST.len());
            libc::_exit(libc::EXIT_FAILURE);
        }
    }
}

/// As [`wait_for_change`], for a loop that has just been proven.
pub fn wait_for_first_change(own: &Own, look: Look) {
    wait_for_change(own, look, TURNS_WITH_OTHERS);
}

/// Waits until something has changed of what a loop looks at, and pays for the look that finds it.
/// With other threads in the program it takes so many turns at most.
fn wait_for_change(own: &Own, look: Look, turns: u64) {
    let grid_ps = own.memory_poll_ps().max(1);
    let look = match session::thread_count() > 1 {
        true => {
            let wait_ps = turns.saturating_mul(grid_ps);
            let time_ps = own.now_ps().saturating_add(wait_ps);
            Look::EverythingUntil { time_ps }
        }
        false => look,
    };
    own.wait(&Wait::OnWrite { grid_ps, look }, NEVER_PS);
    own.spend(own.memory_poll_ps());
}
