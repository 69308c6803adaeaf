//! Random operations from a seed, and their expected results.

use ferroce_units::random::Random;
use ferroce_verbs_client::bench::Service;
use ferroce_verbs_client::sys::*;

/// Operations of one side in one round; each has its own slot in both memories.
pub const SLOTS: usize = 8;
/// Bytes of a slot.
pub const SLOT: usize = 32 * 1024;
/// Space at the start of a slot for the header of a datagram; nothing else writes there.
pub const HEADER: usize = 64;
/// The halves of each memory: one for its owner, one for the peer.
pub const MEMORY: usize = 2 * SLOTS * SLOT;
/// Longest message of a connected service.
const LENGTH_MAX: usize = 20_000;
/// Maximum number of polls before a peer deregisters memory.
const POLLS_BEFORE_MAX: u64 = 6;
/// Path MTU of the QPs.
const MTU: usize = 1024;
const ROUNDS_MAX: u64 = 6;

/// A fault that is injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// None.
    None,
    /// A key that does not exist.
    RKey,
    /// A local key that does not exist.
    LKey,
    /// The receive is a byte too short.
    ShortReceive,
    /// The peer deregisters the memory before or during the operation: the operation fails, unless
    /// it was faster.
    Deregistered,
}

/// One work request, known to both sides.
#[derive(Clone, Debug)]
pub struct Operation {
    /// The side that posts it.
    pub side: usize,
    /// Service of the QP.
    pub service: Service,
    /// Its opcode.
    pub opcode: ibv_wr_opcode,
    /// `IBV_SEND_*`.
    pub flags: u32,
    /// Uses the new send API.
    pub is_built: bool,
    /// Bytes.
    pub length: usize,
    /// Offset of the bytes in the memory of the side that posts it.
    pub near: usize,
    /// Offset of the bytes in the other memory.
    pub far: usize,
    /// Immediate data.
    pub immediate: u32,
    /// Operands of atomic operations.
    pub operands: (u64, u64),
    /// Data segments.
    pub segments: usize,
    /// The fault.
    pub fault: Fault,
    /// Polls of the peer before it deregisters the memory.
    pub polls_before: u64,
}

const ATOMICS: [ibv_wr_opcode; 2] = [IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD];
const SENDS: [ibv_wr_opcode; 2] = [IBV_WR_SEND, IBV_WR_SEND_WITH_IMM];
const WRITES: [ibv_wr_opcode; 2] = [IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM];

fn number(bytes: &[u8]) -> u64 {
    u64::from_ne_bytes(bytes.try_into().expect("eight bytes"))
}

fn sum(bytes: &[u8], add: u64) -> Vec<u8> {
    number(bytes).wrapping_add(add).to_ne_bytes().to_vec()
}

fn swapped(bytes: &[u8], (compare, swap): (u64, u64)) -> Vec<u8> {
    let is_equal = number(bytes) == compare;
    let result = if is_equal { swap } else { number(bytes) };
    result.to_ne_bytes().to_vec()
}

impl Operation {
    /// Applies the operation to both memories: the reference.
    pub fn apply(&self, memory: &mut [Vec<u8>; 2]) {
        let here = memory[self.side][self.near..][..self.length].to_vec();
        let there = memory[1 - self.side][self.far..][..self.length].to_vec();
        let (new_here, new_there) = match self.opcode {
            _ if self.fault != Fault::None => (here, there),
            IBV_WR_RDMA_READ => (there.clone(), there),
            IBV_WR_ATOMIC_FETCH_AND_ADD => (there.clone(), sum(&there, self.operands.0)),
            IBV_WR_ATOMIC_CMP_AND_SWP => (there.clone(), swapped(&there, self.operands)),
            _ => (here.clone(), here),
        };
        memory[self.side][self.near..][..self.length].copy_from_slice(&new_here);
        memory[1 - self.side][self.far..][..self.length].copy_from_slice(&new_there);
    }

    /// Returns true if data comes back.
    pub fn reads(&self) -> bool {
        self.opcode == IBV_WR_RDMA_READ || ATOMICS.contains(&self.opcode)
    }

    /// Returns true if it takes a receive.
    pub fn takes_receive(&self) -> bool {
        SENDS.contains(&self.opcode) || self.opcode == IBV_WR_RDMA_WRITE_WITH_IMM
    }

