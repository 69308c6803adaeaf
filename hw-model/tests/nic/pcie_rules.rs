//! The rules of PCIe, and what happens when tags, buffer or credits run out.

use ferroce_model::pcie::hosts::HASWELL;
use ferroce_model::pcie::{Parameters, Pcie, PcieParameters};
use ferroce_units::{Duration, Instant};
use proptest::prelude::*;

const IOVA: u64 = 1 << 32;
const READ_NS: u64 = 400;
const WRITE_NS: u64 = 300;

/// A host without spread, whose figures are easy to calculate with.
fn host() -> Parameters {
    let mut host = HASWELL;
    host.pcie = PcieParameters {
        read_tags: 64,
        read_latency_ns: READ_NS as f64,
        read_jitter_ns: 0.0,
        write_latency_ns: WRITE_NS as f64,
        engine_read_ns: 0.0,
        engine_write_ns: 0.0,
        engine_store_gbps: 0.0,
        ..HASWELL.pcie
    };
    host.iommu.enabled = false;
    host
}

fn ns(ns: u64) -> Instant {
    Instant::from_ns(ns)
}

/// Nanoseconds, rounded: wires are exact to a picosecond only.
fn rounded(instant: Instant) -> u64 {
    (instant.as_ps() + 500) / 1000
}

#[test]
fn an_idle_link_has_the_latencies_of_its_parameters() {
    let pcie = || Pcie::new(&host(), 1);
    assert_eq!(rounded(pcie().read(ns(1000), IOVA, 64)), 1000 + READ_NS);
    assert_eq!(rounded(pcie().write(ns(1000), IOVA, 64)), 1000 + WRITE_NS);
    let atomic = pcie().atomic(ns(1000), IOVA);
    assert!((1380..=1400).contains(&rounded(atomic)), "{atomic:?}");
    assert_eq!(rounded(pcie().mmio_write(ns(1000), 8).arrival), 1220);
    assert_eq!(rounded(pcie().mmio_read(ns(1000))), 1600);
    let interrupt = pcie().interrupt(ns(1000));
    assert!((1285..=1300).contains(&rounded(interrupt)), "{interrupt:?}");
}

#[test]
fn a_future_request_does_not_delay_others() {
    let mut pcie = Pcie::new(&host(), 1);
    pcie.begin(ns(0));
    let late = pcie.read(ns(1_000_000), IOVA, 4096);
    assert!(late > ns(1_000_000));
    pcie.write(ns(1_000_000), IOVA, 64);
    let early = pcie.write(ns(0), IOVA, 64);
    assert!(early < ns(WRITE_NS + 40), "{early:?}");
    // The wire from the host is taken for the 4096 bytes of the first read, but not the tags.
    let early = pcie.read(ns(0), IOVA, 64);
    assert!(early < ns(READ_NS + 700), "{early:?}");
}

#[test]
fn wires_carry_no_more_than_their_rate() {
    let mut pcie = Pcie::new(&host(), 1);
    pcie.begin(ns(0));
    let last = (0..1000).map(|_| pcie.write(ns(0), IOVA, 256)).max();
    // 1000 * 280 bytes at 57.885 Gb/s.
    let expected = 38_697 + WRITE_NS;
    let last = rounded(last.expect("there are writes"));
    assert!(
        last.abs_diff(expected) < 20,
        "{last} ns, {expected} expected"
    );
    let counters = pcie.counters();
    assert_eq!(counters.outbound_tlps, 1000);
    assert_eq!(counters.outbound_wire_bytes, 280_000);
    assert_eq!(counters.write_bytes, 256_000);
    let (outbound, inbound) = counters.utilisation(ns(77_394));
    assert!((outbound - 0.5).abs() < 0.001, "{outbound}");
    assert_eq!(inbound, 0.0);
}

