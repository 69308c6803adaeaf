//! Runs a program on two functions, and records the results for software and on the wire.

use std::collections::{BTreeMap, VecDeque};

use ferroce_spec::context::{QpContext, QpStateCode};
use ferroce_spec::cqe::{Cqe, CqeOpcode, CqeStatus};
use ferroce_spec::eqe::EventType;
use ferroce_units::random::{Random, SplitMix64, mixed};
use ferroce_wire::{Frame, Gid};

use crate::frames::Stream;
use crate::machines::device::Kind;
use crate::machines::machine::{Machine, PAGE, PAGES, place};
use crate::machines::pair::{Loss, Pair, Sent};
use crate::machines::queues::{Peer, TestCq, TestQp};
use crate::plan::{Action, End, Plan, plan};
use crate::program::{AREA, Area, Program, Receive, Request, Step, area_start};
use crate::wqes::{Regions, receive_segments, wqe};

/// Streams of random numbers of a run.
const PAGES_STREAM: u64 = 1;
/// Derives the seed of losses from the program's seed.
const LOSS_SALT: u64 = 0x6c6f_7373;

/// The fields of a CQE that the contract defines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion {
    pub window: usize,
    pub cq: usize,
    pub status: CqeStatus,
    pub wqe_index: u32,
    /// Only for successes.
    pub success: Option<Success>,
}

/// Fields of a successful CQE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Success {
    pub opcode: CqeOpcode,
    /// Only for receives, READs and atomics.
    pub bytes: Option<u32>,
    pub immediate: Option<[u8; 4]>,
    pub is_solicited: bool,
}

/// State of a QP after a window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QpSeen {
    pub state: QpStateCode,
    /// Send PSN, expected PSN, MSN, next receive WQE; only for QPs that have not failed.
    pub counts: Option<[u32; 4]>,
}

/// Results of a window.
#[derive(Debug, Default)]
pub struct WindowSeen {
    /// QPs with a request that fails, or has failed.
    pub failing: Vec<usize>,
    /// By QP and side.
    pub states: Vec<[QpSeen; 2]>,
    /// By QP and sender.
    pub streams: Vec<[Stream; 2]>,
    /// Events of QPs, by QP and side.
    pub events: BTreeMap<(usize, usize), Vec<EventType>>,
}

/// Results of a run.
#[derive(Debug, Default)]
pub struct Outcome {
    /// By side, QP, and whether it is a receive.
    pub completions: BTreeMap<(usize, usize, bool), Vec<Completion>>,
    pub windows: Vec<WindowSeen>,
    /// The data of each side at the end.
    pub memory: [Vec<u8>; 2],
    /// All frames, in the order in which they were sent.
    pub frames: Vec<Sent>,
}

/// Runs a program.
///
/// # Errors
/// If something happens that no program may cause.
pub fn run(program: &Program, kinds: [Kind; 2]) -> Result<Outcome, String> {
    let mut run = Run::new(program, kinds);
    let mut window = Vec::new();
    for step in &program.steps {
        match step {
            Step::Settle { is_late } => {
                run.window(&std::mem::take(&mut window), *is_late)?;
            }
            Step::Fail { qp, side } => run.fail(*qp, *side)?,
            Step::Reconnect { qp } => run.reconnect(*qp),
            _ => window.push(step.clone()),
        }
    }
    run.window(&window, false)?;
    run.outcome.memory = [0, 1].map(|side| run.data(side));
    Ok(run.outcome)
}

/// Returns the page of memory for each page of a side's data.
fn pages(program: &Program, side: usize) -> Vec<u64> {
    let mut pages: Vec<u64> = (0..PAGES).collect();
    if program.is_scattered[side] {
        let random = Random::new(program.seed, PAGES_STREAM + side as u64);
        for end in (1..pages.len()).rev() {
            pages.swap(end, random.below(end as u64 + 1) as usize);
        }
    }
    pages
}

struct Run<'a> {
    program: &'a Program,
    pair: Pair,
    pages: [Vec<u64>; 2],
    cqs: [Vec<TestCq>; 2],
    qps: Vec<[TestQp; 2]>,
    regions: Vec<[Regions; 2]>,
    ends: Vec<[End; 2]>,
    /// First PSNs of the next connection.
    psns: Vec<[u32; 2]>,
    outcome: Outcome,
}

