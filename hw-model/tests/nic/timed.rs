//! A NIC with clocks: it says when it has to run again, everything ends, and times add up.

use crate::common::{Cable, Machine, REGION_START, cable};
use ferroce_model::preset::Preset;
use ferroce_model::time::timing::Timed;
use ferroce_model::{Nic, NicConfig};
use ferroce_spec::context::PathMtuCode;
use ferroce_spec::counter::Counter;
use ferroce_spec::cqe::CqeStatus;
use ferroce_spec::wqe::SendOpcode;
use ferroce_units::{Duration, Instant};

type TimedMachine = Machine<Timed>;

/// More events than any test here needs.
const MAX_EVENTS: usize = 100_000;
/// How long a command may take.
const COMMAND_TIME: Duration = Duration::from_us(10);

fn machine(number: u8, port: Cable) -> TimedMachine {
    let preset = Preset::load("cx5-100g").expect("built in");
    let config: NicConfig = preset.nic_config(u32::from(number) << 16, [2, 0, 0, 0, 0, number]);
    Machine::around(number, port, Nic::with_timing(config, Timed::new(&preset)))
}

/// Two connected cards, with a cable and host memory that take their time.
fn connected(delay: Duration, read_latency: Duration) -> (TimedMachine, TimedMachine) {
    let (left, right) = cable();
    let (mut a, mut b) = (machine(1, left), machine(2, right));
    let (who_a, who_b) = (a.identity(), b.identity());
    a.connect(who_b, PathMtuCode(3));
    b.connect(who_a, PathMtuCode(3));
    for machine in [&mut a, &mut b] {
        machine.port.delay = Some(delay);
        machine.host.read_latency = read_latency;
        machine.now = Instant::from_us(100) + COMMAND_TIME;
        machine.host.descriptors.clear();
    }
    (a, b)
}

fn frames_to_come(machine: &TimedMachine) -> usize {
    machine.port.into.borrow().len()
}

/// Runs both from event to event until neither has one; returns the number of events.
fn run_to_the_end(a: &mut TimedMachine, b: &mut TimedMachine) -> usize {
    let (mut now, mut on_cable) = (a.now.max(b.now), 0);
    for event in 0..MAX_EVENTS {
        for machine in [&mut *a, &mut *b] {
            machine.now = now;
            machine.run(0);
        }
        let waits = |machine: &TimedMachine| machine.nic.next_timeout(now);
        let before = std::mem::replace(&mut on_cable, frames_to_come(a) + frames_to_come(b));
        match [waits(a), waits(b)].into_iter().flatten().min() {
            // One of them does not know yet what comes, unless it has no room for it.
            _ if on_cable > 0 && on_cable != before => {}
            Some(next) => now = now.max(next),
            None => return event,
        }
    }
    panic!(
        "the cards never come to rest: {:?}",
        (a.nic.next_timeout(now), now)
    );
}

fn write(a: &mut TimedMachine, b: &TimedMachine, length: u32) {
    let (remote, data) = ((REGION_START, b.key), a.segment(0, length));
    a.post(SendOpcode::RDMA_WRITE, Some(remote), data);
}

fn read(a: &mut TimedMachine, b: &TimedMachine, length: u32) {
    let (remote, data) = ((REGION_START, b.key), a.segment(0, length));
    a.post(SendOpcode::RDMA_READ, Some(remote), data);
}

/// From now until the host of `a` sees the first CQE.
fn time_of_first(a: &mut TimedMachine, b: &mut TimedMachine) -> Duration {
    let start = a.now;
    run_to_the_end(a, b);
    let cqe = a.poll().expect("it has ended");
    assert_eq!(CqeStatus(cqe.word.status()), CqeStatus::SUCCESS);
    a.host.descriptors[0] - start
}

#[test]
fn a_read_takes_two_cables_and_two_reads_of_host_memory_more() {
    let measure = |cable_ns, read_ns| {
        let (cable, host) = (Duration::from_ns(cable_ns), Duration::from_ns(read_ns));
        let (mut a, mut b) = connected(cable, host);
        // The first one brings the context entries into the caches.
        read(&mut a, &b, 8);
        time_of_first(&mut a, &mut b);
        a.host.descriptors.clear();
        read(&mut a, &b, 8);
        time_of_first(&mut a, &mut b).as_ns() as i64
    };
    let base = measure(100, 400);
    // Each of the two cables, and of the two reads, ends at an edge of the card's clock.
    let cycles_ns = 2 * 3;
    assert!((measure(1100, 400) - base - 2000).abs() <= cycles_ns);
    assert!(
        (measure(100, 700) - base - 600).abs() <= cycles_ns,
        "WQE fetch and payload"
    );
    assert!((1000..2500).contains(&base), "{base} ns");
}

/// Goal: packets that find no room on the wire leave in their order when there is some. Method: the
/// other side takes no frame until the sender has tried again and again; none is then sent twice,
/// as it would be after a gap.
#[test]
fn packets_that_wait_for_the_wire_keep_their_order() {
    let (mut a, mut b) = connected(Duration::from_ns(100), Duration::from_ns(400));
    for _ in 0..4 {
        write(&mut a, &b, 100_000);
    }
    for _ in 0..MAX_EVENTS {
        a.run(0);
        if a.nic.counters().value(Counter::tx_stalls) >= 3 {
            break;
        }
        let next = a.nic.next_timeout(a.now).expect("it waits for the wire");
        a.now = a.now.max(next);
    }
    run_to_the_end(&mut a, &mut b);
    for _ in 0..4 {
        let cqe = a.poll().expect("ended");
        assert_eq!(CqeStatus(cqe.word.status()), CqeStatus::SUCCESS);
    }
    let again = a.nic.counters().value(Counter::packets_retransmitted);
    assert_eq!(again, 0);
}

#[test]
fn many_writes_of_all_lengths_end_and_arrive() {
    let (mut a, mut b) = connected(Duration::from_ns(100), Duration::from_ns(400));
    for (index, byte) in a.data(0, 100_000).iter_mut().enumerate() {
        *byte = (index % 251) as u8;
    }
    let mut events = 0;
    for length in [1, 64, 1023, 1024, 1025, 5000, 65_536, 100_000] {
        for _ in 0..20 {
            write(&mut a, &b, length);
        }
        events += run_to_the_end(&mut a, &mut b);
        for _ in 0..20 {
            let cqe = a.poll().expect("ended");
            assert_eq!(CqeStatus(cqe.word.status()), CqeStatus::SUCCESS);
        }
    }
    assert!(a.poll().is_none());
    let sent = a.data(0, 100_000).to_vec();
    assert!(b.data(0, 100_000) == sent);
    let packets = a.nic.counters().value(Counter::tx_frames);
    assert!(
        events < 4 * packets as usize,
        "{events} events for {packets} packets"
    );
}
