//! The life of queue pairs: every transition of every service, destroy and reset with work
//! outstanding, a queue pair that talks to itself, and as many of them as there are.

use crate::common::objects::{LOG_SIZE, Request, TestQp};
use crate::common::{
    Machine, RECEIVE_SLOT, REGION_START, SEND_SLOT, cable, connected, context_tables, place,
    run_both,
};
use ferroce_spec::command::{CommandOpcode, CommandStatus, QpAttributeMask};
use ferroce_spec::context::{
    AccessRights, GSI_Q_KEY, PathMtuCode, QpContext, QpStateCode, RetryAttributes, ServiceCode,
};
use ferroce_spec::counter::Counter;
use ferroce_spec::cqe::{CqeOpcode, CqeStatus};
use ferroce_spec::wqe::SendOpcode;
use ferroce_wire::Gid;

const RC: ServiceCode = ServiceCode::RELIABLE_CONNECTED;
const UC: ServiceCode = ServiceCode::UNRELIABLE_CONNECTED;
const UD: ServiceCode = ServiceCode::UNRELIABLE_DATAGRAM;
const INITIATOR: ServiceCode = ServiceCode::XRC_INITIATOR;
const TARGET: ServiceCode = ServiceCode::XRC_TARGET;
const GSI: ServiceCode = ServiceCode::GSI;
const SERVICES: [ServiceCode; 6] = [RC, UC, UD, INITIATOR, TARGET, GSI];

const STATES: [QpStateCode; 7] = [
    QpStateCode::RESET,
    QpStateCode::INIT,
    QpStateCode::RTR,
    QpStateCode::RTS,
    QpStateCode::SQD,
    QpStateCode::SQE,
    QpStateCode::ERR,
];

type Bits = Vec<fn(&mut QpAttributeMask, bool)>;

/// Attributes that a transition needs (README of the contract).
fn needed(service: ServiceCode, from: QpStateCode, to: QpStateCode) -> Bits {
    use QpAttributeMask as M;
    let is = |a, b| from == a && to == b;
    let mut bits: Bits = Vec::new();
    if is(QpStateCode::RESET, QpStateCode::INIT) {
        let third = match service {
            UD | GSI => M::set_q_key,
            _ => M::set_access,
        };
        bits.extend([M::set_p_key as fn(&mut M, bool), M::set_port, third]);
    } else if is(QpStateCode::INIT, QpStateCode::RTR) && ![UD, GSI].contains(&service) {
        bits.extend([M::set_path as fn(&mut M, bool), M::set_path_mtu]);
        bits.extend([M::set_dest_qpn as fn(&mut M, bool), M::set_receive_psn]);
        if [RC, TARGET].contains(&service) {
            let more = [M::set_max_dest_rd_atomic, M::set_min_rnr_timer];
            bits.extend(more as [fn(&mut M, bool); 2]);
        }
    } else if is(QpStateCode::RTR, QpStateCode::RTS) {
        bits.push(M::set_send_psn);
        if [RC, INITIATOR, TARGET].contains(&service) {
            bits.push(M::set_timeout);
        }
        if [RC, INITIATOR].contains(&service) {
            bits.extend([M::set_retry_count as fn(&mut M, bool), M::set_rnr_retry]);
            bits.push(M::set_max_rd_atomic);
        }
    }
    bits
}

fn attributes(machine: &Machine) -> QpContext {
    let mut access = AccessRights::default();
    access.set_remote_read(true);
    let mut retry = RetryAttributes::default();
    retry.set_timeout(10);
    QpContext {
        port: 1,
        access,
        retry,
        // The only one that a GSI may have.
        q_key: GSI_Q_KEY,
        path_mtu: PathMtuCode::MTU_1024,
        path: machine.path_to(Gid::from_ipv4([10, 0, 0, 9].into())),
        ..QpContext::default()
    }
}

fn new_qp(machine: &mut Machine, service: ServiceCode) -> TestQp {
    machine.create_qp(service, |context| context.xrcd = 1)
}

