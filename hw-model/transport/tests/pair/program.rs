//! Random programs of work requests, and the reference interpreter that computes their effect.
//!
//! The memory of each node has equal parts: SOURCE (constant, the source of requests), WINDOW (the
//! peer's WRITEs and atomics, in any order and overlapping), SLOTS (ranges that are written once
//! and then read back, or used as counters), LANDING (the destination of READs and receives, each
//! range once).

use ferroce_transport::{
    AtomicOperation, Completion, CompletionStatus, Destination, LocalKind, ReceiveKind,
    RecoveryMode, Remote, SendOperation, SendRequest, Service,
};
use ferroce_wire::{Feth, FlushRange, Immediate, RKey};

use super::rng::Rng;
use super::{BASE, R_KEY, Receive, SRQN, Setup, destination};

/// Bytes of each part of a node's memory.
pub const PART: usize = 1 << 18;
/// Bytes of a node's memory.
pub const MEMORY: usize = 4 * PART;
const SOURCE: usize = 0;
const WINDOW: usize = PART;
const SLOTS: usize = 2 * PART;
const LANDING: usize = 3 * PART;

/// Gap between the landing ranges of two messages.
const GUARD: usize = 8;

/// A request with its local buffer.
#[derive(Debug, Clone, Copy)]
pub struct Op {
    pub address: usize,
    pub request: SendRequest,
}

/// The program of one side.
#[derive(Debug, Clone, Default)]
pub struct Program {
    pub ops: Vec<Op>,
    /// Receives that its own side needs, in order.
    pub receives: Vec<Receive>,
}

struct Generator<'r> {
    rng: &'r mut Rng,
    mtu: u32,
    destinations: [Destination; 2],
    programs: [Program; 2],
    landing: [usize; 2],
    slots: [usize; 2],
    /// WRITEs may be placed in any order, so they must not overlap.
    is_relaxed: bool,
    windows: [usize; 2],
}

/// Generates programs for both sides, of up to `count` requests each; an XRC target sends nothing.
pub fn generate(rng: &mut Rng, setup: &Setup, count: u64) -> [Program; 2] {
    let mut generator = Generator {
        rng,
        mtu: setup.mtu.bytes(),
        destinations: [destination(setup, 0), destination(setup, 1)],
        programs: [Program::default(), Program::default()],
        landing: [LANDING; 2],
        slots: [SLOTS; 2],
        is_relaxed: setup
            .recovery
            .iter()
            .any(|r| r.mode == RecoveryMode::AdaptiveRouting),
        windows: [WINDOW; 2],
    };
    for side in 0..2 {
        if setup.services[side] == Service::XrcTarget {
            continue;
        }
        let ops = generator.rng.below(count + 1);
        for _ in 0..ops {
            generator.request(side);
        }
    }
    generator.programs
}

