//! Rules of the responder, one script each.

use crate::pair::Setup;
use crate::pair::script::{IMMEDIATE, SEND, Script, WRITE, reth};
use ferroce_transport::{
    Access, Completion, CompletionStatus, Config, Event, MAX_MESSAGE_LENGTH, MemoryAnswer,
    MemoryOp, Note, Payload, QpState, ReceiveKind, RemoteAccess, Step,
};
use ferroce_units::Duration;
use ferroce_wire::Reth;
use ferroce_wire::{
    Aeth, Bth, CreditCount, Extension, NakCode, Opcode, Operation, PKey, Position, RKey, RnrTimer,
    SendPart, Syndrome, TransportHeaders, WritePart,
};

const ACK: Syndrome = Syndrome::ACK_UNLIMITED;

fn script() -> Script {
    Script::new(Setup::default())
}

fn nak(code: NakCode) -> Syndrome {
    Syndrome::Nak(code)
}

/// Asserts that the request ends the queue pair with this NAK, after which nothing is sent.
fn assert_refused(s: &mut Script, psn: u32, code: NakCode) {
    assert_eq!(s.qp.state(), QpState::Err);
    assert!(s.qp.has_transmit());
    assert_eq!(s.responses(), [(psn, nak(code))]);
    assert!(!s.qp.has_transmit());
}

#[test]
fn a_send_takes_a_receive_and_writes_into_it() {
    let mut s = script();
    let step = s.send_part(0, SendPart::First, 256);
    assert_eq!(step, Step::Memory(MemoryOp::TakeReceive));
    let operations = s.execute(step, 5, 300);
    assert_eq!(
        operations[1],
        MemoryOp::WriteReceive {
            receive: 5,
            offset: 0,
            length: 256
        }
    );
    let step = s.send_part(1, SendPart::LastImmediate(IMMEDIATE), 44);
    assert_eq!(
        s.execute(step, 6, 0),
        [MemoryOp::WriteReceive {
            receive: 5,
            offset: 256,
            length: 44
        }]
    );
    assert_eq!(
        s.completions(),
        [Completion::Receive {
            receive: 5,
            status: CompletionStatus::Success,
            operation: ReceiveKind::Send,
            byte_length: 300,
            immediate: Some(IMMEDIATE),
            solicited: false,
            invalidated: None,
            source: None,
            with_grh: false,
            srqn: None,
        }]
    );
    assert_eq!(s.responses(), [(1, ACK)]);
    assert_eq!(s.qp.msn().value(), 1);
}

#[test]
fn a_write_is_validated_once_and_takes_no_receive() {
    let mut s = script();
    let step = s.write_part(0, WritePart::First(reth(300)), 256);
    let operations = s.execute(step, 0, 0);
    assert_eq!(
        operations,
        [
            MemoryOp::Validate {
                r_key: RKey(5),
                virtual_address: 0x8000,
                length: 300,
                access: Access::Write,
                srqn: None
            },
            MemoryOp::WriteRemote {
                r_key: RKey(5),
                virtual_address: 0x8000,
                length: 256,
                srqn: None
            },
        ]
    );
    let step = s.write_part(1, WritePart::Last, 44);
    assert_eq!(
        s.execute(step, 0, 0),
        [MemoryOp::WriteRemote {
            r_key: RKey(5),
            virtual_address: 0x8100,
            length: 44,
            srqn: None
        }]
    );
    assert_eq!(s.completions(), []);
}

#[test]
fn a_write_with_immediate_takes_its_receive_with_the_last_packet() {
    let mut s = script();
    let step = s.write_part(0, WritePart::First(reth(300)), 256);
    assert_eq!(s.execute(step, 0, 0).len(), 2);
    let step = s.write_part(1, WritePart::LastImmediate(IMMEDIATE), 44);
    assert_eq!(step, Step::Memory(MemoryOp::TakeReceive));
    s.execute(step, 9, 0);
    let [
        Completion::Receive {
            receive,
            operation,
            byte_length,
            immediate,
            ..
        },
    ] = s.completions()[..]
    else {
        panic!("one receive completes")
    };
    assert_eq!((receive, byte_length, immediate), (9, 300, Some(IMMEDIATE)));
    assert_eq!(operation, ReceiveKind::RdmaWriteImmediate);
}

