//! The constants of the contract that the modules use, as a SystemVerilog package.

use std::fmt::Write as _;

use ferroce_spec::context::{AccessRights, MemoryEntry, MemoryEntryWord, TranslationEntry};
use ferroce_spec::layout::{LayoutTable, WordTable};

const LAYOUTS: &[LayoutTable] = &[MemoryEntry::TABLE];
const WORDS: &[WordTable] = &[
    AccessRights::TABLE,
    MemoryEntryWord::TABLE,
    TranslationEntry::TABLE,
];

/// Returns the text of `sv/ferroce_pkg.sv`.
pub fn print() -> String {
    let mut out = String::from(
        "// Constants of the contract, printed from the declarations in hw-model/spec by \n\
         // `FERROCE_UPDATE=1 cargo test --test package`; changes here are lost.\n\
         /* verilator lint_off UNUSEDPARAM */\n\
         package ferroce_pkg;\n",
    );
    let mut constant = |name: &str, value: usize| {
        writeln!(out, "    localparam int {name} = {value};").expect("a String takes all");
    };
    for layout in LAYOUTS {
        let layout_name = upper(layout.name);
        constant(&format!("{layout_name}_BYTES"), layout.size);
        for field in layout.fields {
            let name = format!("{layout_name}_{}_OFFSET", upper(field.name));
            constant(&name, field.offset);
        }
    }
    for word in WORDS {
        for bits in word.bits {
            let name = format!("{}_{}", upper(word.name), upper(bits.name));
            constant(&format!("{name}_LSB"), bits.low as usize);
            constant(
                &format!("{name}_WIDTH"),
                (bits.high - bits.low + 1) as usize,
            );
        }
    }
    out + "endpackage\n/* verilator lint_on UNUSEDPARAM */\n"
}

/// Returns `CqeWord` as `CQE_WORD`.
fn upper(name: &str) -> String {
    let mut out = String::new();
    for (place, letter) in name.char_indices() {
        if letter.is_uppercase() && place > 0 {
            out.push('_');
        }
        out.extend(letter.to_uppercase());
    }
    out
}
