//! `ferroce world`: a simulated world that programs join.

use std::fmt::Display;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::ChildStdout;
use std::sync::mpsc;
use std::time::Duration;

use clap::Args;
use ferroce_model::pcie::machine::Target;
use ferroce_model::preset::Preset;
use ferroce_model::preset::topology::MemoryTarget;
use ferroce_perf::options;
use ferroce_platform::log;
use ferroce_platform::os::service::{Termination, raise_descriptor_limit};
use ferroce_timed::control::share_processor;
use ferroce_timed::{Lifetime, MAX_PROGRAMS, TimedWorld, persistent_file};
use ferroce_world::trace::explain::Explanation;
use ferroce_world::trace::{SharedTrace, Trace};
use ferroce_world::{PersistentMemory, Topology, WorldConfig};
use tracing::level_filters::LevelFilter;

use super::fabric::Fabric;
use super::faults::Faults;
use super::trace_files::TraceFiles;

/// Period of checks that the world is still running.
const SUPERVISION_PERIOD: Duration = Duration::from_millis(20);

/// Simulate hosts for programs that join from other processes: `ferroce run --world PATH`.
///
/// The programs run unmodified, and their time is that of the simulation. When they can join, a
/// line says so. SIGINT and SIGTERM end the world; SIGUSR1 prints what all threads wait for,
/// and which hosts are free.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ferroce world --preset cx5-100g --socket lab
  ferroce run --world lab -- ib_write_lat
  ferroce run --world lab -- ib_write_lat 127.0.0.1
  ferroce run --world lab --host n1 -- ib_write_lat      on a certain host

Programs get hosts in the order in which they join, unless `ferroce run --host` names one; a host is
free again when its program has ended. A file of --fabric can give a host several functions.
`ferroce run --timed PRESET` starts a world of two hosts by itself.

Environment: FERROCE_LOG as for `ferroce run`")]
pub struct World {
    /// Card, and with @ the hosts that it is in
    #[arg(long, value_name = "NAME[@HOST]")]
    preset: String,

    /// Change a parameter of the preset; can be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,

    /// The socket that programs join, a path or a name in the user's own directory; those of the
    /// cards are PATH.nic.0, PATH.nic.1, ... Only this user, and root, can connect
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,

    /// Hosts; a cable joins two, unless the preset has a switch. A file of --fabric says how many
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    hosts: u16,

    /// A cable between the hosts, instead of the preset's topology
    #[arg(long, conflicts_with = "switch")]
    direct: bool,

    /// A switch between the hosts, instead of the preset's topology
    #[arg(long)]
    switch: bool,

    /// Seed of everything random
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Move only the last bytes of long messages: faster, and times are the same
    #[arg(long)]
    elide_payload: bool,

    /// Simulate every packet, also those in the middle of long messages, which otherwise are
    /// skipped when they flow steadily: their time is taken from those before them. --waveform and
    /// --pcap imply it
    #[arg(long)]
    every_packet: bool,

    #[command(flatten)]
    fabric: Fabric,

    #[command(flatten)]
    faults: Faults,

    /// Memory of all programs, or of those on one host: `dram1`, `n1=dram1`, a socket of the host
    /// profile's topology, as with `numactl --membind`; can be given several times
    #[arg(long, value_name = "[HOST=]MEMORY")]
    memory: Vec<String>,

    /// Make a file the persistent memory of a host, for programs that map it (MAP_SHARED) and
    /// register the mapping. After `--faults power-failure=TIME@at:ADDRESS`, the file has what was
    /// persistent then. Can be given once for each host; every packet is simulated
    #[arg(long, value_name = "HOST=FILE", conflicts_with = "elide_payload")]
    persistent: Vec<String>,

    /// The caches of the processors are in the persistence domain, too (eADR): what a card has
    /// written survives a power failure. Without it, a host with `memory.ddio` loses what was not
    /// flushed (ADR)
    #[arg(long, requires = "persistent")]
    eadr: bool,