#[test]
fn nothing_is_validated_for_a_message_of_no_bytes() {
    let mut s = script();
    assert_eq!(s.write_part(0, WritePart::Only(reth(0)), 0), Step::Done);
    assert_eq!(s.read_request(1, reth(0)), Step::Done);
    let step = s.send_part(2, SendPart::Only, 0);
    assert_eq!(s.execute(step, 0, 0), [MemoryOp::TakeReceive]);
    assert_eq!(s.qp.msn().value(), 3);
}

#[test]
fn no_receive_is_an_rnr_nak_and_what_follows_is_dropped() {
    let mut s = Script::new(Setup {
        rnr_timer: 14,
        ..Setup::default()
    });
    s.good_send(0, 0);
    let step = s.send_part(1, SendPart::Only, 4);
    assert_eq!(step, Step::Memory(MemoryOp::TakeReceive));
    assert_eq!(s.answer(MemoryAnswer::NoReceive), Step::Done);
    assert_eq!(s.send_part(2, SendPart::Only, 4), Step::Done);
    let rnr = Syndrome::RnrNak {
        timer: RnrTimer::new(14),
    };
    assert_eq!(s.responses(), [(1, rnr)], "it also acknowledges 0");
    s.good_send(1, 1);
    s.good_send(2, 2);
    assert_eq!(s.responses(), [(2, ACK)]);
    assert_eq!(s.statuses().len(), 3);
}

#[test]
fn an_rnr_nak_in_the_middle_of_a_write_keeps_its_place() {
    let mut s = script();
    let step = s.write_part(0, WritePart::First(reth(300)), 256);
    s.execute(step, 0, 0);
    assert!(matches!(
        s.write_part(1, WritePart::LastImmediate(IMMEDIATE), 44),
        Step::Memory(MemoryOp::TakeReceive)
    ));
    assert_eq!(s.answer(MemoryAnswer::NoReceive), Step::Done);
    s.responses();
    let step = s.write_part(1, WritePart::LastImmediate(IMMEDIATE), 44);
    assert_eq!(s.execute(step, 3, 0).len(), 2);
    assert_eq!(s.statuses(), [(3, CompletionStatus::Success)]);
}

#[test]
fn a_page_that_is_not_present_is_an_rnr_nak_and_keeps_the_receive() {
    let mut s = script();
    let step = s.send_part(0, SendPart::First, 256);
    assert_eq!(step, Step::Memory(MemoryOp::TakeReceive));
    let taken = MemoryAnswer::Receive {
        id: 4,
        capacity: 300,
    };
    let write = |offset, length| {
        Step::Memory(MemoryOp::WriteReceive {
            receive: 4,
            offset,
            length,
        })
    };
    assert_eq!(s.answer(taken), write(0, 256));
    assert_eq!(s.answer(MemoryAnswer::NotPresent), Step::Done);
    let [(0, Syndrome::RnrNak { .. })] = s.responses()[..] else {
        panic!("an RNR NAK")
    };
    assert_eq!(s.send_part(0, SendPart::First, 256), write(0, 256));
    assert_eq!(s.answer(MemoryAnswer::Done), Step::Done);
    assert_eq!(s.send_part(1, SendPart::Last, 44), write(256, 44));
    assert_eq!(s.answer(MemoryAnswer::NotPresent), Step::Done);
    assert_eq!(s.send_part(1, SendPart::Last, 44), write(256, 44));
    assert_eq!(s.answer(MemoryAnswer::Done), Step::Done);
    assert_eq!(s.statuses(), [(4, CompletionStatus::Success)]);
}

