//! UD: from any queue pair to any other, with a header in front, and never an error for the
//! sender's peer.

use std::net::Ipv6Addr;

use crate::common::objects::{PATH_MTU, Q_KEY, Request, TestQp};
use crate::common::{self, Machine, connected};
use ferroce_spec::command::{CommandOpcode, QpAttributeMask};
use ferroce_spec::context::{AddressEntry, PathMtuCode, QpContext, QpStateCode, ServiceCode};
use ferroce_spec::counter::Counter;
use ferroce_spec::cqe::{Cqe, CqeOpcode, CqeStatus};
use ferroce_spec::wqe::{SendOpcode, VLAN_NONE};
use ferroce_wire::{Frame, Gid};

const UD: ServiceCode = ServiceCode::UNRELIABLE_DATAGRAM;
const GRH: u32 = 40;
const MTU: u32 = 4096;

/// Two machines, the first with two UD QPs, the second with one; receives of the second at
/// 0x1_0000, 0x2_0000, ...
struct Scene {
    a: Machine,
    b: Machine,
    senders: [TestQp; 2],
    receiver: TestQp,
}

fn scene() -> Scene {
    let (mut a, mut b) = connected(PathMtuCode::MTU_1024);
    let senders = [a.create_qp(UD, |_| ()), a.create_qp(UD, |_| ())];
    let mut receiver = b.create_qp(UD, |_| ());
    for sender in &senders {
        a.bring_to_rts(sender, Gid::UNSPECIFIED, 0);
    }
    b.bring_to_rts(&receiver, Gid::UNSPECIFIED, 0);
    for number in 1..=4 {
        let segment = b.segment(number << 16, MTU + GRH);
        b.receive(&mut receiver, segment);
    }
    Scene {
        a,
        b,
        senders,
        receiver,
    }
}

impl Scene {
    fn run(&mut self) {
        common::run_both(&mut self.a, &mut self.b, 20);
    }

    fn send_to(&mut self, which: usize, gid: Gid, qpn: u32, q_key: u32, length: u32) {
        let request = Request {
            data: &[self.a.segment(0, length)],
            datagram: self.a.datagram(gid, qpn, q_key),
            immediate: Some([9, 8, 7, 6]),
            ..Request::default()
        };
        let opcode = SendOpcode::SEND_IMMEDIATE;
        self.a.send(&mut self.senders[which], opcode, request);
        self.run();
    }

    fn send(&mut self, which: usize, length: u32) {
        self.send_to(which, self.b.gid(), self.receiver.qpn, Q_KEY, length);
    }

    fn sent(&mut self, status: CqeStatus) {
        let cqe = self.a.poll().expect("a send completion");
        assert_eq!(CqeStatus(cqe.word.status()), status);
    }

    fn received(&mut self) -> Cqe {
        let cqe = self.b.poll().expect("a receive completion");
        assert_eq!(CqeStatus(cqe.word.status()), CqeStatus::SUCCESS);
        cqe
    }
}

#[test]
fn datagram_arrives_behind_its_header() {
    let mut s = scene();
    s.a.data(0, 100).fill(0x5a);
    for which in [1, 0] {
        s.send(which, 100);
        s.sent(CqeStatus::SUCCESS);
        let cqe = s.received();
        assert_eq!(CqeOpcode(cqe.word.opcode()), CqeOpcode::RECEIVE);
        assert!(cqe.word.with_grh() && cqe.word.ipv4() && cqe.word.with_immediate());
        assert_eq!(cqe.source_qpn, s.senders[which].qpn);
        assert_eq!((cqe.byte_count, cqe.immediate), (140, [9, 8, 7, 6]));
        let place = (u64::from(cqe.wqe_index) + 1) << 16;
        assert_eq!(s.b.data(place + 40, 100), [0x5a; 100]);
        let header = s.b.data(place, 40);
        assert_eq!(header[..20], [0; 20]);
        assert_eq!((header[20], header[29]), (0x45, 17), "IPv4, UDP");
        assert_eq!(header[32..36], [10, 0, 0, 1], "source");
        assert_eq!(header[36..40], [10, 0, 0, 2], "destination");
    }
}

