//! A world without cards: it gives turns to programs, carries bytes between them, and executes
//! requests that they make with special stores.
//!
//! It is written from the description of the pages, not from the real world's code, so that a test
//! against it is a test of the description.

#![allow(
    unsafe_code,
    dead_code,
    clippy::unwrap_used,
    reason = "tests: writes into the memory of programs; not every test uses everything"
)]

use std::collections::{HashMap, VecDeque};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ferroce_linux::peer::Peer;
use ferroce_test_support::{TIMEOUT, eventually};
use ferroce_timed_protocol::control::Message;
use ferroce_timed_protocol::map::SharedPages;
use ferroce_timed_protocol::page::{NEVER_PS, ThreadPage, Turn};
use ferroce_timed_protocol::request::{Check, Wait};
use ferroce_timed_protocol::store::{Store, StoreKind};
use ferroce_timed_protocol::{STREAM_LATENCY_PS, VERSION};
use rustix::io::IoSlice;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, accept_with, bind, listen, recv, send, sendmsg, socket_with,
};

pub mod run;

/// A register that does not exist: writes a byte to the program's memory. Words: address, value,
/// picoseconds from now.
pub const WRITE: u32 = 1;
/// Another: an interrupt. Words: vectors, picoseconds from now.
pub const INTERRUPT: u32 = 2;
/// Cost of an iteration of a loop that polls memory.
pub const MEMORY_POLL_PS: u64 = 1000;
/// Cost of a system call that does not wait.
pub const SYSTEM_CALL_PS: u64 = 100_000;
/// Time from the interrupt until the thread runs.
pub const WAKE_UP_PS: u64 = 3_000_000;
/// The signal for a thread that computes without a call.
pub const PROBE_SIGNAL: i32 = 48;
/// Real time after which it is sent.
const PROBE_AFTER: Duration = Duration::from_millis(20);
/// Real time after which a test has failed.
const LIMIT: Duration = Duration::from_secs(10);

/// State of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Doing {
    Waiting(Wait),
    Outside,
    Ended,
}

struct Thread {
    program: usize,
    number: usize,
    tid: i32,
    doing: Doing,
    /// It has announced a connection in its last turn, to a port with a listener.
    has_connected: bool,
    /// Time of a write to memory that it polls.
    seen_ps: u64,
    /// Its place among the threads that wait for an address.
    order: u64,
    /// Time of the wake-up of that address, and the answer.
    woken: Option<(u64, u64)>,
}

struct Program {
    connection: OwnedFd,
    pages: SharedPages,
    pid: u32,
    threads: usize,
    interrupts: u64,
    interrupted_ps: u64,
    has_ended: bool,
}

#[derive(Default)]
struct StreamState {
    arrivals: VecDeque<(u64, u64)>,
    received: u64,
    closed_ps: Option<u64>,
}

impl StreamState {
    /// Returns when there is something to read, and how much there is at `now_ps`.
    fn readable(&self, now_ps: u64) -> Option<(u64, u64)> {
        let mut total = 0;
        let mut first = None;
        for (at_ps, bytes) in &self.arrivals {
            total += bytes;
            if total > self.received && first.is_none() {
                first = Some(*at_ps);
            }
        }
        let Some(first_ps) = first else {
            return self.closed_ps.map(|closed_ps| (closed_ps, 0));
        };
        let at_ps = first_ps.max(now_ps);
        let there: u64 = self
            .arrivals
            .iter()
            .filter(|(t, _)| *t <= at_ps)
            .map(|(_, n)| n)
            .sum();
        Some((at_ps, there - self.received))
    }
}

#[derive(Debug)]
enum Event {
    Write {
        program: usize,
        address: u64,
        value: u8,
    },
    Interrupt {
        program: usize,
        vectors: u64,
    },
}

