//! The hard block and the host: memory, requests in their order, completions in any order.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use ferroce_rtl::LINE;
use ferroce_rtl_streams::{Beat, CompletionSource, DESCRIPTOR, Request, bits};
use ferroce_units::random::SplitMix64;

/// Lines of the host's memory: three pages, so that runs of lines meet page ends.
pub const LINES: u64 = 192;
/// Address of the memory: above 4 GiB.
pub const BASE: u64 = 0x12_3456_7000;
/// Reads that may be answered next: no read waits forever.
const WINDOW: usize = 8;
const RCB: u64 = 64;

const UNSUPPORTED: u64 = 1;
const ABORTED: u64 = 4;
/// Error codes of the hard block (PG213, "Handling of Completion Errors").
const CODE_POISONED: u64 = 1;
const CODE_STATUS: u64 = 2;
const CODE_BYTE_COUNT: u64 = 3;
const CODE_INVALID_TAG: u64 = 6;
const CODE_FLR: u64 = 8;
const CODE_TIMED_OUT: u64 = 9;

/// The parameters of a link.
#[derive(Clone, Copy)]
pub struct Link {
    pub max_payload: u64,
    pub max_read: u64,
    pub tags: usize,
    pub makes_errors: bool,
    /// Largest completion, a multiple of the read completion boundary; random sizes if none.
    pub completion: Option<u64>,
    /// Cycles from a request to its first completion.
    pub latency: u64,
}

/// The expected result of a line.
#[derive(Clone)]
pub enum Verdict {
    /// Not answered yet.
    Waits,
    Good(Beat),
    Bad,
}

/// A read of the card that was taken.
pub struct Taken {
    pub tag: u16,
    pub line: usize,
    pub version: usize,
}

/// A read request that is outstanding.
struct Read {
    tag: u8,
    address: u64,
    lines: Vec<Beat>,
    card_tags: Vec<u16>,
    next: usize,
    /// Cycle of its first completion.
    due: u64,
    /// All later lines are errors.
    is_spoilt: bool,
    /// Lines that were left when this began.
    spoilt_left: usize,
}

/// A completion that is not normal.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// Ends the request without data: error code, status.
    Ends(u64, u64),
    Poisoned,
    Discontinued,
    /// Data of a wrong length, or with a wrong byte count.
    Wrong,
    /// No completion comes before the card's own time-out.
    Lost,
}

pub struct Host {
    pub link: Link,
    pub memory: Vec<Beat>,
    /// Every content that a line has had, in the order of the card's writes.
    pub history: Vec<Vec<Beat>>,
    pub now: u64,
    pub rc: CompletionSource,
    reads: Vec<Read>,
    lost: Vec<Read>,
    pub used_tags: BTreeSet<u8>,
    /// Reads of the card that no request has asked for yet, in their order.
    pub taken: VecDeque<Taken>,
    pub verdicts: BTreeMap<u16, Verdict>,
    /// Sequence numbers of TLPs that completions could pass, with their lines.
    pub sequences: VecDeque<(u8, usize)>,
    pub requests: [usize; 2],
    /// Bytes of writes.
    pub written: usize,
    /// Lines of all writes so far.
    pub write_lines: usize,
    pub faults: BTreeSet<usize>,
}

impl Host {
    pub fn new(link: Link, straddles: bool) -> Self {
        Self {
            link,
            memory: vec![[0; LINE]; LINES as usize],
            history: vec![vec![[0; LINE]]; LINES as usize],
            now: 0,
            rc: CompletionSource::new(straddles),
            reads: Vec::new(),
            lost: Vec::new(),
            used_tags: BTreeSet::new(),
            taken: VecDeque::new(),
            verdicts: BTreeMap::new(),
            sequences: VecDeque::new(),
            requests: [0; 2],
            written: 0,
            write_lines: 0,
            faults: BTreeSet::new(),
        }
    }

