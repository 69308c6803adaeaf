//! The whole contract as JSON.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Display;

use super::names::plain;
use crate::command::{CommandOpcode, input_size, output_size};
use crate::contract::{CONSTANTS, ENUMS, Kind, LAYOUTS, WORDS};
use crate::counter::{COUNTERS, is_implementation_defined};
use crate::layout::{Bits, Field, LayoutTable, WordTable};
use crate::open_enum::EnumTable;
use crate::register::{
    CONTRACT_MAJOR, CONTRACT_MINOR, COUNTERS_OFFSET, REGISTERS, Register, RegisterAccess,
};

/// Returns one object with everything.
pub fn print() -> String {
    let constants = CONSTANTS.iter().flat_map(|(module, rows)| {
        rows.iter().map(move |row| {
            object(&[
                ("module", text(module)),
                ("name", text(row.name)),
                ("bits", number(row.width)),
                ("value", number(row.value)),
                ("meaning", text(row.meaning)),
            ])
        })
    });
    let counters = COUNTERS.iter().enumerate().map(|(place, row)| {
        object(&[
            ("name", text(row.name)),
            ("offset", number(COUNTERS_OFFSET as usize + 8 * place)),
            (
                "implementation_defined",
                number(is_implementation_defined(place)),
            ),
            ("meaning", text(row.meaning)),
        ])
    });
    let version = object(&[
        ("major", number(CONTRACT_MAJOR)),
        ("minor", number(CONTRACT_MINOR)),
    ]);
    let parts = [
        ("contract", version),
        ("constants", list(constants)),
        ("registers", list(REGISTERS.iter().map(register))),
        ("counters", list(counters)),
        ("words", list(WORDS.iter().map(word))),
        ("structures", list(LAYOUTS.iter().map(layout))),
        ("enums", list(ENUMS.iter().map(named_values))),
        (
            "commands",
            list(
                CommandOpcode::TABLE
                    .values
                    .iter()
                    .map(|row| command(row.name, row.value)),
            ),
        ),
    ];
    let parts = parts.map(|(name, value)| format!("{}: {value}", text(name)));
    format!("{{\n{}\n}}\n", parts.join(",\n"))
}

fn register(row: &Register) -> String {
    let access = match row.access {
        RegisterAccess::ReadOnly => "RO",
        RegisterAccess::ReadWrite => "RW",
        RegisterAccess::WriteOnly => "WO",
    };
    object(&[
        ("name", text(row.name)),
        ("offset", number(row.offset)),
        ("bytes", number(row.width)),
        ("count", number(row.count)),
        ("access", text(access)),
        ("reset", number(row.reset)),
        ("word", word_name(row)),
        ("meaning", text(row.meaning)),
    ])
}

/// Returns the name of the word that a register holds, or null.
fn word_name(row: &Register) -> String {
    Kind::word_of_register(row.kind).map_or_else(|| String::from("null"), |word| text(word.name))
}

fn word(table: &WordTable) -> String {
    let bits = |b: &Bits| {
        object(&[
            ("name", text(b.name)),
            ("high", number(b.high)),
            ("low", number(b.low)),
            ("meaning", text(b.meaning)),
        ])
    };
    object(&[
        ("name", text(table.name)),
        ("bits", number(table.width)),
        ("meaning", text(table.meaning)),
        ("fields", list(table.bits.iter().map(bits))),
    ])
}

fn layout(table: &LayoutTable) -> String {
    let field = |f: &Field| {
        object(&[
            ("name", text(f.name)),
            ("offset", number(f.offset)),
            ("bytes", number(f.size)),
            ("type", quoted(f.kind)),
            ("meaning", text(f.meaning)),
        ])
    };
    object(&[
        ("name", text(table.name)),
        ("bytes", number(table.size)),
        ("meaning", text(table.meaning)),
        ("fields", list(table.fields.iter().map(field))),
    ])
}

fn named_values(table: &EnumTable) -> String {
    let values = table.values.iter().map(|row| {
        object(&[
            ("name", text(row.name)),
            ("value", number(row.value)),
            ("meaning", text(row.meaning)),
        ])
    });
    object(&[
        ("name", text(table.name)),
        ("bits", number(table.width)),
        ("meaning", text(table.meaning)),
        ("values", list(values)),
    ])
}

fn command(name: &str, value: u64) -> String {
    let opcode = CommandOpcode(value as u16);
    object(&[
        ("name", text(name)),
        ("opcode", number(value)),
        ("input_bytes", number(input_size(opcode))),
        ("output_bytes", number(output_size(opcode))),
    ])
}

fn object(members: &[(&str, String)]) -> String {
    let members: Vec<_> = members
        .iter()
        .map(|(name, value)| format!("\"{name}\": {value}"))
        .collect();
    format!("{{{}}}", members.join(", "))
}

fn list(elements: impl Iterator<Item = String>) -> String {
    let elements: Vec<_> = elements.map(|element| format!("  {element}")).collect();
    format!("[\n{}\n]", elements.join(",\n"))
}

/// Returns a JSON string. Names and meanings have no control characters.
fn text(value: &str) -> String {
    quoted(&plain(value))
}

fn quoted(value: &str) -> String {
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}

fn number(value: impl Display) -> String {
    format!("{value}")
}
