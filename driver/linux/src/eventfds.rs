//! Interrupts that arrive as eventfds: one for each vector, and a thread that calls the handlers.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::RwLock;

use crate::fork::ForkMark;
use ferroce_driver::bus::{BusError, HEALTH_PERIOD, InterruptHandler};

/// Token of [`Shared::changed`]; no vector has this number.
const CHANGED: u64 = u64::MAX;
/// Events taken from the kernel at once.
const BATCH: usize = 16;

/// The eventfds of all vectors of a device. Dropping it ends the thread.
pub struct EventFds {
    vectors: Vec<File>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    fork: ForkMark,
}

/// State shared with the thread.
struct Shared {
    epoll: OwnedFd,
    /// Signalled when `is_ending` or `health_check` has changed.
    changed: File,
    is_ending: AtomicBool,
    health_check: RwLock<Option<InterruptHandler>>,
    handlers: RwLock<Vec<Option<InterruptHandler>>>,
}

impl EventFds {
    /// Creates eventfds for `count` vectors, without handlers, and the thread that waits for them.
    ///
    /// # Errors
    ///
    /// The error of the operating system: no descriptors or threads are left.
    pub fn new(count: usize) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            epoll: epoll()?,
            changed: eventfd()?,
            is_ending: AtomicBool::new(false),
            health_check: RwLock::default(),
            handlers: RwLock::new(vec![None; count]),
        });
        watch(shared.epoll.as_fd(), shared.changed.as_fd(), CHANGED)?;
        let vectors = (0..count as u64)
            .map(|vector| {
                let file = eventfd()?;
                watch(shared.epoll.as_fd(), file.as_fd(), vector)?;
                Ok(file)
            })
            .collect::<io::Result<Vec<_>>>()?;
        let files = vectors
            .iter()
            .map(File::try_clone)
            .collect::<io::Result<Vec<_>>>()?;
        let waiting = shared.clone();
        let thread = with_signals_blocked(|| {
            std::thread::Builder::new()
                .name("ferroce-irq".to_owned())
                .spawn(move || waiting.run(&files))
        })?;
        Ok(Self {
            vectors,
            shared,
            thread: Some(thread),
            fork: ForkMark::of_this_process(),
        })
    }

    /// Returns the eventfd of each vector.
    pub fn files(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.vectors.iter().map(File::as_fd)
    }

    /// Implements [`Bus::set_interrupt_handler`](ferroce_driver::bus::Bus::set_interrupt_handler).
    pub fn set_handler(
        &self,
        vector: u16,
        handler: Option<InterruptHandler>,
    ) -> Result<(), BusError> {
        if self.fork.is_foreign() {
            return Err(BusError::Disconnected);
        }
        // Dropped after the lock is released: the old handler may own a value that takes a lock.
        let _old = match self.shared.handlers.write().get_mut(usize::from(vector)) {
            Some(place) => std::mem::replace(place, handler),
            None => return Err(BusError::NoSuchVector),
        };
        Ok(())
    }

    /// Implements [`Bus::set_health_check`](ferroce_driver::bus::Bus::set_health_check).
    pub fn set_health_check(&self, check: Option<InterruptHandler>) {
        if self.fork.is_foreign() {
            return;
        }
        // Dropped after the lock is released, as handlers are.
        let _old = std::mem::replace(&mut *self.shared.health_check.write(), check);
        self.shared.signal_change();
    }
}

impl Drop for EventFds {
    fn drop(&mut self) {
        // A child of fork has no such thread; its descriptors are shared with the parent.
        if self.fork.is_foreign() {
            std::mem::forget(self.thread.take());
            return;
        }
        let _old = std::mem::take(&mut *self.shared.handlers.write());
        let _check = self.shared.health_check.write().take();
        self.shared.is_ending.store(true, Ordering::Release);
        self.shared.signal_change();
        if let Some(thread) = self.thread.take() {
            // A handler may have held the last reference to the bus: the thread then ends by
            // itself.
            if thread.thread().id() != std::thread::current().id() {
                thread.join().ok();
            }
        }
    }
}

impl Shared {
    /// Makes the thread check for changes.
    fn signal_change(&self) {
        // A write to an eventfd fails only if the counter overflows, which increments of one never
        // cause.
        (&self.changed).write_all(&1u64.to_ne_bytes()).ok();
    }

    /// Calls handlers until the end is signalled or the kernel refuses to wait.
    fn run(&self, files: &[File]) {
        let mut check_at = Instant::now() + HEALTH_PERIOD;
        loop {
            let timeout = if self.health_check.read().is_some() {
                Some(check_at.saturating_duration_since(Instant::now()))
            } else {
                None
            };
            let fired = match wait(self.epoll.as_fd(), timeout) {
                Ok(fired) => fired,
                Err(error) => {
                    tracing::error!(%error, "interrupts can no longer be waited for");
                    return;
                }
            };
            for vector in fired {
                match vector {
                    CHANGED => drop((&self.changed).read_exact(&mut [0; 8])),
                    vector => self.deliver(vector as usize, files),
                }
                if self.is_ending.load(Ordering::Acquire) {
                    return;
                }
            }
            if Instant::now() >= check_at {
                self.check_health();
                check_at = Instant::now() + HEALTH_PERIOD;
            }
        }
    }

    fn check_health(&self) {
        // Called without the lock: the check may drop the last reference to the bus.
        let check = self.health_check.read().clone();
        if let Some(check) = check {
            check();
        }
    }

