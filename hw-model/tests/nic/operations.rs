//! Two NICs on a cable, driven by the contract alone: operations move the right bytes.

use crate::common::{self, CQ_SLOT, Machine, REGION_START, all_rights, connected, run_both};
use ferroce_spec::context::PathMtuCode;
use ferroce_spec::counter::Counter;
use ferroce_spec::cqe::{Cqe, CqeOpcode, CqeStatus};
use ferroce_spec::doorbell::{DoorbellKind, DoorbellValue};
use ferroce_spec::wqe::SendOpcode;

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i * 7 + length) as u8).collect()
}

fn expect(machine: &mut Machine, opcode: CqeOpcode, status: CqeStatus) -> Cqe {
    let cqe = machine.poll().expect("a CQE");
    assert_eq!(
        (CqeStatus(cqe.word.status()), CqeOpcode(cqe.word.opcode())),
        (status, opcode)
    );
    cqe
}

#[test]
fn write_lands_in_the_peers_memory_at_every_mtu() {
    for (code, length) in [(1, 1), (2, 1000), (3, 4096), (4, 100_000), (5, 1_000_000)] {
        let (mut a, mut b) = connected(PathMtuCode(code));
        let bytes = pattern(length);
        a.data(5, length).copy_from_slice(&bytes);
        let remote = Some((REGION_START + 1003, b.key));
        a.post(SendOpcode::RDMA_WRITE, remote, a.segment(5, length as u32));
        run_both(&mut a, &mut b, 200);
        expect(&mut a, CqeOpcode::RDMA_WRITE, CqeStatus::SUCCESS);
        assert!(b.data(1003, length) == bytes, "MTU code {code}");
        assert_eq!(
            b.data(1003 + length as u64, 1),
            [0],
            "nothing behind the message"
        );
        assert!(b.poll().is_none(), "a WRITE completes nothing at the peer");
    }
}

#[test]
fn read_brings_the_peers_memory() {
    let (mut a, mut b) = connected(PathMtuCode::MTU_1024);
    let bytes = pattern(50_000);
    b.data(77, bytes.len()).copy_from_slice(&bytes);
    let remote = Some((REGION_START + 77, b.key));
    a.post(
        SendOpcode::RDMA_READ,
        remote,
        a.segment(123, bytes.len() as u32),
    );
    run_both(&mut a, &mut b, 100);
    let cqe = expect(&mut a, CqeOpcode::RDMA_READ, CqeStatus::SUCCESS);
    assert_eq!(cqe.byte_count as usize, bytes.len());
    assert!(a.data(123, bytes.len()) == bytes);
}

#[test]
fn send_takes_a_receive() {
    let (mut a, mut b) = connected(PathMtuCode::MTU_4096);
    let bytes = pattern(9000);
    a.data(0, bytes.len()).copy_from_slice(&bytes);
    b.post_receive(b.segment(64, 10_000));
    b.run(1);
    a.post(SendOpcode::SEND, None, a.segment(0, bytes.len() as u32));
    run_both(&mut a, &mut b, 20);
    expect(&mut a, CqeOpcode::SEND, CqeStatus::SUCCESS);
    let cqe = expect(&mut b, CqeOpcode::RECEIVE, CqeStatus::SUCCESS);
    assert_eq!((cqe.byte_count, cqe.wqe_index), (9000, 0));
    assert!(b.data(64, bytes.len()) == bytes);
}

#[test]
fn send_waits_for_a_late_receive() {
    let (mut a, mut b) = connected(PathMtuCode::MTU_4096);
    a.post(SendOpcode::SEND, None, a.segment(0, 100));
    run_both(&mut a, &mut b, 10);
    assert!(a.poll().is_none() && b.poll().is_none());
    assert!(b.nic.counters().value(Counter::rx_frames) > 0);
    b.post_receive(b.segment(64, 100));
    run_both(&mut a, &mut b, 100);
    expect(&mut a, CqeOpcode::SEND, CqeStatus::SUCCESS);
    expect(&mut b, CqeOpcode::RECEIVE, CqeStatus::SUCCESS);
}

#[test]
fn wrong_key_is_refused_and_the_rest_is_flushed() {
    let (mut a, mut b) = connected(PathMtuCode::MTU_1024);
    let remote = Some((REGION_START, b.key ^ 1));
    a.post(SendOpcode::RDMA_WRITE, remote, a.segment(0, 64));
    run_both(&mut a, &mut b, 10);
    assert_eq!(
        CqeStatus(a.poll().expect("a CQE").word.status()),
        CqeStatus::REMOTE_ACCESS
    );
    a.post(
        SendOpcode::RDMA_WRITE,
        Some((REGION_START, b.key)),
        a.segment(0, 64),
    );
    a.post_receive(a.segment(0, 64));
    run_both(&mut a, &mut b, 10);
    for _ in 0..2 {
        assert_eq!(
            CqeStatus(a.poll().expect("a CQE").word.status()),
            CqeStatus::WR_FLUSH
        );
    }
}

