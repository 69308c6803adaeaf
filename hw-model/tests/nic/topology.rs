//! Machines with a topology: routes, rates, order, and what a root complex refuses.

use ferroce_model::pcie::machine::{Attachment, Direction, Machine, Target};
use ferroce_model::pcie::{Parameters, Pcie};
use ferroce_model::ports::host::PostedOrder;
use ferroce_model::preset::Preset;
use ferroce_model::preset::topology::Topology;
use ferroce_units::random::Random;
use ferroce_units::{Duration, Instant};
use proptest::prelude::*;

/// Bytes of one access: a packet.
const BYTES: u64 = 4096;
/// How long a stream of accesses runs.
const RUN_US: u64 = 200;

/// Returns a value of a file.
fn value(name: &str, value: impl std::fmt::Display) -> String {
    format!("{name} = {{ value = {value}, origin = \"guess\", source = \"a test\" }}\n")
}

/// What the machines of these tests differ in.
#[derive(Debug, Clone, Copy)]
struct Machines {
    strict_writes: u32,
    commit_ns: f64,
    dram_gbps: f64,
    socket_gbps: f64,
    socket_ns: f64,
    p2p_read_gbps: f64,
    p2p_write_gbps: f64,
    acs: bool,
    ats: bool,
    gpu_read_gbps: f64,
    gpu_lanes: u32,
    read_requests: u32,
}

const USUAL: Machines = Machines {
    strict_writes: 0,
    commit_ns: 100.0,
    dram_gbps: 1000.0,
    socket_gbps: 500.0,
    socket_ns: 60.0,
    p2p_read_gbps: 40.0,
    p2p_write_gbps: 80.0,
    acs: false,
    ats: false,
    gpu_read_gbps: 1000.0,
    gpu_lanes: 16,
    read_requests: 256,
};

impl Machines {
    /// Two sockets; two cards and two GPUs on a switch of the first one, a third card on a port of
    /// its own, a GPU at the other socket.
    fn text(&self) -> String {
        let mut text = String::new();
        let mut section = |name: &str, on: &str, values: &[String]| {
            text += &format!("[topology.{name}]\n");
            if !on.is_empty() {
                text += &format!("on = \"{on}\"\n");
            }
            text += &values.concat();
        };
        let socket = [value("cores", 16), value("dram_gbps", self.dram_gbps)];
        let link = [value("ns", self.socket_ns), value("gbps", self.socket_gbps)];
        let port = [
            value("strict_writes", self.strict_writes),
            value("commit_ns", self.commit_ns),
            value("p2p_ns", 100.0),
            value("p2p_read_gbps", self.p2p_read_gbps),
            value("p2p_write_gbps", self.p2p_write_gbps),
        ];
        let switch = [
            value("generation", 4),
            value("lanes", 16),
            value("ns", 110.0),
            value("link_ns", 60.0),
            value("acs", self.acs),
        ];
        let card = [value("link_ns", 60.0), value("ats", self.ats)];
        let gpu = [
            value("generation", 4),
            value("lanes", self.gpu_lanes),
            value("link_ns", 60.0),
            value("read_ns", 500.0),
            value("write_ns", 100.0),
            value("read_gbps", self.gpu_read_gbps),
            value("write_gbps", 1000.0),
            value("read_requests", self.read_requests),
            value("bar_gib", 80),
        ];
        section("socket.0", "", &socket);
        section("socket.1", "", &socket);
        section("socket_link", "", &link);
        section("root_port.0", "socket.0", &port);
        section("root_port.1", "socket.0", &port);
        section("root_port.2", "socket.1", &port);
        section("switch.0", "root_port.0", &switch);
        section("card.0", "switch.0", &card);
        section("card.1", "switch.0", &card);
        section("card.2", "root_port.1", &card);
        section("gpu.0", "switch.0", &gpu);
        section("gpu.1", "switch.0", &gpu);
        section("gpu.2", "root_port.2", &gpu);
        text
    }

    fn preset(&self) -> Preset {
        let card = Preset::load("cx6-200g").expect("built in");
        let mut preset = card.put_host("test", &self.text()).expect("consistent");
        for (key, value) in [
            ("pcie.read_jitter_ns", "0"),
            ("pcie.read_tail_probability", "0"),
        ] {
            preset.set(key, value).expect("a parameter");
        }
        preset
    }