    /// Returns true if it may complete with `status` on the side that posts it.
    pub fn may_end_with(&self, status: ibv_wc_status) -> bool {
        let was_late = self.fault == Fault::Deregistered && status == IBV_WC_REM_ACCESS_ERR;
        was_late || status == self.status()
    }

    /// Returns true if packet faults do not change its result. They may change errors that the
    /// responder reports: it reports an error once, and if that packet is lost, the requester's
    /// retries end with another status.
    pub fn survives_packet_faults(&self) -> bool {
        self.service.is_reliable() && matches!(self.fault, Fault::None | Fault::LKey)
    }

    /// Returns its status on the side that posts it, without other faults.
    fn status(&self) -> ibv_wc_status {
        match (self.fault, self.service.is_reliable()) {
            (Fault::LKey, _) => IBV_WC_LOC_PROT_ERR,
            (Fault::RKey, true) => IBV_WC_REM_ACCESS_ERR,
            (Fault::ShortReceive, true) => IBV_WC_REM_INV_REQ_ERR,
            _ => IBV_WC_SUCCESS,
        }
    }

    /// Returns true if it must complete on the side that posts it.
    pub fn completes(&self) -> bool {
        self.flags & IBV_SEND_SIGNALED != 0 || self.status() != IBV_WC_SUCCESS
    }

    /// Returns the status of the receive that it uses, or `None` if it uses none.
    pub fn receive_status(&self) -> Option<ibv_wc_status> {
        match (self.takes_receive(), self.fault, self.service) {
            (false, ..) | (_, Fault::LKey | Fault::RKey, _) => None,
            (_, Fault::ShortReceive, Service::Uc) => None,
            (_, Fault::ShortReceive, _) => Some(IBV_WC_LOC_LEN_ERR),
            (_, Fault::None | Fault::Deregistered, _) => Some(IBV_WC_SUCCESS),
        }
    }

    /// Returns the opcode of the completion on the side that posts it.
    pub fn completion_opcode(&self) -> ibv_wc_opcode {
        match self.opcode {
            IBV_WR_RDMA_WRITE | IBV_WR_RDMA_WRITE_WITH_IMM => IBV_WC_RDMA_WRITE,
            IBV_WR_RDMA_READ => IBV_WC_RDMA_READ,
            IBV_WR_ATOMIC_CMP_AND_SWP => IBV_WC_COMP_SWAP,
            IBV_WR_ATOMIC_FETCH_AND_ADD => IBV_WC_FETCH_ADD,
            _ => IBV_WC_SEND,
        }
    }
}

fn opcode(random: &Random, service: Service) -> ibv_wr_opcode {
    let connected = [SENDS, WRITES].concat();
    match service {
        Service::Ud => random.one_of(&SENDS),
        Service::Uc => random.one_of(&connected),
        _ if random.one_in(4) => random.one_of(&ATOMICS),
        _ if random.one_in(3) => IBV_WR_RDMA_READ,
        _ => random.one_of(&connected),
    }
}

fn length(random: &Random, service: Service, opcode: ibv_wr_opcode) -> usize {
    if ATOMICS.contains(&opcode) {
        return 8;
    }
    let max = if service == Service::Ud {
        MTU
    } else {
        LENGTH_MAX
    };
    let length = match random.below(5) {
        0 => 0,
        1 => random.below(65),
        2 => random.below(5) * MTU as u64,
        3 => (random.below(4) + 1) * MTU as u64 + random.below(3) - 1,
        _ => random.below(max as u64 + 1),
    };
    (length as usize).min(max)
}

/// Returns, for one operation in six, a fault that it can have.
fn fault(random: &Random, service: Service, opcode: ibv_wr_opcode, length: usize) -> Fault {
    if !random.one_in(6) || length == 0 {
        return Fault::None;
    }
    let takes_message = SENDS.contains(&opcode);
    match random.below(4) {
        // The responder may check either the receive or the key first.
        0 if !takes_message && opcode != IBV_WR_RDMA_WRITE_WITH_IMM => Fault::RKey,
        1 if takes_message && service != Service::Ud => Fault::ShortReceive,
        2 if opcode != IBV_WR_RDMA_WRITE_WITH_IMM => Fault::LKey,
        // An unreliable requester gets no error.
        3 if service.is_reliable() && !takes_message && opcode != IBV_WR_RDMA_WRITE_WITH_IMM => {
            Fault::Deregistered
        }
        _ => Fault::None,
    }
}

