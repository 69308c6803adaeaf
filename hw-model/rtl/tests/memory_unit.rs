//! memory_unit against the model's mpt and mtt: pieces, faults, DMA, hits and misses; with four
//! concurrent clients, and requests of the command engine in between.

mod common;

use std::collections::VecDeque;

use common::host::{BASE, Table};
use ferroce_model::Counters;
use ferroce_model::dma::Dma;
use ferroce_model::ports::host::UntimedHost;
use ferroce_model::translation::mpt::{Access, Mpt, index_of, with_variant};
use ferroce_model::translation::mtt::{Mtt, TranslationTable};
use ferroce_model::translation::protection::ProtectionFault;
use ferroce_rtl::mtt::SHAPE;
use ferroce_rtl::seeds::for_each_seed;
use ferroce_rtl::structs::{MemoryRequest, Piece};
use ferroce_rtl::verilated::memory_unit::MemoryUnit;
use ferroce_rtl::{LINE, bytes, words};
use ferroce_spec::context::{
    AccessRights, LOG_PAGE_SIZES, MemoryEntry, MemoryEntryWord, TranslationEntry,
};
use ferroce_spec::counter::Counter;
use ferroce_units::Instant;
use ferroce_units::random::SplitMix64;
use zerocopy::IntoBytes;

const SEEDS: u64 = 20;
const STEPS_PER_SEED: usize = 300;
const CYCLES_MAX: u64 = 100_000;
const LOG_REGIONS: u8 = 7;
const LOG_PAGES: u8 = 9;
const CLIENTS: usize = 4;
/// A page that is not present.
const FAULT_PAGE: u8 = 7;

/// `entry_op` of the module.
mod op {
    pub const ENTRY: u8 = 1;
    pub const STORE: u8 = 3;
    pub const REMOVE: u8 = 4;
    pub const TABLE: u8 = 5;
    pub const PAGES_TABLE: u8 = 6;
    pub const PAGES_DROP: u8 = 7;
}

#[derive(Debug, Clone, Copy)]
struct Request {
    access: Access,
    check_only: bool,
}

impl Request {
    fn bundle(&self) -> [u32; 6] {
        let access = &self.access;
        let request = MemoryRequest {
            key: access.key,
            pd: access.pd,
            qpn: access.qpn,
            rights: access.rights.bits() as u8,
            address: access.address,
            length: access.length.try_into().expect("a length of 32 bits"),
            check_only: self.check_only,
        };
        request.into()
    }
}

/// Address, bytes and `last` of a piece.
fn fields(piece: Piece) -> (u64, u32, bool) {
    (piece.iova, piece.bytes.into(), piece.last)
}

/// A piece and its fault.
type Answer = ((u64, u32, bool), u8);

fn fault_number(fault: &ProtectionFault) -> u8 {
    match fault {
        ProtectionFault::InvalidKey { .. } => 1,
        ProtectionFault::ProtectionDomain { .. } => 2,
        ProtectionFault::QueuePair { .. } => 3,
        ProtectionFault::Rights { .. } => 4,
        ProtectionFault::Bounds { .. } => 5,
        ProtectionFault::Dma(_) => 6,
        ProtectionFault::Page { .. } => FAULT_PAGE,
        other => panic!("no access has {other}"),
    }
}

/// Both tables of the model, each with the lines that it has read.
struct Model {
    mpt: Mpt,
    mtt: Mtt,
    regions: Table,
    pages: Table,
    counters: Counters,
}

impl Model {
    fn check(&mut self, access: &Access) -> Result<MemoryEntry, ProtectionFault> {
        let dma = &mut Dma::new(&mut self.regions, &mut self.counters, Instant::ZERO);
        let region = self.mpt.check(access, dma)?;
        if region.word.null() || region.word.device_memory() {
            return Err(ProtectionFault::InvalidKey { key: access.key });
        }
        Ok(*region)
    }

