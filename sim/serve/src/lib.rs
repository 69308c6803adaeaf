//! Functions for other processes: each is a PCI device behind a socket, in the vfio-user protocol.
//!
//! - [`config_space`]: PCI configuration space. [`bar`]: accesses that come as messages.
//! - [`client_memory`]: the client's mappings for DMA; [`client_file`]: the files of these
//!   mappings.
//! - [`process_memory`]: the client's address space, where the kernel allows opening it.
//! - [`interrupts`]: eventfds of the MSI-X vectors. [`device`]: execution of each message by a
//!   [`ferroce_platform::served::ServedModel`].
//!
//! One client at a time uses a function. When it disconnects, in any way, its mappings and
//! interrupts are removed, and the next client finds the function in its power-on state.
//!
//! The model runs in the function's background thread, which polls the doorbell pages that the
//! client maps, and in the thread that reads the socket.

pub mod bar;
pub mod client_file;
pub mod client_memory;
pub mod config_space;
pub mod device;
pub mod interrupts;
pub mod process_memory;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use device::ServedDevice;
use ferroce_embed::error::Error;
use ferroce_embed::function::{Function, Options};
use ferroce_vfio_user::{Capabilities, Server, ServerOptions, Stop};

/// Reason why a function is not served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The function cannot be opened.
    #[error(transparent)]
    Function(#[from] Error),
    /// Its socket cannot be created.
    #[error("{path}: {reason}", path = .path.display())]
    Socket {
        /// Path of the socket.
        path: PathBuf,
        /// The cause and the remedy.
        reason: String,
    },
    /// The system has no thread or descriptor for it.
    #[error("cannot start to serve: {0}")]
    System(#[from] io::Error),
}

/// One function on its socket.
#[derive(Debug)]
pub struct ServedFunction {
    path: PathBuf,
    function: Arc<Function>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl ServedFunction {
    /// Returns its socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the function.
    pub fn function(&self) -> &Function {
        &self.function
    }
}

/// Functions that are served until this is dropped.
#[derive(Debug)]
pub struct Serving {
    functions: Vec<ServedFunction>,
    stop: Stop,
}

impl Serving {
    /// Serves a function on each of the sockets.
    ///
    /// # Errors
    /// [`ServeError`]; then nothing is served, and no socket remains.
    pub fn start(functions: Vec<(PathBuf, Options)>) -> Result<Self, ServeError> {
        let mut serving = Self {
            functions: Vec::new(),
            stop: Stop::new()?,
        };
        // All sockets first: a conflict with a running server is reported before any model is
        // opened.
        let servers: Vec<Server> = functions
            .iter()
            .map(|(path, _)| bind(path))
            .collect::<Result<_, _>>()?;
        for (server, (path, options)) in servers.into_iter().zip(functions) {
            let function = Function::open_with(&Options {
                is_served: true,
                ..options
            })?;
            let thread = start_one(server, &function, serving.stop.clone())?;
            serving.functions.push(ServedFunction {
                path,
                function,
                thread: Some(thread),
            });
        }
        Ok(serving)
    }

    /// Returns the functions.
    pub fn functions(&self) -> &[ServedFunction] {
        &self.functions
    }

    /// Returns true if one of the functions is no longer served although it was not ended.
    pub fn has_failed(&self) -> bool {
        let mut threads = self.functions.iter().map(|served| &served.thread);
        threads.any(|thread| thread.as_ref().is_none_or(JoinHandle::is_finished))
    }

    /// Ends the service: clients are disconnected, and the sockets removed.
    ///
    /// # Errors
    /// The reason why a function stopped being served.
    pub fn end(mut self) -> io::Result<()> {
        self.join()
    }

    fn join(&mut self) -> io::Result<()> {
        self.stop.stop();
        let threads = self.functions.iter_mut().map(|served| served.thread.take());
        let results: Vec<_> = threads.flatten().map(JoinHandle::join).collect();
        results.into_iter().try_for_each(|result| {
            result.unwrap_or_else(|_| Err(io::Error::other("the serving thread has panicked")))
        })
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        if let Err(error) = self.join() {
            tracing::error!(%error, "a function was not served to the end");
        }
    }
}

/// Returns the socket of function `number` of `count`: `path` itself if it is the only one.
#[must_use]
pub fn socket_path(path: &Path, number: u8, count: u8) -> PathBuf {
    if count == 1 {
        return path.to_path_buf();
    }
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    PathBuf::from(name)
}

/// Listens on the socket of a function.
///
/// # Errors
/// [`ServeError::Socket`].
pub fn bind(path: &Path) -> Result<Server, ServeError> {
    let refused = |reason: String| ServeError::Socket {
        path: path.to_path_buf(),
        reason,
    };
    let options = ServerOptions {
        capabilities: Capabilities {
            max_dma_maps: client_memory::MAX_MAPPINGS,
            ..ServerOptions::default().capabilities
        },
        ..ServerOptions::default()
    };
    Server::bind_with(path, options).map_err(|error| {
        refused(match error.kind() {
            io::ErrorKind::AddrInUse => {
                "a server listens there already, or it is no socket; end it, remove it, or choose \
                 another path"
                    .to_owned()
            }
            io::ErrorKind::NotFound => "the folder of the socket does not exist".to_owned(),
            io::ErrorKind::InvalidInput => {
                "the path of a socket has 107 bytes at most; choose a shorter one".to_owned()
            }
            _ => format!("cannot listen there: {error}"),
        })
    })
}

fn start_one(
    server: Server,
    function: &Function,
    stop: Stop,
) -> io::Result<JoinHandle<io::Result<()>>> {
    let model = function.in_process().ok_or(io::ErrorKind::Unsupported)?;
    let (model, mac) = (model.clone(), function.host().mac);
    let builder = std::thread::Builder::new().name("ferroce-serve".to_owned());
    builder.spawn(move || server.serve(&ServedDevice::new(model, mac), &stop))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_numbered_when_there_are_several() {
        let path = Path::new("/run/x/sock");
        assert_eq!(socket_path(path, 0, 1), path);
        assert_eq!(socket_path(path, 0, 2), Path::new("/run/x/sock.0"));
        assert_eq!(socket_path(path, 1, 2), Path::new("/run/x/sock.1"));
    }

    #[test]
    fn what_is_in_the_way_of_a_socket_is_named() {
        let directory = ferroce_test_support::temporary_directory("serve-bind");
        let path = directory.path().join("sock");
        let message = |path: &Path| bind(path).expect_err("in the way").to_string();
        let server = bind(&path).expect("free");
        assert!(message(&path).contains("another path"));
        drop(server);
        assert!(!path.exists());
        drop(std::os::unix::net::UnixListener::bind(&path).expect("free"));
        drop(bind(&path).expect("the path is free"));
        std::fs::write(&path, "not a socket").expect("ours");
        assert!(message(&path).contains("no socket"));
        assert!(message(&directory.path().join("no/sock")).contains("folder"));
        assert!(message(&directory.path().join("x".repeat(108))).contains("107"));
    }
}
