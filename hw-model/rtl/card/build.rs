//! The Verilated card, alone and with its PCIe endpoint.

use ferroce_rtl_harness::build::{Module, Sources, modules};

fn main() {
    // mutants/run builds a copy of the sources.
    println!("cargo:rerun-if-env-changed=FERROCE_RTL_SV");
    let folder = std::env::var("FERROCE_RTL_SV").unwrap_or_else(|_| "../sv".to_owned());
    let card_package = format!("{folder}/packages/card_pkg.sv");
    let sources = Sources {
        folder: &folder,
        packages: &["../../spec/generated/ferroce_pkg.sv", &card_package],
    };
    let cards = ["card", "pcie_card"].map(Module::new);
    modules("ferroce_rtl_card", sources, &cards);
}
