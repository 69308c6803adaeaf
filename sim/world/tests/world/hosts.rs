//! Hosts, NICs, links and the switch under one clock.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::world_support::*;
use ferroce_driver::{
    CompletionQueue, CompletionQueueConfig, CompletionStatus, PathMtu, Qpn, SendOperation,
};
use ferroce_model::preset::Preset;
use ferroce_test_verbs as verbs;
use ferroce_units::{Duration, Instant};
use ferroce_world::{Cpu, Next, Outcome, Recorder, Span, Topology, Watch, World, WorldConfig};
use parking_lot::Mutex;

const GRID: Duration = Duration::from_ns(20);

fn preset() -> Preset {
    Preset::load("cx5-100g").expect("built in")
}

/// Returns a world without timing, one that simulates every packet, and one that skips.
fn worlds(hosts: usize) -> [(&'static str, World); 3] {
    let timed = WorldConfig::timed(preset(), hosts);
    let fast_forward = WorldConfig {
        fast_forward: true,
        ..timed.clone()
    };
    let functional = WorldConfig::functional(hosts);
    [
        ("functional", functional),
        ("timed", timed),
        ("fast-forward", fast_forward),
    ]
    .map(|(name, config)| (name, World::new(&config).expect("small")))
}

#[test]
fn data_is_correct_in_all_worlds() {
    for (name, mut world) in worlds(2) {
        let (one, other) = pair(&world, 1 << 20);
        let qp = &one.qps[0];
        one.fill(1);
        post(
            qp,
            1,
            SendOperation::RdmaWrite(other.remote(8)),
            one.segment(0, 300_000),
        );
        let done = completions(&mut world, 0, &one.cq, 1, GRID);
        assert_eq!(done[0].status, CompletionStatus::Success, "{name}");
        assert!(
            (0..300_000 / 8).all(|i| other.word(i + 1) == pattern(1, i)),
            "{name}"
        );

        other.qps[0]
            .receive_queue()
            .expect("its own")
            .post(33, &[other.segment(0, 1 << 20)])
            .expect("room");
        one.fill(2);
        post(qp, 2, SendOperation::Send, one.segment(0, 100_000));
        let received = completions(&mut world, 1, &other.cq, 1, GRID);
        assert_eq!(
            (received[0].wr_id, received[0].byte_length),
            (33, 100_000),
            "{name}"
        );
        assert!(
            (0..100_000 / 8).all(|i| other.word(i) == pattern(2, i)),
            "{name}"
        );
        assert_eq!(completions(&mut world, 0, &one.cq, 1, GRID)[0].wr_id, 2);

        other.fill(3);
        post(
            qp,
            3,
            SendOperation::RdmaRead(other.remote(0)),
            one.segment(16, 200_000),
        );
        completions(&mut world, 0, &one.cq, 1, GRID);
        assert!(
            (0..200_000 / 8).all(|i| one.word(i + 2) == pattern(3, i)),
            "{name}"
        );

        other.set_word(5, 100);
        let remote = other.remote(40);
        for _ in 0..10 {
            post(
                qp,
                4,
                SendOperation::FetchAdd { remote, add: 7 },
                one.segment(0, 8),
            );
        }
        let swap = SendOperation::CompareSwap {
            remote,
            compare: 170,
            swap: 5,
        };
        post(qp, 5, swap, one.segment(8, 8));
        let done = completions(&mut world, 0, &one.cq, 11, GRID);
        assert!(
            done.iter().all(|c| c.status == CompletionStatus::Success),
            "{name}"
        );
        assert_eq!(
            (one.word(0), one.word(1), other.word(5)),
            (163, 170, 5),
            "{name}"
        );
    }
}

/// A hash of everything that happens.
#[derive(Default)]
struct Hash {
    spans: u64,
    value: u64,
}

impl Recorder for Hash {
    fn record(&mut self, span: &Span) {
        self.spans += 1;
        let fields = [
            span.host as u64,
            span.activity as u64,
            span.start.as_ps(),
            span.end.as_ps(),
            span.qp.map_or(u64::MAX, u64::from),
            span.bytes.into(),
        ];
        for field in fields {
            self.value = (self.value ^ field).wrapping_mul(0x0000_0100_0000_01b3);
            self.value ^= self.value >> 29;
        }
    }
}

/// Runs WRITEs and READs in both directions over several queue pairs; returns events, spans and a
/// hash.
fn busy_world(seed: u64, hosts: usize) -> (u64, u64, u64) {
    let config = WorldConfig {
        seed,
        ..WorldConfig::timed(preset(), hosts)
    };
    let mut world = World::new(&config).expect("small");
    let mut peers: Vec<_> = (0..hosts)
        .map(|host| Peer::new(&world, host, 1 << 16))
        .collect();
    for _ in 0..3 {
        for host in (0..hosts).step_by(2) {
            let [one, other] = &mut peers[host..host + 2] else {
                unreachable!("an even number of hosts");
            };
            join(&world, one, other, PathMtu::Mtu1024);
        }
    }
    let recorder = Arc::new(Mutex::new(Hash::default()));
    world.record(Some(recorder.clone()));
    for (host, peer) in peers.iter().enumerate() {
        let other = &peers[host ^ 1];
        let flow = |(index, qp): (usize, &Arc<_>)| Flow {
            qp: Arc::clone(qp),
            operation: match (index + host) % 2 {
                0 => SendOperation::RdmaWrite(other.remote(0)),
                _ => SendOperation::RdmaRead(other.remote(0)),
            },
            segment: peer.segment(0, 3000),
        };
        let flows = peer.qps.iter().enumerate().map(flow).collect();
        let mut stream = Stream::new(&peer.cq, flows, 300, 8);
        (stream.post, stream.poll) = (Duration::from_ns(142), GRID);
        world.spawn(host, Box::new(stream));
    }
    let outcome = run(&mut world);
    assert_eq!(outcome, Outcome::Done, "{}", world.dump());
    let hash = recorder.lock();
    (world.events(), hash.spans, hash.value)
}

#[test]
fn the_same_seed_gives_the_same_events() {
    let first = busy_world(1, 2);
    for _ in 0..10 {
        assert_eq!(busy_world(1, 2), first);
    }
    assert_ne!(busy_world(2, 2).2, first.2, "PCIe latency is random");
}

#[test]
fn sixty_four_nics_on_a_switch() {
    let (events, spans, _) = busy_world(1, 64);
    assert!(events > 64 * 300 && spans > 64 * 300, "{events} {spans}");
}

const ROUND: &[(&str, &str)] = &[
    ("clock.core_mhz", "1000"),
    ("clock.mac_mhz", "1000"),
    ("pcie.read_jitter_ns", "0"),
    ("pcie.read_tail_probability", "0"),
];

/// Goal: latencies add up exactly. Method: a card and a machine with round numbers, and two
/// different cables.
#[test]
fn latencies_add_up() {
    let latency =
        |operation: fn(&Peer) -> SendOperation, cable_ns: u64, changes: &[(&str, &str)]| {
            let mut preset = preset();
            preset
                .set("link.cable_ns", &cable_ns.to_string())
                .expect("in range");
            // Cycles of whole nanoseconds.
            for (key, value) in ROUND.iter().chain(changes) {
                preset.set(key, value).expect("in range");
            }
            let mut world = World::new(&WorldConfig::timed(preset, 2)).expect("small");
            let (one, other) = pair(&world, 4096);
            // From here on the contexts are in the caches.
            for _ in 0..2 {
                post(&one.qps[0], 1, operation(&other), one.segment(0, 8));
                completions(&mut world, 0, &one.cq, 1, Duration::from_ps(1));
            }
            let begin = world.now();
            post(&one.qps[0], 1, operation(&other), one.segment(0, 8));
            completions(&mut world, 0, &one.cq, 1, Duration::from_ps(1));
            (world.now() - begin).as_ps()
        };
    let read: fn(&Peer) -> SendOperation = |other| SendOperation::RdmaRead(other.remote(0));
    let write: fn(&Peer) -> SendOperation = |other| SendOperation::RdmaWrite(other.remote(0));
    for operation in [read, write] {
        let none = latency(operation, 0, &[]);
        for cable_ns in [1, 100, 500, 1000, 20_000] {
            assert_eq!(latency(operation, cable_ns, &[]), none + 2000 * cable_ns);
        }
        for (key, extra) in [
            ("pcie.mmio_write_ns", 1),
            ("mac.transmit_ns", 2),
            ("mac.receive_ns", 2),
            ("pcie.write_latency_ns", 1),
        ] {
            let from: f64 = preset()
                .parameters()
                .find(|p| p.key == key)
                .expect("known")
                .value
                .to_string()
                .parse()
                .expect("a number");
            let more = (from + 1000.0).to_string();
            let changes = [(key, more.as_str())];
            assert_eq!(
                latency(operation, 0, &changes),
                none + extra * 1_000_000,
                "{key}"
            );
        }
    }
}

#[test]
fn a_thread_that_is_killed_holds_nothing_up() {
    for (name, mut world) in worlds(2) {
        let (one, other) = pair(&world, 1 << 16);
        let flow = Flow {
            qp: Arc::clone(&one.qps[0]),
            operation: SendOperation::RdmaWrite(other.remote(0)),
            segment: one.segment(0, 1 << 16),
        };
        let mut stream = Stream::new(&one.cq, vec![flow], 1_000_000, 4);
        (stream.post, stream.poll) = (GRID, GRID);
        let thread = world.spawn(0, Box::new(stream));
        let sleeper = world.spawn(1, Box::new(|cpu: &mut Cpu<'_>| poll_again(cpu, GRID)));
        assert_eq!(
            world.run(world.now() + Duration::from_us(100)),
            Outcome::Until,
            "{name}"
        );
        world.kill(thread);
        // The remaining requests are sent; then nothing happens, and a thread still waits.
        assert_eq!(
            run(&mut world),
            Outcome::Stalled,
            "{name}: {}",
            world.dump()
        );
        world.kill(sleeper);
        assert_eq!(run(&mut world), Outcome::Idle, "{name}: {}", world.dump());
        drop(one);
        other.device.counters();
    }
}

#[test]
fn a_thread_that_goes_round_without_time_is_noticed() {
    for (name, mut world) in worlds(1) {
        world.spawn(0, Box::new(|cpu: &mut Cpu<'_>| Next::At(cpu.now())));
        assert_eq!(run(&mut world), Outcome::Stalled, "{name}");
    }
}

/// Goal: a thread that spins on memory sees a WRITE at the first poll after it is visible, and not
/// before. Method: two threads play ping-pong in memory.
#[test]
fn ping_pong_in_memory() {
    for (name, mut world) in worlds(2) {
        let (one, other) = pair(&world, 4096);
        const ROUNDS: u64 = 50;
        let turns = Rc::new(RefCell::new(Vec::new()));
        let (one, other) = (Rc::new(one), Rc::new(other));
        for (me, peer, begins) in [(&one, &other, true), (&other, &one, false)] {
            let (me, peer, turns) = (Rc::clone(me), Rc::clone(peer), Rc::clone(&turns));
            let mut round = 0;
            let mut posted = !begins;
            let host = me.host;
            world.spawn(
                host,
                Box::new(move |cpu: &mut Cpu<'_>| {
                    me.cq.poll(16, |done| {
                        assert_eq!(done.status, CompletionStatus::Success);
                    });
                    if posted && me.word(0) == round + 1 {
                        round += 1;
                        posted = false;
                        turns.borrow_mut().push(cpu.now());
                        if begins && round == ROUNDS {
                            return Next::Done;
                        }
                    }
                    if !posted {
                        me.set_word(1, if begins { round + 1 } else { round });
                        post(
                            &me.qps[0],
                            round,
                            SendOperation::RdmaWrite(peer.remote(0)),
                            me.segment(8, 8),
                        );
                        posted = true;
                        if round == ROUNDS {
                            return Next::Done;
                        }
                    }
                    Next::OnWrite {
                        not_before: cpu.now() + GRID,
                        grid: GRID,
                        watch: Watch::Memory(me.address(0)..me.address(8)),
                    }
                }),
            );
        }
        assert_eq!(run(&mut world), Outcome::Done, "{name}: {}", world.dump());
        assert_eq!((one.word(0), other.word(0)), (ROUNDS, ROUNDS), "{name}");
        assert_eq!(turns.borrow().len() as u64, 2 * ROUNDS);
        assert!(turns.borrow().is_sorted(), "{name}");
    }
}

/// Goal: a thread that sleeps on an armed CQ runs one wake-up time after the interrupt, and not
/// without an interrupt. Method: two interrupts, the second of which comes while it is awake.
#[test]
fn an_interrupt_wakes_a_thread_that_sleeps() {
    const ROUNDS: usize = 10;
    let wake_up = Duration::from_us(3);
    for (name, mut world) in worlds(2) {
        let (one, mut other) = pair(&world, 4096);
        let events = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&events);
        let config = CompletionQueueConfig {
            entries: 64,
            on_event: Some(Arc::new(move || {
                counted.fetch_add(1, Ordering::Relaxed);
            })),
            ..CompletionQueueConfig::default()
        };
        // A CQ with events for the receives, and a queue pair that uses it.
        other.cq = CompletionQueue::create(&other.device, config).expect("small CQ");
        let mut one = one;
        join(&world, &mut one, &mut other, PathMtu::Mtu1024);
        let (sender, receiver) = (Arc::clone(&one.qps[1]), Arc::clone(&other.qps[1]));
        let queue = receiver.receive_queue().expect("its own");
        for _ in 0..ROUNDS {
            queue.post(1, &[other.segment(0, 64)]).expect("room");
        }
        let wakes = Rc::new(RefCell::new(Vec::new()));
        let (cq, seen, woken) = (
            Arc::clone(&other.cq),
            Arc::clone(&events),
            Rc::clone(&wakes),
        );
        let mut received = 0;
        world.spawn(
            1,
            Box::new(move |cpu: &mut Cpu<'_>| {
                woken
                    .borrow_mut()
                    .push((cpu.now(), seen.load(Ordering::Relaxed)));
                received += cq.poll(16, |_| ());
                cq.arm();
                received += cq.poll(16, |_| ());
                if received == ROUNDS {
                    Next::Done
                } else {
                    Next::OnInterrupt { wake_up }
                }
            }),
        );
        let segment = one.segment(0, 64);
        let mut sent = 0;
        world.spawn(
            0,
            Box::new(move |cpu: &mut Cpu<'_>| {
                post(&sender, 1, SendOperation::Send, segment);
                sent += 1;
                if sent == ROUNDS {
                    Next::Done
                } else {
                    Next::At(cpu.now() + Duration::from_us(20))
                }
            }),
        );
        let begin = world.now();
        assert_eq!(run(&mut world), Outcome::Done, "{name}: {}", world.dump());
        let wakes = wakes.take();
        assert_eq!(wakes.len(), ROUNDS + 1, "{name}: {wakes:?}");
        for (round, (at, events)) in wakes.iter().enumerate().skip(1) {
            assert_eq!(*events, round as u32, "{name}: {wakes:?}");
            let latency = *at - (begin + Duration::from_us(20 * (round as u64 - 1)));
            assert!(
                latency >= wake_up && latency < Duration::from_us(8),
                "{name}: {latency:?}"
            );
        }
    }
}

#[test]
fn worlds_that_cannot_be_are_refused() {
    let config = |hosts, topology| WorldConfig {
        topology,
        ..WorldConfig::functional(hosts)
    };
    assert!(World::new(&config(0, Topology::Switch)).is_err());
    assert!(World::new(&config(3, Topology::Cable)).is_err());
    let elsewhere = WorldConfig {
        presets: vec![(2, preset())],
        ..WorldConfig::timed(preset(), 2)
    };
    let message = World::new(&elsewhere).expect_err("two hosts").to_string();
    assert_eq!(message, "there is no host 2");
}

/// Goal: QP 1 of a host is reached by the address of the host. Method: a MAD to each other host.
#[test]
fn mads_go_to_the_gsi_of_a_host() {
    const MAD: usize = 256;
    const GRH: usize = 40;
    for (name, mut world) in worlds(3) {
        let peers = [0, 1, 2].map(|host| Peer::new(&world, host, 8192));
        let gsis = peers
            .each_ref()
            .map(|peer| verbs::new_gsi(&peer.pd, &peer.cq, 4));
        for (from, to) in [(0, 1), (1, 2), (2, 0), (1, 1)] {
            let (peer, target) = (&peers[from], &peers[to]);
            verbs::post_receive(&gsis[to], 7, target.segment(4096, GRH + MAD));
            let path = world.path(to);
            verbs::send_to_gsi(&gsis[from], 1, &path, peer.segment(0, MAD));
            let count = if from == to { 2 } else { 1 };
            let arrived = completions(&mut world, to, &target.cq, count, GRID);
            let arrived = arrived.last().expect("as many");
            assert_eq!(arrived.wr_id, 7, "{name}");
            assert_eq!((arrived.qpn, arrived.source_qpn), (Qpn::GSI, Qpn::GSI));
            if from != to {
                let sent = completions(&mut world, from, &peer.cq, 1, GRID);
                assert_eq!(sent[0].status, CompletionStatus::Success, "{name}");
            }
        }
    }
}

#[test]
fn a_card_reaches_itself_without_its_transceivers() {
    let latency = |changes: &[(&str, &str)]| {
        let mut preset = preset();
        for (key, value) in ROUND.iter().chain(changes) {
            preset.set(key, value).expect("in range");
        }
        let mut world = World::new(&WorldConfig::timed(preset, 1)).expect("small");
        let mut peer = Peer::new(&world, 0, 4096);
        peer.add_qp();
        connect(&world, &peer.qps[0], 0, &peer.qps[0], PathMtu::Mtu1024);
        peer.set_word(1, 5);
        let begin = world.now();
        let write = SendOperation::RdmaWrite(peer.remote(0));
        post(&peer.qps[0], 1, write, peer.segment(8, 8));
        completions(&mut world, 0, &peer.cq, 1, Duration::from_ps(1));
        assert_eq!(peer.word(0), 5);
        world.now() - begin
    };
    let near = latency(&[]);
    let far = latency(&[("mac.transmit_ns", "900"), ("link.cable_ns", "5000")]);
    assert_eq!(near, far);
}

/// Returns a world of one host, and the list in which threads record when they ran.
fn quiet_world() -> (World, Rc<RefCell<Vec<u64>>>) {
    let world = World::new(&WorldConfig::timed(preset(), 1)).expect("small");
    (world, Rc::default())
}

/// Returns a thread that executes a script and records the times.
fn scripted(
    times: &Rc<RefCell<Vec<u64>>>,
    script: impl IntoIterator<Item = fn(&mut Cpu<'_>) -> Next> + 'static,
) -> Box<dyn ferroce_world::Thread> {
    let (times, mut script) = (
        Rc::clone(times),
        script.into_iter().collect::<Vec<_>>().into_iter(),
    );
    Box::new(move |cpu: &mut Cpu<'_>| {
        times.borrow_mut().push(cpu.now().as_ps());
        script.next().map_or(Next::Done, |step| step(cpu))
    })
}

#[test]
fn a_parked_thread_goes_on_when_it_is_woken() {
    let (mut world, times) = quiet_world();
    let parked = world.spawn(
        0,
        scripted(
            &times,
            [
                |cpu: &mut Cpu<'_>| {
                    cpu.spend(Duration::from_ps(500));
                    Next::Parked
                },
                |_: &mut Cpu<'_>| Next::Parked,
                |cpu: &mut Cpu<'_>| Next::At(cpu.now() + Duration::from_ps(100)),
            ],
        ),
    );
    assert_eq!(world.run(Instant(100)), Outcome::Stalled);
    // Not before its own time.
    world.wake(parked, Instant(200));
    assert_eq!(world.next_event(), Some(Instant(500)));
    assert_eq!(world.run(Instant(600)), Outcome::Stalled);
    assert_eq!(world.next_event(), None);
    let waker = world.waker();
    world.spawn(
        0,
        Box::new(move |cpu: &mut Cpu<'_>| {
            waker.wake(parked, cpu.now() + Duration::from_ps(1000));
            // Waking it again has no further effect.
            waker.wake(parked, cpu.now() + Duration::from_ps(3000));
            Next::Done
        }),
    );
    assert_eq!(world.run(Instant(2000)), Outcome::Done);
    // It has no effect on a thread that is not parked.
    world.wake(parked, Instant(1501));
    assert_eq!(world.run(Instant(10_000)), Outcome::Idle);
    assert_eq!(*times.borrow(), [0, 500, 1500, 1600]);
}

