//! Calls of RDMA CM by threads of programs, and the notification of events.

use std::sync::Arc;

use ferroce_rdma_cm::Errno;
use ferroce_timed_protocol::cm::{self, CmCall};
use ferroce_timed_protocol::page::ThreadPage;
use ferroce_units::Instant;
use ferroce_world::ThreadId;

use super::Common;
use crate::program::Program;
use crate::shared::Event;

impl Common {
    /// Lets the program's threads that wait for events check again, except the one with this page.
    pub fn notify(&self, program: &Program, now: Instant, except: Option<ThreadId>) {
        program.notify();
        for place in &*self.places.borrow() {
            if place.program.is_related_to(program) && Some(place.thread) != except {
                self.waker.wake_sleeper(place.thread, now);
            }
        }
    }

    /// Takes the interrupts of a program: of its card, and of its channels.
    pub fn take_interrupts(&self, program: &Program) -> u64 {
        let of_channels = program.take_interrupts();
        if program.owns_card() {
            of_channels | self.shared.take_interrupts(program.host)
        } else {
            of_channels
        }
    }

    /// Returns true if there are any.
    pub fn has_interrupts(&self, program: &Program) -> bool {
        program.has_interrupts() || program.owns_card() && self.shared.has_interrupts(program.host)
    }

    /// Notifies programs of events of their channels.
    pub fn announce_cm_events(&self, now: Instant) {
        let reached = self.cm_agents.borrow_mut().take_reached();
        for program in reached {
            program.add_interrupts(cm::INTERRUPT);
            self.notify(&program, now, None);
        }
    }

    /// Executes a call of RDMA CM. Returns the answer; a reply is written to the page.
    pub fn call_cm(
        &self,
        now: Instant,
        program: &Arc<Program>,
        page: &ThreadPage,
        call: CmCall,
    ) -> Result<u32, Errno> {
        let mut agents = self.cm_agents.borrow_mut();

        let message = &page.cm_message;
        let reply = match call {
            CmCall::Open => {
                if !agents.have_threads() {
                    self.shared.report(Event::Cm);
                }
                return agents.open(program);
            }
            CmCall::Close { channel } => return agents.close(now, program, channel).map(|()| 0),
            CmCall::Command {
                channel,
                length,
                option_length,
            } => {
                let bytes = message.get(length as usize + option_length as usize);
                let (bytes, option) = bytes.split_at(length as usize);
                agents.command(now, program, channel, bytes, option)?
            }
            CmCall::Migrate {
                channel,
                length,
                source,
            } => {
                let source = source.map_err(|errno| Errno(errno as i32));
                let bytes = message.get(length as usize);
                agents.migrate(now, program, channel, &bytes, source)?
            }
        };
        let address = reply.address.to_le_bytes();
        if message.set(&address, &reply.bytes) {
            Ok((address.len() + reply.bytes.len()) as u32)
        } else {
            Err(Errno::ENOSPC)
        }
    }
}
