//! The requester with the card on one side and the host on the other.

use ferroce_rtl::verilated::pcie_requester::PcieRequester;
use ferroce_rtl::{LINE, bytes, words};
use ferroce_rtl_streams::{Beat, RequestSink};
use ferroce_units::random::SplitMix64;

use crate::host::{BASE, Host, LINES, Link, Taken, Verdict};

/// Card tags that are used: fewer than 2^12, more than lines outstanding.
const CARD_TAGS: u16 = 1 << 12;
/// Lines that are read ahead, at most.
const OUTSTANDING_MAX: usize = 3000;
/// Sequence numbers that the hard block has not reported, at most.
const SEQUENCES_MAX: usize = 64;

/// What the card does next.
pub struct Program {
    /// Probability, of 16, that the next line continues the run before it.
    pub runs: u64,
    /// Probabilities, of 16, of a read and of a write in a cycle.
    pub reads: u64,
    pub writes: u64,
    /// Only whole lines.
    pub is_whole: bool,
}

/// A line that the card writes: number, content, strobe.
type Write = (usize, Beat, u64);

pub struct Bench {
    pub rtl: PcieRequester,
    pub random: SplitMix64,
    pub host: Host,
    pub program: Program,
    sink: RequestSink,
    /// Beat of RQ that was not taken yet.
    offered: Option<Beat>,
    read: Option<(usize, u16)>,
    write: Option<Write>,
    next_line: [usize; 2],
    next_tag: u16,
    /// Of 16 cycles: with a request, with a beat of RQ taken, with a completion, with a report.
    pub rates: [u64; 4],
    pub errors: usize,
    pub lines: usize,
    pub bus_master: bool,
    has_dropped: bool,
    reported_lines: usize,
}

impl Bench {
    pub fn new(seed: u64, link: Link, program: Program, straddles: bool) -> Self {
        let mut random = SplitMix64::new(seed);
        let mut rtl = PcieRequester::new();
        rtl.set_rst(1);
        rtl.set_cfg_max_payload((link.max_payload / 128).ilog2() as u8);
        rtl.set_cfg_max_read_req((link.max_read / 128).ilog2() as u8);
        rtl.set_cfg_ext_tag(u8::from(link.tags > 32));
        rtl.set_bus_master(1);
        (0..2).for_each(|_| rtl.cycle());
        rtl.set_rst(0);
        (0..2).for_each(|_| rtl.cycle());
        let rates = match seed % 4 {
            0 => [16; 4],
            _ => core::array::from_fn(|_| 2 + random.below(15)),
        };
        Self {
            rtl,
            random,
            host: Host::new(link, straddles),
            program,
            sink: RequestSink::default(),
            offered: None,
            read: None,
            write: None,
            next_line: [0; 2],
            next_tag: 0,
            rates,
            errors: 0,
            lines: 0,
            bus_master: true,
            has_dropped: false,
            reported_lines: 0,
        }
    }

    fn dice(&mut self, port: usize) -> bool {
        self.random.below(16) < self.rates[port]
    }

    fn line(&mut self, direction: usize) -> usize {
        let line = match self.random.below(16) < self.program.runs {
            true => self.next_line[direction],
            false => self.random.below(LINES) as usize,
        };
        self.next_line[direction] = (line + 1) % LINES as usize;
        line
    }

    /// A strobe: often the whole line, else bytes from or to an end of the line, or inside.
    fn strobe(&mut self) -> u64 {
        if self.program.is_whole || self.random.below(3) > 0 {
            return u64::MAX;
        }
        let length = 1 + self.random.below(64);
        let place = match self.random.below(3) {
            0 => 0,
            1 => 64 - length,
            _ => self.random.below(65 - length),
        };
        (u64::MAX >> (64 - length)) << place
    }

    /// Chooses the next requests of the card.
    pub fn plan(&mut self) {
        if self.read.is_none() && self.dice(0) && self.random.below(16) < self.program.reads {
            let line = self.line(0);
            if self.host.verdicts.len() + self.host.taken.len() < OUTSTANDING_MAX {
                self.read = Some((line, self.next_tag));
                self.next_tag = (self.next_tag + 1) % CARD_TAGS;
                // A lost read keeps its tags for long.
                while self.host.verdicts.contains_key(&self.next_tag)
                    || self.host.taken.iter().any(|read| read.tag == self.next_tag)
                {
                    self.next_tag = (self.next_tag + 1) % CARD_TAGS;
                }
            }
        }
        if self.write.is_none() && self.dice(0) && self.random.below(16) < self.program.writes {
            let line = self.line(1);
            let data = core::array::from_fn(|_| self.random.number() as u8);
            self.write = Some((line, data, self.strobe()));
        }
    }

    /// Number of requests that are offered and not taken.
    pub fn waiting(&self) -> usize {
        usize::from(self.read.is_some()) + usize::from(self.write.is_some())
    }

    fn drive(&mut self) {
        let is_ready = self.dice(1) && self.host.sequences.len() < SEQUENCES_MAX;
        let rtl = &mut self.rtl;
        rtl.set_dma_read_valid(self.read.is_some().into());
        rtl.set_dma_write_valid(self.write.is_some().into());
        rtl.set_bus_master(self.bus_master.into());
        if let Some((line, tag)) = self.read {
            rtl.set_dma_read_iova(BASE + 64 * line as u64);
            rtl.set_dma_read_tag(tag);
        }
        if let Some((line, data, strobe)) = &self.write {
            rtl.set_dma_write_iova(BASE + 64 * *line as u64);
            rtl.set_dma_write_line(words(data, 0));
            rtl.set_dma_write_strobe(*strobe);
        }
        rtl.set_rq_ready(is_ready.into());
        let beat = self.host.rc.first();
        rtl.set_rc_valid(beat.is_some().into());
        if let Some((data, user)) = beat {
            rtl.set_rc_data(words(data, 0));
            rtl.set_rc_user(*user);
        }
        self.report();
        self.rtl.settle();
    }

