//! Hostile software around queues of all services: rings, contexts and commands full of random
//! bytes never crash the model, and its objects can still be destroyed.

use crate::common::objects::{LOG_SIZE, Q_KEY, Request, TestQp, TestSrq};
use crate::common::{self, Machine, cable, place, run_both};
use ferroce_model::config::CacheShape;
use ferroce_spec::command::{
    ANY_STATE, CommandOpcode, CommandStatus, ModifyQp, MulticastGroup, QpAttributeMask,
};
use ferroce_spec::context::{
    CqContext, GSI_Q_KEY, GSI_QPN, QpContext, QpShape, QpStateCode, ServiceCode, SrqContext,
};
use ferroce_spec::doorbell::{DoorbellKind, DoorbellValue};
use ferroce_spec::wqe::{ControlSegment, ControlWord, DataSegment, L_KEY_END, SendOpcode};
use ferroce_wire::Gid;
use proptest::prelude::*;
use zerocopy::IntoBytes;

const SERVICES: [ServiceCode; 6] = [
    ServiceCode::RELIABLE_CONNECTED,
    ServiceCode::UNRELIABLE_CONNECTED,
    ServiceCode::UNRELIABLE_DATAGRAM,
    ServiceCode::XRC_INITIATOR,
    ServiceCode::XRC_TARGET,
    ServiceCode::GSI,
];
const DOMAIN: u32 = 3;

/// The service that answers `service`.
fn peer_of(service: ServiceCode) -> ServiceCode {
    match service {
        ServiceCode::XRC_INITIATOR => ServiceCode::XRC_TARGET,
        other => other,
    }
}

/// Contexts are hardly cached, so that what software writes over them is read.
fn forgetful(config: &mut ferroce_model::NicConfig) {
    let shape = CacheShape {
        log_sets: 0,
        ways: 1,
        mshrs: 4,
    };
    (config.qpc_cache, config.cqc_cache, config.srqc_cache) = (shape, shape, shape);
}

/// Two machines; each service of the first has a peer with a shared receive queue at the second.
struct Scene {
    a: Machine,
    b: Machine,
    senders: Vec<TestQp>,
    receivers: Vec<TestQp>,
    srq: TestSrq,
}

