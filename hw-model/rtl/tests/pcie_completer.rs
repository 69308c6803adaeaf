//! The PCIe completer with a host that accesses the BARs, and sends what the card does not support:
//! the accesses that reach the card, and the completions.

use std::collections::VecDeque;

use ferroce_rtl::seeds::for_each_seed;
use ferroce_rtl::verilated::pcie_completer::PcieCompleter;
use ferroce_rtl::{LINE, bytes, words};
use ferroce_rtl_streams::{bits as field, set_bits as set};
use ferroce_units::random::SplitMix64;

const SEEDS: u64 = 40;
const REQUESTS_PER_SEED: usize = 1000;
const CYCLES_MAX: u64 = 200_000;
/// Non-posted requests that the card takes before it has answered one.
const CREDITS: usize = 8;
/// Request types of PG213.
const MEMORY_READ: u64 = 0;
const MEMORY_WRITE: u64 = 1;
const MESSAGE: u64 = 12;
/// Completion status: unsupported request.
const UNSUPPORTED: u64 = 1;
const COUNT_BITS: u32 = 12;

/// What reaches the card.
#[derive(Debug, PartialEq)]
enum Access {
    Write { is_wide: bool, at: u16, data: u64 },
    Read { is_wide: bool, at: u16 },
    Doorbell { slot: u32, value: u64 },
}

/// A TLP of the host.
struct Request {
    bytes: Vec<u8>,
    enables: [u8; 2],
    is_damaged: bool,
    is_posted: bool,
}

/// The expected completion; the data of a read of BAR0 is known when it reaches the card.
struct Answer {
    descriptor: [u8; 16],
    enables: [u8; 2],
    is_success: bool,
    is_empty: bool,
    data: Option<u64>,
    /// Value of `written` when it was executed.
    after: Option<u16>,
}

struct Bench {
    rtl: PcieCompleter,
    random: SplitMix64,
    requests: VecDeque<Request>,
    /// Beats of the request on CQ that are left.
    beats: VecDeque<([u8; LINE], bool)>,
    current: Option<Request>,
    credits: usize,
    accesses: VecDeque<Access>,
    /// Completions: of all requests that are planned, in their order.
    answers: VecDeque<Answer>,
    /// Index of the answer whose request is executed next.
    executed: usize,
    answered: usize,
    taken: usize,
    counts: [u16; 2],
    passes: bool,
    /// Of 16 cycles: with a beat of CQ, with a doorbell or completion taken, with a line passed.
    rates: [u64; 3],
    next_tag: u8,
}

/// Returns true if a count has reached another one, modulo 2^12.
fn reached(count: u16, other: u16) -> bool {
    count.wrapping_sub(other) % (1 << COUNT_BITS) < 1 << (COUNT_BITS - 1)
}

impl Bench {
    fn new(seed: u64) -> Self {
        let mut random = SplitMix64::new(seed);
        let mut rtl = PcieCompleter::new();
        rtl.set_rst(1);
        (0..2).for_each(|_| rtl.cycle());
        rtl.set_rst(0);
        Self {
            rtl,
            rates: match seed % 4 {
                0 => [16; 3],
                _ => core::array::from_fn(|_| 2 + random.below(15)),
            },
            random,
            requests: VecDeque::new(),
            beats: VecDeque::new(),
            current: None,
            credits: 0,
            accesses: VecDeque::new(),
            answers: VecDeque::new(),
            executed: 0,
            answered: 0,
            taken: 0,
            counts: [0; 2],
            passes: true,
            next_tag: 0,
        }
    }

    fn dice(&mut self, port: usize) -> bool {
        self.random.below(16) < self.rates[port]
    }

    /// Adds a random request, and what the card has to do.
    fn plan(&mut self) {
        let bar = [0, 0, 2, 2, 2, 4, 1][self.random.below(7) as usize];
        let kind = match self.random.below(12) {
            0 => 2 + self.random.below(6),
            1 => MESSAGE + self.random.below(3),
            2..6 => MEMORY_READ,
            _ => MEMORY_WRITE,
        };
        let dwords = match self.random.below(8) {
            0 => 1 + self.random.below(40),
            1..4 => 1 + self.random.below(16),
            _ => 1 + self.random.below(2),
        };
        let at = 4 * self.random.below(if bar == 0 { 4096 } else { 1 << 20 });
        let mut enables = [0xf, if dwords > 1 { 0xf } else { 0 }];
        match self.random.below(8) {
            0 => enables[0] = self.random.below(16) as u8,
            1 if dwords > 1 => enables[1] = self.random.below(16) as u8,
            2 if dwords == 1 => enables[0] = 0,
            _ => {}
        }
        self.add(kind, bar, at, dwords, enables);
    }