    /// Returns the answers that the contract requires.
    fn answers(&mut self, request: &Request) -> Vec<Answer> {
        const NOTHING: Answer = ((0, 0, true), 0);
        let access = &request.access;
        if access.length == 0 {
            return vec![NOTHING];
        }
        let region = match self.check(access) {
            Err(fault) => return vec![((0, 0, true), fault_number(&fault))],
            Ok(_) if request.check_only => return vec![NOTHING],
            Ok(region) => region,
        };
        let (mut answers, mut done) = (Vec::new(), 0);
        while done < access.length {
            let dma = &mut Dma::new(&mut self.pages, &mut self.counters, Instant::ZERO);
            let run = match self.mtt.translate(&region, access.address + done, dma) {
                Ok(run) => run,
                Err(fault) => {
                    answers.push(((0, 0, true), fault_number(&fault)));
                    break;
                }
            };
            let end = run.iova + run.length.min(access.length - done);
            let mut iova = run.iova;
            while iova < end {
                let bytes = (4096 - iova % 4096).min(end - iova);
                done += bytes;
                answers.push(((iova, bytes as u32, done == access.length), 0));
                iova += bytes;
            }
        }
        answers
    }
}

/// An outstanding DMA read of the module: remaining cycles, and the line.
type UnderWay = Option<(u64, bool, [u8; LINE])>;

struct Bench {
    rtl: MemoryUnit,
    random: SplitMix64,
    regions: Table,
    pages: Table,
    counters: Counters,
    under_way: [UnderWay; 2],
    model: Model,
    keys: Vec<u32>,
    waiting: [VecDeque<Request>; CLIENTS],
    accepted: Vec<(usize, Request)>,
    answers: [Vec<Answer>; CLIENTS],
    is_fast: bool,
    seen: [u64; 8],
}

impl Bench {
    fn new(seed: u64) -> Self {
        let mut random = SplitMix64::new(seed);
        let regions = Table::new(vec![[0; LINE]; 1 << LOG_REGIONS]);
        let lines = (0..1 << (LOG_PAGES - 3)).map(|_| random_pages(&mut random));
        let pages = Table::new(lines.collect());
        let mut rtl = MemoryUnit::new();
        rtl.set_rst(1);
        (0..2).for_each(|_| rtl.cycle());
        rtl.set_rst(0);
        let mut bench = Self {
            rtl,
            model: Model {
                mpt: Mpt::new(SHAPE),
                mtt: Mtt::new(SHAPE),
                regions: regions.clone(),
                pages: pages.clone(),
                counters: Counters::new(),
            },
            regions,
            pages,
            counters: Counters::new(),
            under_way: [None; 2],
            keys: Vec::new(),
            waiting: Default::default(),
            accepted: Vec::new(),
            answers: Default::default(),
            is_fast: seed % 4 == 0,
            seen: [0; 8],
            random,
        };
        bench.reset();
        bench
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.random.below(n) == 0
    }

    fn dice(&mut self) -> bool {
        self.is_fast || self.random.below(3) != 0
    }

    /// Sets the DMA inputs of a cycle.
    fn offer_lines(&mut self) {
        let lines = self.under_way.map(|read| match read {
            Some((0, error, line)) => (1, u8::from(error), words(&line, 0)),
            _ => (0, 0, [0x5555_5555; 16]),
        });
        self.rtl.set_mpt_line_valid(lines[0].0);
        self.rtl.set_mpt_line_error(lines[0].1);
        self.rtl.set_mpt_line_data(lines[0].2);
        self.rtl.set_mtt_line_valid(lines[1].0);
        self.rtl.set_mtt_line_error(lines[1].1);
        self.rtl.set_mtt_line_data(lines[1].2);
        for read in &mut self.under_way {
            *read = match *read {
                Some((0, ..)) | None => None,
                Some((cycles, error, line)) => Some((cycles - 1, error, line)),
            };
        }
        let ready = [self.dice(), self.dice()];
        self.rtl.set_mpt_read_ready(ready[0].into());
        self.rtl.set_mtt_read_ready(ready[1].into());
        self.rtl.set_mpt_write_ready(0);
    }

