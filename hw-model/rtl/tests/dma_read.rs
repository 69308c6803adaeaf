//! Reads of lines by all clients, against a host that answers in any order and late, with resets in
//! between.

use ferroce_rtl::seeds::for_each_seed;
use ferroce_rtl::verilated::dma_read::DmaRead;
use ferroce_rtl::{LINE, bytes, words};
use ferroce_units::random::SplitMix64;

const SEEDS: u64 = 40;
const CLIENTS: usize = 8;
const RESETS_PER_SEED: usize = 12;
const READS_PER_RESET: u64 = 300;
/// Maximum cycles until all reads between two resets have ended.
const CYCLES_MAX: u64 = 100_000;
/// Number of indices that the clients use: few, so that a late line meets a read with the same tag
/// except for the epoch.
const INDICES: u64 = 6;

type Line = [u8; LINE];

/// Returns the content of the line at an address after a number of resets.
fn line_at(iova: u64, resets: u64) -> Line {
    let mut random = SplitMix64::new(iova ^ resets << 50);
    core::array::from_fn(|_| random.number() as u8)
}

/// A read that the host must answer.
struct Read {
    tag: u16,
    line: Line,
    is_error: bool,
}

/// A read that a client offers, or for which it waits.
#[derive(Clone, Copy)]
struct Asked {
    index: u8,
    iova: u64,
}

#[derive(Default)]
struct Client {
    offered: Option<Asked>,
    /// Reads of other clients that began since it was offered.
    passed: usize,
    waiting: Vec<Asked>,
}

struct Bench {
    rtl: DmaRead,
    random: SplitMix64,
    clients: [Client; CLIENTS],
    reads: Vec<Read>,
    resets: u64,
    /// Number of lines that came after the reset that followed their read.
    late: u64,
    /// Number of cycles, of 16, with a new request, with a read taken, with a line returned.
    rates: [u64; 3],
}

impl Bench {
    fn new(seed: u64) -> Self {
        let mut random = SplitMix64::new(seed);
        let mut rtl = DmaRead::new();
        rtl.set_rst(1);
        rtl.set_reset(1);
        (0..3).for_each(|_| rtl.cycle());
        rtl.set_rst(0);
        rtl.set_reset(0);
        let rates = match seed % 4 {
            0 => [16; 3],
            _ => core::array::from_fn(|_| 1 + random.below(16)),
        };
        Self {
            rtl,
            random,
            clients: core::array::from_fn(|_| Client::default()),
            reads: Vec::new(),
            resets: 0,
            late: 0,
            rates,
        }
    }

    fn dice(&mut self, port: usize) -> bool {
        self.random.below(16) < self.rates[port]
    }

    /// Lets a client request a line, with an unused index.
    fn ask(&mut self) -> bool {
        let client = self.random.below(CLIENTS as u64) as usize;
        let asked = Asked {
            index: self.random.below(INDICES) as u8,
            iova: self.random.below(1 << 40),
        };
        let client = &mut self.clients[client];
        let is_used = client
            .waiting
            .iter()
            .any(|other| other.index == asked.index);
        if client.offered.is_some() || is_used {
            return false;
        }
        client.offered = Some(asked);
        client.passed = 0;
        true
    }

    fn show_requests(&mut self) {
        let (mut valid, mut index, mut iova) = (0, 0, [0; LINE]);
        for (number, client) in self.clients.iter().enumerate() {
            if let Some(asked) = client.offered {
                valid |= 1 << number;
                index |= u64::from(asked.index) << (8 * number);
                iova[8 * number..][..8].copy_from_slice(&asked.iova.to_le_bytes());
            }
        }
        self.rtl.set_read_valid(valid);
        self.rtl.set_read_index(index);
        self.rtl.set_read_iova(words(&iova, 0));
        let is_ready = self.dice(1);
        self.rtl.set_dma_read_ready(is_ready.into());
    }

    /// Lets the host answer a read of any age.
    fn show_line(&mut self) {
        let comes = !self.reads.is_empty() && self.dice(2);
        self.rtl.set_dma_line_valid(comes.into());
        if !comes {
            self.rtl.settle();
            assert_eq!(self.rtl.line_valid(), 0);
            return;
        }
        let place = self.random.below(self.reads.len() as u64) as usize;
        let read = self.reads.swap_remove(place);
        self.rtl.set_dma_line_tag(read.tag);
        self.rtl.set_dma_line_error(read.is_error.into());
        self.rtl.set_dma_line(words(&read.line, 0));
        self.rtl.settle();
        self.take_line(&read);
    }