impl Generator<'_> {
    fn length(&mut self) -> u32 {
        let mtu = self.mtu;
        match self.rng.below(8) {
            0 => 0,
            1 => 1,
            2 => mtu - 1,
            3 => mtu,
            4 => mtu + 1,
            5 => self.rng.below(u64::from(mtu)) as u32,
            6 => mtu * (1 + self.rng.below(5) as u32),
            _ => mtu * self.rng.below(6) as u32 + self.rng.below(u64::from(mtu)) as u32,
        }
    }

    fn request(&mut self, side: usize) {
        let length = self.length();
        match self.rng.below(18) {
            0..3 => self.send(side, length, SendOperation::Send),
            3..5 => {
                let immediate = self.immediate();
                self.send(side, length, SendOperation::SendImmediate(immediate));
            }
            5 => {
                let r_key = RKey(self.rng.next() as u32);
                self.send(side, length, SendOperation::SendInvalidate(r_key));
            }
            6 => self.write(side, length, false),
            7..10 => self.write(side, length, true),
            10 => self.read_source(side, length),
            11 | 12 => self.write_and_read_back(side, length),
            13 => self.atomic_in_window(side),
            14 => self.count_in_slot(side),
            15 => self.flush(side, length),
            16 => self.atomic_write(side),
            _ => self.local(side),
        }
    }

    fn push(&mut self, side: usize, operation: SendOperation, address: usize, length: u32) {
        let id = self.programs[side].ops.len() as u32;
        let request = SendRequest {
            id,
            operation,
            length,
            signaled: self.rng.chance(2, 3),
            solicited: self.rng.chance(1, 4),
            fence: self.rng.chance(1, 5),
            destination: self.destinations[side],
        };
        self.programs[side].ops.push(Op { address, request });
    }

    fn source(&mut self, length: u32) -> usize {
        SOURCE + self.rng.below((PART - length as usize) as u64) as usize
    }

    fn land(&mut self, side: usize, capacity: u32) -> usize {
        let address = self.landing[side];
        self.landing[side] += capacity as usize + GUARD;
        assert!(
            self.landing[side] <= LANDING + PART,
            "the landing part is large enough"
        );
        address
    }

    fn immediate(&mut self) -> Immediate {
        Immediate((self.rng.next() as u32).to_be_bytes())
    }

    /// Adds a receive at the peer; for a WRITE with immediate it may have no bytes.
    fn receive(&mut self, side: usize, capacity: u32) {
        let capacity = capacity + self.rng.below(40) as u32;
        let address = self.land(side, capacity);
        let id = 1000 + self.programs[side].receives.len() as u32;
        self.programs[side].receives.push(Receive {
            id,
            address,
            capacity,
        });
    }

    fn send(&mut self, side: usize, length: u32, operation: SendOperation) {
        self.receive(1 - side, length);
        let address = self.source(length);
        self.push(side, operation, address, length);
    }

    fn write(&mut self, side: usize, length: u32, with_immediate: bool) {
        let anywhere = WINDOW + self.rng.below((PART - length as usize) as u64) as usize;
        let offset = if self.is_relaxed {
            self.own_range(side, length)
        } else {
            anywhere
        };
        let remote = remote(offset);
        let operation = if with_immediate {
            self.receive(1 - side, 0);
            SendOperation::RdmaWriteImmediate {
                remote,
                immediate: self.immediate(),
            }
        } else {
            SendOperation::RdmaWrite { remote }
        };
        let address = self.source(length);
        self.push(side, operation, address, length);
    }

    /// Returns a range of the window that no other request of this side uses.
    fn own_range(&mut self, side: usize, length: u32) -> usize {
        let offset = self.windows[side];
        self.windows[side] += length as usize;
        assert!(
            self.windows[side] <= WINDOW + PART,
            "the window is large enough"
        );
        offset
    }

    fn read_source(&mut self, side: usize, length: u32) {
        let offset = self.source(length);
        let address = self.land(side, length);
        self.push(
            side,
            SendOperation::RdmaRead {
                remote: remote(offset),
            },
            address,
            length,
        );
    }

    /// Adds an atomic on bytes that earlier WRITEs wrote.
    fn atomic_in_window(&mut self, side: usize) {
        let anywhere = WINDOW + 8 * self.rng.below(PART as u64 / 8) as usize;
        let offset = if self.is_relaxed {
            self.own_range(side, 16).next_multiple_of(8)
        } else {
            anywhere
        };
        let remote = remote(offset);
        let operation = SendOperation::FetchAdd {
            remote,
            add: self.rng.next(),
        };
        let address = self.land(side, 8);
        self.push(side, operation, address, 8);
    }

    fn flush(&mut self, side: usize, length: u32) {
        let (range, length) = match self.rng.below(3) {
            0 => (FlushRange::Region, 0),
            _ => (FlushRange::Range, length),
        };
        let operation = SendOperation::Flush {
            remote: remote(WINDOW),
            length,
            feth: Feth::new(&[Feth::GLOBAL], range),
        };
        self.push(side, operation, 0, 0);
    }

    /// Adds an ATOMIC WRITE to bytes that earlier requests may have written.
    fn atomic_write(&mut self, side: usize) {
        let anywhere = WINDOW + 8 * self.rng.below(PART as u64 / 8) as usize;
        let offset = if self.is_relaxed {
            self.own_range(side, 16).next_multiple_of(8)
        } else {
            anywhere
        };
        let remote = remote(offset);
        let address = self.source(8);
        self.push(side, SendOperation::AtomicWrite { remote }, address, 8);
    }

    /// Counts up from zero: each step happens once, and a swap sees the sum.
    fn count_in_slot(&mut self, side: usize) {
        let offset = self.slots[side].next_multiple_of(8);
        self.slots[side] = offset + 8;
        let remote = remote(offset);
        let mut sum = 0u64;
        for _ in 0..1 + self.rng.below(4) {
            let add = self.rng.next();
            sum = sum.wrapping_add(add);
            let address = self.land(side, 8);
            self.push(side, SendOperation::FetchAdd { remote, add }, address, 8);
        }
        for compare in [sum, sum.wrapping_add(1)] {
            let swap = self.rng.next();
            let operation = SendOperation::CompareSwap {
                remote,
                compare,
                swap,
            };
            let address = self.land(side, 8);
            self.push(side, operation, address, 8);
        }
    }

    fn local(&mut self, side: usize) {
        let kind = self
            .rng
            .pick(&[LocalKind::Nop, LocalKind::Bind, LocalKind::Invalidate]);
        self.push(side, SendOperation::Local(kind), 0, 0);
    }

    /// Adds a WRITE, and a READ of what it wrote.
    fn write_and_read_back(&mut self, side: usize, length: u32) {
        let offset = self.slots[side];
        self.slots[side] += length as usize;
        assert!(
            self.slots[side] <= SLOTS + PART,
            "the slot part is large enough"
        );
        let address = self.source(length);
        self.push(
            side,
            SendOperation::RdmaWrite {
                remote: remote(offset),
            },
            address,
            length,
        );
        let address = self.land(side, length);
        self.push(
            side,
            SendOperation::RdmaRead {
                remote: remote(offset),
            },
            address,
            length,
        );
    }
}

