//! GSI: QP 1 is there once, has its number and Q_Key whatever software says, and is otherwise a
//! datagram queue pair.

use crate::common::objects::{Q_KEY, Request, TestQp};
use crate::common::{Machine, RECEIVE_SLOT, SEND_SLOT, cable, connected, run_both};
use ferroce_spec::command::{CommandOpcode, CommandStatus, QpAttributeMask};
use ferroce_spec::context::{GSI_Q_KEY, GSI_QPN, PathMtuCode, QpContext, QpStateCode, ServiceCode};
use ferroce_spec::counter::Counter;
use ferroce_spec::cqe::{CqeOpcode, CqeStatus};
use ferroce_spec::doorbell::{DoorbellKind, DoorbellValue};
use ferroce_spec::register::{Control, offset};
use ferroce_spec::wqe::SendOpcode;
use ferroce_wire::{Extension, Frame, Gid, QKey, Qpn};

const GSI: ServiceCode = ServiceCode::GSI;
const UD: ServiceCode = ServiceCode::UNRELIABLE_DATAGRAM;
/// Bytes of a MAD.
const MAD: u32 = 256;
const GRH: u32 = 40;
/// Where receives lie in the data of a machine.
const RECEIVES: u64 = 0x1_0000;

/// A GSI in RTS with four receives.
fn gsi(machine: &mut Machine) -> TestQp {
    let mut qp = machine.create_qp(GSI, |_| ());
    assert_eq!(qp.qpn, GSI_QPN);
    machine.bring_to_rts(&qp, Gid::UNSPECIFIED, 0);
    for _ in 0..4 {
        let segment = machine.segment(RECEIVES, MAD + GRH);
        machine.receive(&mut qp, segment);
    }
    qp
}

/// Two machines with a GSI each.
struct Scene {
    a: Machine,
    b: Machine,
    at_a: TestQp,
    at_b: TestQp,
}

fn scene() -> Scene {
    let (mut a, mut b) = connected(PathMtuCode::MTU_1024);
    let (at_a, at_b) = (gsi(&mut a), gsi(&mut b));
    Scene { a, b, at_a, at_b }
}

/// Sends a MAD from `qp` of `machine`.
fn send(machine: &mut Machine, qp: &mut TestQp, gid: Gid, qpn: u32, q_key: u32) {
    let request = Request {
        data: &[machine.segment(0, MAD)],
        datagram: machine.datagram(gid, qpn, q_key),
        ..Request::default()
    };
    machine.send(qp, SendOpcode::SEND, request);
}

fn modify(machine: &mut Machine, qp: &TestQp, state: QpStateCode) -> Result<u64, CommandStatus> {
    machine.modify_qp(qp, state, &[], QpContext::default())
}

#[test]
fn mads_go_both_ways() {
    let mut s = scene();
    s.a.data(0, MAD as usize).fill(0x5a);
    send(&mut s.a, &mut s.at_a, s.b.gid(), GSI_QPN, GSI_Q_KEY);
    run_both(&mut s.a, &mut s.b, 20);
    let sent = s.a.poll().expect("a send completion");
    assert_eq!((sent.qpn, sent.word.opcode()), (GSI_QPN, CqeOpcode::SEND.0));
    let received = s.b.poll().expect("a receive completion");
    assert_eq!(CqeStatus(received.word.status()), CqeStatus::SUCCESS);
    assert_eq!((received.qpn, received.source_qpn), (GSI_QPN, GSI_QPN));
    assert_eq!(received.byte_count, MAD + GRH);
    assert_eq!(s.b.data(RECEIVES + u64::from(GRH), 256), [0x5a; 256]);

    send(&mut s.b, &mut s.at_b, s.a.gid(), GSI_QPN, GSI_Q_KEY);
    run_both(&mut s.a, &mut s.b, 20);
    let received = s.a.poll().expect("a receive completion");
    assert_eq!(received.source_qpn, GSI_QPN);
    // And to oneself, as two processes of a host do.
    let own = s.a.gid();
    send(&mut s.a, &mut s.at_a, own, GSI_QPN, GSI_Q_KEY);
    run_both(&mut s.a, &mut s.b, 20);
    assert_eq!(std::iter::from_fn(|| s.a.poll()).count(), 2);
}

