//! The library in this process that keeps simulated time, behind safe functions.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use ferroce_timed_protocol::VERSION;
use ferroce_timed_protocol::page::ProgramPage;
use ferroce_timed_protocol::request::Wait;
use ferroce_timed_protocol::store::{StoreKind, Work};
use ferroce_timed_protocol::table::{Entry, InterruptFunction, TimeTable};

use crate::time_table::time_table;

/// The library, in a program that has joined a world.
#[derive(Debug, Clone, Copy)]
pub struct Library {
    table: &'static TimeTable,
    program: &'static ProgramPage,
}

/// Why a program cannot join its world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    /// The library is not there.
    #[error("the program was not started by `ferroce run --timed` or `ferroce run --world`")]
    NoLibrary,
    /// The libraries are of two builds.
    #[error("libferroce_time.so and libibverbs.so.1 are of different versions of Ferroce")]
    LibraryVersion,
    /// Nobody listens at the socket.
    #[error("the world has ended")]
    NoWorld,
    /// Somebody else's world, which would get the program's data.
    #[error(
        "the world is of user {world}, this program of user {program}: a program joins only a world of \
         its own user or of root; start `ferroce world` as user {program}, or the program as user {world}"
    )]
    OtherUser {
        /// Who has made the socket.
        world: u32,
        /// Who this process is.
        program: u32,
    },
    /// The world is of another build.
    #[error("the world is of another version of Ferroce")]
    WorldVersion,
    /// All hosts are taken.
    #[error(
        "every host of the world has a program already: one program can be on a host at a time"
    )]
    NoHost,
    /// No room for another thread.
    #[error("the program has too many threads")]
    NoThread,
    /// Something else.
    #[error("the world cannot be joined (errno {0})")]
    Os(i32),
}

impl JoinError {
    fn of_errno(errno: i32) -> Self {
        match errno {
            libc::ENOENT | libc::ECONNREFUSED | libc::ECONNRESET => Self::NoWorld,
            libc::EPROTO => Self::WorldVersion,
            libc::EUSERS => Self::NoHost,
            libc::EAGAIN => Self::NoThread,
            errno => Self::Os(errno),
        }
    }

    /// The errno that says the same.
    pub fn errno(self) -> i32 {
        match self {
            Self::NoLibrary | Self::NoWorld => libc::ENODEV,
            Self::OtherUser { .. } => libc::EACCES,
            Self::LibraryVersion | Self::WorldVersion => libc::EPROTO,
            Self::NoHost => libc::EUSERS,
            Self::NoThread => libc::EAGAIN,
            Self::Os(errno) => errno,
        }
    }
}

impl Library {
    /// Joins the world that `FERROCE_WORLD` names, if this program has not done so yet.
    ///
    /// # Errors
    /// Any [`JoinError`].
    pub fn join() -> Result<Self, JoinError> {
        let table = time_table().ok_or(JoinError::NoLibrary)?;
        if table.version != VERSION {
            return Err(JoinError::LibraryVersion);
        }
        match (table.join)() {
            0 => {}
            errno => return Err(JoinError::of_errno(errno)),
        }
        let program = (table.program)().ok_or(JoinError::NoWorld)?;
        Ok(Self { table, program })
    }

    /// What this program knows of its world.
    #[inline]
    pub fn program(&self) -> &'static ProgramPage {
        self.program
    }

    /// The host that it is on.
    pub fn host(&self) -> u32 {
        get(&self.program.host)
    }

    /// Whether the world has ended.
    #[inline]
    pub fn has_ended(&self) -> bool {
        get(&self.program.has_ended) != 0
    }

    /// Whether the only other program was killed, and none has come since.
    #[inline]
    pub fn is_bereft(&self) -> bool {
        get(&self.program.is_bereft) != 0
    }

    /// The calling thread's time, in picoseconds.
    #[inline]
    pub fn now_ps(&self) -> u64 {
        (self.table.now_ps)()
    }

    /// The calling thread computes for so long.
    #[inline]
    pub fn spend_ps(&self, time: u64) {
        (self.table.spend_ps)(time);
    }

    /// The calling thread computes for so long, for `work`.
    #[inline]
    pub fn work_ps(&self, work: Work, time: u64) {
        (self.table.work)(work, time);
    }

    /// The calling thread makes a store, now.
    #[inline]
    pub fn store(&self, kind: StoreKind, slot: u32, words: &[u64]) {
        (self.table.store)(kind, slot, words.as_ptr(), words.len());
    }

    /// Memory becomes what it is now.
    #[inline]
    pub fn catch_up(&self) {
        (self.table.catch_up)();
    }

    /// The card gets the stores that it has not seen.
    #[inline]
    pub fn flush(&self) {
        (self.table.flush)();
    }

    /// Waits; returns the answer.
    #[inline]
    pub fn wait(&self, wait: &Wait) -> u64 {
        (self.table.wait)(wait)
    }

    /// Changes whenever the calling thread has done something else than calling this library.
    #[inline]
    pub fn activity(&self) -> u64 {
        (self.table.activity)()
    }

    /// The address of a function that notes who polls and goes on to `target`.
    pub fn noting_caller(&self, entry: Entry, target: *const c_void) -> *const c_void {
        (self.table.noting_caller)(entry, target)
    }

    /// What the caller of the poll is like that is being made: [`TimeTable::caller`].
    #[inline]
    pub fn caller(&self) -> u64 {
        (self.table.caller)()
    }

    /// Whether the program has one thread only.
    #[inline]
    pub fn is_alone(&self) -> bool {
        (self.table.thread_count)() < 2
    }

    /// Has `function` called for interrupts, in the thread that finds them.
    pub fn on_interrupts(&self, function: InterruptFunction) {
        (self.table.set_interrupts)(Some(function), ptr::null_mut());
    }

    /// From now on the card may write to this memory.
    pub fn note_card_memory(&self, start: usize, length: usize) {
        (self.table.card_memory)(start, length);
    }

    /// Does something that is no part of the program: it has the time of the machine, and threads
    /// that it starts are not simulated.
    pub fn outside<R>(&self, action: impl FnOnce() -> R) -> R {
        struct Back(&'static TimeTable);
        impl Drop for Back {
            fn drop(&mut self) {
                (self.0.outside)(false);
            }
        }
        (self.table.outside)(true);
        let _back = Back(self.table);
        action()
    }
}

fn get(cell: &AtomicU32) -> u32 {
    cell.load(Ordering::Relaxed)
}