#[test]
fn a_gap_is_reported_once() {
    let mut s = script();
    s.good_send(0, 0);
    s.responses();
    assert_eq!(s.send_part(2, SendPart::Only, 4), Step::Done);
    assert_eq!(s.send_part(3, SendPart::Only, 4), Step::Done);
    assert_eq!(s.responses(), [(1, nak(NakCode::PsnSequenceError))]);
    assert_eq!(s.send_part(4, SendPart::Only, 4), Step::Done);
    assert_eq!(s.responses(), []);
    s.good_send(1, 1);
    assert_eq!(s.responses(), [(1, ACK)]);
    assert_eq!(s.send_part(3, SendPart::Only, 4), Step::Done);
    assert_eq!(
        s.responses(),
        [(2, nak(NakCode::PsnSequenceError))],
        "a new gap"
    );
}

/// Goal: a first PSN that is not the expected one is noted; lost packets are not. Method: packets
/// before the expected one, far after it, again and again a little after it, and after an RNR NAK.
#[test]
fn a_peer_that_begins_with_another_psn_is_noted() {
    let noted = |relative: u32| {
        let mut s = script();
        assert_eq!(s.send_part(relative, SendPart::Only, 4), Step::Done);
        let (came, expected) = (s.receive_psn(relative), s.receive_psn(0));
        let note = Note::FirstPsn { came, expected };
        (s.qp.take_note() == Some(note), s)
    };
    assert!(noted(0xff_ffff).0, "a PSN before");
    assert!(noted(0x10_0000).0, "far after");
    let (is_noted, mut s) = noted(1);
    assert!(!is_noted, "the first packet may be lost");
    for (psn, is_third) in [(2, false), (1, false), (2, false), (1, true)] {
        assert_eq!(s.send_part(psn, SendPart::Only, 4), Step::Done);
        assert_eq!(s.qp.take_note().is_some(), is_third);
    }
    let mut s = script();
    let step = s.send_part(0, SendPart::Only, 4);
    assert_eq!(step, Step::Memory(MemoryOp::TakeReceive));
    assert_eq!(s.answer(MemoryAnswer::NoReceive), Step::Done);
    assert_eq!(s.qp.take_note(), Some(Note::NotReady));
    for _ in 0..4 {
        assert_eq!(s.send_part(1, SendPart::Only, 4), Step::Done);
        assert_eq!(s.qp.take_note(), None, "the first packet has come");
    }
}

#[test]
fn a_nak_is_withdrawn_if_the_packet_comes_before_it_left() {
    let mut s = script();
    assert_eq!(s.send_part(1, SendPart::Only, 4), Step::Done);
    s.good_send(0, 0);
    assert_eq!(s.responses(), [(0, ACK)]);
}

#[test]
fn duplicates_are_acknowledged_up_to_the_newest_and_not_executed() {
    let mut s = script();
    for psn in 0..3 {
        s.good_send(psn, psn);
    }
    s.responses();
    s.completions();
    assert_eq!(s.send_part(0, SendPart::Only, 4), Step::Done);
    assert_eq!(s.write_part(1, WritePart::Only(reth(4)), 4), Step::Done);
    assert_eq!(s.responses(), [(2, ACK)]);
    assert_eq!(s.completions(), []);
    assert_eq!(s.qp.msn().value(), 3);
}

#[test]
fn half_of_the_circle_is_duplicate() {
    let mut s = script();
    s.good_send(0, 0);
    s.responses();
    assert_eq!(s.send_part(0x80_0001, SendPart::Only, 4), Step::Done);
    assert_eq!(s.responses(), [(0, ACK)], "2^23 back");
    assert_eq!(s.send_part(0x80_0000, SendPart::Only, 4), Step::Done);
    assert_eq!(
        s.responses(),
        [(1, nak(NakCode::PsnSequenceError))],
        "2^23 - 1 ahead"
    );
}

