//! The golden vectors match the declarations and are complete.

use std::collections::{BTreeMap, BTreeSet};

use ferroce_spec::command::{CommandOpcode, CommandStatus};
use ferroce_spec::contract::{ENUMS, Kind, LAYOUTS};
use ferroce_spec::cqe::{CqeOpcode, CqeStatus};
use ferroce_spec::doorbell::DoorbellKind;
use ferroce_spec::eqe::EventType;
use ferroce_spec::layout::WordTable;
use ferroce_spec::open_enum::EnumTable;
use ferroce_spec::wqe::SendOpcode;
use ferroce_test_support::{GoldenField, GoldenSegment, GoldenVector, golden_vectors};

const FILES: [&str; 7] = [
    "send_wqe",
    "receive_wqe",
    "cqe",
    "eqe",
    "command",
    "context",
    "doorbell",
];

fn all_vectors() -> Vec<GoldenVector> {
    FILES.iter().flat_map(|file| golden_vectors(file)).collect()
}

/// A field that has no parts: its name, its place in bits, and whether it is an array.
struct Leaf {
    name: String,
    low: usize,
    bits: usize,
    is_array: bool,
}

/// Returns the fields of a structure or word, including the fields of nested structures and words.
fn leaves(kind: &str, prefix: &str, start: usize) -> Vec<Leaf> {
    match Kind::of(kind).unwrap_or_else(|| panic!("the contract has no {kind}")) {
        Kind::Word(word) => word_leaves(word, prefix, start),
        Kind::Layout(layout) => {
            let mut found = Vec::new();
            for field in layout.fields {
                let (name, low) = (format!("{prefix}{}", field.name), start + 8 * field.offset);
                match Kind::of(field.kind).expect("a type of the contract") {
                    Kind::Word(_) | Kind::Layout(_) => {
                        found.extend(leaves(field.kind, &format!("{name}."), low));
                    }
                    kind => found.push(Leaf {
                        name,
                        low,
                        bits: 8 * field.size,
                        is_array: matches!(kind, Kind::Array(..)),
                    }),
                }
            }
            found
        }
        other => panic!("{kind} is {other:?}"),
    }
}

fn word_leaves(word: &WordTable, prefix: &str, start: usize) -> Vec<Leaf> {
    let leaf = |bits: &ferroce_spec::layout::Bits| Leaf {
        name: format!("{prefix}{}", bits.name),
        low: start + bits.low as usize,
        bits: (bits.high - bits.low + 1) as usize,
        is_array: false,
    };
    word.bits.iter().map(leaf).collect()
}

/// Reads a field bit by bit: bit 0 of byte 0 comes first.
fn read(bytes: &[u8], leaf: &Leaf) -> GoldenField {
    if leaf.is_array {
        let (first, end) = (leaf.low / 8, (leaf.low + leaf.bits) / 8);
        return GoldenField::Bytes(bytes[first..end].to_vec());
    }
    let bit = |at: usize| u64::from(bytes[at / 8] >> (at % 8) & 1);
    let value = (0..leaf.bits)
        .map(|place| bit(leaf.low + place) << place)
        .sum();
    GoldenField::Number(value)
}

/// Returns the value that a vector gives to a field.
fn expected(segment: &GoldenSegment, leaf: &Leaf) -> GoldenField {
    match segment.fields.get(&leaf.name) {
        None if leaf.is_array => GoldenField::Bytes(vec![0; leaf.bits / 8]),
        None => GoldenField::Number(0),
        Some(GoldenField::Named(set, name)) => GoldenField::Number(number_of(set, name)),
        Some(value) => value.clone(),
    }
}

fn number_of(set: &str, name: &str) -> u64 {
    let table = ENUMS
        .iter()
        .find(|table| table.name == set)
        .expect("a set of values");
    let row = table.values.iter().find(|row| row.name == name);
    row.unwrap_or_else(|| panic!("{set} has no {name}")).value
}

