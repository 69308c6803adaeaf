//! Atomics of the card: several QPs add to one word, with loss, and a peer sends requests that no
//! correct peer sends. `programs` compares atomics of correct peers with the model.

#[path = "machines/mod.rs"]
mod machines;

use ferroce_rtl_harness::seeds::for_each_seed;
use ferroce_spec::context::{AccessRights, PathMtuCode, QpStateCode, RetryAttributes, ServiceCode};
use ferroce_spec::counter::Counter;
use ferroce_spec::cqe::CqeStatus;
use ferroce_spec::register::COUNTERS_OFFSET;
use ferroce_spec::wqe::{AtomicSegment, DataSegment, SendOpcode};
use ferroce_units::random::SplitMix64;
use ferroce_wire::{
    AtomicEth, Bth, Extension, Frame, Gid, IcrcMode, Opcode, PathTemplate, Psn, RKey, Reth,
    Syndrome, TransportHeaders, finish,
};
use machines::device::Kind;
use machines::machine::{Machine, PAGE, PAGES, RegionPlan, place};
use machines::pair::{Loss, Pair};
use machines::queues::{Payload, Peer, QpPlan, SendWqe, TestCq, TestQp};

const SEEDS: u64 = 12;
const PD: u32 = 7;
const LOG_CQES: u8 = 7;
const QPS: usize = 3;
/// The region begins in the middle of a page; `UNALIGNED` is a region whose words are not aligned
/// in memory.
const START: u64 = 0x7000_0100;
const UNALIGNED: u64 = 0x9000_0000;
const LENGTH: u64 = 3 * PAGE;
/// The word that all QPs change, and the place of the results.
const WORD: u64 = START + 0x40;
const RESULTS: u64 = START + PAGE;
/// Atomics of a QP that are posted together.
const BATCH: u64 = 30;
const BATCHES: u64 = 4;
/// Turns of a machine until it is idle.
const TURNS_MAX: usize = 200;
/// Requests of a hostile peer, and the words that they change.
const ATTACKS: usize = 250;
const WORDS: u64 = 4;
const FIRST_PSN: u32 = 0xff_fff8;
const COMPARE_SWAP: u8 = 0x13;
const FETCH_ADD: u8 = 0x14;
const WRITE_FIRST: u8 = 0x06;
const READ: u8 = 0x0c;
const ATOMIC_ACKNOWLEDGE: u8 = 0x12;

fn plan(limit: u8) -> QpPlan {
    let mut access = AccessRights::default();
    access.set_remote_atomic(true);
    access.set_remote_write(true);
    let mut retry = RetryAttributes::default();
    retry.set_retry_count(7);
    retry.set_rnr_retry(7);
    retry.set_timeout(8);
    QpPlan {
        service: ServiceCode::RELIABLE_CONNECTED,
        pd: PD,
        log_blocks: 6,
        log_receives: 2,
        log_stride: 6,
        access,
        retry,
        mtu: PathMtuCode::MTU_1024,
        max_rd_atomic: limit,
        max_dest_rd_atomic: limit,
    }
}

/// The objects of a machine.
struct Side {
    cq: TestCq,
    qps: Vec<TestQp>,
    /// With all rights; without the right of atomics; not aligned in memory.
    keys: [u32; 3],
}

