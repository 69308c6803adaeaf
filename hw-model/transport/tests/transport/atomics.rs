//! Atomics, SEND with invalidate and local operations, one script each.

use crate::pair::Setup;
use crate::pair::script::{
    FETCH_ADD, ORIGINAL, READ, REMOTE, SEND, Script, WRITE, atomic_eth, request, reth,
};
use CompletionStatus::{LocalLength, LocalProtection, LocalQpOperation, Success, WrFlush};
use ferroce_transport::{
    Access, AtomicOperation, CompletionStatus, Event, LocalKind, MemoryAnswer, MemoryOp, QpState,
    RemoteAccess, SendKind, SendOperation, SendRequest, Step, Transition,
};
use ferroce_transport::{Completion, Config, Destination};
use ferroce_units::{Duration, Instant};
use ferroce_wire::{
    Aeth, AtomicAckEth, AtomicEth, Extension, Ieth, MessageEnd, Msn, NakCode, Operation, Position,
    RKey, SendPart, Syndrome, TransportHeaders,
};

fn script() -> Script {
    Script::new(Setup::default())
}

fn local(kind: LocalKind) -> SendOperation {
    SendOperation::Local(kind)
}

/// Delivers the response to an atomic.
fn result(s: &mut Script, relative: u32, original: u64) -> Step {
    let aeth = Aeth {
        syndrome: Syndrome::ACK_UNLIMITED,
        msn: Msn::new(1),
    };
    let bth = s.response_bth(relative);
    let headers = TransportHeaders::atomic_acknowledge(bth, aeth, AtomicAckEth { original });
    s.handle(&headers, 0)
}

/// Takes the packets that leave: relative PSN and result.
fn results(s: &mut Script) -> Vec<(u32, u64)> {
    let base = s.receive_psn(0);
    s.transmit()
        .iter()
        .map(|packet| match packet.headers.extension {
            Extension::AtomicAck(_, result) => (
                packet.headers.bth.psn.sub(base.value()).value(),
                result.original,
            ),
            other => panic!("{other:?} instead of a result"),
        })
        .collect()
}

// --- requester ---

