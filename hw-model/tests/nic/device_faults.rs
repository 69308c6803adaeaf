//! Faults of the card and of its PCIe link: reads that fail, commands that hang, power that goes,
//! and a reset in the midst of traffic.

use crate::common::objects::{Request, TestQp};
use crate::common::{self, Machine, REGION_START, cable, connected, place, run_both};
use ferroce_model::preset::Preset;
use ferroce_model::time::timing::Timed;
use ferroce_model::{DmaFault, Nic};
use ferroce_spec::context::{PathMtuCode, ServiceCode};
use ferroce_spec::counter::Counter;
use ferroce_spec::cqe::CqeStatus;
use ferroce_spec::eqe::{Eqe, EventType};
use ferroce_spec::register::{Control, FatalSyndrome, Status, offset};
use ferroce_spec::wqe::SendOpcode;
use ferroce_units::{Duration, Instant};

/// Bytes of a message.
const LENGTH: u32 = 8192;
/// Messages under way at a reset.
const MESSAGES: u64 = 8;
/// Bytes from one buffer to the next.
const SPACE: u64 = 1 << 14;
/// Where receive buffers begin.
const LANDING: u64 = 1 << 20;
/// Turns between two resets that are tried.
const STRIDE: usize = 9;
/// More turns than the traffic takes.
const MAX_TURNS: usize = 100_000;

fn status(machine: &Machine) -> Status {
    Status::from_bits(machine.nic.read32(machine.now, offset::status))
}

fn poll_status(machine: &mut Machine) -> Option<CqeStatus> {
    machine.poll().map(|cqe| CqeStatus(cqe.word.status()))
}

/// Fails one read of `a`, posts, and returns the statuses of two requests.
fn fail_read(number: usize, fault: DmaFault, opcode: SendOpcode) -> (Machine, [CqeStatus; 2]) {
    let (mut a, mut b) = connected(PathMtuCode::MTU_1024);
    let remote = Some((REGION_START, b.key));
    // The contexts and keys are read before, so that the fault meets what it is meant for.
    a.post(opcode, remote, a.segment(0, LENGTH));
    run_both(&mut a, &mut b, 20);
    assert_eq!(poll_status(&mut a), Some(CqeStatus::SUCCESS));
    a.host.failing_read = Some((number, fault));
    for _ in 0..2 {
        a.post(opcode, remote, a.segment(0, LENGTH));
        run_both(&mut a, &mut b, 20);
    }
    let statuses = [(); 2].map(|()| poll_status(&mut a).expect("each request completes"));
    assert_eq!(a.poll(), None, "once");
    (a, statuses)
}

/// Goal: each fault of a read fails the work request that needs the data, and no other queue pair.
#[test]
fn a_read_that_fails_fails_its_request() {
    for (fault, timeouts, poisoned) in [
        (DmaFault::Refused, 0, 0),
        (DmaFault::CompletionTimeout, 1, 0),
        (DmaFault::Poisoned, 0, 1),
    ] {
        for (number, expected) in [
            (0, CqeStatus::LOCAL_QP_OPERATION),
            (1, CqeStatus::LOCAL_PROTECTION),
        ] {
            let (a, statuses) = fail_read(number, fault, SendOpcode::RDMA_WRITE);
            assert_eq!(statuses, [expected, CqeStatus::WR_FLUSH], "{fault:?}");
            let counters = a.nic.counters();
            assert_eq!(counters.value(Counter::dma_errors), 1);
            assert_eq!(counters.value(Counter::dma_completion_timeouts), timeouts);
            assert_eq!(counters.value(Counter::dma_poisoned), poisoned);
            assert!(status(&a).enabled(), "the function works");
        }
    }
}

