//! Tests of the whole harness, with presets that take time and one that does not.

mod ladders;
mod limits;
mod memory;

use std::sync::atomic::AtomicBool;

use ferroce_model::preset::Preset;

use super::json::{self, Measured};
use super::sweep::{Job, Listener};
use super::*;
use crate::json_text;

const ALL: [Operation; 4] = [
    Operation::Write,
    Operation::Read,
    Operation::Send,
    Operation::FetchAdd,
];

fn spec(preset: &str, operation: Operation, test: Test, size: u32) -> PerfSpec {
    let mut spec = PerfSpec::new(Preset::load(preset).expect("built in"), operation, test);
    spec.sizes = vec![size];
    spec.iterations = Iterations::Exactly(200);
    spec
}

fn row(spec: &PerfSpec) -> PerfRow {
    let result = run(spec).unwrap_or_else(|error| panic!("{error}"));
    result.rows.into_iter().next().expect("one size")
}

fn rate(spec: &PerfSpec) -> f64 {
    row(spec)
        .bandwidth
        .expect("a bandwidth test")
        .message_rate_mpps
}

fn counter(row: &PerfRow, host: usize, name: &str) -> u64 {
    let found = row.counters[host].iter().find(|(other, _)| *other == name);
    found.expect("a counter of that name").1
}

#[test]
fn every_test_runs_on_the_functional_preset() {
    for operation in ALL {
        for test in [Test::Bandwidth, Test::Latency] {
            let row = row(&spec("functional", operation, test, 8));
            assert_eq!(row.iterations, 200, "{operation:?} {test:?}");
            assert_eq!(row.counters.len(), 2);
        }
    }
}

#[test]
fn every_test_runs_on_a_card() {
    for operation in ALL {
        let rate = rate(&spec("cx5-100g", operation, Test::Bandwidth, 8));
        assert!((0.3..20.0).contains(&rate), "{operation:?}: {rate}");
        let latency = row(&spec("cx5-100g", operation, Test::Latency, 8));
        let latency = latency.latency.expect("figures");
        assert!((0.5..5.0).contains(&latency.typical_us), "{latency:?}");
        assert!(latency.min_us <= latency.typical_us && latency.typical_us <= latency.max_us);
        assert_eq!(latency.samples_ps.len(), 199);
    }
}

/// Goal: a row counts only its own work, not the setup. Method: 200 WRITEs of 8 B in one packet
/// each; every WRITE requests an ACK, at the latest at the end.
#[test]
fn counters_are_those_of_the_row() {
    let row = row(&spec("cx5-100g", Operation::Write, Test::Bandwidth, 8));
    assert_eq!(counter(&row, 0, "doorbells"), 200);
    assert_eq!(counter(&row, 0, "cqes"), 2, "one for each hundred");
    assert_eq!(counter(&row, 1, "rx_frames"), 200);
    assert_eq!(counter(&row, 0, "commands"), 0);
    assert_eq!(counter(&row, 0, "local_ack_timeouts"), 0);
}

#[test]
fn a_message_rate_is_one_over_the_cost_of_a_post() {
    let mut slow = spec("cx5-100g", Operation::Write, Test::Bandwidth, 8);
    slow.iterations = Iterations::Exactly(2000);
    slow.preset.set("host.post_ns", "400").expect("a parameter");
    slow.preset
        .set("host.doorbell_ns", "100")
        .expect("a parameter");
    slow.preset
        .set("host.write_combining", "false")
        .expect("a parameter");
    slow.preset.set("host.jitter_ns", "0").expect("a parameter");
    // The polls between the posts take their part.
    let rate = rate(&slow);
    assert!((1.9..=2.0).contains(&rate), "{rate}");
}

