//! Threads that wait for a change of memory without a call.
//!
//! Such a thread has its turn and never gives it up. The world sends it a signal when it has done
//! nothing else for a while. The handler then lets it execute one instruction at a time
//! ([`probe`]). If it comes back to where it was with equal registers, and has done nothing but load,
//! compute and branch ([`cycle`]), that is a proof: it will do so until memory changes, and nobody
//! but the card and other threads can change it. The thread gives its turn up until then. No time
//! decides about any figure: the proof holds from the loop's first turn on, whenever it is made.
//!
//! From then on the loop runs in a copy ([`copy`]) that makes a call in each turn ([`look`]): so a
//! look costs what it costs on the modelled processor, and the second in a row that finds nothing
//! new gives the turn up, as polls do. That nothing else happens between two turns holds because
//! only the copy's own branch leads from one to the next.
//!
//! A try to take a lock that fails (`cmpxchg` that is not equal, `xchg` for the same) leaves memory as
//! it is, and counts as a look. Loops that store otherwise or call cannot be proven. They run on; the
//! world says so.

use crate::{own, timers};

#[cfg(target_arch = "x86_64")]
mod card_memory;
#[cfg(target_arch = "x86_64")]
mod copy;
#[cfg(target_arch = "x86_64")]
mod cycle;
#[cfg(target_arch = "x86_64")]
mod look;
#[cfg(target_arch = "x86_64")]
mod place;
#[cfg(target_arch = "x86_64")]
mod probe;
#[cfg(target_arch = "x86_64")]
mod registers;

/// Called once, when the program joins.
pub fn install() {
    own::note_process();
    timers::begin();
    #[cfg(target_arch = "x86_64")]
    probe::install();
    #[cfg(not(target_arch = "x86_64"))]
    crate::signals::ignore(PROBE_SIGNAL);
}

/// From now on the card may write to so many bytes from this address on.
pub fn note_card_memory(start: usize, length: usize) {
    #[cfg(target_arch = "x86_64")]
    card_memory::CARD_MEMORY.add(start, length);
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (start, length);
}

/// What the world sends to a thread that has had its turn for long without a call.
pub const PROBE_SIGNAL: libc::c_int = 48;
