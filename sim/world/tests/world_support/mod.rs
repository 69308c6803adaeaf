//! Shared parts of the world tests: hosts with queue pairs, and threads that use them.

#![allow(dead_code, reason = "each program uses a part of it")]

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ferroce_driver::{
    CompletionQueue, CompletionStatus, DataSegment, Device, MemoryRegion, PathMtu,
    ProtectionDomain, QueuePair, QueuePairConfig, ReceiveSource, RemoteAddress, RtrAttributes,
    SendOperation, WorkCompletion,
};
use ferroce_test_verbs as verbs;
pub use ferroce_test_verbs::{Memory, new_cq, post, register};
use ferroce_units::{Duration, Instant};
use ferroce_world::{Cpu, Next, Outcome, Thread, Watch, World};

/// Simulated time that no test exceeds.
pub const TIME_LIMIT: Duration = Duration::from_ms(500);
/// Maximum work requests of a queue pair.
pub const DEPTH: u32 = 128;

/// A host with its device up, a CQ, memory and queue pairs.
pub struct Peer {
    pub host: usize,
    pub device: Arc<Device>,
    pub pd: Arc<ProtectionDomain>,
    pub cq: Arc<CompletionQueue>,
    pub qps: Vec<Arc<QueuePair>>,
    pub memory: Memory,
    pub region: Arc<MemoryRegion>,
}

impl Peer {
    /// Brings the device of `host` up, with `bytes` of registered memory.
    pub fn new(world: &World, host: usize, bytes: usize) -> Self {
        let device = world.open(host).expect("the model comes up");
        let pd = device.alloc_pd().expect("first PD");
        let cq = new_cq(&device, 1 << 15);
        let memory = Memory::new(bytes);
        let region = register(&pd, &memory);
        Self {
            host,
            device,
            pd,
            cq,
            qps: Vec::new(),
            memory,
            region,
        }
    }

    /// Creates another queue pair, which completes on the peer's CQ.
    pub fn add_qp(&mut self) {
        let cq = Arc::clone(&self.cq);
        let receive = verbs::own_receives(&cq, DEPTH);
        self.qps.push(new_qp(&self.pd, cq, receive));
    }

    /// Returns the local segment of byte `offset` of the memory.
    pub fn segment(&self, offset: usize, length: usize) -> DataSegment {
        verbs::segment(&self.region, offset, length)
    }

    /// Returns the address and key of byte `offset` of the memory, for peers.
    pub fn remote(&self, offset: usize) -> RemoteAddress {
        verbs::remote(&self.region, offset)
    }

    /// Returns the address of byte `offset` of the memory.
    pub fn address(&self, offset: usize) -> usize {
        self.memory.as_ptr().addr() + offset
    }

    pub fn word(&self, index: usize) -> u64 {
        self.memory[index].load(Ordering::Acquire)
    }

    pub fn set_word(&self, index: usize, value: u64) {
        self.memory[index].store(value, Ordering::Release);
    }

    /// Fills all of the memory with a pattern from `seed`.
    pub fn fill(&self, seed: u64) {
        for (index, word) in self.memory.iter().enumerate() {
            word.store(pattern(seed, index), Ordering::Relaxed);
        }
    }
}

