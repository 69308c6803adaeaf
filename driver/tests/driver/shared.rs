//! Shared receive queues and XRC over an honest device, and CQEs that name the wrong ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::support::verbs::{
    Setup, connect, cq_of, cqe, poll, qp_config, receive_queue, segment, setup, wr_ids,
};
use crate::support::{HonestDevice, SRQN_BASE};
use ferroce_driver::{
    AsyncEvent, CompletionOpcode, CompletionStatus, DataSegment, Error, InitAttributes, ModifyQp,
    PostError, QpAccess, Qpn, QueuePair, QueuePairConfig, ReceiveSource, Service,
    SharedReceiveQueue, SharedReceiveQueueConfig, Srqn, XrcDomain,
};
use ferroce_spec::command::{CommandOpcode, DeviceFeatures};
use ferroce_spec::context::ServiceCode;
use ferroce_spec::cqe::{Cqe, CqeOpcode, CqeStatus};
use ferroce_spec::doorbell::{DoorbellKind, DoorbellValue};
use ferroce_spec::eqe::EventType;
use ferroce_spec::wqe::{L_KEY_END, SharedReceiveSegment};
use parking_lot::Mutex;

fn srq_config(max_wr: u32, max_sge: u32) -> SharedReceiveQueueConfig {
    SharedReceiveQueueConfig {
        max_wr,
        max_sge,
        limit: 0,
        xrc: None,
    }
}

fn srq_of(s: &Setup, max_wr: u32) -> Arc<SharedReceiveQueue> {
    SharedReceiveQueue::create(&s.pd, &srq_config(max_wr, 1)).expect("small SRQ")
}

fn shared_qp(s: &Setup, queue: &Arc<SharedReceiveQueue>) -> Arc<QueuePair> {
    let config = QueuePairConfig {
        receive: ReceiveSource::Shared {
            cq: Arc::clone(&s.cq),
            queue: Arc::clone(queue),
        },
        ..qp_config(&s.cq, &s.cq)
    };
    let qp = QueuePair::create(&s.pd, &config).expect("small QP");
    connect(&qp);
    qp
}

/// Returns the tag of the WQE at `index` of a ring of `size` entries.
fn tag_at(fake: &HonestDevice, srqn: Srqn, index: u32) -> u32 {
    let srq = fake.with_state(|state| state.srqs[&srqn.0]);
    let place = u64::from(index & ((1 << srq.log_size) - 1)) << srq.log_stride;
    fake.read::<SharedReceiveSegment>(srq.base + place).tag
}

fn shared_cqe(qpn: Qpn, tag: u32) -> Cqe {
    let mut entry = cqe(qpn, tag, CqeOpcode::RECEIVE);
    entry.word.set_shared(true);
    entry
}

#[test]
fn wqes_and_doorbells() {
    let s = setup();
    let config = SharedReceiveQueueConfig {
        limit: 2,
        ..srq_config(3, 2)
    };
    let queue = SharedReceiveQueue::create(&s.pd, &config).expect("small SRQ");
    assert_eq!(queue.number(), Srqn(SRQN_BASE));
    assert_eq!((queue.max_wr(), queue.max_sge()), (4, 3));
    let context = s.fake.with_state(|state| state.srqs[&SRQN_BASE]);
    assert_eq!((context.log_size, context.log_stride), (2, 6));
    assert_eq!((context.limit, context.pd), (2, s.pd.number()));
    assert_eq!((context.xrcd, context.cqn), (0, 0));
    let mut batch = queue.lock();
    batch.post(1, &[segment(7), segment(8)]).expect("room");
    batch.post(2, &[segment(1); 3]).expect("room");
    assert_eq!(
        batch.post(3, &[segment(1); 4]),
        Err(PostError::TooManySegments)
    );
    assert!(s.fake.take_doorbells().is_empty());
    drop(batch);
    let kind = DoorbellKind::SHARED_RECEIVE_QUEUE;
    let value = DoorbellValue::new(kind, SRQN_BASE, 2).bits();
    let slot = context.doorbell_slot;
    assert_eq!(s.fake.take_doorbells(), [(slot, value)]);
    let segments: [DataSegment; 8] = std::array::from_fn(|at| {
        let at = at as u64;
        s.fake.read(context.base + 16 * at)
    });
    assert_eq!(segments[1], segment(7));
    assert_eq!(segments[2], segment(8));
    assert_eq!(segments[3].l_key, L_KEY_END);
    assert_eq!(segments[5..8], [segment(1); 3], "a full WQE has no end");
    assert_ne!(
        tag_at(&s.fake, queue.number(), 0),
        tag_at(&s.fake, queue.number(), 1)
    );
}

