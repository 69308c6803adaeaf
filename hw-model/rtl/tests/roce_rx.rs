//! The receive parser against `ferroce_wire::Frame`, on random frames: valid ones of every opcode,
//! damaged, padded and truncated ones, back to back and with gaps.

mod common;

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

use common::frames;
use ferroce_rtl::roce_rx::{Parser, Verdict};
use ferroce_rtl::seeds::for_each_seed;
use ferroce_units::random::SplitMix64;
use ferroce_wire::{Extension, Frame, Gid, Ip, internet_checksum};

const SEEDS: u64 = 40;
const FRAMES_PER_SEED: usize = 300;

/// Returns the address in the format of the port: the last byte is the lowest.
fn words(gid: Gid, is_v4: bool) -> [u32; 4] {
    let value = u128::from_be_bytes(gid.0);
    let value = if is_v4 { value & 0xffff_ffff } else { value };
    core::array::from_fn(|i| (value >> (32 * i)) as u32)
}

/// Compares both sides' view of the fixed fields.
fn compare_bth(frame: &Frame<'_>, verdict: &Verdict, context: &str) {
    let bth = &frame.headers.bth;
    let flags = u8::from(bth.solicited) << 7
        | u8::from(bth.migration) << 6
        | bth.pad_count << 4
        | bth.header_version;
    let congestion = u8::from(bth.fecn) << 7 | u8::from(bth.becn) << 6 | bth.reserved6;
    let expected = (bth.opcode.0, flags, bth.p_key.0, congestion);
    let said = (
        verdict.opcode,
        verdict.flags,
        verdict.p_key,
        verdict.congestion,
    );
    assert_eq!(said, expected, "{context}");
    let expected = (bth.dest_qp.value(), bth.ack_request, bth.reserved7);
    let said = (verdict.dest_qp, verdict.ack_request, verdict.reserved7);
    assert_eq!(said, expected, "{context}");
    assert_eq!(verdict.psn, bth.psn.value(), "{context}");
}

/// Compares both sides' view of the opcode's headers after the BTH.
fn compare_extension(frame: &Frame<'_>, verdict: &Verdict, context: &str) {
    let mut raw = vec![0; 64];
    frame.headers.emit(&mut raw);
    let at32 = |at: usize| u32::from_be_bytes(core::array::from_fn(|i| raw[at + i]));
    let at64 = |at: usize| u64::from(at32(at)) << 32 | u64::from(at32(at + 4));
    let (extension, at) = match frame.headers.extension {
        Extension::Xrc(_, request) => {
            assert_eq!(verdict.srqn, at32(12), "{context}");
            (Extension::from(request), 16)
        }
        other => (other, 12),
    };
    let reth = (verdict.address, verdict.r_key, verdict.length);
    let reth_is = (at64(at), at32(at + 8), at32(at + 12));
    let deth = (verdict.q_key, verdict.source_qp);
    let deth_is = (at32(at), at32(at + 4));
    match extension {
        Extension::Reth(_) => assert_eq!(reth, reth_is, "{context}"),
        Extension::Flush(..) => {
            let reth_is = (at64(at + 4), at32(at + 12), at32(at + 16));
            assert_eq!(reth, reth_is, "{context}");
        }
        Extension::RethImmediate(..) => {
            let expected = (reth_is, at32(at + 16));
            assert_eq!((reth, verdict.immediate), expected, "{context}");
        }
        Extension::Immediate(_) | Extension::Invalidate(_) => {
            assert_eq!(verdict.immediate, at32(at), "{context}");
        }
        Extension::AtomicEth(_) => {
            let said = (verdict.address, verdict.r_key);
            assert_eq!(said, (at64(at), at32(at + 8)), "{context}");
            let said = (verdict.swap_add, verdict.compare);
            assert_eq!(said, (at64(at + 12), at64(at + 20)), "{context}");
        }
        Extension::Aeth(_) => assert_eq!(verdict.aeth, at32(at), "{context}"),
        Extension::AtomicAck(..) => {
            let said = (verdict.aeth, verdict.original);
            assert_eq!(said, (at32(at), at64(at + 4)), "{context}");
        }
        Extension::Deth(_) => assert_eq!(deth, deth_is, "{context}"),
        Extension::DethImmediate(..) => {
            let expected = (deth_is, at32(at + 8));
            assert_eq!((deth, verdict.immediate), expected, "{context}");
        }
        Extension::None | Extension::Cnp(_) | Extension::Xrc(..) => {}
    }
}

/// Compares both sides' view of a frame.
fn compare(bytes: &[u8], verdict: &Verdict) {
    let parsed = Frame::parse(bytes);
    let context = format!("frame {bytes:02x?}\nverdict {verdict:x?}\nparsed {parsed:x?}");
    assert_eq!(verdict.malformed, parsed.is_err(), "{context}");
    let Ok(frame) = parsed else { return };
    assert_eq!(verdict.icrc_ok, frame.icrc_is_valid(), "{context}");
    compare_bth(&frame, verdict, &context);
    compare_extension(&frame, verdict, &context);
    let payload = frame.layout().payload();
    let said = (verdict.payload_offset.into(), verdict.payload_length.into());
    assert_eq!(said, (payload.start, payload.len()), "{context}");
    let mac = verdict.destination_mac.to_le_bytes();
    assert_eq!(mac[..6], frame.ethernet.destination.0, "{context}");
    let is_v4 = matches!(frame.ip, Ip::V4(_));
    assert_eq!(verdict.is_v6, !is_v4, "{context}");
    let expected = [frame.ip.source_gid(), frame.ip.destination_gid()];
    let said = [verdict.source, verdict.destination];
    assert_eq!(said, expected.map(|gid| words(gid, is_v4)), "{context}");
}

