//! `ferroce run --timed`: the simulated world in which a program runs, joined or started.

use std::fmt::Display;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;
use ferroce_embed::runtime_directory;
use ferroce_faults::Plan;
use ferroce_model::config::{RecoveryConfig, RecoveryMode};
use ferroce_model::preset::Preset;
use ferroce_perf::options;
use ferroce_platform::os;
use ferroce_spec::personality::Personality;
use ferroce_timed::control::{is_alive, refusal, share_processor};
use ferroce_timed::host_name::HostName;

use super::super::faults::Faults;
use super::super::progress::note;
use super::super::world::await_announcement;

/// Prefix of the names of world sockets.
const PREFIX: &str = "world-";

/// Options of simulated time.
#[derive(Debug, Args)]
pub struct Timed {
    /// Run the program in simulated time, on a host with the card of this preset. The first program
    /// starts a world of two hosts, the next one joins it; it ends with the last one. Prints on
    /// standard error what is modelled
    #[arg(long, value_name = "NAME[@HOST]", conflicts_with_all = Timed::NOT_BESIDE)]
    timed: Option<String>,

    /// Run the program in simulated time, in the world whose socket this is: see `ferroce world`
    #[arg(long, value_name = "SOCKET", conflicts_with = "timed",
          conflicts_with_all = Timed::NOT_BESIDE)]
    world: Option<PathBuf>,

    /// Change a parameter of the preset; can be given several times
    #[arg(long, value_name = "KEY=VALUE", requires = "timed")]
    set: Vec<String>,

    /// Seed of everything random: the same seed gives the same figures
    #[arg(long, value_name = "N", default_value_t = 1, requires = "timed")]
    seed: u64,

    /// Do not move the data of messages, only simulate their time. Programs that check received
    /// data will not find it
    #[arg(long, requires = "timed")]
    elide_payload: bool,

    /// Simulate every packet, also those in the middle of long messages, which otherwise are
    /// skipped when they flow steadily: their time is taken from those before them
    #[arg(long, requires = "timed")]
    every_packet: bool,

    /// Fail with status 3 if the program succeeds, but a thread has left simulated time, so that
    /// another run may print other figures; without it, a line on standard error says so
    #[arg(long)]
    strict: bool,

    /// In simulated time, faults belong to the world.
    #[command(flatten)]
    faults: Faults,
}

