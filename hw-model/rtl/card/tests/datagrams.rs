//! Datagrams on card and model: random programs of UD QPs and the GSI have the same results for
//! software and on the wire, and MODIFY_QP answers alike.

#[path = "machines/mod.rs"]
mod machines;

use std::collections::VecDeque;

use ferroce_rtl_harness::seeds::for_each_seed;
use ferroce_spec::command::{ANY_STATE, CommandOpcode, CommandStatus, ModifyQp, QpAttributeMask};
use ferroce_spec::context::{
    AccessRights, GSI_Q_KEY, GSI_QPN, PathMtuCode, QpContext, QpStateCode, RetryAttributes,
    ServiceCode,
};
use ferroce_spec::counter::Counter;
use ferroce_spec::cqe::{Cqe, CqeStatus};
use ferroce_spec::register::COUNTERS_OFFSET;
use ferroce_spec::wqe::{AddressPath, DataSegment, DatagramSegment, SendOpcode, VLAN_NONE};
use ferroce_units::random::{SplitMix64, mixed};
use ferroce_wire::{Extension, Frame, Gid, Ip};
use machines::device::Kind;
use machines::machine::{Machine, PAGE, PAGES, RegionPlan, place};
use machines::pair::{Loss, Pair};
use machines::queues::{Payload, QpPlan, SendWqe, TestCq, TestQp};

const SEEDS: u64 = 60;
const WINDOWS: u64 = 8;
const PD: u32 = 7;
const LOG_CQES: u8 = 7;
const LOG_RECEIVES: u8 = 5;
const RECEIVES: u64 = 1 << LOG_RECEIVES;
/// Each QP's receive WQEs have their own buffers after the source of all payloads.
const SOURCE: u64 = 0x1_0000;
const BUFFER: u64 = 0x1400;
const REGION_START: u64 = 0x7000_0030;
const REGION_LENGTH: u64 = SOURCE + 2 * RECEIVES * BUFFER;
/// Bytes of the GRH.
const GRH: u64 = 40;
/// In the Q_Key of a WQE: the QP's own is sent.
const OWN_Q_KEY: u32 = 1 << 31;
/// A GID of the other IP version than the address of the machine.
const OTHER_VERSION: [Gid; 2] = [
    Gid([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 9]),
    Gid([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 9, 9]),
];
/// The counters that the datagrams of a program change.
const COUNTERS: [Counter; 8] = [
    Counter::tx_frames,
    Counter::rx_frames,
    Counter::rx_no_qp,
    Counter::rx_q_key_violations,
    Counter::rx_no_receive,
    Counter::receive_wqes,
    Counter::requester_errors,
    Counter::responder_errors,
];

fn plan(service: ServiceCode) -> QpPlan {
    QpPlan {
        service,
        pd: PD,
        log_blocks: 6,
        log_receives: LOG_RECEIVES,
        log_stride: 6,
        access: AccessRights::default(),
        retry: RetryAttributes::default(),
        mtu: PathMtuCode::MTU_1024,
        max_rd_atomic: 0,
        max_dest_rd_atomic: 0,
    }
}

/// The QPs of a machine, a UD QP and the GSI, and what they use.
struct Side {
    cqs: [TestCq; 2],
    qps: [TestQp; 2],
    key: u32,
    /// Posted receive WQEs that have not completed.
    receives: [VecDeque<Vec<DataSegment>>; 2],
    /// True if a datagram has failed since RESET: later ones may have used PSNs that were not sent.
    has_failed: [bool; 2],
}

