//! The commands `ferroce selftest` and `ferroce reg`, with a model in process and through a socket.

use std::fs;

use ferroce_tests::{Ended, PROCESS_TIMEOUT, Process, Scratch, Served};

/// Exit code when a stage has failed.
const STAGE_FAILED: i32 = 1;
/// Exit code for an unusable device or wrong arguments.
const OWN_FAILURE: i32 = 125;

fn run(scratch: &Scratch, arguments: &[&str]) -> Ended {
    scratch.finish(scratch.ferroce(arguments))
}

fn expect_refusal(scratch: &Scratch, arguments: &[&str], words: &[&str]) {
    let ended = run(scratch, arguments);
    let code = ended.status.and_then(|status| status.code());
    assert_eq!(code, Some(OWN_FAILURE), "{arguments:?}: {ended:?}");
    for word in words {
        assert!(ended.output.contains(word), "no {word}: {ended:?}");
    }
}

#[test]
fn the_model_in_process_passes() {
    let scratch = Scratch::new();
    let file = scratch.path("result.json");
    let path = file.to_string_lossy();
    let text = run(&scratch, &["selftest", "--json", &path]).expect_success();
    for word in [
        "in-process",
        "proves",
        "found",
        "14 of 16 stages passed",
        "not applicable: config, bars",
    ] {
        assert!(text.contains(word), "no {word}:\n{text}");
    }
    let json = fs::read_to_string(&file).expect("it was written");
    for word in [
        "\"passed\": true",
        "\"stage\": \"timing\"",
        "\"write_64k_gbps\"",
    ] {
        assert!(json.contains(word), "no {word}:\n{json}");
    }
}

#[test]
fn a_model_behind_a_socket_passes_all_stages() {
    let scratch = Scratch::new();
    let mut served = Served::start(&scratch, 1);
    let text = run(&scratch, &["selftest", "--device", &served.device(0)]).expect_success();
    assert!(text.contains("16 of 16 stages passed"), "{text}");
    // Twice, because the first run must leave the device unchanged.
    let stages = [
        "selftest",
        "--stage",
        "dma,interrupts",
        "--device",
        &served.device(0),
    ];
    let text = run(&scratch, &stages).expect_success();
    assert!(text.contains("7 of 7 stages passed"), "{text}");
    served.process.kill();
}

/// Goal: if the server dies during the check, the check ends with a message.
#[test]
fn a_server_that_is_killed_is_noticed() {
    let scratch = Scratch::new();
    let mut served = Served::start(&scratch, 1);
    let command = scratch.ferroce(&["selftest", "--device", &served.device(0)]);
    let mut check = Process::start(command, &scratch, "selftest", PROCESS_TIMEOUT);
    // The next stage takes 200 ms.
    check.expect_output("reset          passed");
    served.process.kill();
    let ended = check.wait();
    let code = ended.status.and_then(|status| status.code());
    assert_eq!(code, Some(STAGE_FAILED), "{ended:?}");
    // The message may be wrapped anywhere.
    let words: Vec<&str> = ended.output.split_whitespace().collect();
    let text = words.join(" ");
    assert!(text.contains("the device is gone now"), "{text}");
}

