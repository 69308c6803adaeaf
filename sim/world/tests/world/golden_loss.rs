//! Losses in captures of Linux soft-RoCE, repeated with our cards: a fault drops the same packet,
//! and the same packets follow in the same order, with the same opcodes and PSNs.
//!
//! Two differences are known, and ours follow IBTA: if a READ is requested again from its middle,
//! the response begins with First, while soft-RoCE continues with Middle; and a gap in READ
//! responses is an implied NAK (IBTA vol 1, 9.7.5.2.8), while soft-RoCE waits for its timeout. The
//! latter changes only times.

use std::sync::Arc;

use crate::captures;
use crate::world_support::*;
use ferroce_driver::{CompletionStatus, PathMtu, SendOperation};
use ferroce_faults::{FaultCounter, Packet};
use ferroce_model::preset::Preset;
use ferroce_test_verbs as verbs;
use ferroce_units::Duration;
use ferroce_wire::{Opcode, Psn, Transport};
use ferroce_world::{FrameSeen, Received, Recorder, Span, World, WorldConfig};
use parking_lot::Mutex;

const GRID: Duration = Duration::from_ns(20);
const BUFFER: usize = 8192;
const IMMEDIATE: [u8; 4] = [1, 2, 3, 4];

/// The compared properties of a packet: whether it goes to the server, its opcode, and its PSN
/// relative to the client's first one.
type Seen = (bool, Opcode, u32);

/// Takes the packets that arrive.
#[derive(Default)]
struct Arrivals(Vec<(bool, Opcode, Psn)>);

impl Recorder for Arrivals {
    fn record(&mut self, _: &Span) {}

    fn frame(&mut self, frame: &FrameSeen<'_>) {
        let is_lost = frame
            .fault
            .is_some_and(|fault| fault.received == Received::Lost);
        if let Some(packet) = Packet::parse(frame.bytes).filter(|_| !is_lost) {
            self.0.push((frame.to == 1, packet.opcode, packet.psn));
        }
    }
}

/// Returns the messages of `rvec`: `tests/golden/README.md`.
fn messages(other: &Peer) -> Vec<(SendOperation, usize)> {
    let remote = other.remote(0);
    let send = |length| (SendOperation::Send, length);
    let write = |length| (SendOperation::RdmaWrite(remote), length);
    let read = |length| (SendOperation::RdmaRead(remote), length);
    let atomic = |operation| (operation, 8);
    let swap = SendOperation::CompareSwap {
        remote,
        compare: 1,
        swap: 2,
    };
    let mut messages: Vec<_> = [0, 1, 2, 3, 4, 64, 1024, 1025, 3077].map(send).to_vec();
    messages.extend([5, 2049].map(|length| (SendOperation::SendImmediate(IMMEDIATE), length)));
    messages.extend([0, 1, 1024, 3074].map(write));
    let with_immediate = SendOperation::RdmaWriteImmediate(remote, IMMEDIATE);
    messages.extend([9, 1025].map(|length| (with_immediate, length)));
    messages.extend([1, 1024, 4102].map(read));
    messages.push(atomic(SendOperation::FetchAdd { remote, add: 1 }));
    messages.extend([atomic(swap), atomic(swap)]);
    messages.push(send(8));
    messages
}

/// Sends the messages one after the other; returns the packets that arrived.
fn ours(faults: &str) -> Vec<Seen> {
    let config = WorldConfig {
        faults: Some(faults.parse().expect("a plan")),
        ..WorldConfig::timed(Preset::load("cx5-100g").expect("built in"), 2)
    };
    let mut world = World::new(&config).expect("small");
    let arrivals = Arc::new(Mutex::new(Arrivals::default()));
    world.record(Some(arrivals.clone()));
    let (mut one, mut other) = (Peer::new(&world, 0, BUFFER), Peer::new(&world, 1, BUFFER));
    join(&world, &mut one, &mut other, PathMtu::Mtu1024);
    for number in 0..16 {
        verbs::post_receive(&other.qps[0], number, other.segment(0, BUFFER));
    }
    for (operation, length) in messages(&other) {
        post(&one.qps[0], 1, operation, one.segment(0, length));
        let completion = completions(&mut world, 0, &one.cq, 1, GRID)[0];
        assert_eq!(
            completion.status,
            CompletionStatus::Success,
            "{operation:?}"
        );
    }
    let lost: u64 = (0..2)
        .filter_map(|host| world.counters(host).link.faults)
        .map(|faults| faults.value(FaultCounter::Lost))
        .sum();
    assert_eq!(lost, 1, "{faults} drops one packet");
    let arrived = std::mem::take(&mut arrivals.lock().0);
    from_first(arrived)
}

fn theirs(name: &str) -> Vec<Seen> {
    let packets = captures::packets(name, Transport::ReliableConnected);
    let client = packets[0].source;
    let packets = packets.iter().map(|packet| {
        let bth = &packet.headers.bth;
        assert!(packet.payload_length <= 1024);
        (packet.source == client, bth.opcode, bth.psn)
    });
    from_first(packets.collect())
}

fn from_first(packets: Vec<(bool, Opcode, Psn)>) -> Vec<Seen> {
    let first = packets[0].2;
    let offset = |psn: Psn| psn.sub(first.value()).value();
    let packets = packets.into_iter();
    packets
        .map(|(to_server, opcode, psn)| (to_server, opcode, offset(psn)))
        .collect()
}

/// Maps the opcodes of a READ response with both ways to continue to one.
fn alike((to_server, opcode, offset): Seen) -> Seen {
    const RC_READ_RESPONSE_FIRST: Opcode = Opcode(0x0d);
    const RC_READ_RESPONSE_MIDDLE: Opcode = Opcode(0x0e);
    match opcode {
        RC_READ_RESPONSE_FIRST => (to_server, RC_READ_RESPONSE_MIDDLE, offset),
        _ => (to_server, opcode, offset),
    }
}

#[test]
fn the_same_losses_have_the_same_consequences() {
    for (name, faults) in [
        ("loss_rc_ack", "drop=ack#3"),
        ("loss_rc_request", "loss=1@request@psn11@try1"),
        ("loss_rc_last_timeout", "loss=1@request@psn1@try1"),
        ("loss_rc_readresp", "drop=read_response#5"),
    ] {
        let (ours, theirs) = (ours(faults), theirs(name));
        let same = ours
            .iter()
            .zip(&theirs)
            .take_while(|(a, b)| alike(**a) == alike(**b));
        let same = same.count();
        assert_eq!(
            (same, same),
            (ours.len(), theirs.len()),
            "{name}: ours {:?}, theirs {:?}",
            &ours[same..],
            &theirs[same..]
        );
        let exact = ours.iter().zip(&theirs).filter(|(a, b)| a != b).count();
        let expected = usize::from(name == "loss_rc_readresp");
        assert_eq!(
            exact, expected,
            "{name}: packets that differ in First and Middle"
        );
    }
}
