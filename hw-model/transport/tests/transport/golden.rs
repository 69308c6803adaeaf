//! Our responder against captures of Linux soft-RoCE: it gets the same requests and must send the
//! same responses, including PSN, syndrome and MSN.
//!
//! One difference is known, and ours follows IBTA: if a READ is requested again from its middle,
//! the response begins with First, while soft-RoCE continues with Middle.

use crate::captures;
use std::collections::BTreeMap;

use crate::captures::Captured;
use ferroce_transport::{
    AtomicOperation, AttributeUpdate, Config, InitAttributes, MemoryAnswer, MemoryOp, PathMtu, Qp,
    RemoteAccess, RtrAttributes, Service, Step, Transition,
};
use ferroce_units::Instant;
use ferroce_wire::{
    Extension, Gid, Msn, NakCode, Operation, PKey, Position, Psn, QKey, Qpn, RnrTimer, Syndrome,
    Transport, TransportHeaders,
};

/// The compared fields of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Response {
    operation: Operation,
    position: Position,
    psn: Psn,
    aeth: Option<(Syndrome, Msn)>,
    /// Result of an atomic.
    original: Option<u64>,
    payload_length: u32,
}

fn response(headers: &TransportHeaders, payload_length: u32) -> Response {
    let known = headers.bth.opcode.parse().expect("a known opcode");
    let (aeth, original) = match headers.extension {
        Extension::Aeth(aeth) => (Some((aeth.syndrome, aeth.msn)), None),
        Extension::AtomicAck(aeth, result) => {
            (Some((aeth.syndrome, aeth.msn)), Some(result.original))
        }
        _ => (None, None),
    };
    Response {
        operation: known.operation,
        position: known.position,
        psn: headers.bth.psn,
        aeth,
        original,
        payload_length,
    }
}

/// Returns the requests that one side received and the responses that it sent.
fn conversation(packets: &[Captured], responder: Gid) -> (Vec<&Captured>, Vec<Response>) {
    let mut requests = Vec::new();
    let mut responses = Vec::new();
    for packet in packets {
        let known = packet.headers.bth.opcode.parse().expect("a known opcode");
        match known.operation {
            operation if operation.is_request() && packet.source != responder => {
                requests.push(packet);
            }
            operation if operation.is_response() && packet.source == responder => {
                responses.push(response(&packet.headers, packet.payload_length));
            }
            _ => {}
        }
    }
    (requests, responses)
}

fn responder(qpn: Qpn, rq_psn: Psn, mtu: PathMtu) -> Qp {
    let config = Config {
        ack_coalesce: 1,
        ..Config::default()
    };
    let mut qp = Qp::new(qpn, Service::ReliableConnected, config);
    let access = RemoteAccess {
        read: true,
        write: true,
        atomic: true,
        ..RemoteAccess::default()
    };
    let init = InitAttributes {
        p_key: PKey::DEFAULT,
        access,
        port: 1,
        q_key: QKey(0),
    };
    let attributes = RtrAttributes {
        path_mtu: mtu,
        dest_qp: Qpn::new(0x11),
        rq_psn,
        max_dest_rd_atomic: 16,
        min_rnr_timer: RnrTimer::new(14),
    };
    let update = AttributeUpdate::default();
    for transition in [
        Transition::Init(init),
        Transition::Rtr { attributes, update },
    ] {
        qp.modify(Instant::ZERO, transition)
            .expect("the way up is legal");
    }
    qp
}

