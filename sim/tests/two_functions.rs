//! Two functions in one process: driver, model, rings and background threads together.

mod command_support;
#[path = "../embed/tests/common/mod.rs"]
mod common;

use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::Duration;

use command_support::ferroce_at;
use common::{BUFFER, Node, Rendezvous, two};
use ferroce_driver::{
    AsyncEvent, CompletionOpcode, CompletionStatus, RemoteAddress, SendOperation,
};
use ferroce_embed::clock::Ticks;
use ferroce_embed::fabric::registry::Registry;
use ferroce_embed::function::{Function, Options};
use ferroce_test_support::stays;

#[test]
fn write_send_and_read_between_two_that_poll() {
    let rendezvous = Rendezvous::new("polling");
    let (one, other) = two(&rendezvous, ["a", "a"]);
    one.fill(1);
    one.post(SendOperation::RdmaWrite(other.remote()), BUFFER);
    let done = one.wait_beside(Some(&other));
    assert_eq!(done.status, CompletionStatus::Success);
    assert!(other.holds(BUFFER, 1));

    other
        .qp
        .receive_queue()
        .expect("its own")
        .post(33, &[other.segment(BUFFER)])
        .expect("room");
    one.fill(2);
    one.post(SendOperation::Send, 100_000);
    let received = other.wait_beside(Some(&one));
    assert_eq!(received.opcode, CompletionOpcode::Receive);
    assert_eq!((received.wr_id, received.byte_length), (33, 100_000));
    assert!(other.holds(100_000, 2));
    assert_eq!(one.wait_beside(Some(&other)).wr_id, 11);

    other.fill(3);
    one.post(SendOperation::RdmaRead(other.remote()), BUFFER);
    assert_eq!(
        one.wait_beside(Some(&other)).status,
        CompletionStatus::Success
    );
    assert!(one.holds(BUFFER, 3));
}