#[test]
fn ipv6_header_stands_as_it_is() {
    let mut s = scene();
    let gids = [1u16, 2].map(|n| Gid(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, n).octets()));
    for (machine, gid) in [(&mut s.a, gids[0]), (&mut s.b, gids[1])] {
        let entry = AddressEntry {
            gid: gid.0,
            mac: [2, 0, 0, 0, 0, 1],
            vlan: VLAN_NONE,
            ..AddressEntry::default()
        };
        machine
            .command(CommandOpcode::SET_ADDRESS, 3, &entry)
            .expect("in range");
    }
    let mut datagram = s.a.datagram(gids[1], s.receiver.qpn, Q_KEY);
    if let Some(datagram) = &mut datagram {
        datagram.path.source_gid_index = 3;
        datagram.path.flow_label = 0x12345;
        datagram.path.traffic_class = 0x20;
    }
    let request = Request {
        data: &[s.a.segment(0, 4)],
        datagram,
        ..Request::default()
    };
    s.a.send(&mut s.senders[0], SendOpcode::SEND, request);
    s.run();
    let cqe = s.received();
    assert_eq!((cqe.byte_count, cqe.word.ipv4()), (44, false));
    let header = s.b.data(1 << 16, 40);
    assert_eq!(header[..4], [0x62, 0x01, 0x23, 0x45]);
    assert_eq!(header[8..24], gids[0].0);
    assert_eq!(header[24..40], gids[1].0);
}

#[test]
fn empty_datagram_is_forty_bytes() {
    let mut s = scene();
    s.send(0, 0);
    assert_eq!(s.received().byte_count, GRH);
}

#[test]
fn longest_datagram_is_one_packet() {
    let mut s = scene();
    assert!(MTU as usize > PATH_MTU, "the MTU is that of the port");
    s.send(0, MTU);
    s.sent(CqeStatus::SUCCESS);
    assert_eq!(s.received().byte_count, MTU + GRH);
    s.send(0, MTU + 1);
    s.sent(CqeStatus::LOCAL_LENGTH);
    assert_eq!(s.a.query_qp(&s.senders[0]).state, QpStateCode::SQE);
}

#[test]
fn wrong_q_key_is_dropped_and_counted() {
    let mut s = scene();
    s.send_to(0, s.b.gid(), s.receiver.qpn, Q_KEY ^ 1, 10);
    s.sent(CqeStatus::SUCCESS);
    assert!(s.b.poll().is_none());
    let counters = s.b.nic.counters();
    assert_eq!(counters.value(Counter::rx_q_key_violations), 1);
    // With the most significant bit set the QP's own goes out.
    s.send_to(0, s.b.gid(), s.receiver.qpn, 0x8000_0000, 10);
    s.received();
}

#[test]
fn q_key_can_be_changed() {
    let mut s = scene();
    let context = QpContext {
        q_key: 77,
        ..QpContext::default()
    };
    let mask: [fn(&mut QpAttributeMask, bool); 1] = [QpAttributeMask::set_q_key];
    s.b.modify_qp(&s.receiver, QpStateCode::RTS, &mask, context)
        .expect("RTS to RTS");
    assert_eq!(s.b.query_qp(&s.receiver).q_key, 77);
    s.send_to(0, s.b.gid(), s.receiver.qpn, 77, 10);
    s.received();
}

#[test]
fn datagram_without_a_receive_is_lost() {
    let mut s = scene();
    for _ in 0..4 {
        s.send(0, 10);
        s.received();
    }
    s.send(0, 10);
    assert!(s.b.poll().is_none());
    assert_eq!(s.b.nic.counters().value(Counter::rx_no_receive), 1);
}

#[test]
fn datagram_that_is_too_long_for_its_receive_is_not_written_behind_it() {
    let mut s = scene();
    let mut small = s.b.create_qp(UD, |_| ());
    s.b.bring_to_rts(&small, Gid::UNSPECIFIED, 0);
    let segment = s.b.segment(0x5_0000, 60);
    s.b.receive(&mut small, segment);
    s.a.data(0, 100).fill(0xee);
    s.send_to(0, s.b.gid(), small.qpn, Q_KEY, 21);
    assert_eq!(s.b.data(0x5_0000 + 60, 100), [0; 100]);
    s.sent(CqeStatus::SUCCESS);
}

#[test]
fn unknown_destination_is_not_an_error() {
    let mut s = scene();
    s.send_to(0, s.b.gid(), s.receiver.qpn + 100, Q_KEY, 10);
    s.sent(CqeStatus::SUCCESS);
    let other = Gid::from_ipv4([10, 0, 0, 77].into());
    s.send_to(0, other, s.receiver.qpn, Q_KEY, 10);
    s.sent(CqeStatus::SUCCESS);
    assert!(s.b.poll().is_none());
    assert_eq!(s.b.nic.counters().value(Counter::rx_no_qp), 1);
    assert_eq!(s.b.nic.counters().value(Counter::rx_wrong_path), 1);
}