#[test]
fn a_read_is_answered_and_answered_again() {
    let mut s = script();
    s.good_send(0, 0);
    let step = s.read_request(1, reth(600));
    let validate = MemoryOp::Validate {
        r_key: RKey(5),
        virtual_address: 0x8000,
        length: 600,
        access: Access::Read,
        srqn: None,
    };
    assert_eq!(s.execute(step, 0, 0), [validate]);
    let step = s.write_part(4, WritePart::Only(reth(4)), 4);
    s.execute(step, 0, 0);
    let packets = s.transmit();
    let seen: Vec<_> = packets
        .iter()
        .map(|packet| packet.headers.bth.psn)
        .collect();
    let expected: Vec<_> = (1..=4).map(|psn| s.receive_psn(psn)).collect();
    assert_eq!(
        seen, expected,
        "the response acknowledges 0; the ACK of 4 comes after it"
    );
    assert_eq!(
        packets[2].payload,
        Payload::ReadResponse {
            r_key: RKey(5),
            virtual_address: 0x8200,
            length: 88,
            srqn: None
        }
    );
    // Its second half again.
    let half = Reth {
        virtual_address: 0x8100,
        dma_length: 344,
        ..reth(0)
    };
    assert_eq!(s.read_request(2, half), Step::Done);
    let again = s.transmit();
    assert_eq!(again.len(), 2);
    let known = again[0]
        .headers
        .bth
        .opcode
        .parse()
        .expect("a READ response");
    assert_eq!(known.position, Position::First, "a separate response");
    assert_eq!(again[1].payload, packets[2].payload);
    assert_eq!(s.qp.msn().value(), 3);
}

#[test]
fn the_ack_of_a_duplicate_does_not_overtake_read_responses() {
    let mut s = script();
    s.good_send(0, 0);
    let step = s.read_request(1, reth(4));
    s.execute(step, 0, 0);
    s.good_send(2, 1);
    s.transmit();
    // The responses are lost: everything is sent again.
    assert_eq!(s.send_part(0, SendPart::Only, 4), Step::Done);
    assert_eq!(s.read_request(1, reth(4)), Step::Done);
    assert_eq!(s.send_part(2, SendPart::Only, 4), Step::Done);
    assert_eq!(s.responses(), [(0, ACK), (1, ACK), (2, ACK)]);
}

#[test]
fn a_read_response_stands_for_the_ack_before_it() {
    let mut s = script();
    s.good_send(0, 0);
    let step = s.read_request(1, reth(4));
    s.execute(step, 0, 0);
    assert_eq!(s.responses(), [(1, ACK)]);
}

#[test]
fn of_two_duplicates_the_earlier_one_is_acknowledged_first() {
    let mut s = script();
    for psn in [0, 2] {
        s.good_send(psn, psn);
        let step = s.read_request(psn + 1, reth(4));
        s.execute(step, 0, 0);
    }
    s.transmit();
    for psn in [0, 2] {
        assert_eq!(s.send_part(psn, SendPart::Only, 4), Step::Done);
        assert_eq!(s.read_request(psn + 1, reth(4)), Step::Done);
    }
    assert_eq!(s.responses(), [(0, ACK), (1, ACK), (3, ACK)]);
}

#[test]
fn more_reads_than_agreed_are_invalid() {
    let mut s = Script::new(Setup {
        max_dest_rd_atomic: 2,
        ..Setup::default()
    });
    for psn in 0..2 {
        let step = s.read_request(psn, reth(4));
        s.execute(step, 0, 0);
    }
    assert_eq!(s.read_request(2, reth(4)), Step::Done);
    assert_eq!(s.events(), [Event::RequestError, Event::LastWqeReached]);
    assert_eq!(s.qp.state(), QpState::Err);
    let code = nak(NakCode::InvalidRequest);
    assert_eq!(
        s.responses(),
        [(0, ACK), (1, ACK), (2, code)],
        "the first two are answered"
    );
}

