//! FLUSH and ATOMIC WRITE from a requester's WQE to a responder's memory.

use crate::common::{Machine, REGION_START, all_rights, connected, run_both};
use ferroce_spec::context::{AccessRights, PathMtuCode};
use ferroce_spec::counter::Counter;
use ferroce_spec::cqe::{Cqe, CqeOpcode, CqeStatus};
use ferroce_spec::wqe::{DataSegment, FlushSegment, RemoteAddressSegment, SendOpcode};
use zerocopy::IntoBytes;

const GLOBAL: u32 = 1;
const PERSISTENT: u32 = 2;
const WHOLE_REGION: u32 = 1 << 4;

fn flush_rights() -> AccessRights {
    let mut rights = all_rights();
    rights.set_flush_global(true);
    rights
}

/// Two connected machines; the second has a region that may be flushed.
fn scene() -> (Machine, Machine, u32) {
    let (a, mut b) = connected(PathMtuCode::MTU_1024);
    let key = b.create_region(flush_rights()).expect("room");
    (a, b, key)
}

fn remote(virtual_address: u64, r_key: u32) -> RemoteAddressSegment {
    RemoteAddressSegment {
        virtual_address,
        r_key,
        reserved: 0,
    }
}

fn post_flush(a: &mut Machine, remote: RemoteAddressSegment, length: u32, kind: u32) {
    let flush = FlushSegment {
        length,
        kind,
        reserved: 0,
    };
    let rest = [remote.as_bytes(), flush.as_bytes()];
    a.post_block(SendOpcode::FLUSH, [0; 4], &rest);
}

fn post_atomic_write(a: &mut Machine, remote: RemoteAddressSegment, data: DataSegment) {
    let rest = [remote.as_bytes(), data.as_bytes()];
    a.post_block(SendOpcode::ATOMIC_WRITE, [0; 4], &rest);
}

fn expect(a: &mut Machine, b: &mut Machine, status: CqeStatus) -> Cqe {
    run_both(a, b, 30);
    let cqe = a.poll().expect("a CQE");
    assert_eq!(CqeStatus(cqe.word.status()), status);
    cqe
}

#[test]
fn a_flush_of_a_range_or_a_region_completes() {
    let (mut a, mut b, key) = scene();
    for (address, length, kind) in [
        (REGION_START + 8, 100, GLOBAL),
        (REGION_START, 0, GLOBAL),
        // Of a whole region, address and length do not matter.
        (u64::MAX, u32::MAX, GLOBAL | WHOLE_REGION),
    ] {
        let reads = b.nic.counters().value(Counter::dma_reads);
        post_flush(&mut a, remote(address, key), length, kind);
        let cqe = expect(&mut a, &mut b, CqeStatus::SUCCESS);
        assert_eq!(CqeOpcode(cqe.word.opcode()), CqeOpcode::FLUSH);
        let pushes = b.nic.counters().value(Counter::dma_reads) - reads;
        let has_bytes = length > 0;
        assert_eq!(pushes > 0, has_bytes, "a read pushes posted writes");
    }
}

#[test]
fn a_flush_without_a_right_or_outside_of_the_region_is_refused() {
    for (address, length, kind, status) in [
        (
            REGION_START,
            8,
            GLOBAL | PERSISTENT,
            CqeStatus::REMOTE_INVALID_REQUEST,
        ),
        (REGION_START, 8, 0, CqeStatus::REMOTE_INVALID_REQUEST),
        (
            REGION_START,
            8,
            GLOBAL | 2 << 4,
            CqeStatus::REMOTE_INVALID_REQUEST,
        ),
        (REGION_START, u32::MAX, GLOBAL, CqeStatus::REMOTE_ACCESS),
    ] {
        let (mut a, mut b, key) = scene();
        post_flush(&mut a, remote(address, key), length, kind);
        expect(&mut a, &mut b, status);
    }
    // The region has no right to be flushed.
    let (mut a, mut b) = connected(PathMtuCode::MTU_1024);
    post_flush(&mut a, remote(REGION_START, b.key), 8, GLOBAL);
    expect(&mut a, &mut b, CqeStatus::REMOTE_ACCESS);
}

#[test]
fn a_flush_of_no_bytes_is_checked_but_a_write_of_no_bytes_is_not() {
    for whole in [0, WHOLE_REGION] {
        let (mut a, mut b, key) = scene();
        post_flush(&mut a, remote(REGION_START, key ^ 1), 0, GLOBAL | whole);
        expect(&mut a, &mut b, CqeStatus::REMOTE_ACCESS);
        // The region has no right to be flushed.
        let (mut a, mut b, _) = scene();
        post_flush(&mut a, remote(REGION_START, b.key), 0, GLOBAL | whole);
        expect(&mut a, &mut b, CqeStatus::REMOTE_ACCESS);
    }
    let (mut a, mut b, key) = scene();
    post_flush(&mut a, remote(REGION_START - 1, key), 0, GLOBAL);
    expect(&mut a, &mut b, CqeStatus::REMOTE_ACCESS);
    let (mut a, mut b, key) = scene();
    let rest = [remote(REGION_START, key ^ 1)];
    a.post_block(SendOpcode::RDMA_WRITE, [0; 4], &[rest.as_bytes()]);
    expect(&mut a, &mut b, CqeStatus::SUCCESS);
}

#[test]
fn an_atomic_write_writes_eight_aligned_bytes() {
    let (mut a, mut b, key) = scene();
    a.data(0, 8).copy_from_slice(b"8 bytes!");
    let data = a.segment(0, 8);
    post_atomic_write(&mut a, remote(REGION_START + 16, key), data);
    let cqe = expect(&mut a, &mut b, CqeStatus::SUCCESS);
    assert_eq!(CqeOpcode(cqe.word.opcode()), CqeOpcode::ATOMIC_WRITE);
    assert_eq!(&b.data(16, 9)[..8], b"8 bytes!");
    for (address, length, status) in [
        (REGION_START + 4, 8, CqeStatus::REMOTE_INVALID_REQUEST),
        (REGION_START + 8, 16, CqeStatus::LOCAL_LENGTH),
        (REGION_START + 8, 4, CqeStatus::LOCAL_LENGTH),
    ] {
        let (mut a, mut b, key) = scene();
        let data = a.segment(0, length);
        post_atomic_write(&mut a, remote(address, key), data);
        expect(&mut a, &mut b, status);
    }
}

/// Goal: exactly the range, or the region, is made persistent, page by page. Method: a host that
/// records what it is asked for.
#[test]
fn a_flush_makes_persistent_what_it_names() {
    const PAGE: u64 = 4096;
    let (mut a, mut b) = connected(PathMtuCode::MTU_1024);
    let mut rights = flush_rights();
    rights.set_flush_persistent(true);
    let key = b.create_region(rights).expect("room");
    b.permit(rights);
    let mut flush = |address, length, kind| {
        b.host.persisted.clear();
        post_flush(&mut a, remote(address, key), length, kind);
        expect(&mut a, &mut b, CqeStatus::SUCCESS);
        std::mem::take(&mut b.host.persisted)
    };
    assert_eq!(flush(REGION_START, 100, GLOBAL), []);
    let within = flush(REGION_START + PAGE - 100, 300, PERSISTENT);
    let lengths: Vec<u64> = within.iter().map(|(_, length)| *length).collect();
    assert_eq!(lengths, [100, 200]);
    let whole = flush(0, 0, GLOBAL | PERSISTENT | WHOLE_REGION);
    assert!(whole.len() > 2 && whole.iter().all(|(_, length)| *length <= PAGE));
}
