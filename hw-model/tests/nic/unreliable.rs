//! UC: messages arrive whole or are dropped in silence; a send error stops the send queue only.

use crate::common::objects::{Request, TestQp};
use crate::common::{self, Machine, REGION_START, connected};
use ferroce_spec::context::{PathMtuCode, QpContext, QpStateCode, ServiceCode};
use ferroce_spec::counter::Counter;
use ferroce_spec::cqe::{Cqe, CqeOpcode, CqeStatus};
use ferroce_spec::wqe::{DataSegment, SendOpcode};

struct Scene {
    a: Machine,
    b: Machine,
    sender: TestQp,
    receiver: TestQp,
}

fn scene() -> Scene {
    let (mut a, mut b) = connected(PathMtuCode::MTU_1024);
    let uc = ServiceCode::UNRELIABLE_CONNECTED;
    let (sender, receiver) = (a.create_qp(uc, |_| ()), b.create_qp(uc, |_| ()));
    a.bring_to_rts(&sender, b.gid(), receiver.qpn);
    b.bring_to_rts(&receiver, a.gid(), sender.qpn);
    Scene {
        a,
        b,
        sender,
        receiver,
    }
}

impl Scene {
    fn run(&mut self) {
        common::run_both(&mut self.a, &mut self.b, 20);
    }

    fn send(&mut self, opcode: SendOpcode, remote: Option<(u64, u32)>, data: DataSegment) {
        let request = Request {
            data: &[data],
            remote,
            immediate: Some([1, 2, 3, 4]),
            ..Request::default()
        };
        self.a.send(&mut self.sender, opcode, request);
    }

    fn sent(&mut self, status: CqeStatus) -> Cqe {
        let cqe = self.a.poll().expect("a send completion");
        assert_eq!(CqeStatus(cqe.word.status()), status);
        cqe
    }

    fn received(&mut self) -> Cqe {
        let cqe = self.b.poll().expect("a receive completion");
        assert_eq!(CqeStatus(cqe.word.status()), CqeStatus::SUCCESS);
        cqe
    }
}

#[test]
fn sends_and_writes_arrive() {
    let mut s = scene();
    let pattern: Vec<u8> = (0..5000).map(|i| (i * 7) as u8).collect();
    s.a.data(0, 5000).copy_from_slice(&pattern);
    s.b.receive(&mut s.receiver, s.b.segment(0x1_0000, 6000));
    s.b.receive(&mut s.receiver, s.b.segment(0, 0));
    let data = s.a.segment(0, 5000);
    s.send(SendOpcode::SEND, None, data);
    let remote = (REGION_START + 0x2_0000, s.b.key);
    s.send(SendOpcode::RDMA_WRITE, Some(remote), data);
    let remote = (REGION_START + 0x3_0000, s.b.key);
    s.send(SendOpcode::RDMA_WRITE_IMMEDIATE, Some(remote), data);
    s.run();
    for opcode in [
        CqeOpcode::SEND,
        CqeOpcode::RDMA_WRITE,
        CqeOpcode::RDMA_WRITE,
    ] {
        assert_eq!(s.sent(CqeStatus::SUCCESS).word.opcode(), opcode.0);
    }
    let cqe = s.received();
    assert_eq!(CqeOpcode(cqe.word.opcode()), CqeOpcode::RECEIVE);
    assert_eq!((cqe.byte_count, cqe.wqe_index), (5000, 0));
    let cqe = s.received();
    let kind = CqeOpcode::RECEIVE_RDMA_IMMEDIATE;
    assert_eq!(CqeOpcode(cqe.word.opcode()), kind);
    assert_eq!((cqe.byte_count, cqe.immediate), (5000, [1, 2, 3, 4]));
    for offset in [0x1_0000, 0x2_0000, 0x3_0000] {
        assert!(s.b.data(offset, 5000) == pattern, "at {offset:#x}");
    }
}

#[test]
fn sender_completes_without_a_peer() {
    let mut s = scene();
    let data = s.a.segment(0, 3000);
    s.send(SendOpcode::SEND, None, data);
    s.a.run(1);
    s.sent(CqeStatus::SUCCESS);
    s.run();
    assert!(s.b.poll().is_none(), "no receive: the message is lost");
    assert!(s.b.nic.counters().value(Counter::rx_no_receive) > 0);
}