/// Goal: what is on the wire is a MAD as Linux sends it, whatever Q_Key the WQE has.
#[test]
fn packets_are_those_of_qp_1() {
    let mut s = scene();
    for q_key in [GSI_Q_KEY, 0x8000_0000, 5] {
        send(&mut s.a, &mut s.at_a, s.b.gid(), GSI_QPN, q_key);
        s.a.run(1);
        let bytes = s.a.port.out.borrow_mut().pop_front().expect("sent");
        let frame = Frame::parse(&bytes).expect("good");
        assert!(frame.icrc_is_valid());
        let bth = frame.headers.bth;
        assert_eq!(bth.dest_qp, Qpn::GSI);
        assert!(bth.ack_request, "as Linux sends it");
        let Extension::Deth(deth) = frame.headers.extension else {
            panic!("a datagram");
        };
        assert_eq!((deth.q_key, deth.source_qp), (QKey::GSI, Qpn::GSI));
    }
}

#[test]
fn packets_with_another_q_key_are_dropped_and_counted() {
    let mut s = scene();
    let mut sender = s.a.create_qp(UD, |_| ());
    s.a.bring_to_rts(&sender, Gid::UNSPECIFIED, 0);
    send(&mut s.a, &mut sender, s.b.gid(), GSI_QPN, Q_KEY);
    run_both(&mut s.a, &mut s.b, 20);
    assert!(s.b.poll().is_none());
    let counters = s.b.nic.counters();
    assert_eq!(counters.value(Counter::rx_q_key_violations), 1);
}

#[test]
fn connected_packets_to_qp_1_are_dropped() {
    let mut s = scene();
    let mut sender = s.a.create_qp(ServiceCode::RELIABLE_CONNECTED, |_| ());
    s.a.bring_to_rts(&sender, s.b.gid(), GSI_QPN);
    let request = Request {
        data: &[s.a.segment(0, 64)],
        ..Request::default()
    };
    s.a.send(&mut sender, SendOpcode::SEND, request);
    run_both(&mut s.a, &mut s.b, 20);
    assert!(s.b.poll().is_none());
}

#[test]
fn there_is_one_and_no_other_queue_pair_has_its_entry() {
    let mut machine = Machine::new(1, cable().0);
    let first = machine.create_qp(GSI, |_| ());
    let second = machine.try_create_qp(GSI, |_| ());
    assert_eq!(second.err(), Some(CommandStatus::NO_RESOURCES));
    machine.destroy_qp(&first).expect("exists");
    assert_eq!(machine.destroy_qp(&first), Err(CommandStatus::NO_OBJECT));
    // Until the table is full: its entry is not among those that are given.
    let mut others = Vec::new();
    let status = loop {
        match machine.command(CommandOpcode::CREATE_QP, 0, &empty_context()) {
            Ok(qpn) => others.push(qpn),
            Err(status) => break status,
        }
    };
    assert_eq!(status, CommandStatus::NO_RESOURCES);
    assert!(others.iter().all(|qpn| *qpn >= 0x1_0002));
    let again = machine.create_qp(GSI, |_| ());
    assert_eq!(again.qpn, GSI_QPN);
}

/// A UD QP with the smallest rings.
fn empty_context() -> QpContext {
    let mut context = QpContext {
        service: UD,
        send_doorbell_slot: SEND_SLOT,
        receive_doorbell_slot: RECEIVE_SLOT,
        ..QpContext::default()
    };
    context.shape.set_log_receive_stride(4);
    context
}

