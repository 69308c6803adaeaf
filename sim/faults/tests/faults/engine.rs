//! The decisions of the engine.

use crate::faults_support::{Is, dropped, engine, flow, frame, frame_between, host, verdicts};
use ferroce_faults::{
    Corruption, Engine, FaultCounter, MAX_FLOWS, MAX_LOOK_AHEAD, Plan, Run, Step, Verdict, corrupt,
    write_icrc,
};
use ferroce_units::{Duration, Instant};
use ferroce_wire::{Frame, Psn};
use proptest::prelude::*;

#[test]
fn loss_has_its_probability() {
    for (expression, least, most) in [
        ("loss=0.5,seed=3", 49_000, 51_000),
        ("loss=1e-2,seed=4", 900, 1_100),
        ("loss=1e-3,seed=5", 70, 130),
        ("loss=1,seed=5", 100_000, 100_000),
    ] {
        let lost = dropped(&verdicts(
            &mut engine(expression),
            Is::Write,
            17,
            5,
            100_000,
        ))
        .len();
        assert!((least..=most).contains(&lost), "{expression}: {lost}");
    }
}

#[test]
fn bursts_have_their_length_and_share() {
    // Bad states last 5 packets on average, and 1 of 21 packets is in one.
    let verdicts = verdicts(
        &mut engine("burst=1e-2/0.2,seed=2"),
        Is::Write,
        17,
        0,
        100_000,
    );
    let lost = dropped(&verdicts);
    let bursts = lost.windows(2).filter(|pair| pair[1] > pair[0] + 1).count() + 1;
    let (share, length) = (lost.len() as f64 / 1e5, lost.len() as f64 / bursts as f64);
    assert!((share - 1.0 / 21.0).abs() < 0.005, "{share}");
    assert!((length - 5.0).abs() < 0.5, "{length}");
}

#[test]
fn numbered_packets_are_dropped_once_and_no_other() {
    let mut engine = engine("drop=read_response#3+6-7@qp17");
    assert_eq!(dropped(&verdicts(&mut engine, Is::Write, 17, 90, 10)), []);
    assert_eq!(
        dropped(&verdicts(&mut engine, Is::ReadResponse, 16, 9, 10)),
        []
    );
    let first = verdicts(&mut engine, Is::ReadResponse, 17, 0xff_fffe, 10);
    assert_eq!(dropped(&first), [2, 5, 6]);
    let again = verdicts(&mut engine, Is::ReadResponse, 17, 0xff_fffe, 10);
    assert_eq!(dropped(&again), [], "the second transmission passes");
    assert_eq!(engine.counters().value(FaultCounter::Lost), 3);
}

#[test]
fn a_try_is_a_transmission_of_one_packet() {
    let mut engine = engine("drop=write#2@try1-2");
    for expected in [&[1][..], &[1], &[]] {
        let lost = dropped(&verdicts(&mut engine, Is::Write, 17, 7, 4));
        assert_eq!(lost, expected);
    }
}

#[test]
fn flows_are_counted_from_0_in_each_direction() {
    let mut engine = engine("loss=1@flow1@response");
    for (is, qpn, expected) in [
        (Is::Write, 20, 0),
        (Is::Write, 21, 0),
        (Is::ReadResponse, 20, 0),
        (Is::ReadResponse, 21, 3),
        (Is::ReadResponse, 22, 0),
    ] {
        let lost = dropped(&verdicts(&mut engine, is, qpn, 9, 3)).len();
        assert_eq!(lost, expected, "{is:?} to {qpn}");
    }
}

#[test]
fn psn_and_addresses_select() {
    let mut by_psn = engine("drop=1@psn2-3");
    assert_eq!(
        dropped(&verdicts(&mut by_psn, Is::Write, 17, 1000, 6)),
        [2, 3]
    );
    let mut by_address = engine("drop=1@from:10.0.0.2@to:10.0.0.1");
    let mut decide = |from, to| {
        let frame = frame_between(host(from), host(to), Is::Write, 17, 1);
        by_address.decide(Instant::ZERO, true, &frame).is_dropped()
    };
    assert_eq!(
        [decide(1, 2), decide(2, 1), decide(2, 3)],
        [false, true, false]
    );
}

