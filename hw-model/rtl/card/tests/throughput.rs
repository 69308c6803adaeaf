//! Bytes a cycle of the whole card in the steady state: two cards on a cable, each with a driver,
//! and the loop of `ib_write_bw` and `ib_read_bw`.
//!
//!     cargo test --release -p ferroce-rtl-card --test throughput -- --nocapture

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "the time of the simulation is printed"
)]

#[expect(dead_code, reason = "counters.rs loses frames, too")]
mod pair_support;

use std::sync::{Arc, Mutex};
use std::time::Instant as Moment;

use ferroce_driver::{
    CompletionQueue, CompletionStatus, Device, MemoryRegion, QueuePair, SendOperation,
};
use ferroce_rtl_card::RtlNic;
use ferroce_spec::counter::Counter;
use ferroce_test_verbs as verbs;
use pair_support::{CYCLE_NS, CableEnd};
use verbs::Memory;

type Pair = pair_support::Pair<RtlNic<CableEnd>>;

/// Outstanding requests of a queue pair, like perftest's `-t`.
const DEPTH: u32 = 64;
/// Cycles before and in the measured window.
const WARM_UP_CYCLES: u64 = 10_000;
const WINDOW_CYCLES: u64 = 20_000;
/// Required number of used bytes of the 64 bytes of a beat.
const LEAST_BYTES: f64 = 40.0;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Operation {
    Write,
    Read,
    Send,
}

/// The measured traffic.
#[derive(Debug, Clone, Copy)]
struct Load {
    operation: Operation,
    message_bytes: usize,
    queue_pairs: usize,
    /// Cycles from the request of a line of host memory to the line.
    line_latency_cycles: u64,
}

/// The measured values.
#[derive(Debug)]
struct Figures {
    /// Bytes of payload per cycle of the window.
    payload_bytes: f64,
    /// Bytes of frames at the port of the card that sends the data.
    frame_bytes: f64,
    /// Frames that did not fit into the receive buffers, and repeated requests.
    lost: u64,
    /// For each card, in total.
    cycles: u64,
}

/// The objects of one card.
struct Side {
    cq: Arc<CompletionQueue>,
    region: Arc<MemoryRegion>,
    queue_pairs: Vec<Arc<QueuePair>>,
    _memory: Memory,
}

impl Side {
    fn new(device: &Arc<Device>, side: usize, load: &Load) -> Self {
        let (gid, mac) = pair_support::address(side);
        verbs::set_gids(device, [([0; 16], mac), (gid, mac)]);
        let pd = device.alloc_pd().expect("one of many");
        let cq = verbs::new_cq(device, 4096);
        let memory = Memory::new(load.message_bytes * load.queue_pairs);
        let region = verbs::register(&pd, &memory);
        let config = verbs::qp_config(&cq, DEPTH);
        let queue_pairs = (0..load.queue_pairs).map(|_| verbs::new_qp(&pd, &config));
        Self {
            queue_pairs: queue_pairs.collect(),
            cq,
            region,
            _memory: memory,
        }
    }

    fn connect(&self, peer: &Self, peer_side: usize) {
        let (gid, mac) = pair_support::address(peer_side);
        for (qp, other) in self.queue_pairs.iter().zip(&peer.queue_pairs) {
            let path = verbs::path_to(gid, mac);
            verbs::connect(qp, verbs::rtr(other.number(), path), verbs::rts());
        }
    }
}

fn post(from: &Side, to: &Side, qp: usize, load: &Load) {
    let at = qp * load.message_bytes;
    let remote = verbs::remote(&to.region, at);
    let operation = match load.operation {
        Operation::Write => SendOperation::RdmaWrite(remote),
        Operation::Read => SendOperation::RdmaRead(remote),
        Operation::Send => SendOperation::Send,
    };
    let segment = verbs::segment(&from.region, at, load.message_bytes);
    verbs::post(&from.queue_pairs[qp], qp as u64, operation, segment);
}

