//! One property, a thousand seeds: whatever the link does below the retry limit, memory and
//! completions equal the reference interpreter's; above it, exactly one request fails and
//! the rest is flushed in order. `FERROCE_SEED=n` replays only seed n.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::pair::link::Faults;
use crate::pair::program::{self, MEMORY, Outcome, Program};
use crate::pair::rng::Rng;
use crate::pair::{Pair, Setup, Vanishing};
use ferroce_transport::{
    AckTimeouts, AdaptiveTimer, Completion, CompletionStatus, Config, ConnectxSchedule, PathMtu,
    QpState, Recovery, RecoveryMode, SendOperation, Service, Statistics, Transmit,
};
use ferroce_units::{Duration, Instant};
use ferroce_wire::{Extension, Psn, RecoveryBits, Syndrome};

const SEEDS: u64 = 1000;
/// Steps after which a seed is declared to hang.
const MAX_STEPS: u32 = 300_000;

/// Runs `property` for all seeds, or for the one in the environment, and names the seed that fails.
/// Returns the total statistics if all seeds were run.
fn for_seeds(property: impl Fn(u64) -> Vec<Statistics>) -> Option<Statistics> {
    let mut sum = Statistics::default();
    let alone = std::env::var("FERROCE_SEED").ok();
    let seeds = match &alone {
        Some(seed) => {
            let seed: u64 = seed.parse().expect("FERROCE_SEED is a number");
            seed..seed + 1
        }
        None => 0..SEEDS,
    };
    for seed in seeds {
        match catch_unwind(AssertUnwindSafe(|| property(seed))) {
            Ok(statistics) => statistics.iter().for_each(|part| add(&mut sum, part)),
            Err(panic) => {
                eprintln!("seed {seed} fails; replay it with FERROCE_SEED={seed}");
                resume_unwind(panic);
            }
        }
    }
    alone.is_none().then_some(sum)
}

fn add(sum: &mut Statistics, part: &Statistics) {
    sum.packets_retransmitted += part.packets_retransmitted;
    sum.local_ack_timeouts += part.local_ack_timeouts;
    sum.rnr_naks_sent += part.rnr_naks_sent;
    sum.rnr_naks_received += part.rnr_naks_received;
    sum.sequence_naks_sent += part.sequence_naks_sent;
    sum.sequence_naks_received += part.sequence_naks_received;
    sum.other_naks_sent += part.other_naks_sent;
    sum.other_naks_received += part.other_naks_received;
    sum.duplicate_requests += part.duplicate_requests;
    sum.acks_sent += part.acks_sent;
}

fn random_setup(rng: &mut Rng) -> Setup {
    let psn = |rng: &mut Rng| {
        if rng.chance(1, 3) {
            Psn::new(0x100_0000 - 1 - rng.below(40) as u32)
        } else {
            Psn::new(rng.next() as u32)
        }
    };
    let max_rd_atomic = 1 + rng.below(4) as u8;
    let services = if rng.chance(1, 4) {
        [Service::XrcInitiator, Service::XrcTarget]
    } else {
        [Service::ReliableConnected; 2]
    };
    Setup {
        services,
        mtu: rng.pick(&PathMtu::ALL),
        psn: [psn(rng), psn(rng)],
        config: Config {
            max_unacknowledged_packets: 1 + rng.below(40) as u32,
            ack_request_interval: 1 + rng.below(16) as u32,
            ack_coalesce: 1 + rng.below(16) as u32,
            ack_delay: Duration::from_us(rng.below(3) * 4),
            local_ack_timeout_multiple: 1 + rng.below(4) as u8,
            ..Config::default()
        },
        timeout: 5,
        rnr_timer: 1 + rng.below(6) as u8,
        max_rd_atomic,
        max_dest_rd_atomic: max_rd_atomic + rng.below(2) as u8,
        uses_credits: rng.chance(1, 3),
        ..Setup::default()
    }
}

fn random_faults(rng: &mut Rng) -> Faults {
    Faults {
        loss: rng.pick(&[0, 10, 50, 100]),
        duplication: rng.pick(&[0, 20, 100]),
        reordering: rng.pick(&[0, 0, 50, 200]),
        delay: Duration::from_ns(500 + rng.below(2000)),
        jitter: Duration::from_us(6),
        blackout: Instant::MAX,
    }
}

/// The recovery modes of both sides.
type Modes = [RecoveryMode; 2];

