//! Generates the program of a seed.

use ferroce_spec::context::{AccessRights, PathMtuCode, RetryAttributes, ServiceCode};
use ferroce_spec::wqe::{MAX_DATA_SEGMENTS, MAX_INLINE, SendOpcode};
use ferroce_units::random::Random;

use crate::machines::queues::QpPlan;
use crate::program::{
    AREA, CQS, Connection, Flaw, MAX_QPS, Piece, Program, Receive, Request, Step, WORDS, is_atomic,
};

/// Stream of random numbers for programs.
const STREAM: u64 = 0;
/// Length of the longest SEND, and of the shortest valid receive WQE.
const MAX_SEND: u64 = 4096;
/// Bytes of the result of an atomic.
const RESULT: u64 = 8;
/// The longest WRITE and READ.
const MAX_REMOTE: u64 = 6144;
/// Maximum number of windows of a program.
const MAX_WINDOWS: u64 = 5;
/// Maximum number of steps of a window.
const MAX_STEPS: u64 = 10;
/// The local ACK timeout of lossless programs, 4.096 us x 2^n: longer than any program runs.
const LONG_TIMEOUT: u8 = 20;
/// The local ACK timeout of programs with loss: 1 ms.
const SHORT_TIMEOUT: u8 = 8;
/// Base-2 logarithm of the bytes of a receive WQE of two segments.
const LOG_STRIDE: u64 = 5;

/// Without SEND_INVALIDATE: the card has no windows that a peer could invalidate, so it would fail,
/// and only by time-outs.
const OPCODES: [SendOpcode; 14] = [
    SendOpcode::SEND,
    SendOpcode::SEND,
    SendOpcode::SEND_IMMEDIATE,
    SendOpcode::RDMA_WRITE,
    SendOpcode::RDMA_WRITE,
    SendOpcode::RDMA_WRITE,
    SendOpcode::RDMA_WRITE_IMMEDIATE,
    SendOpcode::RDMA_READ,
    SendOpcode::RDMA_READ,
    SendOpcode::RDMA_READ,
    SendOpcode::COMPARE_SWAP,
    SendOpcode::FETCH_ADD,
    SendOpcode::FETCH_ADD,
    SendOpcode::NOP,
];
const REMOTE_FLAWS: [Flaw; 5] = [
    Flaw::RemoteKey,
    Flaw::RemoteBounds,
    Flaw::RemoteRights,
    Flaw::RemoteDomain,
    Flaw::RemotePage,
];
const LOCAL_FLAWS: [Flaw; 5] = [
    Flaw::LocalKey,
    Flaw::LocalBounds,
    Flaw::LocalDomain,
    Flaw::Opcode,
    Flaw::Stale,
];
const RECEIVE_FLAWS: [Flaw; 3] = [Flaw::LocalKey, Flaw::LocalBounds, Flaw::Short];

/// Returns the program of `seed`.
pub fn program(seed: u64, loss_per_million: u64) -> Program {
    let random = Random::new(seed, STREAM);
    let chance = |one_in: u64| random.below(one_in) == 0;
    let log_cqes = [(); 2].map(|()| [(); CQS].map(|()| 3 + random.below(4) as u8));
    let is_lossy = loss_per_million > 0;
    let connections: Vec<_> = (0..1 + random.below(MAX_QPS as u64 - 1))
        .map(|_| connection(&random, is_lossy))
        .collect();
    let mut program = Program {
        seed,
        is_v6: chance(2),
        is_scattered: [chance(2), chance(2)],
        log_cqes,
        connections,
        loss_per_million,
        steps: Vec::new(),
    };
    for _ in 0..1 + random.below(MAX_WINDOWS) {
        for _ in 0..1 + random.below(MAX_STEPS) {
            let step = step(&random, &program);
            program.steps.push(step);
        }
        program.steps.push(Step::Settle { is_late: chance(4) });
        for qp in 0..program.connections.len() {
            let side = random.below(2) as usize;
            match random.below(16) {
                0 => program.steps.push(Step::Fail { qp, side }),
                1..=5 => program.steps.push(Step::Reconnect { qp }),
                _ => {}
            }
        }
    }
    program
}

