//! Completion queues beyond CQEs: resize, moderation, overrun; and the events of the port.

use crate::common::objects::{Request, TestCq, TestQp};
use crate::common::{self, Machine, connected, place, run_both};
use ferroce_spec::command::{CommandOpcode, CommandStatus};
use ferroce_spec::context::{CqContext, PathMtuCode, ServiceCode};
use ferroce_spec::counter::Counter;
use ferroce_spec::cqe::CqeStatus;
use ferroce_spec::eqe::EventType;
use ferroce_spec::register::{Status, offset};
use ferroce_spec::wqe::SendOpcode;

/// Machine a with a QP that sends to a QP of b; its completions go to a CQ of 32 entries.
struct Scene {
    a: Machine,
    b: Machine,
    qp: TestQp,
    cq: TestCq,
    key: u32,
}

fn scene() -> Scene {
    let (mut a, mut b) = connected(PathMtuCode::MTU_1024);
    let cq = a.create_cq(5);
    let rc = ServiceCode::RELIABLE_CONNECTED;
    let qp = a.create_qp(rc, |context| context.send_cqn = cq.cqn);
    let peer = b.create_qp(rc, |_| ());
    a.bring_to_rts(&qp, b.gid(), peer.qpn);
    b.bring_to_rts(&peer, a.gid(), qp.qpn);
    let key = b.key;
    Scene { a, b, qp, cq, key }
}

impl Scene {
    /// Completes `count` WRITEs.
    fn complete(&mut self, count: usize) {
        for _ in 0..count {
            let data = [self.a.segment(0, 4)];
            let request = Request {
                data: &data,
                remote: Some((common::REGION_START, self.key)),
                ..Request::default()
            };
            self.a.send(&mut self.qp, SendOpcode::RDMA_WRITE, request);
            run_both(&mut self.a, &mut self.b, 10);
        }
    }

    /// Indices of the WQEs whose CQEs wait.
    fn drain(&mut self) -> Vec<u32> {
        let mut seen = Vec::new();
        while let Some(cqe) = self.a.poll_cq(&mut self.cq) {
            assert_eq!(CqeStatus(cqe.word.status()), CqeStatus::SUCCESS);
            seen.push(cqe.wqe_index);
        }
        seen
    }

    fn modify(&mut self, input: CqContext) -> Result<u64, CommandStatus> {
        let number = u64::from(self.cq.cqn);
        self.a.command(CommandOpcode::MODIFY_CQ, number, &input)
    }

    /// Gives the CQ a ring of another size at another place, full of old bytes.
    fn resize(&mut self, base: u64, log_size: u8) -> Result<u64, CommandStatus> {
        self.a
            .host
            .write(base, &vec![0xff; 32 << log_size])
            .expect("mapped");
        let result = self.modify(CqContext {
            base,
            log_size,
            consumer: self.cq.consumer,
            ..CqContext::default()
        });
        if result.is_ok() {
            (self.cq.base, self.cq.log_size) = (base, log_size);
        }
        result
    }

    fn moderate(&mut self, count: u16, us: u16) {
        self.modify(CqContext {
            moderation_count: count,
            moderation_us: us,
            ..CqContext::default()
        })
        .expect("allowed");
    }

    /// Events of the CQ since the last call.
    fn announced(&mut self) -> usize {
        std::iter::from_fn(|| self.a.poll_event())
            .inspect(|event| assert_eq!(*event, (EventType::COMPLETION, self.cq.cqn)))
            .count()
    }
}

/// Goal: no CQE is lost, repeated or invented by a resize, at any lap and position. Method: sizes
/// that grow and shrink, with a few CQEs taken and a few waiting each time; rings start as garbage.
#[test]
fn resize_keeps_every_cqe() {
    let mut s = scene();
    let (mut next, mut waiting) = (0u32, 0);
    for round in 0..60u32 {
        let log_size = [4, 6, 3, 5, 7, 4][round as usize % 6];
        let base = place::DATA + 0x20_0000 + u64::from(round % 2) * 0x1_0000;
        s.resize(base, log_size).expect("they fit");
        let more = (round * 7 % 5) as usize;
        s.complete(more);
        waiting += more;
        if round % 3 == 2 {
            let seen = s.drain();
            assert_eq!(seen.len(), waiting, "round {round}");
            assert!(seen.iter().copied().eq(next..next + waiting as u32));
            next += waiting as u32;
            waiting = 0;
        }
    }
}

#[test]
fn resize_that_does_not_fit_changes_nothing() {
    let mut s = scene();
    s.complete(9);
    let at = place::DATA + 0x20_0000;
    assert_eq!(s.resize(at, 3), Err(CommandStatus::BAD_PARAMETER));
    assert_eq!(s.resize(at + 32, 6), Err(CommandStatus::BAD_PARAMETER));
    let huge = CqContext {
        base: at,
        log_size: 19,
        ..CqContext::default()
    };
    assert_eq!(s.modify(huge), Err(CommandStatus::BAD_PARAMETER));
    let beyond = CqContext {
        base: at,
        log_size: 6,
        consumer: s.cq.consumer + 10,
        ..CqContext::default()
    };
    assert_eq!(s.modify(beyond), Err(CommandStatus::BAD_PARAMETER), "ahead");
    let unmapped = CqContext {
        base: common::MEMORY_SIZE as u64,
        log_size: 6,
        ..CqContext::default()
    };
    assert_eq!(s.modify(unmapped), Err(CommandStatus::DMA_ERROR));
    assert_eq!(s.drain().len(), 9);
    s.complete(3);
    assert_eq!(s.drain(), [9, 10, 11]);
}

