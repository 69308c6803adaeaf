//! Queue pairs and completion queues of a machine: rings, WQEs, CQEs.

use ferroce_spec::command::{CommandOpcode, NewNumber, QpAttributeMask};
use ferroce_spec::context::{
    AccessRights, CqContext, GSI_QPN, PathMtuCode, QpContext, QpShape, QpStateCode,
    RetryAttributes, ServiceCode,
};
use ferroce_spec::cqe::{Cqe, owner_at};
use ferroce_spec::doorbell::{DoorbellKind, DoorbellValue};
use ferroce_spec::wqe::{
    AddressPath, AtomicSegment, BLOCK_SIZE, ControlSegment, ControlWord, DataSegment,
    DatagramSegment, InlineHeader, L_KEY_END, RemoteAddressSegment, SendOpcode, VLAN_NONE,
};
use ferroce_wire::Gid;
use zerocopy::IntoBytes;

use super::machine::{Machine, place};

/// First slot of QPs: two for each.
pub const QP_SLOTS: u32 = 8;
/// First slot of CQs.
pub const CQ_SLOTS: u32 = 40;

/// Numbers that software chooses, the same on all functions: entries 0 and 1 of the QP context
/// table are reserved on some.
const FIRST_INDEX: u32 = 2;
const FIRST_CQN: u32 = 0;

/// Attributes with which a QP is created and connected.
#[derive(Debug, Clone, Copy)]
pub struct QpPlan {
    pub service: ServiceCode,
    pub pd: u32,
    pub log_blocks: u8,
    pub log_receives: u8,
    pub log_stride: u8,
    pub access: AccessRights,
    pub retry: RetryAttributes,
    pub mtu: PathMtuCode,
    pub max_rd_atomic: u8,
    pub max_dest_rd_atomic: u8,
}

/// The peer to which it is connected.
#[derive(Debug, Clone, Copy)]
pub struct Peer {
    pub qpn: u32,
    pub gid: Gid,
    pub mac: [u8; 6],
    pub send_psn: u32,
    pub receive_psn: u32,
}

/// A QP and the software side of its rings.
#[derive(Debug)]
pub struct TestQp {
    pub qpn: u32,
    /// Its index among rings and slots.
    number: u32,
    plan: QpPlan,
    pub producer: u32,
    pub receive_producer: u32,
}

/// A CQ and the software side of its ring.
#[derive(Debug)]
pub struct TestCq {
    pub cqn: u32,
    number: u32,
    log_size: u8,
    consumer: u32,
}

/// Payload of a send WQE.
#[derive(Debug, Clone)]
pub enum Payload {
    Inline(Vec<u8>),
    Segments(Vec<DataSegment>),
}

/// A send WQE.
#[derive(Debug, Clone)]
pub struct SendWqe {
    pub opcode: SendOpcode,
    pub signaled: bool,
    pub solicited: bool,
    pub fence: bool,
    pub immediate: [u8; 4],
    pub remote: Option<(u64, u32)>,
    pub atomic: Option<AtomicSegment>,
    pub datagram: Option<DatagramSegment>,
    pub payload: Payload,
    /// The index in the WQE is wrong.
    pub is_stale: bool,
}

impl SendWqe {
    /// Returns the bytes for index `producer` of the ring.
    pub fn bytes(&self, producer: u32) -> Vec<u8> {
        let mut rest: Vec<u8> = Vec::new();
        if let Some(segment) = &self.datagram {
            rest.extend(segment.as_bytes());
        }
        if let Some((virtual_address, r_key)) = self.remote {
            let segment = RemoteAddressSegment {
                virtual_address,
                r_key,
                reserved: 0,
            };
            rest.extend(segment.as_bytes());
        }
        if let Some(segment) = &self.atomic {
            rest.extend(segment.as_bytes());
        }
        let mut control = ControlWord::default();
        match &self.payload {
            Payload::Inline(bytes) => {
                let length = bytes.len() as u32;
                rest.extend(InlineHeader { length }.as_bytes());
                rest.extend(bytes);
                control.set_inline(true);
            }
            Payload::Segments(segments) => {
                segments.iter().for_each(|s| rest.extend(s.as_bytes()));
                control.set_data_segments(segments.len() as u8);
            }
        }
        let blocks = (ControlSegment::SIZE + rest.len()).div_ceil(BLOCK_SIZE);
        control.set_opcode(self.opcode.0);
        control.set_blocks(blocks as u8);
        control.set_signaled(self.signaled);
        control.set_solicited(self.solicited);
        control.set_fence(self.fence);
        let head = ControlSegment {
            control,
            index: producer.wrapping_sub(u32::from(self.is_stale)),
            immediate: self.immediate,
            ..ControlSegment::default()
        };
        let mut bytes = head.as_bytes().to_vec();
        bytes.extend(rest);
        bytes
    }