    /// Takes the DMA of a cycle, after the outputs have settled.
    fn take_dma(&mut self) {
        let rtl = &mut self.rtl;
        let reads = [
            (
                rtl.mpt_read_valid() & rtl.mpt_read_ready(),
                rtl.mpt_read_iova(),
                &mut self.regions,
            ),
            (
                rtl.mtt_read_valid() & rtl.mtt_read_ready(),
                rtl.mtt_read_iova(),
                &mut self.pages,
            ),
        ];
        for (number, (taken, iova, table)) in reads.into_iter().enumerate() {
            if taken != 0 {
                let mut line = [0; LINE];
                let error = table.read(iova, &mut line).is_err();
                let latency = 1 + self.random.below(10);
                self.under_way[number] = Some((latency, error, line));
            }
        }
        if rtl.mpt_write_valid() != 0 {
            let (iova, line) = (rtl.mpt_write_iova(), bytes(rtl.mpt_write_line()));
            let error = self.regions.write(iova, &line).is_err();
            rtl.set_mpt_write_ready(1);
            rtl.set_mpt_write_error(error.into());
            rtl.settle();
        }
        let mut count = |counter, pulse: u8| self.counters.add(counter, pulse.into());
        count(Counter::mpt_hits, rtl.mpt_hit());
        count(Counter::mpt_misses, rtl.mpt_miss());
        count(Counter::mtt_hits, rtl.mtt_hit());
        count(Counter::mtt_misses, rtl.mtt_miss());
    }

    /// Offers the requests of a cycle; an offered request stays.
    fn offer_requests(&mut self) {
        let mut valid = self.rtl.request_valid();
        for client in 0..CLIENTS {
            let is_new = valid & 1 << client == 0;
            let Some(bundle) = self.waiting[client].front().map(Request::bundle) else {
                continue;
            };
            if is_new && self.dice() {
                valid |= 1 << client;
                match client {
                    0 => self.rtl.set_request0(bundle),
                    1 => self.rtl.set_request1(bundle),
                    2 => self.rtl.set_request2(bundle),
                    _ => self.rtl.set_request3(bundle),
                }
            }
        }
        self.rtl.set_request_valid(valid);
        let ready = if self.is_fast {
            15
        } else {
            self.random.below(16) as u8
        };
        self.rtl.set_answer_ready(ready);
    }

    fn cycle(&mut self) {
        self.offer_lines();
        self.offer_requests();
        self.rtl.settle();
        self.take_dma();
        let answered = self.rtl.answer_valid() & self.rtl.answer_ready();
        assert!(self.rtl.answer_valid().count_ones() <= 1);
        if answered != 0 {
            let answer = (fields(self.rtl.answer().into()), self.rtl.answer_fault());
            self.answers[answered.trailing_zeros() as usize].push(answer);
        }
        let valid = self.rtl.request_valid();
        let taken = valid & self.rtl.request_ready();
        assert!(taken.count_ones() <= 1);
        self.rtl.cycle();
        if taken != 0 {
            let client = taken.trailing_zeros() as usize;
            let request = self.waiting[client].pop_front().expect("it was offered");
            self.accepted.push((client, request));
            self.rtl.set_request_valid(valid & !taken);
        }
    }

    /// Executes a request of the command engine, and returns its fault.
    fn entry(&mut self, op: u8, key: u32, line: [u32; 16], base: u64, log: u8) -> u8 {
        self.rtl.set_entry_op(op);
        self.rtl.set_entry_key(key);
        self.rtl.set_entry_line(line);
        self.rtl.set_entry_base(base);
        self.rtl.set_entry_log(log);
        self.rtl.set_entry_valid(1);
        let limit = self.rtl.cycles() + CYCLES_MAX;
        loop {
            self.rtl.settle();
            let taken = self.rtl.entry_ready() != 0;
            self.cycle();
            assert!(self.rtl.cycles() < limit, "not taken");
            if taken {
                break;
            }
        }
        self.rtl.set_entry_valid(0);
        self.rtl.settle();
        while self.rtl.entry_done() == 0 {
            self.cycle();
            assert!(self.rtl.cycles() < limit, "not done");
        }
        let fault = self.rtl.entry_fault();
        self.cycle();
        fault
    }

