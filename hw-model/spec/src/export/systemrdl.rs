//! BAR0 as SystemRDL 2.0.

use alloc::format;
use alloc::string::String;

use super::names::{comment, line, plain, title};
use crate::contract::Kind;
use crate::counter::COUNTERS;
use crate::layout::Bits;
use crate::register::{
    COUNTERS_OFFSET, MSIX_ENTRY_SIZE, MSIX_PENDING_OFFSET, MSIX_TABLE_OFFSET, REGISTERS, Register,
    RegisterAccess, VECTOR_COUNT,
};

/// Returns the address map.
pub fn print() -> String {
    let mut out = String::new();
    let out = &mut out;
    comment(out, "//", &title());
    line(out, "");
    line(out, "addrmap ferroce_bar0 {");
    line(out, "    name = \"BAR0 of the Ferroce function\";");
    line(out, "    default accesswidth = 32;");
    line(out, "    littleendian;");
    REGISTERS
        .iter()
        .for_each(|register| print_register(out, register));
    for (place, row) in COUNTERS.iter().enumerate() {
        let offset = COUNTERS_OFFSET as usize + 8 * place;
        line(
            out,
            &format!("\n    reg {{\n        desc = \"{}\";", text(row.meaning)),
        );
        line(out, "        regwidth = 64;");
        line(
            out,
            "        field { sw = r; hw = w; } value[63:0] = 64'h0;",
        );
        line(out, &format!("    }} {} @ {offset:#x};", row.name));
    }
    print_msix(out);
    line(out, "};");
    core::mem::take(out)
}

fn print_register(out: &mut String, register: &Register) {
    let width = 8 * register.width;
    line(
        out,
        &format!(
            "\n    reg {{\n        desc = \"{}\";",
            text(register.meaning)
        ),
    );
    line(out, &format!("        regwidth = {width};"));
    match Kind::word_of_register(register.kind) {
        Some(word) => word
            .bits
            .iter()
            .for_each(|bits| print_field(out, register, bits)),
        None => {
            let access = access(register.access);
            let value = register.reset;
            let place = format!("value[{}:0] = {width}'h{value:x}", width - 1);
            line(out, &format!("        field {{ {access} }} {place};"));
        }
    }
    let array = match register.count {
        1 => String::new(),
        count => format!("[{count}]"),
    };
    line(
        out,
        &format!("    }} {}{array} @ {:#x};", register.name, register.offset),
    );
}

fn print_field(out: &mut String, register: &Register, bits: &Bits) {
    let width = bits.high - bits.low + 1;
    let reset = register.reset >> bits.low & u64::MAX >> (64 - width);
    let access = access(register.access);
    let text = text(bits.meaning);
    line(
        out,
        &format!("        field {{ desc = \"{text}\"; {access} }}"),
    );
    let Bits {
        high, low, name, ..
    } = bits;
    line(
        out,
        &format!("            \\{name}[{high}:{low}] = {width}'h{reset:x};"),
    );
}

fn access(access: RegisterAccess) -> &'static str {
    match access {
        RegisterAccess::ReadOnly => "sw = r; hw = w;",
        RegisterAccess::ReadWrite => "sw = rw; hw = rw;",
        RegisterAccess::WriteOnly => "sw = w; hw = r;",
    }
}

/// Prints the MSI-X table and the pending bits (PCIe base specification, 7.7.2).
fn print_msix(out: &mut String) {
    let word = |name: &str, offset: u32| {
        format!(
            "        reg {{ regwidth = 32; field {{ sw = rw; hw = r; }} value[31:0] = 32'h0; }} \
             {name} @ {offset:#x};"
        )
    };
    line(
        out,
        "\n    regfile {\n        desc = \"MSI-X table: one entry for each vector.\";",
    );
    line(out, &word("message_address_low", 0));
    line(out, &word("message_address_high", 4));
    line(out, &word("message_data", 8));
    line(out, "        reg {\n            regwidth = 32;");
    line(
        out,
        "            field { desc = \"The vector is masked.\"; sw = rw; hw = r; }",
    );
    line(out, "                \\masked[0:0] = 1'h1;");
    line(out, "        } vector_control @ 0xc;");
    line(
        out,
        &format!(
            "    }} msix_table[{VECTOR_COUNT}] @ {MSIX_TABLE_OFFSET:#x} += {MSIX_ENTRY_SIZE};"
        ),
    );
    line(
        out,
        "\n    reg {\n        desc = \"MSI-X pending bits, one for each vector.\";",
    );
    line(out, "        regwidth = 64;");
    line(
        out,
        "        field { sw = r; hw = w; } value[63:0] = 64'h0;",
    );
    line(
        out,
        &format!("    }} msix_pending @ {MSIX_PENDING_OFFSET:#x};"),
    );
}

/// Returns a meaning that can stand between quotation marks.
fn text(meaning: &str) -> String {
    plain(meaning).replace('"', "'")
}
