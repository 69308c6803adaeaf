//! The communication manager of a program in simulated time: the agent of its host, in the world.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use ferroce_driver::bus::Slept;
use ferroce_rdma_cm::{ChannelId, Command, Reply};
use ferroce_timed_client::{CmReply, ConnectionManager};
use parking_lot::Mutex;

use super::Manager;
use super::announced::Announced;
use crate::errno::Errno;
use crate::open_error;
use crate::os::event_fd::EventFd;
use crate::os::fork::Generation;

/// This program's access to the agent of its host.
pub struct WorldAgent {
    generation: Generation,
    manager: ConnectionManager,
    /// Locked only during system calls on the descriptors: [`show_events`] is called inside any
    /// call of the driver.
    announced: Mutex<BTreeMap<u32, Announced>>,
}

/// The agent, from the first channel on.
static AGENT: OnceLock<Arc<WorldAgent>> = OnceLock::new();

impl WorldAgent {
    /// Returns the agent of this program's host; `None` if the program runs in real time.
    ///
    /// # Errors
    /// The error of joining the world; `EIO` in a child of a program that has used it.
    pub fn of_this_program() -> Result<Option<Arc<Self>>, Errno> {
        if let Some(agent) = AGENT.get() {
            return if agent.is_current() {
                Ok(Some(Arc::clone(agent)))
            } else {
                Err(Errno::IO)
            };
        }
        let manager = ConnectionManager::of_this_program(show_events)
            .map_err(|error| open_error::report("no RDMA CM", &error, error.errno))?;
        Ok(manager.map(|manager| {
            let agent = Self {
                generation: Generation::current(),
                manager,
                announced: Mutex::default(),
            };
            Arc::clone(AGENT.get_or_init(|| Arc::new(agent)))
        }))
    }

    /// Makes each descriptor show the events of its channel.
    fn show_events(&self) {
        for (channel, announced) in &mut *self.announced.lock() {
            announced.show(self.manager.events(*channel));
        }
    }

    fn reply(&self, result: Result<CmReply, i32>) -> Result<Reply, Errno> {
        self.show_events();
        let CmReply { address, bytes } = result.map_err(Errno::new)?;
        Ok(Reply { address, bytes })
    }
}

/// Makes the descriptors of this program show the events of their channels.
fn show_events() {
    if let Some(agent) = AGENT.get().filter(|agent| agent.is_current()) {
        agent.show_events();
    }
}

impl Manager for WorldAgent {
    fn is_current(&self) -> bool {
        self.generation.is_current()
    }

    fn open_channel(&self, fd: Arc<EventFd>) -> Result<ChannelId, Errno> {
        let channel = self.manager.open_channel().map_err(Errno::new)?;
        self.announced.lock().insert(channel, Announced::new(fd));
        Ok(ChannelId(channel))
    }

    fn close_channel(&self, id: ChannelId) {
        let announced = self.announced.lock().remove(&id.0);
        drop(announced);
        self.manager.close_channel(id.0);
    }

    fn command(&self, channel: ChannelId, bytes: &[u8], option: &[u8]) -> Result<Reply, Errno> {
        let ChannelId(channel) = channel;
        if Command::of(bytes) == Command::GetEvent && self.manager.events(channel) == 0 {
            self.manager.look(channel);
            if self.manager.events(channel) == 0 {
                return Err(Errno::AGAIN);
            }
        }
        self.reply(self.manager.command(channel, bytes, option))
    }

    fn migrate(
        &self,
        channel: ChannelId,
        bytes: &[u8],
        source: Result<ChannelId, ferroce_rdma_cm::Errno>,
    ) -> Result<Reply, Errno> {
        let source = source.map(|id| id.0).map_err(|errno| errno.0);
        self.reply(self.manager.migrate(channel.0, bytes, source))
    }

    fn sleep_until_event(&self, channel: ChannelId) -> Option<Slept> {
        Some(self.manager.sleep_until_event(channel.0))
    }
}
