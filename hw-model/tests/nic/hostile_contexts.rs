//! A driver that scribbles over the context tables, which lie in its own memory: the device never
//! computes with what it finds there before it has looked at it.

use crate::common::{Machine, REGION_START, all_rights, cable, place, run_both};
use ferroce_model::config::CacheShape;
use ferroce_model::{Doorbell, NicConfig};
use ferroce_spec::command::{CommandOpcode, CommandStatus};
use ferroce_spec::context::{
    CqContext, MemoryEntry, MemoryEntryWord, PathMtuCode, QpContext, SrqContext, TranslationEntry,
};
use ferroce_spec::wqe::SendOpcode;
use proptest::prelude::*;
use zerocopy::IntoBytes;

/// The smallest cache: each access to another entry reads host memory again.
const ONE_ENTRY: CacheShape = CacheShape {
    log_sets: 0,
    ways: 1,
    mshrs: 1,
};

fn forgetful(config: &mut NicConfig) {
    config.mpt_cache = ONE_ENTRY;
    config.mtt_cache = ONE_ENTRY;
    config.cqc_cache = ONE_ENTRY;
    config.qpc_cache = ONE_ENTRY;
    config.srqc_cache = ONE_ENTRY;
}

/// Two connected machines that remember no context.
fn connected() -> (Machine, Machine) {
    let (left, right) = cable();
    let mut a = Machine::with(1, left, forgetful);
    let mut b = Machine::with(2, right, forgetful);
    let (who_a, who_b) = (a.identity(), b.identity());
    a.connect(who_b, PathMtuCode::MTU_1024);
    b.connect(who_a, PathMtuCode::MTU_1024);
    (a, b)
}

/// Returns the address of the entry of `key`.
fn entry_of(key: u32) -> u64 {
    place::MPT + u64::from(key >> 8) * MemoryEntry::SIZE as u64
}

/// A region as it stands in the table.
fn overwritten(key: u32, change: impl FnOnce(&mut MemoryEntry)) -> MemoryEntry {
    let mut word = MemoryEntryWord::default();
    word.set_valid(true);
    word.set_log_page_size(12);
    let mut entry = MemoryEntry {
        word,
        key,
        pd: 7,
        access: all_rights(),
        start: REGION_START,
        length: place::DATA_SIZE,
        ..MemoryEntry::default()
    };
    change(&mut entry);
    entry
}

fn destroy(machine: &mut Machine, key: u32) -> Result<u64, CommandStatus> {
    machine.command(CommandOpcode::DESTROY_MR, u64::from(key), &[0u8; 0])
}

#[test]
fn region_whose_pages_are_overwritten_can_be_destroyed() {
    let mut machine = Machine::with(1, cable().0, forgetful);
    let changes: [fn(&mut MemoryEntry); 4] = [
        |entry| entry.translation = u64::MAX,
        |entry| entry.length = u64::MAX,
        |entry| (entry.first_page_offset, entry.length) = (u64::MAX, u64::MAX),
        |entry| entry.word.set_log_page_size(63),
    ];
    for change in changes {
        let key = machine.create_region(all_rights()).expect("room");
        let other = machine.create_region(all_rights()).expect("room");
        let entry = overwritten(key, change);
        machine
            .host
            .write(entry_of(key), entry.as_bytes())
            .expect("mapped");
        assert_eq!(destroy(&mut machine, key), Ok(0), "{entry:?}");
        assert_eq!(destroy(&mut machine, other), Ok(0));
    }
}

#[test]
fn access_that_would_end_behind_the_last_address_is_refused() {
    let (mut a, mut b) = connected();
    let key = b.create_region(all_rights()).expect("room");
    let other = b.create_region(all_rights()).expect("room");
    let entry = overwritten(key, |entry| {
        (entry.start, entry.length) = (u64::MAX - 9, u64::MAX);
        entry.word.set_log_page_size(3);
    });
    assert_eq!(destroy(&mut b, other), Ok(0), "its entry leaves the cache");
    b.host
        .write(entry_of(key), entry.as_bytes())
        .expect("mapped");
    let remote = Some((u64::MAX - 9, key));
    a.post(SendOpcode::RDMA_WRITE, remote, a.segment(0, 4000));
    run_both(&mut a, &mut b, 20);
    let status = a.poll().expect("a CQE").word.status();
    assert_eq!(status, ferroce_spec::cqe::CqeStatus::REMOTE_ACCESS.0);
}

/// A window names itself in its entry; what it says there is not who it is.
#[test]
fn window_that_claims_another_place_is_destroyed_alone() {
    let mut machine = Machine::with(1, cable().0, forgetful);
    let mut word = MemoryEntryWord::default();
    word.set_window(true);
    let window = MemoryEntry {
        word,
        pd: 7,
        ..MemoryEntry::default()
    };
    let region = machine.create_region(all_rights()).expect("room");
    for claimed in [region, u32::MAX] {
        let key = machine
            .command(CommandOpcode::CREATE_MR, 0, &window)
            .expect("room") as u32;
        let query = machine.command(CommandOpcode::QUERY_MR, u64::from(region), &[0u8; 0]);
        assert_eq!(query, Ok(0), "the window leaves the cache");
        let mut entry = overwritten(claimed, |entry| entry.length = 0);
        entry.word.set_window(true);
        machine
            .host
            .write(entry_of(key), entry.as_bytes())
            .expect("mapped");
        assert_eq!(destroy(&mut machine, key), Ok(0));
        assert_eq!(
            destroy(&mut machine, key),
            Err(CommandStatus::NO_OBJECT),
            "it was destroyed"
        );
    }
    let places = [(); 3].map(|()| machine.create_region(all_rights()).expect("room") >> 8);
    assert!(
        !places.contains(&(region >> 8)),
        "no place is given away twice: {places:?}"
    );
    assert_eq!(destroy(&mut machine, region), Ok(0));
}

