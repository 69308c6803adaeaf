//! UC and UD against captures of Linux soft-RoCE: our requester sends the same packets for the same
//! messages, and our receiver accepts each captured packet.
//!
//! One bit differs: soft-RoCE sets AckReq in packets that are never acknowledged.

use crate::captures;
use crate::captures::Captured;
use ferroce_transport::{
    AttributeUpdate, Completion, CompletionStatus, Config, Destination, InitAttributes,
    MemoryAnswer, MemoryOp, PathMtu, Qp, Remote, RemoteAccess, RtrAttributes, RtsAttributes,
    SendOperation, SendRequest, Service, Step, Transition,
};
use ferroce_units::Instant;
use ferroce_wire::{Extension, Gid, Operation, PKey, QKey, Qpn, RnrTimer, Transport};

const NOW: Instant = Instant::ZERO;
/// Bytes of the GRH.
const GRH_LENGTH: u32 = 40;

/// Returns a queue pair that sends and receives like the captured one.
fn queue_pair(service: Service, qpn: Qpn, first: &Captured) -> Qp {
    let mut qp = Qp::new(qpn, service, Config::default());
    let update = AttributeUpdate::default();
    let access = RemoteAccess {
        write: true,
        ..RemoteAccess::default()
    };
    let q_key = match first.headers.extension {
        Extension::Deth(deth) | Extension::DethImmediate(deth, _) => deth.q_key,
        _ => QKey(0),
    };
    for transition in [
        Transition::Init(InitAttributes {
            p_key: PKey::DEFAULT,
            access,
            port: 1,
            q_key,
        }),
        Transition::Rtr {
            attributes: RtrAttributes {
                path_mtu: PathMtu::Mtu1024,
                dest_qp: first.headers.bth.dest_qp,
                rq_psn: first.headers.bth.psn,
                max_dest_rd_atomic: 0,
                min_rnr_timer: RnrTimer::new(0),
            },
            update,
        },
        Transition::Rts {
            attributes: RtsAttributes {
                sq_psn: first.headers.bth.psn,
                ..RtsAttributes::default()
            },
            update,
        },
    ] {
        qp.modify(NOW, transition).expect("the way up is legal");
    }
    qp
}

/// Returns the request with these packets.
fn request(id: u32, message: &[&Captured]) -> SendRequest {
    let (first, last) = (message[0], message[message.len() - 1]);
    let known = last.headers.bth.opcode.parse().expect("it was parsed");
    let remote = match first.headers.extension {
        Extension::Reth(reth) | Extension::RethImmediate(reth, _) => Some(Remote {
            virtual_address: reth.virtual_address,
            r_key: reth.r_key,
        }),
        _ => None,
    };
    let immediate = match last.headers.extension {
        Extension::Immediate(immediate)
        | Extension::RethImmediate(_, immediate)
        | Extension::DethImmediate(_, immediate) => Some(immediate),
        _ => None,
    };
    let operation = match (known.operation, remote, immediate) {
        (Operation::Send, ..) => SendOperation::Send,
        (Operation::SendImmediate, _, Some(immediate)) => SendOperation::SendImmediate(immediate),
        (Operation::RdmaWrite, Some(remote), _) => SendOperation::RdmaWrite { remote },
        (Operation::RdmaWriteImmediate, Some(remote), Some(immediate)) => {
            SendOperation::RdmaWriteImmediate { remote, immediate }
        }
        other => panic!("{other:?} in an unreliable service"),
    };
    let destination = match first.headers.extension {
        Extension::Deth(deth) | Extension::DethImmediate(deth, _) => Destination::Datagram {
            qpn: first.headers.bth.dest_qp,
            q_key: deth.q_key,
        },
        _ => Destination::Connected,
    };
    SendRequest {
        id,
        operation,
        length: message.iter().map(|packet| packet.payload_length).sum(),
        signaled: true,
        solicited: last.headers.bth.solicited,
        fence: false,
        destination,
    }
}

