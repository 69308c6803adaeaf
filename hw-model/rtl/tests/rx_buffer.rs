//! The receive buffer against `ferroce_wire::Frame`, on random frames with random back-pressure:
//! packets, payloads, counters, lost frames, and frames for other stations.

mod common;

use std::collections::VecDeque;

use common::frames;
use ferroce_model::processing_unit::global_route_header::global_route_header;
use ferroce_rtl::seeds::for_each_seed;
use ferroce_rtl::structs::RxPacket;
use ferroce_rtl::verilated::rx_buffer::RxBuffer;
use ferroce_rtl::{LINE, bytes, words};
use ferroce_units::random::SplitMix64;
use ferroce_wire::{Extension, Frame, Ip};

const SEEDS: u64 = 20;
const FRAMES_PER_SEED: usize = 400;
/// Opcodes of RC.
const ATOMIC_ACKNOWLEDGE: u8 = 0x12;
const ATOMICS: [u8; 2] = [0x13, 0x14];
/// Payloads that `rx_packet_t` cannot express are refused, of a datagram with its GRH.
const MAX_PAYLOAD: usize = 8191;
/// The reserved byte of a DETH, which the card does not pass on.
const RESERVED_OF_DETH: u64 = 0xff00_0000;

/// A frame that must come out.
#[derive(Debug, PartialEq, Eq)]
struct Expected {
    bytes: Vec<u8>,
    number: u16,
    to_gid: u16,
}

/// The addresses of the card.
#[derive(Debug, Clone, Default)]
struct Addresses {
    mac: [u8; 6],
    entries: [([u8; 16], [u8; 6]); 16],
}

impl Addresses {
    /// Returns a bit for each entry that is the destination of a frame.
    fn to_gid(&self, frame: &Frame<'_>) -> u16 {
        let to = frame.ethernet.destination.0;
        let is_to = |(gid, mac): &([u8; 16], [u8; 6])| {
            *gid != [0; 16]
                && *gid == frame.ip.destination_gid().0
                && [self.mac, *mac].contains(&to)
        };
        let entries = self.entries.iter().enumerate();
        entries.map(|(n, entry)| u16::from(is_to(entry)) << n).sum()
    }
}

/// Number of counted frames.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    right: usize,
    malformed: usize,
    wrong_icrc: usize,
    wrong_fcs: usize,
    overflown: usize,
}

