//! Shared memory for loom's checks: it replaces the mapped files of
//! `ferroce_platform::shared_memory` by words and buffers in which loom sees every access.
#![expect(
    unsafe_code,
    reason = "a cell in which loom sees every access is no Sync"
)]

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The words of the memory, by offset; all are created, with value zero, before threads start.
#[derive(Debug, Default)]
struct Words {
    words: BTreeMap<usize, AtomicU64>,
    half_words: BTreeMap<usize, AtomicU32>,
    buffers: BTreeMap<usize, Shared>,
}

/// Bytes of a buffer.
#[derive(Debug)]
struct Shared {
    value: AtomicU64,
    /// Loom fails if two threads access this without an order between them, as with plain bytes.
    accesses: UnsafeCell<()>,
}

// SAFETY: the cell holds no data, so no access to it is a data race; loom tracks the accesses and
// runs one thread at a time.
unsafe impl Sync for Shared {}

impl Shared {
    fn new() -> Self {
        Self {
            value: AtomicU64::new(0),
            accesses: UnsafeCell::new(()),
        }
    }

    fn read(&self) -> u64 {
        self.accesses.with(|_| ());
        self.value.load(Ordering::Relaxed)
    }

    fn write(&self, value: u64) {
        self.accesses.with_mut(|_| ());
        self.value.store(value, Ordering::Relaxed);
    }
}

/// One process's view of the memory.
#[derive(Debug, Clone, Default)]
pub struct Mapping(Arc<Words>);

impl Mapping {
    /// Memory with words, half words and buffers at these offsets.
    pub fn with(words: &[usize], half_words: &[usize], buffers: &[usize]) -> Self {
        Self(Arc::new(Words {
            words: words.iter().map(|at| (*at, AtomicU64::new(0))).collect(),
            half_words: half_words
                .iter()
                .map(|at| (*at, AtomicU32::new(0)))
                .collect(),
            buffers: buffers.iter().map(|at| (*at, Shared::new())).collect(),
        }))
    }

    /// # Errors
    /// `Unsupported`, always: loom checks no files.
    pub fn new(_file: &File, _length: usize) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// # Errors
    /// `Unsupported`, always: loom checks no files.
    pub fn part(_file: &File, _offset: u64, _length: usize) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// # Errors
    /// None.
    pub fn anonymous(_length: usize) -> io::Result<Self> {
        Ok(Self::default())
    }

    /// Returns false: the memory of a loom model stays.
    pub fn is_lost(&self) -> bool {
        false
    }

    /// The word at `offset`, which must be one of the created ones.
    pub fn word(&self, offset: usize) -> &AtomicU64 {
        &self.0.words[&offset]
    }

    /// The half word at `offset`, which must be one of the created ones.
    pub fn half_word(&self, offset: usize) -> &AtomicU32 {
        &self.0.half_words[&offset]
    }

    /// The buffer at `offset`, which must be one of the created ones. Reads its bytes.
    pub fn take_buffer(&mut self, offset: usize, length: usize) -> Buffer {
        let value = self.0.buffers[&offset].read();
        let mut bytes = value.to_le_bytes().to_vec();
        bytes.resize(length, 0);
        Buffer {
            offset,
            bytes,
            is_written: false,
        }
    }

    /// Returns true. Stores the bytes of a written buffer: the protocol calls this before it passes
    /// the buffer on.
    pub fn owns(&self, buffer: &Buffer) -> bool {
        if buffer.is_written {
            self.0.buffers[&buffer.offset].write(buffer.value());
        }
        true
    }

    /// False.
    pub fn has_outstanding(&self) -> bool {
        false
    }

    /// Takes a buffer back. If it was only read, its bytes are unchanged.
    pub fn give_back(&mut self, buffer: Buffer) {
        if !buffer.is_written {
            let now = self.0.buffers[&buffer.offset].read();
            assert_eq!(now, buffer.value(), "written while it was held");
        }
    }

    /// Does nothing.
    pub fn prefetch_for_write(&self, _offset: usize) {}

    /// Does nothing.
    pub fn prefetch(&self, _offset: usize) {}
}

/// Bytes of a [`Mapping`]; the first eight are shared.
#[derive(Debug)]
pub struct Buffer {
    offset: usize,
    bytes: Vec<u8>,
    is_written: bool,
}

impl Buffer {
    fn value(&self) -> u64 {
        let mut value = [0; 8];
        let shared = self.bytes.len().min(8);
        value[..shared].copy_from_slice(&self.bytes[..shared]);
        u64::from_le_bytes(value)
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl AsMut<[u8]> for Buffer {
    fn as_mut(&mut self) -> &mut [u8] {
        self.is_written = true;
        &mut self.bytes
    }
}