/// Sets up recovery in these modes; half of the queue pairs also have the adaptive timer.
fn set_recovery(rng: &mut Rng, setup: &mut Setup, faults: &mut Faults, modes: Modes) {
    faults.loss = rng.pick(&[0, 10, 50, 100, 200]);
    setup.hold_limit = rng.pick(&[2, 8, 1000, 1000]);
    for (mode, recovery) in modes.into_iter().zip(&mut setup.recovery) {
        let reorder_time = match mode {
            RecoveryMode::AdaptiveRouting => Duration::from_us(rng.below(12)),
            _ => Duration::ZERO,
        };
        *recovery = Recovery {
            mode,
            reorder_time,
            ack_timeouts: rng.pick(&[
                AckTimeouts::Iba,
                AckTimeouts::Adaptive(AdaptiveTimer::DEFAULT),
                AckTimeouts::Connectx(ConnectxSchedule::Adaptive),
            ]),
            seed: rng.next(),
        };
    }
}

/// Returns the statistics of both sides of a run.
fn counted(run: Run) -> Vec<Statistics> {
    run.pair
        .nodes
        .into_iter()
        .flat_map(|node| node.statistics)
        .collect()
}

/// The pair of a seed, in progress.
struct Run {
    pair: Pair,
    programs: [Program; 2],
    /// Numbers of posted requests and receives of each program.
    posted: [(usize, usize); 2],
    rng: Rng,
}

impl Run {
    fn new(setup: &Setup, faults: Faults, programs: [Program; 2], mut rng: Rng) -> Run {
        let link_seed = rng.next();
        let mut pair = Pair::new(setup, faults, 0, link_seed);
        for node in &mut pair.nodes {
            node.memory = program::initial_memory(&mut rng);
            assert_eq!(node.memory.len(), MEMORY);
        }
        Run {
            pair,
            programs,
            posted: [(0, 0); 2],
            rng,
        }
    }

    /// Posts all receives immediately, so that no receiver is ever not ready.
    fn post_receives(&mut self) {
        for side in 0..2 {
            for receive in &self.programs[side].receives {
                self.pair.nodes[side].post_receive(*receive);
            }
            self.posted[side].1 = self.programs[side].receives.len();
        }
    }

    /// Posts a few requests and receives, so that each side meets all states of the other one.
    fn post_some(&mut self) {
        for side in 0..2 {
            let (sends, receives) = &mut self.posted[side];
            let node = &mut self.pair.nodes[side];
            for op in self.programs[side].ops.iter().skip(*sends) {
                if !node.qp.can_accept_send() || self.rng.chance(1, 4) {
                    break;
                }
                node.post(self.pair.now, op.address, op.request);
                *sends += 1;
            }
            for receive in self.programs[side].receives.iter().skip(*receives) {
                if self.rng.chance(1, 3) {
                    break;
                }
                node.post_receive(*receive);
                *receives += 1;
            }
        }
    }

    fn is_all_posted(&self) -> bool {
        (0..2).all(|side| {
            let program = &self.programs[side];
            self.posted[side] == (program.ops.len(), program.receives.len())
        })
    }

    /// Runs until no event is left.
    fn run(&mut self) {
        for _ in 0..MAX_STEPS {
            if self.is_all_posted() {
                if !self.pair.step(Instant::MAX) {
                    return;
                }
            } else {
                self.post_some();
                let pause = Duration::from_ns(self.rng.below(30_000));
                self.pair.run_for(pause);
            }
        }
        panic!("the run does not come to rest");
    }
}

fn sends(completions: &[Completion]) -> Vec<Completion> {
    completions
        .iter()
        .copied()
        .filter(|c| matches!(c, Completion::Send { .. }))
        .collect()
}

fn receives(completions: &[Completion]) -> Vec<Completion> {
    completions
        .iter()
        .copied()
        .filter(|c| matches!(c, Completion::Receive { .. }))
        .collect()
}

fn assert_same_memory(seen: &[u8], expected: &[u8]) {
    if let Some(at) = seen.iter().zip(expected).position(|(a, b)| a != b) {
        panic!(
            "memory differs first at {at:#x}: {:#x}, not {:#x}",
            seen[at], expected[at]
        );
    }
}

/// Checks that everything arrives eventually.
fn arrives(seed: u64, modes: Option<Modes>) -> Vec<Statistics> {
    arrives_in(seed, modes, Pages::Pinned)
}

