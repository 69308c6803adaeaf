//! Random plans of packet faults.

use ferroce_faults::{Fault, Kind, MAX_EXPRESSION, Plan, When};
use ferroce_host::numbered_hosts;
use ferroce_units::random::Random;
use ferroce_wire::Gid;

/// Stream of random numbers for plans.
const STREAM: u64 = 2;
/// Maximum number of faults of a random plan.
const MAX_FAULTS: u64 = 3;
/// Above this probability of loss, several consecutive losses may exhaust the retries.
const MILD_LOSS: f64 = 0.011;
/// Classes of packets to which a fault may be limited.
const CLASSES: [&str; 8] = [
    "ack",
    "read_response",
    "read_request",
    "atomic",
    "atomic_response",
    "send",
    "write",
    "response",
];

/// Returns the plan of a seed; `None`, for one seed in eight: no faults.
pub(crate) fn of_seed(seed: u64, hosts: usize) -> Option<Plan> {
    let random = Random::new(seed, STREAM);
    if random.one_in(8) {
        return None;
    }
    let mut items: Vec<String> = (0..1 + random.below(MAX_FAULTS))
        .map(|_| fault(&random, hosts))
        .collect();
    items.push(format!("seed={}", random.next() >> 32));
    let expression = items.join(",");
    debug_assert!(expression.len() <= MAX_EXPRESSION, "{expression}");
    Some(expression.parse().expect("the items are faults"))
}

fn fault(random: &Random, hosts: usize) -> String {
    let pick = |values: &[&'static str]| random.one_of(values);
    let probability = pick(&["1e-3", "5e-3", "1e-2", "5e-2"]);
    let class = match random.below(3) {
        0 => format!("@{}", pick(&CLASSES)),
        _ => String::new(),
    };
    match random.below(13) {
        0 | 1 => format!("loss={probability}{class}"),
        2 => format!("drop={}#{}", pick(&CLASSES), 1 + random.below(12)),
        3 => format!(
            "burst={}/{}",
            pick(&["1e-3", "1e-2"]),
            pick(&["0.5", "0.2"])
        ),
        4 => format!("dup={}{class}", pick(&["1e-2", "1e-1", "5e-1"])),
        5 => format!(
            "reorder={}{class}",
            pick(&["1e-2/5us", "1e-1/3us", "5e-2/30us"])
        ),
        6 => format!("reorder={}", pick(&["2paths/3us", "4paths", "8paths/20us"])),
        7 => format!("delay={}{class}", pick(&["200ns", "2us", "10us", "40us"])),
        8 => format!("jitter={}{class}", pick(&["500ns", "3us", "20us"])),
        9 => {
            let kind = pick(&["corrupt", "corrupt-header", "corrupt-icrc"]);
            format!("{kind}={probability}{class}")
        }
        10 | 11 => format!("down={}", span(random)),
        _ => {
            let address = |host: u64| {
                let gid = numbered_hosts::of_host(host as usize).gids[1].gid;
                Gid(gid).to_ipv4().expect("hosts have IPv4 addresses")
            };
            let one = random.below(hosts as u64);
            let other = (one + 1 + random.below(hosts as u64 - 1)) % hosts as u64;
            let (one, other) = (address(one), address(other));
            format!("partition={one}-{other}@{}", span(random))
        }
    }
}

/// Returns a span of time: mostly short, one in four longer than all retries.
fn span(random: &Random) -> String {
    let begin_us = random.below(200);
    let length_us = match random.below(4) {
        0 => 100_000,
        1 => 2_000 + random.below(2_000),
        _ => 1 + random.below(500),
    };
    format!("{begin_us}us..{}us", begin_us + length_us)
}

/// Returns true if the faults may exhaust the retries of a connection.
pub(crate) fn may_break_connections(plan: Option<&Plan>) -> bool {
    let Some(plan) = plan else { return false };
    let is_mild = |when: &When| match when {
        When::Random(cause) => cause.probability() < MILD_LOSS,
        When::Numbered(_) => true,
    };
    plan.faults.iter().any(|fault| match fault.kind {
        Kind::Loss(when) | Kind::Corrupt(_, when) => !is_mild(&when),
        Kind::Burst(_) | Kind::Down | Kind::Partition(..) => true,
        _ => false,
    })
}

/// Returns true if packets are lost, duplicated or reordered: messages of an unreliable service may
/// then not arrive.
pub(crate) fn disturbs(plan: Option<&Plan>) -> bool {
    let Some(plan) = plan else { return false };
    let delays = |fault: &Fault| matches!(fault.kind, Kind::Delay(_) | Kind::Jitter(_));
    !plan.faults.iter().all(delays) || reorders(Some(plan))
}

/// Returns true if packets of a flow overtake each other.
pub(crate) fn reorders(plan: Option<&Plan>) -> bool {
    let Some(plan) = plan else { return false };
    plan.faults.iter().any(|fault| match fault.kind {
        Kind::Spray { .. } | Kind::Overtake { .. } => true,
        // Packets that are not delayed overtake delayed ones.
        Kind::Delay(_) | Kind::Jitter(_) => fault.selector.packets.is_some(),
        _ => false,
    })
}
