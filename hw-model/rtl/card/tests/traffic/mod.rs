//! The loop of `ib_write_bw`, `ib_send_bw` and `ib_read_bw` between two cards on a cable, each with
//! a driver: the queues stay full.

#![allow(dead_code, reason = "each test uses a part of it")]

#[path = "../pair_support/mod.rs"]
mod pair_support;

use std::sync::{Arc, Mutex};

use ferroce_driver::{
    CompletionQueue, CompletionStatus, Device, MemoryRegion, PathMtu, QueuePair, SendOperation,
};
use ferroce_model::Function as _;
use ferroce_rtl_card::{RtlNic, SlotSizes};
use ferroce_spec::counter::Counter;
use ferroce_test_verbs as verbs;
use pair_support::CableEnd;
use verbs::Memory;

type Pair = pair_support::Pair<RtlNic<CableEnd>>;

/// Outstanding requests of a queue pair, like perftest's `-t`; fewer with many queue pairs, so that
/// the requests that wait between the cards do not hide for long which of them is slower.
const DEPTH: u32 = 64;
const MANY_QUEUE_PAIRS: usize = 8;
const DEPTH_OF_MANY: u32 = 8;
/// Cycles in which a card takes the doorbell of a receive, at least.
const DOORBELL_CYCLES: u64 = 16;
/// Nanoseconds of a clock cycle: 250 MHz.
pub const CYCLE_NS: u64 = pair_support::CYCLE_NS;

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Operation {
    Write,
    Read,
    Send,
}

/// The traffic.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    pub operation: Operation,
    pub message_bytes: usize,
    pub mtu: PathMtu,
    pub queue_pairs: usize,
    /// Cycles from the request of a line of host memory to the line.
    pub line_latency_cycles: u64,
}

impl Load {
    /// Returns the outstanding requests of each queue pair.
    fn depth(&self) -> u32 {
        if self.queue_pairs < MANY_QUEUE_PAIRS {
            DEPTH
        } else {
            DEPTH_OF_MANY
        }
    }
}

/// Traffic of a window of cycles, at the card that sends the data.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    pub cycles: u64,
    /// Frames with data, and their bytes.
    pub frames: u64,
    pub frame_bytes: u64,
    /// Completed requests.
    pub messages: u64,
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
        // Twice as many receives as outstanding SENDs: a SEND completes before the program has
        // posted the next receive.
        let config = verbs::qp_config(&cq, 2 * load.depth());
        let queue_pairs = (0..load.queue_pairs).map(|_| verbs::new_qp(&pd, &config));
        Self {
            queue_pairs: queue_pairs.collect(),
            cq,
            region,
            _memory: memory,
        }
    }

    fn connect(&self, peer: &Self, peer_side: usize, mtu: PathMtu) {
        let (gid, mac) = pair_support::address(peer_side);
        for (qp, other) in self.queue_pairs.iter().zip(&peer.queue_pairs) {
            let mut rtr = verbs::rtr(other.number(), verbs::path_to(gid, mac));
            rtr.path_mtu = mtu;
            verbs::connect(qp, rtr, verbs::rts());
        }
    }
}

/// Two cards with connected QPs, whose queues are full. Side 0 posts the requests.
pub struct Traffic {
    load: Load,
    pair: Arc<Mutex<Pair>>,
    sides: [Side; 2],
    is_in_slot: bool,
}

impl Traffic {
    /// With sizes, both cards are in slots.
    pub fn new(load: Load, sizes: Option<SlotSizes>) -> Self {
        let make = |config| match sizes {
            Some(sizes) => RtlNic::in_slot(&config, sizes),
            None => RtlNic::new(config),
        };
        let (pair, devices) = pair_support::open_made(load.line_latency_cycles, make);
        let sides = [0, 1].map(|side| Side::new(&devices[side], side, &load));
        sides[1].connect(&sides[0], 0, load.mtu);
        sides[0].connect(&sides[1], 1, load.mtu);
        let is_in_slot = sizes.is_some();
        let traffic = Self {
            load,
            pair,
            sides,
            is_in_slot,
        };
        let receives = 2 * load.depth() * load.queue_pairs as u32;
        if load.operation == Operation::Send {
            (0..receives).for_each(|at| traffic.post_receive(at as usize % load.queue_pairs));
            let cycles = u64::from(receives) * DOORBELL_CYCLES;
            traffic.with_pair(|pair| pair.run(cycles));
        }
        for qp in 0..load.queue_pairs {
            (0..load.depth()).for_each(|_| traffic.post(qp));
        }
        traffic
    }

    /// Accesses both cards.
    pub fn with_pair<T>(&self, act: impl FnOnce(&mut Pair) -> T) -> T {
        act(&mut self.pair.lock().expect("no panic"))
    }

    /// Returns the side that sends the data.
    pub fn data_side(&self) -> usize {
        usize::from(self.load.operation == Operation::Read)
    }

    fn post(&self, qp: usize) {
        let [from, to] = &self.sides;
        let at = qp * self.load.message_bytes;
        let remote = verbs::remote(&to.region, at);
        let operation = match self.load.operation {
            Operation::Write => SendOperation::RdmaWrite(remote),
            Operation::Read => SendOperation::RdmaRead(remote),
            Operation::Send => SendOperation::Send,
        };
        let segment = verbs::segment(&from.region, at, self.load.message_bytes);
        verbs::post(&from.queue_pairs[qp], qp as u64, operation, segment);
    }

    fn post_receive(&self, qp: usize) {
        let to = &self.sides[1];
        let bytes = self.load.message_bytes;
        let segment = verbs::segment(&to.region, qp * bytes, bytes);
        verbs::post_receive(&to.queue_pairs[qp], qp as u64, segment);
    }

    /// Keeps the queues full for some cycles; time passes in empty polls.
    pub fn run(&self, cycles: u64) -> Window {
        let [from, to] = &self.sides;
        let data_side = self.data_side();
        let now = || self.with_pair(|pair| pair.cycles());
        let counted = || {
            // To read all counters through a slot takes a part of the window.
            if self.is_in_slot {
                let sent = self.with_pair(|pair| pair.card(data_side).sent());
                return [sent.frames, sent.bytes];
            }
            let counters = self.with_pair(|pair| pair.counters(data_side));
            [Counter::tx_frames, Counter::tx_bytes].map(|counter| counters.value(counter))
        };
        let (begin, [frames, frame_bytes]) = (now(), counted());
        let mut messages = 0;
        while now() < begin + cycles {
            for completion in verbs::poll(&to.cq) {
                assert_eq!(completion.status, CompletionStatus::Success);
                self.post_receive(completion.wr_id as usize);
            }
            for completion in verbs::poll(&from.cq) {
                assert_eq!(completion.status, CompletionStatus::Success);
                messages += 1;
                self.post(completion.wr_id as usize);
            }
        }
        let (end, counts) = (now(), counted());
        Window {
            cycles: end - begin,
            frames: counts[0] - frames,
            frame_bytes: counts[1] - frame_bytes,
            messages,
        }
    }

    /// Returns how many requests were repeated, or refused for lack of a receive.
    pub fn lost(&self) -> u64 {
        let counters = self.with_pair(|pair| pair.counters(1));
        let counts = [
            Counter::duplicate_requests,
            Counter::sequence_naks_sent,
            Counter::rnr_naks_sent,
        ];
        counts.iter().map(|&one| counters.value(one)).sum()
    }
}
