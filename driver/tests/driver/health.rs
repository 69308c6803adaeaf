//! The check of the device, over an honest device with one fault at a time. The tests call the
//! check, which a bus calls once in each period.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::support::HonestDevice;
use crate::support::verbs::{
    Setup, connect, cqe, poll, post, qp_config, receive_queue, segment, setup, wr_ids,
};
use ferroce_driver::{
    AsyncEvent, CompletionOpcode, CompletionQueue, CompletionQueueConfig, CompletionStatus, Device,
    Error, QueuePair, QueuePairConfig, ReceiveSource, SharedReceiveQueue, SharedReceiveQueueConfig,
};
use ferroce_spec::cqe::CqeOpcode;
use ferroce_spec::doorbell::{DoorbellKind, DoorbellValue};
use ferroce_spec::eqe::EventType;
use parking_lot::Mutex;

/// More checks than the driver makes before it declares a device dead.
const MANY_CHECKS: u32 = 100;

type Events = Arc<Mutex<Vec<AsyncEvent>>>;

fn async_events(device: &Device) -> Events {
    let seen: Events = Arc::default();
    let log = seen.clone();
    device.set_event_handler(Some(Arc::new(move |event| log.lock().push(event))));
    seen
}

/// Returns a CQ that counts its events.
fn counting_cq(device: &Arc<Device>) -> (Arc<CompletionQueue>, Arc<AtomicU32>) {
    let events = Arc::new(AtomicU32::new(0));
    let count = events.clone();
    let config = CompletionQueueConfig {
        entries: 4,
        vector: 0,
        on_event: Some(Arc::new(move || {
            count.fetch_add(1, Ordering::Relaxed);
        })),
        on_error: None,
    };
    let cq = CompletionQueue::create(device, config).expect("small CQ");
    (cq, events)
}

fn post_receive(s: &Setup) {
    let posted = receive_queue(&s.qp).post(1, &[segment(8)]);
    assert_eq!(posted, Ok(()));
}

/// Expects that the next check reports the device as dead, once, and wakes waiting threads.
fn expect_dead_after(s: &Setup, break_it: impl FnOnce(&HonestDevice)) {
    let seen = async_events(&s.device);
    let (cq, events) = counting_cq(&s.device);
    s.fake.check_health();
    assert!(!s.device.is_dead() && seen.lock().is_empty());
    break_it(&s.fake);
    for _ in 0..3 {
        s.fake.check_health();
    }
    assert!(s.device.is_dead());
    assert_eq!(*seen.lock(), [AsyncEvent::DeviceFatal]);
    assert_eq!(
        events.load(Ordering::Relaxed),
        1,
        "sleeping threads wake up"
    );
    assert_eq!(s.qp.query(), Err(Error::DeviceDead));
    assert_eq!(cq.destroy(), Ok(()));
    assert_eq!(s.qp.destroy(), Ok(()));
}

#[test]
fn a_device_that_was_removed() {
    let s = setup();
    expect_dead_after(&s, |fake| *fake.removed.lock() = true);
    let fake = s.fake.clone();
    drop(s);
    assert!(fake.memory.is_empty(), "everything is given back");
    *fake.removed.lock() = false;
    Device::open(fake).expect("it is back");
}

#[test]
fn a_device_that_others_have_reset() {
    let s = setup();
    expect_dead_after(&s, HonestDevice::function_level_reset);
}

/// Goal: all outstanding work requests are flushed once, after the device's own completions.
/// Method: a QP with sends, one of them completed, and a receive; the device dies after writing one
/// more CQE.
#[test]
fn a_dead_device_leaves_no_work_request_without_completion() {
    let s = setup();
    connect(&s.qp);
    for wr_id in 10..14 {
        assert_eq!(post(&s.qp, wr_id), Ok(()));
    }
    post_receive(&s);
    let (cqn, qpn) = (s.cq.number().0, s.qp.number());
    s.fake.complete(cqn, cqe(qpn, 1, CqeOpcode::RDMA_WRITE));
    *s.fake.removed.lock() = true;
    s.fake.check_health();
    let done = poll(&s.cq);
    let summary = done.iter().map(|done| (done.wr_id, done.status, done.qpn));
    let flushed = CompletionStatus::WorkRequestFlushedError;
    let expected = [
        (11, CompletionStatus::Success, qpn),
        (12, flushed, qpn),
        (13, flushed, qpn),
        (1, flushed, qpn),
    ];
    assert_eq!(summary.collect::<Vec<_>>(), expected);
    assert_eq!(done[3].opcode, CompletionOpcode::Receive);
    s.fake.complete(cqn, cqe(qpn, 3, CqeOpcode::RDMA_WRITE));
    assert_eq!(poll(&s.cq), [], "each once");
    assert_eq!(post(&s.qp, 14), Ok(()));
    let done = s.cq.lock().next().expect("flushed, too");
    assert_eq!((done.wr_id, done.status), (14, flushed));
}

