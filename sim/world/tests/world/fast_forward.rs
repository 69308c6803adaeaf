//! Skipping the middle of long messages does not change anything that a program sees.

use std::cell::RefCell;
use std::rc::Rc;

use crate::world_support::*;
use ferroce_driver::{DeviceMemory, MemoryAccess, MemoryRegion, PathMtu, SendOperation};
use ferroce_model::preset::Preset;
use ferroce_test_verbs as verbs;
use ferroce_units::{Duration, Instant};
use ferroce_world::{Cpu, Next, Watch, World, WorldConfig};

const GRID: Duration = Duration::from_ns(20);
const BUFFER: usize = 8 << 20;
/// Messages of a test. The first ones measure the pace, the last one is checked.
const MESSAGES: u64 = 3;
/// A message of many strides with an odd length.
const START: usize = 4096 + 64;
const LENGTH: usize = (5 << 20) + 808;
/// The relative difference of times is less than 1/1000.
const ACCURACY: u64 = 1000;

/// Returns a world that simulates every packet, and one that skips.
fn worlds(preset: &str) -> [World; 2] {
    [false, true].map(|fast_forward| {
        let preset = Preset::load(preset).expect("built in");
        let config = WorldConfig {
            fast_forward,
            ..WorldConfig::timed(preset, 2)
        };
        World::new(&config).expect("small")
    })
}

fn assert_close(every: Instant, some: Instant) {
    let (every, some) = (every.as_ps(), some.as_ps());
    let difference = every.abs_diff(some);
    assert!(difference < every / ACCURACY, "{some}, not {every}");
}

/// Writes messages whose pace is measured.
fn measure(world: &mut World, one: &Peer, other: &Peer) {
    for number in 1..MESSAGES {
        let write = SendOperation::RdmaWrite(other.remote(0));
        post(&one.qps[0], number, write, one.segment(0, LENGTH));
        completions(world, 0, &one.cq, 1, GRID);
    }
}

/// Sends messages; returns the duration of the last one, and the number of its events.
fn send(world: &mut World, number: u64) -> (Instant, u64) {
    let (one, other) = pair(world, BUFFER);
    let (source, target) = (START, START + 72);
    let (operation, from, to) = match number {
        0 => (SendOperation::RdmaWrite(other.remote(target)), &one, &other),
        1 => (SendOperation::Send, &one, &other),
        _ => (SendOperation::RdmaRead(other.remote(source)), &other, &one),
    };
    let segment = match number {
        0 | 1 => one.segment(source, LENGTH),
        _ => one.segment(target, LENGTH),
    };
    let receives = other.qps[0].receive_queue().expect("its own");
    let buffer = [other.segment(target, LENGTH)];
    let (mut start, mut events) = (world.now(), world.events());
    for seed in (0..MESSAGES).rev().map(|ahead| number + 1 + ahead) {
        receives.post(9, &buffer).expect("room");
        from.fill(seed);
        (start, events) = (world.now(), world.events());
        post(&one.qps[0], seed, operation, segment);
        completions(world, 0, &one.cq, 1, GRID);
    }
    let took = world.now() - start;
    let words = LENGTH / size_of::<u64>();
    for word in 0..words {
        let (from, to) = (source / 8 + word, to.word(target / 8 + word));
        assert_eq!(
            to,
            pattern(number + 1, from),
            "message {number}, word {word}"
        );
    }
    (Instant::ZERO + took, world.events() - events)
}

#[test]
fn all_bytes_come_and_at_their_time() {
    for preset in ["cx5-100g", "cx6-200g", "irdma-10g"] {
        for number in 0..3 {
            let [every, some] = worlds(preset).map(|mut world| send(&mut world, number));
            assert_close(every.0, some.0);
            assert!(
                some.1 < every.1 / 2,
                "{preset}: {} of {} events",
                some.1,
                every.1
            );
        }
    }
}

/// Threads of the receiving host do something else meanwhile.
#[test]
fn threads_wake_up_at_their_times() {
    const PERIOD: Duration = Duration::from_us(70);
    let times = worlds("cx5-100g").map(|mut world| {
        let (one, other) = pair(&world, BUFFER);
        measure(&mut world, &one, &other);
        let times = Rc::new(RefCell::new(Vec::new()));
        let shared = Rc::clone(&times);
        let start = world.now();
        world.spawn(
            1,
            Box::new(move |cpu: &mut Cpu<'_>| {
                shared.borrow_mut().push(cpu.now() - start);
                match shared.borrow().len() {
                    6 => Next::Done,
                    _ => Next::At(cpu.now() + PERIOD),
                }
            }),
        );
        let write = SendOperation::RdmaWrite(other.remote(0));
        post(&one.qps[0], 1, write, one.segment(0, LENGTH));
        completions(&mut world, 0, &one.cq, 1, GRID);
        let end = world.now() - start;
        (times.take(), Instant::ZERO + end)
    });
    let [(every, every_end), (some, some_end)] = times;
    let expected: Vec<_> = (0..6)
        .map(|n| Duration::from_ps(n * PERIOD.as_ps()))
        .collect();
    assert_eq!(every, expected);
    assert_eq!(some, expected);
    assert_close(every_end, some_end);
}

