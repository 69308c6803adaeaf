//! The network by itself, with hosts that send as fast as their cables let them.

use super::super::packet::tests::frame;
use super::super::report::FabricReport;
use super::*;
use crate::fabric_plan::{LinkPlan, PauseStorm, PfcPlan};

const CABLE: Duration = Duration::from_ns(50);
const SWITCH: Duration = Duration::from_ns(300);
const RESPONSE: Duration = Duration::from_ns(400);
const GBPS: f64 = 100.0;
/// Steps between two checks of frame conservation.
const CHECK_EVERY: u64 = 64;

/// Frames that a host still has to send to one other host.
#[derive(Debug, Clone)]
struct Flow {
    from: usize,
    to: usize,
    frames: u64,
    bytes: usize,
    traffic_class: u8,
    port: u16,
}

impl Flow {
    fn new(from: usize, to: usize, frames: u64) -> Self {
        let port = 1000 + from as u16;
        Self {
            from,
            to,
            frames,
            bytes: 1082,
            traffic_class: 0,
            port,
        }
    }
}

/// A network whose hosts send flows alternately, as fast as their cables and PFC permit.
struct Bench {
    network: Network<Vec<u8>>,
    flows: Vec<Flow>,
    free_at: Vec<Instant>,
    turns: Vec<usize>,
    /// Bytes and time of the last delivery, by flow port.
    delivered: Vec<(u16, u64, Instant)>,
    now: Instant,
    steps: u64,
}

fn ports(hosts: usize) -> Vec<HostPort> {
    let port = HostPort {
        rate: Rate::from_gbps(GBPS),
        cable: CABLE,
        switch: SWITCH,
        response: RESPONSE,
    };
    vec![port; hosts]
}

impl Bench {
    fn new(plan: &FabricPlan, flows: Vec<Flow>) -> Self {
        let hosts = plan.hosts();
        Self {
            network: Network::new(plan, &ports(hosts), 7).expect("a fabric"),
            delivered: flows
                .iter()
                .map(|flow| (flow.port, 0, Instant::ZERO))
                .collect(),
            flows,
            free_at: vec![Instant::ZERO; hosts],
            turns: vec![0; hosts],
            now: Instant::ZERO,
            steps: 0,
        }
    }

    /// Sends the next frame of a host, if its cable is free and the priority is not paused.
    fn send_from(&mut self, host: usize) -> bool {
        if self.free_at[host] > self.now {
            return false;
        }
        let count = self.flows.len();
        for offset in 0..count {
            let index = (self.turns[host] + offset) % count;
            let flow = &mut self.flows[index];
            let is_paused = self.network.paused(host) & 1 << (flow.traffic_class >> 5) != 0;
            if flow.from != host || flow.frames == 0 || is_paused {
                continue;
            }
            let bytes = frame(flow.traffic_class, flow.port, flow.bytes);
            assert!(!self.network.is_paused(host, &bytes));
            flow.frames -= 1;
            let to = flow.to;
            let at = self.now + Rate::from_gbps(GBPS).span(bytes.len() as u32);
            self.free_at[host] = at;
            self.turns[host] = index + 1;
            self.network.send(self.now, at, host, to, bytes);
            return true;
        }
        false
    }

    fn can_send(&self, host: usize) -> bool {
        self.flows.iter().any(|flow| {
            let priority = flow.traffic_class >> 5;
            let is_paused = self.network.paused(host) & 1 << priority != 0;
            flow.from == host && flow.frames > 0 && !is_paused
        })
    }

    /// Runs until no event is left, or until `until`.
    fn run(&mut self, until: Instant) {
        loop {
            for host in 0..self.free_at.len() {
                self.send_from(host);
            }
            let senders = (0..self.free_at.len()).filter(|host| self.can_send(*host));
            let next_send = senders.map(|host| self.free_at[host]).min();
            let next = [next_send, self.network.next_event()];
            let Some(next) = next.into_iter().flatten().min() else {
                return;
            };
            if next > until {
                return;
            }
            assert!(next >= self.now, "time goes on");
            self.now = next;
            self.network.step(next);
            while let Some(output) = self.network.next_output() {
                if let Output::Delivered(at, packet) = output {
                    self.take(at, &packet);
                }
            }
            self.steps += 1;
            if self.steps % CHECK_EVERY == 0 {
                assert!(self.report().is_conserved());
            }
        }
    }

