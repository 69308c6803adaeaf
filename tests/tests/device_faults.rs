//! Faults of devices and of their PCIe link, injected into running programs, on the in-process bus
//! and over vfio-user. The tests check what the program sees, and that it can continue with a new
//! device.

use ferroce_tests::{
    PROCESS_TIMEOUT, Pair, Process, RunningPair, Scratch, Served, TIMEOUT, eventually,
};

/// The location of a program's device.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bus {
    InProcess,
    VfioUser,
}

const BUSES: [Bus; 2] = [Bus::InProcess, Bus::VfioUser];

/// Runs one case of `tests/c/device_faults.c`.
fn goes(bus: Bus, case: &[&str]) {
    let scratch = Scratch::new();
    let program = scratch.compile("device_faults");
    let ferroce = ferroce_tests::ferroce();
    let ferroce = ferroce.to_string_lossy();
    let served = (bus == Bus::VfioUser).then(|| Served::start(&scratch, 1));
    // Zero: the program itself.
    let pid = served.as_ref().map_or(0, |served| served.process.id());
    let pid = pid.to_string();
    let mut arguments = vec![&*ferroce, &pid];
    arguments.extend(case);
    let device = served.as_ref().map(|served| served.device(0));
    let options = device
        .as_ref()
        .map_or(vec![], |name| vec!["--device", name]);
    let output = scratch.finish(scratch.run(&options, &program, &arguments));
    let output = output.expect_success();
    assert!(output.ends_with("0 failures\n"), "{case:?}: {output}");
}

macro_rules! cases {
    ($( $test:ident: $($word:literal)+; )*) => {
        $(
            mod $test {
                use super::{Bus, goes};

                #[test]
                fn in_process() {
                    goes(Bus::InProcess, &[$($word),+]);
                }

                #[test]
                fn over_vfio_user() {
                    goes(Bus::VfioUser, &[$($word),+]);
                }
            }
        )*
    };
}

cases! {
    completion_error_fails_one_queue_pair: "read" "completion-error";
    completion_timeout_fails_one_queue_pair: "read" "completion-timeout";
    poisoned_data_fails_one_queue_pair: "read" "poisoned-data";
    lost_interrupts_are_recovered: "loses" "lost-interrupt";
    lost_doorbells_are_recovered: "loses" "stuck-doorbell";
    stopped_device: "dies" "device-fatal";
    stuck_doorbells: "dies" "stuck-doorbell";
    hanging_command: "dies" "command-hang";
    surprise_removal: "dies" "surprise-removal";
    function_level_reset: "dies" "function-level-reset";
    rounds_of_removal_leave_no_descriptor: "rounds";
}

/// A pair of programs whose traffic has begun, and how `ferroce inject` names the client's device.
struct Traffic<'a> {
    pair: RunningPair<'a>,
    target: Vec<String>,
}

fn start_traffic<'a>(
    scratch: &'a Scratch,
    served: Option<&Served>,
    program: &str,
    arguments: &[&str],
) -> Traffic<'a> {
    let pair = Pair {
        program,
        arguments,
        options: &[],
    };
    let devices = [0, 1].map(|number| served.map(|served| served.device(number)));
    let options = devices
        .each_ref()
        .map(|name| name.as_ref().map_or(vec![], |name| vec!["--device", name]));
    let pair = pair.start(scratch, &options[0], &options[1]);
    let pid = served.map_or(pair.client.id(), |served| served.process.id());
    let mut target = vec!["--pid".to_owned(), pid.to_string()];
    if served.is_some() {
        target.extend(["--device".to_owned(), "ferroce1".to_owned()]);
    }
    eventually(&format!("{program} moves data"), TIMEOUT, || {
        scratch.counter(pid, "tx_frames") > 100
    });
    Traffic { pair, target }
}

fn inject(scratch: &Scratch, fault: &str, target: &[String]) {
    let mut arguments = vec!["inject", fault];
    arguments.extend(target.iter().map(String::as_str));
    scratch.finish(scratch.ferroce(&arguments)).expect_success();
}

