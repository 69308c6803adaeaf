//! Shared pages: one for the program, one for each of its threads.
//!
//! All fields are atomics, so that nothing that one side writes, however wrong, is undefined
//! behaviour in the other. Order between the sides comes from [`ThreadPage::turn`] alone: who has
//! the turn owns the other fields.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use rustix::thread::futex;

use crate::MAX_THREADS;
use crate::request::Request;
use crate::store::Stores;

/// Bytes of a page of memory.
pub const PAGE_SIZE: usize = 4096;
/// No time: never.
pub const NEVER_PS: u64 = u64::MAX;

/// Who has the turn of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// The world: the thread waits.
    World,
    /// The thread: it runs, and the world waits for it.
    Thread,
    /// Nobody any more: the thread, its program or the world has ended.
    Ended,
}

impl Turn {
    const fn code(self) -> u32 {
        match self {
            Self::World => 0,
            Self::Thread => 1,
            Self::Ended => 2,
        }
    }

    const fn of_code(code: u32) -> Self {
        match code {
            0 => Self::World,
            1 => Self::Thread,
            _ => Self::Ended,
        }
    }
}

/// What a call costs, in picoseconds: the `host` section of a preset.
#[derive(Debug, Default)]
#[repr(C)]
pub struct CostsPage {
    /// Post of one work request, without its doorbell.
    pub post_ps: AtomicU64,
    /// Doorbell.
    pub doorbell_ps: AtomicU64,
    /// Push of one block of 64 bytes.
    pub push_block_ps: AtomicU64,
    /// Copy of 64 bytes of inline payload.
    pub inline_block_ps: AtomicU64,
    /// Post of one receive.
    pub post_receive_ps: AtomicU64,
    /// Poll, per completion.
    pub poll_hit_ps: AtomicU64,
    /// Poll that finds none.
    pub poll_miss_ps: AtomicU64,
    /// One turn of a loop that looks at memory.
    pub memory_poll_ps: AtomicU64,
    /// From MSI-X message to the thread that slept.
    pub wake_up_ps: AtomicU64,
    /// System call that does not wait.
    pub system_call_ps: AtomicU64,
    /// Half width of the spread of all of these.
    pub jitter_ps: AtomicU64,
    /// Seed of the spread.
    pub seed: AtomicU64,
}

/// What a program has to know of its world. The world writes it before the program sees it.
#[derive(Debug)]
#[repr(C, align(4096))]
pub struct ProgramPage {
    /// [`crate::VERSION`].
    pub version: AtomicU32,
    /// The host that the program is on.
    pub host: AtomicU32,
    /// Hosts of the world.
    pub hosts: AtomicU32,
    /// `vendor_part_id` of its card.
    pub part_id: AtomicU32,
    /// Path MTU of its network, in bytes.
    pub path_mtu_bytes: AtomicU32,
    /// Whether the card takes pushes only of WQEs with all their data inline.
    pub push_inline_only: AtomicU32,
    /// Blocks of the longest push that the card takes.
    pub push_blocks: AtomicU32,
    /// Not zero: the world has ended.
    pub has_ended: AtomicU32,
    /// What calls cost.
    pub costs: CostsPage,
    /// Data rate of its port, in Mb/s.
    pub rate_mbps: AtomicU32,
    /// Not zero: threads say in [`ThreadPage::done`] what they are busy with.
    pub is_recorded: AtomicU32,
    /// Not zero: the program has called `exit`, or has returned from `main`. The program writes it.
    pub has_exited: AtomicU32,
    /// Not zero: the only other program was killed, and none has come since.
    pub is_bereft: AtomicU32,
}

/// Words of a [`Name`].
const NAME_WORDS: usize = 3;

/// A name for people, cut to its first 24 bytes.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Name([AtomicU64; NAME_WORDS]);

impl Name {
    /// From now on it is this one.
    #[inline]
    pub fn set(&self, name: &str) {
        let mut bytes = [0; 8 * NAME_WORDS];
        let length = name.len().min(bytes.len());
        bytes[..length].copy_from_slice(&name.as_bytes()[..length]);
        for (cell, word) in self.0.iter().zip(bytes.chunks_exact(8)) {
            let word = word.try_into().map_or(0, u64::from_ne_bytes);
            cell.store(word, Ordering::Relaxed);
        }
    }

    /// What it is: printable characters only, whatever the other side has written.
    pub fn get(&self) -> String {
        let words = self.0.iter().map(|cell| cell.load(Ordering::Relaxed));
        let bytes = words.flat_map(u64::to_ne_bytes);
        let kept = bytes.take_while(|byte| byte.is_ascii_graphic() || *byte == b' ');
        kept.map(char::from).collect()
    }
}

