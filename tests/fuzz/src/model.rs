//! Target `model`: the NIC as a whole, against a hostile driver, hostile programs and a hostile
//! peer.
//!
//! Two NICs are set up as a correct driver does it, with a connected pair of queue pairs of each
//! service. Then the input chooses actions: commands with good and bad mailboxes; words that
//! overwrite contexts, translation tables and rings; doorbells, pushes and register writes; changed
//! and invented frames; good requests in between. There must be no panic, no operation that the
//! host would refuse (joining a group twice, an unaligned AtomicOp), and a reset must always
//! restore the NIC.

#[path = "../../../hw-model/tests/common/mod.rs"]
mod common;

mod templates;

use common::objects::{Q_KEY, Request, TestQp, TestSrq};
use common::{Machine, REGION_START, cable, place};
use ferroce_model::config::CacheShape;
use ferroce_model::{Doorbell, NicConfig};
use ferroce_spec::command::{
    CommandCompletion, CommandEntry, CommandOpcode, input_size, output_size,
};
use ferroce_spec::context::{AccessRights, ServiceCode};
use ferroce_spec::doorbell::{DoorbellKind, DoorbellValue, SLOTS};
use ferroce_spec::register::{BAR0_SIZE, Control, offset};
use ferroce_spec::wqe::{AtomicSegment, DataSegment, FlushSegment, SendOpcode};
use ferroce_wire::{
    Extension, Feth, FlushRange, Frame, IcrcMode, RKey, Reth, TransportHeaders, emit_frame,
};
use zerocopy::IntoBytes;

use crate::input::Input;

/// Maximum number of steps of one input.
const STEPS: usize = 96;
/// Entries of the command queue of a [`Machine`].
const COMMAND_SLOTS: u32 = 4;
/// XRC domain of all objects.
const DOMAIN: u32 = 3;
/// Size of an invented frame.
const MADE_UP: usize = 128;

const SERVICES: [ServiceCode; 4] = [
    ServiceCode::RELIABLE_CONNECTED,
    ServiceCode::UNRELIABLE_CONNECTED,
    ServiceCode::UNRELIABLE_DATAGRAM,
    ServiceCode::XRC_INITIATOR,
];

const OPCODES: [SendOpcode; 13] = [
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
    SendOpcode::BIND_WINDOW,
    SendOpcode::FLUSH,
    SendOpcode::ATOMIC_WRITE,
];

const DOORBELLS: [DoorbellKind; 9] = [
    DoorbellKind::SEND_QUEUE,
    DoorbellKind::RECEIVE_QUEUE,
    DoorbellKind::CQ_ARM,
    DoorbellKind::CQ_ARM_SOLICITED,
    DoorbellKind::SHARED_RECEIVE_QUEUE,
    DoorbellKind::PUSH_1,
    DoorbellKind::PUSH_2,
    DoorbellKind::PUSH_3,
    DoorbellKind::PUSH_4,
];

/// Structures that software can overwrite, with their sizes in bytes.
const PLACES: [(u64, u16); 12] = [
    (place::QPC, 16 * 256),
    (place::CQC, 8 * 64),
    (place::SRQC, 8 * 64),
    (place::MPT, 8 * 64),
    (place::MTT, 64),
    (place::SQ, 0x1000),
    (place::RQ, 0x1000),
    (place::CONSUMER_RECORD, 64),
    (place::INPUT, 512),
    (place::COMMANDS, 256),
    (place::CQ, 0x1000),
    (0x2_0000, 0xffff),
];

/// Runs one input.
pub fn fuzz(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut scene = Scene::new(input.u8());
    for _ in 0..STEPS {
        if input.is_empty() {
            break;
        }
        scene.step(&mut input);
    }
    scene.run(20, 500);
    for side in &mut scene.sides {
        side.reset();
    }
}

/// One of the two NICs with its software.
struct Side {
    machine: Machine,
    qps: Vec<TestQp>,
    srq: TestSrq,
    /// A key that also permits atomics and FLUSH.
    permissive_key: u32,
}

