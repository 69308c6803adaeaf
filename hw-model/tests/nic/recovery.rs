//! Whole NICs on a cable that loses and reorders frames, in each mode of recovery: with time and
//! without, chosen by the registers or by the configuration.

use std::collections::VecDeque;

use crate::common::{Cable, Machine, REGION_START, cable};
use ferroce_model::config::RecoveryConfig;
use ferroce_model::preset::Preset;
use ferroce_model::time::timing::{Functional, Timed, Timing};
use ferroce_model::{Nic, NicConfig};
use ferroce_spec::context::PathMtuCode;
use ferroce_spec::counter::Counter;
use ferroce_spec::cqe::CqeStatus;
use ferroce_spec::register::{Capability, RoceAccl, offset};
use ferroce_spec::wqe::SendOpcode;
use ferroce_transport::RecoveryMode;
use ferroce_units::random::SplitMix64;

const SEEDS: u64 = 12;
/// Turns of half a microsecond after which a run is declared to hang.
const MAX_TURNS: u32 = 400_000;
/// Lost frames, and frames that are overtaken, of a hundred.
const LOSS: u64 = 6;
const OVERTAKEN: u64 = 10;
/// Bytes of each message.
const LENGTH: usize = 30_000;
const MESSAGES: u64 = 4;

const MODES: [RecoveryMode; 3] = [
    RecoveryMode::GoBackN,
    RecoveryMode::SelectiveRepeat,
    RecoveryMode::AdaptiveRouting,
];

/// Loses frames that are on the cable, and lets others overtake them.
fn disturb(queue: &mut VecDeque<Vec<u8>>, random: &mut SplitMix64) {
    queue.retain(|_| random.below(100) >= LOSS);
    for place in 1..queue.len() {
        if random.below(100) < OVERTAKEN {
            queue.swap(place - 1, place);
        }
    }
}

fn pattern(seed: u64) -> Vec<u8> {
    let mut random = SplitMix64::new(seed);
    (0..LENGTH).map(|_| random.number() as u8).collect()
}

fn connect<T: Timing>(a: &mut Machine<T>, b: &mut Machine<T>) {
    let (who_a, who_b) = (a.identity(), b.identity());
    a.connect(who_b, PathMtuCode::MTU_1024);
    b.connect(who_a, PathMtuCode::MTU_1024);
    let now = a.now.max(b.now);
    (a.now, b.now) = (now, now);
}

/// Offset of message `number` in the data of either machine.
fn place(number: u64) -> u64 {
    number * 2 * LENGTH as u64
}

/// SENDs, WRITEs and READs arrive as they were sent, and complete in order, whether frames are lost
/// in both directions or in that of the responses alone.
fn exchange<T: Timing>(a: &mut Machine<T>, b: &mut Machine<T>, seed: u64, both: bool) {
    let mut random = SplitMix64::new(seed);
    let length = LENGTH as u32;
    let opcodes = [
        SendOpcode::SEND,
        SendOpcode::RDMA_WRITE,
        SendOpcode::RDMA_READ,
    ];
    let requests = (0..3 * MESSAGES).map(|number| (number, opcodes[number as usize % 3]));
    for (number, opcode) in requests.clone() {
        let (at, bytes) = (place(number), pattern(seed ^ number));
        let remote = Some((REGION_START + at, b.key));
        let source = if opcode == SendOpcode::RDMA_READ {
            &mut *b
        } else {
            &mut *a
        };
        source.data(at, LENGTH).copy_from_slice(&bytes);
        if opcode == SendOpcode::SEND {
            b.post_receive(b.segment(at, length));
        }
        let remote = remote.filter(|_| opcode != SendOpcode::SEND);
        a.post(opcode, remote, a.segment(at, length));
    }
    let mut completed = 0;
    for _ in 0..MAX_TURNS {
        disturb(&mut a.port.into.borrow_mut(), &mut random);
        a.run(500);
        if both {
            disturb(&mut b.port.into.borrow_mut(), &mut random);
        }
        b.run(500);
        while let Some(cqe) = a.poll() {
            assert_eq!(CqeStatus(cqe.word.status()), CqeStatus::SUCCESS);
            assert_eq!(cqe.wqe_index, completed, "in order");
            completed += 1;
        }
        if u64::from(completed) == 3 * MESSAGES {
            break;
        }
    }
    assert_eq!(u64::from(completed), 3 * MESSAGES, "seed {seed} hangs");
    for (number, opcode) in requests {
        let sink = if opcode == SendOpcode::RDMA_READ {
            &mut *a
        } else {
            &mut *b
        };
        let bytes = pattern(seed ^ number);
        assert!(sink.data(place(number), LENGTH) == bytes, "{opcode:?}");
    }
    for number in 0..MESSAGES {
        let cqe = b.poll().expect("a receive for each SEND");
        assert_eq!(u64::from(cqe.wqe_index), number);
    }
    assert!(b.poll().is_none(), "each SEND once");
}

