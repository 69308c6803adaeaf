//! Shared receive queues: any queue pair takes WQEs, limits are reported once, errors stay inside.

use crate::common::objects::Request;
use crate::common::objects::{TestQp, TestSrq};
use crate::common::{self, Machine, connected, place, run_both};
use ferroce_spec::command::{CommandOpcode, CommandStatus};
use ferroce_spec::context::{PathMtuCode, QpStateCode, ServiceCode, SrqContext};
use ferroce_spec::cqe::{CqeOpcode, CqeStatus};
use ferroce_spec::doorbell::{DoorbellKind, DoorbellValue};
use ferroce_spec::eqe::EventType;
use ferroce_spec::wqe::SendOpcode;

/// Machine a with two RC QPs connected to two QPs of b that share a receive queue.
struct Scene {
    a: Machine,
    b: Machine,
    senders: [TestQp; 2],
    receivers: [TestQp; 2],
    srq: TestSrq,
}

fn scene(limit: u16) -> Scene {
    let (mut a, mut b) = connected(PathMtuCode::MTU_1024);
    let srq = b.create_srq(limit, None);
    let rc = ServiceCode::RELIABLE_CONNECTED;
    let senders = [a.create_qp(rc, |_| ()), a.create_qp(rc, |_| ())];
    let shared = |context: &mut ferroce_spec::context::QpContext| {
        context.shape.set_uses_srq(true);
        context.srqn = srq.srqn;
    };
    let receivers = [b.create_qp(rc, shared), b.create_qp(rc, shared)];
    for (sender, receiver) in senders.iter().zip(&receivers) {
        a.bring_to_rts(sender, b.gid(), receiver.qpn);
        b.bring_to_rts(receiver, a.gid(), sender.qpn);
    }
    Scene {
        a,
        b,
        senders,
        receivers,
        srq,
    }
}

impl Scene {
    fn send(&mut self, which: usize, offset: u64, length: u32) {
        let data = [self.a.segment(offset, length)];
        let request = Request {
            data: &data,
            ..Request::default()
        };
        self.a
            .send(&mut self.senders[which], SendOpcode::SEND, request);
    }

    fn run(&mut self) {
        run_both(&mut self.a, &mut self.b, 20);
    }

    fn post(&mut self, tag: u32, offset: u64, length: u32) {
        let data = [self.b.segment(offset, length)];
        self.b.post_shared(&mut self.srq, tag, &data);
    }

    fn modify_limit(&mut self, limit: u16) -> Result<u64, CommandStatus> {
        let input = SrqContext {
            limit,
            ..SrqContext::default()
        };
        let number = u64::from(self.srq.srqn);
        self.b.command(CommandOpcode::MODIFY_SRQ, number, &input)
    }
}

#[test]
fn messages_of_two_senders_take_from_one_queue() {
    let mut s = scene(0);
    s.post(0xaaaa, 0x1000, 2000);
    s.post(0xbbbb, 0x2000, 2000);
    s.a.data(0, 1500).fill(1);
    s.a.data(0x4000, 1500).fill(2);
    s.send(1, 0x4000, 1500);
    s.run();
    s.send(0, 0, 1500);
    s.run();
    for (tag, receiver, offset, value) in [(0xaaaa, 1, 0x1000, 2), (0xbbbb, 0, 0x2000, 1)] {
        let cqe = s.b.poll().expect("a receive");
        assert_eq!(CqeStatus(cqe.word.status()), CqeStatus::SUCCESS);
        assert_eq!(CqeOpcode(cqe.word.opcode()), CqeOpcode::RECEIVE);
        assert!(cqe.word.shared());
        let expected = (tag, s.receivers[receiver].qpn, 1500);
        assert_eq!((cqe.wqe_index, cqe.qpn, cqe.byte_count), expected);
        assert_eq!(s.b.data(offset, 1500), [value; 1500]);
    }
    let context = s.b.query_srq(&s.srq);
    assert_eq!(
        (context.producer, context.consumer, context.users),
        (2, 2, 2)
    );
}

#[test]
fn sender_waits_for_an_empty_queue() {
    let mut s = scene(0);
    s.send(0, 0, 10);
    s.run();
    assert!(s.b.poll().is_none());
    s.post(5, 0, 10);
    run_both(&mut s.a, &mut s.b, 100);
    assert_eq!(s.b.poll().expect("a receive").wqe_index, 5);
}

