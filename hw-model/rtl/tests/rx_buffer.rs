//! The receive buffer against `ferroce_wire::Frame`, on random frames with random back-pressure:
//! packets, payloads, counters, and lost frames.

mod common;

use std::collections::VecDeque;

use common::frames;
use ferroce_rtl::seeds::for_each_seed;
use ferroce_rtl::structs::RxPacket;
use ferroce_rtl::verilated::rx_buffer::RxBuffer;
use ferroce_rtl::{LINE, bytes, words};
use ferroce_units::random::SplitMix64;
use ferroce_wire::{Extension, Frame, Ip};

const SEEDS: u64 = 20;
const FRAMES_PER_SEED: usize = 400;
/// Payloads that `rx_packet_t` cannot express are refused.
const MAX_PAYLOAD: usize = 8191;

/// A frame that must come out.
#[derive(Debug, PartialEq, Eq)]
struct Expected {
    bytes: Vec<u8>,
    number: u16,
}

/// Number of counted frames.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    right: usize,
    malformed: usize,
    wrong_icrc: usize,
    overflown: usize,
}

struct Bench {
    rtl: RxBuffer,
    random: SplitMix64,
    /// An output is ready in one of this many cycles.
    packet_gap: u64,
    payload_gap: u64,
    /// Frames that were sent and not counted.
    judged: VecDeque<Vec<u8>>,
    packets: VecDeque<Expected>,
    payloads: VecDeque<Vec<u8>>,
    payload: Vec<u8>,
    number: u16,
    seen: Seen,
}

impl Bench {
    fn new(seed: u64, packet_gap: u64, payload_gap: u64) -> Self {
        let mut rtl = RxBuffer::new();
        rtl.set_rst(1);
        (0..8).for_each(|_| rtl.cycle());
        rtl.set_rst(0);
        Self {
            rtl,
            random: SplitMix64::new(seed),
            packet_gap,
            payload_gap,
            judged: VecDeque::new(),
            packets: VecDeque::new(),
            payloads: VecDeque::new(),
            payload: Vec::new(),
            number: 0,
            seen: Seen::default(),
        }
    }

    /// Runs one cycle; inputs of the frame are set.
    fn cycle(&mut self) {
        let packet_ready = self.random.below(self.packet_gap) == 0;
        let payload_ready = self.random.below(self.payload_gap) == 0;
        self.rtl.set_packet_ready(packet_ready.into());
        self.rtl.set_payload_ready(payload_ready.into());
        self.rtl.settle();
        if self.rtl.count_frame() != 0 {
            self.count();
        }
        if packet_ready && self.rtl.packet_valid() != 0 {
            self.take_packet();
        }
        if payload_ready && self.rtl.payload_valid() != 0 {
            self.take_payload();
        }
        self.rtl.cycle();
    }

    /// Handles the count of a frame, which is dropped, or must come out.
    fn count(&mut self) {
        let bytes = self.judged.pop_front().expect("a frame was sent");
        assert_eq!(usize::from(self.rtl.count_bytes()), bytes.len());
        let counts = (
            self.rtl.count_malformed(),
            self.rtl.count_icrc_error(),
            self.rtl.count_overflow(),
        );
        let parsed = Frame::parse(&bytes);
        let payload = parsed.map(|frame| frame.layout().payload());
        let is_malformed = payload.is_ok_and(|range| range.len() > MAX_PAYLOAD) || parsed.is_err();
        let is_right = parsed.is_ok_and(|frame| frame.icrc_is_valid());
        match counts {
            (1, 0, 0) => {
                assert!(is_malformed, "{bytes:02x?}");
                self.seen.malformed += 1;
            }
            (0, 1, 0) => {
                assert!(!is_malformed && !is_right, "{bytes:02x?}");
                self.seen.wrong_icrc += 1;
            }
            (0, 0, 1) => self.seen.overflown += 1,
            _ => {
                assert_eq!(counts, (0, 0, 0));
                assert!(!is_malformed && is_right, "{bytes:02x?}");
                self.seen.right += 1;
                self.number = self.number.wrapping_add(1);
                let payload = parsed.expect("it is right").layout().payload();
                self.payloads.push_back(bytes[payload].to_vec());
                let number = self.number;
                self.packets.push_back(Expected { bytes, number });
            }
        }
    }

