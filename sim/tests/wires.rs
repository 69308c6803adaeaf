//! Functions on different fabrics, as on different machines: everything between them goes over a
//! wire.

mod command_support;
#[path = "../embed/tests/common/mod.rs"]
mod common;

use std::net::UdpSocket;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use command_support::ferroce_at;
use common::{BUFFER, Node, Rendezvous, TIMEOUT};
use ferroce_driver::{AsyncEvent, CompletionStatus, SendOperation};
use ferroce_embed::fabric::registry::{Registry, UplinkCounter};
use ferroce_embed::function::Options;
use ferroce_embed::uplink::UplinkSpec;
use ferroce_faults::FaultCounter;
use ferroce_test_support::eventually;

fn on_wire(rendezvous: &Rendezvous, host: &str, wire: &str) -> Options {
    Options {
        port: UplinkSpec::parse(wire).expect("legal"),
        ..rendezvous.options(host)
    }
}

/// Returns a counter of the wire of the only function on a fabric.
fn counter(rendezvous: &Rendezvous, counter: UplinkCounter) -> u64 {
    let registry = Registry::open(&rendezvous.0).expect("it is there");
    let [occupant] = &registry.occupants()[..] else {
        panic!("one function")
    };
    let word = registry.uplink_counter(occupant.place, counter);
    word.load(Ordering::Relaxed)
}

/// Two connected functions, and the fabric of each.
struct Connected {
    near: Node,
    far: Node,
    fabrics: [Rendezvous; 2],
}

impl Connected {
    fn new(name: &str, near: &str, far: &str) -> Self {
        let fabrics = ["near", "far"].map(|side| Rendezvous::new(&format!("{name}-{side}")));
        let near = Node::new(&on_wire(&fabrics[0], "a", near));
        let far = Node::new(&on_wire(&fabrics[1], "b", far));
        near.connect(&far);
        far.connect(&near);
        Self { near, far, fabrics }
    }

    fn write_and_read(&self, length: usize) {
        let (near, far) = (&self.near, &self.far);
        near.fill(1);
        near.post(SendOperation::RdmaWrite(far.remote()), length);
        let done = near.wait_beside(Some(far));
        assert_eq!(done.status, CompletionStatus::Success);
        assert!(far.holds(length, 1));
        far.fill(2);
        near.post(SendOperation::RdmaRead(far.remote()), length);
        let done = near.wait_beside(Some(far));
        assert_eq!(done.status, CompletionStatus::Success);
        assert!(near.holds(length, 2));
    }
}

fn sockets(rendezvous: &Rendezvous) -> [String; 2] {
    ["a", "b"].map(|name| rendezvous.0.join(name).display().to_string())
}

#[test]
fn rdma_over_unix_datagrams() {
    let rendezvous = Rendezvous::new("wire-datagrams");
    let [a, b] = sockets(&rendezvous);
    let (near, far) = (format!("qemu-dgram:{a},{b}"), format!("qemu-dgram:{b},{a}"));
    let pair = Connected::new("datagrams", &near, &far);
    pair.write_and_read(BUFFER);
    let sent = counter(&pair.fabrics[0], UplinkCounter::Sent);
    assert!(sent > 256, "{sent} frames; 1 MiB has 256");
}

#[test]
fn rdma_over_a_stream() {
    let rendezvous = Rendezvous::new("wire-stream");
    let [path, _] = sockets(&rendezvous);
    let (near, far) = (
        format!("qemu-stream:listen:{path}"),
        format!("qemu-stream:{path}"),
    );
    Connected::new("stream", &near, &far).write_and_read(BUFFER);
}

/// Goal: on a wire out of this machine both directions suffer, although one end has faults only.
/// Method: the first packets of each direction are lost, damaged, late and duplicated.
#[test]
fn faults_of_a_wire_have_both_directions() {
    let rendezvous = Rendezvous::new("wire-faults");
    let [a, b] = sockets(&rendezvous);
    let fabrics = ["near", "far"].map(|side| Rendezvous::new(&format!("faults-{side}")));
    let plan = "drop=write#1,corrupt=write#30,dup=write#60,reorder=write#90/1ms,\
                drop=read_response#2,corrupt=read_response#40,dup=read_response#70";
    let near = Node::new(&Options {
        faults: Some(plan.parse().expect("a plan")),
        ..on_wire(&fabrics[0], "a", &format!("qemu-dgram:{a},{b}"))
    });
    let far = Node::new(&on_wire(&fabrics[1], "b", &format!("qemu-dgram:{b},{a}")));
    near.connect(&far);
    far.connect(&near);
    let pair = Connected { near, far, fabrics };
    pair.write_and_read(BUFFER);
    let registry = Registry::open(&pair.fabrics[0].0).expect("it is there");
    let place = registry.occupants()[0].place;
    let value = |counter| {
        registry
            .fault_counter(place, counter)
            .load(Ordering::Relaxed)
    };
    // The function publishes its counters when it is idle.
    eventually("the counters of all faults", TIMEOUT, || {
        [
            (FaultCounter::Lost, 2),
            (FaultCounter::Corrupted, 2),
            (FaultCounter::Duplicated, 2),
            (FaultCounter::Delayed, 1),
        ]
        .iter()
        .all(|(counter, expected)| value(*counter) == *expected)
    });
}

