//! Completions over an honest device.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::support::verbs::{
    connect, cq_of, cqe, poll, post, qp_config, receive_queue, segment, send_queue, setup, wr_ids,
    write_request,
};
use ferroce_driver::{
    CompletionOpcode, CompletionStatus, Error, ModifyQp, PostError, Qpn, QueuePair, SendData,
};
use ferroce_spec::cqe::{CqeOpcode, CqeStatus};
use ferroce_spec::doorbell::DoorbellValue;
use parking_lot::Mutex;

#[test]
fn completions_free_the_queue() {
    let s = setup();
    connect(&s.qp);
    for lap in 0..20u32 {
        for i in 0..4 {
            post(&s.qp, u64::from(lap * 4 + i)).expect("room");
        }
        assert_eq!(post(&s.qp, 0), Err(PostError::QueueFull));
        let number = s.qp.number();
        s.fake.complete(
            s.cq.number().0,
            cqe(number, lap * 4 + 1, CqeOpcode::RDMA_WRITE),
        );
        s.fake.complete(
            s.cq.number().0,
            cqe(number, lap * 4 + 3, CqeOpcode::RDMA_WRITE),
        );
        let expected = [u64::from(lap * 4 + 1), u64::from(lap * 4 + 3)];
        assert_eq!(wr_ids(&s.cq), expected);
        receive_queue(&s.qp).post(lap.into(), &[]).expect("room");
        s.fake
            .complete(s.cq.number().0, cqe(number, lap, CqeOpcode::RECEIVE));
        let done = poll(&s.cq);
        assert_eq!(done[0].wr_id, u64::from(lap));
        assert_eq!(done[0].opcode, CompletionOpcode::Receive);
        assert_eq!((done[0].byte_length, done[0].timestamp_ns), (99, 777));
        assert_eq!(done[0].immediate, None);
    }
    let record = s
        .fake
        .with_state(|state| state.cqs[&s.cq.number().0].context.consumer_record);
    assert_eq!(s.fake.memory.load(record), Some(60));
    assert_eq!(s.cq.skipped(), 0);
}

#[test]
fn completion_fields() {
    let s = setup();
    connect(&s.qp);
    receive_queue(&s.qp).post(5, &[]).expect("room");
    let mut entry = cqe(s.qp.number(), 0, CqeOpcode::RECEIVE_RDMA_IMMEDIATE);
    entry.word.set_with_immediate(true);
    entry.word.set_solicited(true);
    s.fake.complete(s.cq.number().0, entry);
    post(&s.qp, 6).expect("room");
    let mut entry = cqe(s.qp.number(), 0, CqeOpcode(0x55));
    entry.word.set_status(CqeStatus::RETRY_EXCEEDED.0);
    entry.word.set_vendor_error(0x81);
    s.fake.complete(s.cq.number().0, entry);
    let done = poll(&s.cq);
    assert_eq!(done[0].opcode, CompletionOpcode::ReceiveRdmaWithImmediate);
    assert_eq!(done[0].immediate, Some([1, 2, 3, 4]));
    assert!(done[0].solicited);
    assert_eq!(done[1].status, CompletionStatus::RetryExceededError);
    assert_eq!((done[1].wr_id, done[1].vendor_error), (6, 0x81));
    assert_eq!(done[1].opcode, CompletionOpcode::RdmaWrite);
}

#[test]
fn cqes_that_name_nothing_are_skipped() {
    let s = setup();
    connect(&s.qp);
    post(&s.qp, 1).expect("room");
    let cqn = s.cq.number().0;
    s.fake.complete(cqn, cqe(Qpn(0xdead), 0, CqeOpcode::SEND));
    s.fake.complete(cqn, cqe(s.qp.number(), 1, CqeOpcode::SEND));
    s.fake
        .complete(cqn, cqe(s.qp.number(), 0, CqeOpcode::RECEIVE));
    s.fake.complete(cqn, cqe(s.qp.number(), 0, CqeOpcode::SEND));
    s.fake.complete(cqn, cqe(s.qp.number(), 0, CqeOpcode::SEND));
    assert_eq!(wr_ids(&s.cq), [1]);
    assert_eq!(wr_ids(&s.cq), [0u64; 0]);
    assert_eq!(s.cq.skipped(), 4);
}

#[test]
fn batches_ring_once_and_can_be_taken_back() {
    let s = setup();
    connect(&s.qp);
    let segments = [segment(8)];
    let request = |wr_id| write_request(wr_id, SendData::ScatterGather(&segments));
    let mut batch = send_queue(&s.qp).lock();
    batch.post(&request(1)).expect("room");
    batch.post(&request(2)).expect("room");
    batch.abort();
    assert!(s.fake.take_doorbells().is_empty());
    s.fake
        .complete(s.cq.number().0, cqe(s.qp.number(), 0, CqeOpcode::SEND));
    assert_eq!(wr_ids(&s.cq), [0u64; 0], "the doorbell was never rung");
    let mut batch = send_queue(&s.qp).lock();
    batch.post(&request(3)).expect("room");
    batch.post(&request(4)).expect("room");
    batch.ring();
    batch.post(&request(5)).expect("room");
    batch.abort();
    let rung: Vec<u32> = s
        .fake
        .take_doorbells()
        .iter()
        .map(|&(_, value)| DoorbellValue::from_bits(value).index())
        .collect();
    assert_eq!(rung, [2]);
    s.fake
        .complete(s.cq.number().0, cqe(s.qp.number(), 1, CqeOpcode::SEND));
    let mut poller = s.cq.lock();
    assert_eq!(poller.next().map(|completion| completion.wr_id), Some(4));
    assert_eq!(poller.next(), None);
}