    fn add(&mut self, kind: u64, bar: u64, at: u64, dwords: u64, enables: [u8; 2]) {
        let mut descriptor = [0; 16];
        let base = self.random.number() << 22;
        set(&mut descriptor, 2, 62, (base | at) >> 2);
        set(&mut descriptor, 64, 11, dwords);
        set(&mut descriptor, 75, 4, kind);
        set(&mut descriptor, 80, 16, self.random.number());
        set(&mut descriptor, 96, 8, self.next_tag.into());
        self.next_tag = self.next_tag.wrapping_add(1);
        set(&mut descriptor, 112, 3, bar);
        set(&mut descriptor, 121, 6, self.random.number());
        let has_data = !matches!(kind, MEMORY_READ | 2 | 7);
        let payload: Vec<u8> = (0..if has_data { 4 * dwords } else { 0 })
            .map(|_| self.random.number() as u8)
            .collect();
        let is_damaged = has_data && self.random.below(16) == 0;
        let is_posted = kind == MEMORY_WRITE || kind >= MESSAGE;
        if kind == MEMORY_WRITE && !is_damaged {
            self.expect_write(bar, at, &payload, enables);
        }
        if !is_posted {
            self.expect_answer(kind, bar, at, dwords, enables, descriptor);
        }
        self.requests.push_back(Request {
            bytes: [&descriptor[..], &payload].concat(),
            enables,
            is_damaged,
            is_posted,
        });
    }

    fn expect_write(&mut self, bar: u64, at: u64, payload: &[u8], enables: [u8; 2]) {
        let dwords = payload.len() / 4;
        let is_whole = |n: usize| match n {
            0 => enables[0] == 0xf,
            n if n == dwords - 1 => enables[1] == 0xf,
            _ => true,
        };
        let number = |from: usize, to: usize| {
            let mut bytes = [0; 8];
            bytes[..4 * (to - from)].copy_from_slice(&payload[4 * from..4 * to]);
            u64::from_le_bytes(bytes)
        };
        if bar == 0 && (dwords == 1 || dwords == 2 && at % 8 == 0) && (0..dwords).all(is_whole) {
            self.accesses.push_back(Access::Write {
                is_wide: dwords == 2,
                at: at as u16,
                data: number(0, dwords),
            });
        }
        if bar == 2 && dwords <= 16 {
            for n in (0..dwords - 1).filter(|n| (at / 4) as usize % 2 == n % 2) {
                if is_whole(n) && is_whole(n + 1) {
                    self.accesses.push_back(Access::Doorbell {
                        slot: (at / 8) as u32 + (n as u32).div_ceil(2),
                        value: number(n, n + 2),
                    });
                }
            }
        }
    }

    fn expect_answer(
        &mut self,
        kind: u64,
        bar: u64,
        at: u64,
        dwords: u64,
        enables: [u8; 2],
        descriptor: [u8; 16],
    ) {
        let is_empty = dwords == 1 && enables[0] == 0;
        let is_whole = enables[0] == 0xf && (dwords == 1 || enables[1] == 0xf);
        let fits = is_whole && (dwords == 1 || dwords == 2 && at % 8 == 0);
        let is_read = kind == MEMORY_READ && bar == 0 && fits;
        if is_read {
            self.accesses.push_back(Access::Read {
                is_wide: dwords == 2,
                at: at as u16,
            });
        }
        self.answers.push_back(Answer {
            descriptor,
            enables,
            is_success: is_read || kind == MEMORY_READ && is_empty && matches!(bar, 0 | 2),
            is_empty,
            data: (!is_read).then_some(0),
            after: None,
        });
    }

