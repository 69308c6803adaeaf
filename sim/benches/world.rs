//! How fast the world simulates: data packets per second of processor time, both NICs and
//! everything between them included, on one core.
//!
//! `cargo bench -p ferroce-sim --bench world [-- WORD]` runs what has WORD in its name.

#[path = "../tests/world_support/mod.rs"]
mod world_support;

use std::rc::Rc;
use std::sync::Arc;

use ferroce_driver::{PathMtu, SendOperation};
use ferroce_model::preset::Preset;
use ferroce_sim::world::{Outcome, World, WorldConfig};
use ferroce_transport::{Duration, Instant};
use world_support::{Flow, Peer, Stream, join};

/// What is simulated.
struct Case {
    name: &'static str,
    preset: Option<&'static str>,
    hosts: usize,
    qps: usize,
    bytes: usize,
    path_mtu: PathMtu,
    depth: u64,
    /// Data packets, over all hosts.
    packets: u64,
}

const LARGE: Case = Case {
    name: "write 1 MiB, MTU 4096",
    preset: Some("cx5-100g"),
    hosts: 2,
    qps: 1,
    bytes: 1 << 20,
    path_mtu: PathMtu::Mtu4096,
    depth: 4,
    packets: 1_000_000,
};
const MTU_1024: Case = Case {
    name: "write 1 MiB, MTU 1024",
    path_mtu: PathMtu::Mtu1024,
    ..LARGE
};
const SMALL: Case = Case {
    name: "write 64 B",
    bytes: 64,
    depth: 64,
    ..LARGE
};

const CASES: &[Case] = &[
    LARGE,
    MTU_1024,
    Case {
        name: "write 1 MiB, MTU 4096, functional",
        preset: None,
        ..LARGE
    },
    Case {
        name: "write 1 MiB, MTU 1024, 10 GbE card",
        preset: Some("irdma-10g"),
        ..MTU_1024
    },
    SMALL,
    Case {
        name: "write 64 B, functional",
        preset: None,
        ..SMALL
    },
    Case {
        name: "write 64 B, 8 QPs",
        qps: 8,
        ..SMALL
    },
    Case {
        name: "write 64 B, 100 QPs",
        qps: 100,
        depth: 8,
        ..SMALL
    },
    Case {
        name: "write 64 B, 10000 QPs",
        qps: 10_000,
        depth: 1,
        ..SMALL
    },
    Case {
        name: "write 4 KiB, 2 NICs",
        bytes: 4096,
        depth: 16,
        ..LARGE
    },
    Case {
        name: "write 4 KiB, 16 NICs",
        bytes: 4096,
        depth: 16,
        hosts: 16,
        ..LARGE
    },
    Case {
        name: "write 4 KiB, 64 NICs",
        bytes: 4096,
        depth: 16,
        hosts: 64,
        ..LARGE
    },
];

fn main() {
    let word = std::env::args().skip(1).find(|word| !word.starts_with('-'));
    for case in CASES {
        if word.as_ref().is_none_or(|word| case.name.contains(word)) {
            measure(case);
        }
    }
}

fn measure(case: &Case) {
    let config = match case.preset {
        Some(name) => {
            let preset = Preset::load(name).expect("built in");
            WorldConfig::timed(preset, case.hosts)
        }
        None => WorldConfig::functional(case.hosts),
    };
    let mut world = World::new(&config).expect("a possible world");
    let mut peers: Vec<_> = (0..case.hosts)
        .map(|host| Peer::new(&world, host, case.bytes.max(1 << 16)))
        .collect();
    for pair in peers.chunks_exact_mut(2) {
        let [one, other] = pair else { continue };
        for _ in 0..case.qps {
            join(&world, one, other, case.path_mtu);
        }
    }
    let per_message = case.bytes.div_ceil(mtu_bytes(case.path_mtu)) as u64;
    let messages = case.packets / per_message / (case.hosts as u64 / 2);
    let mut finished = Vec::new();
    for pair in peers.chunks_exact(2) {
        let [one, other] = pair else { continue };
        let flow = |qp: &Arc<_>| Flow {
            qp: Arc::clone(qp),
            operation: SendOperation::RdmaWrite(other.remote(0)),
            segment: one.segment(0, case.bytes),
        };
        let flows = one.qps.iter().map(flow).collect();
        let mut stream = Stream::new(&one.cq, flows, messages, case.depth);
        if case.preset.is_some() {
            (stream.post, stream.poll) = (Duration::from_ns(142), Duration::from_ns(20));
        }
        finished.push(Rc::clone(&stream.finished));
        world.spawn(one.host, Box::new(stream));
    }
    let (begin, events) = (world.now(), world.events());
    let start = processor_ns();
    let outcome = world.run(begin + Duration::from_ms(100_000));
    let real = (processor_ns() - start) * 1e-9;
    assert_eq!(outcome, Outcome::Done, "{}: {}", case.name, world.dump());
    let end = finished.iter().map(|time| *time.borrow()).max();
    let simulated = (end.unwrap_or(Instant::ZERO) - begin).as_ps() as f64 * 1e-12;
    let packets = messages * per_message * (case.hosts as u64 / 2);
    let bits = 8.0 * messages as f64 * case.bytes as f64;
    println!(
        "{:36} {:9.0} packets/s {:7.1} ns/packet {:5.2} events/packet {:8.0} ops/s \
         simulated {:6.2} Gb/s, slow-down {:7.2}",
        case.name,
        packets as f64 / real,
        1e9 * real / packets as f64,
        (world.events() - events) as f64 / packets as f64,
        messages as f64 * (case.hosts as f64 / 2.0) / real,
        if simulated > 0.0 {
            bits / simulated / 1e9
        } else {
            0.0
        },
        if simulated > 0.0 {
            real / simulated
        } else {
            0.0
        },
    );
}

/// Time that this thread has had a processor, in nanoseconds, so that other programs count less.
fn processor_ns() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    let first = text.split_whitespace().next().expect("three numbers");
    first.parse().expect("a number")
}

fn mtu_bytes(path_mtu: PathMtu) -> usize {
    match path_mtu {
        PathMtu::Mtu256 => 256,
        PathMtu::Mtu512 => 512,
        PathMtu::Mtu1024 => 1024,
        PathMtu::Mtu2048 => 2048,
        PathMtu::Mtu4096 => 4096,
    }
}
