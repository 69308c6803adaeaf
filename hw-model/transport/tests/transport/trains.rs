//! Trains of packets in long messages, on links that lose other packets: memory and completions are
//! the same as if each packet had been sent.

use crate::pair::link::Faults;
use crate::pair::rng::Rng;
use crate::pair::script::request;
use crate::pair::{BASE, Pair, R_KEY, Receive, Setup};
use ferroce_transport::{
    Completion, CompletionStatus, Config, MemoryAnswer, Payload, Remote, SendOperation,
    SendRequest, Train,
};
use ferroce_units::{Duration, Instant};

const MEMORY: usize = 1 << 17;
const LENGTH: u32 = 50_000;
const SEEDS: u64 = 300;
const MAX_STEPS: u32 = 100_000;
/// Offset of the requester's buffer, and of the responder's receive buffer.
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

/// Posts a message; returns source and destination of its bytes: side and offset.
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

/// Moves the next packets of `from` as a train, if it is in the middle of a message.
fn move_train(pair: &mut Pair, from: usize, rng: &mut Rng) -> bool {
    let Some(rest) = pair.nodes[from].qp.next_train() else {
        return false;
    };
    let packets = 1 + rng.below(60) as u32;
    if packets > rest.packets {
        let whole = Train {
            packets: rest.packets + 1,
            ..rest
        };
        assert!(!pair.nodes[from].qp.send_train(&whole), "its last packet");
        return false;
    }
    let train = rest.head(packets);
    let Some(target) = pair.nodes[1 - from].qp.train_target(&train) else {
        return false;
    };
    let payload = pair.nodes[from].gather(train.payload).expect("readable");
    let length = train.bytes();
    let write = target.part(target.length() - length, length);
    let written = pair.nodes[1 - from].execute(write, &payload);
    assert_eq!(written, MemoryAnswer::Done);
    assert!(pair.nodes[from].qp.send_train(&train));
    pair.nodes[1 - from].qp.receive_train(&train);
    true
}

/// Delivers the packets on the link to the other side.
fn arrive(pair: &mut Pair) {
    pair.now += Duration::from_us(1);
    while let Some(packet) = pair.link.receive(pair.now) {
        pair.deliver(&packet);
    }
}

/// Runs a message in which some packets are moved as trains. Returns the number of trains.
fn run(pair: &mut Pair, rng: &mut Rng) -> u32 {
    let mut trains = 0;
    for _ in 0..MAX_STEPS {
        for side in 0..2 {
            for _ in 0..rng.below(12) {
                if let Some(transmit) = pair.nodes[side].qp.poll_transmit(pair.now) {
                    pair.send(side, transmit);
                }
            }
            if rng.chance(1, 3) {
                trains += u32::from(move_train(pair, side, rng));
            }
        }
        // A step sends all pending packets.
        match rng.chance(9, 10) {
            true => arrive(pair),
            false if pair.step(Instant::MAX) => {}
            false => return trains,
        }
    }
    panic!("the pair does not come to rest");
}

fn check(operation: SendOperation, loss: u64) {
    let mut trains = 0;
    let mut packets = 0;
    for seed in 0..SEEDS {
        let mut pair = new_pair(seed, loss);
        let [(from, source), (to, target)] = post(&mut pair, operation);
        let length = LENGTH as usize;
        let expected = pair.nodes[from].memory[source..source + length].to_vec();
        trains += run(&mut pair, &mut Rng::new(seed + 1));
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
    assert!(trains > SEEDS as u32, "{trains} trains");
    println!("{operation:?} loss {loss}: {trains} trains, {packets} packets");
}

#[test]
fn messages_with_trains_arrive() {
    for operation in [WRITE, SEND, READ] {
        check(operation, 0);
    }
}

#[test]
fn messages_with_trains_arrive_although_packets_are_lost() {
    for operation in [WRITE, SEND, READ] {
        check(operation, 30);
    }
}

#[test]
fn a_train_of_another_message_has_no_target() {
    let mut pair = new_pair(1, 0);
    post(&mut pair, WRITE);
    for _ in 0..4 {
        let transmit = pair.nodes[0]
            .qp
            .poll_transmit(pair.now)
            .expect("more to send");
        pair.send(0, transmit);
    }
    let rest = pair.nodes[0].qp.next_train().expect("in the middle");
    assert!(!rest.is_response());
    // Four have left, and the last one is not part of a train.
    assert_eq!(rest.packets, LENGTH.div_ceil(256) - 5);
    let train = rest.head(10);
    assert_eq!((train.packets, train.bytes()), (10, 2560));
    assert_eq!(
        pair.nodes[1].qp.train_target(&train),
        None,
        "its first packet has not come"
    );
    arrive(&mut pair);
    assert!(pair.nodes[1].qp.train_target(&train).is_some());
    let others = [
        Train {
            message: train.message.add(1),
            first: train.first.add(300),
            ..train
        },
        Train {
            packets: 1 << 20,
            ..train
        },
        Train {
            payload: Payload::ReadResponse {
                r_key: R_KEY,
                virtual_address: BASE,
                length: train.bytes(),
                srqn: None,
            },
            ..train
        },
    ];
    for other in others {
        assert_eq!(pair.nodes[1].qp.train_target(&other), None, "{other:?}");
    }
    let later = Train {
        first: train.first.add(1),
        ..train
    };
    assert!(!pair.nodes[0].qp.send_train(&later), "not the next one");
}

/// Goal: the state after a train equals the state after its packets. Method: two equal pairs, one
/// of which sends each packet; the packets after the train are the same.
#[test]
fn packets_behind_a_train_are_those_behind_its_packets() {
    const BEFORE: usize = 4;
    const TRAIN: u32 = 15;
    for operation in [WRITE, SEND] {
        let [every, some] = [false, true].map(|in_one_step| {
            let mut pair = new_pair(3, 0);
            post(&mut pair, operation);
            let mut sent = Vec::new();
            let mut poll = |pair: &mut Pair, is_kept: bool| {
                let transmit = pair.nodes[0].qp.poll_transmit(pair.now);
                let transmit = transmit.expect("more to send");
                pair.send(0, transmit);
                arrive(pair);
                if is_kept {
                    sent.push(transmit);
                }
            };
            (0..BEFORE).for_each(|_| poll(&mut pair, false));
            if in_one_step {
                let train = pair.nodes[0].qp.next_train().expect("in the middle");
                let train = train.head(TRAIN);
                assert!(pair.nodes[1].qp.train_target(&train).is_some());
                assert!(pair.nodes[0].qp.send_train(&train));
                pair.nodes[1].qp.receive_train(&train);
            } else {
                (0..TRAIN).for_each(|_| poll(&mut pair, false));
            }
            let expected = pair.nodes[1].qp.next_receive_psn();
            poll(&mut pair, true);
            let received = pair.nodes[1].qp.packets_received(&sent[0].headers);
            let sent = (sent[0].headers.bth.psn, sent[0].payload);
            (expected, received, sent)
        });
        assert_eq!(every, some, "{operation:?}");
    }
}