    fn reset(&mut self) {
        let has_regions = !self.one_in(8);
        let has_pages = !self.one_in(8);
        let base = |has: bool| if has { BASE } else { 0 };
        self.model.mpt.reset(base(has_regions), LOG_REGIONS);
        self.model.mtt.reset(base(has_pages), LOG_PAGES);
        let table = self.entry(op::TABLE, 0, [0; 16], base(has_regions), LOG_REGIONS);
        let pages = self.entry(op::PAGES_TABLE, 0, [0; 16], base(has_pages), LOG_PAGES);
        assert_eq!((table, pages), (0, 0));
        if !has_regions {
            self.keys.clear();
        }
    }

    /// Changes the lines that the host refuses.
    fn refuse(&mut self) {
        for line in 0..1 << LOG_REGIONS {
            let unreadable = self.one_in(40);
            self.regions.unreadable[line] = unreadable;
            self.model.regions.unreadable[line] = unreadable;
        }
        for line in 0..1 << (LOG_PAGES - 3) {
            let unreadable = self.one_in(20);
            self.pages.unreadable[line] = unreadable;
            self.model.pages.unreadable[line] = unreadable;
        }
    }

    fn region(&mut self) -> MemoryEntry {
        let mut word = MemoryEntryWord::default();
        word.set_log_page_size(LOG_PAGE_SIZES[self.random.below(3) as usize]);
        word.set_direct(self.one_in(6));
        word.set_null(self.one_in(20));
        word.set_device_memory(self.one_in(20));
        word.set_window(self.one_in(5));
        word.set_window_type_2(self.one_in(2));
        word.set_bound(true);
        let rights = self.random.number() | self.random.number();
        MemoryEntry {
            word,
            key: self.random.below(256) as u32,
            pd: self.random.below(3) as u32,
            access: AccessRights::from_bits(rights as u32 & 0xf),
            start: self.random.number() >> 1 >> self.random.below(40),
            length: 1 + self.random.below(0x10000),
            translation: if word.direct() {
                self.random.number() >> 1
            } else {
                self.random.below((1 << LOG_PAGES) - 8)
            },
            first_page_offset: self.random.below(4096),
            qpn: self.random.below(3) as u32,
            ..MemoryEntry::default()
        }
    }

    fn create(&mut self) {
        let entry = self.region();
        let model = &mut self.model;
        let dma = &mut Dma::new(&mut model.regions, &mut model.counters, Instant::ZERO);
        // The model chooses the number; without a table there is none.
        let Ok(key) = model.mpt.create(entry, None, dma) else {
            return;
        };
        self.keys.push(key);
        let mut stored = MemoryEntry { key, ..entry };
        stored.word.set_valid(true);
        let fault = self.entry(op::STORE, key, words(stored.as_bytes(), 0), 0, 0);
        assert_eq!(fault, 0, "store {key:#x}");
    }

    fn remove(&mut self) {
        if self.keys.is_empty() {
            return;
        }
        let place = self.random.below(self.keys.len() as u64) as usize;
        let key = self.keys.swap_remove(place);
        let model = &mut self.model;
        let dma = &mut Dma::new(&mut model.regions, &mut model.counters, Instant::ZERO);
        let removed = model.mpt.remove(index_of(key), dma);
        removed.expect("all lines can be written");
        let fault = self.entry(op::REMOVE, key, [0; 16], 0, 0);
        assert_eq!(fault, 0, "remove {key:#x}");
    }

    /// Requests an entry, like QUERY_MR.
    fn query(&mut self) {
        let key = self.key();
        let model = &mut self.model;
        let dma = &mut Dma::new(&mut model.regions, &mut model.counters, Instant::ZERO);
        let expected = model.mpt.entry(key, dma).copied();
        let fault = self.entry(op::ENTRY, key, [0; 16], 0, 0);
        match expected {
            Err(expected) => assert_eq!(fault, fault_number(&expected), "entry {key:#x}"),
            Ok(entry) => {
                assert_eq!(
                    (fault, &bytes(self.rtl.entry_answer())[..]),
                    (0, entry.as_bytes())
                );
            }
        }
    }

