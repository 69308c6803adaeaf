//! Shared pages: one for the program, one for each of its threads.
//!
//! All fields are atomics, so that no value that one side writes is undefined behaviour in the
//! other. [`ThreadPage::turn`] alone orders the sides' accesses: the side that has the turn owns
//! the other fields.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use rustix::thread::futex;

use crate::MAX_THREADS;
use crate::children::Children;
use crate::cm::{CmMessage, MAX_CHANNELS};
use crate::inner_pipes::InnerPipes;
use crate::name::Name;
use crate::request::Request;
use crate::store::Stores;
use crate::trust::Departures;

/// Bytes of a page of memory.
pub const PAGE_SIZE: usize = 4096;
/// "Never".
pub const NEVER_PS: u64 = u64::MAX;

/// [`ProgramPage::region_pages`]: regions have the pages of the kernel.
pub const REGION_PAGES_OF_KERNEL: u32 = 0;
/// [`ProgramPage::region_pages`]: one offset translates a region.
pub const NO_REGION_PAGES: u32 = u32::MAX;

/// The side that has the turn of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// The world: the thread waits.
    World,
    /// The thread: it runs, and the world waits for it.
    Thread,
    /// Neither side: the thread, its program or the world has ended.
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

/// Costs of calls, in picoseconds: the `host` section of a preset.
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
    /// Poll that finds no completion.
    pub poll_miss_ps: AtomicU64,
    /// One iteration of a loop that polls memory.
    pub memory_poll_ps: AtomicU64,
    /// Wake-up: from the MSI-X message until the sleeping thread runs.
    pub wake_up_ps: AtomicU64,
    /// System call that does not wait.
    pub system_call_ps: AtomicU64,
    /// Page fault of an on-demand region.
    pub page_fault_ps: AtomicU64,
    /// Command of RDMA CM.
    pub cm_command_ps: AtomicU64,
    /// Half width of the spread of all of these.
    pub jitter_ps: AtomicU64,
    /// Seed of the spread.
    pub seed: AtomicU64,
}

/// Facts about the world for a program. The world writes them before the program maps the page.
#[derive(Debug)]
#[repr(C, align(4096))]
pub struct ProgramPage {
    /// [`crate::VERSION`].
    pub version: AtomicU32,
    /// The host that the program is on.
    pub host: AtomicU32,
    /// Number of the host that its name has; the functions of a card are on one host.
    pub host_of_name: AtomicU32,
    /// Programs that were on the host before: each has other random numbers.
    pub earlier_programs: AtomicU32,
    /// Hosts of the world.
    pub hosts: AtomicU32,
    /// `vendor_part_id` of its card.
    pub part_id: AtomicU32,
    /// Path MTU of its network, in bytes.
    pub path_mtu_bytes: AtomicU32,
    /// Not zero: the card accepts a push only of WQEs with all their data inline.
    pub push_inline_only: AtomicU32,
    /// Longest push that the card accepts, in blocks.
    pub push_blocks: AtomicU32,
    /// Base-2 logarithm of the pages by which the card translates memory regions,
    /// [`REGION_PAGES_OF_KERNEL`] or [`NO_REGION_PAGES`].
    pub region_pages: AtomicU32,
    /// Bytes that are brought in with the page of a fault of an on-demand region.
    pub page_fault_prefetch_bytes: AtomicU32,
    /// Not zero: the world has ended.
    pub has_ended: AtomicU32,
    /// Costs of calls.
    pub costs: CostsPage,
    /// Data rate of its port, in Mb/s.
    pub rate_mbps: AtomicU32,
    /// Not zero: threads record in [`ThreadPage::done`] what they spend time on.
    pub is_recorded: AtomicU32,
    /// Not zero: the program has called `exit`, or has returned from `main`. The program writes it.
    pub has_exited: AtomicU32,
    /// Not zero: the only other program was killed, and none has joined since.
    pub has_lost_partner: AtomicU32,
    /// Not zero: the clock of the world stands still until more programs have joined.
    pub is_held: AtomicU32,
    /// The file that is the host's persistent memory: device, as `stat` numbers it.
    pub persistent_device: AtomicU64,
    /// Its inode. Zero: the host has none.
    pub persistent_inode: AtomicU64,
    /// How often threads have left simulated time. Both sides note it.
    pub departures: Departures,
    /// Events that wait in each channel of RDMA CM, by number: see [`crate::cm`].
    pub cm_events: [AtomicU32; MAX_CHANNELS],
    /// Earliest time of the program's first thread: the clock of the parent that has started it.
    pub since_ps: AtomicU64,
    /// Not zero: its parent, or an earlier program of its process, is in the world.
    pub is_member: AtomicU32,
    /// Its children.
    pub children: Children,
    /// Pipes and socket pairs of which both ends belong to the program and to processes with the
    /// same ancestor in the world. The program writes it; its children begin with a copy.
    pub inner_pipes: InnerPipes,
}

