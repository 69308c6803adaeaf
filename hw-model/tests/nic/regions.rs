//! Memory regions of every kind, made and changed by commands and reached by a peer.

use crate::common::{Machine, REGION_START, all_rights, connected, place, run_both};
use ferroce_spec::command::{CommandOpcode, CommandStatus};
use ferroce_spec::context::{
    AccessRights, MemoryEntry, MemoryEntryWord, PathMtuCode, TranslationEntry,
};
use ferroce_spec::cqe::CqeStatus;
use ferroce_spec::register::BAR4_SIZE;
use ferroce_spec::wqe::{BindSegment, DataSegment, SendOpcode};
use proptest::prelude::*;
use zerocopy::IntoBytes;

/// The kinds of regions that have no page size.
fn word(set: fn(&mut MemoryEntryWord, bool)) -> MemoryEntryWord {
    let mut word = MemoryEntryWord::default();
    set(&mut word, true);
    word
}

fn region(word: MemoryEntryWord, length: u64) -> MemoryEntry {
    MemoryEntry {
        word,
        key: 0x77,
        pd: 7,
        access: all_rights(),
        start: REGION_START,
        length,
        ..MemoryEntry::default()
    }
}

fn create(machine: &mut Machine, entry: &MemoryEntry) -> Result<u32, CommandStatus> {
    let key = machine.command(CommandOpcode::CREATE_MR, 0, entry)?;
    Ok(key as u32)
}

fn modify(machine: &mut Machine, key: u32, entry: &MemoryEntry) -> Result<u32, CommandStatus> {
    let key = machine.command(CommandOpcode::MODIFY_MR, u64::from(key), entry)?;
    Ok(key as u32)
}

fn query(machine: &mut Machine, key: u32) -> Result<MemoryEntry, CommandStatus> {
    machine.command(CommandOpcode::QUERY_MR, u64::from(key), &[0u8; 0])?;
    Ok(machine.host.read(place::OUTPUT))
}

fn destroy(machine: &mut Machine, key: u32) -> Result<u64, CommandStatus> {
    machine.command(CommandOpcode::DESTROY_MR, u64::from(key), &[0u8; 0])
}

/// Lets `a` carry an operation out on the memory of `b`.
fn operate(
    (a, b): (&mut Machine, &mut Machine),
    opcode: SendOpcode,
    remote: (u64, u32),
    data: DataSegment,
) -> CqeStatus {
    a.post(opcode, Some(remote), data);
    run_both(a, b, 20);
    CqeStatus(a.poll().expect("a CQE").word.status())
}

#[test]
fn null_region_reads_as_zeros_and_forgets_writes() {
    let (mut a, mut b) = connected(PathMtuCode::MTU_1024);
    let mut everywhere = region(word(MemoryEntryWord::set_null), u64::MAX);
    everywhere.start = 0;
    let key = create(&mut b, &everywhere).expect("room");
    a.data(0, 5000).fill(0xee);
    let segment = a.segment(0, 5000);
    let pair = (&mut a, &mut b);
    let status = operate(pair, SendOpcode::RDMA_WRITE, (1 << 63, key), segment);
    assert_eq!(status, CqeStatus::SUCCESS);
    let pair = (&mut a, &mut b);
    let status = operate(pair, SendOpcode::RDMA_READ, (1 << 63, key), segment);
    assert_eq!(status, CqeStatus::SUCCESS);
    assert!(a.data(0, 5000).iter().all(|byte| *byte == 0));

    // As a local key: the source of a WRITE, and where a READ is not wanted.
    let local = create(&mut a, &everywhere).expect("room");
    let nowhere = DataSegment {
        address: 12345,
        length: 3000,
        l_key: local,
    };
    b.data(0, 4000).fill(0xdd);
    let remote = (REGION_START, b.key);
    for opcode in [SendOpcode::RDMA_READ, SendOpcode::RDMA_WRITE] {
        let status = operate((&mut a, &mut b), opcode, remote, nowhere);
        assert_eq!(status, CqeStatus::SUCCESS);
    }
    assert!(b.data(0, 3000).iter().all(|byte| *byte == 0));
    assert_eq!(b.data(3000, 1), [0xdd]);
}

