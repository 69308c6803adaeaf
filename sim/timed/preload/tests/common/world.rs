//! The world: one thread that gives turns to the threads of one program, one after the other.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use ferroce_timed_protocol::VERSION;
use ferroce_timed_protocol::control::{Message, Refusal};
use ferroce_timed_protocol::map::SharedPages;
use ferroce_timed_protocol::page::{ThreadPage, Turn};
use ferroce_timed_protocol::request::Wait;
use ferroce_timed_protocol::store::Store;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, accept, bind, listen, recv, sendmsg, socket_with,
};

/// Time that the world waits for the turn before it checks the connection.
const STEP: Duration = Duration::from_millis(1);

/// Observations of the world about its program.
#[derive(Debug, Default)]
pub struct Seen {
    /// Number of turns given.
    pub turns: u32,
    /// The stores, each with its turn, and the time at which that turn began.
    pub stores: Vec<(u32, u64, Store)>,
}

/// A world for one program at a time. It ends when it is dropped.
pub struct World {
    path: PathBuf,
    has_ended: Arc<AtomicBool>,
    seen: Arc<Mutex<Seen>>,
    thread: Option<JoinHandle<()>>,
}

impl World {
    /// Starts one.
    pub fn start(name: &str) -> Self {
        Self::start_with(name, None)
    }

    /// Starts one that refuses programs.
    pub fn start_with(name: &str, refusal: Option<Refusal>) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let file = format!("ferroce-{}-{count}-{name}", std::process::id());
        let path = std::env::temp_dir().join(file);
        // Left over from a process of the same number.
        let _ = std::fs::remove_file(&path);
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let socket = socket_with(family, kind, SocketFlags::CLOEXEC, None).expect("a socket");
        bind(&socket, &SocketAddrUnix::new(&path).expect("a path")).expect("bound");
        listen(&socket, 4).expect("listens");
        let has_ended = Arc::new(AtomicBool::new(false));
        let sign = Arc::clone(&has_ended);
        let seen = Arc::new(Mutex::new(Seen::default()));
        let log = Arc::clone(&seen);
        let thread = std::thread::spawn(move || {
            while !sign.load(Ordering::Relaxed) {
                if is_readable(&socket, STEP) {
                    let connection = accept(&socket).expect("a program");
                    Program::new(connection, &socket, &sign, &log, refusal).serve();
                }
            }
        });
        Self {
            path,
            has_ended,
            seen,
            thread: Some(thread),
        }
    }

    /// Returns the path of the control socket.
    pub fn path(&self) -> &PathBuf {
        &self.path
    }

    /// Returns the observations so far.
    pub fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().expect("the world did not panic")
    }

    /// Ends the world without notice, as if it had been killed.
    pub fn kill(mut self) {
        self.stop();
    }

    fn stop(&mut self) {
        self.has_ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the world did not panic");
        }
        // It exists, unless the test has failed early.
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.stop();
        }
    }
}

fn is_readable(socket: &OwnedFd, limit: Duration) -> bool {
    let limit = Timespec {
        tv_sec: 0,
        tv_nsec: limit.subsec_nanos().into(),
    };
    let mut polled = [PollFd::new(socket, PollFlags::IN)];
    poll(&mut polled, Some(&limit)).is_ok_and(|count| count > 0)
}

/// A thread of the program.
struct Thread {
    number: usize,
    /// When it runs next. `None`: the world does not know.
    at_ps: Option<u64>,
}

struct Program<'a> {
    connection: OwnedFd,
    /// The socket at which other programs ask to join.
    others: &'a OwnedFd,
    world_has_ended: &'a AtomicBool,
    seen: &'a Mutex<Seen>,
    pages: SharedPages,
    threads: Vec<Thread>,
    count: usize,
    is_alive: bool,
    now_ps: u64,
}

