//! More objects on a [`Machine`]: CQs, QPs of every service, shared receive queues, events.

use ferroce_model::time::timing::Timing;
use ferroce_spec::command::{
    ANY_STATE, CommandOpcode, CommandStatus, ModifyQp, MulticastGroup, QpAttributeMask,
};
use ferroce_spec::context::{
    AccessRights, CqContext, GSI_Q_KEY, PathMtuCode, QpContext, QpShape, QpStateCode,
    RetryAttributes, ServiceCode, SrqContext,
};
use ferroce_spec::cqe::{Cqe, owner_at};
use ferroce_spec::doorbell::{DoorbellKind, DoorbellValue};
use ferroce_spec::eqe::{Eqe, EventType};
use ferroce_spec::register::{EventQueueDoorbell, offset};
use ferroce_spec::wqe::{
    AddressPath, AtomicSegment, BLOCK_SIZE, ControlSegment, ControlWord, DataSegment,
    DatagramSegment, FlushSegment, L_KEY_END, RemoteAddressSegment, SendOpcode,
    SharedReceiveSegment, VLAN_NONE,
};
use ferroce_wire::Gid;
use zerocopy::IntoBytes;

use super::{Machine, all_rights, place};

/// Where rings of further objects lie: number `n` of them at `RINGS + n * RING_SIZE`.
const RINGS: u64 = 0x2_0000;
const RING_SIZE: u64 = 0x1000;
/// BAR2 slot of further object `n`: `SLOTS + n`.
const SLOTS: u32 = 16;
/// Base-2 logarithm of the entries of further CQs, SRQs and receive queues, and blocks of SQs.
pub const LOG_SIZE: u8 = 5;
const LOG_STRIDE: u8 = 6;
/// Protection domain of everything.
pub const PD: u32 = 7;
/// First PSN in each direction.
const FIRST_PSN: u32 = 0xff_fffe;
/// Q_Key of all UD QPs.
pub const Q_KEY: u32 = 0x1111_2222;
/// Path MTU of all connected QPs.
pub const PATH_MTU: usize = 1024;

pub struct TestCq {
    pub cqn: u32,
    pub base: u64,
    pub record: u64,
    pub slot: u32,
    pub log_size: u8,
    pub consumer: u32,
}

pub struct TestSrq {
    pub srqn: u32,
    pub base: u64,
    pub slot: u32,
    pub producer: u32,
}

pub struct TestQp {
    pub qpn: u32,
    pub service: ServiceCode,
    pub send_base: u64,
    pub receive_base: u64,
    pub send_slot: u32,
    pub receive_slot: u32,
    pub producer: u32,
    pub receive_producer: u32,
}

/// What a send WQE says besides its operation.
#[derive(Default, Clone, Copy)]
pub struct Request<'a> {
    pub immediate: Option<[u8; 4]>,
    pub remote: Option<(u64, u32)>,
    pub atomic: Option<AtomicSegment>,
    pub flush: Option<FlushSegment>,
    pub datagram: Option<DatagramSegment>,
    pub srqn: u32,
    pub solicited: bool,
    pub unsignaled: bool,
    pub data: &'a [DataSegment],
}

impl<T: Timing> Machine<T> {
    /// A number for one more ring, its IOVA and its slot.
    fn next_ring(&mut self) -> (u64, u32) {
        self.rings += 1;
        let base = RINGS + u64::from(self.rings) * RING_SIZE;
        assert!(base + RING_SIZE <= place::QPC, "too many rings");
        (base, SLOTS + self.rings)
    }

    /// Rings of objects that were destroyed are used again.
    pub fn restart_rings(&mut self) {
        self.rings = 0;
    }

    pub fn create_cq(&mut self, log_size: u8) -> TestCq {
        let (base, slot) = self.next_ring();
        let (record, _) = self.next_ring();
        let context = CqContext {
            base,
            consumer_record: record,
            log_size,
            doorbell_slot: slot,
            ..CqContext::default()
        };
        let cqn = self
            .command(CommandOpcode::CREATE_CQ, 0, &context)
            .expect("room") as u32;
        TestCq {
            cqn,
            base,
            record,
            slot,
            log_size,
            consumer: 0,
        }
    }