#[test]
fn path_without_a_source_fails_its_request() {
    let mut s = scene();
    let mut datagram = s.a.datagram(s.b.gid(), s.receiver.qpn, Q_KEY);
    if let Some(datagram) = &mut datagram {
        datagram.path.source_gid_index = 200;
    }
    let request = Request {
        data: &[s.a.segment(0, 4)],
        datagram,
        ..Request::default()
    };
    s.a.send(&mut s.senders[0], SendOpcode::SEND, request);
    s.run();
    s.sent(CqeStatus::LOCAL_QP_OPERATION);
    assert_eq!(s.a.query_qp(&s.senders[0]).state, QpStateCode::SQE);
    assert!(s.b.poll().is_none());
}

/// Goal: each datagram takes its own path, also when destinations alternate and when the GID
/// table changes between two to the same. Method: addresses of the frames on the cable.
#[test]
fn each_datagram_takes_its_path() {
    let mut s = scene();
    let gids = [3u8, 4, 3, 3, 4].map(|n| Gid::from_ipv4([10, 0, 0, n].into()));
    for gid in gids {
        let request = Request {
            data: &[s.a.segment(0, 4)],
            datagram: s.a.datagram(gid, 5, Q_KEY),
            ..Request::default()
        };
        s.a.send(&mut s.senders[0], SendOpcode::SEND, request);
    }
    s.a.run(1);
    let frames: Vec<_> = s.a.port.out.borrow_mut().drain(..).collect();
    let seen: Vec<_> = frames
        .iter()
        .map(|frame| Frame::parse(frame).expect("good").ip.destination_gid())
        .collect();
    assert_eq!(seen, gids);
    let source = Gid::from_ipv4([10, 9, 9, 9].into());
    let entry = AddressEntry {
        gid: source.0,
        ..AddressEntry::default()
    };
    s.a.command(CommandOpcode::SET_ADDRESS, 0, &entry)
        .expect("in range");
    let request = Request {
        data: &[s.a.segment(0, 4)],
        datagram: s.a.datagram(gids[4], 5, Q_KEY),
        ..Request::default()
    };
    s.a.send(&mut s.senders[0], SendOpcode::SEND, request);
    s.a.run(1);
    let frames: Vec<_> = s.a.port.out.borrow_mut().drain(..).collect();
    let frame = Frame::parse(&frames[0]).expect("good");
    assert_eq!(frame.ip.source_gid(), source);
}

#[test]
fn queue_pair_can_send_to_itself() {
    let mut s = scene();
    let segment = s.a.segment(0x1_0000, 200);
    s.a.receive(&mut s.senders[0], segment);
    s.send_to(0, s.a.gid(), s.senders[0].qpn, Q_KEY, 100);
    let opcodes: Vec<_> = std::iter::from_fn(|| s.a.poll())
        .map(|cqe| CqeOpcode(cqe.word.opcode()))
        .collect();
    assert_eq!(opcodes, [CqeOpcode::SEND, CqeOpcode::RECEIVE]);
}

#[test]
fn many_datagrams_in_a_row_and_few_completions() {
    let mut s = scene();
    for round in 0..200 {
        let request = Request {
            data: &[s.a.segment(0, 64)],
            datagram: s.a.datagram(s.b.gid(), s.receiver.qpn, Q_KEY),
            unsignaled: round % 5 != 4,
            ..Request::default()
        };
        s.a.send(&mut s.senders[1], SendOpcode::SEND, request);
        s.run();
        s.received();
        let segment = s.b.segment(1 << 16, 200);
        s.b.receive(&mut s.receiver, segment);
    }
    assert_eq!(std::iter::from_fn(|| s.a.poll()).count(), 40);
}

#[test]
fn reliable_packet_to_a_datagram_queue_pair_is_dropped() {
    let mut s = scene();
    let rc = ServiceCode::RELIABLE_CONNECTED;
    let mut sender = s.a.create_qp(rc, |_| ());
    s.a.bring_to_rts(&sender, s.b.gid(), s.receiver.qpn);
    let request = Request {
        data: &[s.a.segment(0, 64)],
        ..Request::default()
    };
    s.a.send(&mut sender, SendOpcode::SEND, request);
    s.run();
    assert!(s.b.poll().is_none());
}
