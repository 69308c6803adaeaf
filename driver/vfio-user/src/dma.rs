//! The client's memory, for the device.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::io::fcntl_dupfd_cloexec;
use zerocopy::IntoBytes;

use crate::capabilities::Capabilities;
use crate::error::{Errno, RequestError};
use crate::limit;
use crate::message::{Command, DmaAccess, DmaMapRequest, split};
use crate::requester::Requester;

/// `VFIO_DMA_MAP_FLAG_READ`: the device may read.
pub(crate) const FLAG_READ: u32 = 1;
/// `VFIO_DMA_MAP_FLAG_WRITE`: the device may write.
pub(crate) const FLAG_WRITE: u32 = 1 << 1;
/// The file is to be mapped. A file without this and the next flag is mapped too.
pub(crate) const FLAG_MMAP: u32 = 1 << 2;
/// The file is to be read and written. This flag and the previous one are libvfio-user's
/// (`include/vfio-user.h`), not yet QEMU's.
pub(crate) const FLAG_FILE_IO: u32 = 1 << 3;

/// `VFIO_DMA_UNMAP_FLAG_GET_DIRTY_BITMAP`: the reply is to contain the dirty pages.
pub(crate) const UNMAP_FLAG_DIRTY_BITMAP: u32 = 1;
/// `VFIO_DMA_UNMAP_FLAG_ALL`: everything is to be unmapped.
pub(crate) const UNMAP_FLAG_ALL: u32 = 1 << 1;

/// A range of IOVAs and the device's access rights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DmaRange {
    /// First I/O virtual address.
    pub iova: u64,
    /// Bytes.
    pub length: u64,
    /// True if the device may read.
    pub readable: bool,
    /// True if the device may write.
    pub writable: bool,
}

/// A mapping that the client requests, as the server passes it to the device.
#[derive(Debug)]
pub struct DmaMap {
    /// First I/O virtual address.
    pub iova: u64,
    /// Bytes, not zero.
    pub length: u64,
    /// True if the device may read.
    pub readable: bool,
    /// True if the device may write.
    pub writable: bool,
    /// Way to access the memory.
    pub backing: DmaBacking,
}

/// Way in which the device accesses mapped memory of the client.
#[derive(Debug)]
pub enum DmaBacking {
    /// By mapping the file.
    Mmap {
        /// The file. It may be shorter than the client states.
        file: OwnedFd,
        /// Offset of the range in the file, a multiple of the page size.
        offset: u64,
    },
    /// By `pread` and `pwrite` of the file, which was sent by the client, or opened by
    /// [`Device::process_memory`](crate::Device::process_memory).
    FileIo {
        /// The file.
        file: OwnedFd,
        /// Offset of the range in the file.
        offset: u64,
    },
    /// By DMA messages: [`DmaMessages`].
    Messages,
}

impl DmaMap {
    /// Parses a `DMA_MAP` message. Mappings consist of pages of `page_size`. `process`: the memory
    /// of the client's process, which contains ranges without a file.
    pub(crate) fn decode(
        request: &DmaMapRequest,
        mut fds: Vec<OwnedFd>,
        page_size: u64,
        process: Option<&OwnedFd>,
    ) -> Result<Self, Errno> {
        let flags = request.flags.get();
        let (iova, length) = (request.iova.get(), request.length.get());
        let offset = request.offset.get();
        let file = fds.pop();
        if flags & !(FLAG_READ | FLAG_WRITE | FLAG_MMAP | FLAG_FILE_IO) != 0
            || flags & (FLAG_READ | FLAG_WRITE) == 0
            || !fds.is_empty()
        {
            return Err(Errno::INVAL);
        }
        check_range(iova, length, page_size)?;
        let has_offset = file.is_some() || process.is_some();
        if has_offset && i64::try_from(u128::from(offset) + u128::from(length)).is_err() {
            return Err(Errno::INVAL); // no file has such offsets
        }
        let backing = match (file, flags & (FLAG_MMAP | FLAG_FILE_IO)) {
            (None, 0) => match process {
                Some(process) => DmaBacking::FileIo {
                    file: fcntl_dupfd_cloexec(process, 0)?,
                    offset,
                },
                None => DmaBacking::Messages,
            },
            (Some(file), 0 | FLAG_MMAP) if offset % page_size == 0 => {
                DmaBacking::Mmap { file, offset }
            }
            (Some(file), FLAG_FILE_IO) => DmaBacking::FileIo { file, offset },
            _ => return Err(Errno::INVAL),
        };
        Ok(Self {
            iova,
            length,
            readable: flags & FLAG_READ != 0,
            writable: flags & FLAG_WRITE != 0,
            backing,
        })
    }
}

