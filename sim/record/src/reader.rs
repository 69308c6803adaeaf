//! The reader of a record.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use zerocopy::{FromBytes, IntoBytes};

use crate::format::{FileHeader, Kind, MAGIC, MAX_DATA, NO_CYCLE, RecordHeader, Source, VERSION};

/// Reason why a record cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// An error of the system.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// A file of another kind.
    #[error("is no record of Ferroce: it does not begin with FERROREC")]
    Foreign,
    /// Shorter than its header.
    #[error("is too short for a record: the program was killed before it wrote anything")]
    Short,
    /// An unsupported version.
    #[error("has version {0} of the format; this program reads version {VERSION}")]
    Version(u32),
    /// An unknown source or header.
    #[error("has a header that is not valid")]
    Header,
    /// An invalid record.
    #[error("is damaged after record {last}: {reason}")]
    Damaged {
        /// Records before it.
        last: u64,
        /// The fault.
        reason: &'static str,
    },
}

/// One record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its position.
    pub position: Position,
    /// Its kind.
    pub kind: Kind,
    /// See [`crate::format::flags`].
    pub flags: u8,
    /// See [`Kind`].
    pub detail: u16,
    /// See [`Kind`].
    pub address: u64,
    /// See [`Kind`].
    pub data: Vec<u8>,
}

/// Position of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Position {
    /// Its number.
    pub sequence: u64,
    /// Time of the function.
    pub time_ns: u64,
    /// Clock cycle of a card in RTL.
    pub cycle: Option<u64>,
    /// True for a captured frame; the number is then its number in the capture.
    pub is_captured: bool,
}

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let us = self.time_ns / 1000;
        if self.is_captured {
            return write!(f, "frame {} of the capture", self.sequence);
        }
        write!(
            f,
            "record {}, {us}.{:03} us",
            self.sequence,
            self.time_ns % 1000
        )?;
        match self.cycle {
            Some(cycle) => write!(f, ", cycle {cycle}"),
            None => Ok(()),
        }
    }
}

/// The ending of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The function was closed.
    Closed,
    /// The file reached its maximum size.
    Full,
    /// No end record: the program was killed or is still running.
    Cut,
}

/// Reads a file.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    source: Source,
    next: u64,
    ending: Option<Ending>,
}

impl Reader<BufReader<File>> {
    /// Opens a file.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        Self::new(BufReader::new(File::open(path)?))
    }
}

impl<R: Read> Reader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn new(mut input: R) -> Result<Self, ReadError> {
        let mut bytes = [0; size_of::<FileHeader>()];
        let length = fill(&mut input, &mut bytes)?;
        if length < MAGIC.len() && !MAGIC.starts_with(&bytes[..length])
            || length >= MAGIC.len() && bytes[..MAGIC.len()] != MAGIC
        {
            return Err(ReadError::Foreign);
        }
        if length < bytes.len() {
            return Err(ReadError::Short);
        }
        let header = FileHeader::read_from_bytes(&bytes).map_err(|_| ReadError::Short)?;
        if header.version != VERSION {
            return Err(ReadError::Version(header.version));
        }
        let source = Source::of_code(header.source).ok_or(ReadError::Header)?;
        if header.header_bytes as usize != bytes.len() {
            return Err(ReadError::Header);
        }
        Ok(Self {
            input,
            source,
            next: 0,
            ending: None,
        })
    }

    /// Returns the source of the record.
    pub fn source(&self) -> Source {
        self.source
    }

    /// Returns the ending of the file, once all of it was read.
    pub fn ending(&self) -> Option<Ending> {
        self.ending
    }

    /// Returns the next record; `None` at the end. A file that ends within a record ends there as
    /// well.
    ///
    /// # Errors
    /// [`ReadError::Damaged`], [`ReadError::Io`].
    pub fn next_record(&mut self) -> Result<Option<Record>, ReadError> {
        if self.ending.is_some() {
            return Ok(None);
        }
        let mut bytes = [0; size_of::<RecordHeader>()];
        if fill(&mut self.input, &mut bytes)? < bytes.len() {
            return Ok(self.end(Ending::Cut));
        }
        let header: RecordHeader = zerocopy::transmute!(bytes);
        let damaged = |reason| ReadError::Damaged {
            last: self.next,
            reason,
        };
        if header.sequence != self.next {
            return Err(damaged("its number is not the next one"));
        }
        if header.length as usize > MAX_DATA {
            return Err(damaged("its length is beyond the limit"));
        }
        let mut data = vec![0; header.length as usize];
        if fill(&mut self.input, &mut data)? < data.len() {
            return Ok(self.end(Ending::Cut));
        }
        if header.kind == Kind::END {
            let is_closed = header.detail == crate::format::END_CLOSED;
            return Ok(self.end(if is_closed {
                Ending::Closed
            } else {
                Ending::Full
            }));
        }
        self.next += 1;
        Ok(Some(Record {
            position: Position {
                sequence: header.sequence,
                time_ns: header.time_ns,
                cycle: (header.cycle != NO_CYCLE).then_some(header.cycle),
                is_captured: false,
            },
            kind: header.kind,
            flags: header.flags,
            detail: header.detail,
            address: header.address,
            data,
        }))
    }

    fn end(&mut self, ending: Ending) -> Option<Record> {
        self.ending = Some(ending);
        None
    }
}

/// Reads until the buffer is full or the file ends; returns the bytes read.
fn fill(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while length < buffer.len() {
        match input.read(&mut buffer[length..]) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

/// Returns true if a file is a record, or empty.
///
/// # Errors
/// The error of the system.
pub fn is_record(path: &Path) -> io::Result<bool> {
    let mut magic = [0; MAGIC.len()];
    let length = fill(&mut File::open(path)?, magic.as_mut_bytes())?;
    Ok(length == 0 || magic == MAGIC)
}
