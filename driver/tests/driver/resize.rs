//! CQs that change: their rings, their moderation, and concurrent arming by two threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::support::verbs::{Setup, connect, cqe, poll, post, qp_config, setup, wr_ids};
use ferroce_driver::{Error, QueuePair};
use ferroce_spec::command::CommandStatus;
use ferroce_spec::cqe::CqeOpcode;
use ferroce_spec::doorbell::{DoorbellKind, DoorbellValue};

/// Posts and completes one write, whose WQE has this index.
fn complete(s: &Setup, index: u32) {
    post(&s.qp, index.into()).expect("room");
    let entry = cqe(s.qp.number(), index, CqeOpcode::RDMA_WRITE);
    s.fake.complete(s.cq.number().0, entry);
}

fn ring_base(s: &Setup) -> u64 {
    s.fake
        .with_state(|state| state.cqs[&s.cq.number().0].context.base)
}

/// Goal: completions survive any sequence of sizes, wherever the indices are. Method: each round
/// leaves some in the ring, changes the size and takes them, for many laps.
#[test]
fn completions_move_to_the_new_ring() {
    let s = setup();
    connect(&s.qp);
    let mut index = 0;
    let sizes = [4, 64, 16, 4, 8, 1 << 10, 16, 4, 4, 32];
    for turn in 0..200 {
        let waiting = turn % 4;
        let first = index;
        for _ in 0..waiting {
            complete(&s, index);
            index += 1;
        }
        let size = sizes[turn as usize % sizes.len()];
        assert_eq!(s.cq.resize(size), Ok(()), "turn {turn}");
        assert_eq!(s.cq.entries(), size);
        assert_eq!(s.cq.is_empty(), waiting == 0);
        complete(&s, index);
        index += 1;
        let expected: Vec<u64> = (first..index).map(u64::from).collect();
        assert_eq!(wr_ids(&s.cq), expected, "turn {turn}");
        assert!(s.cq.is_empty());
    }
    assert_eq!(s.cq.skipped(), 0);
    let record = s
        .fake
        .with_state(|state| state.cqs[&s.cq.number().0].context.consumer_record);
    assert_eq!(s.fake.memory.load(record), Some(index.into()));
}

#[test]
fn a_refused_resize_changes_nothing() {
    let s = setup();
    connect(&s.qp);
    for index in 0..4 {
        complete(&s, index);
    }
    let base = ring_base(&s);
    let errno = |entries| s.cq.resize(entries).map_err(|error| error.errno());
    assert_eq!(errno(0), Err(libc::EINVAL));
    assert_eq!(errno(1 << 17), Err(libc::EINVAL));
    assert_eq!(errno(2), Err(libc::EINVAL), "four wait");
    *s.fake.refuse.lock() = Some(CommandStatus::NOT_SUPPORTED);
    assert_eq!(errno(64), Err(libc::EOPNOTSUPP));
    assert_eq!((ring_base(&s), s.cq.entries()), (base, 16));
    assert_eq!(errno(9), Ok(()), "rounded up to the present size");
    assert_eq!(ring_base(&s), base);
    assert_eq!(wr_ids(&s.cq), [0, 1, 2, 3]);
    s.qp.destroy().expect("exists");
    assert_eq!(s.cq.destroy(), Ok(()));
    assert_eq!(s.cq.resize(64), Err(Error::Destroyed));
    assert_eq!(s.cq.modify_moderation(1, 1), Err(Error::Destroyed));
    assert_eq!(s.cq.destroy(), Err(Error::Destroyed));
}

/// Goal: polls while the device moves the ring return every completion once. Method: one thread
/// polls without a pause, another completes and resizes.
#[test]
fn polling_meanwhile_finds_nothing_and_loses_nothing() {
    let s = setup();
    connect(&s.qp);
    complete(&s, 0);
    let polled = AtomicU32::new(0);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                polled.fetch_add(poll(&s.cq).len() as u32, Ordering::Relaxed);
            }
        });
        for turn in 0..300u32 {
            assert_eq!(s.cq.resize(8 << (turn % 3)), Ok(()));
            while polled.load(Ordering::Relaxed) < turn + 1 {
                std::thread::yield_now();
            }
            complete(&s, turn + 1);
        }
        while polled.load(Ordering::Relaxed) < 301 {
            std::thread::yield_now();
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(s.cq.skipped(), 0);
}

#[test]
fn a_qp_is_removed_from_the_new_ring() {
    let s = setup();
    let other = QueuePair::create(&s.pd, &qp_config(&s.cq, &s.cq)).expect("small QP");
    connect(&s.qp);
    connect(&other);
    for index in 0..3 {
        complete(&s, index);
        post(&other, u64::from(index) + 100).expect("room");
        let entry = cqe(other.number(), index, CqeOpcode::RDMA_WRITE);
        s.fake.complete(s.cq.number().0, entry);
    }
    s.cq.resize(8).expect("six fit");
    s.qp.destroy().expect("exists");
    assert_eq!(wr_ids(&s.cq), [100, 101, 102]);
}

#[test]
fn moderation() {
    let s = setup();
    let now = || {
        let context = s
            .fake
            .with_state(|state| state.cqs[&s.cq.number().0].context);
        (context.moderation_count, context.moderation_us)
    };
    let base = ring_base(&s);
    assert_eq!(s.cq.modify_moderation(16, 100), Ok(()));
    assert_eq!((now(), ring_base(&s)), ((16, 100), base));
    s.cq.resize(64).expect("empty");
    assert_eq!(now(), (16, 100), "a resize keeps it");
}

/// Goal: of two threads that arm a CQ, the stronger request wins in any order. Method: the stronger
/// request comes just before the doorbell of the weaker one, which must not be the last.
#[test]
fn the_stronger_request_wins() {
    let s = setup();
    let cq = Arc::clone(&s.cq);
    *s.fake.before_doorbell.lock() = Some(Box::new(move || cq.arm()));
    s.cq.arm_solicited();
    let kinds: Vec<_> = s
        .fake
        .take_doorbells()
        .iter()
        .map(|&(_, value)| DoorbellKind(DoorbellValue::from_bits(value).kind()))
        .collect();
    let (any, solicited) = (DoorbellKind::CQ_ARM, DoorbellKind::CQ_ARM_SOLICITED);
    assert_eq!(kinds, [any, solicited, any]);
}