    fn take_packet(&mut self) {
        let expected = self.packets.pop_front().expect("a frame was right");
        compare(&expected, &self.rtl.packet().into());
    }

    fn take_payload(&mut self) {
        let count = usize::from(self.rtl.payload_bytes());
        let is_last = self.rtl.payload_last() != 0;
        let beat = bytes(self.rtl.payload_data());
        self.payload.extend(&beat[..count]);
        if !is_last {
            assert_eq!(count, LINE);
            return;
        }
        let expected = self.payloads.pop_front().expect("a frame was right");
        assert_eq!(self.payload, expected);
        self.payload.clear();
    }

    /// Sends a frame; one of `gap` beats is followed by a gap.
    fn send(&mut self, frame: Vec<u8>, gap: u64) {
        let noise = self.random.number() as u8;
        let beats = frame.chunks(LINE).count();
        for (i, beat) in frame.chunks(LINE).enumerate() {
            let is_last = i + 1 == beats;
            if is_last {
                self.judged.push_back(frame.clone());
            }
            self.rtl.set_rx_valid(1);
            self.rtl.set_rx_data(words(beat, noise));
            self.rtl.set_rx_bytes(beat.len() as u8);
            self.rtl.set_rx_last(is_last.into());
            self.cycle();
            self.rtl.set_rx_valid(0);
            while gap != 0 && self.random.below(gap) == 0 {
                self.cycle();
            }
        }
    }

    /// Takes all remaining outputs.
    fn finish(&mut self) {
        (self.packet_gap, self.payload_gap) = (1, 1);
        (0..20).for_each(|_| self.cycle());
        for _ in 0..10_000 {
            if self.rtl.idle() != 0 {
                break;
            }
            self.cycle();
        }
        assert_eq!(self.rtl.idle(), 1);
        assert_eq!(self.rtl.packet_valid() | self.rtl.payload_valid(), 0);
        assert!(self.judged.is_empty() && self.packets.is_empty() && self.payloads.is_empty());
        assert!(self.payload.is_empty());
    }
}

/// Returns an address in the format of the port.
fn source(frame: &Frame<'_>) -> u128 {
    let value = u128::from_be_bytes(frame.ip.source_gid().0);
    match frame.ip {
        Ip::V4(_) => value & 0xffff_ffff,
        _ => value,
    }
}

fn compare(expected: &Expected, packet: &RxPacket) {
    let frame = Frame::parse(&expected.bytes).expect("it is right");
    let bth = &frame.headers.bth;
    assert_eq!(packet.number, expected.number);
    let payload = frame.layout().payload().len();
    assert_eq!(usize::from(packet.payload_bytes), payload);
    let words = packet.source.iter().rev();
    let from = words.fold(0, |value, word| value << 32 | u128::from(*word));
    assert_eq!(from, source(&frame));
    assert_eq!(packet.is_v6, !matches!(frame.ip, Ip::V4(_)));
    let said = (packet.opcode, packet.solicited, packet.ack_request);
    assert_eq!(said, (bth.opcode.0, bth.solicited, bth.ack_request));
    let said = (packet.psn, packet.dest_qpn, packet.p_key);
    let expected = (bth.psn.value(), bth.dest_qp.value(), bth.p_key.0);
    assert_eq!(said, expected);
    let mut raw = vec![0; 64];
    frame.headers.emit(&mut raw);
    let big = |at: usize, count: usize| {
        let digits = raw[at..at + count].iter();
        digits.fold(0, |value, byte| value << 8 | u64::from(*byte))
    };
    let reth = (packet.address, packet.r_key.into(), packet.length.into());
    match frame.headers.extension {
        Extension::Reth(_) => assert_eq!(reth, (big(12, 8), big(20, 4), big(24, 4))),
        Extension::RethImmediate(..) => {
            assert_eq!(reth, (big(12, 8), big(20, 4), big(24, 4)));
            assert_eq!(packet.immediate.to_le_bytes(), raw[28..32]);
        }
        Extension::Immediate(_) | Extension::Invalidate(_) => {
            assert_eq!(packet.immediate.to_le_bytes(), raw[12..16]);
        }
        Extension::Aeth(_) | Extension::AtomicAck(..) => {
            assert_eq!(u64::from(packet.aeth), big(12, 4))
        }
        _ => {}
    }
}

