//! Events, and a device that stops, over an honest device.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::support::HonestDevice;
use crate::support::verbs::{cq_of, open, setup};
use ferroce_driver::{
    AsyncEvent, CompletionQueue, CompletionQueueConfig, Device, DeviceConfig, Error,
};
use ferroce_spec::doorbell::{DoorbellKind, DoorbellValue};
use ferroce_spec::eqe::EventType;
use parking_lot::Mutex;

#[test]
fn completion_events() {
    let (fake, device) = open();
    let events = Arc::new(AtomicU32::new(0));
    let this: Arc<Mutex<Option<Arc<CompletionQueue>>>> = Arc::default();
    let (count, again) = (events.clone(), this.clone());
    let config = CompletionQueueConfig {
        entries: 4,
        vector: 2,
        on_event: Some(Arc::new(move || {
            count.fetch_add(1, Ordering::Relaxed);
            // A handler may poll and arm.
            if let Some(cq) = &*again.lock() {
                cq.poll(1, |_| {});
                cq.arm_solicited();
            }
        })),
        on_error: None,
    };
    let cq = CompletionQueue::create(&device, config).expect("small CQ");
    *this.lock() = Some(cq.clone());
    let slot = fake.with_state(|state| state.cqs[&cq.number().0].context.doorbell_slot);
    let doorbell = |kind| (slot, DoorbellValue::new(kind, cq.number().0, 0).bits());
    cq.arm_solicited();
    assert_eq!(
        fake.take_doorbells(),
        [doorbell(DoorbellKind::CQ_ARM_SOLICITED)]
    );
    cq.arm();
    cq.arm_solicited();
    let any = doorbell(DoorbellKind::CQ_ARM);
    assert_eq!(
        fake.take_doorbells(),
        [any, any],
        "the stronger request stands"
    );
    fake.raise(3, EventType::COMPLETION, cq.number().0);
    assert_eq!(events.load(Ordering::Relaxed), 1);
    assert_eq!(
        fake.take_doorbells(),
        [doorbell(DoorbellKind::CQ_ARM_SOLICITED)]
    );
    // More events than the queue has entries: it is drained and armed again each time.
    for _ in 0..200 {
        fake.raise(3, EventType::COMPLETION, cq.number().0);
    }
    assert_eq!(events.load(Ordering::Relaxed), 201);
    fake.raise(3, EventType::COMPLETION, 0x999);
    assert_eq!(device.skipped_events(), 1);
    this.lock().take();
    cq.destroy().expect("no QPs");
    fake.raise(3, EventType::COMPLETION, cq.number().0);
    assert_eq!(events.load(Ordering::Relaxed), 201);
}

#[test]
fn asynchronous_events() {
    let s = setup();
    let seen: Arc<Mutex<Vec<AsyncEvent>>> = Arc::default();
    let log = seen.clone();
    s.device
        .set_event_handler(Some(Arc::new(move |event| log.lock().push(event))));
    let (qpn, cqn) = (s.qp.number(), s.cq.number());
    s.fake.raise(0, EventType::QP_FATAL, qpn.0);
    s.fake.raise(0, EventType::QP_FATAL, qpn.0 + 1);
    s.fake.raise(0, EventType::COMMUNICATION_ESTABLISHED, qpn.0);
    s.fake.raise(0, EventType::CQ_ERROR, cqn.0);
    s.fake.raise(0, EventType(0x77), 1);
    s.fake.raise(0, EventType::DEVICE_FATAL, 0);
    let expected = [
        AsyncEvent::QpFatal(qpn),
        AsyncEvent::CommunicationEstablished(qpn),
        AsyncEvent::CqError(cqn),
        AsyncEvent::DeviceFatal,
    ];
    assert_eq!(*seen.lock(), expected);
    assert_eq!(s.device.skipped_events(), 2);
    assert!(s.cq.has_failed());
    assert!(s.device.is_dead());
    assert_eq!(s.qp.query(), Err(Error::DeviceDead));
    // Even so, all objects can be destroyed.
    assert_eq!(s.qp.destroy(), Ok(()));
    assert_eq!(s.cq.destroy(), Ok(()));
    let fake = s.fake.clone();
    drop(s);
    assert!(fake.memory.is_empty());
}

#[test]
fn a_device_that_falls_silent() {
    let fake = HonestDevice::new();
    let config = DeviceConfig {
        command_timeout: Duration::from_millis(20),
        ..DeviceConfig::default()
    };
    let device = Device::open_with(fake.clone(), &config).expect("still answers");
    let cq = cq_of(&device, 4);
    *fake.mute.lock() = true;
    let error = device.gid(0).expect_err("no answer");
    assert_eq!(error.errno(), libc::ETIMEDOUT);
    assert_eq!(device.gid(0), Err(Error::DeviceDead));
    assert_eq!(cq.destroy(), Ok(()));
    drop((cq, device));
    assert!(fake.memory.is_empty());
}