/// Numbers at which arithmetic ends, and some that are near those in use.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        Just(u64::MAX),
        Just(u64::MAX - 1),
        Just(1 << 63),
        Just((1 << 63) - 1),
        any::<u64>(),
        0..64u64,
        REGION_START - 64..REGION_START + 64,
        place::DATA..place::DATA + 4096,
    ]
}

/// Table and bytes of an entry of it.
fn table() -> impl Strategy<Value = (u64, usize)> {
    prop::sample::select(vec![
        (place::MPT, MemoryEntry::SIZE),
        (place::MPT, MemoryEntry::SIZE),
        (place::MTT, TranslationEntry::SIZE),
        (place::CQC, CqContext::SIZE),
        (place::QPC, QpContext::SIZE),
        (place::SRQC, SrqContext::SIZE),
    ])
}

/// A byte of an entry; mostly the first of a word.
fn byte() -> impl Strategy<Value = usize> {
    prop_oneof![3 => (0..20usize).prop_map(|word| 8 * word), 1 => 0..160usize]
}

/// What the driver does.
#[derive(Debug, Clone)]
enum Act {
    /// Overwrites a word of an entry: table, entry, byte of it, value, bytes.
    Scribble((u64, usize), u64, usize, u64, usize),
    /// Posts a request: operation, bytes, offset of the peer's address.
    Post(SendOpcode, u32, u64),
    Receive(u32),
    /// A command on a memory key, a CQ, a queue pair or a shared receive queue.
    Command(CommandOpcode, u64),
    Doorbell(u32, u64),
}

fn act() -> impl Strategy<Value = Act> {
    let operations = prop::sample::select(vec![
        SendOpcode::RDMA_WRITE,
        SendOpcode::RDMA_READ,
        SendOpcode::SEND,
        SendOpcode::RDMA_WRITE_IMMEDIATE,
    ]);
    let commands = prop::sample::select(vec![
        CommandOpcode::DESTROY_MR,
        CommandOpcode::QUERY_MR,
        CommandOpcode::MODIFY_MR,
        CommandOpcode::QUERY_CQ,
        CommandOpcode::MODIFY_CQ,
        CommandOpcode::DESTROY_CQ,
        CommandOpcode::QUERY_QP,
        CommandOpcode::QUERY_SRQ,
        CommandOpcode::MODIFY_SRQ,
        CommandOpcode::DESTROY_SRQ,
    ]);
    let argument = prop_oneof![
        0..4u64,
        (0..5u64, 0..3u64).prop_map(|(i, v)| (i << 8) | (0x5a + v))
    ];
    prop_oneof![
        4 => (table(), 0..5u64, byte(), number(), prop_oneof![3 => Just(8), 1 => 1..8usize])
            .prop_map(|(table, entry, byte, value, length)| Act::Scribble(table, entry, byte, value, length)),
        3 => (operations, 0..9000u32, 0..64u64).prop_map(|(o, l, at)| Act::Post(o, l, at)),
        1 => (0..9000u32).prop_map(Act::Receive),
        3 => (commands, argument).prop_map(|(opcode, argument)| Act::Command(opcode, argument)),
        1 => (0..16u32, number()).prop_map(|(slot, value)| Act::Doorbell(slot, value)),
    ]
}

fn execute(act: &Act, own: &mut Machine, peer: u32) {
    match *act {
        Act::Scribble((table, size), entry, byte, value, length) => {
            let iova = table + entry * size as u64 + (byte % size) as u64;
            own.host
                .write(iova, &value.to_le_bytes()[..length])
                .expect("inside of memory");
        }
        Act::Post(opcode, length, at) => {
            let remote = (opcode != SendOpcode::SEND).then_some((REGION_START + at, peer));
            own.post(opcode, remote, own.segment(0, length));
        }
        Act::Receive(length) => own.post_receive(own.segment(0, length)),
        Act::Command(opcode, argument) => {
            // Any status will do.
            let _ = own.command(opcode, argument, &[0u8; 300]);
        }
        Act::Doorbell(slot, value) => own.host.doorbells.push_back(Doorbell { slot, value }),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn context_tables_that_are_overwritten_are_survived(
        acts in prop::collection::vec((any::<bool>(), act()), 1..40),
    ) {
        let (mut a, mut b) = connected();
        for machine in [&mut a, &mut b] {
            for _ in 0..3 {
                machine.create_region(all_rights()).expect("room");
            }
            machine.create_srq(0, None);
        }
        let keys = [a.key, b.key];
        for (is_a, act) in &acts {
            let (own, peer) = if *is_a {
(&mut a, keys[1])
} else {
(&mut b, keys[0])
};
            execute(act, own, peer);
            run_both(&mut a, &mut b, 2);
        }
        run_both(&mut a, &mut b, 20);
    }
}