    /// Returns the slots of its cards, and the machine's topology.
    fn slots(&self) -> (Vec<Pcie>, std::sync::Arc<Topology>) {
        let preset = self.preset();
        let topology = preset.topology.clone().expect("the profile has one");
        let parameters = topology.machine(&preset.pcie);
        let machine = Machine::new(&parameters);
        let slots = (0..topology.cards.len()).map(|card| {
            let mut pcie = Pcie::new(&Parameters::from(&preset), 1);
            pcie.attach(Attachment::new(machine.clone(), &parameters, card));
            pcie
        });
        (slots.collect(), topology)
    }
}

/// A kind of access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    Write(PostedOrder),
}

fn target(topology: &Topology, name: &str) -> u64 {
    let (_, number) = topology.target(name).expect("the machine has it");
    Target(number).bits()
}

/// Lets cards read or write as fast as their slots take it; returns the rate of each in Gb/s.
fn rates(slots: &mut [Pcie], streams: &[(usize, Access, u64)]) -> Vec<f64> {
    let mut bytes = vec![0; streams.len()];
    let mut done_bytes = bytes.clone();
    let turns = Random::new(1, 0);
    let end = Instant::from_us(RUN_US);
    let mut now = Instant::ZERO;
    while now < end {
        // Streams of one card wait for each other; any of them may be the next.
        let first = turns.below(streams.len() as u64) as usize;
        for stream in (0..streams.len()).map(|index| (first + index) % streams.len()) {
            let (card, access, target) = &streams[stream];
            let pcie = &mut slots[*card];
            pcie.begin(now);
            let (written, read) = pcie.passed_at();
            let iova = *target + (bytes[stream] & 0xf_ffff);
            let done = match access {
                Access::Read if read <= now => pcie.read(now, iova, BYTES),
                Access::Write(order) if written <= now => pcie.write_as(now, iova, BYTES, *order),
                _ => continue,
            };
            assert!(done > now, "{access:?}");
            bytes[stream] += BYTES;
            if done <= end {
                done_bytes[stream] += BYTES;
            }
        }
        now += Duration::from_ns(20);
    }
    let rate = |bytes: &u64| *bytes as f64 * 8.0 / (RUN_US as f64 * 1000.0);
    done_bytes.iter().map(rate).collect()
}

fn rate(machine: &Machines, (card, access, name): (usize, Access, &str)) -> f64 {
    let (mut slots, topology) = machine.slots();
    let target = target(&topology, name);
    rates(&mut slots, &[(card, access, target)])[0]
}

const STRICT: Access = Access::Write(PostedOrder::Strict);
const RELAXED: Access = Access::Write(PostedOrder::Relaxed);

/// Goal: distance and order together set the rate. The expected rates follow from the number of
/// lines and the time that one is under way.
#[test]
fn strictly_ordered_writes_are_limited_by_places_and_distance() {
    let machine = Machines {
        strict_writes: 30,
        ..USUAL
    };
    let near = 30.0 * 64.0 * 8.0 / 100.0;
    let far = 30.0 * 64.0 * 8.0 / (100.0 + 2.0 * 60.0);
    for (name, expected) in [("dram0", near), ("dram1", far)] {
        let strict = rate(&machine, (0, STRICT, name));
        assert!((strict / expected - 1.0).abs() < 0.03, "{name}: {strict}");
        let relaxed = rate(&machine, (0, RELAXED, name));
        assert!(relaxed > 190.0, "{name}: {relaxed}");
    }
    assert!(rate(&USUAL, (0, STRICT, "dram1")) > 190.0, "no limit");
}