fn operation(random: &Random, side: usize, slot: usize, services: &[Service]) -> Operation {
    let service = random.one_of(services);
    let opcode = opcode(random, service);
    let length = length(random, service, opcode);
    let fault = fault(random, service, opcode, length);
    // Atomic operations need aligned memory; a datagram is placed after its header.
    let aligned = if ATOMICS.contains(&opcode) { 8 } else { 1 };
    let shift = || random.below(64) as usize / aligned * aligned;
    let near = slot * SLOT + HEADER + shift();
    let far = SLOTS * SLOT
        + slot * SLOT
        + if service == Service::Ud {
            40
        } else {
            HEADER + shift()
        };
    let mut operation = Operation {
        side,
        service,
        opcode,
        flags: 0,
        is_built: random.one_in(2),
        length,
        near,
        far,
        immediate: random.next() as u32,
        operands: (random.below(3), random.next()),
        segments: if length >= 3 && aligned == 1 {
            1 + random.below(3) as usize
        } else {
            1
        },
        fault,
        polls_before: random.below(POLLS_BEFORE_MAX + 1),
    };
    for (flag, times) in [
        (IBV_SEND_SIGNALED, 2),
        (IBV_SEND_SOLICITED, 8),
        (IBV_SEND_FENCE, 8),
    ] {
        operation.flags |= if random.one_in(times) { flag } else { 0 };
    }
    let can_inline = !operation.reads() && length <= 64 && fault != Fault::LKey;
    if can_inline && random.one_in(2) {
        operation.flags |= IBV_SEND_INLINE;
    }
    operation
}

/// Returns all operations of a round, first those of side 0. After a fault a QP is idle until the
/// next round, and the last operation of each QP is signaled.
fn round(random: &Random) -> Vec<Operation> {
    let mut operations: Vec<Operation> = Vec::new();
    for side in 0..2 {
        let mut services = vec![Service::Rc, Service::Uc, Service::Ud, Service::Xrc];
        for slot in 0..1 + random.below(SLOTS as u64) as usize {
            if services.is_empty() {
                break;
            }
            let operation = operation(random, side, slot, &services);
            if operation.fault != Fault::None {
                services.retain(|service| *service != operation.service);
            }
            operations.push(operation);
        }
    }
    // A connection has two directions: a fault of one side also fails operations of the other side,
    // so remove these.
    let faulty = |side: usize, service| {
        let is = |o: &&Operation| (o.side, o.service) == (side, service) && o.fault != Fault::None;
        operations.iter().find(is).is_some()
    };
    let spoiled: Vec<_> = [Service::Rc, Service::Uc, Service::Ud]
        .into_iter()
        .flat_map(|service| [(0, service), (1, service)])
        .filter(|(side, service)| faulty(1 - side, *service))
        .filter(|(side, service)| *side == 1 || !faulty(0, *service))
        .collect();
    operations.retain(|o| !spoiled.contains(&(o.side, o.service)));
    let keys: Vec<_> = operations.iter().map(|o| (o.side, o.service)).collect();
    for (index, operation) in operations.iter_mut().enumerate() {
        if !keys[index + 1..].contains(&keys[index]) {
            operation.flags |= IBV_SEND_SIGNALED;
        }
    }
    operations
}

/// Returns the plan of a seed.
pub fn rounds(seed: u64) -> Vec<Vec<Operation>> {
    let random = Random::new(seed, 0);
    let count = 1 + random.below(ROUNDS_MAX);
    (0..count).map(|_| round(&random)).collect()
}

/// Returns the initial contents of both memories.
pub fn memories(seed: u64) -> [Vec<u8>; 2] {
    [0, 1].map(|side| {
        let random = Random::new(seed, 1 + side);
        // Small numbers, so that some comparisons succeed.
        let number = |random: &Random| match random.below(2) {
            0 => random.below(3),
            _ => random.next(),
        };
        (0..MEMORY / 8)
            .flat_map(|_| number(&random).to_ne_bytes())
            .collect()
    })
}