/// The world; it ends when it is dropped.
pub struct FakeWorld {
    path: PathBuf,
    stops: Arc<AtomicBool>,
    joined: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl FakeWorld {
    /// Creates a world in which time begins when this many programs have joined.
    pub fn new(programs: usize) -> Self {
        static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("ferroce-fake-world-{}-{count}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_file(&path);
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(family, kind, flags, None).expect("a socket");
        bind(&socket, &SocketAddrUnix::new(&path).expect("a path")).expect("bound");
        listen(&socket, 16).expect("listening");
        let stops = Arc::new(AtomicBool::new(false));
        let joined = Arc::new(AtomicUsize::new(0));
        let core = Core {
            socket,
            joined: Arc::clone(&joined),
            expected: programs,
            stops: Arc::clone(&stops),
            programs: Vec::new(),
            threads: Vec::new(),
            streams: HashMap::new(),
            ports: HashMap::new(),
            events: Vec::new(),
            orders: 0,
            now_ps: 0,
        };
        let thread = Some(std::thread::spawn(move || core.run()));
        Self {
            path,
            stops,
            joined,
            thread,
        }
    }

    /// Waits until this many programs have a thread each.
    pub fn await_programs(&self, count: usize) {
        eventually("the programs have joined", TIMEOUT, || {
            self.joined.load(Ordering::Relaxed) >= count
        });
    }

    /// Returns the path of its control socket.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for FakeWorld {
    fn drop(&mut self) {
        self.stops.store(true, Ordering::Relaxed);
        let result = self.thread.take().unwrap().join();
        let _ = std::fs::remove_file(&self.path);
        if !std::thread::panicking() {
            result.expect("the world has no fault");
        }
    }
}

struct Core {
    socket: OwnedFd,
    joined: Arc<AtomicUsize>,
    expected: usize,
    stops: Arc<AtomicBool>,
    programs: Vec<Program>,
    threads: Vec<Thread>,
    streams: HashMap<u64, StreamState>,
    /// Connections under way, for each listening port.
    ports: HashMap<u16, VecDeque<u64>>,
    events: Vec<(u64, Event)>,
    /// Turns so far.
    orders: u64,
    now_ps: u64,
}

impl Core {
    fn run(mut self) {
        let begun = Instant::now();
        while !self.stops.load(Ordering::Relaxed) {
            assert!(
                begun.elapsed() < LIMIT,
                "the test takes too long: {}",
                self.dump()
            );
            self.serve();
            let has_begun = self.joined.load(Ordering::Relaxed) >= self.expected;
            // Until time begins, each program runs up to its first wait.
            let until_ps = if has_begun { NEVER_PS } else { self.now_ps };
            if !self.step(until_ps) {
                // Nothing is due until a program sends a request: the polling interval of this
                // server.
                std::thread::sleep(Duration::from_micros(200));
            }
        }
    }

    fn dump(&self) -> String {
        let threads = self
            .threads
            .iter()
            .map(|t| format!("{}: {:?}", t.number, t.doing));
        format!("{} ps, {:?}", self.now_ps, threads.collect::<Vec<_>>())
    }

    /// Handles programs and threads that join and leave.
    fn serve(&mut self) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        while let Ok(connection) = accept_with(&self.socket, flags) {
            self.programs.push(Program {
                connection,
                pages: SharedPages::map(SharedPages::create().unwrap()).unwrap(),
                pid: 0,
                threads: 0,
                interrupts: 0,
                interrupted_ps: NEVER_PS,
                has_ended: false,
            });
        }
        for place in 0..self.programs.len() {
            while !self.programs[place].has_ended {
                let mut bytes = [0; Message::LENGTH];
                let connection = self.programs[place].connection.as_fd();
                match recv(connection, &mut bytes, RecvFlags::DONTWAIT) {
                    Ok((0, _)) | Err(rustix::io::Errno::CONNRESET) => self.end_program(place),
                    Ok(_) => self.answer(place, Message::of_bytes(&bytes).expect("a message")),
                    Err(_) => break,
                }
            }
        }
    }

    fn end_program(&mut self, place: usize) {
        self.programs[place].has_ended = true;
        for thread in self.threads.iter_mut().filter(|t| t.program == place) {
            thread.doing = Doing::Ended;
        }
    }

    fn answer(&mut self, place: usize, message: Message) {
        match message {
            Message::Join { version, .. } => {
                assert_eq!(version, VERSION);
                let file = SharedPages::create().unwrap();
                let pages = SharedPages::map(&file).unwrap();
                let program = &pages.pages().program;
                program.version.store(VERSION, Ordering::Relaxed);
                program
                    .costs
                    .memory_poll_ps
                    .store(MEMORY_POLL_PS, Ordering::Relaxed);
                program
                    .costs
                    .system_call_ps
                    .store(SYSTEM_CALL_PS, Ordering::Relaxed);
                program
                    .costs
                    .wake_up_ps
                    .store(WAKE_UP_PS, Ordering::Relaxed);
                let own = &mut self.programs[place];
                own.pages = pages;
                own.pid = Peer::of(&own.connection).unwrap().process.unwrap();
                let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
                let mut ancillary = SendAncillaryBuffer::new(&mut space);
                let files = [file.as_fd()];
                assert!(ancillary.push(SendAncillaryMessage::ScmRights(&files)));
                let bytes = Message::Joined { host: place as u32 }.to_bytes();
                let parts = [IoSlice::new(&bytes)];
                sendmsg(&own.connection, &parts, &mut ancillary, SendFlags::empty()).unwrap();
            }
            Message::Thread { tid } => {
                let first = self.programs[place].threads == 0;
                self.joined.fetch_add(usize::from(first), Ordering::Relaxed);
                let program = &mut self.programs[place];
                let number = program.threads;
                program.threads += 1;
                let page = &program.pages.pages().threads[number];
                page.reset(tid);
                page.clock_ps.store(self.now_ps, Ordering::Relaxed);
                self.threads.push(Thread {
                    program: place,
                    number,
                    tid: tid as i32,
                    doing: Doing::Waiting(Wait::At {
                        time_ps: self.now_ps,
                    }),
                    has_connected: false,
                    seen_ps: NEVER_PS,
                    order: 0,
                    woken: None,
                });
                let answer = Message::ThreadNumber {
                    number: number as u32,
                };
                send(&program.connection, &answer.to_bytes(), SendFlags::empty()).unwrap();
            }
            Message::Notify => {
                self.programs[place].interrupted_ps = self.now_ps;
                let bytes = message.to_bytes();
                send(&self.programs[place].connection, &bytes, SendFlags::empty()).unwrap();
            }
            Message::Card => {
                let bytes = Message::Found { host: place as u32 }.to_bytes();
                send(&self.programs[place].connection, &bytes, SendFlags::empty()).unwrap();
            }
            other => panic!("{other:?}"),
        }
    }

    fn page(&self, place: usize) -> &ThreadPage {
        let thread = &self.threads[place];
        &self.programs[thread.program].pages.pages().threads[thread.number]
    }

    /// Returns when a thread runs next, and with which answer.
    fn wakes(&self, place: usize) -> Option<(u64, u64)> {
        let thread = &self.threads[place];
        let Doing::Waiting(wait) = &thread.doing else {
            return None;
        };
        let page = self.page(place);
        let clock_ps = page.clock_ps.load(Ordering::Relaxed);
        let found = match wait {
            Wait::At { time_ps } => Some((*time_ps, u64::from(thread.has_connected))),
            Wait::External | Wait::Check | Wait::Room => Some((clock_ps, 0)),
            Wait::Return => Some((self.now_ps, 0)),
            Wait::OnInterrupt { wake_up_ps } => {
                let at_ps = self.programs[thread.program].interrupted_ps;
                (at_ps != NEVER_PS).then(|| (at_ps + wake_up_ps, 0))
            }
            Wait::OnStream { stream } => self.streams.get(stream)?.readable(clock_ps),
            Wait::OnConnection { port } => {
                let first = self.ports.get(port).and_then(VecDeque::front);
                first.map(|at_ps| (*at_ps, 1))
            }
            Wait::OnWrite { grid_ps, .. } => (thread.seen_ps != NEVER_PS).then(|| {
                let turns = thread.seen_ps.saturating_sub(clock_ps).div_ceil(*grid_ps);
                (clock_ps + turns * grid_ps, 0)
            }),
            Wait::OnAddress { .. } | Wait::AtBarrier { .. } => thread.woken,
            Wait::End | Wait::Cm(_) => None,
        };
        let until_ps = match wait {
            Wait::OnWrite {
                check: Check::EverythingUntil { time_ps },
                ..
            } => *time_ps,
            _ => NEVER_PS,
        };
        let deadline_ps = page.deadline_ps.load(Ordering::Relaxed).min(until_ps);
        let found = found.map(|(at_ps, answer)| (at_ps.max(clock_ps), answer));
        match found {
            Some((at_ps, _)) if at_ps <= deadline_ps => found,
            _ if deadline_ps == NEVER_PS => None,
            _ => Some((deadline_ps.max(clock_ps), u64::MAX)),
        }
    }

    /// Executes the next event. Returns false if there is none until `until_ps`.
    fn step(&mut self, until_ps: u64) -> bool {
        for place in 0..self.threads.len() {
            if self.threads[place].doing == Doing::Outside && self.page(place).turn() == Turn::World
            {
                self.take_turn_back(place);
            }
        }
        let next = (0..self.threads.len())
            .filter_map(|place| Some((self.wakes(place)?, place)))
            .min_by_key(|((at_ps, _), place)| (*at_ps, *place));
        let event = (0..self.events.len()).min_by_key(|place| self.events[*place].0);
        if let Some(event) = event {
            let at_ps = self.events[event].0;
            if at_ps <= until_ps && next.is_none_or(|((wakes_ps, _), _)| at_ps <= wakes_ps) {
                let (_, event) = self.events.remove(event);
                self.now_ps = self.now_ps.max(at_ps);
                self.happen(event);
                return true;
            }
        }
        let Some(((at_ps, answer), place)) = next.filter(|((at_ps, _), _)| *at_ps <= until_ps)
        else {
            return false;
        };
        self.now_ps = self.now_ps.max(at_ps);
        self.give_turn(place, at_ps, answer);
        true
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Write {
                program,
                address,
                value,
            } => {
                let local = [value];
                let pid = rustix::process::Pid::from_raw(self.programs[program].pid as i32);
                write_memory(pid.unwrap().as_raw_nonzero().get(), address, &local);
                for thread in self.threads.iter_mut().filter(|t| t.program == program) {
                    let Doing::Waiting(Wait::OnWrite { check, .. }) = &thread.doing else {
                        continue;
                    };
                    let sees = match check {
                        Check::Memory(range) => range.contains(&address),
                        Check::Everything | Check::EverythingUntil { .. } => true,
                        Check::Completions | Check::CompletionsUntil { .. } => false,
                    };
                    if sees {
                        thread.seen_ps = thread.seen_ps.min(self.now_ps);
                    }
                }
            }
            Event::Interrupt { program, vectors } => {
                let program = &mut self.programs[program];
                program.interrupts |= vectors;
                program.interrupted_ps = program.interrupted_ps.min(self.now_ps);
            }
        }
    }