#[test]
fn region_on_device_memory_is_that_memory() {
    let (mut a, mut b) = connected(PathMtuCode::MTU_1024);
    let mut entry = region(word(MemoryEntryWord::set_device_memory), 0x1_0000);
    entry.translation = 0x2_0040;
    let key = create(&mut b, &entry).expect("room");
    a.data(0, 5000).fill(0xa5);
    let segment = a.segment(0, 5000);
    let remote = (REGION_START + 8, key);
    let status = operate((&mut a, &mut b), SendOpcode::RDMA_WRITE, remote, segment);
    assert_eq!(status, CqeStatus::SUCCESS);
    let mut found = [0; 5002];
    b.nic.read_device_memory(0x2_0047, &mut found);
    assert_eq!((found[0], found[5001]), (0, 0));
    assert!(found[1..5001].iter().all(|byte| *byte == 0xa5));

    b.nic.write_device_memory(0x2_0048, &[1, 2, 3]);
    let status = operate((&mut a, &mut b), SendOpcode::RDMA_READ, remote, segment);
    assert_eq!(status, CqeStatus::SUCCESS);
    assert_eq!(a.data(0, 4), [1, 2, 3, 0xa5]);

    let behind = (REGION_START + 0x1_0000, key);
    let status = operate((&mut a, &mut b), SendOpcode::RDMA_READ, behind, segment);
    assert_eq!(status, CqeStatus::REMOTE_ACCESS);
}

#[test]
fn regions_that_cannot_be_are_refused() {
    let (mut a, _b) = connected(PathMtuCode::MTU_1024);
    let length = u64::from(BAR4_SIZE);
    let device = region(word(MemoryEntryWord::set_device_memory), length);
    create(&mut a, &device).expect("all of it");
    let mut two_kinds = word(MemoryEntryWord::set_null);
    two_kinds.set_direct(true);
    let mut write_only = AccessRights::default();
    write_only.set_remote_write(true);
    let null = region(word(MemoryEntryWord::set_null), 64);
    let bad = [
        MemoryEntry {
            length: length + 1,
            ..device
        },
        MemoryEntry {
            translation: 1,
            ..device
        },
        MemoryEntry {
            translation: u64::MAX,
            ..device
        },
        MemoryEntry {
            start: u64::MAX,
            ..null
        },
        MemoryEntry {
            word: two_kinds,
            ..null
        },
        MemoryEntry {
            access: write_only,
            ..null
        },
        MemoryEntry {
            word: MemoryEntryWord::default(),
            ..null
        },
    ];
    for (index, entry) in bad.iter().enumerate() {
        let refused = Err(CommandStatus::BAD_PARAMETER);
        assert_eq!(create(&mut a, entry), refused, "case {index}");
        let key = a.key;
        assert_eq!(modify(&mut a, key, entry), refused, "case {index}");
    }
    let key = a.key;
    assert_eq!(query(&mut a, key).expect("unchanged").key, key);
}

#[test]
fn fields_of_the_device_are_not_taken_from_software() {
    let (mut a, _b) = connected(PathMtuCode::MTU_1024);
    let mut forged = region(word(MemoryEntryWord::set_null), 64);
    forged.word.set_bound(true);
    forged.word.set_window_type_2(true);
    (forged.windows, forged.region_key, forged.qpn) = (3, a.key, 1);
    let key = create(&mut a, &forged).expect("room");
    let found = query(&mut a, key).expect("there");
    assert_eq!((found.windows, found.region_key, found.qpn), (0, 0, 0));
    assert!(!found.word.bound() && !found.word.window_type_2());

    forged.word = word(MemoryEntryWord::set_window);
    forged.word.set_bound(true);
    let key = create(&mut a, &forged).expect("room");
    let found = query(&mut a, key).expect("there");
    assert_eq!((found.length, found.access), (0, AccessRights::default()));
    assert!(found.word.window() && !found.word.bound() && !found.word.null());
}

#[test]
fn region_that_is_registered_anew_is_reached_under_its_new_key_only() {
    let (mut a, mut b) = connected(PathMtuCode::MTU_1024);
    let old = b.key;
    // The same pages in another order, at another address.
    for page in 0..8u64 {
        let entry = TranslationEntry::new(place::DATA + (7 - page) * 4096);
        let iova = place::MTT + 2048 + page * 8;
        b.host.write(iova, entry.as_bytes()).expect("mapped");
    }
    let mut pages = MemoryEntryWord::default();
    pages.set_log_page_size(12);
    let moved = MemoryEntry {
        key: old + 1,
        start: 0x5000_0100,
        length: 0x7000,
        translation: 256,
        first_page_offset: 0x100,
        ..region(pages, 0)
    };
    let new = modify(&mut b, old, &moved).expect("good");
    assert_eq!(new, old & !0xff | (old + 1) & 0xff);
    a.data(0, 1).fill(0x42);
    let segment = a.segment(0, 1);
    let remote = (0x5000_1100, new);
    let status = operate((&mut a, &mut b), SendOpcode::RDMA_WRITE, remote, segment);
    assert_eq!(status, CqeStatus::SUCCESS);
    assert_eq!(b.data(6 * 4096 + 0x100, 1), [0x42]);
    assert_eq!(query(&mut b, old), Err(CommandStatus::NO_OBJECT));
    assert_eq!(modify(&mut b, old, &moved), Err(CommandStatus::NO_OBJECT));
    assert_eq!(destroy(&mut b, old), Err(CommandStatus::NO_OBJECT));
    let remote = (0x5000_1100, old);
    let status = operate((&mut a, &mut b), SendOpcode::RDMA_WRITE, remote, segment);
    assert_eq!(status, CqeStatus::REMOTE_ACCESS);
    destroy(&mut b, new).expect("its key");
}

