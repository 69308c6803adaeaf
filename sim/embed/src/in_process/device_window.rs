//! The device's own memory in pages of this process, parts of which are pages of files that other
//! processes and functions may map: exports of device memory as dma-bufs.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::fs::FileExt;

use ferroce_driver::bus::{BusError, PAGE_SIZE};
use ferroce_host::memory::{MemoryMap, Rights};
use ferroce_model::Function as _;
use ferroce_model::host_interface::device_memory::{DeviceMemory, LentMemory};
use ferroce_model::ports::host::DmaAtomic;
use ferroce_platform::os::memory_calls::{map_apart, system_call, unmap};
use ferroce_platform::shared_memory::{EXPORT_NAME, sealed_file};
use parking_lot::Mutex;
use std::sync::Arc;

use super::{InProcess, Model};

const LENGTH: usize = DeviceMemory::LENGTH as usize;
/// Address of the memory in its map, which has no page 0.
const BASE: u64 = PAGE_SIZE as u64;
const PROTECTION: usize = (libc::PROT_READ | libc::PROT_WRITE) as usize;
/// Value of bytes that cannot be read.
const UNREADABLE: u8 = 0xff;

/// The device's own memory, and its exports.
#[derive(Debug)]
pub struct DeviceWindow {
    start: usize,
    /// Accesses by guarded copies and by the processor's atomics: others write the same pages.
    memory: Mutex<MemoryMap>,
    exports: Mutex<Vec<Export>>,
}

/// Pages that are in a file.
#[derive(Debug)]
struct Export {
    range: Range<u64>,
    file: File,
}

impl DeviceWindow {
    /// Creates the memory, all zero.
    ///
    /// # Errors
    /// The errno of the system.
    fn new() -> Result<Self, i32> {
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize;
        let start = map_apart([0, LENGTH, PROTECTION, flags, usize::MAX, 0])?;
        let mut memory = MemoryMap::default();
        let mapped = memory.map(BASE, start, LENGTH as u64, Rights::ReadWrite);
        mapped.expect("the map is empty, and the range is whole pages");
        Ok(Self {
            start,
            memory: Mutex::new(memory),
            exports: Mutex::default(),
        })
    }

    /// Moves a range of whole pages to a file, and returns the file.
    ///
    /// # Errors
    /// The error of the system; `InvalidInput` for a range that overlaps another export.
    fn export(&self, range: Range<u64>) -> io::Result<File> {
        let mut exports = self.exports.lock();
        if let Some(export) = exports.iter().find(|export| export.range == range) {
            return export.file.try_clone();
        }
        let overlaps =
            |export: &Export| export.range.start < range.end && range.start < export.range.end;
        if exports.iter().any(overlaps) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let length = range.end - range.start;
        let file = sealed_file(EXPORT_NAME, length)?;
        let mut content = vec![0; length as usize];
        self.read(range.start, &mut content);
        file.write_all_at(&content, 0)?;
        let answer = file.try_clone()?;
        self.map_over(&range, libc::MAP_SHARED, file.as_raw_fd() as usize)?;
        exports.push(Export { range, file });
        Ok(answer)
    }

    /// Replaces an exported range by zeroed pages. If the system refuses, the device goes on to
    /// share the pages with those who have mapped the file.
    fn withdraw(&self, range: &Range<u64>) {
        let mut exports = self.exports.lock();
        let Some(place) = exports.iter().position(|export| export.range == *range) else {
            return;
        };
        match self.map_over(range, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, usize::MAX) {
            Ok(()) => {
                exports.swap_remove(place);
            }
            Err(error) => tracing::warn!(?range, %error, "device memory stays exported"),
        }
    }

    /// Maps the file, or memory, in place of a range.
    fn map_over(&self, range: &Range<u64>, flags: libc::c_int, file: usize) -> io::Result<()> {
        let flags = (flags | libc::MAP_FIXED) as usize;
        let (start, length) = (self.start + range.start as usize, range.end - range.start);
        let arguments = [start, length as usize, PROTECTION, flags, file, 0];
        system_call(libc::SYS_mmap, arguments).map_err(io::Error::from_raw_os_error)?;
        Ok(())
    }
}

impl LentMemory for DeviceWindow {
    fn read(&self, offset: u64, destination: &mut [u8]) {
        if self.memory.lock().read(BASE + offset, destination).is_err() {
            destination.fill(UNREADABLE);
        }
    }

    fn write(&self, offset: u64, source: &[u8]) {
        // It fails only if the system has no memory for a page, as a write to a dead card does.
        let _ = self.memory.lock().write(BASE + offset, source);
    }

