//! A hostile driver and a hostile peer never crash the model, and never make it write outside of
//! what they may write.

use crate::common::{self, Machine, REGION_START, cable, connected, place};
use ferroce_model::Doorbell;
use ferroce_spec::context::PathMtuCode;
use ferroce_spec::doorbell::SLOTS;
use ferroce_spec::register::{BAR0_SIZE, Control, offset};
use ferroce_spec::wqe::SendOpcode;
use proptest::prelude::*;

/// A value that is often near something that means something.
fn interesting() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        0..64u64,
        place::COMMANDS..place::DATA,
        (0..6u64, 0..0x3_0000u64, 0..100u64)
            .prop_map(|(kind, number, index)| { kind << 56 | number << 32 | index }),
    ]
}

/// The words of a push to the first QP, with heads that often agree and a first word of a WQE that
/// often makes sense.
fn pushed_words() -> impl Strategy<Value = Vec<u64>> {
    let words = prop::collection::vec(interesting(), 1..40);
    let first = (0..0x40u64, 0..12u64, 0..18u64, 0..4u64);
    let head = (0x0f..0x16u64, 0..4u64);
    (words, first, head, any::<bool>()).prop_map(|(mut words, first, head, whole)| {
        let value = head.0 << 56 | 0x1_0002 << 32 | head.1;
        if whole {
            words.resize((head.0 & 7) as usize * 8, 0);
        }
        words.iter_mut().step_by(8).for_each(|word| *word = value);
        if let Some(word) = words.get_mut(1) {
            let (opcode, blocks, segments, index) = first;
            *word = opcode | blocks << 16 | segments << 24 | 1 << 8 | index << 32;
        }
        words
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn any_register_access_has_an_answer(
        accesses in prop::collection::vec((any::<bool>(), 0..2 * BAR0_SIZE, interesting()), 1..60),
    ) {
        let mut machine = Machine::new(1, cable().0);
        for (write, at, value) in accesses {
            let (nic, now) = (&mut machine.nic, machine.now);
            match (write, at % 8) {
                (true, 0) => nic.write64(at, value),
                (true, _) => nic.write32(at, value as u32),
                (false, 0) => drop(nic.read64(now, at)),
                (false, _) => drop(nic.read32(now, at)),
            }
            machine.run(100);
        }
        // A reset always helps.
        let mut reset = Control::default();
        reset.set_reset(true);
        machine.nic.write32(offset::control, reset.bits());
        machine.run(100);
        prop_assert_eq!(machine.nic.read32(machine.now, offset::control), 0);
    }

    #[test]
    fn any_doorbell_is_survived(
        doorbells in prop::collection::vec((0..64u32, interesting()), 1..100),
    ) {
        let (mut a, _b) = connected(PathMtuCode::MTU_1024);
        for (slot, value) in doorbells {
            a.host.doorbells.push_back(Doorbell { slot, value });
            a.run(1000);
        }
    }

    #[test]
    fn any_push_is_survived(
        pushes in prop::collection::vec((0..128u32, pushed_words()), 1..100),
    ) {
        let (left, _right) = cable();
        let mut a = Machine::with(1, left, |config| config.push_blocks = 4);
        let who = a.identity();
        a.connect(who, PathMtuCode::MTU_1024);
        for (place, words) in pushes {
            a.host.pushes.push_back((SLOTS + place, words));
            a.run(1000);
        }
    }

    #[test]
    fn any_bytes_in_the_rings_are_survived(
        bytes in prop::collection::vec(any::<u8>(), 256),
        blocks in 1..20u32,
        first_word in prop_oneof![Just(None), (0..0x40u32, 0..12u32, 0..18u32).prop_map(Some)],
    ) {
        let (mut a, mut b) = connected(PathMtuCode::MTU_256);
        a.post(SendOpcode::RDMA_WRITE, Some((REGION_START, b.key)), a.segment(0, 300));
        a.host.write(place::SQ + 64, &bytes).expect("mapped");
        if let Some((opcode, blocks, segments)) = first_word {
            let word = opcode | blocks << 16 | segments << 24 | 1 << 8;
            a.host.write(place::SQ + 64, &word.to_le_bytes()).expect("mapped");
            a.host.write(place::SQ + 68, &1u32.to_le_bytes()).expect("mapped");
        }
        a.host.write(place::RQ, &bytes).expect("mapped");
        let value = ferroce_spec::doorbell::DoorbellValue::new(
            ferroce_spec::doorbell::DoorbellKind::SEND_QUEUE, a.qpn, 1 + blocks,
        );
        a.ring(common::SEND_SLOT, value);
        common::run_both(&mut a, &mut b, 20);
    }

    #[test]
    fn any_bytes_in_a_command_are_survived(
        commands in prop::collection::vec(
            (0..0x60u16, interesting(), prop::collection::vec(any::<u8>(), 300)), 1..20,
        ),
    ) {
        let mut machine = Machine::new(1, cable().0);
        for (opcode, argument, bytes) in commands {
            let opcode = ferroce_spec::command::CommandOpcode(opcode);
            let mut input = [0u8; 300];
            input.copy_from_slice(&bytes);
            // Any status will do.
            let _ = machine.command(opcode, argument, &input);
        }
    }

    #[test]
    fn frames_that_were_tampered_with_touch_nothing_else(
        position in 34..120usize,
        value in any::<u8>(),
        fix_icrc in any::<bool>(),
    ) {
        let (mut a, mut b) = connected(PathMtuCode::MTU_1024);
        a.data(0, 64).fill(0xee);
        let remote = Some((REGION_START + 4096, b.key));
        a.post(SendOpcode::RDMA_WRITE, remote, a.segment(0, 64));
        a.run(10);
        let before = b.host.memory[..place::DATA as usize].to_vec();
        {
            let mut frames = a.port.out.borrow_mut();
            let frame = frames.front_mut().expect("one frame");
            let at = position.min(frame.len() - 1);
            frame[at] = value;
            let parsed = ferroce_wire::Frame::parse(frame).ok().filter(|_| fix_icrc);
            if let Some(parsed) = parsed {
                let icrc = parsed.computed_icrc().to_le_bytes();
                let range = parsed.layout().icrc();
                frame[range].copy_from_slice(&icrc);
            }
        }
        b.run(10);
        // Everything in front of the region is unchanged but for the rings of events and CQEs,
        // the context tables and the command queue.
        let quiet = place::INPUT as usize..place::EQ as usize;
        prop_assert!(b.host.memory[quiet.clone()] == before[quiet]);
        let rings = place::CONSUMER_RECORD as usize..place::QPC as usize;
        prop_assert!(b.host.memory[rings.clone()] == before[rings]);
    }

    #[test]
    fn any_frame_is_survived(
        frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 1..20),
    ) {
        let (mut a, _b) = connected(PathMtuCode::MTU_1024);
        for frame in frames {
            a.port.into.borrow_mut().push_back(frame);
            a.run(10);
        }
    }
}