/// One thread of a program.
#[derive(Debug)]
#[repr(C, align(4096))]
pub struct ThreadPage {
    turn: AtomicU32,
    /// Threads that wait in the kernel for the turn to change.
    sleepers: AtomicU32,
    /// Thread ID in the kernel. Zero: the page is free.
    pub tid: AtomicU32,
    /// Number of calls of the thread. While it changes, the thread makes progress.
    pub calls: AtomicU64,
    /// The last call.
    pub last_call: Name,
    /// Not zero: the thread computes for so long without a call that it lets time pass in steps,
    /// as it may wait for another thread.
    pub is_stuck: AtomicU32,
    /// Number of turns of the thread.
    pub turns: AtomicU64,
    /// Clock of the thread.
    pub clock_ps: AtomicU64,
    /// Time at which the turn began: memory is as it was then.
    pub begun_ps: AtomicU64,
    /// Before this time, the thread sees no changes except those that it causes itself.
    pub quiet_until_ps: AtomicU64,
    /// Before this time, the thread sees no write of the card, whatever is in flight, so the world
    /// need not catch up earlier. A store of the thread can move it earlier.
    pub hidden_until_ps: AtomicU64,
    /// Shortest time from a store of the thread to a write of the card that the store causes.
    pub reaction_ps: AtomicU64,
    /// The thread runs again at this time, whatever it waits for. [`NEVER_PS`]: no such time.
    pub deadline_ps: AtomicU64,
    /// Not zero: the end of a child is to interrupt the thread's wait, as it has a handler of
    /// `SIGCHLD`. The thread writes it.
    pub takes_ends_of_children: AtomicU32,
    /// Not zero: the world has interrupted the thread's wait.
    pub is_interrupted: AtomicU32,
    /// Pending interrupts: a bit for each vector. The thread that gets the turn calls their
    /// handlers.
    pub interrupts: AtomicU64,
    /// The world's answer to a request.
    pub answer: AtomicU64,
    /// The request of the thread; it writes this before it passes the turn.
    pub request: Request,
    /// Stores of the thread during its turn.
    pub stores: Stores,
    /// Work on which the thread spent time during its turn; entries without room are dropped.
    pub done: Stores,
    /// The command of RDMA CM that the thread waits for, then the reply.
    pub cm_message: CmMessage,
}

/// All pages of a program, in one file.
#[derive(Debug)]
#[repr(C, align(4096))]
pub struct ProgramPages {
    /// The page of the program.
    pub program: ProgramPage,
    /// The pages of its threads, by number.
    pub threads: [ThreadPage; MAX_THREADS],
}

impl ThreadPage {
    /// Returns the side that has the turn, with acquire ordering: all that the other side wrote
    /// before it passed the turn is visible.
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
        for flag in [
            &self.is_stuck,
            &self.takes_ends_of_children,
            &self.is_interrupted,
        ] {
            flag.store(0, Ordering::Relaxed);
        }
        self.deadline_ps.store(NEVER_PS, Ordering::Relaxed);
        self.stores.clear();
        self.done.clear();
        self.tid.store(tid, Ordering::Relaxed);
        self.turn.store(Turn::World.code(), Ordering::Release);
    }

    /// Passes the turn and wakes the side that waits for it. Returns false if the thread has ended.
    #[inline]
    pub fn pass(&self, to: Turn) -> bool {
        let pass = |code| (Turn::of_code(code) != Turn::Ended).then_some(to.code());
        let passed = self
            .turn
            .fetch_update(Ordering::SeqCst, Ordering::Relaxed, pass);
        self.wake();
        passed.is_ok()
    }

    /// Ends the thread: neither side gets the turn again.
    pub fn end(&self) {
        self.turn.store(Turn::Ended.code(), Ordering::SeqCst);
        self.wake();
    }

    #[inline]
    fn wake(&self) {
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            // On failure (no memory) the wake-up is lost; a sleeping side checks again after its
            // time limit.
            let _ = futex::wake(&self.turn, futex::Flags::empty(), u32::MAX >> 1);
        }
    }

    /// Checks up to `checks` times whether `other` still has the turn, then sleeps as
    /// [`Self::sleep_while`] does.
    #[inline]
    pub fn wait_while(&self, other: Turn, checks: u32, limit: Duration) -> Turn {
        for _ in 0..checks {
            let turn = self.turn();
            if turn != other {
                return turn;
            }
            std::hint::spin_loop();
        }
        self.sleep_while(other, limit)
    }

    /// Sleeps until `other` no longer has the turn, or for `limit`.
    ///
    /// Returns the side that has the turn then. May return early.
    #[cold]
    pub fn sleep_while(&self, other: Turn, limit: Duration) -> Turn {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        let limit = futex::Timespec {
            tv_sec: limit.as_secs() as i64,
            tv_nsec: limit.subsec_nanos().into(),
        };
        if self.turn.load(Ordering::SeqCst) == other.code() {
            // Woken, timed out or interrupted: the caller checks again.
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
