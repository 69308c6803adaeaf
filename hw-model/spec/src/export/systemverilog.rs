//! The contract as a SystemVerilog package that Verilator 5.006 and yosys 0.23 read.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::names::{comment, constant, line, plain, snake, title, upper};
use crate::command::{CommandOpcode, input_size, output_size};
use crate::contract::{CONSTANTS, ENUMS, Kind, LAYOUTS, WORDS};
use crate::counter::{COUNTER_COUNT, COUNTERS};
use crate::layout::{Bits, Constant, LayoutTable, WordTable};
use crate::open_enum::EnumTable;
use crate::register::{BAR0_SIZE, REGISTERS, Register};

/// Keywords of SystemVerilog (IEEE 1800-2017, annex B) that a field could be named, and words of
/// C++ against which Verilator warns.
const KEYWORDS: &[&str] = &[
    "bind", "bit", "bins", "byte", "class", "context", "cover", "default", "do", "end", "event",
    "export", "extends", "final", "force", "global", "import", "initial", "inline", "input",
    "inside", "local", "matches", "new", "null", "output", "packed", "priority", "property",
    "pure", "ref", "reg", "release", "repeat", "sequence", "signed", "static", "string", "strong",
    "super", "table", "tagged", "this", "time", "type", "union", "unique", "vector", "wait",
    "weak", "wire", "with",
];

/// Returns the package.
pub fn print() -> String {
    let mut out = String::new();
    let out = &mut out;
    line(out, "// SPDX-License-Identifier: MIT OR Apache-2.0");
    line(out, "`default_nettype none\n");
    comment(out, "//", &title());
    line(out, "//");
    comment(
        out,
        "//",
        "A structure of n bytes is a packed struct of 8n bits; byte 0 is in bits 7:0, so that a \
         line as it lies in little-endian memory can be assigned to it. Arrays of bytes (GID, MAC, \
         immediate) have their first byte in the lowest bits. Fields that hold a named value are \
         plain vectors: the other side may have written any value. A member that would be a \
         keyword, of SystemVerilog or of C++, ends with an underscore.",
    );
    line(out, "\n// verilator lint_off UNUSEDPARAM");
    line(out, "package ferroce_pkg;");
    section(out, "Constants");
    for (module, constants) in CONSTANTS {
        constants
            .iter()
            .for_each(|c| print_constant(out, module, c));
    }
    section(out, "Registers of BAR0");
    REGISTERS
        .iter()
        .for_each(|register| print_register(out, register));
    section(out, "Counters, by their number");
    print_counters(out);
    section(out, "Named values");
    ENUMS.iter().for_each(|table| print_enum(out, table));
    section(out, "Words");
    WORDS.iter().for_each(|word| print_word(out, word));
    section(out, "Structures in memory");
    LAYOUTS.iter().for_each(|layout| print_layout(out, layout));
    section(out, "Mailboxes of commands, in bytes");
    print_mailboxes(out);
    line(out, "\nendpackage");
    line(
        out,
        "// verilator lint_on UNUSEDPARAM\n\n`default_nettype wire",
    );
    core::mem::take(out)
}

fn section(out: &mut String, name: &str) {
    line(out, &format!("\n  // ---- {name} ----\n"));
}

fn print_constant(out: &mut String, module: &str, row: &Constant) {
    comment(out, "  //", row.meaning);
    parameter(out, row.width, &constant(module, row.name), row.value);
}

fn parameter(out: &mut String, width: u32, name: &str, value: u64) {
    let high = width - 1;
    line(
        out,
        &format!("  localparam logic [{high}:0] {name} = {width}'h{value:x};"),
    );
}

fn integer(out: &mut String, name: &str, value: usize) {
    line(out, &format!("  localparam int {name} = {value};"));
}

fn print_register(out: &mut String, register: &Register) {
    let name = upper(register.name);
    comment(out, "  //", register.meaning);
    parameter(
        out,
        BAR0_SIZE.ilog2(),
        &format!("OFFSET_{name}"),
        register.offset.into(),
    );
    parameter(
        out,
        8 * register.width,
        &format!("RESET_{name}"),
        register.reset,
    );
    if register.count > 1 {
        integer(out, &format!("COUNT_{name}"), register.count as usize);
    }
}

