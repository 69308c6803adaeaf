//! Differences of XRC from RC.

use crate::pair::script::{READ, SEND, Script, WRITE, request, reth};
use crate::pair::{SRQN, Setup};
use ferroce_transport::{
    Completion, CompletionStatus, Destination, LocalKind, MemoryAnswer, MemoryOp, Payload, QpState,
    SendOperation, SendRequest, Service, Step,
};
use ferroce_wire::{
    Aeth, Connected, Extension, Msn, NakCode, Operation, RKey, RequestExtension, SendPart,
    Syndrome, Transport, TransportHeaders, WritePart, XrcEth,
};

fn script(service: Service) -> Script {
    Script::new(Setup {
        services: [service; 2],
        ..Setup::default()
    })
}

fn xrc(headers: TransportHeaders, srqn: u32) -> TransportHeaders {
    headers
        .into_xrc(XrcEth::new(srqn))
        .expect("it is a packet of RC")
}

fn send(s: &mut Script, relative: u32, part: SendPart, length: u32, srqn: u32) -> Step {
    let headers = TransportHeaders::send(s.request_bth(relative), Connected::Reliable, part);
    s.handle(&xrc(headers, srqn), length)
}

#[test]
fn every_request_names_its_shared_receive_queue() {
    let mut s = script(Service::XrcInitiator);
    for (id, operation, srqn) in [(0, SEND, 1), (1, WRITE, 2), (2, READ, 3)] {
        s.post_request(SendRequest {
            destination: Destination::Xrc { srqn },
            ..request(id, operation, 300)
        });
    }
    let packets = s.transmit();
    let srqns: Vec<_> = packets
        .iter()
        .map(|packet| {
            let known = packet.headers.bth.opcode.parse().expect("it is known");
            assert_eq!(known.transport, Transport::ExtendedReliableConnected);
            assert!(packet.headers.is_legal());
            match packet.headers.extension {
                Extension::Xrc(xrc, _) => xrc.srq_number,
                other => panic!("{other:?}"),
            }
        })
        .collect();
    assert_eq!(srqns, [1, 1, 2, 2, 3]);
    assert!(matches!(
        packets[2].headers.extension,
        Extension::Xrc(_, RequestExtension::Reth(_))
    ));
}

#[test]
fn an_initiator_obeys_acknowledges_of_its_service_only() {
    let mut s = script(Service::XrcInitiator);
    s.post(0, SEND, 4);
    s.transmit();
    let aeth = Aeth {
        syndrome: Syndrome::ACK_UNLIMITED,
        msn: Msn::new(1),
    };
    let ack = TransportHeaders::acknowledge(s.response_bth(0), aeth);
    assert_eq!(s.handle(&ack, 0), Step::Done);
    assert_eq!(s.statuses(), [], "that was one of RC");
    assert_eq!(s.handle(&xrc(ack, 0), 0), Step::Done);
    assert_eq!(s.statuses(), [(0, CompletionStatus::Success)]);
}

#[test]
fn an_initiator_takes_no_requests_and_a_target_no_responses() {
    let mut s = script(Service::XrcInitiator);
    assert_eq!(send(&mut s, 0, SendPart::Only, 4, SRQN), Step::Done);
    assert!(!s.qp.has_transmit());

    let mut s = script(Service::XrcTarget);
    let step = s.send_part(0, SendPart::Only, 4);
    assert_eq!(step, Step::Done, "that was a request of RC");
    let aeth = Aeth {
        syndrome: Syndrome::Nak(NakCode::RemoteAccessError),
        msn: Msn::new(0),
    };
    let nak = TransportHeaders::acknowledge(s.response_bth(0), aeth);
    assert_eq!(s.handle(&xrc(nak, 0), 0), Step::Done);
    assert_eq!(s.qp.state(), QpState::Rts);
}