#[test]
fn a_partition_has_two_directions_and_a_link_fails_for_its_time() {
    let mut engine = engine("partition=10.0.0.1-10.0.0.2@1ms..,down=5ms..7ms");
    let mut decide = |ms: u64, from, to| {
        let frame = frame_between(host(from), host(to), Is::Write, 17, 1);
        let now = Instant::ZERO + Duration::from_ms(ms);
        engine.decide(now, true, &frame).dropped_by
    };
    assert_eq!(decide(100, 1, 2), None, "times count from the first packet");
    assert_eq!(decide(101, 1, 2), Some(0));
    assert_eq!(decide(101, 2, 1), Some(0));
    assert_eq!(
        [104, 105, 106, 107].map(|ms| decide(ms, 1, 3)),
        [None, Some(1), Some(1), None]
    );
}

#[test]
fn delays_add_up_and_jitter_keeps_the_order() {
    let delays = |expression| -> Vec<u64> {
        let verdicts = verdicts(&mut engine(expression), Is::Write, 17, 0, 1000);
        verdicts
            .iter()
            .map(|verdict| verdict.delay.as_ns())
            .collect()
    };
    assert!(
        delays("delay=10us,delay=5us")
            .iter()
            .all(|ns| *ns == 15_000)
    );
    let jitter = delays("jitter=5us");
    assert!(jitter.is_sorted() && jitter[0] < 5_000 && *jitter.last().expect("1000") > 4_900);
    let mut paths = delays("reorder=8paths/7us");
    assert!(!paths.is_sorted());
    paths.sort_unstable();
    paths.dedup();
    assert_eq!(paths, [0, 1_000, 2_000, 3_000, 4_000, 5_000, 6_000, 7_000]);
    let overtaken = delays("reorder=0.1/3us");
    let late = overtaken.iter().filter(|ns| **ns == 3_000).count();
    assert!((70..130).contains(&late), "{late}");
}

#[test]
fn every_corruption_is_found_by_the_icrc_or_the_parser() {
    for expression in ["corrupt=1", "corrupt-header=1", "corrupt-icrc=1"] {
        for is in [Is::Write, Is::ReadResponse, Is::Ack] {
            let mut engine = engine(expression);
            for psn in 0..500 {
                let mut damaged = frame(is, 17, psn);
                let verdict = engine.decide(Instant::ZERO, true, &damaged);
                let (corruption, draw) = verdict.corruption.expect("always");
                write_icrc(&mut damaged);
                assert!(corrupt(&mut damaged, corruption, draw));
                let parsed = Frame::parse(&damaged);
                assert!(
                    parsed.is_err() || parsed.is_ok_and(|frame| !frame.icrc_is_valid()),
                    "{expression} {is:?} {psn}"
                );
            }
        }
    }
}

#[test]
fn frames_that_are_not_roce_pass() {
    let mut engine = engine("loss=1,down=0ns..");
    assert_eq!(
        engine.decide(Instant::ZERO, true, b"no frame"),
        Verdict::PASS
    );
    assert!(!corrupt(&mut [0; 60], Corruption::Icrc, 1));
    assert_eq!(engine.flows(), 0);
}

#[test]
fn the_two_directions_of_one_address_differ() {
    let mut engine = engine("loss=0.5");
    let mut of = |is_forward, qpn| {
        let frames = (0..64).map(|psn| frame(Is::Write, qpn, psn));
        let lost = frames.map(|frame| engine.decide(Instant::ZERO, is_forward, &frame));
        lost.map(|verdict| verdict.is_dropped()).collect::<Vec<_>>()
    };
    assert_ne!(of(true, 17), of(false, 18));
}

#[test]
fn comments_name_the_rule() {
    let plan: Plan = "delay=10us,dup=1,loss=1@try2".parse().expect("a plan");
    let mut engine = Engine::new(plan.clone());
    let frame = frame(Is::Write, 17, 3);
    let comment = engine.decide(Instant::ZERO, true, &frame).comment(&plan);
    assert_eq!(
        comment,
        "delayed 10000 ns in all: rule 1 (delay); duplicated: rule 2 (dup)"
    );
    let comment = engine.decide(Instant::ZERO, true, &frame).comment(&plan);
    assert_eq!(comment, "dropped: rule 3 (loss)");
}

