//! Code that the tests across crates share: runs foreign programs under `ferroce run`, in pairs,
//! with a time limit for each process.

pub mod capture;
pub mod explained;
pub mod page;
mod rdma_cm;
mod served;

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

pub use ferroce_test_support::{
    Deadline, Ended, Process, Signal, TIMEOUT, eventually, eventually_some, free_port,
    is_listening, send_signal, stays, time_limit, wait_until_listening,
};
use ferroce_test_support::{TemporaryDirectory, temporary_directory};
pub use rdma_cm::{executed, expect_commands, run_rdma_cm_pair, start_rdma_cm_server};
pub use served::Served;

/// Time limit of a process, unless a test has another.
pub const PROCESS_TIMEOUT: Duration = Duration::from_secs(120);

/// Returns the `ferroce` command that `make` has built, or the one that `FERROCE_BIN` names.
pub fn ferroce() -> PathBuf {
    let path = std::env::var_os("FERROCE_BIN").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/release/ferroce"),
        PathBuf::from,
    );
    assert!(
        path.exists(),
        "{} is missing: run `make` first",
        path.display()
    );
    path
}

/// Returns the command's verbs library, where `ferroce run` finds it.
pub fn library() -> PathBuf {
    ferroce().with_file_name("lib").join("libibverbs.so.1")
}

/// A separate directory for one test: the fabric's rendezvous and the output of programs.
#[derive(Debug)]
pub struct Scratch {
    directory: TemporaryDirectory,
    ferroce: PathBuf,
    /// Prefix of each command.
    prefix: &'static [&'static str],
    /// A library that each program loads in addition to the one under test.
    preloaded: Option<PathBuf>,
}

/// Debian's number of the user without rights.
const ORDINARY_USER: u32 = 65534;
/// Command that becomes that user (util-linux).
const AS_ORDINARY_USER: &[&str] = &[
    "setpriv",
    "--reuid=65534",
    "--regid=65534",
    "--clear-groups",
    "--no-new-privs",
];

impl Scratch {
    /// Creates an empty directory.
    pub fn new() -> Self {
        let directory = temporary_directory("scratch");
        // The fabric's directory keeps other users out, so this one need not.
        fs::set_permissions(&directory, Permissions::from_mode(0o755)).expect("our own");
        Self {
            directory,
            ferroce: ferroce(),
            prefix: &[],
            preloaded: None,
        }
    }

    /// Creates a directory of a user without rights, with a copy of the command and its library.
    /// Its programs run as that user. Returns `None` unless the test runs as root: otherwise every
    /// other test already runs as an ordinary user.
    pub fn of_ordinary_user() -> Option<Self> {
        if !is_root() {
            return None;
        }
        let mut scratch = Self::new();
        let copy = scratch.path("ferroce");
        fs::copy(ferroce(), &copy).expect("the command can be copied");
        fs::create_dir(scratch.path("lib")).expect("a new folder");
        let name = scratch.path("lib/libibverbs.so.1");
        fs::copy(library(), name).expect("the library can be copied");
        chown(&scratch.directory, Some(ORDINARY_USER), Some(ORDINARY_USER)).expect("we are root");
        scratch.ferroce = copy;
        scratch.prefix = AS_ORDINARY_USER;
        Some(scratch)
    }

    /// Makes each program load a library, in addition to the one under test.
    pub fn preload(mut self, library: &Path) -> Self {
        self.preloaded = Some(library.to_owned());
        self
    }

    /// Returns a path inside of it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Returns a program under `ferroce run`, on this scratch directory's fabric, with `options` of
    /// `ferroce run`.
    pub fn run(&self, options: &[&str], program: &str, arguments: &[&str]) -> Command {
        let mut command = self.ferroce(&["run"]);
        command.args(options).arg("--").arg(program).args(arguments);
        command
    }

    /// Returns the command `ferroce` with these arguments, on this scratch directory's fabric.
    pub fn ferroce(&self, arguments: &[&str]) -> Command {
        let mut command = self.program(&self.ferroce);
        command.args(arguments);
        command
    }

