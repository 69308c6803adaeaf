//! The world and the two perftest programs in it.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ferroce_model::preset::Origin;
use ferroce_perf::PerfSpec;

use super::RealPerftest;
use super::command::Run;

/// Time limit until programs can join the world, and until a server listens.
const START_LIMIT: Duration = Duration::from_secs(30);
/// Time limit of a pair.
const RUN_LIMIT: Duration = Duration::from_secs(1800);
/// Time limit of the server after the client has ended.
const END_LIMIT: Duration = Duration::from_secs(30);
/// Interval between two checks.
const LOOK_INTERVAL: Duration = Duration::from_millis(2);
/// State of a listening socket in `/proc/net/tcp`.
const LISTENING: &str = "0A";
/// Files in which the kernel lists sockets.
const SOCKETS: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];
/// Address of the server.
const SERVER_ADDRESS: &str = "127.0.0.1";

/// The file in which the world explains the last message.
const EXPLANATION: &str = "explanation";

/// A child process that is killed when it is dropped.
struct Process {
    name: String,
    child: Child,
}

impl Process {
    fn start(mut command: Command) -> Result<Self, String> {
        let name = command.get_program().to_string_lossy().into_owned();
        let child = command
            .stdin(Stdio::null())
            .spawn()
            .map_err(|error| format!("{name}: {error}"))?;
        Ok(Self { name, child })
    }

