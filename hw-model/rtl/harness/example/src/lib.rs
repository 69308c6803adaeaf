//! A Verilated FIFO between two clocks, and the struct of its items.

/// The Verilated module.
#[allow(missing_docs, reason = "generated: the source describes the ports")]
pub mod clock_crossing {
    include!(concat!(env!("OUT_DIR"), "/clock_crossing.rs"));
}

/// The packed structs of `item_pkg`.
#[allow(missing_docs, reason = "generated: the source describes the structs")]
pub mod item {
    include!(concat!(env!("OUT_DIR"), "/packages.rs"));
}
