//! A hostile driver, a hostile peer and a host whose DMA fails, against the card and the model.
//!
//! Invariants: hostile peers and WQEs cannot make the function access memory that it may not
//! access; after any input it is quiet within a bounded time; and after a reset it works.

#[path = "../machines/mod.rs"]
mod machines;

mod attack;
mod scene;

use ferroce_rtl_harness::seeds::for_each_seed;
use ferroce_units::random::{SplitMix64, mixed};
use machines::device::Kind;
use machines::host::DmaFaults;
use scene::{Scene, VICTIM};

/// Seeds of each test.
const SEEDS: u64 = 60;
/// Attacks of a seed.
const ATTACKS: u64 = 40;
/// Maximum number of timers that expire after the attacks.
const TIMERS: usize = 64;

type Attack = fn(&mut Scene, &mut SplitMix64);

/// Runs attacks, and checks the invariants.
fn check(salt: u64, is_bounded: bool, dma_faults: Option<u64>, attacks: &[Attack]) {
    for_each_seed(SEEDS, |seed| {
        for kind in [Kind::Rtl, Kind::Model] {
            let mut random = SplitMix64::new(mixed(seed ^ salt << 32));
            let mut scene = Scene::new(kind);
            let mut guard = Failed(Some(kind));
            scene.pair.sides[VICTIM].host.faults = dma_faults.map(|one_in| DmaFaults {
                one_in,
                random: SplitMix64::new(seed),
            });
            for _ in 0..ATTACKS {
                let attack = attacks[random.below(attacks.len() as u64) as usize];
                attack(&mut scene, &mut random);
                if random.below(3) > 0 {
                    scene.run_to_rest();
                }
                scene.poll();
            }
            scene.pass_time(TIMERS);
            if is_bounded {
                scene.check_accesses();
            }
            scene.check_reset();
            guard.0 = None;
        }
    });
}

/// Names the function that was attacked when a test fails.
struct Failed(Option<Kind>);

impl Drop for Failed {
    fn drop(&mut self) {
        if let (true, Some(kind)) = (std::thread::panicking(), self.0) {
            eprintln!("attacked: {kind:?}");
        }
    }
}

/// Good requests of the victim, and of its peer.
fn traffic(scene: &mut Scene, random: &mut SplitMix64) {
    let side = random.below(2) as usize;
    match random.below(3) {
        0 => attack::post_receive(scene, random, side),
        _ => attack::post(scene, random, side),
    }
}

/// Goal: frames of any kind make the card access nothing that its driver has not allowed.
#[test]
fn hostile_peer() {
    check(
        1,
        true,
        None,
        &[traffic, attack::send_frame, attack::send_frame],
    );
}

/// Goal: WQEs and doorbells of any kind make it access nothing else, either.
#[test]
fn hostile_queues() {
    check(2, true, None, &[traffic, attack::scribble, attack::ring]);
}

/// Goal: after commands and register writes of any kind the card becomes idle, and a reset restores
/// it.
#[test]
fn hostile_commands() {
    let attacks = [
        traffic,
        attack::command,
        attack::command,
        attack::access_register,
    ];
    check(3, false, None, &attacks);
}

/// Goal: after DMA errors at random the card becomes idle, and a reset restores it.
#[test]
fn failing_dma() {
    check(4, false, Some(50), &[traffic, attack::send_frame]);
}

/// Goal: all of this holds for all attacks together.
#[test]
fn everything_at_once() {
    let attacks = [
        traffic,
        attack::send_frame,
        attack::scribble,
        attack::ring,
        attack::command,
        attack::access_register,
    ];
    check(5, false, Some(400), &attacks);
}