    /// Returns its basic blocks.
    pub fn blocks(&self) -> usize {
        self.bytes(0).len().div_ceil(BLOCK_SIZE)
    }
}

impl Machine {
    pub fn create_cq(&mut self, number: u32, log_size: u8) -> TestCq {
        let context = CqContext {
            base: place::CQ + u64::from(number) * place::CQ_SIZE,
            consumer_record: place::CONSUMER_RECORDS + u64::from(number) * 64,
            log_size,
            doorbell_slot: CQ_SLOTS + number,
            ..CqContext::default()
        };
        let chosen = NewNumber::of(FIRST_CQN + number);
        TestCq {
            cqn: self.expect(CommandOpcode::CREATE_CQ, chosen.bits(), &context) as u32,
            number,
            log_size,
            consumer: 0,
        }
    }

    /// Takes the next CQE.
    pub fn poll(&mut self, cq: &mut TestCq) -> Option<Cqe> {
        let slot = u64::from(cq.consumer % (1 << cq.log_size));
        let base = place::CQ + u64::from(cq.number) * place::CQ_SIZE;
        let cqe: Cqe = self.host.load(base + slot * Cqe::SIZE as u64);
        if cqe.word.owner() != owner_at(cq.consumer, u32::from(cq.log_size)) {
            return None;
        }
        cq.consumer = cq.consumer.wrapping_add(1);
        let record = place::CONSUMER_RECORDS + u64::from(cq.number) * 64;
        self.host.store(record, &cq.consumer.to_le_bytes());
        Some(cqe)
    }

    /// Returns a QP in RESET.
    pub fn create_qp(&mut self, number: u32, plan: QpPlan, send: u32, receive: u32) -> TestQp {
        let mut shape = QpShape::default();
        shape.set_log_send_blocks(plan.log_blocks);
        shape.set_log_receives(plan.log_receives);
        shape.set_log_receive_stride(plan.log_stride);
        let mut qp = TestQp {
            qpn: 0,
            number,
            plan,
            producer: 0,
            receive_producer: 0,
        };
        let context = QpContext {
            service: plan.service,
            pd: plan.pd,
            send_cqn: send,
            receive_cqn: receive,
            send_base: qp.send_base(),
            receive_base: qp.receive_base(),
            shape,
            send_doorbell_slot: qp.send_slot(),
            receive_doorbell_slot: qp.send_slot() + 1,
            ..QpContext::default()
        };
        let chosen = match plan.service {
            ServiceCode::GSI => NewNumber::of(GSI_QPN),
            _ => NewNumber::of(self.qpn_base + FIRST_INDEX + number),
        };
        qp.qpn = self.expect(CommandOpcode::CREATE_QP, chosen.bits(), &context) as u32;
        qp
    }