fn connection(random: &Random, is_lossy: bool) -> Connection {
    let mtu = PathMtuCode(1 + random.below(5) as u8);
    let ends = [(); 2].map(|()| plan(random, mtu, is_lossy));
    let mut plans = ends;
    for side in 0..2 {
        plans[side].max_rd_atomic = ends[side]
            .max_rd_atomic
            .min(ends[1 - side].max_dest_rd_atomic);
    }
    let cq = || random.below(CQS as u64) as usize;
    let psn = || match random.below(3) {
        0 => 0xff_ffff - random.below(20) as u32,
        _ => random.below(1 << 24) as u32,
    };
    Connection {
        plans,
        cqs: [[cq(), cq()], [cq(), cq()]],
        psns: [psn(), psn()],
    }
}

fn plan(random: &Random, mtu: PathMtuCode, is_lossy: bool) -> QpPlan {
    let mut access = AccessRights::default();
    access.set_remote_read(random.below(12) > 0);
    access.set_remote_write(random.below(12) > 0);
    access.set_remote_atomic(random.below(12) > 0);
    let mut retry = RetryAttributes::default();
    retry.set_retry_count(7);
    retry.set_rnr_retry(match random.below(3) {
        0 if !is_lossy => random.below(3) as u8,
        _ => 7,
    });
    retry.set_timeout(if is_lossy {
        SHORT_TIMEOUT
    } else {
        LONG_TIMEOUT
    });
    retry.set_min_rnr_timer(1 + random.below(8) as u8);
    QpPlan {
        service: ServiceCode::RELIABLE_CONNECTED,
        pd: 7 + random.below(2) as u32,
        log_blocks: 4 + random.below(3) as u8,
        log_receives: 1 + random.below(4) as u8,
        log_stride: (LOG_STRIDE + random.below(4)) as u8,
        access,
        retry,
        mtu,
        max_rd_atomic: 1 + random.below(16) as u8,
        max_dest_rd_atomic: 1 + random.below(16) as u8,
    }
}

fn step(random: &Random, program: &Program) -> Step {
    let qp = random.below(program.connections.len() as u64) as usize;
    let side = random.below(2) as usize;
    match random.below(16) {
        0..=8 => Step::Send {
            qp,
            side,
            request: request(random, program.loss_per_million > 0),
        },
        9..=13 => Step::Receive {
            qp,
            side,
            receive: receive(random, program),
        },
        _ => Step::Ring {
            turns: random.below(4) as usize,
        },
    }
}

fn request(random: &Random, is_lossy: bool) -> Request {
    let opcode = OPCODES[random.below(OPCODES.len() as u64) as usize];
    let is_remote = opcode.0 >= SendOpcode::RDMA_WRITE.0;
    let max = if is_remote { MAX_REMOTE } else { MAX_SEND };
    let mut length = match opcode {
        SendOpcode::NOP => 0,
        _ if is_atomic(opcode) => RESULT + random.below(4) * random.below(20),
        _ => message_length(random, max),
    };
    let is_inline = opcode.0 < SendOpcode::RDMA_READ.0
        && opcode != SendOpcode::NOP
        && random.below(4) == 0
        && length <= MAX_INLINE as u64;
    let flaw = (random.below(20) == 0)
        .then(|| send_flaw(random, is_remote && !is_lossy))
        .map(|flaw| match random.below(3) {
            0 if is_atomic(opcode) && is_lossy => Flaw::ShortResult,
            0 if is_atomic(opcode) => {
                [Flaw::RemoteAlignment, Flaw::ShortResult][random.below(2) as usize]
            }
            _ => flaw,
        })
        .filter(|flaw| !is_inline || !flaw.is_local() || *flaw == Flaw::Stale);
    if flaw.is_some() {
        // A message of no bytes has no keys.
        length = length.max(1);
    }
    if let (true, Some(flaw)) = (is_atomic(opcode), flaw) {
        // All segments are used, so the fault of the last one has an effect.
        length = match flaw {
            Flaw::ShortResult => random.below(RESULT),
            _ => RESULT,
        };
    }
    let pieces = if is_inline {
        vec![(random.below(AREA - length) as u32, length as u32)]
    } else {
        pieces(random, length, MAX_DATA_SEGMENTS as u64)
    };
    let number = random.next().to_le_bytes();
    let fence = random.below(4) == 0;
    Request {
        opcode,
        pieces: if opcode == SendOpcode::NOP {
            Vec::new()
        } else {
            pieces
        },
        is_inline,
        remote: remote_offset(random, opcode, length, fence && !is_lossy) as u32,
        operands: operands(random),
        immediate: [number[0], number[1], number[2], number[3]],
        signaled: random.below(4) > 0,
        solicited: random.below(4) == 0 && opcode.0 < SendOpcode::RDMA_READ.0,
        fence,
        flaw: flaw.filter(|_| opcode != SendOpcode::NOP),
    }
}