#[test]
fn reset_and_destroy_remove_stale_completions() {
    let s = setup();
    let other = QueuePair::create(&s.pd, &qp_config(&s.cq, &s.cq)).expect("small QP");
    let cqn = s.cq.number().0;
    // Move the CQ's indices to the end of the ring, so that entries wrap around it.
    connect(&s.qp);
    connect(&other);
    for index in 0..14 {
        post(&s.qp, 0).expect("room");
        s.fake
            .complete(cqn, cqe(s.qp.number(), index, CqeOpcode::SEND));
        assert_eq!(poll(&s.cq).len(), 1);
    }
    for i in 0..4 {
        post(&s.qp, 100 + i).expect("room");
        post(&other, 200 + i).expect("room");
        s.fake
            .complete(cqn, cqe(s.qp.number(), 14 + i as u32, CqeOpcode::SEND));
        s.fake
            .complete(cqn, cqe(other.number(), i as u32, CqeOpcode::SEND));
    }
    s.qp.modify(&ModifyQp::ToReset).expect("always");
    assert_eq!(post(&s.qp, 0), Err(PostError::InvalidState));
    let mut poller = s.cq.lock();
    assert_eq!(poller.next().map(|completion| completion.wr_id), Some(200));
    drop(poller);
    connect(&s.qp);
    for i in 0..4 {
        post(&s.qp, 300 + i).expect("all free again");
        s.fake
            .complete(cqn, cqe(s.qp.number(), i as u32, CqeOpcode::SEND));
    }
    other.destroy().expect("exists");
    assert_eq!(wr_ids(&s.cq), [300, 301, 302, 303]);
    assert_eq!(s.cq.skipped(), 0);
    let record = s
        .fake
        .with_state(|state| state.cqs[&cqn].context.consumer_record);
    assert_eq!(s.fake.memory.load(record), Some(14 + 8 + 4));
}

#[test]
fn two_cqs() {
    let s = setup();
    let receive_cq = cq_of(&s.device, 4);
    let qp = QueuePair::create(&s.pd, &qp_config(&s.cq, &receive_cq)).expect("small QP");
    connect(&qp);
    post(&qp, 1).expect("room");
    receive_queue(&qp).post(2, &[]).expect("room");
    s.fake
        .complete(s.cq.number().0, cqe(qp.number(), 0, CqeOpcode::RECEIVE));
    s.fake
        .complete(receive_cq.number().0, cqe(qp.number(), 0, CqeOpcode::SEND));
    assert_eq!(
        poll(&s.cq).len() + poll(&receive_cq).len(),
        0,
        "wrong sides"
    );
    s.fake
        .complete(s.cq.number().0, cqe(qp.number(), 0, CqeOpcode::SEND));
    s.fake.complete(
        receive_cq.number().0,
        cqe(qp.number(), 0, CqeOpcode::RECEIVE),
    );
    assert_eq!((wr_ids(&s.cq), wr_ids(&receive_cq)), (vec![1], vec![2]));
    assert_eq!(receive_cq.destroy(), Err(Error::Busy));
    qp.modify(&ModifyQp::ToReset).expect("always");
    drop(qp);
    assert_eq!(receive_cq.destroy(), Ok(()));
}

#[test]
fn an_empty_poll_lets_the_bus_work_once() {
    let s = setup();
    connect(&s.qp);
    post(&s.qp, 42).expect("room");
    let count = Arc::new(AtomicU32::new(0));
    let (turns, fake) = (count.clone(), Arc::downgrade(&s.fake));
    let entry = cqe(s.qp.number(), 0, CqeOpcode::RDMA_WRITE);
    let cqn = s.cq.number().0;
    *s.fake.on_relax.lock() = Some(Box::new(move || {
        if turns.fetch_add(1, Ordering::Relaxed) == 1 {
            fake.upgrade().expect("alive").complete(cqn, entry);
        }
    }));
    assert_eq!(poll(&s.cq).len(), 0);
    assert_eq!(wr_ids(&s.cq), [42], "found after the bus has worked");
    assert_eq!(count.load(Ordering::Relaxed), 2);
    s.fake.on_relax.lock().take();
}

/// Goal: threads may share a QP and a CQ; no completion is lost or duplicated. Method: two threads
/// post, the device completes up to its doorbells, two threads poll.
#[test]
fn threads_share_a_qp_and_a_cq() {
    const EACH: u64 = 3000;
    let s = setup();
    connect(&s.qp);
    let seen = Mutex::new(vec![0u32; 2 * EACH as usize]);
    let left = AtomicU32::new(2 * EACH as u32);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let qp = &s.qp;
            scope.spawn(move || {
                for wr_id in thread * EACH..(thread + 1) * EACH {
                    while post(qp, wr_id) == Err(PostError::QueueFull) {
                        std::thread::yield_now();
                    }
                }
            });
            scope.spawn(|| {
                while left.load(Ordering::Relaxed) > 0 {
                    let count = s.cq.poll(3, |completion| {
                        seen.lock()[completion.wr_id as usize] += 1;
                    });
                    left.fetch_sub(count as u32, Ordering::Relaxed);
                    std::thread::yield_now();
                }
            });
        }
        scope.spawn(|| {
            let mut next = 0;
            while left.load(Ordering::Relaxed) > 0 {
                for (_, value) in s.fake.take_doorbells() {
                    let producer = DoorbellValue::from_bits(value).index();
                    for index in next..producer {
                        let entry = cqe(s.qp.number(), index, CqeOpcode::RDMA_WRITE);
                        s.fake.complete(s.cq.number().0, entry);
                    }
                    next = producer;
                }
                std::thread::yield_now();
            }
        });
    });
    assert!(seen.lock().iter().all(|&count| count == 1));
    assert_eq!(s.cq.skipped(), 0);
}
