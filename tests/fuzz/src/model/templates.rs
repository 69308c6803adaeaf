//! Commands of a correct driver, from which hostile ones are derived.

use ferroce_spec::command::{
    ANY_STATE, CommandOpcode, ContextTables, ModifyQp, MulticastGroup, QpAttributeMask,
};
use ferroce_spec::context::{
    AddressEntry, CqContext, EqContext, GSI_Q_KEY, GSI_QPN, MemoryEntry, MemoryEntryWord,
    PathMtuCode, QpContext, QpShape, RetryAttributes, ServiceCode, SrqContext,
};
use ferroce_spec::wqe::VLAN_NONE;
use ferroce_wire::Gid;
use zerocopy::IntoBytes;

use super::common::{objects::LOG_SIZE, place};
use super::{DOMAIN, Side, rights};
use crate::input::Input;

/// Every command; those that change the most occur more than once.
pub(super) const OPCODES: [CommandOpcode; 32] = [
    CommandOpcode::NOP,
    CommandOpcode::QUERY_DEVICE,
    CommandOpcode::SET_CONTEXT_TABLES,
    CommandOpcode::SET_ADDRESS,
    CommandOpcode::QUERY_ADDRESS,
    CommandOpcode::CREATE_EQ,
    CommandOpcode::QUERY_EQ,
    CommandOpcode::DESTROY_EQ,
    CommandOpcode::MODIFY_EQ,
    CommandOpcode::CREATE_CQ,
    CommandOpcode::QUERY_CQ,
    CommandOpcode::DESTROY_CQ,
    CommandOpcode::MODIFY_CQ,
    CommandOpcode::MODIFY_CQ,
    CommandOpcode::CREATE_QP,
    CommandOpcode::CREATE_QP,
    CommandOpcode::QUERY_QP,
    CommandOpcode::DESTROY_QP,
    CommandOpcode::MODIFY_QP,
    CommandOpcode::MODIFY_QP,
    CommandOpcode::MODIFY_QP,
    CommandOpcode::ATTACH_MULTICAST,
    CommandOpcode::DETACH_MULTICAST,
    CommandOpcode::CREATE_SRQ,
    CommandOpcode::QUERY_SRQ,
    CommandOpcode::DESTROY_SRQ,
    CommandOpcode::MODIFY_SRQ,
    CommandOpcode::CREATE_MR,
    CommandOpcode::CREATE_MR,
    CommandOpcode::QUERY_MR,
    CommandOpcode::DESTROY_MR,
    CommandOpcode::MODIFY_MR,
];

/// The services that a queue pair can have.
const SERVICES: [ServiceCode; 6] = [
    ServiceCode::RELIABLE_CONNECTED,
    ServiceCode::UNRELIABLE_CONNECTED,
    ServiceCode::UNRELIABLE_DATAGRAM,
    ServiceCode::XRC_INITIATOR,
    ServiceCode::XRC_TARGET,
    ServiceCode::GSI,
];
/// Addresses of the rings of objects that are created later.
const RING: u64 = 0x8_0000;
/// Numbers of objects that are tried.
const NUMBERS: u8 = 12;

/// Returns an object number for `opcode`, often an existing object's.
pub(super) fn argument(side: &Side, opcode: CommandOpcode, input: &mut Input<'_>) -> u64 {
    let number = u64::from(input.below(NUMBERS));
    if input.u8() > 0xf0 {
        return input.number();
    }
    match opcode.0 >> 4 {
        // The GSI has this number instead of the number of its entry.
        3 if number == u64::from(GSI_QPN) => number,
        3 => u64::from(side.machine.qpn & !0xff) + number,
        5 => u64::from(side.machine.key).wrapping_add(number << 8),
        _ => number,
    }
}

/// Returns an input mailbox for `opcode`.
pub(super) fn input(side: &Side, opcode: CommandOpcode, input: &mut Input<'_>) -> Vec<u8> {
    match opcode {
        CommandOpcode::SET_CONTEXT_TABLES => context_tables().as_bytes().to_vec(),
        CommandOpcode::SET_ADDRESS => AddressEntry {
            gid: Gid::from_ipv4([10, 0, 0, input.u8()].into()).0,
            mac: [2, 0, 0, 0, 0, 1],
            vlan: VLAN_NONE,
            reserved_18: 0,
        }
        .as_bytes()
        .to_vec(),
        CommandOpcode::CREATE_EQ | CommandOpcode::MODIFY_EQ => EqContext {
            base: RING,
            log_size: 4,
            moderation_us: input.number() as u32,
            ..EqContext::default()
        }
        .as_bytes()
        .to_vec(),
        CommandOpcode::CREATE_CQ | CommandOpcode::MODIFY_CQ => completion_queue(input),
        CommandOpcode::CREATE_QP => {
            let context = QpContext {
                service: input.choose(&SERVICES),
                ..queue_pair(side, input)
            };
            context.as_bytes().to_vec()
        }
        CommandOpcode::MODIFY_QP => modify_qp(side, input).as_bytes().to_vec(),
        CommandOpcode::CREATE_SRQ | CommandOpcode::MODIFY_SRQ => SrqContext {
            base: RING,
            log_size: LOG_SIZE,
            log_stride: 6,
            limit: input.number() as u16,
            pd: 7,
            doorbell_slot: 32 + u32::from(input.below(32)),
            xrcd: DOMAIN * u32::from(input.below(2)),
            cqn: u32::from(input.below(4)),
            ..SrqContext::default()
        }
        .as_bytes()
        .to_vec(),
        CommandOpcode::CREATE_MR | CommandOpcode::MODIFY_MR => memory(input).as_bytes().to_vec(),
        CommandOpcode::ATTACH_MULTICAST | CommandOpcode::DETACH_MULTICAST => MulticastGroup {
            gid: Gid::from_ipv4([224, 0, 0, input.below(4)].into()).0,
        }
        .as_bytes()
        .to_vec(),
        _ => Vec::new(),
    }
}