#[test]
fn a_thread_that_watches_the_middle_of_a_message_sees_it_arrive() {
    let seen = worlds("cx5-100g").map(|mut world| {
        let (one, other) = pair(&world, BUFFER);
        measure(&mut world, &one, &other);
        one.fill(1);
        let start = world.now();
        let at = Rc::new(RefCell::new(Instant::ZERO));
        let (shared, address) = (Rc::clone(&at), other.address(LENGTH / 16 * 8));
        let mut turns = 0;
        world.spawn(
            1,
            Box::new(move |cpu: &mut Cpu<'_>| {
                turns += 1;
                if turns == 2 {
                    *shared.borrow_mut() = Instant::ZERO + (cpu.now() - start);
                    return Next::Done;
                }
                Next::OnWrite {
                    not_before: cpu.now() + GRID,
                    grid: GRID,
                    watch: Watch::Memory(address..address + 8),
                }
            }),
        );
        let write = SendOperation::RdmaWrite(other.remote(0));
        post(&one.qps[0], 1, write, one.segment(0, LENGTH));
        completions(&mut world, 0, &one.cq, 1, GRID);
        let seen = *at.borrow();
        assert!(seen > Instant::ZERO, "it was seen");
        seen
    });
    // The check for watchers has loaded a translation into the card's cache.
    let difference = seen[0].as_ps().abs_diff(seen[1].as_ps());
    assert!(difference < Duration::from_us(1).as_ps(), "{seen:?}");
}

#[test]
fn streams_of_both_directions_come_to_their_ends() {
    let took = worlds("cx5-100g").map(|mut world| {
        let (mut one, mut other) = pair(&world, BUFFER);
        one.add_qp();
        other.add_qp();
        for (sender, receiver, to) in [(&one, &other, 1), (&other, &one, 0)] {
            let (sender, receiver) = (&sender.qps[1], &receiver.qps[1]);
            connect(&world, sender, to, receiver, PathMtu::Mtu1024);
        }
        let (mut start, mut events) = (world.now(), world.events());
        let half = BUFFER / 2;
        for seed in (1..=MESSAGES).rev() {
            one.fill(seed);
            other.fill(seed);
            (start, events) = (world.now(), world.events());
            let forth = SendOperation::RdmaWrite(other.remote(half));
            post(&one.qps[0], seed, forth, one.segment(0, half));
            let back = SendOperation::RdmaWrite(one.remote(half));
            post(&other.qps[1], seed, back, other.segment(0, half / 2));
            completions(&mut world, 0, &one.cq, 1, GRID);
            completions(&mut world, 1, &other.cq, 1, GRID);
        }
        for word in 0..half / 8 {
            assert_eq!(other.word(half / 8 + word), pattern(1, word));
        }
        for word in 0..half / 16 {
            assert_eq!(one.word(half / 8 + word), pattern(1, word));
        }
        (
            Instant::ZERO + (world.now() - start),
            world.events() - events,
        )
    });
    assert_close(took[0].0, took[1].0);
    assert!(took[1].1 < took[0].1, "{took:?}: packets were skipped");
}

/// Goal: rechecks do not prevent skipping, and stay on the thread's grid.
#[test]
fn rechecks_are_put_off_to_a_turn_of_their_grid() {
    const BETWEEN: Duration = Duration::from_us(3);
    /// A time after the end of the message.
    const END: Duration = Duration::from_us(600);
    let runs = worlds("cx5-100g").map(|mut world| {
        let (one, other) = pair(&world, BUFFER);
        measure(&mut world, &one, &other);
        let start = world.now();
        let steps = Rc::new(RefCell::new(Vec::new()));
        let (shared, address) = (Rc::clone(&steps), other.address(BUFFER - 8));
        world.spawn(
            1,
            Box::new(move |cpu: &mut Cpu<'_>| {
                let time = cpu.now() - start;
                shared.borrow_mut().push(time.as_ps());
                if time > END {
                    return Next::Done;
                }
                cpu.recheck_at(cpu.now() + BETWEEN);
                Next::OnWrite {
                    not_before: cpu.now() + GRID,
                    grid: GRID,
                    watch: Watch::Memory(address..address + 8),
                }
            }),
        );
        let write = SendOperation::RdmaWrite(other.remote(0));
        post(&one.qps[0], 1, write, one.segment(0, LENGTH));
        completions(&mut world, 0, &one.cq, 1, GRID);
        steps.take()
    });
    let [every, some] = runs;
    assert!(some.len() < every.len() * 2 / 3, "rechecks were put off");
    assert!(some.len() > 2, "and made again after the skipped part");
    let is_on_grid = |step: &u64| step % GRID.as_ps() == 0;
    assert!(every.iter().chain(&some).all(is_on_grid));
}

/// Device memory is not in host memory, so its bytes cannot be copied from there.
#[test]
fn messages_between_device_memories_arrive_whole() {
    const BYTES: usize = 256 << 10;
    /// Enough messages to measure their pace: each has 32 strides.
    const MANY: u8 = 24;
    let [_, mut world] = worlds("cx5-100g");
    let (mut one, mut other) = (Peer::new(&world, 0, 4096), Peer::new(&world, 1, 4096));
    join(&world, &mut one, &mut other, PathMtu::Mtu256);
    let [(from, source), (to, target)] = [&one, &other].map(|peer| {
        let memory = DeviceMemory::alloc(&peer.device, BYTES as u64, 12).expect("empty");
        let access = MemoryAccess {
            local_write: true,
            remote_write: true,
            ..MemoryAccess::default()
        };
        let region = MemoryRegion::register_device_memory(&peer.pd, &memory, 0, BYTES, 0, access);
        (memory, region.expect("inside"))
    });
    for message in 0..MANY {
        let sent: Vec<u8> = (0..BYTES).map(|at| (at >> 10) as u8 ^ message).collect();
        from.copy_in(0, &sent).expect("inside");
        let segment = verbs::segment(&source, 0, BYTES);
        let write = SendOperation::RdmaWrite(verbs::remote(&target, 0));
        post(&one.qps[0], message.into(), write, segment);
        completions(&mut world, 0, &one.cq, 1, GRID);
        let mut arrived = vec![0; BYTES];
        to.copy_out(0, &mut arrived).expect("inside");
        assert!(arrived == sent, "message {message}");
    }
}
