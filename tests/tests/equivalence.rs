//! Simulated time does not change results: the same random program ends with the same memory and
//! the same completions in a functional world and in timed worlds.
//!
//! Several queue pairs connect two hosts, with separate receive queues and a shared one. On each
//! queue pair, both sides send a random mix of all operations; some queue pairs end with a request
//! that fails. The program uses only operations with defined results: no two queue pairs write the
//! same bytes, and only fenced requests write the source of a READ.

#[path = "../../sim/world/tests/world_support/mod.rs"]
mod world_support;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use ferroce_driver::{
    CompletionOpcode, CompletionStatus, DataSegment, Destination, MemoryWindow, PathMtu, RKey,
    ReceiveSource, RemoteAddress, SendData, SendOperation, SendRequest, SharedReceiveQueue,
    SharedReceiveQueueConfig, WindowAccess, WindowBinding, WindowType, WorkCompletion,
};
use ferroce_model::preset::Preset;
use ferroce_spec::counter::Counter;
use ferroce_units::Duration;
use ferroce_units::random::SplitMix64;
use ferroce_world::{Cpu, Next, Outcome, World, WorldConfig};
use world_support::{Memory, Peer, connect, new_qp, poll_again, register};

const QPS: usize = 6;
/// The first queue pair that ends with a failing request; only host 0 sends on these queue pairs.
const FIRST_FAILING: usize = 4;
const OPERATIONS: usize = 120;
/// Maximum number of outstanding requests of a queue pair.
const WINDOW: usize = 12;

/// Size of each area of a queue pair in bytes: data that it sends, READ results, data that the peer
/// writes, and words for atomics with their results.
const AREA: usize = 32 << 10;
const AREAS: usize = 5;
const SOURCE: usize = 0;
const RESULT: usize = 1;
const TARGET: usize = 2;
const WORDS: usize = 3;
const WORD_RESULTS: usize = 4;

const SLOT: usize = 8 << 10;
const OWN_SLOTS: usize = 16;
const SHARED_SLOTS: usize = 48;

/// Seeded choices.
struct Random(SplitMix64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0.below(limit as u64) as usize
    }

    /// Returns a length of any magnitude.
    fn length(&mut self, limit: usize) -> usize {
        let magnitude = 1 << self.below(15);
        self.below(magnitude).min(limit)
    }
}

/// A request without keys and addresses: places are offsets in an area of its queue pair.
#[derive(Debug, Clone, Copy)]
struct Planned {
    operation: Operation,
    /// Offset and number of the local bytes.
    local: (usize, usize),
    /// Offset of the remote bytes.
    remote: usize,
    signaled: bool,
    fence: bool,
    inline: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Write,
    WriteImmediate,
    Send,
    SendImmediate,
    /// READ of data that the peer never changes.
    Read,
    /// READ of data that this queue pair writes.
    ReadBack,
    FetchAdd(u64),
    CompareSwap(u64, u64),
    Bind,
    Invalidate,
    /// WRITE with a key that does not exist.
    Bad,
}

impl Operation {
    fn takes_receive(self) -> bool {
        matches!(
            self,
            Self::Send | Self::SendImmediate | Self::WriteImmediate
        )
    }
}

/// Returns the requests that one side of a queue pair sends.
fn plan(seed: u64, host: usize, qp: usize) -> Vec<Planned> {
    let mut random = Random(SplitMix64::new(seed << 16 | (host as u64) << 8 | qp as u64));
    let fails = qp >= FIRST_FAILING;
    if fails && host == 1 {
        return Vec::new();
    }
    let failing = if fails {
        OPERATIONS * 2 / 3
    } else {
        OPERATIONS
    };
    let mut is_bound = false;
    let mut reads_back = false;
    (0..OPERATIONS)
        .map(|index| {
            let mut planned = random_request(&mut random);
            if planned.operation == Operation::Bind && is_bound {
                planned.operation = Operation::Invalidate;
            }
            match planned.operation {
                Operation::Bind => is_bound = true,
                Operation::Invalidate => is_bound = false,
                _ => {}
            }
            // Data has to be read back before it is written again.
            planned.fence |= reads_back || planned.operation == Operation::Invalidate;
            reads_back = planned.operation == Operation::ReadBack;
            if index == failing {
                planned.operation = Operation::Bad;
                // The key of a WRITE without bytes is not checked.
                planned.local.1 = planned.local.1.max(1);
            }
            planned.signaled |= index + 1 == OPERATIONS;
            planned
        })
        .collect()
}

