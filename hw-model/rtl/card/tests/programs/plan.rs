//! Selects the steps of a window that are executed.
//!
//! The program lists what the two ends post. Some steps cannot be executed (a queue is full), and
//! the results of others depend on which end is faster. These steps are omitted, depending only on
//! the program and the results so far:
//!
//! - When a request fails, both ends of its QP may go to ERR. The other end of that QP posts
//!   nothing in such a window: how much it completes before the failure depends on timing.
//! - With loss, no request fails at the peer: if its NAK were lost, it would fail with another
//!   status.
//! - Nothing is posted after a READ or atomic whose data the requester cannot write, nor after a
//!   READ whose memory access fails at the peer, because the peer may already have executed it; and
//!   nothing after an invalid WQE, because the start of the next one is unknown.
//! - Receive WQEs are posted before the SENDs that use them, or when both ends are idle.

use std::collections::VecDeque;

use ferroce_spec::context::QpStateCode;
use ferroce_spec::wqe::SendOpcode;

use crate::generate::plain_receive;
use crate::program::{Area, CQS, Connection, Flaw, Program, Receive, Request, Step};

/// RNR retries without a limit.
const RNR_ALWAYS: u8 = 7;

/// The plan's state of one end of a connection.
#[derive(Debug, Clone)]
pub struct End {
    pub state: QpStateCode,
    /// Receive WQEs that have not completed.
    pub receives: VecDeque<Receive>,
}

/// A send request of a window, or a doorbell.
#[derive(Debug, Clone)]
pub enum Action {
    Send {
        qp: usize,
        side: usize,
        request: Request,
    },
    Ring {
        turns: usize,
    },
}

/// The executed steps of a window.
#[derive(Debug, Default)]
pub struct Plan {
    /// QP, side, receive WQE: posted first.
    pub receives: Vec<(usize, usize, Receive)>,
    pub actions: Vec<Action>,
    /// Posted when both ends are idle.
    pub late: Vec<(usize, usize, Receive)>,
    /// QPs with a failing request.
    pub failing: Vec<usize>,
    /// Side, QP, area: memory that a failing request may have written partly.
    pub spoiled: Vec<(usize, usize, Area)>,
}

/// Room in queues.
#[derive(Debug, Clone)]
struct Room {
    cqes: [[usize; CQS]; 2],
    /// For each QP and side.
    blocks: Vec<[usize; 2]>,
    receives: Vec<[usize; 2]>,
}

impl Room {
    fn new(program: &Program, ends: &[[End; 2]]) -> Self {
        let entries = |log: u8| 1 << log;
        let mut room = Self {
            cqes: program.log_cqes.map(|side| side.map(entries)),
            blocks: Vec::new(),
            receives: Vec::new(),
        };
        for (connection, ends) in program.connections.iter().zip(ends) {
            let plans = &connection.plans;
            room.blocks
                .push(plans.each_ref().map(|plan| entries(plan.log_blocks)));
            let left = [0, 1].map(|side: usize| {
                let outstanding = ends[side].receives.len();
                room.cqes[side][connection.cqs[side][1]] -= outstanding;
                entries(plans[side].log_receives) - outstanding
            });
            room.receives.push(left);
        }
        room
    }

    /// Reserves room for a receive WQE, if there is any.
    fn take_receive(&mut self, connection: &Connection, qp: usize, side: usize) -> bool {
        let cqes = &mut self.cqes[side][connection.cqs[side][1]];
        let receives = &mut self.receives[qp][side];
        let has_room = *cqes > 0 && *receives > 0;
        if has_room {
            *cqes -= 1;
            *receives -= 1;
        }
        has_room
    }

    /// Reserves room for a send WQE, if there is any.
    fn take_send(
        &mut self,
        connection: &Connection,
        (qp, side): (usize, usize),
        count: usize,
    ) -> bool {
        let cqes = &mut self.cqes[side][connection.cqs[side][0]];
        let blocks = &mut self.blocks[qp][side];
        let has_room = *cqes > 0 && *blocks >= count;
        if has_room {
            *cqes -= 1;
            *blocks -= count;
        }
        has_room
    }
}

