//! Stage `clock`: the device clock.

use std::time::{Duration, Instant};

use ferroce_driver::bus::Bus;
use ferroce_spec::register::offset;

use super::bench::Bench;
use super::hint;
use super::outcome::{Failure, Outcome};

/// Number of reads; none may be less than the previous one.
const READS: u32 = 2000;
/// Duration of the measurement of the rate.
const PERIOD: Duration = Duration::from_millis(200);
/// Attempts to read both clocks at once; the fastest one counts.
const TRIES: u32 = 32;
/// Tolerance of the rate: a wrong divider deviates more than this, a crystal far less.
const TOLERANCE: f64 = 0.02;

pub(super) fn run(bench: &mut Bench) -> Outcome {
    let bus = bench.bus.clone();
    check_order(&*bus)?;
    bench.figure("reads", READS);
    let (device_before, host_before) = both(&*bus);
    bench.wait(PERIOD, || false);
    let (device_after, host_after) = both(&*bus);
    let device_ns = device_after.wrapping_sub(device_before) as f64;
    let host_ns = host_after.duration_since(host_before).as_nanos() as f64;
    let rate = device_ns / host_ns;
    bench.figure("rate", rate);
    if (rate - 1.0).abs() <= TOLERANCE {
        bench.figure("ppm", (rate - 1.0) * 1e6);
        return Ok(());
    }
    let failure = Failure::new(format!(
        "the clock counts {rate:.4} for each nanosecond of this machine's clock"
    ));
    Err(if device_ns == 0.0 {
        failure
            .look_at_all(hint::of_read(device_after, 8))
            .look_at("the clock stands still: is its clock domain running, is it held in reset?")
    } else {
        failure.look_at(format!(
            "one count takes {:.3} ns: does it count cycles of {:.1} MHz instead of nanoseconds?",
            1.0 / rate,
            1e3 * rate
        ))
    }
    .into())
}

fn check_order(bus: &dyn Bus) -> Result<(), Failure> {
    let mut last = bus.read64(offset::clock);
    for _ in 0..READS {
        let now = bus.read64(offset::clock);
        if now < last {
            return Err(Failure::new(format!(
                "the clock went back, from {last} to {now}"
            ))
            .look_at("a 64-bit read that is answered as two: the upper half must be latched when \
                      the lower is read")
            .look_at("a binary counter that crosses clock domains without Gray code"));
        }
        last = now;
    }
    Ok(())
}

/// Returns both clocks at about the same time.
fn both(bus: &dyn Bus) -> (u64, Instant) {
    let mut best: Option<(Duration, u64, Instant)> = None;
    for _ in 0..TRIES {
        let before = Instant::now();
        let device = bus.read64(offset::clock);
        let took = before.elapsed();
        if best.is_none_or(|(shortest, ..)| took < shortest) {
            best = Some((took, device, before + took / 2));
        }
    }
    best.map_or_else(|| (0, Instant::now()), |(_, device, host)| (device, host))
}
