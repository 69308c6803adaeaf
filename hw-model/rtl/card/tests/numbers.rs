//! Numbers of objects on card and model: numbers chosen by software have the same result on both;
//! numbers chosen by the card are free, and are reused as late as possible.

#[path = "machines/mod.rs"]
mod machines;

use std::collections::BTreeSet;

use ferroce_rtl_harness::seeds::for_each_seed;
use ferroce_spec::command::{CommandOpcode, CommandStatus, NewNumber};
use ferroce_spec::context::{CqContext, GSI_QPN, MemoryEntry, QpContext, ServiceCode};
use ferroce_units::random::SplitMix64;
use ferroce_wire::Gid;
use machines::device::Kind;
use machines::machine::{LOG_CQS, LOG_MRS, LOG_QPS, Machine, PAGES, place};
use machines::queues::{CQ_SLOTS, QP_SLOTS};

const SEEDS: u64 = 20;
/// Commands of a seed.
const COMMANDS: usize = 150;
/// Reserved entries of the QP context table.
const RESERVED_QPS: u32 = 2;

/// The kinds of objects that both have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Object {
    Cq,
    Qp,
    Mr,
    Gsi,
}

/// Objects with more than one number.
const OBJECTS: [Object; 3] = [Object::Cq, Object::Qp, Object::Mr];
const ALL: [Object; 4] = [Object::Cq, Object::Qp, Object::Mr, Object::Gsi];

impl Object {
    /// Numbers that both can allocate.
    fn table(self, machine: &Machine) -> std::ops::Range<u32> {
        match self {
            Object::Cq => 0..1 << LOG_CQS,
            Object::Qp => machine.qpn_base + RESERVED_QPS..machine.qpn_base + (1 << LOG_QPS),
            Object::Mr => 1..1 << LOG_MRS,
            Object::Gsi => GSI_QPN..GSI_QPN + 1,
        }
    }

    fn shift(self) -> u32 {
        if self == Object::Mr { 8 } else { 0 }
    }

    /// Creates one; `spoiled`: with a field that is refused.
    fn create(
        self,
        machine: &mut Machine,
        number: NewNumber,
        spoiled: bool,
    ) -> Result<u64, CommandStatus> {
        let argument = number.bits();
        match self {
            Object::Cq => {
                let context = CqContext {
                    base: place::CQ + u64::from(spoiled),
                    doorbell_slot: CQ_SLOTS,
                    ..CqContext::default()
                };
                machine.command(CommandOpcode::CREATE_CQ, argument, &context)
            }
            Object::Qp | Object::Gsi => {
                let mut context = QpContext {
                    service: match self {
                        Object::Gsi => ServiceCode::GSI,
                        _ => ServiceCode::RELIABLE_CONNECTED,
                    },
                    send_base: place::RINGS + u64::from(spoiled),
                    receive_base: place::RINGS,
                    send_cqn: CQN,
                    receive_cqn: CQN,
                    send_doorbell_slot: QP_SLOTS,
                    receive_doorbell_slot: QP_SLOTS + 1,
                    ..QpContext::default()
                };
                context.shape.set_log_receive_stride(4);
                machine.command(CommandOpcode::CREATE_QP, argument, &context)
            }
            Object::Mr => {
                let mut region = MemoryEntry {
                    key: 0x11,
                    start: if spoiled { u64::MAX } else { 0 },
                    length: 64,
                    ..MemoryEntry::default()
                };
                region.word.set_direct(true);
                machine.command(CommandOpcode::CREATE_MR, argument, &region)
            }
        }
    }

    fn destroy(self, machine: &mut Machine, number: u64) -> Result<u64, CommandStatus> {
        let opcode = match self {
            Object::Cq => CommandOpcode::DESTROY_CQ,
            Object::Qp | Object::Gsi => CommandOpcode::DESTROY_QP,
            Object::Mr => CommandOpcode::DESTROY_MR,
        };
        machine.command(opcode, number, &[0u8; 0])
    }
}

/// The CQ of all QPs.
const CQN: u32 = 3;

fn machine(kind: Kind) -> Machine {
    let pages: Vec<u64> = (0..PAGES).collect();
    let mut machine = Machine::new(kind, 1, Gid::from_ipv4([10, 0, 0, 1].into()), &pages);
    let cqn = Object::Cq.create(&mut machine, NewNumber::of(CQN), false);
    assert_eq!(cqn, Ok(CQN.into()));
    machine
}

