//! Stage `dma`: payload of all lengths at all alignments. A loopback QP exercises the DMA engine:
//! RDMA WRITE reads the source and writes the destination, an inline WRITE only writes, RDMA READ
//! moves data in the other direction through the responder.

use ferroce_driver::bus::PAGE_SIZE;
use ferroce_driver::{MemoryAccess, SendData, SendOperation, Service};

use super::bench::Bench;
use super::hint;
use super::outcome::{Failure, Outcome};
use super::pair::Pair;
use super::pattern::{GUARD_LENGTH, Memory};

/// Lengths of the payload.
pub const LENGTHS: &[usize] = &[
    1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 31, 32, 33, 60, 63, 64, 65, 68, 127, 128, 129, 255,
    256, 257, 511, 512, 513, 1023, 1024, 1025, 2047, 2048, 2049, 4095, 4096, 4097, 8191, 8192,
    8193, 16384, 32767, 65535, 65536,
];
/// Offsets of the destination in a page.
pub const DESTINATION_PLACES: &[usize] = &[
    0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 31, 32, 33, 63, 64, 127, 128, 2048, 3968, 4031, 4032, 4033,
    4063, 4064, 4079, 4080, 4087, 4088, 4089, 4091, 4092, 4093, 4094, 4095,
];
/// Longer payloads are tested only at every n-th offset.
const LONG: usize = 4097;
const LONG_STEP: usize = 6;
/// Bytes before the first offset, so that there are guard bytes before the data.
const FIRST_PAGE: usize = PAGE_SIZE;
/// Bytes of source and of destination.
const MEMORY_LENGTH: usize = FIRST_PAGE + PAGE_SIZE + (64 << 10) + PAGE_SIZE;

const _: () = assert!(FIRST_PAGE >= GUARD_LENGTH);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    InlineWrite,
    Write,
    Read,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::InlineWrite => "inline RDMA WRITE",
            Self::Write => "RDMA WRITE",
            Self::Read => "RDMA READ",
        }
    }

    fn figure(self) -> &'static str {
        match self {
            Self::InlineWrite => "inline_writes",
            Self::Write => "writes",
            Self::Read => "reads",
        }
    }

    /// Names the half of the DMA engine that it exercises.
    fn hint(self) -> &'static str {
        match self {
            Self::InlineWrite => {
                "the payload was in the WQE: only the write of the payload is new here, no read"
            }
            Self::Write => {
                "if inline writes have passed, the read of the payload (gathering) is what is new"
            }
            Self::Read => {
                "RDMA WRITE has passed: it is the responder that reads here, and the requester that \
                 writes (scattering)"
            }
        }
    }
}

/// Two pieces of memory and the queue pair that moves data between them.
struct Engine {
    pair: Pair,
    source: Memory,
    destination: Memory,
    inline_max: usize,
}

pub(super) fn run(bench: &mut Bench) -> Outcome {
    let pair = Pair::new(bench, Service::ReliableConnected)?;
    let pd = &bench.opened()?.pd;
    // The device may only read the source: a write to it must be refused.
    let read_only = MemoryAccess {
        remote_read: true,
        ..MemoryAccess::default()
    };
    let memory = Memory::new(pd, MEMORY_LENGTH, read_only)
        .and_then(|source| Ok((source, Memory::open(pd, MEMORY_LENGTH)?)));
    let (source, destination) =
        memory.map_err(|error| hint::of_driver("no memory region", &error, &*bench.bus))?;
    source.fill(0..MEMORY_LENGTH, data);
    let engine = Engine {
        inline_max: pair.requester.capacity().max_inline_data as usize,
        pair,
        source,
        destination,
    };
    let mut bytes = 0;
    for way in [Way::InlineWrite, Way::Write, Way::Read] {
        let (transfers, moved) = engine.run(bench, way)?;
        bench.figure(way.figure(), transfers);
        bytes += moved;
    }
    bench.figure("bytes", bytes);
    Ok(())
}

/// Returns the byte at a place of the source.
fn data(place: usize) -> u8 {
    let mixed = (place as u32).wrapping_mul(0x9e37_79b1);
    (mixed >> 24) as u8 ^ (mixed >> 13) as u8
}

impl Engine {
    /// Tests all lengths at all places in one direction. Returns the number of transfers and bytes.
    fn run(&self, bench: &Bench, way: Way) -> Result<(usize, usize), Failure> {
        let (mut transfers, mut bytes) = (0, 0);
        for &length in LENGTHS {
            if way == Way::InlineWrite && length > self.inline_max {
                break;
            }
            let step = if length > LONG { LONG_STEP } else { 1 };
            for to in DESTINATION_PLACES.iter().copied().step_by(step) {
                // A different source offset each time, so that all alignments are combined.
                let from = DESTINATION_PLACES[(transfers * 11 + 5) % DESTINATION_PLACES.len()];
                self.transfer(
                    bench,
                    &Transfer {
                        way,
                        length,
                        from,
                        to,
                    },
                )?;
                transfers += 1;
                bytes += length;
            }
        }
        Ok((transfers, bytes))
    }

    fn transfer(&self, bench: &Bench, transfer: &Transfer) -> Result<(), Failure> {
        let (what, length) = (transfer.text(), transfer.length);
        let (from, to) = (FIRST_PAGE + transfer.from, FIRST_PAGE + transfer.to);
        self.destination.guard(to, length);
        let write = SendOperation::RdmaWrite(self.destination.remote(to));
        match transfer.way {
            Way::InlineWrite => {
                let payload: Vec<u8> = (from..from + length).map(data).collect();
                let payload = SendData::Inline(&[&payload]);
                self.pair.execute(bench, write, payload, &what)?;
            }
            Way::Write => {
                let source = SendData::ScatterGather(&[self.source.segment(from, length)]);
                self.pair.execute(bench, write, source, &what)?;
            }
            Way::Read => {
                let read = SendOperation::RdmaRead(self.source.remote(from));
                let target = SendData::ScatterGather(&[self.destination.segment(to, length)]);
                self.pair.execute(bench, read, target, &what)?;
            }
        }
        let damage = self
            .destination
            .check(to, length, |index| data(from + index));
        damage.map_err(|damage| {
            Failure::new(format!("{what}: {}", damage.text()))
                .look_at_all(damage.hints(transfer.from))
                .look_at(transfer.way.hint())
        })
    }
}

/// One transfer; offsets count from the start of a page.
struct Transfer {
    way: Way,
    length: usize,
    from: usize,
    to: usize,
}

impl Transfer {
    fn text(&self) -> String {
        let Self {
            length, from, to, ..
        } = self;
        let name = self.way.name();
        format!("{name} of {length} bytes from page offset {from} to page offset {to}")
    }
}
