use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::*;

const IOVA: u64 = 0x10_0000;

/// Returns 8-byte aligned memory and its address.
fn memory(words: usize) -> (Vec<AtomicU64>, usize) {
    let memory: Vec<AtomicU64> = (0..words).map(|_| AtomicU64::new(0)).collect();
    let address = memory.as_ptr().expose_provenance();
    (memory, address)
}

#[test]
fn every_length_and_alignment_arrives_whole() {
    let (target, address) = memory(8);
    let mut map = MemoryMap::default();
    map.map(IOVA, address, 64, Rights::ReadWrite).expect("free");
    let pattern: Vec<u8> = (1..=64).collect();
    for offset in 0..16 {
        for length in 0..=48 {
            for word in &target {
                word.store(0, Ordering::Relaxed);
            }
            map.write(IOVA + offset, &pattern[..length])
                .expect("mapped");
            let mut all = [0xff; 64];
            map.read(IOVA, &mut all).expect("mapped");
            let start = offset as usize;
            assert_eq!(all[start..start + length], pattern[..length]);
            assert!(
                all[..start]
                    .iter()
                    .chain(&all[start + length..])
                    .all(|b| *b == 0)
            );
        }
    }
}

#[test]
fn bounds_and_rights_are_kept() {
    let (_target, address) = memory(8);
    let mut map = MemoryMap::default();
    map.map(IOVA, address, 32, Rights::Read).expect("free");
    map.map(IOVA + 32, address + 32, 32, Rights::Write)
        .expect("free");
    let mut byte = [0];
    assert!(map.read(IOVA + 31, &mut byte).is_ok());
    assert!(map.read(IOVA + 32, &mut byte).is_err(), "write only");
    assert!(map.write(IOVA, &byte).is_err(), "read only");
    assert!(map.write(IOVA + 63, &byte).is_ok());
    assert!(map.write(IOVA + 64, &byte).is_err(), "behind the end");
    assert!(map.write(IOVA - 1, &byte).is_err(), "before the start");
    assert!(
        map.read(IOVA + 16, &mut [0; 32]).is_err(),
        "over the end of one region"
    );
    assert!(map.read(u64::MAX, &mut [0; 2]).is_err());
    assert_eq!(
        map.map(IOVA + 60, address, 8, Rights::Read),
        Err(MapError::Overlap)
    );
    assert_eq!(
        map.map(IOVA - 4, address, 5, Rights::Read),
        Err(MapError::Overlap)
    );
    assert_eq!(
        map.map(u64::MAX, address, 8, Rights::Read),
        Err(MapError::BadRange)
    );
    assert_eq!(
        map.map(1 << 40, address, 0, Rights::Read),
        Err(MapError::BadRange)
    );
    assert_eq!(
        map.map(1 << 40, usize::MAX, 2, Rights::Read),
        Err(MapError::BadRange)
    );
}

#[test]
fn nothing_is_reached_after_unmap() {
    let (_target, address) = memory(8);
    let mut map = MemoryMap::default();
    map.map(IOVA, address, 64, Rights::ReadWrite).expect("free");
    map.write(IOVA, &[1; 64]).expect("mapped, and cached now");
    assert_eq!(map.unmap(IOVA, 32), Err(MapError::NotMapped));
    map.unmap(IOVA, 64).expect("mapped");
    assert!(map.write(IOVA, &[1; 64]).is_err());
    assert!(map.write_descriptor(IOVA, &[1]).is_err());
}

#[test]
fn descriptors_are_words() {
    let (target, address) = memory(4);
    let mut map = MemoryMap::default();
    map.map(IOVA, address, 32, Rights::ReadWrite).expect("free");
    map.write_descriptor(IOVA + 8, &[11, 22, 33])
        .expect("mapped");
    let words: Vec<u64> = target
        .iter()
        .map(|word| word.load(Ordering::Acquire))
        .collect();
    assert_eq!(words, [0, 11, 22, 33]);
    assert!(map.write_descriptor(IOVA + 4, &[1]).is_err(), "not aligned");
    assert!(
        map.write_descriptor(IOVA + 24, &[1, 2]).is_err(),
        "over the end"
    );
}

