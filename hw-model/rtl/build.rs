//! Verilated modules of `sv/`.

use ferroce_rtl_harness::build::{Module, Sources, modules};

fn main() {
    let module = |name, parameters| Module {
        parameters,
        ..Module::new(name)
    };
    let crossing = |name, parameters| Module {
        name,
        top: "frame_crossing",
        parameters,
        clocks: &["s_clk", "m_clk"],
    };
    // mutants/run builds a copy of the sources.
    println!("cargo:rerun-if-env-changed=FERROCE_RTL_SV");
    let folder = std::env::var("FERROCE_RTL_SV").unwrap_or_else(|_| "sv".to_owned());
    let card_package = format!("{folder}/packages/card_pkg.sv");
    let sources = Sources {
        folder: &folder,
        packages: &["../spec/generated/ferroce_pkg.sv", &card_package],
    };
    // Small caches, so that entries are replaced; three ways, so that the round-robin counter
    // wraps.
    let shape: &[(&str, u64)] = &[("LOG_SETS", 3), ("WAYS", 3)];
    let all = [
        module("roce_rx", &[]),
        module("mtt", shape),
        module("mpt", shape),
        module("packetizer", &[]),
        module("gather", &[]),
        module("transmit", &[]),
        module(
            "memory_unit",
            &[
                ("MPT_LOG_SETS", 3),
                ("MPT_WAYS", 3),
                ("MTT_LOG_SETS", 3),
                ("MTT_WAYS", 3),
            ],
        ),
        module("rx_buffer", &[("LOG_BEATS", 8)]),
        module("scatter", &[]),
        module("completion_writer", &[]),
        module("event_writer", &[("LOG_PARKED", 5)]),
        module("steer", &[]),
        module("responder", &[]),
        module("wqe_decode", &[]),
        module("send_engine", &[]),
        module("pcie_requester", &[("LOG_TIMEOUT", 13)]),
        module("pcie_completer", &[]),
        module("dma_read", &[]),
        module("dma_write", &[]),
        module("registers", &[]),
        module("msix_table", &[]),
        module("command_memory", &[]),
        module("number_table", &[("BITS", 4), ("FIRST", 2)]),
        crossing("frame_crossing", &[("BITS", 16), ("LOG_DEPTH", 4)]),
        crossing(
            "frame_crossing_drops",
            &[("BITS", 16), ("LOG_DEPTH", 4), ("WAITS", 0)],
        ),
    ];
    modules("ferroce_rtl", sources, &all);
    println!("cargo:rustc-cfg=rtl_blocks");
}
