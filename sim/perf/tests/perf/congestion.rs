//! Congestion in the timed world: flows of many hosts through switches, with real cards.

use ferroce_model::congestion::dcqcn::DcqcnParameters;
use ferroce_model::congestion::{Algorithm, CongestionConfig, NotificationConfig};
use ferroce_model::preset::Preset;
use ferroce_perf::pattern::Pattern;
use ferroce_perf::traffic::Traffic;
use ferroce_perf::{Iterations, Operation, PerfRow, PerfSpec, Test, Topology};
use ferroce_units::Duration;
use ferroce_world::fabric_plan::SIGCOMM_2015_ECN;
use ferroce_world::{FabricNode, FabricPlan, PathChoice};

fn spec(test: Test) -> PerfSpec {
    let preset = Preset::load("cx5-100g").expect("built in");
    let mut spec = PerfSpec::new(preset, Operation::Write, test);
    spec.mtu_bytes = Some(4096);
    spec
}

/// Returns the row of a run between `hosts` hosts, each of which sends `messages` of 64 KiB.
fn run(fabric: FabricPlan, pattern: Pattern, messages: u64) -> PerfRow {
    let mut spec = spec(Test::Bandwidth);
    let hosts = fabric.hosts() as u32;
    spec.topology = Topology::Flows { hosts, pattern };
    spec.iterations = Iterations::Exactly(messages);
    spec.fabric = Some(fabric);
    let result = ferroce_perf::run(&spec).expect("it runs");
    result.rows.into_iter().next().expect("a row")
}

fn traffic(row: &PerfRow) -> &Traffic {
    row.traffic.as_ref().expect("traffic")
}

/// Returns DCQCN with the parameters of its paper.
fn sigcomm() -> CongestionConfig {
    CongestionConfig {
        notification: NotificationConfig {
            min_time_between_cnps: Duration::from_us(50),
            ..NotificationConfig::CONNECTX
        },
        algorithm: Algorithm::Dcqcn(DcqcnParameters::SIGCOMM_2015),
    }
}

fn sum(row: &PerfRow, name: &str) -> u64 {
    let all = row.counters.iter().flatten();
    all.filter(|(counter, _)| *counter == name)
        .map(|(_, value)| value)
        .sum()
}

/// Goal: an idle fabric takes as long as the switch without a buffer. Method: the same latency test
/// with both.
#[test]
fn an_idle_switch_takes_as_long_as_one_without_a_buffer() {
    let mut simple = spec(Test::Latency);
    simple.iterations = Iterations::Exactly(50);
    simple.switched = Some(true);
    let mut fabric = simple.clone();
    fabric.fabric = Some(FabricPlan::star(2));
    let latency = |spec: &PerfSpec| {
        let result = ferroce_perf::run(spec).expect("it runs");
        result.rows[0].latency.clone().expect("latency").samples_ps
    };
    assert_eq!(latency(&simple), latency(&fabric));
}

#[test]
fn dcqcn_shares_a_full_cable_without_loss() {
    for senders in [2, 8] {
        let mut fabric = FabricPlan::star(senders + 1);
        fabric.congestion = Some(sigcomm());
        fabric.for_each_switch(|switch| switch.ecn = Some(SIGCOMM_2015_ECN));
        let row = run(fabric, Pattern::Incast, 8000);
        let traffic = traffic(&row);
        let rates: Vec<f64> = traffic.flows.iter().map(|flow| flow.gbps).collect();
        let fair = rates.iter().sum::<f64>() / rates.len() as f64;
        for rate in &rates {
            assert!(
                (rate / fair - 1.0).abs() < 0.1,
                "{senders} senders: {rates:?}"
            );
        }
        assert!(traffic.jain > 0.99, "{senders} senders: {rates:?}");
        assert!(traffic.utilisation > 0.95, "{}", traffic.utilisation);
        let queue = traffic.queue.as_ref().expect("a queue");
        assert!(
            (10_000.0..100_000.0).contains(&queue.mean_bytes),
            "{queue:?}"
        );
        let report = traffic.fabric.as_ref().expect("a fabric");
        assert!(report.is_conserved() && report.dropped == 0, "{report:?}");
        assert_eq!(sum(&row, "packets_retransmitted"), 0);
        let (sent, handled) = (sum(&row, "np_cnp_sent"), sum(&row, "rp_cnp_handled"));
        assert!(
            sent > 0 && sent >= handled && handled + 16 > sent,
            "{sent} {handled}"
        );
        assert!(sum(&row, "np_ecn_marked_roce_packets") >= sent);
    }
}