    fn take(&mut self, at: Instant, packet: &Packet<Vec<u8>>) {
        let port = u16::from_be_bytes([packet.frame[34], packet.frame[35]]);
        let mut flows = self.delivered.iter_mut();
        let flow = flows.find(|(other, ..)| *other == port).expect("a flow");
        flow.1 += u64::from(packet.bytes);
        flow.2 = flow.2.max(at);
    }

    fn report(&self) -> FabricReport {
        FabricReport::new(&self.network, self.now)
    }

    fn bytes_of(&self, flow: usize) -> u64 {
        self.delivered[flow].1
    }
}

/// Returns a plan without ECN, and without PFC unless `pfc`.
fn star(hosts: usize, pfc: bool) -> FabricPlan {
    let mut plan = FabricPlan::star(hosts);
    plan.for_each_switch(|switch| {
        switch.ecn = None;
        if !pfc {
            switch.pfc = None;
        }
    });
    plan
}

#[test]
fn an_idle_switch_cuts_through() {
    let mut bench = Bench::new(&star(2, false), vec![Flow::new(0, 1, 1)]);
    bench.run(Instant::MAX);
    let (_, bytes, at) = bench.delivered[0];
    let span = Rate::from_gbps(GBPS).span(1082);
    assert_eq!(bytes, 1082);
    assert_eq!(at, Instant::ZERO + span + CABLE + SWITCH + CABLE);
    let idle = bench.network.idle_latency(0, 1, 1082);
    assert_eq!(at, Instant::ZERO + span + idle);
}

#[test]
fn a_slower_wire_stretches_and_a_faster_one_waits_for_the_last_bit() {
    let mut plan = FabricPlan::two_tier(2, 1, 1);
    for link in &mut plan.links[2..] {
        link.rate_gbps = Some(25.0);
    }
    let mut bench = Bench::new(&plan, vec![Flow::new(0, 1, 1)]);
    bench.run(Instant::MAX);
    let (fast, slow) = (
        Rate::from_gbps(GBPS).span(1082),
        Rate::from_gbps(25.0).span(1082),
    );
    let latency = SWITCH + SWITCH + SWITCH + CABLE + CABLE + CABLE + CABLE;
    // The first bit leaves at once; the last one after the slow wire.
    let expected = Instant::ZERO + slow + latency;
    let (_, _, at) = bench.delivered[0];
    assert!(at == expected, "{at:?} {expected:?} {fast:?}");
    let idle = bench.network.idle_latency(0, 1, 1082);
    assert_eq!(at, Instant::ZERO + fast + idle);
}

#[test]
fn an_incast_without_pfc_drops_and_with_it_does_not() {
    let flows: Vec<_> = (1..9).map(|from| Flow::new(from, 0, 8000)).collect();
    let mut lossy = Bench::new(&star(9, false), flows.clone());
    lossy.run(Instant::MAX);
    let report = lossy.report();
    assert!(report.dropped > 10_000, "{report:?}");
    assert_eq!(report.inside, 0);
    let mut lossless = Bench::new(&star(9, true), flows);
    lossless.run(Instant::MAX);
    let report = lossless.report();
    assert_eq!((report.dropped, report.delivered), (0, 64_000));
    let pauses: u64 = report.ports.iter().map(|port| port.pauses).sum();
    assert!(pauses > 8, "{pauses}");
    let headroom = report
        .ports
        .iter()
        .map(|port| port.headroom_most_bytes)
        .max();
    assert!(headroom > Some(1000), "{headroom:?}");
    let down = report.ports.iter().find(|port| port.to == Node::Host(0));
    let down = down.expect("the port of host 0");
    let busy = Rate::from_gbps(GBPS).span(1082).as_ps() * down.frames;
    let share = busy as f64 / lossless.now.as_ps() as f64;
    assert!(share > 0.99, "the wire is never idle: {share}");
}