fn scene() -> Scene {
    let (left, right) = cable();
    let (mut a, mut b) = (
        Machine::with(1, left, forgetful),
        Machine::with(2, right, forgetful),
    );
    for machine in [&mut a, &mut b] {
        machine.create_cq(4);
    }
    let cqn = b.cqn;
    let srq = b.create_srq(2, Some((DOMAIN, cqn)));
    b.create_srq(0, None);
    let (mut senders, mut receivers) = (Vec::new(), Vec::new());
    for service in &SERVICES[..4] {
        let sender = a.create_qp(*service, |_| ());
        let receiver = b.create_qp(peer_of(*service), |context| {
            context.xrcd = DOMAIN;
            context.shape.set_uses_srq(true);
            context.srqn = srq.srqn;
        });
        a.bring_to_rts(&sender, b.gid(), receiver.qpn);
        b.bring_to_rts(&receiver, a.gid(), sender.qpn);
        senders.push(sender);
        receivers.push(receiver);
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
    fn send(&mut self, which: usize) {
        let request = Request {
            data: &[self.a.segment(0, 300)],
            datagram: match which {
                2 => self.a.datagram(self.b.gid(), self.receivers[2].qpn, Q_KEY),
                _ => None,
            },
            srqn: self.srq.srqn,
            ..Request::default()
        };
        self.a
            .send(&mut self.senders[which], SendOpcode::SEND, request);
    }
}

/// A data segment that may be good.
fn segment() -> impl Strategy<Value = DataSegment> {
    let address = prop_oneof![
        Just(common::REGION_START),
        common::REGION_START..common::REGION_START + place::DATA_SIZE,
        any::<u64>(),
    ];
    let length = prop_oneof![0..500u32, any::<u32>()];
    let key = prop_oneof![Just(0x15au32), Just(L_KEY_END), any::<u32>()];
    (address, length, key).prop_map(|(address, length, l_key)| DataSegment {
        address,
        length,
        l_key,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_in_a_shared_ring_are_survived(
        entries in prop::collection::vec((any::<u32>(), segment(), segment()), 1..8),
        producers in prop::collection::vec(0..40u32, 1..6),
        order in prop::collection::vec(0..4usize, 1..20),
    ) {
        let mut s = scene();
        for (number, (tag, first, second)) in entries.iter().enumerate() {
            let head = [DataSegment { length: 0, ..*first }];
            let at = s.srq.base + ((number as u64) << 6);
            let mut bytes = tag.to_le_bytes().to_vec();
            bytes.resize(16, head.as_bytes()[0]);
            bytes.extend(first.as_bytes());
            bytes.extend(second.as_bytes());
            s.b.host.write(at, &bytes).expect("mapped");
        }
        for (step, which) in order.into_iter().enumerate() {
            let producer = producers[step % producers.len()];
            let kind = DoorbellKind::SHARED_RECEIVE_QUEUE;
            let value = DoorbellValue::new(kind, s.srq.srqn, producer);
            s.b.ring(s.srq.slot, value);
            s.send(which);
            run_both(&mut s.a, &mut s.b, 6);
            while s.b.poll().is_some() {}
            while s.a.poll().is_some() {}
        }
    }

    #[test]
    fn any_send_wqe_of_any_service_is_survived(
        which in 0..4usize,
        opcode in prop_oneof![0..4u8, 8..10u8, 16..17u8, 24..26u8, 32..34u8, any::<u8>()],
        blocks in 1..4u8,
        segments in 0..10u8,
        flags in 0..16u32,
        bytes in prop::collection::vec(any::<u8>(), 3 * 64),
        after in 0..3usize,
    ) {
        let mut s = scene();
        let mut control = ControlWord::from_bits(flags << 8);
        control.set_opcode(opcode);
        control.set_blocks(blocks);
        control.set_data_segments(segments);
        let head = ControlSegment {
            control,
            remote_srqn: s.srq.srqn,
            ..ControlSegment::default()
        };
        let mut wqe = head.as_bytes().to_vec();
        wqe.extend(&bytes[16..]);
        let (base, slot) = (s.senders[which].send_base, s.senders[which].send_slot);
        s.a.host.write(base, &wqe).expect("mapped");
        s.senders[which].producer = u32::from(blocks);
        let data = [s.b.segment(0, 400)];
        s.b.post_shared(&mut s.srq, 1, &data);
        let kind = DoorbellKind::SEND_QUEUE;
        let value = DoorbellValue::new(kind, s.senders[which].qpn, u32::from(blocks));
        s.a.ring(slot, value);
        for _ in 0..after {
            s.send(which);
        }
        run_both(&mut s.a, &mut s.b, 20);
    }

    #[test]
    fn contexts_that_software_overwrites_are_survived(
        scribbles in prop::collection::vec((0..4u64, 0..8u64, any::<u64>()), 1..12),
        order in prop::collection::vec(0..4usize, 1..12),
    ) {
        let mut s = scene();
        for (step, which) in order.into_iter().enumerate() {
            let (number, word, value) = scribbles[step % scribbles.len()];
            let table = [place::SRQC, place::CQC][step % 2];
            for machine in [&mut s.a, &mut s.b] {
                // The only place of the cache is taken, so that what is written here counts.
                let (cqn, srqn) = (u64::from(machine.cqn) + 1, 1);
                let _ = machine.command(CommandOpcode::QUERY_CQ, cqn, &[0u8; 64]);
                let _ = machine.command(CommandOpcode::QUERY_SRQ, srqn, &[0u8; 64]);
                let at = table + number * 64 + word * 8;
                machine.host.write(at, value.as_bytes()).expect("mapped");
            }
            let data = [s.b.segment(0, 400)];
            s.b.post_shared(&mut s.srq, 1, &data);
            s.send(which);
            let arm = DoorbellValue::new(DoorbellKind::CQ_ARM, s.a.cqn, 0);
            s.a.ring(common::CQ_SLOT, arm);
            run_both(&mut s.a, &mut s.b, 6);
            let (srqn, cqn) = (u64::from(s.srq.srqn), u64::from(s.b.cqn));
            let nothing = [0u8; 64];
            let _ = s.b.command(CommandOpcode::QUERY_SRQ, srqn, &nothing);
            let _ = s.b.command(CommandOpcode::MODIFY_SRQ, srqn, &nothing);
            let _ = s.b.command(CommandOpcode::QUERY_CQ, cqn, &nothing);
            let resize = CqContext {
                base: place::DATA,
                log_size: 5,
                moderation_count: 3,
                moderation_us: 1,
                ..CqContext::default()
            };
            let _ = s.b.command(CommandOpcode::MODIFY_CQ, cqn, &resize);
        }
    }

    #[test]
    fn whatever_was_created_can_be_destroyed(
        actions in prop::collection::vec((0..10u8, 0..6u64, 0..6u32, any::<u32>()), 1..80),
    ) {
        let mut machine = Machine::new(1, cable().0);
        for (what, number, other, bits) in actions {
            act(&mut machine, what, number, other, bits);
        }
        tear_down(&mut machine);
    }
}

/// One command, with numbers that often name something.
fn act(machine: &mut Machine, what: u8, number: u64, other: u32, bits: u32) {
    let qpn = match number {
        5 => u64::from(GSI_QPN),
        _ => 0x1_0002 + number,
    };
    let service = SERVICES[bits as usize % SERVICES.len()];
    let _ = match what {
        0 => {
            let context = CqContext {
                base: 0x2_0000,
                log_size: LOG_SIZE,
                ..CqContext::default()
            };
            machine.command(CommandOpcode::CREATE_CQ, 0, &context)
        }
        1 => {
            let context = SrqContext {
                base: 0x2_0000,
                log_size: LOG_SIZE,
                log_stride: 6,
                xrcd: bits % 2,
                cqn: other,
                ..SrqContext::default()
            };
            machine.command(CommandOpcode::CREATE_SRQ, 0, &context)
        }
        2 | 3 => {
            let mut shape = QpShape::default();
            shape.set_log_receive_stride(6);
            shape.set_uses_srq(bits & 0x100 != 0);
            let context = QpContext {
                service,
                shape,
                srqn: number as u32,
                send_cqn: other,
                receive_cqn: number as u32,
                xrcd: 1,
                ..QpContext::default()
            };
            machine.command(CommandOpcode::CREATE_QP, 0, &context)
        }
        4 => machine.command(CommandOpcode::DESTROY_QP, qpn, &[0u8; 8]),
        5 => machine.command(CommandOpcode::DESTROY_CQ, number, &[0u8; 8]),
        6 => machine.command(CommandOpcode::DESTROY_SRQ, number, &[0u8; 8]),
        7 | 8 => {
            let input = ModifyQp {
                state: other + u32::from(other > 4),
                current_state: ANY_STATE,
                mask: QpAttributeMask::from_bits(MASKS[bits as usize % MASKS.len()]),
                reserved_0c: 0,
                reserved_10: [0; 6],
                context: QpContext {
                    port: 1,
                    q_key: [GSI_Q_KEY, 1][(bits >> 16) as usize % 2],
                    ..QpContext::default()
                },
            };
            machine.command(CommandOpcode::MODIFY_QP, qpn, &input)
        }
        _ => {
            let group = MulticastGroup {
                gid: Gid::from_ipv4([224, 0, 0, other as u8].into()).0,
            };
            let opcode = match bits % 3 {
                0 => CommandOpcode::DETACH_MULTICAST,
                _ => CommandOpcode::ATTACH_MULTICAST,
            };
            machine.command(opcode, qpn, &group)
        }
    };
}

/// Attribute masks of legal transitions, and none.
const MASKS: [u32; 5] = [0, 0b111, 0b1110, 1 << 12, 0b1 << 3];

/// Destroys everything that can be there; all of it goes.
fn tear_down(machine: &mut Machine) {
    let gone = |result: Result<u64, CommandStatus>| {
        let fine = matches!(result, Ok(_) | Err(CommandStatus::NO_OBJECT));
        assert!(fine, "{result:?}");
    };
    for qpn in (0x1_0000..0x1_0100).chain([u64::from(GSI_QPN)]) {
        for last in 0..6 {
            let group = MulticastGroup {
                gid: Gid::from_ipv4([224, 0, 0, last].into()).0,
            };
            let _ = machine.command(CommandOpcode::DETACH_MULTICAST, qpn, &group);
        }
        gone(machine.command(CommandOpcode::DESTROY_QP, qpn, &[0u8; 8]));
    }
    for number in 0..256u64 {
        gone(machine.command(CommandOpcode::DESTROY_SRQ, number, &[0u8; 8]));
    }
    for number in 0..256u64 {
        gone(machine.command(CommandOpcode::DESTROY_CQ, number, &[0u8; 8]));
    }
    assert!(machine.port.groups.is_empty());
    let state = u32::from(QpStateCode::RESET.0);
    assert_eq!(state, 0);
}