#[test]
fn sizes_and_limits() {
    let s = setup();
    let errno = |config: &SharedReceiveQueueConfig| {
        let error = SharedReceiveQueue::create(&s.pd, config).err();
        error.map(|error| error.errno())
    };
    let limit = |limit| SharedReceiveQueueConfig {
        limit,
        ..srq_config(4, 1)
    };
    assert_eq!(errno(&srq_config(0, 1)), Some(libc::EINVAL));
    assert_eq!(errno(&srq_config(4, 17)), Some(libc::EINVAL));
    assert_eq!(errno(&srq_config(1 << 17, 1)), Some(libc::EINVAL));
    assert_eq!(errno(&limit(5)), Some(libc::EINVAL));
    let queue = SharedReceiveQueue::create(&s.pd, &srq_config(4, 16)).expect("the largest WQE");
    assert_eq!(queue.max_sge(), 16);
    assert_eq!(queue.modify_limit(3), Ok(()));
    assert_eq!(queue.query().map(|now| (now.max_wr, now.limit)), Ok((4, 3)));
    let error = queue.modify_limit(5).expect_err("more than the queue has");
    assert_eq!(error.errno(), libc::EINVAL);
    let capabilities = s.device.capabilities();
    assert_eq!((capabilities.max_srq, capabilities.max_srq_sge), (63, 16));
    assert_eq!(capabilities.max_srq_wr, 1 << 16);
    let mut lacks = DeviceFeatures::default();
    lacks.set_shared_receive_queues(true);
    let device = ferroce_driver::Device::open(HonestDevice::without(lacks)).expect("opens");
    assert_eq!(device.capabilities().max_srq, 0);
    let pd = device.alloc_pd().expect("first PD");
    let error = SharedReceiveQueue::create(&pd, &srq_config(4, 1)).err();
    assert_eq!(error.map(|error| error.errno()), Some(libc::EOPNOTSUPP));
}

#[test]
fn completions_in_any_order_through_several_qps() {
    let s = setup();
    let queue = srq_of(&s, 4);
    let qps = [shared_qp(&s, &queue), shared_qp(&s, &queue)];
    let context = s.fake.with_state(|state| state.qps[&qps[0].number().0]);
    assert_eq!(context.service, ServiceCode::RELIABLE_CONNECTED);
    assert!(context.shape.uses_srq());
    assert!(qps[0].receive_queue().is_none());
    assert_eq!(qps[0].capacity().max_recv_wr, 0);
    for lap in 0..20u64 {
        for wr_id in 0..4 {
            queue.post(lap * 4 + wr_id, &[segment(1)]).expect("room");
        }
        assert_eq!(queue.post(0, &[]), Err(PostError::QueueFull));
        let first = lap as u32 * 4;
        for (step, index) in [2u32, 0, 3, 1].into_iter().enumerate() {
            let tag = tag_at(&s.fake, queue.number(), first + index);
            let entry = shared_cqe(qps[step % 2].number(), tag);
            s.fake.complete(s.cq.number().0, entry);
        }
        let done = poll(&s.cq);
        let expected = [2, 0, 3, 1].map(|wr_id| lap * 4 + wr_id);
        assert_eq!(done.iter().map(|c| c.wr_id).collect::<Vec<_>>(), expected);
        assert_eq!(done[1].qpn, qps[1].number());
        assert_eq!(done[0].opcode, CompletionOpcode::Receive);
        assert_eq!((done[0].srqn, done[0].byte_length), (None, 99));
    }
    assert_eq!(s.cq.skipped(), 0);
}