impl<'a> Program<'a> {
    fn new(
        connection: OwnedFd,
        others: &'a OwnedFd,
        world_has_ended: &'a AtomicBool,
        seen: &'a Mutex<Seen>,
        refusal: Option<Refusal>,
    ) -> Self {
        let file = SharedPages::create().expect("memory");
        let pages = SharedPages::map(&file).expect("mapped");
        pages
            .pages()
            .program
            .version
            .store(VERSION, Ordering::Relaxed);
        let mut program = Self {
            connection,
            others,
            world_has_ended,
            seen,
            pages,
            threads: Vec::new(),
            count: 0,
            is_alive: true,
            now_ps: 0,
        };
        let Some(Message::Join { version, .. }) = program.receive() else {
            program.is_alive = false;
            return program;
        };
        assert_eq!(version, VERSION);
        if let Some(reason) = refusal {
            let refused = Message::Refused { reason };
            program.send(refused, &mut SendAncillaryBuffer::default());
            return program;
        }
        let files = [file.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(&files)));
        program.send(Message::Joined { host: 0 }, &mut ancillary);
        program
    }

    fn send(&self, message: Message, ancillary: &mut SendAncillaryBuffer) {
        let bytes = message.to_bytes();
        let bytes = [IoSlice::new(&bytes)];
        sendmsg(&self.connection, &bytes, ancillary, SendFlags::NOSIGNAL).expect("sent");
    }

    fn receive(&mut self) -> Option<Message> {
        let mut bytes = [0; Message::LENGTH];
        let mut buffer = IoSliceMut::new(&mut bytes);
        let length = recv(&self.connection, &mut *buffer, RecvFlags::empty())
            .map_or(0, |(length, _)| length);
        self.is_alive = length > 0;
        Message::of_bytes(&bytes[..length])
    }

    fn page(&self, number: usize) -> &ThreadPage {
        &self.pages.pages().threads[number]
    }

    /// Answers a request for a page, and notices the end of the connection. No other program joins.
    fn look_at_connection(&mut self, limit: Duration) {
        if !is_readable(&self.connection, limit) {
            if is_readable(self.others, Duration::ZERO) {
                drop(accept(self.others));
            }
            return;
        }
        let message = self.receive();
        if message == Some(Message::Card) {
            let found = Message::Found { host: 0 };
            self.send(found, &mut SendAncillaryBuffer::default());
        }
        if let Some(Message::Thread { tid }) = message {
            let number = self.count;
            self.count += 1;
            self.page(number).reset(tid);
            self.threads.push(Thread {
                number,
                at_ps: Some(self.now_ps),
            });
            let message = Message::ThreadNumber {
                number: number as u32,
            };
            self.send(message, &mut SendAncillaryBuffer::default());
        }
    }

    fn is_over(&self) -> bool {
        !self.is_alive || self.world_has_ended.load(Ordering::Relaxed)
    }

    fn serve(&mut self) {
        while !self.is_over() {
            self.look_for_returns();
            let next = self.threads.iter().enumerate();
            let next = next.filter_map(|(place, thread)| Some((thread.at_ps?, place)));
            match next.min() {
                Some((at_ps, place)) => self.run(place, at_ps),
                None => self.look_at_connection(STEP),
            }
        }
    }

    /// Resumes threads that were outside.
    fn look_for_returns(&mut self) {
        for place in 0..self.threads.len() {
            let thread = &self.threads[place];
            let page = self.page(thread.number);
            let is_back = page.turn() == Turn::World && page.request.get() == Some(Wait::Return);
            if thread.at_ps.is_none() && is_back {
                let now_ps = self.now_ps.max(page.clock_ps.load(Ordering::Relaxed));
                self.threads[place].at_ps = Some(now_ps);
            }
        }
    }

    fn run(&mut self, place: usize, at_ps: u64) {
        self.now_ps = self.now_ps.max(at_ps);
        let number = self.threads[place].number;
        let page = self.page(number);
        let clock_ps = page.clock_ps.load(Ordering::Relaxed).max(at_ps);
        page.clock_ps.store(clock_ps, Ordering::Relaxed);
        page.begun_ps.store(clock_ps, Ordering::Relaxed);
        page.quiet_until_ps.store(clock_ps, Ordering::Relaxed);
        page.stores.clear();
        page.pass(Turn::Thread);
        while self.page(number).wait_while(Turn::Thread, 100, STEP) == Turn::Thread {
            self.look_at_connection(Duration::ZERO);
            if self.is_over() {
                return;
            }
        }
        let page = self.page(number);
        {
            let mut seen = self.seen.lock().expect("no panic");
            seen.turns += 1;
            let turn = seen.turns;
            let stores = page.stores.iter().map(|store| (turn, clock_ps, store));
            seen.stores.extend(stores);
        }
        let clock_ps = page.clock_ps.load(Ordering::Relaxed);
        let deadline_ps = page.deadline_ps.load(Ordering::Relaxed);
        let at_ps = match page.request.get().expect("a request") {
            Wait::At { time_ps } => Some(time_ps.min(deadline_ps).max(clock_ps)),
            // Nothing ever comes.
            Wait::OnWrite { .. } | Wait::OnInterrupt { .. } => {
                (deadline_ps != u64::MAX).then_some(deadline_ps.max(clock_ps))
            }
            Wait::External => {
                page.pass(Turn::Thread);
                None
            }
            Wait::Check | Wait::Room => Some(clock_ps),
            Wait::Return => Some(self.now_ps.max(clock_ps)),
            Wait::End => {
                page.end();
                self.threads.remove(place);
                return;
            }
            other => panic!("{other:?} in this world"),
        };
        self.threads[place].at_ps = at_ps;
    }
}
