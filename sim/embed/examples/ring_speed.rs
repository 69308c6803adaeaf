//! Prints the cost of the shared-memory ring, between two threads that do nothing else.
//!
//! `cargo run --release -p ferroce-embed --example ring_speed`

use std::path::Path;
use std::time::Instant;

use ferroce_embed::fabric::ring::{Receiver, RingName, Sender};

const ROUND_TRIPS: u32 = 200_000;
const STREAM_BYTES: usize = 4 << 30;
const MAX_STREAM_FRAMES: usize = 8_000_000;
/// Headers of a middle packet over IPv4, and the ICRC.
const OVERHEAD: usize = 58;

fn ring(directory: &Path, from: u8, to: u8) -> (Sender, Receiver) {
    let name = RingName {
        from,
        to,
        generation: 1,
    };
    let sender = Sender::create(directory, None, name, 1).expect("room for a ring");
    let receiver = Receiver::attach(directory, None, name).expect("just made");
    (sender, receiver)
}

fn send(sender: &mut Sender, payload: &[u8]) -> bool {
    let Some(mut frame) = sender.reserve(OVERHEAD + payload.len()) else {
        return false;
    };
    frame.as_mut()[OVERHEAD..].copy_from_slice(payload);
    sender.transmit(frame, false);
    true
}

fn receive(receiver: &mut Receiver, memory: &mut [u8]) {
    let mut polls = 0;
    loop {
        if let Some(frame) = receiver.receive() {
            memory.copy_from_slice(&frame.as_ref()[OVERHEAD..]);
            return receiver.release(frame);
        }
        receiver.return_credits();
        std::hint::spin_loop();
        polls += 1;
        if polls % 1000 == 0 {
            std::thread::yield_now();
        }
    }
}

fn round_trip(directory: &Path, length: usize) {
    let (mut there, mut there_end) = ring(directory, 1, 2);
    let (mut back, mut back_end) = ring(directory, 2, 1);
    let echo = std::thread::spawn(move || {
        let mut memory = vec![0; length];
        for _ in 0..ROUND_TRIPS {
            receive(&mut there_end, &mut memory);
            assert!(send(&mut back, &memory), "one frame is on its way at most");
        }
    });
    let mut memory = vec![1; length];
    let mut times_ns: Vec<u128> = Vec::with_capacity(ROUND_TRIPS as usize);
    for _ in 0..ROUND_TRIPS {
        let start = Instant::now();
        assert!(send(&mut there, &memory));
        receive(&mut back_end, &mut memory);
        times_ns.push(start.elapsed().as_nanos());
    }
    echo.join().expect("the other thread ends");
    times_ns.sort_unstable();
    let median = times_ns[times_ns.len() / 2];
    println!("{length:5} B  round trip {median:5} ns");
}

fn stream(directory: &Path, length: usize) {
    let frames = (STREAM_BYTES / length).min(MAX_STREAM_FRAMES);
    let (mut sender, mut receiver) = ring(directory, 1, 2);
    let start = Instant::now();
    let sending = std::thread::spawn(move || {
        let payload = vec![7; length];
        for _ in 0..frames {
            while !send(&mut sender, &payload) {
                std::hint::spin_loop();
            }
        }
    });
    let mut memory = vec![0; length];
    for _ in 0..frames {
        receive(&mut receiver, &mut memory);
    }
    let seconds = start.elapsed().as_secs_f64();
    sending.join().expect("the other thread ends");
    let (rate, bandwidth) = (frames as f64 / seconds, (frames * length) as f64 / seconds);
    println!(
        "{length:5} B  stream {:6.2} M frames/s {:6.2} GB/s",
        rate / 1e6,
        bandwidth / 1e9
    );
}

fn main() {
    let name = format!("ferroce-ring-speed-{}", std::process::id());
    let directory = Path::new("/dev/shm").join(name);
    std::fs::create_dir(&directory).expect("a new name");
    for length in [16, 64, 1024, 4096] {
        round_trip(&directory, length);
    }
    for length in [64, 256, 1024, 4096] {
        stream(&directory, length);
    }
    std::fs::remove_dir_all(&directory).expect("our own directory");
}
