//! Many queue pairs with a packet each, and a wire with room for few packets at a time.

use crate::common::{Cable, Machine, REGION_START, cable};
use ferroce_model::preset::Preset;
use ferroce_model::time::timing::{Timed, Timing};
use ferroce_model::{Nic, NicConfig};
use ferroce_spec::context::PathMtuCode;
use ferroce_spec::counter::Counter;
use ferroce_spec::cqe::CqeStatus;
use ferroce_spec::wqe::SendOpcode;
use ferroce_units::{Duration, Instant};

/// Queue pairs of the smaller of two runs; the other one has twice as many.
const QUEUE_PAIRS: u32 = 100;
/// Frames on the wire.
const ROOM: usize = 4;
/// How often the receiver takes what is on the wire: less often than the sender fills it.
const PERIOD: Duration = Duration::from_us(2);
/// More of these times than any run here needs.
const MAX_PERIODS: usize = 10_000;
/// More events than there are in one of them.
const MAX_EVENTS: usize = 10_000;

/// Connects `count` queue pairs of `a` with as many of `b`, posts a WRITE on each, and waits until
/// all have ended. Returns how often a packet has found no room.
fn refusals<T: Timing>(mut a: Machine<T>, mut b: Machine<T>, count: u32) -> u64 {
    let mut senders = Vec::new();
    for _ in 0..count {
        for machine in [&mut a, &mut b] {
            machine.qpn = machine.create_connectable_qp().expect("room");
        }
        let (who_a, who_b) = (a.identity(), b.identity());
        a.connect(who_b, PathMtuCode::MTU_1024);
        b.connect(who_a, PathMtuCode::MTU_1024);
        senders.push(a.qpn);
    }
    // By then a card with clocks has executed the commands.
    (a.now, b.now) = (Instant::from_us(100_000), Instant::from_us(100_000));
    a.port.capacity = ROOM;
    let (remote, data) = ((REGION_START, b.key), a.segment(0, 64));
    for qpn in senders {
        // The queue pairs have the same ring, and each takes the first WQE.
        (a.qpn, a.producer) = (qpn, 0);
        a.post(SendOpcode::RDMA_WRITE, Some(remote), data);
    }
    let mut ended = 0;
    for _ in 0..MAX_PERIODS {
        let end = a.now + PERIOD;
        run_until(&mut a, end);
        run_until(&mut b, end);
        while let Some(cqe) = a.poll() {
            assert_eq!(CqeStatus(cqe.word.status()), CqeStatus::SUCCESS);
            ended += 1;
        }
        if ended == count {
            let again = a.nic.counters().value(Counter::packets_retransmitted);
            assert_eq!(again, 0);
            return a.nic.counters().value(Counter::tx_stalls);
        }
    }
    panic!("{ended} of {count} WRITEs have ended");
}

/// Runs a card until `end`.
fn run_until<T: Timing>(machine: &mut Machine<T>, end: Instant) {
    for _ in 0..MAX_EVENTS {
        machine.run(0);
        match machine.nic.next_timeout(machine.now) {
            Some(next) if next < end => machine.now = machine.now.max(next),
            _ => break,
        }
    }
    machine.now = end;
}

/// Checks that twice the queue pairs are refused about twice as often. If each look at the wire
/// tried all that wait, it would be four times.
fn check_growth(refusals: impl Fn(u32) -> u64) {
    let (few, many) = (refusals(QUEUE_PAIRS), refusals(2 * QUEUE_PAIRS));
    assert!(few > u64::from(QUEUE_PAIRS), "the wire has had room: {few}");
    assert!(many < 5 * few / 2, "{few} refusals, then {many}");
}

#[test]
fn waiting_for_the_wire_costs_each_queue_pair_the_same() {
    check_growth(|count| {
        let (left, right) = cable();
        refusals(Machine::new(1, left), Machine::new(2, right), count)
    });
}

#[test]
fn waiting_for_the_wire_costs_each_queue_pair_of_a_timed_card_the_same() {
    let mut preset = Preset::load("cx5-100g").expect("built in");
    // All queue pairs wait for their turn in one list, and for the wire, not for the MAC.
    for key in ["units.count", "datapath.egress_packets"] {
        preset.set(key, "1").expect("in range");
    }
    let machine = |number: u8, port: Cable| {
        let mac = [2, 0, 0, 0, 0, number];
        let config: NicConfig = preset.nic_config(u32::from(number) << 16, mac);
        Machine::around(number, port, Nic::with_timing(config, Timed::new(&preset)))
    };
    check_growth(|count| {
        let (left, right) = cable();
        refusals(machine(1, left), machine(2, right), count)
    });
}