#[test]
fn writes_are_seen_in_order_unless_they_may_pass() {
    let mut host = host().with_small_pages();
    host.iommu.enabled = true;
    let mut run = |relaxed| {
        host.pcie.relaxed_ordering = relaxed;
        let mut pcie = Pcie::new(&host, 1);
        pcie.write(ns(0), IOVA, 64);
        pcie.begin(ns(10_000));
        // Its page is not in the IOTLB, that of the next one is.
        let slow = pcie.write(ns(10_000), IOVA + 4096, 64);
        let fast = pcie.write(ns(10_000), IOVA, 64);
        let completion = pcie.write_ordered(ns(10_000), IOVA, 64);
        let interrupt = pcie.interrupt(ns(10_000));
        assert!(completion >= slow && interrupt >= completion);
        (slow, fast)
    };
    let (slow, fast) = run(false);
    assert_eq!(slow, fast);
    let (slow, fast) = run(true);
    assert!(fast + Duration::from_ns(150) < slow, "{fast:?} {slow:?}");
}

#[test]
fn reads_do_not_pass_writes() {
    let mut parameters = host();
    parameters.pcie.write_latency_ns = 2000.0;
    let mut pcie = Pcie::new(&parameters, 1);
    let written = pcie.write(ns(0), IOVA, 64);
    let read = pcie.read(ns(0), IOVA, 64);
    assert!(
        read > written + Duration::from_ns(READ_NS / 2 - 20),
        "{read:?}"
    );
    assert!(pcie.counters().read_stalled_ordering > Duration::from_ns(1500));
    // A load of a register brings everything home that was written before it.
    assert!(pcie.mmio_read(ns(0)) >= written);
}

#[test]
fn stores_of_a_processor_stay_in_order() {
    let mut pcie = Pcie::new(&host(), 1);
    let long = pcie.mmio_write(ns(0), 4096).arrival;
    assert!(pcie.mmio_write(ns(1), 8).arrival > long);
    assert_eq!(pcie.counters().inbound_tlps, 65);
}

/// Goal: a processor's store waits for the rest of one request's completions, as often as it meets
/// them. Method: reads of 4 KiB every microsecond; the mean wait is compared with the formula.
#[test]
fn a_store_waits_for_the_request_on_the_lanes() {
    const COUNT: u64 = 20_000;
    const PERIOD_NS: u64 = 1000;
    let mean_ps = |parameters: &Parameters| {
        let mut pcie = Pcie::new(parameters, 1);
        let mut total = Duration::ZERO;
        for number in 0..COUNT {
            let now = ns(number * PERIOD_NS);
            pcie.begin(now);
            pcie.read(now, IOVA, 4096);
            total = total + (pcie.mmio_write(now, 64).taken - now);
        }
        (total.as_ps() / COUNT) as f64
    };
    let parameters = host();
    let lanes = |bytes| {
        let mut pcie = Pcie::new(&parameters, 1);
        pcie.read(ns(0), IOVA, bytes);
        pcie.free_at().1.as_ps() as f64
    };
    let request = lanes(u64::from(parameters.pcie.mrrs_bytes));
    let expected = lanes(4096) * request / 2.0 / (PERIOD_NS * 1000) as f64;
    let mean = mean_ps(&parameters);
    assert!((mean / expected - 1.0).abs() < 0.05, "{mean} {expected}");
}

#[test]
fn reads_wait_for_tags() {
    let mut parameters = host();
    parameters.pcie.read_tags = 2;
    let mut pcie = Pcie::new(&parameters, 1);
    let done: Vec<u64> = (0..6)
        .map(|_| rounded(pcie.read(ns(0), IOVA, 64)))
        .collect();
    for (index, done) in done.iter().enumerate() {
        let turns = index as u64 / 2 + 1;
        assert!(done.abs_diff(turns * READ_NS) < 60, "{index}: {done}");
    }
    let stalled = pcie.counters().read_stalled_no_read_engines;
    assert!(
        stalled.as_ns().abs_diff(2 * 400 + 2 * 800) < 150,
        "{stalled:?}"
    );
    assert_eq!(pcie.reads_in_flight(ns(1)).headers, 2);
    assert_eq!(pcie.reads_in_flight(ns(5000)).headers, 0);
}