fn random_request(random: &mut Random) -> Planned {
    let operation = match random.below(20) {
        0..=4 => Operation::Write,
        5 => Operation::WriteImmediate,
        6..=9 => Operation::Send,
        10 => Operation::SendImmediate,
        11..=13 => Operation::Read,
        14 => Operation::ReadBack,
        15..=16 => Operation::FetchAdd(random.0.number()),
        17 => Operation::CompareSwap(0, random.0.number()),
        _ => Operation::Bind,
    };
    let limit = if operation.takes_receive() && operation != Operation::WriteImmediate {
        SLOT
    } else {
        AREA / 2
    };
    let length = random.length(limit);
    Planned {
        operation,
        local: (random.below(AREA / 2), length),
        remote: random.below(AREA / 2),
        signaled: random.below(3) > 0,
        fence: random.below(8) == 0,
        inline: length <= 64 && random.below(2) == 0,
    }
}

/// Returns the number of completions for the sender of a plan.
fn send_completions(plan: &[Planned]) -> usize {
    let bad = plan.iter().position(|p| p.operation == Operation::Bad);
    let good = &plan[..bad.unwrap_or(plan.len())];
    good.iter().filter(|p| p.signaled).count() + plan.len() - good.len()
}

/// Returns the number of receives that complete at the sender's peer.
fn receives(plan: &[Planned]) -> usize {
    let good = plan.iter().take_while(|p| p.operation != Operation::Bad);
    good.filter(|p| p.operation.takes_receive()).count()
}

/// The compared part of a completion. The slot of a shared receive queue depends on the order of
/// arrival, and is not compared.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    wr_id: Option<u64>,
    status: CompletionStatus,
    opcode: Option<CompletionOpcode>,
    byte_length: u32,
    immediate: Option<[u8; 4]>,
    /// The bytes of a receive.
    content: Vec<u8>,
}

/// All completions of a host, by queue pair: first of requests, then of receives.
type Log = Vec<[Vec<Seen>; 2]>;

/// One host's program.
struct Program {
    peer: Peer,
    slots: Memory,
    slot_key: u32,
    queue: Arc<SharedReceiveQueue>,
    windows: Vec<Arc<MemoryWindow>>,
    bound: Vec<Option<RKey>>,
    /// Keys of the other host, by queue pair.
    remote: Vec<RemoteAddress>,
    plans: Vec<Vec<Planned>>,
    posted: Vec<usize>,
    /// Requests that have completed.
    ended: Vec<usize>,
    expected: (usize, usize),
    log: Rc<RefCell<Log>>,
    costs: (Duration, Duration),
}

fn is_shared(qp: usize) -> bool {
    qp % 2 == 1
}

impl Program {
    fn new(world: &World, host: usize, seed: u64, is_timed: bool) -> Self {
        let mut peer = Peer::new(world, host, QPS * AREAS * AREA);
        peer.fill(seed + host as u64);
        let slots = Memory::new((QPS * OWN_SLOTS + SHARED_SLOTS) * SLOT);
        let slot_key = register(&peer.pd, &slots);
        let config = SharedReceiveQueueConfig {
            max_wr: SHARED_SLOTS as u32,
            max_sge: 2,
            limit: 0,
            xrc: None,
        };
        let queue = SharedReceiveQueue::create(&peer.pd, &config).expect("small SRQ");
        for qp in 0..QPS {
            let cq = Arc::clone(&peer.cq);
            let receive = if is_shared(qp) {
                ReceiveSource::Shared {
                    cq: Arc::clone(&cq),
                    queue: Arc::clone(&queue),
                }
            } else {
                ReceiveSource::Own {
                    cq: Arc::clone(&cq),
                    max_wr: OWN_SLOTS as u32,
                    max_sge: 2,
                }
            };
            peer.qps.push(new_qp(&peer.pd, cq, receive));
        }
        let window = || MemoryWindow::alloc(&peer.pd, WindowType::Two).expect("room");
        let windows: Vec<_> = (0..QPS).map(|_| window()).collect();
        let own = |qp| plan(seed, host, qp);
        let others = |qp| plan(seed, 1 - host, qp);
        let costs = if is_timed {
            (Duration::from_ns(140), Duration::from_ns(20))
        } else {
            (Duration::ZERO, Duration::ZERO)
        };
        let program = Self {
            slot_key: slot_key.lkey().0,
            windows,
            bound: vec![None; QPS],
            remote: Vec::new(),
            plans: (0..QPS).map(own).collect(),
            posted: vec![0; QPS],
            ended: vec![0; QPS],
            expected: (
                (0..QPS).map(|qp| send_completions(&own(qp))).sum(),
                (0..QPS).map(|qp| receives(&others(qp))).sum(),
            ),
            log: Rc::new(RefCell::new(vec![Default::default(); QPS])),
            peer,
            slots,
            queue,
            costs,
        };
        // The region lives as long as the world.
        std::mem::forget(slot_key);
        program
    }