#[test]
fn a_deadline_ends_every_wait() {
    let (mut world, times) = quiet_world();
    fn until(cpu: &mut Cpu<'_>, time: u64, next: Next) -> Next {
        cpu.set_deadline(Instant(time));
        next
    }
    let script: [fn(&mut Cpu<'_>) -> Next; 6] = [
        |cpu| until(cpu, 1000, Next::Parked),
        |cpu| until(cpu, 2000, Next::At(Instant(9000))),
        |cpu| {
            let wake_up = Duration::from_ps(7);
            until(cpu, 3000, Next::OnInterrupt { wake_up })
        },
        |cpu| {
            let next = Next::OnWrite {
                not_before: cpu.now(),
                grid: Duration::from_ps(10),
                watch: Watch::Everything,
            };
            until(cpu, 4005, next)
        },
        |cpu| {
            cpu.spend(Duration::from_ps(995));
            until(cpu, 1, Next::Parked)
        },
        // The deadline applies to one wait.
        |_| Next::At(Instant(8000)),
    ];
    world.spawn(0, scripted(&times, script));
    assert_eq!(world.run(Instant(10_000)), Outcome::Done);
    assert_eq!(*times.borrow(), [0, 1000, 2000, 3000, 4005, 5000, 8000]);
}

#[test]
fn a_thread_can_end_the_run_and_knows_how_long_it_is_quiet() {
    let (mut world, times) = quiet_world();
    let seen = Rc::new(RefCell::new(Vec::new()));
    let quiet = Rc::clone(&seen);
    world.spawn(
        0,
        Box::new(move |cpu: &mut Cpu<'_>| {
            quiet.borrow_mut().push(cpu.quiet_until());
            cpu.leave();
            Next::At(cpu.now() + Duration::from_ps(300))
        }),
    );
    assert_eq!(world.run(Instant(10_000)), Outcome::Until);
    assert_eq!(world.now(), Instant::ZERO);
    world.spawn(
        0,
        scripted(
            &times,
            [
                |_: &mut Cpu<'_>| Next::At(Instant(450)),
                |_: &mut Cpu<'_>| Next::At(Instant(1000)),
            ],
        ),
    );
    for _ in 0..2 {
        assert_eq!(world.run(Instant(10_000)), Outcome::Until);
    }
    assert_eq!(*times.borrow(), [0, 450]);
    assert_eq!(*seen.borrow(), [Instant::MAX, Instant(450), Instant(1000)]);
}
