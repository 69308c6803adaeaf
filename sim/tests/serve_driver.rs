//! Functions behind sockets, used by the driver: traffic between them, and clients that die.

mod command_support;
#[path = "../embed/tests/common/mod.rs"]
mod common;
#[path = "../serve/tests/serve_support/mod.rs"]
mod serve_support;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use command_support::ferroce_at;
use common::{BUFFER, Node, Rendezvous, TIMEOUT};
use ferroce_driver::{CompletionOpcode, CompletionStatus, Qpn, SendOperation};
use ferroce_embed::address::DeviceAddress;
use ferroce_embed::open::open;
use ferroce_test_support::{Process, Signal};
use ferroce_test_verbs as verbs;
use serve_support::serve;

/// Clients killed in the ordinary test, and in the long one.
const KILLS: u64 = 20;
const MANY_KILLS: u64 = 200;
/// Time limit for a server with all its clients.
const LIFE: Duration = Duration::from_secs(600);
/// The latest moment at which a client is killed.
const LATEST_KILL_MS: u64 = 700;

/// A process with a served function.
fn node(rendezvous: &Rendezvous, path: &Path, host: &str, device: u8) -> Node {
    let bus = open(&DeviceAddress::VfioUser(path.into())).expect("it is served");
    let host = rendezvous.device_options(host, device).host;
    Node::over(bus, host, None)
}

fn connect(one: &Node, other: &Node) {
    one.connect(other);
    other.connect(one);
}

#[test]
fn write_send_and_read_between_two_served_functions() {
    let rendezvous = Rendezvous::new("served-traffic");
    let (_serving, paths) = serve(&rendezvous, "a", 2);
    let one = node(&rendezvous, &paths[0], "a", 0);
    let other = node(&rendezvous, &paths[1], "a", 1);
    connect(&one, &other);
    for round in 1..20 {
        one.fill(round);
        one.post(SendOperation::RdmaWrite(other.remote()), BUFFER);
        assert_eq!(one.wait().status, CompletionStatus::Success);
        assert!(other.holds(BUFFER, round));
    }
    other.post_receive(33, BUFFER);
    one.fill(100);
    one.post(SendOperation::Send, 100_000);
    let received = other.wait();
    assert_eq!(received.opcode, CompletionOpcode::Receive);
    assert_eq!((received.wr_id, received.byte_length), (33, 100_000));
    assert!(other.holds(100_000, 100));
    assert_eq!(one.wait().wr_id, 11);

    other.fill(103);
    one.post(SendOperation::RdmaRead(other.remote()), BUFFER);
    assert_eq!(one.wait().status, CompletionStatus::Success);
    assert!(one.holds(BUFFER, 103));
}