impl Timed {
    /// A host of a world has its own addresses and card.
    const NOT_BESIDE: [&'static str; 6] =
        ["address", "devices", "device", "port", "capture", "icrc"];

    /// Returns true if the program runs in simulated time.
    pub fn is_asked(&self) -> bool {
        self.timed.is_some() || self.world.is_some()
    }

    /// Returns true if the program has to fail when its run cannot be repeated.
    ///
    /// # Errors
    /// The option is given without simulated time.
    pub fn is_strict(&self) -> Result<bool, String> {
        if self.strict && !self.is_asked() {
            return Err("--strict is about simulated time: it needs --timed or --world".to_owned());
        }
        Ok(self.strict)
    }

    /// Returns the faults of a program that runs in the time of the machine.
    pub fn faults_in_real_time(&self) -> Option<&Plan> {
        self.faults.plan.as_ref().filter(|_| self.timed.is_none())
    }

    /// Chooses how the card recovers lost packets, if the program runs in simulated time.
    pub fn recover(&mut self, recovery: RecoveryConfig) {
        if self.timed.is_none() {
            return;
        }
        let parameter = match recovery.mode {
            RecoveryMode::GoBackN => None,
            RecoveryMode::SelectiveRepeat => Some("transport.selective_repeat=true"),
            RecoveryMode::AdaptiveRouting => Some("transport.adaptive_routing=true"),
        };
        self.set.extend(parameter.map(str::to_owned));
        if recovery.adaptive_timer {
            self.set.push("transport.adaptive_timer=true".to_owned());
        }
    }

    /// Chooses whose failures the card shows, if the program runs in simulated time.
    pub fn fail_as(&mut self, personality: Personality) {
        if self.timed.is_some() {
            let is_mlx5 = personality == Personality::MLX5;
            for parameter in ["identity.mlx5", "transport.adaptive_timer"] {
                self.set.push(format!("{parameter}={is_mlx5}"));
            }
        }
    }

    /// Returns the socket of the world, which runs and has this host free for the program. `host`:
    /// the option that named it, and its name. `None`: the program runs in real time.
    pub fn socket(&self, host: Option<(&str, String)>) -> Result<Option<PathBuf>, String> {
        if !self.is_asked() {
            return Ok(None);
        }
        let Some((by, name)) = host else {
            return self.running();
        };
        let wrong = |error: &dyn Display| Err(format!("{by}{name}: {error}"));
        let host: HostName = match name.parse() {
            Ok(host) => host,
            Err(error) => return wrong(&error),
        };
        let socket = self.running()?;
        let refusal = socket.as_deref().and_then(|world| refusal(world, host));
        match refusal {
            Some(refusal) => wrong(&refusal),
            None => Ok(socket),
        }
    }

    /// Returns the socket of the world, which runs.
    fn running(&self) -> Result<Option<PathBuf>, String> {
        if let Some(socket) = &self.world {
            if self.faults.plan.is_some() {
                return Err("--faults belongs to `ferroce world`, not to its programs".to_owned());
            }
            // The program may change its working directory before it joins.
            let socket = ferroce_embed::socket_path(socket).map_err(|error| error.to_string())?;
            let socket = std::path::absolute(socket).map_err(|error| error.to_string())?;
            share_processor(&socket);
            return if is_alive(&socket) {
                Ok(Some(socket))
            } else {
                Err(format!(
                    "--world {}: no world listens there; `ferroce world` starts one",
                    socket.display()
                ))
            };
        }
        let Some(name) = &self.timed else {
            return Ok(None);
        };
        let preset = options::preset(name, &self.set)?;
        let socket = self.place(&preset)?;
        if !is_alive(&socket) {
            warn_of_others(&socket);
        }
        note(&self.provenance(&preset));
        self.find_or_start(name, &socket)?;
        Ok(Some(socket))
    }

    /// Describes the world of the program's figures.
    fn provenance(&self, preset: &Preset) -> String {
        let payload = if self.elide_payload {
            ", data of messages elided"
        } else {
            ""
        };
        let packets = if self.every_packet {
            "every packet"
        } else {
            "long messages by their beginning, pace and end"
        };
        let faults = self
            .faults()
            .map_or_else(String::new, |plan| format!("; faults {plan}"));
        format!(
            "ferroce {}: simulated time: preset {}, hash {:016x}, seed {}; modelled: card, PCIe, \
             host memory, link, what verbs cost the program; its own code takes no time{payload}; \
             {packets}{faults}",
            env!("CARGO_PKG_VERSION"),
            preset.name(),
            preset.hash(),
            self.seed,
        )
    }

    /// Returns the path of this user's world with these options; presets, seeds and so on have
    /// different worlds.
    fn place(&self, preset: &Preset) -> Result<PathBuf, String> {
        let directory = runtime_directory().map_err(|error| error.to_string())?;
        let mut hasher = DefaultHasher::new();
        let how = (self.seed, self.elide_payload, self.every_packet);
        (preset.hash(), how).hash(&mut hasher);
        self.faults().hash(&mut hasher);
        Ok(directory.join(format!("{PREFIX}{:016x}", hasher.finish())))
    }

    /// Returns the faults of the world as an expression.
    fn faults(&self) -> Option<String> {
        self.faults.plan.as_ref().map(Plan::to_string)
    }

    /// Starts the world at `socket`, unless it is running.
    fn find_or_start(&self, name: &str, socket: &Path) -> Result<(), String> {
        let lock = socket.with_extension("lock");
        let lock = File::create(&lock).map_err(|error| format!("{}: {error}", lock.display()))?;
        share_processor(socket);
        // Two programs that start at the same time start one world.
        os::lock_file(&lock).map_err(|error| format!("cannot lock: {error}"))?;
        if !is_alive(socket) {
            self.start(name, socket)?;
            // Without this file other programs know that the world exists, but not with which
            // options.
            let _ = fs::write(about(socket), self.options(name));
        }
        Ok(())
    }

    /// Returns the options with which a program joins this world.
    fn options(&self, name: &str) -> String {
        let mut options = format!("--timed {name} --seed {}", self.seed);
        for change in &self.set {
            options.push_str(&format!(" --set {change}"));
        }
        for (is_set, option) in [
            (self.elide_payload, " --elide-payload"),
            (self.every_packet, " --every-packet"),
        ] {
            if is_set {
                options.push_str(option);
            }
        }
        if let Some(plan) = self.faults() {
            options.push_str(&format!(" --faults {plan}"));
        }
        options
    }

    /// Starts a world, and waits until it can be joined.
    fn start(&self, name: &str, socket: &Path) -> Result<(), String> {
        let ferroce = std::env::current_exe()
            .map_err(|error| format!("cannot find this executable: {error}"))?;
        // The shell in between makes the world no child of the program, because programs wait for
        // their children. Interrupts from the terminal are for the programs only.
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "\"$@\" &", "sh"]).arg(ferroce);
        command.args(["world", "--once", "--preset", name]);
        command.arg("--socket").arg(socket);
        command.args(["--seed", &self.seed.to_string()]);
        for change in &self.set {
            command.args(["--set", change]);
        }
        if self.elide_payload {
            command.arg("--elide-payload");
        }
        if self.every_packet {
            command.arg("--every-packet");
        }
        if let Some(plan) = self.faults() {
            command.args(["--faults", &plan]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        command.env_remove("LD_PRELOAD").process_group(0);
        let failed = |error: std::io::Error| format!("cannot start a world: {error}");
        let mut shell = command.spawn().map_err(failed)?;
        let output = shell.stdout.take().expect("it is piped");
        shell.wait().map_err(failed)?;
        await_announcement(output)
    }
}

/// Returns the path of the file, next to a world's socket, with the options of the world.
fn about(socket: &Path) -> PathBuf {
    socket.with_extension("about")
}

/// Warns if other worlds of this user run: a program with other options than its peer's does not
/// meet it.
fn warn_of_others(socket: &Path) {
    for other in others(socket) {
        let options = fs::read_to_string(about(&other)).unwrap_or_default();
        let options = match options.as_str() {
            "" => "other options",
            options => options,
        };
        note(&format!(
            "ferroce run: warning: another simulated world of this user runs, with {options}; this \
             program does not join it and starts a separate world. Programs that are to meet need the \
             same options. If this is meant, FERROCE_DIR=DIRECTORY keeps the two apart"
        ));
    }
}

/// Returns the other worlds in the folder of `socket` that programs can join.
fn others(socket: &Path) -> Vec<PathBuf> {
    let entries = socket.parent().and_then(|folder| fs::read_dir(folder).ok());
    let paths = entries
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    let is_world = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with(PREFIX) && !name.contains('.'))
    };
    let mut others: Vec<_> = paths
        .filter(|path| is_world(path) && path != socket && is_alive(path))
        .collect();
    others.sort();
    others
}