impl Side {
    fn new(machine: &mut Machine, q_key: u32, psn: u32) -> Self {
        let cqs = [0, 1].map(|number| machine.create_cq(number, LOG_CQES));
        let services = [ServiceCode::UNRELIABLE_DATAGRAM, ServiceCode::GSI];
        let cqn = cqs.each_ref().map(|cq| cq.cqn);
        let qps = [0, 1]
            .map(|at: usize| machine.create_qp(at as u32, plan(services[at]), cqn[at], cqn[at]));
        machine.open(&qps[0], q_key, psn);
        machine.open(&qps[1], GSI_Q_KEY, psn ^ 1);
        let mut access = AccessRights::default();
        access.set_local_write(true);
        let key = machine.create_region(&RegionPlan {
            start: REGION_START,
            data_offset: 0,
            length: REGION_LENGTH,
            pd: PD,
            access,
            is_direct: false,
        });
        machine
            .host
            .writable
            .push(place::DATA..place::DATA + place::DATA_SIZE);
        Self {
            cqs,
            qps,
            key,
            receives: Default::default(),
            has_failed: [false; 2],
        }
    }
}

/// A CQE without the fields that the contract leaves open, and the state of its QP.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Completion {
    at: (usize, usize),
    qpn: u32,
    wqe_index: u32,
    status: CqeStatus,
    is_receive: bool,
    /// Of a successful receive: bytes, immediate, sender, and the bits of the word.
    received: Option<(u32, [u8; 4], u32, [bool; 4])>,
}

/// What a program has shown.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    completions: Vec<Completion>,
    /// Without the ICRC, and the IPv4 identification with its checksum.
    frames: Vec<(usize, Vec<u8>)>,
    states: Vec<(QpStateCode, Option<u32>, u32)>,
    memory: [Vec<u8>; 2],
    counters: Vec<[u64; COUNTERS.len()]>,
}

struct Program {
    random: SplitMix64,
    pair: Pair,
    sides: [Side; 2],
    q_key: u32,
    is_v6: bool,
    seen: Seen,
}

impl Program {
    fn new(seed: u64, kinds: [Kind; 2]) -> Self {
        let mut random = SplitMix64::new(seed);
        let is_v6 = seed % 2 == 0;
        let mut pages: Vec<u64> = (0..PAGES).collect();
        if seed % 3 == 0 {
            pages.reverse();
        }
        let gid = |number: u8| match is_v6 {
            true => Gid([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, number]),
            false => Gid::from_ipv4([10, 0, 0, number].into()),
        };
        // Sometimes datagrams pass between UD QPs and GSIs.
        let q_key = match random.below(3) {
            0 => GSI_Q_KEY,
            _ => random.number() as u32 >> 1,
        };
        let psn = 0xff_fff0 + random.below(16) as u32;
        let mut machines = [0, 1].map(|side: usize| {
            Machine::new(kinds[side], 1 + side as u8, gid(1 + side as u8), &pages)
        });
        let sides = machines
            .each_mut()
            .map(|machine| Side::new(machine, q_key, psn));
        for (side, machine) in (0..).zip(&mut machines) {
            for at in (0..place::DATA_SIZE).step_by(8) {
                let word = mixed(seed << 32 ^ at << 1 ^ side).to_le_bytes();
                machine.host.store(place::DATA + at, &word);
            }
        }
        let mut pair = Pair::new(machines);
        pair.loss = (seed % 4 == 3).then(|| Loss {
            per_million: 100_000,
            random: SplitMix64::new(seed),
        });
        Self {
            random,
            pair,
            sides,
            q_key,
            is_v6,
            seen: Seen::default(),
        }
    }

    /// Posts receive WQEs, most of them large enough, to all QPs of a side.
    fn post_receives(&mut self, side: usize) {
        for at in 0..2 {
            for _ in 0..self.random.below(6) {
                let own = &mut self.sides[side];
                let qp = &mut own.qps[at];
                if own.receives[at].len() as u64 == RECEIVES {
                    break;
                }
                let buffer = at as u64 * RECEIVES + u64::from(qp.receive_producer) % RECEIVES;
                let mut left = match self.random.below(6) {
                    0 => self.random.below(GRH + 100),
                    1 => GRH,
                    _ => GRH + 4096,
                } as u32;
                let mut address = REGION_START + SOURCE + buffer * BUFFER;
                let mut segments = Vec::new();
                for number in 0..1 + self.random.below(3) {
                    let part = self.random.below(u64::from(left) + 1) as u32;
                    let length = if number == 0 && self.random.below(2) == 0 {
                        left
                    } else {
                        part
                    };
                    segments.push(DataSegment {
                        address,
                        length,
                        l_key: own.key ^ u32::from(self.random.below(60) == 0),
                    });
                    // Not adjacent.
                    address += u64::from(length) + 16;
                    left -= length;
                }
                self.pair.sides[side].post_receive(qp, &segments);
                own.receives[at].push_back(segments);
            }
            self.pair.sides[side].ring_receive(&self.sides[side].qps[at]);
        }
    }