    /// Takes the next CQE of `cq`.
    pub fn poll_cq(&mut self, cq: &mut TestCq) -> Option<Cqe> {
        let slot = u64::from(cq.consumer) % (1 << cq.log_size);
        let cqe: Cqe = self.host.read(cq.base + slot * Cqe::SIZE as u64);
        if cqe.word.owner() != owner_at(cq.consumer, u32::from(cq.log_size)) {
            return None;
        }
        cq.consumer = cq.consumer.wrapping_add(1);
        let consumer = cq.consumer;
        self.host
            .write(cq.record, consumer.as_bytes())
            .expect("mapped");
        Some(cqe)
    }

    pub fn arm_cq(&mut self, cq: &TestCq) {
        let value = DoorbellValue::new(DoorbellKind::CQ_ARM, cq.cqn, cq.consumer);
        self.ring(cq.slot, value);
        self.run(1);
    }

    /// A shared receive queue; with `xrc`: domain and CQ.
    pub fn create_srq(&mut self, limit: u16, xrc: Option<(u32, u32)>) -> TestSrq {
        let (base, slot) = self.next_ring();
        let (xrcd, cqn) = xrc.unwrap_or_default();
        let context = SrqContext {
            base,
            log_size: LOG_SIZE,
            log_stride: LOG_STRIDE,
            limit,
            pd: PD,
            doorbell_slot: slot,
            xrcd,
            cqn,
            ..SrqContext::default()
        };
        let srqn = self
            .command(CommandOpcode::CREATE_SRQ, 0, &context)
            .expect("room") as u32;
        TestSrq {
            srqn,
            base,
            slot,
            producer: 0,
        }
    }

    pub fn query_srq(&mut self, srq: &TestSrq) -> SrqContext {
        let number = u64::from(srq.srqn);
        self.command(CommandOpcode::QUERY_SRQ, number, &[0u8; 8])
            .expect("exists");
        self.host.read(place::OUTPUT)
    }

    /// Posts a receive WQE to a shared receive queue.
    pub fn post_shared(&mut self, srq: &mut TestSrq, tag: u32, data: &[DataSegment]) {
        let head = SharedReceiveSegment {
            tag,
            ..SharedReceiveSegment::default()
        };
        let mut entry = head.as_bytes().to_vec();
        data.iter().for_each(|s| entry.extend(s.as_bytes()));
        let end = DataSegment {
            l_key: L_KEY_END,
            ..DataSegment::default()
        };
        if entry.len() < 1 << LOG_STRIDE {
            entry.extend(end.as_bytes());
        }
        let slot = u64::from(srq.producer) % (1 << LOG_SIZE);
        let iova = srq.base + (slot << LOG_STRIDE);
        self.host.write(iova, &entry).expect("mapped");
        srq.producer = srq.producer.wrapping_add(1);
        let kind = DoorbellKind::SHARED_RECEIVE_QUEUE;
        let value = DoorbellValue::new(kind, srq.srqn, srq.producer);
        self.ring(srq.slot, value);
        self.run(1);
    }

    /// A QP of `service` in RESET; `change` has the last word on its context.
    pub fn try_create_qp(
        &mut self,
        service: ServiceCode,
        change: impl FnOnce(&mut QpContext),
    ) -> Result<TestQp, CommandStatus> {
        let (send_base, send_slot) = self.next_ring();
        let (receive_base, receive_slot) = self.next_ring();
        let mut shape = QpShape::default();
        shape.set_log_send_blocks(LOG_SIZE);
        shape.set_log_receives(LOG_SIZE);
        shape.set_log_receive_stride(LOG_STRIDE);
        let mut context = QpContext {
            service,
            pd: PD,
            send_cqn: self.cqn,
            receive_cqn: self.cqn,
            send_base,
            receive_base,
            shape,
            send_doorbell_slot: send_slot,
            receive_doorbell_slot: receive_slot,
            ..QpContext::default()
        };
        change(&mut context);
        let qpn = self.command(CommandOpcode::CREATE_QP, 0, &context)? as u32;
        Ok(TestQp {
            qpn,
            service,
            send_base,
            receive_base,
            send_slot,
            receive_slot,
            producer: 0,
            receive_producer: 0,
        })
    }

    pub fn create_qp(
        &mut self,
        service: ServiceCode,
        change: impl FnOnce(&mut QpContext),
    ) -> TestQp {
        self.try_create_qp(service, change).expect("room")
    }

