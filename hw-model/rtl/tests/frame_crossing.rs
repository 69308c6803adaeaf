//! Frames between two clocks: whole, in order, without gaps; what is dropped leaves no trace.

use std::collections::VecDeque;

use ferroce_rtl::seeds::for_each_seed;
use ferroce_rtl::verilated::frame_crossing::FrameCrossing;
use ferroce_rtl::verilated::frame_crossing_drops::FrameCrossingDrops;
use ferroce_rtl_harness::{Clocks, Rising};
use ferroce_units::random::SplitMix64;

const FRAMES: usize = 300;
/// Beats of the FIFO (build.rs), and of the longest frame.
const DEPTH: u64 = 16;
/// Edges of both clocks in which all frames have crossed.
const EDGES_MAX: u64 = 200_000;

/// Both builds of the module have the same ports.
macro_rules! bench {
    ($name:ident, $module:ident) => {
        struct $name {
            rtl: $module,
            clocks: Clocks,
        }

        impl $name {
            fn new(random: &mut SplitMix64) -> Self {
                let mut period = || 1000 + random.below(9000);
                let clocks = Clocks::new().with($module::S_CLK, period(), 0).with(
                    $module::M_CLK,
                    period(),
                    period(),
                );
                let mut bench = Self {
                    rtl: $module::new(),
                    clocks,
                };
                bench.rtl.set_rst(1);
                for _ in 0..8 {
                    bench.step();
                }
                bench.rtl.set_rst(0);
                bench
            }

            fn step(&mut self) -> [bool; 2] {
                let rising: Rising = self.rtl.step(&mut self.clocks);
                [
                    rising.contains($module::S_CLK),
                    rising.contains($module::M_CLK),
                ]
            }
        }
    };
}

bench!(Waiting, FrameCrossing);
bench!(Dropping, FrameCrossingDrops);

/// Frames of random numbers, the beats of which begin with the frame's number.
fn frames(random: &mut SplitMix64) -> Vec<Vec<u16>> {
    let length = |random: &mut SplitMix64| 1 + random.below(DEPTH) % (1 + random.below(DEPTH));
    (0..FRAMES)
        .map(|_| {
            let beats = length(random);
            (0..beats).map(|_| random.number() as u16).collect()
        })
        .collect()
}

/// Goal: every frame crosses once, unchanged and without a gap, except for those that were dropped
/// while they came. Method: random periods and pauses; some frames are dropped after some beats.
#[test]
fn frames_cross_whole_and_in_order() {
    let mut dropped = 0;
    for_each_seed(60, |seed| {
        let mut random = SplitMix64::new(seed);
        let mut bench = Waiting::new(&mut random);
        let [writes, reads] = [(); 2].map(|()| 1 + random.below(8));
        let mut source: VecDeque<_> = frames(&mut random).into();
        let (mut at, mut expected, mut left) = (0, VecDeque::new(), FRAMES);
        let (mut is_open, mut waits) = (false, None);
        while left > 0 {
            assert!(bench.rtl.cycles() < EDGES_MAX, "{left} frames left");
            let drops = at > 0 && random.below(64) == 0;
            let has_beat = !source.is_empty() && random.below(8) < writes;
            bench.rtl.set_s_drop(drops.into());
            bench.rtl.set_s_valid(has_beat.into());
            if let Some(frame) = source.front() {
                bench.rtl.set_s_data(frame[at]);
                bench.rtl.set_s_last((at + 1 == frame.len()).into());
            }
            let takes = random.below(8) < reads;
            bench.rtl.set_m_ready(takes.into());
            bench.rtl.settle();
            let is_taken = has_beat && bench.rtl.s_ready() != 0;
            let is_valid = bench.rtl.m_valid() != 0;
            let beat = (bench.rtl.m_data(), bench.rtl.m_last() != 0);
            let [s_rises, m_rises] = bench.step();
            if s_rises && drops {
                (at, left, dropped) = (0, left - 1, dropped + 1);
                source.pop_front();
            } else if s_rises && is_taken {
                at += 1;
                if at == source[0].len() {
                    at = 0;
                    expected.extend(source.pop_front());
                }
            }
            if m_rises {
                assert!(is_valid || !is_open, "a gap in a frame");
                assert!(
                    waits.is_none_or(|old| is_valid && old == beat),
                    "a beat changed"
                );
                waits = (is_valid && !takes).then_some(beat);
            }
            if m_rises && is_valid && takes {
                let frame: &mut Vec<u16> = expected.front_mut().expect("a frame that has come");
                assert_eq!(beat, (frame.remove(0), frame.is_empty()));
                is_open = !beat.1;
                if beat.1 {
                    expected.pop_front();
                    left -= 1;
                }
            }
        }
    });
    assert!(dropped > 0, "no frame was dropped");
}

/// Goal: without room, whole frames are lost, and no others. Method: a source that does not wait,
/// and a slow sink; the numbers of the frames that arrive increase, and each of them is whole.
#[test]
fn frames_that_do_not_fit_are_lost_whole() {
    let mut lost = 0;
    for_each_seed(20, |seed| {
        let mut random = SplitMix64::new(seed);
        let mut bench = Dropping::new(&mut random);
        let sent = frames(&mut random);
        let (mut number, mut at, mut received) = (0, 0, vec![Vec::new()]);
        let mut idle = 0;
        while idle < 1000 {
            let frame = sent.get(number);
            bench.rtl.set_s_valid(frame.is_some().into());
            if let Some(frame) = frame {
                bench.rtl.set_s_data(frame[at]);
                bench.rtl.set_s_last((at + 1 == frame.len()).into());
            }
            let takes = random.below(8) < 2 || frame.is_none();
            bench.rtl.set_m_ready(takes.into());
            bench.rtl.settle();
            let is_valid = bench.rtl.m_valid() != 0;
            let (data, is_last) = (bench.rtl.m_data(), bench.rtl.m_last() != 0);
            let [s_rises, m_rises] = bench.step();
            if s_rises && let Some(frame) = frame {
                at += 1;
                (number, at) = if at == frame.len() {
                    (number + 1, 0)
                } else {
                    (number, at)
                };
            }
            idle = if frame.is_some() || is_valid {
                0
            } else {
                idle + 1
            };
            if m_rises && is_valid && takes {
                received.last_mut().expect("one is open").push(data);
                received.extend(is_last.then(Vec::new));
            }
        }
        assert_eq!(received.pop(), Some(Vec::new()), "half a frame");
        assert!(!received.is_empty(), "no frame came through");
        let mut rest = sent.iter();
        for frame in &received {
            assert!(rest.any(|sent| sent == frame), "a frame that was not sent");
        }
        lost += sent.len() - received.len();
    });
    assert!(lost > 0, "every frame did fit");
}