#[test]
fn a_wrong_key_is_a_remote_access_error() {
    let mut s = script();
    let step = s.write_part(0, WritePart::Only(reth(4)), 4);
    assert!(matches!(step, Step::Memory(MemoryOp::Validate { .. })));
    assert_eq!(s.answer(MemoryAnswer::Invalid), Step::Done);
    assert_eq!(s.events(), [Event::AccessError, Event::LastWqeReached]);
    assert_refused(&mut s, 0, NakCode::RemoteAccessError);
    // In ERR nothing is answered.
    assert_eq!(s.send_part(1, SendPart::Only, 4), Step::Done);
    assert_eq!(s.responses(), []);
}

#[test]
fn a_receive_that_is_in_use_reports_why() {
    let mut s = script();
    let step = s.write_part(0, WritePart::OnlyImmediate(reth(4), IMMEDIATE), 4);
    assert_eq!(step, Step::Memory(MemoryOp::TakeReceive));
    assert!(matches!(
        s.answer(MemoryAnswer::Receive { id: 4, capacity: 0 }),
        Step::Memory(MemoryOp::Validate { .. })
    ));
    assert_eq!(s.answer(MemoryAnswer::Invalid), Step::Done);
    assert_eq!(s.statuses(), [(4, CompletionStatus::LocalAccess)]);
    assert_eq!(s.events(), [Event::LastWqeReached]);
    assert_refused(&mut s, 0, NakCode::RemoteAccessError);
}

#[test]
fn operations_that_the_qp_was_not_opened_for_are_invalid() {
    let closed = Setup {
        access: RemoteAccess::default(),
        ..Setup::default()
    };
    let mut s = Script::new(closed);
    assert_eq!(s.write_part(0, WritePart::Only(reth(4)), 4), Step::Done);
    assert_refused(&mut s, 0, NakCode::InvalidRequest);
    let mut s = Script::new(closed);
    assert_eq!(s.read_request(0, reth(4)), Step::Done);
    assert_refused(&mut s, 0, NakCode::InvalidRequest);
    let mut s = Script::new(closed);
    s.good_send(0, 0);
}

#[test]
fn packets_out_of_opcode_sequence_are_invalid() {
    type Play = fn(&mut Script, u32) -> Step;
    let middle: Play = |s, psn| s.send_part(psn, SendPart::Middle, 256);
    let last: Play = |s, psn| s.write_part(psn, WritePart::Last, 4);
    let only: Play = |s, psn| s.send_part(psn, SendPart::Only, 4);
    let read: Play = |s, psn| s.read_request(psn, reth(4));
    for play in [middle, last] {
        let mut s = script();
        assert_eq!(play(&mut s, 0), Step::Done);
        assert_eq!(s.events(), [Event::RequestError, Event::LastWqeReached]);
        assert_refused(&mut s, 0, NakCode::InvalidRequest);
    }
    for play in [last, only, read] {
        let mut s = script();
        let step = s.send_part(0, SendPart::First, 256);
        s.execute(step, 8, 4096);
        assert_eq!(play(&mut s, 1), Step::Done);
        assert_eq!(s.statuses(), [(8, CompletionStatus::RemoteInvalidRequest)]);
        assert_refused(&mut s, 1, NakCode::InvalidRequest);
    }
}