/// Checks that everything arrives eventually although pages are often not present.
fn arrives_on_demand(seed: u64, modes: Option<Modes>) -> Vec<Statistics> {
    arrives_in(seed, modes, Pages::OnDemand)
}

/// The memory of both sides.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pages {
    Pinned,
    OnDemand,
}

fn arrives_in(seed: u64, modes: Option<Modes>, pages: Pages) -> Vec<Statistics> {
    let mut rng = Rng::new(seed);
    let mut setup = random_setup(&mut rng);
    let mut faults = random_faults(&mut rng);
    if let Some(modes) = modes {
        set_recovery(&mut rng, &mut setup, &mut faults, modes);
    }
    if pages == Pages::OnDemand {
        // A response whose page is not present is lost, too: with more, seven retries would end.
        faults.loss = faults.loss.min(10);
    }
    let programs = program::generate(&mut rng, &setup, 24);
    let mut run = Run::new(&setup, faults, programs, rng);
    if pages == Pages::OnDemand {
        for (node, seed) in run.pair.nodes.iter_mut().zip([seed, !seed]) {
            node.absent_pages = Some(Rng::new(seed));
        }
    }
    let memory = [
        run.pair.nodes[0].memory.clone(),
        run.pair.nodes[1].memory.clone(),
    ];
    let expected: Outcome = program::interpret(&setup, &run.programs, memory);
    run.run();
    for side in 0..2 {
        let node = &run.pair.nodes[side];
        assert_eq!(
            node.qp.state(),
            QpState::Rts,
            "side {side}: {:?}",
            node.completions
        );
        assert_eq!(
            sends(&node.completions),
            expected.sends[side],
            "sends of side {side}"
        );
        assert_eq!(
            receives(&node.completions),
            expected.receives[side],
            "receives of {side}"
        );
        assert_same_memory(&node.memory, &expected.memory[side]);
        assert_eq!(node.atomics, expected.atomics[side], "each atomic once");
        assert_eq!(node.qp.outstanding_sends(), 0);
        assert!(node.held.is_empty(), "nothing stays held");
    }
    counted(run)
}

/// Checks a dying link: one request fails, earlier ones succeeded, later ones are flushed.
fn dies(seed: u64, modes: Option<Modes>) -> Vec<Statistics> {
    let mut rng = Rng::new(seed ^ 0xdead);
    let mut setup = random_setup(&mut rng);
    let blackout = Instant::from_ns(rng.below(60_000));
    let mut faults = Faults {
        blackout,
        ..random_faults(&mut rng)
    };
    if let Some(modes) = modes {
        set_recovery(&mut rng, &mut setup, &mut faults, modes);
    }
    let programs = program::generate(&mut rng, &setup, 24);
    let mut run = Run::new(&setup, faults, programs, rng);
    run.run();
    for side in 0..2 {
        let node = &run.pair.nodes[side];
        let ops = &run.programs[side].ops;
        let seen = sends(&node.completions);
        let failed = seen
            .iter()
            .position(|c| c.status() != CompletionStatus::Success);
        let Some(failed) = failed else {
            assert_eq!(node.qp.state(), QpState::Rts);
            assert_eq!(node.qp.outstanding_sends(), 0, "nothing waits any more");
            continue;
        };
        assert_eq!(node.qp.state(), QpState::Err);
        let Completion::Send {
            id: culprit,
            status,
            ..
        } = seen[failed]
        else {
            unreachable!("sends() gives sends")
        };
        // A peer that posted its receives too late may also look as if it were never ready.
        assert_eq!(status, CompletionStatus::RetryExceeded);
        let mut expected = Vec::new();
        for op in ops {
            let status = match op.request.id {
                id if id < culprit && !op.request.signaled => continue,
                id if id < culprit => CompletionStatus::Success,
                id if id == culprit => CompletionStatus::RetryExceeded,
                _ => CompletionStatus::WrFlush,
            };
            expected.push(program::sent(&op.request, status));
        }
        assert_eq!(seen, expected, "side {side}");
    }
    counted(run)
}

