//! The server: one device for one client after the other.

use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use crate::capabilities::Capabilities;
use crate::device::Device;
use crate::limit;
use crate::stop::Stop;

/// What a server offers.
#[derive(Debug, Clone, Copy)]
pub struct ServerOptions {
    /// Stated in its `VERSION` reply, and held.
    pub capabilities: Capabilities,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            capabilities: Capabilities {
                max_msg_fds: 8,
                max_data_xfer_size: limit::DATA_TRANSFER_SIZE_MAX,
                write_multiple: true,
                ..Capabilities::UNSTATED
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
    /// Listens on a socket at `path`. A socket there that nobody listens on is replaced; one that
    /// is in use, and any other file, is `AddrInUse`. The socket is removed on drop.
    pub fn bind(path: &Path) -> io::Result<Self> {
        Self::bind_with(path, ServerOptions::default())
    }

    /// [`Server::bind`] with other options.
    pub fn bind_with(path: &Path, options: ServerOptions) -> io::Result<Self> {
        Ok(Self {
            listener: UnixListener::bind(path)?,
            path: path.to_path_buf(),
            options,
        })
    }

    /// Serves `device` to one client after the other until `stop`. A second client waits until the
    /// first has gone.
    pub fn serve(&self, device: &dyn Device, stop: &Stop) -> io::Result<()> {
        let _ = (&self.listener, &self.path, self.options, device, stop);
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Serves `device` on a connection that exists already, until the client goes or `stop`.
pub fn serve_connection(
    stream: UnixStream,
    device: &dyn Device,
    options: ServerOptions,
    stop: &Stop,
) -> io::Result<()> {
    let _ = (stream, device, options, stop);
    Err(io::ErrorKind::Unsupported.into())
}
