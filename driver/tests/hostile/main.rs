//! The driver over a device that answers garbage: it never panics and never hangs.
//!
//! `FERROCE_SEED=n` replays one seed.

mod device;
mod program;
mod rng;
#[path = "../support/mod.rs"]
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use device::HostileDevice;
use ferroce_driver::bus::PAGE_SIZE;
use ferroce_driver::{Device, DeviceConfig};
use program::{Objects, create_cq, step};
use rng::Rng;

const SEEDS: u64 = 300;
const STEPS: u32 = 150;
/// Far longer than the time-outs of one seed can add up to, far shorter than a hang.
const SEED_TIME_LIMIT: Duration = Duration::from_secs(60);

fn run(seed: u64) -> bool {
    let mut rng = Rng::new(!seed);
    let hostile = HostileDevice::new(seed);
    let config = DeviceConfig {
        command_timeout: Duration::from_millis(2),
        reset_timeout: Duration::from_millis(2),
        completion_vectors: rng.below(20) as u16,
        push_inline_only: rng.below(2) == 0,
        key_seed: (rng.below(2) == 0).then_some(seed),
    };
    let Ok(device) = Device::open_with(hostile.clone(), &config) else {
        return false;
    };
    device.set_event_handler(Some(Arc::new(|_| {})));
    let stop = AtomicBool::new(false);
    // Whole pages: the device writes here, and destroys other data in these pages.
    let buffer = vec![0u8; 100 * PAGE_SIZE];
    let skip = buffer.as_ptr().align_offset(PAGE_SIZE);
    let memory = &buffer[skip..][..99 * PAGE_SIZE];
    std::thread::scope(|scope| {
        let _stop = StopOnDrop(&stop);
        let chaos = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                hostile.misbehave();
                std::thread::yield_now();
            }
        });
        let mut objects = Objects::default();
        objects.pds.extend(device.alloc_pd().ok());
        objects.cqs.extend(create_cq(&device, &mut rng));
        for _ in 0..STEPS {
            step(&device, &mut objects, memory, &mut rng);
        }
        drop(objects);
        drop(device);
        stop.store(true, Ordering::Relaxed);
        chaos.join().expect("the device's thread does not panic");
    });
    true
}

/// Ends the device's thread, also when the program panics: the scope waits for it.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Prints the seed when its run panics.
struct SeedOnPanic(u64);

impl Drop for SeedOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("replay with FERROCE_SEED={}", self.0);
        }
    }
}

#[test]
fn garbage_never_panics_and_never_hangs() {
    let replay = std::env::var("FERROCE_SEED").ok();
    let seeds = match replay.map(|seed| seed.parse::<u64>()) {
        Some(seed) => {
            let seed = seed.expect("FERROCE_SEED is a number");
            seed..seed + 1
        }
        None => 0..SEEDS,
    };
    let mut opened = 0;
    for seed in seeds.clone() {
        let _name = SeedOnPanic(seed);
        let start = Instant::now();
        opened += u64::from(run(seed));
        assert!(start.elapsed() < SEED_TIME_LIMIT, "seed {seed} is slow");
    }
    if seeds.end - seeds.start == SEEDS {
        assert!(
            opened > SEEDS / 4,
            "only {opened} seeds got through bring-up"
        );
    }
}