struct Bench {
    rtl: RxBuffer,
    random: SplitMix64,
    /// An output is ready in one of this many cycles.
    packet_gap: u64,
    payload_gap: u64,
    /// The MAC finds one of this many frames damaged; 0: none.
    damage: u64,
    addresses: Addresses,
    /// Frames that were sent and not counted, and whether the MAC has found them damaged.
    judged: VecDeque<(Vec<u8>, bool)>,
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
            damage: 0,
            addresses: Addresses::default(),
            judged: VecDeque::new(),
            packets: VecDeque::new(),
            payloads: VecDeque::new(),
            payload: Vec::new(),
            number: 0,
            seen: Seen::default(),
        }
    }

    fn set_addresses(&mut self, addresses: Addresses) {
        let mac = addresses.mac.iter();
        self.rtl
            .set_mac(mac.fold(0, |value, octet| value << 8 | u64::from(*octet)));
        let gids = addresses.entries.iter().flat_map(|entry| entry.0);
        let macs = addresses.entries.iter().flat_map(|entry| entry.1);
        self.rtl.set_gids(port_of(gids.collect()));
        self.rtl.set_gid_macs(port_of(macs.collect()));
        self.addresses = addresses;
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
        let (bytes, is_damaged) = self.judged.pop_front().expect("a frame was sent");
        assert_eq!(usize::from(self.rtl.count_bytes()), bytes.len());
        let counts = (
            self.rtl.count_malformed(),
            self.rtl.count_icrc_error(),
            self.rtl.count_overflow(),
        );
        let parsed = Frame::parse(&bytes);
        let is_malformed = parsed.is_err() || whole_payload(&bytes).len() > MAX_PAYLOAD;
        let is_right = parsed.is_ok_and(|frame| frame.icrc_is_valid());
        match counts {
            (1, 0, 0) => {
                assert!(is_malformed && !is_damaged, "{bytes:02x?}");
                self.seen.malformed += 1;
            }
            (0, 1, 0) => {
                assert!(is_damaged || !is_malformed && !is_right, "{bytes:02x?}");
                self.seen.wrong_icrc += usize::from(!is_damaged);
                self.seen.wrong_fcs += usize::from(is_damaged);
            }
            (0, 0, 1) => self.seen.overflown += 1,
            _ => {
                assert_eq!(counts, (0, 0, 0));
                assert!(!is_damaged && !is_malformed && is_right, "{bytes:02x?}");
                self.seen.right += 1;
                self.number = self.number.wrapping_add(1);
                let frame = parsed.expect("it is right");
                self.payloads.push_back(whole_payload(&bytes));
                let (number, to_gid) = (self.number, self.addresses.to_gid(&frame));
                self.packets.push_back(Expected {
                    bytes,
                    number,
                    to_gid,
                });
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
        let is_damaged = self.damage != 0 && self.random.below(self.damage) == 0;
        let beats = frame.chunks(LINE).count();
        for (i, beat) in frame.chunks(LINE).enumerate() {
            let is_last = i + 1 == beats;
            if is_last {
                self.judged.push_back((frame.clone(), is_damaged));
            }
            self.rtl.set_rx_valid(1);
            self.rtl.set_rx_data(words(beat, noise));
            self.rtl.set_rx_bytes(beat.len() as u8);
            self.rtl.set_rx_last(is_last.into());
            // Before the last beat it says nothing.
            self.rtl.set_rx_error(if is_last {
                is_damaged.into()
            } else {
                noise & 1
            });
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

/// Returns the payload of a valid frame as the card writes it: a datagram's after its GRH, an
/// atomic response's after its result in the host's byte order.
fn whole_payload(bytes: &[u8]) -> Vec<u8> {
    let frame = Frame::parse(bytes).expect("it is right");
    let payload = &bytes[frame.layout().payload()];
    match frame.headers.extension {
        Extension::Deth(_) | Extension::DethImmediate(..) => {
            let header = global_route_header(&bytes[frame.layout().ip()..]);
            [&header[..], payload].concat()
        }
        // That of XRC comes as it is: the card has no such QPs.
        Extension::AtomicAck(_, result) if frame.headers.bth.opcode.0 == ATOMIC_ACKNOWLEDGE => {
            [&result.original.to_le_bytes(), payload].concat()
        }
        _ => payload.to_vec(),
    }
}

/// Returns a port whose lowest bits are the first octet.
fn port_of<const WORDS: usize>(octets: Vec<u8>) -> [u32; WORDS] {
    let word = |at: usize| core::array::from_fn(|byte| octets[4 * at + byte]);
    core::array::from_fn(|at| u32::from_le_bytes(word(at)))
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
    assert_eq!(packet.to_gid, expected.to_gid);
    let bth = &frame.headers.bth;
    assert_eq!(packet.number, expected.number);
    let payload = whole_payload(&expected.bytes).len();
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
        Extension::Deth(_) => assert_eq!(packet.address, big(12, 8) & !RESERVED_OF_DETH),
        Extension::DethImmediate(..) => {
            assert_eq!(packet.address, big(12, 8) & !RESERVED_OF_DETH);
            assert_eq!(packet.immediate.to_le_bytes(), raw[20..24]);
        }
        Extension::Reth(_) => assert_eq!(reth, (big(12, 8), big(20, 4), big(24, 4))),
        Extension::RethImmediate(..) => {
            assert_eq!(reth, (big(12, 8), big(20, 4), big(24, 4)));
            assert_eq!(packet.immediate.to_le_bytes(), raw[28..32]);
        }
        Extension::Immediate(_) | Extension::Invalidate(_) => {
            assert_eq!(packet.immediate.to_le_bytes(), raw[12..16]);
        }
        Extension::Aeth(_) | Extension::AtomicAck(..) => {
            assert_eq!(u64::from(packet.aeth), big(12, 4));
        }
        Extension::AtomicEth(_) if ATOMICS.contains(&packet.opcode) => {
            assert_eq!((reth.0, reth.1), (big(12, 8), big(20, 4)));
            let swap_add = u64::from(packet.length) << 32 | u64::from(packet.aeth);
            assert_eq!((swap_add, packet.compare), (big(24, 8), big(32, 8)));
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
        bench.damage = 16;
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
            wrong_fcs,
            overflown,
        } = bench.seen;
        let sum = right + malformed + wrong_icrc + wrong_fcs + overflown;
        assert_eq!(sum, FRAMES_PER_SEED);
        if (packet_gap, payload_gap) == (1, 1) {
            assert_eq!(overflown, 0, "nothing was slow");
        }
        total.right += right;
        total.malformed += malformed;
        total.wrong_icrc += wrong_icrc;
        total.wrong_fcs += wrong_fcs;
        total.overflown += overflown;
    });
    println!("{total:?}");
    assert!(total.malformed > 0 && total.wrong_icrc > 0 && total.overflown > 0);
    assert!(total.wrong_fcs > 0);
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

/// Changes the destination of an IPv6 frame to `::`, which an empty entry must not match.
fn clear_destination(bytes: &mut [u8]) {
    let frame = Frame::parse(bytes).expect("it is right");
    let (ip, icrc) = (frame.layout().ip(), frame.layout().icrc());
    if matches!(frame.ip, Ip::V4(_)) {
        return;
    }
    bytes[ip + 24..ip + 40].fill(0);
    let frame = Frame::parse(bytes).expect("any destination is right");
    let value = frame.computed_icrc().to_le_bytes();
    bytes[icrc].copy_from_slice(&value);
}

/// Returns a MAC address for a frame to `right`, mostly that one; else one with another bit.
fn mac_near(random: &mut SplitMix64, right: [u8; 6]) -> [u8; 6] {
    let mut mac = right;
    if random.below(3) == 0 {
        mac[random.below(6) as usize] ^= 1 << random.below(8);
    }
    mac
}

/// Goal: a packet names the entries of the GID table that are its destination. Method: tables with
/// the destination of a frame, with one wrong bit in some entries, and with no address.
#[test]
fn packets_name_the_addresses_that_they_are_for() {
    let mut seen = [0; 3];
    for_each_seed(SEEDS, |seed| {
        let mut random = SplitMix64::new(seed ^ 0xadd4);
        let mut bench = Bench::new(seed, 1, 1);
        for _ in 0..100 {
            let mut bytes = long_frame(&mut random, 0);
            if random.below(8) == 0 {
                clear_destination(&mut bytes);
            }
            let frame = Frame::parse(&bytes).expect("it is right");
            let (gid, mac) = (frame.ip.destination_gid().0, frame.ethernet.destination.0);
            let mut addresses = Addresses {
                mac: mac_near(&mut random, mac),
                ..Addresses::default()
            };
            for entry in &mut addresses.entries {
                let mut own = gid;
                match random.below(4) {
                    0 => own = [0; 16],
                    1 => own[random.below(16) as usize] ^= 1 << random.below(8),
                    _ => {}
                }
                *entry = (own, mac_near(&mut random, mac));
            }
            let to = addresses.to_gid(&frame);
            seen[usize::from(to != 0) + usize::from(to == u16::MAX)] += 1;
            bench.set_addresses(addresses);
            bench.send(bytes.clone(), 0);
            bench.finish();
        }
        assert_eq!(bench.seen.right, 100);
    });
    assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
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
