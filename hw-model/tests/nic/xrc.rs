//! XRC: requests name a shared receive queue of the peer; who may use it is a matter of domains.

use crate::common::objects::{PD, Request, TestCq, TestQp, TestSrq};
use crate::common::{self, Machine, REGION_START, connected};
use ferroce_spec::command::{CommandOpcode, CommandStatus};
use ferroce_spec::context::{
    MemoryEntry, MemoryEntryWord, PathMtuCode, QpStateCode, ServiceCode, SrqContext,
};
use ferroce_spec::cqe::{Cqe, CqeOpcode, CqeStatus};
use ferroce_spec::eqe::EventType;
use ferroce_spec::wqe::{AtomicSegment, SendOpcode};

const DOMAIN: u32 = 5;

/// An initiator at a, a target at b with two shared receive queues, each with its CQ.
struct Scene {
    a: Machine,
    b: Machine,
    initiator: TestQp,
    target: TestQp,
    srqs: [TestSrq; 2],
    cqs: [TestCq; 2],
}

fn scene() -> Scene {
    let (mut a, mut b) = connected(PathMtuCode::MTU_1024);
    let cqs = [b.create_cq(5), b.create_cq(5)];
    let srqs = [0, 1].map(|n: usize| b.create_srq(0, Some((DOMAIN, cqs[n].cqn))));
    let initiator = a.create_qp(ServiceCode::XRC_INITIATOR, |context| {
        context.receive_cqn = 12345;
    });
    let target = b.create_qp(ServiceCode::XRC_TARGET, |context| {
        (context.pd, context.xrcd) = (0, DOMAIN);
        (context.send_cqn, context.receive_cqn) = (12345, 12345);
    });
    a.bring_to_rts(&initiator, b.gid(), target.qpn);
    b.bring_to_rts(&target, a.gid(), initiator.qpn);
    Scene {
        a,
        b,
        initiator,
        target,
        srqs,
        cqs,
    }
}

impl Scene {
    fn request(&mut self, opcode: SendOpcode, srqn: u32, remote: Option<u64>, length: u32) {
        let key = self.b.key;
        let request = Request {
            data: &[self.a.segment(0, length)],
            remote: remote.map(|offset| (REGION_START + offset, key)),
            srqn,
            ..Request::default()
        };
        self.a.send(&mut self.initiator, opcode, request);
        common::run_both(&mut self.a, &mut self.b, 30);
    }

    fn post(&mut self, which: usize, tag: u32, offset: u64, length: u32) {
        let data = [self.b.segment(offset, length)];
        self.b.post_shared(&mut self.srqs[which], tag, &data);
    }

    fn sent(&mut self, status: CqeStatus) -> Cqe {
        let cqe = self.a.poll().expect("a send completion");
        assert_eq!(CqeStatus(cqe.word.status()), status);
        cqe
    }
}

#[test]
fn message_goes_to_the_queue_that_it_names() {
    let mut s = scene();
    s.post(0, 100, 0x1000, 3000);
    s.post(1, 200, 0x2000, 3000);
    s.a.data(0, 2500).fill(0x42);
    for (which, tag, offset) in [(1, 200, 0x2000), (0, 100, 0x1000)] {
        s.request(SendOpcode::SEND, s.srqs[which].srqn, None, 2500);
        s.sent(CqeStatus::SUCCESS);
        let cqe = s.b.poll_cq(&mut s.cqs[which]).expect("a receive");
        assert_eq!(CqeStatus(cqe.word.status()), CqeStatus::SUCCESS);
        assert_eq!(CqeOpcode(cqe.word.opcode()), CqeOpcode::RECEIVE);
        assert!(cqe.word.shared());
        assert_eq!((cqe.wqe_index, cqe.byte_count), (tag, 2500));
        assert_eq!(
            (cqe.qpn, cqe.source_qpn),
            (s.target.qpn, s.srqs[which].srqn)
        );
        assert_eq!(s.b.data(offset, 2500), [0x42; 2500]);
    }
}

#[test]
fn memory_is_reached_with_the_protection_domain_of_the_queue() {
    let mut s = scene();
    let srqn = s.srqs[0].srqn;
    s.a.data(0, 3000).fill(0x17);
    s.request(SendOpcode::RDMA_WRITE, srqn, Some(0x5000), 3000);
    s.sent(CqeStatus::SUCCESS);
    assert_eq!(s.b.data(0x5000, 3000), [0x17; 3000]);
    s.b.data(0x5000, 3000).fill(0x71);
    s.request(SendOpcode::RDMA_READ, srqn, Some(0x5000), 3000);
    assert_eq!(s.sent(CqeStatus::SUCCESS).byte_count, 3000);
    assert_eq!(s.a.data(0, 3000), [0x71; 3000]);
    s.post(0, 9, 0, 0);
    s.request(SendOpcode::RDMA_WRITE_IMMEDIATE, srqn, Some(0x6000), 10);
    let cqe = s.b.poll_cq(&mut s.cqs[0]).expect("a receive");
    assert_eq!((cqe.wqe_index, cqe.byte_count), (9, 10));
}