    /// Cards of each machine in use, if the host profile has a topology: each host of the world is
    /// a card, and the cards of a machine are consecutive
    #[arg(long, value_name = "N", default_value_t = 1)]
    cards: u16,

    /// When the world ends, write to a file where the time of the last message of the last host
    /// went: from its post to the next one's
    #[arg(long, value_name = "FILE")]
    explain: Option<PathBuf>,

    #[command(flatten)]
    files: TraceFiles,

    /// Hold the clock until N programs have joined: then the figures do not depend on when each was
    /// started. Servers accept connections meanwhile, clients connect and wait
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    programs: u16,

    /// End when the last program has ended
    #[arg(long)]
    once: bool,
}

impl World {
    /// Simulates until a signal ends it.
    pub fn execute(self) -> Result<(), String> {
        log::start(LevelFilter::WARN);
        let preset = options::preset(&self.preset, &self.set)?;
        let termination = Termination::keep_with(&[libc::SIGUSR1]);
        raise_descriptor_limit().map_err(|error| format!("open files: {error}"))?;
        let name = preset.name().to_owned();
        let fabric = self.fabric.plan(usize::from(self.hosts), MAX_PROGRAMS)?;
        let hosts = fabric
            .as_ref()
            .map_or(usize::from(self.hosts), |fabric| fabric.hosts());
        let memory = self.placed(&preset, hosts)?;
        let persistent = self.persistent(hosts)?;
        let timed = WorldConfig::timed(preset, hosts);
        let config = WorldConfig {
            memory,
            persistent,
            cards: usize::from(self.cards),
            seed: self.seed,
            elide_payload: self.elide_payload,
            fast_forward: !self.every_packet && !self.files.are_wanted(),
            faults: self.faults.plan.clone(),
            fabric,
            topology: match (self.direct, self.switch) {
                (true, _) => Topology::Cable,
                (_, true) => Topology::Switch,
                _ => timed.topology,
            },
            ..timed
        };
        let socket = ferroce_embed::socket_path(&self.socket).map_err(|error| error.to_string())?;
        if let Ok(socket) = std::path::absolute(&socket) {
            share_processor(&socket);
        }
        let trace = self.trace(&config)?;
        let lifetime = Lifetime {
            is_once: self.once,
            held_for: usize::from(self.programs),
        };
        let place = |host| config.place_of(host);
        let places: Vec<_> = (0..hosts).map(place).collect();
        let world = TimedWorld::start_recorded(config, &socket, lifetime, trace.clone());
        let world = world.map_err(|error| error.to_string())?;
        announce(&socket, &name, &places).map_err(|error| error.to_string())?;
        while !world.has_ended() {
            match termination.next(SUPERVISION_PERIOD) {
                None => {}
                Some(libc::SIGUSR1) => world.dump(),
                Some(_) => break,
            }
        }
        drop(world);
        let Some(trace) = trace else {
            return Ok(());
        };
        if let Some(path) = &self.explain {
            explain(path, &trace)?;
        }
        trace.lock().finish()
    }
}

impl World {
    /// Returns what records the world, if anything was asked for.
    fn trace(&self, config: &WorldConfig) -> Result<Option<SharedTrace>, String> {
        if self.explain.is_none() && !self.files.are_wanted() {
            return Ok(None);
        }
        let trace = Trace {
            keeps_steps: self.explain.is_some(),
            ..self.files.create(config)?
        };
        Ok(Some(trace.shared()))
    }