    /// Returns a random datagram to a QP of the other side, mostly a right one.
    fn datagram(&mut self, side: usize) -> SendWqe {
        let opcodes = [
            SendOpcode::SEND,
            SendOpcode::SEND_IMMEDIATE,
            SendOpcode::NOP,
        ];
        let mut opcode = opcodes[(self.random.below(7) / 3) as usize];
        let key = self.sides[side].key;
        let mut length = match self.random.below(6) {
            0 => 0,
            1 => 4096,
            2 | 3 => self.random.below(100),
            _ => self.random.below(4097),
        };
        let is_inline = opcode != SendOpcode::NOP && length <= 512 && self.random.below(3) == 0;
        let peer = &self.pair.sides[1 - side];
        let mut path = AddressPath {
            dest_gid: peer.gid.0,
            dest_mac: peer.mac,
            vlan: VLAN_NONE,
            udp_source_port: 0xc000 | self.random.below(0x4000) as u16,
            traffic_class: self.random.number() as u8,
            hop_limit: 1 + self.random.below(255) as u8,
            flow_label: self.random.below(1 << 20) as u32,
            ..AddressPath::default()
        };
        let mut l_key = key;
        match self.random.below(80) {
            0 => path.dest_gid = OTHER_VERSION[usize::from(self.is_v6)].0,
            1 => path.source_gid_index = 1 + self.random.below(600) as u16,
            2 if !is_inline => length = 4097 + self.random.below(4000),
            3 => l_key ^= 1,
            4 => opcode = SendOpcode::RDMA_WRITE,
            _ => {}
        }
        let ud = self.sides[1 - side].qps[0].qpn;
        let segment = DatagramSegment {
            q_key: match self.random.below(8) {
                0 => self.q_key ^ 1,
                1..=4 => self.q_key,
                _ => self.random.number() as u32 | OWN_Q_KEY,
            },
            dest_qpn: [ud, ud, ud, GSI_QPN, GSI_QPN, ud ^ 0x10][self.random.below(6) as usize],
            path,
        };
        let start = self.random.below(SOURCE - length);
        let middle = self.random.below(length + 1);
        let part = |offset: u64, length: u64| DataSegment {
            address: REGION_START + offset,
            length: length as u32,
            l_key,
        };
        SendWqe {
            opcode,
            signaled: self.random.below(3) > 0,
            solicited: self.random.below(3) == 0,
            fence: self.random.below(8) == 0,
            immediate: (self.random.number() as u32).to_le_bytes(),
            remote: None,
            atomic: None,
            datagram: (opcode != SendOpcode::NOP).then_some(segment),
            payload: match (is_inline, opcode == SendOpcode::NOP) {
                (_, true) => Payload::Segments(Vec::new()),
                (true, _) => Payload::Inline((0..length).map(|at| (start + at) as u8).collect()),
                _ => Payload::Segments(vec![
                    part(start, middle),
                    part(start + middle, length - middle),
                ]),
            },
            is_stale: self.random.below(100) == 0,
        }
    }

    /// One QP sends, and everything ends.
    fn window(&mut self) -> Result<(), String> {
        (0..2).for_each(|side| self.post_receives(side));
        self.pair.run_to_rest()?;
        let (side, at) = (self.random.below(2) as usize, self.random.below(2) as usize);
        let mut blocks = 0;
        for _ in 0..1 + self.random.below(6) {
            let wqe = self.datagram(side);
            blocks += wqe.blocks();
            if blocks > 1 << plan(ServiceCode::GSI).log_blocks {
                break;
            }
            self.pair.sides[side].post_send(&mut self.sides[side].qps[at], &wqe);
        }
        self.pair.sides[side].ring_send(&self.sides[side].qps[at]);
        self.pair.settle()?;
        for side in 0..2 {
            self.poll(side);
        }
        self.take_frames();
        self.end_window();
        Ok(())
    }

