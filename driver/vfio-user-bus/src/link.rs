//! State of the bus that the threads of the connection share: whether it is connected, its
//! mappings, and the interrupts to signal.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU8, Ordering};

use ferroce_vfio_user::{ClientMemory, Errno};
use parking_lot::Mutex;

use super::memory;
use ferroce_driver::bus::{BusError, DmaAccess, DmaMapping};
use ferroce_linux::eventfds::EventFds;

/// The bus is being opened: no caller uses it yet.
const OPENING: u8 = 0;
/// The server is connected; no error was seen.
const CONNECTED: u8 = 1;
/// The connection has ended.
const ENDED: u8 = 2;
/// The server did not answer and was given up. It may still use the memory that it has.
const GIVEN_UP: u8 = 3;

/// The connection, as its threads see it.
pub(super) struct Link {
    state: AtomicU8,
    stream: UnixStream,
    events: EventFds,
    /// Mappings by IOVA. Locked during an access by DMA message, so that unmapping waits for it.
    mappings: Mutex<BTreeMap<u64, DmaMapping>>,
}

impl Link {
    pub(super) fn new(stream: UnixStream, events: EventFds) -> Self {
        Self {
            state: AtomicU8::new(OPENING),
            stream,
            events,
            mappings: Mutex::default(),
        }
    }

    pub(super) fn events(&self) -> &EventFds {
        &self.events
    }

    /// Marks the bus as connected. Returns false if the server has disconnected meanwhile.
    pub(super) fn open(&self) -> bool {
        let (acquire, release) = (Ordering::Acquire, Ordering::AcqRel);
        self.state
            .compare_exchange(OPENING, CONNECTED, release, acquire)
            .is_ok()
    }

    pub(super) fn is_gone(&self) -> bool {
        self.state.load(Ordering::Acquire) != CONNECTED
    }

    /// Returns true if the server has ended the connection, so that it has no memory of this
    /// process any more.
    pub(super) fn has_ended(&self) -> bool {
        self.state.load(Ordering::Acquire) == ENDED
    }

    /// Gives up a server that does not answer, so that no further request is sent to it.
    pub(super) fn give_up(&self) {
        if self.lose(GIVEN_UP) {
            tracing::error!("the vfio-user server does not answer");
            self.wake_all();
        }
        // The server notices the end of the connection if it resumes.
        self.stream.shutdown(Shutdown::Both).ok();
    }

    /// Closes the bus on behalf of its owner; no thread has to be woken.
    pub(super) fn close(&self) {
        self.lose(ENDED);
    }

    /// Leaves the state in which the bus is used; returns true if it was in that state until now.
    fn lose(&self, state: u8) -> bool {
        let (acquire, release) = (Ordering::Acquire, Ordering::AcqRel);
        let lose = |before| matches!(before, OPENING | CONNECTED).then_some(state);
        self.state.fetch_update(release, acquire, lose) == Ok(CONNECTED)
    }

    /// Calls every interrupt handler, for threads that sleep until the device does something.
    fn wake_all(&self) {
        for file in self.events.files() {
            match file.try_clone_to_owned() {
                // The counter cannot overflow: all writers add small numbers.
                Ok(file) => drop(File::from(file).write_all(&1u64.to_ne_bytes())),
                Err(error) => {
                    tracing::error!(%error, "cannot wake waiting threads");
                }
            }
        }
    }

    pub(super) fn add(&self, mapping: &DmaMapping) -> Result<(), BusError> {
        let mut mappings = self.mappings.lock();
        let end = mapping.iova + mapping.length as u64;
        let before = mappings.range(..end).next_back();
        if before.is_some_and(|(iova, other)| iova + other.length as u64 > mapping.iova) {
            return Err(BusError::AlreadyMapped);
        }
        mappings.insert(
            mapping.iova,
            DmaMapping {
                file: None,
                ..*mapping
            },
        );
        Ok(())
    }

