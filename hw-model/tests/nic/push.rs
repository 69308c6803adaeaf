//! Pushed WQEs: executed without a DMA read of the ring, or ignored without harm.

use crate::common::{LOG_BLOCKS, Machine, REGION_START, SEND_SLOT, cable, place, run_both};
use ferroce_spec::context::{PathMtuCode, QpContext};
use ferroce_spec::counter::Counter;
use ferroce_spec::cqe::CqeStatus;
use ferroce_spec::doorbell::{DoorbellKind, DoorbellValue, SLOTS_PER_PAGE};
use ferroce_spec::push::{PushWindow, WORDS_PER_BLOCK, WQE_WORDS_PER_BLOCK, blocks_for};
use ferroce_spec::register::{Capability, offset};
use ferroce_spec::wqe::{
    BLOCK_SIZE, ControlSegment, ControlWord, InlineHeader, RemoteAddressSegment, SendOpcode,
};
use zerocopy::IntoBytes;

/// Two connected machines; the first one's NIC takes pushes of `blocks` blocks.
fn connected(blocks: u8) -> (Machine, Machine) {
    let (left, right) = cable();
    let mut a = Machine::with(1, left, |config| config.push_blocks = blocks);
    let mut b = Machine::new(2, right);
    let (who_a, who_b) = (a.identity(), b.identity());
    a.connect(who_b, PathMtuCode::MTU_1024);
    b.connect(who_a, PathMtuCode::MTU_1024);
    (a, b)
}

