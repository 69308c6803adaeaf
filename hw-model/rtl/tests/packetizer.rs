//! The packetizer against the model's frames, byte for byte; roce_rx takes each of them.

mod common;

use std::collections::VecDeque;

use common::packets::{GIDS, Packet, gid_table};
use ferroce_rtl::roce_rx::Parser;
use ferroce_rtl::seeds::for_each_seed;
use ferroce_rtl::verilated::packetizer::Packetizer;
use ferroce_rtl::{LINE, bytes, words};
use ferroce_spec::context::AddressEntry;
use ferroce_units::random::SplitMix64;

const SEEDS: u64 = 20;
const PACKETS_PER_SEED: usize = 400;
const CYCLES_MAX: u64 = 200_000;

/// A beat of payload: bytes, last, error.
type Beat = (Vec<u8>, bool, bool);

/// A packet in flight, and whether its payload is wrong.
struct Expected {
    packet: Packet,
    frame: Vec<u8>,
    is_spoiled: bool,
}

/// The module with its environment.
struct Bench {
    rtl: Packetizer,
    random: SplitMix64,
    gids: [AddressEntry; GIDS],
    /// Number of cycles, of 16, with a packet, with payload, with room on the wire.
    rates: [u64; 3],
    packets: VecDeque<[u32; 19]>,
    payload: VecDeque<Beat>,
    frame: Vec<u8>,
    frames: Vec<Vec<u8>>,
    sent: Vec<(bool, u8)>,
}

impl Bench {
    fn new(seed: u64) -> Self {
        let mut random = SplitMix64::new(seed);
        let mut rtl = Packetizer::new();
        rtl.set_rst(1);
        (0..2).for_each(|_| rtl.cycle());
        rtl.set_rst(0);
        let rates = match seed % 4 {
            0 => [16; 3],
            _ => core::array::from_fn(|_| 1 + random.below(16)),
        };
        Self {
            gids: gid_table(&mut random),
            rates,
            rtl,
            random,
            packets: VecDeque::new(),
            payload: VecDeque::new(),
            frame: Vec::new(),
            frames: Vec::new(),
            sent: Vec::new(),
        }
    }

    fn push(&mut self, packet: &Packet, is_spoiled: bool) {
        self.packets.push_back(packet.bundle());
        let chunks: Vec<&[u8]> = packet.payload.chunks(LINE).collect();
        let wrong = self.random.below(chunks.len().max(1) as u64) as usize;
        for (number, chunk) in chunks.iter().enumerate() {
            let is_last = number + 1 == chunks.len();
            let beat = (chunk.to_vec(), is_last, is_spoiled && number == wrong);
            self.payload.push_back(beat);
        }
    }

    fn dice(&mut self, port: usize) -> bool {
        self.random.below(16) < self.rates[port]
    }

    /// Offers waiting words; an offered word that was not taken is offered again.
    fn offer(&mut self) {
        let held = self.rtl.packet_valid() != 0;
        let valid = !self.packets.is_empty() && (held || self.dice(0));
        self.rtl.set_packet_valid(valid.into());
        if let (true, Some(&packet)) = (valid, self.packets.front()) {
            self.rtl.set_packet(packet);
        }
        let held = self.rtl.payload_valid() != 0;
        let valid = !self.payload.is_empty() && (held || self.dice(1));
        let noise = self.random.number() as u8;
        self.rtl.set_payload_valid(valid.into());
        if let (true, Some((bytes, last, error))) = (valid, self.payload.front()) {
            if !held {
                self.rtl.set_payload_data(words(bytes, noise));
            }
            self.rtl.set_payload_last((*last).into());
            self.rtl.set_payload_error((*error).into());
        }
        let ready = self.dice(2);
        self.rtl.set_tx_ready(ready.into());
        self.rtl.settle();
        let entry = &self.gids[usize::from(self.rtl.gid_index())];
        let gid: [u32; 4] = core::array::from_fn(|i| {
            u32::from_le_bytes(core::array::from_fn(|b| entry.gid[4 * i + b]))
        });
        let mac = entry
            .mac
            .iter()
            .rev()
            .fold(0, |all, &byte| all << 8 | u64::from(byte));
        self.rtl.set_gid(gid);
        self.rtl.set_gid_mac(mac);
        self.rtl.settle();
    }

    fn take(&mut self) {
        if self.rtl.tx_valid() == 0 || self.rtl.tx_ready() == 0 {
            return;
        }
        let (beat, count) = (bytes(self.rtl.tx_data()), usize::from(self.rtl.tx_bytes()));
        let is_last = self.rtl.tx_last() != 0;
        assert!(is_last || count == LINE, "a short beat inside of a frame");
        assert!(
            beat[count..].iter().all(|&byte| byte == 0),
            "bytes behind the frame"
        );
        self.frame.extend(&beat[..count]);
        if is_last {
            self.frames.push(std::mem::take(&mut self.frame));
        }
    }