#[test]
fn a_target_that_never_polls_is_served_by_its_thread() {
    let rendezvous = Rendezvous::new("passive");
    let (one, other) = two(&rendezvous, ["a", "b"]);
    for round in 1..=50 {
        one.fill(round);
        one.post(SendOperation::RdmaWrite(other.remote()), 5000);
        assert_eq!(one.wait().status, CompletionStatus::Success);
        assert!(other.holds(5000, round));
        if round % 10 == 0 {
            // Both are probably asleep by then.
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn an_armed_queue_raises_an_event_without_a_poll() {
    let rendezvous = Rendezvous::new("events");
    let (one, other) = two(&rendezvous, ["a", "a"]);
    for round in 1..=20 {
        other.post_receive(1, 64);
        other.cq.arm();
        one.post(SendOperation::Send, 64);
        other.expect_events(round);
        let mut received = 0;
        other.cq.poll(16, |_| received += 1);
        assert_eq!(received, 1);
        assert_eq!(one.wait().status, CompletionStatus::Success);
    }
}

#[test]
fn a_peer_that_leaves_ends_in_retry_exceeded() {
    let rendezvous = Rendezvous::new("leaves");
    let (one, other) = two(&rendezvous, ["a", "a"]);
    let target = other.remote();
    one.post(SendOperation::RdmaWrite(target), 64);
    assert_eq!(one.wait().status, CompletionStatus::Success);
    drop(other);
    one.post(SendOperation::RdmaWrite(target), 64);
    assert_eq!(one.wait().status, CompletionStatus::RetryExceededError);
}

#[test]
fn loopback_inside_one_function() {
    let rendezvous = Rendezvous::new("loopback");
    let node = Node::new(&rendezvous.options("a"));
    node.connect(&node);
    node.post(SendOperation::RdmaWrite(node.remote()), BUFFER);
    assert_eq!(node.wait().status, CompletionStatus::Success);
}

/// Goal: a program that posts for longer than the limit between polls still counts as polling, so
/// that its background thread does not take over; unless it has armed a CQ, and so will sleep.
#[test]
fn posting_between_two_polls_counts_as_polling() {
    let rendezvous = Rendezvous::new("posting");
    let node = Node::new(&rendezvous.options("a"));
    node.connect(&node);
    let registry = Registry::open(&rendezvous.0).expect("usable");
    let words = registry.words(registry.occupants()[0].place);
    // Any single post may come too late on a loaded machine.
    let counts = (0..1000).any(|_| {
        node.cq.relax();
        let before = words.polls_until();
        node.post(SendOperation::RdmaWrite(node.remote()), 8);
        let after = words.polls_until();
        node.wait();
        after > before
    });
    assert!(counts);
    node.cq.arm();
    node.post(SendOperation::RdmaWrite(node.remote()), 8);
    assert_eq!(words.polls_until(), Ticks(0));
}

/// Goal: atomics of peers are atomic with those of this process. Method: both add to one word.
#[test]
fn atomics_do_not_lose_what_the_processor_adds_meanwhile() {
    const ROUNDS: u64 = 300;
    const OWN: u64 = 1 << 32;
    let rendezvous = Rendezvous::new("atomics");
    let (one, other) = two(&rendezvous, ["a", "b"]);
    let word = &other.memory[3];
    let remote = RemoteAddress {
        virtual_address: other.remote().virtual_address + 24,
        ..other.remote()
    };
    let mut added = 0;
    for round in 0..ROUNDS {
        one.post(SendOperation::FetchAdd { remote, add: 1 }, 8);
        let mut is_done = false;
        while !is_done {
            one.cq.poll(1, |completion| {
                assert_eq!(completion.status, CompletionStatus::Success);
                is_done = true;
            });
            word.fetch_add(OWN, Ordering::Relaxed);
            added += 1;
        }
        let original = one.memory[0].load(Ordering::Acquire);
        assert_eq!(original % OWN, round);
    }
    assert_eq!(word.load(Ordering::Acquire), ROUNDS + added * OWN);
    let expected = word.load(Ordering::Acquire);
    let swap = |compare| SendOperation::CompareSwap {
        remote,
        compare,
        swap: 5,
    };
    one.post(swap(1), 8);
    assert_eq!(one.wait().status, CompletionStatus::Success);
    assert_eq!(word.load(Ordering::Acquire), expected);
    one.post(swap(expected), 8);
    assert_eq!(one.wait().status, CompletionStatus::Success);
    assert_eq!(one.memory[0].load(Ordering::Acquire), expected);
    assert_eq!(word.load(Ordering::Acquire), 5);
    let odd = RemoteAddress {
        virtual_address: remote.virtual_address + 4,
        ..remote
    };
    one.post(
        SendOperation::FetchAdd {
            remote: odd,
            add: 1,
        },
        8,
    );
    let refused = one.wait().status;
    assert_eq!(refused, CompletionStatus::RemoteInvalidRequestError);
}

#[test]
fn devices_of_one_process_reach_each_other() {
    let rendezvous = Rendezvous::new("devices");
    let nodes = [0, 1].map(|device| Node::new(&rendezvous.device_options("a", device)));
    let [one, other] = &nodes;
    one.connect(other);
    other.connect(one);
    one.fill(9);
    one.post(SendOperation::RdmaWrite(other.remote()), BUFFER);
    assert_eq!(one.wait().status, CompletionStatus::Success);
    assert!(other.holds(BUFFER, 9));
    let (devices, _) = ferroce_at(&rendezvous, &["devices"]);
    let (counters, _) = ferroce_at(&rendezvous, &["counters"]);
    for name in ["ferroce0", "ferroce1"] {
        assert!(devices.contains(name), "{devices}");
        assert!(
            counters.contains(&format!("{name} on host a")),
            "{counters}"
        );
    }
}

#[test]
fn an_injected_fault_is_reported_by_the_device_that_it_was_meant_for() {
    let rendezvous = Rendezvous::new("inject");
    let (one, other) = two(&rendezvous, ["a", "b"]);
    let inject = |arguments: &[&str]| {
        let (text, success) = ferroce_at(&rendezvous, &[&["inject"], arguments].concat());
        assert!(success, "{text}");
        text
    };
    let text = inject(&["port-down", "--host", "b"]);
    assert!(text.contains("on host b: done"), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    other.expect_reports(&[AsyncEvent::PortError]);
    let (devices, _) = ferroce_at(&rendezvous, &["devices"]);
    assert!(devices.contains("port down"), "{devices}");
    one.fill(1);
    one.post(SendOperation::RdmaWrite(other.remote()), 64);
    assert!(stays(Duration::from_millis(20), || {
        one.cq.poll(1, |_| panic!("nothing gets through")) == 0
    }));
    assert!(other.holds(64, 0));
    assert!(inject(&["port-down", "--host", "b"]).contains("down already"));
    inject(&["port-up"]);
    other.expect_reports(&[AsyncEvent::PortActive]);
    assert_eq!(one.wait().status, CompletionStatus::Success, "a retry");
    assert!(other.holds(64, 1));
    one.expect_reports(&[]);

    inject(&["device-fatal", "--host", "b", "--device", "ferroce0"]);
    other.expect_reports(&[AsyncEvent::DeviceFatal]);
    one.post(SendOperation::RdmaWrite(other.remote()), 64);
    assert_eq!(one.wait().status, CompletionStatus::RetryExceededError);
    one.expect_reports(&[]);
}

#[test]
fn faults_for_unknown_functions_are_refused() {
    let rendezvous = Rendezvous::new("refused");
    let refusal = |arguments: &[&str]| {
        let (text, success) = ferroce_at(&rendezvous, &[&["inject"], arguments].concat());
        assert!(!success, "{text}");
        text
    };
    assert!(refusal(&["port-down"]).contains("no program uses the device"));
    let _function = Function::open_with(&rendezvous.options("a")).expect("a place is free");
    let here = format!("pid {}", std::process::id());
    for (option, value) in [("--host", "b"), ("--pid", "1"), ("--device", "ferroce1")] {
        let text = refusal(&["port-down", option, value]);
        assert!(text.contains(value) && text.contains(&here), "{text}");
    }
    assert!(refusal(&["fire"]).contains("port-down"));
}

#[test]
fn all_functions_capture_into_one_file() {
    let rendezvous = Rendezvous::new("capture");
    let path: &Path = &rendezvous.0.join("frames.pcapng");
    let options = Options {
        capture: Some(path.to_owned()),
        ..rendezvous.options("a")
    };
    let (one, other) = (Node::new(&options), Node::new(&options));
    one.connect(&other);
    other.connect(&one);
    one.post(SendOperation::RdmaWrite(other.remote()), 10_000);
    assert_eq!(
        one.wait_beside(Some(&other)).status,
        CompletionStatus::Success
    );
    drop((one, other));
    let tool = env!("CARGO_BIN_EXE_ferroce");
    let output = Command::new(tool)
        .args(["wire", "check"])
        .arg(path)
        .output()
        .expect("the tool runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    for (opcode, count) in [
        ("WRITE_FIRST", "1"),
        ("WRITE_MIDDLE", "1"),
        ("WRITE_LAST", "1"),
    ] {
        let line = text.lines().find(|line| line.contains(opcode));
        assert!(line.is_some_and(|line| line.ends_with(count)), "{text}");
    }
}
