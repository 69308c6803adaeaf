//! States: the inputs that each accepts, draining, errors, and reuse after RESET.

use crate::pair::script::{READ, SEND, Script, WRITE, request};
use crate::pair::{Setup, bring_up};
use CompletionStatus::{Success, WrFlush};
use ferroce_transport::{
    AttributeUpdate, CompletionStatus, Config, Event, LocalAckTimeout, MemoryAnswer, MemoryOp,
    ModifyError, Qp, QpState, RetryCount, Service, Step, Transition, TransitionError,
};
use ferroce_wire::{Position, Qpn, SendPart};

fn script() -> Script {
    Script::new(Setup::default())
}

const NOTHING: AttributeUpdate = AttributeUpdate {
    access: None,
    p_key: None,
    port: None,
    min_rnr_timer: None,
    timeout: None,
    retry_count: None,
    rnr_retry: None,
    max_rd_atomic: None,
    max_dest_rd_atomic: None,
    q_key: None,
};

fn modify(s: &mut Script, transition: Transition) -> Result<(), ModifyError> {
    s.qp.modify(s.now, transition)
}

/// A script whose queue pair has taken only the first `steps` transitions.
fn young(steps: usize) -> Script {
    let setup = Setup::default();
    let mut s = script();
    s.qp = Qp::new(
        Qpn::new(0x11),
        Service::ReliableConnected,
        Config::default(),
    );
    for transition in bring_up(&setup, 0).into_iter().take(steps) {
        modify(&mut s, transition).expect("the way up is legal");
    }
    s
}

#[test]
fn a_queue_pair_is_small() {
    assert!(size_of::<Qp>() <= 640, "{} bytes", size_of::<Qp>());
}

#[test]
fn before_rtr_packets_are_dropped() {
    for steps in 0..2 {
        let mut s = young(steps);
        assert_eq!(s.send_part(0, SendPart::Only, 4), Step::Done);
        assert!(!s.qp.has_transmit() && s.completions().is_empty());
    }
}

#[test]
fn in_rtr_the_responder_works_and_says_so_once() {
    let mut s = young(2);
    s.good_send(0, 0);
    assert_eq!(s.events(), [Event::CommunicationEstablished]);
    s.good_send(1, 1);
    assert_eq!(s.events(), []);
    assert_eq!(s.responses().len(), 1);
    s.post(0, SEND, 4);
    assert_eq!(
        s.statuses().last(),
        Some(&(0, WrFlush)),
        "the requester does not"
    );
}

#[test]
fn attributes_can_be_asked_for() {
    let s = script();
    let attributes = s.qp.attributes();
    assert_eq!(attributes.dest_qp, Qpn::new(0x12));
    assert_eq!(attributes.timeout, LocalAckTimeout::new(4));
    assert_eq!(
        (s.qp.next_send_psn(), s.qp.next_receive_psn()),
        (s.send_psn(0), s.receive_psn(0))
    );
    assert_eq!(s.qp.service(), Service::ReliableConnected);
}

#[test]
fn illegal_transitions_change_nothing() {
    let mut s = young(1);
    let before = *s.qp.attributes();
    let error = modify(&mut s, Transition::Drain { notify: false });
    assert_eq!(
        error,
        Err(ModifyError::Transition(TransitionError::Illegal {
            from: QpState::Init,
            to: QpState::Sqd
        }))
    );
    assert_eq!((s.qp.state(), *s.qp.attributes()), (QpState::Init, before));
}

#[test]
fn draining_finishes_what_was_begun_and_reports_it() {
    let mut s = script();
    for id in 0..3 {
        s.post_request(request(id, WRITE, 600));
    }
    let _ = s.qp.poll_transmit(s.now);
    modify(&mut s, Transition::Drain { notify: true }).expect("RTS drains");
    assert!(s.qp.is_draining());
    assert_eq!(
        modify(&mut s, Transition::Update(NOTHING)),
        Err(ModifyError::Draining)
    );
    let sent = s.sent();
    assert_eq!(
        sent.len(),
        2,
        "the message is finished, the next one not begun"
    );
    assert!(sent[1].3, "and asks for its acknowledge");
    assert_eq!(s.events(), []);
    s.ack(2);
    assert_eq!(s.events(), [Event::SqDrained]);
    assert!(!s.qp.is_draining());
    let update = AttributeUpdate {
        retry_count: Some(RetryCount::new(1)),
        ..NOTHING
    };
    modify(&mut s, Transition::Update(update)).expect("drained");
    assert_eq!(s.qp.attributes().retry_count, RetryCount::new(1));
    assert_eq!(s.sent_psns(), []);
    s.good_send(0, 0);
    assert_eq!(s.responses().len(), 1, "the responder works");
    modify(&mut s, Transition::Resume(NOTHING)).expect("SQD resumes");
    assert_eq!(s.sent_psns(), [3, 4, 5, 6, 7, 8]);
}

