//! Atomics from a requester's WQE to a responder's memory and back.

use crate::common::{self, Machine, REGION_START, TestHost, all_rights, connected, run_both};
use ferroce_model::dma::Dma;
use ferroce_model::{Counters, DmaAtomic, DmaError, UntimedHost};
use ferroce_spec::command::CommandOpcode;
use ferroce_spec::context::{AccessRights, MemoryEntry, MemoryEntryWord, PathMtuCode};
use ferroce_spec::counter::Counter;
use ferroce_spec::cqe::{Cqe, CqeOpcode, CqeStatus};
use ferroce_spec::wqe::DataSegment;
use ferroce_units::Instant;
use zerocopy::IntoBytes;

fn atomic_rights() -> AccessRights {
    let mut rights = all_rights();
    rights.set_remote_atomic(true);
    rights
}

/// Two connected machines; the second has a region for atomics.
fn scene() -> (Machine, Machine, u32) {
    let (a, mut b) = connected(PathMtuCode::MTU_1024);
    let key = b.create_region(atomic_rights()).expect("room");
    (a, b, key)
}

fn value(machine: &mut Machine, offset: u64) -> u64 {
    let bytes = machine.data(offset, 8).try_into().expect("eight bytes");
    u64::from_ne_bytes(bytes)
}

fn set(machine: &mut Machine, offset: u64, value: u64) {
    machine
        .data(offset, 8)
        .copy_from_slice(&value.to_ne_bytes());
}

fn expect(a: &mut Machine, b: &mut Machine, status: CqeStatus) -> Cqe {
    run_both(a, b, 30);
    let cqe = a.poll().expect("a CQE");
    assert_eq!(CqeStatus(cqe.word.status()), status);
    cqe
}

#[test]
fn compare_and_swap_swaps_what_is_equal() {
    let (mut a, mut b, key) = scene();
    set(&mut b, 64, 0x1122_3344_5566_7788);
    let data = a.segment(8, 8);
    for (compare, after) in [(5, 0x1122_3344_5566_7788), (0x1122_3344_5566_7788, 99)] {
        a.post_compare_swap((REGION_START + 64, key), compare, 99, data);
        let cqe = expect(&mut a, &mut b, CqeStatus::SUCCESS);
        assert_eq!(CqeOpcode(cqe.word.opcode()), CqeOpcode::COMPARE_SWAP);
        assert_eq!(cqe.byte_count, 8);
        assert_eq!(value(&mut a, 8), 0x1122_3344_5566_7788);
        assert_eq!(value(&mut b, 64), after);
    }
    assert_eq!(b.nic.counters().value(Counter::atomics), 2);
}

#[test]
fn fetch_and_add_wraps_and_scatters_its_result() {
    let (mut a, mut b, key) = scene();
    set(&mut b, 0, u64::MAX);
    a.data(0, 64).fill(0xcc);
    // More room than eight bytes stays as it was.
    let data = a.segment(16, 24);
    a.post_fetch_add((REGION_START, key), 3, data);
    let cqe = expect(&mut a, &mut b, CqeStatus::SUCCESS);
    assert_eq!(CqeOpcode(cqe.word.opcode()), CqeOpcode::FETCH_ADD);
    assert_eq!((value(&mut a, 16), value(&mut b, 0)), (u64::MAX, 2));
    assert_eq!((a.data(15, 1)[0], a.data(24, 1)[0]), (0xcc, 0xcc));
}

#[test]
fn many_adds_count_each_once_although_frames_are_lost() {
    let (mut a, mut b, key) = scene();
    let data = a.segment(0, 8);
    let mut originals = Vec::new();
    for round in 0..40u64 {
        a.post_fetch_add((REGION_START, key), 1, data);
        a.run(100);
        if round % 3 == 0 {
            a.port.out.borrow_mut().clear();
        }
        b.run(100);
        if round % 4 == 0 {
            b.port.out.borrow_mut().clear();
        }
        for _ in 0..200 {
            a.run(100_000);
            b.run(100_000);
            if a.poll().is_some() {
                originals.push(value(&mut a, 0));
                break;
            }
        }
    }
    assert!(originals.iter().copied().eq(0..40));
    assert_eq!(value(&mut b, 0), 40);
}

/// A host whose PCIe root completes no AtomicOps.
struct PlainHost(TestHost);

impl UntimedHost for PlainHost {
    fn read(&mut self, iova: u64, destination: &mut [u8]) -> Result<(), DmaError> {
        self.0.load(iova, destination)
    }

    fn write(&mut self, iova: u64, source: &[u8]) -> Result<(), DmaError> {
        self.0.write(iova, source)
    }

    fn write_descriptor(&mut self, iova: u64, words: &[u64]) -> Result<(), DmaError> {
        self.0.write(iova, words.as_bytes())
    }
}

#[test]
fn without_atomic_ops_of_the_host_the_nic_reads_and_writes() {
    let mut host = PlainHost(TestHost::new());
    let mut counters = Counters::new();
    let mut dma = Dma::new(&mut host, &mut counters, Instant::ZERO);
    let add = DmaAtomic::FetchAdd { add: 2 };
    assert_eq!(dma.atomic(64, add, false), Ok(0));
    assert_eq!(dma.atomic(64, add, false), Ok(2));
    dma.atomic(64, add, true).expect_err("no AtomicOps");
    dma.atomic(!7, add, false).expect_err("not mapped");
    assert_eq!(dma.counters.value(Counter::dma_errors), 2);
    assert_eq!(host.0.read::<u64>(64), 4);
}

