//! The PCIe shim's requester against a host that interprets its TLPs like the hard block: the
//! written data, its order, and the results of reads.

use std::collections::{BTreeSet, VecDeque};

use ferroce_rtl::seeds::for_each_seed;
use ferroce_rtl::verilated::pcie_requester::PcieRequester;
use ferroce_rtl::{LINE, bytes, words};
use ferroce_units::random::SplitMix64;

const SEEDS: u64 = 40;
const REQUESTS_PER_SEED: usize = 1500;
const CYCLES_MAX: u64 = 400_000;
/// As in build.rs.
const TAGS: usize = 16;
/// Lines of the host's memory: few, so that reads meet writes.
const LINES: u64 = 24;
/// Address of the memory: above 4 GiB.
const BASE: u64 = 0x12_3456_7000;
const DESCRIPTOR: usize = 16;
/// Descriptor of a completion.
const RC_DESCRIPTOR: usize = 12;
/// Status of a completion: unsupported request.
const UNSUPPORTED: u64 = 1;
/// Error code of the hard block: completion timeout.
const TIMED_OUT: u64 = 9;

type Line = [u8; LINE];

/// A read that the host must still answer.
struct Read {
    tag: u8,
    line: Line,
}

/// The expected result of a read.
struct Expected {
    tag: u16,
    line: Option<Line>,
}

/// The host with the hard block.
struct Host {
    memory: Vec<Line>,
    /// Bytes of the request that is being received.
    request: Vec<u8>,
    reads: Vec<Read>,
    /// Beats of completions, with their last one marked.
    beats: VecDeque<(Line, bool)>,
    used_tags: BTreeSet<u8>,
    answered: Vec<(u8, bool)>,
}

fn bits(descriptor: &[u8], at: usize, count: usize) -> u64 {
    let mut low = [0; 16];
    low[..descriptor.len()].copy_from_slice(descriptor);
    let value = u128::from_le_bytes(low) >> at;
    value as u64 & ((1 << count) - 1)
}

impl Host {
    /// Takes a whole request.
    fn execute(&mut self, enables: [u8; 2]) {
        let request = std::mem::take(&mut self.request);
        let descriptor = &request[..DESCRIPTOR];
        let address = bits(descriptor, 2, 62) << 2;
        let dwords = bits(descriptor, 64, 11) as usize;
        let tag = bits(descriptor, 96, 8) as u8;
        assert!(address / 4096 == (address + 4 * dwords as u64 - 1) / 4096);
        let line = ((address - BASE) / LINE as u64) as usize;
        let start = address as usize % LINE;
        match bits(descriptor, 75, 4) {
            0 => {
                assert_eq!((request.len(), dwords, start), (DESCRIPTOR, 16, 0));
                assert_eq!(enables, [0xf, 0xf]);
                assert!(self.used_tags.insert(tag), "tag {tag} is in use");
                assert!(usize::from(tag) < TAGS);
                let line = self.memory[line];
                self.reads.push(Read { tag, line });
            }
            1 => {
                let payload = &request[DESCRIPTOR..];
                assert_eq!(payload.len(), 4 * dwords);
                assert_eq!(enables[1] == 0, dwords == 1, "last byte enables");
                for (at, byte) in payload.iter().enumerate() {
                    let enable = match at / 4 {
                        0 => enables[0],
                        dword if dword == dwords - 1 => enables[1],
                        _ => 0xf,
                    };
                    if enable >> (at % 4) & 1 != 0 {
                        self.memory[line][start + at] = *byte;
                    }
                }
            }
            kind => panic!("request of type {kind}"),
        }
    }

    /// Answers any outstanding read; sometimes with an error, or with an unexpected completion.
    fn answer(&mut self, random: &mut SplitMix64, makes_errors: bool) {
        if self.reads.is_empty() {
            return;
        }
        let read = self
            .reads
            .swap_remove(random.below(self.reads.len() as u64) as usize);
        let (code, status, poisoned) = match random.below(60) {
            0 if makes_errors => (TIMED_OUT, 0, 0),
            1 if makes_errors => (0, UNSUPPORTED, 0),
            2 if makes_errors => (0, 0, 1),
            _ => (0, 0, 0),
        };
        let is_bad = code != 0 || status != 0 || poisoned != 0;
        let has_data = code == 0 && status == 0;
        if makes_errors && random.below(20) == 0 {
            let unknown = random.below(256 - TAGS as u64) as u8 + TAGS as u8;
            self.complete(unknown, 0, 0, 0, Some(&read.line));
        }
        self.complete(
            read.tag,
            code,
            status,
            poisoned,
            has_data.then_some(&read.line),
        );
        self.answered.push((read.tag, is_bad));
    }