#[test]
fn all_services_and_both_directions() {
    for service in [Service::Rc, Service::Uc, Service::Ud] {
        for both in [false, true] {
            let mut send = spec("cx5-100g", Operation::Send, Test::Bandwidth, 512);
            (send.service, send.bidirectional) = (service, both);
            let expected = if both { 400 } else { 200 };
            assert_eq!(row(&send).iterations, expected, "{service:?} {both}");
        }
        let mut send = spec("cx5-100g", Operation::Send, Test::Latency, 512);
        send.service = service;
        assert!(row(&send).latency.is_some());
    }
    for (operation, service) in [
        (Operation::Write, Service::Uc),
        (Operation::Write, Service::Rc),
        (Operation::Read, Service::Rc),
    ] {
        let mut both = spec("cx5-100g", operation, Test::Bandwidth, 4096);
        (both.service, both.bidirectional) = (service, true);
        assert_eq!(row(&both).iterations, 400);
    }
}

#[test]
fn regions_pages_queues_and_hosts() {
    for page_size in [
        PageSize::Small,
        PageSize::Huge2M,
        PageSize::Huge1G,
        PageSize::Physical,
    ] {
        let mut pages = spec("cx5-100g", Operation::Read, Test::Bandwidth, 4096);
        pages.page_size = page_size;
        (pages.qps, pages.memory_regions, pages.threads) = (4, 4, 2);
        let row = row(&pages);
        assert_eq!(row.iterations, 800);
        let lookups = counter(&row, 1, "mtt_hits") + counter(&row, 1, "mtt_misses");
        assert_eq!(
            lookups == 0,
            page_size == PageSize::Physical,
            "{page_size:?}"
        );
    }
    for topology in [Topology::Loopback, Topology::Clients(3)] {
        let mut hosts = spec("cx5-100g", Operation::Write, Test::Bandwidth, 64);
        hosts.topology = topology;
        assert!(rate(&hosts) > 1.0);
    }
}

#[test]
fn a_switch_takes_its_time() {
    let mut near = spec("cx5-100g", Operation::Write, Test::Latency, 8);
    near.switched = Some(false);
    let mut far = near.clone();
    far.switched = Some(true);
    let typical = |spec: &PerfSpec| row(spec).latency.expect("figures").typical_us;
    let switch_us = near.preset.link.switch_ns / 1000.0;
    let difference = typical(&far) - typical(&near);
    assert!(difference >= 0.9 * switch_us, "{difference} of {switch_us}");
}

#[test]
fn batches_with_queues_and_doorbells_that_threads_share() {
    let mut own = spec("cx6-200g@xeon-6240r", Operation::Read, Test::Bandwidth, 8);
    (own.workload, own.threads, own.depth) = (Workload::Batch, 8, Some(8));
    own.region_bytes = Some(1 << 20);
    let mut doorbell = own.clone();
    doorbell.sharing.doorbells = Some(1);
    let mut queue = own.clone();
    queue.sharing.threads_per_qp = 8;
    let (own, doorbell, queue) = (rate(&own), rate(&doorbell), rate(&queue));
    assert!(
        own > 3.0 * doorbell && doorbell > 1.5 * queue,
        "{own} {doorbell} {queue}"
    );
}

#[test]
fn windows_over_all_hosts() {
    let mut window = spec("cx3-40g@apt-fdr", Operation::Read, Test::Bandwidth, 32);
    (window.workload, window.threads, window.depth) = (Workload::Window, 2, Some(4));
    window.topology = Topology::AllToAll {
        hosts: 3,
        virtual_machines: 2,
    };
    let row = row(&window);
    assert_eq!(row.counters.len(), 3);
    let served: Vec<u64> = (0..3)
        .map(|host| counter(&row, host, "rx_frames"))
        .collect();
    let (least, most) = (served.iter().min(), served.iter().max());
    assert!(
        least.zip(most).is_some_and(|(l, m)| 2 * l > *m),
        "{served:?}"
    );
}