    fn give_turn(&mut self, place: usize, at_ps: u64, answer: u64) {
        let program = self.threads[place].program;
        let interrupts = std::mem::take(&mut self.programs[program].interrupts);
        self.programs[program].interrupted_ps = NEVER_PS;
        let doing = self.threads[place].doing.clone();
        if let (Doing::Waiting(Wait::OnConnection { port }), 1) = (&doing, answer) {
            self.ports.get_mut(port).unwrap().pop_front();
        }
        let page = self.page(place);
        page.clock_ps.store(at_ps, Ordering::Relaxed);
        page.begun_ps.store(at_ps, Ordering::Relaxed);
        page.quiet_until_ps.store(at_ps, Ordering::Relaxed);
        page.answer.store(answer, Ordering::Relaxed);
        page.interrupts.store(interrupts, Ordering::Relaxed);
        page.stores.clear();
        page.pass(Turn::Thread);
        self.threads[place].seen_ps = NEVER_PS;
        if doing == Doing::Waiting(Wait::External) {
            self.threads[place].doing = Doing::Outside;
            return;
        }
        let begun = Instant::now();
        let mut probe = PROBE_AFTER;
        while self
            .page(place)
            .wait_while(Turn::Thread, 1000, Duration::from_millis(5))
            == Turn::Thread
        {
            self.serve();
            if self.threads[place].doing == Doing::Ended {
                return;
            }
            if begun.elapsed() > probe {
                probe *= 2;
                let (pid, tid) = (self.programs[program].pid as i32, self.threads[place].tid);
                // SAFETY: `tgkill` takes no pointers; the thread handles the signal.
                unsafe { libc::syscall(libc::SYS_tgkill, pid, tid, PROBE_SIGNAL) };
            }
            assert!(
                begun.elapsed() < LIMIT,
                "a turn takes too long: {}",
                self.dump()
            );
        }
        self.take_turn_back(place);
    }

