//! Posted writes of all clients and MSI-X messages: each leaves once and unchanged, clients take
//! turns, and nothing leaves in a reset.

use ferroce_rtl::seeds::for_each_seed;
use ferroce_rtl::verilated::dma_write::DmaWrite;
use ferroce_rtl::{LINE, bytes, structs, words};
use ferroce_rtl_harness::packed;
use ferroce_units::random::SplitMix64;

const SEEDS: u64 = 20;
const CYCLES_PER_SEED: u64 = 1500;
const CLIENTS: usize = 5;
/// The client that may write while the function is stopped.
const LAST: usize = CLIENTS - 1;
/// Words of all clients' `write_t`.
const PORT_WORDS: usize = (structs::Write::BITS as usize * CLIENTS).div_ceil(32);

#[derive(Clone, Copy)]
struct Write {
    iova: u64,
    line: [u8; LINE],
    strobe: u64,
}

#[derive(Clone, Copy)]
struct Message {
    address: u64,
    data: u32,
    vector: u8,
}

struct Bench {
    rtl: DmaWrite,
    random: SplitMix64,
    writes: [Option<Write>; CLIENTS],
    message: Option<Message>,
    /// Writes of others since a source has offered its own; the last one is the message.
    passed: [usize; CLIENTS + 1],
    is_stopped: bool,
    taken: [u64; CLIENTS + 1],
    /// A write that was offered outside in the previous cycle and not taken.
    held: Option<(u64, u64)>,
}

impl Bench {
    fn one_in(&mut self, n: u64) -> bool {
        self.random.below(n) == 0
    }

    fn offer(&mut self) {
        for client in 0..CLIENTS {
            if self.writes[client].is_none() && self.one_in(3) {
                self.writes[client] = Some(Write {
                    iova: self.random.number() & !63,
                    line: core::array::from_fn(|_| self.random.number() as u8),
                    strobe: self.random.number(),
                });
                self.passed[client] = 0;
            }
        }
        if self.message.is_none() && self.one_in(4) {
            self.message = Some(Message {
                address: self.random.number() & !3,
                data: self.random.number() as u32,
                vector: self.random.below(16) as u8,
            });
            self.passed[CLIENTS] = 0;
        }
        let mut port = [0; PORT_WORDS];
        for (client, write) in (0..).zip(&self.writes) {
            let offered = write.map(|write| structs::Write {
                valid: true,
                iova: write.iova,
                line: words(&write.line, 0),
                strobe: write.strobe,
            });
            let (bits, offered) = (structs::Write::BITS, offered.unwrap_or_default());
            let offered: [u32; 21] = offered.into();
            packed::set(&mut port, "client_writes", client * bits, bits, offered);
        }
        self.rtl.set_client_writes(port);
        self.rtl.set_message_valid(self.message.is_some().into());
        if let Some(message) = self.message {
            self.rtl.set_message_address(message.address);
            self.rtl.set_message_data(message.data);
            self.rtl.set_message_vector(message.vector);
        }
    }

    /// Checks the write that leaves in this cycle, and returns its source.
    fn check(&self) -> usize {
        let (iova, line) = (self.rtl.dma_write_iova(), bytes(self.rtl.dma_write_line()));
        let strobe = self.rtl.dma_write_strobe();
        if self.rtl.dma_write_message() != 0 {
            let message = self.message.expect("it was offered");
            assert_eq!((self.rtl.message_ready(), self.rtl.write_ready()), (1, 0));
            assert_eq!(iova, message.address & !63);
            let at = (message.address & 63) as usize;
            assert_eq!(strobe, 0xf << at);
            assert_eq!(line[at..at + 4], message.data.to_le_bytes());
            assert_eq!(self.rtl.dma_write_vector(), message.vector);
            return CLIENTS;
        }
        assert_eq!(self.rtl.message_ready(), 0);
        let ready = self.rtl.write_ready();
        assert_eq!(ready.count_ones(), 1, "{ready:#b}");
        let client = ready.trailing_zeros() as usize;
        let write = self.writes[client].expect("it was offered");
        assert_eq!((iova, strobe), (write.iova, write.strobe));
        assert_eq!(line, write.line);
        client
    }

    fn step(&mut self, is_reset: bool) {
        self.offer();
        let (is_ready, is_error) = (self.one_in(2), self.one_in(8));
        self.rtl.set_reset(is_reset.into());
        self.rtl.set_stopped(self.is_stopped.into());
        self.rtl.set_dma_write_ready(is_ready.into());
        self.rtl.set_dma_write_error(is_error.into());
        self.rtl.settle();
        let is_valid = self.rtl.dma_write_valid() != 0;
        assert!(!(is_valid && is_reset), "a write leaves in a reset");
        let offered = (self.rtl.dma_write_iova(), self.rtl.dma_write_strobe());
        if let Some(held) = self.held.take().filter(|_| !is_reset && !self.is_stopped) {
            assert_eq!((is_valid, offered), (true, held), "an offered write stays");
        }
        self.held = (is_valid && !is_ready && !self.is_stopped).then_some(offered);
        if !(is_valid && is_ready) {
            assert_eq!((self.rtl.write_ready(), self.rtl.message_ready()), (0, 0));
            self.rtl.cycle();
            return;
        }
        assert_eq!(self.rtl.write_error() != 0, is_error);
        let source = self.check();
        assert!(!self.is_stopped || source >= LAST, "client {source}");
        self.taken[source] += 1;
        match source {
            CLIENTS => self.message = None,
            client => self.writes[client] = None,
        }
        for other in 0..=CLIENTS {
            let waits = match other {
                CLIENTS => self.message.is_some(),
                client => self.writes[client].is_some(),
            };
            if waits && !self.is_stopped {
                self.passed[other] += 1;
                assert!(self.passed[other] <= CLIENTS, "source {other} has no turn");
            }
        }
        self.rtl.cycle();
    }
}

#[test]
fn writes_and_messages_leave_once_and_in_turns() {
    let mut taken = [0; CLIENTS + 1];
    for_each_seed(SEEDS, |seed| {
        let mut bench = Bench {
            rtl: DmaWrite::new(),
            random: SplitMix64::new(seed),
            writes: [None; CLIENTS],
            message: None,
            passed: [0; CLIENTS + 1],
            is_stopped: false,
            taken: [0; CLIENTS + 1],
            held: None,
        };
        (0..3).for_each(|_| bench.step(true));
        for _ in 0..CYCLES_PER_SEED {
            let is_reset = bench.one_in(100);
            if bench.one_in(100) {
                bench.is_stopped = !bench.is_stopped;
                bench.passed = [0; CLIENTS + 1];
            }
            if is_reset {
                bench.passed = [0; CLIENTS + 1];
            }
            bench.step(is_reset);
        }
        taken
            .iter_mut()
            .zip(bench.taken)
            .for_each(|(sum, n)| *sum += n);
    });
    println!("{taken:?} writes of each client, messages");
    assert!(taken.iter().all(|count| *count > 100));
}