    fn connect(&mut self, world: &World, other: &Self) {
        for (index, qp) in self.peer.qps.iter().enumerate() {
            let path_mtu = [PathMtu::Mtu1024, PathMtu::Mtu4096, PathMtu::Mtu256][index % 3];
            connect(world, qp, other.peer.host, &other.peer.qps[index], path_mtu);
        }
        self.remote = (0..QPS).map(|_| other.peer.remote(0)).collect();
        (0..QPS * OWN_SLOTS + SHARED_SLOTS).for_each(|slot| self.post_receive(slot));
    }

    /// Returns the queue pair whose receive queue has this slot, or `None` for the shared queue.
    fn owner(slot: usize) -> Option<usize> {
        let qp = slot / OWN_SLOTS;
        (qp < QPS && !is_shared(qp)).then_some(qp)
    }

    fn post_receive(&self, slot: usize) {
        let address = self.slots.as_ptr().addr() + slot * SLOT;
        // A message may be cut at any byte.
        let cut = 100 + slot;
        let piece = |offset: usize, length: usize| DataSegment {
            address: (address + offset) as u64,
            length: length as u32,
            l_key: self.slot_key,
        };
        let segments = [piece(0, cut), piece(cut, SLOT - cut)];
        let result = match Self::owner(slot) {
            Some(qp) => {
                let queue = self.peer.qps[qp].receive_queue().expect("its own");
                queue.post(slot as u64, &segments)
            }
            None if slot < QPS * OWN_SLOTS => Ok(()),
            None => self.queue.post(slot as u64, &segments),
        };
        result.expect("the place was free");
    }

    /// Returns the address of byte `offset` of an area of a queue pair.
    fn place(qp: usize, area: usize, offset: usize) -> usize {
        (qp * AREAS + area) * AREA + offset
    }

    fn post(&mut self, qp: usize) {
        let index = self.posted[qp];
        let planned = self.plans[qp][index];
        let (offset, length) = planned.local;
        let word = planned.remote % 64 * 8;
        let (area, place, length) = match planned.operation {
            Operation::Read | Operation::ReadBack => (RESULT, offset, length),
            Operation::FetchAdd(_) | Operation::CompareSwap(..) => (WORD_RESULTS, index * 8, 8),
            _ => (SOURCE, offset, length),
        };
        let remote = |area: usize, offset: usize| {
            let start = self.remote[qp];
            RemoteAddress {
                virtual_address: start.virtual_address + Self::place(qp, area, offset) as u64,
                ..start
            }
        };
        let target = remote(TARGET, planned.remote);
        let immediate = (index as u32).to_be_bytes();
        let operation = match planned.operation {
            Operation::Write => SendOperation::RdmaWrite(target),
            Operation::WriteImmediate => SendOperation::RdmaWriteImmediate(target, immediate),
            Operation::Send => SendOperation::Send,
            Operation::SendImmediate => SendOperation::SendImmediate(immediate),
            Operation::Read => SendOperation::RdmaRead(remote(SOURCE, planned.remote)),
            Operation::ReadBack => SendOperation::RdmaRead(target),
            Operation::FetchAdd(add) => SendOperation::FetchAdd {
                remote: remote(WORDS, word),
                add,
            },
            Operation::CompareSwap(compare, swap) => SendOperation::CompareSwap {
                remote: remote(WORDS, word),
                compare,
                swap,
            },
            Operation::Bind => self.bind(qp, index),
            Operation::Invalidate => {
                SendOperation::LocalInvalidate(self.bound[qp].expect("bound before"))
            }
            Operation::Bad => SendOperation::RdmaWrite(RemoteAddress {
                r_key: RKey(0xdead_beef),
                ..target
            }),
        };
        let is_local = matches!(planned.operation, Operation::Bind | Operation::Invalidate);
        let is_outward = area == SOURCE && !is_local;
        let segments = [self.peer.segment(Self::place(qp, area, place), length)];
        let bytes: Vec<u8> = self.bytes(qp, area, place, length.min(64));
        let data = match planned.inline && is_outward {
            true => SendData::Inline(&[&bytes]),
            false if is_local || length == 0 => SendData::ScatterGather(&[]),
            false => SendData::ScatterGather(&segments),
        };
        let request = SendRequest {
            wr_id: index as u64,
            operation,
            destination: Destination::Connected,
            signaled: planned.signaled,
            solicited: false,
            fence: planned.fence,
            data,
        };
        let queue = self.peer.qps[qp].send_queue().expect("RC");
        let mut batch = queue.lock();
        batch.post(&request).expect("there is room");
        batch.ring();
        self.posted[qp] += 1;
    }

