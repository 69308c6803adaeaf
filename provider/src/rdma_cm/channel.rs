//! Descriptors of the device file: which descriptor is a channel, and whose.

use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, IntoRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ferroce_driver::bus::Slept;
use ferroce_rdma_cm::{ChannelId, Reply};
use parking_lot::Mutex;

use super::Manager;
use super::agent::Agent;
use super::world_agent::WorldAgent;
use crate::errno::Errno;
use crate::os::event_fd::EventFd;
use crate::os::fork::ProcessLock;

/// Descriptors below this number can be channels; the kernel's default limit for a process is as
/// high.
const MAX_FD: usize = 65_536;

/// A bit for each descriptor that is a channel. Every `write` and `close` of the program reads it.
static IS_CHANNEL: [AtomicU64; MAX_FD / 64] = [const { AtomicU64::new(0) }; MAX_FD / 64];

/// The channels by descriptor.
static CHANNELS: Mutex<BTreeMap<RawFd, Arc<Channel>>> = Mutex::new(BTreeMap::new());

/// An open channel: the kernel's open file of a descriptor. It is closed with its last descriptor.
pub struct Channel {
    manager: Arc<dyn Manager>,
    id: ChannelId,
    /// Shows the events. The program has only duplicates of it, so an event is never written to
    /// another file, whatever the program does to them.
    events: Arc<EventFd>,
    /// ID of the process that opened it.
    process: u32,
}

/// Returns true if a descriptor is a channel.
#[inline]
pub fn is_channel(fd: RawFd) -> bool {
    // A negative number becomes a large one.
    let index = fd as u32 as usize;
    let word = IS_CHANNEL.get(index / 64);
    word.is_some_and(|word| word.load(Ordering::Relaxed) >> (index % 64) & 1 != 0)
}

/// Opens the device file.
///
/// # Errors
/// The errors of the agent; `EMFILE` without a descriptor.
pub fn open(flags: i32) -> Result<RawFd, Errno> {
    let manager: Arc<dyn Manager> = match WorldAgent::of_this_program()? {
        Some(agent) => agent,
        None => Agent::of_this_process()?,
    };
    let events = Arc::new(EventFd::new()?);
    let id = manager.open_channel(Arc::clone(&events))?;
    let channel = Arc::new(Channel {
        manager,
        id,
        events,
        process: std::process::id(),
    });
    let fd = channel.events.duplicate(flags)?;
    register(fd.as_raw_fd(), channel)?;
    Ok(fd.into_raw_fd())
}

/// Returns the channel of a descriptor.
///
/// # Errors
/// `EBADF` if it is none any more, `EIO` in a child of the process that opened it.
pub fn find(fd: RawFd) -> Result<Arc<Channel>, Errno> {
    let _no_fork = ProcessLock::enter();
    let channel = CHANNELS.lock().get(&fd).cloned();
    let channel = channel.ok_or(Errno::new(libc::EBADF))?;
    if channel.manager.is_current() {
        Ok(channel)
    } else {
        Err(Errno::IO)
    }
}

/// Makes `copy` a descriptor of the channel that `fd` is, if it is one.
pub fn duplicate(fd: RawFd, copy: RawFd) {
    let channel = {
        let _no_fork = ProcessLock::enter();
        CHANNELS.lock().get(&fd).cloned()
    };
    if let Some(channel) = channel.filter(|channel| !channel.is_of_another_process()) {
        // A descriptor too large for the table is a plain pipe to the program: it cannot write
        // commands to it.
        let _ = register(copy, channel);
    }
}

fn register(fd: RawFd, channel: Arc<Channel>) -> Result<(), Errno> {
    let Some(word) = IS_CHANNEL.get(fd as u32 as usize / 64) else {
        return Err(Errno::new(libc::EMFILE));
    };
    let _no_fork = ProcessLock::enter();
    CHANNELS.lock().insert(fd, channel);
    word.fetch_or(1 << (fd % 64), Ordering::Release);
    Ok(())
}

/// Forgets a descriptor that the program closes. The channel is closed when the result is dropped,
/// if that was its last descriptor.
pub fn forget(fd: RawFd) -> Option<Arc<Channel>> {
    let word = IS_CHANNEL.get(fd as u32 as usize / 64)?;
    let _no_fork = ProcessLock::enter();
    let mut channels = CHANNELS.lock();
    if channels.get(&fd)?.is_of_another_process() {
        return None;
    }
    word.fetch_and(!(1 << (fd % 64)), Ordering::Release);
    channels.remove(&fd)
}

impl Channel {
    /// Returns the number of this channel in this process.
    pub fn id(&self) -> ChannelId {
        self.id
    }

    /// Returns true in a child made by `vfork`: it has this memory, but its own descriptors.
    fn is_of_another_process(&self) -> bool {
        self.manager.is_current() && self.process != std::process::id()
    }

    /// Executes a command.
    ///
    /// # Errors
    /// The errors of the kernel's device file.
    pub fn command(&self, bytes: &[u8], option: &[u8]) -> Result<Reply, Errno> {
        self.manager.command(self.id, bytes, option)
    }

    /// Executes MIGRATE_ID, from the channel of the descriptor that it names.
    ///
    /// # Errors
    /// The errors of the kernel's device file.
    pub fn migrate(
        &self,
        bytes: &[u8],
        source: Result<ChannelId, ferroce_rdma_cm::Errno>,
    ) -> Result<Reply, Errno> {
        self.manager.migrate(self.id, bytes, source)
    }

    /// In simulated time, waits until an event can be read, or a signal ends the wait. `None`: the
    /// program runs in real time.
    pub fn sleep_until_event(&self) -> Option<Slept> {
        self.manager.sleep_until_event(self.id)
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        if self.manager.is_current() {
            // A thread that waits in GET_EVENT is not woken: Linux does not, either, and rping
            // takes an error there for a failure.
            self.manager.close_channel(self.id);
        } else {
            // In a child made by fork the channel belongs to the parent. The manager is never
            // dropped there: a thread of the parent may have held its locks or changed its state
            // at that moment.
            std::mem::forget(Arc::clone(&self.manager));
        }
    }
}
