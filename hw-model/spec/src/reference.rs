//! Prints the tables of the programmer's reference from the declarations.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

use crate::contract::{ENUMS, LAYOUTS, WORDS};
use crate::layout::{LayoutTable, WordTable};
use crate::open_enum::EnumTable;
use crate::register::{REGISTERS, Register, RegisterAccess};
use crate::{counter, register};

/// One table of the reference.
enum Table {
    Registers,
    Counters,
    Word(WordTable),
    Layout(LayoutTable),
    Enum(EnumTable),
}

/// Name and contents of every table, in the order of the reference.
fn tables() -> impl Iterator<Item = (&'static str, Table)> {
    [
        ("registers", Table::Registers),
        ("counters", Table::Counters),
    ]
    .into_iter()
    .chain(WORDS.iter().map(|t| (t.name, Table::Word(*t))))
    .chain(LAYOUTS.iter().map(|t| (t.name, Table::Layout(*t))))
    .chain(ENUMS.iter().map(|t| (t.name, Table::Enum(*t))))
}

/// Replaces the body of every block `<!-- table: NAME -->` … `<!-- end -->` in `text` by the table
/// of that name. A name without a table is left as it is; a table without a block is appended to
/// the returned list of missing names.
pub fn refresh(text: &str) -> (String, Vec<&'static str>) {
    let mut output = String::from(text);
    let mut missing = Vec::new();
    for (name, table) in tables() {
        let begin = format!("<!-- table: {name} -->\n");
        let Some(start) = output.find(&begin).map(|at| at + begin.len()) else {
            missing.push(name);
            continue;
        };
        let Some(length) = output[start..].find("<!-- end -->") else {
            missing.push(name);
            continue;
        };
        output.replace_range(start..start + length, &render(&table));
    }
    (output, missing)
}

fn render(table: &Table) -> String {
    let mut out = String::new();
    match table {
        Table::Registers => {
            line(
                &mut out,
                "| offset | register | bits | access | reset | meaning |",
            );
            line(&mut out, "| --- | --- | --- | --- | --- | --- |");
            REGISTERS
                .iter()
                .for_each(|row| line(&mut out, &register_row(row)));
        }
        Table::Counters => {
            line(&mut out, "| offset | counter | counts | unit |");
            line(&mut out, "| --- | --- | --- | --- |");
            for (index, row) in counter::COUNTERS.iter().enumerate() {
                let offset = register::COUNTERS_OFFSET as usize + 8 * index;
                let unit = if counter::is_implementation_defined(index) {
                    "own"
                } else {
                    ""
                };
                line(
                    &mut out,
                    &format!(
                        "| {offset:#06x} | {} | {} | {unit} |",
                        row.name, row.meaning
                    ),
                );
            }
        }
        Table::Word(word) => render_word(&mut out, word),
        Table::Layout(layout) => {
            line(
                &mut out,
                &format!("{} ({} bytes)\n", layout.meaning.trim(), layout.size),
            );
            line(&mut out, "| offset | bytes | field | type | meaning |");
            line(&mut out, "| --- | --- | --- | --- | --- |");
            for f in layout.fields {
                line(
                    &mut out,
                    &format!(
                        "| {:#04x} | {} | {} | {} | {} |",
                        f.offset, f.size, f.name, f.kind, f.meaning
                    ),
                );
            }
        }
        Table::Enum(table) => {
            line(&mut out, &format!("{}\n", table.meaning.trim()));
            line(&mut out, "| value | name | meaning |");
            line(&mut out, "| --- | --- | --- |");
            for v in table.values {
                let meaning = v.meaning.trim();
                line(
                    &mut out,
                    &format!("| {:#04x} | {} | {meaning} |", v.value, v.name),
                );
            }
        }
    }
    out
}

fn render_word(out: &mut String, word: &WordTable) {
    line(
        out,
        &format!("{} ({} bits)\n", word.meaning.trim(), word.width),
    );
    line(out, "| bits | field | meaning |");
    line(out, "| --- | --- | --- |");
    let mut bits = Vec::from(word.bits);
    bits.sort_by_key(|b| b.low);
    for b in bits {
        let range = if b.high == b.low {
            format!("{}", b.low)
        } else {
            format!("{}:{}", b.high, b.low)
        };
        line(out, &format!("| {range} | {} | {} |", b.name, b.meaning));
    }
}

fn register_row(row: &Register) -> String {
    let access = match row.access {
        RegisterAccess::ReadOnly => "RO",
        RegisterAccess::ReadWrite => "RW",
        RegisterAccess::WriteOnly => "WO",
    };
    let name = if row.count > 1 {
        format!("{}[{}]", row.name, row.count)
    } else {
        String::from(row.name)
    };
    format!(
        "| {:#05x} | {name} | {} | {access} | {:#x} | {} |",
        row.offset,
        8 * row.width,
        row.reset,
        row.meaning
    )
}

fn line(out: &mut String, text: &str) {
    writeln!(out, "{text}").expect("writing to a String cannot fail");
}