#[test]
fn atomics_need_both_rights_and_alignment() {
    let (target, address) = memory(8);
    let mut map = MemoryMap::default();
    map.map(IOVA, address, 32, Rights::ReadWrite).expect("free");
    map.map(IOVA + 32, address + 32, 16, Rights::Read)
        .expect("free");
    map.map(IOVA + 48, address + 48, 16, Rights::Write)
        .expect("free");
    let add = DmaAtomic::FetchAdd { add: 5 };
    target[1].store(u64::MAX, Ordering::Relaxed);
    assert_eq!(map.atomic(IOVA + 8, add), Ok(u64::MAX), "and wraps");
    assert_eq!(map.atomic(IOVA + 8, add), Ok(4));
    let swap = |compare| DmaAtomic::CompareSwap { compare, swap: 77 };
    assert_eq!(map.atomic(IOVA + 8, swap(8)), Ok(9));
    assert_eq!(target[1].load(Ordering::Relaxed), 9, "it was another");
    assert_eq!(map.atomic(IOVA + 8, swap(9)), Ok(9));
    assert_eq!(target[1].load(Ordering::Relaxed), 77);
    for refused in [4, 28, 32, 48, 64] {
        assert!(map.atomic(IOVA + refused, add).is_err(), "{refused}");
    }
    // Aligned for the device, not for this processor.
    map.map(1 << 40, address + 4, 16, Rights::ReadWrite)
        .expect("free");
    assert!(map.atomic(1 << 40, add).is_err());
}

#[test]
fn atomics_of_the_device_and_of_this_processor_do_not_lose_each_other() {
    const ROUNDS: u64 = 20_000;
    let (target, address) = memory(1);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut map = MemoryMap::default();
                map.map(IOVA, address, 8, Rights::ReadWrite).expect("free");
                for _ in 0..ROUNDS {
                    map.atomic(IOVA, DmaAtomic::FetchAdd { add: 1 })
                        .expect("mapped");
                }
            });
        }
        for _ in 0..ROUNDS {
            target[0].fetch_add(1 << 32, Ordering::Relaxed);
        }
    });
    let total = target[0].load(Ordering::Relaxed);
    assert_eq!(total, 2 * ROUNDS + (ROUNDS << 32));
}

#[test]
fn cached_accesses_take_nanoseconds() {
    const ROUNDS: u32 = 200_000;
    let (_target, address) = memory(4096 / 8);
    let mut map = MemoryMap::default();
    map.map(IOVA, address, 4096, Rights::ReadWrite)
        .expect("free");
    let start = std::time::Instant::now();
    for round in 0..ROUNDS {
        let iova = IOVA + u64::from(round % 500) * 8;
        map.write(iova, &u64::from(round).to_ne_bytes())
            .expect("mapped");
    }
    let each_ns = start.elapsed().as_nanos() / u128::from(ROUNDS);
    println!("8-byte DMA write: {each_ns} ns");
    // Generous: a loaded machine and an unoptimised build must pass.
    assert!(each_ns < 2_000);
}

/// Memory that is reached by calls, and the length of each write.
#[derive(Debug, Default)]
struct Far {
    bytes: Mutex<Vec<u8>>,
    writes: Mutex<Vec<usize>>,
}