#[test]
fn wrong_tags_and_wrong_flags_are_skipped() {
    let s = setup();
    let queue = srq_of(&s, 4);
    let qp = shared_qp(&s, &queue);
    connect(&s.qp);
    receive_queue(&s.qp).post(7, &[]).expect("room");
    queue.post(1, &[]).expect("room");
    let tag = tag_at(&s.fake, queue.number(), 0);
    let cqn = s.cq.number().0;
    let mut not_shared = shared_cqe(qp.number(), tag);
    not_shared.word.set_shared(false);
    let wrong = [
        shared_cqe(qp.number(), tag ^ 1),
        shared_cqe(qp.number(), tag ^ 0x8000_0000),
        shared_cqe(qp.number(), tag.wrapping_sub(4)),
        shared_cqe(s.qp.number(), tag),
        shared_cqe(Qpn(0xdead), tag),
        not_shared,
    ];
    for entry in wrong {
        s.fake.complete(cqn, entry);
    }
    s.fake.complete(cqn, shared_cqe(qp.number(), tag));
    s.fake.complete(cqn, shared_cqe(qp.number(), tag));
    assert_eq!(wr_ids(&s.cq), [1]);
    assert_eq!(s.cq.skipped(), wrong.len() as u64 + 1);
    queue.post(2, &[]).expect("room");
    s.fake.complete(cqn, shared_cqe(qp.number(), tag));
    assert_eq!(wr_ids(&s.cq), [0u64; 0], "the tag of the receive before");
}

/// Goal: slots of the queue are not lost with the QP that has taken them. Method: completions that
/// are not polled before the QP is destroyed.
#[test]
fn reset_and_destroy_give_tags_back() {
    let s = setup();
    let queue = srq_of(&s, 2);
    let (qp, other) = (shared_qp(&s, &queue), shared_qp(&s, &queue));
    let cqn = s.cq.number().0;
    let complete = |qp: &QueuePair, index| {
        let tag = tag_at(&s.fake, queue.number(), index);
        s.fake.complete(cqn, shared_cqe(qp.number(), tag));
    };
    for destroy in [false, true] {
        let first = if destroy { 3 } else { 0 };
        queue.post(1, &[]).expect("room");
        queue.post(2, &[]).expect("room");
        complete(&qp, first);
        complete(&other, first + 1);
        if destroy {
            assert_eq!(qp.destroy(), Ok(()));
        } else {
            qp.modify(&ModifyQp::ToReset).expect("always");
        }
        queue.post(3, &[]).expect("the removed completion's place");
        assert_eq!(queue.post(4, &[]), Err(PostError::QueueFull));
        assert_eq!(wr_ids(&s.cq), [2]);
        complete(&other, first + 2);
        assert_eq!(wr_ids(&s.cq), [3]);
        if !destroy {
            connect(&qp);
        }
    }
    assert_eq!(s.cq.skipped(), 0);
}

/// Goal: a receive that has begun is flushed before its QP is destroyed, and only then. Method: the
/// device reports how many entries it has taken; its commands are checked.
#[test]
fn receives_that_have_begun_are_flushed() {
    let s = setup();
    let queue = srq_of(&s, 4);
    for begun in [0, 1] {
        let qp = shared_qp(&s, &queue);
        queue.post(1, &[]).expect("room");
        let index = begun * 2;
        let tag = tag_at(&s.fake, queue.number(), index);
        s.fake
            .complete(s.cq.number().0, shared_cqe(qp.number(), tag));
        if begun == 1 {
            queue.post(2, &[]).expect("room");
        }
        s.fake.with_state(|state| {
            let srq = state.srqs.get_mut(&queue.number().0).expect("exists");
            srq.consumer = index + 1 + begun;
            state.commands.clear();
        });
        qp.destroy().expect("exists");
        let commands = s.fake.with_state(|state| state.commands.clone());
        let mut expected = vec![
            CommandOpcode::QUERY_SRQ,
            CommandOpcode::MODIFY_QP,
            CommandOpcode::DESTROY_QP,
        ];
        if begun == 0 {
            expected.remove(1);
            queue.post(9, &[]).expect("room");
            let qp = shared_qp(&s, &queue);
            let tag = tag_at(&s.fake, queue.number(), 1);
            s.fake
                .complete(s.cq.number().0, shared_cqe(qp.number(), tag));
            assert_eq!(wr_ids(&s.cq), [9]);
        }
        assert_eq!(commands, expected);
    }
}