    /// Changes pages in host memory, and drops them from the cache.
    fn change_pages(&mut self) {
        let (first, count) = (self.random.below(1 << LOG_PAGES), 1 + self.random.below(40));
        let end = (first + count).min(1 << LOG_PAGES);
        for index in first..end {
            let entry = random_page(&mut self.random);
            let (line, at) = (index as usize / 8, index as usize % 8 * 8);
            self.pages.lines[line][at..at + 8].copy_from_slice(&entry);
            self.model.pages.lines[line][at..at + 8].copy_from_slice(&entry);
        }
        self.model.mtt.invalidate(first, count);
        let fault = self.entry(op::PAGES_DROP, count as u32, [0; 16], first, 0);
        assert_eq!(fault, 0);
    }

    fn key(&mut self) -> u32 {
        if self.keys.is_empty() || self.one_in(50) {
            return self.random.number() as u32 >> self.random.below(24);
        }
        let key = self.keys[self.random.below(self.keys.len() as u64) as usize];
        let variant = self.random.number() as u32;
        if self.one_in(20) {
            with_variant(index_of(key), variant)
        } else {
            key
        }
    }

    /// Returns a request for the region of a key, usually an allowed one.
    fn request(&mut self) -> Request {
        let key = self.key();
        let line = self.model.regions.lines.get(index_of(key) as usize);
        let entry: MemoryEntry =
            line.map_or_else(MemoryEntry::default, |line| zerocopy::transmute!(*line));
        let wrong = self.random.below(24);
        let offset = self.random.below(entry.length.max(1));
        let room = entry.length.saturating_sub(offset);
        let rights = match wrong {
            0 => self.random.number() as u32 & 0xf,
            _ => entry.access.bits() & self.random.number() as u32,
        };
        let access = Access {
            pd: entry.pd + u32::from(wrong == 1),
            key,
            address: match wrong {
                2 => self.random.number(),
                3 => entry.start.wrapping_sub(1),
                _ => entry.start.wrapping_add(offset),
            },
            length: match wrong {
                4 => room + 1,
                5 => self.random.number() >> 32,
                6 => room,
                7 => 0,
                _ => self.random.below(room.max(1)),
            },
            rights: AccessRights::from_bits(rights),
            qpn: entry.qpn + u32::from(wrong == 8),
        };
        Request {
            access,
            check_only: self.one_in(8),
        }
    }

    /// Runs some requests of all clients, and compares their answers.
    fn run_requests(&mut self) {
        let count = 1 + self.random.below(30) as usize;
        for _ in 0..count {
            let client = self.random.below(CLIENTS as u64) as usize;
            let request = self.request();
            self.waiting[client].push_back(request);
        }
        self.run_until_idle(count);
        let mut expected: [Vec<Answer>; CLIENTS] = Default::default();
        for (client, request) in std::mem::take(&mut self.accepted) {
            let answers = self.model.answers(&request);
            answers
                .iter()
                .for_each(|&(_, fault)| self.seen[usize::from(fault)] += 1);
            expected[client].extend(answers);
        }
        assert_eq!(std::mem::take(&mut self.answers), expected);
    }

    fn run_until_idle(&mut self, requests: usize) {
        let limit = self.rtl.cycles() + CYCLES_MAX;
        self.rtl.settle();
        while self.accepted.len() < requests || self.rtl.idle() == 0 {
            self.cycle();
            assert!(
                self.rtl.cycles() < limit,
                "{} of {requests}",
                self.accepted.len()
            );
        }
    }

