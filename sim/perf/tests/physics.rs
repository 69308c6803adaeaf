//! No result beats physics: random cards in random hosts, random tests. `FERROCE_SEED=n` runs one
//! case, `FERROCE_SEEDS=n` runs n cases.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use ferroce_model::preset::{Preset, Value};
use ferroce_perf::{
    BandwidthRow, Error, Iterations, Operation, PerfRow, PerfSpec, Service, Test, runner,
};
use ferroce_units::random::Random;

/// Cases of `make test`; `make soak` runs more.
const CASES: u64 = 200;
/// Maximum payload of a run: bounds the time of a case.
const MAX_BYTES: u64 = 2 << 20;
/// Time limit of a run, which takes a fraction of a second.
const RUN_TIMEOUT: Duration = Duration::from_secs(120);
/// Maximum and minimum number of messages of each queue pair.
const MAX_MESSAGES: u64 = 300;
const MIN_MESSAGES: u64 = 8;
/// Maximum number of parameters that a case changes.
const MAX_CHANGES: u64 = 4;
/// Rounding of the clocks to picoseconds.
const ROUNDING: f64 = 1e-6;

/// Minimum bytes of a packet in addition to its payload: Ethernet with FCS, preamble and gap; IPv4,
/// UDP, BTH, ICRC.
const PACKET_OVERHEAD_BYTES: u64 = 14 + 4 + 8 + 12 + 20 + 8 + 12 + 4;

/// Parameters that are multiplied by a factor between a half and two.
const SCALED: [&str; 16] = [
    "pcie.read_latency_ns",
    "pcie.write_latency_ns",
    "pcie.mmio_write_ns",
    "pcie.engine_read_ns",
    "pcie.read_tags",
    "pcie.read_buffer_bytes",
    "clock.core_mhz",
    "mac.rate_gbps",
    "mac.transmit_ns",
    "link.cable_ns",
    "host.post_ns",
    "host.doorbell_ns",
    "units.transmit_cycles",
    "units.receive_cycles",
    "datapath.packetizer_cycles",
    "datapath.fetch_cycles",
];

/// Parameters that take one of a few values.
const CHOSEN: [(&str, &[&str]); 9] = [
    ("pcie.lanes", &["4", "8", "16"]),
    ("pcie.mps_bytes", &["128", "256", "512"]),
    ("pcie.mrrs_bytes", &["128", "512", "4096"]),
    ("units.count", &["1", "2", "8"]),
    ("datapath.cut_through", &["true", "false"]),
    ("datapath.egress_packets", &["1", "4", "64"]),
    ("transport.ack_coalesce", &["1", "4", "32"]),
    ("transport.max_outstanding_reads", &["1", "4", "16"]),
    ("cache.mtt.log_sets", &["0", "4", "9"]),
];

/// Spreads that would hide the compared differences; the cases set them to zero.
const STEADY: [(&str, &str); 3] = [
    ("host.jitter_ns", "0"),
    ("pcie.read_jitter_ns", "0"),
    ("pcie.read_tail_probability", "0"),
];

fn pick<'a, T: ?Sized>(random: &Random, from: &[&'a T]) -> &'a T {
    from[random.below(from.len() as u64) as usize]
}

/// Returns a card in a host, a few of its parameters changed, or `None` if they contradict.
fn preset(random: &Random) -> Option<Preset> {
    let names: Vec<&str> = Preset::names()
        .filter(|name| *name != "functional")
        .collect();
    let hosts: Vec<&str> = Preset::hosts().collect();
    let name = pick(random, &names);
    let name = match random.below(3) {
        0 => format!("{name}@{}", pick(random, &hosts)),
        _ => name.to_owned(),
    };
    let mut preset = Preset::load(&name).ok()?;
    for _ in 0..random.below(MAX_CHANGES + 1) {
        match random.below(2) {
            0 => scale(&mut preset, pick(random, &SCALED), random),
            _ => {
                let (key, values) = CHOSEN[random.below(CHOSEN.len() as u64) as usize];
                preset.set(key, pick(random, values)).ok()?;
            }
        }
    }
    for (key, value) in STEADY {
        preset.set(key, value).expect("a parameter");
    }
    preset.check().is_ok().then_some(preset)
}

/// Multiplies a parameter by a half to two; one that is then not permitted stays as it is.
fn scale(preset: &mut Preset, key: &str, random: &Random) {
    let found = preset.parameters().find(|parameter| parameter.key == key);
    let factor = 0.5 + random.below(1501) as f64 / 1000.0;
    let scaled = match found.expect(key).value {
        Value::Real(value) => (value * factor).to_string(),
        Value::Count(value) => (f64::from(value) * factor).round().to_string(),
        Value::Flag(_) | Value::Name(_) => return,
    };
    let _ = preset.set(key, &scaled);
}