/// A queue pair of `service` in `state`, which is not SQE.
fn qp_in(machine: &mut Machine, service: ServiceCode, state: QpStateCode) -> TestQp {
    let qp = new_qp(machine, service);
    let ways: &[QpStateCode] = match state {
        QpStateCode::ERR => &[QpStateCode::RESET, QpStateCode::INIT, QpStateCode::ERR],
        _ => &STATES[..=usize::from(state.0)],
    };
    for pair in ways.windows(2) {
        let context = attributes(machine);
        let mask = needed(service, pair[0], pair[1]);
        machine
            .modify_qp(&qp, pair[1], &mask, context)
            .expect("a legal transition");
    }
    assert_eq!(machine.query_qp(&qp).state, state);
    qp
}

/// Goal: the state table of the contract. Method: every transition of every service, with what it
/// needs, without, and with something that it may not change.
#[test]
fn transitions_are_those_of_the_table() {
    use QpStateCode as S;
    for service in SERVICES {
        for from in STATES.into_iter().filter(|state| *state != S::SQE) {
            for to in STATES {
                let mut machine = Machine::new(1, cable().0);
                let qp = qp_in(&mut machine, service, from);
                let legal = match (from, to) {
                    (_, S::RESET) => true,
                    (S::RESET, S::ERR) => false,
                    (_, S::ERR) => true,
                    (S::RESET | S::INIT, S::INIT) | (S::INIT, S::RTR) => true,
                    (S::RTR | S::RTS | S::SQD, S::RTS) => true,
                    (S::RTS | S::SQD, S::SQD) => true,
                    _ => false,
                };
                // An XRC target has no send queue to be drained, but the table does not say so.
                let context = attributes(&machine);
                let mask = needed(service, from, to);
                let mut wrong = mask.clone();
                wrong.push(QpAttributeMask::set_dest_qpn);
                if !mask
                    .iter()
                    .any(|m| is_same(*m, QpAttributeMask::set_dest_qpn))
                {
                    let status = machine.modify_qp(&qp, to, &wrong, context);
                    assert!(status.is_err(), "{service:?} {from:?} {to:?}: dest_qpn");
                }
                if !mask.is_empty() {
                    let status = machine.modify_qp(&qp, to, &mask[1..], context);
                    let missing = Err(CommandStatus::BAD_PARAMETER);
                    assert_eq!(status, missing, "{service:?} {from:?} {to:?}");
                }
                assert_eq!(machine.query_qp(&qp).state, from);
                let result = machine.modify_qp(&qp, to, &mask, context);
                let expected = if legal {
                    Ok(0)
                } else {
                    Err(CommandStatus::BAD_TRANSITION)
                };
                assert_eq!(result, expected, "{service:?} {from:?} {to:?}");
                let after = if legal { to } else { from };
                assert_eq!(machine.query_qp(&qp).state, after);
            }
        }
    }
}

/// Returns true if two setters set the same bit.
fn is_same(a: fn(&mut QpAttributeMask, bool), b: fn(&mut QpAttributeMask, bool)) -> bool {
    let (mut first, mut second) = (QpAttributeMask::default(), QpAttributeMask::default());
    a(&mut first, true);
    b(&mut second, true);
    first.bits() == second.bits()
}

fn write(machine: &mut Machine, qp: &mut TestQp, key: u32, length: u32) {
    let request = Request {
        data: &[machine.segment(0, length)],
        remote: Some((REGION_START, key)),
        ..Request::default()
    };
    machine.send(qp, SendOpcode::RDMA_WRITE, request);
}

/// Two RC QPs that are connected.
fn pair(a: &mut Machine, b: &mut Machine) -> (TestQp, TestQp) {
    let (left, right) = (a.create_qp(RC, |_| ()), b.create_qp(RC, |_| ()));
    a.bring_to_rts(&left, b.gid(), right.qpn);
    b.bring_to_rts(&right, a.gid(), left.qpn);
    (left, right)
}