    fn cycle(&mut self) {
        self.offer();
        self.take();
        let packet_taken = self.rtl.packet_valid() & self.rtl.packet_ready() != 0;
        let payload_taken = self.rtl.payload_valid() & self.rtl.payload_ready() != 0;
        self.rtl.cycle();
        if packet_taken {
            self.packets.pop_front();
            self.rtl.set_packet_valid(0);
        }
        if payload_taken {
            self.payload.pop_front();
            self.rtl.set_payload_valid(0);
        }
        if self.rtl.sent() != 0 {
            self.sent
                .push((self.rtl.sent_error() != 0, self.rtl.sent_qp()));
        }
    }

    fn run_until_frames(&mut self, count: usize) {
        let limit = self.rtl.cycles() + CYCLES_MAX;
        while self.frames.len() < count {
            self.cycle();
            assert!(
                self.rtl.cycles() < limit,
                "{} of {count} frames",
                self.frames.len()
            );
        }
    }
}

/// Compares a frame, and checks it with roce_rx.
fn compare(expected: &Expected, frame: &[u8], parser: &mut Parser) {
    let mut right = expected.frame.clone();
    if expected.is_spoiled {
        let icrc = right.len() - 4;
        right[icrc..].iter_mut().for_each(|byte| *byte ^= 0xff);
    }
    assert_eq!(frame, right, "{:x?}", expected.packet);
    let verdict = parser.verdict_on(frame).expect("one verdict");
    let said = (verdict.malformed, verdict.icrc_ok);
    assert_eq!(
        said,
        (false, !expected.is_spoiled),
        "{:x?}",
        expected.packet
    );
    assert_eq!(
        usize::from(verdict.payload_length),
        expected.packet.payload.len()
    );
}

#[test]
fn random_packets_become_the_frames_of_the_model() {
    let (mut cycles, mut beats, mut spoiled) = (0, 0, 0);
    for_each_seed(SEEDS, |seed| {
        let mut bench = Bench::new(seed);
        let (mut parser, mut identification) = (Parser::new(), 0u16);
        let mut all = Vec::new();
        for _ in 0..PACKETS_PER_SEED {
            let packet = Packet::random(&mut bench.random);
            let is_spoiled = !packet.payload.is_empty() && bench.random.below(8) == 0;
            bench.push(&packet, is_spoiled);
            let frame = packet.frame(&bench.gids, identification);
            identification = identification.wrapping_add(packet.is_v4().into());
            all.push(Expected {
                packet,
                frame,
                is_spoiled,
            });
        }
        bench.run_until_frames(PACKETS_PER_SEED);
        assert_eq!(bench.rtl.idle(), 1);
        for (expected, frame) in all.iter().zip(&bench.frames) {
            compare(expected, frame, &mut parser);
        }
        let sent = all.iter().map(|e| (e.is_spoiled, e.packet.qp));
        assert!(
            sent.eq(bench.sent.iter().copied()),
            "one `sent` for each packet"
        );
        cycles += bench.rtl.cycles();
        beats += bench
            .frames
            .iter()
            .map(|f| f.len().div_ceil(LINE))
            .sum::<usize>();
        spoiled += all.iter().filter(|e| e.is_spoiled).count();
    });
    println!("{beats} beats in {cycles} cycles, {spoiled} frames with a wrong ICRC");
    assert!(spoiled > 0);
}

/// Goal: the wire has a beat in each cycle. Method: packets of one size, and no stalls.
#[test]
fn frames_leave_without_a_gap() {
    for length in [0, 1, 64, 256, 1024, 4096] {
        let mut bench = Bench::new(0);
        let mut beats = 0;
        for _ in 0..200 {
            let mut packet = Packet::random(&mut bench.random);
            packet.opcode = if length == 0 { 0x11 } else { 0x0a };
            packet.payload = vec![0x5a; length];
            beats += packet.frame(&bench.gids, 0).len().div_ceil(LINE) as u64;
            bench.push(&packet, false);
        }
        bench.run_until_frames(1);
        let (first, begin) = (
            bench.frames[0].len().div_ceil(LINE) as u64,
            bench.rtl.cycles(),
        );
        bench.run_until_frames(200);
        let cycles = bench.rtl.cycles() - begin;
        println!(
            "payload {length}: {} beats in {cycles} cycles",
            beats - first
        );
        assert_eq!(cycles, beats - first, "payload {length}");
    }
}