#[test]
fn one_address_is_slower_than_many() {
    let mut many = spec("cx5-100g", Operation::FetchAdd, Test::Bandwidth, 8);
    (many.qps, many.threads) = (4, 4);
    let mut one = many.clone();
    one.atomics.one_address = true;
    let (many, one) = (rate(&many), rate(&one));
    assert!(one < many, "{one} {many}");
    let mut card = spec("cx5-100g", Operation::FetchAdd, Test::Bandwidth, 8);
    (card.qps, card.threads) = (4, 4);
    (card.atomics.one_address, card.atomics.device_memory) = (true, true);
    assert!(rate(&card) > one);
}

#[test]
fn atomics_of_more_queue_pairs_are_not_slower() {
    let mut few = spec("cx5-100g", Operation::FetchAdd, Test::Bandwidth, 8);
    few.iterations = Iterations::Exactly(500);
    (few.qps, few.threads) = (8, 8);
    let mut many = few.clone();
    (many.qps, many.threads) = (16, 16);
    let (few, many) = (rate(&few), rate(&many));
    assert!(many > 0.9 * few, "{few} {many}");
}

/// Goal: READs of several processing units add up, however long they are.
#[test]
fn a_second_queue_pair_adds_to_long_reads() {
    for size in [64 << 10, 4 << 20] {
        let of = |qps| {
            let mut spec = spec("cx7-400g", Operation::Read, Test::Bandwidth, size);
            spec.iterations = Iterations::Exactly(20);
            spec.qps = qps;
            rate(&spec)
        };
        let rates = [1, 2, 4].map(of);
        assert!(rates[1] > 1.1 * rates[0], "{size} B: {rates:?}");
        assert!(rates[2] > 0.98 * rates[1], "{size} B: {rates:?}");
    }
}

/// Goal: the read of a translation does not wait for the payload of all packets that could be sent.
/// Method: a slot that is slower than the wire, and twice as many pages as the card keeps.
#[test]
fn translations_are_read_beside_the_payload() {
    for operation in [Operation::Write, Operation::Read] {
        let time = |size| {
            let mut spec = spec("cx3-40g@gen2-qdr", operation, Test::Latency, size);
            spec.iterations = Iterations::Exactly(5);
            typical_ns(&spec)
        };
        let (fits, does_not) = (time(2 << 20), time(8 << 20));
        assert!(does_not < 4.2 * fits, "{operation:?}: {fits} {does_not}");
    }
}

#[test]
fn a_steady_rate_ends_the_test_early() {
    for operation in [Operation::Write, Operation::Send] {
        let mut exact = spec("cx5-100g", operation, Test::Bandwidth, 4096);
        exact.iterations = Iterations::Exactly(4000);
        let mut auto = exact.clone();
        auto.iterations = Iterations::UntilSteady(1_000_000);
        let (exact, auto) = (row(&exact), row(&auto));
        assert!(
            auto.ended_early && auto.iterations < 100_000,
            "{}",
            auto.iterations
        );
        let rate = |row: &PerfRow| row.bandwidth.as_ref().expect("figures").message_rate_mpps;
        assert!((rate(&auto) / rate(&exact) - 1.0).abs() < 0.02);
    }
}

/// Goal: threads that wait forever end the run, with a message. Method: datagrams find fewer
/// receives than there are messages, and the server is slow to post more.
#[test]
fn a_deadlock_is_an_error() {
    let mut lost = spec("cx5-100g", Operation::Send, Test::Bandwidth, 512);
    (lost.service, lost.receive_depth) = (Service::Ud, Some(4));
    lost.preset
        .set("host.post_receive_ns", "5000")
        .expect("a parameter");
    let error = run(&lost).expect_err("messages are lost").to_string();
    assert!(error.contains("the threads wait forever"), "{error}");
    assert!(error.contains("thread 1 on host 1"), "{error}");
}

#[derive(Default)]
struct Rows(Vec<PerfRow>);

impl Listener for Rows {
    fn progress(&mut self) {}

    fn row(&mut self, _: usize, row: PerfRow) {
        self.0.push(row);
    }
}