/// Returns the status of the failed send of a side: some sends succeed, one may fail, the rest is
/// flushed.
fn failed_send(run: &Run, side: usize) -> Option<CompletionStatus> {
    let seen = sends(&run.pair.nodes[side].completions);
    let statuses = seen.iter().map(Completion::status);
    let mut ended = statuses.skip_while(|status| *status == CompletionStatus::Success);
    let first = ended.next()?;
    assert!(
        ended.all(|status| status == CompletionStatus::WrFlush),
        "side {side}: {seen:?}"
    );
    (first != CompletionStatus::WrFlush).then_some(first)
}

/// Removes the region of a part of one side's memory: the request that accesses it fails, and the
/// side to which this is reported need not find out by timeouts.
fn loses_a_region(seed: u64) -> Vec<Statistics> {
    let mut rng = Rng::new(seed ^ 0x60_4e);
    let setup = random_setup(&mut rng);
    let programs = program::generate(&mut rng, &setup, 24);
    let victim = rng.below(2) as usize;
    let start = rng.below(4) as usize * program::PART;
    let (left, batch) = (rng.below(60) as u32, 1 + rng.below(8) as usize);
    let mut run = Run::new(&setup, Faults::NONE, programs, rng);
    run.pair.batch = batch;
    run.pair.nodes[victim].vanishing = Some(Vanishing {
        range: start..start + program::PART,
        left,
        missed: false,
    });
    run.post_receives();
    run.run();
    let (own, peers) = (failed_send(&run, victim), failed_send(&run, 1 - victim));
    let state = run.pair.nodes[victim].qp.state();
    if !run.pair.nodes[victim].has_missed_memory() {
        assert_eq!((own, peers, state), (None, None, QpState::Rts));
        return counted(run);
    }
    assert_eq!(state, QpState::Err);
    match (own, peers) {
        // The victim's own request: its queue pair is silent from then on, except for a READ whose
        // responses could no longer be sent.
        (
            Some(CompletionStatus::LocalProtection),
            None | Some(CompletionStatus::RetryExceeded | CompletionStatus::RemoteAccess),
        ) => {}
        (None, Some(CompletionStatus::RemoteAccess | CompletionStatus::RemoteOperation)) => {}
        other => panic!("own and peer's request that failed: {other:?}"),
    }
    counted(run)
}

/// Checks that on a link without faults nothing is sent twice, and no NAK or timer is needed: each
/// necessary acknowledge was requested.
fn stays_quiet(seed: u64) -> Vec<Statistics> {
    let mut rng = Rng::new(seed ^ 0x9015e);
    let setup = Setup {
        timeout: 0,
        ..random_setup(&mut rng)
    };
    let programs = program::generate(&mut rng, &setup, 24);
    let mut run = Run::new(&setup, Faults::NONE, programs, rng);
    run.post_receives();
    run.run();
    for side in 0..2 {
        let expected: u32 = run.programs[side]
            .ops
            .iter()
            .map(|op| match op.request.operation {
                SendOperation::RdmaRead { .. } => 1,
                SendOperation::Local(_) => 0,
                _ => setup.mtu.packets(op.request.length),
            })
            .sum();
        let sent = &run.pair.nodes[side].sent;
        let requests = sent.iter().filter(|packet| is_request(packet)).count();
        // The first credits that arrive may limit packets that were already sent without AckReq.
        let twice = if setup.uses_credits {
            setup.config.ack_request_interval
        } else {
            0
        };
        let expected = expected as usize..=(expected + twice) as usize;
        assert!(
            expected.contains(&requests),
            "{requests} request packets of side {side}"
        );
        assert!(!sent.iter().any(is_nak), "side {side} sent a NAK");
        assert_eq!(run.pair.nodes[side].qp.outstanding_sends(), 0);
    }
    counted(run)
}

fn is_request(packet: &Transmit) -> bool {
    packet
        .headers
        .bth
        .opcode
        .parse()
        .is_some_and(|known| known.operation.is_request())
}

fn is_nak(packet: &Transmit) -> bool {
    matches!(packet.headers.extension, Extension::Aeth(aeth)
        if !matches!(aeth.syndrome, Syndrome::Ack { .. }))
}

#[test]
fn a_quiet_link_stays_quiet() {
    let Some(sum) = for_seeds(stays_quiet) else {
        return;
    };
    assert!(sum.acks_sent > 1000);
    assert_eq!(
        (
            sum.local_ack_timeouts,
            sum.sequence_naks_sent,
            sum.rnr_naks_sent
        ),
        (0, 0, 0)
    );
}

