//! A client's memory for the tests, and servers of the test device.
#![allow(dead_code, reason = "each test uses some of it")]

mod device;
pub mod raw;

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

pub use device::*;
use ferroce_test_support::time_limit;
use ferroce_vfio_user::{
    Client, ClientMemory, ClientOptions, Errno, ServerOptions, Stop, serve_connection,
};
use parking_lot::{Mutex, MutexGuard};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

/// Time limit of events that must happen.
pub const TIMEOUT: Duration = Duration::from_secs(60);

pub fn memfd(size: u64) -> OwnedFd {
    let file = memfd_create("vfio-user-test", MemfdFlags::CLOEXEC).expect("memfd");
    ftruncate(&file, size).expect("memfd of that size");
    file
}

pub fn event() -> OwnedFd {
    eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("eventfd")
}

/// Returns the number of writes to an eventfd since the last call.
pub fn event_count(event: &OwnedFd) -> u64 {
    let mut count = [0; 8];
    match rustix::io::read(event, &mut count) {
        Ok(_) => u64::from_ne_bytes(count),
        Err(_) => 0,
    }
}

/// Memory of the client, from IOVA 0 on.
pub struct TestMemory(pub Mutex<Vec<u8>>);

impl TestMemory {
    pub fn new(size: usize) -> Arc<Self> {
        Arc::new(Self(Mutex::new(vec![0; size])))
    }
}

impl ClientMemory for TestMemory {
    fn read(&self, iova: u64, data: &mut [u8]) -> Result<(), Errno> {
        let memory = self.0.lock();
        let start = usize::try_from(iova).map_err(|_| Errno::NODEV)?;
        let bytes = memory.get(start..start + data.len()).ok_or(Errno::NODEV)?;
        data.copy_from_slice(bytes);
        Ok(())
    }

    fn write(&self, iova: u64, data: &[u8]) -> Result<(), Errno> {
        let mut memory = self.0.lock();
        let start = usize::try_from(iova).map_err(|_| Errno::NODEV)?;
        let bytes = memory.get_mut(start..start + data.len());
        bytes.ok_or(Errno::NODEV)?.copy_from_slice(data);
        Ok(())
    }
}

/// A server of one connection, on its own thread. Ends on drop.
pub struct Served {
    pub device: Arc<TestDevice>,
    pub stop: Stop,
    done: mpsc::Receiver<()>,
    thread: Option<JoinHandle<()>>,
}

impl Served {
    pub fn new(options: ServerOptions) -> (Self, UnixStream) {
        let (ours, theirs) = UnixStream::pair().expect("socketpair");
        let device = Arc::new(TestDevice::default());
        let stop = Stop::new().expect("eventfd");
        let (ended, done) = mpsc::channel();
        let thread = {
            let (device, stop) = (Arc::clone(&device), stop.clone());
            thread::spawn(move || {
                serve_connection(ours, &*device, options, &stop).expect("the socket is good");
                let _ = ended.send(());
            })
        };
        let served = Self {
            device,
            stop,
            done,
            thread: Some(thread),
        };
        (served, theirs)
    }

    /// Waits until the server ends by itself, because the client has disconnected.
    pub fn wait_for_end(&mut self) {
        self.device.release_slow_read();
        let ended = self.done.recv_timeout(time_limit(TIMEOUT));
        assert!(ended.is_ok(), "the server does not end, or has panicked");
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the server has not panicked");
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.stop();
        self.device.release_slow_read();
        if let Some(thread) = self.thread.take() {
            let result = thread.join();
            if !thread::panicking() {
                result.expect("the server has not panicked");
            }
        }
    }
}

/// Returns a served device and its client.
pub fn pair() -> (Served, Client, Arc<TestMemory>) {
    pair_with(ServerOptions::default())
}

pub fn pair_with(options: ServerOptions) -> (Served, Client, Arc<TestMemory>) {
    let (served, stream) = Served::new(options);
    let memory = TestMemory::new(1 << 20);
    let client = Client::from_stream(
        stream,
        memory.clone(),
        ClientOptions {
            timeout: TIMEOUT,
            ..ClientOptions::default()
        },
    )
    .expect("both are ours");
    (served, client, memory)
}

/// Returns true if two file descriptors refer to the same file.
pub fn is_same_file(one: impl AsFd, other: impl AsFd) -> bool {
    let one = rustix::fs::fstat(one).expect("open");
    let other = rustix::fs::fstat(other).expect("open");
    (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}

/// Runs one test at a time, so that file descriptors can be counted.
pub fn alone() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock()
}

/// Returns the number of open file descriptors of this process.
pub fn fd_count() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("procfs").count()
}