impl<'a> Run<'a> {
    fn new(program: &'a Program, kinds: [Kind; 2]) -> Self {
        let pages = [0, 1].map(|side| pages(program, side));
        let mut sides = [0, 1].map(|side| machine(program, kinds[side], side, &pages[side]));
        let mut cqs = [Vec::new(), Vec::new()];
        let mut qps = Vec::new();
        let mut regions = Vec::new();
        for (side, machine) in sides.iter_mut().enumerate() {
            for (number, log_size) in (0..).zip(program.log_cqes[side]) {
                cqs[side].push(machine.create_cq(number, log_size));
            }
        }
        for (number, connection) in program.connections.iter().enumerate() {
            qps.push([0, 1].map(|side: usize| {
                let [send, receive] = connection.cqs[side].map(|cq| cqs[side][cq].cqn);
                sides[side].create_qp(number as u32, connection.plans[side], send, receive)
            }));
            let create = |side: usize| Regions::new(program, number, side, &mut sides[side]);
            regions.push([0, 1].map(create));
        }
        let idle = || End {
            state: QpStateCode::RTS,
            receives: VecDeque::new(),
        };
        let mut pair = Pair::new(sides);
        pair.loss = (program.loss_per_million > 0).then(|| Loss {
            per_million: program.loss_per_million,
            random: SplitMix64::new(program.seed ^ LOSS_SALT),
        });
        let mut run = Self {
            program,
            pair,
            pages,
            cqs,
            ends: qps.iter().map(|_| [idle(), idle()]).collect(),
            psns: program.connections.iter().map(|c| c.psns).collect(),
            qps,
            regions,
            outcome: Outcome::default(),
        };
        run.fill();
        (0..run.qps.len()).for_each(|qp| run.connect(qp));
        run
    }

    /// Fills the payload of requests, and half of the area that READs read.
    fn fill(&mut self) {
        for side in 0..2 {
            for qp in 0..self.qps.len() {
                let source = area_start(qp, Area::Source);
                let target = area_start(qp, Area::Target);
                let source = (source..source + AREA).step_by(8);
                for at in source.chain((target..target + AREA / 2).step_by(8)) {
                    let word = mixed(self.program.seed ^ at << 8 ^ side as u64).to_le_bytes();
                    let iova = self.iova(side, at);
                    self.pair.sides[side].host.store(iova, &word);
                }
            }
        }
    }

    /// Returns the address of a byte of a side's data.
    fn iova(&self, side: usize, offset: u64) -> u64 {
        let page = self.pages[side][(offset / PAGE) as usize];
        place::DATA + page * PAGE + offset % PAGE
    }

    /// Returns all data of a side that belongs to QPs, in the order of its offsets.
    fn data(&self, side: usize) -> Vec<u8> {
        let end = area_start(self.qps.len(), Area::Source);
        let host = &self.pair.sides[side].host;
        let pages = (0..end).step_by(PAGE as usize);
        let bytes = pages.map(|offset| {
            let iova = self.iova(side, offset);
            host.bytes(iova..iova + PAGE)
        });
        bytes.collect::<Vec<_>>().concat()
    }

    fn connect(&mut self, qp: usize) {
        for side in 0..2 {
            let other = &self.pair.sides[1 - side];
            let peer = Peer {
                qpn: self.qps[qp][1 - side].qpn,
                gid: other.gid,
                mac: other.mac,
                send_psn: self.psns[qp][side],
                receive_psn: self.psns[qp][1 - side],
            };
            self.pair.sides[side].connect(&self.qps[qp][side], &peer);
            self.ends[qp][side].state = QpStateCode::RTS;
        }
    }

    fn reconnect(&mut self, qp: usize) {
        for side in 0..2 {
            self.pair.sides[side].retire(&mut self.qps[qp][side], QpStateCode::RESET);
            self.ends[qp][side].receives.clear();
            let psn = &mut self.psns[qp][side];
            *psn = mixed(u64::from(*psn)) as u32 & 0xff_ffff;
        }
        self.connect(qp);
    }

    fn fail(&mut self, qp: usize, side: usize) -> Result<(), String> {
        self.pair.sides[side].retire(&mut self.qps[qp][side], QpStateCode::ERR);
        self.ends[qp][side].state = QpStateCode::ERR;
        self.window(&[], false)
    }