    fn atomic(&self, offset: u64, operation: DmaAtomic) -> u64 {
        let changed = self.memory.lock().atomic(BASE + offset, operation);
        changed.unwrap_or(u64::MAX)
    }
}

impl Drop for DeviceWindow {
    fn drop(&mut self) {
        // Nothing refers to the pages any more. On failure they stay mapped, unused.
        let _ = unmap(self.start, LENGTH);
    }
}

impl Model {
    /// Returns the memory with exports. The first call moves the device's memory there.
    fn window(&mut self) -> Result<Arc<DeviceWindow>, BusError> {
        if let Some(window) = &self.window {
            return Ok(window.clone());
        }
        let window = Arc::new(DeviceWindow::new().map_err(BusError::Os)?);
        let mut content = vec![0; LENGTH];
        self.nic.read_device_memory(0, &mut content);
        window.write(0, &content);
        if !self.nic.lend_memory(window.clone()) {
            return Err(BusError::Os(libc::EOPNOTSUPP));
        }
        self.window = Some(window.clone());
        Ok(window)
    }
}

impl InProcess {
    /// Exports a range of the device's own memory; see
    /// [`Bus::export_device_memory`](ferroce_driver::bus::Bus::export_device_memory).
    pub(super) fn export_window(&self, range: Range<u64>) -> Result<i32, BusError> {
        let is_page = |number: u64| number % PAGE_SIZE as u64 == 0;
        let is_valid = is_page(range.start) && is_page(range.end) && range.start < range.end;
        if !is_valid || range.end > DeviceMemory::LENGTH {
            return Err(BusError::InvalidMapping);
        }
        let mut model = self.model.lock();
        let window = model.window();
        let exported = window.and_then(|window| window.export(range).map_err(bus_error));
        self.unlock(model);
        exported.map(IntoRawFd::into_raw_fd)
    }

    /// Ends the export of a range.
    pub(super) fn withdraw_window(&self, range: &Range<u64>) {
        let model = self.model.lock();
        if let Some(window) = &model.window {
            window.withdraw(range);
        }
        self.unlock(model);
    }
}

fn bus_error(error: io::Error) -> BusError {
    error
        .raw_os_error()
        .map_or(BusError::InvalidMapping, BusError::Os)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PART: Range<u64> = 4096..12288;

    /// Returns one byte of a file.
    fn byte(file: &File, offset: u64) -> u8 {
        let mut byte = [0];
        file.read_exact_at(&mut byte, offset).expect("inside");
        byte[0]
    }

    #[test]
    fn file_and_device_see_each_others_writes() {
        let window = DeviceWindow::new().expect("memory");
        window.write(PART.start, &[1, 2, 3]);
        let file = window.export(PART).expect("a file");
        assert_eq!(file.metadata().expect("open").len(), PART.end - PART.start);
        assert_eq!(byte(&file, 2), 3, "what was there before");
        window.write(PART.end - 1, &[4, 5]);
        assert_eq!(byte(&file, PART.end - PART.start - 1), 4);
        file.write_all_at(&8_u64.to_ne_bytes(), 8).expect("inside");
        let operation = DmaAtomic::FetchAdd { add: 2 };
        assert_eq!(window.atomic(PART.start + 8, operation), 8);
        assert_eq!(byte(&file, 8), 10);
        assert!(file.set_len(0).is_err(), "the size is sealed");
    }

    #[test]
    fn a_range_has_one_file_and_no_other_overlaps_it() {
        let window = DeviceWindow::new().expect("memory");
        let first = window.export(PART).expect("a file");
        let second = window.export(PART).expect("the same file");
        first.write_all_at(&[9], 0).expect("inside");
        assert_eq!(byte(&second, 0), 9);
        assert!(window.export(8192..16384).is_err());
        assert!(window.export(12288..16384).is_ok());
    }

    #[test]
    fn a_withdrawn_file_keeps_its_content_and_the_device_begins_with_zeros() {
        let window = DeviceWindow::new().expect("memory");
        let file = window.export(PART).expect("a file");
        window.write(PART.start, &[6]);
        window.withdraw(&PART);
        let mut bytes = [1];
        window.read(PART.start, &mut bytes);
        assert_eq!(bytes, [0]);
        window.write(PART.start, &[7]);
        assert_eq!(byte(&file, 0), 6);
        let again = window.export(PART).expect("a new file");
        assert_eq!((byte(&again, 0), byte(&file, 0)), (7, 6));
    }
}
