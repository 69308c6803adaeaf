//! What one message costs the model: two NICs in one thread, driven by the contract alone.
//! Prints nanoseconds for both ends together, with the ICRC (the test cable carries it).
#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a benchmark measures the machine's time"
)]

#[path = "../tests/common/mod.rs"]
mod common;

use std::time::Instant;

use common::{REGION_START, connected};
use ferroce_spec::context::PathMtuCode;
use ferroce_spec::wqe::SendOpcode;

const MESSAGES: u32 = 200_000;
/// Messages that are posted before both NICs run.
const BATCH: u32 = 16;

fn main() {
    for length in [1, 64, 4096] {
        let (mut a, mut b) = connected(PathMtuCode::MTU_4096);
        let (segment, remote) = (a.segment(0, length), Some((REGION_START, b.key)));
        let start = Instant::now();
        let mut completed = 0;
        while completed < MESSAGES {
            for _ in 0..BATCH {
                a.post(SendOpcode::RDMA_WRITE, remote, segment);
            }
            let target = completed + BATCH;
            while completed < target {
                a.run(3000);
                b.run(3000);
                while a.poll().is_some() {
                    completed += 1;
                }
            }
        }
        let ns = start.elapsed().as_nanos() as f64 / f64::from(completed);
        println!("RDMA WRITE {length:5} bytes: {ns:7.1} ns a message, both ends");
    }
}
