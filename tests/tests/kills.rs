//! When a process is killed during traffic with losses, its peer does not block, in any recovery
//! mode.
//!
//! The test marked `ignored` is the long mode (`make soak`). `timed_kills` is the same in simulated
//! time.

use ferroce_tests::{Pair, Scratch, TIMEOUT, eventually};

const MODES: [&str; 3] = ["go-back-n", "selective-repeat", "adaptive-routing"];
const PROGRAMS: [&str; 4] = ["ib_write_bw", "ib_read_bw", "ib_send_bw", "ib_atomic_bw"];
/// Kills of the long mode.
const KILLS: u64 = 200;

/// Runs a pair and kills one of the two during traffic; the number determines which one and when.
fn kill(number: u64) {
    let choose = |count: usize| number as usize % count;
    let (mode, program) = (MODES[choose(3)], PROGRAMS[choose(4)]);
    let scratch = Scratch::new();
    let pair = Pair {
        program,
        // Long enough that it does not end by itself.
        arguments: &["-F", "-D", "100", "-u", "10"],
        options: &["--faults", "loss=1e-2,seed=9", "--recovery", mode],
    };
    let mut running = pair.start(&scratch, pair.options, pair.options);
    let client = running.client.id();
    // The moment of the kill.
    let frames = 100 + number * 3_700 % 30_000;
    eventually("traffic", TIMEOUT, || {
        scratch.counter(client, "tx_frames") > frames
    });
    // The server of ib_send_bw does not watch its client: it only polls for messages.
    let kills_server = number / 2 % 2 == 0 || program == "ib_send_bw";
    let (victim, mut survivor) = if kills_server {
        (&mut running.server, running.client)
    } else {
        (&mut running.client, running.server)
    };
    victim.kill();
    survivor.hurry(TIMEOUT);
    let ended = survivor.wait();
    let what = format!("{mode}, {program}, kill of the server: {kills_server}");
    let code = ended.status.and_then(|status| status.code());
    assert!(code.is_some(), "{what}: {ended:?}");
    assert!(!kills_server || code != Some(0), "{what}: {ended:?}");
    let left = scratch.devices();
    assert!(!left.contains("pid "), "{what}: {left}");
}

#[test]
fn a_kill_in_lossy_traffic_blocks_no_other() {
    (0..12).for_each(kill);
}

#[test]
#[ignore = "takes minutes"]
fn kills_in_lossy_traffic_block_no_other() {
    (0..KILLS).for_each(kill);
}
