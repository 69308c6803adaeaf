//! The server: offers one device to one client after the other.

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

use crate::admission::Admission;
use crate::capabilities::Capabilities;
use crate::device::Device;
use crate::error::Errno;
use crate::limit;
use crate::queue::Queue;
use crate::requester::{Requester, receive_all};
use crate::session::Session;
use crate::socket::{Socket, Timeouts};
use crate::stop::Stop;

/// Pause of a server after a shortage of resources, before it tries again.
const SHORTAGE_PAUSE: Duration = Duration::from_millis(100);

/// Mode of a socket: only its owner may connect.
const SOCKET_MODE: Mode = Mode::RUSR.union(Mode::WUSR);
/// Pending connections that the kernel queues for the server.
const BACKLOG: i32 = 128;

/// Options of a server.
#[derive(Debug, Clone, Copy)]
pub struct ServerOptions {
    /// Capabilities stated in its `VERSION` reply and enforced; at most
    /// [`Capabilities::SUPPORTED`]. The device enforces `max_dma_maps`.
    pub capabilities: Capabilities,
    /// Time limits for an idle client, which blocks all other clients.
    pub timeouts: Timeouts,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            capabilities: Capabilities {
                max_msg_fds: 8,
                max_data_xfer_size: limit::DATA_TRANSFER_SIZE_MAX,
                ..Capabilities::UNSTATED
            },
            timeouts: Timeouts {
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
    /// Listens on a socket at `path`, which only this user may connect to. An existing socket
    /// without a listener is replaced; one that is in use, and any other file, is `AddrInUse`. The
    /// socket is removed on drop.
    pub fn bind(path: &Path) -> io::Result<Self> {
        Self::bind_with(path, ServerOptions::default())
    }

    /// Listens like [`Server::bind`], with other options.
    pub fn bind_with(path: &Path, options: ServerOptions) -> io::Result<Self> {
        let listener = match listen(path) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_stale(path) => {
                fs::remove_file(path)?;
                listen(path)?
            }
            result => result?,
        };
        // A client may disconnect between `poll` and `accept`.
        listener.set_nonblocking(true)?;
        Ok(Self {
            listener,
            path: path.to_path_buf(),
            options,
        })
    }

    /// Serves `device` to one client after the other until `stop`. A client that connects while
    /// another one is served is refused with `EBUSY`.
    pub fn serve(&self, device: &dyn Device, stop: &Stop) -> io::Result<()> {
        let admission = Admission::default();
        let closing = Stop::new()?;
        thread::scope(|scope| {
            let admit = || admission.admit_all(|| self.accept(stop, &closing));
            thread::Builder::new()
                .name("vfio-user-accept".to_owned())
                .spawn_scoped(scope, admit)?;
            // Also when the device panics, or `scope` would wait for the other thread forever.
            let _close = Close(&closing);
            while let Some(stream) = admission.next()? {
                // The failure concerns this connection only; the next client is served.
                if let Err(error) = serve_connection(stream, device, self.options, stop) {
                    tracing::warn!(%error, "a vfio-user client could not be served");
                }
            }
            Ok(())
        })
    }

    /// Waits for the next connection and returns it. `None`: stopped.
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
                // Clients that disconnect free resources.
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
        // Another process may have removed it.
        let _ = fs::remove_file(&self.path);
    }
}

/// Listens on a socket that has its mode from the beginning: Linux creates the file with the mode
/// of the socket (unix(7)), less the process's mask.
fn listen(path: &Path) -> io::Result<UnixListener> {
    let address = SocketAddrUnix::new(path).map_err(|_| io::ErrorKind::InvalidInput)?;
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    fchmod(&socket, SOCKET_MODE)?;
    bind(&socket, &address)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

/// Returns true if a socket has no listener.
fn is_stale(path: &Path) -> bool {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    let refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    is_socket && UnixStream::connect(path).is_err_and(refused)
}

/// Returns true if `accept` failed because the client has disconnected.
fn is_of_one_client(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted
    )
}

/// Returns true if `accept` failed because this process or the system is short of a resource.
fn is_shortage(error: &io::Error) -> bool {
    let shortages = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    Errno::from_io_error(error).is_some_and(|errno| shortages.contains(&errno))
}

/// Serves `device` on an existing connection, until the client disconnects or `stop`.
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
        options.timeouts,
    )?);
    stop.watch(&socket);
    let requester = Arc::new(Requester::new(Arc::clone(&socket)));
    let commands = Queue::default();
    thread::scope(|scope| {
        let receive = || receive_all(&socket, &requester, &commands);
        let receiver = thread::Builder::new()
            .name("vfio-user-recv".to_owned())
            .spawn_scoped(scope, receive)?;
        // Also when the device panics, or `scope` would wait for the other thread forever.
        let end = End(&socket, &commands);
        Session::new(device, &socket, &requester, capabilities).run(&commands);
        drop(end);
        // `scope` waits for a thread's closure, not for its end.
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
