//! Binds and invalidations as work requests: what they complete with, and what peers can do then.

use crate::common::{Machine, REGION_START, all_rights, connected, place, run_both};
use ferroce_spec::command::CommandOpcode;
use ferroce_spec::context::{AccessRights, MemoryEntry, MemoryEntryWord, PathMtuCode};
use ferroce_spec::counter::Counter;
use ferroce_spec::cqe::{Cqe, CqeOpcode, CqeStatus};
use ferroce_spec::wqe::{BindSegment, SendOpcode};
use proptest::prelude::*;

/// Two connected machines; the second has a region for windows, its key is the third value.
fn scene() -> (Machine, Machine, u32) {
    let (a, mut b) = connected(PathMtuCode::MTU_1024);
    let mut rights = AccessRights::default();
    rights.set_local_write(true);
    rights.set_window_bind(true);
    let region = b.create_region(rights).expect("room");
    (a, b, region)
}

fn window(machine: &mut Machine, type_2: bool) -> u32 {
    let mut word = MemoryEntryWord::default();
    word.set_window(true);
    word.set_window_type_2(type_2);
    let entry = MemoryEntry {
        word,
        key: 0x20,
        pd: 7,
        ..MemoryEntry::default()
    };
    let key = machine.command(CommandOpcode::CREATE_MR, 0, &entry);
    key.expect("room") as u32
}

/// A bind of 4 KiB from 0x800 on, for remote writes, under the window's next key.
fn segment(window: u32, region: u32) -> BindSegment {
    let mut access = AccessRights::default();
    access.set_remote_write(true);
    BindSegment {
        r_key: window + 1,
        l_key: region,
        address: REGION_START + 0x800,
        length: 4096,
        access,
        reserved: 0,
    }
}

fn expect(machine: &mut Machine, opcode: CqeOpcode) -> Cqe {
    let cqe = machine.poll().expect("a CQE");
    let found = (CqeStatus(cqe.word.status()), CqeOpcode(cqe.word.opcode()));
    assert_eq!(found, (CqeStatus::SUCCESS, opcode));
    cqe
}

fn status(machine: &mut Machine) -> CqeStatus {
    CqeStatus(machine.poll().expect("a CQE").word.status())
}

/// Returns the status of a write of `a` through the key of `b`.
fn write((a, b): (&mut Machine, &mut Machine), address: u64, key: u32) -> CqeStatus {
    let data = a.segment(0, 16);
    a.post(SendOpcode::RDMA_WRITE, Some((address, key)), data);
    run_both(a, b, 10);
    status(a)
}

#[test]
fn window_that_is_bound_lets_a_peer_in() {
    for type_2 in [false, true] {
        let (mut a, mut b, region) = scene();
        let window = window(&mut b, type_2);
        b.post_bind(&segment(window, region));
        b.run(10);
        expect(&mut b, CqeOpcode::BIND_WINDOW);
        assert_eq!(b.nic.counters().value(Counter::windows_bound), 1);
        a.data(0, 16).fill(0x77);
        let pair = (&mut a, &mut b);
        let status = write(pair, REGION_START + 0x800, window + 1);
        assert_eq!(status, CqeStatus::SUCCESS);
        assert_eq!(b.data(0x800, 16), [0x77; 16]);
        let pair = (&mut a, &mut b);
        let status = write(pair, REGION_START + 0x7ff, window + 1);
        assert_eq!(status, CqeStatus::REMOTE_ACCESS);
        assert_eq!(b.data(0x7ff, 1), [0]);
    }
}

#[test]
fn reads_and_atomics_go_through_a_zero_based_window() {
    let (mut a, mut b, region) = scene();
    let window = window(&mut b, true);
    let mut access = AccessRights::default();
    access.set_remote_read(true);
    access.set_remote_atomic(true);
    access.set_zero_based(true);
    let key = window + 1;
    b.post_bind(&BindSegment {
        access,
        ..segment(window, region)
    });
    b.data(0x800, 4096).fill(1);
    b.run(10);
    expect(&mut b, CqeOpcode::BIND_WINDOW);
    let data = a.segment(0, 4096);
    a.post(SendOpcode::RDMA_READ, Some((0, key)), data);
    run_both(&mut a, &mut b, 20);
    expect(&mut a, CqeOpcode::RDMA_READ);
    let result = a.segment(8192, 8);
    a.post_fetch_add((8, key), 1, result);
    run_both(&mut a, &mut b, 20);
    expect(&mut a, CqeOpcode::FETCH_ADD);
    assert!(a.data(0, 4096).iter().all(|byte| *byte == 1));
    assert_eq!(a.data(8192, 8), [1; 8]);
    assert_eq!(
        b.data(0x808, 8),
        (u64::from_ne_bytes([1; 8]) + 1).to_ne_bytes()
    );
    a.post(SendOpcode::RDMA_READ, Some((1, key)), data);
    run_both(&mut a, &mut b, 20);
    assert_eq!(status(&mut a), CqeStatus::REMOTE_ACCESS);
}