#[test]
fn rdma_over_udp() {
    let port = || {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        socket.local_addr().expect("bound").port()
    };
    let (a, b) = (port(), port());
    let (near, far) = (
        format!("udp:127.0.0.1:{a},127.0.0.1:{b}"),
        format!("udp:127.0.0.1:{b},127.0.0.1:{a}"),
    );
    Connected::new("udp", &near, &far).write_and_read(BUFFER);
}

/// Goal: a passive target is woken by frames from a wire. Method: it does not poll.
#[test]
fn a_target_that_never_polls_is_served() {
    let rendezvous = Rendezvous::new("wire-passive");
    let [a, b] = sockets(&rendezvous);
    let (near, far) = (format!("qemu-dgram:{a},{b}"), format!("qemu-dgram:{b},{a}"));
    let pair = Connected::new("passive", &near, &far);
    for round in 1..=50 {
        pair.near.fill(round);
        pair.near
            .post(SendOperation::RdmaWrite(pair.far.remote()), 5000);
        assert_eq!(pair.near.wait().status, CompletionStatus::Success);
        assert!(pair.far.holds(5000, round));
    }
}

#[test]
fn functions_of_one_machine_do_not_use_the_wire() {
    let rendezvous = Rendezvous::new("wire-local");
    let [a, b] = sockets(&rendezvous);
    let far = UnixDatagram::bind(&b).expect("a new name");
    let near = Node::new(&on_wire(&rendezvous, "a", &format!("qemu-dgram:{a},{b}")));
    let other = Node::new(&rendezvous.options("b"));
    near.connect(&other);
    other.connect(&near);
    near.fill(1);
    near.post(SendOperation::RdmaWrite(other.remote()), BUFFER);
    assert_eq!(
        near.wait_beside(Some(&other)).status,
        CompletionStatus::Success
    );
    assert!(other.holds(BUFFER, 1));
    far.set_nonblocking(true).expect("a socket");
    let mut buffer = [0; 100];
    // ARP and neighbour discovery announce addresses; RoCE is UDP.
    while let Ok(length) = far.recv(&mut buffer) {
        let is_arp = buffer[12..14] == [0x08, 0x06];
        let is_icmpv6 = buffer[12..14] == [0x86, 0xdd] && buffer[20] == 58;
        assert!(is_arp || is_icmpv6, "{:x?}", &buffer[..length]);
    }
}

/// Goal: an application learns that the other end has gone, and that it has come back.
#[test]
fn the_port_follows_the_other_end() {
    let rendezvous = Rendezvous::new("wire-port");
    let [a, b] = sockets(&rendezvous);
    let (near, far) = (format!("qemu-dgram:{a},{b}"), format!("qemu-dgram:{b},{a}"));
    let Connected {
        near: node,
        far: peer,
        fabrics,
    } = Connected::new("port", &near, &far);
    assert!(node.device.link_is_up());
    drop(peer);
    node.expect_reports(&[AsyncEvent::PortError]);
    assert!(!node.device.link_is_up());
    let _peer = Node::new(&on_wire(&fabrics[1], "b", &far));
    node.expect_reports(&[AsyncEvent::PortActive]);
    assert!(node.device.link_is_up());
    assert_eq!(counter(&fabrics[0], UplinkCounter::LinkDowns), 1);
}