/// Goal: a switch passes requests between peers at the rate of its links, unless ACS sends them to
/// the root complex; with ATS it passes them nevertheless.
#[test]
fn a_switch_passes_what_acs_lets_pass() {
    let redirected = Machines { acs: true, ..USUAL };
    let translated = Machines {
        ats: true,
        ..redirected
    };
    for access in [Access::Read, RELAXED] {
        let limit = if access == Access::Read { 40.0 } else { 80.0 };
        let direct = rate(&USUAL, (0, access, "gpu1"));
        assert!(direct > 190.0, "{access:?}: {direct}");
        let around = rate(&redirected, (0, access, "gpu1"));
        assert!((around / limit - 1.0).abs() < 0.03, "{access:?}: {around}");
        let with_ats = rate(&translated, (0, access, "gpu1"));
        assert!((with_ats - direct).abs() < 1.0, "{access:?}: {with_ats}");
        // Another root port is always reached through the root complex.
        let far = rate(&USUAL, (0, access, "gpu2"));
        assert!((far / limit - 1.0).abs() < 0.03, "{access:?}: {far}");
    }
}

#[test]
fn a_root_complex_refuses_what_it_does_not_support() {
    let client_chip = Machines {
        p2p_read_gbps: 0.0,
        ..USUAL
    };
    let (slots, topology) = client_chip.slots();
    for (name, reads, writes) in [
        ("gpu2", false, true),
        ("gpu0", true, true),
        ("dram1", true, true),
    ] {
        let target = target(&topology, name);
        assert_eq!(slots[0].allows(target, Direction::Read), reads, "{name}");
        assert_eq!(slots[0].allows(target, Direction::Write), writes, "{name}");
    }
}

/// Goal: cards contend for what they share, and for nothing else.
#[test]
fn cards_share_what_is_on_the_way_of_both() {
    let (mut slots, topology) = USUAL.slots();
    let gpus = ["gpu0", "gpu1"].map(|name| target(&topology, name));
    let dram = target(&topology, "dram0");
    let own = rates(
        &mut slots,
        &[(0, Access::Read, gpus[0]), (1, Access::Read, gpus[1])],
    );
    assert!(own.iter().all(|rate| *rate > 190.0), "{own:?}");
    let (mut slots, _) = USUAL.slots();
    let both = rates(&mut slots, &[(0, RELAXED, dram), (1, RELAXED, dram)]);
    let sum: f64 = both.iter().sum();
    assert!((190.0..260.0).contains(&sum), "the switch's link: {both:?}");
    let (mut slots, _) = USUAL.slots();
    let apart = rates(&mut slots, &[(0, RELAXED, dram), (2, RELAXED, dram)]);
    assert!(apart.iter().all(|rate| *rate > 190.0), "{apart:?}");
}

/// Goal: a GPU that works on few reads at once is slow, by Little's law.
#[test]
fn a_target_accepts_as_many_reads_as_it_has_places() {
    let machine = Machines {
        read_requests: 8,
        ..USUAL
    };
    let expected = 8.0 * 512.0 * 8.0 / 500.0;
    let reads = rate(&machine, (0, Access::Read, "gpu0"));
    assert!((reads / expected - 1.0).abs() < 0.05, "{reads}");
}

/// Goal: latencies are those of the parts on the way. Method: one access on idle links, compared
/// with one to the near memory.
#[test]
fn latencies_add_up() {
    let preset = USUAL.preset();
    let one = |access: Access, name: &str| {
        let (mut slots, topology) = USUAL.slots();
        let iova = target(&topology, name);
        // The first access to a page misses the LLC.
        let at = Instant::from_us(10);
        slots[0].begin(at);
        let done = match access {
            Access::Read => slots[0].read(at, iova, 64),
            Access::Write(order) => slots[0].write_as(at, iova, 64, order),
        };
        (done - at).as_ps() as f64 / 1000.0
    };
    let far = one(Access::Read, "dram1") - one(Access::Read, "dram0");
    assert!((far - 120.0).abs() < 1.0, "{far}");
    let far = one(RELAXED, "dram1") - one(RELAXED, "dram0");
    assert!((far - 60.0).abs() < 1.0, "{far}");
    // Card, switch, GPU: two links and one switch each way, and the GPU's own time.
    let way = 60.0 + 110.0 + 60.0;
    let direct = one(Access::Read, "gpu0") - preset.pcie.engine_read_ns;
    assert!((direct - (2.0 * way + 500.0)).abs() < 12.0, "{direct}");
    let direct = one(RELAXED, "gpu0") - preset.pcie.engine_write_ns;
    assert!((direct - (way + 100.0)).abs() < 12.0, "{direct}");
}

