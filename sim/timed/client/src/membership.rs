//! The host of a program in a simulated world.

use std::fmt::Display;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ferroce_driver::DeviceConfig;
use ferroce_embed::Error;
use ferroce_embed::attached::{Attached, DeviceSource, Properties};
use ferroce_embed::error::AttachError;
use ferroce_host::numbered_hosts;
use ferroce_linux::peer::own_user;
use ferroce_platform::host::HostIdentity;
use ferroce_timed_protocol::host_name;
use ferroce_wire::{Gid, Mac};

use crate::bus::TimedBus;
use crate::library::{JoinError, Library};

/// The environment variable with the control socket of the world.
pub const WORLD_VARIABLE: &str = "FERROCE_WORLD";

/// Adds the two user IDs to the error, if they are the reason.
fn with_users(error: JoinError, socket: &Path) -> JoinError {
    match (error, fs::metadata(socket)) {
        (JoinError::Os(libc::EPERM | libc::EACCES), Ok(file)) => JoinError::OtherUser {
            world: file.uid(),
            program: own_user(),
        },
        (error, _) => error,
    }
}

/// The host of this program in a world.
#[derive(Debug, Clone)]
pub struct Membership {
    library: Library,
    socket: PathBuf,
}

impl Membership {
    /// Joins the world whose control socket `FERROCE_WORLD` names, on the host that `FERROCE_HOST`
    /// names, if this program has not joined. Without a name it gets the first free host. Returns
    /// `None` if the variable is not set: the program runs in real time.
    ///
    /// # Errors
    /// [`AttachError`].
    pub fn from_environment() -> Result<Option<Self>, AttachError> {
        let socket = std::env::var_os(WORLD_VARIABLE).filter(|path| !path.is_empty());
        let Some(socket) = socket.map(PathBuf::from) else {
            return Ok(None);
        };
        match Library::join() {
            Ok(library) => Ok(Some(Self { library, socket })),
            Err(error) => Err(not_joined(&socket, with_users(error, &socket))),
        }
    }

    /// Returns the time library.
    pub(crate) fn library(&self) -> Library {
        self.library
    }

    /// Returns the name and the addresses of the host.
    fn identity(&self) -> HostIdentity {
        numbered_hosts::of_host(self.library.host() as usize)
    }

    /// Returns all addresses of all hosts.
    fn neighbours(&self) -> Vec<(Gid, Mac)> {
        let hosts = self.library.program().hosts.load(Ordering::Relaxed);
        let entries = |host: u32| {
            let entries = numbered_hosts::of_host(host as usize).gids.into_iter();
            entries.map(|entry| (Gid(entry.gid), Mac(entry.mac)))
        };
        (0..hosts).flat_map(entries).collect()
    }

    /// Opens the host's card.
    fn open(&self) -> Result<Attached, AttachError> {
        self.library
            .request_card()
            .map_err(|error| not_joined(&self.socket, error))?;
        let bus = TimedBus::open(self.library, &self.socket)
            .map_err(|error| self.failure(&error, error.errno()))?;
        Ok(Attached {
            bus: Arc::new(bus),
            host: self.identity(),
            neighbours: self.neighbours(),
            config: self.device_config(),
            properties: self.properties(),
        })
    }

    /// Returns the configuration with which the driver brings up the card.
    fn device_config(&self) -> DeviceConfig {
        let push_inline_only = &self.library.program().push_inline_only;
        DeviceConfig {
            push_inline_only: push_inline_only.load(Ordering::Relaxed) != 0,
            ..DeviceConfig::default()
        }
    }

    fn properties(&self) -> Properties {
        let program = self.library.program();
        let part_id = program.part_id.load(Ordering::Relaxed);
        Properties {
            part_id: (part_id != 0).then_some(part_id),
            path_mtu_bytes: Some(program.path_mtu_bytes.load(Ordering::Relaxed)),
            rate_mbps: Some(program.rate_mbps.load(Ordering::Relaxed)),
        }
    }

    fn failure(&self, error: &dyn Display, errno: i32) -> AttachError {
        failure(&self.socket, error, errno)
    }
}

fn failure(socket: &Path, error: &dyn Display, errno: i32) -> AttachError {
    AttachError {
        reason: format!("FERROCE_WORLD={}: {error}", socket.display()),
        errno,
    }
}

/// Returns the error of a program that cannot join, with the host if that is the reason.
fn not_joined(socket: &Path, error: JoinError) -> AttachError {
    let is_host = matches!(error, JoinError::Host(_) | JoinError::HostName(_));
    match std::env::var(host_name::VARIABLE).ok().filter(|_| is_host) {
        Some(name) => {
            let reason = format!("{}={name}: {error}", host_name::VARIABLE);
            failure(socket, &reason, error.errno())
        }
        None => failure(socket, &error, error.errno()),
    }
}

/// The card of this program's host, if the environment names a world.
#[derive(Debug)]
pub struct WorldSource;

impl DeviceSource for WorldSource {
    fn identities(&self) -> Result<Option<Vec<HostIdentity>>, Error> {
        let membership = Membership::from_environment()?;
        Ok(membership.map(|membership| vec![membership.identity()]))
    }

    fn open(&self, device: u8) -> Result<Option<Attached>, Error> {
        match Membership::from_environment()? {
            None => Ok(None),
            Some(_) if device > 0 => Err(Error::NoSuchDevice { device, count: 1 }),
            Some(membership) => Ok(Some(membership.open()?)),
        }
    }
}