#[test]
fn users_keep_the_queue() {
    let s = setup();
    let queue = srq_of(&s, 2);
    let qp = shared_qp(&s, &queue);
    assert_eq!(queue.destroy(), Err(Error::Busy));
    assert_eq!(queue.post(1, &[]), Ok(()));
    qp.destroy().expect("exists");
    assert_eq!(queue.destroy(), Ok(()));
    assert_eq!(queue.destroy(), Err(Error::Destroyed));
    assert_eq!(queue.post(1, &[]), Err(PostError::InvalidState));
    assert_eq!(queue.query(), Err(Error::Destroyed));
    assert_eq!(queue.modify_limit(1), Err(Error::Destroyed));
    assert!(s.fake.with_state(|state| state.srqs.is_empty()));
    let config = QueuePairConfig {
        receive: ReceiveSource::Shared {
            cq: Arc::clone(&s.cq),
            queue,
        },
        ..qp_config(&s.cq, &s.cq)
    };
    let error = QueuePair::create(&s.pd, &config).err();
    assert_eq!(error, Some(Error::Destroyed));
}

#[test]
fn events() {
    let s = setup();
    let queue = srq_of(&s, 2);
    let qp = shared_qp(&s, &queue);
    let seen: Arc<Mutex<Vec<AsyncEvent>>> = Arc::default();
    let log = seen.clone();
    s.device
        .set_event_handler(Some(Arc::new(move |event| log.lock().push(event))));
    let srqn = queue.number();
    s.fake.raise(0, EventType::SRQ_LIMIT, srqn.0);
    s.fake.raise(0, EventType::SRQ_LIMIT, srqn.0 + 1);
    s.fake.raise(0, EventType::SRQ_ERROR, srqn.0);
    s.fake.raise(0, EventType::LAST_WQE_REACHED, qp.number().0);
    s.fake.raise(0, EventType::PORT_ERROR, 0);
    s.fake.raise(0, EventType::PORT_ACTIVE, 0);
    s.fake.raise(0, EventType::GID_CHANGE, 1);
    let expected = [
        AsyncEvent::SrqLimit(srqn),
        AsyncEvent::SrqError(srqn),
        AsyncEvent::LastWqeReached(qp.number()),
        AsyncEvent::PortError,
        AsyncEvent::PortActive,
        AsyncEvent::GidChange(1),
    ];
    assert_eq!(*seen.lock(), expected);
    assert_eq!(s.device.skipped_events(), 1);
    qp.destroy().expect("exists");
    queue.destroy().expect("no users");
    s.fake.raise(0, EventType::SRQ_LIMIT, srqn.0);
    assert_eq!(s.device.skipped_events(), 2);
    s.device.set_event_handler(None);
}

struct Xrc {
    queue: Arc<SharedReceiveQueue>,
    target: Arc<QueuePair>,
    domain: Arc<XrcDomain>,
    s: Setup,
}

fn xrc() -> Xrc {
    let s = setup();
    let domain = XrcDomain::alloc(&s.device).expect("the device has XRC");
    let config = SharedReceiveQueueConfig {
        xrc: Some((Arc::clone(&domain), Arc::clone(&s.cq))),
        ..srq_config(2, 1)
    };
    let queue = SharedReceiveQueue::create(&s.pd, &config).expect("small SRQ");
    let target = QueuePair::create_xrc_target(&domain).expect("no sizes");
    Xrc {
        queue,
        target,
        domain,
        s,
    }
}