#[test]
fn bind_of_length_zero_shuts_the_peer_out() {
    let (mut a, mut b, region) = scene();
    let window = window(&mut b, false);
    b.post_bind(&segment(window, region));
    b.post_bind(&BindSegment {
        r_key: window + 2,
        length: 0,
        ..segment(window, region)
    });
    b.run(10);
    expect(&mut b, CqeOpcode::BIND_WINDOW);
    expect(&mut b, CqeOpcode::BIND_WINDOW);
    let status = write((&mut a, &mut b), REGION_START + 0x800, window + 2);
    assert_eq!(status, CqeStatus::REMOTE_ACCESS);
}

#[test]
fn bind_that_is_refused_fails_its_queue_pair_and_flushes_the_rest() {
    let (mut a, mut b, _) = scene();
    let window = window(&mut b, true);
    let not_bindable = b.key;
    b.post_bind(&segment(window, not_bindable));
    b.post_bind(&segment(window, not_bindable));
    run_both(&mut a, &mut b, 5);
    assert_eq!(status(&mut b), CqeStatus::WINDOW_BIND);
    assert_eq!(status(&mut b), CqeStatus::WR_FLUSH);
}

#[test]
fn local_invalidate_shuts_the_peer_out() {
    let (mut a, mut b, region) = scene();
    let window = window(&mut b, true);
    b.post_bind(&segment(window, region));
    b.post_invalidate(window + 1);
    b.run(10);
    expect(&mut b, CqeOpcode::BIND_WINDOW);
    expect(&mut b, CqeOpcode::LOCAL_INVALIDATE);
    assert_eq!(b.nic.counters().value(Counter::keys_invalidated), 1);
    let status = write((&mut a, &mut b), REGION_START + 0x800, window + 1);
    assert_eq!(status, CqeStatus::REMOTE_ACCESS);
}

#[test]
fn what_cannot_be_invalidated_fails_the_queue_pair() {
    for case in 0..4 {
        let (mut a, mut b, region) = scene();
        let of_type_1 = window(&mut b, false);
        let stale = window(&mut b, true) + 1;
        let key = [region, of_type_1, stale, 0][case];
        b.post_invalidate(key);
        run_both(&mut a, &mut b, 5);
        assert_eq!(status(&mut b), CqeStatus::WINDOW_BIND, "case {case}");
    }
}

#[test]
fn send_invalidates_the_peers_window() {
    let (mut a, mut b, region) = scene();
    let window = window(&mut b, true);
    b.post_bind(&segment(window, region));
    b.post_receive(b.segment(0x2000, 64));
    b.run(10);
    expect(&mut b, CqeOpcode::BIND_WINDOW);
    a.data(0, 32).fill(3);
    let data = a.segment(0, 32);
    a.post_send_invalidate(window + 1, data);
    run_both(&mut a, &mut b, 10);
    expect(&mut a, CqeOpcode::SEND);
    let cqe = expect(&mut b, CqeOpcode::RECEIVE);
    assert!(cqe.word.with_invalidate() && !cqe.word.with_immediate());
    assert_eq!(u32::from_le_bytes(cqe.immediate), window + 1);
    assert_eq!((cqe.byte_count, b.data(0x2000, 1)[0]), (32, 3));
    let status = write((&mut a, &mut b), REGION_START + 0x800, window + 1);
    assert_eq!(status, CqeStatus::REMOTE_ACCESS);
}

#[test]
fn send_that_would_invalidate_what_it_must_not_ends_its_receive() {
    for type_2 in [false, true] {
        let (mut a, mut b, region) = scene();
        let window = window(&mut b, type_2);
        b.post_receive(b.segment(0x2000, 64));
        if !type_2 {
            b.post_bind(&segment(window, region));
            b.run(10);
            expect(&mut b, CqeOpcode::BIND_WINDOW);
        }
        b.run(10);
        a.data(0, 32).fill(3);
        let data = a.segment(0, 32);
        a.post_send_invalidate(window + u32::from(!type_2), data);
        run_both(&mut a, &mut b, 10);
        // A fault of class J: the receive reports that the key was not invalidated, and nothing
        // notifies the requester.
        assert!(a.poll().is_none());
        assert_eq!(status(&mut b), CqeStatus::REMOTE_INVALID_REQUEST);
        assert_eq!(b.data(0x2000, 32), [3; 32]);
    }
}