    /// Waits for its end; returns false if it still runs after `limit`.
    fn ends_within(&mut self, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        loop {
            match self.child.try_wait() {
                Ok(None) if Instant::now() < end => thread::sleep(LOOK_INTERVAL),
                Ok(None) => return false,
                _ => return true,
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Neither can fail for a child that has not been waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A folder that is removed when it is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self, String> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("ferroce-perftest-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A world whose two programs are not started yet.
pub(super) struct Pair<'a> {
    real: &'a RealPerftest,
    run: &'a Run,
    world: Process,
    folder: Folder,
    port: u16,
}

/// Output of a run.
pub(super) struct Ran {
    /// Output of the client.
    pub client: String,
    /// Explanation of the last message; empty if not requested.
    pub explanation: String,
}

impl<'a> Pair<'a> {
    /// Starts a world for `spec`, which explains the last message if requested.
    pub(super) fn new(
        real: &'a RealPerftest,
        spec: &PerfSpec,
        run: &'a Run,
        is_explained: bool,
    ) -> Result<Self, String> {
        let folder = Folder::new()?;
        let mut command = Command::new(&real.ferroce);
        command
            .args(["world", "--hosts", "2", "--once", "--socket"])
            .arg(socket(&folder))
            .args(["--preset", spec.preset.name()])
            .args(["--seed", &spec.seed.to_string()])
            .args(changes(spec))
            .stdout(Stdio::piped());
        if real.elide_payload {
            command.arg("--elide-payload");
        }
        if real.every_packet {
            command.arg("--every-packet");
        }
        if let Some(plan) = &spec.faults {
            command.args(["--faults", &plan.to_string()]);
        }
        if is_explained {
            command.arg("--explain").arg(folder.0.join(EXPLANATION));
        }
        if let Some(switched) = spec.switched {
            command.arg(if switched { "--switch" } else { "--direct" });
        }
        let mut world = Process::start(command)?;
        await_line(&mut world)?;
        Ok(Self {
            real,
            run,
            world,
            folder,
            port: free_port()?,
        })
    }

    /// Runs the programs.
    pub(super) fn run(mut self) -> Result<Ran, String> {
        let mut server = self.start("server", &[])?;
        let listens_by = Instant::now() + START_LIMIT;
        while !is_listened_to(self.port) {
            if server.ends_within(LOOK_INTERVAL) || Instant::now() > listens_by {
                return Err(self.failure("the server does not listen"));
            }
        }
        let mut client = self.start("client", &[SERVER_ADDRESS])?;
        if !client.ends_within(RUN_LIMIT) {
            return Err(self.failure("the client does not end"));
        }
        let result = client.child.wait();
        if !result.is_ok_and(|status| status.success()) {
            return Err(self.failure("the client has failed"));
        }
        if !server.ends_within(END_LIMIT) {
            return Err(self.failure("the server does not end"));
        }
        // The world ends after its programs; it prints errors to our standard error.
        self.world.ends_within(END_LIMIT);
        Ok(Ran {
            client: self.output("client"),
            explanation: self.output(EXPLANATION),
        })
    }

    fn start(&self, side: &str, more: &[&str]) -> Result<Process, String> {
        let path = self.folder.0.join(side);
        let file = fs::File::create(&path).map_err(|error| format!("{side}: {error}"))?;
        let copy = file
            .try_clone()
            .map_err(|error| format!("{side}: {error}"))?;
        let mut command = Command::new(&self.real.ferroce);
        command
            .args([OsStr::new("run"), OsStr::new("--world")])
            .arg(socket(&self.folder))
            .args(["--", &self.run.program])
            .args(&self.run.arguments)
            .args(&self.real.extra)
            .args(["-p", &self.port.to_string()])
            .args(more)
            .stdout(file)
            .stderr(copy);
        Process::start(command)
    }

    fn output(&self, side: &str) -> String {
        fs::read_to_string(self.folder.0.join(side)).unwrap_or_default()
    }

    fn failure(&self, what: &str) -> String {
        let line = format!("{} {}", self.run.program, self.run.arguments.join(" "));
        let (server, client) = (self.output("server"), self.output("client"));
        format!("{line}: {what}\n--- server\n{server}--- client\n{client}")
    }
}

fn socket(folder: &Folder) -> PathBuf {
    folder.0.join("world")
}

/// Returns the changes of the preset since it was loaded.
fn changes(spec: &PerfSpec) -> impl Iterator<Item = String> {
    let changed = spec.preset.parameters();
    changed
        .filter(|parameter| parameter.origin == Origin::User)
        .map(|parameter| format!("--set={}={}", parameter.key, parameter.value))
}

/// Waits until the world reports that it is ready.
fn await_line(world: &mut Process) -> Result<(), String> {
    let stdout = world.child.stdout.take();
    let (sender, receiver) = std::sync::mpsc::channel();
    thread::spawn(move || {
        let Some(stdout) = stdout else { return };
        let mut reader = BufReader::new(stdout);
        let mut line = String::new();
        let found = reader.read_line(&mut line).is_ok_and(|length| length > 0);
        // The receiver may be dropped; the world must not block on further output.
        let _ = sender.send(found);
        let _ = reader.read_to_end(&mut Vec::new());
    });
    match receiver.recv_timeout(START_LIMIT) {
        Ok(true) => Ok(()),
        _ => Err(format!("{} world: it does not start", world.name)),
    }
}

fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind((SERVER_ADDRESS, 0));
    let address = listener.and_then(|listener| listener.local_addr());
    address
        .map(|address| address.port())
        .map_err(|error| format!("no free port: {error}"))
}

/// Returns true if a process listens on a port. It does not connect: the server would take that for
/// the client.
fn is_listened_to(port: u16) -> bool {
    let is_it = |line: &str| {
        let mut fields = line.split_whitespace().skip(1);
        let local = fields.next().and_then(|local| local.rsplit_once(':'));
        let is_listening = fields.nth(1) == Some(LISTENING);
        let number = local.and_then(|(_, number)| u16::from_str_radix(number, 16).ok());
        is_listening && number == Some(port)
    };
    SOCKETS
        .iter()
        .filter_map(|path| fs::read_to_string(Path::new(path)).ok())
        .any(|text| text.lines().any(is_it))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_listened_to_while_its_listener_exists() {
        let listener = TcpListener::bind((SERVER_ADDRESS, 0)).expect("a port");
        let port = listener.local_addr().expect("its address").port();
        assert!(is_listened_to(port));
        drop(listener);
        assert!(!is_listened_to(port));
    }
}