    /// Returns a program that runs without `ferroce run`, on this scratch directory's fabric.
    pub fn program(&self, program: &Path) -> Command {
        let mut command = match self.prefix.split_first() {
            Some((first, rest)) => {
                let mut command = Command::new(first);
                command.args(rest).arg(program);
                command
            }
            None => Command::new(program),
        };
        command.env("FERROCE_DIR", self.path("fabric"));
        for option in OPTIONS_OF_THE_ENVIRONMENT {
            command.env_remove(option);
        }
        if let Some(library) = &self.preloaded {
            command.env("LD_PRELOAD", library);
        }
        command
    }

    /// Runs a command to its end, within the time limit of a process.
    pub fn finish(&self, command: Command) -> Ended {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        Process::start(command, self, &format!("output-{number}"), PROCESS_TIMEOUT).wait()
    }

    /// Returns the output of `ferroce devices`.
    pub fn devices(&self) -> String {
        self.finish(self.ferroce(&["devices"])).expect_success()
    }

    /// Returns a counter of a running program's NIC; 0 while it has none.
    pub fn counter(&self, pid: u32, name: &str) -> u64 {
        let command = self.ferroce(&["counters", "--pid", &pid.to_string()]);
        let output = self.finish(command).output;
        let line = output.lines().find_map(|line| {
            let (found, value) = line.trim().split_once(' ')?;
            (found == name).then(|| value.trim().parse().ok())?
        });
        line.unwrap_or(0)
    }

    /// Compiles a program of `tests/c` against the installed verbs library.
    pub fn compile(&self, name: &str) -> String {
        self.compile_with(name, &[])
    }

    /// As [`Self::compile`], with further options for the compiler.
    pub fn compile_with(&self, name: &str, options: &[&str]) -> String {
        let binary = self.path(name);
        let mut compiler = compiler(name, &binary);
        compiler
            .args(options)
            .args(["-libverbs", "-lpthread", "-ldl"]);
        self.finish(compiler).expect_success();
        binary.to_string_lossy().into_owned()
    }

    /// Compiles a file of `tests/c` as a shared library.
    pub fn compile_library(&self, name: &str, library: &Path) {
        let mut compiler = compiler(name, library);
        compiler.args(["-shared", "-fPIC", "-lpthread", "-ldl"]);
        self.finish(compiler).expect_success();
    }
}

/// Returns the command that compiles a file of `tests/c`, without libraries.
fn compiler(name: &str, binary: &Path) -> Command {
    let source = format!("{}/c/{name}.c", env!("CARGO_MANIFEST_DIR"));
    let mut compiler = Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".into()));
    compiler
        .args(["-O1", "-g", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(binary)
        .arg(source);
    compiler
}

impl Scratch {
    /// Returns the path of the library that a program needs, whose file name begins with `name`.
    pub fn needed(&self, program: &str, name: &str) -> String {
        let mut command = Command::new("ldd");
        command.arg(program);
        let output = self.finish(command).expect_success();
        let line = output.lines().find(|line| line.trim().starts_with(name));
        let path = line.and_then(|line| line.split_whitespace().nth(2));
        path.unwrap_or_else(|| panic!("{program} does not need {name}:\n{output}"))
            .to_owned()
    }
}

/// Variables of the caller that would change the behaviour of the programs under test.
const OPTIONS_OF_THE_ENVIRONMENT: &[&str] = &[
    "FERROCE_HOST",
    "FERROCE_ADDRESS",
    "FERROCE_CAPTURE",
    "FERROCE_DEVICE",
    "FERROCE_FAULTS",
    "FERROCE_NEIGHBOURS",
    "FERROCE_PORT",
    "FERROCE_ICRC",
    "FERROCE_PART_ID",
    "FERROCE_PATIENT",
    "FERROCE_RELAXED_ORDER",
    "FERROCE_RTL_PCIE",
    "FERROCE_RTL_TLP",
    "FERROCE_RTL_WAVE",
    "FERROCE_WORLD",
    "FERROCE_LOG",
    "LD_PRELOAD",
];

/// Returns true if this process runs as root.
pub fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|metadata| metadata.uid() == 0)
}