/// Sums of a counter over both machines.
fn sum<T: Timing>(a: &Machine<T>, b: &Machine<T>, counter: Counter) -> u64 {
    a.nic.counters().value(counter) + b.nic.counters().value(counter)
}

#[test]
fn registers_choose_how_a_functional_card_recovers() {
    let mut resent = Vec::new();
    for mode in MODES {
        let (mut held, mut again) = (0, 0);
        for seed in 0..SEEDS {
            let (left, right) = cable();
            let (mut a, mut b) = (Machine::new(1, left), Machine::new(2, right));
            let mut accl = RoceAccl::default();
            accl.set_selective_repeat_forced_en(mode == RecoveryMode::SelectiveRepeat);
            accl.set_adaptive_routing_forced_en(mode == RecoveryMode::AdaptiveRouting);
            for machine in [&mut a, &mut b] {
                let capability = machine.nic.read64(machine.now, offset::capability);
                assert!(Capability::from_bits(capability).roce_accl());
                machine.nic.write32(offset::roce_accl, accl.bits());
                machine.nic.write32(offset::roce_accl_reorder_time, 3000);
            }
            connect(&mut a, &mut b);
            exchange(&mut a, &mut b, seed, seed % 4 > 0);
            held += sum(&a, &b, Counter::rx_held);
            again += sum(&a, &b, Counter::packets_retransmitted);
            assert_eq!(sum(&a, &b, Counter::rx_hold_drops), 0);
        }
        assert_eq!(held > 0, mode != RecoveryMode::GoBackN, "{mode:?}");
        println!("{mode:?}: {again} packets sent again, {held} held");
        resent.push(again);
    }
    assert!(
        resent[1] < resent[0] / 2 && resent[2] < resent[0] / 2,
        "{resent:?}"
    );
}

#[test]
fn a_reorder_buffer_that_is_too_small_costs_only_time() {
    let change = |config: &mut NicConfig| {
        config.recovery = RecoveryConfig {
            mode: RecoveryMode::SelectiveRepeat,
            reorder_buffer_bytes: 3000,
            ..RecoveryConfig::GO_BACK_N
        };
    };
    let (left, right) = cable();
    let mut a: Machine<Functional> = Machine::with(1, left, change);
    let mut b = Machine::with(2, right, change);
    connect(&mut a, &mut b);
    exchange(&mut a, &mut b, 1, true);
    assert!(sum(&a, &b, Counter::rx_held) > 0);
    assert!(sum(&a, &b, Counter::rx_hold_drops) > 0);
}

fn timed(number: u8, port: Cable, mode: RecoveryMode) -> Machine<Timed> {
    let mut preset = Preset::load("cx5-100g").expect("built in");
    let flag = |on| if on { "true" } else { "false" };
    let selective = flag(mode == RecoveryMode::SelectiveRepeat);
    let adaptive = flag(mode == RecoveryMode::AdaptiveRouting);
    for (key, value) in [
        ("transport.selective_repeat", selective),
        ("transport.adaptive_routing", adaptive),
        ("transport.adaptive_timer", "true"),
        ("transport.reorder_ns", "3000"),
    ] {
        preset.set(key, value).expect("a parameter");
    }
    let config: NicConfig = preset.nic_config(u32::from(number) << 16, [2, 0, 0, 0, 0, number]);
    Machine::around(number, port, Nic::with_timing(config, Timed::new(&preset)))
}

#[test]
fn a_timed_card_recovers_as_its_preset_says() {
    for mode in MODES {
        let mut held = 0;
        for seed in 0..SEEDS / 3 {
            let (left, right) = cable();
            let (mut a, mut b) = (timed(1, left, mode), timed(2, right, mode));
            connect(&mut a, &mut b);
            exchange(&mut a, &mut b, seed, seed % 4 > 0);
            held += sum(&a, &b, Counter::rx_held);
        }
        assert_eq!(held > 0, mode != RecoveryMode::GoBackN, "{mode:?}");
    }
}