#[test]
fn packets_of_the_wrong_length_are_invalid() {
    let parts = [
        (SendPart::First, 255),
        (SendPart::First, 257),
        (SendPart::Only, 257),
        (SendPart::First, 0),
    ];
    for (part, length) in parts {
        let mut s = script();
        let step = s.send_part(0, part, length);
        s.execute(step, 3, 4096);
        assert_eq!(s.statuses(), [(3, CompletionStatus::RemoteInvalidRequest)]);
        assert_refused(&mut s, 0, NakCode::InvalidRequest);
    }
    for (part, length) in [
        (SendPart::Middle, 100),
        (SendPart::Last, 0),
        (SendPart::Last, 257),
    ] {
        let mut s = script();
        let step = s.send_part(0, SendPart::First, 256);
        s.execute(step, 3, 4096);
        assert_eq!(s.send_part(1, part, length), Step::Done);
        assert_refused(&mut s, 1, NakCode::InvalidRequest);
    }
}

#[test]
fn a_write_must_be_as_long_as_it_announced() {
    let parts = [
        (WritePart::Only(reth(5)), 4),
        (WritePart::Only(reth(3)), 4),
        (WritePart::First(reth(256)), 256),
        (WritePart::First(reth(MAX_MESSAGE_LENGTH + 1)), 256),
    ];
    for (part, length) in parts {
        let mut s = script();
        assert_eq!(s.write_part(0, part, length), Step::Done);
        assert_refused(&mut s, 0, NakCode::InvalidRequest);
    }
    for (part, length) in [
        (WritePart::Last, 43),
        (WritePart::Last, 45),
        (WritePart::Middle, 256),
    ] {
        let mut s = script();
        let step = s.write_part(0, WritePart::First(reth(300)), 256);
        s.execute(step, 0, 0);
        assert_eq!(s.write_part(1, part, length), Step::Done);
        assert_refused(&mut s, 1, NakCode::InvalidRequest);
    }
    let mut s = script();
    assert_eq!(s.read_request(0, reth(MAX_MESSAGE_LENGTH + 1)), Step::Done);
    assert_refused(&mut s, 0, NakCode::InvalidRequest);
}

#[test]
fn a_send_longer_than_its_receive_is_a_length_error() {
    let mut s = script();
    let step = s.send_part(0, SendPart::First, 256);
    s.execute(step, 3, 299);
    assert_eq!(s.send_part(1, SendPart::Last, 44), Step::Done);
    assert_eq!(s.statuses(), [(3, CompletionStatus::LocalLength)]);
    assert_eq!(s.events(), [Event::LastWqeReached]);
    assert_refused(&mut s, 1, NakCode::InvalidRequest);
}

#[test]
fn local_failures_are_remote_operational_errors() {
    let mut s = script();
    let step = s.send_part(0, SendPart::Only, 4);
    assert_eq!(step, Step::Memory(MemoryOp::TakeReceive));
    assert!(matches!(
        s.answer(MemoryAnswer::Receive { id: 1, capacity: 4 }),
        Step::Memory(MemoryOp::WriteReceive { .. })
    ));
    assert_eq!(s.answer(MemoryAnswer::Failed), Step::Done);
    assert_eq!(s.statuses(), [(1, CompletionStatus::LocalProtection)]);
    assert_refused(&mut s, 0, NakCode::RemoteOperationalError);

    let mut s = script();
    let _ = s.send_part(0, SendPart::Only, 4);
    assert_eq!(s.answer(MemoryAnswer::ReceiveError), Step::Done);
    assert_eq!(s.events(), [Event::Fatal, Event::LastWqeReached]);
    assert_refused(&mut s, 0, NakCode::RemoteOperationalError);

    let mut s = script();
    let step = s.write_part(0, WritePart::Only(reth(4)), 4);
    assert!(matches!(step, Step::Memory(_)));
    assert!(matches!(s.answer(MemoryAnswer::Valid), Step::Memory(_)));
    assert_eq!(s.answer(MemoryAnswer::Failed), Step::Done);
    assert_refused(&mut s, 0, NakCode::RemoteAccessError);
}