    fn poll(&mut self, side: usize) {
        for at in 0..2 {
            while let Some(cqe) = self.pair.sides[side].poll(&mut self.sides[side].cqs[at]) {
                let (word, status) = (cqe.word, CqeStatus(cqe.word.status()));
                let is_receive = word.opcode() & 0x80 != 0;
                if is_receive {
                    self.clean(side, at, &cqe);
                }
                let is_right = status == CqeStatus::SUCCESS;
                let bits = [
                    word.with_immediate(),
                    word.with_grh(),
                    word.ipv4(),
                    word.solicited(),
                ];
                let received = (cqe.byte_count, cqe.immediate, cqe.source_qpn, bits);
                self.seen.completions.push(Completion {
                    at: (side, at),
                    qpn: cqe.qpn,
                    wqe_index: cqe.wqe_index,
                    status,
                    is_receive,
                    received: (is_right && is_receive).then_some(received),
                });
            }
        }
    }

    /// Clears what is open in the buffer of a receive CQE: the IPv4 identification with its
    /// checksum, and everything after a failure.
    fn clean(&mut self, side: usize, at: usize, cqe: &Cqe) {
        let segments = self.sides[side].receives[at].pop_front();
        let bytes = segments.into_iter().flatten();
        let bytes = bytes.flat_map(|s| s.address..s.address + u64::from(s.length));
        let is_right = cqe.word.status() == CqeStatus::SUCCESS.0;
        for (place, address) in bytes.enumerate() {
            if !is_right || cqe.word.ipv4() && [24, 25, 30, 31].contains(&place) {
                let iova = self.iova(side, address - REGION_START);
                self.pair.sides[side].host.store(iova, &[0]);
            }
        }
    }

    /// Returns the address of a byte of the region.
    fn iova(&self, side: usize, offset: u64) -> u64 {
        let entry: u64 = self.pair.sides[side]
            .host
            .load(place::MTT + offset / PAGE * 8);
        (entry & !(PAGE - 1)) + offset % PAGE
    }

    fn take_frames(&mut self) {
        for sent in std::mem::take(&mut self.pair.frames) {
            let mut bytes = sent.bytes;
            let frame = Frame::parse(&bytes).expect("a card sends right frames");
            assert!(frame.icrc_is_valid());
            let (Extension::Deth(deth) | Extension::DethImmediate(deth, _)) =
                frame.headers.extension
            else {
                panic!("nothing answers: {frame:?}");
            };
            let is_gsi = deth.source_qp.value() == GSI_QPN;
            let psn_is_open = self.sides[sent.from].has_failed[usize::from(is_gsi)];
            let (ip, icrc) = (frame.layout().ip(), frame.layout().icrc());
            if matches!(frame.ip, Ip::V4(_)) {
                bytes[ip + 4..ip + 6].fill(0);
                bytes[ip + 10..ip + 12].fill(0);
            }
            if psn_is_open {
                let bth = ip + if self.is_v6 { 40 } else { 20 } + 8;
                bytes[bth + 9..bth + 12].fill(0);
            }
            bytes[icrc].fill(0);
            self.seen.frames.push((sent.from, bytes));
        }
    }

    /// Notes the states; a send queue in error goes on, mostly, and a QP in ERR begins anew.
    fn end_window(&mut self) {
        for side in 0..2 {
            for at in 0..2 {
                let machine = &mut self.pair.sides[side];
                let qp = &mut self.sides[side].qps[at];
                let context = machine.query_qp(qp.qpn);
                let failed = &mut self.sides[side].has_failed[at];
                *failed |= context.state == QpStateCode::SQE;
                let psn = (!*failed).then_some(context.send_psn);
                let consumer = context.receive_consumer;
                self.seen.states.push((context.state, psn, consumer));
                assert_eq!(context.receive_psn, 0);
                let repairs = self.random.below(3) > 0;
                match context.state {
                    QpStateCode::SQE if repairs => {
                        let result =
                            machine.modify_qp(qp.qpn, QpStateCode::RTS, &[], QpContext::default());
                        result.expect("SQE goes to RTS");
                    }
                    QpStateCode::ERR if repairs => {
                        machine.retire(qp, QpStateCode::RESET);
                        let q_key = [self.q_key, GSI_Q_KEY][at];
                        machine.open(qp, q_key, 5);
                        *failed = false;
                        self.sides[side].receives[at].clear();
                    }
                    _ => {}
                }
            }
        }
    }