/// Counts the kinds of frames, so that a test cannot pass without testing anything.
#[derive(Default)]
struct Seen {
    good: u32,
    wrong_icrc: u32,
    malformed: u32,
    opcodes: BTreeSet<u8>,
    cycles: u64,
}

impl Seen {
    fn count(&mut self, verdict: &Verdict) {
        match (verdict.malformed, verdict.icrc_ok) {
            (true, _) => self.malformed += 1,
            (_, false) => self.wrong_icrc += 1,
            _ => {
                self.good += 1;
                self.opcodes.insert(verdict.opcode);
            }
        }
    }
}

/// Compares new verdicts with the frames that wait for one.
fn judge(parser: &mut Parser, waiting: &mut VecDeque<Vec<u8>>, seen: &mut Seen) {
    while let Some(verdict) = parser.verdict() {
        let frame = waiting.pop_front().expect("one verdict for each frame");
        compare(&frame, &verdict);
        seen.count(&verdict);
    }
}

#[test]
fn random_frames_get_the_verdict_of_the_wire_crate() {
    let mut seen = Seen::default();
    for_each_seed(SEEDS, |seed| {
        let mut random = SplitMix64::new(seed);
        let mut parser = Parser::new();
        let mut waiting = VecDeque::new();
        for _ in 0..FRAMES_PER_SEED {
            let frame = frames::random(&mut random);
            let gap_limit = [1, 3][random.below(2) as usize];
            let noise = random.number() as u8;
            parser.frame(&frame, || random.below(gap_limit), noise);
            waiting.push_back(frame);
            judge(&mut parser, &mut waiting, &mut seen);
        }
        parser.idle(8);
        judge(&mut parser, &mut waiting, &mut seen);
        assert!(waiting.is_empty(), "{} without a verdict", waiting.len());
        seen.cycles += parser.rtl().cycles();
    });
    let Seen {
        good,
        wrong_icrc,
        malformed,
        opcodes,
        cycles,
    } = seen;
    println!(
        "{good} good frames of {} opcodes, {wrong_icrc} with a wrong ICRC, {malformed} malformed, \
         {cycles} cycles",
        opcodes.len()
    );
    assert!(opcodes.len() >= 65 && wrong_icrc > 0 && malformed > 0);
}

/// Goal: every bit of a frame is covered by the ICRC, or checked, or the network may change it.
/// Method: flip each bit of small frames.
#[test]
fn each_bit_of_a_small_frame_matters_as_the_wire_crate_says() {
    let mut random = SplitMix64::new(1);
    let mut parser = Parser::new();
    let mut frames = 0;
    while frames < 12 {
        let mut frame = frames::random(&mut random);
        let is_good = Frame::parse(&frame).is_ok_and(|frame| frame.icrc_is_valid());
        if !is_good || frame.len() > 140 {
            continue;
        }
        frames += 1;
        for bit in 0..8 * frame.len() {
            frame[bit / 8] ^= 1 << (bit % 8);
            let verdict = parser.verdict_on(&frame).expect("one verdict");
            compare(&frame, &verdict);
            frame[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

/// Bytes of the Ethernet header, and of an IPv4 header without options.
const ETHERNET: usize = 14;
const IPV4: usize = 20;
/// Offset of the checksum of the IPv4 header.
const CHECKSUM: Range<usize> = ETHERNET + 10..ETHERNET + 12;

/// Goal: the fields of the IPv4 header are checked, not only their checksum; for example, fragments
/// are refused. Method: flip each bit of the header, and correct the checksum.
#[test]
fn each_bit_of_an_ipv4_header_matters_as_the_wire_crate_says() {
    let mut random = SplitMix64::new(2);
    let mut parser = Parser::new();
    let mut frames = 0;
    while frames < 4 {
        let good = frames::random(&mut random);
        let is_good = Frame::parse(&good).is_ok_and(|frame| frame.icrc_is_valid());
        if !is_good || good.len() > 140 || good[12..14] != [0x08, 0x00] {
            continue;
        }
        frames += 1;
        for bit in 0..8 * IPV4 {
            let mut frame = good.clone();
            frame[ETHERNET + bit / 8] ^= 1 << (bit % 8);
            frame[CHECKSUM].fill(0);
            let checksum = internet_checksum(&[&frame[ETHERNET..ETHERNET + IPV4]]);
            frame[CHECKSUM].copy_from_slice(&checksum.to_be_bytes());
            let verdict = parser.verdict_on(&frame).expect("one verdict");
            compare(&frame, &verdict);
        }
    }
}