/// Groups the packets of one side into messages.
fn messages(packets: &[Captured], side: Gid) -> Vec<Vec<&Captured>> {
    let mut messages: Vec<Vec<&Captured>> = Vec::new();
    for packet in packets.iter().filter(|packet| packet.source == side) {
        let known = packet.headers.bth.opcode.parse().expect("it was parsed");
        if known.starts_message() {
            messages.push(Vec::new());
        }
        messages.last_mut().expect("it starts").push(packet);
    }
    messages
}

/// Checks that our requester sends the same packets.
fn send(name: &str, qp: &mut Qp, messages: &[Vec<&Captured>]) {
    for (id, message) in (0..).zip(messages) {
        let request = request(id, message);
        qp.post_send(NOW, request);
        for packet in message {
            let ours = qp.poll_transmit(NOW).expect("there is a packet");
            let mut expected = packet.headers;
            expected.bth.ack_request = false;
            assert_eq!(ours.headers, expected, "{name}");
            assert_eq!(ours.payload.length(), packet.payload_length);
            assert_eq!(qp.poll_completion(), None, "it has not left yet");
            qp.packet_left(NOW, id);
        }
        let completion = Completion::Send {
            id,
            status: CompletionStatus::Success,
            operation: request.operation.kind(),
            byte_length: request.length,
        };
        assert_eq!(qp.poll_completion(), Some(completion), "{name}");
    }
    assert!(!qp.has_transmit());
}

/// Checks that our receiver accepts all packets.
fn receive(name: &str, qp: &mut Qp, messages: &[Vec<&Captured>]) {
    let grh = match qp.service() {
        Service::UnreliableDatagram => GRH_LENGTH,
        _ => 0,
    };
    for message in messages {
        let request = request(0, message);
        for packet in message {
            let mut step = qp.handle_packet(NOW, &packet.headers, packet.payload_length);
            while let Step::Memory(operation) = step {
                let answer = match operation {
                    MemoryOp::TakeReceive => MemoryAnswer::Receive {
                        id: 0,
                        capacity: u32::MAX,
                    },
                    MemoryOp::Validate { .. } => MemoryAnswer::Valid,
                    _ => MemoryAnswer::Done,
                };
                step = qp.handle_memory(NOW, answer);
            }
        }
        let expected = match request.operation {
            SendOperation::RdmaWrite { .. } => None,
            _ => Some(request.length + grh),
        };
        let received = qp.poll_completion().map(|completion| match completion {
            Completion::Receive { byte_length, .. } => byte_length,
            Completion::Send { .. } => panic!("nothing was sent"),
        });
        assert_eq!(received, expected, "{name}");
    }
}

#[test]
fn unreliable_services_speak_as_linux_did() {
    let (uc, ud) = (Service::UnreliableConnected, Service::UnreliableDatagram);
    let captures = [
        ("rvec_uc_1024", uc, 16),
        ("pingpong_uc", uc, 10),
        ("rvec_ud_1024", ud, 8),
        ("pingpong_ud", ud, 10),
    ];
    for (name, service, at_least) in captures {
        let transport = match service {
            Service::UnreliableConnected => Transport::UnreliableConnected,
            _ => Transport::UnreliableDatagram,
        };
        let packets = captures::packets(name, transport);
        let mut sides: Vec<Gid> = packets.iter().map(|packet| packet.source).collect();
        sides.sort_by_key(|gid| gid.0);
        sides.dedup();
        let mut compared = 0;
        for side in sides {
            let messages = messages(&packets, side);
            let first = messages[0][0];
            // No field of a UC packet names its sender.
            let qpn = match first.headers.extension {
                Extension::Deth(deth) | Extension::DethImmediate(deth, _) => deth.source_qp,
                _ => Qpn::new(0x11),
            };
            send(name, &mut queue_pair(service, qpn, first), &messages);
            let qpn = first.headers.bth.dest_qp;
            receive(name, &mut queue_pair(service, qpn, first), &messages);
            compared += messages.len();
        }
        assert!(compared >= at_least, "{name}: only {compared} messages");
    }
}
