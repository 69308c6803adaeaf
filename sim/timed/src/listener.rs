//! The control socket: a program that connects gets a host, and returns it when the connection
//! ends, unless its process executes another program, which connects in its place.
//!
//! One thread serves it, so that a program is removed before the next one is added.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ferroce_linux::peer::Peer;
use ferroce_timed_protocol::VERSION;
use ferroce_timed_protocol::control::{Admission, Message, Refusal};
use ferroce_timed_protocol::host_name::HostName;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::{Mode, fchmod};
use rustix::io::{Errno, IoSlice};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, accept_with, bind, connect, listen, recv, sendmsg, socket_with,
};

use super::processes::{ExecutingProcesses, parent_of};
use super::program::{HostFacts, Origin, Program};
use super::shared::{Event, Shared};

/// Only the owner may use the socket.
const SOCKET_MODE: Mode = Mode::RUSR.union(Mode::WUSR);
/// Backlog of the socket.
const BACKLOG: i32 = 256;
/// Maximum number of connections at a time, including those that have not joined.
const MAX_CONNECTIONS: usize = 1024;
/// A world that ends with its last program waits this long for the first one.
const FIRST_PROGRAM: Duration = Duration::from_secs(60);

/// A connected process.
struct Connection {
    socket: OwnedFd,
    program: Option<Arc<Program>>,
    /// What the process has executed before. It keeps the turn until the program has a thread.
    predecessor: Option<Arc<Program>>,
}

impl Connection {
    /// Returns true if this was the connection of a process that has closed it.
    fn has_ended(&self, pid: u32) -> bool {
        let at_once = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let mut polled = [PollFd::new(&self.socket, PollFlags::empty())];
        let program = self.program.as_ref();
        program.is_some_and(|program| program.pid == pid)
            && poll(&mut polled, Some(&at_once)).is_ok_and(|ready| ready > 0)
    }
}

/// The control socket and its connections.
pub struct Listener {
    path: PathBuf,
    socket: OwnedFd,
    /// Readable when the world ends.
    stop: Arc<OwnedFd>,
    shared: Arc<Shared>,
    facts: Vec<HostFacts>,
    is_taken: Vec<bool>,
    /// Programs that have joined on each host.
    programs_of_host: Vec<u32>,
    connections: Vec<Connection>,
    executing: ExecutingProcesses,
    programs_so_far: u64,
    /// True if the world ends with its last program.
    is_once: bool,
}

