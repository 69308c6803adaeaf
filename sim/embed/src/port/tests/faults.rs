//! Packet faults of a port.

use std::ops::ControlFlow;

use ferroce_faults::{FaultCounter, Plan};
use ferroce_units::Duration;

use super::*;
use crate::capture::reader::{Captured, for_each_frame};

/// Offset of the lower half of the PSN in a frame over IPv4.
const PSN: usize = 14 + 20 + 8 + 10;

fn plan(expression: &str) -> Plan {
    expression.parse().expect("a plan")
}

/// Returns a SEND to a port with this PSN.
fn frame(to: &FabricPort, psn: u16) -> Vec<u8> {
    let mut frame = send_frame(Mac([2, 0, 0, 0, 0, 1]), route(to).qpn, &[7; 64]);
    frame[PSN..PSN + 2].copy_from_slice(&psn.to_be_bytes());
    frame
}

fn psn_of(frame: &[u8]) -> u16 {
    u16::from_be_bytes([frame[PSN], frame[PSN + 1]])
}

/// Sends packets with the PSNs from 1 on; returns the ones that arrive immediately.
fn exchange(one: &mut FabricPort, other: &mut FabricPort, clock: &Clock, count: u16) -> Vec<u16> {
    let there = route(other);
    let mut arrived = Vec::new();
    for psn in 1..=count {
        assert!(
            send(one, &there, &frame(other, psn)),
            "packet {psn} has a slot"
        );
        other.begin(clock.ticks());
        while let Some(frame) = take(other) {
            arrived.push(psn_of(&frame));
        }
        other.finish(false);
    }
    arrived
}

#[test]
fn dropped_frames_return_their_slots() {
    let (_directory, clock, mut one, other) = two("drop");
    let mut other = other.with_faults(Some(plan("drop=send#3,loss=1@psn10-65535")));
    let arrived = exchange(&mut one, &mut other, &clock, 1000);
    assert_eq!(arrived, [1, 2, 4, 5, 6, 7, 8, 9, 10]);
    other.publish_faults();
    let lost = other
        .registry
        .fault_counter(other.place.number(), FaultCounter::Lost);
    assert_eq!(lost.load(Ordering::Relaxed), 991);
}

#[test]
fn delayed_frames_come_at_their_time_and_duplicates_twice() {
    let (_directory, clock, mut one, other) = two("delay");
    let mut other = other.with_faults(Some(plan("reorder=send#1/5ms,dup=send#2")));
    // The first frame is delayed; the second one is duplicated.
    let there = route(&other);
    for psn in [1, 2, 3] {
        assert!(send(&mut one, &there, &frame(&other, psn)));
    }
    other.begin(clock.ticks());
    let begin = Instant::from_us(1);
    let mut psns = |at: Instant| {
        let mut psns = Vec::new();
        while let Some((_, frame)) = other.receive(at) {
            psns.push(psn_of(frame.as_ref()));
            assert!(other.carries_icrc(&frame) || psns == [2, 2, 3]);
            other.release(frame);
        }
        (psns, other.next_delivery())
    };
    let due = begin + Duration::from_ms(5);
    assert_eq!(psns(begin), (vec![2, 2, 3], Some(due)));
    assert_eq!(psns(due - Duration::from_ns(1)), (vec![], Some(due)));
    assert_eq!(psns(due), (vec![1], None));
}

#[test]
fn a_corrupted_frame_has_a_wrong_icrc_although_its_sender_computes_none() {
    let (_directory, clock, mut one, other) = two("corrupt");
    let mut other = other.with_faults(Some(plan("corrupt=1")));
    let there = route(&other);
    assert!(send(&mut one, &there, &frame(&other, 1)));
    other.begin(clock.ticks());
    let (_, frame) = other.receive(Instant::ZERO).expect("it arrives");
    assert!(other.carries_icrc(&frame));
    let parsed = WireFrame::parse(frame.as_ref()).expect("RoCEv2");
    assert!(!parsed.icrc_is_valid());
    other.release(frame);
}

#[test]
fn an_injected_plan_begins_and_ends() {
    let (_directory, clock, mut one, mut other) = two("inject");
    let (registry, place) = (other.registry, other.place.number());
    assert_eq!(exchange(&mut one, &mut other, &clock, 2), [1, 2]);
    registry.inject_plan(place, Some(&plan("drop=any#1-2")), clock.ticks());
    assert!(other.has_work(), "it is to be noticed");
    assert_eq!(exchange(&mut one, &mut other, &clock, 3), [3]);
    registry.inject_plan(place, Some(&plan("loss=1")), clock.ticks());
    assert!(exchange(&mut one, &mut other, &clock, 3).is_empty());
    registry.inject_plan(place, None, clock.ticks());
    assert_eq!(exchange(&mut one, &mut other, &clock, 2), [1, 2]);
    assert!(!registry.are_faults_active(place));
}

/// Goal: a capture of both ends has each frame once, with its faults.
#[test]
fn a_shared_capture_has_comments() {
    let directory = temporary_directory("comments");
    let path = directory.path().join("both.pcapng");
    let clock = Clock::start();
    let capture = || Some(Capture::open(&path, &interface()).expect("ours"));
    let mut one = port(directory.path(), &clock, capture(), false);
    let other = port(directory.path(), &clock, capture(), false);
    let mut other = other.with_faults(Some(plan("drop=send#2,dup=send#3,delay=1ns@psn3")));
    exchange(&mut one, &mut other, &clock, 4);
    drop((one, other));
    let bytes = std::fs::read(&path).expect("written");
    let text = String::from_utf8_lossy(&bytes);
    for comment in [
        "dropped: rule 1 (loss)",
        "duplicated: rule 2 (dup)",
        "delayed 1 ns in all: rule 3 (delay)",
    ] {
        assert_eq!(text.matches(comment).count(), 1, "{comment}");
    }
    let mut count = 0;
    let mut count_frame = |_: Captured<'_>| {
        count += 1;
        ControlFlow::Continue(())
    };
    for_each_frame(bytes.as_slice(), &mut count_frame).expect("a capture");
    assert_eq!(count, 4);
}
