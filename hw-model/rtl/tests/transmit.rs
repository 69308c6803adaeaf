//! The whole transmit path: packets of two sources, their payload in host memory, frames out.

mod common;

use std::collections::VecDeque;

use common::lines::Lines;
use common::packets::{GIDS, Packet, gid_table};
use common::pieces::piece;
use ferroce_rtl::bytes;
use ferroce_rtl::seeds::for_each_seed;
use ferroce_rtl::verilated::transmit::Transmit;
use ferroce_spec::context::AddressEntry;
use ferroce_units::random::SplitMix64;
use ferroce_wire::Frame;

const SEEDS: u64 = 16;
const PACKETS_PER_SEED: usize = 300;
const CYCLES_MAX: u64 = 400_000;

/// A packet of a source, and whether its payload is unreadable.
struct Expected {
    packet: Packet,
    is_wrong: bool,
}

/// The future packets of a source, and the packets whose frames have not come.
#[derive(Default)]
struct Source {
    packets: VecDeque<[u32; 19]>,
    pieces: VecDeque<[u32; 3]>,
    expected: VecDeque<Expected>,
}

/// The ports of a source.
struct Ports {
    packet_valid: fn(&Transmit) -> u8,
    packet_ready: fn(&Transmit) -> u8,
    set_packet_valid: fn(&mut Transmit, u8),
    set_packet: fn(&mut Transmit, [u32; 19]),
    piece_valid: fn(&Transmit) -> u8,
    piece_ready: fn(&Transmit) -> u8,
    set_piece_valid: fn(&mut Transmit, u8),
    set_piece: fn(&mut Transmit, [u32; 3]),
}

const PORTS: [Ports; 2] = [
    Ports {
        packet_valid: Transmit::requester_packet_valid,
        packet_ready: Transmit::requester_packet_ready,
        set_packet_valid: Transmit::set_requester_packet_valid,
        set_packet: Transmit::set_requester_packet,
        piece_valid: Transmit::requester_piece_valid,
        piece_ready: Transmit::requester_piece_ready,
        set_piece_valid: Transmit::set_requester_piece_valid,
        set_piece: Transmit::set_requester_piece,
    },
    Ports {
        packet_valid: Transmit::responder_packet_valid,
        packet_ready: Transmit::responder_packet_ready,
        set_packet_valid: Transmit::set_responder_packet_valid,
        set_packet: Transmit::set_responder_packet,
        piece_valid: Transmit::responder_piece_valid,
        piece_ready: Transmit::responder_piece_ready,
        set_piece_valid: Transmit::set_responder_piece_valid,
        set_piece: Transmit::set_responder_piece,
    },
];

struct Bench {
    rtl: Transmit,
    random: SplitMix64,
    lines: Lines,
    gids: [AddressEntry; GIDS],
    /// Number of cycles, of 16, with a packet, with a piece, with room on the wire.
    rates: [u64; 3],
    sources: [Source; 2],
    identification: u16,
    frame: Vec<u8>,
    frames: usize,
    beats: u64,
    wrong: u64,
    /// Reports of `sent` and `payload_error`: source, QP, error.
    sent: VecDeque<(usize, u8, bool)>,
}

impl Bench {
    fn new(seed: u64) -> Self {
        let mut random = SplitMix64::new(seed);
        let mut rtl = Transmit::new();
        rtl.set_rst(1);
        (0..2).for_each(|_| rtl.cycle());
        rtl.set_rst(0);
        let rates = match seed % 4 {
            0 => [16; 3],
            _ => core::array::from_fn(|_| 1 + random.below(16)),
        };
        Self {
            rtl,
            lines: Lines::new(seed, &mut random),
            gids: gid_table(&mut random),
            rates,
            sources: Default::default(),
            identification: 0,
            frame: Vec::new(),
            frames: 0,
            beats: 0,
            wrong: 0,
            sent: VecDeque::new(),
            random,
        }
    }

    fn dice(&mut self, port: usize) -> bool {
        self.random.below(16) < self.rates[port]
    }