    /// Puts the next request on CQ when its credit is there.
    fn drive(&mut self) {
        if self.beats.is_empty()
            && self.current.is_none()
            && let Some(request) = self.requests.front()
            && (request.is_posted || self.credits > 0)
            && self.dice(0)
        {
            let request = self.requests.pop_front().expect("it is there");
            self.credits -= usize::from(!request.is_posted);
            let count = request.bytes.len().div_ceil(LINE);
            for (n, part) in request.bytes.chunks(LINE).enumerate() {
                let mut beat = [0xa5; LINE];
                beat[..part.len()].copy_from_slice(part);
                self.beats.push_back((beat, n + 1 == count));
            }
            self.current = Some(request);
        }
        self.rtl.set_cq_valid(self.current.is_some().into());
        if let (Some(request), Some((beat, is_last))) = (&self.current, self.beats.front()) {
            let [first, last] = request.enables.map(u32::from);
            self.rtl.set_cq_data(words(beat, 0));
            self.rtl.set_cq_last((*is_last).into());
            let discontinue = u32::from(*is_last && request.is_damaged);
            self.rtl
                .set_cq_user([first | last << 8, 0, 0, discontinue, 0, 0]);
        }
        let is_ready = self.dice(1);
        self.rtl.set_doorbell_ready(is_ready.into());
        let is_ready = self.dice(1);
        self.rtl.set_cc_ready(is_ready.into());
        // The requester holds at most some hundred lines.
        let ahead = self.counts[0].wrapping_sub(self.counts[1]) % (1 << COUNT_BITS);
        if ahead < 500 && self.random.below(8) == 0 {
            self.counts[0] = (self.counts[0] + self.random.below(9) as u16) % (1 << COUNT_BITS);
        }
        if self.passes && ahead > 0 && self.dice(2) {
            self.counts[1] = (self.counts[1] + 1 + ahead / 4) % (1 << COUNT_BITS);
        }
        self.rtl.set_written(self.counts[0]);
        self.rtl.set_passed(self.counts[1]);
        self.rtl.settle();
    }

    fn check_access(&mut self, access: Access) {
        assert_eq!(Some(access), self.accesses.pop_front());
    }

    /// Checks what the card sees in this cycle; returns the data of a read.
    fn take_accesses(&mut self) -> Option<u64> {
        let rtl = &self.rtl;
        if rtl.write_valid() != 0 {
            let is_wide = rtl.write_wide() != 0;
            let data = rtl.write_data() & if is_wide { u64::MAX } else { u32::MAX.into() };
            let at = rtl.write_at();
            self.check_access(Access::Write { is_wide, at, data });
        }
        let rtl = &self.rtl;
        if rtl.doorbell_valid() & rtl.doorbell_ready() != 0 {
            let (slot, value) = (rtl.doorbell_slot(), rtl.doorbell_value());
            self.check_access(Access::Doorbell { slot, value });
        }
        if self.rtl.read_valid() == 0 {
            return None;
        }
        let (is_wide, at) = (self.rtl.read_wide() != 0, self.rtl.read_at());
        self.check_access(Access::Read { is_wide, at });
        Some(self.random.number())
    }

    /// Checks the completion that leaves in this cycle.
    fn take_completion(&mut self) {
        if self.rtl.cc_valid() == 0 {
            return;
        }
        let answer = &self.answers[0];
        let after = answer.after.expect("it was executed");
        assert!(reached(self.counts[1], after), "it passed a posted write");
        if self.rtl.cc_ready() == 0 {
            return;
        }
        let beat = bytes(self.rtl.cc_data());
        let request = &answer.descriptor;
        let dwords = field(request, 64, 11);
        let expected_bytes = if answer.is_empty { 1 } else { 4 * dwords };
        assert_eq!(field(&beat, 0, 7), field(request, 0, 7), "lower address");
        assert_eq!(field(&beat, 16, 13), expected_bytes, "byte count");
        assert_eq!(
            field(&beat, 29, 1) != 0,
            field(request, 75, 4) == 7,
            "locked"
        );
        assert_eq!(field(&beat, 48, 16), field(request, 80, 16), "requester");
        assert_eq!(
            field(&beat, 64, 16),
            field(request, 96, 16),
            "tag, function"
        );
        assert_eq!(
            field(&beat, 89, 6),
            field(request, 121, 6),
            "class, attributes"
        );
        let keep = if answer.is_success {
            assert_eq!((field(&beat, 43, 3), field(&beat, 32, 11)), (0, dwords));
            let data = answer.data.expect("it was read");
            let bits = 32 * dwords as usize;
            assert_eq!(field(&beat, 96, bits), data & (u64::MAX >> (64 - bits)));
            (1 << (3 + dwords)) - 1
        } else {
            assert_eq!(
                (field(&beat, 43, 3), field(&beat, 32, 11)),
                (UNSUPPORTED, 0)
            );
            let [first, last] = answer.enables.map(u64::from);
            assert_eq!(field(&beat, 96, 32), first | last << 4);
            assert_eq!(beat[16..32], answer.descriptor);
            0xff
        };
        assert_eq!((self.rtl.cc_keep(), self.rtl.cc_last()), (keep, 1));
        self.answers.pop_front();
        self.executed -= 1;
        self.answered += 1;
    }