/// Returns two machines with [`QPS`] connections, and with these limits of outstanding atomics.
fn pair(kinds: [Kind; 2], limits: [u8; 2]) -> (Pair, [Side; 2]) {
    let pages: Vec<u64> = (0..PAGES).rev().collect();
    let mut machines = [0, 1].map(|side: usize| {
        let gid = Gid::from_ipv4([10, 0, 0, side as u8 + 1].into());
        let mut machine = Machine::new(kinds[side], side as u8 + 1, gid, &pages);
        machine
            .host
            .writable
            .push(place::DATA..place::DATA + place::DATA_SIZE);
        machine
    });
    let mut limits = limits.into_iter();
    let sides = machines.each_mut().map(|machine| {
        let limit = limits.next().unwrap_or_default();
        let cq = machine.create_cq(0, LOG_CQES);
        let qps = (0..QPS as u32)
            .map(|number| machine.create_qp(number, plan(limit), cq.cqn, cq.cqn))
            .collect();
        let mut access = plan(limit).access;
        access.set_local_write(true);
        let all = RegionPlan {
            start: START,
            data_offset: 0x100,
            length: LENGTH,
            pd: PD,
            access,
            is_direct: false,
        };
        let mut without = all;
        without.access.set_remote_atomic(false);
        let unaligned = RegionPlan {
            start: UNALIGNED,
            data_offset: 4 * PAGE + 4,
            ..all
        };
        let keys = [all, without, unaligned].map(|region| machine.create_region(&region));
        Side { cq, qps, keys }
    });
    for side in 0..2 {
        for number in 0..QPS {
            let other = &machines[1 - side];
            let peer = Peer {
                qpn: sides[1 - side].qps[number].qpn,
                gid: other.gid,
                mac: other.mac,
                send_psn: FIRST_PSN,
                receive_psn: FIRST_PSN,
            };
            machines[side].connect(&sides[side].qps[number], &peer);
        }
    }
    (Pair::new(machines), sides)
}

/// Returns the address in memory of a byte of the region.
fn iova(machine: &Machine, address: u64) -> u64 {
    let offset = address - START + 0x100;
    let entry: u64 = machine.host.load(place::MTT + offset / PAGE * 8);
    (entry & !(PAGE - 1)) + offset % PAGE
}

fn word(machine: &Machine, address: u64) -> u64 {
    machine.host.load(iova(machine, address))
}

fn counter(machine: &mut Machine, counter: Counter) -> u64 {
    let now = machine.now;
    let offset = COUNTERS_OFFSET + 8 * counter as u32;
    machine.device.read64(now, offset)
}

/// Returns a fetch and add whose result goes to `result`, in two segments.
fn fetch_add(add: u64, keys: [u32; 2], result: u64, random: &mut SplitMix64) -> SendWqe {
    let first = random.below(9) as u32;
    let segment = |address: u64, length: u32| DataSegment {
        address,
        length,
        l_key: keys[0],
    };
    SendWqe {
        opcode: SendOpcode::FETCH_ADD,
        signaled: true,
        solicited: false,
        fence: random.below(8) == 0,
        immediate: [0; 4],
        remote: Some((WORD, keys[1])),
        atomic: Some(AtomicSegment {
            swap_add: add,
            compare: random.number(),
        }),
        datagram: None,
        payload: Payload::Segments(vec![
            segment(result, first),
            segment(result + u64::from(first), 8 - first),
        ]),
        is_stale: false,
    }
}