#[test]
fn a_full_destination_does_not_stop_others_without_pfc() {
    // Host 1 sends alternately to 0, which is full, and to 3, which is idle.
    let mut flows: Vec<_> = (1..9).map(|from| Flow::new(from, 0, 100_000)).collect();
    flows.push(Flow {
        port: 77,
        ..Flow::new(1, 9, 100_000)
    });
    let mut bench = Bench::new(&star(10, false), flows.clone());
    bench.run(Instant::from_us(2000));
    let goodput = bench.bytes_of(8) as f64 * 8.0 / 2e6;
    assert!(goodput > 45.0, "half of its cable: {goodput} Gb/s");
    // With PFC it is a victim: the pause stops the whole priority.
    let mut paused = Bench::new(&star(10, true), flows.clone());
    paused.run(Instant::from_us(2000));
    let victim = paused.bytes_of(8) as f64 * 8.0 / 2e6;
    assert!(victim < 0.5 * goodput, "{victim} of {goodput} Gb/s");
    // In another priority it is not a victim.
    flows[8].traffic_class = 5 << 5;
    let mut other = Bench::new(&star(10, true), flows);
    other.run(Instant::from_us(2000));
    let other = other.bytes_of(8) as f64 * 8.0 / 2e6;
    assert!(other > 70.0, "{other} Gb/s");
}

#[test]
fn flows_collide_and_spraying_ends_it() {
    let permutation: Vec<_> = (0..16)
        .map(|host| Flow::new(host, (host + 5) % 16, 3000))
        .collect();
    let mut times = Vec::new();
    for choice in [PathChoice::Flow, PathChoice::Packet] {
        let mut plan = FabricPlan::two_tier(4, 4, 4);
        plan.path_choice = choice;
        plan.for_each_switch(|switch| switch.ecn = None);
        let mut bench = Bench::new(&plan, permutation.clone());
        bench.run(Instant::MAX);
        assert_eq!(bench.report().delivered, 16 * 3000);
        times.push(bench.now.as_ns());
    }
    let ideal = 3000 * Rate::from_gbps(GBPS).span(1082).as_ns();
    assert!(
        times[0] > ideal * 19 / 10,
        "two flows on one path: {times:?}, alone {ideal}"
    );
    assert!(times[1] < ideal * 12 / 10, "{times:?}, alone {ideal}");
}

#[test]
fn marks_follow_the_queue() {
    let mut plan = star(3, true);
    plan.for_each_switch(|switch| {
        switch.ecn = Some(MarkCurve {
            kmin_bytes: 5000,
            kmax_bytes: 50_000,
            pmax: 0.1,
        });
    });
    let flow = |from, class| Flow {
        traffic_class: class,
        ..Flow::new(from, 0, 2000)
    };
    let mut bench = Bench::new(&plan, vec![flow(1, 2)]);
    bench.run(Instant::MAX);
    assert_eq!(
        bench
            .report()
            .ports
            .iter()
            .map(|port| port.marked)
            .sum::<u64>(),
        0
    );
    let mut bench = Bench::new(&plan, vec![flow(1, 2), flow(2, 0)]);
    bench.run(Instant::MAX);
    let marked = bench
        .report()
        .ports
        .iter()
        .map(|port| port.marked)
        .sum::<u64>();
    assert!(
        (1500..=2000).contains(&marked),
        "only those that can be marked: {marked}"
    );
}