#[test]
fn local_operations_keep_their_place_among_the_others() {
    let (mut a, mut b, region) = scene();
    let window = window(&mut b, true);
    let peer = (REGION_START, a.key);
    let data = b.segment(0, 3000);
    b.post(SendOpcode::RDMA_READ, Some(peer), data);
    b.post_bind(&segment(window, region));
    b.post(SendOpcode::RDMA_WRITE, Some(peer), data);
    b.post_block(SendOpcode::NOP, [0; 4], &[]);
    b.post_invalidate(window + 1);
    b.post(SendOpcode::RDMA_WRITE, Some(peer), data);
    run_both(&mut a, &mut b, 50);
    for (index, opcode) in [
        CqeOpcode::RDMA_READ,
        CqeOpcode::BIND_WINDOW,
        CqeOpcode::RDMA_WRITE,
        CqeOpcode::NOP,
        CqeOpcode::LOCAL_INVALIDATE,
        CqeOpcode::RDMA_WRITE,
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(expect(&mut b, opcode).wqe_index as usize, index);
    }
}

/// Goal: a request that cannot be executed completes when the local operation before it is done,
/// though nothing is ever sent. Found by random programs against the card in RTL.
#[test]
fn request_that_fails_behind_a_local_operation_completes() {
    let (mut a, mut b, _) = scene();
    b.post_block(SendOpcode::NOP, [0; 4], &[]);
    b.post_block(SendOpcode(0x3f), [0; 4], &[]);
    run_both(&mut a, &mut b, 10);
    assert_eq!(expect(&mut b, CqeOpcode::NOP).wqe_index, 0);
    let cqe = b.poll().expect("the CQE of the failure");
    let found = (CqeStatus(cqe.word.status()), cqe.wqe_index);
    assert_eq!(found, (CqeStatus::LOCAL_QP_OPERATION, 1));
}

#[test]
fn window_goes_with_the_queue_pair_that_bound_it() {
    let (_a, mut b, region) = scene();
    let window = window(&mut b, true);
    b.post_bind(&segment(window, region));
    b.run(10);
    expect(&mut b, CqeOpcode::BIND_WINDOW);
    let qpn = u64::from(b.qpn);
    b.command(CommandOpcode::DESTROY_QP, qpn, &[0u8; 0])
        .expect("there");
    b.command(CommandOpcode::QUERY_MR, u64::from(window), &[0u8; 0])
        .expect("there");
    let entry: MemoryEntry = b.host.read(place::OUTPUT);
    assert!(!entry.word.bound());
    let region = u64::from(region);
    b.command(CommandOpcode::DESTROY_MR, region, &[0u8; 0])
        .expect("no windows any more");
}

#[test]
fn access_of_no_bytes_checks_no_key() {
    // IBTA vol 1, C9-88.
    let (mut a, mut b) = connected(PathMtuCode::MTU_1024);
    let nothing = a.segment(0, 0);
    for opcode in [SendOpcode::RDMA_WRITE, SendOpcode::RDMA_READ] {
        a.post(opcode, Some((u64::MAX, 0xdead_beef)), nothing);
        run_both(&mut a, &mut b, 10);
        assert_eq!(status(&mut a), CqeStatus::SUCCESS);
    }
    let mut unregistered = nothing;
    unregistered.l_key = 0xbad;
    let remote = (REGION_START, b.key);
    a.post(SendOpcode::RDMA_WRITE, Some(remote), unregistered);
    run_both(&mut a, &mut b, 10);
    assert_eq!(status(&mut a), CqeStatus::SUCCESS);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// A program may write any bytes behind a control segment: only its own memory changes.
    #[test]
    fn any_operands_of_any_operation_are_survived(
        requests in prop::collection::vec(
            (0..0x30u8, any::<[u8; 4]>(), prop::collection::vec(any::<u8>(), 48), 0..16u32),
            1..12,
        ),
    ) {
        let (mut a, mut b, region) = scene();
        let window = window(&mut a, true);
        a.create_region(all_rights()).expect("room");
        let keys = [window, window + 1, region, a.key, b.key];
        for (opcode, immediate, mut operands, choice) in requests {
            // Often a key that exists, at the places where operations have keys.
            let key = keys[choice as usize % keys.len()].to_le_bytes();
            if choice < 10 {
                operands[..4].copy_from_slice(&key);
                operands[8..12].copy_from_slice(&key);
                operands[4..8].copy_from_slice(&keys[3].to_le_bytes());
            }
            let immediate = if choice % 2 == 0 { key } else { immediate };
            a.post_block(SendOpcode(opcode), immediate, &[&operands]);
            run_both(&mut a, &mut b, 5);
        }
        let zeros = &a.host.memory[0x2_0000..place::QPC as usize];
        prop_assert!(zeros.iter().all(|byte| *byte == 0));
    }
}