#[test]
fn region_without_the_right_is_refused() {
    let (mut a, mut b) = connected(PathMtuCode::MTU_1024);
    let mut rights = all_rights();
    rights.set_remote_write(false);
    let key = b.create_region(rights).expect("room");
    a.post(
        SendOpcode::RDMA_WRITE,
        Some((REGION_START, key)),
        a.segment(0, 64),
    );
    run_both(&mut a, &mut b, 10);
    assert_eq!(
        CqeStatus(a.poll().expect("a CQE").word.status()),
        CqeStatus::REMOTE_ACCESS
    );
}

#[test]
fn local_key_that_is_wrong_fails_the_sender_only() {
    let (mut a, mut b) = connected(PathMtuCode::MTU_1024);
    let mut segment = a.segment(0, 64);
    segment.l_key ^= 1;
    a.post(SendOpcode::RDMA_WRITE, Some((REGION_START, b.key)), segment);
    run_both(&mut a, &mut b, 10);
    assert_eq!(
        CqeStatus(a.poll().expect("a CQE").word.status()),
        CqeStatus::LOCAL_PROTECTION
    );
    assert!(b.poll().is_none());
}

#[test]
fn lost_frames_are_sent_again() {
    let (mut a, mut b) = connected(PathMtuCode::MTU_256);
    let bytes = pattern(20_000);
    a.data(0, bytes.len()).copy_from_slice(&bytes);
    a.post(
        SendOpcode::RDMA_WRITE,
        Some((REGION_START, b.key)),
        a.segment(0, 20_000),
    );
    for turn in 0..4000 {
        a.run(1000);
        if turn % 3 == 0 {
            a.port.out.borrow_mut().pop_front();
        }
        b.run(1000);
    }
    expect(&mut a, CqeOpcode::RDMA_WRITE, CqeStatus::SUCCESS);
    assert!(b.data(0, bytes.len()) == bytes);
}

#[test]
fn silent_peer_ends_in_retry_exceeded() {
    let (mut a, b) = connected(PathMtuCode::MTU_1024);
    a.post(
        SendOpcode::RDMA_WRITE,
        Some((REGION_START, b.key)),
        a.segment(0, 64),
    );
    // Eight tries of four local ACK timeouts of 4.2 ms.
    for _ in 0..150 {
        a.run(1_000_000);
        a.port.out.borrow_mut().clear();
    }
    assert_eq!(
        CqeStatus(a.poll().expect("a CQE").word.status()),
        CqeStatus::RETRY_EXCEEDED
    );
}

#[test]
fn cq_that_overruns_says_so() {
    let (mut a, mut b) = connected(PathMtuCode::MTU_1024);
    for _ in 0..(1 << common::LOG_CQES) + 3 {
        a.post(
            SendOpcode::RDMA_WRITE,
            Some((REGION_START, b.key)),
            a.segment(0, 1),
        );
        run_both(&mut a, &mut b, 10);
    }
    assert_eq!(a.nic.counters().value(Counter::cq_overruns), 1);
    assert_eq!(a.nic.counters().value(Counter::eqes), 1);
}

/// Goal: no event is lost and none comes twice for the same CQE. Method: arm before and after
/// CQEs, with CQEs taken and not taken, and count EQEs.
#[test]
fn arming_announces_each_cqe_once() {
    let (mut a, mut b) = connected(PathMtuCode::MTU_1024);
    let write = |a: &mut Machine, b: &mut Machine| {
        let segment = a.segment(0, 1);
        a.post(SendOpcode::RDMA_WRITE, Some((REGION_START, b.key)), segment);
        run_both(a, b, 10);
    };
    let arm = |a: &mut Machine| {
        let value = DoorbellValue::new(DoorbellKind::CQ_ARM, a.cqn, a.consumer);
        a.ring(CQ_SLOT, value);
        a.run(1);
        a.nic.counters().value(Counter::eqes)
    };
    write(&mut a, &mut b);
    assert_eq!(arm(&mut a), 1, "an unannounced CQE is announced at once");
    assert_eq!(arm(&mut a), 1, "but not again, although it was not taken");
    assert!(a.poll().is_some());
    write(&mut a, &mut b);
    assert_eq!(
        a.nic.counters().value(Counter::eqes),
        2,
        "armed: the next CQE is announced"
    );
    write(&mut a, &mut b);
    assert_eq!(
        arm(&mut a),
        3,
        "a CQE that came before arming is announced at once"
    );
    while a.poll().is_some() {}
    write(&mut a, &mut b);
    assert!(a.poll().is_some());
    assert_eq!(arm(&mut a), 3, "a CQE that was taken is not announced");
}
