//! Several processes, and the effects of the death of one.
//!
//! The other process runs this test binary again, with a variable that selects its role.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ferroce_embed::fabric::registry::Registry;
use ferroce_embed::function::{Function, Options};
use ferroce_platform::host;
use ferroce_test_support::{
    Process, Signal, TIMEOUT, TemporaryDirectory, eventually, stays, temporary_directory,
};

/// Time after which the other process exits by itself.
const LIFE: Duration = Duration::from_secs(60);
/// Longer than the background thread sleeps by itself.
const STOPPED: Duration = Duration::from_millis(600);
/// Selects the other process, with the rendezvous directory.
const VARIABLE: &str = "FERROCE_TEST_RENDEZVOUS";
/// Selects the process with two devices, with the rendezvous directory.
const DEVICES_VARIABLE: &str = "FERROCE_TEST_DEVICES";

fn options(directory: &Path) -> Options {
    Options {
        directory: directory.to_owned(),
        host: host::named("a", None).expect("a name"),
        icrc: false,
        capture: None,
        record: None,
        port: None,
        faults: None,
        is_patient: false,
        relaxed_order: None,
        is_served: false,
    }
}

/// Starts a process with a function that lives until it is killed.
fn other(rendezvous: &TemporaryDirectory) -> Process {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let program = std::env::current_exe().expect("a test binary");
    let mut command = Command::new(program);
    command.args(["--exact", "processes::other_process", "--nocapture"]);
    command.env(VARIABLE, rendezvous);
    let name = format!("other-{}", COUNT.fetch_add(1, Ordering::Relaxed));
    let mut other = Process::start(command, rendezvous, &name, LIFE);
    other.expect_output("here");
    other
}

/// Not a test: the other process.
#[test]
fn other_process() {
    let Some(directory) = std::env::var_os(VARIABLE) else {
        return;
    };
    let _function = Function::open_with(&options(Path::new(&directory))).expect("a place is free");
    println!("here");
    // Runs until it is killed, or for this time in case the test that started it was killed.
    std::thread::sleep(LIFE);
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
    let rendezvous = temporary_directory("devices");
    let program = std::env::current_exe().expect("a test binary");
    let directory = rendezvous.canonicalize().expect("it is there");
    let output = Command::new(program)
        .args(["--exact", "processes::other_process_with_devices"])
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
    let rendezvous = temporary_directory("killed");
    let registry = Registry::open(&rendezvous).expect("usable");
    let function = Function::open_with(&options(&rendezvous)).expect("a place is free");
    let mut other = other(&rendezvous);
    let occupants = registry.occupants();
    assert_eq!(occupants.len(), 2);
    let pid = other.id();
    let theirs = occupants.iter().find(|occupant| occupant.pid == pid);
    let place = theirs.expect("it printed its pid").place;
    assert!(registry.is_alive(place));
    other.kill();
    drop(other);
    eventually("the kernel frees the lock", TIMEOUT, || {
        !registry.is_alive(place)
    });
    assert_eq!(registry.occupants().len(), 1);
    assert_ne!(registry.generation(place), 0, "the place was not released");
    drop(function);
}

/// Goal: a function whose background thread is not scheduled reports it. Method: its process is
/// stopped for longer than that thread sleeps by itself.
#[test]
fn a_stopped_process_counts_how_late_its_thread_was() {
    let rendezvous = temporary_directory("late");
    let registry = Registry::open(&rendezvous).expect("usable");
    let other = other(&rendezvous);
    let place = registry.occupants()[0].place;
    let late = || registry.late_wakeups(place).load(Ordering::Relaxed);
    eventually("it notices how late it was", TIMEOUT, || {
        // It is not noticed if the thread does not sleep at that moment.
        other.signal(Signal::STOP);
        std::thread::sleep(STOPPED);
        other.signal(Signal::CONT);
        !stays(STOPPED, || late() == 0)
    });
    let max_late_us = registry.max_late_us(place).load(Ordering::Relaxed);
    assert!(
        (100_000..20_000_000).contains(&max_late_us),
        "{max_late_us}"
    );
}

#[test]
fn eight_processes_get_separate_places() {
    let rendezvous = temporary_directory("eight");
    let registry = Registry::open(&rendezvous).expect("usable");
    let others: Vec<Process> = (0..8).map(|_| other(&rendezvous)).collect();
    let mut places: Vec<u8> = registry.occupants().iter().map(|o| o.place).collect();
    places.dedup();
    assert_eq!(places.len(), 8);
    drop(others);
}