/// Returns the operands of an atomic. A compare and swap often finds the value of an earlier one.
fn operands(random: &Random) -> (u64, u64) {
    let operand = || match random.below(3) {
        0 => random.next(),
        _ => random.below(2),
    };
    (operand(), operand())
}

/// Returns the place in the peer's target area that a request reads or writes. READs have one half
/// of it, and only WRITEs with a fence write that half: without a fence, the peer may execute a
/// WRITE before it has read the data of an earlier READ (contract, chapter 14; IBTA vol 1,
/// 10.8.3.3). With loss, no WRITE writes it: a READ whose response was lost is executed again. For
/// the same reasons, atomics have words that nothing else reads or writes.
fn remote_offset(random: &Random, opcode: SendOpcode, length: u64, is_ordered: bool) -> u64 {
    let half = AREA / 2;
    if is_atomic(opcode) {
        return half - WORDS + 8 * random.below(WORDS / 8);
    }
    let offset = random.below(half - WORDS - length);
    if opcode == SendOpcode::RDMA_READ || is_ordered {
        offset
    } else {
        half + offset
    }
}

fn send_flaw(random: &Random, may_be_remote: bool) -> Flaw {
    if may_be_remote && random.below(2) == 0 {
        REMOTE_FLAWS[random.below(5) as usize]
    } else {
        LOCAL_FLAWS[random.below(5) as usize]
    }
}

/// Returns a length that is often near a path MTU.
fn message_length(random: &Random, max: u64) -> u64 {
    let length = match random.below(8) {
        0 => 0,
        1 | 2 => random.below(70),
        3 | 4 => {
            let mtu = 256 << random.below(5);
            (mtu * (1 + random.below(3)) + random.below(9)).saturating_sub(4)
        }
        5 => random.below(max),
        _ => random.below(600),
    };
    length.min(max)
}

/// Splits `length` bytes into pieces of an area, in order, with gaps.
fn pieces(random: &Random, length: u64, most: u64) -> Vec<Piece> {
    let count = match random.below(3) {
        0 => 1 + random.below(most),
        1 => 1 + random.below(3.min(most)),
        _ => 1,
    };
    let mut left = length;
    let mut gaps = AREA - length;
    let mut at = 0;
    let mut pieces = Vec::new();
    for number in 1..=count {
        let gap = random.below(gaps / count + 1);
        let bytes = if number == count {
            left
        } else {
            random.below(left + 1)
        };
        pieces.push(((at + gap) as u32, bytes as u32));
        at += gap + bytes;
        gaps -= gap;
        left -= bytes;
    }
    pieces
}

fn receive(random: &Random, program: &Program) -> Receive {
    let is_flawed = random.below(16) == 0 && program.loss_per_million == 0;
    let flaw = is_flawed.then(|| RECEIVE_FLAWS[random.below(3) as usize]);
    let length = match flaw {
        Some(Flaw::Short | Flaw::LocalBounds) => random.below(200),
        _ => MAX_SEND + random.below(2000),
    };
    Receive {
        // The maximum number for the smallest stride.
        pieces: pieces(random, length, 1 << (LOG_STRIDE - 4)),
        flaw,
    }
}

/// Returns a receive WQE that takes any SEND.
pub fn plain_receive() -> Receive {
    Receive {
        pieces: vec![(0, MAX_SEND as u32)],
        flaw: None,
    }
}
