//! Functions behind sockets, used by the driver: traffic between them, and clients that die.

mod command_support;
#[path = "../embed/tests/common/mod.rs"]
mod common;
#[path = "../serve/tests/serve_support/mod.rs"]
mod serve_support;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use command_support::ferroce_at;
use common::{BUFFER, Node, Rendezvous, TIMEOUT};
use ferroce_driver::bus::{self, DeviceAddress};
use ferroce_driver::{CompletionOpcode, CompletionStatus, SendOperation};
use serve_support::serve;

/// Clients killed in the ordinary test, and in the long one.
const KILLS: u64 = 20;
const MANY_KILLS: u64 = 200;
/// The latest moment at which a client is killed.
const LATEST_KILL_MS: u64 = 700;

/// A process with a served function.
fn node(rendezvous: &Rendezvous, path: &Path, host: &str, device: u8) -> Node {
    let bus = bus::open(&DeviceAddress::VfioUser(path.into())).expect("it is served");
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
    other
        .qp
        .receive_queue()
        .expect("its own")
        .post(33, &[other.segment(BUFFER)])
        .expect("room");
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
            // Both are asleep by then.
            std::thread::sleep(Duration::from_millis(5));
        }
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
        let receives = other.qp.receive_queue().expect("its own");
        receives.post(1, &[other.segment(64)]).expect("room");
        other.cq.arm(false);
        one.post(SendOperation::Send, 64);
        let deadline = Instant::now() + TIMEOUT;
        while other.events.load(Ordering::SeqCst) < round {
            assert!(Instant::now() < deadline, "no event in round {round}");
            std::thread::sleep(Duration::from_micros(100));
        }
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

/// `ferroce serve` as a separate process; killed at the end if it is still running.
struct Server {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Server {
    fn start(rendezvous: &Rendezvous, arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_ferroce"))
            .arg("serve")
            .args(arguments)
            .env("FERROCE_DIR", &rendezvous.0)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the tool runs");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        Self { child, output }
    }

    /// Returns the address of the next function that is ready.
    fn ready(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("it speaks");
        let mut words = line.split(' ');
        assert_eq!(words.next(), Some("ready"), "{line}");
        words.next().expect("an address").to_owned()
    }

    /// Terminates it. Returns true if it ended well.
    fn terminate(mut self) -> bool {
        let pid = self.child.id().to_string();
        let asked = Command::new("kill").arg(pid).status().expect("kill runs");
        assert!(asked.success());
        let deadline = Instant::now() + TIMEOUT;
        loop {
            if let Some(status) = self.child.try_wait().expect("our child") {
                return status.success();
            }
            assert!(Instant::now() < deadline, "it does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
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
    let mut server = Server::start(&rendezvous, &["--socket", socket, "--functions", "2"]);
    let addresses = [server.ready(), server.ready()];
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
    let bus = bus::open(&addresses[0].parse().expect("an address")).expect("it is served");
    assert!(server.terminate(), "though a client is there");
    assert!(sockets.iter().all(|socket| !socket.exists()));
    drop(bus);
}

/// Kills clients at moments that are spread over their lives; the server must continue.
fn kill_clients(name: &str, kills: u64) {
    let rendezvous = Rendezvous::new(name);
    let socket = rendezvous.0.join("nic");
    let socket = socket.to_str().expect("plain");
    let mut server = Server::start(&rendezvous, &["--socket", socket]);
    let address = server.ready();
    // Multiples of the golden ratio: spread evenly, however many there are.
    for number in 1..=kills {
        let fraction = (number as f64 * 0.618_033_988_75).fract();
        let moment_ms = (fraction * LATEST_KILL_MS as f64) as u64;
        let mut client = self_test(&rendezvous, &address).spawn().expect("it runs");
        std::thread::sleep(Duration::from_millis(moment_ms));
        client.kill().expect("our child");
        client.wait().expect("our child");
        assert!(server.child.try_wait().expect("our child").is_none());
    }
    let output = self_test(&rendezvous, &address)
        .stdout(Stdio::piped())
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(server.terminate());
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