/// Goal: a responder whose memory cannot be read refuses the request, whether the read is that of
/// the key or that of the data.
#[test]
fn a_responder_that_cannot_read_refuses() {
    for reads_before in [0, 1] {
        let (mut a, mut b) = connected(PathMtuCode::MTU_1024);
        let remote = Some((REGION_START, b.key));
        for _ in 0..reads_before {
            a.post(SendOpcode::RDMA_READ, remote, a.segment(0, 64));
            run_both(&mut a, &mut b, 20);
            assert_eq!(poll_status(&mut a), Some(CqeStatus::SUCCESS));
        }
        b.host.failing_read = Some((0, DmaFault::Poisoned));
        a.post(SendOpcode::RDMA_READ, remote, a.segment(0, 64));
        run_both(&mut a, &mut b, 20);
        assert_eq!(poll_status(&mut a), Some(CqeStatus::REMOTE_ACCESS));
        assert!(status(&b).enabled(), "the function works");
    }
}

/// Goal: a receive WQE that cannot be read fails both queue pairs, and each side reports it.
#[test]
fn a_receive_that_cannot_be_read_fails_both_sides() {
    let (mut a, mut b) = connected(PathMtuCode::MTU_1024);
    b.post_receive(b.segment(0, LENGTH));
    b.host.failing_read = Some((0, DmaFault::CompletionTimeout));
    a.post(SendOpcode::SEND, None, a.segment(0, 64));
    run_both(&mut a, &mut b, 20);
    assert_eq!(poll_status(&mut a), Some(CqeStatus::REMOTE_OPERATION));
    let event: Eqe = b.host.read(place::EQ);
    assert_eq!(EventType(event.word.event()), EventType::QP_FATAL);
    assert!(status(&b).enabled(), "the function works");
}

/// Goal: a function that cannot read its command queue stops, and reports that.
#[test]
fn a_command_that_cannot_be_read_stops_the_function() {
    let (mut a, _b) = connected(PathMtuCode::MTU_1024);
    a.host.failing_read = Some((0, DmaFault::CompletionTimeout));
    a.nic
        .write32(offset::command_queue_doorbell, a.commands + 1);
    a.run(1);
    assert!(status(&a).fatal());
    let syndrome = a.nic.read32(a.now, offset::fatal_syndrome);
    assert_eq!(syndrome, FatalSyndrome::COMMAND_QUEUE_DMA.0);
    let event: Eqe = a.host.read(place::EQ);
    assert_eq!(EventType(event.word.event()), EventType::DEVICE_FATAL);
}

#[test]
fn a_command_that_hangs_hangs_until_the_reset() {
    let (mut a, _b) = connected(PathMtuCode::MTU_1024);
    let commands = a.nic.counters().value(Counter::commands);
    a.nic.hang_commands();
    let producer = a.nic.read32(a.now, offset::command_queue_consumer) + 1;
    a.nic.write32(offset::command_queue_doorbell, producer);
    a.run(1000);
    assert_eq!(a.nic.counters().value(Counter::commands), commands);
    assert!(status(&a).enabled() && !status(&a).fatal());
    reset(&mut a);
    a.run(1);
    assert!(status(&a).ready());
    assert_eq!(a.nic.read32(a.now, offset::command_queue_consumer), 0);
}

#[test]
fn without_power_nothing_is_written() {
    let (mut a, mut b) = connected(PathMtuCode::MTU_1024);
    a.post(
        SendOpcode::RDMA_WRITE,
        Some((REGION_START, b.key)),
        a.segment(0, LENGTH),
    );
    a.nic.power_off(a.now, &mut a.port);
    let writes = a.host.device_writes;
    run_both(&mut a, &mut b, 20);
    assert_eq!(a.host.device_writes, writes);
    assert!(a.nic.has_stopped() && a.host.interrupts.is_empty());
    reset(&mut a);
    a.run(1);
    assert!(status(&a).ready() && !a.nic.has_stopped());
}

fn reset<T: ferroce_model::time::timing::Timing>(machine: &mut Machine<T>) {
    let mut control = Control::default();
    control.set_reset(true);
    machine.nic.write32(offset::control, control.bits());
}