fn context_tables() -> ContextTables {
    ContextTables {
        qpc_base: place::QPC,
        cqc_base: place::CQC,
        srqc_base: place::SRQC,
        mpt_base: place::MPT,
        mtt_base: place::MTT,
        log_qps: 8,
        log_cqs: 8,
        log_srqs: 8,
        log_mrs: 8,
        log_mtts: 12,
        ..ContextTables::default()
    }
}

fn completion_queue(input: &mut Input<'_>) -> Vec<u8> {
    let context = CqContext {
        base: match input.below(3) {
            0 => 0,
            ring => RING * u64::from(ring),
        },
        consumer_record: place::CONSUMER_RECORD + 64 * u64::from(input.below(4)),
        log_size: input.below(8),
        eqn: u32::from(input.below(2)),
        doorbell_slot: 32 + u32::from(input.below(32)),
        moderation_count: input.number() as u16,
        moderation_us: input.number() as u16,
        ..CqContext::default()
    };
    context.as_bytes().to_vec()
}

/// Returns a queue pair of the first or second machine; its peer is on the other machine.
fn queue_pair(side: &Side, input: &mut Input<'_>) -> QpContext {
    let mut shape = QpShape::default();
    shape.set_log_send_blocks(LOG_SIZE);
    shape.set_log_receives(LOG_SIZE);
    shape.set_log_receive_stride(6);
    shape.set_uses_srq(input.flag());
    let mut retry = RetryAttributes::default();
    retry.set_retry_count(input.below(8));
    retry.set_rnr_retry(input.below(8));
    retry.set_timeout(input.below(16));
    retry.set_min_rnr_timer(input.below(32));
    let number = u64::from(input.below(4)) * 0x1000;
    QpContext {
        pd: 7,
        port: 1,
        send_cqn: u32::from(input.below(4)),
        receive_cqn: u32::from(input.below(4)),
        send_base: RING + number,
        receive_base: RING + 0x8000 + number,
        shape,
        srqn: u32::from(input.below(4)),
        send_doorbell_slot: 64 + u32::from(input.below(8)),
        receive_doorbell_slot: 72 + u32::from(input.below(8)),
        access: rights(),
        // Often the only value that is allowed for a GSI.
        q_key: match input.number() as u32 {
            even if even % 2 == 0 => GSI_Q_KEY,
            odd => odd,
        },
        dest_qpn: (3 - (side.machine.qpn >> 16)) << 16 | u32::from(input.below(NUMBERS)),
        send_psn: input.number() as u32,
        receive_psn: input.number() as u32,
        retry,
        max_rd_atomic: input.below(18),
        max_dest_rd_atomic: input.below(18),
        path_mtu: PathMtuCode(input.below(7)),
        path: side
            .machine
            .path_to(Gid::from_ipv4([10, 0, 0, 1 + input.below(3)].into())),
        xrcd: DOMAIN,
        ..QpContext::default()
    }
}

/// Attribute masks of legal transitions.
const MASKS: [u32; 8] = [
    0,
    0b0111,
    0b1110,
    0b111_1010_0011_0000,
    0b1_0101_1100_0000,
    1 << 12,
    0b0100_0010_0011_0000,
    1 << 15,
];

fn modify_qp(side: &Side, input: &mut Input<'_>) -> ModifyQp {
    let mask = match input.u8() {
        0xf0.. => input.number() as u32,
        number => MASKS[usize::from(number) % MASKS.len()],
    };
    ModifyQp {
        state: u32::from(input.below(8)),
        current_state: match input.u8() {
            0xf0.. => u32::from(input.below(8)),
            _ => ANY_STATE,
        },
        mask: QpAttributeMask::from_bits(mask),
        reserved_0c: 0,
        reserved_10: [0; 6],
        context: queue_pair(side, input),
    }
}

fn memory(input: &mut Input<'_>) -> MemoryEntry {
    let mut word = MemoryEntryWord::default();
    word.set_log_page_size(input.choose(&[12, 12, 12, 21, 30]));
    MemoryEntry {
        word,
        key: u32::from(input.u8()),
        pd: 7,
        access: rights(),
        start: super::REGION_START.wrapping_add(input.number()),
        length: input.number(),
        translation: input.number(),
        first_page_offset: input.number(),
        ..MemoryEntry::default()
    }
}