struct Scene {
    sides: [Side; 2],
}

impl Scene {
    /// Creates two NICs with a pair of queue pairs of each service.
    fn new(shape: u8) -> Self {
        let configure = |config: &mut NicConfig| {
            config.push_blocks = 4;
            forget(config, shape & 1 == 1);
        };
        let (left, right) = cable();
        let [mut a, mut b] = [(1, left), (2, right)].map(|(number, port)| {
            let mut machine = Machine::with(number, port, configure);
            let cqn = machine.cqn;
            let srq = machine.create_srq(2, Some((DOMAIN, cqn)));
            let permissive_key = machine.create_region(rights()).expect("room");
            Side {
                machine,
                qps: Vec::new(),
                srq,
                permissive_key,
            }
        });
        for service in SERVICES {
            let uses_srq = shape & 2 == 2;
            let sender = a.create_qp(service, uses_srq);
            let receiver = b.create_qp(peer_of(service), uses_srq);
            a.machine
                .bring_to_rts(&sender, b.machine.gid(), receiver.qpn);
            b.machine
                .bring_to_rts(&receiver, a.machine.gid(), sender.qpn);
            a.qps.push(sender);
            b.qps.push(receiver);
        }
        let (who_a, who_b) = (a.machine.identity(), b.machine.identity());
        let mtu = ferroce_spec::context::PathMtuCode::MTU_256;
        a.machine.connect(who_b, mtu);
        b.machine.connect(who_a, mtu);
        Self { sides: [a, b] }
    }

    /// Advances both sides.
    fn run(&mut self, turns: usize, ns: u64) {
        for _ in 0..turns {
            for side in &mut self.sides {
                side.machine.run(ns);
            }
        }
    }

    fn step(&mut self, input: &mut Input<'_>) {
        let kind = input.u8();
        let which = usize::from(kind >> 7);
        let side = &mut self.sides[which];
        match kind & 0xf {
            0 => side.hostile_command(input),
            1 | 2 => side.command(input),
            3 | 4 => side.scribble(input),
            5 => side.ring(input),
            6 => side.push(input),
            7 => side.access_register(input),
            8 => side.make_up_frame(input),
            9 => side.tamper(input),
            10 | 11 => self.send(which, input),
            12 => side.receive(input),
            13 => while side.machine.poll().is_some() {},
            14 => side.machine.port.link_up = input.flag(),
            _ => self.run(1, 1 << input.below(34)),
        }
        // The NIC often handles a step at once, and sometimes together with the next one.
        if kind & 0x40 == 0 {
            self.run(1, 100);
        }
    }

    /// Posts a request like a correct program, except for keys, addresses and lengths.
    fn send(&mut self, which: usize, input: &mut Input<'_>) {
        let qp = usize::from(input.below(SERVICES.len() as u8));
        let destination = (
            self.sides[1 - which].machine.gid(),
            self.sides[1 - which].qps[qp].qpn,
        );
        let srqn = self.sides[1 - which].srq.srqn;
        let opcode = input.choose(&OPCODES);
        let is_atomic = matches!(opcode, SendOpcode::COMPARE_SWAP | SendOpcode::FETCH_ADD);
        let is_flush = opcode == SendOpcode::FLUSH;
        let peer_key = match is_atomic || is_flush {
            true => self.sides[1 - which].permissive_key,
            false => self.sides[1 - which].machine.key,
        };
        let Side { machine, qps, .. } = &mut self.sides[which];
        let count = match opcode {
            SendOpcode::FLUSH => 0,
            SendOpcode::ATOMIC_WRITE => 1,
            _ => usize::from(input.below(4)),
        };
        let mut data: Vec<_> = (0..count).map(|_| segment(machine.key, input)).collect();
        let mut remote = segment(peer_key, input);
        let has_remote = opcode.0 >= SendOpcode::RDMA_WRITE.0;
        // Any other length or address is refused before the peer writes.
        if opcode == SendOpcode::ATOMIC_WRITE && input.u8() < 0xe0 {
            data[0].length = 8;
            remote.address &= !7;
        }
        let request = Request {
            data: &data,
            remote: has_remote.then_some((remote.address, remote.l_key)),
            atomic: is_atomic.then(|| AtomicSegment {
                swap_add: input.number(),
                compare: input.number(),
            }),
            flush: is_flush.then(|| FlushSegment {
                length: remote.length,
                kind: u32::from(input.below(0x40)),
                reserved: 0,
            }),
            datagram: match qps[qp].service {
                ServiceCode::UNRELIABLE_DATAGRAM => {
                    machine.datagram(destination.0, destination.1, Q_KEY)
                }
                _ => None,
            },
            immediate: Some(remote.length.to_be_bytes()),
            srqn,
            solicited: input.flag(),
            ..Request::default()
        };
        machine.send(&mut qps[qp], opcode, request);
    }
}

