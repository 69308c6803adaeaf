//! Lossy links in simulated time, in each recovery mode: the data is right, a dead link is reported
//! in time, and a loss at the end of a message costs what the timer specifies.

use crate::world_support::*;
use ferroce_driver::{CompletionStatus, PathMtu, RtrAttributes, RtsAttributes, SendOperation};
use ferroce_faults::FaultCounter;
use ferroce_model::preset::Preset;
use ferroce_spec::counter::Counter;
use ferroce_test_verbs as verbs;
use ferroce_units::Duration;
use ferroce_world::{World, WorldConfig};

const GRID: Duration = Duration::from_ns(20);
/// 4.096 us x 2^10, and 3 retries.
const TIMEOUT: u8 = 10;
const RETRIES: u8 = 3;
/// Upper bound of the round trip to the card, without the timeouts of a test.
const WAY: Duration = Duration::from_us(20);

/// A recovery mode: the parameters of a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mode {
    parameter: Option<&'static str>,
    adaptive_timer: bool,
}

/// Returns all modes.
fn modes() -> impl Iterator<Item = Mode> {
    let parameters = [
        None,
        Some("transport.selective_repeat"),
        Some("transport.adaptive_routing"),
    ];
    parameters.into_iter().flat_map(|parameter| {
        [false, true].map(|adaptive_timer| Mode {
            parameter,
            adaptive_timer,
        })
    })
}

fn world(mode: Mode, faults: &str) -> World {
    let mut preset = Preset::load("cx5-100g").expect("built in");
    // Time-outs as the local ACK timeout or the documented profile has them.
    let timer = if mode.adaptive_timer { "true" } else { "false" };
    let parameters = [
        ("identity.mlx5", "false"),
        ("transport.adaptive_timer", timer),
    ];
    let of_mode = mode.parameter.map(|parameter| (parameter, "true"));
    for (parameter, value) in parameters.into_iter().chain(of_mode) {
        preset.set(parameter, value).expect("a parameter");
    }
    let config = WorldConfig {
        faults: Some(faults.parse().expect("a plan")),
        ..WorldConfig::timed(preset, 2)
    };
    World::new(&config).expect("small")
}

/// Returns two hosts with connected queue pairs that have short timeouts.
fn impatient_pair(world: &World, bytes: usize) -> (Peer, Peer) {
    let mut peers = [0, 1].map(|host| Peer::new(world, host, bytes));
    peers.iter_mut().for_each(Peer::add_qp);
    let [one, other] = peers;
    for (peer, to) in [(&one, &other), (&other, &one)] {
        let rtr = RtrAttributes {
            path_mtu: PathMtu::Mtu1024,
            ..verbs::rtr(to.qps[0].number(), world.path(to.host))
        };
        let rts = RtsAttributes {
            timeout: TIMEOUT,
            retry_count: RETRIES,
            ..verbs::rts()
        };
        verbs::connect(&peer.qps[0], rtr, rts);
    }
    (one, other)
}

/// Sends a WRITE of a length and returns its status and duration.
fn write(world: &mut World, one: &Peer, other: &Peer, length: usize) -> (CompletionStatus, u64) {
    let start = world.now();
    let operation = SendOperation::RdmaWrite(other.remote(0));
    post(&one.qps[0], 1, operation, one.segment(0, length));
    let status = completions(world, 0, &one.cq, 1, GRID)[0].status;
    (status, (world.now() - start).as_ns())
}

fn assert_within(found_ns: u64, expected_ns: u64, mode: Mode) {
    let range = expected_ns..expected_ns + WAY.as_ns();
    assert!(range.contains(&found_ns), "{mode:?}: {found_ns}, {range:?}");
}