/// The steps of a side on a QP.
#[derive(Debug, Default)]
struct Flow {
    /// Executed steps.
    steps: Vec<usize>,
    /// Number of receive WQEs that the peer lacks.
    missing: usize,
    /// The request that fails, unless it is flushed.
    failing: Option<Request>,
}

/// Returns the executed steps of a window.
pub fn plan(program: &Program, ends: &[[End; 2]], window: &[Step], is_late: bool) -> Plan {
    let mut planner = Planner {
        program,
        ends: ends.to_vec(),
        window,
        room: Room::new(program, ends),
        plan: Plan::default(),
    };
    planner.take_receives();
    let mut steps = Vec::new();
    for qp in 0..program.connections.len() {
        for (side, flow) in planner.flows(qp) {
            steps.extend(flow.steps);
            planner.add_missing(qp, 1 - side, flow.missing, is_late);
            if let Some(request) = flow.failing {
                planner.plan.failing.push(qp);
                planner.plan.spoiled.push(spoiled(qp, side, &request));
            }
        }
    }
    for (at, step) in window.iter().enumerate() {
        match step {
            Step::Ring { turns } => planner.plan.actions.push(Action::Ring { turns: *turns }),
            Step::Send { qp, side, request } if steps.contains(&at) => {
                planner.plan.actions.push(Action::Send {
                    qp: *qp,
                    side: *side,
                    request: request.clone(),
                });
            }
            _ => {}
        }
    }
    planner.plan
}

struct Planner<'a> {
    program: &'a Program,
    ends: Vec<[End; 2]>,
    window: &'a [Step],
    room: Room,
    plan: Plan,
}

impl Planner<'_> {
    fn take_receives(&mut self) {
        for step in self.window {
            let Step::Receive { qp, side, receive } = step else {
                continue;
            };
            let connection = &self.program.connections[*qp];
            if self.room.take_receive(connection, *qp, *side) {
                self.ends[*qp][*side].receives.push_back(receive.clone());
                self.plan.receives.push((*qp, *side, receive.clone()));
            }
        }
    }

    /// Returns the flows of both sides on a QP.
    fn flows(&mut self, qp: usize) -> Vec<(usize, Flow)> {
        let is_lossy = self.program.loss_per_million > 0;
        let mut flows = Vec::new();
        for side in [0, 1] {
            let flow = self.flow(qp, side);
            if !is_lossy || flow.failing.is_none() || is_local(&flow) {
                flows.push((side, flow));
            }
        }
        let failing = flows.iter().find(|(_, flow)| flow.failing.is_some());
        if let Some(failing) = failing.map(|(side, _)| *side) {
            let is_flushed = self.ends[qp][1 - failing].state == QpStateCode::ERR;
            flows.retain(|(side, _)| *side == failing || is_flushed);
        }
        flows
    }

    /// Returns the flow of a side if the other side sends nothing.
    fn flow(&mut self, qp: usize, side: usize) -> Flow {
        let connection = &self.program.connections[qp];
        let own = self.ends[qp][side].state;
        let mut receives = self.ends[qp][1 - side].receives.clone();
        let mut flow = Flow::default();
        for (at, step) in self.window.iter().enumerate() {
            let Step::Send {
                qp: its_qp,
                side: its_side,
                request,
            } = step
            else {
                continue;
            };
            let is_own = (*its_qp, *its_side) == (qp, side);
            let blocks = crate::wqes::blocks(request);
            if !is_own || !self.room.take_send(connection, (qp, side), blocks) {
                continue;
            }
            let is_flushed = own != QpStateCode::RTS || flow.failing.is_some();
            if !is_flushed && !self.execute(qp, side, request, &mut receives, &mut flow) {
                continue;
            }
            flow.steps.push(at);
            if flow.failing.as_ref().is_some_and(leaves_rest_open) {
                break;
            }
        }
        flow
    }

    /// Adds an executed request to a flow. Returns false if it cannot be executed.
    fn execute(
        &mut self,
        qp: usize,
        side: usize,
        request: &Request,
        receives: &mut VecDeque<Receive>,
        flow: &mut Flow,
    ) -> bool {
        let connection = &self.program.connections[qp];
        let mut fails = self.fails(qp, side, request);
        if request.takes_receive() && self.ends[qp][1 - side].state == QpStateCode::RTS {
            match receives.pop_front() {
                Some(receive) => fails |= does_not_fit(request, &receive),
                None if connection.plans[side].retry.rnr_retry() != RNR_ALWAYS => fails = true,
                None if self.room.take_receive(connection, qp, 1 - side) => flow.missing += 1,
                None => return false,
            }
        }
        if fails {
            flow.failing = Some(request.clone());
        }
        true
    }

    /// Returns true if a request fails regardless of the peer's receive WQEs.
    fn fails(&self, qp: usize, side: usize, request: &Request) -> bool {
        let connection = &self.program.connections[qp];
        let access = connection.plans[1 - side].access;
        let is_refused = match request.opcode {
            SendOpcode::RDMA_READ => !access.remote_read(),
            SendOpcode::RDMA_WRITE | SendOpcode::RDMA_WRITE_IMMEDIATE => !access.remote_write(),
            _ => request.is_atomic() && !access.remote_atomic(),
        };
        let is_local = request.opcode == SendOpcode::NOP;
        let has_peer = self.ends[qp][1 - side].state == QpStateCode::RTS;
        request.flaw.is_some() || is_refused || !has_peer && !is_local
    }

    fn add_missing(&mut self, qp: usize, side: usize, count: usize, is_late: bool) {
        let receives = if is_late {
            &mut self.plan.late
        } else {
            &mut self.plan.receives
        };
        receives.extend((0..count).map(|_| (qp, side, plain_receive())));
    }
}