    pub fn destroy_qp(&mut self, qp: &TestQp) -> Result<u64, CommandStatus> {
        self.command(CommandOpcode::DESTROY_QP, u64::from(qp.qpn), &[0u8; 8])
    }

    pub fn query_qp(&mut self, qp: &TestQp) -> QpContext {
        self.command(CommandOpcode::QUERY_QP, u64::from(qp.qpn), &[0u8; 8])
            .expect("exists");
        self.host.read(place::OUTPUT)
    }

    pub fn modify_qp(
        &mut self,
        qp: &TestQp,
        state: QpStateCode,
        mask: &[fn(&mut QpAttributeMask, bool)],
        context: QpContext,
    ) -> Result<u64, CommandStatus> {
        let mut bits = QpAttributeMask::default();
        mask.iter().for_each(|set| set(&mut bits, true));
        let input = ModifyQp {
            state: u32::from(state.0),
            current_state: ANY_STATE,
            mask: bits,
            reserved_0c: 0,
            reserved_10: [0; 6],
            context,
        };
        self.command(CommandOpcode::MODIFY_QP, u64::from(qp.qpn), &input)
    }

    /// Path to the machine `number` of [`Machine::new`], or to a group.
    pub fn path_to(&self, gid: Gid) -> AddressPath {
        AddressPath {
            dest_gid: gid.0,
            dest_mac: [2, 0, 0, 0, 0, 9],
            vlan: VLAN_NONE,
            udp_source_port: 0xc123,
            hop_limit: 64,
            ..AddressPath::default()
        }
    }

    /// Takes a QP from RESET to RTS as its service needs it; the peer is `qpn` at `gid`.
    pub fn bring_to_rts(&mut self, qp: &TestQp, gid: Gid, qpn: u32) {
        use QpAttributeMask as Mask;
        let mut access = AccessRights::default();
        access.set_remote_read(true);
        access.set_remote_write(true);
        access.set_remote_atomic(true);
        access.set_flush_global(true);
        let mut retry = RetryAttributes::default();
        retry.set_retry_count(7);
        retry.set_rnr_retry(7);
        retry.set_timeout(10);
        retry.set_min_rnr_timer(1);
        let context = QpContext {
            port: 1,
            access,
            retry,
            q_key: match qp.service {
                ServiceCode::GSI => GSI_Q_KEY,
                _ => Q_KEY,
            },
            path_mtu: PathMtuCode::MTU_1024,
            dest_qpn: qpn,
            send_psn: FIRST_PSN,
            receive_psn: FIRST_PSN,
            max_rd_atomic: 4,
            max_dest_rd_atomic: 4,
            path: self.path_to(gid),
            ..QpContext::default()
        };
        type Bits<'a> = &'a [fn(&mut Mask, bool)];
        let connection: Bits = &[
            Mask::set_path,
            Mask::set_path_mtu,
            Mask::set_dest_qpn,
            Mask::set_receive_psn,
            Mask::set_max_dest_rd_atomic,
            Mask::set_min_rnr_timer,
        ];
        let sending: Bits = &[
            Mask::set_send_psn,
            Mask::set_timeout,
            Mask::set_retry_count,
            Mask::set_rnr_retry,
            Mask::set_max_rd_atomic,
        ];
        let identity: Bits = &[Mask::set_p_key, Mask::set_port, Mask::set_access];
        let datagram: Bits = &[Mask::set_p_key, Mask::set_port, Mask::set_q_key];
        let (init, rtr, rts) = match qp.service {
            ServiceCode::UNRELIABLE_DATAGRAM | ServiceCode::GSI => (datagram, 0, 1),
            ServiceCode::UNRELIABLE_CONNECTED => (identity, 4, 1),
            ServiceCode::XRC_INITIATOR => (identity, 4, 5),
            ServiceCode::XRC_TARGET => (identity, 6, 2),
            _ => (identity, 6, 5),
        };
        let steps = [
            (QpStateCode::INIT, init),
            (QpStateCode::RTR, &connection[..rtr]),
            (QpStateCode::RTS, &sending[..rts]),
        ];
        for (state, mask) in steps {
            self.modify_qp(qp, state, mask, context)
                .expect("a legal transition");
        }
    }