    fn compare(&mut self) {
        assert_eq!(
            self.counters_of_tables(&self.counters),
            self.counters_of_tables(&self.model.counters)
        );
        assert!(
            self.regions == self.model.regions,
            "DMA or memory of the regions"
        );
        assert!(self.pages == self.model.pages, "DMA of the pages");
        for table in [&mut self.regions, &mut self.pages] {
            table.accesses.clear();
        }
        for table in [&mut self.model.regions, &mut self.model.pages] {
            table.accesses.clear();
        }
    }

    fn counters_of_tables(&self, counters: &Counters) -> [u64; 4] {
        [
            Counter::mpt_hits,
            Counter::mpt_misses,
            Counter::mtt_hits,
            Counter::mtt_misses,
        ]
        .map(|counter| counters.value(counter))
    }
}

fn random_page(random: &mut SplitMix64) -> [u8; 8] {
    let mut bits = TranslationEntry::new(random.number()).bits();
    if random.below(16) == 0 {
        bits &= !1; // not present
    }
    bits.to_le_bytes()
}

fn random_pages(random: &mut SplitMix64) -> [u8; LINE] {
    let entries: Vec<u8> = (0..8).flat_map(|_| random_page(random)).collect();
    entries.try_into().expect("eight entries are a line")
}

#[test]
fn random_requests_get_the_answers_of_the_model() {
    let (mut cycles, mut seen) = (0, [0; 8]);
    for_each_seed(SEEDS, |seed| {
        let mut bench = Bench::new(seed);
        for _ in 0..STEPS_PER_SEED {
            match bench.random.below(64) {
                0 if bench.one_in(2) => bench.reset(),
                1..=2 => bench.refuse(),
                3..=18 => bench.create(),
                19..=22 => bench.remove(),
                23..=26 => bench.query(),
                27..=30 => bench.change_pages(),
                _ => bench.run_requests(),
            }
            bench.compare();
        }
        cycles += bench.rtl.cycles();
        seen.iter_mut()
            .zip(bench.seen)
            .for_each(|(sum, n)| *sum += n);
    });
    println!("{cycles} cycles; answers by fault: {seen:?}");
    assert!(seen.iter().all(|&count| count > 0), "{seen:?}");
}

/// Goal: ranges are answered faster than packets of 1024 bytes, 18 beats each, leave. Method: one
/// page, with all needed entries cached.
#[test]
fn cached_ranges_are_answered_in_less_than_eighteen_cycles() {
    const RANGES: usize = 100;
    let mut bench = Bench::new(0);
    bench.pages.lines[0] = [TranslationEntry::new(5 << 12).bits().to_le_bytes(); 8]
        .concat()
        .try_into()
        .expect("a line");
    bench.entry(op::TABLE, 0, [0; 16], BASE, LOG_REGIONS);
    bench.entry(op::PAGES_TABLE, 0, [0; 16], BASE, LOG_PAGES);
    let mut word = MemoryEntryWord::default();
    word.set_log_page_size(12);
    word.set_valid(true);
    let region = MemoryEntry {
        word,
        key: 0x100,
        length: 4096,
        ..MemoryEntry::default()
    };
    bench.entry(op::STORE, region.key, words(region.as_bytes(), 0), 0, 0);
    for _ in 0..RANGES {
        let rights = AccessRights::default();
        let access = Access {
            pd: 0,
            key: region.key,
            address: 1024,
            length: 1024,
            rights,
            qpn: 0,
        };
        bench.waiting[0].push_back(Request {
            access,
            check_only: false,
        });
    }
    let limit = bench.rtl.cycles() + CYCLES_MAX;
    let mut begin = limit;
    while bench.accepted.len() < RANGES {
        bench.cycle();
        assert!(
            bench.rtl.cycles() < limit,
            "{} accepted",
            bench.accepted.len()
        );
        if !bench.accepted.is_empty() {
            begin = begin.min(bench.rtl.cycles());
        }
    }
    let cycles = (bench.rtl.cycles() - begin) as usize / (RANGES - 1);
    bench.run_until_idle(RANGES);
    println!("{cycles} cycles a range");
    assert_eq!(
        bench.answers[0],
        vec![((5 << 12 | 1024, 1024, true), 0); RANGES]
    );
    assert!(cycles < 18);
}