#[test]
fn atomics_work_through_the_queue_s_domain() {
    let mut s = scene();
    let key =
        s.b.create_region(common::objects::every_right())
            .expect("room");
    s.b.data(64, 8).copy_from_slice(&40u64.to_ne_bytes());
    let request = Request {
        data: &[s.a.segment(0, 8)],
        remote: Some((REGION_START + 64, key)),
        atomic: Some(AtomicSegment {
            swap_add: 2,
            compare: 0,
        }),
        srqn: s.srqs[0].srqn,
        ..Request::default()
    };
    s.a.send(&mut s.initiator, SendOpcode::FETCH_ADD, request);
    common::run_both(&mut s.a, &mut s.b, 30);
    s.sent(CqeStatus::SUCCESS);
    assert_eq!(s.a.data(0, 8), 40u64.to_ne_bytes());
    assert_eq!(s.b.data(64, 8), 42u64.to_ne_bytes());
}

#[test]
fn queue_of_another_domain_is_refused() {
    let mut s = scene();
    let foreign = s.b.create_srq(0, Some((DOMAIN + 1, s.cqs[0].cqn)));
    s.request(SendOpcode::SEND, foreign.srqn, None, 10);
    let cqe = s.a.poll().expect("a send completion");
    assert_ne!(CqeStatus(cqe.word.status()), CqeStatus::SUCCESS);
    assert_eq!(s.b.query_qp(&s.target).state, QpStateCode::ERR);
}

#[test]
fn queue_without_a_domain_or_a_number_is_refused() {
    for (opcode, remote) in [
        (SendOpcode::SEND, None),
        (SendOpcode::RDMA_WRITE, Some(0)),
        (SendOpcode::RDMA_READ, Some(0)),
    ] {
        for plain in [true, false] {
            let mut s = scene();
            let srqn = if plain {
                s.b.create_srq(0, None).srqn
            } else {
                0xff_fff0
            };
            s.request(opcode, srqn, remote, 10);
            let cqe = s.a.poll().expect("a send completion");
            assert_ne!(CqeStatus(cqe.word.status()), CqeStatus::SUCCESS);
        }
    }
}

#[test]
fn region_of_another_protection_domain_is_refused() {
    let mut s = scene();
    let mut word = MemoryEntryWord::default();
    word.set_log_page_size(12);
    let region = MemoryEntry {
        word,
        pd: PD + 1,
        access: common::all_rights(),
        start: REGION_START,
        length: 4096,
        ..MemoryEntry::default()
    };
    s.b.key =
        s.b.command(CommandOpcode::CREATE_MR, 0, &region)
            .expect("room") as u32;
    s.request(SendOpcode::RDMA_WRITE, s.srqs[0].srqn, Some(0), 10);
    s.sent(CqeStatus::REMOTE_ACCESS);
}

#[test]
fn empty_queue_makes_the_initiator_wait() {
    let mut s = scene();
    s.request(SendOpcode::SEND, s.srqs[0].srqn, None, 10);
    assert!(s.a.poll().is_none());
    s.post(0, 1, 0, 10);
    common::run_both(&mut s.a, &mut s.b, 200);
    s.sent(CqeStatus::SUCCESS);
    assert!(s.b.poll_cq(&mut s.cqs[0]).is_some());
}

#[test]
fn limit_of_a_queue_is_reported() {
    let mut s = scene();
    (0..2).for_each(|tag| s.post(1, tag, 0, 10));
    let input = SrqContext {
        limit: 2,
        ..SrqContext::default()
    };
    let number = u64::from(s.srqs[1].srqn);
    s.b.command(CommandOpcode::MODIFY_SRQ, number, &input)
        .expect("exists");
    s.request(SendOpcode::SEND, s.srqs[1].srqn, None, 10);
    let events: Vec<_> = std::iter::from_fn(|| s.b.poll_event()).collect();
    assert!(events.contains(&(EventType::SRQ_LIMIT, s.srqs[1].srqn)));
}

#[test]
fn objects_count_their_users() {
    let mut s = scene();
    let destroy_cq =
        |b: &mut Machine, cqn: u32| b.command(CommandOpcode::DESTROY_CQ, u64::from(cqn), &[0u8; 8]);
    let cqn = s.cqs[0].cqn;
    assert_eq!(destroy_cq(&mut s.b, cqn), Err(CommandStatus::BUSY));
    let srqn = u64::from(s.srqs[0].srqn);
    s.b.command(CommandOpcode::DESTROY_SRQ, srqn, &[0u8; 8])
        .expect("target QPs do not hold it");
    assert_eq!(destroy_cq(&mut s.b, cqn), Ok(0));
    s.b.destroy_qp(&s.target).expect("exists");
    s.a.destroy_qp(&s.initiator).expect("exists");
}

#[test]
fn target_has_no_queues() {
    let mut s = scene();
    let data = [s.b.segment(0, 4)];
    let request = Request {
        data: &data,
        ..Request::default()
    };
    s.b.send(&mut s.target, SendOpcode::SEND, request);
    s.b.receive(&mut s.target, data[0]);
    s.b.run(1);
    let errors = ferroce_spec::counter::Counter::doorbell_errors;
    assert_eq!(s.b.nic.counters().value(errors), 2);
    assert_eq!(s.b.query_qp(&s.target).state, QpStateCode::RTS);
    let without = s.b.try_create_qp(ServiceCode::XRC_TARGET, |_| ());
    assert_eq!(without.err(), Some(CommandStatus::BAD_PARAMETER));
}