/// Goal: the GSI has one number. Method: the one that its entry would have is used instead.
#[test]
fn the_number_of_its_entry_is_not_its_number() {
    let mut s = scene();
    for qpn in [0, 0x2_0000, 0x2_0001] {
        s.at_b.qpn = qpn;
        assert_eq!(s.b.destroy_qp(&s.at_b), Err(CommandStatus::NO_OBJECT));
        let refused = modify(&mut s.b, &s.at_b, QpStateCode::ERR);
        assert_eq!(refused, Err(CommandStatus::NO_OBJECT));
        let value = DoorbellValue::new(DoorbellKind::SEND_QUEUE, qpn, 1);
        s.b.ring(s.at_b.send_slot, value);
        s.b.run(1);
        send(&mut s.a, &mut s.at_a, s.b.gid(), qpn, GSI_Q_KEY);
        run_both(&mut s.a, &mut s.b, 20);
        assert!(s.b.poll().is_none(), "{qpn:#x}");
    }
    assert_eq!(s.b.nic.counters().value(Counter::rx_no_qp), 3);
    s.at_b.qpn = GSI_QPN;
    assert_eq!(s.b.query_qp(&s.at_b).state, QpStateCode::RTS);
}

#[test]
fn another_q_key_is_refused() {
    let mut machine = Machine::new(1, cable().0);
    let qp = machine.create_qp(GSI, |_| ());
    let context = QpContext {
        port: 1,
        q_key: 0x8000_0000,
        ..QpContext::default()
    };
    let init = [
        QpAttributeMask::set_p_key as fn(&mut QpAttributeMask, bool),
        QpAttributeMask::set_port,
        QpAttributeMask::set_q_key,
    ];
    let refused = machine.modify_qp(&qp, QpStateCode::INIT, &init, context);
    assert_eq!(refused, Err(CommandStatus::BAD_PARAMETER));
    machine.bring_to_rts(&qp, Gid::UNSPECIFIED, 0);
    let refused = machine.modify_qp(&qp, QpStateCode::RTS, &init[2..], context);
    assert_eq!(refused, Err(CommandStatus::BAD_PARAMETER));
    assert_eq!(machine.query_qp(&qp).q_key, GSI_Q_KEY);
}

#[test]
fn it_joins_no_multicast_group() {
    let mut s = scene();
    let group = Gid::from_ipv4([224, 1, 2, 3].into());
    let refused =
        s.a.multicast(CommandOpcode::ATTACH_MULTICAST, &s.at_a, group);
    assert_eq!(refused, Err(CommandStatus::BAD_STATE));
}

#[test]
fn without_a_gsi_packets_to_qp_1_have_no_queue_pair() {
    let (mut a, mut b) = connected(PathMtuCode::MTU_1024);
    let mut at_a = gsi(&mut a);
    send(&mut a, &mut at_a, b.gid(), GSI_QPN, GSI_Q_KEY);
    run_both(&mut a, &mut b, 20);
    assert_eq!(b.nic.counters().value(Counter::rx_no_qp), 1);
}

/// Goal: the cable knows when frames to QP 1 are wanted: from RTR on, until the QP is reset, fails,
/// is destroyed, or the function is reset.
#[test]
fn the_port_knows_whether_it_is_open() {
    let mut machine = Machine::new(1, cable().0);
    let other = machine.create_qp(UD, |_| ());
    machine.bring_to_rts(&other, Gid::UNSPECIFIED, 0);
    let qp = machine.create_qp(GSI, |_| ());
    assert!(!machine.port.gsi);
    for closing in [QpStateCode::RESET, QpStateCode::ERR] {
        machine.bring_to_rts(&qp, Gid::UNSPECIFIED, 0);
        assert!(machine.port.gsi);
        modify(&mut machine, &qp, QpStateCode::SQD).expect("legal");
        assert!(machine.port.gsi, "it receives in SQD");
        modify(&mut machine, &qp, closing).expect("legal");
        assert!(!machine.port.gsi, "{closing:?}");
    }
    modify(&mut machine, &qp, QpStateCode::RESET).expect("legal");
    machine.bring_to_rts(&qp, Gid::UNSPECIFIED, 0);
    modify(&mut machine, &other, QpStateCode::ERR).expect("legal");
    machine.destroy_qp(&other).expect("exists");
    assert!(machine.port.gsi, "another queue pair's end");
    machine.destroy_qp(&qp).expect("exists");
    assert!(!machine.port.gsi);

    let again = machine.create_qp(GSI, |_| ());
    machine.bring_to_rts(&again, Gid::UNSPECIFIED, 0);
    let mut reset = Control::default();
    reset.set_reset(true);
    machine.nic.write32(offset::control, reset.bits());
    machine.run(1);
    assert!(!machine.port.gsi);
}
