//! Blocks of the card in SystemVerilog, with the interfaces of the model's blocks.
//!
//! Each block is a Verilated module whose clock runs during each call of its interface. Tests give
//! both implementations the same calls and compare answers, DMA and counters.

pub mod line_port;
pub mod mpt;
pub mod mtt;
pub mod roce_rx;

/// The Verilated modules.
#[allow(
    missing_docs,
    reason = "generated: a module's source describes its ports"
)]
pub mod verilated {
    macro_rules! modules {
        ($($name:ident)*) => { $(
            pub mod $name {
                include!(concat!(env!("OUT_DIR"), "/", stringify!($name), ".rs"));
            }
        )* };
    }
    modules!(
        roce_rx mtt mpt packetizer gather transmit memory_unit rx_buffer
        scatter completion_writer event_writer steer responder wqe_decode send_engine pcie_requester
        dma_read dma_write registers msix_table command_memory pcie_completer number_table
        frame_crossing frame_crossing_drops
    );
}

/// The packed structs of the packages.
#[allow(
    missing_docs,
    reason = "generated: `card_pkg` and the contract describe them"
)]
pub mod structs {
    include!(concat!(env!("OUT_DIR"), "/packages.rs"));
}

pub use ferroce_rtl_harness::{LINE, bytes, seeds, words};
