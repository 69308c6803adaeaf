//! Random programs of work requests, and the reference interpreter that says what they do.
//!
//! Memory of each node, in equal parts: SOURCE (constant, what requests send), WINDOW (where the
//! peer writes, in any order and overlapping), SLOTS (ranges that are written once and then read
//! back), LANDING (where READs and receives land, each range once).

use ferroce_transport::{
    Completion, CompletionStatus, PathMtu, ReceiveKind, Remote, SendOperation, SendRequest,
};
use ferroce_wire::Immediate;

use super::rng::Rng;
use super::{BASE, R_KEY, Receive};

/// Bytes of each part of a node's memory.
pub const PART: usize = 1 << 18;
/// Bytes of a node's memory.
pub const MEMORY: usize = 4 * PART;
const SOURCE: usize = 0;
const WINDOW: usize = PART;
const SLOTS: usize = 2 * PART;
const LANDING: usize = 3 * PART;

/// Room between the landing range of one message and that of the next.
const GUARD: usize = 8;

/// A request with its local buffer.
#[derive(Debug, Clone, Copy)]
pub struct Op {
    pub address: usize,
    pub request: SendRequest,
}

/// What one side does.
#[derive(Debug, Clone, Default)]
pub struct Program {
    pub ops: Vec<Op>,
    /// Receives that its own side needs, in order.
    pub receives: Vec<Receive>,
}

struct Generator<'r> {
    rng: &'r mut Rng,
    mtu: u32,
    reads: bool,
    programs: [Program; 2],
    landing: [usize; 2],
    slots: [usize; 2],
}

/// Programs for both sides, of up to `count` requests each.
pub fn generate(rng: &mut Rng, mtu: PathMtu, count: u64, reads: bool) -> [Program; 2] {
    let mut generator = Generator {
        rng,
        mtu: mtu.bytes(),
        reads,
        programs: [Program::default(), Program::default()],
        landing: [LANDING; 2],
        slots: [SLOTS; 2],
    };
    for side in 0..2 {
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
        match self.rng.below(if self.reads { 7 } else { 4 }) {
            0 => self.send(side, length, false),
            1 => self.send(side, length, true),
            2 => self.write(side, length, false),
            3 => self.write(side, length, true),
            4 => self.read_source(side, length),
            _ => self.write_and_read_back(side, length),
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

    /// The peer will need a receive; for a WRITE with immediate it may be of no bytes.
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

    fn send(&mut self, side: usize, length: u32, with_immediate: bool) {
        let operation = if with_immediate {
            SendOperation::SendImmediate(self.immediate())
        } else {
            SendOperation::Send
        };
        self.receive(1 - side, length);
        let address = self.source(length);
        self.push(side, operation, address, length);
    }

    fn write(&mut self, side: usize, length: u32, with_immediate: bool) {
        let offset = WINDOW + self.rng.below((PART - length as usize) as u64) as usize;
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

    /// A READ sees what a WRITE before it wrote.
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

/// What a node's memory holds at the start: noise in SOURCE, zeros elsewhere.
pub fn initial_memory(rng: &mut Rng) -> Vec<u8> {
    let mut memory = vec![0; MEMORY];
    for word in memory[SOURCE..SOURCE + PART].chunks_exact_mut(8) {
        word.copy_from_slice(&rng.next().to_le_bytes());
    }
    memory
}

/// What must come out: memory, and completions of sends and of receives, each in order.
#[derive(Debug)]
pub struct Outcome {
    pub memory: [Vec<u8>; 2],
    pub sends: [Vec<Completion>; 2],
    pub receives: [Vec<Completion>; 2],
}

/// The reference interpreter: one request after the other, no packets.
pub fn interpret(programs: &[Program; 2], memory: [Vec<u8>; 2]) -> Outcome {
    let mut outcome = Outcome {
        memory,
        sends: Default::default(),
        receives: Default::default(),
    };
    for side in 0..2 {
        let mut receives = programs[1 - side].receives.iter();
        for op in &programs[side].ops {
            let length = op.request.length as usize;
            let local = op.address..op.address + length;
            match op.request.operation {
                SendOperation::Send | SendOperation::SendImmediate(_) => {
                    let receive = receives.next().expect("the generator counts receives");
                    let source = outcome.memory[side][local].to_vec();
                    outcome.memory[1 - side][receive.address..][..length].copy_from_slice(&source);
                    outcome.receives[1 - side].push(received(receive, &op.request));
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
                        outcome.receives[1 - side].push(received(receive, &op.request));
                    }
                }
                SendOperation::RdmaRead { remote } => {
                    let start = (remote.virtual_address - BASE) as usize;
                    let source = outcome.memory[1 - side][start..][..length].to_vec();
                    outcome.memory[side][local].copy_from_slice(&source);
                }
            }
            if op.request.signaled {
                outcome.sends[side].push(sent(&op.request, CompletionStatus::Success));
            }
        }
    }
    outcome
}

/// The completion of a request.
pub fn sent(request: &SendRequest, status: CompletionStatus) -> Completion {
    Completion::Send {
        id: request.id,
        status,
        operation: request.operation.kind(),
        byte_length: request.length,
    }
}

fn received(receive: &Receive, request: &SendRequest) -> Completion {
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
    }
}
