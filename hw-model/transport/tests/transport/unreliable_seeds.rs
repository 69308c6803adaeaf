//! UC and UD on a bad link, a thousand seeds each: whatever the link does, a completed message is a
//! whole and unchanged message of the peer; sends always succeed; and on a link without faults
//! everything arrives. `FERROCE_SEED=n` replays only seed n.
//!
//! Messages do not overlap at their destination and each one has its own bytes, so that a completed
//! receive can be compared with the message that its immediate data, or its first bytes, name.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::pair::link::Faults;
use crate::pair::rng::Rng;
use crate::pair::{
    self, BASE, GRH_BYTE, GRH_LENGTH, Pair, R_KEY, Receive, Setup, destination, qpn,
};
use ferroce_transport::{
    Completion, CompletionStatus, PathMtu, QpState, ReceiveKind, Remote, SendOperation,
    SendRequest, Service, Statistics,
};
use ferroce_units::{Duration, Instant};
use ferroce_wire::{Immediate, Psn};

const SEEDS: u64 = 1000;
/// Maximum number of messages of a seed.
const MAX_MESSAGES: u64 = 30;
/// Bytes of the longest message, with its GRH.
const SLOT: usize = 4 * 1024 + 40;
/// Offset of the sender's messages, and of the destination of WRITEs at the receiver.
const SOURCE: usize = 0;
/// Offset of the receive buffers at the receiver.
const LANDING: usize = SLOT * MAX_MESSAGES as usize;
const MEMORY: usize = 3 * LANDING;
/// Bytes at the start of a message that identify it.
const NAME: u32 = 4;

/// What the sender sends, in order; a message is named by its index.
struct Message {
    request: SendRequest,
    address: usize,
}

fn for_seeds(property: fn(u64) -> Statistics) -> Option<Vec<Statistics>> {
    let alone = std::env::var("FERROCE_SEED").ok();
    let seeds = match &alone {
        Some(seed) => {
            let seed: u64 = seed.parse().expect("FERROCE_SEED is a number");
            seed..seed + 1
        }
        None => 0..SEEDS,
    };
    let mut counted = Vec::new();
    for seed in seeds {
        match catch_unwind(AssertUnwindSafe(|| property(seed))) {
            Ok(statistics) => counted.push(statistics),
            Err(panic) => {
                eprintln!("seed {seed} fails; replay it with FERROCE_SEED={seed}");
                resume_unwind(panic);
            }
        }
    }
    alone.is_none().then_some(counted)
}

fn random_faults(rng: &mut Rng) -> Faults {
    if rng.chance(1, 4) {
        return Faults::NONE;
    }
    Faults {
        loss: rng.pick(&[10, 50, 200]),
        duplication: rng.pick(&[0, 20, 100]),
        reordering: rng.pick(&[0, 50, 200]),
        delay: Duration::from_ns(500 + rng.below(2000)),
        jitter: Duration::from_us(6),
        blackout: Instant::MAX,
    }
}

fn setup(service: Service, rng: &mut Rng) -> Setup {
    Setup {
        services: [service; 2],
        mtu: rng.pick(&PathMtu::ALL),
        psn: [Psn::new(0x100_0000 - rng.below(40) as u32), Psn::new(5)],
        ..Setup::default()
    }
}

fn messages(setup: &Setup, rng: &mut Rng) -> Vec<Message> {
    let count = 1 + rng.below(MAX_MESSAGES);
    (0..count as u32)
        .map(|id| {
            let address = SOURCE + id as usize * SLOT;
            let name = Immediate(id.to_be_bytes());
            let remote = Remote {
                virtual_address: BASE + address as u64,
                r_key: R_KEY,
            };
            let datagrams = setup.services[0] == Service::UnreliableDatagram;
            let (operation, least) = match rng.below(if datagrams { 2 } else { 4 }) {
                0 => (SendOperation::Send, NAME),
                1 => (SendOperation::SendImmediate(name), 0),
                2 => (SendOperation::RdmaWrite { remote }, 0),
                _ => {
                    let immediate = name;
                    (SendOperation::RdmaWriteImmediate { remote, immediate }, 0)
                }
            };
            let longest = (SLOT as u32 - GRH_LENGTH).min(4096);
            let short = setup.mtu.bytes().min(longest);
            let longest = rng.pick(&[least, short, longest, longest]);
            let request = SendRequest {
                id,
                operation,
                length: least + rng.below(u64::from(longest - least) + 1) as u32,
                signaled: rng.chance(2, 3),
                solicited: false,
                fence: false,
                destination: destination(setup, 0),
            };
            Message { request, address }
        })
        .collect()
}

/// Returns random messages, each with its identifier at the start.
fn source(messages: &[Message], rng: &mut Rng) -> Vec<u8> {
    let mut memory = vec![0; MEMORY];
    for word in memory[SOURCE..LANDING].chunks_exact_mut(8) {
        word.copy_from_slice(&rng.next().to_le_bytes());
    }
    for message in messages {
        let name = message.request.id.to_be_bytes();
        memory[message.address..][..name.len()].copy_from_slice(&name);
    }
    memory
}