#[test]
fn a_pause_storm_spreads_and_ends() {
    let mut plan = FabricPlan::two_tier(2, 3, 1);
    plan.for_each_switch(|switch| {
        switch.ecn = None;
        switch.buffer_bytes = 1_000_000;
        switch.pfc = Some(PfcPlan {
            priorities: vec![0],
            ..PfcPlan::default()
        });
    });
    plan.storms = vec![PauseStorm {
        host: 0,
        priority: 0,
        from: Instant::from_us(100),
        until: Instant::from_us(2000),
    }];
    // Hosts 3 and 4 send to the one that pauses, and 3 to another one.
    let flows = vec![
        Flow::new(3, 0, 20_000),
        Flow::new(4, 0, 20_000),
        Flow {
            port: 77,
            ..Flow::new(5, 1, 20_000)
        },
    ];
    let mut bench = Bench::new(&plan, flows);
    bench.run(Instant::from_us(1000));
    let before = bench.bytes_of(2);
    bench.run(Instant::from_us(2000));
    assert_eq!(bench.bytes_of(2), before, "the trunk is paused for all");
    assert_eq!(bench.report().dropped, 0);
    bench.run(Instant::MAX);
    assert_eq!(bench.report().delivered, 60_000);
}

/// Returns a star without marks whose last of nine hosts has eight functions.
fn eight_functions() -> FabricPlan {
    star(9, true).with_functions(8, 8)
}

/// Returns the share of the time in which a cable with `frames` frames was busy.
fn busy_share(bench: &Bench, frames: u64) -> f64 {
    let busy = Rate::from_gbps(GBPS).span(1082).as_ps() * frames;
    busy as f64 / bench.now.as_ps() as f64
}

#[test]
fn an_embedded_switch_takes_no_time() {
    for (from, to) in [(0, 11), (11, 0)] {
        let mut bench = Bench::new(&eight_functions(), vec![Flow::new(from, to, 1)]);
        bench.run(Instant::MAX);
        let span = Rate::from_gbps(GBPS).span(1082);
        let (_, _, at) = bench.delivered[0];
        assert_eq!(at, Instant::ZERO + span + CABLE + SWITCH + CABLE);
    }
}

/// Goal: functions share their cable fairly and without loss, in both directions. Method: eight
/// functions receive from eight hosts, and send to them.
#[test]
fn functions_share_one_cable() {
    let inward: Vec<_> = (0..8).map(|n| Flow::new(n, 8 + n, 4000)).collect();
    let outward: Vec<_> = (0..8).map(|n| Flow::new(8 + n, n, 4000)).collect();
    for flows in [inward, outward] {
        let mut bench = Bench::new(&eight_functions(), flows);
        let whole = Rate::from_gbps(GBPS).span(1082).as_ps() * 32_000;
        bench.run(Instant(whole / 2));
        let bytes = (0..8).map(|flow| bench.bytes_of(flow));
        let (least, most) = (bytes.clone().min(), bytes.max().unwrap_or(0));
        assert!(least > Some(most * 9 / 10), "{least:?} of {most}");
        bench.run(Instant::MAX);
        let report = bench.report();
        assert_eq!((report.dropped, report.delivered), (0, 32_000));
        let share = busy_share(&bench, 32_000);
        assert!((0.99..=1.0).contains(&share), "{share}");
    }
}

#[test]
fn functions_of_one_card_do_not_need_its_cable() {
    let flows = vec![
        Flow::new(8, 9, 4000),
        Flow::new(10, 0, 4000),
        Flow::new(1, 11, 4000),
    ];
    let mut bench = Bench::new(&eight_functions(), flows);
    bench.run(Instant::MAX);
    assert_eq!(bench.report().delivered, 12_000);
    assert!(
        busy_share(&bench, 4000) > 0.99,
        "each has a wire for itself"
    );
}

#[test]
fn a_pause_storm_of_a_card_stops_what_comes_to_all_its_functions() {
    let mut plan = star(9, true);
    plan.storms = vec![PauseStorm {
        host: 8,
        priority: 0,
        from: Instant::ZERO,
        until: Instant::from_us(100),
    }];
    let plan = plan.with_functions(0, 2).with_functions(8, 8);
    let flows = (9..17).map(|function| Flow::new(2, function, 10));
    let mut bench = Bench::new(&plan, flows.collect());
    bench.run(Instant::from_us(100));
    assert_eq!(bench.report().delivered, 0);
    bench.run(Instant::MAX);
    assert_eq!(bench.report().delivered, 80);
}

