//! Stage `timing`: latencies and rates. It fails only if an event does not happen at all.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ferroce_driver::{
    CompletionQueue, CompletionQueueConfig, Destination, SendData, SendOperation, Service,
};
use ferroce_spec::register::offset;

use super::bench::Bench;
use super::hint;
use super::outcome::{Failure, Outcome, Stop};
use super::pair::{DEPTH, Pair, refused};
use super::pattern::Memory;

/// Register accesses, and messages whose latency is measured.
const SAMPLES: usize = 1000;
/// Interrupts whose latency is measured.
const INTERRUPTS: usize = 100;
/// Time limit of a series.
const LONGEST: Duration = Duration::from_millis(500);
/// Duration of the measurement of bandwidth.
const PERIOD: Duration = Duration::from_millis(200);
/// Bytes of a message for bandwidth.
const LARGE: usize = 64 << 10;
/// Bytes of a message for latency.
const SMALL: usize = 8;

pub(super) fn run(bench: &mut Bench) -> Outcome {
    registers(bench);
    let pair = Pair::new(bench, Service::ReliableConnected)?;
    let memory = Memory::open(&bench.opened()?.pd, 2 * LARGE)
        .map_err(|error| hint::of_driver("no memory region", &error, &*bench.bus))?;
    let write = SendOperation::RdmaWrite(memory.remote(LARGE));
    let read = SendOperation::RdmaRead(memory.remote(LARGE));
    for (name, operation) in [("write_8", write), ("read_8", read)] {
        let latency = latency(bench, &pair, &memory, operation)?;
        show(bench, name, "us", latency);
    }
    interrupts(bench, &memory)?;
    for (name, operation) in [("write_64k", write), ("read_64k", read)] {
        let gbps = bandwidth(bench, &pair, &memory, operation)?;
        bench.figure(format!("{name}_gbps"), gbps);
    }
    Ok(())
}

/// Measured times.
struct Times(Vec<Duration>);

impl Times {
    /// Takes samples, at most for [`LONGEST`].
    fn take<E>(count: usize, mut once: impl FnMut() -> Result<Duration, E>) -> Result<Self, E> {
        let start = Instant::now();
        let mut times = Vec::with_capacity(count);
        while times.len() < count && (start.elapsed() < LONGEST || times.is_empty()) {
            times.push(once()?);
        }
        times.sort_unstable();
        Ok(Self(times))
    }

    /// Returns a percentile.
    fn percentile(&self, percent: usize) -> Duration {
        let last = self.0.len().saturating_sub(1);
        self.0
            .get(last * percent / 100)
            .copied()
            .unwrap_or_default()
    }
}

fn show(bench: &mut Bench, name: &str, unit: &str, times: Times) {
    let in_a_second = if unit == "ns" { 1e9 } else { 1e6 };
    let value = |percent| times.percentile(percent).as_secs_f64() * in_a_second;
    bench.figure(format!("{name}_median_{unit}"), value(50));
    bench.figure(format!("{name}_p99_{unit}"), value(99));
}

fn registers(bench: &mut Bench) {
    let bus = bench.bus.clone();
    let time = |action: &dyn Fn()| {
        let once = || {
            let start = Instant::now();
            action();
            Ok::<_, std::convert::Infallible>(start.elapsed())
        };
        Times::take(SAMPLES, once).unwrap_or_else(|never| match never {})
    };
    let read = time(&|| {
        std::hint::black_box(bus.read32(offset::magic));
    });
    show(bench, "register_read", "ns", read);
    // The register is read-only: the write reaches the device but has no effect.
    let write = time(&|| bus.write32(offset::magic, 0));
    show(bench, "register_write", "ns", write);
}

/// Measures from posting to the completion.
fn latency(
    bench: &Bench,
    pair: &Pair,
    memory: &Memory,
    operation: SendOperation,
) -> Result<Times, Failure> {
    Times::take(SAMPLES, || {
        let data = SendData::ScatterGather(&[memory.segment(0, SMALL)]);
        let start = Instant::now();
        pair.execute(bench, operation, data, "a message of 8 bytes")?;
        Ok(start.elapsed())
    })
}

/// Measures from posting to the handler of the completion's event.
fn interrupts(bench: &mut Bench, memory: &Memory) -> Result<(), Stop> {
    let opened = bench.opened()?;
    let events = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&events);
    let config = CompletionQueueConfig {
        entries: DEPTH,
        on_event: Some(Arc::new(move || {
            counted.fetch_add(1, Ordering::Release);
        })),
        ..CompletionQueueConfig::default()
    };
    let cq = CompletionQueue::create(&opened.device, config)
        .map_err(|error| hint::of_driver("no completion queue", &error, &*bench.bus))?;
    let pair = Pair::with_cqs(bench, Service::ReliableConnected, &cq, &cq)?;
    let times = Times::take(INTERRUPTS, || {
        let before = events.load(Ordering::Acquire);
        cq.arm();
        let data = SendData::ScatterGather(&[memory.segment(0, SMALL)]);
        let write = SendOperation::RdmaWrite(memory.remote(LARGE));
        let start = Instant::now();
        pair.post(write, Destination::Connected, data, 1)
            .map_err(|error| refused("RDMA WRITE", error))?;
        let has_come = || events.load(Ordering::Acquire) != before;
        let came = bench.wait(bench.timeouts.interrupt, has_come);
        let took = start.elapsed();
        bench.success(&cq, "RDMA WRITE")?;
        if came.is_none() {
            return Err(Failure::new("a completion event has not come").look_at("stage interrupts"));
        }
        Ok(took)
    })?;
    show(bench, "event", "us", times);
    Ok(())
}

/// Measures gigabits of payload per second, with as many messages in flight as the queue holds.
fn bandwidth(
    bench: &Bench,
    pair: &Pair,
    memory: &Memory,
    operation: SendOperation,
) -> Result<f64, Failure> {
    let post = || {
        let data = SendData::ScatterGather(&[memory.segment(0, LARGE)]);
        pair.post(operation, Destination::Connected, data, 1)
            .map_err(|error| refused("a message of 64 KiB", error))
    };
    let start = Instant::now();
    for _ in 0..DEPTH {
        post()?;
    }
    let (mut under_way, mut done) = (DEPTH, 0u64);
    while under_way > 0 {
        bench.success(&pair.send_cq, "a message of 64 KiB")?;
        done += 1;
        if start.elapsed() < PERIOD {
            post()?;
        } else {
            under_way -= 1;
        }
    }
    Ok(done as f64 * LARGE as f64 * 8.0 / start.elapsed().as_secs_f64() / 1e9)
}