#[test]
fn atomic_without_the_right_is_refused() {
    let (mut a, mut b, _) = scene();
    let (remote, data) = ((REGION_START, b.key), a.segment(0, 8));
    a.post_fetch_add(remote, 1, data);
    expect(&mut a, &mut b, CqeStatus::REMOTE_ACCESS);
    assert_eq!(value(&mut b, 0), 0);
}

#[test]
fn atomic_at_an_odd_address_is_an_invalid_request() {
    for odd in [1, 4, 7] {
        let (mut a, mut b, key) = scene();
        let data = a.segment(0, 8);
        a.post_fetch_add((REGION_START + odd, key), 1, data);
        expect(&mut a, &mut b, CqeStatus::REMOTE_INVALID_REQUEST);
        assert!(b.data(0, 16).iter().all(|byte| *byte == 0));
    }
}

#[test]
fn atomic_that_crosses_the_end_of_its_region_is_refused() {
    let (mut a, mut b, key) = scene();
    let end = REGION_START + common::place::DATA_SIZE;
    let data = a.segment(0, 8);
    a.post_fetch_add((end - 8, key), 1, data);
    expect(&mut a, &mut b, CqeStatus::SUCCESS);
    a.post_fetch_add((end, key), 1, data);
    expect(&mut a, &mut b, CqeStatus::REMOTE_ACCESS);
}

#[test]
fn atomic_without_room_for_its_result_is_not_sent() {
    let (mut a, mut b, key) = scene();
    let data = a.segment(0, 7);
    a.post_fetch_add((REGION_START, key), 1, data);
    expect(&mut a, &mut b, CqeStatus::LOCAL_LENGTH);
    assert_eq!(value(&mut b, 0), 0);
}

#[test]
fn result_that_cannot_be_written_fails_the_requester() {
    let (mut a, mut b, key) = scene();
    let data = DataSegment {
        l_key: a.key ^ 1,
        ..a.segment(0, 8)
    };
    a.post_fetch_add((REGION_START, key), 1, data);
    expect(&mut a, &mut b, CqeStatus::LOCAL_PROTECTION);
}

/// A region of `kind` at an address that is a multiple of eight, from `translation` on.
fn special(b: &mut Machine, kind: fn(&mut MemoryEntryWord, bool), translation: u64) -> u32 {
    let mut word = MemoryEntryWord::default();
    kind(&mut word, true);
    let region = MemoryEntry {
        word,
        pd: 7,
        access: atomic_rights(),
        start: REGION_START,
        length: 4096,
        translation,
        ..MemoryEntry::default()
    };
    let key = b.command(CommandOpcode::CREATE_MR, 0, &region);
    key.expect("room") as u32
}

#[test]
fn atomics_on_device_memory_change_it() {
    let (mut a, mut b, _) = scene();
    let key = special(&mut b, MemoryEntryWord::set_device_memory, 0x40);
    b.nic.write_device_memory(0x48, &7u64.to_ne_bytes());
    let data = a.segment(0, 8);
    a.post_compare_swap((REGION_START + 8, key), 7, u64::MAX, data);
    expect(&mut a, &mut b, CqeStatus::SUCCESS);
    let mut bytes = [0; 8];
    b.nic.read_device_memory(0x48, &mut bytes);
    assert_eq!((value(&mut a, 0), u64::from_ne_bytes(bytes)), (7, u64::MAX));
}

#[test]
fn atomics_on_a_null_region_find_zero() {
    let (mut a, mut b, _) = scene();
    let key = special(&mut b, MemoryEntryWord::set_null, 0);
    let data = a.segment(0, 8);
    for _ in 0..2 {
        set(&mut a, 0, 5);
        a.post_fetch_add((REGION_START, key), 9, data);
        expect(&mut a, &mut b, CqeStatus::SUCCESS);
        assert_eq!(value(&mut a, 0), 0);
    }
}

#[test]
fn operand_that_is_not_aligned_in_memory_is_not_touched() {
    for kind in [
        MemoryEntryWord::set_device_memory,
        MemoryEntryWord::set_direct,
    ] {
        let (mut a, mut b, _) = scene();
        let key = special(&mut b, kind, 0x44);
        let data = a.segment(0, 8);
        a.post_fetch_add((REGION_START, key), 9, data);
        run_both(&mut a, &mut b, 30);
        let cqe = a.poll().expect("a CQE");
        assert_ne!(CqeStatus(cqe.word.status()), CqeStatus::SUCCESS);
    }
}

#[test]
fn operations_do_what_they_are_called() {
    let (compare, swap) = (3, 4);
    let compare_swap = DmaAtomic::CompareSwap { compare, swap };
    assert_eq!((compare_swap.apply(3), compare_swap.apply(2)), (4, 2));
    assert_eq!(DmaAtomic::FetchAdd { add: 2 }.apply(u64::MAX), 1);
}