/// Returns a size between 1 B and 256 KiB, often next to a power of two.
fn size(random: &Random) -> u32 {
    let power = 1u64 << random.below(19);
    let size = match random.below(4) {
        0 => power,
        1 => power + 1,
        2 => power.saturating_sub(1).max(1),
        _ => power + random.below(power),
    };
    size as u32
}

fn specification(random: &Random, preset: Preset, test: Test) -> PerfSpec {
    let operation = *pick(
        random,
        &[
            &Operation::Write,
            &Operation::Read,
            &Operation::Send,
            &Operation::FetchAdd,
        ],
    );
    let mut spec = PerfSpec::new(preset, operation, test);
    spec.service = match (operation, random.below(4)) {
        (Operation::Write | Operation::Send, 0) => Service::Uc,
        (Operation::Send, 1) => Service::Ud,
        _ => Service::Rc,
    };
    // The port's MTU bounds a datagram.
    let most = spec.preset.transport.path_mtu_bytes;
    let mtu = *pick(random, &[&256u32, &1024, &4096]).min(&most);
    spec.mtu_bytes = Some(mtu);
    spec.sizes = vec![match (operation, spec.service) {
        (Operation::FetchAdd, _) => 8,
        (_, Service::Ud) => size(random).min(mtu),
        _ => size(random),
    }];
    if test == Test::Bandwidth {
        spec.qps = 1 + random.below(4) as u32;
        spec.depth = Some(1 << random.below(8));
        spec.signal_every = Some(1);
        // A receiver that is slower than the sender is a result, but not one of physics.
        spec.receive_depth = Some(MAX_MESSAGES as u32 + 1);
    }
    spec.iterations = Iterations::Exactly(messages(spec.sizes[0], spec.qps));
    spec.seed = random.below(1 << 32);
    spec
}

fn messages(size: u32, qps: u32) -> u64 {
    (MAX_BYTES / (u64::from(size) * u64::from(qps))).clamp(MIN_MESSAGES, MAX_MESSAGES)
}

fn counter(row: &PerfRow, host: usize, name: &str) -> u64 {
    let found = row.counters[host].iter().find(|(other, _)| *other == name);
    found.expect("a counter of that name").1
}

/// Returns the specification of a case, for the message of a failure.
fn text(spec: &PerfSpec) -> String {
    let changed: Vec<String> = spec
        .preset
        .parameters()
        .filter(|parameter| parameter.stated_by == "user")
        .map(|parameter| format!("--set {}={}", parameter.key, parameter.value))
        .collect();
    format!(
        "{:?} {:?} {:?} -s {} -q {} -t {:?} -m {:?} -n {:?} --preset {} {}",
        spec.operation,
        spec.test,
        spec.service,
        spec.sizes[0],
        spec.qps,
        spec.depth,
        spec.mtu_bytes,
        spec.iterations,
        spec.preset.name(),
        changed.join(" ")
    )
}

/// Runs a case. A case that does not end is interrupted, which is an error.
fn row(spec: &PerfSpec) -> Result<PerfRow, Error> {
    let stop = AtomicBool::new(false);
    let (ended, end) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let stop = &stop;
        scope.spawn(move || {
            let is_late = end.recv_timeout(RUN_TIMEOUT) == Err(RecvTimeoutError::Timeout);
            stop.store(is_late, Ordering::Relaxed);
        });
        let row = runner::run(spec, spec.sizes[0], stop, None);
        drop(ended);
        row
    })
}

/// Returns the minimum bytes of a message on the wire, in the direction of its payload.
fn wire_bytes(spec: &PerfSpec) -> u64 {
    let (size, mtu) = (u64::from(spec.sizes[0]), spec.mtu_bytes.expect("given"));
    size + size.div_ceil(u64::from(mtu)).max(1) * PACKET_OVERHEAD_BYTES
}

/// Returns the shortest time from one card's packetizer to the other's depacketizer.
fn flight_ns(preset: &Preset) -> f64 {
    preset.mac.transmit_ns + preset.link.cable_ns + preset.mac.receive_ns
}

fn messages_per_ns(bandwidth: &BandwidthRow) -> f64 {
    bandwidth.messages as f64 * 1000.0 / bandwidth.elapsed_ps as f64
}

