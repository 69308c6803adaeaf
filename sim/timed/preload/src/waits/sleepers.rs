//! Threads that wait for an address, and their wake-up.
//!
//! The address of an object in memory that relatives of the program share is known to the world by
//! the file that is mapped, so it is the same in each process.

use std::sync::atomic::{AtomicUsize, Ordering};

use ferroce_timed_protocol::page::PAGE_SIZE;
use ferroce_timed_protocol::request::{SHARED_ADDRESS, Wait};
use ferroce_timed_protocol::store::StoreKind;

use crate::inside::Inside;
use crate::memory_map::{self, Memory};
use crate::own::{Ended, Own};
use crate::thread::state;
use crate::{connection, joined, os, relatives, sleeper_counts};

/// Any bit: what a thread waits with that is woken by every wake-up.
pub const ANY: u32 = u32::MAX;
/// Every thread that waits.
pub const ALL: u32 = u32::MAX;

const BUCKETS: usize = 1024;
/// Pages that other processes do not share, as last looked up, by their hash.
static PRIVATE: [AtomicUsize; BUCKETS] = [const { AtomicUsize::new(0) }; BUCKETS];

/// Waits until another thread wakes `address` with one of `bits`, until `deadline_ps` at most.
pub fn sleep(own: &Own, address: usize, bits: u32, deadline_ps: u64) -> Ended {
    sleeper_counts::add(address);
    let ended = sleep_by_key(own, key_of(address), bits, deadline_ps);
    sleeper_counts::remove(address);
    ended
}

/// Does the same as [`sleep`], for an address as the world knows it.
pub fn sleep_by_key(own: &Own, address: u64, bits: u32, deadline_ps: u64) -> Ended {
    own.wait_for_wake(&Wait::OnAddress { address, bits }, deadline_ps)
}

/// Wakes up to `most` threads that wait for `address`.
#[inline]
pub fn wake(address: usize, most: u32) {
    if may_be_at(address) {
        os::keeping_errno(|| wake_now(key_of(address), most, ANY));
    }
}

/// Wakes all threads that wait for an address as the world knows it.
pub fn wake_by_key(address: u64) {
    os::keeping_errno(|| wake_now(address, ALL, ANY));
}

/// Does the same as [`wake`], inside of a call.
pub fn wake_by(own: &Own, address: usize, most: u32) {
    if may_be_at(address) {
        own.store(StoreKind::Wake, most, &[key_of(address), u64::from(ANY)]);
    }
}

/// Does the same as [`wake`], for threads that wait with one of `bits`.
pub fn wake_bits(address: usize, bits: u32) {
    if may_be_at(address) {
        os::keeping_errno(|| wake_now(key_of(address), ALL, bits));
    }
}

#[cold]
fn wake_now(address: u64, most: u32, bits: u32) {
    let words = [address, u64::from(bits)];
    if let Some(own) = Own::enter_uncharged() {
        // Counts of other addresses lead here, too, and addresses differ between runs: this must
        // not count as something that the program does between two polls.
        state().count_verbs();
        own.store(StoreKind::Wake, most, &words);
    } else if let Some(inside) = Inside::enter_for_verbs() {
        inside.store(StoreKind::Wake, most, &words);
    } else if joined::is_running() {
        // A thread outside of the world: the others learn of it when the world does.
        connection::wake(address);
    }
}

/// Wakes up to `most` threads that wait for `address` with one of `bits`. Returns their number.
pub fn wake_counted(own: &Own, address: usize, most: u32, bits: u32) -> u32 {
    if !may_be_at(address) || most == 0 {
        return 0;
    }
    own.store(StoreKind::Wake, most, &[key_of(address), u64::from(bits)]);
    own.answer_of_store().map_or(0, |woken| woken as u32)
}

/// Returns true if a thread may wait for this address: one of the program, or of a relative that
/// shares the memory.
#[inline]
fn may_be_at(address: usize) -> bool {
    sleeper_counts::are_at(address) || relatives::may_exist() && !is_private(address)
}

/// Returns true if waits for this address are simulated: all that can change the memory are in the
/// world.
pub fn are_simulated(address: usize) -> bool {
    is_private(address)
        || relatives::may_exist() && matches!(memory_map::of(address), Some(Memory::Shared { .. }))
}

/// Returns what the world knows an address as.
pub fn key_of(address: usize) -> u64 {
    if !relatives::may_exist() || is_private(address) {
        return address as u64;
    }
    match memory_map::of(address) {
        Some(Memory::Shared { file, offset }) => {
            let file = file.wrapping_mul(ODD_NUMBER) & !(SHARED_ADDRESS | OFFSETS);
            SHARED_ADDRESS | file | offset & OFFSETS
        }
        _ => address as u64,
    }
}

/// Bits of the key of shared memory that are the offset in the file; the others are of the file.
const OFFSETS: u64 = (1 << 40) - 1;
/// Without pattern (2^64 divided by the golden ratio): spreads the numbers of files.
const ODD_NUMBER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Forgets which memory belongs to the program alone. Called before a fork: the child inherits what
/// has been mapped since the last look-up.
pub fn forget_private() {
    for page in &PRIVATE {
        page.store(0, Ordering::Relaxed);
    }
}

/// Returns true if the memory at this address belongs to the program alone.
fn is_private(address: usize) -> bool {
    let page = address / PAGE_SIZE;
    let known = &PRIVATE[page % BUCKETS];
    if known.load(Ordering::Relaxed) == page {
        return true;
    }
    let is_private = memory_map::of(address) == Some(Memory::Private);
    if is_private {
        known.store(page, Ordering::Relaxed);
    }
    is_private
}