    pub(super) fn remove(&self, iova: u64, length: usize) -> Result<(), BusError> {
        let mut mappings = self.mappings.lock();
        match mappings.get(&iova) {
            Some(mapping) if mapping.length == length => {
                mappings.remove(&iova);
                Ok(())
            }
            _ => Err(BusError::NotMapped),
        }
    }

    /// Calls `access` with the address and the data range of each piece inside one mapping.
    fn for_each_piece(
        &self,
        iova: u64,
        length: usize,
        rights: DmaAccess,
        mut access: impl FnMut(usize, std::ops::Range<usize>) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let mappings = self.mappings.lock();
        let mut done = 0;
        while done < length {
            let at = iova.checked_add(done as u64).ok_or(Errno::INVAL)?;
            let (start, mapping) = mappings.range(..=at).next_back().ok_or(Errno::NODEV)?;
            let offset = (at - start) as usize;
            let piece = mapping.length.saturating_sub(offset).min(length - done);
            if piece == 0 {
                return Err(Errno::NODEV);
            }
            if rights == DmaAccess::ReadWrite && mapping.access == DmaAccess::Read {
                return Err(Errno::ACCESS);
            }
            access(mapping.address + offset, done..done + piece)?;
            done += piece;
        }
        Ok(())
    }
}

impl ClientMemory for Link {
    fn read(&self, iova: u64, data: &mut [u8]) -> Result<(), Errno> {
        self.for_each_piece(iova, data.len(), DmaAccess::Read, |address, piece| {
            memory::read(address, &mut data[piece])
        })
    }

    fn write(&self, iova: u64, data: &[u8]) -> Result<(), Errno> {
        self.for_each_piece(iova, data.len(), DmaAccess::ReadWrite, |address, piece| {
            memory::write(address, &data[piece])
        })
    }

    fn disconnected(&self) {
        if self.lose(ENDED) {
            tracing::error!("the vfio-user server has ended the connection");
            self.wake_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferroce_driver::bus::PAGE_SIZE;

    fn link() -> Link {
        let (stream, _) = UnixStream::pair().expect("sockets");
        Link::new(stream, EventFds::new(1).expect("an eventfd"))
    }

    /// Goal: DMA messages access mapped memory across the border of two mappings, and no other
    /// memory.
    #[test]
    fn messages_reach_what_is_mapped() {
        let link = link();
        let mut pages = vec![0u8; 3 * PAGE_SIZE];
        let address = (pages.as_mut_ptr() as usize).next_multiple_of(PAGE_SIZE);
        let mapping = |iova, page: usize, access| DmaMapping {
            iova,
            address: address + page * PAGE_SIZE,
            length: PAGE_SIZE,
            access,
            is_buffer: false,
            file: None,
        };
        let page = PAGE_SIZE as u64;
        // In reverse order of the memory, so that IOVAs and not addresses decide.
        link.add(&mapping(page, 1, DmaAccess::ReadWrite))
            .expect("free");
        link.add(&mapping(2 * page, 0, DmaAccess::ReadWrite))
            .expect("free");
        link.add(&mapping(4 * page, 0, DmaAccess::Read))
            .expect("free");
        let overlapping = mapping(page, 0, DmaAccess::Read);
        assert_eq!(link.add(&overlapping), Err(BusError::AlreadyMapped));

        link.write(2 * page - 2, &[1, 2, 3, 4]).expect("mapped");
        let mut back = [0; 4];
        link.read(2 * page - 2, &mut back).expect("mapped");
        assert_eq!(back, [1, 2, 3, 4]);
        link.read(4 * page, &mut back).expect("mapped for reading");
        assert_eq!(back, [3, 4, 0, 0]);
        assert_eq!(link.write(4 * page, &[9]), Err(Errno::ACCESS));
        assert_eq!(link.read(3 * page - 1, &mut back), Err(Errno::NODEV));
        assert_eq!(link.read(0, &mut back), Err(Errno::NODEV));

        assert_eq!(link.remove(page, 2 * PAGE_SIZE), Err(BusError::NotMapped));
        link.remove(page, PAGE_SIZE).expect("mapped");
        assert_eq!(link.read(page, &mut back), Err(Errno::NODEV));
    }
}
