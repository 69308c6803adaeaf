//! Programs that lack a resource to open the device: standard error names the resource, and a
//! sufficient value.

use ferroce_tests::{Scratch, Served};

/// Output of `ibv_devinfo` when it cannot open or list devices.
const FAILURES: [&str; 2] = ["Failed to open device", "Failed to get IB devices list"];

/// Runs `ibv_devinfo` with a limit; returns true if it has shown the device. If it has started but
/// not shown the device, it must print `reason`.
fn shows_device(scratch: &Scratch, options: &[&str], limit: &str, reason: &str) -> Option<bool> {
    let command = scratch.run(options, "prlimit", &[limit, "ibv_devinfo"]);
    let ended = scratch.finish(command);
    if ended.succeeded() {
        assert!(ended.output.contains("ferroce0"), "{limit}: {ended:?}");
        return Some(true);
    }
    // With a lower limit the program itself does not start.
    let has_started = FAILURES.iter().any(|words| ended.output.contains(words));
    if !has_started {
        return None;
    }
    assert!(ended.output.contains(reason), "{limit}: {}", ended.output);
    Some(false)
}

/// Goal: each limit that is too low for a device is reported. Method: raise the limit step by step,
/// from a value that is too low for any program to one that suffices.
fn name_limit(
    scratch: &Scratch,
    options: &[&str],
    limits: impl Iterator<Item = String>,
    reason: &str,
) {
    let mut failures = 0;
    for limit in limits {
        match shows_device(scratch, options, &limit, reason) {
            None => {}
            Some(false) => failures += 1,
            Some(true) => {
                assert!(failures > 0, "no limit was too low for the device alone");
                return;
            }
        }
    }
    panic!("never enough");
}

#[test]
fn too_few_descriptors() {
    let limits = (3..40).map(|count| format!("--nofile={count}"));
    name_limit(&Scratch::new(), &[], limits, "RLIMIT_NOFILE");
}

#[test]
fn too_few_descriptors_for_a_device_behind_a_socket() {
    let scratch = Scratch::new();
    let served = Served::start(&scratch, 1);
    let limits = (3..200).map(|count| format!("--nofile={count}"));
    name_limit(
        &scratch,
        &["--device", &served.device(0)],
        limits,
        "RLIMIT_NOFILE",
    );
}

#[test]
fn too_little_address_space() {
    let limits = (4..64).map(|count| format!("--as={}", count << 22));
    name_limit(&Scratch::new(), &[], limits, "RLIMIT_AS");
}
