//! Steering: QP and opcode determine to which engine a packet goes, or that it is dropped, and each
//! frame gets one run of pieces.

#[path = "responder/bits.rs"]
mod bits;

use bits::{pack, unpack};
use ferroce_rtl::seeds::for_each_seed;
use ferroce_rtl::verilated::steer::Steer;
use ferroce_units::random::SplitMix64;

const SEEDS: u64 = 10;
const PACKETS_PER_SEED: usize = 2000;
/// Maximum cycles of a packet.
const CYCLES_MAX: u64 = 1000;
const QPN_BASE: u32 = 0x100;
const PEER_V6: u128 = 0xfe80_0000_0000_0000_0123_4567_89ab_cdef;
const PEER_V4: u128 = 0xffff_0a00_0001;
const RTR: u8 = 2;
const RTS: u8 = 3;
const SQD: u8 = 4;
const ERR: u8 = 6;

#[derive(Debug, Clone, Copy)]
struct Qp {
    exists: bool,
    state: u8,
    peer: u128,
    /// Entry of the GID table.
    own_gid: u8,
    is_datagram: bool,
}

#[derive(Debug, Clone, Copy)]
struct Packet {
    opcode: u8,
    p_key: u16,
    qpn: u32,
    is_v6: bool,
    source: u128,
    /// The entries of the GID table that are its destination.
    to_gid: u16,
    payload: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Request,
    Answer,
    Dropped,
    NoQp,
    WrongPath,
}

/// Returns the decision of the model's ingress and transport on a packet.
fn fate(packet: &Packet, qp: &Qp) -> Fate {
    let source = if packet.is_v6 {
        packet.source
    } else {
        0xffff_0000_0000 | packet.source & 0xffff_ffff
    };
    let is_answer = (0x0d..=0x12).contains(&packet.opcode);
    let takes = if is_answer {
        [RTS, SQD].contains(&qp.state)
    } else {
        (RTR..ERR).contains(&qp.state)
    };
    if packet.qpn & !0xff != QPN_BASE || !qp.exists || !qp.is_datagram && qp.state < RTR {
        Fate::NoQp
    } else if qp.is_datagram && packet.to_gid == 0 {
        Fate::WrongPath
    } else if qp.is_datagram {
        let is_right = packet.opcode >> 5 == 3 && packet.p_key & 0x7fff == 0x7fff;
        [Fate::Dropped, Fate::Request][usize::from(is_right && takes)]
    } else if source != qp.peer || packet.to_gid >> qp.own_gid & 1 == 0 {
        Fate::WrongPath
    } else if packet.opcode >> 5 != 0 || packet.p_key & 0x7fff != 0x7fff || !takes {
        Fate::Dropped
    } else if is_answer {
        Fate::Answer
    } else {
        Fate::Request
    }
}

fn qp(random: &mut SplitMix64) -> Qp {
    Qp {
        exists: random.below(8) > 0,
        state: random.below(7) as u8,
        peer: [PEER_V6, PEER_V4][random.below(2) as usize],
        own_gid: random.below(16) as u8,
        is_datagram: random.below(3) == 0,
    }
}

fn packet(random: &mut SplitMix64, qps: &[Qp]) -> Packet {
    let index = random.below(qps.len() as u64) as u32;
    let mut source = qps[index as usize].peer;
    let is_v6 = source == PEER_V6;
    match random.below(12) {
        0 => source ^= 1 << random.below(128),
        // Bits outside of an IPv4 address.
        1 if !is_v6 => source |= u128::from(random.number()) << 64,
        _ => {}
    }
    Packet {
        opcode: match random.below(8) {
            0 => random.number() as u8,
            _ if qps[index as usize].is_datagram => 0x64 + random.below(2) as u8,
            _ => random.below(0x18) as u8,
        },
        p_key: [0xffff, 0xffff, 0xffff, 0x7fff, 0x8001][random.below(5) as usize],
        qpn: QPN_BASE + index + if random.below(16) == 0 { 0x200 } else { 0 },
        is_v6: is_v6 ^ (random.below(16) == 0),
        source,
        to_gid: match random.below(8) {
            0 => random.number() as u16,
            1 => !(1 << qps[index as usize].own_gid),
            2 => 0,
            _ => 1 << qps[index as usize].own_gid,
        },
        payload: [0, 0, 1, 4096][random.below(4) as usize],
    }
}

