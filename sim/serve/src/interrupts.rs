//! Interrupts of a served function: eventfds of the client, one for each vector.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use ferroce_driver::bus::InterruptHandler;
use ferroce_platform::served::ServedModel;
use ferroce_spec::register::{
    MSIX_ENTRY_SIZE, MSIX_TABLE_OFFSET, MSIX_VECTOR_MASKED, VECTOR_COUNT,
};
use ferroce_vfio_user::{Errno, IrqAction};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Name of an eventfd in /proc.
const EVENTFD: &[u8] = b"anon_inode:[eventfd]";

/// The eventfds, by vector.
#[derive(Debug, Default)]
pub struct Events {
    events: [Option<Arc<OwnedFd>>; VECTOR_COUNT as usize],
}

impl Events {
    /// Executes the client's request for the MSI-X vectors.
    ///
    /// # Errors
    /// `EINVAL`: there is no such vector, or a descriptor is no eventfd.
    pub fn set(&mut self, function: &dyn ServedModel, action: IrqAction) -> Result<(), Errno> {
        match action {
            IrqAction::Disable => {
                self.disconnect_all(function);
                Ok(())
            }
            IrqAction::Connect { start, events } => self.connect(function, start, events),
            IrqAction::Trigger(vectors) => {
                let events = vectors.iter().filter_map(|vector| {
                    let event = self.events.get(*vector as usize)?.as_ref()?;
                    Some(event)
                });
                events.for_each(|event| signal(event));
                Ok(())
            }
            IrqAction::Mask(vectors) => mask(function, &vectors, MSIX_VECTOR_MASKED),
            IrqAction::Unmask(vectors) => mask(function, &vectors, 0),
        }
    }

    fn connect(
        &mut self,
        function: &dyn ServedModel,
        start: u32,
        events: Vec<Option<OwnedFd>>,
    ) -> Result<(), Errno> {
        let start = start as usize;
        let end = start.checked_add(events.len()).ok_or(Errno::INVAL)?;
        if end > self.events.len() || !events.iter().flatten().all(is_eventfd) {
            return Err(Errno::INVAL);
        }
        for (vector, event) in (start..end).zip(events) {
            self.connect_one(function, vector, event)?;
        }
        Ok(())
    }

    fn connect_one(
        &mut self,
        function: &dyn ServedModel,
        vector: usize,
        event: Option<OwnedFd>,
    ) -> Result<(), Errno> {
        let event = event.map(Arc::new);
        let handler = event
            .clone()
            .map(|event| -> InterruptHandler { Arc::new(move || signal(&event)) });
        function
            .set_interrupt_handler(vector as u16, handler)
            .map_err(|_| Errno::INVAL)?;
        self.events[vector] = event;
        Ok(())
    }

    /// Removes all eventfds. No new interrupt is sent afterwards, but one that has started may
    /// still be.
    pub fn disconnect_all(&mut self, function: &dyn ServedModel) {
        for vector in 0..self.events.len() {
            let _ = self.connect_one(function, vector, None);
        }
    }
}

/// Returns true for an eventfd; a write to any other file might block the device.
fn is_eventfd(event: &OwnedFd) -> bool {
    let link = format!("/proc/self/fd/{}", event.as_raw_fd());
    rustix::fs::readlink(link, Vec::new()).is_ok_and(|name| name.as_bytes() == EVENTFD)
}

/// Increments the eventfd, unless its counter is full: then it is readable anyway, and a write
/// would block.
fn signal(event: &OwnedFd) {
    let mut fds = [PollFd::new(event, PollFlags::OUT)];
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    if poll(&mut fds, Some(&at_once)) == Ok(1) {
        let _ = rustix::io::write(event, &1u64.to_ne_bytes());
    }
}

fn mask(function: &dyn ServedModel, vectors: &[u32], control: u32) -> Result<(), Errno> {
    if vectors.iter().any(|v| *v >= u32::from(VECTOR_COUNT)) {
        return Err(Errno::INVAL);
    }
    for vector in vectors {
        let entry = MSIX_TABLE_OFFSET + vector * MSIX_ENTRY_SIZE;
        function.write32(entry + MSIX_ENTRY_SIZE - 4, control);
    }
    Ok(())
}