/// Returns the message in a completed receive, after checking that it is whole.
fn received(pair: &Pair, messages: &[Message], completion: &Completion) -> u32 {
    let Completion::Receive {
        receive,
        status: CompletionStatus::Success,
        operation,
        byte_length,
        immediate,
        source,
        with_grh,
        ..
    } = *completion
    else {
        panic!("{completion:?} at the receiver");
    };
    let node = &pair.nodes[1];
    let datagram = node.qp.service() == Service::UnreliableDatagram;
    let grh = if datagram { GRH_LENGTH as usize } else { 0 };
    let landed = node.taken[&receive].address;
    let head = &node.memory[landed..landed + grh];
    assert!(head.iter().all(|byte| *byte == GRH_BYTE));
    assert_eq!((with_grh, source), (datagram, datagram.then(|| qpn(0))));
    let bytes = &node.memory[landed + grh..][..byte_length as usize - grh];
    let id = match immediate {
        Some(name) => u32::from_be_bytes(name.0),
        None => u32::from_be_bytes(bytes[..4].try_into().expect("the name")),
    };
    let message = &messages[id as usize];
    let sent = &pair.nodes[0].memory[message.address..][..message.request.length as usize];
    match operation {
        ReceiveKind::Send => assert_eq!(bytes, sent, "message {id} is whole"),
        ReceiveKind::RdmaWriteImmediate => {
            let written = &node.memory[message.address..][..sent.len()];
            assert_eq!(written, sent, "WRITE {id} is whole");
            assert_eq!(byte_length, message.request.length);
        }
    }
    id
}

fn run(service: Service, seed: u64) -> Statistics {
    let mut rng = Rng::new(seed ^ 0x0c0d);
    let setup = setup(service, &mut rng);
    let faults = random_faults(&mut rng);
    let messages = messages(&setup, &mut rng);
    let mut pair = Pair::new(&setup, faults, MEMORY, rng.next());
    pair.nodes[0].memory = source(&messages, &mut rng);
    let enough = faults.loss == 0 || rng.chance(1, 2);
    let receives = if enough {
        2 * messages.len()
    } else {
        messages.len() / 2
    };
    for index in 0..receives {
        let too_small = !enough && rng.chance(1, 4);
        pair.nodes[1].post_receive(Receive {
            id: 1000 + index as u32,
            address: LANDING + index * SLOT,
            capacity: if too_small { 100 } else { SLOT as u32 },
        });
    }
    for message in &messages {
        pair.nodes[0].post(pair.now, message.address, message.request);
        pair.run_for(Duration::from_ns(rng.below(5_000)));
    }
    pair.run();
    for node in &pair.nodes {
        assert_eq!(node.qp.state(), QpState::Rts);
        assert_eq!(node.events, []);
    }
    let sent: Vec<_> = messages
        .iter()
        .filter(|message| message.request.signaled)
        .map(|message| pair::program::sent(&message.request, CompletionStatus::Success))
        .collect();
    assert_eq!(pair.nodes[0].completions, sent, "sends always succeed");
    let arrived: Vec<u32> = pair.nodes[1]
        .completions
        .iter()
        .map(|completion| received(&pair, &messages, completion))
        .collect();
    if faults.reordering == 0 && faults.duplication == 0 {
        assert!(arrived.is_sorted(), "in order");
    }
    if faults.loss == 0 {
        let expected: Vec<u32> = messages
            .iter()
            .filter(|m| !matches!(m.request.operation, SendOperation::RdmaWrite { .. }))
            .map(|m| m.request.id)
            .collect();
        assert_eq!(arrived, expected, "nothing is lost on the way");
        assert_eq!(pair.nodes[1].statistics, []);
    }
    let counted = pair.nodes.into_iter().flat_map(|node| node.statistics);
    counted.fold(Statistics::default(), |mut sum, part| {
        sum.no_receive_drops += part.no_receive_drops;
        sum.out_of_sequence_drops += part.out_of_sequence_drops;
        sum
    })
}

#[test]
fn uc_completes_whole_messages_only() {
    let Some(counted) = for_seeds(|seed| run(Service::UnreliableConnected, seed)) else {
        return;
    };
    let broken = counted.iter().filter(|c| c.out_of_sequence_drops > 0);
    assert!(broken.count() > 100, "the seeds have met gaps");
    let missing = counted.iter().filter(|c| c.no_receive_drops > 0);
    assert!(missing.count() > 100, "and missing receives");
}

#[test]
fn ud_is_all_or_nothing() {
    let Some(counted) = for_seeds(|seed| run(Service::UnreliableDatagram, seed)) else {
        return;
    };
    let missing = counted.iter().filter(|c| c.no_receive_drops > 0);
    assert!(missing.count() > 100, "the seeds have met missing receives");
}
