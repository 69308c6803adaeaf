//! Unmodified RDMA programs from PyPI whose compiled code is linked to libibverbs: InfiniStore and
//! DLSlime. The first run installs them below the target folder; later runs need no network.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use ferroce_tests::{PROCESS_TIMEOUT, Process, Scratch, Signal, TIMEOUT, free_port, run_pair};

/// Debian's own interpreter.
const PYTHON: &str = "/usr/bin/python3";
/// Time limit for pip to download and install packages.
const PIP_TIMEOUT: Duration = Duration::from_secs(300);

/// Packages for pip.
struct Packages {
    /// A package with its version, installed without its dependencies: InfiniStore requires torch,
    /// which has gigabytes, but does not import it.
    package: &'static str,
    /// Other packages, installed with their dependencies.
    others: &'static [&'static str],
}

const INFINISTORE: Packages = Packages {
    package: "infinistore==0.2.35",
    // Its own copy of libuv uses uvloop's loop, and depends on the layout of that version.
    others: &["uvloop==0.21.0", "numpy", "fastapi", "uvicorn"],
};
const DLSLIME: Packages = Packages {
    package: "dlslime==0.1.23",
    others: &[],
};

/// Options of `ferroce run` for server and client: both on one host, and on two.
const HOSTS: [[&[&str]; 2]; 2] = [[&[], &[]], [&["--host", "a"], &["--host", "b"]]];

fn script(name: &str) -> String {
    format!("{}/pypi/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Returns the interpreter of an environment with these packages. If there is none yet and pip
/// cannot create it, prints the reason and returns `None`.
fn environment(scratch: &Scratch, packages: &Packages) -> Option<String> {
    let &Packages { package, others } = packages;
    let all = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pypi");
    // A folder with this name is complete.
    let folder = all.join(package);
    let python = folder.join("bin/python").to_string_lossy().into_owned();
    if folder.exists() {
        return Some(python);
    }
    let new = all.join(format!("{package}-{}", std::process::id()));
    let mut venv = Command::new(PYTHON);
    venv.args(["-m", "venv", "--clear"]).arg(&new);
    let mut commands = vec![venv];
    let alone = ["--no-deps", package];
    for requirements in [others, &alone] {
        if requirements.is_empty() {
            continue;
        }
        let mut pip = Command::new(new.join("bin/python"));
        pip.args(["-m", "pip", "install", "--quiet", "--no-input"])
            .args(["--only-binary=:all:", "--retries=1", "--timeout=10"])
            .args(requirements);
        commands.push(pip);
    }
    for command in commands {
        let ended = Process::start(command, scratch, "install", PIP_TIMEOUT).wait();
        if !ended.succeeded() {
            let (what, how) = (&ended.what, ended.how());
            eprintln!("skipped: no network: {what}: {how}\n{}", ended.output);
            // It may not even exist.
            let _ = fs::remove_dir_all(&new);
            return None;
        }
    }
    if fs::rename(&new, &folder).is_err() {
        // Another process has created it first.
        assert!(folder.exists(), "{} cannot be made", folder.display());
        fs::remove_dir_all(&new).expect("our own folder");
    }
    Some(python)
}

/// Goal: a server on a libuv loop, with completion events, serves a client and then uses no CPU
/// time. Method: the client stores, fetches and compares blocks, asks for a missing key, and
/// measures the server's CPU time while it stays connected.
#[test]
fn infinistore_stores_and_rests() {
    let scratch = Scratch::new();
    let Some(python) = environment(&scratch, &INFINISTORE) else {
        return;
    };
    let ports = [free_port(), free_port()].map(|port| port.to_string());
    let [server, client] = ["infinistore_server.py", "infinistore_client.py"].map(script);
    let mut arguments = vec![server.as_str(), "--service-port", &ports[0]];
    arguments.extend(["--manage-port", &ports[1], "--dev-name=ferroce0"]);
    arguments.extend(["--link-type=Ethernet", "--prealloc-size=1"]);
    let server = scratch.run(&[], &python, &arguments);
    let mut server = Process::start(server, &scratch, "server", PROCESS_TIMEOUT);
    server.expect_output("server started");
    let pid = server.id().to_string();
    let client = scratch.run(&[], &python, &[&client, &ports[0], &pid]);
    let output = scratch.finish(client).expect_success();
    assert!(output.contains("same bytes: 2097152"), "{output}");
    // Its exit status then depends on the version of uvicorn.
    server.signal(Signal::INT);
    server.hurry(TIMEOUT);
    let output = server.wait().output;
    assert!(!output.contains("[error]"), "{output}");
}

/// Goal: DLSlime's endpoints in two processes connect. Each has several QPs, `min_rnr_timer` 32,
/// and a GID that DLSlime finds in sysfs by its type. Method: the client reads and writes the
/// server's memory, and both compare the data; on one host and on two.
#[test]
fn dlslime_reads_and_writes() {
    let scratch = Scratch::new();
    let Some(python) = environment(&scratch, &DLSLIME) else {
        return;
    };
    let script = script("dlslime_pair.py");
    for [server, client] in HOSTS {
        let port = free_port();
        let text = port.to_string();
        let server = scratch.run(server, &python, &[&script, "server", &text]);
        let client = scratch.run(client, &python, &[&script, "client", &text]);
        let (server, client) = run_pair(&scratch, port, server, client);
        for output in [server, client] {
            assert!(output.contains("same bytes: 1048576"), "{output}");
        }
    }
}