#[test]
fn place_in_the_ring_is_free_as_soon_as_it_is_taken() {
    let mut s = scene(0);
    for round in 0..100 {
        s.post(round, 64 * u64::from(round), 64);
        s.send(0, 0, 64);
        s.run();
        assert_eq!(s.b.poll().expect("a receive").wqe_index, round);
        s.a.poll().expect("a send");
    }
}

#[test]
fn limit_is_reported_once_until_it_is_set_again() {
    let mut s = scene(3);
    (0..4).for_each(|tag| s.post(tag, 0, 10));
    s.send(0, 0, 1);
    s.run();
    assert_eq!(s.b.poll_event(), None, "three are left");
    s.send(0, 0, 1);
    s.run();
    let event = (EventType::SRQ_LIMIT, s.srq.srqn);
    assert_eq!(s.b.poll_event(), Some(event), "two are left");
    assert_eq!(s.b.query_srq(&s.srq).limit, 0);
    s.send(1, 0, 1);
    s.run();
    assert_eq!(s.b.poll_event(), None);
    assert_eq!(s.modify_limit(1 << 10), Err(CommandStatus::BAD_PARAMETER));
    s.modify_limit(2).expect("a limit that can be");
    assert_eq!(s.b.query_srq(&s.srq).limit, 2);
    s.send(1, 0, 1);
    s.run();
    assert_eq!(s.b.poll_event(), Some(event));
}

#[test]
fn queue_in_use_cannot_be_destroyed() {
    let mut s = scene(0);
    let number = u64::from(s.srq.srqn);
    let destroy = |b: &mut Machine| b.command(CommandOpcode::DESTROY_SRQ, number, &[0u8; 8]);
    assert_eq!(destroy(&mut s.b), Err(CommandStatus::BUSY));
    for receiver in &s.receivers {
        s.b.destroy_qp(receiver).expect("exists");
    }
    assert_eq!(destroy(&mut s.b), Ok(0));
    assert_eq!(destroy(&mut s.b), Err(CommandStatus::NO_OBJECT));
    let rc = ServiceCode::RELIABLE_CONNECTED;
    let late = s.b.try_create_qp(rc, |context| {
        context.shape.set_uses_srq(true);
        context.srqn = number as u32;
    });
    assert_eq!(late.err(), Some(CommandStatus::BAD_PARAMETER));
}

#[test]
fn error_state_reports_that_no_more_is_taken() {
    let mut s = scene(0);
    s.post(1, 0, 10);
    let nothing = ferroce_spec::context::QpContext::default();
    s.b.modify_qp(&s.receivers[0], QpStateCode::ERR, &[], nothing)
        .expect("legal");
    s.b.run(10);
    let event = (EventType::LAST_WQE_REACHED, s.receivers[0].qpn);
    assert_eq!(s.b.poll_event(), Some(event));
    assert!(s.b.poll().is_none(), "a shared WQE is not flushed");
    s.send(1, 0, 10);
    s.run();
    assert_eq!(s.b.poll().expect("the other works").wqe_index, 1);
}

#[test]
fn message_that_is_too_long_fails_its_receiver_and_spends_one_wqe() {
    let mut s = scene(0);
    s.post(1, 0, 10);
    s.post(2, 0, 10);
    s.send(0, 0, 11);
    s.run();
    let cqe = s.b.poll().expect("a failed receive");
    assert_eq!(CqeStatus(cqe.word.status()), CqeStatus::LOCAL_LENGTH);
    assert!(cqe.word.shared());
    assert_eq!((cqe.wqe_index, cqe.qpn), (1, s.receivers[0].qpn));
    s.send(1, 0, 10);
    s.run();
    assert_eq!(s.b.poll().expect("the other works").wqe_index, 2);
}