#[test]
fn nothing_is_written_after_destroy() {
    let (mut a, mut b) = connected(PathMtuCode::MTU_1024);
    for stage in 0..12u64 {
        let (mut qp, peer) = pair(&mut a, &mut b);
        let segment = a.segment(0, 64);
        a.receive(&mut qp, segment);
        for _ in 0..5 {
            write(&mut a, &mut qp, b.key, 20_000);
        }
        for _ in 0..stage {
            a.run(100);
            b.run(100);
        }
        while a.poll().is_some() {}
        a.destroy_qp(&qp).expect("exists");
        let cqes = a.nic.counters().value(Counter::cqes);
        let fetched = a.nic.counters().value(Counter::wqe_fetches);
        run_both(&mut a, &mut b, 20);
        assert_eq!(a.nic.counters().value(Counter::cqes), cqes, "stage {stage}");
        assert_eq!(a.nic.counters().value(Counter::wqe_fetches), fetched);
        while a.poll().is_some() {}
        b.destroy_qp(&peer).expect("exists");
        a.restart_rings();
        b.restart_rings();
    }
}

#[test]
fn reset_forgets_and_the_queue_pair_works_anew() {
    let (mut a, mut b) = connected(PathMtuCode::MTU_1024);
    let (mut qp, mut peer) = pair(&mut a, &mut b);
    for _ in 0..4 {
        write(&mut a, &mut qp, b.key, 3000);
        a.run(1);
        let context = QpContext::default();
        for (machine, qp) in [(&mut a, &mut qp), (&mut b, &mut peer)] {
            machine
                .modify_qp(qp, QpStateCode::RESET, &[], context)
                .expect("always legal");
            (qp.producer, qp.receive_producer) = (0, 0);
        }
        a.port.out.borrow_mut().clear();
        b.port.out.borrow_mut().clear();
        while a.poll().is_some() {}
        a.bring_to_rts(&qp, b.gid(), peer.qpn);
        b.bring_to_rts(&peer, a.gid(), qp.qpn);
        write(&mut a, &mut qp, b.key, 3000);
        run_both(&mut a, &mut b, 20);
        let cqe = a.poll().expect("a send completion");
        assert_eq!(CqeStatus(cqe.word.status()), CqeStatus::SUCCESS);
        assert_eq!(cqe.wqe_index, 0);
        assert!(a.poll().is_none());
    }
}

#[test]
fn queue_pair_connected_to_itself_works() {
    for service in [RC, UC] {
        let mut a = Machine::new(1, cable().0);
        let mut qp = a.create_qp(service, |_| ());
        a.bring_to_rts(&qp, a.gid(), qp.qpn);
        a.data(0, 5000).fill(0x33);
        let segment = a.segment(0x1_0000, 5000);
        a.receive(&mut qp, segment);
        let request = Request {
            data: &[a.segment(0, 5000)],
            ..Request::default()
        };
        a.send(&mut qp, SendOpcode::SEND, request);
        let request = Request {
            data: &[a.segment(0, 5000)],
            remote: Some((REGION_START + 0x2_0000, a.key)),
            ..Request::default()
        };
        a.send(&mut qp, SendOpcode::RDMA_WRITE, request);
        (0..30).for_each(|_| a.run(500));
        let mut seen: Vec<_> = std::iter::from_fn(|| a.poll())
            .inspect(|cqe| assert_eq!(CqeStatus(cqe.word.status()), CqeStatus::SUCCESS))
            .map(|cqe| CqeOpcode(cqe.word.opcode()).0)
            .collect();
        seen.sort_unstable();
        let expected = [CqeOpcode::SEND, CqeOpcode::RDMA_WRITE, CqeOpcode::RECEIVE];
        assert_eq!(seen, expected.map(|opcode| opcode.0), "{service:?}");
        assert_eq!(a.data(0x1_0000, 5000), [0x33; 5000]);
        assert_eq!(a.data(0x2_0000, 5000), [0x33; 5000]);
    }
}

