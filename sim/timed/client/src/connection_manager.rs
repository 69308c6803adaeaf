//! RDMA CM of this program's host: its agent lives in the world.

use std::sync::atomic::Ordering;

use ferroce_driver::bus::{ProgramClock as _, Slept};
use ferroce_embed::error::AttachError;
use ferroce_timed_protocol::cm::{ADDRESS_LENGTH, CmCall, CmMessage, result};
use ferroce_timed_protocol::request::Wait;

use crate::interrupts;
use crate::library::Library;
use crate::membership::Membership;
use crate::processor::Processor;

/// The agent of this program's host.
#[derive(Debug)]
pub struct ConnectionManager {
    library: Library,
    processor: Processor,
}

/// The response to a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CmReply {
    /// Address at which the program expects it.
    pub address: u64,
    /// The bytes; empty if the command has no response.
    pub bytes: Vec<u8>,
}

impl ConnectionManager {
    /// Returns the agent of this program's host; `None` if the program runs in real time.
    /// `on_events` is called whenever events have arrived, in any thread and inside any call of the
    /// driver: it must not call the driver or this. Only the first such function is used.
    ///
    /// # Errors
    /// [`AttachError`] if the program cannot join its world.
    pub fn of_this_program(on_events: fn()) -> Result<Option<Self>, AttachError> {
        let Some(membership) = Membership::from_environment()? else {
            return Ok(None);
        };
        let library = membership.library();
        interrupts::set_on_events(on_events);
        interrupts::call_handlers_of(library);
        Ok(Some(Self {
            library,
            processor: Processor::new(library),
        }))
    }

    /// Opens a channel. Returns its number.
    ///
    /// # Errors
    /// An errno.
    pub fn open_channel(&self) -> Result<u32, i32> {
        self.call(CmCall::Open)
    }

    /// Closes a channel, and ends its connections.
    pub fn close_channel(&self, channel: u32) {
        // It fails only if the world has ended; then the channel has ended, too.
        let _ = self.call(CmCall::Close { channel });
    }

    /// Executes a command.
    ///
    /// # Errors
    /// An errno, as from the kernel's device file.
    pub fn command(&self, channel: u32, bytes: &[u8], option: &[u8]) -> Result<CmReply, i32> {
        let call = CmCall::Command {
            channel,
            length: bytes.len() as u32,
            option_length: option.len() as u32,
        };
        self.exchange(call, bytes, option)
    }

    /// Executes MIGRATE_ID; `source` is the channel that has the id, or why there is none.
    ///
    /// # Errors
    /// An errno, as from the kernel's device file.
    pub fn migrate(
        &self,
        channel: u32,
        bytes: &[u8],
        source: Result<u32, i32>,
    ) -> Result<CmReply, i32> {
        let call = CmCall::Migrate {
            channel,
            length: bytes.len() as u32,
            source: source.map_err(|errno| errno as u32),
        };
        self.exchange(call, bytes, &[])
    }

    /// Returns the number of events that wait in a channel, as of the thread's last turn.
    pub fn events(&self, channel: u32) -> usize {
        let cell = self.library.program().cm_events.get(channel as usize);
        cell.map_or(0, |cell| cell.load(Ordering::Relaxed) as usize)
    }

    /// Brings [`ConnectionManager::events`] up to the time of the calling thread. Costs a system
    /// call if the channel has no events.
    pub fn look(&self, channel: u32) {
        self.library.catch_up();
        if self.events(channel) == 0 {
            self.processor.spend_system_call();
        }
    }

    /// Sleeps until an event waits in a channel.
    pub fn sleep_until_event(&self, channel: u32) -> Slept {
        self.processor
            .sleep_until(&mut || self.events(channel) != 0)
    }

    fn exchange(&self, call: CmCall, bytes: &[u8], option: &[u8]) -> Result<CmReply, i32> {
        let message = self.library.cm_message().ok_or(libc::EIO)?;
        if !message.set(bytes, option) {
            return Err(libc::EINVAL);
        }
        let length = self.call(call)?;
        reply_in(message, length as usize).ok_or(libc::EIO)
    }

    fn call(&self, call: CmCall) -> Result<u32, i32> {
        self.processor.spend_cm_command();
        let answer = self.library.wait(&Wait::Cm(call));
        if self.library.has_ended() {
            Err(libc::ENETDOWN)
        } else {
            result(answer).map_err(|errno| errno as i32)
        }
    }
}

/// Returns the reply in a message of this length.
fn reply_in(message: &CmMessage, length: usize) -> Option<CmReply> {
    let reply = message.get(length);
    let (address, bytes) = reply.split_first_chunk::<ADDRESS_LENGTH>()?;
    Some(CmReply {
        address: u64::from_le_bytes(*address),
        bytes: bytes.to_vec(),
    })
}