    fn window(&mut self, steps: &[Step], is_late: bool) -> Result<(), String> {
        let mut plan = plan(self.program, &self.ends, steps, is_late);
        let works = |ends: &[End; 2]| ends.iter().all(|end| end.state == QpStateCode::RTS);
        let broken = (0..self.ends.len()).filter(|qp| !works(&self.ends[*qp]));
        plan.failing.extend(broken);
        let number = self.outcome.windows.len();
        self.execute(&plan)
            .and_then(|()| self.look(&plan))
            .map_err(|what| format!("window {number}: {what}"))
    }

    fn execute(&mut self, plan: &Plan) -> Result<(), String> {
        self.post_receives(&plan.receives);
        self.pair.run_to_rest()?;
        for action in &plan.actions {
            match action {
                Action::Send { qp, side, request } => self.post_send(*qp, *side, request),
                Action::Ring { turns } => {
                    self.ring_sends();
                    for _ in 0..*turns {
                        self.pair.turn();
                    }
                }
            }
        }
        self.ring_sends();
        if !plan.late.is_empty() {
            self.pair.run_to_rest()?;
            self.post_receives(&plan.late);
        }
        self.pair.settle()
    }

    fn post_receives(&mut self, receives: &[(usize, usize, Receive)]) {
        for (qp, side, receive) in receives {
            let segments = receive_segments(receive, &self.regions[*qp][*side]);
            let machine = &mut self.pair.sides[*side];
            machine.post_receive(&mut self.qps[*qp][*side], &segments);
            machine.ring_receive(&self.qps[*qp][*side]);
            self.ends[*qp][*side].receives.push_back(receive.clone());
        }
    }

    fn post_send(&mut self, qp: usize, side: usize, request: &Request) {
        let mut inlined = Vec::new();
        if let (true, Some(&(offset, length))) = (request.is_inline, request.pieces.first()) {
            let start = area_start(qp, Area::Source) + u64::from(offset);
            let host = &self.pair.sides[side].host;
            inlined = (start..start + u64::from(length))
                .map(|at| host.load(self.iova(side, at)))
                .collect();
        }
        let [own, peer] = [side, 1 - side].map(|side| &self.regions[qp][side]);
        let wqe = wqe(request, own, peer, inlined);
        self.pair.sides[side].post_send(&mut self.qps[qp][side], &wqe);
    }

    /// Rings the doorbells of all send queues; without new WQEs, the same index is rung again.
    fn ring_sends(&mut self) {
        for qps in &self.qps {
            for (machine, qp) in self.pair.sides.iter_mut().zip(qps) {
                machine.ring_send(qp);
            }
        }
    }

    /// Records the results of a window.
    fn look(&mut self, plan: &Plan) -> Result<(), String> {
        self.poll()?;
        let mut seen = WindowSeen {
            failing: plan.failing.clone(),
            streams: self.qps.iter().map(|_| Default::default()).collect(),
            ..WindowSeen::default()
        };
        self.look_at_frames(&mut seen)?;
        self.look_at_events(&mut seen);
        for qp in 0..self.qps.len() {
            seen.states.push([0, 1].map(|side: usize| {
                let context = self.pair.sides[side].query_qp(self.qps[qp][side].qpn);
                self.ends[qp][side].state = context.state;
                qp_seen(&context)
            }));
        }
        for (side, qp, area) in &plan.spoiled {
            self.clear(*side, *qp, *area);
        }
        for (side, machine) in self.pair.sides.iter().enumerate() {
            let stray = &machine.host.stray_writes;
            if !stray.is_empty() {
                return Err(format!("side {side} writes {stray:x?}"));
            }
        }
        self.outcome.windows.push(seen);
        Ok(())
    }

    fn poll(&mut self) -> Result<(), String> {
        let window = self.outcome.windows.len();
        for side in 0..2 {
            for cq in 0..self.cqs[side].len() {
                while let Some(cqe) = self.pair.sides[side].poll(&mut self.cqs[side][cq]) {
                    let is_receive = cqe.word.opcode() & 0x80 != 0;
                    let known = self.qps.iter().position(|qps| qps[side].qpn == cqe.qpn);
                    let qp = known.ok_or(format!("a CQE of QPN {:#x}", cqe.qpn))?;
                    if is_receive {
                        self.ends[qp][side].receives.pop_front();
                    }
                    let list = self.outcome.completions.entry((side, qp, is_receive));
                    list.or_default().push(completion(window, cq, &cqe));
                }
            }
        }
        Ok(())
    }