/// Returns true if the contract does not define the results of the requests after this one. A READ
/// whose memory cannot be accessed fails when it is executed, and later requests may have been
/// executed before; after an invalid WQE, they are flushed one by one, or together with it.
fn leaves_rest_open(request: &Request) -> bool {
    let is_late = matches!(
        request.flaw,
        Some(Flaw::RemotePage | Flaw::LocalKey | Flaw::LocalBounds | Flaw::LocalDomain)
    );
    let is_senseless = matches!(request.flaw, Some(Flaw::Opcode | Flaw::Stale));
    is_senseless || request.fetches() && is_late
}

/// Returns true if a flow fails at the sender.
fn is_local(flow: &Flow) -> bool {
    let request = flow.failing.as_ref();
    let flaw = request.and_then(|request| request.flaw);
    flaw.is_some_and(Flaw::is_local)
}

/// Returns true if a SEND does not fit into a receive WQE, or reaches its invalid part.
fn does_not_fit(request: &Request, receive: &Receive) -> bool {
    let length = request.length();
    let last = receive.pieces.iter().rfind(|piece| piece.1 > 0);
    let last_bytes = last.map_or(0, |piece| piece.1);
    let reaches = match receive.flaw {
        Some(Flaw::LocalKey) => length > receive.capacity() - last_bytes,
        Some(Flaw::LocalBounds) => length >= receive.capacity().max(1),
        _ => false,
    };
    request.is_send() && (reaches || length > receive.capacity())
}

/// Returns the memory that a failing request may have written partly.
fn spoiled(qp: usize, side: usize, request: &Request) -> (usize, usize, Area) {
    match request.opcode {
        _ if request.fetches() => (side, qp, Area::Landing),
        SendOpcode::RDMA_WRITE | SendOpcode::RDMA_WRITE_IMMEDIATE => (1 - side, qp, Area::Target),
        _ => (1 - side, qp, Area::Received),
    }
}