#[test]
fn more_flows_than_the_limit_are_forgotten() {
    let mut engine = engine("loss=0.5");
    for qpn in 0..3 * MAX_FLOWS as u32 {
        engine.decide(Instant::ZERO, true, &frame(Is::Write, qpn, qpn));
        engine.decide(
            Instant::ZERO,
            true,
            &frame_between(host(qpn as u8), host((qpn >> 8) as u8), Is::Ack, 1, qpn),
        );
    }
    assert_eq!(engine.flows(), MAX_FLOWS);
}

#[test]
fn scripted_events_are_announced() {
    let mut engine = engine("drop=write#3+10@qp17");
    let frames: Vec<_> = (0..20).map(|psn| frame(Is::Write, 17, psn)).collect();
    let key = flow(&frames[0]);
    assert_eq!(
        engine.frames_until_event(&key, Instant::ZERO),
        0,
        "not known yet"
    );
    engine.decide(Instant::ZERO, true, &frames[0]);
    assert_eq!(engine.frames_until_event(&key, Instant::ZERO), 1);
    let run = |psn| Run {
        key,
        first: Psn::new(psn),
        opcode: None,
    };
    assert!(engine.counts(&run(1)));
    engine.decide(Instant::ZERO, true, &frames[1]);
    assert!(engine.decide(Instant::ZERO, true, &frames[2]).is_dropped());
    assert_eq!(engine.frames_until_event(&key, Instant::ZERO), 6);
    assert_eq!(engine.frames_from(&run(5), Instant::ZERO), 4);
    engine.leave_out(&run(3), 6);
    assert_eq!(engine.frames_until_event(&key, Instant::ZERO), 0);
    assert!(engine.decide(Instant::ZERO, true, &frames[9]).is_dropped());
    assert_eq!(engine.frames_until_event(&key, Instant::ZERO), u64::MAX);
    assert!(!engine.counts(&run(10)));
}

