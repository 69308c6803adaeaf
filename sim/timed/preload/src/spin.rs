//! Threads that wait for a change of memory without a call.
//!
//! Such a thread keeps its turn forever. If it has made no call for a while, the world sends it a
//! signal, whose handler single-steps it ([`probe`]). If it returns to the same instruction with
//! equal registers, and has only loaded, computed and branched ([`cycle`]), that is a proof: it
//! will repeat this until memory changes, and only the card and other threads can change memory.
//! The thread passes its turn until then. The results do not depend on the moment of the proof,
//! which holds from the first iteration of the loop.
//!
//! From then on the loop runs in a copy ([`copy`]) that makes a call in each iteration ([`check`]).
//! A check costs the time that it takes on the modelled processor, and the second consecutive one
//! without anything new passes the turn, as polls do. Nothing else happens between two iterations,
//! because only the copy's own branch leads from one to the next.
//!
//! A failed attempt to take a lock (`cmpxchg` of unequal values, `xchg` of equal ones) leaves
//! memory as it is, and counts as a check. Loops with other stores or with calls cannot be proven.
//! They keep running, and the world reports them.

#[cfg(target_arch = "x86_64")]
mod card_memory;
#[cfg(target_arch = "x86_64")]
mod check;
#[cfg(target_arch = "x86_64")]
mod copy;
#[cfg(target_arch = "x86_64")]
mod cycle;
#[cfg(target_arch = "x86_64")]
mod place;
#[cfg(target_arch = "x86_64")]
mod probe;
#[cfg(target_arch = "x86_64")]
mod registers;

/// Prepares the program; called once, when it joins.
pub fn install() {
    #[cfg(target_arch = "x86_64")]
    probe::install();
    #[cfg(not(target_arch = "x86_64"))]
    crate::signals::ignore(crate::signals::PROBE_SIGNAL);
}

/// Announces that the card may write to this many bytes from this address on. All bytes from zero
/// on: it writes to memory that the program may have mapped at addresses that are not known.
pub fn note_card_memory(start: usize, length: usize) {
    #[cfg(target_arch = "x86_64")]
    card_memory::CARD_MEMORY.add(start, length);
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (start, length);
}