/// Runs a test on a fabric of each bus.
fn on_each_bus(functions: usize, test: impl Fn(&Scratch, Option<&Served>)) {
    for bus in BUSES {
        let scratch = Scratch::new();
        let served = (bus == Bus::VfioUser).then(|| Served::start(&scratch, functions));
        test(&scratch, served.as_ref());
    }
}

/// Fails the test unless a program has ended by itself, with an error.
fn expect_failure(mut process: Process, what: &str) {
    process.hurry(TIMEOUT);
    let ended = process.wait();
    let status = ended
        .status
        .unwrap_or_else(|| panic!("{what}: it hangs\n{}", ended.output));
    let code = status.code();
    assert!(
        code.is_some_and(|code| code != 0),
        "{what}: {status}\n{}",
        ended.output
    );
}

/// Goal: after a fault in full traffic, an unmodified program and its peer both end with an error.
#[test]
fn write_bw_ends_with_an_error() {
    for fault in [
        "completion-error",
        "completion-timeout",
        "poisoned-data",
        "function-level-reset",
        "surprise-removal",
    ] {
        on_each_bus(2, |scratch, served| {
            let arguments = ["-F", "-D", "100", "-s", "4096"];
            let Traffic { pair, target } =
                start_traffic(scratch, served, "ib_write_bw", &arguments);
            inject(scratch, fault, &target);
            expect_failure(pair.client, fault);
            expect_failure(pair.server, fault);
        });
    }
}

/// Goal: an unmodified program that sleeps continues after a lost interrupt or doorbell.
#[test]
fn pingpong_goes_on() {
    for fault in ["lost-interrupt", "stuck-doorbell"] {
        on_each_bus(2, |scratch, served| {
            // Enough iterations that the fault comes in the middle; over the socket each takes far
            // longer.
            let iterations = if served.is_some() { "8000" } else { "40000" };
            let arguments = ["-g", "0", "-e", "-n", iterations];
            let Traffic { pair, target } =
                start_traffic(scratch, served, "ibv_rc_pingpong", &arguments);
            inject(scratch, fault, &target);
            pair.finish();
        });
    }
}

/// Goal: an unmodified watcher sees that the device has failed, whatever the cause, also when the
/// interrupt for it is lost.
#[test]
fn asyncwatch_sees_the_end_of_the_device() {
    let ends: [&[&str]; 4] = [
        &["surprise-removal"],
        &["function-level-reset"],
        &["lost-interrupt", "device-fatal"],
        &["completion-error", "lost-interrupt", "surprise-removal"],
    ];
    for faults in ends {
        on_each_bus(1, |scratch, served| {
            let device = served.map(|served| served.device(0));
            let options = device
                .as_ref()
                .map_or(vec![], |name| vec!["--device", name]);
            // Otherwise its output would stay in a pipe's or a file's buffer.
            let command = scratch.run(&options, "stdbuf", &["-oL", "ibv_asyncwatch"]);
            let mut watcher = Process::start(command, scratch, "watch", PROCESS_TIMEOUT);
            watcher.expect_output("async event FD");
            let pid = served.map_or(watcher.id(), |served| served.process.id());
            for fault in faults {
                inject(scratch, fault, &["--pid".to_owned(), pid.to_string()]);
            }
            watcher.expect_output("IBV_EVENT_DEVICE_FATAL");
        });
    }
}

/// Goal: a removed device cannot be opened, and the reason is reported; after insertion it can be
/// opened again.
#[test]
fn a_removed_device_is_named_and_comes_back() {
    let scratch = Scratch::new();
    let served = Served::start(&scratch, 1);
    let device = served.device(0);
    let target = ["--pid".to_owned(), served.process.id().to_string()];
    let show = || scratch.finish(scratch.run(&["--device", &device], "ibv_devinfo", &[]));
    assert!(show().expect_success().contains("PORT_ACTIVE"));
    inject(&scratch, "surprise-removal", &target);
    assert!(scratch.devices().contains("removed"));
    let ended = show();
    assert!(!ended.succeeded());
    assert!(ended.output.contains("it was removed"), "{ended:?}");
    inject(&scratch, "insertion", &target);
    assert!(show().expect_success().contains("PORT_ACTIVE"));
    assert!(!scratch.devices().contains("removed"));
}
