//! Multicast: a datagram to a group reaches every queue pair in it, also the one that sent it.

use crate::common::objects::{Q_KEY, Request, TestQp};
use crate::common::{self, Machine, connected};
use ferroce_spec::command::{CommandOpcode, CommandStatus};
use ferroce_spec::context::{PathMtuCode, ServiceCode};
use ferroce_spec::counter::Counter;
use ferroce_spec::cqe::{CqeOpcode, CqeStatus};
use ferroce_spec::register::{Control, offset};
use ferroce_spec::wqe::SendOpcode;
use ferroce_wire::Gid;

const UD: ServiceCode = ServiceCode::UNRELIABLE_DATAGRAM;
const ATTACH: CommandOpcode = CommandOpcode::ATTACH_MULTICAST;
const DETACH: CommandOpcode = CommandOpcode::DETACH_MULTICAST;
const MULTICAST_QPN: u32 = 0xff_ffff;

fn group() -> Gid {
    Gid::from_ipv4([224, 1, 2, 3].into())
}

/// A UD QP with two receives.
fn datagram_qp(machine: &mut Machine) -> TestQp {
    let qp = machine.create_qp(UD, |_| ());
    with_receives(machine, qp)
}

fn with_receives(machine: &mut Machine, mut qp: TestQp) -> TestQp {
    machine.bring_to_rts(&qp, Gid::UNSPECIFIED, 0);
    for _ in 0..2 {
        let place = u64::from(qp.qpn & 0xff) << 12;
        let segment = machine.segment(place, 200);
        machine.receive(&mut qp, segment);
    }
    qp
}

fn send(machine: &mut Machine, qp: &mut TestQp, gid: Gid) {
    let request = Request {
        data: &[machine.segment(0, 100)],
        datagram: machine.datagram(gid, MULTICAST_QPN, Q_KEY),
        ..Request::default()
    };
    machine.send(qp, SendOpcode::SEND, request);
}

/// QPNs that have received something since the last call, in order.
fn receivers(machine: &mut Machine) -> Vec<u32> {
    let mut seen: Vec<_> = std::iter::from_fn(|| machine.poll())
        .inspect(|cqe| assert_eq!(CqeStatus(cqe.word.status()), CqeStatus::SUCCESS))
        .filter(|cqe| CqeOpcode(cqe.word.opcode()) == CqeOpcode::RECEIVE)
        .map(|cqe| cqe.qpn)
        .collect();
    seen.sort_unstable();
    seen
}

#[test]
fn only_the_group_gets_it() {
    let (mut a, mut b) = connected(PathMtuCode::MTU_1024);
    let mut qps = [(); 3].map(|_| datagram_qp(&mut a));
    let far = [(); 2].map(|_| datagram_qp(&mut b));
    for qp in &qps[..2] {
        a.multicast(ATTACH, qp, group()).expect("room");
    }
    b.multicast(ATTACH, &far[1], group()).expect("room");
    assert_eq!(a.port.groups, [group()], "the port joins once");
    // From a member: to all, here and there.
    send(&mut a, &mut qps[0], group());
    common::run_both(&mut a, &mut b, 20);
    assert_eq!(receivers(&mut a), [qps[0].qpn, qps[1].qpn]);
    assert_eq!(receivers(&mut b), [far[1].qpn]);
    // From outside: to all members.
    send(&mut a, &mut qps[2], group());
    common::run_both(&mut a, &mut b, 20);
    assert_eq!(receivers(&mut a), [qps[0].qpn, qps[1].qpn]);
    assert_eq!(receivers(&mut b), [far[1].qpn]);
    assert_eq!(a.nic.counters().value(Counter::rx_multicast), 2);
    // To another group, which has no member.
    send(&mut a, &mut qps[2], Gid::from_ipv4([224, 1, 2, 4].into()));
    common::run_both(&mut a, &mut b, 20);
    assert!(receivers(&mut b).is_empty());
}

/// Goal: the flag leaves out what the queue pair has sent itself, and nothing else.
#[test]
fn sender_that_blocks_its_own_gets_only_that_of_others() {
    let (mut a, mut b) = connected(PathMtuCode::MTU_1024);
    let blocking = a.create_qp(UD, |context| context.shape.set_blocks_own_multicast(true));
    let mut blocking = with_receives(&mut a, blocking);
    let mut other = datagram_qp(&mut a);
    for qp in [&blocking, &other] {
        a.multicast(ATTACH, qp, group()).expect("room");
    }
    send(&mut a, &mut blocking, group());
    common::run_both(&mut a, &mut b, 20);
    assert_eq!(receivers(&mut a), [other.qpn]);
    send(&mut a, &mut other, group());
    common::run_both(&mut a, &mut b, 20);
    assert_eq!(receivers(&mut a), [blocking.qpn, other.qpn]);
}