#[test]
fn a_read_response_that_cannot_be_gathered_becomes_a_nak() {
    let mut s = script();
    for psn in [0, 2] {
        let step = s.read_request(psn, reth(300));
        s.execute(step, 0, 0);
    }
    let packet = s.qp.poll_transmit(s.now).expect("the first response");
    s.qp.fail_read_response(s.now, packet.headers.bth.psn);
    assert_eq!(s.events(), [Event::AccessError, Event::LastWqeReached]);
    assert_refused(&mut s, 0, NakCode::RemoteAccessError);
}

#[test]
fn delayed_acks_have_a_deadline() {
    let config = Config {
        ack_delay: Duration::from_us(5),
        ack_coalesce: 3,
        ..Config::default()
    };
    let mut s = Script::new(Setup {
        config,
        ..Setup::default()
    });
    s.good_send(0, 0);
    assert!(s.qp.pending_acknowledge() && !s.qp.has_transmit());
    let before = s.now;
    s.expire();
    assert_eq!(s.now - before, Duration::from_us(5));
    assert_eq!(s.responses(), [(0, ACK)]);
    assert!(!s.qp.pending_acknowledge());
    s.good_send(1, 1);
    s.good_send(2, 2);
    assert_eq!(s.responses(), []);
    s.good_send(3, 3);
    assert_eq!(s.responses(), [(3, ACK)], "three of them are enough");
    assert_eq!(s.qp.next_timeout(), None);
    s.good_send(4, 4);
    s.qp.flush_acknowledge();
    assert_eq!(s.responses(), [(4, ACK)]);
    s.qp.flush_acknowledge();
    assert_eq!(s.responses(), [], "there is nothing to flush");
}

#[test]
fn only_asked_for_acks_are_sent() {
    let mut s = script();
    let headers = |s: &Script, psn, ack_request| {
        let mut bth = Bth::new(Opcode(0), s.qp.qpn(), s.receive_psn(psn));
        bth.ack_request = ack_request;
        TransportHeaders::write(
            bth,
            ferroce_wire::Connected::Reliable,
            WritePart::Only(reth(4)),
        )
    };
    for (psn, ack_request) in [(0, false), (1, false), (2, true)] {
        let step = s.handle(&headers(&s, psn, ack_request), 4);
        s.execute(step, 0, 0);
        assert_eq!(s.qp.has_transmit(), ack_request);
    }
    assert_eq!(s.responses(), [(2, ACK)]);
}

#[test]
fn requests_and_responses_take_turns_requests_first() {
    let mut s = script();
    s.good_send(0, 0);
    s.post(0, WRITE, 600);
    let kinds: Vec<_> = s.sent().iter().map(|seen| seen.0).collect();
    use Operation::{Acknowledge, RdmaReadResponse, RdmaWrite};
    assert_eq!(kinds, [RdmaWrite, Acknowledge, RdmaWrite, RdmaWrite]);
    let step = s.read_request(1, reth(600));
    s.execute(step, 0, 0);
    s.post(1, WRITE, 600);
    let kinds: Vec<_> = s.sent().iter().map(|seen| seen.0).collect();
    assert_eq!(kinds, [RdmaWrite, RdmaReadResponse].repeat(3));
}

#[test]
fn acks_carry_msn_and_credits() {
    let mut s = script();
    s.good_send(0, 0);
    s.qp.set_receive_credits(Some(5));
    let packets = s.transmit();
    let Extension::Aeth(Aeth { syndrome, msn }) = packets[0].headers.extension else {
        panic!("an ACK has an AETH")
    };
    assert_eq!(
        syndrome,
        Syndrome::Ack {
            credits: CreditCount::from_credits(4)
        }
    );
    assert_eq!(msn.value(), 1);
    // The receive of an unfinished SEND counts, because its message does not count yet.
    s.qp.set_receive_credits(Some(0));
    let step = s.send_part(1, SendPart::First, 256);
    s.execute(step, 1, 4096);
    assert_eq!(
        s.responses(),
        [(
            1,
            Syndrome::Ack {
                credits: CreditCount::new(1)
            }
        )]
    );
}

