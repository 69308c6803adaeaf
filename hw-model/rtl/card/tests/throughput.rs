//! Bytes a cycle of the whole card in the steady state, with fast and slow host memory.
//!
//!     cargo test --release -p ferroce-rtl-card --test throughput -- --nocapture

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "the time of the simulation is printed"
)]

mod traffic;

use std::time::Instant as Moment;

use ferroce_driver::PathMtu;
use traffic::{CYCLE_NS, Load, Operation, Traffic};

/// Cycles before and in the measured window.
const WARM_UP_CYCLES: u64 = 10_000;
const WINDOW_CYCLES: u64 = 20_000;
/// Required number of used bytes of the 64 bytes of a beat.
const LEAST_BYTES: f64 = 40.0;

/// The measured values.
#[derive(Debug)]
struct Figures {
    /// Bytes of payload per cycle of the window.
    payload_bytes: f64,
    /// Bytes of frames at the port of the card that sends the data.
    frame_bytes: f64,
    /// Repeated requests.
    lost: u64,
    /// For each card, in total.
    cycles: u64,
}

fn measure(load: Load) -> Figures {
    let traffic = Traffic::new(load, None);
    traffic.run(WARM_UP_CYCLES);
    let window = traffic.run(WINDOW_CYCLES);
    let cycles = window.cycles as f64;
    Figures {
        payload_bytes: window.messages as f64 * load.message_bytes as f64 / cycles,
        frame_bytes: window.frame_bytes as f64 / cycles,
        lost: traffic.lost(),
        cycles: traffic.with_pair(|pair| pair.cycles()),
    }
}

/// Goal: the card fills its wire in the steady state, whether host memory answers immediately or
/// after 800 ns. Method: bytes per cycle at the port of the card that sends the data.
#[test]
fn the_card_fills_its_wire() {
    println!("operation  message  QPs  latency  bytes (payload) a cycle  Gb/s  cycles/s");
    let mut slow = Vec::new();
    for operation in [Operation::Write, Operation::Read, Operation::Send] {
        for message_bytes in [65_536, 4096] {
            for (queue_pairs, line_latency_cycles) in [(1, 0), (1, 200), (4, 0), (4, 200)] {
                let load = Load {
                    operation,
                    message_bytes,
                    mtu: PathMtu::Mtu4096,
                    queue_pairs,
                    line_latency_cycles,
                };
                let begun = Moment::now();
                let figures = measure(load);
                let cycles = 2.0 * figures.cycles as f64;
                println!(
                    "{:9} {message_bytes:8} {queue_pairs:4} {:8} {:6.1} ({:5.1}) {:6.0} {:9.0}",
                    format!("{operation:?}"),
                    line_latency_cycles,
                    figures.frame_bytes,
                    figures.payload_bytes,
                    figures.frame_bytes * 8.0 / CYCLE_NS as f64,
                    cycles / begun.elapsed().as_secs_f64(),
                );
                assert_eq!(figures.lost, 0, "{load:?}: packets were lost");
                if figures.frame_bytes < LEAST_BYTES {
                    slow.push(load);
                }
            }
        }
    }
    assert!(slow.is_empty(), "too few bytes a cycle: {slow:#?}");
}