fn remote(offset: usize) -> Remote {
    Remote {
        virtual_address: BASE + offset as u64,
        r_key: R_KEY,
    }
}

/// Returns the initial memory of a node: noise in SOURCE, zeros elsewhere.
pub fn initial_memory(rng: &mut Rng) -> Vec<u8> {
    let mut memory = vec![0; MEMORY];
    for word in memory[SOURCE..SOURCE + PART].chunks_exact_mut(8) {
        word.copy_from_slice(&rng.next().to_le_bytes());
    }
    memory
}

/// The expected outcome: memory, and completions of sends and of receives, each in order.
#[derive(Debug)]
pub struct Outcome {
    pub memory: [Vec<u8>; 2],
    pub sends: [Vec<Completion>; 2],
    pub receives: [Vec<Completion>; 2],
    /// Number of atomics, FLUSHes and ATOMIC WRITEs that each side executes.
    pub atomics: [u32; 2],
}

/// Interprets the programs: one request after the other, no packets.
pub fn interpret(setup: &Setup, programs: &[Program; 2], memory: [Vec<u8>; 2]) -> Outcome {
    let mut outcome = Outcome {
        memory,
        sends: Default::default(),
        receives: Default::default(),
        atomics: [0; 2],
    };
    for side in 0..2 {
        let srqn = match setup.services[1 - side] {
            Service::XrcTarget => Some(SRQN),
            _ => None,
        };
        let mut receives = programs[1 - side].receives.iter();
        for op in &programs[side].ops {
            let length = op.request.length as usize;
            let local = op.address..op.address + length;
            match op.request.operation {
                SendOperation::Send
                | SendOperation::SendImmediate(_)
                | SendOperation::SendInvalidate(_) => {
                    let receive = receives.next().expect("the generator counts receives");
                    let source = outcome.memory[side][local].to_vec();
                    outcome.memory[1 - side][receive.address..][..length].copy_from_slice(&source);
                    outcome.receives[1 - side].push(received(receive, &op.request, srqn));
                }
                SendOperation::RdmaWrite { remote }
                | SendOperation::RdmaWriteImmediate { remote, .. } => {
                    let source = outcome.memory[side][local].to_vec();
                    let start = (remote.virtual_address - BASE) as usize;
                    outcome.memory[1 - side][start..][..length].copy_from_slice(&source);
                    if matches!(
                        op.request.operation,
                        SendOperation::RdmaWriteImmediate { .. }
                    ) {
                        let receive = receives.next().expect("the generator counts receives");
                        outcome.receives[1 - side].push(received(receive, &op.request, srqn));
                    }
                }
                SendOperation::RdmaRead { remote } => {
                    let start = (remote.virtual_address - BASE) as usize;
                    let source = outcome.memory[1 - side][start..][..length].to_vec();
                    outcome.memory[side][local].copy_from_slice(&source);
                }
                SendOperation::CompareSwap {
                    remote,
                    compare,
                    swap,
                } => {
                    let operation = AtomicOperation::CompareSwap { compare, swap };
                    outcome.atomic(side, remote, operation, local);
                }
                SendOperation::FetchAdd { remote, add } => {
                    outcome.atomic(side, remote, AtomicOperation::FetchAdd { add }, local);
                }
                SendOperation::Flush { length, feth, .. } => {
                    let executes = length > 0 || feth.range() == Some(FlushRange::Region);
                    outcome.atomics[1 - side] += u32::from(executes);
                }
                SendOperation::AtomicWrite { remote } => {
                    let source = outcome.memory[side][local].to_vec();
                    let start = (remote.virtual_address - BASE) as usize;
                    outcome.memory[1 - side][start..][..length].copy_from_slice(&source);
                    outcome.atomics[1 - side] += 1;
                }
                SendOperation::Local(_) => {}
            }
            if op.request.signaled {
                outcome.sends[side].push(sent(&op.request, CompletionStatus::Success));
            }
        }
    }
    outcome
}

