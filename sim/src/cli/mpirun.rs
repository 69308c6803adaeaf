//! `ferroce mpirun`: an MPI job in simulated time.
//!
//! The distribution's launcher runs inside of the world, on the first host. What it would start
//! through ssh on another host runs there, and each rank gets a card of its host.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::time::Duration;

use clap::Args;
use ferroce_perf::options;
use ferroce_platform::os::service::{Termination, send_signal};
use ferroce_timed::MAX_PROGRAMS;
use ferroce_timed::host_name::{FROM_START, VARIABLE};
use ferroce_world::MAX_FUNCTIONS;

use super::world::await_announcement;
use super::{EXIT_FAILURE, report_error};

/// What the launcher calls in place of ssh: options, the host, a command for its shell.
const AGENT: &str = "\
#!/bin/sh
while [ \"${1#-}\" != \"$1\" ]; do shift; done
FERROCE_HOST=$1
export FERROCE_HOST
shift
exec sh -c \"$*\"
";

/// What the launcher starts as a rank, on a host with one card.
const RANK: &str = "\
#!/bin/sh
exec \"$@\"
";

/// The same on a host with a card for each of its ranks.
const RANK_OF_SEVERAL: &str = "\
#!/bin/sh
FERROCE_HOST=$(uname -n).${MPI_LOCALRANKID:-$OMPI_COMM_WORLD_LOCAL_RANK}
export FERROCE_HOST
exec \"$@\"
";

/// What the ranks get unless it is set: all messages pass through cards, also between ranks of a
/// host. What shared memory costs is not simulated, and TCP is no network of the world.
const ENVIRONMENT: [(&str, &str); 2] = [("UCX_TLS", "rc,ud,self"), ("MPIR_CVAR_NOLOCAL", "1")];
/// Most ranks of a host: functions of a card.
const MAX_RANKS_OF_HOST: u16 = MAX_FUNCTIONS as u16;
const MAX_HOSTS: i64 = MAX_PROGRAMS as i64;

/// An implementation of MPI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Implementation {
    Mpich,
    Openmpi,
}

/// Run an MPI program in simulated time: the distribution's mpirun, MPICH's or Open MPI's, with its
/// ranks on simulated hosts.
///
/// Starts a world, runs the launcher in it, and ends with the launcher's status; with status 3 if
/// the job succeeds but a process has left simulated time, so that another run may print other
/// figures.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ferroce mpirun -n 2 --preset cx5-100g -- ./pingpong
  ferroce mpirun -n 16 --hosts 8 --preset cx7-400g -- ./allreduce
  ferroce mpirun -n 4 --preset cx5-100g --launcher mpirun.mpich -- python3 job.py

Rank 0 runs on n0; with fewer hosts than ranks, consecutive ranks share a host, and each of them has
its own function of the host's card. UCX_TLS=rc,ud,self and MPIR_CVAR_NOLOCAL=1 are set unless they
are: ranks of a host talk through its card, because shared memory is not simulated.")]
pub struct Mpirun {
    /// Ranks
    #[arg(short = 'n', long = "ranks", value_name = "N",
          value_parser = clap::value_parser!(u16).range(1..))]
    ranks: u16,

    /// Hosts; as many as ranks if it is not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=MAX_HOSTS))]
    hosts: Option<u16>,

    /// Card, and with @ the hosts that it is in
    #[arg(long, value_name = "NAME[@HOST]")]
    preset: String,

    /// Change a parameter of the preset; can be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,

    /// Seed of everything random: the same seed gives the same figures
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// A file with the switches and cables between the hosts: see `ferroce world --fabric`
    #[arg(long, value_name = "FILE")]
    fabric: Option<PathBuf>,

    /// The launcher; its kind is found out by its --version
    #[arg(long, value_name = "PROGRAM", default_value = "mpirun")]
    launcher: PathBuf,

    /// Succeed also if a process has left simulated time
    #[arg(long)]
    lenient: bool,

    /// The program of each rank and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    program: Vec<String>,
}

impl Mpirun {
    /// Runs the job.
    pub fn execute(self) -> ExitCode {
        match self.run() {
            Ok(code) => code,
            Err(error) => report_error(&error, EXIT_FAILURE),
        }
    }

