//! Several processes, and the effects of the death of one.
//!
//! The other process is this test binary again, with a variable that selects its part.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ferroce_embed::fabric::registry::Registry;
use ferroce_embed::function::{Function, HostIdentity, Options};

const TIMEOUT: Duration = Duration::from_secs(20);
/// Selects the other process, with the rendezvous directory.
const VARIABLE: &str = "FERROCE_TEST_RENDEZVOUS";
/// Selects the process with two devices, with the rendezvous directory.
const DEVICES_VARIABLE: &str = "FERROCE_TEST_DEVICES";

struct Rendezvous(PathBuf);

impl Rendezvous {
    fn new(name: &str) -> Self {
        let unique = format!("ferroce-processes-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(unique);
        fs::create_dir_all(&path).expect("writable");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).expect("ours");
        Self(path)
    }
}

impl Drop for Rendezvous {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn options(directory: &Path) -> Options {
    Options {
        directory: directory.to_owned(),
        host: HostIdentity::named("a", None).expect("a name"),
        icrc: false,
        capture: None,
        port: None,
        is_served: false,
    }
}

/// A process with a function, until it is killed. Ends by itself after a while.
struct Other(Child);

impl Other {
    fn start(rendezvous: &Rendezvous) -> Self {
        let program = std::env::current_exe().expect("a test binary");
        let mut child = Command::new(program)
            .args(["--exact", "other_process", "--nocapture"])
            .env(VARIABLE, &rendezvous.0)
            .stdout(Stdio::piped())
            .spawn()
            .expect("it ran before");
        let mut output = BufReader::new(child.stdout.take().expect("piped"));
        let mut line = String::new();
        while !line.contains("here") {
            line.clear();
            assert_ne!(output.read_line(&mut line).expect("text"), 0, "it ended");
        }
        Self(child)
    }

    fn kill(mut self) {
        self.0.kill().expect("it lives");
        self.0.wait().expect("ours");
    }
}

/// Not a test: the other process.
#[test]
fn other_process() {
    let Some(directory) = std::env::var_os(VARIABLE) else {
        return;
    };
    let _function = Function::open_with(&options(Path::new(&directory))).expect("a place is free");
    println!("here");
    std::thread::sleep(TIMEOUT);
}

/// Not a test: the process with two devices.
#[test]
fn other_process_with_devices() {
    let Some(directory) = std::env::var_os(DEVICES_VARIABLE) else {
        return;
    };
    let functions = [0, 1].map(|device| Function::open_device(device).expect("a place is free"));
    let again = Function::open_device(1).expect("it is open");
    assert!(Arc::ptr_eq(&again, &functions[1]));
    assert!(!Arc::ptr_eq(&functions[0], &functions[1]));
    let refused = Function::open_device(2).expect_err("there are two");
    assert!(refused.to_string().contains("ferroce2"), "{refused}");
    let gids: Vec<_> = functions
        .iter()
        .map(|function| function.host().gids[1].gid)
        .collect();
    let macs: Vec<_> = gids
        .iter()
        .map(|gid| functions[0].resolve_mac(*gid).expect("both are here"))
        .collect();
    assert_eq!(macs, [functions[0].host().mac, functions[1].host().mac]);
    assert_ne!(macs[0], macs[1]);
    let registry = Registry::open(Path::new(&directory)).expect("usable");
    let devices: Vec<_> = registry
        .occupants()
        .iter()
        .map(|occupant| (occupant.pid, occupant.identity.device))
        .collect();
    let pid = std::process::id();
    assert_eq!(devices, [(pid, 0), (pid, 1)]);
    drop((again, functions));
    assert!(registry.occupants().is_empty());
}

#[test]
fn a_process_has_the_requested_devices() {
    let rendezvous = Rendezvous::new("devices");
    let program = std::env::current_exe().expect("a test binary");
    let directory = rendezvous.0.canonicalize().expect("it is there");
    let output = Command::new(program)
        .args(["--exact", "other_process_with_devices"])
        .env(DEVICES_VARIABLE, &directory)
        .env("FERROCE_DIR", &directory)
        .env("FERROCE_DEVICES", "2")
        .output()
        .expect("it ran before");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
}

#[test]
fn a_killed_process_frees_its_place() {
    let rendezvous = Rendezvous::new("killed");
    let registry = Registry::open(&rendezvous.0).expect("usable");
    let function = Function::open_with(&options(&rendezvous.0)).expect("a place is free");
    let other = Other::start(&rendezvous);
    let occupants = registry.occupants();
    assert_eq!(occupants.len(), 2);
    let pid = other.0.id();
    let theirs = occupants.iter().find(|occupant| occupant.pid == pid);
    let place = theirs.expect("it printed its pid").place;
    assert!(registry.is_alive(place));
    other.kill();
    let deadline = Instant::now() + TIMEOUT;
    while registry.is_alive(place) {
        assert!(Instant::now() < deadline, "the kernel frees the lock");
        std::thread::yield_now();
    }
    assert_eq!(registry.occupants().len(), 1);
    assert_ne!(registry.generation(place), 0, "the place was not released");
    drop(function);
}

/// Goal: a function whose thread gets no processor reports it. Method: its process is stopped for
/// longer than that thread wants to sleep.
#[test]
fn a_stopped_process_counts_how_late_its_thread_was() {
    let rendezvous = Rendezvous::new("late");
    let registry = Registry::open(&rendezvous.0).expect("usable");
    let other = Other::start(&rendezvous);
    let place = registry.occupants()[0].place;
    let signal = |name: &str| {
        let pid = other.0.id().to_string();
        let killed = Command::new("kill").args([name, &pid]).status();
        assert!(killed.is_ok_and(|status| status.success()));
    };
    let deadline = Instant::now() + TIMEOUT;
    while registry.late_wakeups(place).load(Ordering::Relaxed) == 0 {
        assert!(Instant::now() < deadline, "it does not notice");
        // Not noticed if the thread does not sleep at that moment.
        signal("-STOP");
        std::thread::sleep(Duration::from_millis(600));
        signal("-CONT");
        std::thread::sleep(Duration::from_millis(300));
    }
    let max_late_us = registry.max_late_us(place).load(Ordering::Relaxed);
    assert!(
        (100_000..20_000_000).contains(&max_late_us),
        "{max_late_us}"
    );
    other.kill();
}

#[test]
fn eight_processes_get_places_of_their_own() {
    let rendezvous = Rendezvous::new("eight");
    let registry = Registry::open(&rendezvous.0).expect("usable");
    let others: Vec<Other> = (0..8).map(|_| Other::start(&rendezvous)).collect();
    let mut places: Vec<u8> = registry.occupants().iter().map(|o| o.place).collect();
    places.dedup();
    assert_eq!(places.len(), 8);
    others.into_iter().for_each(Other::kill);
}