    /// Checks which client gets a line.
    fn take_line(&mut self, read: &Read) {
        let valid = self.rtl.line_valid();
        assert!(valid.count_ones() <= 1, "{valid:#b}");
        let Some(client) = (0..CLIENTS).find(|client| valid >> client & 1 != 0) else {
            self.late += 1;
            return;
        };
        let index = self.rtl.line_index();
        let waiting = &mut self.clients[client].waiting;
        let place = waiting.iter().position(|asked| asked.index == index);
        let asked = waiting.swap_remove(place.expect("the client waits for it"));
        let line = line_at(asked.iova & !63, self.resets);
        assert_eq!(bytes(self.rtl.line()), line, "the line of an earlier read");
        assert_eq!(self.rtl.line_error() != 0, read.is_error);
    }

    /// Takes the read that begins in this cycle.
    fn take_read(&mut self, is_idle: bool) {
        let ready = self.rtl.read_ready();
        assert!(
            !(is_idle && self.rtl.dma_read_valid() != 0),
            "a read begins"
        );
        let begins = self.rtl.dma_read_valid() & self.rtl.dma_read_ready() != 0;
        assert_eq!(ready.count_ones(), begins.into(), "{ready:#b}");
        if !begins {
            return;
        }
        let number = ready.trailing_zeros() as usize;
        let asked = self.clients[number].offered.take();
        let asked = asked.expect("a client that asks");
        self.clients[number].waiting.push(asked);
        for client in self
            .clients
            .iter_mut()
            .filter(|other| other.offered.is_some())
        {
            client.passed += 1;
            assert!(client.passed < CLIENTS, "a client has no turn");
        }
        let iova = self.rtl.dma_read_iova();
        assert_eq!(iova, asked.iova & !63);
        let tag = self.rtl.dma_read_tag();
        assert!(
            self.reads.iter().all(|read| read.tag != tag),
            "tag {tag:#x} is in use"
        );
        self.reads.push(Read {
            tag,
            line: line_at(iova, self.resets),
            is_error: self.random.below(30) == 0,
        });
    }

    fn step(&mut self, is_idle: bool) {
        self.show_requests();
        self.show_line();
        self.take_read(is_idle);
        self.rtl.cycle();
    }

    /// Resets the function in the middle of reads: the clients forget theirs.
    fn reset(&mut self) {
        self.rtl.set_reset(1);
        let begin = self.rtl.cycles();
        loop {
            self.step(true);
            assert!(self.rtl.cycles() < begin + CYCLES_MAX, "not drained");
            if self.rtl.drained() != 0 {
                break;
            }
        }
        self.rtl.set_reset(0);
        self.clients = core::array::from_fn(|_| Client::default());
        self.resets += 1;
    }

    /// Reads, and resets while some of the reads are outstanding.
    fn run(&mut self) {
        for reset in 0..RESETS_PER_SEED {
            let begin = self.rtl.cycles();
            let mut left = READS_PER_RESET;
            while left > 0 {
                assert!(self.rtl.cycles() < begin + CYCLES_MAX, "{left} reads left");
                if self.dice(0) && self.ask() {
                    left -= 1;
                }
                let is_stopped = self.random.below(50) == 0;
                self.rtl.set_stopped(is_stopped.into());
                self.step(is_stopped);
            }
            self.rtl.set_stopped(0);
            if reset + 1 < RESETS_PER_SEED {
                self.reset();
            }
        }
        let begin = self.rtl.cycles();
        while !self.reads.is_empty() || self.clients.iter().any(|client| client.offered.is_some()) {
            assert!(self.rtl.cycles() < begin + CYCLES_MAX, "reads are left");
            self.step(false);
        }
        assert!(self.clients.iter().all(|client| client.waiting.is_empty()));
    }
}

/// Goal: each client gets its requested lines once, and none that was requested before a reset;
/// clients take turns; a reset waits until tags may be reused. Method: lines come in any order,
/// also after the reset of their requesters.
#[test]
fn lines_go_to_the_reads_of_this_epoch() {
    let mut late = 0;
    for_each_seed(SEEDS, |seed| {
        let mut bench = Bench::new(seed);
        bench.run();
        late += bench.late;
    });
    assert!(late > 0, "no line has come after a reset");
}