/// An RDMA WRITE of `payload`, inline, to `offset` of the peer's region.
fn write_wqe(index: u32, peer: &Machine, offset: u64, payload: &[u8]) -> Vec<u8> {
    let mut control = ControlWord::default();
    control.set_opcode(SendOpcode::RDMA_WRITE.0);
    control.set_inline(true);
    control.set_signaled(true);
    let size = 36 + payload.len();
    control.set_blocks(size.div_ceil(BLOCK_SIZE) as u8);
    let head = ControlSegment {
        control,
        index,
        ..ControlSegment::default()
    };
    let remote = RemoteAddressSegment {
        virtual_address: REGION_START + offset,
        r_key: peer.key,
        reserved: 0,
    };
    let inline = InlineHeader {
        length: payload.len() as u32,
    };
    let mut bytes = head.as_bytes().to_vec();
    bytes.extend_from_slice(remote.as_bytes());
    bytes.extend_from_slice(inline.as_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// Basic blocks of a WQE.
fn blocks_of(wqe: &[u8]) -> u32 {
    wqe.len().div_ceil(BLOCK_SIZE) as u32
}

/// Writes a WQE into the ring, at `index`.
fn write_ring(machine: &mut Machine, index: u32, wqe: &[u8]) {
    let slot = u64::from(index) % (1 << LOG_BLOCKS);
    let iova = place::SQ + slot * BLOCK_SIZE as u64;
    machine.host.write(iova, wqe).expect("inside of memory");
}

/// The words of a push of `wqe`, which ends at `producer`.
fn push_of(machine: &Machine, wqe: &[u8], producer: u32) -> Vec<u64> {
    let mut bytes = wqe.to_vec();
    bytes.resize(wqe.len().next_multiple_of(8), 0);
    let mut words: Vec<u64> = bytes
        .chunks(8)
        .map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")))
        .collect();
    let blocks = blocks_for(words.len()).expect("it can be pushed");
    words.resize(blocks * WQE_WORDS_PER_BLOCK, 0);
    let doorbell = DoorbellValue::new(DoorbellKind::push(blocks), machine.qpn, producer);
    words
        .chunks(WQE_WORDS_PER_BLOCK)
        .flat_map(|block| [&[doorbell.bits()], block].concat())
        .collect()
}

fn window_slot() -> u32 {
    PushWindow::of_slot(SEND_SLOT).slot(false)
}

fn push(machine: &mut Machine, words: Vec<u64>) {
    machine.host.pushes.push_back((window_slot(), words));
}

fn count(machine: &Machine, counter: Counter) -> u64 {
    machine.nic.counters().values()[counter as usize]
}

/// Pushes used and ignored, and DMA reads of send WQEs.
fn counts(machine: &Machine) -> [u64; 3] {
    [
        Counter::pushes_used,
        Counter::pushes_ignored,
        Counter::wqe_fetches,
    ]
    .map(|counter| count(machine, counter))
}

fn successes(machine: &mut Machine) -> Vec<u32> {
    std::iter::from_fn(|| machine.poll())
        .map(|cqe| {
            assert_eq!(cqe.word.status(), CqeStatus::SUCCESS.0);
            cqe.wqe_index
        })
        .collect()
}

/// Goal: what is pushed is executed, whatever its size, and the ring is not read.
/// Method: the ring is empty.
#[test]
fn a_pushed_wqe_is_executed_without_reading_the_ring() {
    let (mut a, mut b) = connected(4);
    let mut index = 0;
    for (turn, length) in [1usize, 20, 21, 60, 100, 188].into_iter().enumerate() {
        let payload = vec![0x40 + turn as u8; length];
        let wqe = write_wqe(index, &b, 0, &payload);
        let next = index + blocks_of(&wqe);
        let words = push_of(&a, &wqe, next);
        assert_eq!(words.len() % WORDS_PER_BLOCK, 0);
        push(&mut a, words);
        run_both(&mut a, &mut b, 10);
        assert_eq!(successes(&mut a), [index]);
        assert_eq!(b.data(0, length), payload);
        assert_eq!(counts(&a), [turn as u64 + 1, 0, 0]);
        index = next;
    }
}

/// Goal: what software posts behind a push comes from the ring, in order.
#[test]
fn wqes_behind_a_push_are_fetched() {
    let (mut a, mut b) = connected(4);
    let first = write_wqe(0, &b, 0, b"pushed");
    let second = write_wqe(1, &b, 0, b"second");
    let third = write_wqe(2, &b, 64, b"third");
    write_ring(&mut a, 0, &write_wqe(0, &b, 0, b"ring"));
    write_ring(&mut a, 1, &second);
    write_ring(&mut a, 2, &third);
    let words = push_of(&a, &first, 1);
    push(&mut a, words);
    a.run(0);
    a.ring(
        SEND_SLOT,
        DoorbellValue::new(DoorbellKind::SEND_QUEUE, a.qpn, 3),
    );
    run_both(&mut a, &mut b, 10);
    assert_eq!(successes(&mut a), [0, 1, 2]);
    assert_eq!(b.data(0, 6), b"second");
    assert_eq!(b.data(64, 5), b"third");
    assert_eq!(counts(&a), [1, 0, 1]);
}

/// A fault of a push of a WQE of two blocks (three of the push): what it does to the words, and
/// whether the doorbell still rings.
type Fault = (&'static str, fn(&mut Vec<u64>), bool);

const FAULTS: [Fault; 11] = [
    (
        "only the first eight bytes",
        |words| words.truncate(1),
        true,
    ),
    ("one block is missing", |words| words.truncate(16), true),
    ("half a block is missing", |words| words.truncate(20), true),
    (
        "more blocks than its kind says",
        |words| words.extend([0; 8]),
        true,
    ),
    (
        "the last block is of an older push",
        |words| words[16] -= 1,
        true,
    ),
    (
        "the last block is of another queue",
        |words| words[16] ^= 1 << 32,
        true,
    ),
    (
        "another index in the WQE",
        |words| words[1] ^= 4 << 32,
        true,
    ),
    (
        "no blocks in the WQE",
        |words| words[1] &= !(0x1f << 16),
        true,
    ),
    (
        "more blocks in the WQE than rung",
        |words| words[1] += 1 << 16,
        true,
    ),
    (
        "more inline than was pushed",
        |words| words[5] = words[5] & !0xffff_ffff | 150,
        true,
    ),
    (
        "another producer index",
        |words| words.iter_mut().step_by(8).for_each(|word| *word += 100),
        false,
    ),
];

/// Goal: a push that is torn or not consistent is only a doorbell.
#[test]
fn faulty_pushes_leave_the_ring_to_be_fetched() {
    for (name, break_it, rings) in FAULTS {
        let (mut a, mut b) = connected(4);
        write_ring(&mut a, 0, &write_wqe(0, &b, 0, &[0x11; 90]));
        let pushed = write_wqe(0, &b, 0, &[0x22; 90]);
        let mut words = push_of(&a, &pushed, 2);
        assert_eq!(words.len(), 24);
        break_it(&mut words);
        push(&mut a, words);
        run_both(&mut a, &mut b, 10);
        assert_eq!(counts(&a), [0, 1, u64::from(rings)], "{name}");
        assert_eq!(b.data(0, 90), [if rings { 0x11 } else { 0 }; 90], "{name}");
        assert_eq!(successes(&mut a).len(), usize::from(rings), "{name}");
        assert_eq!(
            count(&a, Counter::doorbell_errors),
            u64::from(!rings),
            "{name}"
        );
        // The queue works on.
        write_ring(&mut a, 0, &write_wqe(0, &b, 0, &[0x33; 90]));
        let next = if rings { 2 } else { 0 };
        let wqe = write_wqe(next, &b, 0, b"next");
        let words = push_of(&a, &wqe, next + 1);
        push(&mut a, words);
        run_both(&mut a, &mut b, 10);
        assert_eq!(successes(&mut a), [next], "{name}");
        assert_eq!(b.data(0, 4), b"next", "{name}");
    }
}

/// Goal: only the window of the queue's own slot leads to it, and only with a kind of pushes.
#[test]
fn windows_and_kinds_belong_together() {
    let own = window_slot();
    let places = [
        (
            "another window",
            PushWindow::of_slot(SEND_SLOT + 1).slot(false),
            0,
        ),
        (
            "another page",
            PushWindow::of_slot(SEND_SLOT + SLOTS_PER_PAGE).slot(false),
            0,
        ),
        ("not the start of a block", own + 1, 0),
        ("a doorbell slot", SEND_SLOT, 0),
        ("the second block", own + 8, 1),
    ];
    for (name, slot, rings) in places {
        let (mut a, mut b) = connected(4);
        write_ring(&mut a, 0, &write_wqe(0, &b, 0, b"ring"));
        let words = push_of(&a, &write_wqe(0, &b, 0, b"push"), 1);
        a.host.pushes.push_back((slot, words));
        run_both(&mut a, &mut b, 10);
        assert_eq!(count(&a, Counter::pushes_used), 0, "{name}");
        assert_eq!(count(&a, Counter::doorbell_errors), 1 - rings, "{name}");
        assert_eq!(successes(&mut a).len() as u64, rings, "{name}");
    }
    let (mut a, mut b) = connected(4);
    write_ring(&mut a, 0, &write_wqe(0, &b, 0, b"ring"));
    let kinds = [
        DoorbellKind::SEND_QUEUE,
        DoorbellKind::CQ_ARM,
        DoorbellKind(0x16),
        DoorbellKind(0x10),
    ];
    for kind in kinds {
        let number = a.qpn;
        let mut words = push_of(&a, &write_wqe(0, &b, 0, b"push"), 1);
        words[0] = DoorbellValue::new(kind, number, 1).bits();
        push(&mut a, words);
    }
    run_both(&mut a, &mut b, 10);
    assert_eq!(count(&a, Counter::doorbell_errors), kinds.len() as u64);
    assert_eq!(successes(&mut a), []);
}

/// Goal: a push behind WQEs that wait is a doorbell; their order is that of the ring.
#[test]
fn a_push_that_is_not_next_is_ignored() {
    let (mut a, mut b) = connected(4);
    write_ring(&mut a, 0, &write_wqe(0, &b, 0, b"first"));
    write_ring(&mut a, 1, &write_wqe(1, &b, 0, b"later"));
    let doorbell = DoorbellValue::new(DoorbellKind::SEND_QUEUE, a.qpn, 1);
    a.ring(SEND_SLOT, doorbell);
    let words = push_of(&a, &write_wqe(1, &b, 0, b"wrong"), 2);
    push(&mut a, words);
    run_both(&mut a, &mut b, 10);
    assert_eq!(successes(&mut a), [0, 1]);
    assert_eq!(b.data(0, 5), b"later");
    assert_eq!(counts(&a), [0, 1, 1]);
}

/// Goal: pushes that come while the one before is not yet executed wait for it, a few at a time;
/// what comes behind them is fetched.
#[test]
fn pushes_wait_for_each_other() {
    let (mut a, mut b) = connected(4);
    for index in 0..20u8 {
        let place = u64::from(index);
        write_ring(
            &mut a,
            index.into(),
            &write_wqe(index.into(), &b, place, &[0x80 + index]),
        );
        let words = push_of(
            &a,
            &write_wqe(index.into(), &b, place, &[index]),
            u32::from(index) + 1,
        );
        push(&mut a, words);
    }
    run_both(&mut a, &mut b, 20);
    assert_eq!(successes(&mut a), (0..20).collect::<Vec<_>>());
    let pushed = (0..20).filter(|place| b.data(*place, 1)[0] == *place as u8);
    assert_eq!(pushed.collect::<Vec<_>>(), (0..8).collect::<Vec<_>>());
    assert_eq!(counts(&a), [8, 12, 1]);
}

/// Goal: a push that begins inside of the WQE before it is dropped, and the queue works on.
/// Method: both are rung before the QP may send.
#[test]
fn a_push_inside_of_another_wqe_is_dropped() {
    let (left, right) = cable();
    let mut a = Machine::with(1, left, |config| config.push_blocks = 5);
    let mut b = Machine::new(2, right);
    let wqe = write_wqe(0, &b, 0, &[0x77; 60]);
    assert_eq!(blocks_of(&wqe), 2);
    write_ring(&mut a, 0, &wqe);
    a.initialize(QpContext {
        port: 1,
        ..QpContext::default()
    });
    let doorbell = DoorbellValue::new(DoorbellKind::SEND_QUEUE, a.qpn, 1);
    a.ring(SEND_SLOT, doorbell);
    a.run(1);
    let words = push_of(&a, &write_wqe(1, &b, 0, b"wrong"), 2);
    push(&mut a, words);
    a.run(1);
    let (who_a, who_b) = (a.identity(), b.identity());
    b.connect(who_a, PathMtuCode::MTU_1024);
    a.connect(who_b, PathMtuCode::MTU_1024);
    run_both(&mut a, &mut b, 10);
    assert_eq!(successes(&mut a), [0]);
    assert_eq!(b.data(0, 60), [0x77; 60]);
    assert_eq!(counts(&a), [0, 1, 2]);
}

/// Goal: a push that comes when its WQE was executed does nothing.
#[test]
fn a_late_push_is_not_executed_again() {
    let (mut a, mut b) = connected(4);
    let wqe = write_wqe(0, &b, 0, b"once");
    write_ring(&mut a, 0, &wqe);
    let doorbell = DoorbellValue::new(DoorbellKind::SEND_QUEUE, a.qpn, 1);
    a.ring(SEND_SLOT, doorbell);
    run_both(&mut a, &mut b, 10);
    let second = write_wqe(1, &b, 0, b"twice");
    let words = push_of(&a, &second, 2);
    push(&mut a, words);
    run_both(&mut a, &mut b, 10);
    assert_eq!(successes(&mut a), [0, 1]);
    b.data(0, 5).fill(0);
    for (late, producer) in [(&wqe, 1), (&second, 2)] {
        let words = push_of(&a, late, producer);
        push(&mut a, words);
        run_both(&mut a, &mut b, 10);
    }
    assert_eq!(successes(&mut a), []);
    assert_eq!(b.data(0, 5), [0; 5]);
    assert_eq!(counts(&a), [1, 2, 1]);
}

/// Goal: what was pushed before a reset of the QP is not executed after it.
#[test]
fn a_reset_forgets_what_was_pushed() {
    let (left, right) = cable();
    let mut a = Machine::with(1, left, |config| config.push_blocks = 5);
    let mut b = Machine::new(2, right);
    // In RESET nothing is fetched: the push stays.
    let words = push_of(&a, &write_wqe(0, &b, 0, b"old"), 1);
    push(&mut a, words);
    a.run(100);
    assert_eq!(counts(&a), [0, 0, 0]);
    a.reset_qp();
    let (who_a, who_b) = (a.identity(), b.identity());
    a.connect(who_b, PathMtuCode::MTU_1024);
    b.connect(who_a, PathMtuCode::MTU_1024);
    write_ring(&mut a, 0, &write_wqe(0, &b, 0, b"new"));
    let doorbell = DoorbellValue::new(DoorbellKind::SEND_QUEUE, a.qpn, 1);
    a.ring(SEND_SLOT, doorbell);
    run_both(&mut a, &mut b, 10);
    assert_eq!(b.data(0, 3), b"new");
    assert_eq!(counts(&a), [0, 0, 1]);
}

/// Goal: a card takes pushes as long as it says, and none when it says so.
#[test]
fn a_push_that_is_too_long_is_a_doorbell() {
    for (blocks, used) in [(0, 0), (1, 0), (2, 1), (5, 1)] {
        let (mut a, mut b) = connected(blocks);
        let capability = Capability::from_bits(a.nic.read64(a.now, offset::capability));
        assert_eq!(capability.push_blocks(), blocks);
        write_ring(&mut a, 0, &write_wqe(0, &b, 0, &[1; 40]));
        let words = push_of(&a, &write_wqe(0, &b, 0, &[2; 40]), 2);
        assert_eq!(words.len(), 16);
        push(&mut a, words);
        run_both(&mut a, &mut b, 10);
        let expected = match blocks {
            0 => 0,
            1 => 1,
            _ => 2,
        };
        assert_eq!(b.data(0, 40), [expected; 40], "{blocks} blocks");
        assert_eq!(count(&a, Counter::pushes_used), used, "{blocks} blocks");
    }
}
