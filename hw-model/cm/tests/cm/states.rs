//! Each transition of a connection and of a service resolution, one test for one or two of them.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::pair::{self, Pair, accept, connect, gid, listen, sidr, trimmed};
use ferroce_cm::{
    Cm, CommandError, Config, Disposition, Ece, Event, Listen, ListenAddress, MAX_BACKLOG,
    PortSpace, Reject, SidrResponse, State,
};
use ferroce_units::{Duration, Instant};
use ferroce_wire::cm::{
    Apr, CmTimeout, CommunicationId, Drep, Dreq, Lap, Mad, Message, MessageKind, Mra, Rej,
    RejectReason, Rep, Req, SidrStatus, TransportService,
};
use ferroce_wire::{Psn, QKey, Qpn};

fn message(transmit: &ferroce_cm::Transmit) -> Message {
    Mad::parse(&transmit.mad[..]).unwrap().message
}

fn rej(transmit: &ferroce_cm::Transmit) -> Rej {
    match message(transmit) {
        Message::Rej(rej) => rej,
        other => panic!("{other:?}"),
    }
}

fn reason_of(event: &Event) -> RejectReason {
    match event {
        Event::Rejected { reason, .. } => *reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_request_carries_what_the_caller_chose() {
    let mut pair = Pair::new();
    let active = pair.connect(0x11);
    assert_eq!(active.0 >> 24, 1, "the tag");
    let sent = pair.carry(0, MessageKind::Req);
    assert_eq!((sent.from, sent.to), (gid(0), gid(1)));
    let Event::ConnectRequest {
        listener,
        id,
        request,
        ip,
        private_data,
        ..
    } = pair.event(1)
    else {
        panic!("a request");
    };
    assert_eq!(listener, Some(pair.listener));
    assert_eq!(id.0 >> 24, 2, "the tag");
    assert_eq!(trimmed(&private_data), b"hello");
    assert_eq!((private_data.len(), ip.unwrap().source_port), (56, 40_000));
    assert_eq!(request.local_communication_id, active);
    assert_eq!(request.max_cm_retries, 15);
    assert_eq!(request.remote_cm_response_timeout, CmTimeout::new(20));
    assert_eq!(request.primary.local_port_lid, 0xffff);
    assert_eq!(pair.state(0, active), State::ReqSent);
    assert_eq!(pair.state(1, id), State::ReqReceived);
}

#[test]
fn a_connection_is_established_and_released() {
    let mut pair = Pair::new();
    let ids = pair.established();
    let active = pair.sides[0].qp_parameters(ids[0]).unwrap();
    let passive = pair.sides[1].qp_parameters(ids[1]).unwrap();
    assert_eq!(
        (active.local_qpn, passive.local_qpn),
        (Qpn::new(0x11), Qpn::new(0x22))
    );
    assert_eq!(
        (active.remote_qpn, passive.remote_qpn),
        (Qpn::new(0x22), Qpn::new(0x11))
    );
    assert_eq!(
        (active.rq_psn, passive.rq_psn),
        (passive.sq_psn, active.sq_psn)
    );
    assert_eq!(
        (passive.responder_resources, passive.initiator_depth),
        (2, 1)
    );
    assert_eq!((active.responder_resources, active.initiator_depth), (1, 2));
    assert_eq!((active.rnr_retry_count, passive.rnr_retry_count), (5, 6));
    // Each side sets the other's first PSN (IBTA vol 1, 12.7.31).
    assert_eq!(active.rq_psn, Psn::new(7 * 0x11));
    assert_eq!(passive.rq_psn, Psn::new(11 * 0x22));

    pair.sides[0].disconnect(pair.now, ids[0], b"bye").unwrap();
    assert_eq!(pair.state(0, ids[0]), State::DreqSent);
    pair.carry(0, MessageKind::Dreq);
    let Event::Disconnected { private_data, .. } = pair.event(1) else {
        panic!("an end");
    };
    assert_eq!(trimmed(&private_data), b"bye");
    pair.carry(1, MessageKind::Drep);
    assert!(matches!(
        pair.event(0),
        Event::Disconnected {
            is_timeout: false,
            ..
        }
    ));
    pair.timewait_ends(0, ids[0]);
    pair.timewait_ends(1, ids[1]);
}

#[test]
fn all_messages_of_a_connection_have_one_transaction_id() {
    let mut pair = Pair::new();
    pair.connect(0x11);
    let req = pair.carry(0, MessageKind::Req);
    let Event::ConnectRequest { id, .. } = pair.event(1) else {
        panic!("a request");
    };
    pair.sides[1]
        .accept(pair.now, id, &accept(1, 2, &[]))
        .unwrap();
    let rep = pair.carry(1, MessageKind::Rep);
    let transaction =
        |sent: &ferroce_cm::Transmit| Mad::parse(&sent.mad[..]).unwrap().header.transaction_id;
    assert_eq!(transaction(&req), transaction(&rep));
}

#[test]
fn xrc_names_its_target_in_place_of_the_context() {
    let mut pair = Pair::new();
    let mut request = connect(0, 0x11, &[]);
    request.transport = TransportService::Xrc;
    let active = pair.sides[0].connect(pair.now, &request).unwrap();
    pair.carry(0, MessageKind::Req);
    let Event::ConnectRequest { id, request, .. } = pair.event(1) else {
        panic!("a request");
    };
    assert_eq!(request.transport_service(), Some(TransportService::Xrc));
    pair.sides[1]
        .accept(pair.now, id, &accept(1, 0x22, &[]))
        .unwrap();
    pair.carry(1, MessageKind::Rep);
    let parameters = pair.sides[0].qp_parameters(active).unwrap();
    assert_eq!(parameters.remote_qpn, Qpn::new(0x22));
}

#[test]
fn options_of_a_vendor_are_passed_on() {
    let mut pair = Pair::new();
    let ece = [1, 2, 3].map(|number| Ece {
        vendor_id: 0x00ab_cd00 + number,
        attr_mod: 0x0123_4560 + number,
    });
    let mut request = connect(0, 0x11, &[]);
    request.ece = ece[0];
    pair.sides[0].connect(pair.now, &request).unwrap();
    pair.carry(0, MessageKind::Req);
    let Event::ConnectRequest { id, ece: seen, .. } = pair.event(1) else {
        panic!("a request");
    };
    assert_eq!(seen, ece[0]);
    let mut answer = accept(1, 0x22, &[]);
    answer.ece = ece[1];
    pair.sides[1].accept(pair.now, id, &answer).unwrap();
    pair.carry(1, MessageKind::Rep);
    let Event::ConnectResponse { ece: seen, .. } = pair.event(0) else {
        panic!("a response");
    };
    assert_eq!(seen, ece[1]);

    pair.sides[0]
        .resolve_service(pair.now, &sidr(0, &[]))
        .unwrap();
    pair.carry(0, MessageKind::SidrReq);
    let Event::SidrRequest { id, .. } = pair.event(1) else {
        panic!("a request");
    };
    let response = SidrResponse {
        status: SidrStatus::SUCCESS,
        qpn: Qpn::new(1),
        q_key: QKey(1),
        ece: ece[2],
        private_data: Vec::new(),
    };
    pair.sides[1].respond(pair.now, id, &response).unwrap();
    pair.carry(1, MessageKind::SidrRep);
    let Event::SidrResponse { ece: seen, .. } = pair.event(0) else {
        panic!("a response");
    };
    assert_eq!(seen, ece[2]);
}

#[test]
fn retries_end_in_unreachable_and_a_timeout_rej() {
    let mut pair = Pair::new();
    let id = pair.connect(0x11);
    let first = pair.sent_one(0, MessageKind::Req);
    let response_time = CmTimeout::new(20).as_ns() + 2 * CmTimeout::new(16).as_ns();
    for _ in 0..15 {
        let before = pair.now;
        pair.expire(0);
        assert_eq!(pair.now - before, Duration::from_ns(response_time));
        assert_eq!(pair.sent_one(0, MessageKind::Req), first, "the same again");
    }
    pair.expire(0);
    let rej = rej(&pair.sent_one(0, MessageKind::Rej));
    assert_eq!(rej.reason, RejectReason::TIMEOUT);
    assert_eq!(
        (rej.local_communication_id, rej.reject_info_length),
        (id, 8)
    );
    assert_eq!(pair.event(0), Event::Unreachable { id });
    pair.timewait_ends(0, id);
}

#[test]
fn early_retransmissions_double_and_are_no_retries() {
    let mut cm = Cm::new(Config::functional(1));
    cm.connect(Instant::ZERO, &connect(0, 1, &[])).unwrap();
    let mut times = Vec::new();
    while let Some(at) = cm.next_timeout() {
        if cm.poll_event().is_some() {
            break;
        }
        while cm.poll_mad().is_some() {}
        times.push(at.as_ns() / 1_000_000);
        cm.handle_timeout(at);
    }
    assert_eq!(times[..4], [50, 150, 350, 750], "{times:?}");
    // 50 ms doubled up to 4.8 s: seven early ones, 15 retries, and the timeout after the last.
    assert_eq!(times.len(), 7 + 15 + 1);
}

#[test]
fn a_timeout_rej_ends_the_request_on_the_passive_side() {
    let mut pair = Pair::new();
    let ids = pair.requested();
    pair.sides[0].destroy(pair.now, ids[0]);
    let rej = rej(&pair.carry(0, MessageKind::Rej));
    assert_eq!(rej.remote_communication_id, CommunicationId::NONE);
    let event = pair.event(1);
    assert_eq!(reason_of(&event), RejectReason::TIMEOUT);
    pair.timewait_ends(1, ids[1]);
    // The caller has destroyed it: no further event.
    pair.expire(0);
    assert!(pair.sides[0].is_idle());
}

#[test]
fn the_passive_side_gives_up_without_an_rtu() {
    let mut pair = Pair::new();
    let ids = pair.requested();
    pair.sides[1]
        .accept(pair.now, ids[1], &accept(1, 2, &[]))
        .unwrap();
    for _ in 0..16 {
        pair.sent_one(1, MessageKind::Rep);
        pair.expire(1);
    }
    assert_eq!(
        rej(&pair.carry(1, MessageKind::Rej)).reason,
        RejectReason::TIMEOUT
    );
    assert_eq!(pair.event(1), Event::Unreachable { id: ids[1] });
    let event = pair.event(0);
    assert_eq!(reason_of(&event), RejectReason::TIMEOUT);
}

#[test]
fn a_duplicate_req_is_answered_with_the_rep() {
    let mut pair = Pair::new();
    let active = pair.connect(0x11);
    let req = pair.carry(0, MessageKind::Req);
    let Event::ConnectRequest { id, .. } = pair.event(1) else {
        panic!("a request");
    };
    // The caller has not decided yet: no answer, in particular no MRA.
    pair.deliver(1, &req);
    assert_eq!(pair.sent(1), []);
    pair.sides[1]
        .accept(pair.now, id, &accept(1, 2, &[]))
        .unwrap();
    let rep = pair.sent_one(1, MessageKind::Rep);
    pair.deliver(1, &req);
    assert_eq!(pair.sent_one(1, MessageKind::Rep), rep);
    pair.no_event(1);
    assert_eq!(pair.state(0, active), State::ReqSent);
}

#[test]
fn a_duplicate_rep_is_answered_with_the_rtu() {
    let mut pair = Pair::new();
    let ids = pair.requested();
    pair.sides[1]
        .accept(pair.now, ids[1], &accept(1, 2, &[]))
        .unwrap();
    let rep = pair.carry(1, MessageKind::Rep);
    pair.deliver(0, &rep);
    assert_eq!(pair.sent(0), [], "the caller is not ready");
    pair.sides[0].establish(ids[0], b"go").unwrap();
    let rtu = pair.sent_one(0, MessageKind::Rtu);
    pair.deliver(0, &rep);
    assert_eq!(pair.sent_one(0, MessageKind::Rtu), rtu);
    pair.deliver(1, &rtu);
    pair.deliver(1, &rtu);
    let Event::Established { id, private_data } = pair.event(1) else {
        panic!("established");
    };
    assert_eq!((id, trimmed(&private_data)), (ids[1], &b"go"[..]));
    pair.no_event(1);
}

#[test]
fn a_rep_for_an_unknown_connection_is_rejected() {
    let mut pair = Pair::new();
    let rep = Rep {
        local_communication_id: CommunicationId(0x0200_0009),
        remote_communication_id: CommunicationId(0x0100_0777),
        ..Rep::default()
    };
    assert_eq!(pair.inject(0, rep), Disposition::Taken);
    let rej = rej(&pair.sent_one(0, MessageKind::Rej));
    assert_eq!(rej.reason, RejectReason::INVALID_COMMUNICATION_ID);
    assert_eq!(rej.remote_communication_id, rep.local_communication_id);
    assert_eq!(rej.message_rejected, Rej::REP);
    // Another process of the host may know it.
    let of_another = Rep {
        remote_communication_id: CommunicationId(0x0900_0777),
        ..rep
    };
    assert_eq!(pair.inject(0, of_another), Disposition::NotOurs(9));
    assert_eq!(pair.sent(0), []);
}

#[test]
fn dreqs_are_answered_whether_known_or_not() {
    let mut pair = Pair::new();
    let unknown = Dreq {
        local_communication_id: CommunicationId(0x0200_0009),
        remote_communication_id: CommunicationId(0x0100_0777),
        ..Dreq::default()
    };
    assert_eq!(pair.inject(0, unknown), Disposition::Taken);
    let expected = Drep {
        local_communication_id: unknown.remote_communication_id,
        remote_communication_id: unknown.local_communication_id,
        ..Drep::default()
    };
    let drep = pair.sent_one(0, MessageKind::Drep);
    assert_eq!(message(&drep), Message::Drep(expected));
    assert_eq!(drep.to, gid(1));

    let ids = pair.established();
    pair.sides[0].disconnect(pair.now, ids[0], &[]).unwrap();
    let dreq = pair.carry(0, MessageKind::Dreq);
    pair.sent_one(1, MessageKind::Drep);
    pair.deliver(1, &dreq);
    pair.carry(1, MessageKind::Drep);
    for side in 0..2 {
        assert!(matches!(pair.event(side), Event::Disconnected { .. }));
        pair.no_event(side);
    }
    // A DREQ for another queue pair is not for this connection.
    let ids = pair.established();
    let other = Dreq {
        local_communication_id: ids[0],
        remote_communication_id: ids[1],
        remote_qpn_eecn: Qpn::new(0x99),
        ..Dreq::default()
    };
    pair.inject(1, other);
    assert_eq!(pair.state(1, ids[1]), State::Established);
}

#[test]
fn a_dreq_before_the_rtu_ends_the_connection() {
    let mut pair = Pair::new();
    let ids = pair.replied();
    pair.sides[0].establish(ids[0], &[]).unwrap();
    pair.sent_one(0, MessageKind::Rtu);
    pair.sides[0].disconnect(pair.now, ids[0], &[]).unwrap();
    pair.carry(0, MessageKind::Dreq);
    assert!(matches!(pair.event(1), Event::Disconnected { .. }));
    pair.carry(1, MessageKind::Drep);
    pair.event(0);
    pair.timewait_ends(0, ids[0]);
    pair.timewait_ends(1, ids[1]);
}

#[test]
fn both_sides_may_disconnect_at_once() {
    let mut pair = Pair::new();
    let ids = pair.established();
    for (side, id) in pair.sides.iter_mut().zip(ids) {
        side.disconnect(pair.now, id, &[]).unwrap();
    }
    let dreqs = [0, 1].map(|side| pair.sent_one(side, MessageKind::Dreq));
    pair.deliver(1, &dreqs[0]);
    pair.deliver(0, &dreqs[1]);
    for side in 0..2 {
        pair.carry(side, MessageKind::Drep);
        assert!(matches!(pair.event(side), Event::Disconnected { .. }));
        pair.no_event(side);
    }
    pair.timewait_ends(0, ids[0]);
    pair.timewait_ends(1, ids[1]);
}

#[test]
fn a_dreq_without_an_answer_ends_by_time() {
    let mut pair = Pair::new();
    let ids = pair.established();
    pair.sides[0].disconnect(pair.now, ids[0], &[]).unwrap();
    for _ in 0..16 {
        pair.sent_one(0, MessageKind::Dreq);
        pair.expire(0);
    }
    assert!(matches!(
        pair.event(0),
        Event::Disconnected {
            is_timeout: true,
            ..
        }
    ));
    pair.timewait_ends(0, ids[0]);
}

#[test]
fn the_caller_rejects_with_private_data() {
    let mut pair = Pair::new();
    let ids = pair.requested();
    let reject = Reject {
        additional_information: vec![1, 2],
        ..Reject::by_consumer(b"no".to_vec())
    };
    pair.sides[1].reject(pair.now, ids[1], &reject).unwrap();
    let sent = pair.carry(1, MessageKind::Rej);
    assert_eq!(rej(&sent).local_communication_id, CommunicationId::NONE);
    let Event::Rejected {
        reason,
        additional_information,
        private_data,
        ..
    } = pair.event(0)
    else {
        panic!("a REJ");
    };
    assert_eq!(reason, RejectReason::CONSUMER);
    assert_eq!(additional_information, [1, 2]);
    assert_eq!(trimmed(&private_data), b"no");
    pair.timewait_ends(0, ids[0]);
    pair.timewait_ends(1, ids[1]);
}

#[test]
fn a_lost_rej_is_sent_again() {
    let mut pair = Pair::new();
    pair.connect(0x11);
    let req = pair.carry(0, MessageKind::Req);
    let Event::ConnectRequest { id, .. } = pair.event(1) else {
        panic!("a request");
    };
    let reject = Reject::by_consumer(Vec::new());
    pair.sides[1].reject(pair.now, id, &reject).unwrap();
    let lost = pair.sent_one(1, MessageKind::Rej);
    pair.deliver(1, &req);
    assert_eq!(pair.sent_one(1, MessageKind::Rej), lost);
    pair.no_event(1);
}

#[test]
fn the_active_side_rejects_a_rep() {
    let mut pair = Pair::new();
    let ids = pair.replied();
    let reject = Reject::by_consumer(Vec::new());
    pair.sides[0].reject(pair.now, ids[0], &reject).unwrap();
    assert_eq!(
        rej(&pair.carry(0, MessageKind::Rej)).message_rejected,
        Rej::REP
    );
    assert_eq!(reason_of(&pair.event(1)), RejectReason::CONSUMER);
    pair.timewait_ends(0, ids[0]);
    pair.timewait_ends(1, ids[1]);
}

#[test]
fn a_rej_of_an_established_connection_is_its_end() {
    let mut pair = Pair::new();
    let ids = pair.established();
    let stray = Rej {
        remote_communication_id: ids[0],
        message_rejected: Rej::REQ,
        reason: RejectReason::INVALID_SERVICE_ID,
        ..Rej::default()
    };
    pair.inject(0, stray);
    assert_eq!(pair.state(0, ids[0]), State::Established, "of a late REQ");
    let rej = Rej {
        local_communication_id: ids[1],
        remote_communication_id: ids[0],
        reason: RejectReason::TIMEOUT,
        ..Rej::default()
    };
    pair.inject(0, rej);
    assert!(matches!(pair.event(0), Event::Disconnected { .. }));
    pair.timewait_ends(0, ids[0]);
}

#[test]
fn without_a_listener_the_caller_decides_who_refuses() {
    let mut pair = Pair::new();
    pair.sides[1].stop_listening(pair.listener).unwrap();
    pair.connect(0x11);
    let req = pair.sent_one(0, MessageKind::Req);
    let disposition = pair.deliver(1, &req);
    assert!(
        matches!(disposition, Disposition::NoListener(_)),
        "{disposition:?}"
    );
    assert_eq!(pair.sent(1), []);
    pair.sides[1].refuse(req.from, req.to, &req.mad[..]);
    let rej = rej(&pair.carry(1, MessageKind::Rej));
    assert_eq!(rej.reason, RejectReason::INVALID_SERVICE_ID);
    assert_eq!(rej.local_communication_id, CommunicationId::NONE);
    assert_eq!(reason_of(&pair.event(0)), RejectReason::INVALID_SERVICE_ID);
    let unknown = pair.sides[1].stop_listening(pair.listener);
    assert_eq!(unknown, Err(CommandError::UnknownListener(pair.listener)));
}

#[test]
fn an_unknown_transport_or_header_is_refused() {
    let mut pair = Pair::new();
    let id = pair.connect(0x11);
    let Message::Req(good) = message(&pair.sent_one(0, MessageKind::Req)) else {
        panic!("a REQ");
    };
    let datagram = Req {
        transport_service_type: 2,
        ..good
    };
    pair.inject(1, datagram);
    let reason = rej(&pair.sent_one(1, MessageKind::Rej)).reason;
    assert_eq!(reason, RejectReason::INVALID_TRANSPORT_SERVICE_TYPE);
    let mut of_ip_version_5 = good;
    of_ip_version_5.private_data.0[1] = 0x50;
    pair.inject(1, of_ip_version_5);
    let rej = rej(&pair.sent_one(1, MessageKind::Rej));
    assert_eq!(rej.reason, RejectReason::UNSUPPORTED_REQUEST);
    assert_eq!(rej.remote_communication_id, id);
    assert!(pair.sides[1].is_idle());
}

#[test]
fn a_queue_pair_that_connects_again_is_stale_and_then_free() {
    let mut pair = Pair::new();
    let old = pair.established();
    // The peer has died and restarted with the same queue pair number.
    let mut config = Config::new(3);
    config.first_id = 100;
    pair.sides[0] = Cm::new(config);
    pair.connect(0x11);
    let req = pair.sent_one(0, MessageKind::Req);
    pair.deliver(1, &req);
    let sent = pair.sent(1);
    assert_eq!(rej(&sent[0]).reason, RejectReason::STALE_CONNECTION);
    assert_eq!(pair::kind(&sent[1]), MessageKind::Dreq);
    assert_eq!(pair.state(1, old[1]), State::DreqSent);
    pair.deliver(0, &sent[0]);
    assert_eq!(reason_of(&pair.event(0)), RejectReason::STALE_CONNECTION);
    // Another tag: the host answers for the dead process.
    let disposition = pair.deliver(0, &sent[1]);
    assert!(
        matches!(disposition, Disposition::NotOurs(_)),
        "{disposition:?}"
    );
    pair.sides[0].refuse(sent[1].from, sent[1].to, &sent[1].mad[..]);
    pair.carry(0, MessageKind::Drep);
    assert!(matches!(pair.event(1), Event::Disconnected { .. }));
    let new = pair.established();
    assert_eq!(pair.state(1, new[1]), State::Established);
}

#[test]
fn an_identifier_that_begins_anew_is_stale() {
    let mut pair = Pair::new();
    let old = pair.established();
    pair.sides[0] = Cm::new(Config::new(1));
    let id = pair.connect(0x77);
    assert_eq!(id, old[0], "the same identifier");
    let req = pair.sent_one(0, MessageKind::Req);
    pair.deliver(1, &req);
    let sent = pair.sent(1);
    assert_eq!(rej(&sent[0]).reason, RejectReason::STALE_CONNECTION);
    assert_eq!(pair::kind(&sent[1]), MessageKind::Dreq);
    pair.no_event(1);
}

#[test]
fn a_rep_from_a_connected_queue_pair_is_stale() {
    let mut pair = Pair::new();
    let old = pair.established();
    let id = pair.connect(0x12);
    let Message::Req(request) = message(&pair.sent_one(0, MessageKind::Req)) else {
        panic!("a REQ");
    };
    let rep = Rep {
        local_communication_id: CommunicationId(0x0200_0099),
        remote_communication_id: request.local_communication_id,
        local_qpn: Qpn::new(0x22),
        ..Rep::default()
    };
    pair.inject(0, rep);
    let sent = pair.sent(0);
    assert_eq!(rej(&sent[0]).reason, RejectReason::STALE_CONNECTION);
    assert_eq!(pair::kind(&sent[1]), MessageKind::Dreq);
    assert_eq!(pair.state(0, old[0]), State::DreqSent);
    assert_eq!(pair.state(0, id), State::Timewait);
    assert_eq!(reason_of(&pair.event(0)), RejectReason::STALE_CONNECTION);
}

#[test]
fn a_full_backlog_drops_requests() {
    let mut pair = Pair::new();
    let mut reqs = Vec::new();
    for qpn in 1..=3 {
        pair.connect(qpn);
        reqs.push(pair.sent_one(0, MessageKind::Req));
    }
    for req in &reqs {
        assert_eq!(pair.deliver(1, req), Disposition::Taken);
    }
    assert_eq!(pair.sent(1), []);
    let first = pair.event(1);
    pair.event(1);
    pair.no_event(1);
    assert_eq!(pair.sides[1].statistics().requests_dropped, 1);
    let Event::ConnectRequest { id, .. } = first else {
        panic!("a request");
    };
    pair.sides[1].release_backlog(id);
    pair.sides[1].release_backlog(id);
    pair.deliver(1, &reqs[2]);
    assert!(matches!(pair.event(1), Event::ConnectRequest { .. }));
    let held = pair.sides[1].listeners().map(|(_, _, held)| held).max();
    assert_eq!(held, Some(2));
}

#[test]
fn listeners_are_chosen_by_address() {
    let mut pair = Pair::new();
    let again = pair.sides[1].listen(&listen(PortSpace::Tcp, 0));
    assert_eq!(again, Err(CommandError::AddressInUse));
    let at = |address| Listen {
        address,
        ..listen(PortSpace::Tcp, MAX_BACKLOG + 1)
    };
    let v6 = pair.sides[1].listen(&at(ListenAddress::AnyIpv6)).unwrap();
    let chosen = |pair: &mut Pair, qpn| {
        pair.connect(qpn);
        pair.carry(0, MessageKind::Req);
        match pair.event(1) {
            Event::ConnectRequest { listener, .. } => listener,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(chosen(&mut pair, 1), Some(pair.listener));
    let v4 = pair.sides[1].listen(&at(ListenAddress::AnyIpv4)).unwrap();
    assert_eq!(chosen(&mut pair, 2), Some(v4));
    let one = pair.sides[1]
        .listen(&at(ListenAddress::Gid(gid(1))))
        .unwrap();
    assert_eq!(chosen(&mut pair, 3), Some(one));
    assert!(![one, v4].contains(&v6));
}

#[test]
fn an_mra_delays_retries() {
    let mut pair = Pair::new();
    let ids = pair.requested();
    let response_time =
        Duration::from_ns(CmTimeout::new(20).as_ns() + 2 * CmTimeout::new(16).as_ns());
    let mra = Mra {
        local_communication_id: ids[1],
        remote_communication_id: ids[0],
        message_mraed: Mra::REQ,
        service_timeout: CmTimeout::new(24),
        ..Mra::default()
    };
    pair.inject(0, mra);
    let until = pair.now + Duration::from_ns(CmTimeout::new(24).as_ns()) + response_time;
    assert_eq!(pair.sides[0].next_timeout(), Some(until));
    pair.expire(0);
    pair.sent_one(0, MessageKind::Req);
    let of_rep = Mra {
        message_mraed: Mra::REP,
        ..mra
    };
    pair.inject(0, of_rep);
    assert_eq!(pair.sides[0].statistics().unexpected, 1);
    assert_eq!(pair.sides[0].next_timeout(), Some(until + response_time));

    pair.sides[1]
        .accept(pair.now, ids[1], &accept(1, 2, &[]))
        .unwrap();
    pair.sent_one(1, MessageKind::Rep);
    let mra = Mra {
        local_communication_id: ids[0],
        remote_communication_id: ids[1],
        ..of_rep
    };
    pair.inject(1, mra);
    let service = Duration::from_ns(CmTimeout::new(24).as_ns());
    assert!(pair.sides[1].next_timeout().unwrap() > pair.now + service);
}

#[test]
fn alternate_paths_are_not_supported() {
    let mut pair = Pair::new();
    let ids = pair.established();
    let mut lap = Lap {
        local_communication_id: ids[0],
        remote_communication_id: ids[1],
        ..Lap::default()
    };
    let status = |pair: &mut Pair| match message(&pair.sent_one(1, MessageKind::Apr)) {
        Message::Apr(apr) => apr.ar_status,
        other => panic!("{other:?}"),
    };
    pair.inject(1, lap);
    assert_eq!(status(&mut pair), Apr::NOT_SUPPORTED);
    lap.remote_communication_id = CommunicationId(0x0200_7777);
    pair.inject(1, lap);
    assert_eq!(status(&mut pair), Apr::INVALID_COMMUNICATION_ID);
    pair.inject(1, Apr::default());
    assert_eq!(pair.sent(1), []);
}

#[test]
fn data_before_the_rtu_establishes() {
    let mut pair = Pair::new();
    let ids = pair.replied();
    pair.sides[0].establish(ids[0], &[]).unwrap();
    let rtu = pair.sent_one(0, MessageKind::Rtu);
    pair.sides[1].notify_established(ids[1]).unwrap();
    assert!(matches!(pair.event(1), Event::Established { .. }));
    pair.deliver(1, &rtu);
    pair.no_event(1);
    assert_eq!(pair.sides[1].next_timeout(), None);
}

#[test]
fn timewait_is_bounded_by_the_configuration() {
    for (config, expected) in [
        (Config::functional(1), Duration::from_ms(50)),
        (
            Config::new(1),
            Duration::from_ns(CmTimeout::new(17).as_ns()),
        ),
    ] {
        let mut pair = Pair::new();
        pair.sides[0] = Cm::new(config);
        let ids = pair.established();
        pair.sides[0].disconnect(pair.now, ids[0], &[]).unwrap();
        pair.carry(0, MessageKind::Dreq);
        pair.carry(1, MessageKind::Drep);
        pair.event(0);
        assert_eq!(pair.sides[0].next_timeout(), Some(pair.now + expected));
        pair.timewait_ends(0, ids[0]);
    }
}

#[test]
fn destroyed_connections_end_without_events() {
    let mut pair = Pair::new();
    let ids = pair.established();
    pair.sides[1].destroy(pair.now, ids[1]);
    let unknown = pair.sides[1].disconnect(pair.now, ids[1], &[]);
    assert_eq!(unknown, Err(CommandError::UnknownConnection(ids[1])));
    pair.carry(1, MessageKind::Dreq);
    assert!(matches!(pair.event(0), Event::Disconnected { .. }));
    pair.carry(0, MessageKind::Drep);
    pair.expire(1);
    assert!(pair.sides[1].is_idle());
    pair.timewait_ends(0, ids[0]);

    let ids = pair.requested();
    pair.sides[1].destroy(pair.now, ids[1]);
    pair.carry(1, MessageKind::Rej);
    assert_eq!(reason_of(&pair.event(0)), RejectReason::CONSUMER);
    assert_eq!(
        pair.sides[1]
            .listeners()
            .map(|(_, _, held)| held)
            .sum::<u32>(),
        0
    );
}

#[test]
fn commands_in_the_wrong_state_are_refused() {
    let mut pair = Pair::new();
    let ids = pair.requested();
    let now = pair.now;
    let wrong = |state| Err(CommandError::State(state));
    let [a, b] = &mut pair.sides;
    assert_eq!(a.establish(ids[0], &[]), wrong(State::ReqSent));
    assert_eq!(a.disconnect(now, ids[0], &[]), wrong(State::ReqSent));
    assert_eq!(
        a.accept(now, ids[0], &accept(0, 1, &[])),
        wrong(State::ReqSent)
    );
    assert_eq!(b.notify_established(ids[1]), wrong(State::ReqReceived));
    let reject = Reject::by_consumer(Vec::new());
    assert_eq!(a.reject(now, ids[0], &reject), wrong(State::ReqSent));
    let too_long = accept(1, 1, &[1; 197]);
    let (length, limit) = (197, 196);
    let refused = Err(CommandError::PrivateData { length, limit });
    assert_eq!(b.accept(now, ids[1], &too_long), refused);
    let (length, limit) = (57, 56);
    let refused = Err(CommandError::PrivateData { length, limit });
    assert_eq!(a.connect(now, &connect(0, 1, &[1; 57])), refused);
}

/// Both connect to each other: the side with the greater GUID stays active.
#[test]
fn peers_agree_on_the_active_side() {
    for order in [[0, 1], [1, 0]] {
        let mut pair = Pair::new();
        pair.sides[1].stop_listening(pair.listener).unwrap();
        let ids = [0, 1].map(|side| {
            let mut request = connect(side, 0x10 + side as u32, &[]);
            request.is_peer = true;
            pair.sides[side].connect(pair.now, &request).unwrap()
        });
        let reqs = [0, 1].map(|side| pair.sent_one(side, MessageKind::Req));
        for side in order {
            assert_eq!(pair.deliver(1 - side, &reqs[side]), Disposition::Taken);
        }
        // Side 1 has the greater GUID.
        let Event::ConnectRequest { listener, id, .. } = pair.event(0) else {
            panic!("a request");
        };
        assert_eq!((listener, id), (None, ids[0]));
        pair.no_event(1);
        let accept = accept(0, 0x10, &[]);
        pair.sides[0].accept(pair.now, id, &accept).unwrap();
        pair.carry(0, MessageKind::Rep);
        assert!(matches!(pair.event(1), Event::ConnectResponse { .. }));
        // Late copies of both requests change nothing.
        pair.deliver(1, &reqs[0]);
        pair.deliver(0, &reqs[1]);
        pair.sent_one(0, MessageKind::Rep);
        assert_eq!(pair.sent(1), []);
        pair.sides[1].establish(ids[1], &[]).unwrap();
        pair.carry(1, MessageKind::Rtu);
        assert!(matches!(pair.event(0), Event::Established { .. }));
        pair.sides[0].disconnect(pair.now, ids[0], &[]).unwrap();
        pair.carry(0, MessageKind::Dreq);
        pair.carry(1, MessageKind::Drep);
        pair.event(0);
        pair.event(1);
        pair.timewait_ends(0, ids[0]);
        pair.timewait_ends(1, ids[1]);
    }
}

#[test]
fn a_service_is_resolved_and_duplicates_are_answered() {
    let mut pair = Pair::new();
    let request = sidr(0, b"who");
    let asked = pair.sides[0].resolve_service(pair.now, &request).unwrap();
    let req = pair.carry(0, MessageKind::SidrReq);
    let Event::SidrRequest {
        id, private_data, ..
    } = pair.event(1)
    else {
        panic!("a request");
    };
    assert_eq!(trimmed(&private_data), b"who");
    pair.deliver(1, &req);
    assert_eq!(pair.sent(1), []);
    let response = SidrResponse {
        status: SidrStatus::SUCCESS,
        qpn: Qpn::new(0x21),
        q_key: QKey(0x0123_4567),
        ece: Ece::default(),
        private_data: b"me".to_vec(),
    };
    pair.sides[1].respond(pair.now, id, &response).unwrap();
    let rep = pair.carry(1, MessageKind::SidrRep);
    pair.deliver(1, &req);
    assert_eq!(pair.sent_one(1, MessageKind::SidrRep), rep);
    pair.deliver(0, &rep);
    let Event::SidrResponse { id, response, .. } = pair.event(0) else {
        panic!("a response");
    };
    assert_eq!((id, response.qpn), (asked, Qpn::new(0x21)));
    assert_eq!(response.q_key, QKey(0x0123_4567));
    assert_eq!(trimmed(&response.private_data.0), b"me");
    pair.no_event(0);
    assert!(pair.sides[0].is_idle());
    pair.expire(1);
    assert!(pair.sides[1].is_idle());
}

#[test]
fn a_service_that_is_not_there_is_refused_or_unreachable() {
    let mut pair = Pair::new();
    let mut request = sidr(0, &[]);
    request.service_id = PortSpace::Udp.service_id(1);
    let id = pair.sides[0].resolve_service(pair.now, &request).unwrap();
    let req = pair.sent_one(0, MessageKind::SidrReq);
    let disposition = pair.deliver(1, &req);
    assert!(
        matches!(disposition, Disposition::NoListener(_)),
        "{disposition:?}"
    );
    for _ in 0..16 {
        pair.expire(0);
    }
    assert_eq!(pair.event(0), Event::Unreachable { id });
    pair.sent(0);
    assert!(pair.sides[0].is_idle());

    pair.sides[0].resolve_service(pair.now, &request).unwrap();
    let req = pair.sent_one(0, MessageKind::SidrReq);
    pair.sides[1].refuse(req.from, req.to, &req.mad[..]);
    pair.carry(1, MessageKind::SidrRep);
    let Event::SidrResponse { response, .. } = pair.event(0) else {
        panic!("a response");
    };
    assert_eq!(response.status, SidrStatus::UNSUPPORTED);

    request.service_id = PortSpace::Udp.service_id(pair::PORT);
    pair.sides[0].resolve_service(pair.now, &request).unwrap();
    pair.carry(0, MessageKind::SidrReq);
    let Event::SidrRequest { id, .. } = pair.event(1) else {
        panic!("a request");
    };
    pair.sides[1].destroy(pair.now, id);
    pair.carry(1, MessageKind::SidrRep);
    assert!(matches!(pair.event(0), Event::SidrResponse { .. }));
    assert!(pair.sides[0].is_idle());
}

/// A killed process sends nothing; the other side learns of it from its host.
#[test]
fn connections_of_a_process_that_has_ended_end() {
    let mut pair = Pair::new();
    let established = pair.established();
    let requested = pair.connect(0x12);
    pair.carry(0, MessageKind::Req);
    let Event::ConnectRequest { id: asked, .. } = pair.event(1) else {
        panic!("a request");
    };
    let tag_of_0 = (established[0].0 >> 24) as u8;
    assert_ne!(tag_of_0, (established[1].0 >> 24) as u8);
    let now = pair.now;
    pair.sides[1].end_lost(now, |_, tag| tag != tag_of_0);
    assert_eq!(pair.state(1, established[1]), State::Established);
    pair.sides[1].end_lost(now, |_, tag| tag == tag_of_0);
    let events = [pair.event(1), pair.event(1)];
    let ended = established[1];
    let is_ended = |event: &Event| matches!(event, Event::Disconnected { id, .. } if *id == ended);
    assert!(events.iter().any(is_ended), "{events:?}");
    let is_rejected = |event: &Event| matches!(event, Event::Rejected { id, .. } if *id == asked);
    assert!(events.iter().any(is_rejected), "{events:?}");
    // The surviving side must not take itself for the dead one.
    assert_eq!(pair.state(0, requested), State::ReqSent);
}
