//! Wires that lead out of the fabric of this machine: to virtual machines, to Linux, to Ferroce on
//! other machines.
//!
//! ```text
//!  model ── FabricPort ──┬── rings: functions of this machine
//!                        └── Uplink ── send, directly ──────────────────────────► wire
//!                              └────── queue ◄── reader thread: RoCE for us ◄──── wire
//!                                                     └── ARP, ND, ping: answers ──► wire
//! ```
//!
//! - [`spec`]: values of `--port`. [`wire`]: the common traits of wires; [`tap`], [`datagram`],
//!   [`stream`], [`udp`]: the wires; [`opener`] opens one. [`replay`]: frames of a capture.
//! - [`reader`]: the thread that receives and repairs the wire. [`outgoing`]: frames to send.
//! - [`station`]: ARP, neighbour discovery, ping. [`neighbours`]: the addresses learnt by them.
//!
//! A wire can break: its other end closes, or its tap is deleted. Then the link of the port is
//! down, sent frames are lost and counted, and the reader tries to repair the wire at a bounded
//! rate. Before the first contact with the other end, the link counts as up, because a program that
//! checks its port must be able to start before its peer.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use buffer::{Incoming, Pool};
use ferroce_model::ports::port::Reservation;
use ferroce_platform::{fork, os};
use ferroce_wire::{Gid, Mac, Qpn};
use neighbours::Neighbours;
use opener::Opener;
use outgoing::Outgoing;
use parking_lot::Mutex;
use replay::Gate;
use station::Station;
use wire::{Attempt, Wire};

use crate::clock::Clock;
use crate::error::Error;
use crate::fabric::registry::{Place, Registry, UplinkCounter};
use crate::schedule::shared::publish_work;

pub mod buffer;
mod datagram;
mod neighbours;
mod opener;
mod outgoing;
mod reader;
mod replay;
mod spec;
pub mod station;
mod stream;
mod tap;
mod udp;
mod wire;

pub use buffer::Buffer;
pub use spec::{SEPARATOR, UplinkSpec, UplinkSpecError};

/// Number of requests before a station counts as absent.
const ASK_ATTEMPTS: u32 = 4;
/// Time limit of each answer.
const ASK_TIMEOUT: Duration = Duration::from_millis(250);
/// Time to wait until the other end of a stream listens: QEMU takes a moment.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause between two attempts.
const CONNECT_INTERVAL: Duration = Duration::from_millis(50);

/// The function at the near end of the wire.
#[derive(Debug, Clone, Copy)]
struct NearEnd {
    registry: &'static Registry,
    place: u8,
    mac: Mac,
    clock: Clock,
}

impl NearEnd {
    fn count(&self, counter: UplinkCounter, number: u64) {
        let word = self.registry.uplink_counter(self.place, counter);
        word.fetch_add(number, Ordering::Relaxed);
    }

    /// Returns the current addresses of the function.
    fn gids(&self) -> Vec<Gid> {
        let occupant = self.registry.occupant(self.place);
        occupant.map_or_else(Vec::new, |occupant| occupant.identity.gids)
    }

    fn owns(&self, gid: Gid) -> bool {
        self.registry.owns_gid(self.place, gid)
    }

    /// Runs `action` with the station of the function.
    fn as_station<R>(&self, action: impl FnOnce(&Station<'_>) -> R) -> R {
        let gids = self.gids();
        action(&Station {
            mac: self.mac,
            gids: &gids,
        })
    }

    /// Wakes the threads that have to check. Returns false if the application polls: then the
    /// background thread checks when polling stops, at the latest.
    fn wake(&self) -> bool {
        publish_work();
        let (words, now) = (self.registry.words(self.place), self.clock.ticks());
        if words.polls(now) {
            return false;
        }
        words.wake(now);
        true
    }
}

/// State shared by the model's threads and the reader thread.
#[derive(Debug)]
struct Shared {
    end: NearEnd,
    pool: Pool,
    incoming: Incoming,
    outgoing: Mutex<Outgoing>,
    neighbours: Neighbours,
    gate: Gate,
    is_up: AtomicBool,
    is_stopping: AtomicBool,
    /// A byte in here wakes the reader.
    kick: UnixStream,
}

impl Shared {
    /// Wakes the reader.
    fn kick(&self) {
        // A full socket has enough bytes.
        let _ = (&self.kick).write(&[0]);
    }

    /// Marks the link as up, and notifies the model of a change.
    fn set_up(&self) {
        if !self.is_up.swap(true, Ordering::SeqCst) {
            tracing::info!("the wire works");
            self.end.wake();
        }
    }

    /// Marks the link as down, and notifies the model of a change.
    fn set_down(&self, reason: &str) {
        if self.is_up.swap(false, Ordering::SeqCst) {
            self.end.count(UplinkCounter::LinkDowns, 1);
            self.neighbours.clear();
            tracing::warn!(reason, "the wire has lost its other end; the link is down");
            self.end.wake();
        }
    }

    /// Sends a frame that this module built.
    fn send(&self, bytes: &[u8]) {
        if bytes.len() <= buffer::CAPACITY {
            let mut frame = self.pool.take(bytes.len());
            frame.bytes_mut().copy_from_slice(bytes);
            self.outgoing.lock().send(self, frame);
        }
    }

    /// Announces the function's addresses on the wire.
    fn announce(&self) {
        let frames: Vec<_> = self.end.as_station(|us| us.announcements().collect());
        frames.iter().for_each(|frame| self.send(frame));
    }

    fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::SeqCst)
    }
}

/// An uplink. Its thread ends when it is dropped.
#[derive(Debug)]
pub struct Uplink {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    fork_generation: u32,
}