impl AsRef<Path> for Scratch {
    fn as_ref(&self) -> &Path {
        self.directory.as_ref()
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

/// A server and a client of the same program, as two processes.
#[derive(Debug)]
pub struct Pair<'a> {
    /// The program.
    pub program: &'a str,
    /// Arguments of both; the port is added.
    pub arguments: &'a [&'a str],
    /// Options of `ferroce run`, both sides.
    pub options: &'a [&'a str],
}

impl Pair<'_> {
    /// Runs both; fails the test unless both succeed. Returns the output of server and client.
    pub fn run(&self) -> (String, String) {
        self.run_in(&Scratch::new())
    }

    /// As [`Pair::run`], with the caller's scratch directory.
    pub fn run_in(&self, scratch: &Scratch) -> (String, String) {
        self.start(scratch, self.options, self.options).finish()
    }

    /// Starts both, with options for `ferroce run` of each; [`Pair::options`] does not count.
    pub fn start<'a>(
        &self,
        scratch: &'a Scratch,
        server: &[&str],
        client: &[&str],
    ) -> RunningPair<'a> {
        self.start_within(scratch, server, client, PROCESS_TIMEOUT)
    }

    /// As [`Pair::start`], with a time limit for each process.
    pub fn start_within<'a>(
        &self,
        scratch: &'a Scratch,
        server: &[&str],
        client: &[&str],
        limit: Duration,
    ) -> RunningPair<'a> {
        let port = free_port();
        let port_text = port.to_string();
        let mut arguments = vec!["-p", &port_text];
        arguments.extend(self.arguments);
        let server = scratch.run(server, self.program, &arguments);
        let name = format!("server-{port}");
        let mut server = Process::start(server, scratch, &name, limit);
        wait_until_listening(port, &mut server);
        arguments.push("127.0.0.1");
        let client = scratch.run(client, self.program, &arguments);
        let name = format!("client-{port}");
        let client = Process::start(client, scratch, &name, limit);
        RunningPair {
            server,
            client,
            scratch,
        }
    }
}

/// Returns the options that switch MPI off in `ucx_perftest`. Debian 13 builds it with MPI; Debian
/// 12 does not know the option.
pub fn ucx_without_mpi(scratch: &Scratch) -> &'static [&'static str] {
    let help = scratch.finish(scratch.run(&[], "ucx_perftest", &["-h"]));
    if help.output.contains("MPI mode") {
        &["-P", "0"]
    } else {
        &[]
    }
}

/// Runs a server, and a client as soon as the server listens on `port`; fails the test unless both
/// succeed. Returns the output of server and client.
pub fn run_pair(
    scratch: &Scratch,
    port: u16,
    server: Command,
    client: Command,
) -> (String, String) {
    let name = format!("server-{port}");
    let mut server = Process::start(server, scratch, &name, PROCESS_TIMEOUT);
    wait_until_listening(port, &mut server);
    let name = format!("client-{port}");
    let client = Process::start(client, scratch, &name, PROCESS_TIMEOUT);
    RunningPair {
        server,
        client,
        scratch,
    }
    .finish()
}

/// A running server and client.
#[derive(Debug)]
pub struct RunningPair<'a> {
    /// The server, which was started first.
    pub server: Process,
    /// The client.
    pub client: Process,
    scratch: &'a Scratch,
}

impl RunningPair<'_> {
    /// Waits for the end of both; fails the test unless both succeed. Returns the output of
    /// server and client.
    pub fn finish(self) -> (String, String) {
        let Self {
            mut server,
            client,
            scratch,
        } = self;
        let client = client.wait();
        // For the output of a server that still waits: it shows whether the peer was served.
        let counters = if client.succeeded() {
            String::new()
        } else {
            scratch.finish(scratch.ferroce(&["counters"])).output
        };
        server.hurry(if client.succeeded() {
            TIMEOUT
        } else {
            Duration::ZERO
        });
        let server = server.wait();
        assert!(
            client.succeeded() && server.succeeded(),
            "{}\nclient {:?}:\n{}\nserver {:?}:\n{}\n{counters}",
            client.what,
            client.status,
            client.output,
            server.status,
            server.output
        );
        (server.output, client.output)
    }
}
