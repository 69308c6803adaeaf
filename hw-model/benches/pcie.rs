//! What a call of the PCIe model costs the processor, in nanoseconds.
#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a benchmark measures the machine's time"
)]

use std::hint::black_box;

use ferroce_model::pcie::hosts::{HASWELL, MLX5_100G};
use ferroce_model::pcie::{Parameters, Pcie};
use ferroce_units::{Duration, Instant};

const CALLS: u32 = 5_000_000;
/// Accesses are this far from each other; a few hundred kilobytes are used again and again.
const STRIDE: u64 = 4160;
const PLACES: u64 = 100;
const WINDOW_START: u64 = 1 << 32;

/// Prints what `call` costs on `parameters` when there is a call every `interval_ns`.
fn measure(
    what: &str,
    parameters: &Parameters,
    interval_ns: u64,
    mut call: impl FnMut(&mut Pcie, Instant, u64) -> Instant,
) {
    let mut pcie = Pcie::new(parameters, 1);
    let mut now = Instant::ZERO;
    let start = std::time::Instant::now();
    for index in 0..CALLS {
        pcie.begin(now);
        let iova = WINDOW_START + u64::from(index) % PLACES * STRIDE;
        black_box(call(&mut pcie, now, iova));
        now += Duration::from_ns(interval_ns);
    }
    let ns = start.elapsed().as_nanos() as f64 / f64::from(CALLS);
    println!("{what:44} {ns:6.1} ns a call");
}

fn main() {
    let host = MLX5_100G;
    measure("read 64 B", &host, 20, |pcie, now, iova| {
        pcie.read(now, iova, 64)
    });
    measure("read 1024 B", &host, 100, |pcie, now, iova| {
        pcie.read(now, iova, 1024)
    });
    measure("read 4096 B", &host, 320, |pcie, now, iova| {
        pcie.read(now, iova & !4095, 4096)
    });
    measure(
        "read 4096 B across a page boundary",
        &host,
        320,
        |pcie, now, iova| pcie.read(now, iova | 64, 4096),
    );
    measure("read 64 B, tags exhausted", &host, 1, |pcie, now, iova| {
        pcie.read(now, iova, 64)
    });
    measure("write 64 B", &host, 20, |pcie, now, iova| {
        pcie.write(now, iova, 64)
    });
    measure("write 4096 B", &host, 320, |pcie, now, iova| {
        pcie.write(now, iova & !4095, 4096)
    });
    let small_pages = HASWELL.with_small_pages();
    measure("read 64 B, IOTLB", &small_pages, 20, |pcie, now, iova| {
        pcie.read(now, iova, 64)
    });
    measure("doorbell", &host, 20, |pcie, now, _| {
        pcie.mmio_write(now, 8).arrival
    });
}