    fn complete(&mut self, tag: u8, code: u64, status: u64, poisoned: u64, line: Option<&Line>) {
        let dwords = if line.is_some() { 16 } else { 0 };
        let low = code << 12 | 64 << 16 | 1 << 30 | dwords << 32 | status << 43 | poisoned << 46;
        let mut all = low.to_le_bytes().to_vec();
        all.extend(u32::from(tag).to_le_bytes());
        assert_eq!(all.len(), RC_DESCRIPTOR);
        all.extend(line.into_iter().flatten());
        let count = all.len().div_ceil(LINE);
        for (number, beat) in all.chunks(LINE).enumerate() {
            let mut line = [0xa5; LINE];
            line[..beat.len()].copy_from_slice(beat);
            self.beats.push_back((line, number + 1 == count));
        }
    }
}

/// A request of the card: a read, or a write of a run of bytes.
enum Request {
    Read(u64),
    Write(u64, Line, u64),
}

struct Bench {
    rtl: PcieRequester,
    random: SplitMix64,
    host: Host,
    /// The expected memory after the card's requests, in their order.
    image: Vec<Line>,
    expected: Vec<Expected>,
    /// Number of cycles, of 16, with a request, with a TLP taken, with a completion.
    rates: [u64; 3],
    makes_errors: bool,
    errors: usize,
}

impl Bench {
    fn new(seed: u64) -> Self {
        let mut random = SplitMix64::new(seed);
        let mut rtl = PcieRequester::new();
        rtl.set_rst(1);
        (0..2).for_each(|_| rtl.cycle());
        rtl.set_rst(0);
        let rates = match seed % 4 {
            0 => [16; 3],
            _ => core::array::from_fn(|_| 1 + random.below(16)),
        };
        let memory = vec![[0; LINE]; LINES as usize];
        Self {
            rtl,
            random,
            image: memory.clone(),
            host: Host {
                memory,
                request: Vec::new(),
                reads: Vec::new(),
                beats: VecDeque::new(),
                used_tags: BTreeSet::new(),
                answered: Vec::new(),
            },
            expected: Vec::new(),
            rates,
            makes_errors: seed % 4 != 0,
            errors: 0,
        }
    }

    fn dice(&mut self, port: usize) -> bool {
        self.random.below(16) < self.rates[port]
    }

    fn request(&mut self) -> Request {
        let iova = BASE + LINE as u64 * self.random.below(LINES);
        if self.random.below(2) == 0 {
            return Request::Read(iova);
        }
        let line = core::array::from_fn(|_| self.random.number() as u8);
        let length = match self.random.below(4) {
            0 => 64,
            _ => 1 + self.random.below(64),
        };
        let strobe = (u64::MAX >> (64 - length)) << self.random.below(65 - length);
        Request::Write(iova, line, strobe)
    }

    /// Offers a read and a write to the requester, which takes at most one per cycle.
    fn offer(&mut self, read: Option<&(u64, u16)>, write: Option<&(u64, Line, u64)>) {
        self.rtl.set_dma_read_valid(read.is_some().into());
        self.rtl.set_dma_write_valid(write.is_some().into());
        if let Some(&(iova, tag)) = read {
            self.rtl.set_dma_read_iova(iova);
            self.rtl.set_dma_read_tag(tag);
        }
        if let Some((iova, line, strobe)) = write {
            self.rtl.set_dma_write_iova(*iova);
            self.rtl.set_dma_write_line(words(line, 0));
            self.rtl.set_dma_write_strobe(*strobe);
        }
        let is_ready = self.dice(1);
        self.rtl.set_rq_ready(is_ready.into());
        if self.dice(2) {
            self.host.answer(&mut self.random, self.makes_errors);
        }
        let beat = self.host.beats.pop_front();
        self.rtl.set_rc_valid(beat.is_some().into());
        if let Some((data, is_last)) = beat {
            self.rtl.set_rc_data(words(&data, 0));
            self.rtl.set_rc_last(is_last.into());
        }
        self.rtl.settle();
    }