/// A wire that damages and loses frames.
struct BadWire {
    is_stopping: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl BadWire {
    /// Frames from one socket go to another one.
    fn between(directions: [(&Path, &Path); 2]) -> Self {
        let is_stopping = Arc::new(AtomicBool::new(false));
        let threads = directions.map(|(from, to)| {
            let socket = UnixDatagram::bind(from).expect("a new name");
            let time = Some(Duration::from_millis(20));
            socket.set_read_timeout(time).expect("a socket");
            let (stop, to) = (is_stopping.clone(), to.to_owned());
            std::thread::spawn(move || carry(&socket, &to, &stop))
        });
        Self {
            is_stopping,
            threads: threads.into(),
        }
    }
}

fn carry(socket: &UnixDatagram, to: &Path, stop: &AtomicBool) {
    let mut buffer = [0; 5000];
    let mut random = 1u32;
    while !stop.load(Ordering::Relaxed) {
        let Ok(length) = socket.recv(&mut buffer) else {
            continue;
        };
        // Numerical Recipes' generator. Every n-th frame would hit the same packet of each retry.
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        // ARP frames, which are short, are not damaged.
        if length > 60 && (random >> 16) % 53 == 0 {
            continue;
        }
        if length > 60 && (random >> 16) % 37 == 0 {
            // Payload, or the ICRC of a frame without any: nothing but the ICRC shows it.
            buffer[length - 3] ^= 0x10;
        }
        let _ = socket.send_to(&buffer[..length], to);
    }
}

impl Drop for BadWire {
    fn drop(&mut self) {
        self.is_stopping.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

#[test]
fn damage_is_noticed_and_repaired() {
    let rendezvous = Rendezvous::new("wire-damage");
    let path = |name: &str| rendezvous.0.join(name);
    let [a, b, to_a, to_b] = ["a", "b", "to-a", "to-b"].map(path);
    let _wire = BadWire::between([(&to_b, &b), (&to_a, &a)]);
    let near = format!("qemu-dgram:{},{}", a.display(), to_b.display());
    let far = format!("qemu-dgram:{},{}", b.display(), to_a.display());
    let pair = Connected::new("damage", &near, &far);
    pair.write_and_read(BUFFER / 4);
    eventually("a damaged frame in the counters", TIMEOUT, || {
        let (counters, is_there) = ferroce_at(&pair.fabrics[1], &["counters"]);
        assert!(is_there, "{counters}");
        counters.contains("rx_icrc_errors")
    });
}

/// Goal: a capture delivers to a receiver what its peer sent, without the peer. Method: record the
/// received frames, and give them to a function with the same addresses and QPN, the first of its
/// fabric.
#[test]
fn a_capture_is_replayed() {
    const LENGTH: usize = 10_000;
    let rendezvous = Rendezvous::new("wire-replay");
    let [a, b] = sockets(&rendezvous);
    let file = rendezvous.0.join("recorded.pcapng");
    let fabrics = ["near", "far", "again"].map(|side| Rendezvous::new(&format!("replay-{side}")));
    let near = Node::new(&on_wire(&fabrics[0], "a", &format!("qemu-dgram:{a},{b}")));
    // A capture waits until a queue pair is in RTR, and a frame without a receive WQE is not
    // repeated.
    let receive = |node: &Node| {
        node.initialise();
        let queue = node.qp.receive_queue().expect("its own");
        for number in 0..3 {
            queue.post(number, &[node.segment(LENGTH)]).expect("room");
        }
    };
    let far = Node::new(&Options {
        capture: Some(file.clone()),
        ..on_wire(&fabrics[1], "b", &format!("qemu-dgram:{b},{a}"))
    });
    receive(&far);
    near.connect(&far);
    far.connect_initialised(&near);
    for byte in 1..=3 {
        near.fill(byte);
        near.post(SendOperation::Send, LENGTH);
        assert_eq!(near.wait().status, CompletionStatus::Success);
        assert_eq!(far.wait().byte_length as usize, LENGTH);
    }
    drop(far);

    let replay = format!("pcap-replay:{}", file.display());
    let again = Node::new(&on_wire(&fabrics[2], "b", &replay));
    receive(&again);
    again.connect_initialised(&near);
    for number in 0..3 {
        let received = again.wait();
        assert_eq!(received.status, CompletionStatus::Success);
        assert_eq!(
            (received.wr_id, received.byte_length as usize),
            (number, LENGTH)
        );
    }
    assert!(again.holds(LENGTH, 3));
    // Our ACKs are dropped.
    eventually("a count of ACKs", TIMEOUT, || {
        counter(&fabrics[2], UplinkCounter::SentLost) > 0
    });
}

/// Goal: a capture without frames for this function is refused, with advice.
#[test]
fn a_foreign_capture_is_refused() {
    let rendezvous = Rendezvous::new("wire-foreign");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/pingpong_rc.pcap");
    let wire = format!("pcap-replay:{}", file.display());
    let refused = ferroce_embed::function::Function::open_with(&on_wire(&rendezvous, "a", &wire));
    let message = refused.expect_err("nothing for us").to_string();
    assert!(message.contains("--address"), "{message}");
}