#[test]
fn ipv6_group_works_too() {
    let (mut a, mut b) = connected(PathMtuCode::MTU_1024);
    let mut sender = datagram_qp(&mut a);
    let receiver = datagram_qp(&mut b);
    let mut gid = [0; 16];
    (gid[0], gid[1], gid[15]) = (0xff, 0x0e, 5);
    b.multicast(ATTACH, &receiver, Gid(gid)).expect("room");
    let entry = ferroce_spec::context::AddressEntry {
        gid: std::net::Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1).octets(),
        ..ferroce_spec::context::AddressEntry::default()
    };
    a.command(CommandOpcode::SET_ADDRESS, 0, &entry)
        .expect("in range");
    send(&mut a, &mut sender, Gid(gid));
    common::run_both(&mut a, &mut b, 20);
    assert_eq!(receivers(&mut b), [receiver.qpn]);
}

#[test]
fn detached_queue_pair_gets_nothing() {
    let (mut a, mut b) = connected(PathMtuCode::MTU_1024);
    let mut sender = datagram_qp(&mut a);
    let receiver = datagram_qp(&mut b);
    for _ in 0..2 {
        b.multicast(ATTACH, &receiver, group()).expect("again");
    }
    b.multicast(DETACH, &receiver, group()).expect("attached");
    assert!(b.port.groups.is_empty(), "the port leaves with the last");
    let again = b.multicast(DETACH, &receiver, group());
    assert_eq!(again, Err(CommandStatus::NO_OBJECT));
    send(&mut a, &mut sender, group());
    common::run_both(&mut a, &mut b, 20);
    assert!(receivers(&mut b).is_empty());
}

#[test]
fn attached_queue_pair_cannot_be_destroyed() {
    let mut a = Machine::new(1, common::cable().0);
    let qp = datagram_qp(&mut a);
    a.multicast(ATTACH, &qp, group()).expect("room");
    assert_eq!(a.destroy_qp(&qp), Err(CommandStatus::BUSY));
    a.multicast(DETACH, &qp, group()).expect("attached");
    a.destroy_qp(&qp).expect("free");
}

#[test]
fn what_cannot_be_attached_is_refused() {
    let mut a = Machine::new(1, common::cable().0);
    let qp = datagram_qp(&mut a);
    let unicast = Gid::from_ipv4([10, 0, 0, 9].into());
    let status = a.multicast(ATTACH, &qp, unicast);
    assert_eq!(status, Err(CommandStatus::BAD_PARAMETER));
    let rc = a.create_qp(ServiceCode::RELIABLE_CONNECTED, |_| ());
    let status = a.multicast(ATTACH, &rc, group());
    assert_eq!(status, Err(CommandStatus::BAD_STATE));
    let mut made = 0;
    let status = loop {
        let gid = Gid::from_ipv4([225, 0, (made / 256) as u8, made as u8].into());
        if let Err(status) = a.multicast(ATTACH, &qp, gid) {
            break status;
        }
        made += 1;
    };
    assert_eq!(status, CommandStatus::NO_RESOURCES);
    assert_eq!(made, ferroce_model::receive::multicast::MAX_GROUPS);
}

#[test]
fn reset_leaves_every_group() {
    let mut a = Machine::new(1, common::cable().0);
    let qp = datagram_qp(&mut a);
    a.multicast(ATTACH, &qp, group()).expect("room");
    let mut reset = Control::default();
    reset.set_reset(true);
    a.nic.write32(offset::control, reset.bits());
    a.run(1);
    assert!(a.port.groups.is_empty());
}

#[test]
fn connected_packet_to_the_multicast_qpn_is_dropped() {
    let (mut a, mut b) = connected(PathMtuCode::MTU_1024);
    let receiver = datagram_qp(&mut b);
    b.multicast(ATTACH, &receiver, group()).expect("room");
    let mut sender = a.create_qp(ServiceCode::UNRELIABLE_CONNECTED, |_| ());
    a.bring_to_rts(&sender, group(), MULTICAST_QPN);
    let request = Request {
        data: &[a.segment(0, 100)],
        ..Request::default()
    };
    a.send(&mut sender, SendOpcode::SEND, request);
    common::run_both(&mut a, &mut b, 20);
    assert!(receivers(&mut b).is_empty());
}