/// Goal: each atomic is executed once, and no two of them see the same value, whatever the QP and
/// whatever is lost. Method: all QPs of a machine add one to the same word of the other machine:
/// together the results are all values from zero on, and the results of each QP increase.
#[test]
fn sums_of_several_queue_pairs_are_exact() {
    let (mut lost, mut duplicates) = (0, 0);
    for_each_seed(SEEDS, |seed| {
        let kinds = match seed % 3 {
            0 => [Kind::Rtl; 2],
            1 => [Kind::Rtl, Kind::Model],
            _ => [Kind::Model, Kind::Rtl],
        };
        let mut random = SplitMix64::new(seed);
        let limit = [16, 1, 3, 5][seed as usize % 4];
        let (mut pair, mut sides) = pair(kinds, [limit; 2]);
        pair.loss = (seed % 2 == 1).then(|| Loss {
            per_million: 100_000,
            random: SplitMix64::new(seed),
        });
        let mut results: [Vec<u64>; 2] = [Vec::new(), Vec::new()];
        for _ in 0..BATCHES {
            let mut newest = [[None; QPS]; 2];
            for side in 0..2 {
                let keys = [sides[side].keys[0], sides[1 - side].keys[0]];
                for qp in 0..QPS {
                    for number in 0..BATCH {
                        let place = RESULTS + 8 * (qp as u64 * BATCH + number);
                        let wqe = fetch_add(1, keys, place, &mut random);
                        pair.sides[side].post_send(&mut sides[side].qps[qp], &wqe);
                    }
                }
                for qp in &sides[side].qps {
                    pair.sides[side].ring_send(qp);
                }
            }
            pair.settle().unwrap_or_else(|what| panic!("{what}"));
            for (side, own) in sides.iter_mut().enumerate() {
                let machine = &mut pair.sides[side];
                for _ in 0..QPS as u64 * BATCH {
                    let cqe = machine.poll(&mut own.cq).expect("each atomic completes");
                    assert_eq!(CqeStatus(cqe.word.status()), CqeStatus::SUCCESS);
                    assert_eq!(cqe.byte_count, 8);
                }
                assert!(machine.poll(&mut own.cq).is_none());
                for (qp, newest) in newest[side].iter_mut().enumerate() {
                    for number in 0..BATCH {
                        let place = RESULTS + 8 * (qp as u64 * BATCH + number);
                        let result = Some(word(machine, place));
                        assert!(result > *newest, "results of a QP increase");
                        *newest = result;
                        results[side].extend(result);
                    }
                }
            }
        }
        let all = QPS as u64 * BATCH * BATCHES;
        for (side, results) in results.iter_mut().enumerate() {
            results.sort_unstable();
            assert!(results.iter().copied().eq(0..all), "each value once");
            let machine = &mut pair.sides[1 - side];
            assert_eq!(word(machine, WORD), all);
            assert_eq!(counter(machine, Counter::atomics), all);
            duplicates += counter(machine, Counter::duplicate_requests);
            assert!(machine.host.stray_writes.is_empty());
        }
        lost += pair.frames.iter().filter(|frame| frame.is_lost).count();
    });
    println!("{lost} frames lost, {duplicates} duplicates");
    assert!(lost > 0 && duplicates > 0);
}

/// A request of a peer.
#[derive(Debug, Clone, Copy)]
struct Attack {
    opcode: u8,
    psn: u32,
    atomic: AtomicEth,
    /// Bytes of a payload, which no atomic has.
    payload: usize,
    /// Its AtomicETH is cut off after 16 bytes.
    is_short: bool,
}

/// Returns the frame of a request from the first machine, which has sent `template`, to the second
/// one.
fn frame(template: &[u8], attack: &Attack) -> Vec<u8> {
    let parsed = Frame::parse(template).expect("a card sends right frames");
    let reth = Reth {
        virtual_address: attack.atomic.virtual_address,
        r_key: attack.atomic.r_key,
        dma_length: 2048,
    };
    let (opcode, extension) = match attack.opcode {
        _ if attack.is_short => (READ, Extension::Reth(reth)),
        WRITE_FIRST => (WRITE_FIRST, Extension::Reth(reth)),
        other => (other, Extension::AtomicEth(attack.atomic)),
    };
    let header = Bth {
        ack_request: true,
        ..Bth::new(
            Opcode(opcode),
            parsed.headers.bth.dest_qp,
            Psn::new(attack.psn),
        )
    };
    let headers = TransportHeaders::new(header, extension).expect("the opcode has it");
    let path = PathTemplate::new(&parsed.path());
    let mut bytes = vec![0x5a; path.frame_length(&headers, attack.payload)];
    let layout = path.emit(&headers, attack.payload, 0, &mut bytes);
    bytes[layout.bth()] = attack.opcode;
    finish(&mut bytes, &layout, IcrcMode::Computed);
    bytes
}