#[test]
fn the_same_bytes_of_json_ten_times() {
    let mut spec = spec("cx6-200g@xeon-6240r", Operation::Read, Test::Bandwidth, 8);
    (spec.workload, spec.threads, spec.depth) = (Workload::Batch, 24, Some(4));
    spec.iterations = Iterations::Exactly(20);
    spec.region_bytes = Some(1 << 20);
    let job = |size| Job {
        spec: spec.clone(),
        size,
        point: vec![("size".to_owned(), format!("{size}"))],
    };
    let jobs = [8, 64, 512].map(job);
    let text = |workers| {
        let mut rows = Rows::default();
        let never = AtomicBool::new(false);
        sweep::run(&jobs, workers, &never, &mut rows).expect("they run");
        let pairs = jobs.iter().zip(&rows.0);
        let measured = pairs.map(|(job, row)| Measured {
            spec: &job.spec,
            point: &job.point,
            row,
        });
        json_text::write(&json::rows(&measured.collect::<Vec<_>>()))
    };
    let first = text(1);
    assert!(first.contains("\"message_rate_mpps\"") && first.contains("\"qpc_hits\""));
    for workers in [1, 1, 1, 2, 2, 2, 3, 3, 3] {
        assert!(text(workers) == first, "{workers} workers");
    }
    let mut other = jobs[0].spec.clone();
    other.seed = 2;
    assert_ne!(row(&other).bandwidth, row(&jobs[0].spec).bandwidth);
}

/// Returns a card whose times do not spread, so that runs can be subtracted.
fn steady(preset: &str, operation: Operation, test: Test) -> PerfSpec {
    let mut spec = spec(preset, operation, test, 8);
    for (key, value) in [
        ("host.jitter_ns", "0"),
        ("pcie.read_jitter_ns", "0"),
        ("pcie.read_tail_probability", "0"),
    ] {
        spec.preset.set(key, value).expect("a parameter");
    }
    spec
}

fn typical_ns(spec: &PerfSpec) -> f64 {
    row(spec).latency.expect("a latency test").typical_us * 1000.0
}

/// Goal: a thread that sleeps sees its completion later by event, interrupt and wake-up only.
/// Method: the same READs with polling, with sleep and a free wake-up, and with sleep and its cost.
#[test]
fn a_thread_that_sleeps_waits_for_event_interrupt_and_wake_up() {
    for operation in [Operation::Read, Operation::FetchAdd] {
        let polled = steady("cx5-100g", operation, Test::Latency);
        let (host, clock) = (&polled.preset.host, &polled.preset.clock);
        let (doorbell_ns, poll_ns) = (host.doorbell_ns, host.poll_miss_ns);
        let event_ns = f64::from(polled.preset.datapath.event_cycles) * 1000.0 / clock.core_mhz;
        let mut slept = polled.clone();
        slept.events = true;
        slept.preset.set("host.interrupt_ns", "0").expect("legal");
        let mut woken = slept.clone();
        woken
            .preset
            .set("host.interrupt_ns", "3000")
            .expect("legal");
        let [polled, slept, woken] = [&polled, &slept, &woken].map(typical_ns);
        assert!(
            (woken - slept - 3000.0).abs() < 10.0,
            "{operation:?}: {woken} {slept}"
        );
        // EQE and MSI-X follow the CQE by the time of the event stage; then the CQ is armed. A
        // polling thread sees the CQE up to one iteration late.
        let stages = slept - polled - doorbell_ns;
        let sum = event_ns - poll_ns..event_ns + 20.0;
        assert!(sum.contains(&stages), "{operation:?}: {stages} {sum:?}");
    }
}