    /// Executes a request.
    pub fn execute(&mut self, request: &Request) {
        let descriptor = &request.bytes[..DESCRIPTOR];
        let address = bits(descriptor, 2, 62) << 2;
        let bytes = 4 * bits(descriptor, 64, 11);
        assert!(address / 4096 == (address + bytes - 1) / 4096, "4 KiB");
        let kind = bits(descriptor, 75, 4);
        match kind {
            0 => self.begin_read(request, address, bytes),
            1 => self.write(request, address, bytes),
            kind => panic!("request of type {kind}"),
        }
        self.requests[kind as usize] += 1;
        self.sequences
            .push_back((request.sequence, self.write_lines));
    }

    fn begin_read(&mut self, request: &Request, address: u64, bytes: u64) {
        assert_eq!(request.bytes.len(), DESCRIPTOR);
        assert_eq!((address % 64, bytes % 64), (0, 0));
        assert!(bytes <= self.link.max_read, "MRRS");
        assert_eq!(request.enables, [0xf, 0xf]);
        let tag = bits(&request.bytes, 96, 8) as u8;
        assert!(usize::from(tag) < self.link.tags);
        assert!(self.used_tags.insert(tag), "tag {tag} is in use");
        let first = ((address - BASE) / 64) as usize;
        let count = bytes as usize / 64;
        let taken: Vec<Taken> = self.taken.drain(..count).collect();
        for (n, read) in taken.iter().enumerate() {
            assert_eq!(read.line, first + n, "reads are joined in their order");
            let content = &self.memory[read.line];
            assert!(
                self.history[read.line][read.version..].contains(content),
                "a read passed a write"
            );
            self.verdicts.insert(read.tag, Verdict::Waits);
        }
        self.reads.push(Read {
            tag,
            address,
            lines: self.memory[first..first + count].to_vec(),
            card_tags: taken.iter().map(|read| read.tag).collect(),
            next: 0,
            due: self.now + self.link.latency,
            is_spoilt: false,
            spoilt_left: 0,
        });
    }

    fn write(&mut self, request: &Request, address: u64, bytes: u64) {
        let payload = &request.bytes[DESCRIPTOR..];
        assert_eq!(payload.len() as u64, bytes);
        assert!(bytes <= self.link.max_payload, "MPS");
        let dwords = payload.len() / 4;
        assert_eq!(request.enables[1] == 0, dwords == 1, "last byte enables");
        for (at, byte) in payload.iter().enumerate() {
            let enable = match at / 4 {
                0 => request.enables[0],
                dword if dword == dwords - 1 => request.enables[1],
                _ => 0xf,
            };
            if enable >> (at % 4) & 1 != 0 {
                let address = (address - BASE) as usize + at;
                self.memory[address / LINE][address % LINE] = *byte;
                self.written += 1;
            }
        }
        let lines = (address + bytes - 1) / 64 - address / 64 + 1;
        self.write_lines += lines as usize;
    }

    fn fault(&mut self, random: &mut SplitMix64) -> Fault {
        if !self.link.makes_errors {
            return Fault::None;
        }
        let number = random.below(400) as usize;
        let fault = match number {
            0 => Fault::Ends(CODE_TIMED_OUT, 0),
            1 => Fault::Ends(CODE_FLR, 0),
            2 | 3 => Fault::Ends(CODE_STATUS, UNSUPPORTED),
            4 | 5 => Fault::Ends(CODE_STATUS, ABORTED),
            6 | 7 => Fault::Poisoned,
            8..12 => Fault::Discontinued,
            12..14 => Fault::Wrong,
            14 if random.below(4) == 0 => Fault::Lost,
            _ => return Fault::None,
        };
        self.faults.insert(number);
        fault
    }

    /// Sends a completion of one of the oldest reads.
    pub fn answer(&mut self, random: &mut SplitMix64) {
        if self.link.makes_errors && random.below(60) == 0 {
            self.unexpected(random);
        }
        let due = self.reads.iter().take(WINDOW);
        let due = due.take_while(|read| read.due <= self.now).count();
        if due == 0 {
            return;
        }
        let at = random.below(due as u64) as usize;
        let fault = self.fault(random);
        let mut read = self.reads.remove(at);
        if fault == Fault::Lost {
            self.spoil(&mut read);
            self.lost.push(read);
            return;
        }
        let is_completed = self.complete(&mut read, fault, random);
        if is_completed {
            self.used_tags.remove(&read.tag);
        } else {
            self.reads.insert(at, read);
        }
    }