/// Returns the result of a memory operation of the captured machine, derived from its next
/// response. `cells` are the addresses of atomics, with the value of a new one.
fn answer(
    operation: MemoryOp,
    next: Option<&Response>,
    cells: &mut (Option<u64>, BTreeMap<u64, u64>),
) -> MemoryAnswer {
    let syndrome = next
        .and_then(|response| response.aeth)
        .map(|(syndrome, _)| syndrome);
    match (operation, syndrome) {
        (MemoryOp::TakeReceive, Some(Syndrome::RnrNak { .. })) => MemoryAnswer::NoReceive,
        (MemoryOp::TakeReceive, _) => MemoryAnswer::Receive {
            id: 0,
            capacity: u32::MAX,
        },
        (MemoryOp::Validate { .. }, Some(Syndrome::Nak(NakCode::RemoteAccessError))) => {
            MemoryAnswer::Invalid
        }
        (MemoryOp::Validate { .. }, _) => MemoryAnswer::Valid,
        (
            MemoryOp::Atomic {
                virtual_address,
                operation,
                ..
            },
            _,
        ) => {
            let (initial, cells) = cells;
            let cell = cells.entry(virtual_address).or_insert(initial.unwrap_or(0));
            let original = *cell;
            match operation {
                AtomicOperation::FetchAdd { add } => *cell = original.wrapping_add(add),
                AtomicOperation::CompareSwap { compare, swap } if compare == original => {
                    *cell = swap;
                }
                AtomicOperation::CompareSwap { .. } => {}
            }
            MemoryAnswer::Atomic(original)
        }
        _ => MemoryAnswer::Done,
    }
}

/// Replays the requests of one side; returns the number of compared responses. `lost` responses
/// were dropped before the capture.
fn replay(name: &str, packets: &[Captured], side: Gid, lost: u32) -> usize {
    let (requests, expected) = conversation(packets, side);
    let Some(first) = requests.first() else {
        return 0;
    };
    let mut qp = responder(
        first.headers.bth.dest_qp,
        first.headers.bth.psn,
        PathMtu::Mtu1024,
    );
    let mut given = Vec::new();
    let mut cells = (None, BTreeMap::new());
    for request in requests {
        cells.0 = expected
            .iter()
            .find(|response| response.psn == request.headers.bth.psn)
            .and_then(|response| response.original);
        let mut step = qp.handle_packet(Instant::ZERO, &request.headers, request.payload_length);
        while let Step::Memory(operation) = step {
            let answer = answer(operation, expected.get(given.len()), &mut cells);
            step = qp.handle_memory(Instant::ZERO, answer);
        }
        while let Some(transmit) = qp.poll_transmit(Instant::ZERO) {
            given.push(response(&transmit.headers, transmit.payload.length()));
        }
    }
    let mut theirs = expected.iter().enumerate().peekable();
    let mut lost = lost;
    for ours in &given {
        match theirs.peek() {
            Some((_, theirs_next)) if matches(ours, theirs_next) => {
                theirs.next();
            }
            _ if lost > 0 => lost -= 1,
            next => panic!("{name} to {side}: we give {ours:?}, not {next:?}"),
        }
    }
    assert_eq!(
        (theirs.next(), lost),
        (None, 0),
        "{name} to {side}: more responses"
    );
    expected.len()
}

fn matches(ours: &Response, theirs: &Response) -> bool {
    if ours.position == Position::First && theirs.position == Position::Middle {
        return (ours.psn, ours.payload_length) == (theirs.psn, theirs.payload_length);
    }
    ours == theirs
}

#[test]
fn the_responder_answers_as_linux_did() {
    let captures = [
        ("rvec_rc_1024", 21, 0),
        ("rvec_rc_1024_ipv6", 21, 0),
        ("loss_rc_ack", 21, 1),
        ("loss_rc_last_timeout", 21, 0),
        ("loss_rc_request", 21, 0),
        ("loss_rc_readresp", 21, 1),
        ("rvec_rc_badkey", 2, 0),
        ("rvec_rc_rnr", 30, 0),
        ("perftest_write_bw", 5, 0),
        ("perftest_send_bw", 5, 0),
        ("perftest_read_bw", 5, 0),
        ("perftest_atomic_fadd", 5, 0),
        ("pingpong_rc", 10, 0),
        ("rping_cm", 10, 0),
        ("netem_loss", 30, 0),
        ("loss_write_bw", 30, 0),
    ];
    for (name, at_least, lost) in captures {
        let packets = captures::packets(name, Transport::ReliableConnected);
        let mut sides: Vec<Gid> = packets.iter().map(|packet| packet.source).collect();
        sides.sort_by_key(|gid| gid.0);
        sides.dedup();
        let compared: usize = sides
            .iter()
            .map(|side| replay(name, &packets, *side, lost))
            .sum();
        assert!(
            compared >= at_least,
            "{name}: only {compared} responses compared"
        );
    }
}