    fn deliver(&self, vector: usize, files: &[File]) {
        let Some(mut file) = files.get(vector) else {
            return;
        };
        // A read merges all interrupts since the previous read into one, as MSI-X itself may do. It
        // fails only when there is none.
        let mut count = [0; 8];
        if file.read_exact(&mut count).is_err() {
            return;
        }
        // Called without the lock: a handler may set handlers.
        let handler = self.handlers.read().get(vector).cloned().flatten();
        if let Some(handler) = handler {
            handler();
        }
    }
}

fn owned(descriptor: libc::c_int) -> io::Result<OwnedFd> {
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the callers pass a descriptor that a system call has just returned as new, so nothing
    // else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

fn eventfd() -> io::Result<File> {
    // SAFETY: the system call takes no pointers.
    let descriptor = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    owned(descriptor).map(File::from)
}

fn epoll() -> io::Result<OwnedFd> {
    // SAFETY: the system call takes no pointers.
    owned(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })
}

fn watch(epoll: BorrowedFd<'_>, file: BorrowedFd<'_>, token: u64) -> io::Result<()> {
    let mut event = libc::epoll_event {
        events: libc::EPOLLIN as u32,
        u64: token,
    };
    // SAFETY: both descriptors are open during the call, and the kernel only reads `event`.
    let result = unsafe {
        libc::epoll_ctl(
            epoll.as_raw_fd(),
            libc::EPOLL_CTL_ADD,
            file.as_raw_fd(),
            &raw mut event,
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Waits for the next events and returns their tokens: none, if none came in time.
fn wait(epoll: BorrowedFd<'_>, timeout: Option<Duration>) -> io::Result<Vec<u64>> {
    // Rounded up: a wait that is too short is repeated without sleeping.
    let timeout_ms = timeout.map_or(-1, |time| time.as_millis() as libc::c_int + 1);
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; BATCH];
    loop {
        // SAFETY: `events` has room for BATCH events, and outlives the call.
        let count = unsafe {
            libc::epoll_wait(
                epoll.as_raw_fd(),
                events.as_mut_ptr(),
                BATCH as libc::c_int,
                timeout_ms,
            )
        };
        if let Ok(count) = usize::try_from(count) {
            return Ok(events.iter().take(count).map(|event| event.u64).collect());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Runs `action` with every signal blocked in this thread. A thread started inside inherits the
/// mask, so the application's signal handlers never run on a thread of this library.
pub fn with_signals_blocked<T>(action: impl FnOnce() -> T) -> T {
    // SAFETY: both sets are initialised by the calls that they are passed to before they are read.
    let saved = unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut saved: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut saved);
        saved
    };
    let result = action();
    // SAFETY: `saved` is the previous mask, initialised by the call above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const saved, std::ptr::null_mut()) };
    result
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// Longer than any machine needs; only a failing test waits so long.
    const TIMEOUT: Duration = Duration::from_secs(30);

    fn signal(events: &EventFds, vector: usize) {
        let mut file = &events.vectors[vector];
        file.write_all(&1u64.to_ne_bytes()).expect("an eventfd");
    }

    /// Goal: an interrupt reaches the handler of its vector and no other. Method: a channel per
    /// vector; the eventfds are written as the kernel would.
    #[test]
    fn each_vector_calls_its_handler() {
        let events = EventFds::new(3).expect("eventfds");
        let (sender, receiver) = mpsc::channel();
        for vector in 0..3 {
            let sender = sender.clone();
            let handler: InterruptHandler = Arc::new(move || sender.send(vector).expect("open"));
            events
                .set_handler(vector, Some(handler))
                .expect("it exists");
        }
        for vector in [2, 0, 1, 0] {
            signal(&events, vector);
            assert_eq!(receiver.recv_timeout(TIMEOUT), Ok(vector as u16));
        }
        assert_eq!(events.set_handler(3, None), Err(BusError::NoSuchVector));
        events.set_handler(1, None).expect("it exists");
        signal(&events, 1);
        signal(&events, 2);
        assert_eq!(receiver.recv_timeout(TIMEOUT), Ok(2), "1 has no handler");
        assert_eq!(events.files().count(), 3);
    }

    /// Goal: the check is called again and again, without an interrupt, until it is cleared.
    #[test]
    fn the_health_check_is_called_until_it_is_cleared() {
        let events = EventFds::new(1).expect("eventfds");
        let (sender, receiver) = mpsc::channel();
        let check: InterruptHandler = Arc::new(move || sender.send(Instant::now()).expect("open"));
        events.set_health_check(Some(check));
        let times = [(); 3].map(|()| receiver.recv_timeout(TIMEOUT).expect("it is called"));
        assert!(times[2] - times[1] >= HEALTH_PERIOD);
        events.set_health_check(None);
        // The only sender is in the check.
        while receiver.recv_timeout(TIMEOUT).is_ok() {}
        assert_eq!(receiver.try_recv(), Err(mpsc::TryRecvError::Disconnected));
    }

    /// Goal: no deadlock when a handler drops the last reference. Method: the handler owns the
    /// eventfds and drops them.
    #[test]
    fn a_handler_may_drop_everything() {
        let events = Arc::new(EventFds::new(1).expect("eventfds"));
        let (sender, receiver) = mpsc::channel();
        let held = parking_lot::Mutex::new(Some(events.clone()));
        let handler: InterruptHandler = Arc::new(move || {
            if let Some(events) = held.lock().take() {
                drop(events);
                sender.send(()).expect("open");
            }
        });
        events.set_handler(0, Some(handler)).expect("it exists");
        let file = events.vectors[0].try_clone().expect("a descriptor");
        drop(events);
        (&file).write_all(&1u64.to_ne_bytes()).expect("an eventfd");
        assert_eq!(receiver.recv_timeout(TIMEOUT), Ok(()));
    }
}
