//! Rules of UC and UD, one script each.

use crate::pair::script::{FETCH_ADD, IMMEDIATE, READ, SEND, Script, WRITE, request, reth};
use crate::pair::{Q_KEY, Setup};
use CompletionStatus::{LocalLength, LocalProtection, LocalQpOperation, Success, WrFlush};
use ferroce_transport::{
    Access, AttributeUpdate, Completion, CompletionStatus, Destination, Event, LocalKind,
    MemoryAnswer, MemoryOp, Note, QpState, RemoteAccess, SendOperation, SendRequest, Service,
    Statistics, Step, Transition, Transmit,
};
use ferroce_wire::{
    Connected, Deth, Extension, Operation, Position, QKey, Qpn, RKey, SendPart, Transport,
    TransportHeaders, WritePart,
};

const RECEIVE: MemoryAnswer = MemoryAnswer::Receive {
    id: 5,
    capacity: 600,
};

fn uc() -> Script {
    Script::new(Setup {
        services: [Service::UnreliableConnected; 2],
        ..Setup::default()
    })
}

fn ud() -> Script {
    Script::new(Setup {
        services: [Service::UnreliableDatagram; 2],
        ..Setup::default()
    })
}

fn statistics(s: &mut Script) -> Statistics {
    s.qp.take_statistics().unwrap_or_default()
}

// --- the send queue of both ---

fn leave(s: &mut Script, packets: &[Transmit]) {
    for packet in packets {
        let id = packet.request.expect("requests have one");
        s.qp.packet_left(s.now, id);
    }
}

#[test]
fn a_request_completes_when_its_last_packet_has_left() {
    let mut s = uc();
    s.post(0, SEND, 600);
    s.post(1, WRITE, 4);
    let packets = s.transmit();
    let seen: Vec<_> = packets.iter().map(|packet| s.seen(packet)).collect();
    let expected = [
        (Operation::Send, Position::First, 0, false, 256),
        (Operation::Send, Position::Middle, 1, false, 256),
        (Operation::Send, Position::Last, 2, false, 88),
        (Operation::RdmaWrite, Position::Only, 3, false, 4),
    ];
    assert_eq!(seen, expected, "no acknowledge is requested");
    leave(&mut s, &packets[..2]);
    assert_eq!(s.statuses(), []);
    leave(&mut s, &packets[2..3]);
    assert_eq!(s.statuses(), [(0, Success)]);
    leave(&mut s, &packets[3..]);
    assert_eq!(s.statuses(), [(1, Success)]);
    assert_eq!(s.qp.next_timeout(), None);
    assert_eq!(s.qp.outstanding_sends(), 0);
    s.qp.packet_left(s.now, 1);
}

#[test]
fn packets_that_were_not_sent_cannot_leave() {
    let mut s = uc();
    s.post(0, SEND, 300);
    let first = s.qp.poll_transmit(s.now).expect("there is one");
    leave(&mut s, &[first, first, first]);
    assert_eq!(s.statuses(), []);
    let last = s.qp.poll_transmit(s.now).expect("there is one");
    leave(&mut s, &[last]);
    assert_eq!(s.statuses(), [(0, Success)]);
}

#[test]
fn a_payload_that_cannot_be_gathered_ends_the_send_queue_only() {
    let mut s = uc();
    for id in 0..3 {
        s.post(id, SEND, 300);
    }
    let packets = s.transmit();
    leave(&mut s, &packets[..2]);
    s.qp.fail_send(s.now, 1, LocalProtection);
    let expected = [(0, Success), (1, LocalProtection), (2, WrFlush)];
    assert_eq!(s.statuses(), expected);
    assert_eq!(s.qp.state(), QpState::Sqe);
    assert_eq!(s.events(), []);
    leave(&mut s, &packets[2..]);
    s.post(3, SEND, 4);
    assert_eq!(s.statuses(), [(3, WrFlush)], "until RTS");
    s.good_uc_send(0, 8);
    s.qp.modify(s.now, Transition::Resume(AttributeUpdate::default()))
        .expect("SQE has a way out");
    s.post(4, SEND, 4);
    assert_eq!(s.sent_psns(), [6]);
}