/// Returns a word that [`Peer::fill`] writes.
pub fn pattern(seed: u64, index: usize) -> u64 {
    (seed << 32 | index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

pub fn new_qp(
    pd: &Arc<ProtectionDomain>,
    cq: Arc<CompletionQueue>,
    receive: ReceiveSource,
) -> Arc<QueuePair> {
    let config = QueuePairConfig {
        receive,
        max_inline_data: 64,
        ..verbs::qp_config(&cq, DEPTH)
    };
    verbs::new_qp(pd, &config)
}

/// Connects two queue pairs, of the hosts `from` and `to`.
pub fn connect(world: &World, qp: &QueuePair, to: usize, peer: &QueuePair, path_mtu: PathMtu) {
    let rtr = RtrAttributes {
        path_mtu,
        ..verbs::rtr(peer.number(), world.path(to))
    };
    verbs::connect(qp, rtr, verbs::rts());
}

/// Creates a queue pair on each host and connects them.
pub fn join(world: &World, one: &mut Peer, other: &mut Peer, path_mtu: PathMtu) {
    one.add_qp();
    other.add_qp();
    let (a, b) = (one.qps.last().expect("new"), other.qps.last().expect("new"));
    connect(world, a, other.host, b, path_mtu);
    connect(world, b, one.host, a, path_mtu);
}

/// Returns two hosts, each with a queue pair that is connected to the other's.
pub fn pair(world: &World, bytes: usize) -> (Peer, Peer) {
    let (mut one, mut other) = (Peer::new(world, 0, bytes), Peer::new(world, 1, bytes));
    join(world, &mut one, &mut other, PathMtu::Mtu4096);
    (one, other)
}

/// Polls a CQ of the host every `grid` until there are `count` completions.
pub fn completions(
    world: &mut World,
    host: usize,
    cq: &Arc<CompletionQueue>,
    count: usize,
    grid: Duration,
) -> Vec<WorkCompletion> {
    let found = Rc::new(RefCell::new(Vec::new()));
    let (shared, cq) = (Rc::clone(&found), Arc::clone(cq));
    let thread = world.spawn(
        host,
        Box::new(move |cpu: &mut Cpu<'_>| {
            let mut found = shared.borrow_mut();
            cq.poll(count - found.len(), |completion| found.push(completion));
            match found.len() {
                length if length == count => Next::Done,
                _ => poll_again(cpu, grid),
            }
        }),
    );
    let end = world.now() + TIME_LIMIT;
    let outcome = world.run(end);
    let found = found.take();
    if found.len() < count {
        let dump = world.dump();
        world.kill(thread);
        panic!(
            "{} of {count} completions, {outcome:?}: {dump}",
            found.len()
        );
    }
    found
}

/// Polls a CQ again, every `grid`.
pub fn poll_again(cpu: &mut Cpu<'_>, grid: Duration) -> Next {
    Next::OnWrite {
        not_before: cpu.now() + grid,
        grid,
        watch: Watch::Completions,
    }
}

/// A thread that keeps a number of requests of each of its queue pairs in flight.
pub struct Stream {
    pub cq: Arc<CompletionQueue>,
    pub flows: Vec<Flow>,
    /// Requests that remain to be posted, over all flows.
    pub left: u64,
    /// Requests in flight.
    pub under_way: u64,
    /// Maximum number of requests in flight per flow.
    pub depth: u64,
    /// Time of a post with its doorbell, and of a poll.
    pub post: Duration,
    pub poll: Duration,
    /// When the last request completed.
    pub finished: Rc<RefCell<Instant>>,
    next: usize,
}

/// One queue pair of a stream.
pub struct Flow {
    pub qp: Arc<QueuePair>,
    pub operation: SendOperation,
    pub segment: DataSegment,
}

impl Stream {
    pub fn new(cq: &Arc<CompletionQueue>, flows: Vec<Flow>, count: u64, depth: u64) -> Self {
        Self {
            cq: Arc::clone(cq),
            flows,
            left: count,
            under_way: 0,
            depth,
            post: Duration::ZERO,
            poll: Duration::ZERO,
            finished: Rc::default(),
            next: 0,
        }
    }
}

impl Thread for Stream {
    fn step(&mut self, cpu: &mut Cpu<'_>) -> Next {
        let mut polled = 0;
        self.cq.poll(16, |completion| {
            assert_eq!(completion.status, CompletionStatus::Success);
            polled += 1;
        });
        self.under_way -= polled;
        cpu.spend(self.poll);
        let window = self.depth * self.flows.len() as u64;
        while self.left > 0 && self.under_way < window {
            let flow = &self.flows[self.next];
            self.next = (self.next + 1) % self.flows.len();
            cpu.spend(self.post);
            post(&flow.qp, 1, flow.operation, flow.segment);
            self.left -= 1;
            self.under_way += 1;
        }
        match (self.left, self.under_way) {
            (0, 0) => {
                *self.finished.borrow_mut() = cpu.now();
                Next::Done
            }
            _ if polled == 16 => Next::At(cpu.now()),
            _ => poll_again(cpu, self.poll),
        }
    }
}

pub fn run(world: &mut World) -> Outcome {
    let end = world.now() + TIME_LIMIT;
    world.run(end)
}