/// Goal: receives of a shared receive queue are not flushed, because they were not posted to a QP.
#[test]
fn receives_of_a_shared_queue_are_not_flushed() {
    let s = setup();
    let config = SharedReceiveQueueConfig {
        max_wr: 4,
        max_sge: 1,
        limit: 0,
        xrc: None,
    };
    let queue = SharedReceiveQueue::create(&s.pd, &config).expect("small SRQ");
    let config = QueuePairConfig {
        receive: ReceiveSource::Shared {
            cq: Arc::clone(&s.cq),
            queue: Arc::clone(&queue),
        },
        ..qp_config(&s.cq, &s.cq)
    };
    let qp = QueuePair::create(&s.pd, &config).expect("small QP");
    connect(&qp);
    assert_eq!(queue.post(3, &[segment(8)]), Ok(()));
    assert_eq!(post(&qp, 4), Ok(()));
    *s.fake.removed.lock() = true;
    s.fake.check_health();
    assert_eq!(wr_ids(&s.cq), [4]);
}

/// Goal: a command that never completes makes the device dead for all threads, not only for its
/// caller.
#[test]
fn a_command_that_never_ends_is_reported() {
    let fake = HonestDevice::new();
    let config = ferroce_driver::DeviceConfig {
        command_timeout: std::time::Duration::from_millis(20),
        ..ferroce_driver::DeviceConfig::default()
    };
    let device = Device::open_with(fake.clone(), &config).expect("still answers");
    let seen = async_events(&device);
    let (_cq, events) = counting_cq(&device);
    *fake.mute.lock() = true;
    assert!(matches!(device.gid(0), Err(Error::CommandTimeout { .. })));
    assert_eq!(*seen.lock(), [AsyncEvent::DeviceFatal]);
    assert_eq!(events.load(Ordering::Relaxed), 1);
}

#[test]
fn an_event_without_its_interrupt_is_found() {
    let s = setup();
    let (cq, events) = counting_cq(&s.device);
    cq.arm();
    *s.fake.loses_interrupts.lock() = true;
    s.fake.raise(1, EventType::COMPLETION, cq.number().0);
    *s.fake.loses_interrupts.lock() = false;
    s.fake.check_health();
    assert_eq!(events.load(Ordering::Relaxed), 0, "it may be on its way");
    s.fake.check_health();
    assert_eq!(events.load(Ordering::Relaxed), 1);
    s.fake.raise(1, EventType::COMPLETION, cq.number().0);
    assert_eq!(
        events.load(Ordering::Relaxed),
        2,
        "the queue is armed again"
    );
}

/// Goal: a lost doorbell is rung again, and a doorbell that has arrived is not.
#[test]
fn a_lost_doorbell_is_rung_again() {
    let s = setup();
    connect(&s.qp);
    let qp = s.qp.number().0;
    post_receive(&s);
    s.fake.take_doorbells();
    for _ in 0..3 {
        s.fake.check_health();
    }
    assert_eq!(s.fake.take_doorbells(), [], "it has arrived");
    *s.fake.loses_doorbells.lock() = true;
    post_receive(&s);
    *s.fake.loses_doorbells.lock() = false;
    s.fake.take_doorbells();
    s.fake.check_health();
    assert_eq!(s.fake.take_doorbells(), [], "it was rung just now");
    s.fake.check_health();
    let rung: Vec<u64> = s
        .fake
        .take_doorbells()
        .into_iter()
        .map(|(_, value)| value)
        .collect();
    let expected = DoorbellValue::new(DoorbellKind::RECEIVE_QUEUE, qp, 2);
    assert_eq!(rung, [expected.bits()]);
    s.fake.check_health();
    assert_eq!(s.fake.take_doorbells(), []);
    assert!(!s.device.is_dead());
}

#[test]
fn a_doorbell_that_is_stuck_is_the_end() {
    let s = setup();
    connect(&s.qp);
    let seen = async_events(&s.device);
    *s.fake.loses_doorbells.lock() = true;
    post_receive(&s);
    let checks = (0..MANY_CHECKS).take_while(|_| {
        s.fake.check_health();
        !s.device.is_dead()
    });
    let checks = checks.count();
    assert!(checks > 10 && checks < MANY_CHECKS as usize, "{checks}");
    assert_eq!(*seen.lock(), [AsyncEvent::DeviceFatal]);
}

/// Goal: a program that waits for an event gets one although its request was lost.
#[test]
fn a_lost_request_for_an_event_is_answered() {
    let s = setup();
    let (cq, events) = counting_cq(&s.device);
    *s.fake.loses_doorbells.lock() = true;
    cq.arm_solicited();
    *s.fake.loses_doorbells.lock() = false;
    for _ in 0..2 {
        s.fake.check_health();
        assert_eq!(events.load(Ordering::Relaxed), 0);
    }
    for _ in 0..3 {
        s.fake.check_health();
        assert_eq!(events.load(Ordering::Relaxed), 1, "once");
    }
    cq.arm();
    for _ in 0..MANY_CHECKS {
        s.fake.check_health();
    }
    assert_eq!(events.load(Ordering::Relaxed), 1, "the device knows of it");
    assert!(poll(&cq).is_empty() && !s.device.is_dead());
}
