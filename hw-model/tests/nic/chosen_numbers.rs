//! Numbers of objects that software chooses (contract 1.9): given as asked, refused when they are
//! taken or not in the table, free again after the object, and mixed with numbers that the card
//! chooses.

use crate::common::{
    LOG_TABLE, Machine, RECEIVE_SLOT, REGION_START, SEND_SLOT, all_rights, cable, place,
};
use ferroce_spec::command::{CommandOpcode, CommandStatus, DeviceCapabilities, NewNumber};
use ferroce_spec::context::{
    CqContext, GSI_QPN, MemoryEntry, MemoryEntryWord, QpContext, ServiceCode, SrqContext,
};

/// First QPN of machine 1.
const BASE: u32 = 0x1_0000;
const BUSY: Result<u64, CommandStatus> = Err(CommandStatus::BUSY);
const NONE: Result<u64, CommandStatus> = Err(CommandStatus::NO_RESOURCES);

/// A kind of object: how to create and destroy it.
#[derive(Clone, Copy)]
struct Kind {
    create: CommandOpcode,
    destroy: CommandOpcode,
    /// The first number in the table, and the end of the table.
    numbers: (u32, u32),
    /// Bits of the result below the number.
    shift: u32,
}

const KINDS: [Kind; 4] = [
    Kind {
        create: CommandOpcode::CREATE_CQ,
        destroy: CommandOpcode::DESTROY_CQ,
        numbers: (0, 1 << LOG_TABLE),
        shift: 0,
    },
    Kind {
        create: CommandOpcode::CREATE_QP,
        destroy: CommandOpcode::DESTROY_QP,
        numbers: (BASE + 2, BASE + (1 << LOG_TABLE)),
        shift: 0,
    },
    Kind {
        create: CommandOpcode::CREATE_SRQ,
        destroy: CommandOpcode::DESTROY_SRQ,
        numbers: (1, 1 << LOG_TABLE),
        shift: 0,
    },
    Kind {
        create: CommandOpcode::CREATE_MR,
        destroy: CommandOpcode::DESTROY_MR,
        numbers: (1, 1 << LOG_TABLE),
        shift: 8,
    },
];

fn queue_pair(service: ServiceCode) -> QpContext {
    let mut context = QpContext {
        service,
        send_doorbell_slot: SEND_SLOT,
        receive_doorbell_slot: RECEIVE_SLOT,
        ..QpContext::default()
    };
    context.shape.set_log_receive_stride(4);
    context
}

/// Runs the create of a kind; the result without the variant of a key.
fn create(machine: &mut Machine, kind: Kind, argument: NewNumber) -> Result<u64, CommandStatus> {
    let argument = argument.bits();
    let result = match kind.create {
        CommandOpcode::CREATE_CQ => machine.command(kind.create, argument, &CqContext::default()),
        CommandOpcode::CREATE_QP => {
            let context = queue_pair(ServiceCode::UNRELIABLE_DATAGRAM);
            machine.command(kind.create, argument, &context)
        }
        CommandOpcode::CREATE_SRQ => {
            let context = SrqContext {
                log_stride: 5,
                doorbell_slot: RECEIVE_SLOT,
                ..SrqContext::default()
            };
            machine.command(kind.create, argument, &context)
        }
        _ => {
            let mut word = MemoryEntryWord::default();
            word.set_direct(true);
            let region = MemoryEntry {
                word,
                key: 0x5a,
                access: all_rights(),
                start: REGION_START,
                length: 64,
                translation: place::DATA,
                ..MemoryEntry::default()
            };
            machine.command(kind.create, argument, &region)
        }
    };
    result.map(|result| result >> kind.shift)
}

fn choose(machine: &mut Machine, kind: Kind, number: u32) -> Result<u64, CommandStatus> {
    create(machine, kind, NewNumber::of(number))
}

fn destroy(machine: &mut Machine, kind: Kind, number: u64) {
    let variant = if kind.shift == 8 { 0x5a } else { 0 };
    let argument = number << kind.shift | variant;
    machine
        .command(kind.destroy, argument, &[0u8; 0])
        .unwrap_or_else(|status| panic!("{:?} of {argument:#x}: {status:?}", kind.destroy));
}

fn machine() -> Machine {
    Machine::new(1, cable().0)
}