impl RemoteMemory for Far {
    fn read(&self, offset: u64, destination: &mut [u8]) -> io::Result<()> {
        let bytes = self.bytes.lock();
        let start = offset as usize;
        let source = bytes.get(start..start + destination.len());
        destination.copy_from_slice(source.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write(&self, offset: u64, source: &[u8]) -> io::Result<()> {
        let mut bytes = self.bytes.lock();
        let start = offset as usize;
        let destination = bytes.get_mut(start..start + source.len());
        destination
            .ok_or(io::ErrorKind::UnexpectedEof)?
            .copy_from_slice(source);
        self.writes.lock().push(source.len());
        Ok(())
    }
}

fn far(length: usize) -> Arc<Far> {
    Arc::new(Far {
        bytes: Mutex::new(vec![0; length]),
        writes: Mutex::default(),
    })
}

#[test]
fn accesses_go_over_the_ends_of_mappings_of_either_kind() {
    let (_target, address) = memory(8);
    let remote = far(128);
    let mut map = MemoryMap::default();
    map.map(IOVA, address, 32, Rights::ReadWrite).expect("free");
    map.map_remote(IOVA + 32, 32, Rights::ReadWrite, remote.clone(), 96)
        .expect("free");
    map.map(IOVA + 64, address + 32, 32, Rights::ReadWrite)
        .expect("free");
    let pattern: Vec<u8> = (1..=96).collect();
    for (start, length) in [(0, 96), (31, 2), (30, 40), (63, 3), (40, 8), (33, 63)] {
        map.write(IOVA, &[0; 96]).expect("mapped");
        map.write(IOVA + start, &pattern[..length]).expect("mapped");
        let mut all = [0xff; 96];
        map.read(IOVA, &mut all).expect("mapped");
        let mut expected = [0; 96];
        expected[start as usize..][..length].copy_from_slice(&pattern[..length]);
        assert_eq!(all, expected, "{start} {length}");
        assert_eq!(remote.bytes.lock()[96..], expected[32..64]);
    }
    let mut before = [0; 96];
    map.read(IOVA, &mut before).expect("mapped");
    assert!(map.write(IOVA, &[7; 97]).is_err(), "the last byte is not");
    let mut after = [0; 96];
    map.read(IOVA, &mut after).expect("mapped");
    assert_eq!(before, after, "all or nothing");
}

#[test]
fn remote_memory_has_rights_and_an_end() {
    let remote = far(16);
    let mut map = MemoryMap::default();
    map.map_remote(IOVA, 16, Rights::Read, remote.clone(), 0)
        .expect("free");
    map.map_remote(IOVA + 16, 16, Rights::ReadWrite, remote.clone(), 8)
        .expect("free");
    assert!(map.read(IOVA, &mut [0; 16]).is_ok());
    assert!(map.write(IOVA, &[1]).is_err(), "read only");
    assert!(
        map.read(IOVA + 16, &mut [0; 16]).is_err(),
        "its owner has less than was mapped"
    );
    let local = map.map(IOVA + 31, 4096, 8, Rights::Read);
    assert_eq!(local, Err(MapError::Overlap));
    let again = |map: &mut MemoryMap, iova, length, offset| {
        map.map_remote(iova, length, Rights::Read, remote.clone(), offset)
    };
    assert_eq!(again(&mut map, IOVA + 15, 1, 0), Err(MapError::Overlap));
    assert_eq!(again(&mut map, 1 << 40, 0, 0), Err(MapError::BadRange));
    assert_eq!(
        again(&mut map, 1 << 40, 8, u64::MAX),
        Err(MapError::BadRange)
    );
}

#[test]
fn the_last_word_of_a_remote_descriptor_comes_last() {
    let remote = far(64);
    let mut map = MemoryMap::default();
    map.map_remote(IOVA, 64, Rights::ReadWrite, remote.clone(), 0)
        .expect("free");
    map.write_descriptor(IOVA + 8, &[1, 2, 3]).expect("mapped");
    assert_eq!(*remote.writes.lock(), [16, 8]);
    assert_eq!(remote.bytes.lock()[24], 3);
    assert!(map.write_descriptor(IOVA + 4, &[1]).is_err(), "not aligned");
    assert!(map.write_descriptor(IOVA + 56, &[1, 2]).is_err());
    assert_eq!(remote.writes.lock().len(), 2);
    assert!(map.write_descriptor(IOVA + 56, &[1]).is_ok(), "one word");
}

#[test]
fn remote_atomics_read_and_write() {
    let remote = far(64);
    let mut map = MemoryMap::default();
    map.map_remote(IOVA, 32, Rights::ReadWrite, remote.clone(), 0)
        .expect("free");
    map.map_remote(IOVA + 32, 16, Rights::Read, remote.clone(), 32)
        .expect("free");
    map.map_remote(IOVA + 48, 16, Rights::Write, remote.clone(), 48)
        .expect("free");
    let add = DmaAtomic::FetchAdd { add: 5 };
    assert_eq!(map.atomic(IOVA + 8, add), Ok(0));
    assert_eq!(map.atomic(IOVA + 8, add), Ok(5));
    let swap = DmaAtomic::CompareSwap {
        compare: 9,
        swap: 1,
    };
    assert_eq!(map.atomic(IOVA + 8, swap), Ok(10));
    assert_eq!(remote.writes.lock().len(), 2, "nothing to write");
    for refused in [4, 28, 32, 48, 64] {
        assert!(map.atomic(IOVA + refused, add).is_err(), "{refused}");
    }
}

#[test]
fn a_range_is_unmapped_whole_or_not_at_all() {
    let (_target, address) = memory(8);
    let remote = far(64);
    let mut map = MemoryMap::default();
    let fill = |map: &mut MemoryMap| {
        map.map(IOVA, address, 16, Rights::ReadWrite).expect("free");
        map.map_remote(IOVA + 16, 16, Rights::ReadWrite, remote.clone(), 0)
            .expect("free");
        map.map(IOVA + 48, address + 16, 16, Rights::ReadWrite)
            .expect("free");
        map.write(IOVA, &[1]).expect("mapped, and cached now");
    };
    fill(&mut map);
    assert_eq!(map.unmap_range(IOVA + 32, 16), Err(UnmapError::NotMapped));
    assert_eq!(map.unmap_range(0, IOVA), Err(UnmapError::NotMapped));
    assert_eq!(map.unmap_range(IOVA, 17), Err(UnmapError::Cut));
    assert_eq!(map.unmap_range(IOVA + 1, 15), Err(UnmapError::Cut));
    assert_eq!(map.unmap_range(IOVA + 8, 48), Err(UnmapError::Cut));
    assert!(map.write(IOVA, &[1; 32]).is_ok(), "all there");
    map.unmap_range(IOVA, 48).expect("two of them");
    assert!(map.write(IOVA, &[1]).is_err());
    assert!(map.write(IOVA + 16, &[1]).is_err());
    assert!(map.write(IOVA + 48, &[1]).is_ok());
    map.unmap_all();
    assert!(map.write(IOVA + 48, &[1]).is_err());
    fill(&mut map);
    map.unmap_all();
    assert!(map.read(IOVA, &mut [0; 32]).is_err());
}

/// Goal: memory of another process that is mapped here is accessed here, and has the other
/// process's addresses.
#[test]
fn memory_of_an_owner_has_its_addresses() {
    const OWNER: usize = 0x7f00_1234_0000;
    let (target, address) = memory(8);
    let mut map = MemoryMap::default();
    map.map_of_owner(IOVA, address, OWNER, 32, Rights::ReadWrite)
        .expect("free");
    map.map(IOVA + 32, address + 32, 32, Rights::ReadWrite)
        .expect("free");
    for _ in 0..2 {
        let place = map.place_to_write(IOVA + 8, 8).expect("mapped");
        assert_eq!((place.address, place.physical), (OWNER + 8, 8));
        assert!(place.is_remote);
        assert_eq!(map.place_to_read(IOVA + 8, 8), Ok(place));
    }
    let over_the_end = map.place_to_read(IOVA + 24, 16).expect("mapped");
    assert_eq!(over_the_end.address, OWNER + 24);
    let local = map.place_to_read(IOVA + 40, 8).expect("mapped");
    assert_eq!((local.address, local.is_remote), (address + 40, false));
    map.write(IOVA + 8, &[7; 8]).expect("mapped");
    map.write(IOVA + 28, &[8; 8]).expect("mapped");
    assert_eq!(
        target[1].load(Ordering::Relaxed),
        u64::from_ne_bytes([7; 8])
    );
    assert_eq!(target[4].load(Ordering::Relaxed), 0x0808_0808);
    let added = map.atomic(IOVA + 16, DmaAtomic::FetchAdd { add: 5 });
    assert_eq!((added, target[2].load(Ordering::Relaxed)), (Ok(0), 5));
    for owner in [0, usize::MAX - 7, isize::MAX as usize] {
        assert_eq!(
            map.map_of_owner(1 << 40, address, owner, 8, Rights::Read),
            Err(MapError::BadRange)
        );
    }
}

#[test]
fn memory_is_copied_from_map_to_map() {
    const BYTES: usize = 3 * 4096 + 40;
    let words = BYTES / size_of::<u64>();
    let (source, from) = memory(words);
    let (target, to) = memory(words);
    for (number, word) in (1..).zip(&source) {
        word.store(number, Ordering::Relaxed);
    }
    let maps = |cut: u64, owner: usize, far: Option<Arc<Far>>| {
        let mut map = MemoryMap::default();
        map.map(IOVA, owner, cut, Rights::ReadWrite).expect("free");
        let (rest, behind) = (BYTES as u64 - cut, IOVA + cut);
        match far {
            _ if rest == 0 => {}
            None => map
                .map(behind, owner + cut as usize, rest, Rights::ReadWrite)
                .expect("free"),
            Some(far) => map
                .map_remote(behind, rest, Rights::ReadWrite, far, 0)
                .expect("free"),
        }
        map
    };
    for (cut, is_far) in [(BYTES as u64, false), (4096, false), (4096, true)] {
        target
            .iter()
            .for_each(|word| word.store(0, Ordering::Relaxed));
        let mut one = maps(BYTES as u64, from, None);
        let mut other = maps(cut, to, is_far.then(|| far(BYTES)));
        let (offset, length) = (24, BYTES - 32);
        other
            .copy_from(IOVA + offset, &mut one, IOVA + 16, length)
            .expect("mapped");
        let mut copied = vec![0; BYTES];
        other.read(IOVA, &mut copied).expect("mapped");
        let mut expected = vec![0; BYTES];
        one.read(IOVA + 16, &mut expected[24..][..length])
            .expect("mapped");
        assert_eq!(copied, expected, "cut at {cut}, far: {is_far}");
    }
}

#[test]
fn a_copy_needs_both_rights_and_may_overlap() {
    let (words, address) = memory(16);
    let mut one = MemoryMap::default();
    one.map(IOVA, address, 64, Rights::Write).expect("free");
    one.map(IOVA + 64, address + 64, 64, Rights::Read)
        .expect("free");
    let mut other = MemoryMap::default();
    other
        .map(IOVA, address, 128, Rights::ReadWrite)
        .expect("free");
    assert!(other.copy_from(IOVA, &mut one, IOVA, 8).is_err());
    assert!(one.copy_from(IOVA + 64, &mut other, IOVA, 8).is_err());
    assert!(one.copy_from(IOVA + 60, &mut other, IOVA, 8).is_err());
    words[8].store(7, Ordering::Relaxed);
    other
        .copy_from(IOVA + 8, &mut one, IOVA + 64, 64)
        .expect("mapped");
    assert_eq!(words[1].load(Ordering::Relaxed), 7);
    other.copy_within(IOVA + 96, IOVA + 8, 8).expect("mapped");
    assert_eq!(words[12].load(Ordering::Relaxed), 7);
    // The same memory in both maps.
    other
        .copy_from(IOVA + 8, &mut one, IOVA + 64, 8)
        .expect("mapped");
    other
        .copy_from(IOVA + 66, &mut one, IOVA + 64, 8)
        .expect("overlapping");
}