#[test]
fn a_failure_waits_for_those_before_it() {
    let mut s = uc();
    s.post(0, SEND, 300);
    s.post(1, READ, 4);
    assert_eq!(s.statuses(), []);
    let packets = s.transmit();
    leave(&mut s, &packets);
    assert_eq!(s.statuses(), [(0, Success), (1, LocalQpOperation)]);
    assert_eq!(s.qp.state(), QpState::Sqe);
}

#[test]
fn operations_that_a_service_does_not_have() {
    let invalidate = SendOperation::SendInvalidate(RKey(1));
    let bind = SendOperation::Local(LocalKind::Bind);
    type Case<'a> = (fn() -> Script, &'a [SendOperation]);
    let cases: [Case<'_>; 2] = [
        (uc, &[READ, FETCH_ADD, invalidate]),
        (ud, &[READ, FETCH_ADD, invalidate, WRITE, bind]),
    ];
    for (script, operations) in cases {
        for operation in operations {
            let mut s = script();
            s.post(0, *operation, 8);
            assert_eq!(s.statuses(), [(0, LocalQpOperation)], "{operation:?}");
            assert_eq!(s.qp.state(), QpState::Sqe);
        }
        let mut s = script();
        s.post_request(SendRequest {
            destination: Destination::Xrc { srqn: 1 },
            ..request(0, SEND, 8)
        });
        assert_eq!(s.statuses(), [(0, LocalQpOperation)]);
    }
}

#[test]
fn a_drain_ends_with_the_message_that_was_begun() {
    let mut s = uc();
    s.post(0, SEND, 300);
    s.post(1, SEND, 4);
    let first = s.qp.poll_transmit(s.now).expect("there is one");
    let drain = Transition::Drain { notify: true };
    s.qp.modify(s.now, drain).expect("a drain is legal");
    let rest = s.transmit();
    assert_eq!(rest.len(), 1);
    leave(&mut s, &[first]);
    assert!(s.qp.is_draining() && s.events().is_empty());
    leave(&mut s, &rest);
    assert_eq!(s.events(), [Event::SqDrained]);
    assert!(!s.qp.is_draining());
    s.qp.modify(s.now, Transition::Resume(AttributeUpdate::default()))
        .expect("so is its end");
    assert_eq!(s.sent_psns(), [2]);
}

#[test]
fn local_operations_keep_their_place() {
    let mut s = uc();
    s.post(0, SEND, 4);
    s.post(1, SendOperation::Local(LocalKind::Invalidate), 0);
    s.post(2, SEND, 4);
    let packets = s.transmit();
    assert_eq!(packets.len(), 1);
    assert!(!s.qp.has_local(), "the payload was not gathered yet");
    leave(&mut s, &packets);
    assert_eq!(s.qp.poll_local(), Some(1));
    s.qp.finish_local(s.now, 1, Ok(()));
    assert_eq!(s.statuses(), [(0, Success), (1, Success)]);
    s.post(3, SendOperation::Local(LocalKind::Bind), 0);
    s.post(4, SEND, 4);
    let packets = s.transmit();
    assert_eq!(s.qp.poll_local(), Some(3));
    s.qp.finish_local(s.now, 3, Err(CompletionStatus::WindowBind));
    assert_eq!(s.statuses(), []);
    leave(&mut s, &packets);
    let expected = [
        (2, Success),
        (3, CompletionStatus::WindowBind),
        (4, WrFlush),
    ];
    assert_eq!(s.statuses(), expected);
    assert_eq!(s.qp.state(), QpState::Sqe);
}

#[test]
fn err_flushes_everything_and_reports_it() {
    let mut s = uc();
    s.post(0, SEND, 300);
    let step = s.uc_send(0, SendPart::First, 256);
    s.execute(step, 5, 600);
    s.qp.modify(s.now, Transition::Err).expect("ERR is legal");
    assert_eq!(s.statuses(), [(0, WrFlush), (5, WrFlush)]);
    assert_eq!(s.events(), [Event::LastWqeReached]);
    assert!(!s.qp.has_transmit());
}