#[test]
fn pages_that_share_a_line_of_the_translation_cache_are_seen_when_they_are_registered() {
    let (mut a, mut b) = connected(PathMtuCode::MTU_1024);
    let mut pages = MemoryEntryWord::default();
    pages.set_log_page_size(12);
    let segment = a.segment(0, 16);
    for page in 0..8u64 {
        let iova = place::MTT + 2048 + page * 8;
        let entry = TranslationEntry::new(place::DATA + page * 4096);
        b.host.write(iova, entry.as_bytes()).expect("mapped");
        let one = MemoryEntry {
            translation: 256 + page,
            ..region(pages, 4096)
        };
        let key = create(&mut b, &one).expect("room");
        let remote = (REGION_START, key);
        let status = operate((&mut a, &mut b), SendOpcode::RDMA_READ, remote, segment);
        assert_eq!(status, CqeStatus::SUCCESS, "page {page}");
    }
}

#[test]
fn region_with_windows_is_busy_until_they_are_gone() {
    let (mut a, mut b) = connected(PathMtuCode::MTU_1024);
    let mut rights = all_rights();
    rights.set_window_bind(true);
    let key = a.create_region(rights).expect("room");
    let entry = query(&mut a, key).expect("there");
    for type_2 in [false, true] {
        let mut kind = word(MemoryEntryWord::set_window);
        kind.set_window_type_2(type_2);
        let window = create(&mut a, &region(kind, 0)).expect("room");
        let segment = BindSegment {
            r_key: window + 1,
            l_key: key,
            address: REGION_START,
            length: 64,
            access: AccessRights::default(),
            reserved: 0,
        };
        a.post_bind(&segment);
        run_both(&mut a, &mut b, 5);
        let cqe = a.poll().expect("a CQE");
        assert_eq!(CqeStatus(cqe.word.status()), CqeStatus::SUCCESS);
        assert_eq!(modify(&mut a, key, &entry), Err(CommandStatus::BUSY));
        assert_eq!(destroy(&mut a, key), Err(CommandStatus::BUSY));
        // The commands know a window by the index of its key: binds have changed the variant.
        assert_eq!(
            modify(&mut a, window, &entry),
            Err(CommandStatus::NO_OBJECT)
        );
        assert_eq!(query(&mut a, window).expect("there").key, window + 1);
        destroy(&mut a, window).expect("bound or not");
        assert_eq!(destroy(&mut a, window), Err(CommandStatus::NO_OBJECT));
    }
    let key = modify(&mut a, key, &entry).expect("free again");
    destroy(&mut a, key).expect("free again");
}

/// A number that is often near an end of something.
fn near() -> impl Strategy<Value = u64> {
    let ends = prop_oneof![
        Just(0),
        Just(REGION_START),
        Just(u64::from(BAR4_SIZE)),
        Just(place::DATA),
        Just(place::DATA_SIZE),
        Just(1 << 12),
        Just(u64::MAX),
    ];
    prop_oneof![
        any::<u64>(),
        (ends, -9..9i64).prop_map(|(end, by)| end.wrapping_add_signed(by))
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    /// A region that was accepted is reached, or not, without a panic.
    #[test]
    fn any_region_is_survived(
        kind in 0..1u32 << 15,
        access in any::<u32>(),
        (start, length, translation, first_page_offset) in (near(), near(), near(), near()),
        address in near(),
        again in any::<bool>(),
    ) {
        let (mut a, mut b) = connected(PathMtuCode::MTU_1024);
        let log_page_size = [12, 21, 30, 0, 255][kind as usize % 5];
        let mut word = MemoryEntryWord::from_bits(kind & !0xff);
        word.set_log_page_size(log_page_size);
        let entry = MemoryEntry {
            word,
            access: AccessRights::from_bits(access | 0xf),
            start,
            length,
            translation,
            first_page_offset,
            ..region(word, length)
        };
        let key = if again {
 let key = b.key; modify(&mut b, key, &entry)
} else {
create(&mut b, &entry)
};
        if let Ok(key) = key {
            let data = a.segment(0, 2000);
            for address in [start, address] {
                a.post(SendOpcode::RDMA_WRITE, Some((address, key)), data);
                a.post_fetch_add((address, key), 1, data);
                run_both(&mut a, &mut b, 20);
            }
            destroy(&mut b, key).expect("its key");
        }
    }
}
