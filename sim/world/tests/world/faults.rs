//! Packet faults in simulated time.

use crate::world_support::*;
use ferroce_driver::{CompletionStatus, SendOperation};
use ferroce_faults::FaultCounter;
use ferroce_model::preset::Preset;
use ferroce_spec::counter::Counter;
use ferroce_units::Duration;
use ferroce_world::{HostCounters, World, WorldConfig};

const GRID: Duration = Duration::from_ns(20);
const LENGTH: usize = 5 << 20;
/// The relative difference of times is less than 1/20. The duration of a recovery depends on how
/// far the sender is ahead of its receiver, which may grow in skipped strides.
const ACCURACY: u64 = 20;

fn world(faults: &str, fast_forward: bool) -> World {
    let preset = Preset::load("cx5-100g").expect("built in");
    let config = WorldConfig {
        fast_forward,
        faults: Some(faults.parse().expect("a plan")),
        ..WorldConfig::timed(preset, 2)
    };
    World::new(&config).expect("small")
}

/// Observations of some long messages.
struct Seen {
    took: Duration,
    events: u64,
    counters: [HostCounters; 2],
}

impl Seen {
    fn counter(&self, host: usize, counter: FaultCounter) -> u64 {
        let faults = self.counters[host].link.faults;
        faults.expect("the world has faults").value(counter)
    }

    fn nic(&self, host: usize, counter: Counter) -> u64 {
        self.counters[host].nic.value(counter)
    }
}

/// Sends a WRITE from host 0 to host 1, then a READ of other data by host 0, and checks that the
/// data arrived.
fn transfer(mut world: World) -> Seen {
    let (one, other) = pair(&world, 4 * LENGTH);
    one.fill(1);
    let (start, events) = (world.now(), world.events());
    let words = LENGTH / 8;
    let write = SendOperation::RdmaWrite(other.remote(0));
    post(&one.qps[0], 1, write, one.segment(0, LENGTH));
    let read = SendOperation::RdmaRead(other.remote(0));
    post(&one.qps[0], 2, read, one.segment(2 * LENGTH, LENGTH));
    let completions = completions(&mut world, 0, &one.cq, 2, GRID);
    for completion in completions {
        assert_eq!(completion.status, CompletionStatus::Success);
    }
    for word in 0..words {
        assert_eq!(other.word(word), pattern(1, word), "written word {word}");
        assert_eq!(
            one.word(2 * words + word),
            pattern(1, word),
            "read word {word}"
        );
    }
    Seen {
        took: world.now() - start,
        events: world.events() - events,
        counters: [0, 1].map(|host| world.counters(host)),
    }
}

/// Goal: fast-forward skips no fault. Method: the same faults with and without it.
#[test]
fn fast_forward_stops_before_each_fault() {
    for faults in [
        "loss=1e-3,seed=4",
        "corrupt=1e-3,dup=2e-3,seed=5",
        "burst=5e-4/0.3,seed=6",
        "drop=write#700,drop=read_response#3+900,drop=ack#1",
        "down=100us..130us",
        "loss=1e-6",
    ] {
        let [every, some] = [false, true].map(|skips| transfer(world(faults, skips)));
        for host in [0, 1] {
            let (every, some) = (every.counters[host].link, some.counters[host].link);
            assert_eq!(every.faults, some.faults, "{faults}");
        }
        let (every_ps, some_ps) = (every.took.as_ps(), some.took.as_ps());
        let difference = every_ps.abs_diff(some_ps);
        assert!(
            difference < every_ps / ACCURACY,
            "{faults}: {some_ps}, not {every_ps}"
        );
        // The pace is measured first, and bursts of loss leave few steady stretches.
        assert!(
            some.events * 3 < every.events * 2,
            "{faults}: {} of {} events",
            some.events,
            every.events
        );
    }
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_one_does_not() {
    let took = |faults| transfer(world(faults, true)).took;
    let first = took("loss=1e-2,seed=1");
    assert_eq!(first, took("loss=1e-2,seed=1"));
    assert_ne!(first, took("loss=1e-2,seed=2"));
}

#[test]
fn data_survives_everything_and_faults_are_counted() {
    let seen = transfer(world(
        "loss=1e-3,corrupt=1e-3,corrupt-header=1e-3,corrupt-icrc=1e-3,dup=1e-2,jitter=2us,\
         reorder=1e-3/3us,seed=3",
        true,
    ));
    for counter in [
        FaultCounter::Lost,
        FaultCounter::Duplicated,
        FaultCounter::Corrupted,
        FaultCounter::Delayed,
    ] {
        assert!(
            seen.counter(0, counter) > 0 && seen.counter(1, counter) > 0,
            "{counter:?}"
        );
    }
    for host in [0, 1] {
        let refused =
            seen.nic(host, Counter::rx_icrc_errors) + seen.nic(host, Counter::rx_malformed);
        let lost = seen.counter(host, FaultCounter::Lost);
        let corrupted = seen.counter(host, FaultCounter::Corrupted);
        // A frame that is corrupted and duplicated is refused twice.
        assert!(
            refused >= corrupted,
            "host {host}: {refused} of {corrupted}, {lost} lost"
        );
    }
}
