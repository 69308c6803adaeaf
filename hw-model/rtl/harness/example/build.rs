//! The Verilated FIFO.

use ferroce_rtl_harness::build::{Module, Sources, modules};

fn main() {
    let sources = Sources {
        folder: "sv",
        packages: &["sv/item_pkg.sv"],
    };
    let fifo = Module {
        clocks: &["write_clk", "read_clk"],
        parameters: &[("LOG_ITEMS", 3)],
        ..Module::new("clock_crossing")
    };
    modules("example", sources, &[fifo]);
}