    fn cycle(&mut self) {
        self.drive();
        let read = self.take_accesses();
        self.take_completion();
        self.credits += usize::from(self.rtl.cq_np_req());
        let waiting = self.executed;
        if self.rtl.cq_valid() & self.rtl.cq_ready() != 0 {
            let (_, is_last) = self.beats.pop_front().expect("it is on CQ");
            if is_last {
                let request = self.current.take().expect("as above");
                self.taken += 1;
                if !request.is_posted {
                    // The count when the request is executed is not smaller.
                    self.answers[waiting].after = Some(self.counts[0]);
                    self.executed += 1;
                }
            }
        }
        self.rtl.cycle();
        if let Some(data) = read {
            let last = self.executed - 1;
            self.answers[last].data = Some(data);
            // The count of the cycle in which the data is there.
            self.answers[last].after = Some(self.counts[0]);
            self.rtl.set_read_data(data);
        }
    }

    fn run(&mut self) {
        let end = self.rtl.cycles() + CYCLES_MAX;
        while !self.requests.is_empty() || self.current.is_some() || !self.answers.is_empty() {
            assert!(
                self.rtl.cycles() < end,
                "{} requests left",
                self.requests.len()
            );
            self.cycle();
        }
        (0..40).for_each(|_| self.cycle());
        assert!(self.accesses.is_empty(), "{:?}", self.accesses);
        assert_eq!(self.credits, CREDITS);
        assert_eq!(self.rtl.idle(), 1);
    }
}

/// Goal: each request has exactly the effect and the completion of the table in docs/src/board.md,
/// in order; no completion passes a posted write; all credits come back.
#[test]
fn requests_are_executed_and_answered() {
    for_each_seed(SEEDS, |seed| {
        let mut bench = Bench::new(seed);
        (0..REQUESTS_PER_SEED).for_each(|_| bench.plan());
        bench.run();
    });
}

/// Goal: when no completion can leave, writes still come through, and the host is not given more
/// credits than there is room for. Method: reads and writes by turns while no posted write passes.
#[test]
fn writes_do_not_wait_for_completions() {
    for_each_seed(8, |seed| {
        let mut bench = Bench::new(seed);
        bench.counts = [5, 0];
        bench.passes = false;
        (0..100).for_each(|_| bench.cycle());
        for n in 0..CREDITS as u64 {
            bench.add(MEMORY_READ, 0, 8 * n, 2, [0xf; 2]);
            bench.add(MEMORY_WRITE, 2, 0x1000 + 8 * n, 2, [0xf; 2]);
        }
        let before = bench.taken;
        (0..2000).for_each(|_| bench.cycle());
        assert_eq!(bench.taken - before, 2 * CREDITS);
        assert_eq!((bench.credits, bench.answered), (0, 0));
        for n in 0..40 {
            bench.add(MEMORY_WRITE, 2, 0x1000 + 8 * n, 2, [0xf; 2]);
        }
        (0..4000).for_each(|_| bench.cycle());
        assert_eq!(
            (bench.taken - before, bench.answered),
            (2 * CREDITS + 40, 0)
        );
        bench.passes = true;
        bench.run();
    });
}
