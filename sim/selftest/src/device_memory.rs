//! Stage `device-memory`: BAR4, from both sides.

use std::ops::Range;

use ferroce_driver::bus::Bus;
use ferroce_driver::{
    DataSegment, DeviceMemory, MemoryAccess, MemoryRegion, SendData, SendOperation, Service,
};

use super::bench::Bench;
use super::hint;
use super::outcome::{Failure, Outcome, Stop};
use super::pair::Pair;
use super::pattern::Memory;

/// Bytes of one access of a large pattern.
const CHUNK: usize = 4096;
/// Bytes moved by DMA.
const DMA_LENGTH: usize = 4096 + 64;
/// Lengths and offsets of small accesses.
const SMALL: usize = 16;

pub(super) fn run(bench: &mut Bench) -> Outcome {
    let length = bench.opened()?.device.capabilities().device_memory_length;
    if length == 0 {
        return Err(Stop::NotApplicable("the device has no memory".to_owned()));
    }
    bench.figure("bytes", length);
    let length = length as usize;
    let bus = bench.bus.clone();
    for (name, byte) in PATTERNS {
        check_all(&*bus, length, name, byte)?;
    }
    bench.figure("patterns", PATTERNS.len());
    check_small(&*bus, length)?;
    check_end(&*bus, length)?;
    check_dma(bench, length)?;
    bench.figure("dma_bytes", 2 * DMA_LENGTH);
    Ok(())
}

type Pattern = fn(usize) -> u8;

const PATTERNS: [(&str, Pattern); 4] = [
    ("every word its own address", |at| {
        ((at / 8 * 8) as u32).to_le_bytes()[at % 4]
    }),
    ("every word the complement of its address", |at| {
        !((at / 8 * 8) as u32).to_le_bytes()[at % 4]
    }),
    ("0x55 and 0xaa", |at| if at % 2 == 0 { 0x55 } else { 0xaa }),
    ("walking ones", |at| 1 << ((at + at / 8) % 8)),
];

fn chunks(length: usize) -> impl Iterator<Item = Range<usize>> {
    (0..length)
        .step_by(CHUNK)
        .map(move |start| start..(start + CHUNK).min(length))
}

/// Writes all of it, then reads all of it.
fn check_all(bus: &dyn Bus, length: usize, name: &str, byte: Pattern) -> Result<(), Failure> {
    for range in chunks(length) {
        let bytes: Vec<u8> = range.clone().map(byte).collect();
        bus.write_device_memory(range.start as u64, &bytes);
    }
    let mut bytes = [0; CHUNK];
    for range in chunks(length) {
        let bytes = &mut bytes[..range.len()];
        bus.read_device_memory(range.start as u64, bytes);
        for (at, &found) in range.zip(&*bytes) {
            if found != byte(at) {
                return Err(wrong(at, found, byte(at), name));
            }
        }
    }
    Ok(())
}

fn wrong(at: usize, found: u8, expected: u8, pattern: &str) -> Failure {
    let failure = Failure::new(format!(
        "byte {at:#x} of BAR4 reads {found:#04x}, not {expected:#04x} ({pattern})"
    ));
    if found == 0xff {
        failure.look_at_all(hint::of_read(u32::MAX.into(), 4))
    } else {
        failure
            .look_at("address bits of the memory: does another address hold this value?")
            .look_at("data lanes and byte enables; ECC or calibration, if it is external memory")
    }
}