/// Checks that the rate is not above the capacity of the wire, the slot and the window.
fn rate_is_possible(spec: &PerfSpec, row: &PerfRow) -> Result<(), String> {
    let rate = messages_per_ns(row.bandwidth.as_ref().expect("a bandwidth test"));
    let preset = &spec.preset;
    let within = |name: &str, used: f64, limit: f64| {
        if used <= limit * (1.0 + ROUNDING) {
            Ok(())
        } else {
            Err(format!("{name}: {used:.4} of {limit:.4}"))
        }
    };
    within(
        "wire, Gb/s",
        rate * 8.0 * wire_bytes(spec) as f64,
        preset.mac.rate_gbps,
    )?;
    within(
        "slot, Gb/s",
        rate * 8.0 * f64::from(spec.sizes[0]),
        slot_gbps(preset),
    )?;
    if spec.service == Service::Rc {
        let outstanding = f64::from(spec.qps * spec.depth.expect("given"));
        let round_trip = 2.0 * flight_ns(preset);
        within("window, messages", rate * round_trip, outstanding)?;
    }
    Ok(())
}

/// Returns the raw rate of the slot.
fn slot_gbps(preset: &Preset) -> f64 {
    let lane = match preset.pcie.generation {
        1 => 2.0,
        2 => 4.0,
        3 => 8.0 * 128.0 / 130.0,
        4 => 16.0 * 128.0 / 130.0,
        _ => 32.0 * 128.0 / 130.0,
    };
    lane * f64::from(preset.pcie.lanes)
}

/// Checks that one side has received everything that the other has sent, and that the payload has
/// passed both slots.
fn nothing_is_lost_or_made_up(spec: &PerfSpec, row: &PerfRow) -> Result<(), String> {
    for (sender, receiver) in [(0, 1), (1, 0)] {
        for (sent, received) in [("tx_frames", "rx_frames"), ("tx_bytes", "rx_bytes")] {
            let (sent, received) = (counter(row, sender, sent), counter(row, receiver, received));
            if received > sent {
                return Err(format!("{received} received of {sent} sent"));
            }
        }
    }
    let payload = row.iterations * u64::from(spec.sizes[0]);
    let source = usize::from(spec.operation == Operation::Read);
    if spec.operation != Operation::FetchAdd && counter(row, source, "tx_bytes") < payload {
        return Err(format!("less than {payload} B sent"));
    }
    if spec.service == Service::Rc && spec.test == Test::Bandwidth {
        let (placed, bytes) = (1 - source, "dma_write_bytes");
        if spec.operation != Operation::FetchAdd && counter(row, placed, bytes) < payload {
            return Err(format!("less than {payload} B placed"));
        }
    }
    match counter(row, 0, "packets_retransmitted") + counter(row, 1, "packets_retransmitted") {
        0 => Ok(()),
        count => Err(format!("{count} packets sent again without a loss")),
    }
}

fn check_rate(spec: &PerfSpec) -> Result<(), String> {
    let row = row(spec).map_err(|error| error.to_string())?;
    rate_is_possible(spec, &row)?;
    nothing_is_lost_or_made_up(spec, &row)
}

/// Checks that a longer message is not faster, and that none is faster than its bytes on the wire.
fn check_latency(spec: &PerfSpec, random: &Random) -> Result<(), String> {
    let mut longer = spec.clone();
    if spec.operation != Operation::FetchAdd {
        let most = match spec.service {
            Service::Ud => spec.mtu_bytes.expect("given"),
            _ => u32::MAX,
        };
        let more = 1 + random.below(u64::from(spec.sizes[0]) + 64) as u32;
        longer.sizes = vec![(spec.sizes[0] + more).min(most)];
    }
    let measure = |spec: &PerfSpec| {
        let row = row(spec).map_err(|error| error.to_string())?;
        nothing_is_lost_or_made_up(spec, &row)?;
        let figures = row.latency.expect("a latency test");
        let least_ns =
            flight_ns(&spec.preset) + 8.0 * f64::from(spec.sizes[0]) / spec.preset.mac.rate_gbps;
        if figures.min_us * 1000.0 >= least_ns * (1.0 - ROUNDING) {
            Ok(figures.typical_us * 1000.0)
        } else {
            Err(format!("{} us, at least {least_ns} ns", figures.min_us))
        }
    };
    let (short, long) = (measure(spec)?, measure(&longer)?);
    let named_step = step_ns(&spec.preset, spec.mtu_bytes.expect("given"));
    if long + named_step >= short * (1.0 - ROUNDING) {
        Ok(())
    } else {
        Err(format!(
            "{short:.1} ns, but {} B take {long:.1} ns",
            longer.sizes[0]
        ))
    }
}