    /// Takes the beat of a request that leaves in this cycle.
    fn take_beat(&mut self) {
        if self.rtl.rq_valid() & self.rtl.rq_ready() == 0 {
            return;
        }
        let keep = self.rtl.rq_keep();
        let dwords = keep.trailing_ones() as usize;
        assert_eq!(keep.count_ones() as usize, dwords, "{keep:#x}");
        let beat = bytes(self.rtl.rq_data());
        self.host.request.extend(&beat[..4 * dwords]);
        if self.rtl.rq_last() != 0 {
            let user = self.rtl.rq_user()[0];
            self.host
                .execute([(user & 0xf) as u8, (user >> 8 & 0xf) as u8]);
        }
    }

    /// Checks the line that comes in this cycle.
    fn take_line(&mut self) {
        if self.rtl.dma_line_valid() == 0 {
            return;
        }
        let tag = self.rtl.dma_line_tag();
        let (pcie_tag, is_bad) = self.host.answered.remove(0);
        assert!(self.host.used_tags.remove(&pcie_tag));
        let found = self
            .expected
            .iter()
            .position(|expected| expected.tag == tag);
        let expected = self
            .expected
            .swap_remove(found.expect("a read of this tag"));
        assert_eq!(self.rtl.dma_line_error() != 0, is_bad);
        self.errors += usize::from(is_bad);
        if !is_bad {
            assert_eq!(Some(bytes(self.rtl.dma_line())), expected.line);
        }
    }

    /// Runs until all requests are answered; returns the cycles.
    fn run(&mut self) -> u64 {
        let begin = self.rtl.cycles();
        let (mut left, mut next_tag) = (REQUESTS_PER_SEED, 0_u16);
        let (mut read, mut write) = (None, None);
        while left > 0 || read.is_some() || write.is_some() || !self.expected.is_empty() {
            assert!(
                self.rtl.cycles() < begin + CYCLES_MAX,
                "{left} requests left"
            );
            if left > 0 && self.dice(0) {
                match self.request() {
                    Request::Read(iova) if read.is_none() => {
                        read = Some((iova, next_tag));
                        next_tag = (next_tag + 1) % (1 << 11);
                        left -= 1;
                    }
                    Request::Write(iova, line, strobe) if write.is_none() => {
                        write = Some((iova, line, strobe));
                        left -= 1;
                    }
                    _ => {}
                }
            }
            self.offer(read.as_ref(), write.as_ref());
            self.take_beat();
            let takes_read = read.is_some() && self.rtl.dma_read_ready() != 0;
            let takes_write = write.is_some() && self.rtl.dma_write_ready() != 0;
            assert!(!(takes_read && takes_write));
            if takes_read {
                let (iova, tag) = read.take().expect("it was offered");
                let line = Some(self.image[((iova - BASE) / LINE as u64) as usize]);
                self.expected.push(Expected { tag, line });
            }
            if takes_write {
                let (iova, line, strobe): (u64, Line, u64) = write.take().expect("as above");
                let image = &mut self.image[((iova - BASE) / LINE as u64) as usize];
                for at in (0..LINE).filter(|at| strobe >> at & 1 != 0) {
                    image[at] = line[at];
                }
            }
            self.rtl.cycle();
            self.take_line();
        }
        self.rtl.cycles() - begin
    }
}

/// Goal: writes change exactly the bytes of their strobes; each read returns the line after all
/// earlier writes, once; no outstanding tag is reused; errors and unexpected completions are
/// handled. Method: a host that answers in any order.
#[test]
fn requests_are_executed_in_order() {
    let mut errors = 0;
    for_each_seed(SEEDS, |seed| {
        let mut bench = Bench::new(seed);
        bench.run();
        // The last writes are in flight, and no read is outstanding.
        bench.host.complete(3, 0, 0, 0, Some(&[0; LINE]));
        for _ in 0..64 {
            bench.offer(None, None);
            bench.take_beat();
            bench.rtl.cycle();
            assert_eq!(bench.rtl.dma_line_valid(), 0);
        }
        assert_eq!(bench.host.memory, bench.image);
        assert!(bench.host.used_tags.is_empty());
        errors += bench.errors;
    });
    assert!(errors > 0, "no completion had an error");
}

/// Goal: the requester does not slow down a host that never stalls: a read takes one cycle, a write
/// one or two.
#[test]
fn a_fast_host_takes_a_beat_each_cycle() {
    let mut bench = Bench::new(0);
    let cycles = bench.run();
    let most = REQUESTS_PER_SEED as u64 * 9 / 5;
    assert!(
        cycles < most,
        "{cycles} cycles for {REQUESTS_PER_SEED} requests"
    );
}