/// Checks that the seeds have hit their target events, more than `least` times each.
fn expect_recovered(sum: &Statistics, least: u32) {
    let rare = [
        sum.packets_retransmitted,
        sum.local_ack_timeouts,
        sum.rnr_naks_sent,
        sum.rnr_naks_received,
        sum.sequence_naks_sent,
        sum.sequence_naks_received,
        sum.duplicate_requests,
    ];
    assert!(rare.iter().all(|count| *count > least), "{sum:?}");
}

#[test]
fn a_lossy_link_changes_nothing() {
    let Some(sum) = for_seeds(|seed| arrives(seed, None)) else {
        return;
    };
    expect_recovered(&sum, 1000);
    assert_eq!(
        (sum.other_naks_sent, sum.other_naks_received),
        (0, 0),
        "no side was wrong"
    );
}

#[test]
fn pages_that_are_not_present_change_nothing() {
    for modes in [None, Some(SELECTIVE), Some(ADAPTIVE)] {
        let Some(sum) = for_seeds(|seed| arrives_on_demand(seed, modes)) else {
            return;
        };
        expect_recovered(&sum, 100);
        assert_eq!((sum.other_naks_sent, sum.other_naks_received), (0, 0));
    }
}

#[test]
fn a_dead_link_fails_one_request_and_flushes_the_rest() {
    let Some(sum) = for_seeds(|seed| dies(seed, None)) else {
        return;
    };
    assert!(sum.local_ack_timeouts > 1000, "{sum:?}");
}

#[test]
fn a_removed_region_fails_the_request_that_meets_it() {
    let Some(sum) = for_seeds(loses_a_region) else {
        return;
    };
    assert!(sum.other_naks_received > SEEDS as u32 / 15, "{sum:?}");
}

const SELECTIVE: Modes = [RecoveryMode::SelectiveRepeat; 2];
const ADAPTIVE: Modes = [RecoveryMode::AdaptiveRouting; 2];

fn survives_losses(modes: Modes) {
    let Some(sum) = for_seeds(|seed| arrives(seed, Some(modes))) else {
        return;
    };
    expect_recovered(&sum, 500);
    assert_eq!((sum.other_naks_sent, sum.other_naks_received), (0, 0));
}

#[test]
fn selective_repeat_changes_nothing() {
    survives_losses(SELECTIVE);
}

#[test]
fn adaptive_routing_changes_nothing() {
    survives_losses(ADAPTIVE);
}

#[test]
fn peers_with_different_modes_understand_each_other() {
    survives_losses([RecoveryMode::SelectiveRepeat, RecoveryMode::AdaptiveRouting]);
}

#[test]
fn a_dead_link_ends_each_mode() {
    for modes in [SELECTIVE, ADAPTIVE] {
        let Some(sum) = for_seeds(|seed| dies(seed, Some(modes))) else {
            return;
        };
        assert!(sum.local_ack_timeouts > 1000, "{sum:?}");
    }
}

/// Returns what both sides of one seed send and complete, with a mode on one side or on none.
fn sent_with(seed: u64, modes: Modes) -> Vec<(Vec<Transmit>, Vec<Completion>)> {
    let mut rng = Rng::new(seed);
    let setup = random_setup(&mut rng);
    let faults = random_faults(&mut rng);
    let programs = program::generate(&mut rng, &setup, 24);
    let recovery = modes.map(|mode| Recovery {
        mode,
        reorder_time: Duration::from_us(3),
        ..Recovery::default()
    });
    let setup = Setup { recovery, ..setup };
    let mut run = Run::new(&setup, faults, programs, rng);
    run.run();
    let nodes = run.pair.nodes.into_iter();
    nodes
        .map(|mut node| {
            for packet in &mut node.sent {
                RecoveryBits::default().set_in(&mut packet.headers.bth);
            }
            assert_eq!(node.holds, 0);
            (node.sent, node.completions)
        })
        .collect()
}

#[test]
fn a_peer_without_the_mode_gets_go_back_n_packet_for_packet() {
    let plain = RecoveryMode::GoBackN;
    for seed in 0..SEEDS / 2 {
        let expected = sent_with(seed, [plain; 2]);
        for mode in [RecoveryMode::SelectiveRepeat, RecoveryMode::AdaptiveRouting] {
            for modes in [[mode, plain], [plain, mode]] {
                let seen = sent_with(seed, modes);
                assert!(seen == expected, "seed {seed} with {modes:?}");
            }
        }
    }
}
