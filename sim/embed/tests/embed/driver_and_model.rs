//! Behaviour that needs driver and model together: a CQ that is resized under traffic, and receives
//! of an SRQ whose QP is destroyed in the middle of a message.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use crate::common::{Node, Rendezvous, TIMEOUT};
use ferroce_driver::{
    CompletionStatus, DataSegment, ModifyQp, PostError, QueuePair, QueuePairConfig, ReceiveSource,
    SendData, SendOperation, SharedReceiveQueue, SharedReceiveQueueConfig,
};
use ferroce_test_support::Deadline;
use ferroce_test_verbs as verbs;

/// Goal: no completion is lost or duplicated while the ring is replaced. Method: one thread posts
/// writes, another polls, this one resizes continuously.
#[test]
fn a_cq_is_resized_under_traffic() {
    /// The traffic continues until it reaches this number, whatever the scheduling of the threads.
    const WRITES: u64 = 20_000;
    const RESIZES: usize = 11;
    let rendezvous = Rendezvous::new("resize");
    let node = Node::new(&rendezvous.options("resize"));
    node.connect(&node);
    let (next, posted) = (AtomicU32::new(0), AtomicU64::new(u64::MAX));
    let (resizes, done) = (AtomicUsize::new(0), AtomicBool::new(false));
    let deadline = Deadline::new("room, and completions", TIMEOUT);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let segments = [node.segment(8)];
            let mut wr_id = 0;
            while wr_id < WRITES || resizes.load(Ordering::Relaxed) < RESIZES {
                let operation = SendOperation::RdmaWrite(node.remote());
                let data = SendData::ScatterGather(&segments);
                let request = verbs::request(wr_id, operation, data);
                match node.qp.send_queue().expect("RC").lock().post(&request) {
                    Ok(()) => wr_id += 1,
                    Err(error) => {
                        assert_eq!(error, PostError::QueueFull);
                        deadline.check();
                        std::thread::yield_now();
                    }
                }
            }
            posted.store(wr_id, Ordering::Relaxed);
        });
        scope.spawn(|| {
            while u64::from(next.load(Ordering::Relaxed)) < posted.load(Ordering::Relaxed) {
                deadline.check();
                node.cq.poll(16, |completion| {
                    assert_eq!(completion.status, CompletionStatus::Success);
                    let expected = next.fetch_add(1, Ordering::Relaxed);
                    assert_eq!(completion.wr_id, u64::from(expected));
                });
            }
            done.store(true, Ordering::Relaxed);
        });
        while !done.load(Ordering::Relaxed) && !deadline.is_over() {
            // All are large enough for the send queue, so that the CQ never overruns.
            let entries = [256, 4096, 128, 1024][resizes.load(Ordering::Relaxed) % 4];
            node.cq.resize(entries).expect("what waits fits");
            resizes.fetch_add(1, Ordering::Relaxed);
            std::thread::yield_now();
        }
    });
    assert_eq!(node.cq.skipped(), 0);
}

/// Goal: the slot of a receive that has begun is not lost when its QP ends. Method: the sender
/// fails in the middle of its message, then the receiver resets or destroys its QP; its only slot
/// must be free again.
#[test]
fn a_qp_that_goes_gives_its_shared_receive_back() {
    let rendezvous = Rendezvous::new("shared");
    let sender = Node::new(&rendezvous.options("sender"));
    let mut receiver = Node::new(&rendezvous.options("receiver"));
    let config = SharedReceiveQueueConfig {
        max_wr: 4,
        max_sge: 1,
        limit: 0,
        xrc: None,
    };
    let queue = SharedReceiveQueue::create(&receiver.pd, &config).expect("small SRQ");
    for destroy in [false, true, false, true] {
        receiver.qp = shared_qp(&receiver, &queue);
        sender.connect(&receiver);
        receiver.connect(&sender);
        while queue.post(1, &[receiver.segment(1 << 16)]).is_ok() {}
        send_and_fail(&sender, &receiver);
        if destroy {
            receiver.qp.destroy().expect("exists");
        } else {
            receiver.qp.modify(&ModifyQp::ToReset).expect("always");
        }
        assert_eq!(queue.post(2, &[]), Ok(()), "one entry was taken");
        assert_eq!(queue.post(3, &[]), Err(PostError::QueueFull));
        sender.qp.modify(&ModifyQp::ToReset).expect("always");
    }
    assert_eq!(receiver.cq.skipped(), 0);
}

fn shared_qp(node: &Node, queue: &Arc<SharedReceiveQueue>) -> Arc<QueuePair> {
    let config = QueuePairConfig {
        receive: ReceiveSource::Shared {
            cq: Arc::clone(&node.cq),
            queue: Arc::clone(queue),
        },
        ..verbs::qp_config(&node.cq, 1)
    };
    verbs::new_qp(&node.pd, &config)
}

/// Sends a message whose second half is not registered, until the receiver has the first half.
fn send_and_fail(sender: &Node, receiver: &Node) {
    let good = sender.segment(8192);
    let bad = DataSegment {
        l_key: good.l_key ^ 0xffff_ff00,
        ..good
    };
    let segments = [good, bad];
    let data = SendData::ScatterGather(&segments);
    let request = verbs::request(1, SendOperation::Send, data);
    let received = |name: &str| {
        let counters = receiver.device.counters();
        counters
            .iter()
            .find(|counter| counter.0 == name)
            .expect(name)
            .1
    };
    let before = received("receive_wqes");
    let queue = sender.qp.send_queue().expect("RC");
    queue.lock().post(&request).expect("two segments fit");
    let deadline = Deadline::new("the first half of the message", TIMEOUT);
    let mut failed = false;
    while !failed || received("receive_wqes") == before {
        deadline.check();
        sender.cq.poll(1, |completion| {
            assert_eq!(completion.status, CompletionStatus::LocalProtectionError);
            failed = true;
        });
        receiver.cq.poll(1, |completion| panic!("{completion:?}"));
    }
}
