//! Blocks of the card in SystemVerilog, behind the interfaces of the model's blocks.
//!
//! Each block is a Verilated module with a clock that runs while a call of its interface is under
//! way. Tests give both implementations the same calls and compare answers, DMA and counters.

pub mod line_port;
pub mod mpt;
pub mod mtt;
pub mod roce_rx;
pub mod seeds;

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
        scatter completion_writer event_writer steer responder wqe_decode send_engine
    );
}

/// Bytes of a line: a beat of the data path, what one DMA read brings.
pub const LINE: usize = 64;

/// Converts a line to words as Verilator stores it. What a short line lacks is `fill`.
pub fn words(bytes: &[u8], fill: u8) -> [u32; LINE / 4] {
    let mut whole = [fill; LINE];
    whole[..bytes.len()].copy_from_slice(bytes);
    let word = |i: usize| core::array::from_fn(|byte| whole[4 * i + byte]);
    core::array::from_fn(|i| u32::from_le_bytes(word(i)))
}

/// Converts words as Verilator stores them to a line.
pub fn bytes(words: [u32; LINE / 4]) -> [u8; LINE] {
    core::array::from_fn(|i| words[i / 4].to_le_bytes()[i % 4])
}
