//! The receive parser in RTL: takes frames, and returns one verdict for each.

use std::collections::VecDeque;

use crate::verilated::roce_rx::RoceRx;
use crate::{LINE, words};

/// Cycles from the last beat of a frame to its verdict.
const VERDICT_LATENCY_CYCLES: u64 = 5;

/// The parser's verdict on a frame, with the names of the module's ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the ports of the module, described there")]
pub struct Verdict {
    pub malformed: bool,
    pub icrc_ok: bool,
    pub is_v6: bool,
    pub opcode: u8,
    pub flags: u8,
    pub p_key: u16,
    pub congestion: u8,
    pub dest_qp: u32,
    pub ack_request: bool,
    pub reserved7: u8,
    pub psn: u32,
    pub destination_mac: u64,
    pub source: [u32; 4],
    pub destination: [u32; 4],
    pub srqn: u32,
    pub address: u64,
    pub r_key: u32,
    pub length: u32,
    pub aeth: u32,
    pub immediate: u32,
    pub q_key: u32,
    pub source_qp: u32,
    pub swap_add: u64,
    pub compare: u64,
    pub original: u64,
    pub payload_offset: u8,
    pub payload_length: u16,
}

impl Verdict {
    fn of(rtl: &RoceRx) -> Self {
        Self {
            malformed: rtl.m_malformed() != 0,
            icrc_ok: rtl.m_icrc_ok() != 0,
            is_v6: rtl.m_is_v6() != 0,
            opcode: rtl.m_opcode(),
            flags: rtl.m_flags(),
            p_key: rtl.m_p_key(),
            congestion: rtl.m_congestion(),
            dest_qp: rtl.m_dest_qp(),
            ack_request: rtl.m_ack_request() != 0,
            reserved7: rtl.m_reserved7(),
            psn: rtl.m_psn(),
            destination_mac: rtl.m_destination_mac(),
            source: rtl.m_source(),
            destination: rtl.m_destination(),
            srqn: rtl.m_srqn(),
            address: rtl.m_address(),
            r_key: rtl.m_r_key(),
            length: rtl.m_length(),
            aeth: rtl.m_aeth(),
            immediate: rtl.m_immediate(),
            q_key: rtl.m_q_key(),
            source_qp: rtl.m_source_qp(),
            swap_add: rtl.m_swap_add(),
            compare: rtl.m_compare(),
            original: rtl.m_original(),
            payload_offset: rtl.m_payload_offset(),
            payload_length: rtl.m_payload_length(),
        }
    }
}

/// The parser, and its verdicts so far.
#[derive(Debug)]
pub struct Parser {
    rtl: RoceRx,
    verdicts: VecDeque<Verdict>,
}

impl Default for Parser {
    fn default() -> Self {
        Self::new()
    }
}

impl Parser {
    /// Returns a parser after reset.
    pub fn new() -> Self {
        let mut rtl = RoceRx::new();
        rtl.set_rst(1);
        (0..VERDICT_LATENCY_CYCLES).for_each(|_| rtl.cycle());
        rtl.set_rst(0);
        Self {
            rtl,
            verdicts: VecDeque::new(),
        }
    }

    /// Returns the module, for its clock cycles and waveforms.
    pub fn rtl(&mut self) -> &mut RoceRx {
        &mut self.rtl
    }

    fn cycle(&mut self) {
        self.rtl.cycle();
        if self.rtl.m_valid() != 0 {
            self.verdicts.push_back(Verdict::of(&self.rtl));
        }
    }

    /// Runs cycles without a beat.
    pub fn idle(&mut self, cycles: u64) {
        self.rtl.set_s_valid(0);
        (0..cycles).for_each(|_| self.cycle());
    }

    /// Sends a frame beat by beat; `gap` returns the number of cycles without a beat before each.
    /// After the last byte of the frame, the last beat contains `noise`.
    pub fn frame(&mut self, bytes: &[u8], mut gap: impl FnMut() -> u64, noise: u8) {
        let mut beats = bytes.chunks(LINE).peekable();
        while let Some(beat) = beats.next() {
            self.idle(gap());
            self.rtl.set_s_valid(1);
            self.rtl.set_s_data(words(beat, noise));
            self.rtl.set_s_bytes(beat.len() as u8);
            self.rtl.set_s_last(u8::from(beats.peek().is_none()));
            self.cycle();
        }
        self.rtl.set_s_valid(0);
    }

    /// Returns the verdict on a single frame.
    pub fn verdict_on(&mut self, bytes: &[u8]) -> Option<Verdict> {
        self.frame(bytes, || 0, 0);
        self.idle(VERDICT_LATENCY_CYCLES);
        self.verdict()
    }

    /// Returns the next verdict, in the order of the frames.
    pub fn verdict(&mut self) -> Option<Verdict> {
        self.verdicts.pop_front()
    }
}
