//! The client's interrupts.

use std::ops::Range;
use std::os::fd::BorrowedFd;

use zerocopy::IntoBytes;

use super::Client;
use crate::error::RequestError;
use crate::irq::{ACTION_MASK, ACTION_TRIGGER, ACTION_UNMASK, DATA_EVENTFD, DATA_NONE};
use crate::limit;
use crate::message::{Command, IrqSet};

impl Client {
    /// Connects eventfds to vectors from `start` on; `None` disconnects a vector's eventfd.
    ///
    /// Sends several messages if the server does not accept as many file descriptors in one. When
    /// one of them is refused, the earlier ones remain in effect.
    pub fn connect_irqs(
        &self,
        index: u32,
        start: u32,
        events: &[Option<BorrowedFd>],
    ) -> Result<(), RequestError> {
        let fds_max = self.server.max_msg_fds.min(limit::MESSAGE_FDS_MAX);
        if fds_max == 0 && events.iter().any(Option::is_some) {
            return Err(RequestError::Invalid("the server takes no file descriptor"));
        }
        let mut start = start;
        // A message has an eventfd for each of its vectors, or for none.
        for run in events.chunk_by(|one, next| one.is_some() == next.is_some()) {
            let takes_away = run.first().is_none_or(Option::is_none);
            let size = if takes_away { run.len() } else { fds_max };
            for part in run.chunks(size) {
                let fds: Vec<BorrowedFd> = part.iter().copied().flatten().collect();
                let flags = DATA_EVENTFD | ACTION_TRIGGER;
                let vectors = start..start.saturating_add(part.len() as u32);
                start = vectors.end;
                self.set_irqs(index, flags, vectors, &fds)?;
            }
        }
        Ok(())
    }

    /// Disconnects all eventfds of a kind.
    pub fn disable_irqs(&self, index: u32) -> Result<(), RequestError> {
        self.set_irqs(index, DATA_NONE | ACTION_TRIGGER, 0..0, &[])
    }

    /// Makes the device send vectors (a loopback test).
    pub fn trigger_irqs(&self, index: u32, vectors: Range<u32>) -> Result<(), RequestError> {
        self.act_on_irqs(index, ACTION_TRIGGER, vectors)
    }

    /// Masks vectors.
    pub fn mask_irqs(&self, index: u32, vectors: Range<u32>) -> Result<(), RequestError> {
        self.act_on_irqs(index, ACTION_MASK, vectors)
    }

    /// Unmasks vectors.
    pub fn unmask_irqs(&self, index: u32, vectors: Range<u32>) -> Result<(), RequestError> {
        self.act_on_irqs(index, ACTION_UNMASK, vectors)
    }

    fn act_on_irqs(
        &self,
        index: u32,
        action: u32,
        vectors: Range<u32>,
    ) -> Result<(), RequestError> {
        if vectors.is_empty() {
            return Ok(()); // on the wire, an empty list means all
        }
        self.set_irqs(index, DATA_NONE | action, vectors, &[])
    }

    fn set_irqs(
        &self,
        index: u32,
        flags: u32,
        vectors: Range<u32>,
        fds: &[BorrowedFd],
    ) -> Result<(), RequestError> {
        let set = IrqSet {
            argsz: (size_of::<IrqSet>() as u32).into(),
            flags: flags.into(),
            index: index.into(),
            start: vectors.start.into(),
            count: (vectors.end - vectors.start).into(),
        };
        let parts = [set.as_bytes(), &[]];
        self.request(Command::DEVICE_SET_IRQS, parts, fds)?;
        Ok(())
    }
}
