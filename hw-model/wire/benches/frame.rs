//! Nanoseconds per frame: emit, parse, ICRC. Run with `cargo bench -p ferroce-wire`.
#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a benchmark measures the machine's time"
)]
#![expect(
    clippy::print_stdout,
    reason = "the report is the purpose of the program"
)]

use std::hint::black_box;
use std::net::Ipv4Addr;
use std::time::Instant;

use ferroce_wire::{
    Aeth, Bth, Connected, Frame, FrameLayout, Gid, IcrcMode, Mac, Msn, NetworkPath, Opcode,
    PathTemplate, Psn, Qpn, RKey, Reth, Station, Syndrome, TransportHeaders, UdpHeader, WritePart,
    finish,
};

const ROUNDS: u32 = 20;
const FRAMES_PER_ROUND: u32 = 100_000;

/// Returns the fastest of several rounds, in nanoseconds per call: other programs only slow us
/// down.
fn measure(mut step: impl FnMut(u32)) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        for index in 0..FRAMES_PER_ROUND {
            step(index);
        }
        let elapsed_ns = start.elapsed().as_secs_f64() * 1e9;
        best = best.min(elapsed_ns / f64::from(FRAMES_PER_ROUND));
    }
    best
}

fn path(version: &str) -> NetworkPath {
    let [source, destination] = [1, 2].map(|host| {
        let mac = Mac([0x52, 0x54, 0, 0, 0, host]);
        let gid = match version {
            "IPv4" => Gid::from_ipv4(Ipv4Addr::new(10, 0, 0, host)),
            _ => Gid::link_local(mac),
        };
        Station { mac, gid }
    });
    let udp = UdpHeader::of_flow(Qpn::new(0x11), Qpn::new(0x12));
    NetworkPath::new(source, destination, udp)
}

fn write_only(index: u32, length: usize) -> TransportHeaders {
    let bth = Bth::new(Opcode(0), Qpn::new(0x12), Psn::new(index));
    let reth = Reth {
        virtual_address: 0x7f00_0000_0000 + u64::from(index),
        r_key: RKey(0x1234),
        dma_length: length as u32,
    };
    TransportHeaders::write(bth, Connected::Reliable, WritePart::Only(reth))
}

fn acknowledge(index: u32) -> TransportHeaders {
    let bth = Bth::new(Opcode(0), Qpn::new(0x11), Psn::new(index));
    let aeth = Aeth {
        syndrome: Syndrome::ACK_UNLIMITED,
        msn: Msn::new(index),
    };
    TransportHeaders::acknowledge(bth, aeth)
}

fn report(what: &str, version: &str, length: usize, ns: f64) {
    println!("{what:<28} {version} {length:>5} B payload {ns:>8.1} ns");
}

fn bench(version: &str, length: usize) {
    let template = PathTemplate::new(&path(version));
    let mut frame = vec![0u8; 8192];
    let layout = template.emit(&write_only(0, length), length, 0, &mut frame);
    finish(&mut frame, &layout, IcrcMode::Computed);

    let ns = measure(|index| {
        let headers = write_only(black_box(index), length);
        black_box(template.emit(&headers, length, index as u16, black_box(&mut frame)));
    });
    report("emit headers", version, length, ns);

    let ns = measure(|index| {
        let headers = write_only(black_box(index), length);
        let layout = template.emit(&headers, length, index as u16, black_box(&mut frame));
        finish(&mut frame, &layout, IcrcMode::Zero);
        black_box(&frame);
    });
    report("emit, ICRC zero", version, length, ns);

    let ns = measure(|_| {
        black_box(Frame::parse(black_box(&frame)).is_ok());
    });
    report("parse", version, length, ns);

    let finish_computed = |frame: &mut [u8], layout: &FrameLayout| {
        finish(frame, layout, IcrcMode::Computed);
    };
    let ns = measure(|_| finish_computed(black_box(&mut frame), black_box(&layout)));
    report("finish with ICRC", version, length, ns);

    let parsed = Frame::parse(&frame);
    let ns = measure(|_| {
        black_box(black_box(&parsed).is_ok_and(|frame| frame.icrc_is_valid()));
    });
    report("verify ICRC", version, length, ns);
}

fn bench_acknowledge() {
    let template = PathTemplate::new(&path("IPv4"));
    let mut frame = vec![0u8; 256];
    let ns = measure(|index| {
        let headers = acknowledge(black_box(index));
        let layout = template.emit(&headers, 0, index as u16, black_box(&mut frame));
        finish(&mut frame, &layout, IcrcMode::Zero);
        black_box(Frame::parse(black_box(&frame)).is_ok());
    });
    report("ACK: emit and parse", "IPv4", 0, ns);
}

fn main() {
    for version in ["IPv4", "IPv6"] {
        for length in [0, 64, 4096] {
            bench(version, length);
        }
    }
    bench_acknowledge();
}
