//! Exercise 3 in Rust: SEND and RECV between two processes.

mod course;

use std::time::Instant;

use course::{LOCAL_WRITE, Side};
use rdma_sys::*;

const BYTES: usize = 64;
const ROUNDS: usize = 1000;

fn main() {
    let mut side = Side::new(4096, LOCAL_WRITE);
    let is_client = side.connect(18533);
    side.post_receive(0, BYTES);
    side.meet();
    let start = Instant::now();
    for round in 0..ROUNDS {
        if is_client {
            side.post(ibv_wr_opcode::IBV_WR_SEND, BYTES, BYTES, 0);
        }
        side.wait_until(if is_client { round + 1 } else { round }, round + 1);
        // For the next message, before the peer may send it.
        side.post_receive(0, BYTES);
        if !is_client {
            side.post(ibv_wr_opcode::IBV_WR_SEND, BYTES, BYTES, 0);
        }
    }
    side.wait_until(ROUNDS, ROUNDS);
    if is_client {
        let round_ns = start.elapsed().as_nanos() as f64 / ROUNDS as f64;
        println!("{ROUNDS} rounds of {BYTES} bytes, {round_ns:.1} ns a round");
    }
    side.meet();
    side.close();
}