#[test]
fn xrc_receives_are_found_by_the_queue() {
    let x = xrc();
    let (fake, cqn) = (&x.s.fake, x.s.cq.number().0);
    let context = fake.with_state(|state| state.srqs[&x.queue.number().0]);
    assert_eq!((context.xrcd, context.cqn), (x.domain.number(), cqn));
    let context = fake.with_state(|state| state.qps[&x.target.number().0]);
    assert_eq!(context.service, ServiceCode::XRC_TARGET);
    assert_eq!((context.pd, context.xrcd), (0, x.domain.number()));
    assert!(x.target.send_queue().is_none() && x.target.receive_queue().is_none());
    x.queue.post(1, &[]).expect("room");
    x.queue.post(2, &[]).expect("room");
    let tags = [0, 1].map(|index| tag_at(fake, x.queue.number(), index));
    let entry = |srqn: u32, tag| Cqe {
        source_qpn: srqn,
        ..shared_cqe(x.target.number(), tag)
    };
    let srqn = x.queue.number().0;
    fake.complete(cqn, entry(srqn + 1, tags[0]));
    fake.complete(cqn, entry(srqn, tags[1] ^ 8));
    let mut failed = entry(srqn, tags[1]);
    failed.word.set_status(CqeStatus::LOCAL_LENGTH.0);
    fake.complete(cqn, failed);
    let done = poll(&x.s.cq);
    assert_eq!(done.len(), 1);
    assert_eq!((done[0].wr_id, done[0].srqn), (2, Some(x.queue.number())));
    assert_eq!(done[0].status, CompletionStatus::LocalLengthError);
    assert_eq!(x.s.cq.skipped(), 2);
    // The number of a destroyed QP may be reused, also for a QP of another kind.
    x.target.destroy().expect("exists");
    let qp = QueuePair::create(&x.s.pd, &qp_config(&x.s.cq, &x.s.cq)).expect("small QP");
    assert_eq!(qp.number(), x.target.number());
    fake.complete(cqn, entry(srqn, tags[0]));
    assert_eq!(poll(&x.s.cq)[0].srqn, Some(x.queue.number()));
}

#[test]
fn xrc_queues_leave_nothing_behind() {
    let x = xrc();
    let (fake, cqn) = (&x.s.fake, x.s.cq.number().0);
    x.queue.post(1, &[]).expect("room");
    let stale = Cqe {
        source_qpn: x.queue.number().0,
        ..shared_cqe(x.target.number(), tag_at(fake, x.queue.number(), 0))
    };
    fake.complete(cqn, stale);
    assert_eq!(x.s.cq.destroy(), Err(Error::Busy));
    assert_eq!(x.domain.dealloc(), Err(Error::Busy));
    assert_eq!(x.queue.destroy(), Ok(()));
    assert_eq!(wr_ids(&x.s.cq), [0u64; 0]);
    assert_eq!(x.s.cq.skipped(), 0, "removed with the queue");
    assert_eq!(x.domain.dealloc(), Err(Error::Busy), "the target");
    x.target.destroy().expect("exists");
    assert_eq!(x.domain.dealloc(), Ok(()));
    assert_eq!(x.domain.dealloc(), Err(Error::Destroyed));
    let error = QueuePair::create_xrc_target(&x.domain).err();
    assert_eq!(error, Some(Error::Destroyed));
}