/// What a peer and software see of an attack.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    /// Opcode, PSN, kind of the syndrome and NAK code, MSN, result.
    answers: Vec<(u8, u32, u8, u32, Option<u64>)>,
    state: QpStateCode,
    expected: u32,
    words: [u64; WORDS as usize],
    counts: [u64; 3],
}

/// Runs a machine until it is idle.
fn run_to_rest(machine: &mut Machine) {
    let is_idle = (0..TURNS_MAX).any(|_| !machine.advance());
    assert!(is_idle, "no rest in {TURNS_MAX} turns");
}

/// A machine with a peer that sends any atomics to the first of its QPs.
struct Victim {
    pair: Pair,
    sides: [Side; 2],
    template: Vec<u8>,
}

impl Victim {
    fn new(kind: Kind, limit: u8) -> Self {
        let (mut pair, mut sides) = pair([Kind::Model, kind], [1, limit]);
        // Another QP of the same peer: the address is the same.
        let wqe = fetch_add(0, [sides[0].keys[0]; 2], RESULTS, &mut SplitMix64::new(0));
        pair.sides[0].post_send(&mut sides[0].qps[0], &wqe);
        pair.sides[0].ring_send(&sides[0].qps[0]);
        run_to_rest(&mut pair.sides[0]);
        let template = pair.sides[0].port.sent.pop_front();
        let template = template.expect("a request has left");
        let mut victim = Self {
            pair,
            sides,
            template,
        };
        victim.connect();
        victim
    }

    /// Connects the QP again.
    fn connect(&mut self) {
        let [peer, machine] = &mut self.pair.sides;
        let [of_peer, own] = &mut self.sides;
        let qp = &mut own.qps[0];
        machine.retire(qp, QpStateCode::RESET);
        let peer = Peer {
            qpn: of_peer.qps[0].qpn,
            gid: peer.gid,
            mac: peer.mac,
            send_psn: FIRST_PSN,
            receive_psn: FIRST_PSN,
        };
        machine.connect(qp, &peer);
    }

    fn attack(&mut self, attack: &Attack) -> Seen {
        let machine = &mut self.pair.sides[1];
        machine
            .port
            .arriving
            .push_back(frame(&self.template, attack));
        run_to_rest(machine);
        if machine.device.flush_acknowledges() {
            run_to_rest(machine);
        }
        let answers = std::mem::take(&mut machine.port.sent);
        let answers = answers.iter().map(|bytes| {
            let frame = Frame::parse(bytes).expect("a card sends right frames");
            assert!(frame.icrc_is_valid());
            let (aeth, result) = match frame.headers.extension {
                Extension::Aeth(aeth) => (aeth, None),
                Extension::AtomicAck(aeth, result) => (aeth, Some(result.original)),
                other => panic!("{other:?}"),
            };
            // The credits of an ACK are the card's choice.
            let syndrome = match aeth.syndrome {
                Syndrome::Ack { .. } => 0,
                other => other.to_byte(),
            };
            let bth = &frame.headers.bth;
            let (psn, msn) = (bth.psn.value(), aeth.msn.value());
            (bth.opcode.0, psn, syndrome, msn, result)
        });
        let answers = answers.collect();
        let context = machine.query_qp(self.sides[1].qps[0].qpn);
        let counters = [
            Counter::atomics,
            Counter::duplicate_requests,
            Counter::rx_malformed,
        ];
        Seen {
            answers,
            state: context.state,
            expected: context.receive_psn,
            words: core::array::from_fn(|at| word(machine, WORD + 8 * at as u64)),
            counts: counters.map(|one| counter(machine, one)),
        }
    }
}