/// Goal: each vector's bytes are its fields, and every other byte is zero.
#[test]
fn bytes_are_the_fields() {
    for vector in all_vectors() {
        let mut rest = vector.bytes.clone();
        for segment in &vector.segments {
            let what = format!("{}: {}", vector.name, segment.kind);
            if segment.kind == "payload" {
                let end = segment.offset + segment.payload().len();
                assert_eq!(
                    &vector.bytes[segment.offset..end],
                    segment.payload(),
                    "{what}"
                );
                rest[segment.offset..end].fill(0);
                continue;
            }
            let leaves = leaves(&segment.kind, "", 0);
            let bytes = &vector.bytes[segment.offset..];
            for leaf in &leaves {
                assert_eq!(
                    read(bytes, leaf),
                    expected(segment, leaf),
                    "{what}.{}",
                    leaf.name
                );
                clear(&mut rest[segment.offset..], leaf);
            }
            let known: BTreeSet<_> = leaves.iter().map(|leaf| leaf.name.as_str()).collect();
            for name in segment.fields.keys() {
                assert!(known.contains(name.as_str()), "{what} has no {name}");
            }
        }
        assert!(
            rest.iter().all(|byte| *byte == 0),
            "{}: {rest:x?}",
            vector.name
        );
    }
}

fn clear(bytes: &mut [u8], leaf: &Leaf) {
    for at in leaf.low..leaf.low + leaf.bits {
        bytes[at / 8] &= !(1 << (at % 8));
    }
}

/// Goal: no two numbers of a structure that are as wide are equal, so that swapped fields show.
#[test]
fn fields_of_a_structure_differ() {
    for vector in all_vectors() {
        for segment in vector
            .segments
            .iter()
            .filter(|segment| segment.kind != "payload")
        {
            let mut seen = BTreeMap::new();
            for leaf in leaves(&segment.kind, "", 0) {
                let value = expected(segment, &leaf);
                let distinct =
                    leaf.bits >= 16 && matches!(&value, GoldenField::Number(n) if *n > 0xff);
                if let Some(other) =
                    seen.insert((leaf.bits, format!("{value:?}")), leaf.name.clone())
                {
                    let (vector, name) = (&vector.name, &leaf.name);
                    assert!(!distinct, "{vector}: {name} is equal to {other}");
                }
            }
        }
    }
}

/// Goal: every field but the reserved ones is not zero in some vector.
#[test]
fn every_field_is_used() {
    let vectors = all_vectors();
    // Other words, and an address path, only lie inside of structures, and are met there.
    let words = [
        "DoorbellValue",
        "EventQueueDoorbell",
        "NewNumber",
        "TranslationEntry",
    ];
    let layouts = LAYOUTS.iter().map(|layout| layout.name);
    let layouts = layouts.filter(|name| *name != "AddressPath");
    for kind in layouts.chain(words) {
        for leaf in leaves(kind, "", 0) {
            let reserved = leaf
                .name
                .split('.')
                .any(|part| part.starts_with("reserved"));
            let (owner, name) = match leaf.name.strip_prefix("context.") {
                Some(name) => ("QpContext", name),
                None => (kind, leaf.name.as_str()),
            };
            let impossible = IMPOSSIBLE.contains(&(owner, name));
            let used = vectors
                .iter()
                .flat_map(|vector| vector.all(kind))
                .any(|segment| {
                    segment
                        .fields
                        .get(&leaf.name)
                        .is_some_and(|value| match value {
                            GoldenField::Number(number) => *number != 0,
                            _ => true,
                        })
                });
            assert!(
                used || reserved || impossible,
                "{kind}.{} is in no vector",
                leaf.name
            );
        }
    }
}

/// Rights that a structure cannot have.
const IMPOSSIBLE: &[(&str, &str)] = &[
    ("BindSegment", "access.local_write"),
    ("BindSegment", "access.window_bind"),
    ("BindSegment", "access.relaxed_ordering"),
    ("BindSegment", "access.flush_global"),
    ("BindSegment", "access.flush_persistent"),
    ("QpContext", "access.local_write"),
    ("QpContext", "access.window_bind"),
    ("QpContext", "access.relaxed_ordering"),
    ("QpContext", "access.zero_based"),
];

/// Goal: every operation, opcode, status, event, command and doorbell is in a vector.
#[test]
fn every_named_value_is_used() {
    let mut named = BTreeSet::new();
    for vector in all_vectors() {
        for value in vector
            .segments
            .iter()
            .flat_map(|segment| segment.fields.values())
        {
            if let GoldenField::Named(set, name) = value {
                named.insert((set.clone(), name.clone()));
            }
        }
    }
    let tables: [EnumTable; 7] = [
        SendOpcode::TABLE,
        CqeOpcode::TABLE,
        CqeStatus::TABLE,
        EventType::TABLE,
        CommandOpcode::TABLE,
        CommandStatus::TABLE,
        DoorbellKind::TABLE,
    ];
    for table in tables {
        for row in table.values {
            let (set, name) = (table.name, row.name);
            assert!(
                named.contains(&(set.into(), name.into())),
                "{set}::{name} is in no vector"
            );
        }
    }
}