    fn run(&self) -> Result<ExitCode, String> {
        options::preset(&self.preset, &self.set)?;
        let layout = self.layout()?;
        let implementation = implementation(&self.launcher)?;
        let folder = Folder::create()?;
        let rank = if layout.ranks_of_host > 1 {
            RANK_OF_SEVERAL
        } else {
            RANK
        };
        let agent = folder.script("agent", AGENT)?;
        let rank = folder.script("rank", rank)?;
        let world = World::start(self.world(&folder, layout)?)?;
        let mut job = Command::new(ferroce()?);
        job.args(["run", "--world"]).arg(folder.world());
        // Launchers give their own environment to each rank, so the host is not named in it.
        job.env(FROM_START, "1").env_remove(VARIABLE);
        if !self.lenient {
            job.arg("--strict");
        }
        job.arg("--").arg(&self.launcher);
        job.args(layout.arguments(implementation, self.ranks, &agent));
        job.arg(rank).args(&self.program);
        for (name, value) in ENVIRONMENT {
            if std::env::var_os(name).is_none() {
                job.env(name, value);
            }
        }
        let job = job.spawn().map_err(|error| cannot("start a job", &error))?;
        let status = wait_for(job)?;
        drop(world);
        let code = status.code().or(status.signal().map(|signal| 128 + signal));
        Ok(code
            .and_then(|code| u8::try_from(code).ok())
            .unwrap_or(EXIT_FAILURE)
            .into())
    }

    /// Returns how ranks are spread over hosts.
    fn layout(&self) -> Result<Layout, String> {
        let hosts = self.hosts.unwrap_or(self.ranks);
        if i64::from(hosts) > MAX_HOSTS {
            return Err(format!(
                "-n {hosts}: a world has at most {MAX_HOSTS} hosts; --hosts gives each of them \
                 several ranks"
            ));
        }
        if hosts > self.ranks {
            return Err(format!(
                "--hosts {hosts}: there are {} ranks, and each host needs one",
                self.ranks
            ));
        }
        let ranks_of_host = self.ranks.div_ceil(hosts);
        if ranks_of_host > MAX_RANKS_OF_HOST || ranks_of_host * hosts > MAX_HOSTS as u16 {
            return Err(format!(
                "-n {} --hosts {hosts}: a host has at most {MAX_RANKS_OF_HOST} ranks, and a world \
                 {MAX_HOSTS}",
                self.ranks
            ));
        }
        Ok(Layout {
            hosts,
            ranks_of_host,
        })
    }

    /// Returns the command that simulates the hosts.
    fn world(&self, folder: &Folder, layout: Layout) -> Result<Command, String> {
        let mut command = Command::new(ferroce()?);
        command.args(["world", "--preset", &self.preset, "--socket"]);
        command.arg(folder.world());
        command.args(["--seed", &self.seed.to_string()]);
        for change in &self.set {
            command.args(["--set", change]);
        }
        match &self.fabric {
            Some(fabric) => {
                command.arg("--fabric").arg(fabric);
            }
            None if layout.ranks_of_host > 1 => {
                let path = folder.0.join("fabric.toml");
                fs::write(&path, layout.fabric()).map_err(|error| cannot("write", &error))?;
                command.arg("--fabric").arg(path);
            }
            None => {
                command.args(["--hosts", &layout.hosts.to_string()]);
            }
        }
        Ok(command)
    }
}

/// How ranks are spread over hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Layout {
    hosts: u16,
    ranks_of_host: u16,
}

impl Layout {
    /// Returns the arguments of a launcher before the program.
    fn arguments(self, implementation: Implementation, ranks: u16, agent: &Path) -> Vec<String> {
        let Self {
            hosts,
            ranks_of_host,
        } = self;
        let hosts: Vec<_> = (0..hosts)
            .map(|host| format!("n{host}:{ranks_of_host}"))
            .collect();
        let (hosts, agent) = (hosts.join(","), agent.display().to_string());
        let arguments = match implementation {
            Implementation::Mpich => vec![
                "-launcher".to_owned(),
                "ssh".to_owned(),
                "-launcher-exec".to_owned(),
                agent,
                "-hosts".to_owned(),
                hosts,
            ],
            Implementation::Openmpi => vec![
                "--mca".to_owned(),
                "plm_rsh_agent".to_owned(),
                agent,
                "--mca".to_owned(),
                "pml".to_owned(),
                "ucx".to_owned(),
                "--allow-run-as-root".to_owned(),
                "--host".to_owned(),
                hosts,
            ],
        };
        let mut all = arguments;
        all.extend(["-n".to_owned(), ranks.to_string()]);
        all
    }

