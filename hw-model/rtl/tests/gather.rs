//! The gather unit against a plain memory: pieces at any address and of any length, lines in any
//! order.

mod common;

use std::collections::VecDeque;

use common::lines::Lines;
use common::pieces::piece;
use ferroce_rtl::seeds::for_each_seed;
use ferroce_rtl::verilated::gather::Gather;
use ferroce_rtl::{LINE, bytes};
use ferroce_units::random::SplitMix64;

const SEEDS: u64 = 20;
const PACKETS_PER_SEED: usize = 300;
const CYCLES_MAX: u64 = 400_000;

type Piece = (u64, u32, bool);

/// A beat: its bytes, last, error.
type Beat = ([u8; LINE], bool, bool);

struct Bench {
    rtl: Gather,
    random: SplitMix64,
    lines: Lines,
    rates: [u64; 2],
    pieces: VecDeque<Piece>,
    beats: Vec<Beat>,
}

impl Bench {
    fn new(seed: u64) -> Self {
        let mut random = SplitMix64::new(seed);
        let mut rtl = Gather::new();
        rtl.set_rst(1);
        (0..2).for_each(|_| rtl.cycle());
        rtl.set_rst(0);
        let rates = match seed % 4 {
            0 => [16; 2],
            _ => core::array::from_fn(|_| 1 + random.below(16)),
        };
        let lines = Lines::new(seed, &mut random);
        Self {
            rtl,
            random,
            lines,
            rates,
            pieces: VecDeque::new(),
            beats: Vec::new(),
        }
    }

    fn dice(&mut self, port: usize) -> bool {
        self.random.below(16) < self.rates[port]
    }

    fn cycle(&mut self) {
        let held = self.rtl.piece_valid() != 0;
        let valid = !self.pieces.is_empty() && (held || self.dice(0));
        self.rtl.set_piece_valid(valid.into());
        if let (true, Some(&(iova, bytes, last))) = (valid, self.pieces.front()) {
            self.rtl.set_piece(piece(iova, bytes as u16, last));
        }
        let ready = self.dice(1);
        self.rtl.set_payload_ready(ready.into());
        common::lines::offer!(self.rtl, self.lines);
        self.rtl.settle();
        common::lines::take!(self.rtl, self.lines);
        if self.rtl.payload_valid() != 0 && ready {
            let (last, error) = (self.rtl.payload_last() != 0, self.rtl.payload_error() != 0);
            self.beats
                .push((bytes(self.rtl.payload_data()), last, error));
        }
        let taken = self.rtl.piece_valid() & self.rtl.piece_ready() != 0;
        self.rtl.cycle();
        if taken {
            self.pieces.pop_front();
            self.rtl.set_piece_valid(0);
        }
    }

    fn run_until_beats(&mut self, count: usize) {
        let limit = self.rtl.cycles() + CYCLES_MAX;
        while self.beats.len() < count {
            self.cycle();
            assert!(
                self.rtl.cycles() < limit,
                "{} of {count} beats",
                self.beats.len()
            );
        }
    }
}

/// Returns the pieces of a packet, at most 4096 bytes.
fn random_pieces(random: &mut SplitMix64) -> Vec<Piece> {
    let limit = [1, 3, 16][random.below(3) as usize];
    let mut left = [80, 300, 4096, 4096][random.below(4) as usize];
    let mut pieces = Vec::new();
    for _ in 0..=random.below(limit) {
        let bytes = match random.below(8) {
            0 => 0,
            1..=3 => random.below(u64::min(left, 70) + 1),
            _ => random.below(left + 1),
        };
        let start = match random.below(4) {
            0 => 0,
            _ => random.below(4097 - bytes),
        };
        let page = random.below(1 << 52) << 12;
        pieces.push((page | start, bytes as u32, false));
        left -= bytes;
    }
    pieces.last_mut().expect("at least one").2 = true;
    pieces
}

/// Returns the bytes of a packet, and true if a line of it cannot be read.
fn expected(pieces: &[Piece], lines: &Lines) -> (Vec<u8>, bool) {
    let (mut payload, mut is_wrong) = (Vec::new(), false);
    for &(iova, count, _) in pieces {
        for at in iova..iova + u64::from(count) {
            payload.push(lines.byte(at));
            is_wrong |= lines.is_unreadable(at);
        }
    }
    (payload, is_wrong)
}

/// Takes the beats of the first packet, and compares them. Returns the number of beats.
fn compare(pieces: &[Piece], lines: &Lines, beats: &[Beat]) -> usize {
    let (payload, is_wrong) = expected(pieces, lines);
    let count = payload.len().div_ceil(LINE);
    // An empty piece after whole beats: no beat was known to be the last one.
    let ends_with_nothing =
        pieces.last().is_some_and(|piece| piece.1 == 0) && payload.len() % LINE == 0;
    for (number, (chunk, beat)) in payload.chunks(LINE).zip(beats).enumerate() {
        let is_last = number + 1 == count;
        let is_right = &beat.0[..chunk.len()] == chunk;
        assert!(
            is_right || is_wrong,
            "beat {number} of {count} of {pieces:x?}"
        );
        assert_eq!(
            beat.1,
            is_last && !ends_with_nothing,
            "last, {number} of {pieces:x?}"
        );
        assert!(!is_last || is_wrong || !beat.2, "no error in {pieces:x?}");
    }
    if !is_wrong {
        assert!(beats[..count].iter().all(|beat| !beat.2), "{pieces:x?}");
    } else {
        assert!(beats[count - 1].2, "an error in {pieces:x?}");
    }
    count
}

#[test]
fn random_pieces_become_packed_beats() {
    let (mut cycles, mut beats, mut wrong) = (0, 0, 0);
    for_each_seed(SEEDS, |seed| {
        let mut bench = Bench::new(seed);
        let mut packets = Vec::new();
        let mut count = 0;
        for _ in 0..PACKETS_PER_SEED {
            let pieces = random_pieces(&mut bench.random);
            let (payload, is_wrong) = expected(&pieces, &bench.lines);
            count += payload.len().div_ceil(LINE);
            wrong += usize::from(is_wrong);
            bench.pieces.extend(&pieces);
            packets.push(pieces);
        }
        bench.run_until_beats(count);
        (0..20).for_each(|_| bench.cycle());
        assert_eq!((bench.beats.len(), bench.rtl.idle()), (count, 1));
        let mut rest = &bench.beats[..];
        for pieces in &packets {
            rest = &rest[compare(pieces, &bench.lines, rest)..];
        }
        cycles += bench.rtl.cycles();
        beats += count;
    });
    println!("{beats} beats in {cycles} cycles, {wrong} packets with an error");
    assert!(wrong > 0);
}

/// Goal: one beat per cycle. Method: consecutive pages, each a packet; lines come immediately.
#[test]
fn pages_are_gathered_at_a_line_a_cycle() {
    for start in [0, 1, 63, 64, 100] {
        let mut bench = Bench::new(0);
        bench.lines.set_latency(10);
        for page in 0..100 {
            let (at, behind) = (page << 12 | start, 4096 - start as u32);
            bench.pieces.push_back((at, behind, start == 0));
            if start != 0 {
                bench
                    .pieces
                    .push_back(((page + 1) << 12, start as u32, true));
            }
        }
        bench.run_until_beats(1);
        let begin = bench.rtl.cycles();
        bench.run_until_beats(6400);
        let (cycles, lines) = (bench.rtl.cycles() - begin, bench.lines.count());
        println!("from byte {start} on: 6399 beats in {cycles} cycles, {lines} lines");
        assert!(cycles <= lines + 1, "a line a cycle");
    }
}
