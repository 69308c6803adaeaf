//! A program's place in a simulated world.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use ferroce_driver::DeviceConfig;
use ferroce_driver::bus::own_user;
use ferroce_wire::{Gid, Mac};

use super::bus::TimedBus;
use super::library::{JoinError, Library};
use crate::error::Error;
use crate::host::HostIdentity;
use crate::world::identity;

/// Says whose world it is, if that is why it was not joined.
fn with_users(error: JoinError, socket: &Path) -> JoinError {
    match (error, fs::metadata(socket)) {
        (JoinError::Os(libc::EPERM | libc::EACCES), Ok(file)) => JoinError::OtherUser {
            world: file.uid(),
            program: own_user(),
        },
        (error, _) => error,
    }
}

/// That this program is on a host of a world.
#[derive(Debug, Clone)]
pub struct Membership {
    library: Library,
    socket: PathBuf,
}

impl Membership {
    /// Joins the world whose control socket `FERROCE_WORLD` names, if this program has not done so
    /// yet. `None`: it names none, and the program has the time of the machine.
    ///
    /// # Errors
    /// [`Error::World`].
    pub fn from_environment() -> Result<Option<Self>, Error> {
        let socket = std::env::var_os("FERROCE_WORLD").filter(|path| !path.is_empty());
        let Some(socket) = socket.map(PathBuf::from) else {
            return Ok(None);
        };
        match Library::join() {
            Ok(library) => Ok(Some(Self { library, socket })),
            Err(error) => Err(Error::World {
                source: with_users(error, &socket),
                socket,
            }),
        }
    }

    /// Name and addresses of the host.
    pub fn identity(&self) -> HostIdentity {
        identity::of_host(self.library.host() as usize)
    }

    /// All addresses of all hosts.
    pub fn neighbours(&self) -> Vec<(Gid, Mac)> {
        let hosts = self.library.program().hosts.load(Ordering::Relaxed);
        let entries = |host: u32| {
            let entries = identity::of_host(host as usize).gids.into_iter();
            entries.map(|entry| (Gid(entry.gid), Mac(entry.mac)))
        };
        (0..hosts).flat_map(entries).collect()
    }

    /// The bus to the host's card.
    ///
    /// # Errors
    /// [`Error::WorldCard`].
    pub fn open_card(&self) -> Result<TimedBus, Error> {
        TimedBus::open(self.library, &self.socket).map_err(|source| Error::WorldCard {
            socket: self.socket.clone(),
            source,
        })
    }

    /// How the driver of such a card brings it up.
    pub fn device_config(&self) -> DeviceConfig {
        let push_inline_only = &self.library.program().push_inline_only;
        DeviceConfig {
            push_inline_only: push_inline_only.load(Ordering::Relaxed) != 0,
            ..DeviceConfig::default()
        }
    }

    /// The path MTU that the world's network has, in bytes.
    pub fn path_mtu_bytes(&self) -> u32 {
        let bytes = &self.library.program().path_mtu_bytes;
        bytes.load(Ordering::Relaxed)
    }

    /// The data rate of the card's port, in Mb/s.
    pub fn rate_mbps(&self) -> u32 {
        self.library.program().rate_mbps.load(Ordering::Relaxed)
    }

    /// `vendor_part_id` of the card, if the world knows it.
    pub fn part_id(&self) -> Option<u32> {
        let part_id = self.library.program().part_id.load(Ordering::Relaxed);
        (part_id != 0).then_some(part_id)
    }
}