// --- the receiver of UC ---

impl Script {
    fn uc_send(&mut self, relative: u32, part: SendPart, length: u32) -> Step {
        let bth = self.request_bth(relative);
        let headers = TransportHeaders::send(bth, Connected::Unreliable, part);
        self.handle(&headers, length)
    }

    fn uc_write(&mut self, relative: u32, part: WritePart, length: u32) -> Step {
        let bth = self.request_bth(relative);
        let headers = TransportHeaders::write(bth, Connected::Unreliable, part);
        self.handle(&headers, length)
    }

    /// Delivers a SEND of one packet that takes a receive and completes.
    fn good_uc_send(&mut self, relative: u32, receive: u32) {
        let step = self.uc_send(relative, SendPart::Only, 4);
        self.execute(step, receive, 600);
        assert_eq!(self.statuses(), [(receive, Success)]);
    }
}

#[test]
fn a_gap_abandons_the_message_and_its_receive_serves_the_next() {
    let mut s = uc();
    let step = s.uc_send(0, SendPart::First, 256);
    s.execute(step, 5, 600);
    assert_eq!(s.uc_send(2, SendPart::Last, 4), Step::Done);
    assert_eq!(s.uc_send(3, SendPart::Middle, 256), Step::Done);
    assert_eq!(statistics(&mut s).out_of_sequence_drops, 2);
    assert_eq!(s.statuses(), []);
    // The next message may have any PSN, and takes no further receive.
    let step = s.uc_send(9, SendPart::First, 256);
    let operations = s.execute(step, 6, 600);
    assert!(matches!(
        operations[..],
        [MemoryOp::WriteReceive {
            receive: 5,
            offset: 0,
            ..
        }]
    ));
    let step = s.uc_send(10, SendPart::LastImmediate(IMMEDIATE), 4);
    s.execute(step, 6, 600);
    let [
        Completion::Receive {
            receive: 5,
            byte_length: 260,
            immediate: Some(IMMEDIATE),
            source: None,
            with_grh: false,
            ..
        },
    ] = s.completions()[..]
    else {
        panic!("one receive completes");
    };
    assert!(!s.qp.has_transmit(), "no answer is sent");
}

#[test]
fn a_first_packet_ends_the_message_before_it() {
    let mut s = uc();
    let step = s.uc_send(0, SendPart::First, 256);
    s.execute(step, 5, 600);
    let step = s.uc_write(1, WritePart::Only(reth(4)), 4);
    s.execute(step, 6, 600);
    assert_eq!(s.statuses(), [], "a WRITE completes nothing");
    assert_eq!(s.uc_send(2, SendPart::Last, 4), Step::Done);
    let step = s.uc_send(3, SendPart::Only, 4);
    s.execute(step, 6, 600);
    assert_eq!(s.statuses(), [(5, Success)]);
}

#[test]
fn a_write_with_immediate_takes_its_receive_at_the_end() {
    let mut s = uc();
    let step = s.uc_write(0, WritePart::First(reth(260)), 256);
    let operations = s.execute(step, 5, 0);
    let validate = MemoryOp::Validate {
        r_key: RKey(5),
        virtual_address: 0x8000,
        length: 260,
        access: Access::Write,
        srqn: None,
    };
    assert_eq!(operations[0], validate);
    assert_eq!(operations.len(), 2);
    let step = s.uc_write(1, WritePart::LastImmediate(IMMEDIATE), 4);
    assert_eq!(step, Step::Memory(MemoryOp::TakeReceive));
    s.execute(step, 5, 0);
    assert_eq!(s.statuses(), [(5, Success)]);
}