/// The caches are very small, so the NIC reads contexts that software overwrites. That also makes
/// inputs cheap.
fn forget(config: &mut NicConfig, hardly_anything: bool) {
    let size = u8::from(!hardly_anything);
    let shape = CacheShape {
        log_sets: 2 * size,
        ways: 1 + size,
        mshrs: 4,
    };
    (config.qpc_cache, config.cqc_cache, config.srqc_cache) = (shape, shape, shape);
    (config.mpt_cache, config.mtt_cache) = (shape, shape);
}

/// Returns everything that a region or a queue pair can permit.
fn rights() -> AccessRights {
    let mut access = common::objects::every_right();
    access.set_flush_global(true);
    access
}

/// Returns a FLUSH or an ATOMIC WRITE in place of the packet in `frame`, with its PSN.
fn placement(frame: &[u8], input: &mut Input<'_>) -> Option<Vec<u8>> {
    let frame = Frame::parse(frame).ok()?;
    let old = frame.headers;
    let reth = match old.extension {
        Extension::Reth(reth) => reth,
        _ => Reth {
            virtual_address: REGION_START.wrapping_add(input.number()),
            r_key: RKey(input.u32()),
            dma_length: input.number() as u32,
        },
    };
    let mut bth = old.bth;
    bth.pad_count = 0;
    let length = 4 * usize::from(input.below(4));
    let headers = if input.flag() {
        let range = input.choose(&[FlushRange::Range, FlushRange::Region]);
        let placements = input.choose(&[&[][..], &[Feth::GLOBAL], &[Feth::PERSISTENT]]);
        TransportHeaders::flush(bth, Feth::new(placements, range), reth)
    } else {
        TransportHeaders::atomic_write(bth, reth)
    };
    let mut buffer = [0; MADE_UP];
    let payload = &[0x5a; 12][..length];
    let path = frame.path();
    Some(emit_frame(&path, &headers, payload, IcrcMode::Computed, &mut buffer).to_vec())
}

/// Returns the service that answers `service`.
fn peer_of(service: ServiceCode) -> ServiceCode {
    match service {
        ServiceCode::XRC_INITIATOR => ServiceCode::XRC_TARGET,
        other => other,
    }
}

/// Returns a data segment: inside of the region, near its ends, or anywhere.
fn segment(key: u32, input: &mut Input<'_>) -> DataSegment {
    let (address, length) = (input.number(), input.number() as u32);
    match input.u8() {
        0..=0xa0 => DataSegment {
            address: REGION_START + address % place::DATA_SIZE,
            length: length % 5000,
            l_key: key,
        },
        0xa1..=0xd0 => DataSegment {
            address: (REGION_START + place::DATA_SIZE).wrapping_sub(address),
            length,
            l_key: key,
        },
        _ => DataSegment {
            address,
            length,
            l_key: key ^ 1 << input.below(32),
        },
    }
}

