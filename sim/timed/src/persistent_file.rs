//! A file as the persistent memory of a host.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use ferroce_host::memory::RemoteMemory;
use ferroce_platform::mapped_file::identity_of;
use ferroce_world::{MAX_PERSISTENT_BYTES, PersistentMemory};

/// Mappings of the file are whole pages.
const PAGE_BYTES: u64 = 4096;

/// The content of the file, read and written beside the mappings of the programs: they see the same
/// pages.
#[derive(Debug)]
struct Content(File);

impl RemoteMemory for Content {
    fn read(&self, offset: u64, destination: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(destination, offset)
    }

    fn write(&self, offset: u64, source: &[u8]) -> io::Result<()> {
        self.0.write_all_at(source, offset)
    }
}

/// Opens a file as persistent memory.
///
/// # Errors
/// The error of the system; `InvalidInput` for a file that is not a regular one, or not of some
/// whole pages.
pub fn open(path: &Path, has_persistent_caches: bool) -> io::Result<PersistentMemory> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    let metadata = file.metadata()?;
    let length = metadata.len();
    let is_some = (PAGE_BYTES..=MAX_PERSISTENT_BYTES).contains(&length);
    if !metadata.is_file() || !is_some || length % PAGE_BYTES != 0 {
        let text = format!(
            "not a file of whole pages of {PAGE_BYTES} bytes, up to {MAX_PERSISTENT_BYTES} bytes; \
             `truncate -s 1M FILE` makes one"
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    Ok(PersistentMemory {
        identity: identity_of(&metadata),
        content: Arc::new(Content(file)),
        length,
        has_persistent_caches,
    })
}