/// Goal: in every fabric, frames are conserved, and a tree never deadlocks. Method: random two-tier
/// fabrics and chains with random buffers, rates, priorities and flows; PFC on some priorities.
/// `FERROCE_SEEDS` sets their number.
#[test]
fn random_fabrics_conserve_frames_and_do_not_stop() {
    let seeds = std::env::var("FERROCE_SEEDS");
    let seeds = seeds
        .ok()
        .and_then(|seeds| seeds.parse().ok())
        .unwrap_or(60);
    for seed in 0..seeds {
        check_random_fabric(seed);
    }
}

fn check_random_fabric(seed: u64) {
    let random = Random::new(seed, 0);
    let plan = random_fabric(&random);
    let hosts = plan.hosts() as u64;
    let flows: Vec<Flow> = (0..1 + random.below(2 * hosts))
        .map(|number| {
            let from = random.below(hosts);
            let to = (from + 1 + random.below(hosts - 1)) % hosts;
            Flow {
                bytes: 60 + random.below(4200) as usize,
                traffic_class: (random.below(8) as u8) << 5 | 2,
                port: number as u16,
                ..Flow::new(from as usize, to as usize, random.below(400))
            }
        })
        .collect();
    let total: u64 = flows.iter().map(|flow| flow.frames).sum();
    let mut bench = Bench::new(&plan, flows);
    bench.run(Instant::MAX);
    let report = bench.report();
    assert_eq!(
        (report.sent, report.inside),
        (total, 0),
        "seed {seed}: it stopped"
    );
    assert!(report.is_conserved(), "seed {seed}");
    let headroom_drops: u64 = report.ports.iter().map(|port| port.headroom_drops).sum();
    assert_eq!(headroom_drops, 0, "seed {seed}: the headroom is too small");
    for switch in 0..plan.switches.len() {
        assert_eq!(bench.network.buffer(switch).used_bytes(), 0, "seed {seed}");
    }
}

fn random_fabric(random: &Random) -> FabricPlan {
    let (leaves, per_leaf) = (1 + random.below(4) as usize, 1 + random.below(4) as usize);
    let mut plan = match leaves * per_leaf {
        1 => FabricPlan::star(2),
        _ if leaves == 1 => FabricPlan::star(per_leaf),
        _ => FabricPlan::two_tier(leaves, per_leaf, 1 + random.below(4) as usize),
    };
    if random.below(2) == 0 {
        plan.path_choice = PathChoice::Packet;
    }
    for link in &mut plan.links {
        let is_trunk = link.ends.iter().all(|end| matches!(end, Node::Switch(_)));
        if is_trunk {
            link.rate_gbps = Some([25.0, 100.0, 400.0][random.below(3) as usize]);
        }
        link.cable = Some(Duration::from_ns(random.below(2000)));
    }
    let priorities = random.below(256) as u8;
    plan.for_each_switch(|switch| {
        switch.buffer_bytes = 12_000_000 + random.below(4_000_000);
        switch.pfc = Some(PfcPlan {
            priorities: (0..8).filter(|n| priorities & 1 << n != 0).collect(),
            xoff_bytes: (random.below(2) == 0).then(|| 10_000 + random.below(100_000)),
            ..PfcPlan::default()
        });
    });
    for host in 0..plan.hosts() {
        if random.below(4) == 0 {
            plan = plan.with_functions(host, 2 + random.below(5) as usize);
        }
    }
    plan
}

#[test]
fn a_chain_of_switches_drains() {
    let mut plan = FabricPlan::star(0);
    plan.switches = (0..5).map(|n| SwitchPlan::new(format!("s{n}"))).collect();
    let hosts = (0..5).map(|n| [Node::Host(n), Node::Switch(n)]);
    let links = (0..4).map(|n| [Node::Switch(n), Node::Switch(n + 1)]);
    plan.links = hosts.chain(links).map(LinkPlan::new).collect();
    plan.for_each_switch(|switch| switch.buffer_bytes = 400_000);
    let flows = (0..4).map(|from| Flow::new(from, 4, 2000)).collect();
    let mut bench = Bench::new(&plan, flows);
    bench.run(Instant::MAX);
    let report = bench.report();
    assert_eq!((report.delivered, report.dropped), (8000, 0));
}