impl Side {
    fn create_qp(&mut self, service: ServiceCode, uses_srq: bool) -> TestQp {
        let srqn = self.srq.srqn;
        self.machine.create_qp(service, |context| {
            context.xrcd = DOMAIN;
            context.shape.set_uses_srq(uses_srq);
            context.srqn = srqn;
        })
    }

    /// Posts a command with its input, some words of which are wrong.
    fn command(&mut self, input: &mut Input<'_>) {
        let opcode = templates::OPCODES[usize::from(input.u8()) % templates::OPCODES.len()];
        let mut mailbox = templates::input(self, opcode, input);
        for _ in 0..input.below(4) {
            let at = usize::from(input.u16()) % mailbox.len().max(1);
            let value = input.number().to_le_bytes();
            let end = mailbox.len().min(at + (1 << input.below(4)));
            mailbox[at.min(end)..end].copy_from_slice(&value[..end - at.min(end)]);
        }
        self.write(place::INPUT, &mailbox);
        let entry = CommandEntry {
            opcode,
            argument: templates::argument(self, opcode, input),
            input_iova: place::INPUT,
            output_iova: place::OUTPUT,
            input_length: input_size(opcode) as u32,
            output_length: output_size(opcode) as u32,
            ..CommandEntry::default()
        };
        self.submit(entry);
    }

    /// Posts a command of random words.
    fn hostile_command(&mut self, input: &mut Input<'_>) {
        let opcode = CommandOpcode(input.number() as u16);
        let is_sized = input.flag();
        let entry = CommandEntry {
            opcode,
            argument: input.number(),
            input_iova: place::INPUT.wrapping_add(input.number()),
            output_iova: place::OUTPUT.wrapping_add(input.number()),
            input_length: if is_sized {
                input_size(opcode) as u32
            } else {
                input.number() as u32
            },
            output_length: if is_sized {
                output_size(opcode) as u32
            } else {
                input.number() as u32
            },
            ..CommandEntry::default()
        };
        self.submit(entry);
    }

    fn submit(&mut self, mut entry: CommandEntry) {
        let mut completion = CommandCompletion::default();
        completion.set_device_owned(true);
        entry.completion = completion;
        let machine = &mut self.machine;
        let consumer = machine
            .nic
            .read32(machine.now, offset::command_queue_consumer);
        let slot = u64::from(consumer % COMMAND_SLOTS);
        self.write(
            place::COMMANDS + slot * CommandEntry::SIZE as u64,
            entry.as_bytes(),
        );
        let nic = &mut self.machine.nic;
        nic.write32(offset::command_queue_doorbell, consumer.wrapping_add(1));
        self.machine.run(1);
    }

    /// Writes host memory like software; unmapped memory does not change.
    fn write(&mut self, iova: u64, bytes: &[u8]) {
        let _ = self.machine.host.write(iova, bytes);
    }

    /// Overwrites words of a structure that the device reads.
    fn scribble(&mut self, input: &mut Input<'_>) {
        let (base, size) = input.choose(&PLACES);
        let at = base + u64::from(input.u16() % size);
        if input.flag() {
            let length = usize::from(input.below(64));
            let bytes = input.bytes(length);
            self.write(at, bytes);
        } else {
            let length = 1 << input.below(4);
            let value = input.number().to_le_bytes();
            self.write(at & !(length - 1), &value[..length as usize]);
        }
    }

    fn ring(&mut self, input: &mut Input<'_>) {
        let qp = &self.qps[usize::from(input.below(SERVICES.len() as u8))];
        let (slot, number, kind) = match input.u8() {
            0..=0x40 => (qp.send_slot, qp.qpn, DoorbellKind::SEND_QUEUE),
            0x41..=0x80 => (qp.receive_slot, qp.qpn, DoorbellKind::RECEIVE_QUEUE),
            0x81..=0xa0 => {
                let kind = DoorbellKind::SHARED_RECEIVE_QUEUE;
                (self.srq.slot, self.srq.srqn, kind)
            }
            0xa1..=0xc0 => (common::CQ_SLOT, self.machine.cqn, DoorbellKind::CQ_ARM),
            _ => {
                let (slot, number) = (input.number() as u32, input.number() as u32);
                (slot, number, input.choose(&DOORBELLS))
            }
        };
        let value = DoorbellValue::new(kind, number, input.number() as u32);
        self.machine.ring(slot, value);
    }