fn print_counters(out: &mut String) {
    integer(out, "COUNTER_COUNT", COUNTER_COUNT);
    for (number, row) in COUNTERS.iter().enumerate() {
        comment(out, "  //", row.meaning);
        parameter(
            out,
            8,
            &format!("COUNTER_{}", upper(row.name)),
            number as u64,
        );
    }
}

fn print_enum(out: &mut String, table: &EnumTable) {
    let (width, prefix) = (table.width, upper(table.name));
    comment(out, "  //", table.meaning);
    line(out, &format!("  typedef enum logic [{}:0] {{", width - 1));
    for (place, row) in table.values.iter().enumerate() {
        let comma = if place + 1 < table.values.len() {
            ","
        } else {
            ""
        };
        comment(out, "    //", row.meaning);
        line(
            out,
            &format!(
                "    {prefix}_{} = {width}'h{:x}{comma}",
                row.name, row.value
            ),
        );
    }
    line(out, &format!("  }} {}_t;\n", snake(table.name)));
}

fn print_word(out: &mut String, word: &WordTable) {
    let mut bits = Vec::from(word.bits);
    bits.sort_by_key(|b| b.low);
    for b in &bits {
        let name = format!("{}_{}", upper(word.name), upper(b.name));
        integer(out, &format!("{name}_LSB"), b.low as usize);
        integer(out, &format!("{name}_WIDTH"), (b.high - b.low + 1) as usize);
    }
    comment(out, "  //", word.meaning);
    line(out, "  typedef struct packed {");
    let mut above = word.width;
    for b in bits.iter().rev() {
        reserved(out, above, b.high + 1);
        print_bits(out, b);
        above = b.low;
    }
    reserved(out, above, 0);
    line(out, &format!("  }} {}_t;\n", snake(word.name)));
}

fn print_bits(out: &mut String, b: &Bits) {
    let range = if b.high == b.low {
        format!("{}", b.low)
    } else {
        format!("{}:{}", b.high, b.low)
    };
    comment(out, "    //", &format!("{range}: {}", plain(b.meaning)));
    member(out, b.high - b.low + 1, b.name);
}

/// Declares the bits from `low` up to `above`, without that one, as reserved.
fn reserved(out: &mut String, above: u32, low: u32) {
    if above > low {
        member(out, above - low, &format!("reserved_{low}"));
    }
}

fn member(out: &mut String, width: u32, name: &str) {
    let name = escaped(name);
    match width {
        1 => line(out, &format!("    logic {name};")),
        _ => line(out, &format!("    logic [{}:0] {name};", width - 1)),
    }
}

fn escaped(name: &str) -> String {
    let mark = if KEYWORDS.contains(&name) { "_" } else { "" };
    format!("{name}{mark}")
}

fn print_layout(out: &mut String, layout: &LayoutTable) {
    let prefix = upper(layout.name);
    integer(out, &format!("{prefix}_BYTES"), layout.size);
    for field in layout.fields {
        let name = format!("{prefix}_{}_OFFSET", upper(field.name));
        integer(out, &name, field.offset);
    }
    comment(out, "  //", layout.meaning);
    line(out, "  typedef struct packed {");
    for field in layout.fields.iter().rev() {
        let text = format!("byte {:#x}: {}", field.offset, plain(field.meaning));
        comment(out, "    //", &text);
        match Kind::of(field.kind) {
            Some(Kind::Word(_) | Kind::Layout(_)) => {
                let kind = snake(field.kind);
                line(out, &format!("    {kind}_t {};", escaped(field.name)));
            }
            _ => member(out, 8 * field.size as u32, field.name),
        }
    }
    line(out, &format!("  }} {}_t;\n", snake(layout.name)));
}

fn print_mailboxes(out: &mut String) {
    for row in CommandOpcode::TABLE.values {
        let opcode = CommandOpcode(row.value as u16);
        integer(
            out,
            &format!("INPUT_BYTES_{}", row.name),
            input_size(opcode),
        );
        integer(
            out,
            &format!("OUTPUT_BYTES_{}", row.name),
            output_size(opcode),
        );
    }
}