#[test]
fn pfc_alone_loses_nothing_and_pauses() {
    let mut fabric = FabricPlan::star(9);
    fabric.for_each_switch(|switch| switch.buffer_bytes = 2_000_000);
    let row = run(fabric, Pattern::Incast, 200);
    let traffic = traffic(&row);
    let report = traffic.fabric.as_ref().expect("a fabric");
    assert_eq!(report.dropped, 0, "{report:?}");
    assert!(report.ports.iter().map(|port| port.pauses).sum::<u64>() > 8);
    assert_eq!(sum(&row, "packets_retransmitted"), 0);
    assert_eq!(
        sum(&row, "np_cnp_sent"),
        0,
        "cards without congestion control send none"
    );
    assert!(traffic.utilisation > 0.95, "{}", traffic.utilisation);
}

/// Goal: packet faults apply to packets that switches deliver. Method: an incast with loss; no
/// switch drops a packet, all messages arrive, and a second run is the same.
#[test]
fn packet_faults_meet_what_switches_deliver() {
    let mut spec = spec(Test::Bandwidth);
    spec.topology = Topology::Flows {
        hosts: 3,
        pattern: Pattern::Incast,
    };
    spec.iterations = Iterations::Exactly(100);
    spec.local_ack_timeout = Some(4);
    spec.fabric = Some(FabricPlan::star(3));
    spec.faults = Some("loss=1e-2,seed=3".parse().expect("a plan"));
    let run = || ferroce_perf::run(&spec).expect("it runs").rows.remove(0);
    let row = run();
    let report = traffic(&row).fabric.as_ref().expect("a fabric");
    assert!(report.dropped == 0 && report.is_conserved(), "{report:?}");
    let lost = sum(&row, "fault_dropped_loss");
    assert!(lost > 0 && sum(&row, "packets_retransmitted") >= lost / 2);
    assert_eq!(row.counters, run().counters);
}

#[test]
fn without_pfc_packets_are_lost_and_sent_again() {
    let mut fabric = FabricPlan::star(5);
    fabric.for_each_switch(|switch| {
        switch.buffer_bytes = 1_000_000;
        switch.pfc = None;
    });
    let mut spec = spec(Test::Bandwidth);
    spec.topology = Topology::Flows {
        hosts: 5,
        pattern: Pattern::Incast,
    };
    spec.iterations = Iterations::Exactly(100);
    spec.local_ack_timeout = Some(4);
    spec.fabric = Some(fabric);
    let row = &ferroce_perf::run(&spec).expect("it runs").rows[0];
    let report = traffic(row).fabric.as_ref().expect("a fabric");
    assert!(report.dropped > 0 && report.is_conserved(), "{report:?}");
    assert!(sum(row, "packets_retransmitted") > 0);
}

#[test]
fn the_same_fabric_gives_the_same_figures() {
    let fabric = FabricPlan::two_tier(2, 2, 2).with_dcqcn();
    let once = run(fabric.clone(), Pattern::AllToAll, 50);
    let again = run(fabric, Pattern::AllToAll, 50);
    assert_eq!(once, again);
}

/// Goal: flows that collide on a path are slower than flows that are sprayed over all paths.
/// Method: four hosts of one leaf send to four of another over four spines; spraying uses the
/// recovery that adaptive routing needs.
#[test]
fn spraying_with_adaptive_routing_ends_collisions() {
    let rate = |is_sprayed: bool| {
        let mut fabric = FabricPlan::two_tier(2, 4, 4);
        for host in 0..8 {
            fabric.links[host].ends[1] = FabricNode::Switch(host % 2);
        }
        let mut spec = spec(Test::Bandwidth);
        if is_sprayed {
            fabric.path_choice = PathChoice::Packet;
            spec.preset
                .set("transport.adaptive_routing", "true")
                .expect("a flag");
        }
        spec.topology = Topology::Flows {
            hosts: 8,
            pattern: Pattern::Pairs,
        };
        spec.iterations = Iterations::Exactly(200);
        spec.fabric = Some(fabric);
        let row = ferroce_perf::run(&spec).expect("it runs").rows.remove(0);
        traffic(&row).clone()
    };
    let (hashed, sprayed) = (rate(false), rate(true));
    assert!(hashed.utilisation < 0.8, "{}", hashed.utilisation);
    assert!(sprayed.utilisation > 0.9, "{}", sprayed.utilisation);
}