#[test]
fn moderation_makes_events_wait_and_saves_interrupts() {
    let mut alone = steady("cx5-100g", Operation::Read, Test::Latency);
    alone.events = true;
    let mut waits = alone.clone();
    for (key, value) in [("moderation_count", "4"), ("moderation_ns", "5000")] {
        let key = format!("interrupt.{key}");
        waits.preset.set(&key, value).expect("a parameter");
    }
    let (first, second) = (typical_ns(&alone), typical_ns(&waits));
    assert!((second - first - 5000.0).abs() < 10.0, "{first} {second}");
    // Four threads with a CQ each, whose events share an event queue.
    let of_four = |preset: &Preset| {
        let mut four = alone.clone();
        four.preset = preset.clone();
        (four.test, four.threads, four.qps) = (Test::Bandwidth, 4, 4);
        (four.depth, four.signal_every) = (Some(16), Some(1));
        let row = row(&four);
        (counter(&row, 0, "interrupts"), counter(&row, 0, "eqes"))
    };
    let (each, shared) = (of_four(&alone.preset), of_four(&waits.preset));
    assert!(
        4 * shared.0 <= shared.1 + 4 && 2 * shared.0 <= each.0,
        "{each:?} {shared:?}"
    );
}

#[test]
fn all_tests_that_can_sleep_end() {
    for operation in ALL {
        for (threads, both) in [(1, false), (1, true), (3, false)] {
            let mut sleeps = spec("cx5-100g", operation, Test::Bandwidth, 8);
            (sleeps.events, sleeps.bidirectional) = (true, both);
            (sleeps.threads, sleeps.qps) = (threads, 2 * threads);
            for every in [Some(1), None] {
                sleeps.signal_every = every;
                let sent = u64::from(sleeps.qps) * 200 * (1 + u64::from(both));
                assert_eq!(
                    row(&sleeps).iterations,
                    sent,
                    "{operation:?} {threads} {both}"
                );
            }
        }
    }
    let mut functional = spec("functional", Operation::Send, Test::Latency, 8);
    functional.events = true;
    assert_eq!(row(&functional).iterations, 200);
}

/// Goal: fast-forward does not change figures: it only skips time in the middle of a message that
/// flows steadily.
#[test]
fn the_middle_of_long_messages_can_be_left_out() {
    for preset in ["cx5-100g", "irdma-10g", "cx6-200g"] {
        for operation in [Operation::Write, Operation::Send, Operation::Read] {
            let spec = |test| PerfSpec {
                iterations: Iterations::Exactly(10),
                ..spec(preset, operation, test, 4 << 20)
            };
            assert_alike_with_fast_forward(&spec(Test::Latency));
            let mut one_way = spec(Test::Bandwidth);
            assert_alike_with_fast_forward(&one_way);
            // One of the streams is between two messages while the other is in the middle of one.
            one_way.bidirectional = true;
            assert_alike_with_fast_forward(&one_way);
        }
    }
}

fn assert_alike_with_fast_forward(spec: &PerfSpec) {
    let every = row(spec);
    let some = row(&PerfSpec {
        fast_forward: true,
        ..spec.clone()
    });
    let figure = |row: &PerfRow| match (&row.bandwidth, &row.latency) {
        (Some(bandwidth), _) => bandwidth.average_mib_per_s,
        (_, Some(latency)) => latency.typical_us,
        _ => panic!("no figure"),
    };
    let (preset, both_ways) = (spec.preset.name(), spec.bidirectional);
    let name = format!("{preset} {:?} {:?} {both_ways}", spec.operation, spec.test);
    let ratio = figure(&some) / figure(&every);
    let limit = if both_ways { 4e-3 } else { 1e-3 };
    assert!((ratio - 1.0).abs() < limit, "{name}: {ratio}");
    let is_less = some.events < every.events / 2;
    assert!(is_less || both_ways, "{name}: {} events", some.events);
    // Frames are not compared: ACKs do not come once for each stride.
    for counted in ["tx_bytes", "rx_bytes"] {
        let sum = |row| (counter(row, 0, counted) + counter(row, 1, counted)) as f64;
        let (some, every) = (sum(&some), sum(&every));
        let is_same = (some / every - 1.0).abs() < 1e-2;
        assert!(is_same, "{name} {counted}: {some}, not {every}");
    }
}