    /// Takes a QP from RESET to RTS.
    pub fn connect(&mut self, qp: &TestQp, peer: &Peer) {
        use QpAttributeMask as Mask;
        let context = qp.context(peer);
        let init = [Mask::set_access, Mask::set_p_key, Mask::set_port];
        let rtr = [
            Mask::set_path,
            Mask::set_path_mtu,
            Mask::set_dest_qpn,
            Mask::set_receive_psn,
            Mask::set_max_dest_rd_atomic,
            Mask::set_min_rnr_timer,
        ];
        let rts = [
            Mask::set_send_psn,
            Mask::set_timeout,
            Mask::set_retry_count,
            Mask::set_rnr_retry,
            Mask::set_max_rd_atomic,
        ];
        type Bits<'a> = &'a [fn(&mut Mask, bool)];
        let steps: [(QpStateCode, Bits<'_>); 3] = [
            (QpStateCode::INIT, &init),
            (QpStateCode::RTR, &rtr),
            (QpStateCode::RTS, &rts),
        ];
        for (state, mask) in steps {
            let result = self.modify_qp(qp.qpn, state, mask, context);
            result.unwrap_or_else(|status| panic!("to {state:?}: {status:?}"));
        }
    }

    /// Takes a QP for datagrams from RESET to RTS.
    pub fn open(&mut self, qp: &TestQp, q_key: u32, send_psn: u32) {
        use QpAttributeMask as Mask;
        let context = QpContext {
            port: 1,
            q_key,
            send_psn,
            ..QpContext::default()
        };
        let init = [Mask::set_p_key, Mask::set_port, Mask::set_q_key];
        type Bits<'a> = &'a [fn(&mut Mask, bool)];
        let steps: [(QpStateCode, Bits<'_>); 3] = [
            (QpStateCode::INIT, &init),
            (QpStateCode::RTR, &[]),
            (QpStateCode::RTS, &[Mask::set_send_psn]),
        ];
        for (state, mask) in steps {
            let result = self.modify_qp(qp.qpn, state, mask, context);
            result.unwrap_or_else(|status| panic!("to {state:?}: {status:?}"));
        }
    }

    /// Takes a QP to RESET, or to ERR.
    pub fn retire(&mut self, qp: &mut TestQp, state: QpStateCode) {
        let result = self.modify_qp(qp.qpn, state, &[], QpContext::default());
        result.unwrap_or_else(|status| panic!("to {state:?}: {status:?}"));
        if state == QpStateCode::RESET {
            (qp.producer, qp.receive_producer) = (0, 0);
        }
    }

    /// Writes a send WQE; [`Machine::ring_send`] notifies the function.
    pub fn post_send(&mut self, qp: &mut TestQp, wqe: &SendWqe) {
        for block in wqe.bytes(qp.producer).chunks(BLOCK_SIZE) {
            let slot = u64::from(qp.producer % (1 << qp.plan.log_blocks));
            let iova = qp.send_base() + slot * BLOCK_SIZE as u64;
            self.host.store(iova, block);
            qp.producer = qp.producer.wrapping_add(1);
        }
    }

    pub fn ring_send(&mut self, qp: &TestQp) {
        let value = DoorbellValue::new(DoorbellKind::SEND_QUEUE, qp.qpn, qp.producer);
        self.ring(qp.send_slot(), value);
    }

    /// Writes a receive WQE; [`Machine::ring_receive`] notifies the function.
    pub fn post_receive(&mut self, qp: &mut TestQp, segments: &[DataSegment]) {
        let mut entry = segments.as_bytes().to_vec();
        if entry.len() < 1 << qp.plan.log_stride {
            let l_key = L_KEY_END;
            let end = DataSegment {
                l_key,
                ..DataSegment::default()
            };
            entry.extend(end.as_bytes());
        }
        let slot = u64::from(qp.receive_producer % (1 << qp.plan.log_receives));
        let iova = qp.receive_base() + (slot << qp.plan.log_stride);
        self.host.store(iova, &entry);
        qp.receive_producer = qp.receive_producer.wrapping_add(1);
    }

    pub fn ring_receive(&mut self, qp: &TestQp) {
        let value = DoorbellValue::new(DoorbellKind::RECEIVE_QUEUE, qp.qpn, qp.receive_producer);
        self.ring(qp.send_slot() + 1, value);
    }
}

impl TestQp {
    pub fn send_base(&self) -> u64 {
        place::RINGS + u64::from(self.number) * 2 * place::RING_SIZE
    }

    pub fn receive_base(&self) -> u64 {
        self.send_base() + place::RING_SIZE
    }

    /// The receive queue has the next slot.
    pub fn send_slot(&self) -> u32 {
        QP_SLOTS + 2 * self.number
    }

    fn context(&self, peer: &Peer) -> QpContext {
        QpContext {
            port: 1,
            access: self.plan.access,
            retry: self.plan.retry,
            path_mtu: self.plan.mtu,
            dest_qpn: peer.qpn,
            send_psn: peer.send_psn,
            receive_psn: peer.receive_psn,
            max_rd_atomic: self.plan.max_rd_atomic,
            max_dest_rd_atomic: self.plan.max_dest_rd_atomic,
            path: AddressPath {
                dest_gid: peer.gid.0,
                dest_mac: peer.mac,
                vlan: VLAN_NONE,
                udp_source_port: 0xc123,
                hop_limit: 64,
                ..AddressPath::default()
            },
            ..QpContext::default()
        }
    }
}