    /// Gives a packet to a source; its payload is at random addresses, in at most 16 pieces.
    fn push(&mut self, source: usize, mut packet: Packet) {
        let (mut left, mut pieces) = (packet.payload.len(), Vec::new());
        let mut is_wrong = false;
        while left > 0 {
            let bytes = match pieces.len() {
                15 => left,
                _ => 1 + self.random.below(left as u64) as usize,
            };
            let start = self.random.below(4097 - bytes as u64);
            let iova = self.random.below(1 << 52) << 12 | start;
            let at = packet.payload.len() - left;
            for (i, byte) in packet.payload[at..at + bytes].iter_mut().enumerate() {
                *byte = self.lines.byte(iova + i as u64);
                is_wrong |= self.lines.is_unreadable(iova + i as u64);
            }
            left -= bytes;
            pieces.push(piece(iova, bytes as u16, left == 0));
        }
        let source = &mut self.sources[source];
        source.packets.push_back(packet.bundle());
        source.pieces.extend(pieces);
        source.expected.push_back(Expected { packet, is_wrong });
    }

    fn offer(&mut self) {
        for (number, ports) in PORTS.iter().enumerate() {
            let rolls = [self.dice(0), self.dice(1)];
            let (rtl, source) = (&mut self.rtl, &self.sources[number]);
            let valid = rolls[0] || (ports.packet_valid)(rtl) != 0;
            if let (true, Some(&packet)) = (valid, source.packets.front()) {
                (ports.set_packet)(rtl, packet);
                (ports.set_packet_valid)(rtl, 1);
            }
            let valid = rolls[1] || (ports.piece_valid)(rtl) != 0;
            if let (true, Some(&piece)) = (valid, source.pieces.front()) {
                (ports.set_piece)(rtl, piece);
                (ports.set_piece_valid)(rtl, 1);
            }
        }
        let ready = self.dice(2);
        self.rtl.set_tx_ready(ready.into());
        common::lines::offer!(self.rtl, self.lines);
        self.rtl.settle();
        let entry = &self.gids[usize::from(self.rtl.gid_index())];
        let little = |bytes: &[u8]| {
            bytes
                .iter()
                .rev()
                .fold(0, |all, &b| all << 8 | u64::from(b))
        };
        self.rtl.set_gid(core::array::from_fn(|i| {
            little(&entry.gid[4 * i..4 * i + 4]) as u32
        }));
        self.rtl.set_gid_mac(little(&entry.mac));
        self.rtl.settle();
    }

    fn take(&mut self) {
        common::lines::take!(self.rtl, self.lines);
        if self.rtl.sent() != 0 {
            let source = usize::from(self.rtl.sent_responder());
            let is_wrong = self.rtl.payload_error() != 0;
            if is_wrong {
                assert_eq!(usize::from(self.rtl.payload_error_responder()), source);
                assert_eq!(self.rtl.payload_error_qp(), self.rtl.sent_qp());
            }
            self.sent.push_back((source, self.rtl.sent_qp(), is_wrong));
        }
        if self.rtl.tx_valid() != 0 && self.rtl.tx_ready() != 0 {
            let count = usize::from(self.rtl.tx_bytes());
            self.frame.extend(&bytes(self.rtl.tx_data())[..count]);
            self.beats += 1;
            if self.rtl.tx_last() != 0 {
                self.compare();
            }
        }
    }

    /// Compares a frame with the packet of the source in `sent`.
    fn compare(&mut self) {
        let frame = std::mem::take(&mut self.frame);
        let (source, qp, is_wrong) = self.sent.pop_front().expect("it was announced");
        let expected = self.sources[source]
            .expected
            .pop_front()
            .expect("a packet for each frame");
        assert_eq!((qp, is_wrong), (expected.packet.qp, expected.is_wrong));
        let right = expected.packet.frame(&self.gids, self.identification);
        self.identification = self
            .identification
            .wrapping_add(expected.packet.is_v4().into());
        self.frames += 1;
        self.wrong += u64::from(is_wrong);
        if is_wrong {
            let parsed = Frame::parse(&frame).expect("only payload and ICRC are wrong");
            assert!(!parsed.icrc_is_valid());
        } else {
            assert_eq!(frame, right, "{:x?}", expected.packet);
        }
    }