#[test]
fn services_need_their_own_receives() {
    let x = xrc();
    let own = qp_config(&x.s.cq, &x.s.cq);
    let plain = srq_of(&x.s, 2);
    let shared = |queue: &Arc<SharedReceiveQueue>| ReceiveSource::Shared {
        cq: Arc::clone(&x.s.cq),
        queue: Arc::clone(queue),
    };
    let create = |service, receive| {
        let config = QueuePairConfig {
            service,
            receive,
            ..own.clone()
        };
        QueuePair::create(&x.s.pd, &config)
    };
    let initiator = Service::XrcInitiator;
    for (service, receive) in [
        (initiator, own.receive.clone()),
        (initiator, shared(&plain)),
        (Service::XrcTarget, ReceiveSource::None),
        (Service::ReliableConnected, ReceiveSource::None),
        (Service::ReliableConnected, shared(&x.queue)),
    ] {
        let error = create(service, receive).err().expect("cannot be");
        assert_eq!(error.errno(), libc::EINVAL, "{service:?}");
    }
    let qp = create(initiator, ReceiveSource::None).expect("sends only");
    assert!(qp.receive_cq().is_none() && qp.send_queue().is_some());
    for service in [Service::UnreliableConnected, Service::UnreliableDatagram] {
        let qp = create(service, shared(&plain)).expect("they share, too");
        assert_eq!(qp.service(), service);
    }
    let mut lacks = DeviceFeatures::default();
    lacks.set_extended_reliable_connected(true);
    let device = ferroce_driver::Device::open(HonestDevice::without(lacks)).expect("opens");
    let error = XrcDomain::alloc(&device).err().expect("no XRC");
    assert_eq!(error.errno(), libc::EOPNOTSUPP);
    let pd = device.alloc_pd().expect("first PD");
    let cq = cq_of(&device, 4);
    let config = QueuePairConfig {
        service: initiator,
        receive: ReceiveSource::None,
        ..qp_config(&cq, &cq)
    };
    let error = QueuePair::create(&pd, &config).err().expect("no XRC");
    assert_eq!(error.errno(), libc::EOPNOTSUPP);
}

/// Goal: threads may share the queue, and QPs with it complete into several CQs that are polled at
/// once. Method: two threads post, the device completes up to the doorbells through two CQs, two
/// threads poll; each work request must be seen once.
#[test]
fn threads_share_a_queue() {
    const EACH: u64 = 3000;
    let s = setup();
    let queue = srq_of(&s, 8);
    let cqs = [Arc::clone(&s.cq), cq_of(&s.device, 16)];
    let qps = cqs.each_ref().map(|cq| {
        let config = QueuePairConfig {
            receive: ReceiveSource::Shared {
                cq: Arc::clone(cq),
                queue: Arc::clone(&queue),
            },
            ..qp_config(cq, cq)
        };
        QueuePair::create(&s.pd, &config).expect("small QP")
    });
    let seen = Mutex::new(vec![0u32; 2 * EACH as usize]);
    let left = AtomicU32::new(2 * EACH as u32);
    std::thread::scope(|scope| {
        for (thread, cq) in (0..).zip(&cqs) {
            let queue = &queue;
            scope.spawn(move || {
                for wr_id in thread * EACH..(thread + 1) * EACH {
                    while queue.post(wr_id, &[]) == Err(PostError::QueueFull) {
                        std::thread::yield_now();
                    }
                }
            });
            scope.spawn(|| {
                while left.load(Ordering::Relaxed) > 0 {
                    let count = cq.poll(3, |completion| {
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
                        let tag = tag_at(&s.fake, queue.number(), index);
                        let way = index as usize % 2;
                        let entry = shared_cqe(qps[way].number(), tag);
                        s.fake.complete(cqs[way].number().0, entry);
                    }
                    next = producer;
                }
                std::thread::yield_now();
            }
        });
    });
    assert!(seen.lock().iter().all(|&count| count == 1));
    assert_eq!(cqs.map(|cq| cq.skipped()), [0, 0]);
}

#[test]
fn a_target_makes_its_transitions() {
    let x = xrc();
    let init = InitAttributes {
        p_key_index: 0,
        port: 1,
        access: QpAccess::default(),
    };
    assert_eq!(x.target.modify(&ModifyQp::ToInit(init)), Ok(()));
    assert_eq!(x.target.destroy(), Ok(()));
    assert_eq!(
        x.target.modify(&ModifyQp::ToInit(init)),
        Err(Error::Destroyed)
    );
}
