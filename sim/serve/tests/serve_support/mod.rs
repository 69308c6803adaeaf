//! A served function and a minimal client.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ferroce_serve::{Serving, socket_path};
use ferroce_spec::register::{Control, Status, offset};
use ferroce_test_support::Deadline;
pub use ferroce_test_support::TIMEOUT;
use ferroce_vfio_user::{Client, ClientBacking, ClientMemory, DmaRange, Errno, region};
use parking_lot::Mutex;
use rustix::fs::{MemfdFlags, memfd_create};

use crate::common::Rendezvous;

/// IOVA of the client's memory.
pub const IOVA: u64 = 0x10_0000;
/// Its size.
pub const SIZE: u64 = 0x4000;
/// PCI command register: memory and bus master.
pub const ENABLED: u16 = 6;
/// Offsets of result and ownership in an entry of the command queue.
const RESULT: u64 = 0x30;
const COMPLETION: u64 = 0x38;
const DEVICE_OWNED: u64 = 1 << 63;

/// Serves `count` functions of host `name`.
pub fn serve(rendezvous: &Rendezvous, name: &str, count: u8) -> (Serving, Vec<PathBuf>) {
    let base = rendezvous.0.join(format!("nic-{name}"));
    let paths: Vec<_> = (0..count).map(|n| socket_path(&base, n, count)).collect();
    let functions = (0..count).map(|n| rendezvous.device_options(name, n));
    let serving = Serving::start(paths.iter().cloned().zip(functions).collect());
    (serving.expect("the sockets are free"), paths)
}

/// Memory that is accessed by messages.
#[derive(Default)]
pub struct Messages(pub Mutex<Vec<u8>>);

impl ClientMemory for Messages {
    fn read(&self, iova: u64, data: &mut [u8]) -> Result<(), Errno> {
        let start = iova.checked_sub(IOVA).ok_or(Errno::NODEV)? as usize;
        let memory = self.0.lock();
        let source = memory.get(start..start + data.len()).ok_or(Errno::NODEV)?;
        data.copy_from_slice(source);
        Ok(())
    }

    fn write(&self, iova: u64, data: &[u8]) -> Result<(), Errno> {
        let start = iova.checked_sub(IOVA).ok_or(Errno::NODEV)? as usize;
        let mut memory = self.0.lock();
        let destination = memory.get_mut(start..start + data.len());
        destination.ok_or(Errno::NODEV)?.copy_from_slice(data);
        Ok(())
    }
}

/// The device's access to the client's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backing {
    Mapped,
    FileIo,
    Messages,
}

/// A client of one function, with some memory.
pub struct Hand {
    pub client: Client,
    pub file: File,
    pub messages: Arc<Messages>,
    backing: Backing,
    commands: u32,
}

pub fn memory_file(size: u64) -> File {
    let file = File::from(memfd_create("test", MemfdFlags::CLOEXEC).expect("memory"));
    file.set_len(size).expect("memory");
    file
}

impl Hand {
    pub fn new(path: &Path, backing: Backing) -> Self {
        let messages = Arc::new(Messages(Mutex::new(vec![0; SIZE as usize])));
        let client = Client::connect(path, messages.clone()).expect("it is served");
        Self {
            client,
            file: memory_file(SIZE),
            messages,
            backing,
            commands: 0,
        }
    }

    /// Connects a client with memory and bus master enabled.
    pub fn enabled(path: &Path, backing: Backing) -> Self {
        let hand = Self::new(path, backing);
        hand.set_command(ENABLED);
        hand.map().expect("free");
        hand
    }

    pub fn map(&self) -> Result<(), Errno> {
        let range = DmaRange {
            iova: IOVA,
            length: SIZE,
            readable: true,
            writable: true,
        };
        let backing = match self.backing {
            Backing::Mapped => ClientBacking::Mmap(self.file.as_fd(), 0),
            Backing::FileIo => ClientBacking::FileIo(self.file.as_fd(), 0),
            Backing::Messages => ClientBacking::Messages,
        };
        let mapped = self.client.dma_map(range, backing);
        mapped.map_err(|error| error.errno())
    }

    pub fn set_command(&self, command: u16) {
        self.write(region::CONFIG, 4, &command.to_le_bytes());
    }

    pub fn write(&self, region: u32, offset: u64, data: &[u8]) {
        self.client.write(region, offset, data).expect("obeyed");
    }

    pub fn read<const N: usize>(&self, region: u32, offset: u64) -> [u8; N] {
        let mut data = [0; N];
        self.client
            .read(region, offset, &mut data)
            .expect("answered");
        data
    }

    pub fn register(&self, offset: u32) -> u32 {
        u32::from_le_bytes(self.read(region::BAR0, u64::from(offset)))
    }

    pub fn set_register(&self, offset: u32, value: u32) {
        self.write(region::BAR0, u64::from(offset), &value.to_le_bytes());
    }

    pub fn status(&self) -> Status {
        Status::from_bits(self.register(offset::status))
    }

    /// Starts a command queue of one entry.
    pub fn start(&mut self) {
        self.commands = 0;
        let base = IOVA.to_le_bytes();
        self.write(region::BAR0, u64::from(offset::command_queue_base), &base);
        self.set_register(offset::command_queue_log_size, 0);
        let mut control = Control::default();
        control.set_enable(true);
        self.set_register(offset::control, control.bits());
    }

    /// Submits a command that only returns a result. Returns true if the device has executed it.
    pub fn no_operation(&mut self, argument: u64) -> bool {
        self.commands += 1;
        let mut entry = [0; 64];
        entry[8..16].copy_from_slice(&argument.to_le_bytes());
        entry[56..].copy_from_slice(&DEVICE_OWNED.to_le_bytes());
        self.store(0, &entry);
        self.set_register(offset::command_queue_doorbell, self.commands);
        let deadline = Deadline::new("the end of a command", TIMEOUT);
        while self.register(offset::command_queue_consumer) != self.commands {
            if self.status().fatal() {
                return false;
            }
            deadline.check();
        }
        let is_answered = self.load(COMPLETION) & DEVICE_OWNED == 0;
        assert!(is_answered || self.status().fatal());
        is_answered && self.load(RESULT) == argument
    }

    /// Stores into the client's own memory.
    pub fn store(&self, at: u64, bytes: &[u8]) {
        match self.backing {
            Backing::Messages => self.messages.write(IOVA + at, bytes).expect("inside"),
            _ => self.file.write_all_at(bytes, at).expect("inside"),
        }
    }

    /// Loads from the client's own memory.
    pub fn load(&self, at: u64) -> u64 {
        let mut bytes = [0; 8];
        match self.backing {
            Backing::Messages => self.messages.read(IOVA + at, &mut bytes).expect("inside"),
            _ => self.file.read_exact_at(&mut bytes, at).expect("inside"),
        }
        u64::from_le_bytes(bytes)
    }
}