    /// Sends what comes too late for the card, after it gave the lines up: an error of the hard
    /// block, or even the data.
    pub fn answer_lost(&mut self, random: &mut SplitMix64) {
        let (waiting, late): (Vec<_>, Vec<_>) = std::mem::take(&mut self.lost)
            .into_iter()
            .partition(|read| {
                read.card_tags
                    .iter()
                    .any(|tag| self.verdicts.contains_key(tag))
            });
        self.lost = waiting;
        for mut read in late {
            let fault = match random.below(2) {
                0 => Fault::Ends(CODE_TIMED_OUT, 0),
                _ => Fault::None,
            };
            while !self.complete(&mut read, fault, random) {}
            self.used_tags.remove(&read.tag);
        }
    }

    fn spoil(&mut self, read: &mut Read) {
        read.is_spoilt = true;
        read.spoilt_left = read.lines.len() - read.next;
        for tag in &read.card_tags[read.next..] {
            self.verdicts.insert(*tag, Verdict::Bad);
        }
    }

    /// A completion that belongs to no request: the hard block says so, or it has a tag that the
    /// card does not use.
    fn unexpected(&mut self, random: &mut SplitMix64) {
        let tag = random.below(256) as u8;
        let is_used = usize::from(tag) < self.link.tags;
        let code = if is_used { CODE_INVALID_TAG } else { 0 };
        let completed = random.below(2);
        let low = code << 12 | 64 << 16 | completed << 30 | 16 << 32;
        self.send(low, tag, &[0xee; LINE], false);
    }

    /// Sends the next completion of a read; returns true if it is the last one.
    fn complete(&mut self, read: &mut Read, fault: Fault, random: &mut SplitMix64) -> bool {
        let left = read.lines.len() - read.next;
        let address = read.address + 64 * read.next as u64;
        let mut lines = match self.link.completion {
            Some(bytes) => ((address / bytes + 1) * bytes - address).div_ceil(RCB) as usize,
            None => 1 + random.below(left as u64) as usize,
        };
        lines = lines.min(left);
        let mut is_completed = lines == left;
        let (mut code, mut status, mut poisoned) = (0, 0, 0);
        let mut dwords = 16 * lines as u64;
        let mut byte_count = 64 * left as u64;
        match fault {
            Fault::Ends(of_block, of_host) => {
                (code, status, dwords, is_completed) = (of_block, of_host, 0, true);
            }
            Fault::Poisoned => (code, poisoned) = (CODE_POISONED, 1),
            Fault::Wrong if random.below(2) == 0 => {
                (code, dwords, is_completed) = (CODE_BYTE_COUNT, dwords + 3, true);
            }
            Fault::Wrong => (byte_count, is_completed) = (byte_count + 64, true),
            // As if the completion before this one had not come.
            Fault::None if read.is_spoilt && random.below(2) == 0 => {
                byte_count = 64 * read.spoilt_left as u64;
            }
            _ => {}
        }
        let is_bad = !matches!(fault, Fault::None | Fault::Discontinued);
        if is_bad && !read.is_spoilt {
            self.spoil(read);
        } else if !read.is_spoilt {
            for n in read.next..read.next + lines {
                let verdict = match fault {
                    Fault::Discontinued => Verdict::Bad,
                    _ => Verdict::Good(read.lines[n]),
                };
                self.verdicts.insert(read.card_tags[n], verdict);
            }
        }
        let mut payload: Vec<u8> = read.lines[read.next..read.next + lines].concat();
        payload.resize(4 * dwords as usize, 0xdd);
        let low = (address & 0xfff)
            | code << 12
            | byte_count << 16
            | u64::from(is_completed) << 30
            | dwords << 32
            | status << 43
            | poisoned << 46;
        self.send(low, read.tag, &payload, fault == Fault::Discontinued);
        read.next += lines;
        is_completed
    }

    fn send(&mut self, low: u64, tag: u8, payload: &[u8], discontinue: bool) {
        let mut tlp = low.to_le_bytes().to_vec();
        tlp.extend(u32::from(tag).to_le_bytes());
        tlp.extend(payload);
        self.rc.send(&tlp, discontinue);
    }
}