#[test]
fn the_number_is_given_once() {
    let mut machine = machine();
    for kind in KINDS {
        for number in [kind.numbers.1 - 1, kind.numbers.0 + 5, kind.numbers.0 + 3] {
            assert_eq!(choose(&mut machine, kind, number), Ok(number.into()));
            assert_eq!(choose(&mut machine, kind, number), BUSY);
            destroy(&mut machine, kind, number.into());
            assert_eq!(choose(&mut machine, kind, number), Ok(number.into()));
        }
    }
}

#[test]
fn a_number_outside_of_the_table_is_refused() {
    let mut machine = machine();
    for kind in KINDS {
        let (first, end) = kind.numbers;
        for number in [first.wrapping_sub(1), end, end + 1, u32::MAX] {
            assert_eq!(choose(&mut machine, kind, number), NONE, "{number:#x}");
        }
    }
}

/// Goal: both ways of choosing see the same free numbers. Method: some are chosen, in any order,
/// the card chooses until it has no more, and each number was given once.
#[test]
fn the_card_chooses_among_the_others() {
    let mut machine = machine();
    for kind in KINDS {
        let (first, end) = kind.numbers;
        let mut given = Vec::new();
        for number in [first + 9, first + 1, end - 2, first + 4] {
            given.push(choose(&mut machine, kind, number).expect("free"));
        }
        destroy(&mut machine, kind, given.swap_remove(1));
        for _ in 0..end - first {
            match create(&mut machine, kind, NewNumber::ANY) {
                Ok(number) => given.push(number),
                Err(status) => {
                    assert_eq!(status, CommandStatus::NO_RESOURCES);
                    break;
                }
            }
        }
        assert_eq!(create(&mut machine, kind, NewNumber::ANY), NONE);
        given.sort_unstable();
        let count = given.len();
        given.dedup();
        assert_eq!(given.len(), count, "a number was given twice");
        // The machine has one CQ, one QP and one region already.
        assert!(
            count as u32 >= end - first - 1,
            "{count} of {}",
            end - first
        );
        for number in given {
            destroy(&mut machine, kind, number);
        }
    }
}

/// Goal: a create that fails takes no number, and returns the fault of its input.
#[test]
fn a_create_that_fails_leaves_the_number_free() {
    let mut machine = machine();
    let number = 7;
    let argument = NewNumber::of(number).bits();
    let bad = CqContext {
        base: 1,
        ..CqContext::default()
    };
    let result = machine.command(CommandOpcode::CREATE_CQ, argument, &bad);
    assert_eq!(result, Err(CommandStatus::BAD_PARAMETER));
    assert_eq!(choose(&mut machine, KINDS[0], number), Ok(7));
    let result = machine.command(CommandOpcode::CREATE_CQ, argument, &bad);
    assert_eq!(result, Err(CommandStatus::BAD_PARAMETER));
}

#[test]
fn the_gsi_has_its_number_and_no_other() {
    let mut machine = machine();
    let context = queue_pair(ServiceCode::GSI);
    let mut create = |number: u32| {
        let argument = NewNumber::of(number).bits();
        machine.command(CommandOpcode::CREATE_QP, argument, &context)
    };
    assert_eq!(create(BASE + 4), NONE);
    assert_eq!(create(BASE + 1), NONE);
    assert_eq!(create(GSI_QPN), Ok(GSI_QPN.into()));
    assert_eq!(create(GSI_QPN), BUSY);
    assert_eq!(choose(&mut machine, KINDS[1], GSI_QPN), NONE);
}

/// Goal: a card that draws its numbers says that it takes none, and ignores them.
#[test]
fn a_card_that_draws_numbers_does_not_have_the_feature() {
    for seed in [None, Some(3)] {
        let mut machine = Machine::with(1, cable().0, |config| config.number_seed = seed);
        machine
            .command(CommandOpcode::QUERY_DEVICE, 0, &[0u8; 0])
            .expect("always");
        let answer: DeviceCapabilities = machine.host.read(place::OUTPUT);
        assert_eq!(answer.features.chosen_numbers(), seed.is_none());
        let next = create(&mut machine, KINDS[0], NewNumber::ANY).expect("room");
        let chosen = choose(&mut machine, KINDS[0], next as u32 + 5).expect("room");
        assert_eq!(chosen == next + 5, seed.is_none());
    }
}