#[test]
fn what_is_not_by_chance_lets_nothing_be_left_out() {
    for (expression, expected) in [
        ("delay=1us", 0),
        ("delay=1us@ack", u64::MAX),
        ("delay=1us@write", 0),
        ("delay=1us@qp18", u64::MAX),
        ("reorder=8paths@to:10.0.0.9", u64::MAX),
        ("partition=10.0.0.1-10.0.0.3", u64::MAX),
        ("down=1ms..2ms", 0),
        ("loss=1", 0),
        ("loss=1@try2", MAX_LOOK_AHEAD),
    ] {
        let mut engine = engine(expression);
        let first = frame(Is::Write, 17, 0);
        engine.decide(Instant::ZERO, true, &first);
        let frames = engine.frames_until_event(&flow(&first), Instant::ZERO);
        assert_eq!(frames, expected, "{expression}");
    }
    let mut over = engine("down=1ms..2ms");
    let first = frame(Is::Write, 17, 0);
    over.decide(Instant::ZERO, true, &first);
    let later = Instant::ZERO + Duration::from_ms(2);
    assert_eq!(over.frames_until_event(&flow(&first), later), u64::MAX);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Goal: verdicts do not depend on QPN and first PSN. Method: the same flow with other numbers.
    #[test]
    fn verdicts_do_not_depend_on_numbers(
        seed: u64,
        qpns in (2u32..0xff_ffff, 2u32..0xff_ffff),
        psns: (u32, u32),
    ) {
        let faults = "loss=0.1,dup=0.1,corrupt=0.1,reorder=4paths,burst=0.05/0.3";
        let expression = format!("{faults},seed={seed}");
        let one = verdicts(&mut engine(&expression), Is::Write, qpns.0, psns.0, 3000);
        let other = verdicts(&mut engine(&expression), Is::Write, qpns.1, psns.1, 3000);
        prop_assert_eq!(one, other);
    }

    /// Goal: packets that are announced to pass do pass, and the next one does not.
    #[test]
    fn announcements_agree_with_verdicts(seed: u64, skips: bool) {
        for faults in ["loss=5e-3,dup=1e-2", "burst=1e-2/0.5/0.9/1e-3"] {
            let mut engine = engine(&format!("{faults},seed={seed}"));
            let key = flow(&frame(Is::Write, 17, 0));
            let mut psn = 0;
            engine.decide(Instant::ZERO, true, &frame(Is::Write, 17, psn));
            for _ in 0..20 {
                let clear = engine.frames_until_event(&key, Instant::ZERO);
                prop_assert!(clear <= MAX_LOOK_AHEAD);
                prop_assert_eq!(clear, engine.frames_until_event(&key, Instant::ZERO));
                if skips {
                    let run = Run { key, first: Psn::new(psn + 1), opcode: None };
                    prop_assert_eq!(clear, engine.frames_from(&run, Instant::ZERO));
                    engine.leave_out(&run, clear);
                    psn += clear as u32;
                } else {
                    for _ in 0..clear {
                        psn += 1;
                        let frame = frame(Is::Write, 17, psn);
                        prop_assert!(engine.decide(Instant::ZERO, true, &frame).is_pass());
                    }
                }
                psn += 1;
                let verdict = engine.decide(Instant::ZERO, true, &frame(Is::Write, 17, psn));
                // In a burst, or before one, not every packet is lost.
                prop_assert!(!verdict.is_pass() || faults.starts_with("burst"));
            }
        }
    }

    /// Goal: no frame makes it panic, and memory stays bounded.
    #[test]
    fn any_bytes_are_survived(
        frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..120), 1..50),
        changes in prop::collection::vec((0usize..80, any::<u8>()), 1..200),
        times: [u64; 4],
    ) {
        let mut engine = engine(
            "loss=0.1,burst=0.1/0.1,dup=any#1-9,corrupt-header=0.5,jitter=5us,reorder=any#2,\
             delay=1us@psn3-9,down=1us..2us,partition=::1-10.0.0.2,loss=1@try200-300",
        );
        for bytes in &frames {
            engine.decide(Instant(times[0]), true, bytes);
        }
        for (step, (place, value)) in changes.iter().enumerate() {
            let mut frame = frame(Is::Ack, 17, step as u32 * 0x7f_ffff);
            if let Some(byte) = frame.get_mut(*place) {
                *byte = *value;
            }
            let now = Instant(times[step % 4]);
            let verdict = engine.decide(now, value % 2 == 0, &frame);
            if let Some((corruption, draw)) = verdict.corruption {
                corrupt(&mut frame, corruption, draw);
            }
            prop_assert!(verdict.comment(engine.plan()).len() < 1000);
        }
        prop_assert!(engine.flows() <= MAX_FLOWS);
    }
}

/// Goal: the steps of situations come at their times, which count from the first packet, and no
/// packet before the last one may be skipped.
#[test]
fn steps_of_situations_come_in_order() {
    let mut engine = engine("peer-killed=2ms/mr-first/3ms,peer-stopped=1ms..4ms");
    assert_eq!(engine.next_step(), None);
    let begun = Instant::ZERO + Duration::from_ms(7);
    let packet = frame(Is::Write, 17, 0);
    assert!(engine.decide(begun, true, &packet).is_pass());
    let mut steps = Vec::new();
    while let Some(at) = engine.next_step() {
        let before = Instant(at.as_ps() - 1);
        assert_eq!(engine.take_step(before), None);
        let due = engine.take_step(at).expect("it is due");
        steps.push(((at - begun).as_ns() / 1_000_000, due.step));
    }
    let expected = [
        (1, Step::Stop),
        (2, Step::Stop),
        (2, Step::RevokeRegions),
        (4, Step::Continue),
        (5, Step::Kill),
    ];
    assert_eq!(steps, expected);
}

/// Goal: a link that is down drops the packets of its host, and no others.
#[test]
fn a_link_that_is_down_drops_the_packets_of_its_host() {
    for (host, is_dropped) in [("10.0.0.1", true), ("10.0.0.9", false)] {
        let mut engine = engine(&format!("link-down=0s..1s@at:{host}"));
        let packet = frame(Is::Write, 17, 0);
        let verdict = engine.decide(Instant::ZERO, true, &packet);
        assert_eq!(verdict.is_dropped(), is_dropped, "{host}");
    }
}