    /// Reports sequence numbers, up to two in a cycle.
    fn report(&mut self) {
        let mut reported = [None; 2];
        for place in &mut reported {
            if self.random.below(16) < self.rates[3] {
                *place = self.host.sequences.pop_front();
            }
        }
        if reported[0].is_none() && reported[1].is_some() && self.random.below(2) == 0 {
            reported.swap(0, 1);
        }
        let valid = |n: usize| u8::from(reported[n].is_some()) << n;
        self.rtl.set_sequence_valid(valid(0) | valid(1));
        self.rtl
            .set_sequence_0(reported[0].map_or(0, |(number, _)| number));
        self.rtl
            .set_sequence_1(reported[1].map_or(0, |(number, _)| number));
        for (_, lines) in reported.into_iter().flatten() {
            self.reported_lines = lines;
        }
    }

    /// Takes the beat of RQ that leaves in this cycle.
    fn take_beat(&mut self) {
        if self.rtl.rq_valid() == 0 {
            assert!(self.offered.is_none(), "a beat was withdrawn");
            assert!(!self.sink.is_open(), "a gap inside of a TLP");
            return;
        }
        let beat = bytes(self.rtl.rq_data());
        if let Some(offered) = self.offered.take() {
            assert_eq!(offered, beat, "a beat changed while it waited");
        }
        if self.rtl.rq_ready() == 0 {
            self.offered = Some(beat);
            return;
        }
        for request in self.sink.take(&beat, &self.rtl.rq_user()) {
            self.host.execute(&request);
        }
    }

    fn take_requests(&mut self) {
        if self.rtl.dma_write_ready() != 0
            && let Some((line, data, strobe)) = self.write.take()
        {
            let mut image = *self.host.history[line].last().expect("it has one version");
            for at in (0..LINE).filter(|at| strobe >> at & 1 != 0) {
                image[at] = data[at];
            }
            if self.bus_master {
                self.host.history[line].push(image);
            }
        }
        if self.rtl.dma_read_ready() != 0
            && let Some((line, tag)) = self.read.take()
        {
            // A write that is taken in the same cycle is before it.
            let version = self.host.history[line].len() - 1;
            match self.bus_master {
                true => self.host.taken.push_back(Taken { tag, line, version }),
                false => drop(self.host.verdicts.insert(tag, Verdict::Bad)),
            }
        }
    }

    /// Checks the line that comes in this cycle.
    fn take_line(&mut self) {
        if self.rtl.dma_line_valid() == 0 {
            return;
        }
        let tag = self.rtl.dma_line_tag();
        let verdict = self.host.verdicts.remove(&tag);
        let verdict = verdict.unwrap_or_else(|| panic!("line {tag} comes without a read"));
        let is_bad = self.rtl.dma_line_error() != 0;
        match verdict {
            Verdict::Waits => panic!("line {tag} comes before its completion"),
            Verdict::Good(line) => {
                assert!(!is_bad, "line {tag} has an error");
                assert!(
                    bytes(self.rtl.dma_line()) == line,
                    "line {tag} has other data"
                );
            }
            Verdict::Bad => assert!(is_bad, "line {tag} has no error"),
        }
        self.errors += usize::from(is_bad);
        self.lines += 1;
    }

    /// Runs one cycle.
    pub fn cycle(&mut self) {
        self.host.now += 1;
        if self.dice(2) && self.host.rc.len() < 8 {
            self.host.answer(&mut self.random);
            if self.random.below(64) == 0 {
                self.host.answer_lost(&mut self.random);
            }
        }
        self.drive();
        self.take_beat();
        self.take_requests();
        if self.rtl.rc_valid() & self.rtl.rc_ready() != 0 {
            self.host.rc.pop();
        }
        self.rtl.cycle();
        self.take_line();
        // Lines that were dropped have passed, too.
        self.has_dropped |= !self.bus_master;
        let passed = usize::from(self.rtl.passed());
        let behind = self.reported_lines.wrapping_sub(passed) % 4096;
        assert!(
            self.has_dropped || behind < 2048,
            "{passed} of {}",
            self.reported_lines
        );
    }

    /// Runs until everything is answered.
    pub fn drain(&mut self, cycles_max: u64) {
        let end = self.rtl.cycles() + cycles_max;
        while self.waiting() > 0
            || !self.host.verdicts.is_empty()
            || !self.host.taken.is_empty()
            || self.rtl.idle() == 0
            || !self.host.sequences.is_empty()
        {
            assert!(self.rtl.cycles() < end, "requests are left");
            self.cycle();
        }
        for _ in 0..64 {
            self.cycle();
        }
        assert_eq!(self.rtl.passed(), self.rtl.written());
        assert!(self.host.used_tags.is_empty());
        for (line, history) in self.host.history.iter().enumerate() {
            assert!(
                history.last() == Some(&self.host.memory[line]),
                "line {line}"
            );
        }
    }
}
