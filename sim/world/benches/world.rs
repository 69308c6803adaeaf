//! Speed of the simulation: data packets per second on one core, including all NICs and links but
//! not the set-up.
//!
//! `cargo bench -p ferroce-world --bench world [-- cards|pairs|nics]`

#[path = "../tests/world_support/mod.rs"]
mod world_support;

use std::rc::Rc;
use std::sync::Arc;

use ferroce_driver::{PathMtu, SendOperation};
use ferroce_model::contexts::queue_pair::QueuePair;
use ferroce_model::preset::Preset;
use ferroce_units::{Duration, Instant};
use ferroce_world::{Outcome, World, WorldConfig};
use world_support::{Flow, Peer, Stream, join, new_cq};

/// A benchmark case.
struct Case {
    name: &'static str,
    preset: Option<&'static str>,
    hosts: usize,
    qps: usize,
    bytes: usize,
    path_mtu: PathMtu,
    /// Messages in flight per queue pair.
    depth: u64,
    /// Data packets, over all hosts.
    packets: u64,
}

const LARGE: Case = Case {
    name: "WRITE 1 MiB",
    preset: Some("cx5-100g"),
    hosts: 2,
    qps: 1,
    bytes: 1 << 20,
    path_mtu: PathMtu::Mtu1024,
    depth: 4,
    packets: 1_000_000,
};
const SMALL: Case = Case {
    name: "WRITE 64 B",
    bytes: 64,
    depth: 64,
    packets: 500_000,
    ..LARGE
};
const MEDIUM: Case = Case {
    name: "WRITE 64 KiB",
    bytes: 1 << 16,
    depth: 16,
    ..LARGE
};

/// Cards of 100 and of 10 Gb/s, large and small messages, and cards without timing.
const CARDS: &[Case] = &[
    LARGE,
    Case {
        path_mtu: PathMtu::Mtu4096,
        ..LARGE
    },
    SMALL,
    Case {
        preset: Some("irdma-10g"),
        ..LARGE
    },
    Case {
        preset: Some("cx4lx-10g"),
        ..LARGE
    },
    Case {
        preset: None,
        ..LARGE
    },
    Case {
        preset: None,
        ..SMALL
    },
];
const QUEUE_PAIRS: [usize; 5] = [1, 10, 100, 1000, 10_000];
const NICS: [usize; 4] = [2, 4, 16, 64];
/// Messages in flight over all queue pairs of a NIC, if it has many.
const UNDER_WAY: usize = 64;

fn main() {
    let word = std::env::args().skip(1).find(|word| !word.starts_with('-'));
    let runs = |group: &str| {
        word.as_ref()
            .is_none_or(|word| group.contains(word.as_str()))
    };
    println!(
        "an idle queue pair: {} bytes of the NIC's memory",
        size_of::<QueuePair>()
    );
    if runs("cards") {
        CARDS.iter().for_each(measure);
    }
    if runs("queue pairs") {
        for qps in QUEUE_PAIRS {
            for case in [MEDIUM, SMALL] {
                let depth = (UNDER_WAY / qps).max(1) as u64;
                measure(&Case { qps, depth, ..case });
            }
        }
    }
    if runs("nics") {
        for hosts in NICS {
            measure(&Case { hosts, ..MEDIUM });
        }
    }
}

/// Returns the processor time of this thread, in seconds.
fn processor_time() -> f64 {
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat");
    let ns: Option<f64> = statistics
        .ok()
        .and_then(|text| text.split(' ').next()?.parse().ok());
    ns.expect("Linux counts it") * 1e-9
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
    for peer in &mut peers {
        // As large as needed: a larger ring would sweep the processor's cache.
        let entries = (case.qps as u64 * case.depth).max(128);
        peer.cq = new_cq(&peer.device, entries as u32);
    }
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
    let start = processor_time();
    let outcome = world.run(begin + Duration::from_ms(100_000));
    let real = processor_time() - start;
    assert_eq!(outcome, Outcome::Done, "{}: {}", case.name, world.dump());
    let end = finished.iter().map(|time| *time.borrow()).max();
    let simulated = (end.unwrap_or(Instant::ZERO) - begin).as_ps() as f64 * 1e-12;
    let packets = messages * per_message * (case.hosts as u64 / 2);
    let bits = 8.0 * messages as f64 * case.bytes as f64;
    let real_time = match simulated {
        0.0 => "takes no time".to_owned(),
        _ => format!(
            "{:6.2} Gb/s, {:7.2} times slower than real",
            bits / simulated / 1e9,
            real / simulated
        ),
    };
    println!(
        "{:10} {:2} NICs {:5} QPs {:12} MTU {:4}: {:5.0} ns a packet, {:8.0} packets/s, \
         {:8.0} messages/s, {:4.2} events a packet, {real_time}",
        case.preset.unwrap_or("functional"),
        case.hosts,
        case.qps,
        case.name,
        mtu_bytes(case.path_mtu),
        1e9 * real / packets as f64,
        packets as f64 / real,
        messages as f64 * (case.hosts as f64 / 2.0) / real,
        (world.events() - events) as f64 / packets as f64,
    );
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