    fn push(&mut self, input: &mut Input<'_>) {
        let (slot, kind) = (u32::from(input.u8()), input.choose(&DOORBELLS));
        let (qpn, producer) = (self.machine.qpn, self.machine.producer);
        let head = DoorbellValue::new(kind, qpn, producer.wrapping_add(u32::from(input.below(4))));
        let mut words: Vec<u64> = (0..input.below(40)).map(|_| input.number()).collect();
        words
            .iter_mut()
            .step_by(8)
            .for_each(|word| *word = head.bits());
        self.machine.host.pushes.push_back((SLOTS + slot, words));
    }

    fn access_register(&mut self, input: &mut Input<'_>) {
        let at = if input.flag() {
            input.u32() % (2 * BAR0_SIZE)
        } else {
            u32::from(input.u8()) * 4
        };
        let (machine, value) = (&mut self.machine, input.number());
        match input.below(4) {
            0 => machine.nic.write64(at & !7, value),
            1 => machine.nic.write32(at & !3, value as u32),
            2 => drop(machine.nic.read64(machine.now, at & !7)),
            _ => drop(machine.nic.read32(machine.now, at & !3)),
        }
    }

    /// Delivers a made-up frame.
    fn make_up_frame(&mut self, input: &mut Input<'_>) {
        let length = usize::from(input.u8()) % MADE_UP;
        let frame = input.bytes(length).to_vec();
        self.machine.port.into.borrow_mut().push_back(frame);
    }

    /// Changes, duplicates, delays or drops the next frame.
    fn tamper(&mut self, input: &mut Input<'_>) {
        let mut frames = self.machine.port.into.borrow_mut();
        let Some(mut frame) = frames.pop_front() else {
            return;
        };
        match input.below(8) {
            0 => return,
            1 => frames.push_back(frame.clone()),
            2 => {
                frames.push_back(frame);
                return;
            }
            3 => frame.truncate(usize::from(input.u8())),
            4 => frame = placement(&frame, input).unwrap_or(frame),
            _ => {}
        }
        for _ in 0..input.below(4) {
            let at = usize::from(input.u8()) % frame.len().max(1);
            if let Some(byte) = frame.get_mut(at) {
                *byte = input.u8();
            }
        }
        let icrc = Frame::parse(&frame)
            .ok()
            .map(|parsed| (parsed.layout().icrc(), parsed.computed_icrc()));
        if let Some((place, icrc)) = icrc.filter(|_| input.u8() != 0) {
            frame[place].copy_from_slice(&icrc.to_le_bytes());
        }
        frames.push_front(frame);
    }

    fn receive(&mut self, input: &mut Input<'_>) {
        let data = segment(self.machine.key, input);
        match input.below(3) {
            0 => self.machine.post_shared(&mut self.srq, 1, &[data]),
            1 => self.machine.post_receive(data),
            _ => {
                let qp = usize::from(input.below(SERVICES.len() as u8));
                self.machine.receive(&mut self.qps[qp], data);
            }
        }
    }

    /// Checks that a reset restores the NIC.
    fn reset(&mut self) {
        let mut reset = Control::default();
        reset.set_reset(true);
        let machine = &mut self.machine;
        machine.nic.write32(offset::control, reset.bits());
        machine.run(100);
        assert_eq!(machine.nic.read32(machine.now, offset::control), 0);
        machine.host.doorbells.push_back(Doorbell {
            slot: common::SEND_SLOT,
            value: 1,
        });
        machine.run(100);
    }
}