#[test]
fn without_a_receive_a_message_is_dropped_as_a_whole() {
    let mut s = uc();
    let step = s.uc_send(0, SendPart::First, 256);
    assert_eq!(step, Step::Memory(MemoryOp::TakeReceive));
    assert_eq!(s.answer(MemoryAnswer::NoReceive), Step::Done);
    assert_eq!(s.uc_send(1, SendPart::Last, 4), Step::Done);
    let counted = statistics(&mut s);
    assert_eq!(
        (counted.no_receive_drops, counted.out_of_sequence_drops),
        (1, 0)
    );
    s.good_uc_send(2, 7);
    assert_eq!(s.qp.state(), QpState::Rts);
}

#[test]
fn what_is_wrong_is_dropped_in_silence() {
    type Play = fn(&mut Script) -> Step;
    let cases: [(&str, Play); 9] = [
        ("First too short", |s| s.uc_send(0, SendPart::First, 255)),
        ("Only too long", |s| s.uc_send(0, SendPart::Only, 257)),
        ("WRITE shorter than announced", |s| {
            s.uc_write(0, WritePart::Only(reth(8)), 4)
        }),
        ("WRITE longer than announced", |s| {
            s.uc_write(0, WritePart::Only(reth(8)), 12)
        }),
        ("WRITE First of one packet", |s| {
            s.uc_write(0, WritePart::First(reth(256)), 256)
        }),
        ("WRITE of too much", |s| {
            s.uc_write(0, WritePart::First(reth(u32::MAX)), 256)
        }),
        ("Middle of nothing", |s| s.uc_send(0, SendPart::Middle, 256)),
        ("Last of nothing", |s| s.uc_write(0, WritePart::Last, 4)),
        ("a packet of RC", |s| s.send_part(0, SendPart::Only, 4)),
    ];
    for (name, play) in cases {
        let mut s = uc();
        let mut step = play(&mut s);
        if step == Step::Memory(MemoryOp::TakeReceive) {
            step = s.answer(RECEIVE);
        }
        assert_eq!(step, Step::Done, "{name}");
        assert_eq!(s.statuses(), [], "{name}");
        assert_eq!(s.events(), [], "{name}");
        assert_eq!(s.qp.state(), QpState::Rts, "{name}");
        let step = s.uc_send(1, SendPart::Only, 4);
        s.execute(step, 5, 600);
        assert_eq!(s.statuses(), [(5, Success)], "{name}");
    }
}

#[test]
fn memory_that_may_not_be_written_drops_a_write() {
    for answers in [
        &[MemoryAnswer::Invalid][..],
        &[MemoryAnswer::Valid, MemoryAnswer::Failed],
    ] {
        let mut s = uc();
        assert!(matches!(
            s.uc_write(0, WritePart::First(reth(300)), 256),
            Step::Memory(_)
        ));
        for answer in answers {
            let _ = s.answer(*answer);
        }
        assert_eq!(s.uc_write(1, WritePart::Last, 44), Step::Done);
        assert_eq!((s.statuses(), s.events()), (vec![], vec![]));
        s.good_uc_send(2, 5);
    }
    let mut s = Script::new(Setup {
        services: [Service::UnreliableConnected; 2],
        access: RemoteAccess::default(),
        ..Setup::default()
    });
    assert_eq!(s.uc_write(0, WritePart::Only(reth(4)), 4), Step::Done);
    s.good_uc_send(1, 5);
}

#[test]
fn a_message_longer_than_the_buffer_is_dropped() {
    let mut s = uc();
    for (psn, part) in [(0, SendPart::First), (1, SendPart::Middle)] {
        let step = s.uc_send(psn, part, 256);
        s.execute(step, 5, 600);
    }
    assert_eq!(s.uc_send(2, SendPart::Last, 89), Step::Done);
    assert_eq!(statistics(&mut s).no_receive_drops, 1);
    let step = s.uc_send(3, SendPart::Only, 4);
    s.execute(step, 6, 600);
    assert_eq!(s.statuses(), [(5, Success)], "its receive serves the next");
}