    fn bind(&mut self, qp: usize, index: usize) -> SendOperation {
        let old = self.windows[qp].rkey().0;
        let r_key = RKey(old & !0xff | (index as u32 & 0xff));
        self.bound[qp] = Some(r_key);
        SendOperation::BindWindow(WindowBinding {
            r_key,
            l_key: self.peer.region.lkey(),
            address: self.peer.address(Self::place(qp, SOURCE, 0)) as u64,
            length: AREA as u64,
            access: WindowAccess {
                remote_read: true,
                ..WindowAccess::default()
            },
        })
    }

    fn bytes(&self, qp: usize, area: usize, offset: usize, length: usize) -> Vec<u8> {
        let start = Self::place(qp, area, offset);
        bytes_of(&self.peer.memory, start, length)
    }

    fn complete(&mut self, done: &WorkCompletion) {
        let qps = &self.peer.qps;
        let qp = qps.iter().position(|qp| qp.number() == done.qpn);
        let qp = qp.expect("a queue pair of ours");
        let is_receive = matches!(
            done.opcode,
            CompletionOpcode::Receive | CompletionOpcode::ReceiveRdmaWithImmediate
        );
        let is_success = done.status == CompletionStatus::Success;
        if is_receive && !is_success {
            // The receives of a queue pair that has refused a request of its peer.
            assert!(qp >= FIRST_FAILING);
            return;
        }
        let mut seen = Seen {
            wr_id: (!is_receive).then_some(done.wr_id),
            status: done.status,
            opcode: is_success.then_some(done.opcode),
            byte_length: 0,
            immediate: None,
            content: Vec::new(),
        };
        if is_receive {
            (seen.byte_length, seen.immediate) = (done.byte_length, done.immediate);
            if done.opcode == CompletionOpcode::Receive {
                let slot = done.wr_id as usize;
                seen.content = bytes_of(&self.slots, slot * SLOT, done.byte_length as usize);
            }
            self.post_receive(done.wr_id as usize);
            self.expected.1 -= 1;
        } else {
            self.ended[qp] = done.wr_id as usize + 1;
            self.expected.0 -= 1;
        }
        self.log.borrow_mut()[qp][usize::from(is_receive)].push(seen);
    }

    /// Describes the missing completions, and the progress of each queue pair.
    fn state(&self) -> String {
        let log = self.log.borrow();
        let each = (0..QPS).map(|qp| {
            let last = log[qp][0].last().map(|seen| (seen.wr_id, seen.status));
            let missing = send_completions(&self.plans[qp]) as isize - log[qp][0].len() as isize;
            (self.posted[qp], self.ended[qp], missing, last)
        });
        let each: Vec<_> = each.collect();
        let skipped = self.peer.cq.skipped();
        format!("{:?} missing, {skipped} skipped, {each:?}", self.expected)
    }

    fn step(&mut self, cpu: &mut Cpu<'_>) -> Next {
        let mut completions = Vec::new();
        let cq = Arc::clone(&self.peer.cq);
        cq.poll(32, |completion| completions.push(completion));
        completions.iter().for_each(|done| self.complete(done));
        cpu.spend(self.costs.1);
        for qp in 0..QPS {
            // The place of an unsignaled request is free when a later request has completed.
            while self.posted[qp] < self.plans[qp].len()
                && self.posted[qp] < self.ended[qp] + WINDOW
            {
                cpu.spend(self.costs.0);
                self.post(qp);
            }
        }
        match self.expected {
            (0, 0) => Next::Done,
            _ if completions.len() == 32 => Next::At(cpu.now()),
            _ => poll_again(cpu, self.costs.1),
        }
    }
}

fn bytes_of(memory: &Memory, start: usize, length: usize) -> Vec<u8> {
    let end = start + length;
    let words = &memory[start / 8..end.div_ceil(8)];
    let bytes = words.iter().flat_map(|word| {
        word.load(std::sync::atomic::Ordering::Acquire)
            .to_ne_bytes()
    });
    bytes.skip(start % 8).take(length).collect()
}

