//! The contract as a header that C11 and C++11 compile.

use alloc::format;
use alloc::string::String;

use super::names::{comment, constant, line, snake, title, upper};
use crate::command::{CommandOpcode, input_size, output_size};
use crate::contract::{CONSTANTS, ENUMS, Kind, LAYOUTS, WORDS};
use crate::counter::{COUNTER_COUNT, COUNTERS};
use crate::layout::{Field, LayoutTable, WordTable};
use crate::register::{COUNTERS_OFFSET, REGISTERS};

const HEAD: &str = "\
#ifndef FERROCE_H
#define FERROCE_H

#include <stddef.h>
#include <stdint.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error \"the layouts of the contract are little-endian\"
#endif

#ifdef __cplusplus
#define FERROCE_ASSERT(condition) static_assert(condition, #condition)
#else
#define FERROCE_ASSERT(condition) _Static_assert(condition, #condition)
#endif

// Returns a field of a word, as in FERROCE_GET(word, FERROCE_CQE_WORD_STATUS).
#define FERROCE_GET(word, field) (((word) & field##_MASK) >> field##_SHIFT)
// Returns a word with nothing but a field, as in FERROCE_PUT(5, FERROCE_CQE_WORD_STATUS).
#define FERROCE_PUT(value, field) \\
    (((field##_MASK >> field##_SHIFT) & (value)) << field##_SHIFT)
";

/// Returns the header.
pub fn print() -> String {
    let mut out = String::new();
    let out = &mut out;
    comment(out, "//", &title());
    line(out, "");
    out.push_str(HEAD);
    section(out, "Constants");
    for (module, constants) in CONSTANTS {
        for row in *constants {
            comment(out, "//", row.meaning);
            define(
                out,
                &constant(module, row.name),
                number(row.value, row.width),
            );
        }
    }
    section(
        out,
        "Registers of BAR0: offset, bytes, elements, value after a reset",
    );
    print_registers(out);
    section(out, "Counters: offset in BAR0");
    print_counters(out);
    section(out, "Named values");
    for table in ENUMS {
        comment(out, "//", table.meaning);
        for row in table.values {
            let name = format!("{}_{}", upper(table.name), row.name);
            define(out, &name, number(row.value, 32));
        }
        line(out, "");
    }
    section(out, "Words");
    WORDS.iter().for_each(|word| print_word(out, word));
    section(out, "Structures in memory");
    LAYOUTS.iter().for_each(|layout| print_layout(out, layout));
    section(out, "Mailboxes of commands, in bytes");
    print_mailboxes(out);
    line(out, "\n#endif");
    core::mem::take(out)
}

fn section(out: &mut String, name: &str) {
    line(out, &format!("\n// ---- {name} ----\n"));
}

fn define(out: &mut String, name: &str, value: String) {
    line(out, &format!("#define FERROCE_{name} {value}"));
}

/// Returns an unsigned constant of at least `width` bits.
fn number(value: u64, width: u32) -> String {
    let suffix = if width > 32 { "ull" } else { "u" };
    format!("{value:#x}{suffix}")
}

fn print_registers(out: &mut String) {
    for register in REGISTERS {
        let name = upper(register.name);
        comment(out, "//", register.meaning);
        define(
            out,
            &format!("OFFSET_{name}"),
            number(register.offset.into(), 32),
        );
        define(
            out,
            &format!("WIDTH_{name}"),
            number(register.width.into(), 32),
        );
        define(
            out,
            &format!("COUNT_{name}"),
            number(register.count.into(), 32),
        );
        define(
            out,
            &format!("RESET_{name}"),
            number(register.reset, 8 * register.width),
        );
    }
}

fn print_counters(out: &mut String) {
    define(out, "COUNTER_COUNT", number(COUNTER_COUNT as u64, 32));
    for (place, row) in COUNTERS.iter().enumerate() {
        let offset = u64::from(COUNTERS_OFFSET) + 8 * place as u64;
        comment(out, "//", row.meaning);
        define(
            out,
            &format!("OFFSET_COUNTER_{}", upper(row.name)),
            number(offset, 32),
        );
    }
}

fn print_word(out: &mut String, word: &WordTable) {
    comment(out, "//", word.meaning);
    for bits in word.bits {
        let name = format!("{}_{}", upper(word.name), upper(bits.name));
        let ones = u64::MAX >> (63 - (bits.high - bits.low));
        comment(out, "//", bits.meaning);
        define(out, &format!("{name}_SHIFT"), format!("{}", bits.low));
        define(
            out,
            &format!("{name}_MASK"),
            number(ones << bits.low, word.width),
        );
    }
    line(out, "");
}

fn print_layout(out: &mut String, layout: &LayoutTable) {
    let name = format!("struct ferroce_{}", snake(layout.name));
    comment(out, "//", layout.meaning);
    line(out, &format!("{name} {{"));
    for field in layout.fields {
        comment(out, "    //", field.meaning);
        line(out, &format!("    {};", declaration(field)));
    }
    line(out, "};");
    line(
        out,
        &format!("FERROCE_ASSERT(sizeof({name}) == {});", layout.size),
    );
    for field in layout.fields {
        let Field {
            name: member,
            offset,
            ..
        } = field;
        line(
            out,
            &format!("FERROCE_ASSERT(offsetof({name}, {member}) == {offset:#x});"),
        );
    }
    line(out, "");
}

fn declaration(field: &Field) -> String {
    match Kind::of(field.kind) {
        Some(Kind::Layout(table)) => format!("struct ferroce_{} {}", snake(table.name), field.name),
        Some(Kind::Array(bytes, count)) => format!("uint{}_t {}[{count}]", 8 * bytes, field.name),
        _ => format!("uint{}_t {}", 8 * field.size, field.name),
    }
}

fn print_mailboxes(out: &mut String) {
    for row in CommandOpcode::TABLE.values {
        let opcode = CommandOpcode(row.value as u16);
        let (input, output) = (input_size(opcode), output_size(opcode));
        define(
            out,
            &format!("INPUT_BYTES_{}", row.name),
            number(input as u64, 32),
        );
        define(
            out,
            &format!("OUTPUT_BYTES_{}", row.name),
            number(output as u64, 32),
        );
    }
}
