//! The control socket: a program that connects gets a host, and returns it when the connection
//! ends.
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
use ferroce_timed_protocol::control::{Message, Refusal};
use ferroce_timed_protocol::host_name::HostName;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::{Mode, fchmod};
use rustix::io::{Errno, IoSlice};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, accept_with, bind, connect, listen, recv, sendmsg, socket_with,
};

use super::program::{HostFacts, Program};
use super::shared::{Event, Shared};

/// Only the owner may use the socket.
const SOCKET_MODE: Mode = Mode::RUSR.union(Mode::WUSR);
/// Backlog of the socket.
const BACKLOG: i32 = 64;
/// Maximum number of connections at a time, including those that have not joined.
const MAX_CONNECTIONS: usize = 256;
/// A world that ends with its last program waits this long for the first one.
const FIRST_PROGRAM: Duration = Duration::from_secs(60);

/// A connected process.
struct Connection {
    socket: OwnedFd,
    program: Option<Arc<Program>>,
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
    connections: Vec<Connection>,
    programs: u64,
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
            facts,
            connections: Vec::new(),
            programs: 0,
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
            let waits_for_first = self.is_once && self.programs == 0;
            let limit = waits_for_first.then(|| FIRST_PROGRAM.saturating_sub(start.elapsed()));
            if limit.is_some_and(|limit| limit.is_zero()) {
                break;
            }
            let (can_accept, ready) = self.wait(limit)?;
            for place in ready.into_iter().rev() {
                self.receive(place);
            }
            if self.is_once && self.programs > 0 && !self.is_taken.contains(&true) {
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
        let mut all: Vec<_> = own.into_iter().chain(others).collect();
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
        let message = Message::of_bytes(&bytes[..length]);
        let is_happy = match (message, connection.program.clone()) {
            (Some(Message::Join { version, host, .. }), None) => {
                self.join(place, self.find(version, host))
            }
            (Some(Message::Find { version, host }), None) => {
                self.answer(place, self.find(version, host))
            }
            (Some(Message::Thread { tid }), Some(program)) => self.add_thread(place, &program, tid),
            _ => false,
        };
        if !is_happy {
            self.hang_up(place);
        }
    }

    fn join(&mut self, place: usize, host: Result<usize, Refusal>) -> bool {
        let host = match host {
            Ok(host) => host,
            Err(reason) => {
                self.send(place, Message::Refused { reason }, None);
                return false;
            }
        };
        match self.admit(place, host) {
            Ok(file) => self.send(place, Message::Joined { host: host as u32 }, Some(&file)),
            Err(error) => {
                tracing::warn!(%error, "a program cannot join");
                false
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
        let programs = self.connections.iter();
        let mut programs = programs.filter_map(|connection| connection.program.as_ref());
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

    fn admit(&mut self, place: usize, host: usize) -> io::Result<OwnedFd> {
        let connection = &mut self.connections[place];
        // 0: a process of another PID namespace.
        let pid = Peer::of(&connection.socket)?.process.unwrap_or(0);
        self.programs += 1;
        let (program, file) = Program::new(self.programs, host, &self.facts[host], pid)?;
        connection.program = Some(Arc::new(program));
        self.is_taken[host] = true;
        Ok(file)
    }

    fn add_thread(&self, place: usize, program: &Arc<Program>, tid: u32) -> bool {
        let message = match program.add_thread(tid) {
            Some(number) => {
                // The world knows of the thread before its creator continues.
                self.shared
                    .report(Event::Thread(Arc::clone(program), number));
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

    fn hang_up(&mut self, place: usize) {
        let connection = self.connections.swap_remove(place);
        if let Some(program) = connection.program {
            program.end();
            self.is_taken[program.host] = false;
            self.shared.report(Event::Gone(program));
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Another process may have removed it.
        let _ = fs::remove_file(&self.path);
        for connection in &self.connections {
            if let Some(program) = &connection.program {
                program.end();
            }
        }
        self.shared.stop();
    }
}

/// Returns true if `path` is a socket on which no process listens.
fn is_stale(path: &Path, probe: &OwnedFd, address: &SocketAddrUnix) -> bool {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    is_socket && connect(probe, address) == Err(Errno::CONNREFUSED)
}
