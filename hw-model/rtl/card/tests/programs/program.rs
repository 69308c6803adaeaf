//! A random program: its objects, and its steps.
//!
//! The steps are independent: a program without some of them is also a program. Shrinking relies on
//! this. The executor skips a step that cannot be executed (a queue is full), or whose result
//! depends on the timing of the two ends (see `plan.rs`).

use std::fmt;

use ferroce_spec::wqe::SendOpcode;

use crate::machines::queues::QpPlan;

/// Maximum number of QPs of a program.
pub const MAX_QPS: usize = 4;
/// CQs of each side.
pub const CQS: usize = 2;
/// Bytes of each area of the data, see [`Area`].
pub const AREA: u64 = 0x4000;
/// Bytes of the target area that only atomics access: the last ones of the half that READs read.
pub const WORDS: u64 = 64;

/// The data of a QP's end is in four areas, so that no two streams write the same bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Area {
    /// Payload of SENDs and WRITEs, never written.
    Source,
    /// Destination of READs and of the results of atomics.
    Landing,
    /// Receive buffers.
    Received,
    /// Target of the peer's WRITEs, READs and atomics.
    Target,
}

pub fn is_atomic(opcode: SendOpcode) -> bool {
    matches!(opcode, SendOpcode::COMPARE_SWAP | SendOpcode::FETCH_ADD)
}

/// Returns the first byte of an area of a QP's end, as an offset of the data.
pub fn area_start(qp: usize, area: Area) -> u64 {
    (qp as u64 * 4 + area as u64) * AREA
}

/// Fault of a request or a receive WQE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    /// The key of a remote access: another variant.
    RemoteKey,
    /// It ends past the end of the region.
    RemoteBounds,
    /// The region does not allow it.
    RemoteRights,
    /// The region is of another protection domain.
    RemoteDomain,
    /// A page of the region is not present.
    RemotePage,
    /// The address of an atomic is not a multiple of eight.
    RemoteAlignment,
    /// The key of the last data segment: another variant.
    LocalKey,
    /// It ends past the end of the region.
    LocalBounds,
    /// Its region is of another protection domain.
    LocalDomain,
    /// There is no such operation.
    Opcode,
    /// The WQE has the index of an earlier lap.
    Stale,
    /// A receive WQE: it is shorter than most messages.
    Short,
    /// An atomic: its segments are shorter than its result.
    ShortResult,
}

impl Flaw {
    /// Returns true if the request fails before or while it is sent, not at the peer.
    pub fn is_local(self) -> bool {
        matches!(
            self,
            Flaw::LocalKey
                | Flaw::LocalBounds
                | Flaw::LocalDomain
                | Flaw::Opcode
                | Flaw::Stale
                | Flaw::ShortResult
        )
    }
}

/// A piece of an area: offset and bytes.
pub type Piece = (u32, u32);

/// A send request.
#[derive(Debug, Clone)]
pub struct Request {
    pub opcode: SendOpcode,
    pub pieces: Vec<Piece>,
    pub is_inline: bool,
    /// Offset in the peer's target area.
    pub remote: u32,
    /// Operands of an atomic: value to swap in or to add, value to compare with.
    pub operands: (u64, u64),
    pub immediate: [u8; 4],
    pub signaled: bool,
    pub solicited: bool,
    pub fence: bool,
    pub flaw: Option<Flaw>,
}

impl Request {
    /// Returns the bytes of the segments.
    pub fn length(&self) -> u32 {
        self.pieces.iter().map(|piece| piece.1).sum()
    }

    pub fn is_atomic(&self) -> bool {
        is_atomic(self.opcode)
    }

    /// Returns true for a READ or an atomic: its response brings data.
    pub fn fetches(&self) -> bool {
        self.opcode == SendOpcode::RDMA_READ || self.is_atomic()
    }

    /// Returns true if it consumes a receive WQE.
    pub fn takes_receive(&self) -> bool {
        self.is_send() || self.opcode == SendOpcode::RDMA_WRITE_IMMEDIATE
    }

    /// Returns true if its data goes to the buffers of a receive WQE.
    pub fn is_send(&self) -> bool {
        matches!(self.opcode, SendOpcode::SEND | SendOpcode::SEND_IMMEDIATE)
    }

    /// Returns true if it names remote memory.
    pub fn is_remote(&self) -> bool {
        matches!(
            self.opcode,
            SendOpcode::RDMA_WRITE | SendOpcode::RDMA_WRITE_IMMEDIATE
        ) || self.fetches()
    }
}

/// A receive WQE: pieces of the area of receive buffers.
#[derive(Debug, Clone)]
pub struct Receive {
    pub pieces: Vec<Piece>,
    pub flaw: Option<Flaw>,
}

impl Receive {
    /// Returns the bytes that fit.
    pub fn capacity(&self) -> u32 {
        self.pieces.iter().map(|piece| piece.1).sum()
    }
}

/// A step of a program; `side` is the machine that executes it.
#[derive(Debug, Clone)]
pub enum Step {
    Send {
        qp: usize,
        side: usize,
        request: Request,
    },
    Receive {
        qp: usize,
        side: usize,
        receive: Receive,
    },
    /// Rings the doorbells of all send queues with new WQEs, and runs for some turns.
    Ring { turns: usize },
    /// Rings the doorbells, runs until nothing is left to do, and polls. The steps between two of
    /// these form a window. With `is_late`, missing receive WQEs are posted when both ends are
    /// idle.
    Settle { is_late: bool },
    /// Takes the end of a QP to ERR.
    Fail { qp: usize, side: usize },
    /// Takes both ends to RESET, and connects them again.
    Reconnect { qp: usize },
}

/// A QP at each side, connected to each other.
#[derive(Debug, Clone)]
pub struct Connection {
    pub plans: [QpPlan; 2],
    /// Send and receive CQ of each side.
    pub cqs: [[usize; 2]; 2],
    /// First PSN of each side.
    pub psns: [u32; 2],
}

/// A program.
#[derive(Debug, Clone)]
pub struct Program {
    pub seed: u64,
    pub is_v6: bool,
    /// For each side: the order of its pages, which is random.
    pub is_scattered: [bool; 2],
    /// Base-2 logarithms of the entries of each side's CQs.
    pub log_cqes: [[u8; CQS]; 2],
    pub connections: Vec<Connection>,
    /// Lost frames per million.
    pub loss_per_million: u64,
    pub steps: Vec<Step>,
}

/// A line for each connection and step.
impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            seed,
            is_v6,
            is_scattered,
            log_cqes,
            loss_per_million,
            ..
        } = self;
        writeln!(
            f,
            "seed {seed}, IPv6 {is_v6}, scattered {is_scattered:?}, log CQEs {log_cqes:?}, \
             loss {loss_per_million} of a million"
        )?;
        for (number, connection) in self.connections.iter().enumerate() {
            writeln!(f, "QP {number}: {connection:x?}")?;
        }
        self.steps
            .iter()
            .try_for_each(|step| writeln!(f, "{step:?}"))
    }
}