impl Uplink {
    /// Opens the wire of the function at `place`, whose port has the address `mac`.
    ///
    /// # Errors
    /// [`Error::Uplink`] with the reason and the remedy.
    pub fn open(
        spec: &UplinkSpec,
        place: &Place,
        mac: Mac,
        clock: &Clock,
    ) -> Result<Arc<Self>, Error> {
        let end = NearEnd {
            registry: place.registry(),
            place: place.number(),
            mac,
            clock: *clock,
        };
        Self::start(spec, end)
            .map(Arc::new)
            .map_err(|source| Error::Uplink {
                wire: spec.to_string(),
                source,
            })
    }

    fn start(spec: &UplinkSpec, end: NearEnd) -> std::io::Result<Self> {
        let (kick, kicked) = UnixStream::pair()?;
        kick.set_nonblocking(true)?;
        kicked.set_nonblocking(true)?;
        let mut shared = Shared {
            end,
            pool: Pool::default(),
            incoming: Incoming::default(),
            outgoing: Mutex::default(),
            neighbours: Neighbours::default(),
            gate: Gate::default(),
            is_up: AtomicBool::new(true),
            is_stopping: AtomicBool::new(false),
            kick,
        };
        let name = "ferroce-wire".to_owned();
        let builder = std::thread::Builder::new().name(name);
        let (shared, thread) = if let UplinkSpec::PcapReplay { file } = spec {
            let replay = replay::Replay::open(file, &shared)?;
            let shared = Arc::new(shared);
            let of_thread = shared.clone();
            let run = move || replay.run(&of_thread);
            (shared, os::with_signals_blocked(|| builder.spawn(run))?)
        } else {
            let mut opener = Opener::new(spec)?;
            let wire = open_with_retries(&mut opener)?;
            let receive = wire.map(|Wire { transmit, receive }| {
                shared.outgoing.get_mut().open(transmit);
                receive
            });
            let shared = Arc::new(shared);
            let of_thread = shared.clone();
            let run = move || reader::run(&of_thread, opener, receive, &kicked);
            (shared, os::with_signals_blocked(|| builder.spawn(run))?)
        };
        Ok(Self {
            shared,
            thread: Some(thread),
            fork_generation: fork::generation(),
        })
    }

    /// Returns true if the link is up.
    #[inline]
    pub fn is_up(&self) -> bool {
        self.shared.is_up.load(Ordering::Relaxed)
    }

    /// Returns true if a frame is pending.
    #[inline]
    pub fn has_frame(&self) -> bool {
        !self.shared.incoming.is_empty()
    }

    /// Returns true if there is no room for another frame now.
    pub fn is_full(&self) -> bool {
        self.shared.outgoing.lock().is_full(&self.shared)
    }

    /// Reserves a buffer for a frame of `length` bytes.
    pub fn reserve(&self, length: usize) -> Reservation<Box<Buffer>> {
        if self.is_full() {
            return Reservation::Full;
        }
        Reservation::Ready(self.shared.pool.take(length))
    }

    /// Sends a frame.
    pub fn transmit(&self, frame: Box<Buffer>) {
        self.shared.outgoing.lock().send(&self.shared, frame);
    }

    /// Takes the next received frame.
    #[inline]
    pub fn receive(&self) -> Option<Box<Buffer>> {
        self.shared.incoming.pop()
    }

    /// Releases a buffer, sent or not.
    pub fn release(&self, frame: Box<Buffer>) {
        self.shared.pool.give_back(frame);
    }

    /// Records that a queue pair can receive.
    pub fn queue_pair_ready(&self, qpn: Qpn) {
        self.shared.gate.open_for(qpn);
    }

    /// Returns the MAC address of a station on the wire. `None` if no station answers. Takes up to
    /// a second.
    pub fn resolve_mac(&self, gid: Gid) -> Option<Mac> {
        let known = self.shared.neighbours.find(gid);
        let is_foreign = self.fork_generation != fork::generation();
        if known.is_some() || is_foreign || !self.is_up() || !station::is_on_wire(gid) {
            return known;
        }
        let question = self.shared.end.as_station(|us| us.ask(gid))?;
        (0..ASK_ATTEMPTS).find_map(|_| {
            self.shared.send(&question);
            self.shared.neighbours.wait(gid, ASK_TIMEOUT)
        })
    }
}

impl Drop for Uplink {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else {
            return;
        };
        if self.fork_generation != fork::generation() {
            // The thread belongs to the parent and does not exist in this process.
            std::mem::forget(thread);
            return;
        }
        self.shared.is_stopping.store(true, Ordering::SeqCst);
        self.shared.kick();
        let _ = thread.join();
    }
}

/// Opens a wire, with retries while the peer does not listen yet.
fn open_with_retries(opener: &mut Opener) -> std::io::Result<Option<Wire>> {
    use std::io::ErrorKind::{ConnectionRefused, NotFound};
    let may_wait = matches!(opener, Opener::Direct(UplinkSpec::QemuStream { .. }));
    let deadline = Instant::now() + CONNECT_TIMEOUT;
    loop {
        match opener.open(Attempt::First) {
            Err(error)
                if may_wait
                    && matches!(error.kind(), NotFound | ConnectionRefused)
                    && Instant::now() < deadline =>
            {
                // A listening socket cannot wake processes that want to connect.
                std::thread::sleep(CONNECT_INTERVAL);
            }
            Err(error) if may_wait && matches!(error.kind(), NotFound | ConnectionRefused) => {
                let seconds = CONNECT_TIMEOUT.as_secs();
                let advice = format!(
                    "{error}: no process listened there for {seconds} s; start QEMU first with \
                     -netdev stream,server=on, or use qemu-stream:listen:PATH"
                );
                return Err(std::io::Error::new(error.kind(), advice));
            }
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests;