struct Bench {
    rtl: Steer,
    random: SplitMix64,
    qps: Vec<Qp>,
    looked: usize,
    counted: [u32; 2],
    /// Pieces of the frame: IOVA, and whether it drops the rest.
    run: Vec<(u64, bool)>,
    ended: bool,
}

impl Bench {
    fn new(random: SplitMix64, qps: Vec<Qp>) -> Self {
        let mut rtl = Steer::new();
        rtl.set_rst(1);
        rtl.cycle();
        rtl.set_rst(0);
        Self {
            rtl,
            random,
            qps,
            looked: 0,
            counted: [0; 2],
            run: Vec::new(),
            ended: false,
        }
    }

    fn qp(&self, index: usize) -> [u32; 17] {
        let Some(qp) = self.qps.get(index) else {
            return [0; 17];
        };
        // The first octet of the GID is in the lowest bits.
        let gid = qp.peer.swap_bytes();
        pack(&[
            (qp.exists.into(), 1),
            (qp.state.into(), 3),
            (0, 3),
            (qp.is_datagram.into(), 1),
            (0, 128),
            (0, 128),
            (0, 12),
            (gid, 128),
            (0, 64),
            (qp.own_gid.into(), 8),
            (0, 56),
        ])
    }

    fn cycle(&mut self) {
        let ready = self.random.below(3) > 0;
        self.rtl.set_place_ready(u8::from(ready));
        let qp = self.qp(self.looked);
        self.rtl.set_qp(qp);
        self.rtl.settle();
        if self.rtl.place_valid() == 1 && ready {
            let [iova, bytes, last] = unpack(&self.rtl.place(), [64, 13, 1]);
            assert!(!self.ended, "one run a frame");
            assert!(bytes == 0 || iova != 0);
            self.run.push((iova as u64, self.rtl.place_drop() == 1));
            self.ended = last == 1;
        }
        self.looked = self.rtl.qp_index().into();
        self.rtl.cycle();
        self.counted[0] += u32::from(self.rtl.count_no_qp());
        self.counted[1] += u32::from(self.rtl.count_wrong_path());
    }

    fn run_until(&mut self, is_done: impl Fn(&Steer) -> bool) {
        let limit = self.rtl.cycles() + CYCLES_MAX;
        while !is_done(&self.rtl) {
            self.cycle();
            assert!(self.rtl.cycles() < limit, "it does not end");
        }
    }

    fn offer(&mut self, packet: &Packet) {
        self.rtl.set_packet(pack(&[
            (packet.to_gid.into(), 16),
            (7, 16),
            (packet.opcode.into(), 8),
            (0, 2),
            (packet.p_key.into(), 16),
            (packet.qpn.into(), 24),
            (0, 24),
            (packet.is_v6.into(), 1),
            (packet.source, 128),
            (0, 96),
            (0, 64),
            (0, 32),
            (0, 32),
            (0, 32),
            (packet.payload.into(), 13),
        ]));
        self.rtl.set_packet_valid(1);
        self.run_until(|rtl| rtl.packet_ready() == 1);
        self.cycle();
        self.rtl.set_packet_valid(0);
        self.rtl.settle();
        (self.run, self.ended) = (Vec::new(), false);
    }

    /// Takes the packet as an engine, and gives pieces for its payload.
    fn work(&mut self, packet: &Packet, is_answer: bool) {
        self.run_until(|rtl| {
            rtl.request_valid() == 1 || rtl.answer_valid() == 1 || rtl.idle() == 1
        });
        let expected = (u8::from(!is_answer), u8::from(is_answer));
        assert_eq!(
            (self.rtl.request_valid(), self.rtl.answer_valid()),
            expected
        );
        for _ in 0..self.random.below(3) {
            self.cycle();
        }
        self.set(
            is_answer,
            Steer::set_request_ready,
            Steer::set_answer_ready,
            1,
        );
        let is_quick = packet.payload == 0 && self.random.below(2) == 0;
        self.set(
            is_answer,
            Steer::set_request_done,
            Steer::set_answer_done,
            is_quick.into(),
        );
        self.cycle();
        self.set(
            is_answer,
            Steer::set_request_ready,
            Steer::set_answer_ready,
            0,
        );
        if packet.payload > 0 {
            self.place(is_answer, 0x1000, false);
            self.place(is_answer, 0x2000, true);
        }
        if !is_quick {
            self.set(
                is_answer,
                Steer::set_request_done,
                Steer::set_answer_done,
                1,
            );
            self.cycle();
        }
        self.set(
            is_answer,
            Steer::set_request_done,
            Steer::set_answer_done,
            0,
        );
    }