#[test]
fn reads_wait_for_completion_buffer() {
    let mut parameters = host();
    parameters.pcie.read_buffer_bytes = 1024;
    let mut pcie = Pcie::new(&parameters, 1);
    let last = (0..8).map(|_| pcie.read(ns(0), IOVA, 512)).max();
    let last = rounded(last.expect("there are reads"));
    assert!(last.abs_diff(4 * (READ_NS + 65)) < 200, "{last}");
    let counters = pcie.counters();
    assert!(counters.read_stalled_no_completion_buffer > Duration::from_ns(2000));
    assert_eq!(counters.read_stalled_no_read_engines, Duration::ZERO);
}

#[test]
fn reads_wait_for_nonposted_credits() {
    let mut parameters = host();
    parameters.pcie.nonposted_header_credits = 1;
    let mut pcie = Pcie::new(&parameters, 1);
    let last = (0..10).map(|_| pcie.read(ns(0), IOVA, 64)).max();
    // The host takes a request up half way of its round trip.
    let last = rounded(last.expect("there are reads"));
    assert!(last.abs_diff(9 * READ_NS / 2 + READ_NS) < 100, "{last}");
    assert!(pcie.counters().read_stalled_no_credits > Duration::from_ns(5000));
}

#[test]
fn writes_wait_for_posted_credits() {
    let mut parameters = host();
    parameters.pcie.posted_data_credits = 32;
    let mut pcie = Pcie::new(&parameters, 1);
    let last = (0..10).map(|_| pcie.write(ns(0), IOVA, 256)).max();
    let last = rounded(last.expect("there are writes"));
    assert!(last.abs_diff(5 * (WRITE_NS + 26)) < 100, "{last}");
    let stalled = pcie.counters().write_stalled_no_credits;
    assert!(stalled > Duration::from_ns(5000), "{stalled:?}");
    // A read needs none of them.
    assert!(pcie.read(ns(0), IOVA + 4096, 64) < ns(last + READ_NS));
}

#[test]
fn accesses_are_cut_at_page_boundaries() {
    let mut pcie = Pcie::new(&host(), 1);
    pcie.read(ns(0), IOVA + 4096 - 64, 128);
    assert_eq!(pcie.counters().outbound_tlps, 2);
    pcie.write(ns(0), IOVA + 4096 - 64, 128);
    assert_eq!(pcie.counters().outbound_tlps, 4);
    assert_eq!(pcie.counters().inbound_tlps, 2);
}

#[test]
fn a_working_set_larger_than_the_llc_misses_it() {
    let share_of_misses = |window: u64, ddio: bool, is_read: bool| {
        let mut parameters = host();
        parameters.memory.ddio = ddio;
        let mut pcie = Pcie::new(&parameters, 1);
        for turn in 0..4 * window / 4096 {
            let iova = IOVA + turn * 4096 % window;
            if is_read {
                pcie.read(ns(turn), iova, 64)
            } else {
                pcie.write(ns(turn), iova, 64)
            };
        }
        let counters = pcie.counters();
        counters.llc_misses as f64 / (counters.llc_misses + counters.llc_hits) as f64
    };
    assert_eq!(share_of_misses(8 << 20, true, true), 0.0);
    assert_eq!(share_of_misses(8 << 20, true, false), 0.0);
    // Round and round through more than fits: least recently used is what comes next.
    assert!(share_of_misses(64 << 20, true, true) > 0.9);
    assert!(share_of_misses(64 << 20, true, false) > 0.5);
    assert_eq!(share_of_misses(8 << 20, false, false), 1.0);
}