#[test]
fn an_atomic_is_one_packet_and_its_result_is_written() {
    let mut s = script();
    let swap = SendOperation::CompareSwap {
        remote: REMOTE,
        compare: 7,
        swap: 9,
    };
    s.post(1, swap, 8);
    s.post(2, FETCH_ADD, 64);
    let packets = s.transmit();
    let operands = |packet: usize| match packets[packet].headers.extension {
        Extension::AtomicEth(operands) => operands,
        other => panic!("{other:?}"),
    };
    let expected = AtomicEth {
        virtual_address: REMOTE.virtual_address,
        r_key: REMOTE.r_key,
        swap_or_add: 9,
        compare: 7,
    };
    assert_eq!(operands(0), expected);
    let expected = AtomicEth {
        swap_or_add: 5,
        compare: 0,
        ..expected
    };
    assert_eq!(operands(1), expected);
    assert!(packets.iter().all(|p| p.headers.bth.ack_request));
    for (psn, id) in [(0, 1), (1, 2)] {
        let write = MemoryOp::WriteAtomicResult {
            request: id,
            value: 70 + u64::from(id),
        };
        assert_eq!(result(&mut s, psn, 70 + u64::from(id)), Step::Memory(write));
        assert_eq!(s.answer(MemoryAnswer::Done), Step::Done);
    }
    let kinds: Vec<_> = s
        .completions()
        .into_iter()
        .map(|completion| match completion {
            Completion::Send {
                operation,
                byte_length,
                ..
            } => (operation, byte_length),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(kinds, [(SendKind::CompareSwap, 8), (SendKind::FetchAdd, 8)]);
}

#[test]
fn atomics_and_reads_share_one_limit() {
    let mut s = Script::new(Setup {
        max_rd_atomic: 2,
        ..Setup::default()
    });
    for (id, operation) in [(0, FETCH_ADD), (1, READ), (2, FETCH_ADD), (3, SEND)] {
        s.post(id, operation, 8);
    }
    assert_eq!(s.sent_psns(), [0, 1]);
    let _ = result(&mut s, 0, 1);
    assert_eq!(s.answer(MemoryAnswer::Done), Step::Done);
    assert_eq!(s.sent_psns(), [2, 3]);
}

#[test]
fn a_fence_waits_for_atomics() {
    let mut s = script();
    s.post(0, FETCH_ADD, 8);
    s.post_request(SendRequest {
        fence: true,
        ..request(1, SEND, 4)
    });
    assert_eq!(s.sent_psns(), [0]);
    let _ = result(&mut s, 0, 1);
    assert_eq!(s.answer(MemoryAnswer::Done), Step::Done);
    assert_eq!(s.sent_psns(), [1]);
}

#[test]
fn an_ack_beyond_an_atomic_implies_that_its_result_is_lost() {
    let mut s = script();
    s.post(0, FETCH_ADD, 8);
    s.post(1, SEND, 4);
    assert_eq!(s.sent_psns(), [0, 1]);
    s.ack(1);
    assert_eq!(s.statuses(), []);
    assert_eq!(s.sent_psns(), [0, 1], "both are sent again");
}

#[test]
fn atomics_that_cannot_be_executed() {
    for (length, max_rd_atomic, status) in [(7, 1, LocalLength), (8, 0, LocalQpOperation)] {
        let mut s = Script::new(Setup {
            max_rd_atomic,
            ..Setup::default()
        });
        s.post(0, FETCH_ADD, length);
        assert_eq!(s.statuses(), [(0, status)]);
        assert_eq!(s.qp.state(), QpState::Err);
    }
}

#[test]
fn a_result_that_cannot_be_written_is_a_local_error() {
    let mut s = script();
    s.post(0, FETCH_ADD, 8);
    s.post(1, SEND, 4);
    s.transmit();
    let _ = result(&mut s, 0, 1);
    assert_eq!(s.answer(MemoryAnswer::Failed), Step::Done);
    assert_eq!(s.statuses(), [(0, LocalProtection), (1, WrFlush)]);
}

#[test]
fn a_result_for_a_send_makes_no_sense() {
    let mut s = script();
    s.post(0, SEND, 8);
    s.transmit();
    assert_eq!(result(&mut s, 0, 1), Step::Done);
    assert_eq!(s.statuses(), [(0, CompletionStatus::BadResponse)]);
}

#[test]
fn requests_to_another_queue_pair_are_refused() {
    for destination in [
        Destination::Xrc { srqn: 1 },
        Destination::Datagram {
            qpn: ferroce_wire::Qpn::new(3),
            q_key: ferroce_wire::QKey(1),
        },
    ] {
        let mut s = script();
        s.post_request(SendRequest {
            destination,
            ..request(0, SEND, 4)
        });
        assert_eq!(s.statuses(), [(0, LocalQpOperation)]);
    }
}

// --- responder ---

#[test]
fn an_atomic_is_executed_once_and_answered_as_often_as_asked() {
    let mut s = script();
    let step = s.fetch_add(0, 0x8000, 3);
    let operations = s.execute(step, 0, 0);
    let expected = [
        MemoryOp::Validate {
            r_key: RKey(5),
            virtual_address: 0x8000,
            length: 8,
            access: Access::Atomic,
            srqn: None,
        },
        MemoryOp::Atomic {
            r_key: RKey(5),
            virtual_address: 0x8000,
            operation: AtomicOperation::FetchAdd { add: 3 },
            srqn: None,
        },
    ];
    assert_eq!(operations, expected);
    assert_eq!(results(&mut s), [(0, ORIGINAL)]);
    for _ in 0..3 {
        assert_eq!(s.fetch_add(0, 0x8000, 3), Step::Done);
        assert_eq!(results(&mut s), [(0, ORIGINAL)]);
    }
    assert_eq!(s.fetch_add(0, 0x8000, 4), Step::Done);
    assert_eq!(results(&mut s), [], "that is another one");
    s.good_send(1, 0);
}

#[test]
fn an_old_atomic_is_forgotten_and_then_not_answered() {
    let mut s = Script::new(Setup {
        max_dest_rd_atomic: 1,
        ..Setup::default()
    });
    for psn in 0..2 {
        let step = s.fetch_add(psn, 0x8000, 3);
        s.execute(step, 0, 0);
        assert_eq!(results(&mut s), [(psn, ORIGINAL)]);
    }
    assert_eq!(s.fetch_add(0, 0x8000, 3), Step::Done);
    assert_eq!(results(&mut s), []);
}

#[test]
fn atomics_are_limited_like_reads() {
    let mut s = Script::new(Setup {
        max_dest_rd_atomic: 1,
        ..Setup::default()
    });
    let step = s.read_request(0, reth(4));
    s.execute(step, 0, 0);
    assert_eq!(s.fetch_add(1, 0x8000, 3), Step::Done);
    assert_eq!(s.qp.state(), QpState::Err);
    assert_eq!(s.events(), [Event::RequestError, Event::LastWqeReached]);
}

/// Asserts that the last packet is this NAK, and the queue pair is in ERR.
fn assert_nak(s: &mut Script, psn: u32, code: NakCode) {
    assert_eq!(s.qp.state(), QpState::Err);
    assert_eq!(s.responses(), [(psn, Syndrome::Nak(code))]);
}

#[test]
fn atomics_that_are_refused() {
    let mut s = script();
    assert_eq!(s.fetch_add(0, 0x8004, 3), Step::Done);
    assert_nak(&mut s, 0, NakCode::InvalidRequest);

    let mut s = script();
    let headers = TransportHeaders::fetch_add(s.request_bth(0), atomic_eth(0x8000, 1));
    assert_eq!(s.handle(&headers, 4), Step::Done);
    assert_nak(&mut s, 0, NakCode::InvalidRequest);

    let access = RemoteAccess {
        atomic: false,
        ..Setup::default().access
    };
    let mut s = Script::new(Setup {
        access,
        ..Setup::default()
    });
    assert_eq!(s.fetch_add(0, 0x8000, 3), Step::Done);
    assert_nak(&mut s, 0, NakCode::InvalidRequest);

    for answers in [
        &[MemoryAnswer::Invalid][..],
        &[MemoryAnswer::Valid, MemoryAnswer::Failed],
    ] {
        let mut s = script();
        assert!(matches!(s.fetch_add(0, 0x8000, 3), Step::Memory(_)));
        for answer in answers {
            let _ = s.answer(*answer);
        }
        assert_eq!(s.events(), [Event::AccessError, Event::LastWqeReached]);
        assert_nak(&mut s, 0, NakCode::RemoteAccessError);
    }
}

// --- SEND with invalidate ---

#[test]
fn the_end_of_a_send_carries_the_key() {
    let mut s = script();
    s.post(0, SendOperation::SendInvalidate(RKey(7)), 300);
    s.post(1, SendOperation::SendInvalidate(RKey(8)), 0);
    let packets = s.transmit();
    let keys: Vec<_> = packets.iter().map(|p| p.headers.extension).collect();
    let ieth = |key| Extension::Invalidate(Ieth { r_key: RKey(key) });
    assert_eq!(keys, [Extension::None, ieth(7), ieth(8)]);
    assert_eq!(s.sent(), []);
}

fn send_invalidate(s: &mut Script, relative: u32, end: MessageEnd, length: u32) -> Step {
    let ieth = Ieth { r_key: RKey(7) };
    let headers = TransportHeaders::send_invalidate(s.request_bth(relative), end, ieth);
    s.handle(&headers, length)
}

#[test]
fn a_key_is_invalidated_after_the_payload_and_before_the_completion() {
    let mut s = script();
    let step = s.send_part(0, SendPart::First, 256);
    s.execute(step, 3, 600);
    let step = send_invalidate(&mut s, 1, MessageEnd::Last, 4);
    let operations = s.execute(step, 3, 600);
    assert!(matches!(operations[0], MemoryOp::WriteReceive { .. }));
    let invalidate = MemoryOp::Invalidate {
        r_key: RKey(7),
        srqn: None,
    };
    assert_eq!(operations[1], invalidate);
    let [
        Completion::Receive {
            invalidated,
            byte_length: 260,
            status: Success,
            ..
        },
    ] = s.completions()[..]
    else {
        panic!("one receive completes");
    };
    assert_eq!(invalidated, Some(RKey(7)));
}

#[test]
fn a_key_that_cannot_be_invalidated_ends_the_queue_pair() {
    let mut s = script();
    let step = send_invalidate(&mut s, 0, MessageEnd::Only, 0);
    assert_eq!(step, Step::Memory(MemoryOp::TakeReceive));
    let step = s.answer(MemoryAnswer::Receive { id: 1, capacity: 9 });
    assert!(matches!(step, Step::Memory(MemoryOp::Invalidate { .. })));
    assert_eq!(s.answer(MemoryAnswer::Failed), Step::Done);
    let failed = CompletionStatus::RemoteInvalidRequest;
    assert_eq!(s.statuses(), [(1, failed)]);
    assert_eq!(s.qp.state(), QpState::Err);
    // Class J: only this side reports it.
    assert_eq!(s.responses(), []);
    assert_eq!(s.events(), [Event::LastWqeReached]);
}

/// Goal: requests executed before the failing SEND are acknowledged, also in the middle of a
/// message.
#[test]
fn what_comes_before_a_key_that_cannot_be_invalidated_is_acknowledged() {
    let mut s = Script::new(Setup {
        config: Config {
            ack_coalesce: 8,
            ..Config::default()
        },
        ..Setup::default()
    });
    s.good_send(0, 0);
    let step = s.send_part(1, SendPart::First, 256);
    s.execute(step, 3, 600);
    let step = send_invalidate(&mut s, 2, MessageEnd::Last, 4);
    assert!(matches!(step, Step::Memory(MemoryOp::WriteReceive { .. })));
    let step = s.answer(MemoryAnswer::Done);
    assert!(matches!(step, Step::Memory(MemoryOp::Invalidate { .. })));
    assert_eq!(s.answer(MemoryAnswer::Failed), Step::Done);
    assert_eq!(s.qp.state(), QpState::Err);
    assert_eq!(s.responses(), [(1, Syndrome::ACK_UNLIMITED)]);
}

// --- local operations ---

#[test]
fn a_local_operation_keeps_its_place() {
    let mut s = script();
    s.post(0, SEND, 4);
    s.post(1, local(LocalKind::Bind), 0);
    s.post(2, SEND, 4);
    assert!(!s.qp.has_local(), "the SEND before it has not been sent");
    assert_eq!(
        s.sent(),
        [(Operation::Send, Position::Only, 0, true, 4)],
        "it requests an acknowledge, because no later packet will"
    );
    assert!(s.qp.has_local());
    assert_eq!(s.qp.poll_local(), Some(1));
    assert_eq!(s.qp.poll_local(), None);
    assert_eq!(s.sent(), [], "later packets wait");
    s.qp.finish_local(s.now, 7, Ok(()));
    assert_eq!(s.sent(), [], "that was another one");
    s.qp.finish_local(s.now, 1, Ok(()));
    assert_eq!(s.sent_psns(), [1]);
    assert_eq!(s.statuses(), [], "it completes in order");
    s.ack(1);
    assert_eq!(s.statuses(), [(0, Success), (1, Success), (2, Success)]);
}

#[test]
fn a_retry_does_not_repeat_a_local_operation() {
    let mut s = script();
    s.post(0, SEND, 4);
    s.post(1, local(LocalKind::Nop), 0);
    s.post(2, local(LocalKind::Bind), 0);
    s.post(3, SEND, 4);
    s.transmit();
    for id in [1, 2] {
        assert_eq!(s.qp.poll_local(), Some(id));
        s.qp.finish_local(s.now, id, Ok(()));
    }
    assert_eq!(s.sent_psns(), [1]);
    s.expire();
    assert_eq!(s.sent_psns(), [0, 1]);
    assert!(!s.qp.has_local());
    s.ack(0);
    assert_eq!(s.statuses(), [(0, Success), (1, Success), (2, Success)]);
}

#[test]
fn an_invalidation_waits_until_earlier_requests_have_completed() {
    let mut s = script();
    s.post(0, WRITE, 4);
    s.post(1, local(LocalKind::Invalidate), 0);
    s.transmit();
    assert!(!s.qp.has_local(), "the WRITE may have to be sent again");
    s.ack(0);
    assert_eq!(s.qp.poll_local(), Some(1));
    s.qp.finish_local(s.now, 1, Ok(()));
    assert_eq!(s.statuses(), [(0, Success), (1, Success)]);
}

#[test]
fn a_fence_holds_local_operations_too() {
    let mut s = script();
    s.post(0, READ, 4);
    s.post_request(SendRequest {
        fence: true,
        ..request(1, local(LocalKind::Bind), 0)
    });
    s.transmit();
    assert!(!s.qp.has_local());
    s.good_read_response(0, Position::Only, 4);
    assert!(s.qp.has_local());
}

#[test]
fn a_local_operation_that_fails_ends_the_queue_pair_in_order() {
    let mut s = script();
    s.post(0, SEND, 4);
    s.post(1, local(LocalKind::Bind), 0);
    s.post(2, SEND, 4);
    s.transmit();
    let id = s.qp.poll_local().expect("it is next in order");
    s.qp.finish_local(s.now, id, Err(CompletionStatus::WindowBind));
    assert_eq!(s.statuses(), []);
    s.ack(0);
    let expected = [
        (0, Success),
        (1, CompletionStatus::WindowBind),
        (2, WrFlush),
    ];
    assert_eq!(s.statuses(), expected);
    assert_eq!(s.qp.state(), QpState::Err);
}

#[test]
fn a_drain_waits_for_a_local_operation_that_was_begun() {
    let mut s = script();
    s.post(0, local(LocalKind::Nop), 0);
    s.post(1, local(LocalKind::Nop), 0);
    assert_eq!(s.qp.poll_local(), Some(0));
    let drain = Transition::Drain { notify: true };
    s.qp.modify(s.now, drain).expect("a drain is legal");
    assert!(s.qp.is_draining());
    s.qp.finish_local(s.now, 0, Ok(()));
    assert_eq!(s.events(), [Event::SqDrained]);
    assert!(!s.qp.has_local(), "the next one waits for RTS");
    let resume = Transition::Resume(Default::default());
    s.qp.modify(s.now, resume).expect("so is its end");
    assert_eq!(s.qp.poll_local(), Some(1));
    s.qp.modify(s.now, Transition::Err).expect("ERR is legal");
    s.qp.finish_local(s.now, 1, Ok(()));
    assert_eq!(s.statuses(), [(0, Success), (1, WrFlush)]);
}

// --- timer ---

#[test]
fn the_timer_waits_for_a_multiple_of_the_timeout() {
    let timeout = Duration::from_ns(4096 << 4);
    for (multiple, expected) in [(0, 1), (1, 1), (3, 3), (4, 4), (9, 4)] {
        let mut s = Script::new(Setup {
            timeout: 4,
            config: Config {
                local_ack_timeout_multiple: multiple,
                ..Config::default()
            },
            ..Setup::default()
        });
        s.post(0, SEND, 4);
        s.transmit();
        let expected = Instant::ZERO + Duration(timeout.as_ps() * expected);
        assert_eq!(s.qp.next_timeout(), Some(expected));
    }
}