impl Outcome {
    fn atomic(
        &mut self,
        side: usize,
        remote: Remote,
        operation: AtomicOperation,
        local: std::ops::Range<usize>,
    ) {
        let start = (remote.virtual_address - BASE) as usize;
        let cell = &mut self.memory[1 - side][start..start + 8];
        let original = super::atomic(cell, operation);
        self.memory[side][local].copy_from_slice(&original.to_le_bytes());
        self.atomics[1 - side] += 1;
    }
}

/// Returns the completion of a request.
pub fn sent(request: &SendRequest, status: CompletionStatus) -> Completion {
    Completion::Send {
        id: request.id,
        status,
        operation: request.operation.kind(),
        byte_length: request.length,
    }
}

fn received(receive: &Receive, request: &SendRequest, srqn: Option<u32>) -> Completion {
    let (operation, immediate) = match request.operation {
        SendOperation::SendImmediate(immediate) => (ReceiveKind::Send, Some(immediate)),
        SendOperation::RdmaWriteImmediate { immediate, .. } => {
            (ReceiveKind::RdmaWriteImmediate, Some(immediate))
        }
        _ => (ReceiveKind::Send, None),
    };
    Completion::Receive {
        receive: receive.id,
        status: CompletionStatus::Success,
        operation,
        byte_length: request.length,
        immediate,
        solicited: request.solicited,
        invalidated: match request.operation {
            SendOperation::SendInvalidate(r_key) => Some(r_key),
            _ => None,
        },
        source: None,
        with_grh: false,
        srqn,
    }
}