fn post_receive(to: &Side, qp: usize, load: &Load) {
    let segment = verbs::segment(&to.region, qp * load.message_bytes, load.message_bytes);
    verbs::post_receive(&to.queue_pairs[qp], qp as u64, segment);
}

/// Keeps the queues full for some cycles; time passes in empty polls. Returns the number of
/// completed requests.
fn run(pair: &Mutex<Pair>, sides: &[Side; 2], load: &Load, cycles: u64) -> u64 {
    let [from, to] = sides;
    let mut completed = 0;
    let now = || pair.lock().expect("no panic").cycles();
    let end = now() + cycles;
    while now() < end {
        for completion in verbs::poll(&to.cq) {
            assert_eq!(completion.status, CompletionStatus::Success);
            post_receive(to, completion.wr_id as usize, load);
        }
        for completion in verbs::poll(&from.cq) {
            assert_eq!(completion.status, CompletionStatus::Success);
            completed += 1;
            post(from, to, completion.wr_id as usize, load);
        }
    }
    completed
}

fn measure(load: Load) -> Figures {
    let (pair, devices) = pair_support::open(load.line_latency_cycles);
    let sides = [0, 1].map(|side| Side::new(&devices[side], side, &load));
    sides[1].connect(&sides[0], 0);
    sides[0].connect(&sides[1], 1);
    for qp in 0..load.queue_pairs {
        (0..DEPTH).for_each(|_| match load.operation {
            Operation::Send => post_receive(&sides[1], qp, &load),
            Operation::Read | Operation::Write => {}
        });
        (0..DEPTH).for_each(|_| post(&sides[0], &sides[1], qp, &load));
    }
    let data_side = usize::from(load.operation == Operation::Read);
    let read =
        |counter: Counter, side| pair.lock().expect("no panic").counters(side).value(counter);
    run(&pair, &sides, &load, WARM_UP_CYCLES);
    let cycles = || pair.lock().expect("no panic").cycles();
    let (before, begin) = (read(Counter::tx_bytes, data_side), cycles());
    let messages = run(&pair, &sides, &load, WINDOW_CYCLES);
    let sent = read(Counter::tx_bytes, data_side) - before;
    let window = (cycles() - begin) as f64;
    let lost = read(Counter::duplicate_requests, 1) + read(Counter::sequence_naks_sent, 1);
    let cycles = cycles();
    Figures {
        payload_bytes: messages as f64 * load.message_bytes as f64 / window,
        frame_bytes: sent as f64 / window,
        lost,
        cycles,
    }
}

/// Goal: the card fills its wire in the steady state, whether host memory answers immediately or
/// after 800 ns. Method: bytes per cycle at the port of the card that sends the data.
#[test]
fn the_card_fills_its_wire() {
    println!("operation  message  QPs  latency  bytes (payload) a cycle  Gb/s  cycles/s");
    let mut slow = Vec::new();
    for operation in [Operation::Write, Operation::Read, Operation::Send] {
        for message_bytes in [65_536, 4096] {
            for (queue_pairs, line_latency_cycles) in [(1, 0), (1, 200), (4, 0), (4, 200)] {
                let load = Load {
                    operation,
                    message_bytes,
                    queue_pairs,
                    line_latency_cycles,
                };
                let begun = Moment::now();
                let figures = measure(load);
                let cycles = 2.0 * figures.cycles as f64;
                println!(
                    "{:9} {message_bytes:8} {queue_pairs:4} {:8} {:6.1} ({:5.1}) {:6.0} {:9.0}",
                    format!("{operation:?}"),
                    line_latency_cycles,
                    figures.frame_bytes,
                    figures.payload_bytes,
                    figures.frame_bytes * 8.0 / CYCLE_NS as f64,
                    cycles / begun.elapsed().as_secs_f64(),
                );
                assert_eq!(figures.lost, 0, "{load:?}: packets were lost");
                if figures.frame_bytes < LEAST_BYTES {
                    slow.push(load);
                }
            }
        }
    }
    assert!(slow.is_empty(), "too few bytes a cycle: {slow:#?}");
}