    fn take_turn_back(&mut self, place: usize) {
        let program = self.threads[place].program;
        let page = self.page(place);
        let stores: Vec<Store> = page.stores.iter().collect();
        let wait = page.request.get().expect("a request");
        page.stores.clear();
        self.threads[place].has_connected = false;
        for store in stores {
            self.take_store(place, program, &store);
        }
        self.orders += 1;
        self.threads[place].order = self.orders;
        self.threads[place].woken = None;
        self.threads[place].doing = match wait.clone() {
            Wait::End => Doing::Ended,
            wait => Doing::Waiting(wait),
        };
        if let Wait::AtBarrier { threads, .. } = wait {
            self.open_barrier(place, program, &wait, threads);
        }
    }

    /// Lets all threads at a barrier continue if they are as many as it needs.
    fn open_barrier(&mut self, last: usize, program: usize, wait: &Wait, threads: u32) {
        let all: Vec<usize> = (0..self.threads.len())
            .filter(|place| {
                let thread = &self.threads[*place];
                let waits = thread.doing == Doing::Waiting(wait.clone());
                thread.program == program && waits && thread.woken.is_none()
            })
            .collect();
        if all.len() == threads as usize {
            let clock = |place: &usize| self.page(*place).clock_ps.load(Ordering::Relaxed);
            let at_ps = all.iter().map(clock).max().unwrap();
            for place in all {
                self.threads[place].woken = Some((at_ps, u64::from(place == last)));
            }
        }
    }

