//! Attacks: what a hostile driver writes, and what a hostile peer sends.

use ferroce_model::Doorbell;
use ferroce_spec::command::{
    ANY_STATE, CommandEntry, CommandOpcode, ModifyQp, QpAttributeMask, input_size, output_size,
};
use ferroce_spec::context::{
    CqContext, EqContext, MemoryEntry, MemoryEntryWord, QpContext, QpShape,
};
use ferroce_spec::doorbell::{DoorbellKind, DoorbellValue, SLOTS};
use ferroce_spec::register::BAR0_SIZE;
use ferroce_spec::wqe::{DataSegment, SendOpcode};
use ferroce_units::random::SplitMix64;
use ferroce_wire::Frame;
use zerocopy::IntoBytes;

use crate::machines::host::MEMORY_SIZE;
use crate::machines::machine::place;
use crate::machines::queues::{CQ_SLOTS, QP_SLOTS};
use crate::scene::{QPS, REGION_LENGTH, REGION_START, Scene, VICTIM, is_atomic, plan, request};

/// Maximum bytes of an invented frame.
const MADE_UP: u64 = 300;
/// Approximate bytes of a frame's headers.
const HEADERS: u64 = 80;
/// Opcodes of commands, and some higher ones that do not exist.
const COMMANDS: u64 = 0x58;

const OPCODES: [SendOpcode; 10] = [
    SendOpcode::NOP,
    SendOpcode::SEND,
    SendOpcode::SEND_IMMEDIATE,
    SendOpcode::SEND_INVALIDATE,
    SendOpcode::RDMA_WRITE,
    SendOpcode::RDMA_WRITE_IMMEDIATE,
    SendOpcode::RDMA_READ,
    SendOpcode::COMPARE_SWAP,
    SendOpcode::FETCH_ADD,
    SendOpcode::LOCAL_INVALIDATE,
];

/// Returns a number that is often close to a meaningful one.
fn number(random: &mut SplitMix64) -> u64 {
    match random.below(8) {
        0 => random.number(),
        1 => u64::MAX - random.below(4),
        2 => 1 << random.below(64),
        3 => random.below(MEMORY_SIZE as u64),
        4 => REGION_START + random.below(REGION_LENGTH + 64),
        5 => 0x1_0000 + random.below(4),
        _ => random.below(40),
    }
}

fn pick<T: Copy>(random: &mut SplitMix64, values: &[T]) -> T {
    values[random.below(values.len() as u64) as usize]
}

/// A request of a correct program, occasionally with a wrong key, address or length.
pub fn post(scene: &mut Scene, random: &mut SplitMix64, side: usize) {
    let opcode = pick(random, &OPCODES);
    let qp = random.below(QPS as u64) as usize;
    let keys = [0, 1].map(|side: usize| scene.objects[side].key);
    let mut remote = segment(random, keys[1 - side]);
    if is_atomic(opcode) && random.below(4) > 0 {
        remote.address &= !7;
    }
    let count = if opcode == SendOpcode::NOP {
        0
    } else {
        random.below(4)
    };
    let segments = (0..count).map(|_| segment(random, keys[side])).collect();
    let has_remote = opcode.0 >= SendOpcode::RDMA_WRITE.0 && opcode.0 <= SendOpcode::FETCH_ADD.0;
    let wqe = request(
        opcode,
        has_remote.then_some((remote.address, remote.l_key)),
        segments,
    );
    let qps = &mut scene.objects[side].qps;
    scene.pair.sides[side].post_send(&mut qps[qp], &wqe);
    scene.pair.sides[side].ring_send(&qps[qp]);
}

/// A receive WQE of the same kind.
pub fn post_receive(scene: &mut Scene, random: &mut SplitMix64, side: usize) {
    let qp = random.below(QPS as u64) as usize;
    let segments = [0; 2].map(|_| segment(random, scene.objects[side].key));
    let qps = &mut scene.objects[side].qps;
    scene.pair.sides[side].post_receive(&mut qps[qp], &segments);
    scene.pair.sides[side].ring_receive(&qps[qp]);
}