fn timed_machine(number: u8, port: common::Cable, preset: &Preset) -> Machine<Timed> {
    let config = preset.nic_config(u32::from(number) << 16, [2, 0, 0, 0, 0, number]);
    Machine::around(number, port, Nic::with_timing(config, Timed::new(preset)))
}

/// Two cards of a preset with traffic under way in both directions.
fn busy(preset: &Preset) -> [Machine<Timed>; 2] {
    let (left, right) = cable();
    let mut machines = [
        timed_machine(1, left, preset),
        timed_machine(2, right, preset),
    ];
    let service = ServiceCode::UNRELIABLE_CONNECTED;
    let mut qps: [TestQp; 2] = machines.each_mut().map(|m| m.create_qp(service, |_| ()));
    let gids = machines.each_ref().map(Machine::gid);
    machines[0].bring_to_rts(&qps[0], gids[1], qps[1].qpn);
    machines[1].bring_to_rts(&qps[1], gids[0], qps[0].qpn);
    for (machine, qp) in machines.iter_mut().zip(&mut qps) {
        machine.port.delay = Some(Duration::from_ns(100));
        machine.host.read_latency = Duration::from_ns(400);
        machine.now = Instant::from_us(300);
        for number in 0..MESSAGES {
            let room = machine.segment(LANDING + number * SPACE, LENGTH);
            machine.receive(qp, room);
        }
        machine.data(0, LENGTH as usize).fill(0xa5);
        for _ in 0..MESSAGES {
            let data = [machine.segment(0, LENGTH)];
            let request = Request {
                data: &data,
                ..Request::default()
            };
            machine.send(qp, SendOpcode::SEND, request);
        }
    }
    machines
}

/// Runs both cards from event to event, `turns` times. Returns false at the end of the traffic.
fn run_turns(machines: &mut [Machine<Timed>; 2], turns: usize) -> bool {
    let mut now = machines[0].now.max(machines[1].now);
    for _ in 0..turns {
        for machine in machines.iter_mut() {
            machine.now = now;
            machine.run(0);
        }
        let [a, b] = &*machines;
        let on_cable = !a.port.into.borrow().is_empty() || !b.port.into.borrow().is_empty();
        let next = [a, b].map(|machine| machine.nic.next_timeout(now));
        match next.into_iter().flatten().min() {
            _ if on_cable => {}
            Some(next) => now = now.max(next),
            None => return false,
        }
    }
    true
}

/// Goal: nothing is written to host memory, and no interrupt sent, after a reset is complete.
/// Method: the traffic is reset at many moments, while the peer goes on sending.
#[test]
fn nothing_is_written_after_a_reset() {
    for name in ["fpga-100g", "cx6-200g"] {
        let preset = Preset::load(name).expect("built in");
        let mut resets_amid_writes = 0;
        for turns in (1..MAX_TURNS).step_by(STRIDE) {
            let mut machines = busy(&preset);
            let is_busy = run_turns(&mut machines, turns);
            let (now, written) = (machines[0].now, machines[0].host.device_writes);
            reset(&mut machines[0]);
            machines[0].run(0);
            let status = machines[0].nic.read32(now, offset::status);
            assert!(Status::from_bits(status).ready(), "the reset is complete");
            let before = machines[0].host.device_writes;
            let interrupts = machines[0].host.interrupts.len();
            assert!(
                !run_turns(&mut machines, MAX_TURNS),
                "the peer comes to rest"
            );
            assert_eq!(machines[0].host.device_writes, before, "{name}, {turns}");
            assert_eq!(machines[0].host.interrupts.len(), interrupts);
            resets_amid_writes += usize::from(is_busy && written > 0);
            if !is_busy {
                break;
            }
        }
        assert!(resets_amid_writes > 10, "{name}: {resets_amid_writes}");
    }
}