#[test]
fn our_own_faults_are_not_silent() {
    let mut s = uc();
    let _ = s.uc_send(0, SendPart::Only, 4);
    let _ = s.answer(RECEIVE);
    assert_eq!(s.answer(MemoryAnswer::Failed), Step::Done);
    assert_eq!(s.statuses(), [(5, LocalProtection)]);
    assert_eq!(s.qp.state(), QpState::Err);

    for mut s in [uc(), ud()] {
        let _ = match s.qp.service() {
            Service::UnreliableDatagram => s.datagram(Q_KEY, 4),
            _ => s.uc_send(0, SendPart::Only, 4),
        };
        assert_eq!(s.answer(MemoryAnswer::ReceiveError), Step::Done);
        assert_eq!(s.events(), [Event::Fatal, Event::LastWqeReached]);
        assert_eq!(s.qp.state(), QpState::Err);
    }
}

// --- UD ---

impl Script {
    fn datagram(&mut self, q_key: QKey, length: u32) -> Step {
        let deth = Deth::new(q_key, Qpn::new(0x99));
        let headers = TransportHeaders::datagram(self.request_bth(0), deth, Some(IMMEDIATE));
        self.handle(&headers, length)
    }
}

fn datagram_to(q_key: QKey) -> Destination {
    Destination::Datagram {
        qpn: Qpn::MULTICAST,
        q_key,
    }
}

#[test]
fn a_datagram_names_its_destination_and_its_sender() {
    let mut s = ud();
    for (id, given) in [(0, QKey(3)), (1, QKey(1 << 31))] {
        s.post_request(SendRequest {
            destination: datagram_to(given),
            solicited: true,
            ..request(id, SendOperation::SendImmediate(IMMEDIATE), 4)
        });
    }
    let packets = s.transmit();
    for (packet, sent) in packets.iter().zip([QKey(3), Q_KEY]) {
        let bth = &packet.headers.bth;
        let known = bth.opcode.parse().expect("it is known");
        assert_eq!(known.transport, Transport::UnreliableDatagram);
        assert_eq!(bth.dest_qp, Qpn::MULTICAST);
        assert!(bth.solicited && packet.headers.is_legal());
        let deth = Deth::new(sent, s.qp.qpn());
        assert_eq!(
            packet.headers.extension,
            Extension::DethImmediate(deth, IMMEDIATE)
        );
    }
    assert_eq!(packets[1].headers.bth.psn, s.send_psn(1));
}

/// Goal: a GSI is a UD QP that sends its own Q_Key whatever the request says, and AckReq, as Linux
/// does.
#[test]
fn gsi_has_one_q_key() {
    let mut s = Script::new(Setup {
        services: [Service::Gsi; 2],
        ..Setup::default()
    });
    for (id, given) in [(0, QKey(3)), (1, QKey(1 << 31)), (2, Q_KEY)] {
        s.post_request(SendRequest {
            destination: datagram_to(given),
            ..request(id, SEND, 256)
        });
    }
    let packets = s.transmit();
    assert_eq!(packets.len(), 3);
    let own = Extension::Deth(Deth::new(Q_KEY, s.qp.qpn()));
    for packet in &packets {
        assert_eq!(packet.headers.extension, own);
        assert!(packet.headers.bth.ack_request && packet.headers.is_legal());
    }
    assert_eq!(s.datagram(QKey(3), 256), Step::Done);
    assert_eq!(statistics(&mut s).q_key_violations, 1);
    let step = s.datagram(Q_KEY, 256);
    assert_eq!(step, Step::Memory(MemoryOp::TakeReceive));
}

#[test]
fn a_datagram_is_one_packet() {
    let mut s = ud();
    s.post(0, SEND, 4096);
    s.post(1, SEND, 4097);
    let packets = s.transmit();
    assert_eq!(packets.len(), 1);
    leave(&mut s, &packets);
    assert_eq!(s.statuses(), [(0, Success), (1, LocalLength)]);
    assert_eq!(s.qp.state(), QpState::Sqe);
}

