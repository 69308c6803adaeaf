//! Rules that contract 1.6 states for hardware: mailboxes, command entries, doorbells, registers of
//! 64 bits, pages.

use crate::common::memory_unit::*;
use crate::common::{self, CQ_SLOT, Machine, RECEIVE_SLOT, SEND_SLOT, cable, connected, place};
use ferroce_model::translation::mtt::{Mtt, TranslationTable};
use ferroce_model::translation::protection::ProtectionFault;
use ferroce_spec::command::{
    ANY_STATE, CommandCompletion, CommandEntry, CommandOpcode, CommandStatus, ModifyQp,
    QpAttributeMask, ShortModifyQp, input_size,
};
use ferroce_spec::context::{
    AccessRights, CqContext, MemoryEntry, PathMtuCode, QpContext, QpStateCode, TranslationEntry,
};
use ferroce_spec::counter::Counter;
use ferroce_spec::doorbell::{DoorbellKind, DoorbellValue, SLOTS_PER_PAGE};
use ferroce_spec::register::{COUNTERS_OFFSET, offset};
use ferroce_units::Instant;
use zerocopy::{FromBytes, Immutable, IntoBytes};

fn machine() -> Machine {
    Machine::new(1, cable().0)
}

fn count(machine: &Machine, counter: Counter) -> u64 {
    machine.nic.counters().values()[counter as usize]
}

/// Writes `input` at `iova` and runs a command with it.
fn run<V: IntoBytes + Immutable>(
    machine: &mut Machine,
    (opcode, argument): (CommandOpcode, u64),
    iova: u64,
    input: &V,
) -> CommandStatus {
    let mut completion = CommandCompletion::default();
    completion.set_device_owned(true);
    let entry = CommandEntry {
        opcode,
        argument,
        input_iova: iova,
        output_iova: place::OUTPUT,
        input_length: input.as_bytes().len() as u32,
        completion,
        ..CommandEntry::default()
    };
    machine.host.write(iova, input.as_bytes()).expect("mapped");
    CommandStatus(machine.run_command(&entry).completion.status())
}

fn query_qp(machine: &mut Machine) -> QpContext {
    let qpn = u64::from(machine.qpn);
    machine
        .command(CommandOpcode::QUERY_QP, qpn, &0u64)
        .expect("it exists");
    machine.host.read(place::OUTPUT)
}

fn to_init() -> ModifyQp {
    let mut mask = QpAttributeMask::default();
    mask.set_access(true);
    mask.set_p_key(true);
    mask.set_port(true);
    ModifyQp {
        state: QpStateCode::INIT.0.into(),
        current_state: ANY_STATE,
        mask,
        context: QpContext {
            port: 1,
            ..QpContext::default()
        },
        ..ModifyQp::default()
    }
}

#[test]
fn mailboxes_are_aligned() {
    let mut machine = machine();
    let modify = (CommandOpcode::MODIFY_QP, u64::from(machine.qpn));
    for misplaced in [1, 8, 32, 63] {
        let status = run(&mut machine, modify, place::INPUT + misplaced, &to_init());
        assert_eq!(status, CommandStatus::BAD_MAILBOX, "{misplaced}");
    }
    assert_eq!(query_qp(&mut machine).state, QpStateCode::RESET);
    let status = run(&mut machine, modify, place::INPUT + 64, &to_init());
    assert_eq!(status, CommandStatus::SUCCESS);
    assert_eq!(query_qp(&mut machine).state, QpStateCode::INIT);
}

/// Goal: software of contract 1.5 changes QPs as that of 1.6 does.
#[test]
fn the_short_modify_qp_is_taken() {
    let (mut old, mut new) = (machine(), machine());
    let short = ShortModifyQp::from(&to_init());
    let modify = (CommandOpcode::MODIFY_QP, u64::from(old.qpn));
    let status = run(&mut old, modify, place::INPUT, &short);
    assert_eq!(status, CommandStatus::SUCCESS);
    let status = run(&mut new, modify, place::INPUT, &to_init());
    assert_eq!(status, CommandStatus::SUCCESS);
    assert_eq!(query_qp(&mut old), query_qp(&mut new));
    assert_eq!(query_qp(&mut old).state, QpStateCode::INIT);
}

#[test]
fn a_card_without_resize_says_so() {
    let mut machine = Machine::with(1, cable().0, |config| config.cq_resize = false);
    let modify = (CommandOpcode::MODIFY_CQ, u64::from(machine.cqn));
    let mut context = CqContext {
        base: place::DATA,
        log_size: 7,
        moderation_count: 5,
        ..CqContext::default()
    };
    let status = run(&mut machine, modify, place::INPUT, &context);
    assert_eq!(status, CommandStatus::NOT_SUPPORTED);
    context.base = 0;
    let status = run(&mut machine, modify, place::INPUT, &context);
    assert_eq!(status, CommandStatus::SUCCESS);
    let cqn = u64::from(machine.cqn);
    machine
        .command(CommandOpcode::QUERY_CQ, cqn, &0u64)
        .expect("it exists");
    let found: CqContext = machine.host.read(place::OUTPUT);
    assert_eq!((found.base, found.moderation_count), (place::CQ, 5));
}