/// Checks that accesses of 1 to 16 bytes at each alignment change only their own bytes.
fn check_small(bus: &dyn Bus, length: usize) -> Result<(), Failure> {
    for offset in 0..SMALL {
        for size in 1..=SMALL {
            let window = 4 * SMALL;
            if window > length {
                return Ok(());
            }
            let start = SMALL + offset;
            bus.write_device_memory(0, &[0x33; 4 * SMALL]);
            let data: Vec<u8> = (0..size).map(|at| 0xc0 | at as u8).collect();
            bus.write_device_memory(start as u64, &data);
            let mut found = [0; 4 * SMALL];
            bus.read_device_memory(0, &mut found);
            let mut expected = [0x33; 4 * SMALL];
            expected[start..start + size].copy_from_slice(&data);
            if let Some(at) = (0..window).find(|&at| found[at] != expected[at]) {
                let what = format!("after a write of {size} bytes at {start:#x}");
                return Err(wrong(at, found[at], expected[at], &what)
                    .look_at("byte enables of writes that are not whole dwords"));
            }
        }
    }
    Ok(())
}

/// Checks that the last byte works, and is not an alias of the first.
fn check_end(bus: &dyn Bus, length: usize) -> Result<(), Failure> {
    bus.write_device_memory(0, &[0x11]);
    bus.write_device_memory(length as u64 - 1, &[0xee]);
    let mut ends = [[0], [0]];
    bus.read_device_memory(0, &mut ends[0]);
    bus.read_device_memory(length as u64 - 1, &mut ends[1]);
    if ends != [[0x11], [0xee]] {
        return Err(Failure::new(format!(
            "the first and the last byte of BAR4 read {:#04x} and {:#04x}, not 0x11 and 0xee",
            ends[0][0], ends[1][0]
        ))
        .look_at("size of the memory behind BAR4, and device_memory_length of QUERY_DEVICE"));
    }
    Ok(())
}

/// Lets the device write its memory and read it, through a memory region.
fn check_dma(bench: &Bench, length: usize) -> Result<(), Stop> {
    let opened = bench.opened()?;
    if length < DMA_LENGTH {
        return Ok(());
    }
    let pair = Pair::new(bench, Service::ReliableConnected)?;
    let failed = |error| hint::of_driver("no memory region on device memory", &error, &*bench.bus);
    let memory = DeviceMemory::alloc(&opened.device, DMA_LENGTH as u64, 0).map_err(failed)?;
    let access = MemoryAccess {
        local_write: true,
        remote_write: true,
        remote_read: true,
        ..MemoryAccess::default()
    };
    let region =
        MemoryRegion::register_device_memory(&opened.pd, &memory, 0, DMA_LENGTH, 0, access)
            .map_err(failed)?;
    let host = Memory::open(&opened.pd, 2 * DMA_LENGTH).map_err(failed)?;
    let byte = |at: usize| ((at * 29) >> 2) as u8;
    host.fill(0..DMA_LENGTH, byte);
    let remote = ferroce_driver::RemoteAddress {
        virtual_address: 0,
        r_key: region.rkey(),
    };
    let source = SendData::ScatterGather(&[host.segment(0, DMA_LENGTH)]);
    let what = "RDMA WRITE to device memory";
    pair.execute(bench, SendOperation::RdmaWrite(remote), source, what)?;
    let mut found = vec![0; DMA_LENGTH];
    memory.copy_out(0, &mut found).map_err(failed)?;
    compare(&found, byte, what)?;
    let segment = DataSegment {
        address: 0,
        length: DMA_LENGTH as u32,
        l_key: region.lkey().0,
    };
    let what = "RDMA WRITE from device memory";
    let write = SendOperation::RdmaWrite(host.remote(DMA_LENGTH));
    pair.execute(bench, write, SendData::ScatterGather(&[segment]), what)?;
    Ok(compare(&host.copy(DMA_LENGTH..2 * DMA_LENGTH), byte, what)?)
}

fn compare(found: &[u8], byte: impl Fn(usize) -> u8, what: &str) -> Result<(), Failure> {
    match (0..found.len()).find(|&at| found[at] != byte(at)) {
        None => Ok(()),
        Some(at) => Err(Failure::new(format!(
            "{what}: byte {at} is {:#04x}, not {:#04x}",
            found[at],
            byte(at)
        ))
        .look_at("the second port of the memory: address and byte enables on the device's side")),
    }
}
