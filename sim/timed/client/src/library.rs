//! Safe functions over the preloaded library that keeps simulated time.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use ferroce_timed_protocol::VERSION;
use ferroce_timed_protocol::cm::CmMessage;
use ferroce_timed_protocol::control::Refusal;
use ferroce_timed_protocol::host_name::NoHostName;
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

/// Reason why a program cannot join its world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    /// The time library is not loaded.
    #[error("the program was not started by `ferroce run --timed` or `ferroce run --world`")]
    NoLibrary,
    /// The two libraries are of different builds.
    #[error("libferroce_time.so and libibverbs.so.1 are of different versions of Ferroce")]
    LibraryVersion,
    /// No process listens at the socket.
    #[error("the world has ended")]
    NoWorld,
    /// The world belongs to another user: joining would give that user the program's data.
    #[error(
        "the world is of user {world}, this program of user {program}: a program joins only a world of \
         its own user or of root; start a `ferroce world` as user {program} for it, at another socket"
    )]
    OtherUser {
        /// User of the process that made the socket.
        world: u32,
        /// User of this process.
        program: u32,
    },
    /// The world is of another build.
    #[error("the world is of another version of Ferroce")]
    WorldVersion,
    /// Every host has a program.
    #[error(
        "every host of the world has a program already: one program can be on a host at a time"
    )]
    NoHost,
    /// The wanted host name is invalid.
    #[error(transparent)]
    HostName(#[from] NoHostName),
    /// The wanted host does not exist, or has a program.
    #[error(transparent)]
    Host(Refusal),
    /// No room for another thread.
    #[error("the program has too many threads")]
    NoThread,
    /// Another error.
    #[error("the world cannot be joined (errno {0})")]
    Os(i32),
}

impl JoinError {
    /// Converts an errno; `refusal` is the last answer of the world, for the errors that it
    /// explains.
    fn of_errno(errno: i32, refusal: u64) -> Self {
        match errno {
            libc::EADDRINUSE | libc::EADDRNOTAVAIL => {
                let words = [(refusal >> 32) as u32, refusal as u32];
                Refusal::of_words(words).map_or(Self::HostName(NoHostName), Self::Host)
            }
            libc::ENOENT | libc::ECONNREFUSED | libc::ECONNRESET => Self::NoWorld,
            libc::EPROTO => Self::WorldVersion,
            libc::EUSERS => Self::NoHost,
            libc::EAGAIN => Self::NoThread,
            errno => Self::Os(errno),
        }
    }

    /// Returns the matching errno.
    pub fn errno(self) -> i32 {
        match self {
            Self::NoLibrary | Self::NoWorld => libc::ENODEV,
            Self::OtherUser { .. } => libc::EACCES,
            Self::LibraryVersion | Self::WorldVersion => libc::EPROTO,
            Self::NoHost => libc::EUSERS,
            Self::HostName(_) => libc::EINVAL,
            Self::Host(Refusal::Taken { .. }) => libc::EBUSY,
            Self::Host(_) => libc::ENODEV,
            Self::NoThread => libc::EAGAIN,
            Self::Os(errno) => errno,
        }
    }
}

impl Library {
    /// Joins the world that `FERROCE_WORLD` names, if this program has not joined.
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
            errno => return Err(JoinError::of_errno(errno, (table.refusal)())),
        }
        let program = (table.program)().ok_or(JoinError::NoWorld)?;
        Ok(Self { table, program })
    }

    /// Asks for the card of this program's host.
    ///
    /// # Errors
    /// Another process of the host has it, or the world has ended.
    pub fn request_card(&self) -> Result<(), JoinError> {
        match (self.table.request_card)() {
            0 => Ok(()),
            errno => Err(JoinError::of_errno(errno, (self.table.refusal)())),
        }
    }

    /// Returns the page of this program.
    #[inline]
    pub fn program(&self) -> &'static ProgramPage {
        self.program
    }

    /// Returns the host of this program.
    pub fn host(&self) -> u32 {
        get(&self.program.host)
    }

    /// Returns true if the world has ended.
    #[inline]
    pub fn has_ended(&self) -> bool {
        get(&self.program.has_ended) != 0
    }

    /// Returns true if the only other program was killed, and none has joined since.
    #[inline]
    pub fn has_lost_partner(&self) -> bool {
        get(&self.program.has_lost_partner) != 0
    }

    /// Returns the clock of the calling thread, in picoseconds.
    #[inline]
    pub fn now_ps(&self) -> u64 {
        (self.table.now_ps)()
    }

    /// Advances the clock of the calling thread by this time.
    #[inline]
    pub fn spend_ps(&self, time: u64) {
        (self.table.spend_ps)(time);
    }

    /// Advances the clock of the calling thread by this time, spent on `work`.
    #[inline]
    pub fn work_ps(&self, work: Work, time: u64) {
        (self.table.work)(work, time);
    }

    /// Makes a store at the time of the calling thread.
    #[inline]
    pub fn store(&self, kind: StoreKind, slot: u32, words: &[u64]) {
        (self.table.store)(kind, slot, words.as_ptr(), words.len());
    }

    /// Brings memory up to the time of the calling thread.
    #[inline]
    pub fn catch_up(&self) {
        (self.table.catch_up)();
    }

    /// Gives the card the stores that it has not seen.
    #[inline]
    pub fn flush(&self) {
        (self.table.flush)();
    }

    /// Waits and returns the answer.
    #[inline]
    pub fn wait(&self, wait: &Wait) -> u64 {
        (self.table.wait)(wait)
    }

    /// Returns a number that changes whenever the calling thread has done something other than
    /// calling this library.
    #[inline]
    pub fn activity(&self) -> u64 {
        (self.table.activity)()
    }

    /// Returns how many signals have interrupted calls of the calling thread.
    pub fn interruptions(&self) -> u32 {
        (self.table.interruptions)()
    }

    /// Returns the address of a function that records the poller and calls `target`.
    pub fn noting_caller(&self, entry: Entry, target: *const c_void) -> *const c_void {
        (self.table.noting_caller)(entry, target)
    }

    /// Returns the state of the caller of the current poll: [`TimeTable::caller`].
    #[inline]
    pub fn caller(&self) -> u64 {
        (self.table.caller)()
    }

    /// Returns the message buffer of the calling thread for the RDMA CM agent. `None`: the thread
    /// does not belong to the world.
    pub fn cm_message(&self) -> Option<&'static CmMessage> {
        (self.table.cm_message)()
    }

    /// Returns true if the program has one thread only.
    #[inline]
    pub fn is_alone(&self) -> bool {
        (self.table.thread_count)() < 2
    }

    /// Sets the function to call for interrupts, in the thread that finds them.
    pub fn on_interrupts(&self, function: InterruptFunction) {
        (self.table.set_interrupts)(Some(function), ptr::null_mut());
    }

    /// Announces that the card may write to this memory.
    pub fn note_card_memory(&self, start: usize, length: usize) {
        (self.table.card_memory)(start, length);
    }

    /// Runs `action` outside of the simulated program: it runs in real time, and threads that it
    /// starts are not simulated.
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