    /// Returns the persistent memory of hosts.
    fn persistent(&self, hosts: usize) -> Result<Vec<(usize, PersistentMemory)>, String> {
        let mut found: Vec<(usize, PersistentMemory)> = Vec::new();
        for text in &self.persistent {
            let error = |reason: &dyn Display| format!("--persistent {text}: {reason}");
            let parts = text.split_once('=');
            let (host, file) = parts.ok_or_else(|| error(&"must be HOST=FILE, such as n1=log"))?;
            let number = number_of(host, hosts).map_err(|reason| error(&reason))?;
            if found.iter().any(|(other, _)| *other == number) {
                return Err(error(&"the host has persistent memory already"));
            }
            let memory = persistent_file::open(Path::new(file), self.eadr);
            let memory = memory.map_err(|reason| error(&reason))?;
            if found
                .iter()
                .any(|(_, other)| other.identity == memory.identity)
            {
                return Err(error(&"the file is the memory of another host"));
            }
            found.push((number, memory));
        }
        Ok(found)
    }

    /// Returns where the memory of hosts lies.
    fn placed(&self, preset: &Preset, hosts: usize) -> Result<Vec<(usize, Target)>, String> {
        let mut placed = Vec::new();
        for text in &self.memory {
            let error = |reason: &str| format!("--memory {text}: {reason}");
            let (chosen, memory) = match text.split_once('=') {
                None => (0..hosts, text.as_str()),
                Some((host, memory)) => {
                    let number = number_of(host, hosts).map_err(|reason| error(&reason))?;
                    (number..number + 1, memory)
                }
            };
            let topology = preset.topology.as_deref();
            let topology = topology.ok_or_else(|| {
                error("the host profile has no topology; `ferroce topology list` names some")
            })?;
            let found = topology.target(memory);
            // All memory of a program, so also its queues.
            let of_socket = found.filter(|(target, _)| matches!(target, MemoryTarget::Dram(_)));
            let (_, number) = of_socket.ok_or_else(|| {
                let last = topology.sockets.len() - 1;
                error(&format!(
                    "must be the memory of a socket, dram0 to dram{last}"
                ))
            })?;
            placed.extend(chosen.map(|host| (host, Target(number))));
        }
        Ok(placed)
    }
}

/// Returns the number of the host with this name, in a world of `hosts` hosts.
fn number_of(host: &str, hosts: usize) -> Result<usize, String> {
    let number = host.strip_prefix('n').and_then(|n| n.parse::<usize>().ok());
    let number = number.filter(|number| *number < hosts);
    number.ok_or_else(|| format!("no host {host}; they are n0 to n{}", hosts - 1))
}

/// Prints that programs can join. `places`: the number of each host, and of its function.
fn announce(socket: &Path, preset: &str, places: &[(usize, Option<usize>)]) -> io::Result<()> {
    let hosts = places.last().map_or(0, |(last, _)| last + 1);
    let functions = match places.len() {
        functions if functions == hosts => String::new(),
        functions => format!(" functions {functions}"),
    };
    let mut output = io::stdout().lock();
    let socket = socket.display();
    writeln!(
        output,
        "world {socket} hosts {hosts}{functions} preset {preset}"
    )?;
    output.flush()
}

/// Waits until a `ferroce world` has announced on its standard output that programs can join.
pub fn await_announcement(output: ChildStdout) -> Result<(), String> {
    /// Time limit for the start of a world.
    const LIMIT: Duration = Duration::from_secs(30);
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = BufReader::new(output).read_line(&mut line);
        // After the timeout the receiver is dropped.
        let _ = sender.send(read.map(|_| line));
    });
    match receiver.recv_timeout(LIMIT) {
        Ok(Ok(line)) if !line.is_empty() => Ok(()),
        Ok(_) => Err("the world has not started".to_owned()),
        Err(_) => Err(format!(
            "the world has not started within {} s",
            LIMIT.as_secs()
        )),
    }
}

/// Writes the steps of the last message with their times.
fn explain(path: &Path, trace: &SharedTrace) -> Result<(), String> {
    let text = match Explanation::of_last_message(&trace.lock().steps) {
        Some((host, explanation)) => {
            let what = "The last message, from its post to the next one's";
            format!("{what}; host {host} measures:\n\n{explanation}")
        }
        None => "no program has posted twice\n".to_owned(),
    };
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}
