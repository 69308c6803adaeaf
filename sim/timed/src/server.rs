//! A simulated world that other processes join.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use ferroce_host::numbered_hosts;
use ferroce_model::preset::Preset;
use ferroce_serve::device::ServedDevice;
use ferroce_serve::{ServeError, bind};
use ferroce_timed_protocol::MAX_PROGRAMS;
use ferroce_timed_protocol::control::card_socket;
use ferroce_timed_protocol::host_name::HostName;
use ferroce_vfio_user::{Server, Stop};
use ferroce_world::ServedCard;
use ferroce_world::trace::{self, SharedTrace};
use ferroce_world::{World, WorldConfig};

use super::card::Card;
use super::conductor::Conductor;
use super::listener::Listener;
use super::program::HostFacts;
use super::shared::Shared;

/// An odd number without pattern (2^64 divided by the golden ratio).
const SEED_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Time limit for the end of an earlier world at the same path.
const PREDECESSOR: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(10);

/// When the clock of a world begins, and when the world ends.
#[derive(Debug, Clone, Copy, Default)]
pub struct Lifetime {
    /// True if the world ends with its last program.
    pub is_once: bool,
    /// The clock stands still until this many programs have joined; 0: it runs from the start.
    pub held_for: usize,
}

/// The cards of all hosts.
type Models = Vec<Arc<dyn ServedCard>>;