/// Checks that a range is not empty, consists of whole pages and does not wrap around.
pub(crate) fn check_range(iova: u64, length: u64, page_size: u64) -> Result<(), Errno> {
    let last = length
        .checked_sub(1)
        .and_then(|last| iova.checked_add(last));
    if last.is_some() && iova % page_size == 0 && length % page_size == 0 {
        Ok(())
    } else {
        Err(Errno::INVAL)
    }
}

/// Accesses the client's memory by messages. Any thread may use it.
#[derive(Debug)]
pub struct DmaMessages {
    requester: Arc<Requester>,
    /// Maximum number of bytes in one message.
    size_max: usize,
}

impl DmaMessages {
    pub(crate) fn new(requester: Arc<Requester>, client: &Capabilities) -> Self {
        Self {
            requester,
            size_max: client.max_data_xfer_size.min(limit::DMA_MESSAGE_SIZE_MAX),
        }
    }

    /// Reads the client's memory, in as many messages as needed.
    ///
    /// Waits at most [`crate::limit::DMA_MESSAGE_TIMEOUT`] for each. After an errno, the content of
    /// `data` is undefined.
    pub fn read(&self, iova: u64, data: &mut [u8]) -> Result<(), Errno> {
        for (chunk, iova) in data.chunks_mut(self.size_max).zip(self.addresses(iova)) {
            self.read_chunk(iova?, chunk).map_err(RequestError::errno)?;
        }
        Ok(())
    }

    /// Writes the client's memory, in as many messages as needed.
    ///
    /// Waits at most [`crate::limit::DMA_MESSAGE_TIMEOUT`] for each. After an errno, any part may
    /// have been written.
    pub fn write(&self, iova: u64, data: &[u8]) -> Result<(), Errno> {
        for (chunk, iova) in data.chunks(self.size_max).zip(self.addresses(iova)) {
            self.write_chunk(iova?, chunk)
                .map_err(RequestError::errno)?;
        }
        Ok(())
    }

    /// Returns the first address of each message.
    fn addresses(&self, iova: u64) -> impl Iterator<Item = Result<u64, Errno>> {
        let size = self.size_max as u64;
        (0..).map(move |index: u64| {
            let offset = index.checked_mul(size).ok_or(Errno::INVAL)?;
            iova.checked_add(offset).ok_or(Errno::INVAL)
        })
    }

    fn read_chunk(&self, iova: u64, data: &mut [u8]) -> Result<(), RequestError> {
        let access = DmaAccess {
            iova: iova.into(),
            count: (data.len() as u64).into(),
        };
        let parts = [access.as_bytes(), &[]];
        let timeout = limit::DMA_MESSAGE_TIMEOUT;
        let reply = self
            .requester
            .request(Command::DMA_READ, parts, &[], timeout)?;
        match split::<DmaAccess>(&reply.body) {
            Ok((answered, bytes))
                if answered.as_bytes() == access.as_bytes() && bytes.len() == data.len() =>
            {
                data.copy_from_slice(bytes);
                Ok(())
            }
            _ => Err(RequestError::Malformed("it is not the requested memory")),
        }
    }