/// Goal: all operations have the right data. Method: WRITEs, SENDs, READs and atomics, each in a
/// separate slot of memory, over links with each kind of fault.
#[test]
fn data_is_right_over_a_lossy_link() {
    const LENGTH: usize = 50_000;
    const ROUNDS: usize = 8;
    const SLOT: usize = 1 << 16;
    for (mode, faults) in modes().flat_map(|mode| {
        [
            "loss=1e-2,seed=3",
            "loss=5e-2,seed=4",
            "reorder=8paths/3us,seed=5",
            "corrupt=1e-2,dup=2e-2,jitter=1us,seed=6",
        ]
        .map(|faults| (mode, faults))
    }) {
        let mut world = world(mode, faults);
        let (one, other) = impatient_pair(&world, 4 * ROUNDS * SLOT);
        one.fill(1);
        other.fill(2);
        let slot = |kind: usize, round: usize| (kind * ROUNDS + round) * SLOT;
        let (qp, peer) = (&one.qps[0], &other.qps[0]);
        let counter = other.word(slot(3, 0) / 8);
        for round in 0..ROUNDS {
            let [write, send, read, atomic] = [0, 1, 2, 3].map(|kind| slot(kind, round));
            verbs::post_receive(peer, round as u64, other.segment(send, LENGTH));
            let operation = SendOperation::RdmaWrite(other.remote(write));
            post(qp, 0, operation, one.segment(write, LENGTH));
            post(qp, 1, SendOperation::Send, one.segment(send, LENGTH));
            let operation = SendOperation::RdmaRead(other.remote(read));
            post(qp, 2, operation, one.segment(read, LENGTH));
            let remote = other.remote(slot(3, 0));
            let operation = SendOperation::FetchAdd { remote, add: 5 };
            post(qp, 3, operation, one.segment(atomic, 8));
        }
        for (number, completion) in completions(&mut world, 0, &one.cq, 4 * ROUNDS, GRID)
            .iter()
            .enumerate()
        {
            assert_eq!(completion.status, CompletionStatus::Success, "{mode:?}");
            assert_eq!(completion.wr_id, number as u64 % 4, "in order");
        }
        for round in 0..ROUNDS {
            let words = |kind| (0..LENGTH / 8).map(move |word| slot(kind, round) / 8 + word);
            for word in words(0).chain(words(1)) {
                assert_eq!(other.word(word), pattern(1, word), "{mode:?} {faults}");
            }
            for word in words(2) {
                assert_eq!(one.word(word), pattern(2, word), "{mode:?} {faults}");
            }
            let original = counter.wrapping_add(5 * round as u64);
            assert_eq!(one.word(slot(3, round) / 8), original, "{mode:?} {faults}");
        }
    }
}

/// Goal: a dead link is reported when the last retry has timed out. Method: IBTA vol 1, 9.7.6.1.3:
/// the timer of this card expires after four times 4.096 us x 2^timeout; the adaptive one after 2,
/// 4, 8 and 16 ms.
#[test]
fn a_dead_link_is_reported_in_time() {
    for mode in modes() {
        let mut world = world(mode, "down=0ns..");
        let (one, other) = impatient_pair(&world, 1 << 16);
        let (status, took_ns) = write(&mut world, &one, &other, 1 << 15);
        assert_eq!(status, CompletionStatus::RetryExceededError, "{mode:?}");
        let expected_ns = if mode.adaptive_timer {
            [9, 10, 11, 12].iter().map(|power| 4000 << power).sum()
        } else {
            (u64::from(RETRIES) + 1) * 4 * (4096 << TIMEOUT)
        };
        assert_within(took_ns, expected_ns, mode);
    }
}

/// Goal: the loss of the last packet, which no later packet reveals, costs one timeout: 2 ms with
/// the adaptive timer, whatever the local ACK timeout. Method: the last packet of a WRITE is lost,
/// and then the ACK.
#[test]
fn a_tail_loss_costs_one_timeout() {
    const PACKETS: usize = 32;
    for mode in modes() {
        for faults in ["drop=write#32", "drop=ack#1-9"] {
            let mut lossy = world(mode, faults);
            let (one, other) = impatient_pair(&lossy, 1 << 16);
            let (status, took_ns) = write(&mut lossy, &one, &other, PACKETS * 1024);
            assert_eq!(status, CompletionStatus::Success, "{mode:?}");
            let faults = lossy.counters(1).link.faults.expect("there are some");
            let lost = faults.value(FaultCounter::Lost);
            let lost_acks = lossy.counters(0).link.faults.expect("there are some");
            assert!(lost + lost_acks.value(FaultCounter::Lost) > 0, "{mode:?}");
            let timeouts = lossy.counters(0).nic.value(Counter::local_ack_timeouts);
            assert_eq!(timeouts, 1, "{mode:?}");
            let expected_ns = if mode.adaptive_timer {
                4000 << 9
            } else {
                4 * (4096 << TIMEOUT)
            };
            assert_within(took_ns, expected_ns, mode);
        }
    }
}