/// One thread of a program.
#[derive(Debug)]
#[repr(C, align(4096))]
pub struct ThreadPage {
    turn: AtomicU32,
    /// Threads that wait in the kernel for the turn to change.
    sleepers: AtomicU32,
    /// The thread's number in the kernel. Zero: the page is free.
    pub tid: AtomicU32,
    /// Calls that the thread has made: it does something as long as this changes.
    pub calls: AtomicU64,
    /// The last of them.
    pub last_call: Name,
    /// Turns that the thread has had.
    pub turns: AtomicU64,
    /// The thread's own time.
    pub clock_ps: AtomicU64,
    /// When the turn began: memory is as it was then.
    pub begun_ps: AtomicU64,
    /// Nothing that the thread does not cause itself becomes visible to it before.
    pub quiet_until_ps: AtomicU64,
    /// Nothing that the card writes becomes visible to the thread before, whatever is under way: the
    /// world has until then to catch up. Earlier with what the thread stores meanwhile.
    pub hidden_until_ps: AtomicU64,
    /// From a store of the thread to the first that the card may write because of it.
    pub reaction_ps: AtomicU64,
    /// The thread goes on at this time, whatever it waits for. [`NEVER_PS`]: no such time.
    pub deadline_ps: AtomicU64,
    /// Interrupts that have come: a bit for each vector. Who has got the turn calls their handlers.
    pub interrupts: AtomicU64,
    /// What the world answers to a request.
    pub answer: AtomicU64,
    /// What the thread waits for, written before it gives the turn up.
    pub request: Request,
    /// What it has stored during its turn.
    pub stores: Stores,
    /// What it was busy with during its turn, as far as there is room.
    pub done: Stores,
}

/// All pages of a program, in one file.
#[derive(Debug)]
#[repr(C, align(4096))]
pub struct ProgramPages {
    /// That of the program.
    pub program: ProgramPage,
    /// Those of its threads, by number.
    pub threads: [ThreadPage; MAX_THREADS],
}

impl ThreadPage {
    /// Who has the turn. What the other side has written before it passed the turn on is seen.
    #[inline]
    pub fn turn(&self) -> Turn {
        Turn::of_code(self.turn.load(Ordering::Acquire))
    }

    /// Prepares a page for a new thread, which waits for its first turn.
    pub fn reset(&self, tid: u32) {
        for cell in [
            &self.calls,
            &self.turns,
            &self.clock_ps,
            &self.begun_ps,
            &self.quiet_until_ps,
            &self.hidden_until_ps,
            &self.reaction_ps,
            &self.interrupts,
            &self.answer,
        ] {
            cell.store(0, Ordering::Relaxed);
        }
        self.last_call.set("");
        self.deadline_ps.store(NEVER_PS, Ordering::Relaxed);
        self.stores.clear();
        self.done.clear();
        self.tid.store(tid, Ordering::Relaxed);
        self.turn.store(Turn::World.code(), Ordering::Release);
    }

    /// Passes the turn on, and wakes who waits for it. False: the thread has ended meanwhile.
    #[inline]
    pub fn pass(&self, to: Turn) -> bool {
        let pass = |code| (Turn::of_code(code) != Turn::Ended).then_some(to.code());
        let passed = self
            .turn
            .fetch_update(Ordering::SeqCst, Ordering::Relaxed, pass);
        self.wake();
        passed.is_ok()
    }

    /// Nobody gets the turn any more.
    pub fn end(&self) {
        self.turn.store(Turn::Ended.code(), Ordering::SeqCst);
        self.wake();
    }

    #[inline]
    fn wake(&self) {
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            // Without memory the wake-up is lost; who sleeps looks again after its time limit.
            let _ = futex::wake(&self.turn, futex::Flags::empty(), u32::MAX >> 1);
        }
    }

    /// Looks so many times whether the turn is not `other`'s any more, then sleeps as
    /// [`Self::sleep_while`] does.
    #[inline]
    pub fn wait_while(&self, other: Turn, looks: u32, limit: Duration) -> Turn {
        for _ in 0..looks {
            let turn = self.turn();
            if turn != other {
                return turn;
            }
            std::hint::spin_loop();
        }
        self.sleep_while(other, limit)
    }

    /// Sleeps until the turn is not `other`'s any more, or for `limit`.
    ///
    /// Returns who has the turn then. May return early.
    #[cold]
    pub fn sleep_while(&self, other: Turn, limit: Duration) -> Turn {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        let limit = futex::Timespec {
            tv_sec: limit.as_secs() as i64,
            tv_nsec: limit.subsec_nanos().into(),
        };
        if self.turn.load(Ordering::SeqCst) == other.code() {
            // Woken, out of time or interrupted: who asked looks again.
            let _ = futex::wait(
                &self.turn,
                futex::Flags::empty(),
                other.code(),
                Some(&limit),
            );
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
        self.turn()
    }
}

#[cfg(test)]
mod tests {
    use super::Name;

    #[test]
    fn names_are_kept_as_far_as_there_is_room() {
        let name = Name::default();
        assert_eq!(name.get(), "");
        for (long, kept) in [
            ("epoll_wait", "epoll_wait"),
            ("", ""),
            (
                "a_name_that_is_longer_than_that",
                "a_name_that_is_longer_th",
            ),
            ("bad\u{7}name", "bad"),
        ] {
            name.set(long);
            assert_eq!(name.get(), kept);
        }
    }
}
