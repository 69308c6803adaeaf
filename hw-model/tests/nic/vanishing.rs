//! A region that is destroyed while its bytes are on the way: the request that meets it fails with
//! the status that says whose region it was, and the rest is flushed, without a time-out.

use crate::common::{Machine, REGION_START, all_rights, connected};
use ferroce_spec::command::CommandOpcode;
use ferroce_spec::context::PathMtuCode;
use ferroce_spec::counter::Counter;
use ferroce_spec::cqe::CqeStatus;
use ferroce_spec::wqe::{DataSegment, SendOpcode};

/// Requests of a run.
const REQUESTS: u64 = 6;
/// Bytes of each: in all more packets than the cable holds, so that some wait for it.
const LENGTH: u32 = 30_000;
/// Bytes from one to the next.
const SPACE: u64 = 1 << 16;
/// Steps after which a run has come to its end, far from a local ACK timeout.
const TURNS: usize = 200;
/// More steps than a run takes.
const MAX_STEPS: usize = 100;

/// The side whose region is removed.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Side {
    Requester,
    Responder,
}

/// Runs six requests between separate regions, of which one is removed after `steps`. Returns the
/// statuses of the requests, and of the receives.
fn run(opcode: SendOpcode, side: Side, steps: usize) -> [Vec<CqeStatus>; 2] {
    let (mut a, mut b) = connected(PathMtuCode::MTU_1024);
    let own = a.create_region(all_rights()).expect("room");
    let remote = b.create_region(all_rights()).expect("room");
    for number in 0..REQUESTS {
        let address = REGION_START + number * SPACE;
        let segment = |l_key| DataSegment {
            address,
            length: LENGTH,
            l_key,
        };
        b.post_receive(segment(remote));
        let place = (opcode != SendOpcode::SEND).then_some((address, remote));
        a.post(opcode, place, segment(own));
    }
    for _ in 0..steps {
        step(&mut a, &mut b);
    }
    let (machine, key) = match side {
        Side::Requester => (&mut a, own),
        Side::Responder => (&mut b, remote),
    };
    machine
        .command(CommandOpcode::DESTROY_MR, u64::from(key), &[0u8; 0])
        .expect("it exists");
    (0..TURNS).for_each(|_| step(&mut a, &mut b));
    for machine in [&a, &b] {
        let timeouts = machine.nic.counters().value(Counter::local_ack_timeouts);
        assert_eq!(timeouts, 0, "{opcode:?} {side:?} {steps}");
    }
    [statuses(&mut a), statuses(&mut b)]
}

fn step(a: &mut Machine, b: &mut Machine) {
    a.run(10);
    b.run(10);
}

fn statuses(machine: &mut Machine) -> Vec<CqeStatus> {
    std::iter::from_fn(|| machine.poll())
        .map(|cqe| CqeStatus(cqe.word.status()))
        .collect()
}

/// Lets the region go after each step in turn, until it goes too late to be missed.
fn at_every_step(opcode: SendOpcode, side: Side, status: CqeStatus, received: Option<CqeStatus>) {
    for steps in 0..MAX_STEPS {
        let what = format!("{opcode:?} {side:?} {steps}");
        let [sent, receives] = run(opcode, side, steps);
        assert_eq!(sent.len(), REQUESTS as usize, "{what}");
        let good = sent
            .iter()
            .take_while(|s| **s == CqeStatus::SUCCESS)
            .count();
        if good == sent.len() {
            assert!(steps > 0, "{what}: it was never missed");
            return;
        }
        assert_eq!(sent[good], status, "{what}");
        let rest = &sent[good + 1..];
        assert!(
            rest.iter().all(|s| *s == CqeStatus::WR_FLUSH),
            "{what}: {sent:?}"
        );
        if let Some(received) = received {
            let failed = receives.iter().find(|s| **s != CqeStatus::SUCCESS);
            assert_eq!(failed, Some(&received), "{what}");
        }
    }
    panic!("{opcode:?} {side:?}: the run takes more than {MAX_STEPS} steps");
}

#[test]
fn region_of_the_responder_is_removed() {
    for (opcode, status, received) in [
        (SendOpcode::RDMA_READ, CqeStatus::REMOTE_ACCESS, None),
        (SendOpcode::RDMA_WRITE, CqeStatus::REMOTE_ACCESS, None),
        (
            SendOpcode::SEND,
            CqeStatus::REMOTE_OPERATION,
            Some(CqeStatus::LOCAL_PROTECTION),
        ),
    ] {
        at_every_step(opcode, Side::Responder, status, received);
    }
}

#[test]
fn region_of_the_requester_is_removed() {
    for opcode in [
        SendOpcode::RDMA_READ,
        SendOpcode::RDMA_WRITE,
        SendOpcode::SEND,
    ] {
        at_every_step(opcode, Side::Requester, CqeStatus::LOCAL_PROTECTION, None);
    }
}

/// A request behind one that cannot be gathered is flushed, and none of it leaves.
#[test]
fn nothing_leaves_behind_a_packet_that_cannot_be_gathered() {
    let (mut a, mut b) = connected(PathMtuCode::MTU_1024);
    for opcode in [SendOpcode::RDMA_WRITE, SendOpcode::SEND] {
        b.post_receive(b.segment(0, 64));
        let (remote, mut segment) = match opcode {
            SendOpcode::SEND => (None, a.segment(0, 64)),
            _ => (Some((REGION_START, b.key)), a.segment(0, 64)),
        };
        if opcode == SendOpcode::RDMA_WRITE {
            segment.l_key ^= 1;
        }
        a.post(opcode, remote, segment);
    }
    (0..10).for_each(|_| step(&mut a, &mut b));
    let sent = [CqeStatus::LOCAL_PROTECTION, CqeStatus::WR_FLUSH];
    assert_eq!(statuses(&mut a), sent);
    assert_eq!(a.nic.counters().value(Counter::tx_frames), 0);
    assert_eq!(statuses(&mut b), []);
}