/// Result of a program.
#[derive(PartialEq, Eq)]
struct Remains {
    memory: Vec<u64>,
    log: Log,
}

fn run(config: &WorldConfig, seed: u64) -> [Remains; 2] {
    let mut world = World::new(config).expect("small");
    let is_timed = config.preset.is_some();
    let mut programs = [0, 1].map(|host| Program::new(&world, host, seed, is_timed));
    let [one, other] = &mut programs;
    one.connect(&world, other);
    other.connect(&world, one);
    let programs = programs.map(|program| Rc::new(RefCell::new(program)));
    for (host, program) in programs.iter().enumerate() {
        let program = Rc::clone(program);
        world.spawn(
            host,
            Box::new(move |cpu: &mut Cpu<'_>| program.borrow_mut().step(cpu)),
        );
    }
    let end = world.now() + Duration::from_ms(60_000);
    let outcome = world.run(end);
    let states = programs.each_ref().map(|program| program.borrow().state());
    assert_eq!(outcome, Outcome::Done, "{states:#?}\n{}", world.dump());
    for host in 0..2 {
        // No packet is lost or reordered.
        for counter in [Counter::sequence_naks_sent, Counter::local_ack_timeouts] {
            let count = world.counters(host).nic.value(counter);
            assert_eq!(count, 0, "{counter:?} of host {host}");
        }
    }
    // The last write may still be on its way to a host that has no completion to wait for.
    let later = world.now() + Duration::from_ms(1);
    world.run(later);
    programs.map(|program| {
        let program = program.borrow();
        let memory = (0..program.peer.memory.len()).map(|index| program.peer.word(index));
        let log = program.log.borrow().clone();
        Remains {
            memory: memory.collect(),
            log,
        }
    })
}

fn compare(name: &str, seed: u64, expected: &[Remains; 2], found: &[Remains; 2]) {
    for (host, (expected, found)) in expected.iter().zip(found).enumerate() {
        for qp in 0..QPS {
            for (side, kind) in ["requests", "receives"].iter().enumerate() {
                let (expected, found) = (&expected.log[qp][side], &found.log[qp][side]);
                let differs = expected.iter().zip(found).position(|(a, b)| a != b);
                assert_eq!(
                    differs, None,
                    "{name}, seed {seed}, host {host}, QP {qp}, {kind}"
                );
                assert_eq!(expected.len(), found.len(), "{name}, seed {seed}, QP {qp}");
            }
        }
        let differs = (0..expected.memory.len()).find(|i| expected.memory[*i] != found.memory[*i]);
        let place = differs.map(|word| (word * 8 / AREA / AREAS, word * 8 / AREA % AREAS, word));
        assert_eq!(
            place, None,
            "{name}, seed {seed}, host {host}: (QP, area, word)"
        );
    }
}

#[test]
fn timed_and_functional_worlds_end_the_same() {
    for seed in 1..=3 {
        let functional = run(&WorldConfig::functional(2), seed);
        for name in ["cx5-100g", "irdma-10g", "cx3-40g"] {
            let preset = Preset::load(name).expect("built in");
            let timed = run(&WorldConfig::timed(preset, 2), seed);
            compare(name, seed, &functional, &timed);
        }
        let again = run(&WorldConfig::functional(2), seed);
        compare("functional", seed, &functional, &again);
    }
}

/// Goal: the comparison can fail.
#[test]
fn another_seed_is_another_program() {
    let [one, other] = [1, 2].map(|seed| run(&WorldConfig::functional(2), seed));
    assert!(one != other);
}

#[test]
fn plans_have_everything() {
    let plans: Vec<Planned> = (0..QPS).flat_map(|qp| plan(1, 0, qp)).collect();
    let has = |wanted: fn(Operation) -> bool| plans.iter().any(|p| wanted(p.operation));
    assert!(has(|o| o == Operation::Write) && has(|o| o == Operation::WriteImmediate));
    assert!(has(|o| o == Operation::Send) && has(|o| o == Operation::SendImmediate));
    assert!(has(|o| o == Operation::Read) && has(|o| o == Operation::ReadBack));
    assert!(has(|o| matches!(o, Operation::FetchAdd(_))));
    assert!(has(|o| matches!(o, Operation::CompareSwap(..))));
    assert!(has(|o| o == Operation::Bind) && has(|o| o == Operation::Invalidate));
    assert!(has(|o| o == Operation::Bad));
    assert!(plans.iter().any(|p| p.inline) && plans.iter().any(|p| p.fence));
}