/// A data segment inside of the region, near its end, or anywhere.
fn segment(random: &mut SplitMix64, l_key: u32) -> DataSegment {
    let length = random.below(3000) as u32;
    let (address, length, l_key) = match random.below(12) {
        0 => (number(random), number(random) as u32, l_key),
        1 => (REGION_START, length, l_key ^ 1 << random.below(32)),
        2 => {
            // It ends just before or just after the end of the region.
            let end = REGION_START + REGION_LENGTH - 0x80 + random.below(0x80);
            (end - u64::from(length), length, l_key)
        }
        _ => (
            REGION_START + random.below(REGION_LENGTH / 2),
            length,
            l_key,
        ),
    };
    DataSegment {
        address,
        length,
        l_key,
    }
}

/// Overwrites bytes of a ring of the victim, and rings its doorbell.
pub fn scribble(scene: &mut Scene, random: &mut SplitMix64) {
    let side = &mut scene.pair.sides[VICTIM];
    let qp = &mut scene.objects[VICTIM].qps[random.below(QPS as u64) as usize];
    let base = pick(random, &[qp.send_base(), qp.receive_base()]);
    for _ in 0..1 + random.below(8) {
        let at = base + random.below(place::RING_SIZE / 8) * 8;
        let value = match random.below(2) {
            // A partly valid head of a WQE: opcode, blocks, segments, index.
            0 => {
                let index = (at - base) / 64;
                let segments = random.below(18) << 24 | random.below(12) << 16;
                random.below(0x40) | random.below(16) << 8 | segments | index << 32
            }
            _ => number(random),
        };
        side.host.store(at, &value.to_le_bytes());
    }
    match random.below(2) {
        0 => {
            qp.producer = qp.producer.wrapping_add(random.below(10) as u32);
            side.ring_send(qp);
        }
        _ => {
            qp.receive_producer = qp.receive_producer.wrapping_add(random.below(4) as u32);
            side.ring_receive(qp);
        }
    }
}

/// A doorbell with any slot, number and index, or an almost valid one.
pub fn ring(scene: &mut Scene, random: &mut SplitMix64) {
    let victim = &mut scene.pair.sides[VICTIM];
    let objects = &scene.objects[VICTIM];
    let kind = DoorbellKind(random.below(8) as u8);
    let value = match random.below(3) {
        0 => number(random),
        1 => DoorbellValue::new(kind, objects.qps[0].qpn, number(random) as u32).bits(),
        _ => DoorbellValue::new(kind, objects.cq.cqn, number(random) as u32).bits(),
    };
    let slot = match random.below(3) {
        0 => random.below(2 * u64::from(SLOTS)) as u32,
        1 => QP_SLOTS + random.below(6) as u32,
        _ => CQ_SLOTS + random.below(2) as u32,
    };
    victim.host.doorbells.push_back(Doorbell { slot, value });
}

/// An access to BAR0.
pub fn access_register(scene: &mut Scene, random: &mut SplitMix64) {
    let victim = &mut scene.pair.sides[VICTIM];
    let at = match random.below(2) {
        0 => random.below(u64::from(2 * BAR0_SIZE)) as u32,
        _ => random.below(64) as u32 * 4,
    };
    let value = number(random);
    match random.below(4) {
        0 => victim.device.write64(at & !7, value),
        1 => victim.device.write32(at & !3, value as u32),
        2 => drop(Some(victim.device.read64(victim.now, at & !7))),
        _ => drop(Some(victim.device.read32(victim.now, at & !3))),
    }
}

/// A command with an almost valid or random input.
pub fn command(scene: &mut Scene, random: &mut SplitMix64) {
    let opcode = CommandOpcode(random.below(COMMANDS) as u16);
    let mut input = input(opcode, random);
    for _ in 0..random.below(4) {
        let length = input.len() as u64 / 8;
        if length > 0 {
            let at = 8 * random.below(length) as usize;
            input[at..at + 8].copy_from_slice(&number(random).to_le_bytes());
        }
    }
    let is_right = random.below(4) > 0;
    let qpn = u64::from(scene.objects[VICTIM].qps[0].qpn);
    let key = u64::from(scene.objects[VICTIM].key);
    let victim = &mut scene.pair.sides[VICTIM];
    victim.host.store(place::INPUT, &input);
    let entry = CommandEntry {
        opcode,
        argument: match random.below(4) {
            0 => number(random),
            1 => qpn,
            2 => key,
            _ => random.below(4),
        },
        input_iova: if is_right {
            place::INPUT
        } else {
            number(random)
        },
        output_iova: if is_right {
            place::OUTPUT
        } else {
            number(random)
        },
        input_length: if is_right {
            input_size(opcode) as u32
        } else {
            number(random) as u32
        },
        output_length: if is_right {
            output_size(opcode) as u32
        } else {
            number(random) as u32
        },
        ..CommandEntry::default()
    };
    // It may never complete, because the attack may have moved the command queue.
    let _ = victim.submit(entry);
}

