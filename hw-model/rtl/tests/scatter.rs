//! Checks the rules of scatter: each byte of a piece is written once, at its address, in the order
//! of the pieces; no other byte is written; frames are done when their writes are.

mod common;

use std::collections::VecDeque;

use common::pieces::piece;
use ferroce_rtl::seeds::for_each_seed;
use ferroce_rtl::verilated::scatter::Scatter;
use ferroce_rtl::{LINE, bytes, words};
use ferroce_units::random::SplitMix64;

const SEEDS: u64 = 20;
const FRAMES_PER_SEED: usize = 300;
const CYCLES_MAX: u64 = 2_000_000;

/// A written line.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Write {
    iova: u64,
    strobe: u64,
    /// Bytes without a strobe are zero.
    line: [u8; LINE],
}

impl Write {
    fn new(iova: u64, strobe: u64, line: [u8; LINE]) -> Self {
        let byte = |i: usize| if strobe >> i & 1 != 0 { line[i] } else { 0 };
        let line = core::array::from_fn(byte);
        Self { iova, strobe, line }
    }
}

struct Piece {
    port: [u32; 3],
    is_drop: bool,
}

struct Beat {
    data: Vec<u8>,
    is_last: bool,
}

struct Bench {
    rtl: Scatter,
    random: SplitMix64,
    beats: VecDeque<Beat>,
    pieces: VecDeque<Piece>,
    /// Expected writes, with their frames.
    writes: VecDeque<(Write, u16)>,
    frames: u16,
    taken: usize,
}

impl Bench {
    fn new(seed: u64) -> Self {
        let mut rtl = Scatter::new();
        rtl.set_rst(1);
        (0..4).for_each(|_| rtl.cycle());
        rtl.set_rst(0);
        Self {
            rtl,
            random: SplitMix64::new(seed),
            beats: VecDeque::new(),
            pieces: VecDeque::new(),
            writes: VecDeque::new(),
            frames: 0,
            taken: 0,
        }
    }

    /// Adds a frame with this payload.
    fn payload(&mut self, payload: &[u8]) {
        self.frames = self.frames.wrapping_add(1);
        let count = payload.chunks(LINE).count();
        let beats = payload.chunks(LINE).enumerate().map(|(i, data)| Beat {
            data: data.to_vec(),
            is_last: i + 1 == count,
        });
        self.beats.extend(beats);
        if payload.is_empty() {
            self.beats.push_back(Beat {
                data: Vec::new(),
                is_last: true,
            });
        }
    }

    /// Adds a piece of the newest frame: its bytes, and their address.
    fn piece(&mut self, iova: u64, data: &[u8], is_last: bool) {
        let port = piece(iova, data.len() as u16, is_last);
        let is_drop = false;
        self.pieces.push_back(Piece { port, is_drop });
        let mut at = 0;
        while at < data.len() {
            let place = (iova + at as u64) as usize % LINE;
            let count = (LINE - place).min(data.len() - at);
            let mut line = [0; LINE];
            line[place..place + count].copy_from_slice(&data[at..at + count]);
            let strobe = (u64::MAX >> (LINE - count)) << place;
            let line_iova = iova + at as u64 - place as u64;
            let write = Write::new(line_iova, strobe, line);
            self.writes.push_back((write, self.frames));
            at += count;
        }
    }

    /// Drops the newest frame, or the rest of it.
    fn drop_rest(&mut self) {
        let bytes = self.random.below(4097) as u16;
        let port = piece(self.random.number(), bytes, true);
        let is_drop = true;
        self.pieces.push_back(Piece { port, is_drop });
    }

    fn random_iova(&mut self) -> u64 {
        let iova = self.random.number() >> 1;
        match self.random.below(3) {
            0 => iova & !0xfff,
            1 => iova & !63,
            _ => iova,
        }
    }

    fn random_frame(&mut self) {
        let limit = [1, 20, 140, 1100, 4097][self.random.below(5) as usize];
        let payload: Vec<u8> = (0..self.random.below(limit))
            .map(|_| self.random.number() as u8)
            .collect();
        self.payload(&payload);
        let mut at = 0;
        while at < payload.len() {
            if self.random.below(30) == 0 {
                return self.drop_rest();
            }
            let limit = [4, 64, 4096][self.random.below(3) as usize];
            let rest = payload.len() - at;
            let count = rest.min(1 + self.random.below(limit) as usize);
            let iova = self.random_iova();
            // Sometimes the rest is dropped without an explicit piece.
            let is_last = count == rest || self.random.below(60) == 0;
            self.piece(iova, &payload[at..at + count], is_last);
            at += count;
            if is_last {
                return;
            }
        }
        match self.random.below(2) {
            0 => self.piece(self.frames.into(), &[], true),
            _ => self.drop_rest(),
        }
    }

