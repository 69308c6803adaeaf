//! Files that a client passes as its memory.

use std::collections::HashMap;
use std::fs::File;
use std::hash::Hash;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::{Arc, Weak};

use ferroce_host::memory::{RemoteMemory, Rights};
use ferroce_platform::shared_memory::foreign::ForeignFile;
use ferroce_platform::shared_memory::registered::ADDRESS_SPACE;
use ferroce_vfio_user::Errno;
use rustix::fs::{OFlags, fcntl_getfl};

/// Identity of a file and its access rights. An inode number is not reused while the file is open
/// or mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    device: u64,
    inode: u64,
    rights: Rights,
}

/// A file that is read and written by system calls.
#[derive(Debug)]
pub struct FileMemory(File);

impl RemoteMemory for FileMemory {
    fn read(&self, offset: u64, destination: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(destination, offset)
    }

    fn write(&self, offset: u64, source: &[u8]) -> io::Result<()> {
        self.0.write_all_at(source, offset)
    }
}

/// Way in which the model accesses a client's file.
#[derive(Debug, Clone)]
pub enum ClientFile {
    /// It is mapped here.
    Mapped(Arc<ForeignFile>),
    /// It contains memory of the client, each byte at the offset of its address
    /// ([`ADDRESS_SPACE`]). Only the part in the client's mapping is mapped here.
    OfAddresses(Arc<ForeignFile>),
    /// It is read and written by system calls.
    Called(Arc<FileMemory>),
}

/// The files of one client. A file is opened once, even if it has many mappings.
#[derive(Debug, Default)]
pub struct ClientFiles {
    mapped: Cache<ForeignFile>,
    called: Cache<FileMemory>,
}

impl ClientFiles {
    /// Maps `length` bytes of a file at `offset`. If there is no room for another mapping, the file
    /// is read and written instead.
    ///
    /// # Errors
    /// `EINVAL`: it is not a regular file, or too short. `EACCES`: it is not open with the rights.
    pub fn map(
        &mut self,
        file: File,
        offset: u64,
        length: u64,
        is_writable: bool,
    ) -> Result<ClientFile, Errno> {
        let rights = if is_writable {
            Rights::ReadWrite
        } else {
            Rights::Read
        };
        let key = key_of(&file, rights)?;
        let size = file.metadata().map_err(errno_of)?.len();
        if offset.checked_add(length).is_none_or(|end| end > size) {
            return Err(Errno::INVAL);
        }
        if size == ADDRESS_SPACE {
            return match ForeignFile::map_part(&file, offset, length, is_writable) {
                Ok(part) => Ok(ClientFile::OfAddresses(Arc::new(part))),
                Err(error) => self.open_if_full(key, file, error),
            };
        }
        // A file that has grown since then is mapped again.
        let known = self.mapped.get(&key);
        let known = known.filter(|mapped| mapped.address(offset, length).is_some());
        if let Some(known) = known {
            return if known.is_lost() {
                Err(Errno::FAULT)
            } else {
                Ok(ClientFile::Mapped(known))
            };
        }
        match ForeignFile::map(&file, is_writable) {
            Ok(mapped) => Ok(ClientFile::Mapped(self.mapped.insert(key, mapped))),
            Err(error) => self.open_if_full(key, file, error),
        }
    }

    /// Returns a file that could not be mapped: if there was no room for another mapping, it can
    /// still be read and written.
    fn open_if_full(
        &mut self,
        key: Key,
        file: File,
        error: io::Error,
    ) -> Result<ClientFile, Errno> {
        match error.kind() {
            io::ErrorKind::OutOfMemory => Ok(ClientFile::Called(self.open(key, file))),
            _ => Err(errno_of(error)),
        }
    }

    /// Returns a file for access by system calls.
    ///
    /// # Errors
    /// `EINVAL`: it is not a regular file. `EACCES`: it is not open with the rights.
    pub fn call(&mut self, file: File, rights: Rights) -> Result<ClientFile, Errno> {
        let key = key_of(&file, rights)?;
        Ok(ClientFile::Called(self.open(key, file)))
    }

    fn open(&mut self, key: Key, file: File) -> Arc<FileMemory> {
        let known = self.called.get(&key);
        known.unwrap_or_else(|| self.called.insert(key, FileMemory(file)))
    }
}

/// Checks a file. Files other than regular ones may block readers.
fn key_of(file: &File, rights: Rights) -> Result<Key, Errno> {
    let metadata = file.metadata().map_err(errno_of)?;
    if !metadata.is_file() {
        return Err(Errno::INVAL);
    }
    let access = fcntl_getfl(file)? & OFlags::RWMODE;
    let may_read = access == OFlags::RDONLY || access == OFlags::RDWR;
    let may_write = access == OFlags::WRONLY || access == OFlags::RDWR;
    if rights.allow_read() && !may_read || rights.allow_write() && !may_write {
        return Err(Errno::ACCESS);
    }
    Ok(Key {
        device: metadata.dev(),
        inode: metadata.ino(),
        rights,
    })
}