/// Goal: a processor's store waits for completions that cross the root port, and for no others.
#[test]
fn stores_wait_at_the_root_port() {
    for (name, waits) in [("dram0", true), ("gpu2", true), ("gpu0", false)] {
        let (mut slots, topology) = USUAL.slots();
        let target = target(&topology, name);
        let pcie = &mut slots[0];
        let waited = (1..2000).any(|number| {
            let now = Instant::from_us(number);
            pcie.begin(now);
            pcie.read(now, target, BYTES);
            pcie.mmio_write(now, 64).taken > now
        });
        assert_eq!(waited, waits, "{name}");
    }
}

fn machines() -> impl Strategy<Value = Machines> {
    let rates = (20.0..300.0, 20.0..300.0, 20.0..300.0, 20.0..300.0);
    let shape = (0..64u32, 50.0..400.0, 0.0..300.0, any::<(bool, bool)>());
    let gpu = (20.0..300.0, 0..5u32, 1..300u32);
    (rates, shape, gpu).prop_map(|(rates, shape, gpu)| {
        let (strict_writes, commit_ns, socket_ns, (acs, ats)) = shape;
        Machines {
            strict_writes,
            commit_ns,
            dram_gbps: rates.0,
            socket_gbps: rates.1,
            socket_ns,
            p2p_read_gbps: rates.2,
            p2p_write_gbps: rates.3,
            acs,
            ats,
            gpu_read_gbps: gpu.0,
            gpu_lanes: 1 << gpu.1,
            read_requests: gpu.2,
        }
    })
}

fn stream() -> impl Strategy<Value = (usize, Access, &'static str)> {
    let access = prop_oneof![Just(Access::Read), Just(STRICT), Just(RELAXED)];
    let names = prop::sample::select(vec!["dram0", "dram1", "gpu0", "gpu1", "gpu2"]);
    (0..3usize, access, names)
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(200)
    })]

    /// Goal: streams of several cards never get more than a part on their way carries, none
    /// stalls, and a slower part never makes a single stream faster.
    #[test]
    fn no_machine_carries_more_than_its_parts(
        machine in machines(),
        streams in prop::collection::vec(stream(), 1..5),
    ) {
        let (mut slots, topology) = machine.slots();
        let named: Vec<_> = streams
            .iter()
            .map(|(card, access, name)| (*card, *access, target(&topology, name)))
            .collect();
        let got = rates(&mut slots, &named);
        let sum_of = |is_on: &dyn Fn(&(usize, Access, &str)) -> bool| -> f64 {
            let all = streams.iter().zip(&got);
            all.filter(|(stream, _)| is_on(stream)).map(|(_, rate)| rate).sum()
        };
        let most = |gbps: f64| gbps * 1.01;
        for dram in ["dram0", "dram1"] {
            prop_assert!(sum_of(&|stream| stream.2 == dram) <= most(machine.dram_gbps));
        }
        let crosses = |stream: &(usize, Access, &str)| matches!(stream.2, "dram1" | "gpu2");
        let writes = |stream: &(usize, Access, &str)| stream.1 != Access::Read && crosses(stream);
        let reads = |stream: &(usize, Access, &str)| stream.1 == Access::Read && crosses(stream);
        prop_assert!(sum_of(&writes) <= most(machine.socket_gbps));
        prop_assert!(sum_of(&reads) <= most(machine.socket_gbps));
        for gpu in ["gpu0", "gpu1", "gpu2"] {
            let reads = |stream: &(usize, Access, &str)| {
                stream.2 == gpu && stream.1 == Access::Read
            };
            prop_assert!(sum_of(&reads) <= most(machine.gpu_read_gbps));
        }
        prop_assert!(got.iter().all(|rate| *rate > 0.0), "{got:?}");
        let slower = Machines {
            dram_gbps: machine.dram_gbps / 2.0,
            socket_gbps: machine.socket_gbps / 2.0,
            gpu_read_gbps: machine.gpu_read_gbps / 2.0,
            commit_ns: machine.commit_ns * 2.0,
            ..machine
        };
        let (fast, slow) = (rate(&machine, streams[0]), rate(&slower, streams[0]));
        prop_assert!(slow <= fast * 1.02 + 1.0, "{slow} > {fast}");
    }
}