    fn write_chunk(&self, iova: u64, data: &[u8]) -> Result<(), RequestError> {
        let access = DmaAccess {
            iova: iova.into(),
            count: (data.len() as u64).into(),
        };
        let parts = [access.as_bytes(), data];
        let timeout = limit::DMA_MESSAGE_TIMEOUT;
        let reply = self
            .requester
            .request(Command::DMA_WRITE, parts, &[], timeout)?;
        // The text of the protocol gives the reply's count 4 bytes, QEMU and libvfio-user 8.
        let answered = reply.body.get(..12);
        if answered == access.as_bytes().get(..12) {
            Ok(())
        } else {
            Err(RequestError::Malformed("it is not for the memory written"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(
        flags: u32,
        offset: u64,
        iova: u64,
        length: u64,
        fd_count: usize,
    ) -> Result<DmaMap, Errno> {
        let request = DmaMapRequest {
            argsz: 32.into(),
            flags: flags.into(),
            offset: offset.into(),
            iova: iova.into(),
            length: length.into(),
        };
        let fds = (0..fd_count).map(|_| {
            rustix::fs::memfd_create("dma", rustix::fs::MemfdFlags::CLOEXEC).expect("memfd")
        });
        DmaMap::decode(&request, fds.collect(), 4096, None)
    }

    #[test]
    fn memory_of_the_process_needs_no_file() {
        let process = rustix::fs::memfd_create("process", rustix::fs::MemfdFlags::CLOEXEC);
        let process = process.expect("memfd");
        let decode = |offset: u64, flags: u32, fds| {
            let request = DmaMapRequest {
                argsz: 32.into(),
                flags: flags.into(),
                offset: offset.into(),
                iova: 0.into(),
                length: 0x1000.into(),
            };
            DmaMap::decode(&request, fds, 4096, Some(&process)).map(|map| map.backing)
        };
        let backing = decode(0x7f00_0123_4000, 3, Vec::new());
        let Ok(DmaBacking::FileIo { offset, .. }) = backing else {
            panic!("not reached by its address: {backing:?}");
        };
        assert_eq!(offset, 0x7f00_0123_4000);
        let file = rustix::fs::memfd_create("dma", rustix::fs::MemfdFlags::CLOEXEC);
        let mapped = decode(0, 3, vec![file.expect("memfd")]);
        assert!(matches!(mapped, Ok(DmaBacking::Mmap { offset: 0, .. })));
        let nowhere = decode(u64::MAX - 0xfff, 3, Vec::new());
        assert_eq!(nowhere.err(), Some(Errno::INVAL));
    }

    #[test]
    fn the_backing_follows_from_file_and_flags() {
        let backing =
            |flags, fds| decode(flags, 0x1000, 0x2000, 0x3000, fds).map(|map| map.backing);
        assert!(matches!(backing(3, 0), Ok(DmaBacking::Messages)));
        for flags in [3, 7] {
            let mapped = backing(flags, 1);
            assert!(matches!(
                mapped,
                Ok(DmaBacking::Mmap { offset: 0x1000, .. })
            ));
        }
        let file_io = backing(0xb, 1);
        assert!(matches!(
            file_io,
            Ok(DmaBacking::FileIo { offset: 0x1000, .. })
        ));
        assert!(decode(0xb, 5, 0, 4096, 1).is_ok(), "any offset of a file");
        let map = decode(1, 0, 0xfffc_0000, 0x4_0000, 0).expect("a ROM");
        assert!(map.readable && !map.writable);
        assert!(
            decode(3, 0, u64::MAX - 0xfff, 0x1000, 0).is_ok(),
            "the last page"
        );
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (flags, offset, iova, length, fds, why) in [
            (0, 0, 0, 4096, 0, "no access"),
            (0x13, 0, 0, 4096, 0, "unknown flag"),
            (7, 0, 0, 4096, 0, "nothing to map"),
            (0xb, 0, 0, 4096, 0, "nothing to read"),
            (0xf, 0, 0, 4096, 1, "two ways"),
            (3, 0, 0, 4096, 2, "two files"),
            (3, 0, 0, 0, 0, "empty"),
            (3, 0, 0, 4095, 0, "not a page"),
            (3, 0, 1, 4096, 0, "not at a page"),
            (3, 0, u64::MAX - 0xfff, 0x2000, 0, "wraps around"),
            (3, 5, 0, 4096, 1, "cannot be mapped from there"),
            (3, u64::MAX - 0xfff, 0, 4096, 1, "no such offset"),
            (0xb, 1 << 63, 0, 4096, 1, "no such offset"),
        ] {
            let refused = decode(flags, offset, iova, length, fds);
            assert_eq!(refused.err(), Some(Errno::INVAL), "{why}");
        }
    }
}