    /// Writes a send WQE and rings the doorbell.
    pub fn send(&mut self, qp: &mut TestQp, opcode: SendOpcode, request: Request<'_>) {
        let mut segments: Vec<u8> = Vec::new();
        if let Some((virtual_address, r_key)) = request.remote {
            let segment = RemoteAddressSegment {
                virtual_address,
                r_key,
                reserved: 0,
            };
            segments.extend(segment.as_bytes());
        }
        if let Some(atomic) = request.atomic {
            segments.extend(atomic.as_bytes());
        }
        if let Some(flush) = request.flush {
            segments.extend(flush.as_bytes());
        }
        if let Some(datagram) = request.datagram {
            segments.extend(datagram.as_bytes());
        }
        request
            .data
            .iter()
            .for_each(|segment| segments.extend(segment.as_bytes()));
        let blocks = (ControlSegment::SIZE + segments.len()).div_ceil(BLOCK_SIZE);
        let mut control = ControlWord::default();
        control.set_opcode(opcode.0);
        control.set_blocks(blocks as u8);
        control.set_data_segments(request.data.len() as u8);
        control.set_signaled(!request.unsignaled);
        control.set_solicited(request.solicited);
        let head = ControlSegment {
            control,
            index: qp.producer,
            immediate: request.immediate.unwrap_or_default(),
            remote_srqn: request.srqn,
        };
        let mut bytes = head.as_bytes().to_vec();
        bytes.extend(segments);
        for block in bytes.chunks(BLOCK_SIZE) {
            let slot = u64::from(qp.producer) % (1 << LOG_SIZE);
            let iova = qp.send_base + slot * BLOCK_SIZE as u64;
            self.host.write(iova, block).expect("mapped");
            qp.producer += 1;
        }
        let value = DoorbellValue::new(DoorbellKind::SEND_QUEUE, qp.qpn, qp.producer);
        self.ring(qp.send_slot, value);
    }

    /// Writes a receive WQE and rings the doorbell.
    pub fn receive(&mut self, qp: &mut TestQp, data: DataSegment) {
        let end = DataSegment {
            l_key: L_KEY_END,
            ..DataSegment::default()
        };
        let slot = u64::from(qp.receive_producer) % (1 << LOG_SIZE);
        let iova = qp.receive_base + (slot << LOG_STRIDE);
        self.host
            .write(iova, [data, end].as_bytes())
            .expect("mapped");
        qp.receive_producer += 1;
        let kind = DoorbellKind::RECEIVE_QUEUE;
        let value = DoorbellValue::new(kind, qp.qpn, qp.receive_producer);
        self.ring(qp.receive_slot, value);
        self.run(1);
    }

    /// The destination of a datagram.
    pub fn datagram(&self, gid: Gid, qpn: u32, q_key: u32) -> Option<DatagramSegment> {
        Some(DatagramSegment {
            q_key,
            dest_qpn: qpn,
            path: self.path_to(gid),
        })
    }

    pub fn gid(&self) -> Gid {
        self.port.own
    }

    pub fn multicast(
        &mut self,
        opcode: CommandOpcode,
        qp: &TestQp,
        gid: Gid,
    ) -> Result<u64, CommandStatus> {
        let group = MulticastGroup { gid: gid.0 };
        self.command(opcode, u64::from(qp.qpn), &group)
    }

    /// Takes the next event.
    pub fn poll_event(&mut self) -> Option<(EventType, u32)> {
        self.poll_event_of_page()
            .map(|(event, number, _)| (event, number))
    }

    /// Takes the next event, with the page that it is about.
    pub fn poll_event_of_page(&mut self) -> Option<(EventType, u32, u32)> {
        const LOG_EQES: u32 = 4;
        let slot = u64::from(self.events) % (1 << LOG_EQES);
        let eqe: Eqe = self.host.read(place::EQ + slot * Eqe::SIZE as u64);
        if eqe.word.owner() != owner_at(self.events, LOG_EQES) {
            return None;
        }
        self.events += 1;
        let mut doorbell = EventQueueDoorbell::default();
        doorbell.set_consumer_index(self.events);
        self.nic
            .write32(offset::event_queue_doorbell, doorbell.bits());
        self.run(1);
        Some((EventType(eqe.word.event()), eqe.number, eqe.page))
    }
}

/// A region's rights with everything that peers can ask for.
pub fn every_right() -> AccessRights {
    let mut access = all_rights();
    access.set_remote_atomic(true);
    access
}