    fn look_at_frames(&mut self, seen: &mut WindowSeen) -> Result<(), String> {
        for sent in std::mem::take(&mut self.pair.frames) {
            let from = sent.from;
            let result = self.look_at_frame(seen, &sent);
            self.outcome.frames.push(sent);
            result.map_err(|what| format!("a frame of side {from}: {what}"))?;
        }
        Ok(())
    }

    fn look_at_frame(&self, seen: &mut WindowSeen, sent: &Sent) -> Result<(), String> {
        let frame = Frame::parse(&sent.bytes).map_err(|error| format!("{error:?}"))?;
        if !frame.icrc_is_valid() {
            return Err("its ICRC is wrong".to_owned());
        }
        let (own, peer) = (sent.from, 1 - sent.from);
        let dest = frame.headers.bth.dest_qp.value();
        let known = self.qps.iter().position(|qps| qps[peer].qpn == dest);
        let qp = known.ok_or(format!("to QPN {dest:#x}"))?;
        let sides = &self.pair.sides;
        let addresses = (frame.ip.source_gid(), frame.ip.destination_gid());
        if addresses != (sides[own].gid, sides[peer].gid) {
            return Err(format!("from and to {addresses:?}"));
        }
        let mtu = 128 << self.program.connections[qp].plans[own].mtu.0;
        seen.streams[qp][own].add(&frame, &self.regions[qp][peer], mtu)
    }

    fn look_at_events(&mut self, seen: &mut WindowSeen) {
        for side in 0..2 {
            while let Some((event, number)) = self.pair.sides[side].poll_event() {
                let qp = self.qps.iter().position(|qps| qps[side].qpn == number);
                let list = seen.events.entry((qp.unwrap_or(usize::MAX), side));
                list.or_default().push(event);
            }
        }
    }

    /// Fills an area with zeros.
    fn clear(&mut self, side: usize, qp: usize, area: Area) {
        let start = area_start(qp, area);
        for offset in (start..start + AREA).step_by(PAGE as usize) {
            let iova = self.iova(side, offset);
            let host = &mut self.pair.sides[side].host;
            host.bytes_mut(iova..iova + PAGE).fill(0);
        }
    }
}

/// Returns a machine that is up, whose function may write the same memory as requests.
fn machine(program: &Program, kind: Kind, side: usize, pages: &[u64]) -> Machine {
    let number = side as u8 + 1;
    let gid = if program.is_v6 {
        Gid([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, number])
    } else {
        Gid::from_ipv4([10, 0, 0, number].into())
    };
    let mut machine = Machine::new(kind, number, gid, pages);
    for qp in 0..program.connections.len() {
        let start = area_start(qp, Area::Landing) / PAGE;
        let end = area_start(qp + 1, Area::Source) / PAGE;
        let written = &pages[start as usize..end as usize];
        let mut ranges: Vec<std::ops::Range<u64>> = Vec::new();
        for page in written {
            let at = place::DATA + page * PAGE;
            match ranges.last_mut() {
                Some(last) if last.end == at => last.end += PAGE,
                _ => ranges.push(at..at + PAGE),
            }
        }
        machine.host.writable.extend(ranges);
    }
    machine
}

fn qp_seen(context: &QpContext) -> QpSeen {
    let works = context.state == QpStateCode::RTS;
    QpSeen {
        state: context.state,
        counts: works.then_some([
            context.send_psn,
            context.receive_psn,
            context.message_sequence,
            context.receive_consumer,
        ]),
    }
}

fn completion(window: usize, cq: usize, cqe: &Cqe) -> Completion {
    let status = CqeStatus(cqe.word.status());
    let opcode = CqeOpcode(cqe.word.opcode());
    let fetches = [
        CqeOpcode::RDMA_READ,
        CqeOpcode::COMPARE_SWAP,
        CqeOpcode::FETCH_ADD,
    ];
    let has_bytes = opcode.0 & 0x80 != 0 || fetches.contains(&opcode);
    let has_immediate = cqe.word.with_immediate() || cqe.word.with_invalidate();
    let is_success = status == CqeStatus::SUCCESS;
    Completion {
        window,
        cq,
        status,
        wqe_index: cqe.wqe_index,
        success: is_success.then_some(Success {
            opcode,
            bytes: has_bytes.then_some(cqe.byte_count),
            immediate: has_immediate.then_some(cqe.immediate),
            is_solicited: cqe.word.solicited(),
        }),
    }
}