    fn set(
        &mut self,
        is_answer: bool,
        request: fn(&mut Steer, u8),
        answer: fn(&mut Steer, u8),
        value: u8,
    ) {
        if is_answer {
            answer(&mut self.rtl, value);
        } else {
            request(&mut self.rtl, value);
        }
        self.rtl.settle();
    }

    fn place(&mut self, is_answer: bool, iova: u128, last: bool) {
        let piece = pack(&[(iova, 64), (16, 13), (last.into(), 1)]);
        if is_answer {
            self.rtl.set_answer_place(piece);
        } else {
            self.rtl.set_request_place(piece);
        }
        self.set(
            is_answer,
            Steer::set_request_place_valid,
            Steer::set_answer_place_valid,
            1,
        );
        let before = self.run.len();
        while self.run.len() == before {
            self.cycle();
        }
        self.set(
            is_answer,
            Steer::set_request_place_valid,
            Steer::set_answer_place_valid,
            0,
        );
    }

    fn steer(&mut self) -> Fate {
        let packet = packet(&mut self.random, &self.qps);
        let fate = fate(&packet, &self.qps[(packet.qpn & 0xff) as usize]);
        self.counted = [0; 2];
        self.offer(&packet);
        let is_handed = matches!(fate, Fate::Request | Fate::Answer);
        if is_handed {
            self.work(&packet, fate == Fate::Answer);
        }
        self.run_until(|rtl| rtl.idle() == 1);
        let expected = match (is_handed, packet.payload) {
            (false, _) => vec![(0, true)],
            (true, 0) => vec![(0, false)],
            (true, _) => vec![(0x1000, false), (0x2000, false)],
        };
        assert_eq!(
            (&self.run, self.ended),
            (&expected, true),
            "{packet:x?} {fate:?}"
        );
        let counted = [
            u32::from(fate == Fate::NoQp),
            u32::from(fate == Fate::WrongPath),
        ];
        assert_eq!(self.counted, counted, "{packet:x?} {fate:?}");
        fate
    }
}

#[test]
fn random_packets_go_where_their_qp_says() {
    let mut fates = [0; 5];
    for_each_seed(SEEDS, |seed| {
        let mut random = SplitMix64::new(seed);
        let qps = (0..16).map(|_| qp(&mut random)).collect();
        let mut bench = Bench::new(random, qps);
        for _ in 0..PACKETS_PER_SEED {
            let changed = bench.random.below(16) as usize;
            bench.qps[changed] = qp(&mut bench.random);
            fates[bench.steer() as usize] += 1;
        }
    });
    println!("{fates:?} requests, answers, dropped, without QP, on a wrong path");
    assert!(fates.iter().all(|count| *count > 0));
}

/// Goal: a packet that waits until another one is handled has no effect before, and is judged by
/// the state that its QP has then. Method: its QP goes to ERR while the responder works on the
/// first one.
#[test]
fn a_waiting_packet_is_judged_when_its_turn_comes() {
    let live = Qp {
        exists: true,
        state: RTS,
        peer: PEER_V6,
        own_gid: 3,
        is_datagram: false,
    };
    let write = Packet {
        opcode: 0x0a,
        p_key: 0xffff,
        qpn: QPN_BASE,
        is_v6: true,
        source: PEER_V6,
        to_gid: 1 << live.own_gid,
        payload: 4096,
    };
    for payload in [0, 4096] {
        let mut bench = Bench::new(SplitMix64::new(1), vec![live; 2]);
        bench.offer(&write);
        bench.run_until(|rtl| rtl.request_valid() == 1);
        bench.rtl.set_request_ready(1);
        bench.cycle();
        bench.place(false, 0x1000, false);
        bench.offer(&Packet {
            qpn: QPN_BASE + 1,
            payload,
            ..write
        });
        (0..8).for_each(|_| bench.cycle());
        assert_eq!((bench.rtl.request_valid(), bench.run.len()), (0, 0));
        bench.qps[1].state = ERR;
        bench.cycle();
        bench.place(false, 0x2000, true);
        bench.ended = false;
        bench.rtl.set_request_done(1);
        bench.cycle();
        bench.rtl.set_request_done(0);
        bench.run_until(|rtl| rtl.idle() == 1);
        assert_eq!(bench.run, vec![(0x2000, false), (0, true)]);
    }
}