/// A number in or near the range of the table.
fn some_number(object: Object, machine: &Machine, random: &mut SplitMix64) -> u32 {
    let table = object.table(machine);
    match random.below(12) {
        0 => random.number() as u32 | 1 << 16,
        1 => table.end + random.below(3) as u32,
        2 if object == Object::Mr => 0,
        2 if object == Object::Qp => machine.qpn_base + random.below(2) as u32,
        // Few, so that they are often allocated and freed.
        _ => table.start + random.below(6.min(u64::from(table.end - table.start))) as u32,
    }
}

/// Goal: both answer numbers chosen by software in the same way. Method: random creates and
/// destroys of a few numbers, some of them in use, outside of the table, or with an invalid input.
#[test]
fn chosen_numbers_are_answered_alike() {
    for_each_seed(SEEDS, |seed| {
        let mut both = [machine(Kind::Model), machine(Kind::Rtl)];
        let mut random = SplitMix64::new(seed);
        let mut seen = BTreeSet::new();
        for _ in 0..COMMANDS {
            let object = ALL[random.below(4) as usize];
            let number = some_number(object, &both[0], &mut random);
            let (creates, spoiled) = (random.below(5) < 3, random.below(8) == 0);
            let [model, card] = both.each_mut().map(|machine| {
                if creates {
                    object.create(machine, NewNumber::of(number), spoiled)
                } else {
                    let variant = if object == Object::Mr { 0x11 } else { 0 };
                    let number = u64::from(number) << object.shift() | variant;
                    object.destroy(machine, number)
                }
            });
            assert_eq!(card, model, "{object:?} {number:#x}: creates {creates}");
            seen.insert((creates, format!("{:?}", model.map(drop))));
        }
        // Success, BUSY, NO_RESOURCES, BAD_PARAMETER; success, NO_OBJECT, and BUSY of the CQ.
        assert!(seen.len() >= 6, "{seen:?}");
    });
}

/// Goal: the card allocates each number once, except the ones chosen by software, until none is
/// free; a freed number is not the next one while others are free.
#[test]
fn the_card_chooses_what_is_free() {
    for kind in [Kind::Rtl, Kind::Model] {
        let mut machine = machine(kind);
        for object in OBJECTS {
            let table = object.table(&machine);
            let chosen = [table.start + 7, table.end - 1, table.start + 5];
            let mut given: BTreeSet<u64> = BTreeSet::new();
            for number in chosen {
                let result = object.create(&mut machine, NewNumber::of(number), false);
                given.insert(result.expect("free"));
            }
            let length = 1 << [LOG_CQS, LOG_QPS, LOG_MRS][object as usize];
            for _ in 0..length {
                match object.create(&mut machine, NewNumber::ANY, false) {
                    Ok(number) => assert!(given.insert(number), "{object:?} {number:#x} again"),
                    Err(status) => assert_eq!(status, CommandStatus::NO_RESOURCES),
                }
            }
            let all = (table.end - table.start) as usize;
            assert!(given.len() + 1 >= all, "{object:?}: {given:x?}");
            let some: Vec<u64> = given.iter().copied().step_by(3).collect();
            for number in &some {
                object.destroy(&mut machine, *number).expect("exists");
                given.remove(number);
            }
            for _ in &some {
                let number = object.create(&mut machine, NewNumber::ANY, false);
                assert!(given.insert(number.expect("free")));
            }
            for number in given {
                object.destroy(&mut machine, number).expect("exists");
            }
        }
    }
}

/// Goal: the card does not choose the QPN of the QP that was just destroyed.
#[test]
fn a_qpn_is_used_again_late() {
    let mut machine = machine(Kind::Rtl);
    let mut before = Vec::new();
    for _ in 0..1 << (LOG_QPS - 1) {
        let qpn = Object::Qp.create(&mut machine, NewNumber::ANY, false);
        let qpn = qpn.expect("room");
        assert!(!before.contains(&qpn), "{qpn:#x} after {before:x?}");
        Object::Qp.destroy(&mut machine, qpn).expect("exists");
        before.push(qpn);
    }
}

/// Goal: a reset frees all numbers.
#[test]
fn after_a_reset_all_numbers_are_free() {
    let mut machine = machine(Kind::Rtl);
    for _ in 0..3 {
        for object in OBJECTS {
            let number = object.table(&machine).start + 1;
            let result = object.create(&mut machine, NewNumber::of(number), false);
            assert_eq!(
                result.map(|result| result >> object.shift()),
                Ok(number.into())
            );
        }
        machine.bring_up();
        let cqn = Object::Cq.create(&mut machine, NewNumber::of(CQN), false);
        assert_eq!(cqn, Ok(CQN.into()));
    }
}