#[test]
fn message_with_a_gap_is_dropped_and_the_next_one_arrives() {
    let mut s = scene();
    s.b.receive(&mut s.receiver, s.b.segment(0x1000, 6000));
    let data = s.a.segment(0, 3000);
    s.send(SendOpcode::SEND, None, data);
    s.a.run(1);
    s.a.port.out.borrow_mut().remove(1);
    s.run();
    s.sent(CqeStatus::SUCCESS);
    assert!(s.b.poll().is_none());
    assert!(s.b.nic.counters().value(Counter::rx_out_of_sequence) > 0);
    s.a.data(0, 2000).fill(0x77);
    let data = s.a.segment(0, 2000);
    s.send(SendOpcode::SEND, None, data);
    s.run();
    assert_eq!(s.received().byte_count, 2000);
    assert_eq!(s.b.data(0x1000, 2000), [0x77; 2000]);
}

#[test]
fn wrong_key_is_dropped_in_silence() {
    let mut s = scene();
    let data = s.a.segment(0, 3000);
    let remote = (REGION_START, s.b.key ^ 1);
    s.send(SendOpcode::RDMA_WRITE, Some(remote), data);
    s.run();
    s.sent(CqeStatus::SUCCESS);
    assert_eq!(s.b.query_qp(&s.receiver).state, QpStateCode::RTS);
}

/// Goal: SQE. Method: a local key that is wrong, requests behind it, a message in the other
/// direction, then back to RTS.
#[test]
fn send_error_stops_the_send_queue_only() {
    let mut s = scene();
    let good = s.a.segment(0, 64);
    let bad = DataSegment {
        l_key: good.l_key ^ 1,
        ..good
    };
    s.send(SendOpcode::SEND, None, bad);
    s.send(SendOpcode::SEND, None, good);
    s.run();
    s.sent(CqeStatus::LOCAL_PROTECTION);
    s.sent(CqeStatus::WR_FLUSH);
    assert_eq!(s.a.query_qp(&s.sender).state, QpStateCode::SQE);
    s.send(SendOpcode::SEND, None, good);
    s.run();
    s.sent(CqeStatus::WR_FLUSH);
    s.a.receive(&mut s.sender, s.a.segment(0x1000, 64));
    let data = [s.b.segment(0, 64)];
    let request = Request {
        data: &data,
        ..Request::default()
    };
    s.b.send(&mut s.receiver, SendOpcode::SEND, request);
    s.run();
    let cqe = s.a.poll().expect("receiving goes on");
    assert_eq!(CqeOpcode(cqe.word.opcode()), CqeOpcode::RECEIVE);
    s.b.poll().expect("a send completion");
    s.a.modify_qp(&s.sender, QpStateCode::RTS, &[], QpContext::default())
        .expect("SQE to RTS");
    s.b.receive(&mut s.receiver, s.b.segment(0x1000, 64));
    s.send(SendOpcode::SEND, None, good);
    s.run();
    s.sent(CqeStatus::SUCCESS);
    s.received();
}

#[test]
fn reads_and_atomics_are_refused() {
    let mut s = scene();
    let data = s.a.segment(0, 64);
    let remote = (REGION_START, s.b.key);
    s.send(SendOpcode::RDMA_READ, Some(remote), data);
    s.run();
    s.sent(CqeStatus::LOCAL_QP_OPERATION);
    assert_eq!(s.a.query_qp(&s.sender).state, QpStateCode::SQE);
}

#[test]
fn error_state_flushes_both_queues() {
    let mut s = scene();
    s.b.receive(&mut s.receiver, s.b.segment(0, 64));
    s.b.modify_qp(&s.receiver, QpStateCode::ERR, &[], QpContext::default())
        .expect("legal");
    s.b.run(1);
    let cqe = s.b.poll().expect("a flushed receive");
    assert_eq!(CqeStatus(cqe.word.status()), CqeStatus::WR_FLUSH);
}