#[test]
fn packets_of_other_partitions_protocols_and_services_are_dropped() {
    let mut s = script();
    let good = {
        let bth = Bth::new(Opcode(0), s.qp.qpn(), s.receive_psn(0));
        TransportHeaders::send(bth, ferroce_wire::Connected::Reliable, SendPart::Only)
    };
    let mut other = good;
    other.bth.p_key = PKey(0x8001);
    assert_eq!(s.handle(&other, 4), Step::Done);
    let mut other = good;
    other.bth.header_version = 1;
    assert_eq!(s.handle(&other, 4), Step::Done);
    let unreliable = TransportHeaders::send(
        good.bth,
        ferroce_wire::Connected::Unreliable,
        SendPart::Only,
    );
    assert_eq!(s.handle(&unreliable, 4), Step::Done);
    let mut other = good;
    other.bth.opcode = Opcode(0x1f);
    assert_eq!(s.handle(&other, 4), Step::Done);
    assert!(matches!(
        s.handle(&good, 4),
        Step::Memory(MemoryOp::TakeReceive)
    ));
}

#[test]
fn an_unexpected_answer_is_ignored() {
    let mut s = script();
    assert_eq!(s.answer(MemoryAnswer::Done), Step::Done);
    assert_eq!(s.qp.state(), QpState::Rts);
}

#[test]
fn a_fault_while_a_receive_is_fetched_flushes_it() {
    let mut s = Script::new(Setup {
        retry_count: 0,
        ..Setup::default()
    });
    s.post(0, SEND, 4);
    s.transmit();
    assert!(matches!(s.send_part(0, SendPart::Only, 4), Step::Memory(_)));
    s.expire();
    assert_eq!(
        s.answer(MemoryAnswer::Receive { id: 7, capacity: 4 }),
        Step::Done
    );
    assert_eq!(
        s.statuses(),
        [
            (0, CompletionStatus::RetryExceeded),
            (7, CompletionStatus::WrFlush)
        ]
    );
}

#[test]
fn an_own_fault_still_acknowledges_what_was_executed() {
    let config = Config {
        ack_delay: Duration::from_ms(1000),
        ..Config::default()
    };
    let mut s = Script::new(Setup {
        retry_count: 0,
        config,
        ..Setup::default()
    });
    s.good_send(0, 0);
    s.post(0, WRITE, 4);
    assert_eq!(s.sent_psns(), [0]);
    s.expire();
    assert_eq!(s.qp.state(), QpState::Err);
    assert_eq!(s.responses(), [(0, ACK)]);
}

#[test]
fn two_gib_are_received_packet_by_packet() {
    let mut s = script();
    let packets = MAX_MESSAGE_LENGTH / 256;
    let step = s.read_request(0, reth(MAX_MESSAGE_LENGTH));
    s.execute(step, 0, 0);
    assert_eq!(s.qp.next_receive_psn(), s.receive_psn(packets));
    let mut sent = 0;
    while let Some(packet) = s.qp.poll_transmit(s.now) {
        assert_eq!(packet.headers.bth.psn, s.receive_psn(sent));
        assert_eq!(packet.payload.length(), 256);
        sent += 1;
    }
    assert_eq!(sent, packets);
    for index in 0..packets {
        let part = match Position::of(index, packets) {
            Position::First => WritePart::First(reth(MAX_MESSAGE_LENGTH)),
            Position::Last => WritePart::Last,
            _ => WritePart::Middle,
        };
        let step = s.write_part(packets + index, part, 256);
        let operations = s.execute(step, 0, 0);
        let expected = MemoryOp::WriteRemote {
            r_key: RKey(5),
            virtual_address: 0x8000 + u64::from(index) * 256,
            length: 256,
            srqn: None,
        };
        assert_eq!(operations.last(), Some(&expected));
        let _ = s.qp.poll_transmit(s.now);
    }
    assert_eq!(s.qp.msn().value(), 2);
}