#[test]
fn the_same_seed_gives_the_same_latencies() {
    let run = |seed| {
        let mut pcie = Pcie::new(&HASWELL, seed);
        let reads = (0..100).map(|index| pcie.read(ns(1000 * index), IOVA, 64));
        reads.collect::<Vec<Instant>>()
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}

#[test]
fn counters_know_the_latencies_of_reads() {
    let mut pcie = Pcie::new(&host(), 1);
    for index in 0..10 {
        pcie.begin(ns(10_000 * index));
        pcie.read(ns(10_000 * index), IOVA, 64 + 448 * (index % 2));
    }
    let counters = pcie.counters();
    assert_eq!((counters.reads, counters.read_bytes), (10, 5 * (64 + 512)));
    let min = counters.read_latency_min.as_ps() as f64 / 1000.0;
    let max = counters.read_latency_max.as_ps() as f64 / 1000.0;
    assert!((min - 400.0).abs() < 0.1, "{min}");
    // Two completions of 256 bytes instead of one of 64.
    assert!((max - 400.0 - 64.7).abs() < 0.2, "{max}");
    let avg = counters.read_latency_avg().as_ps() as f64 / 1000.0;
    assert!((avg - (min + max) / 2.0).abs() < 0.1, "{avg}");
}

/// What a device could ask for.
#[derive(Debug, Clone, Copy)]
enum Call {
    Read(u64, u64),
    Write(u64, u64),
    Atomic(u64),
    Interrupt,
    Store(u64),
    Load,
}

fn call() -> impl Strategy<Value = Call> {
    let iova = prop_oneof![IOVA..IOVA + (1 << 24), any::<u64>()];
    let length = prop_oneof![0..5000u64, 0..100_000u64];
    prop_oneof![
        (iova.clone(), length.clone()).prop_map(|(iova, length)| Call::Read(iova, length)),
        (iova.clone(), length).prop_map(|(iova, length)| Call::Write(iova, length)),
        iova.prop_map(Call::Atomic),
        Just(Call::Interrupt),
        (0..5000u64).prop_map(Call::Store),
        Just(Call::Load),
    ]
}

fn parameters() -> impl Strategy<Value = Parameters> {
    (
        1..300u32,
        1..5000u32,
        1..200u32,
        1..5000u32,
        any::<(bool, bool)>(),
    )
        .prop_map(|(tags, buffer, headers, data, (iommu, relaxed))| {
            let mut parameters = HASWELL.with_small_pages();
            parameters.pcie.read_tags = tags;
            parameters.pcie.nonposted_header_credits = headers;
            parameters.pcie.read_buffer_bytes = buffer;
            parameters.pcie.posted_header_credits = headers;
            parameters.pcie.posted_data_credits = data;
            parameters.pcie.relaxed_ordering = relaxed;
            parameters.iommu.enabled = iommu;
            parameters
        })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    /// Nothing is done before it is asked for, no wire carries more than fits in the time, and
    /// what is ordered is seen in order.
    #[test]
    fn whatever_is_asked_time_goes_forward(
        parameters in parameters(),
        calls in prop::collection::vec((call(), 0..3000u64, 0..3000u64), 1..200),
    ) {
        let mut pcie = Pcie::new(&parameters, 1);
        let (mut now, mut newest_at, mut newest) = (Instant::ZERO, Instant::ZERO, Instant::ZERO);
        for (call, step_ns, ahead_ns) in calls {
            now += Duration::from_ns(step_ns);
            let at = now + Duration::from_ns(ahead_ns);
            pcie.begin(now);
            let done = match call {
                Call::Read(iova, length) => pcie.read(at, iova, length),
                Call::Write(iova, length) => pcie.write_ordered(at, iova, length),
                Call::Atomic(iova) => pcie.atomic(at, iova),
                Call::Interrupt => pcie.interrupt(at),
                Call::Store(length) => pcie.mmio_write(at, length).arrival,
                Call::Load => pcie.mmio_read(at),
            };
            prop_assert!(done >= at);
            if matches!(call, Call::Write(..) | Call::Interrupt) && at >= newest_at {
                prop_assert!(done >= newest);
                (newest_at, newest) = (at, done);
            }
        }
        let counters = pcie.counters();
        let (outbound, inbound) = pcie.free_at();
        prop_assert!(counters.outbound_busy.as_ps() <= outbound.as_ps());
        prop_assert!(counters.inbound_busy.as_ps() <= inbound.as_ps());
    }
}