    /// Returns a fabric of one switch, in which each host has a function for each rank.
    fn fabric(self) -> String {
        /// Shared buffer of the switch.
        const BUFFER_BYTES: u32 = 16_000_000;
        let Self {
            hosts,
            ranks_of_host,
        } = self;
        let mut text = format!(
            "[switch]\nbuffer_bytes = {BUFFER_BYTES}\n[[switches]]\nname = \"s0\"\nhosts = \
             [\"n0-n{}\"]\n",
            hosts - 1
        );
        for host in 0..hosts {
            text.push_str(&format!(
                "[[hosts]]\nname = \"n{host}\"\nfunctions = {ranks_of_host}\n"
            ));
        }
        text
    }
}

/// Returns the kind of a launcher.
fn implementation(launcher: &Path) -> Result<Implementation, String> {
    let output = Command::new(launcher).arg("--version").output();
    let output = output.map_err(|error| {
        format!(
            "--launcher {}: {error}; Debian has mpich and openmpi-bin",
            launcher.display()
        )
    })?;
    let text = String::from_utf8_lossy(&output.stdout);
    if text.contains("HYDRA") {
        Ok(Implementation::Mpich)
    } else if text.contains("OpenRTE") || text.contains("Open MPI") {
        Ok(Implementation::Openmpi)
    } else {
        Err(format!(
            "--launcher {}: --version names neither HYDRA, as MPICH's does, nor Open MPI",
            launcher.display()
        ))
    }
}

/// A folder for the files of a job; it is removed with this value.
struct Folder(PathBuf);

impl Folder {
    fn create() -> Result<Self, String> {
        // Files in the user's own directory cannot be executed in containers: /dev/shm is `noexec`.
        let path = std::env::temp_dir().join(format!("ferroce-mpirun-{}", std::process::id()));
        // Only the user may write what ranks execute.
        let created = DirBuilder::new().mode(0o700).create(&path);
        created.map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self(path))
    }

    /// Returns the path of the world's socket.
    fn world(&self) -> PathBuf {
        self.0.join("world")
    }

    fn script(&self, name: &str, text: &str) -> Result<PathBuf, String> {
        let path = self.0.join(name);
        let mode = fs::Permissions::from_mode(0o700);
        fs::write(&path, text)
            .and_then(|()| fs::set_permissions(&path, mode))
            .map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left does no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The process that simulates the hosts; it ends with this value.
struct World(Child);

impl World {
    /// Starts the process, and waits until it can be joined.
    fn start(mut command: Command) -> Result<Self, String> {
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command
            .spawn()
            .map_err(|error| cannot("start a world", &error))?;
        let output = child.stdout.take().expect("it is piped");
        let world = Self(child);
        await_announcement(output)?;
        Ok(world)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // It ends by itself if it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits for a job, and ends it with this process.
fn wait_for(mut job: Child) -> Result<ExitStatus, String> {
    /// Period of checks that the job has ended.
    const PERIOD: Duration = Duration::from_millis(20);
    let termination = Termination::keep();
    loop {
        let status = job.try_wait();
        if let Some(status) = status.map_err(|error| cannot("wait for the job", &error))? {
            return Ok(status);
        }
        if termination.wait(PERIOD) {
            // The launcher ends its ranks.
            send_signal(job.id(), job.id(), libc::SIGTERM);
        }
    }
}

fn ferroce() -> Result<PathBuf, String> {
    std::env::current_exe().map_err(|error| cannot("find this executable", &error))
}

fn cannot(what: &str, error: &std::io::Error) -> String {
    format!("cannot {what}: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launchers_get_the_hosts_of_the_ranks() {
        let layout = Layout {
            hosts: 2,
            ranks_of_host: 3,
        };
        let agent = Path::new("/a");
        let of = |implementation| layout.arguments(implementation, 5, agent).join(" ");
        assert_eq!(
            of(Implementation::Mpich),
            "-launcher ssh -launcher-exec /a -hosts n0:3,n1:3 -n 5"
        );
        assert!(of(Implementation::Openmpi).ends_with("--host n0:3,n1:3 -n 5"));
        assert!(layout.fabric().contains("hosts = [\"n0-n1\"]"));
    }
}