#[test]
fn ring_that_cannot_be_read_fails_the_queue() {
    let (mut a, mut b) = connected(PathMtuCode::MTU_1024);
    let context = SrqContext {
        base: common::MEMORY_SIZE as u64,
        log_size: 4,
        log_stride: 6,
        pd: 7,
        doorbell_slot: 500,
        ..SrqContext::default()
    };
    let srqn = b
        .command(CommandOpcode::CREATE_SRQ, 0, &context)
        .expect("the address is not looked at") as u32;
    let rc = ServiceCode::RELIABLE_CONNECTED;
    let mut sender = a.create_qp(rc, |_| ());
    let receiver = b.create_qp(rc, |context| {
        context.shape.set_uses_srq(true);
        context.srqn = srqn;
    });
    a.bring_to_rts(&sender, b.gid(), receiver.qpn);
    b.bring_to_rts(&receiver, a.gid(), sender.qpn);
    let kind = DoorbellKind::SHARED_RECEIVE_QUEUE;
    b.ring(500, DoorbellValue::new(kind, srqn, 3));
    let data = [a.segment(0, 10)];
    let request = Request {
        data: &data,
        ..Request::default()
    };
    a.send(&mut sender, SendOpcode::SEND, request);
    run_both(&mut a, &mut b, 20);
    let events: Vec<_> = std::iter::from_fn(|| b.poll_event()).collect();
    assert!(events.contains(&(EventType::SRQ_ERROR, srqn)), "{events:?}");
    let cqe = a.poll().expect("a failed send");
    assert_eq!(CqeStatus(cqe.word.status()), CqeStatus::REMOTE_OPERATION);
}

#[test]
fn doorbells_that_do_not_fit_are_counted() {
    let mut s = scene(0);
    let errors = |s: &Scene| {
        let counter = ferroce_spec::counter::Counter::doorbell_errors;
        s.b.nic.counters().value(counter)
    };
    let before = errors(&s);
    let kind = DoorbellKind::SHARED_RECEIVE_QUEUE;
    let (srqn, slot) = (s.srq.srqn, s.srq.slot);
    for (slot, value) in [
        (slot + 1, DoorbellValue::new(kind, srqn, 1)),
        (slot, DoorbellValue::new(kind, srqn + 1, 1)),
        (slot, DoorbellValue::new(kind, srqn, 33)),
        (
            s.receivers[0].receive_slot,
            DoorbellValue::new(DoorbellKind::RECEIVE_QUEUE, s.receivers[0].qpn, 1),
        ),
    ] {
        s.b.ring(slot, value);
        s.b.run(1);
    }
    assert_eq!(errors(&s) - before, 4);
    assert_eq!(s.b.query_srq(&s.srq).producer, 0);
}

#[test]
fn buffers_are_checked_with_the_protection_domain_of_the_queue() {
    let (mut a, mut b) = connected(PathMtuCode::MTU_1024);
    let mut srq = b.create_srq(0, None);
    let rc = ServiceCode::RELIABLE_CONNECTED;
    let mut sender = a.create_qp(rc, |_| ());
    let receiver = b.create_qp(rc, |context| {
        context.pd = 1234;
        context.shape.set_uses_srq(true);
        context.srqn = srq.srqn;
    });
    a.bring_to_rts(&sender, b.gid(), receiver.qpn);
    b.bring_to_rts(&receiver, a.gid(), sender.qpn);
    let data = [b.segment(0, 100)];
    b.post_shared(&mut srq, 1, &data);
    let data = [a.segment(0, 100)];
    let request = Request {
        data: &data,
        ..Request::default()
    };
    a.send(&mut sender, SendOpcode::SEND, request);
    run_both(&mut a, &mut b, 20);
    let cqe = b.poll().expect("a receive");
    assert_eq!(CqeStatus(cqe.word.status()), CqeStatus::SUCCESS);
}

#[test]
fn contexts_that_cannot_be_are_refused() {
    let mut machine = Machine::new(1, common::cable().0);
    let good = SrqContext {
        base: place::DATA,
        log_size: 4,
        log_stride: 5,
        doorbell_slot: 8,
        ..SrqContext::default()
    };
    let create = |machine: &mut Machine, context: SrqContext| {
        machine.command(CommandOpcode::CREATE_SRQ, 0, &context)
    };
    let bad = [
        SrqContext { base: 32, ..good },
        SrqContext {
            log_size: 19,
            ..good
        },
        SrqContext {
            log_stride: 4,
            ..good
        },
        SrqContext {
            log_stride: 10,
            ..good
        },
        SrqContext { limit: 17, ..good },
        SrqContext {
            doorbell_slot: u32::MAX,
            ..good
        },
        SrqContext {
            xrcd: 1,
            cqn: 99,
            ..good
        },
    ];
    for context in bad {
        let status = create(&mut machine, context);
        assert_eq!(status, Err(CommandStatus::BAD_PARAMETER), "{context:?}");
    }
    let made = (0..1000)
        .take_while(|_| create(&mut machine, good).is_ok())
        .count();
    assert_eq!(made, 255, "as many as the table has; 0 is nobody's number");
    assert_eq!(create(&mut machine, good), Err(CommandStatus::NO_RESOURCES));
}