#[test]
fn larger_ring_takes_more() {
    let mut s = scene();
    s.complete(30);
    s.resize(place::DATA + 0x20_0000, 6).expect("they fit");
    s.complete(34);
    assert_eq!(s.drain().len(), 64);
    assert_eq!(s.a.nic.counters().value(Counter::cq_overruns), 0);
}

#[test]
fn overrun_stops_the_queue_and_is_reported() {
    let mut s = scene();
    s.complete(33);
    assert_eq!(s.a.nic.counters().value(Counter::cq_overruns), 1);
    assert_eq!(s.a.poll_event(), Some((EventType::CQ_ERROR, s.cq.cqn)));
    assert_eq!(s.drain().len(), 32);
    s.complete(1);
    assert!(s.drain().is_empty(), "nothing more is written");
    let resized = s.resize(place::DATA + 0x20_0000, 7);
    assert_eq!(resized, Err(CommandStatus::BAD_STATE));
}

#[test]
fn moderation_waits_for_its_count() {
    let mut s = scene();
    s.moderate(4, 10_000);
    s.a.arm_cq(&s.cq);
    s.complete(3);
    assert_eq!(s.announced(), 0);
    s.complete(1);
    assert_eq!(s.announced(), 1, "the fourth");
    s.complete(8);
    assert_eq!(s.announced(), 0, "not armed");
    s.drain();
    s.a.arm_cq(&s.cq);
    s.complete(4);
    assert_eq!(s.announced(), 1, "CQEs that were taken do not count");
}

#[test]
fn moderation_has_a_time_limit() {
    let mut s = scene();
    s.moderate(100, 50);
    s.a.arm_cq(&s.cq);
    s.complete(2);
    assert_eq!(s.announced(), 0);
    let due = s.a.nic.next_timeout(s.a.now).expect("a timer runs");
    assert!(due > s.a.now);
    s.a.run(50_000);
    assert_eq!(s.announced(), 1);
    s.a.run(200_000);
    assert_eq!(s.announced(), 0, "once");
    // CQEs that are there when the queue is armed start the timer, too.
    s.complete(1);
    s.a.arm_cq(&s.cq);
    assert_eq!(s.announced(), 0);
    s.a.run(60_000);
    assert_eq!(s.announced(), 1);
}

#[test]
fn moderation_that_is_switched_off_lets_the_event_go() {
    let mut s = scene();
    s.moderate(100, 60_000);
    s.a.arm_cq(&s.cq);
    s.complete(2);
    s.moderate(0, 0);
    assert_eq!(s.announced(), 0);
    s.complete(1);
    assert_eq!(s.announced(), 1);
    s.a.run(100_000_000);
    assert_eq!(s.announced(), 0, "the old timer says nothing");
}

#[test]
fn destroyed_queue_has_no_timer() {
    let (mut a, _b) = connected(PathMtuCode::MTU_1024);
    let cq = a.create_cq(5);
    a.command(CommandOpcode::DESTROY_CQ, u64::from(cq.cqn), &[0u8; 8])
        .expect("it is not in use");
    assert_eq!(a.nic.next_timeout(a.now), None);
}

#[test]
fn link_loss_is_reported_and_stops_traffic() {
    let mut s = scene();
    let is_up = |machine: &Machine| {
        let status = machine.nic.read32(machine.now, offset::status);
        Status::from_bits(status).link_up()
    };
    assert!(is_up(&s.a));
    s.a.port.link_up = false;
    s.a.run(1);
    assert_eq!(s.a.poll_event(), Some((EventType::PORT_ERROR, 1)));
    assert!(!is_up(&s.a));
    let (sent, received) = (Counter::tx_frames, Counter::rx_frames);
    let before = s.a.nic.counters().clone();
    s.complete(1);
    s.a.port.into.borrow_mut().push_back(vec![0; 100]);
    s.a.run(1);
    assert!(s.a.port.into.borrow().is_empty(), "lost on the cable");
    for counter in [sent, received] {
        let now = s.a.nic.counters().value(counter);
        assert_eq!(now, before.value(counter), "{counter:?}");
    }
    s.a.port.link_up = true;
    s.a.run(1);
    assert_eq!(s.a.poll_event(), Some((EventType::PORT_ACTIVE, 1)));
    assert!(is_up(&s.a));
    for _ in 0..40 {
        s.a.run(1_000_000);
        s.b.run(1);
    }
    assert_eq!(s.drain(), [0], "the retry got through");
}
