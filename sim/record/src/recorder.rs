//! The writer of a record.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ferroce_platform::capture_file::PRIVATE;
use ferroce_platform::{fork, os};
use ferroce_spec::register::{CONTRACT_MAJOR, CONTRACT_MINOR};
use ferroce_units::Instant;
use parking_lot::Mutex;
use zerocopy::IntoBytes;

use crate::format::{
    END_CLOSED, END_FULL, FileHeader, Kind, MAGIC, MAX_DATA, MAX_FILE_BYTES, NO_CYCLE,
    RECORD_HEADER, RecordHeader, Source, VERSION,
};

/// The buffer is written to the file when it has this many bytes.
const BUFFER_BYTES: usize = 256 << 10;
/// Maximum time between flushes: a killed process loses at most the records of this period.
const FLUSH_PERIOD_NS: u64 = 10_000_000;
/// Maximum number of files with one name: one for each opened function.
const MAX_FILES: u32 = 64;

/// A record that is being written. Clones write to the same one.
#[derive(Debug, Clone)]
pub struct Recorder(Arc<Mutex<Writer>>);

#[derive(Debug)]
struct Writer {
    path: PathBuf,
    file: File,
    waiting: Vec<u8>,
    /// Length of the file, including buffered bytes.
    length: u64,
    sequence: u64,
    time_ns: u64,
    cycle: u64,
    flushed_ns: u64,
    /// True if nothing more is written: the file is full, or a write has failed.
    has_ended: bool,
    fork_generation: u32,
}

impl Recorder {
    /// Creates the record of an opened function: `path`, or if that exists `path.1`, `path.2`, …
    /// Only its owner can read it, because it contains the program's data.
    ///
    /// # Errors
    /// The error of the system.
    pub fn create(path: &Path, source: Source) -> io::Result<Self> {
        let (path, file) = create_next(path)?;
        let header = FileHeader {
            magic: MAGIC,
            version: VERSION,
            header_bytes: size_of::<FileHeader>() as u32,
            source: source.code(),
            contract: u32::from(CONTRACT_MAJOR) << 16 | u32::from(CONTRACT_MINOR),
            started_ns: os::realtime_ns(),
            reserved: [0; 4],
        };
        let mut waiting = Vec::with_capacity(BUFFER_BYTES + MAX_DATA + RECORD_HEADER);
        waiting.extend_from_slice(header.as_bytes());
        let mut writer = Writer {
            path,
            file,
            length: waiting.len() as u64,
            waiting,
            sequence: 0,
            time_ns: 0,
            cycle: NO_CYCLE,
            flushed_ns: 0,
            has_ended: false,
            fork_generation: fork::generation(),
        };
        writer.flush();
        Ok(Self(Arc::new(Mutex::new(writer))))
    }

    /// Sets the time and the clock cycle of the following records.
    pub fn set_time(&self, now: Instant, cycle: Option<u64>) {
        let mut writer = self.0.lock();
        writer.time_ns = now.as_ns();
        writer.cycle = cycle.unwrap_or(NO_CYCLE);
    }

    /// Sets the clock cycle of the following records.
    pub fn set_cycle(&self, cycle: u64) {
        self.0.lock().cycle = cycle;
    }

    /// Writes a record, or several if the data is long.
    pub fn record(&self, kind: Kind, address: u64, data: &[u8]) {
        self.record_with(kind, 0, 0, address, data);
    }

    /// Writes a record with flags and detail.
    pub fn record_with(&self, kind: Kind, flags: u8, detail: u16, address: u64, data: &[u8]) {
        let mut writer = self.0.lock();
        let mut address = address;
        let mut rest = data;
        loop {
            let (piece, behind) = rest.split_at(rest.len().min(MAX_DATA));
            writer.append(kind, flags, detail, address, piece);
            if behind.is_empty() {
                return;
            }
            address += piece.len() as u64;
            rest = behind;
        }
    }

    /// Begins a section.
    pub fn begin_section(&self, name: &str) {
        self.record(Kind::SECTION, 0, name.as_bytes());
    }

    /// Writes buffered records to the file.
    pub fn flush(&self) {
        self.0.lock().flush();
    }

    /// Writes buffered records to the file if the last flush was long ago.
    pub fn flush_if_due(&self) {
        let mut writer = self.0.lock();
        if writer.time_ns.saturating_sub(writer.flushed_ns) >= FLUSH_PERIOD_NS {
            writer.flush();
        }
    }
}

impl Writer {
    fn append(&mut self, kind: Kind, flags: u8, detail: u16, address: u64, data: &[u8]) {
        if self.has_ended || self.fork_generation != fork::generation() {
            return;
        }
        let bytes = (RECORD_HEADER + data.len()) as u64;
        if self.length + bytes > MAX_FILE_BYTES && kind != Kind::END {
            let path = self.path.display();
            tracing::error!(%path, limit = MAX_FILE_BYTES, "the record is full: it ends here");
            return self.end(END_FULL);
        }
        let header = RecordHeader {
            sequence: self.sequence,
            time_ns: self.time_ns,
            cycle: self.cycle,
            address,
            length: data.len() as u32,
            kind,
            flags,
            detail,
        };
        self.waiting.extend_from_slice(header.as_bytes());
        self.waiting.extend_from_slice(data);
        self.sequence += 1;
        self.length += bytes;
        if self.waiting.len() >= BUFFER_BYTES {
            self.flush();
        }
    }

    /// Ends the record.
    fn end(&mut self, reason: u16) {
        self.append(Kind::END, 0, reason, 0, &[]);
        self.flush();
        self.has_ended = true;
    }

    /// Writes buffered records. In a forked child they belong to the parent.
    fn flush(&mut self) {
        if self.has_ended || self.fork_generation != fork::generation() {
            return;
        }
        self.flushed_ns = self.time_ns;
        if let Err(error) = self.file.write_all(&self.waiting) {
            let path = self.path.display();
            tracing::error!(%error, %path, "the record ends here");
            self.has_ended = true;
        }
        self.waiting.clear();
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.end(END_CLOSED);
    }
}

/// Returns the path of the record of the function that was opened as number `number`.
pub fn numbered(path: &Path, number: u32) -> PathBuf {
    if number == 0 {
        return path.to_owned();
    }
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    name.into()
}

/// Creates the first file of the series that does not exist.
fn create_next(path: &Path) -> io::Result<(PathBuf, File)> {
    for number in 0..MAX_FILES {
        let path = numbered(path, number);
        let mut options = OpenOptions::new();
        match options
            .write(true)
            .create_new(true)
            .mode(PRIVATE)
            .open(&path)
        {
            Ok(file) => return Ok((path, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other(format!(
        "there are {MAX_FILES} records of this name already"
    )))
}

/// Removes the records of an earlier run, so that the next functions begin with `path`, and checks
/// that a file can be created there.
///
/// # Errors
/// A file of that name is not a record, or the error of the system.
pub fn prepare(path: &Path) -> io::Result<()> {
    for number in 0..MAX_FILES {
        let path = numbered(path, number);
        match crate::reader::is_record(&path) {
            Ok(true) => std::fs::remove_file(&path)?,
            // Only the first file was certainly named by the user.
            Ok(false) if number > 0 => {}
            Ok(false) => {
                return Err(io::Error::new(
                    io::ErrorKind::AlreadyExists,
                    "exists, and is no record of Ferroce",
                ));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    drop(create_next(path)?);
    std::fs::remove_file(path)
}