/// Returns a request that is often wrong; `history` are earlier ones.
fn attack(random: &mut SplitMix64, keys: [u32; 3], psn: u32, history: &[Attack]) -> Attack {
    let operand = |random: &mut SplitMix64| match random.below(3) {
        0 => random.number(),
        _ => random.below(2),
    };
    let mut attack = Attack {
        opcode: [COMPARE_SWAP, FETCH_ADD][random.below(2) as usize],
        psn,
        atomic: AtomicEth {
            virtual_address: WORD + 8 * random.below(WORDS),
            r_key: RKey(keys[0]),
            swap_or_add: operand(random),
            compare: operand(random),
        },
        payload: 0,
        is_short: false,
    };
    let atomic = &mut attack.atomic;
    match random.below(24) {
        0 => atomic.virtual_address += 1 + random.below(7),
        1 => atomic.r_key = RKey(keys[1]),
        2 => (atomic.r_key, atomic.virtual_address) = (RKey(keys[2]), UNALIGNED + PAGE - 8),
        3 => atomic.virtual_address = START + LENGTH - 8 * random.below(2),
        4 => atomic.r_key.0 ^= 1 << random.below(32),
        5 => attack.payload = 1 + random.below(1025) as usize,
        6 => attack.is_short = true,
        7 => attack.psn = (psn + 1 + random.below(4) as u32) & 0xff_ffff,
        8 => (attack.opcode, attack.payload) = (WRITE_FIRST, 1024),
        9..=14 if !history.is_empty() => {
            attack = history[random.below(history.len() as u64) as usize];
            let atomic = &mut attack.atomic;
            match random.below(12) {
                0 => attack.opcode ^= COMPARE_SWAP ^ FETCH_ADD,
                1 => atomic.virtual_address ^= 8,
                2 => atomic.r_key.0 ^= 1,
                3 => atomic.swap_or_add ^= 1 << random.below(64),
                4 => atomic.compare ^= 1 << random.below(64),
                _ => {}
            }
        }
        _ => {}
    }
    attack
}

/// Goal: a request of any peer gets the answer of the model, and changes the same memory. Method:
/// one request after the other: short and long ones, not aligned, with wrong keys and bounds, in
/// other messages, and earlier ones again, as they were or changed.
#[test]
fn requests_of_any_peer_get_the_answer_of_the_model() {
    let (mut results, mut repeats, mut naks, mut silent) = (0, 0, [0; 4], 0);
    for_each_seed(SEEDS, |seed| {
        let mut random = SplitMix64::new(seed);
        let limit = [16, 4, 2, 1, 0][seed as usize % 5];
        let mut victims = [Kind::Model, Kind::Rtl].map(|kind| Victim::new(kind, limit));
        let keys = victims[0].sides[1].keys;
        assert_eq!(keys, victims[1].sides[1].keys);
        let (mut psn, mut history) = (FIRST_PSN, Vec::new());
        for number in 0..ATTACKS {
            let attack = attack(&mut random, keys, psn, &history);
            let [model, card] = victims.each_mut().map(|victim| victim.attack(&attack));
            assert_eq!(card, model, "request {number}: {attack:x?}");
            match model.answers[..] {
                [(ATOMIC_ACKNOWLEDGE, ..)] if attack.psn == psn => results += 1,
                [(ATOMIC_ACKNOWLEDGE, ..)] => repeats += 1,
                [(_, _, syndrome, ..)] => naks[usize::from(syndrome & 3)] += 1,
                _ => silent += 1,
            }
            if model.state == QpStateCode::ERR {
                victims.iter_mut().for_each(Victim::connect);
                (psn, history) = (FIRST_PSN, Vec::new());
                continue;
            }
            if model.expected != psn && attack.opcode != WRITE_FIRST {
                history.push(attack);
            }
            psn = model.expected;
        }
        for victim in &victims {
            assert!(victim.pair.sides[1].host.stray_writes.is_empty());
        }
    });
    println!("{results} results, {repeats} repeats, {silent} dropped, ACKs and NAKs {naks:?}");
    assert!(results > 0 && repeats > 0 && silent > 0);
    // NAK 0, 1 and 2.
    assert!(naks[..3].iter().all(|count| *count > 0));
}