#[test]
fn registers_are_read_and_written_by_name() {
    let scratch = Scratch::new();
    let reg = |arguments: &[&str]| {
        let all = [&["reg"], arguments].concat();
        run(&scratch, &all).expect_success()
    };
    for (arguments, words) in [
        (&["get", "magic"][..], &["0x434f5246", "\"FROC\""][..]),
        (&["get", "0x24"], &["status", "0x00000009", "ready link_up"]),
        (&["get", "event_queue_doorbell[3]"], &["write-only"]),
        (&["get", "0x38"], &["0xffffffff", "no register"]),
        (
            &["set", "command_queue_base", "0x1240"],
            &["0x0000000000001240"],
        ),
        (
            &["set", "command_queue_base", "0x1241"],
            &["0x0000000000001240", "it is as shown now"],
        ),
        (
            &["set", "magic", "1", "--force"],
            &["0x434f5246", "read-only"],
        ),
        (
            &["dump"],
            &["capability", "vectors=16", "counters are zero"],
        ),
        (&["dump", "--all"], &["tx_work_done"]),
        (
            &["list"],
            &[
                "0x0030",
                "64 RO",
                "event_queue_doorbell[16]",
                "31 arm",
                "rx_frames",
            ],
        ),
        (
            &["watch", "clock", "--interval", "1", "--count", "3"],
            &["clock"],
        ),
    ] {
        let text = reg(arguments);
        for word in words {
            assert!(text.contains(word), "{arguments:?}: no {word}:\n{text}");
        }
    }
}

#[test]
fn values_stay_in_a_model_behind_a_socket() {
    let scratch = Scratch::new();
    let mut served = Served::start(&scratch, 1);
    let device = served.device(0);
    let reg = |arguments: &[&str]| {
        let all = [&["reg", "--device", &device], arguments].concat();
        run(&scratch, &all).expect_success()
    };
    assert!(reg(&["get", "clock"]).contains(" s"));
    let watched = reg(&["watch", "clock", "--interval", "5", "--count", "4"]);
    assert_eq!(watched.matches("clock").count(), 4, "{watched}");
    served.process.kill();
}

#[test]
fn what_cannot_be_is_refused_with_a_way_on() {
    let scratch = Scratch::new();
    expect_refusal(
        &scratch,
        &["selftest", "--stage", "dam"],
        &["\"dam\"", "dma"],
    );
    expect_refusal(
        &scratch,
        &["selftest", "--device", "card"],
        &["`card`", "vfio-user:"],
    );
    let nowhere = ["selftest", "--device", "vfio-user:/no/such.sock"];
    expect_refusal(&scratch, &nowhere, &["/no/such.sock", "ferroce serve"]);
    expect_refusal(
        &scratch,
        &["selftest", "--json", "/no/such/file"],
        &["/no/such/file"],
    );
    expect_refusal(&scratch, &["reg", "get", "stat"], &["did you mean status"]);
    expect_refusal(&scratch, &["reg", "get", "0x4000"], &["size of BAR0"]);
    expect_refusal(
        &scratch,
        &["reg", "get", "event_queue_doorbell[16]"],
        &["it has 16"],
    );
    expect_refusal(
        &scratch,
        &["reg", "set", "magic", "1"],
        &["read-only", "--force"],
    );
    expect_refusal(
        &scratch,
        &["reg", "set", "0x38", "1"],
        &["has no name", "--force"],
    );
    expect_refusal(
        &scratch,
        &["reg", "set", "control", "1x"],
        &["is not a number"],
    );
    expect_refusal(
        &scratch,
        &["reg", "set", "control", "0x100000000"],
        &["32 bits"],
    );
}

/// Goal: the second user of a device gets an error that explains it. Method: another process
/// watches a register at the same time.
#[test]
fn a_device_that_is_in_use_is_refused() {
    let scratch = Scratch::new();
    let mut served = Served::start(&scratch, 1);
    let device = served.device(0);
    let watch = [
        "reg",
        "watch",
        "clock",
        "--interval",
        "5",
        "--device",
        &device,
    ];
    let mut first = Process::start(scratch.ferroce(&watch), &scratch, "watch", PROCESS_TIMEOUT);
    first.expect_output("clock");
    expect_refusal(
        &scratch,
        &["reg", "get", "status", "--device", &device],
        &["one client at a time"],
    );
    first.kill();
    served.process.kill();
}

#[test]
fn stages_are_listed() {
    let scratch = Scratch::new();
    let text = run(&scratch, &["selftest", "--list"]).expect_success();
    for word in ["config", "device-memory", "needs bring-up"] {
        assert!(text.contains(word), "no {word}:\n{text}");
    }
}