/// Reason why a world cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The world cannot be created.
    #[error(transparent)]
    World(#[from] ferroce_world::Error),
    /// More programs than a world has room for.
    #[error("a world that programs join has at most {MAX_PROGRAMS} hosts")]
    Hosts,
    /// The clock would never start.
    #[error("time is to begin with {programs} programs, and the world has room for {hosts}")]
    HeldForever {
        /// Programs to wait for.
        programs: usize,
        /// Hosts of the world.
        hosts: usize,
    },
    /// Programs need a preset to run in simulated time.
    #[error("programs need a preset: a card in simulated time")]
    Functional,
    /// The control socket cannot be created.
    #[error("{path}: {source}", path = .path.display())]
    Socket {
        /// Path of the socket.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A card cannot be served.
    #[error(transparent)]
    Card(#[from] ServeError),
    /// The system has no thread or no descriptor left.
    #[error("cannot start: {0}")]
    System(#[from] io::Error),
}

/// A world that other processes join, until this is dropped.
#[derive(Debug)]
pub struct TimedWorld {
    shared: Arc<Shared>,
    stop_listener: Option<Arc<OwnedFd>>,
    stop_cards: Stop,
    threads: Vec<JoinHandle<()>>,
}

impl TimedWorld {
    /// Starts a world with a control socket at `path`, and the sockets of its cards beside it.
    ///
    /// # Errors
    /// [`enum@Error`]; no socket is left then.
    pub fn start(config: WorldConfig, path: &Path, lifetime: Lifetime) -> Result<Self, Error> {
        Self::start_recorded(config, path, lifetime, None)
    }

    /// Does the same as [`TimedWorld::start`], and records all events with `record`.
    ///
    /// # Errors
    /// The errors of [`TimedWorld::start`].
    pub fn start_recorded(
        config: WorldConfig,
        path: &Path,
        lifetime: Lifetime,
        record: Option<SharedTrace>,
    ) -> Result<Self, Error> {
        let Lifetime { is_once, held_for } = lifetime;
        let hosts = config.hosts;
        if hosts > MAX_PROGRAMS {
            return Err(Error::Hosts);
        }
        if held_for > hosts {
            let programs = held_for;
            return Err(Error::HeldForever { programs, hosts });
        }
        let presets: Option<Vec<Preset>> = (0..config.hosts)
            .map(|host| config.preset_of(host).cloned())
            .collect();
        let presets = presets.ok_or(Error::Functional)?;
        let names: Vec<HostName> = (0..config.hosts).map(|host| name(&config, host)).collect();
        let shared = Arc::new(Shared::new(config.hosts));
        let persistent = (0..hosts).map(|host| config.persistent_of(host));
        let persistent = persistent.map(|memory| memory.map(|memory| memory.identity));
        let persistent: Vec<_> = persistent.collect();
        let seed = config.seed;
        let is_recorded = record.is_some();
        let conducted = Conducted {
            config,
            names: names.clone(),
            presets: presets.clone(),
            held_for,
        };
        let (models, conductor) = start_conductor(conducted, &shared, record)?;
        let facts = names.into_iter().zip(&presets).zip(&models).enumerate();
        let facts = facts.map(|(host, ((name, preset), model))| {
            let seed = seed.wrapping_add(host as u64).wrapping_mul(SEED_STEP);
            HostFacts {
                is_recorded,
                persistent: persistent[host],
                ..HostFacts::new(name, preset, presets.len(), seed, model.push_blocks())
            }
        });
        let mut world = Self {
            shared: Arc::clone(&shared),
            stop_listener: None,
            stop_cards: Stop::new()?,
            threads: vec![conductor],
        };
        let facts: Vec<_> = facts.collect();
        let listener =
            Listener::open(path, &shared, facts, is_once).map_err(|source| Error::Socket {
                path: path.to_path_buf(),
                source,
            })?;
        world.stop_listener = Some(listener.stop());
        // A program that connects in the meantime waits.
        for (host, model) in models.into_iter().enumerate() {
            let server = bind_card(&card_socket(path, host as u32))?;
            world.serve_card(server, Card::new(model, &shared, host), host)?;
        }
        let serve = move || {
            if let Err(error) = listener.serve() {
                tracing::error!(%error, "the control socket is no longer served");
            }
        };
        let thread = Builder::new().name("ferroce-listener".to_owned());
        world.threads.push(thread.spawn(serve)?);
        Ok(world)
    }

    fn serve_card(&mut self, server: Server, card: Card, host: usize) -> io::Result<()> {
        let (stop, mac) = (self.stop_cards.clone(), numbered_hosts::mac_of(host).0);
        let serve = move || {
            let device = ServedDevice::new(Arc::new(card), mac);
            if let Err(error) = server.serve(&device, &stop) {
                tracing::error!(%error, host, "a card is no longer served");
            }
        };
        let thread = Builder::new().name("ferroce-card".to_owned());
        self.threads.push(thread.spawn(serve)?);
        Ok(())
    }

    /// Returns true if the world has ended by itself.
    pub fn has_ended(&self) -> bool {
        self.shared.is_stopping()
    }

    /// Prints on standard error what every thread waits for.
    pub fn dump(&self) {
        self.shared.ask_for_dump();
    }
}

impl Drop for TimedWorld {
    fn drop(&mut self) {
        self.shared.stop();
        if let Some(stop) = &self.stop_listener {
            // It fails only if the world was stopped before.
            let _ = rustix::io::write(stop, &1u64.to_ne_bytes());
        }
        self.stop_cards.stop();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread of the world has panicked");
            }
        }
    }
}

/// Returns the name of a host of a world.
fn name(config: &WorldConfig, host: usize) -> HostName {
    let (host, function) = config.place_of(host);
    HostName {
        host: host as u16,
        function: function.map(|function| function as u8),
    }
}

/// Listens on the socket of a card. The socket of an earlier world may exist for a moment.
fn bind_card(path: &Path) -> Result<Server, ServeError> {
    let start = Instant::now();
    loop {
        match bind(path) {
            Err(ServeError::Socket { .. }) if start.elapsed() < PREDECESSOR => {
                // Its process removes it when it ends, without notification.
                std::thread::sleep(PAUSE);
            }
            result => return result,
        }
    }
}

/// Data for the thread of the world.
struct Conducted {
    config: WorldConfig,
    names: Vec<HostName>,
    presets: Vec<Preset>,
    held_for: usize,
}

/// Creates the world, in its thread.
fn start_conductor(
    conducted: Conducted,
    shared: &Arc<Shared>,
    record: Option<SharedTrace>,
) -> Result<(Models, JoinHandle<()>), Error> {
    let (sender, receiver) = mpsc::channel();
    let shared = Arc::clone(shared);
    let conduct = move || {
        let Conducted {
            config,
            names,
            presets,
            held_for,
        } = conducted;
        let world = match new_world(&config, record.as_ref()) {
            Ok(world) => world,
            Err(error) => {
                // The caller waits for the error.
                let _ = sender.send(Err(error));
                return;
            }
        };
        let models = (0..config.hosts).map(|host| world.served(host)).collect();
        if sender.send(Ok(models)).is_ok() {
            Conductor::new(world, names, &presets, &shared, held_for).run();
        }
    };
    let thread = Builder::new().name("ferroce-world".to_owned());
    let thread = thread.spawn(conduct)?;
    let models = receiver
        .recv()
        .map_err(|_| io::Error::other("the thread of the world has ended"))??;
    Ok((models, thread))
}

fn new_world(
    config: &WorldConfig,
    record: Option<&SharedTrace>,
) -> Result<World, ferroce_world::Error> {
    let Some(record) = record else {
        return World::new(config);
    };
    let mut world = trace::world(config, record)?;
    trace::start(&mut world, record);
    Ok(world)
}