fn errno_of(error: io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

/// Entries in use, by their key.
#[derive(Debug)]
struct Cache<T> {
    entries: HashMap<Key, Weak<T>>,
}

impl<T> Default for Cache<T> {
    fn default() -> Self {
        Self {
            entries: HashMap::new(),
        }
    }
}

impl<T> Cache<T> {
    fn get(&self, key: &Key) -> Option<Arc<T>> {
        self.entries.get(key)?.upgrade()
    }

    fn insert(&mut self, key: Key, value: T) -> Arc<T> {
        let value = Arc::new(value);
        // Unused entries are removed before the table grows.
        if self.entries.len() == self.entries.capacity() {
            self.entries.retain(|_, weak| weak.strong_count() > 0);
        }
        self.entries.insert(key, Arc::downgrade(&value));
        value
    }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::path::PathBuf;

    use rustix::fs::{MemfdFlags, memfd_create};

    use super::*;

    fn memory_file(size: u64) -> File {
        let file = File::from(memfd_create("test", MemfdFlags::CLOEXEC).expect("memory"));
        file.set_len(size).expect("memory");
        file
    }

    fn mapped(file: Result<ClientFile, Errno>) -> Arc<ForeignFile> {
        match file.expect("usable") {
            ClientFile::Mapped(mapped) => mapped,
            other => panic!("not mapped: {other:?}"),
        }
    }

    /// Opens the same file again.
    fn reopened(file: &File, options: &OpenOptions) -> File {
        use std::os::fd::AsRawFd;
        let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        options.open(path).expect("our own")
    }

    #[test]
    fn a_file_is_mapped_once() {
        let mut files = ClientFiles::default();
        let file = memory_file(1 << 16);
        let clone = || file.try_clone().expect("a descriptor");
        let one = mapped(files.map(clone(), 0, 4096, true));
        let other = mapped(files.map(clone(), 8192, 4096, true));
        assert!(Arc::ptr_eq(&one, &other));
        let reading = mapped(files.map(clone(), 0, 4096, false));
        assert!(!Arc::ptr_eq(&one, &reading), "without the right to write");
        file.set_len(1 << 17).expect("it is ours");
        let grown = mapped(files.map(clone(), 1 << 16, 1 << 16, true));
        assert!(!Arc::ptr_eq(&one, &grown));
        assert_eq!(grown.length(), 1 << 17);
    }

    /// Goal: if a file is as large as an address space, only the needed part is mapped.
    #[test]
    fn memory_by_its_addresses_is_mapped_in_parts() {
        const ADDRESS: u64 = 0x7f12_3456_7000;
        let mut files = ClientFiles::default();
        let file = memory_file(ADDRESS_SPACE);
        let clone = || file.try_clone().expect("a descriptor");
        match files.map(clone(), ADDRESS, 8192, true).expect("usable") {
            ClientFile::OfAddresses(part) => {
                assert_eq!(part.length(), 8192);
                assert!(part.address(ADDRESS, 8192).is_some());
                assert!(part.address(ADDRESS, 8193).is_none());
            }
            other => panic!("{other:?}"),
        }
        for (offset, length) in [(ADDRESS, ADDRESS_SPACE), (ADDRESS_SPACE - 4096, 8192)] {
            let answer = files.map(clone(), offset, length, true);
            let answer = answer.expect_err("too long");
            assert_eq!(answer, Errno::INVAL, "{length} at {offset}");
        }
        match files.map(clone(), 0, ADDRESS_SPACE, true) {
            Ok(ClientFile::Called(_)) => {}
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn sizes_that_lie_are_refused() {
        let mut files = ClientFiles::default();
        let file = memory_file(4096);
        for (offset, length) in [(0, 8192), (4096, 4096), (u64::MAX, 2), (0, u64::MAX)] {
            let clone = file.try_clone().expect("a descriptor");
            let answer = files.map(clone, offset, length, true);
            let answer = answer.expect_err("too long");
            assert_eq!(answer, Errno::INVAL, "{length} at {offset}");
        }
        let huge = memory_file(1 << 62);
        match files.map(huge, 0, 4096, true) {
            Ok(ClientFile::Called(file)) => file.write(5, &[1]).expect("there"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn rights_are_those_of_the_descriptor() {
        let mut files = ClientFiles::default();
        let file = memory_file(4096);
        let reading = || reopened(&file, OpenOptions::new().read(true));
        let writing = || reopened(&file, OpenOptions::new().write(true));
        assert!(files.map(reading(), 0, 4096, false).is_ok());
        let refused = [
            files.map(reading(), 0, 4096, true),
            files.map(writing(), 0, 4096, true),
            files.call(reading(), Rights::ReadWrite),
            files.call(writing(), Rights::Read),
        ];
        for answer in refused {
            assert_eq!(answer.expect_err("no right"), Errno::ACCESS);
        }
        assert!(files.call(writing(), Rights::Write).is_ok());
        let device = File::open("/dev/zero").expect("everywhere");
        let answer = files.map(device, 0, 4096, false);
        assert_eq!(answer.expect_err("no regular file"), Errno::INVAL);
        let directory = File::open("/").expect("everywhere");
        let answer = files.call(directory, Rights::Read);
        assert_eq!(answer.expect_err("no regular file"), Errno::INVAL);
    }

    #[test]
    fn the_memory_of_a_process_is_called() {
        let mut files = ClientFiles::default();
        let value = vec![5u8; 10_000];
        let open = || File::open("/proc/self/mem").expect("our own");
        let one = files.call(open(), Rights::Read);
        let other = files.call(open(), Rights::Read);
        let (Ok(ClientFile::Called(one)), Ok(ClientFile::Called(other))) = (one, other) else {
            panic!("not called");
        };
        assert!(Arc::ptr_eq(&one, &other), "one descriptor is enough");
        let mut bytes = vec![0; 10_000];
        let address = value.as_ptr().expose_provenance() as u64;
        one.read(address, &mut bytes).expect("there");
        assert_eq!(bytes, value);
        assert!(one.read(4096, &mut bytes).is_err(), "nothing is there");
    }
}