#[test]
fn a_served_function_and_one_of_this_process() {
    let rendezvous = Rendezvous::new("served-mixed");
    let (_serving, paths) = serve(&rendezvous, "a", 1);
    let served = node(&rendezvous, &paths[0], "a", 0);
    let own = Node::new(&rendezvous.options("b"));
    // It finds the served function by the address that the driver gave to that.
    connect(&served, &own);
    for round in 1..=20 {
        let (from, to) = match round % 2 {
            0 => (&served, &own),
            _ => (&own, &served),
        };
        from.fill(round);
        from.post(SendOperation::RdmaWrite(to.remote()), 5000);
        assert_eq!(from.wait().status, CompletionStatus::Success);
        assert!(to.holds(5000, round));
        if round % 10 == 0 {
            // Both are probably asleep by then.
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Goal: the GSI is the same behind vfio-user: QP 1, with MADs to and from a function of this
/// process; and gone with its client.
#[test]
fn a_served_function_has_a_gsi() {
    const MAD: usize = 256;
    const GRH: usize = 40;
    let rendezvous = Rendezvous::new("served-gsi");
    let (_serving, paths) = serve(&rendezvous, "a", 1);
    let own = Node::new(&rendezvous.options("b"));
    let own_gsi = verbs::new_gsi(&own.pd, &own.cq, 4);
    for _ in 0..2 {
        let served = node(&rendezvous, &paths[0], "a", 0);
        let gsi = verbs::new_gsi(&served.pd, &served.cq, 4);
        assert_eq!(gsi.number(), Qpn::GSI);
        for (node, gsi) in [(&served, &gsi), (&own, &own_gsi)] {
            verbs::post_receive(gsi, 7, node.segment(GRH + MAD));
        }
        for (from, gsi, to) in [(&served, &gsi, &own), (&own, &own_gsi, &served)] {
            let path = verbs::path_to(to.host.gids[1].gid, to.host.mac);
            let segment = verbs::segment(&from.region, 4096, MAD);
            verbs::send_to_gsi(gsi, 1, &path, segment);
            assert_eq!(from.wait().opcode, CompletionOpcode::Send);
            let received = to.wait();
            assert_eq!(received.opcode, CompletionOpcode::Receive);
            assert_eq!((received.qpn, received.source_qpn), (Qpn::GSI, Qpn::GSI));
        }
        // The next client of the function finds no GSI of this one.
    }
}

#[test]
fn events_come_by_eventfd() {
    let rendezvous = Rendezvous::new("served-events");
    let (_serving, paths) = serve(&rendezvous, "a", 2);
    let one = node(&rendezvous, &paths[0], "a", 0);
    let other = node(&rendezvous, &paths[1], "a", 1);
    connect(&one, &other);
    for round in 1..=20 {
        other.post_receive(1, 64);
        other.cq.arm();
        one.post(SendOperation::Send, 64);
        other.expect_events(round);
        assert_eq!(other.wait().status, CompletionStatus::Success);
        assert_eq!(one.wait().status, CompletionStatus::Success);
    }
}

#[test]
fn doorbells_of_an_idle_function_wake_it() {
    let rendezvous = Rendezvous::new("served-wake");
    let (_serving, paths) = serve(&rendezvous, "a", 1);
    let node = node(&rendezvous, &paths[0], "a", 0);
    node.connect(&node);
    // Around the moment at which the function falls asleep, which is when a doorbell could be lost.
    for round in 0..300u32 {
        node.post(SendOperation::RdmaWrite(node.remote()), 8);
        assert_eq!(node.wait().status, CompletionStatus::Success);
        std::thread::sleep(Duration::from_micros(u64::from(round % 100)));
    }
}

/// Starts `ferroce serve` as a separate process.
fn server(rendezvous: &Rendezvous, arguments: &[&str]) -> Process {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ferroce"));
    command.arg("serve").args(arguments);
    command.env("FERROCE_DIR", &rendezvous.0);
    Process::start(command, &rendezvous.0, "serve", LIFE)
}

/// Waits until `count` functions are ready. Returns their addresses.
fn ready(server: &mut Process, count: usize) -> Vec<String> {
    server.wait_for_output("the functions are ready", |output| {
        let lines = output
            .split_inclusive('\n')
            .filter(|line| line.ends_with('\n'));
        let addresses = lines.filter_map(|line| line.strip_prefix("ready ")?.split(' ').next());
        let addresses: Vec<_> = addresses.map(|name| name.trim().to_owned()).collect();
        (addresses.len() == count).then_some(addresses)
    })
}

/// Terminates a server. Returns true if it ended well.
fn terminate(mut server: Process) -> bool {
    server.signal(Signal::TERM);
    server.hurry(TIMEOUT);
    let ended = server.wait();
    ended.expect_end().success()
}

fn self_test(rendezvous: &Rendezvous, address: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ferroce"));
    command
        .args(["selftest", "--device", address])
        .args(["--stage", "bring-up,dma,interrupts,loopback"])
        .env("FERROCE_DIR", &rendezvous.0)
        .stdout(Stdio::null());
    command
}

#[test]
fn a_server_says_when_it_is_ready_and_ends_cleanly() {
    let rendezvous = Rendezvous::new("served-process");
    let socket = rendezvous.0.join("nic");
    let socket = socket.to_str().expect("plain");
    let mut server = server(&rendezvous, &["--socket", socket, "--functions", "2"]);
    let addresses = ready(&mut server, 2);
    assert_eq!(addresses, [0, 1].map(|n| format!("vfio-user:{socket}.{n}")));
    let sockets = [0, 1].map(|n| PathBuf::from(format!("{socket}.{n}")));
    assert!(sockets.iter().all(|socket| socket.exists()));
    let (text, ok) = ferroce_at(&rendezvous, &["serve", "--socket", &format!("{socket}.0")]);
    assert!(!ok && text.contains("listens there already"), "{text}");
    let (text, ok) = ferroce_at(
        &rendezvous,
        &["serve", "--socket", socket, "--preset", "cx5-100g"],
    );
    assert!(!ok && text.contains("functional"), "{text}");
    let bus = open(&addresses[0].parse().expect("an address")).expect("it is served");
    assert!(terminate(server), "though a client is there");
    assert!(sockets.iter().all(|socket| !socket.exists()));
    drop(bus);
}

/// Kills clients at moments that are spread over their lives; the server must continue.
fn kill_clients(name: &str, kills: u64) {
    let rendezvous = Rendezvous::new(name);
    let socket = rendezvous.0.join("nic");
    let socket = socket.to_str().expect("plain");
    let mut server = server(&rendezvous, &["--socket", socket]);
    let [address] = &ready(&mut server, 1)[..] else {
        panic!("one function");
    };
    // Multiples of the golden ratio: spread evenly, however many there are.
    for number in 1..=kills {
        let fraction = (number as f64 * 0.618_033_988_75).fract();
        let moment_ms = (fraction * LATEST_KILL_MS as f64) as u64;
        let mut client = self_test(&rendezvous, address).spawn().expect("it runs");
        // The moment of the kill.
        std::thread::sleep(Duration::from_millis(moment_ms));
        client.kill().expect("our child");
        client.wait().expect("our child");
        assert!(server.is_running(), "{}", server.output());
    }
    let output = self_test(&rendezvous, address)
        .stdout(Stdio::piped())
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(terminate(server));
}

#[test]
fn clients_that_are_killed_leave_a_function_that_works() {
    kill_clients("served-kills", KILLS);
}

#[test]
#[ignore = "long"]
fn many_clients_that_are_killed_leave_a_function_that_works() {
    kill_clients("served-many-kills", MANY_KILLS);
}