    fn run(mut self) -> Result<Seen, String> {
        for window in 0..WINDOWS {
            self.window()
                .map_err(|what| format!("window {window}: {what}"))?;
        }
        self.seen.memory = [0, 1].map(|side| {
            let bytes = (0..REGION_LENGTH).map(|at| self.iova(side, at));
            let host = &self.pair.sides[side].host;
            bytes.map(|iova| host.load(iova)).collect()
        });
        for machine in &mut self.pair.sides {
            assert!(machine.host.stray_writes.is_empty());
            let now = machine.now;
            let read = |counter: Counter| COUNTERS_OFFSET + 8 * counter as u32;
            self.seen
                .counters
                .push(COUNTERS.map(|counter| machine.device.read64(now, read(counter))));
        }
        Ok(self.seen)
    }
}

/// Goal: card and model are indistinguishable for software and on the wire.
#[test]
fn datagrams_on_the_card_are_those_of_the_model() {
    let (mut statuses, mut received, mut states) = ([0; 16], [0; 4], [0; 8]);
    let mut counted = [0; COUNTERS.len()];
    for_each_seed(SEEDS, |seed| {
        let run = |kinds| {
            Program::new(seed, kinds)
                .run()
                .unwrap_or_else(|what| panic!("{kinds:?}: {what}"))
        };
        let model = run([Kind::Model; 2]);
        let mut mixed = [Kind::Model; 2];
        mixed[seed as usize % 2] = Kind::Rtl;
        for kinds in [[Kind::Rtl; 2], mixed] {
            let card = run(kinds);
            for (at, (card, model)) in card.completions.iter().zip(&model.completions).enumerate() {
                assert_eq!(card, model, "{kinds:?}: CQE {at}");
            }
            assert_eq!(card.completions.len(), model.completions.len(), "{kinds:?}");
            for (at, (card, model)) in card.frames.iter().zip(&model.frames).enumerate() {
                assert_eq!(card, model, "{kinds:?}: frame {at}");
            }
            assert_eq!(card.frames.len(), model.frames.len(), "{kinds:?}");
            assert_eq!(card.states, model.states, "{kinds:?}");
            for side in 0..2 {
                let pairs = card.memory[side].iter().zip(&model.memory[side]);
                let other = pairs.enumerate().find(|(_, (card, model))| card != model);
                assert_eq!(other, None, "{kinds:?}: memory of side {side}");
            }
            assert_eq!(card.counters, model.counters, "{kinds:?}");
        }
        for completion in &model.completions {
            statuses[usize::from(completion.status.0)] += 1;
            if let Some((.., bits)) = completion.received {
                let ones = bits.iter().zip(&mut received).filter(|(bit, _)| **bit);
                ones.for_each(|(_, count)| *count += 1);
            }
        }
        model
            .states
            .iter()
            .for_each(|state| states[usize::from(state.0.0)] += 1);
        for counters in &model.counters {
            counters
                .iter()
                .zip(&mut counted)
                .for_each(|(one, sum)| *sum += one);
        }
    });
    println!("CQEs by status {statuses:?}, with immediate, GRH, IPv4, solicited {received:?}");
    println!("states {states:?}, counters {counted:?}");
    // Success, length, QP operation, protection, flush.
    assert!([0, 1, 2, 4, 5].iter().all(|status| statuses[*status] > 0));
    assert!(received.iter().all(|count| *count > 0));
    assert!(
        [QpStateCode::RTS, QpStateCode::SQE, QpStateCode::ERR]
            .iter()
            .all(|s| states[usize::from(s.0)] > 0)
    );
    assert!(counted.iter().all(|count| *count > 0), "{counted:?}");
}