#[test]
fn right_frames_come_out_and_others_leave_no_trace() {
    let mut total = Seen::default();
    for_each_seed(SEEDS, |seed| {
        let gaps = [1, 1, 4, 40];
        let mut random = SplitMix64::new(seed ^ 0x5eed);
        let [packet_gap, payload_gap] = [0; 2].map(|_| gaps[random.below(4) as usize]);
        let mut bench = Bench::new(seed, packet_gap, payload_gap);
        for _ in 0..FRAMES_PER_SEED {
            let frame = frames::random(&mut random);
            let gap = [0, 2, 3][random.below(3) as usize];
            bench.send(frame, gap);
        }
        bench.finish();
        let Seen {
            right,
            malformed,
            wrong_icrc,
            overflown,
        } = bench.seen;
        assert_eq!(right + malformed + wrong_icrc + overflown, FRAMES_PER_SEED);
        if (packet_gap, payload_gap) == (1, 1) {
            assert_eq!(overflown, 0, "nothing was slow");
        }
        total.right += right;
        total.malformed += malformed;
        total.wrong_icrc += wrong_icrc;
        total.overflown += overflown;
    });
    println!("{total:?}");
    assert!(total.malformed > 0 && total.wrong_icrc > 0 && total.overflown > 0);
}

/// Returns a valid frame with at least this number of bytes.
fn long_frame(random: &mut SplitMix64, least: usize) -> Vec<u8> {
    loop {
        let frame = frames::random(random);
        let is_right = Frame::parse(&frame).is_ok_and(|frame| frame.icrc_is_valid());
        if is_right && frame.len() >= least {
            return frame;
        }
    }
}

/// Goal: only frames that do not fit are lost. Method: no output is taken while frames come, and
/// then all frames that fit must come out.
#[test]
fn a_full_buffer_loses_whole_frames_and_recovers() {
    let mut bench = Bench::new(1, u64::MAX, u64::MAX);
    let mut random = SplitMix64::new(1);
    for round in 0..20 {
        let mut beats = 0;
        (bench.packet_gap, bench.payload_gap) = (u64::MAX, u64::MAX);
        for _ in 0..100 {
            let frame = long_frame(&mut random, 1000);
            let before = (bench.seen.right, bench.seen.overflown);
            let needed = frame.len().div_ceil(LINE);
            bench.send(frame, 0);
            (0..8).for_each(|_| bench.cycle());
            // The first beats are already in the aligner, but their room is not free yet.
            let fits = beats + needed <= 256 && bench.packets.len() < 33;
            let after = (bench.seen.right, bench.seen.overflown);
            let gained = (after.0 - before.0, after.1 - before.1);
            assert_eq!(gained == (1, 0), fits, "round {round}: {beats} + {needed}");
            if fits {
                beats += needed;
            }
        }
        bench.finish();
    }
    assert!(bench.seen.overflown > 0);
}

/// Goal: room becomes free as soon as a frame is read, and reading is as fast as the wire. Method:
/// many frames pass through a buffer that is never empty and holds at most four frames.
#[test]
fn a_stream_of_long_frames_passes_without_a_loss() {
    let mut bench = Bench::new(1, 1, u64::MAX);
    let mut random = SplitMix64::new(1);
    for count in 0..200 {
        if count == 2 {
            bench.payload_gap = 1;
        }
        bench.send(long_frame(&mut random, 4000), 0);
    }
    bench.finish();
    assert_eq!((bench.seen.right, bench.seen.overflown), (200, 0));
}