#[test]
fn flush_completes_everything_in_order_however_much_there_is() {
    let (mut a, mut b) = connected(PathMtuCode::MTU_1024);
    let cqe_count = 1 << LOG_SIZE;
    let mut cq = a.create_cq(LOG_SIZE + 1);
    let mut qp = a.create_qp(RC, |context| {
        (context.send_cqn, context.receive_cqn) = (cq.cqn, cq.cqn);
    });
    a.bring_to_rts(&qp, b.gid(), 0x2_0055);
    for _ in 0..cqe_count {
        let segment = a.segment(0, 64);
        a.receive(&mut qp, segment);
        write(&mut a, &mut qp, b.key, 10);
    }
    a.modify_qp(&qp, QpStateCode::ERR, &[], QpContext::default())
        .expect("legal");
    run_both(&mut a, &mut b, 5);
    let (mut sends, mut receives) = (0, 0);
    while let Some(cqe) = a.poll_cq(&mut cq) {
        assert_eq!(CqeStatus(cqe.word.status()), CqeStatus::WR_FLUSH);
        let next = match cqe.word.opcode() & 0x80 {
            0 => &mut sends,
            _ => &mut receives,
        };
        assert_eq!(cqe.wqe_index, *next);
        *next += 1;
    }
    assert_eq!((sends, receives), (cqe_count, cqe_count));
}

/// Goal: the advertised number of QPs exists, no more, and a full table can be emptied and filled
/// again. Method: the table that the machine gives has 256 entries, of which QP 0 and 1 are kept.
#[test]
fn as_many_queue_pairs_as_the_table_has() {
    let mut machine = Machine::new(1, cable().0);
    let context = QpContext {
        service: UD,
        shape: {
            let mut shape = ferroce_spec::context::QpShape::default();
            shape.set_log_receive_stride(4);
            shape
        },
        send_doorbell_slot: SEND_SLOT,
        receive_doorbell_slot: RECEIVE_SLOT,
        ..QpContext::default()
    };
    for _ in 0..3 {
        let mut made = Vec::new();
        let status = loop {
            match machine.command(CommandOpcode::CREATE_QP, 0, &context) {
                Ok(qpn) => made.push(qpn),
                Err(status) => break status,
            }
        };
        assert_eq!(status, CommandStatus::NO_RESOURCES);
        assert_eq!(made.len(), 256 - 2 - 1, "the machine has one already");
        for qpn in made {
            machine
                .command(CommandOpcode::DESTROY_QP, qpn, &[0u8; 8])
                .expect("exists");
        }
    }
}

#[test]
fn unsignaled_requests_without_end_do_not_pile_up() {
    let (mut a, mut b) = connected(PathMtuCode::MTU_1024);
    let (mut qp, _peer) = pair(&mut a, &mut b);
    for _ in 0..500 {
        let request = Request {
            data: &[a.segment(0, 8)],
            remote: Some((REGION_START, b.key)),
            unsignaled: true,
            ..Request::default()
        };
        a.send(&mut qp, SendOpcode::RDMA_WRITE, request);
        run_both(&mut a, &mut b, 10);
    }
    write(&mut a, &mut qp, b.key, 8);
    run_both(&mut a, &mut b, 10);
    let cqe = a.poll().expect("the only one");
    assert_eq!(
        (CqeStatus(cqe.word.status()), cqe.wqe_index),
        (CqeStatus::SUCCESS, 500)
    );
}

/// Goal: a card that does not keep the responder resources of all queue pairs takes no tables
/// without a private area, nor one that is not aligned; one with room for all needs none.
#[test]
fn a_small_card_needs_the_private_area() {
    let mut small = Machine::with(1, cable().0, |config| {
        config.responder_cache.log_sets = 4;
    });
    let mut large = Machine::new(2, cable().0);
    let set = |machine: &mut Machine, private_base| {
        machine.reset_and_enable();
        let mut tables = context_tables();
        tables.private_base = private_base;
        machine.command(CommandOpcode::SET_CONTEXT_TABLES, 0, &tables)
    };
    let refused = Err(CommandStatus::BAD_PARAMETER);
    assert_eq!(set(&mut small, 0), refused);
    assert_eq!(set(&mut small, place::PRIVATE + 64), refused);
    assert_eq!(set(&mut small, place::PRIVATE), Ok(0));
    assert_eq!(set(&mut large, 0), Ok(0));
}