/// Goal: MODIFY_QP, QUERY_QP and CREATE_QP of each service answer alike. Method: random
/// transitions with random attributes, few of them with a value that is refused.
#[test]
fn transitions_are_those_of_the_model() {
    let mut seen = [0; 2];
    for_each_seed(SEEDS / 4, |seed| {
        let pages: Vec<u64> = (0..PAGES).collect();
        let gid = Gid::from_ipv4([10, 0, 0, 1].into());
        let mut both = [Kind::Model, Kind::Rtl].map(|kind| Machine::new(kind, 1, gid, &pages));
        let mut random = SplitMix64::new(seed);
        let services = [
            ServiceCode::UNRELIABLE_DATAGRAM,
            ServiceCode::GSI,
            ServiceCode::RELIABLE_CONNECTED,
        ];
        let qpns: Vec<[u32; 3]> = both
            .iter_mut()
            .map(|machine| {
                let cq = machine.create_cq(0, LOG_CQES).cqn;
                let create = |at: usize| machine.create_qp(at as u32, plan(services[at]), cq, cq);
                [0, 1, 2].map(create).map(|qp| qp.qpn)
            })
            .collect();
        assert_eq!(qpns[0], qpns[1]);
        assert_eq!(qpns[0][1], GSI_QPN);
        for _ in 0..200 {
            let qpn = qpns[0][random.below(3) as usize];
            let input = modify(&mut random, qpn == GSI_QPN);
            let [model, card] = both.each_mut().map(|machine| {
                let result = machine.command(CommandOpcode::MODIFY_QP, qpn.into(), &input);
                let context = machine.query_qp(qpn);
                (
                    result,
                    context.service,
                    context.state,
                    context.q_key,
                    context.send_psn,
                )
            });
            assert_eq!(card, model, "QPN {qpn:#x}: {input:x?}");
            seen[usize::from(model.0.is_ok())] += 1;
            if model.0 == Err(CommandStatus::BAD_TRANSITION) && random.below(4) == 0 {
                let reset = QpStateCode::RESET;
                for machine in &mut both {
                    let result = machine.modify_qp(qpn, reset, &[], QpContext::default());
                    result.expect("RESET is always possible");
                }
            }
        }
    });
    println!("refused, done: {seen:?}");
    assert!(seen.iter().all(|count| *count > 100));
}

/// Returns a MODIFY_QP that is often right for a QP of datagrams.
fn modify(random: &mut SplitMix64, is_gsi: bool) -> ModifyQp {
    let q_key = match random.below(4) {
        0 => random.number() as u32,
        _ if is_gsi => GSI_Q_KEY,
        _ => 0x1234_5678,
    };
    let context = QpContext {
        port: u8::from(random.below(12) > 0),
        p_key_index: u32::from(random.below(12) == 0),
        q_key,
        send_psn: random.below(1 << 24) as u32,
        ..QpContext::default()
    };
    // Mostly on the way to RTS.
    let state = match random.below(2) {
        0 => random.below(8) as u32,
        _ => 1 + random.below(3) as u32,
    };
    let mut mask = QpAttributeMask::default();
    // Those that INIT and RTS require, and others at random.
    let is_init = state == u32::from(QpStateCode::INIT.0);
    mask.set_p_key(is_init ^ (random.below(8) == 0));
    mask.set_port(is_init ^ (random.below(8) == 0));
    mask.set_q_key(is_init ^ (random.below(4) == 0));
    mask.set_send_psn((state == u32::from(QpStateCode::RTS.0)) ^ (random.below(4) == 0));
    mask.set_access(random.below(16) == 0);
    mask.set_timeout(random.below(16) == 0);
    ModifyQp {
        state,
        current_state: match random.below(6) {
            0 => random.below(7) as u32,
            _ => ANY_STATE,
        },
        mask,
        reserved_0c: 0,
        reserved_10: [0; 6],
        context,
    }
}