#[test]
fn a_target_takes_receives_of_the_queue_that_the_message_names() {
    let mut s = script(Service::XrcTarget);
    let step = send(&mut s, 0, SendPart::First, 256, SRQN);
    assert_eq!(step, Step::Memory(MemoryOp::TakeShared { srqn: SRQN }));
    s.execute(step, 5, 600);
    // Another queue in the middle of a message changes nothing.
    let step = send(&mut s, 1, SendPart::Last, 4, SRQN + 1);
    s.execute(step, 6, 600);
    let [
        Completion::Receive {
            receive: 5,
            srqn: Some(SRQN),
            byte_length: 260,
            ..
        },
    ] = s.completions()[..]
    else {
        panic!("one receive completes");
    };
    let [response] = s.transmit()[..] else {
        panic!("one acknowledge leaves");
    };
    let known = response.headers.bth.opcode.parse().expect("it is known");
    assert_eq!(known.transport, Transport::ExtendedReliableConnected);
    assert_eq!(known.operation, Operation::Acknowledge);
    assert!(response.headers.is_legal());
}

#[test]
fn accesses_of_a_target_name_the_queue_whose_domain_counts() {
    let mut s = script(Service::XrcTarget);
    let write = WritePart::Only(reth(8));
    let headers = TransportHeaders::write(s.request_bth(0), Connected::Reliable, write);
    let step = s.handle(&xrc(headers, 3), 8);
    let operations = s.execute(step, 0, 0);
    assert!(matches!(
        operations[..],
        [
            MemoryOp::Validate { srqn: Some(3), .. },
            MemoryOp::WriteRemote { srqn: Some(3), .. }
        ]
    ));
    let headers = TransportHeaders::read_request(s.request_bth(1), reth(8));
    let step = s.handle(&xrc(headers, 4), 0);
    s.execute(step, 0, 0);
    let packets = s.transmit();
    let read = packets.last().expect("a READ response leaves");
    assert_eq!(
        read.payload,
        Payload::ReadResponse {
            r_key: RKey(5),
            virtual_address: 0x8000,
            length: 8,
            srqn: Some(4),
        }
    );
}

#[test]
fn an_unknown_queue_is_an_invalid_request() {
    let mut s = script(Service::XrcTarget);
    let step = send(&mut s, 0, SendPart::Only, 4, 9);
    assert_eq!(step, Step::Memory(MemoryOp::TakeShared { srqn: 9 }));
    assert_eq!(s.answer(MemoryAnswer::Invalid), Step::Done);
    assert_eq!(s.qp.state(), QpState::Err);
    let nak = Syndrome::Nak(NakCode::InvalidRequest);
    assert_eq!(s.responses(), [(0, nak)]);
}

#[test]
fn a_receive_in_use_is_flushed_to_its_own_queue() {
    let mut s = script(Service::XrcTarget);
    let step = send(&mut s, 0, SendPart::First, 256, SRQN);
    s.execute(step, 5, 600);
    s.qp.modify(s.now, ferroce_transport::Transition::Err)
        .expect("ERR is legal");
    let [
        Completion::Receive {
            receive: 5,
            status: CompletionStatus::WrFlush,
            srqn: Some(SRQN),
            ..
        },
    ] = s.completions()[..]
    else {
        panic!("one receive is flushed");
    };
}

#[test]
fn only_an_initiator_sends_and_only_to_a_queue() {
    for (service, destination) in [
        (Service::XrcInitiator, Destination::Connected),
        (Service::XrcTarget, Destination::Xrc { srqn: SRQN }),
    ] {
        let mut s = script(service);
        s.post_request(SendRequest {
            destination,
            ..request(0, SEND, 4)
        });
        assert_eq!(s.statuses(), [(0, CompletionStatus::LocalQpOperation)]);
    }
    let mut s = script(Service::XrcInitiator);
    s.post_request(request(0, SendOperation::Local(LocalKind::Nop), 0));
    assert_eq!(s.qp.poll_local(), Some(0));
}