/// Goal: an entry that the doorbell counts and software owns is passed over, and the next one runs.
#[test]
fn an_entry_of_software_is_passed_over() {
    let mut machine = machine();
    let consumer = machine
        .nic
        .read32(machine.now, offset::command_queue_consumer);
    let entry_of = |owned: bool| {
        let mut completion = CommandCompletion::default();
        completion.set_device_owned(owned);
        CommandEntry {
            opcode: CommandOpcode::NOP,
            argument: 0x77,
            result: 0x99,
            completion,
            ..CommandEntry::default()
        }
    };
    let before = (
        count(&machine, Counter::commands),
        count(&machine, Counter::command_errors),
    );
    let ended = machine.run_command(&entry_of(false));
    assert_eq!(ended, entry_of(false), "nothing is written");
    let now = machine
        .nic
        .read32(machine.now, offset::command_queue_consumer);
    assert_eq!(now, consumer.wrapping_add(1));
    let after = (
        count(&machine, Counter::commands),
        count(&machine, Counter::command_errors),
    );
    assert_eq!(after, (before.0, before.1 + 1));
    assert_eq!(machine.run_command(&entry_of(true)).result, 0x77);
}

/// Rings; returns true if the doorbell was counted as an error.
fn is_refused(machine: &mut Machine, slot: u32, kind: DoorbellKind, index: u32) -> bool {
    let before = count(machine, Counter::doorbell_errors);
    let number = match kind {
        DoorbellKind::CQ_ARM => machine.cqn,
        _ => machine.qpn,
    };
    machine.ring(slot, DoorbellValue::new(kind, number, index));
    machine.run(1);
    count(machine, Counter::doorbell_errors) > before
}

/// Goal: a doorbell in RESET changes nothing, so that one that comes late does not reach the next
/// life of the queue pair.
#[test]
fn doorbells_in_reset_are_refused() {
    let mut machine = machine();
    assert!(is_refused(
        &mut machine,
        SEND_SLOT,
        DoorbellKind::SEND_QUEUE,
        1
    ));
    assert!(is_refused(
        &mut machine,
        RECEIVE_SLOT,
        DoorbellKind::RECEIVE_QUEUE,
        1
    ));
    let modify = (CommandOpcode::MODIFY_QP, u64::from(machine.qpn));
    run(&mut machine, modify, place::INPUT, &to_init());
    let context = query_qp(&mut machine);
    assert_eq!((context.send_producer, context.receive_producer), (0, 0));
    assert!(!is_refused(
        &mut machine,
        RECEIVE_SLOT,
        DoorbellKind::RECEIVE_QUEUE,
        3
    ));
    assert_eq!(query_qp(&mut machine).receive_producer, 3);
}

/// Goal: an index may neither go back nor be more than a ring ahead, and has to come by its slot.
#[test]
fn doorbells_move_forward_within_the_ring() {
    let (mut machine, _peer) = connected(PathMtuCode::MTU_1024);
    let receive = DoorbellKind::RECEIVE_QUEUE;
    let ring = 1 << common::LOG_RECEIVES;
    assert!(is_refused(&mut machine, RECEIVE_SLOT, receive, ring + 1));
    assert!(!is_refused(&mut machine, RECEIVE_SLOT, receive, 5));
    assert!(
        !is_refused(&mut machine, RECEIVE_SLOT, receive, 5),
        "the same again"
    );
    for index in [4, 0, u32::MAX] {
        assert!(
            is_refused(&mut machine, RECEIVE_SLOT, receive, index),
            "{index}"
        );
    }
    for slot in [SEND_SLOT, CQ_SLOT, RECEIVE_SLOT + SLOTS_PER_PAGE, 0] {
        assert!(is_refused(&mut machine, slot, receive, 6), "slot {slot}");
    }
    assert!(is_refused(
        &mut machine,
        RECEIVE_SLOT,
        DoorbellKind(0x7f),
        6
    ));
    assert!(
        !is_refused(&mut machine, RECEIVE_SLOT, receive, ring),
        "all of the ring"
    );
    assert_eq!(query_qp(&mut machine).receive_producer, ring);
}

/// Goal: a queue pair with a reserved slot, or with one behind the last page, is refused.
#[test]
fn queues_have_separate_slots() {
    let mut machine = machine();
    let good = query_qp(&mut machine);
    for slot in [
        0,
        7,
        SLOTS_PER_PAGE,
        SLOTS_PER_PAGE + 7,
        512 * SLOTS_PER_PAGE,
    ] {
        for of_receives in [false, true] {
            let mut context = good;
            if of_receives {
                context.receive_doorbell_slot = slot;
            } else {
                context.send_doorbell_slot = slot;
            }
            let result = machine.command(CommandOpcode::CREATE_QP, 0, &context);
            assert_eq!(result, Err(CommandStatus::BAD_PARAMETER), "slot {slot}");
        }
    }
    assert!(machine.command(CommandOpcode::CREATE_QP, 0, &good).is_ok());
}

