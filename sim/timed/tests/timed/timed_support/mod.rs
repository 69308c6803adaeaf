//! Programs that use the pages of a world by hand, and the bus of their card.

use std::collections::HashMap;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ferroce_driver::bus::BufferPages;
use ferroce_driver::bus::{Bus, BusError, DmaMapping, InterruptHandler};
use ferroce_model::preset::Preset;
use ferroce_spec::register::{VECTOR_COUNT, offset};
use ferroce_test_support::{
    Deadline, TIMEOUT, TemporaryDirectory, temporary_directory, time_limit,
};
use ferroce_timed::{Lifetime, TimedWorld};
use ferroce_timed_protocol::VERSION;
use ferroce_timed_protocol::control::{Admission, Message, Refusal, card_socket};
use ferroce_timed_protocol::host_name::HostName;
use ferroce_timed_protocol::map::SharedPages;
use ferroce_timed_protocol::page::{NEVER_PS, ProgramPages, ThreadPage, Turn};
use ferroce_timed_protocol::request::Wait;
use ferroce_timed_protocol::store::StoreKind;
use ferroce_vfio_user_bus::VfioUser;
use ferroce_world::WorldConfig;
use rustix::io::IoSliceMut;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, connect, recvmsg, send, socket_with, sockopt,
};

/// Returns a real time limit that no operation may exceed.
pub fn limit() -> Duration {
    time_limit(TIMEOUT)
}

/// A world on its own socket, and the folder of that socket.
pub struct TestWorld {
    pub world: Option<TimedWorld>,
    pub path: PathBuf,
    _folder: TemporaryDirectory,
}

impl TestWorld {
    pub fn new(name: &str, hosts: usize) -> Self {
        Self::start(name, false, config(hosts))
    }

    pub fn start(name: &str, is_once: bool, config: WorldConfig) -> Self {
        let lifetime = Lifetime {
            is_once,
            ..Lifetime::default()
        };
        Self::start_for(name, lifetime, config)
    }

    pub fn start_for(name: &str, lifetime: Lifetime, config: WorldConfig) -> Self {
        let folder = temporary_directory(name);
        let path = folder.join("world");
        let world = TimedWorld::start(config, &path, lifetime).expect("a world");
        Self {
            world: Some(world),
            path,
            _folder: folder,
        }
    }
}

impl Drop for TestWorld {
    fn drop(&mut self) {
        // The world uses the folder until it ends.
        drop(self.world.take());
    }
}

pub fn config(hosts: usize) -> WorldConfig {
    WorldConfig::timed(Preset::load("cx5-100g").expect("built in"), hosts)
}

/// A program that has joined, or is about to.
pub struct Program {
    socket: OwnedFd,
    pub pages: Arc<SharedPages>,
    file: Arc<OwnedFd>,
    pub host: u32,
    path: PathBuf,
}

fn open(path: &Path) -> OwnedFd {
    let socket = socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    );
    let socket = socket.expect("a socket");
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(limit())).expect("an option");
    let address = SocketAddrUnix::new(path).expect("a short path");
    connect(&socket, &address).expect("the world listens");
    socket
}

/// Sends a request and returns the answer. `None`: the world has hung up.
fn ask(socket: &OwnedFd, message: Message) -> Option<(Message, Option<OwnedFd>)> {
    send(socket, &message.to_bytes(), SendFlags::NOSIGNAL).expect("it listens");
    let mut bytes = [0; Message::LENGTH];
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(
        socket,
        &mut [IoSliceMut::new(&mut bytes)],
        &mut ancillary,
        RecvFlags::CMSG_CLOEXEC,
    );
    let length = received.expect("an answer in time").bytes;
    let message = Message::of_bytes(&bytes[..length])?;
    let file = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    Some((message, file))
}

pub fn try_join(path: &Path, version: u32) -> Result<Program, Option<Refusal>> {
    try_join_host(path, version, None)
}