    /// Wakes threads of a program that wait for an address, the first one first.
    fn wake(&mut self, program: usize, store: &Store) {
        let (address, bits) = (store.words()[0], store.words()[1] as u32);
        let mut places: Vec<usize> = (0..self.threads.len()).collect();
        places.sort_by_key(|place| self.threads[*place].order);
        places.retain(|place| {
            let thread = &self.threads[*place];
            let is_wanted = |wait: &Wait| {
                matches!(wait, Wait::OnAddress { address: own, bits: needed }
                    if *own == address && needed & bits != 0)
            };
            let waits = matches!(&thread.doing, Doing::Waiting(wait) if is_wanted(wait));
            thread.program == program && waits && thread.woken.is_none()
        });
        for place in places.into_iter().take(store.slot as usize) {
            self.threads[place].woken = Some((store.at_ps, 0));
        }
    }

    fn take_store(&mut self, place: usize, program: usize, store: &Store) {
        let words = store.words();
        let arrival_ps = store.at_ps + STREAM_LATENCY_PS;
        match store.kind {
            StoreKind::Listen => {
                self.ports.insert(store.slot as u16, VecDeque::new());
            }
            StoreKind::Connect => {
                if let Some(port) = self.ports.get_mut(&(store.slot as u16)) {
                    port.push_back(arrival_ps);
                    self.threads[place].has_connected = true;
                }
            }
            StoreKind::Wake => self.wake(program, store),
            StoreKind::Notify => self.programs[program].interrupted_ps = store.at_ps,
            StoreKind::Accept => self.threads[place].has_connected = true,
            StoreKind::Send => {
                let stream = self.streams.entry(words[0]).or_default();
                if words[1] > 0 {
                    stream.arrivals.push_back((arrival_ps, words[1]));
                }
            }
            StoreKind::Receive => self.streams.get_mut(&words[0]).unwrap().received += words[1],
            StoreKind::Close => {
                let stream = self.streams.entry(words[0]).or_default();
                stream.closed_ps.get_or_insert(arrival_ps);
            }
            StoreKind::Register if store.slot == WRITE => {
                let (address, value) = (words[0], words[1] as u8);
                let event = Event::Write {
                    program,
                    address,
                    value,
                };
                self.events.push((store.at_ps + words[2], event));
            }
            StoreKind::Register if store.slot == INTERRUPT => {
                let vectors = words[0];
                let event = Event::Interrupt { program, vectors };
                self.events.push((store.at_ps + words[1], event));
            }
            other => panic!("{other:?}"),
        }
    }
}

fn write_memory(pid: i32, address: u64, bytes: &[u8]) {
    let local = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    let remote = libc::iovec {
        iov_base: std::ptr::without_provenance_mut(address as usize),
        iov_len: bytes.len(),
    };
    // SAFETY: `process_vm_writev` reads a local; the target belongs to another process.
    let written =
        unsafe { libc::process_vm_writev(pid, &raw const local, 1, &raw const remote, 1, 0) };
    assert_eq!(
        written,
        bytes.len() as isize,
        "{}",
        std::io::Error::last_os_error()
    );
}
