//! Packets of long messages are left out, on links that lose others: memory and completions are as
//! if
//! none had been.

mod pair;

use ferroce_transport::{
    Completion, CompletionStatus, Config, Gap, MemoryAnswer, Remote, SendOperation, SendRequest,
    StreamKind,
};
use ferroce_units::{Duration, Instant};
use pair::link::Faults;
use pair::rng::Rng;
use pair::script::request;
use pair::{BASE, Pair, R_KEY, Receive, Setup};

const MEMORY: usize = 1 << 17;
const LENGTH: u32 = 50_000;
const SEEDS: u64 = 300;
const MAX_STEPS: u32 = 100_000;
/// Where the requester has its buffer, and where the responder takes SENDs.
const BUFFER: usize = 300;
const RECEIVE: usize = 777;
const REMOTE_BUFFER: usize = 400;
const ID: u32 = 5;

const REMOTE: Remote = Remote {
    virtual_address: BASE + REMOTE_BUFFER as u64,
    r_key: R_KEY,
};
const SEND: SendOperation = SendOperation::Send;
const WRITE: SendOperation = SendOperation::RdmaWrite { remote: REMOTE };
const READ: SendOperation = SendOperation::RdmaRead { remote: REMOTE };

fn new_pair(seed: u64, loss: u64) -> Pair {
    let setup = Setup {
        config: Config {
            max_unacknowledged_packets: 24,
            ack_request_interval: 8,
            ..Config::default()
        },
        ..Setup::default()
    };
    let faults = Faults {
        loss,
        delay: Duration::from_us(1),
        ..Faults::NONE
    };
    let mut pair = Pair::new(&setup, faults, MEMORY, seed);
    let mut rng = Rng::new(seed);
    for node in &mut pair.nodes {
        node.memory
            .iter_mut()
            .for_each(|byte| *byte = rng.next() as u8);
    }
    pair
}

/// Posts a message; returns where its bytes come from and go to: side and place.
fn post(pair: &mut Pair, operation: SendOperation) -> [(usize, usize); 2] {
    let now = pair.now;
    let request = SendRequest {
        signaled: true,
        ..request(ID, operation, LENGTH)
    };
    pair.nodes[0].post(now, BUFFER, request);
    pair.nodes[1].post_receive(Receive {
        id: 9,
        address: RECEIVE,
        capacity: LENGTH,
    });
    match operation {
        SEND => [(0, BUFFER), (1, RECEIVE)],
        WRITE => [(0, BUFFER), (1, REMOTE_BUFFER)],
        _ => [(1, REMOTE_BUFFER), (0, BUFFER)],
    }
}

/// Leaves the next packets of what `from` sends out, if it is in the middle of a message.
fn skip(pair: &mut Pair, from: usize, rng: &mut Rng) -> bool {
    let Some(stream) = pair.nodes[from].qp.stream() else {
        return false;
    };
    let packets = 1 + rng.below(60) as u32;
    let gap = Gap::of(&stream, packets);
    let source = pair.nodes[from]
        .qp
        .gap_source(stream.kind)
        .expect("it is in a message");
    let Some(target) = pair.nodes[1 - from].qp.gap_target(&gap) else {
        return false;
    };
    if packets >= stream.left {
        assert!(!pair.nodes[from].qp.skip(&gap), "the last packet is sent");
        return false;
    }
    let length = packets * Setup::default().mtu.bytes();
    let payload = pair.nodes[from]
        .gather(source.piece(0, length))
        .expect("readable");
    let write = target.piece(target.under_way(), length);
    let written = pair.nodes[1 - from].execute(write, &payload);
    assert_eq!(written, MemoryAnswer::Done);
    assert!(pair.nodes[from].qp.skip(&gap));
    pair.nodes[1 - from].qp.skip_receive(&gap);
    true
}

/// Lets what is on the link come to the other side.
fn arrive(pair: &mut Pair) {
    pair.now += Duration::from_us(1);
    while let Some(packet) = pair.link.receive(pair.now) {
        pair.deliver(&packet);
    }
}

/// Runs a message, of which now and then packets are left out. Returns how often.
fn run(pair: &mut Pair, rng: &mut Rng) -> u32 {
    let mut gaps = 0;
    for _ in 0..MAX_STEPS {
        for side in 0..2 {
            for _ in 0..rng.below(12) {
                if let Some(transmit) = pair.nodes[side].qp.poll_transmit(pair.now) {
                    pair.send(side, transmit);
                }
            }
            if rng.chance(1, 3) {
                gaps += u32::from(skip(pair, side, rng));
            }
        }
        // A step sends all that there is.
        match rng.chance(9, 10) {
            true => arrive(pair),
            false if pair.step(Instant::MAX) => {}
            false => return gaps,
        }
    }
    panic!("the pair does not come to rest");
}

fn check(operation: SendOperation, loss: u64) {
    let mut gaps = 0;
    let mut packets = 0;
    for seed in 0..SEEDS {
        let mut pair = new_pair(seed, loss);
        let [(from, source), (to, target)] = post(&mut pair, operation);
        let length = LENGTH as usize;
        let expected = pair.nodes[from].memory[source..source + length].to_vec();
        gaps += run(&mut pair, &mut Rng::new(seed + 1));
        packets += pair.packets;
        assert_eq!(
            pair.nodes[to].memory[target..target + length],
            expected,
            "seed {seed}"
        );
        let sent = &pair.nodes[0].completions;
        let is_success = |completion: &Completion| {
            matches!(completion, Completion::Send { id: ID, status, .. }
                if *status == CompletionStatus::Success)
        };
        assert!(
            sent.len() == 1 && is_success(&sent[0]),
            "seed {seed}: {sent:?}"
        );
    }
    assert!(gaps > SEEDS as u32, "{gaps} gaps");
    println!("{operation:?} loss {loss}: {gaps} gaps, {packets} packets");
}

#[test]
fn messages_with_gaps_arrive() {
    for operation in [WRITE, SEND, READ] {
        check(operation, 0);
    }
}

#[test]
fn messages_with_gaps_arrive_although_packets_are_lost() {
    for operation in [WRITE, SEND, READ] {
        check(operation, 30);
    }
}

#[test]
fn a_gap_of_another_message_has_no_place() {
    let mut pair = new_pair(1, 0);
    post(&mut pair, WRITE);
    for _ in 0..4 {
        let transmit = pair.nodes[0]
            .qp
            .poll_transmit(pair.now)
            .expect("more to send");
        pair.send(0, transmit);
    }
    let stream = pair.nodes[0].qp.stream().expect("in the middle");
    assert_eq!(
        (stream.kind, stream.left),
        (StreamKind::Request, LENGTH.div_ceil(256) - 4)
    );
    let gap = Gap::of(&stream, 10);
    assert_eq!(
        pair.nodes[1].qp.gap_target(&gap),
        None,
        "its first packet has not come"
    );
    arrive(&mut pair);
    assert!(pair.nodes[1].qp.gap_target(&gap).is_some());
    let others = [
        Gap {
            message: gap.message.add(1),
            first: gap.first.add(300),
            ..gap
        },
        Gap {
            packets: 1 << 20,
            ..gap
        },
        Gap {
            kind: StreamKind::ReadResponse,
            ..gap
        },
    ];
    for other in others {
        assert_eq!(pair.nodes[1].qp.gap_target(&other), None, "{other:?}");
    }
}