pub fn try_join_host(
    path: &Path,
    version: u32,
    host: Option<HostName>,
) -> Result<Program, Option<Refusal>> {
    let socket = open(path);
    let admission = Admission::Any;
    let question = Message::Join {
        version,
        host,
        admission,
    };
    match ask(&socket, question) {
        Some((Message::Joined { host }, Some(file))) => Ok(Program {
            socket,
            pages: Arc::new(SharedPages::map(&file).expect("sealed")),
            file: Arc::new(file),
            host,
            path: path.to_path_buf(),
        }),
        Some((Message::Refused { reason }, None)) => Err(Some(reason)),
        None => Err(None),
        Some(other) => panic!("{other:?}"),
    }
}

/// Joins on a given host.
pub fn join_host(path: &Path, host: &str) -> Result<Program, Refusal> {
    let host = host.parse().expect("a name");
    let joined = try_join_host(path, VERSION, Some(host));
    joined.map_err(|refusal| refusal.expect("an answer"))
}

pub fn join(path: &Path) -> Program {
    try_join(path, VERSION).expect("there is a host")
}

impl Program {
    /// Adds a thread of the program, for the calling thread.
    pub fn thread(&self) -> ProgramThread {
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        match ask(&self.socket, Message::Thread { tid }) {
            Some((Message::ThreadNumber { number }, None)) => ProgramThread {
                pages: Arc::clone(&self.pages),
                file: Arc::clone(&self.file),
                number: number as usize,
            },
            other => panic!("{other:?}"),
        }
    }

    /// Sends bytes that the world does not expect.
    pub fn say(&self, bytes: &[u8]) {
        send(&self.socket, bytes, SendFlags::NOSIGNAL).expect("it listens");
    }

    /// Returns the card, for the thread `thread`.
    pub fn card(&self, thread: &ProgramThread) -> Arc<PagedBus> {
        let answer = ask(&self.socket, Message::Card);
        assert!(matches!(answer, Some((Message::Found { .. }, None))));
        let inner = VfioUser::open(&card_socket(&self.path, self.host)).expect("it is served");
        Arc::new(PagedBus {
            inner,
            handlers: Mutex::default(),
            thread: thread.clone(),
        })
    }
}

/// A thread of a program.
#[derive(Clone)]
pub struct ProgramThread {
    pub pages: Arc<SharedPages>,
    file: Arc<OwnedFd>,
    pub number: usize,
}

impl ProgramThread {
    pub fn page(&self) -> &ThreadPage {
        &self.pages.pages().threads[self.number]
    }

    /// Waits for the turn. Returns false if there is none any more.
    pub fn await_turn(&self) -> bool {
        let deadline = Deadline::new("a turn", TIMEOUT);
        loop {
            match self.page().wait_while(Turn::World, 400, limit()) {
                Turn::Thread => {
                    let begun = self.page().begun_ps.load(Ordering::Relaxed);
                    self.page().clock_ps.fetch_max(begun, Ordering::Relaxed);
                    return true;
                }
                Turn::Ended => return false,
                Turn::World => deadline.check(),
            }
        }
    }

    pub fn now(&self) -> u64 {
        self.page().clock_ps.load(Ordering::Relaxed)
    }

    pub fn spend(&self, time_ps: u64) {
        self.page().calls.fetch_add(1, Ordering::Relaxed);
        self.page().clock_ps.fetch_add(time_ps, Ordering::Relaxed);
    }

    pub fn store(&self, kind: StoreKind, slot: u32, words: &[u64]) {
        let is_room = self.page().stores.add(kind, slot, self.now(), words);
        assert!(is_room, "the list is full");
    }

    /// Passes the turn.
    pub fn give(&self, wait: &Wait) {
        self.page().calls.fetch_add(1, Ordering::Relaxed);
        self.page().request.set(wait);
        assert!(self.page().pass(Turn::World));
    }

    /// Does the same as [`Self::give`], with any request.
    pub fn give_raw(&self, kind: u64, arguments: [u64; 4]) {
        let start = std::mem::offset_of!(ProgramPages, threads)
            + self.number * size_of::<ThreadPage>()
            + std::mem::offset_of!(ThreadPage, request);
        let words = [kind].into_iter().chain(arguments);
        let bytes: Vec<u8> = words.flat_map(u64::to_ne_bytes).collect();
        let written = rustix::io::pwrite(&*self.file, &bytes, start as u64);
        assert_eq!(written, Ok(bytes.len()));
        assert!(self.page().pass(Turn::World));
    }