#[test]
fn a_datagram_arrives_behind_its_grh() {
    let mut s = ud();
    let step = s.datagram(Q_KEY, 4);
    let operations = s.execute(step, 5, 44);
    let expected = [
        MemoryOp::TakeReceive,
        MemoryOp::WriteGrh { receive: 5 },
        MemoryOp::WriteReceive {
            receive: 5,
            offset: 40,
            length: 4,
        },
    ];
    assert_eq!(operations, expected);
    let [
        Completion::Receive {
            byte_length: 44,
            with_grh: true,
            immediate: Some(IMMEDIATE),
            source,
            ..
        },
    ] = s.completions()[..]
    else {
        panic!("one receive completes");
    };
    assert_eq!(source, Some(Qpn::new(0x99)));
    let step = s.datagram(Q_KEY, 0);
    assert_eq!(s.execute(step, 6, 40).len(), 2, "no payload, but a GRH");
    assert_eq!(s.statuses(), [(6, Success)]);
}

#[test]
fn datagrams_that_are_dropped() {
    let mut s = ud();
    assert_eq!(s.datagram(QKey(1), 4), Step::Done);
    assert_eq!(statistics(&mut s).q_key_violations, 1);
    let (came, own) = (QKey(1), Q_KEY);
    assert_eq!(s.qp.take_note(), Some(Note::WrongQKey { came, own }));
    assert_eq!(s.qp.take_note(), None);
    assert_eq!(s.datagram(Q_KEY, 4097), Step::Done, "longer than the MTU");
    let step = s.datagram(Q_KEY, 4);
    assert_eq!(step, Step::Memory(MemoryOp::TakeReceive));
    assert_eq!(s.answer(MemoryAnswer::NoReceive), Step::Done);
    assert_eq!(statistics(&mut s).no_receive_drops, 1);
    assert_eq!(s.qp.take_note(), Some(Note::NoReceive));
    assert_eq!((s.statuses(), s.events()), (vec![], vec![]));
    assert_eq!(s.qp.state(), QpState::Rts);
}

#[test]
fn a_receive_that_is_too_small_stays_for_a_smaller_datagram() {
    let mut s = ud();
    let step = s.datagram(Q_KEY, 5);
    assert_eq!(s.execute(step, 5, 44), [MemoryOp::TakeReceive]);
    assert_eq!(statistics(&mut s).no_receive_drops, 1);
    let (payload, capacity) = (5, 44);
    let note = Note::ShortReceive { payload, capacity };
    assert_eq!(s.qp.take_note(), Some(note));
    let step = s.datagram(Q_KEY, 4);
    assert_eq!(step, Step::Memory(MemoryOp::WriteGrh { receive: 5 }));
    s.execute(step, 6, 44);
    assert_eq!(s.statuses(), [(5, Success)]);
}

#[test]
fn a_buffer_that_cannot_be_written_is_our_own_fault() {
    for answers in [
        &[MemoryAnswer::Failed][..],
        &[MemoryAnswer::Done, MemoryAnswer::Failed],
    ] {
        let mut s = ud();
        let _ = s.datagram(Q_KEY, 4);
        let _ = s.answer(RECEIVE);
        for answer in answers {
            let _ = s.answer(*answer);
        }
        assert_eq!(s.statuses(), [(5, LocalProtection)]);
        assert_eq!(s.qp.state(), QpState::Err);
    }
}

#[test]
fn the_q_key_may_change() {
    let mut s = ud();
    let update = AttributeUpdate {
        q_key: Some(QKey(1)),
        ..AttributeUpdate::default()
    };
    s.qp.modify(s.now, Transition::Update(update))
        .expect("UD may change it");
    assert_eq!(s.datagram(Q_KEY, 4), Step::Done);
    assert!(matches!(s.datagram(QKey(1), 4), Step::Memory(_)));
    assert_eq!(s.qp.attributes().q_key, QKey(1));
}

#[test]
fn a_datagram_needs_a_destination() {
    let mut s = ud();
    s.post_request(request(0, SEND, 4));
    assert_eq!(s.statuses(), [(0, LocalQpOperation)]);
    let mut s = uc();
    s.post_request(SendRequest {
        destination: datagram_to(Q_KEY),
        ..request(0, WRITE, 4)
    });
    assert_eq!(s.statuses(), [(0, LocalQpOperation)]);
}
