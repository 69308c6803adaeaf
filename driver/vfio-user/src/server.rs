//! The server: one device for one client after the other.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, fchmod};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, socket_with};

use crate::capabilities::Capabilities;
use crate::device::Device;
use crate::door::Door;
use crate::error::Errno;
use crate::limit;
use crate::queue::Queue;
use crate::requester::{Requester, receive_all};
use crate::session::Session;
use crate::socket::{Patience, Socket};
use crate::stop::Stop;

/// How long a server that is short of something waits before it tries again.
const SHORTAGE_PAUSE: Duration = Duration::from_millis(100);

/// Who may use a socket: its owner.
const SOCKET_MODE: Mode = Mode::RUSR.union(Mode::WUSR);
/// Connections that the kernel keeps for us.
const BACKLOG: i32 = 128;

/// What a server offers.
#[derive(Debug, Clone, Copy)]
pub struct ServerOptions {
    /// Stated in its `VERSION` reply, and held; at most [`Capabilities::SUPPORTED`].
    /// `max_dma_maps` is for the device to hold.
    pub capabilities: Capabilities,
    /// How long a client may keep the device, and everybody else out, without using it.
    pub patience: Patience,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            capabilities: Capabilities {
                max_msg_fds: 8,
                max_data_xfer_size: limit::DATA_TRANSFER_SIZE_MAX,
                ..Capabilities::UNSTATED
            },
            patience: Patience {
                agreement: Some(limit::AGREEMENT_TIMEOUT),
                message: limit::MESSAGE_TIMEOUT,
            },
        }
    }
}

/// A socket on which a device is offered.
#[derive(Debug)]
pub struct Server {
    listener: UnixListener,
    path: PathBuf,
    options: ServerOptions,
}

impl Server {
    /// Listens on a socket at `path`, which only this user may connect to. A socket there that nobody listens on is replaced; one that
    /// is in use, and any other file, is `AddrInUse`. The socket is removed on drop.
    pub fn bind(path: &Path) -> io::Result<Self> {
        Self::bind_with(path, ServerOptions::default())
    }

    /// [`Server::bind`] with other options.
    pub fn bind_with(path: &Path, options: ServerOptions) -> io::Result<Self> {
        let listener = match listen(path) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_stale(path) => {
                fs::remove_file(path)?;
                listen(path)?
            }
            result => result?,
        };
        // A client may go between `poll` and `accept`.
        listener.set_nonblocking(true)?;
        Ok(Self {
            listener,
            path: path.to_path_buf(),
            options,
        })
    }

    /// Serves `device` to one client after the other until `stop`. A client that comes while
    /// another one is there is told so (`EBUSY`) and turned away.
    pub fn serve(&self, device: &dyn Device, stop: &Stop) -> io::Result<()> {
        let door = Door::default();
        let closing = Stop::new()?;
        thread::scope(|scope| {
            let admit = || door.admit_all(|| self.accept(stop, &closing));
            thread::Builder::new()
                .name("vfio-user-door".to_owned())
                .spawn_scoped(scope, admit)?;
            // Also when the device panics, or `scope` would wait for the other thread for ever.
            let _close = Close(&closing);
            while let Some(stream) = door.next()? {
                // What fails here is the connection; the next client may have more luck.
                if let Err(error) = serve_connection(stream, device, self.options, stop) {
                    tracing::warn!(%error, "a vfio-user client could not be served");
                }
            }
            Ok(())
        })
    }

    /// The next connection. `None`: stopped.
    fn accept(&self, stop: &Stop, closing: &Stop) -> io::Result<Option<UnixStream>> {
        loop {
            let (stopped, closed) = (stop.event(), closing.event());
            let mut events = [
                PollFd::new(&stopped, PollFlags::IN),
                PollFd::new(&closed, PollFlags::IN),
                PollFd::new(&self.listener, PollFlags::IN),
            ];
            rustix::io::retry_on_intr(|| poll(&mut events, None))?;
            if events[..2].iter().any(|event| !event.revents().is_empty()) {
                return Ok(None);
            }
            match self.listener.accept() {
                Ok((stream, _)) => return Ok(Some(stream)),
                Err(error) if is_of_one_client(&error) => {}
                // Clients that go give back what is short.
                Err(error) if is_shortage(&error) => thread::sleep(SHORTAGE_PAUSE),
                Err(error) => return Err(error),
            }
        }
    }
}

/// Stops on drop.
struct Close<'a>(&'a Stop);

impl Drop for Close<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Somebody else may have removed it.
        let _ = fs::remove_file(&self.path);
    }
}

/// Listens on a socket that has its mode from the first moment on: Linux makes the file with that of
/// the socket (unix(7)), less the process's mask.
fn listen(path: &Path) -> io::Result<UnixListener> {
    let address = SocketAddrUnix::new(path).map_err(|_| io::ErrorKind::InvalidInput)?;
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    fchmod(&socket, SOCKET_MODE)?;
    bind(&socket, &address)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

/// A socket that nobody listens on.
fn is_stale(path: &Path) -> bool {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    let refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    is_socket && UnixStream::connect(path).is_err_and(refused)
}

/// An `accept` that failed because of the client, which has gone again.
fn is_of_one_client(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted
    )
}

/// An `accept` that failed because of something that this process or the system is short of.
fn is_shortage(error: &io::Error) -> bool {
    let shortages = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    Errno::from_io_error(error).is_some_and(|errno| shortages.contains(&errno))
}

/// Serves `device` on a connection that exists already, until the client goes or `stop`.
pub fn serve_connection(
    stream: UnixStream,
    device: &dyn Device,
    options: ServerOptions,
    stop: &Stop,
) -> io::Result<()> {
    let capabilities = options.capabilities.supported();
    let socket = Arc::new(Socket::new(
        stream,
        capabilities.max_msg_fds,
        options.patience,
    )?);
    stop.watch(&socket);
    let requester = Arc::new(Requester::new(Arc::clone(&socket)));
    let commands = Queue::default();
    thread::scope(|scope| {
        let receive = || receive_all(&socket, &requester, &commands);
        let receiver = thread::Builder::new()
            .name("vfio-user-recv".to_owned())
            .spawn_scoped(scope, receive)?;
        // Also when the device panics, or `scope` would wait for the other thread for ever.
        let end = End(&socket, &commands);
        Session::new(device, &socket, &requester, capabilities).run(&commands);
        drop(end);
        // `scope` waits for what a thread does, not for its end.
        receiver.join().unwrap_or_else(|panic| resume_unwind(panic));
        Ok(())
    })
}

/// Ends a connection on drop.
struct End<'a>(&'a Socket, &'a Queue);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.shut_down();
        self.1.close();
    }
}