/// Returns the time by which a longer message may be faster: a thread finds completions and bytes
/// at the times of its polls, and an engine that stores and forwards a read has it sooner when a
/// page boundary splits it in two.
fn step_ns(preset: &Preset, mtu: u32) -> f64 {
    let (host, pcie) = (&preset.host, &preset.pcie);
    let polls = 2.0 * host.poll_miss_ns.max(host.memory_poll_ns);
    match pcie.engine_store_gbps {
        0.0 => polls,
        rate => polls + 8.0 * f64::from(mtu) / rate,
    }
}

fn check(seed: u64) -> Result<(), String> {
    let random = Random::new(seed, 0);
    let Some(preset) = preset(&random) else {
        return Ok(());
    };
    let test = match random.below(2) {
        0 => Test::Bandwidth,
        _ => Test::Latency,
    };
    let spec = specification(&random, preset, test);
    let result = match test {
        Test::Bandwidth => check_rate(&spec),
        Test::Latency => check_latency(&spec, &random),
    };
    result.map_err(|error| format!("seed {seed}: {error}\n    {}", text(&spec)))
}

fn number(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(
        value
            .parse()
            .unwrap_or_else(|_| panic!("{name}={value}: no number")),
    )
}

#[test]
fn no_result_is_above_physics() {
    let seeds = match number("FERROCE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("FERROCE_SEEDS").unwrap_or(CASES),
    };
    let failures: Vec<String> = seeds.filter_map(|seed| check(seed).err()).collect();
    assert!(
        failures.is_empty(),
        "{} cases:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

/// Returns a case of the generator's kind: messages of one service, one after the other.
fn plain(service: Service, size: u32) -> PerfSpec {
    let mut preset = Preset::load("cx5-100g").expect("built in");
    for (key, value) in STEADY {
        preset.set(key, value).expect("a parameter");
    }
    let mut spec = PerfSpec::new(preset, Operation::Send, Test::Bandwidth);
    spec.service = service;
    spec.mtu_bytes = Some(1024);
    (spec.sizes, spec.depth, spec.signal_every) = (vec![size], Some(32), Some(1));
    spec.receive_depth = Some(MAX_MESSAGES as u32 + 1);
    spec.iterations = Iterations::Exactly(MAX_MESSAGES);
    spec
}

/// Goal: the checks detect results of cards with the defects that they exist for. Method: the
/// record of a sound run, changed as the defect would change it.
#[test]
fn a_result_above_physics_is_found() {
    for (service, size) in [(Service::Uc, 4096), (Service::Ud, 1024)] {
        let spec = plain(service, size);
        let sound = row(&spec).expect("it runs");
        assert_eq!(rate_is_possible(&spec, &sound), Ok(()));
        assert_eq!(nothing_is_lost_or_made_up(&spec, &sound), Ok(()));

        // Sends that complete when their packets are made: as fast as the slot brings payload.
        let mut early = sound.clone();
        let bytes = early.iterations * u64::from(size);
        let bandwidth = early.bandwidth.as_mut().expect("a bandwidth test");
        bandwidth.elapsed_ps = (8000.0 * bytes as f64 / slot_gbps(&spec.preset)) as u64;
        let found = rate_is_possible(&spec, &early).expect_err("above the wire");
        assert!(found.starts_with("wire"), "{found}");

        // A sender that stalls has counted its messages, but not sent all of them.
        let mut stalled = sound.clone();
        change(&mut stalled, 0, "tx_bytes", |bytes| bytes / 2);
        change(&mut stalled, 1, "rx_bytes", |bytes| bytes / 2);
        assert!(nothing_is_lost_or_made_up(&spec, &stalled).is_err());

        let mut made_up = sound.clone();
        change(&mut made_up, 1, "rx_frames", |frames| 2 * frames);
        assert!(nothing_is_lost_or_made_up(&spec, &made_up).is_err());

        let mut repeated = sound;
        change(&mut repeated, 0, "packets_retransmitted", |_| 1);
        assert!(nothing_is_lost_or_made_up(&spec, &repeated).is_err());
    }
}

fn change(row: &mut PerfRow, host: usize, name: &str, to: impl Fn(u64) -> u64) {
    let mut counters = row.counters[host].iter_mut();
    let found = counters.find(|(other, _)| *other == name);
    let value = &mut found.expect("a counter of that name").1;
    *value = to(*value);
}