impl Listener {
    /// Listens at `path`. `facts`: the facts of each host.
    ///
    /// # Errors
    /// `AddrInUse` if another world, or another file, is there. Otherwise the error of the system.
    pub fn open(
        path: &Path,
        shared: &Arc<Shared>,
        facts: Vec<HostFacts>,
        is_once: bool,
    ) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let new = || socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
        let address = SocketAddrUnix::new(path)?;
        let listener = new()?;
        // Linux creates the file with the mode of the socket.
        fchmod(&listener, SOCKET_MODE)?;
        match bind(&listener, &address) {
            Err(Errno::ADDRINUSE) if is_stale(path, &new()?, &address) => {
                fs::remove_file(path)?;
                bind(&listener, &address)?;
            }
            result => result?,
        }
        let listener = Self {
            path: path.to_path_buf(),
            socket: listener,
            stop: Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?),
            shared: Arc::clone(shared),
            is_taken: vec![false; facts.len()],
            programs_of_host: vec![0; facts.len()],
            facts,
            connections: Vec::new(),
            executing: ExecutingProcesses::default(),
            programs_so_far: 0,
            is_once,
        };
        listen(&listener.socket, BACKLOG)?;
        Ok(listener)
    }

    /// Returns an eventfd; writing to it ends [`Self::serve`].
    pub fn stop(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.stop)
    }

    /// Serves until the world ends: when [`Self::stop`] was signalled, or its last program has
    /// left.
    ///
    /// # Errors
    /// The error of the system.
    pub fn serve(mut self) -> io::Result<()> {
        let start = Instant::now();
        while !self.shared.is_stopping() {
            let waits_for_first = self.is_once && self.programs_so_far == 0;
            let limit = waits_for_first.then(|| FIRST_PROGRAM.saturating_sub(start.elapsed()));
            if limit.is_some_and(|limit| limit.is_zero()) {
                break;
            }
            let limits = [limit, self.executing.next_limit(Instant::now())];
            let (can_accept, ready) = self.wait(limits.into_iter().flatten().min())?;
            for place in ready.into_iter().rev() {
                self.receive(place);
            }
            for program in self.executing.take_ended(Instant::now()) {
                self.end(program);
            }
            if self.is_once && self.programs_so_far > 0 && !self.is_taken.contains(&true) {
                break;
            }
            if can_accept {
                self.accept();
            }
        }
        Ok(())
    }

    /// Waits for work. Returns whether a process connects, and the connections with a message.
    fn wait(&self, limit: Option<Duration>) -> io::Result<(bool, Vec<usize>)> {
        let own = [
            PollFd::new(&self.socket, PollFlags::IN),
            PollFd::new(&self.stop, PollFlags::IN),
        ];
        let others = self.connections.iter();
        let others = others.map(|connection| PollFd::new(&connection.socket, PollFlags::IN));
        let all = own.into_iter().chain(others);
        let mut all: Vec<_> = all.chain(self.executing.polled()).collect();
        let limit = limit.map(|limit| Timespec {
            tv_sec: limit.as_secs() as i64,
            tv_nsec: limit.subsec_nanos().into(),
        });
        match poll(&mut all, limit.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let is_ready = |entry: &PollFd<'_>| !entry.revents().is_empty();
        let ready = (0..self.connections.len()).filter(|place| is_ready(&all[place + 2]));
        Ok((is_ready(&all[0]), ready.collect()))
    }

    fn accept(&mut self) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // The process may have ended. With no descriptors left, a later call may succeed.
        let Ok(socket) = accept_with(&self.socket, flags) else {
            return;
        };
        if self.connections.len() < MAX_CONNECTIONS {
            self.connections.push(Connection {
                socket,
                program: None,
                predecessor: None,
            });
        }
    }

    /// Receives a message of a connection, or its end.
    fn receive(&mut self, place: usize) {
        let mut bytes = [0; Message::LENGTH + 1];
        let connection = &self.connections[place];
        let received = recv(&connection.socket, &mut bytes, RecvFlags::empty());
        let length = match received {
            Ok((length, _)) => length,
            Err(Errno::AGAIN | Errno::INTR) => return,
            Err(_) => 0,
        };
        if length == 0 {
            return self.hang_up(place);
        }
        let message = Message::of_bytes(&bytes[..length]);
        let is_welcome = match (message, connection.program.clone()) {
            (Some(Message::Join { version, .. }), None) if version != VERSION => {
                self.refuse(place, Refusal::Version)
            }
            (
                Some(Message::Join {
                    host, admission, ..
                }),
                None,
            ) => self.join(place, host, admission),
            (Some(Message::Card), Some(program)) => self.give_card(place, &program),
            (Some(Message::Find { version, host }), None) => {
                self.answer(place, self.find(version, host))
            }
            (Some(Message::Thread { tid }), Some(program)) => self.add_thread(place, &program, tid),
            (Some(wake @ Message::Wake { address }), Some(program)) => {
                self.shared.report(Event::Wake(program, address));
                self.send(place, wake, None)
            }
            (Some(Message::Notify), Some(program)) => {
                self.shared.report(Event::Notify(program));
                self.send(place, Message::Notify, None)
            }
            _ => false,
        };
        if !is_welcome {
            let connection = self.connections.swap_remove(place);
            for program in [connection.predecessor, connection.program] {
                program.into_iter().for_each(|program| self.end(program));
            }
        }
    }

    /// Refuses a program. Returns false: it has no further request.
    fn refuse(&self, place: usize, reason: Refusal) -> bool {
        self.send(place, Message::Refused { reason }, None);
        false
    }

    fn join(&mut self, place: usize, wanted: Option<HostName>, admission: Admission) -> bool {
        let peer = Peer::of(&self.connections[place].socket);
        // 0: a process of another PID namespace.
        let pid = peer.ok().and_then(|peer| peer.process).unwrap_or(0);
        let origin = self.origin(pid);
        let host = match &origin {
            Origin::Parent(other) | Origin::Predecessor(other)
                if wanted.is_none_or(|wanted| other.name.is_within(wanted)) =>
            {
                Ok(other.host)
            }
            Origin::Outside if admission == Admission::Members => Err(Refusal::NoMember),
            _ => self.find(VERSION, wanted),
        };
        if let Origin::Predecessor(earlier) = &origin {
            self.connections[place].predecessor = Some(Arc::clone(earlier));
        }
        tracing::debug!(pid, ?origin, ?wanted, ?host, "a program joins");
        let host = match host {
            Ok(host) => host,
            Err(reason) => return self.refuse(place, reason),
        };
        match self.admit(place, host, pid, &origin) {
            Ok(file) => self.send(place, Message::Joined { host: host as u32 }, Some(&file)),
            Err(error) => {
                tracing::warn!(%error, "a program cannot join");
                false
            }
        }
    }

    /// Returns where the program of a process comes from.
    fn origin(&mut self, pid: u32) -> Origin {
        let connections = self.connections.iter_mut();
        // The end of its connection may not have been received yet.
        let ended = connections
            .filter(|connection| connection.has_ended(pid))
            .find_map(|connection| connection.program.take());
        let earlier = ended.or_else(|| self.executing.take(pid));
        if let Some(earlier) = earlier {
            return Origin::Predecessor(earlier);
        }
        let parent = parent_of(pid);
        let mut programs = self.programs();
        let parent = programs.find(|program| Some(program.pid) == parent);
        parent.map_or(Origin::Outside, |parent| Origin::Parent(Arc::clone(parent)))
    }

    /// Returns the programs of the world.
    fn programs(&self) -> impl Iterator<Item = &Arc<Program>> {
        let connections = self.connections.iter();
        let connected = connections
            .flat_map(|connection| [&connection.program, &connection.predecessor])
            .flatten();
        connected.chain(self.executing.programs())
    }

    /// Gives a program the card of its host, unless another one has it.
    fn give_card(&self, place: usize, program: &Arc<Program>) -> bool {
        let is_owner = |other: &&Arc<Program>| {
            other.host == program.host && other.owns_card() && other.id != program.id
        };
        match self.programs().find(is_owner) {
            Some(owner) => {
                let reason = Refusal::Taken { pid: owner.pid };
                self.send(place, Message::Refused { reason }, None)
            }
            None => {
                program.give_card();
                let host = program.host as u32;
                self.send(place, Message::Found { host }, None)
            }
        }
    }

    /// Answers a launcher. Returns false: it has no further question.
    fn answer(&self, place: usize, host: Result<usize, Refusal>) -> bool {
        let message = match host {
            Ok(host) => Message::Found { host: host as u32 },
            Err(reason) => Message::Refused { reason },
        };
        self.send(place, message, None);
        false
    }

    /// Returns the first free host that matches `wanted`, for a program of this version.
    fn find(&self, version: u32, wanted: Option<HostName>) -> Result<usize, Refusal> {
        if version != VERSION {
            return Err(Refusal::Version);
        }
        let mut free = (0..self.facts.len()).filter(|host| !self.is_taken[*host]);
        let Some(wanted) = wanted else {
            return free.next().ok_or(Refusal::NoHost);
        };
        let is_wanted = |host: &usize| self.facts[*host].name.is_within(wanted);
        free.find(is_wanted).ok_or_else(|| self.refusal(wanted))
    }

    /// Returns why a program cannot have a host.
    fn refusal(&self, wanted: HostName) -> Refusal {
        let mut programs = self.programs();
        if let Some(program) = programs.find(|program| program.name.is_within(wanted)) {
            return Refusal::Taken { pid: program.pid };
        }
        let names = || self.facts.iter().map(|facts| facts.name);
        match names().filter(|name| name.host == wanted.host).count() {
            0 => {
                let last = names().map(|name| u32::from(name.host)).max();
                let hosts = last.map_or(0, |last| last + 1);
                Refusal::NoSuchHost { hosts }
            }
            functions => Refusal::NoSuchFunction {
                functions: functions as u32,
            },
        }
    }

    fn admit(
        &mut self,
        place: usize,
        host: usize,
        pid: u32,
        origin: &Origin,
    ) -> io::Result<OwnedFd> {
        self.programs_so_far += 1;
        let facts = &self.facts[host];
        let (program, file) = Program::new(self.programs_so_far, host, facts, pid, origin)?;
        program.set_earlier_programs(self.programs_of_host[host]);
        self.programs_of_host[host] += 1;
        let connection = &mut self.connections[place];
        connection.program = Some(Arc::new(program));
        self.is_taken[host] = true;
        Ok(file)
    }

    fn add_thread(&mut self, place: usize, program: &Arc<Program>, tid: u32) -> bool {
        let message = match program.add_thread(tid) {
            Some(number) => {
                // The world knows of the thread before its creator continues.
                self.shared
                    .report(Event::Thread(Arc::clone(program), number));
                match self.connections[place].predecessor.take() {
                    Some(earlier) => self.replace(earlier),
                    None => self.enter_into_parent(program),
                }
                Message::ThreadNumber {
                    number: number as u32,
                }
            }
            None => Message::Refused {
                reason: Refusal::NoThread,
            },
        };
        self.send(place, message, None)
    }

    /// Sends a message. Returns false if the receiver has ended or does not read its answers.
    fn send(&self, place: usize, message: Message, file: Option<&OwnedFd>) -> bool {
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let files: Vec<_> = file.iter().map(|file| file.as_fd()).collect();
        if !files.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(&files)) {
            return false;
        }
        let bytes = message.to_bytes();
        let sent = sendmsg(
            &self.connections[place].socket,
            &[IoSlice::new(&bytes)],
            &mut ancillary,
            SendFlags::NOSIGNAL,
        );
        sent.is_ok()
    }

    /// Ends what a process has executed before: its thread passes the turn to its successor.
    fn replace(&mut self, earlier: Arc<Program>) {
        earlier.note_end();
        self.shared.report(Event::Replaced(Arc::clone(&earlier)));
        earlier.end();
        self.note_room(earlier.host);
    }

    /// Notes whether a host has programs, after one has left it.
    fn note_room(&mut self, host: usize) {
        let is_taken = self.programs().any(|program| program.host == host);
        self.is_taken[host] = is_taken;
    }

    /// Lets the parent of a program know that it is in the world, with its first thread.
    fn enter_into_parent(&self, program: &Program) {
        let is_parent = |other: &&Arc<Program>| Some(other.pid) == program.parent;
        if !program.enter_into_parent() {
            return;
        }
        let parent = self.programs().find(is_parent);
        tracing::debug!(pid = program.pid, ?parent, "a child has joined");
        if let Some(parent) = parent {
            parent.children().add(program.pid);
        }
    }

    /// Removes a connection that its program has closed, or the kernel when the process has ended
    /// or executes another program.
    fn hang_up(&mut self, place: usize) {
        let connection = self.connections.swap_remove(place);
        for program in [connection.predecessor, connection.program] {
            let Some(program) = program else { continue };
            let may_return = !program.has_exited() && !program.is_over();
            if !(may_return && self.executing.add(&program, Instant::now())) {
                self.end(program);
            }
        }
    }

    /// Removes a program.
    fn end(&mut self, program: Arc<Program>) {
        tracing::debug!(?program, "a program has ended");
        program.end();
        self.note_room(program.host);
        self.shared.report(Event::Gone(program));
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Another process may have removed it.
        let _ = fs::remove_file(&self.path);
        self.programs().for_each(|program| program.end());
        self.shared.stop();
    }
}

/// Returns true if `path` is a socket on which no process listens.
fn is_stale(path: &Path, probe: &OwnedFd, address: &SocketAddrUnix) -> bool {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    is_socket && connect(probe, address) == Err(Errno::CONNREFUSED)
}