    /// Passes the turn and waits for it. `None`: there is none any more.
    pub fn try_wait(&self, wait: &Wait) -> Option<u64> {
        self.give(wait);
        self.await_turn()
            .then(|| self.page().answer.load(Ordering::Relaxed))
    }

    pub fn wait(&self, wait: &Wait) -> u64 {
        self.try_wait(wait).expect("the world goes on")
    }

    /// Does the same as [`Self::wait`], until `deadline_ps` at the latest.
    pub fn wait_until(&self, wait: &Wait, deadline_ps: u64) -> u64 {
        let deadline = &self.page().deadline_ps;
        deadline.store(deadline_ps, Ordering::Relaxed);
        let answer = self.wait(wait);
        deadline.store(NEVER_PS, Ordering::Relaxed);
        answer
    }

    pub fn sleep_until(&self, time_ps: u64) {
        self.wait(&Wait::At { time_ps });
    }

    /// Ends the thread.
    pub fn end(&self) {
        assert_eq!(self.try_wait(&Wait::End), None);
    }
}

/// The bus of a card whose doorbells go through the pages of a thread.
pub struct PagedBus {
    inner: VfioUser,
    handlers: Mutex<HashMap<u16, InterruptHandler>>,
    thread: ProgramThread,
}

impl PagedBus {
    /// Calls the handlers of pending interrupts. Returns true if there were any.
    pub fn handle_interrupts(&self) -> bool {
        let vectors = self.thread.page().interrupts.load(Ordering::Relaxed);
        let handlers = self.handlers.lock().expect("sound").clone();
        let is_set = |vector: u16| vectors >> vector & 1 != 0;
        let called = handlers.iter().filter(|(vector, _)| is_set(**vector));
        called.map(|(_, handler)| handler()).count() > 0
    }
}

impl Bus for PagedBus {
    fn read32(&self, offset: u32) -> u32 {
        self.inner.read32(offset)
    }

    fn write32(&self, offset: u32, value: u32) {
        let first = offset::event_queue_doorbell;
        if (first..first + 4 * u32::from(VECTOR_COUNT)).contains(&offset) {
            self.thread
                .store(StoreKind::Register, offset, &[value.into()]);
        } else {
            self.inner.write32(offset, value);
        }
    }

    fn read64(&self, offset: u32) -> u64 {
        self.inner.read64(offset)
    }

    fn write64(&self, offset: u32, value: u64) {
        self.inner.write64(offset, value);
    }

    fn doorbell(&self, slot: u32, value: u64) {
        self.thread.store(StoreKind::Doorbell, slot, &[value]);
    }

    fn read_device_memory(&self, offset: u64, destination: &mut [u8]) {
        self.inner.read_device_memory(offset, destination);
    }

    fn write_device_memory(&self, offset: u64, source: &[u8]) {
        self.inner.write_device_memory(offset, source);
    }

    fn allocate(&self, length: usize) -> Result<BufferPages, BusError> {
        self.inner.allocate(length)
    }

    fn log_page_size(&self, address: usize, length: usize, page_sizes: u64) -> u8 {
        self.inner.log_page_size(address, length, page_sizes)
    }

    fn now(&self) -> Duration {
        self.inner.now()
    }

    fn map(&self, mapping: &DmaMapping) -> Result<(), BusError> {
        self.inner.map(mapping)
    }

    fn unmap(&self, iova: u64, length: usize) -> Result<(), BusError> {
        self.inner.unmap(iova, length)
    }

    fn iova_range(&self) -> Range<u64> {
        self.inner.iova_range()
    }

    fn set_interrupt_handler(
        &self,
        vector: u16,
        handler: Option<InterruptHandler>,
    ) -> Result<(), BusError> {
        assert!(vector < VECTOR_COUNT);
        let mut handlers = self.handlers.lock().expect("sound");
        match handler {
            Some(handler) => handlers.insert(vector, handler),
            None => handlers.remove(&vector),
        };
        Ok(())
    }

    fn is_gone(&self) -> bool {
        self.inner.is_gone()
    }

    fn relax(&self) {
        std::hint::spin_loop();
    }
}