/// The input of a command as a driver would write it.
fn input(opcode: CommandOpcode, random: &mut SplitMix64) -> Vec<u8> {
    let base = place::DATA + random.below(64) * 4096;
    let log_size = random.below(8) as u8;
    match opcode {
        CommandOpcode::CREATE_CQ | CommandOpcode::MODIFY_CQ => CqContext {
            base,
            consumer_record: place::CONSUMER_RECORDS,
            log_size,
            ..CqContext::default()
        }
        .as_bytes()
        .to_vec(),
        CommandOpcode::CREATE_EQ | CommandOpcode::MODIFY_EQ => EqContext {
            base,
            log_size,
            ..EqContext::default()
        }
        .as_bytes()
        .to_vec(),
        CommandOpcode::CREATE_QP => queue_pair(base, random).as_bytes().to_vec(),
        CommandOpcode::MODIFY_QP => ModifyQp {
            state: random.below(8) as u32,
            current_state: ANY_STATE,
            mask: QpAttributeMask::from_bits(random.number() as u32 & 0xffff),
            reserved_0c: 0,
            reserved_10: [0; 6],
            context: queue_pair(base, random),
        }
        .as_bytes()
        .to_vec(),
        CommandOpcode::CREATE_MR | CommandOpcode::MODIFY_MR => {
            let mut word = MemoryEntryWord::default();
            word.set_log_page_size(12);
            MemoryEntry {
                word,
                pd: plan().pd,
                start: REGION_START,
                length: random.below(REGION_LENGTH),
                ..MemoryEntry::default()
            }
            .as_bytes()
            .to_vec()
        }
        _ => vec![0; input_size(opcode)],
    }
}

fn queue_pair(base: u64, random: &mut SplitMix64) -> QpContext {
    let mut shape = QpShape::default();
    shape.set_log_send_blocks(random.below(8) as u8);
    shape.set_log_receives(random.below(8) as u8);
    shape.set_log_receive_stride(4 + random.below(5) as u8);
    QpContext {
        pd: plan().pd,
        port: 1,
        path_mtu: plan().mtu,
        shape,
        send_base: base,
        receive_base: base,
        send_doorbell_slot: QP_SLOTS + random.below(16) as u32,
        receive_doorbell_slot: QP_SLOTS + random.below(16) as u32,
        max_rd_atomic: random.below(20) as u8,
        max_dest_rd_atomic: random.below(20) as u8,
        ..QpContext::default()
    }
}

/// A frame for the victim: an earlier one, changed, truncated, repeated, or invented.
pub fn send_frame(scene: &mut Scene, random: &mut SplitMix64) {
    let known: Vec<_> = scene
        .pair
        .frames
        .iter()
        .filter(|f| f.from != VICTIM)
        .collect();
    let mut frame = if known.is_empty() || random.below(8) == 0 {
        (0..random.below(MADE_UP))
            .map(|_| random.number() as u8)
            .collect()
    } else {
        known[random.below(known.len() as u64) as usize]
            .bytes
            .clone()
    };
    for _ in 0..random.below(4) {
        let limit = (frame.len() as u64).min(HEADERS);
        if limit > 0 {
            let at = random.below(limit) as usize;
            frame[at] = match random.below(2) {
                0 => random.number() as u8,
                _ => frame[at] ^ 1 << random.below(8),
            };
        }
    }
    if random.below(8) == 0 {
        frame.truncate(random.below(frame.len() as u64 + 1) as usize);
    }
    if random.below(8) > 0 {
        fix(&mut frame);
    }
    scene.pair.sides[VICTIM].port.arriving.push_back(frame);
}

/// Writes the correct ICRC into a frame that can be parsed.
fn fix(bytes: &mut [u8]) {
    let Ok(frame) = Frame::parse(bytes) else {
        return;
    };
    let (icrc, place) = (frame.computed_icrc(), frame.layout().icrc());
    bytes[place].copy_from_slice(&icrc.to_le_bytes());
}