    fn cycle(&mut self) {
        self.offer();
        self.take();
        let taken = PORTS.map(|ports| {
            let rtl = &self.rtl;
            let packet = (ports.packet_valid)(rtl) & (ports.packet_ready)(rtl) != 0;
            (
                packet,
                (ports.piece_valid)(rtl) & (ports.piece_ready)(rtl) != 0,
            )
        });
        self.rtl.cycle();
        for (number, ports) in PORTS.iter().enumerate() {
            let (packet, piece) = taken[number];
            if packet {
                self.sources[number].packets.pop_front();
                (ports.set_packet_valid)(&mut self.rtl, 0);
            }
            if piece {
                self.sources[number].pieces.pop_front();
                (ports.set_piece_valid)(&mut self.rtl, 0);
            }
        }
    }

    fn run_until_frames(&mut self, count: usize) {
        let limit = self.rtl.cycles() + CYCLES_MAX;
        while self.frames < count {
            self.cycle();
            assert!(
                self.rtl.cycles() < limit,
                "{} of {count} frames",
                self.frames
            );
        }
    }
}

#[test]
fn packets_of_both_sources_become_frames_in_turns() {
    let (mut cycles, mut beats, mut wrong) = (0, 0, 0);
    for_each_seed(SEEDS, |seed| {
        let mut bench = Bench::new(seed);
        for _ in 0..PACKETS_PER_SEED {
            let source = bench.random.below(2) as usize;
            let packet = Packet::random(&mut bench.random);
            bench.push(source, packet);
        }
        bench.run_until_frames(PACKETS_PER_SEED);
        bench.cycle();
        assert_eq!(bench.rtl.idle(), 1);
        cycles += bench.rtl.cycles();
        beats += bench.beats;
        wrong += bench.wrong;
    });
    println!("{beats} beats in {cycles} cycles, {wrong} packets with an error");
    assert!(wrong > 0);
}

/// Goal: two sources that always have packets get every second frame.
#[test]
fn sources_take_turns() {
    let mut bench = Bench::new(0);
    for number in 0..200 {
        let packet = Packet::random(&mut bench.random);
        bench.push(number % 2, packet);
    }
    bench.run_until_frames(150);
    let left = bench.sources.each_ref().map(|source| source.expected.len());
    assert!(left[0].abs_diff(left[1]) <= 1, "{left:?}");
}

/// Goal: the wire has a beat in each cycle. Method: packets of one size, each with its payload in
/// one page; lines come 30 cycles after their read.
#[test]
fn whole_path_sends_a_beat_a_cycle() {
    for (length, start) in [(0, 0), (64, 0), (256, 0), (1024, 0), (1024, 5), (4096, 0)] {
        let mut bench = Bench::new(0);
        bench.lines.set_latency(30);
        for _ in 0..200 {
            let mut packet = Packet::random(&mut bench.random);
            packet.opcode = if length == 0 { 0x11 } else { 0x0a };
            let iova = bench.random.below(1 << 52) << 12 | start;
            packet.payload = (0..length).map(|i| bench.lines.byte(iova + i)).collect();
            let source = &mut bench.sources[0];
            source.packets.push_back(packet.bundle());
            if length != 0 {
                source.pieces.push_back(piece(iova, length as u16, true));
            }
            source.expected.push_back(Expected {
                packet,
                is_wrong: false,
            });
        }
        bench.run_until_frames(20);
        let begin = (bench.rtl.cycles(), bench.beats);
        bench.run_until_frames(200);
        let (cycles, beats) = (bench.rtl.cycles() - begin.0, bench.beats - begin.1);
        println!("payload {length} from byte {start} on: {beats} beats in {cycles} cycles");
        assert_eq!(cycles, beats, "payload {length} from byte {start} on");
    }
}