    /// Offers the first beat and the first piece.
    fn set_inputs(&mut self, has_beat: bool, has_piece: bool) {
        let beat = self.beats.front().filter(|_| has_beat);
        self.rtl.set_payload_valid(beat.is_some().into());
        if let Some(beat) = beat {
            self.rtl.set_payload_data(words(&beat.data, 0xee));
            self.rtl.set_payload_bytes(beat.data.len() as u8);
            self.rtl.set_payload_last(beat.is_last.into());
        }
        let piece = self.pieces.front().filter(|_| has_piece);
        self.rtl.set_place_valid(piece.is_some().into());
        if let Some(piece) = piece {
            self.rtl.set_place(piece.port);
            self.rtl.set_place_drop(piece.is_drop.into());
        }
    }

    /// Returns the newest frame up to which all writes were taken, if all tokens have come.
    fn done_limit(&self) -> u16 {
        match self.writes.front() {
            Some((_, frame)) => frame.wrapping_sub(1),
            None => self.frames,
        }
    }

    fn take_write(&mut self) {
        let line = bytes(self.rtl.write_line());
        let write = Write::new(self.rtl.write_iova(), self.rtl.write_strobe(), line);
        let expected = self.writes.pop_front().map(|(write, _)| write);
        assert_eq!(Some(write), expected);
        self.taken += 1;
    }

    /// Runs until all is done; inputs and outputs wait in this many of 8 cycles.
    fn run(&mut self, gaps: [u64; 3]) {
        let limit = self.rtl.cycles() + CYCLES_MAX;
        let (mut beat_waits, mut piece_waits) = (false, false);
        while self.rtl.frames_done() != self.frames || self.rtl.idle() == 0 {
            beat_waits |= self.random.below(8) >= gaps[0];
            piece_waits |= self.random.below(8) >= gaps[1];
            self.set_inputs(beat_waits, piece_waits);
            let is_taken = self.random.below(8) >= gaps[2];
            self.rtl.set_write_ready(is_taken.into());
            self.rtl.settle();
            if self.rtl.payload_valid() & self.rtl.payload_ready() != 0 {
                self.beats.pop_front();
                beat_waits = false;
            }
            if self.rtl.place_valid() & self.rtl.place_ready() != 0 {
                self.pieces.pop_front();
                piece_waits = false;
            }
            if is_taken && self.rtl.write_valid() != 0 {
                self.take_write();
            }
            self.rtl.cycle();
            let ahead = self.rtl.frames_done().wrapping_sub(self.done_limit());
            assert!(ahead == 0 || ahead > 0x8000, "{ahead} frames too early");
            assert!(self.rtl.cycles() < limit, "it does not end");
        }
        assert!(self.writes.is_empty() && self.beats.is_empty() && self.pieces.is_empty());
    }
}

#[test]
fn every_byte_has_its_place() {
    let mut written = 0;
    for_each_seed(SEEDS, |seed| {
        let mut bench = Bench::new(seed);
        for _ in 0..FRAMES_PER_SEED {
            bench.random_frame();
        }
        let gaps = [0; 3].map(|_| bench.random.below(8));
        bench.run(gaps);
        written += bench.taken;
    });
    println!("{written} lines written");
}

#[test]
fn a_line_is_written_in_each_cycle() {
    for iova in [0x1000, 0x1001, 0x103f] {
        let mut bench = Bench::new(0);
        let payload: Vec<u8> = (0..4096).map(|i| (i / 7) as u8).collect();
        for _ in 0..50 {
            bench.payload(&payload);
            bench.piece(iova, &payload[..2048], false);
            bench.piece(iova + 0x1_0000, &payload[2048..], true);
        }
        let before = bench.rtl.cycles();
        bench.run([0, 0, 0]);
        // One cycle for each line; unaligned ones need two parts of a line at each end.
        let lines = bench.taken as u64;
        let cycles = bench.rtl.cycles() - before;
        println!("{iova:#x}: {lines} lines in {cycles} cycles");
        assert!(cycles < lines + 60, "{lines} lines in {cycles} cycles");
    }
}