#[test]
fn draining_retries_and_solicits_the_missing_acknowledge() {
    let mut s = script();
    s.post_request(request(0, WRITE, 8));
    s.post_request(request(1, WRITE, 8));
    let first = s.qp.poll_transmit(s.now).expect("a request");
    assert!(!first.headers.bth.ack_request);
    modify(&mut s, Transition::Drain { notify: true }).expect("RTS drains");
    let sent = s.sent();
    assert_eq!((sent.len(), sent[0].2, sent[0].3), (1, 0, true));
    s.expire();
    assert_eq!(s.sent_psns(), [0]);
    s.ack(0);
    assert_eq!(s.events(), [Event::SqDrained]);
}

#[test]
fn an_idle_send_queue_is_drained_at_once_and_reports_only_if_asked() {
    let mut s = script();
    modify(&mut s, Transition::Drain { notify: false }).expect("RTS drains");
    assert_eq!(s.events(), []);
    modify(&mut s, Transition::Resume(NOTHING)).expect("SQD resumes");
    modify(&mut s, Transition::Drain { notify: true }).expect("RTS drains");
    assert_eq!(s.events(), [Event::SqDrained]);
    s.post(0, SEND, 4);
    assert!(!s.qp.has_transmit(), "posted, but not begun");
    modify(&mut s, Transition::Resume(NOTHING)).expect("SQD resumes");
    assert_eq!(s.sent_psns(), [0]);
}

#[test]
fn the_error_state_flushes_in_order() {
    let mut s = script();
    let step = s.send_part(0, SendPart::First, 256);
    s.execute(step, 30, 4096);
    s.transmit();
    s.post(0, READ, 8);
    s.post_request(request(1, WRITE, 600));
    s.post(2, SEND, 8);
    s.transmit();
    modify(&mut s, Transition::Err).expect("any state fails");
    s.qp.flush_receive(31);
    s.qp.flush_receive(32);
    s.post(3, SEND, 8);
    let expected: Vec<_> = [0, 1, 2, 30, 31, 32, 3].map(|id| (id, WrFlush)).to_vec();
    assert_eq!(s.statuses(), expected);
    assert_eq!(s.events(), [Event::LastWqeReached]);
    assert!(!s.qp.has_transmit() && s.qp.next_timeout().is_none());
    s.ack(2);
    modify(&mut s, Transition::Err).expect("again");
    assert_eq!((s.statuses(), s.events()), (vec![], vec![]));
}

#[test]
fn reset_forgets_and_the_queue_pair_lives_again() {
    let mut s = script();
    s.post(0, SEND, 8);
    s.transmit();
    let step = s.send_part(0, SendPart::Only, 4);
    assert_eq!(step, Step::Memory(MemoryOp::TakeReceive));
    modify(&mut s, Transition::Reset).expect("any state resets");
    assert_eq!(s.answer(MemoryAnswer::NoReceive), Step::Done);
    assert!(s.completions().is_empty() && s.events().is_empty() && !s.qp.has_transmit());
    assert_eq!(s.qp.next_timeout(), None);
    for transition in bring_up(&Setup::default(), 0) {
        modify(&mut s, transition).expect("the way up is legal");
    }
    s.good_send(0, 5);
    s.post(6, READ, 4);
    assert_eq!(s.transmit().len(), 2);
    s.good_read_response(0, Position::Only, 4);
    assert_eq!(s.statuses(), [(5, Success), (6, Success)]);
}

#[test]
fn attributes_change_in_rts() {
    let mut s = script();
    let closed = AttributeUpdate {
        access: Some(Default::default()),
        ..NOTHING
    };
    modify(&mut s, Transition::Update(closed)).expect("access may change in RTS");
    assert!(!s.qp.attributes().access.write);
    let timeout = AttributeUpdate {
        timeout: Some(LocalAckTimeout::new(9)),
        ..NOTHING
    };
    assert!(matches!(
        modify(&mut s, Transition::Update(timeout)),
        Err(ModifyError::Transition(TransitionError::Attribute { .. }))
    ));
}