/// Goal: two reads of 4 bytes, low half first, give one value of the clock, also when the low half
/// overflows between them. A high half is kept for one read.
#[test]
fn the_high_half_waits_for_its_read() {
    let machine = machine();
    let (low, high) = (offset::clock, offset::clock + 4);
    let read = |ns: u64, at: u32| machine.nic.read32(Instant::from_ns(ns), at);
    let last = (7 << 32) - 1;
    assert_eq!(read(last, low), u32::MAX);
    assert_eq!(read(last + 100, high), 6);
    assert_eq!(
        read(last + 100, high),
        7,
        "without a low half, the present one"
    );
    assert_eq!(read(last, low), u32::MAX);
    read(last + 100, COUNTERS_OFFSET);
    assert_eq!(read(last + 100, high), 7, "another register was read");
}

/// A region of 2 MiB pages, whose second page is at an IOVA that is no multiple of its size.
fn region_of_large_pages(unit: &mut Unit, log_page_size: u8) -> u32 {
    let mut access = AccessRights::default();
    access.set_remote_write(true);
    access.set_local_write(true);
    let key = unit.region(access);
    let entry = unit.entry(key);
    let mut word = entry.word;
    word.set_log_page_size(log_page_size);
    let entry = MemoryEntry {
        word,
        start: 0,
        first_page_offset: 0,
        length: 4 << 20,
        ..entry
    };
    let index = u64::from(key >> 8);
    unit.host
        .write(place::MPT + index * 64, entry.as_bytes())
        .expect("mapped");
    unit.memory.install_tables(&tables());
    key
}

/// A translation table alone.
fn translation_table() -> Mtt {
    let mut mtt = Mtt::new(CACHE);
    mtt.reset(place::MTT, 6);
    mtt
}

fn page(unit: &mut Unit, index: u64, iova: u64) {
    let entry = TranslationEntry::new(iova);
    unit.host
        .write(place::MTT + 8 * index, entry.as_bytes())
        .expect("mapped");
}

#[test]
fn pages_are_aligned_to_their_size() {
    let mut unit = Unit::new();
    let key = region_of_large_pages(&mut unit, 21);
    let entry = MemoryEntry::read_from_bytes(
        &unit.host.memory[(place::MPT + u64::from(key >> 8) * 64) as usize..][..64],
    )
    .expect("64 bytes");
    page(&mut unit, 0, 0x20_0000);
    page(&mut unit, 1, 0x40_0000 + 0x7000);
    let mut mtt = translation_table();
    let mut translate = |address: u64| {
        on!(unit, |_memory, dma| mtt.translate(&entry, address, dma)).expect("present")
    };
    assert_eq!(translate(0x12_3456).iova, 0x32_3456);
    let run = translate(0x20_0000 + 0x1_7010);
    assert_eq!((run.iova, run.length), (0x41_7010, 0x20_0000 - 0x1_7010));
}

/// Goal: a page size that software has written over the entry is a fault, not another region.
#[test]
fn other_page_sizes_are_faults() {
    for log_page_size in (0..=u8::MAX).filter(|log| ![12, 21, 30].contains(log)) {
        let mut unit = Unit::new();
        let entry = MemoryEntry {
            length: 0x1000,
            ..MemoryEntry::default()
        };
        let mut word = entry.word;
        word.set_log_page_size(log_page_size);
        let entry = MemoryEntry { word, ..entry };
        let found = on!(unit, |_memory, dma| translation_table()
            .translate(&entry, 0, dma));
        assert_eq!(
            found,
            Err(ProtectionFault::Page { address: 0 }),
            "{log_page_size}"
        );
    }
}

/// Goal: hits and misses after a reset do not depend on what was before it. Method: the same
/// accesses to more lines than a set holds, on a fresh table and on one that was used and reset.
#[test]
fn a_reset_forgets_whose_turn_it_is() {
    let misses = |used: bool| {
        let mut unit = Unit::new();
        let entry = {
            let key = unit.region(AccessRights::default());
            unit.entry(key)
        };
        let entry = MemoryEntry {
            start: 0,
            first_page_offset: 0,
            length: 64 << 12,
            ..entry
        };
        (0..64).for_each(|index| page(&mut unit, index, place::DATA + index * 4096));
        let mut mtt = translation_table();
        let touch = |unit: &mut Unit, mtt: &mut Mtt, lines: &[u64]| {
            for line in lines {
                let address = line * 8 * 4096;
                on!(unit, |_memory, dma| mtt.translate(&entry, address, dma)).expect("present");
            }
        };
        if used {
            touch(&mut unit, &mut mtt, &[0, 2, 4]);
            mtt.reset(place::MTT, 6);
            unit.counters = ferroce_model::Counters::new();
        }
        touch(&mut unit, &mut mtt, &[0, 2, 4, 0, 2]);
        unit.counters.values()[Counter::mtt_misses as usize]
    };
    assert_eq!(misses(true), misses(false));
}

#[test]
fn modify_qp_is_as_long_as_the_contract_says() {
    assert_eq!(input_size(CommandOpcode::MODIFY_QP), 64 + QpContext::SIZE);
}
