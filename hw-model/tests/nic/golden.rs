//! The golden vectors of the contract: the model decodes what they mean.

use std::collections::BTreeSet;

use crate::common::{connected, place};
use ferroce_model::wqe::{SendPayload, SendWqe, block_count, decode};
use ferroce_spec::command::{CommandEntry, CommandOpcode, CommandStatus};
use ferroce_spec::context::{AccessRights, PathMtuCode};
use ferroce_spec::wqe::DatagramSegment;
use ferroce_test_support::{GoldenSegment, GoldenVector, golden_vectors};
use ferroce_transport::{Destination, LocalKind, Remote, SendOperation, SendRequest, Service};
use ferroce_wire::{Feth, Immediate, QKey, Qpn, RKey};
use zerocopy::FromBytes;

fn number32(segment: &GoldenSegment, field: &str) -> u32 {
    segment.number(field) as u32
}

fn part<'a>(vector: &'a GoldenVector, kind: &str) -> &'a GoldenSegment {
    let found = vector.segment(kind);
    found.unwrap_or_else(|| panic!("{} has no {kind}", vector.name))
}

/// Returns the operation that a vector means.
fn operation(vector: &GoldenVector) -> SendOperation {
    let control = part(vector, "ControlSegment");
    let remote = || {
        let segment = part(vector, "RemoteAddressSegment");
        Remote {
            virtual_address: segment.number("virtual_address"),
            r_key: RKey(number32(segment, "r_key")),
        }
    };
    let operand = |name: &str| part(vector, "AtomicSegment").number(name);
    let bytes: [u8; 4] = control.bytes("immediate");
    let immediate = Immediate(bytes);
    match control.named("control.opcode") {
        "NOP" => SendOperation::Local(LocalKind::Nop),
        "SEND" => SendOperation::Send,
        "SEND_IMMEDIATE" => SendOperation::SendImmediate(immediate),
        "SEND_INVALIDATE" => SendOperation::SendInvalidate(RKey(u32::from_le_bytes(bytes))),
        "RDMA_WRITE" => SendOperation::RdmaWrite { remote: remote() },
        "RDMA_WRITE_IMMEDIATE" => SendOperation::RdmaWriteImmediate {
            remote: remote(),
            immediate,
        },
        "RDMA_READ" => SendOperation::RdmaRead { remote: remote() },
        "COMPARE_SWAP" => SendOperation::CompareSwap {
            remote: remote(),
            compare: operand("compare"),
            swap: operand("swap_add"),
        },
        "FETCH_ADD" => SendOperation::FetchAdd {
            remote: remote(),
            add: operand("swap_add"),
        },
        "FLUSH" => {
            let segment = part(vector, "FlushSegment");
            SendOperation::Flush {
                remote: remote(),
                length: number32(segment, "length"),
                feth: Feth::from_bits(number32(segment, "kind")),
            }
        }
        "ATOMIC_WRITE" => SendOperation::AtomicWrite { remote: remote() },
        "LOCAL_INVALIDATE" => SendOperation::Local(LocalKind::Invalidate),
        "BIND_WINDOW" => SendOperation::Local(LocalKind::Bind),
        other => panic!("no operation {other}"),
    }
}

fn decoded(vector: &GoldenVector) -> (SendRequest, SendWqe) {
    let service = match vector.service.as_deref() {
        Some("RC") => Service::ReliableConnected,
        Some("UD") => Service::UnreliableDatagram,
        Some("XRC") => Service::XrcInitiator,
        other => panic!("no service {other:?}"),
    };
    decode(&vector.bytes, service).unwrap_or_else(|error| panic!("{}: {error}", vector.name))
}

/// Goal: the model takes from each WQE what the vector means.
#[test]
fn send_wqes_mean_the_vectors() {
    for vector in golden_vectors("send_wqe") {
        let name = &vector.name;
        let control = part(&vector, "ControlSegment");
        let index = number32(control, "index");
        let blocks = control.number("control.blocks") as u8;
        assert_eq!(block_count(&vector.bytes, index, 10), Ok(blocks), "{name}");
        assert_eq!(usize::from(blocks) * 64, vector.bytes.len(), "{name}");
        let (request, wqe) = decoded(&vector);
        assert_eq!((request.id, wqe.index), (index, index), "{name}");
        assert_eq!(request.operation, operation(&vector), "{name}");
        let flag = |field: &str| control.number(field) == 1;
        assert_eq!(request.signaled, flag("control.signaled"), "{name}");
        assert_eq!(request.solicited, flag("control.solicited"), "{name}");
        assert_eq!(request.fence, flag("control.fence"), "{name}");
        assert_eq!(request.destination, destination(&vector), "{name}");
        check_payload(&vector, &request, &wqe);
        check_path(&vector, wqe.datagram.as_deref());
    }
}

fn destination(vector: &GoldenVector) -> Destination {
    match (vector.service.as_deref(), vector.segment("DatagramSegment")) {
        (_, Some(segment)) => Destination::Datagram {
            qpn: Qpn::new(number32(segment, "dest_qpn")),
            q_key: QKey(number32(segment, "q_key")),
        },
        (Some("XRC"), None) => Destination::Xrc {
            srqn: number32(part(vector, "ControlSegment"), "remote_srqn"),
        },
        _ => Destination::Connected,
    }
}

fn check_payload(vector: &GoldenVector, request: &SendRequest, wqe: &SendWqe) {
    let name = &vector.name;
    match &wqe.payload {
        SendPayload::Inline(inline) => {
            assert_eq!(inline.bytes(), part(vector, "payload").payload(), "{name}");
            let length = part(vector, "InlineHeader").number("length");
            assert_eq!(u64::from(request.length), length, "{name}");
        }
        SendPayload::Memory(list) => {
            let expected = vector.all("DataSegment").map(|segment| {
                let length = number32(segment, "length");
                (
                    segment.number("address"),
                    length,
                    number32(segment, "l_key"),
                )
            });
            let found = list
                .segments()
                .iter()
                .map(|s| (s.address, s.length, s.l_key));
            assert!(found.clone().eq(expected), "{name}: {list:?}");
            let length: u32 = found.map(|(_, length, _)| length).sum();
            assert_eq!(request.length, length, "{name}");
        }
        SendPayload::Bind(bind) => {
            let segment = part(vector, "BindSegment");
            assert_eq!(bind.r_key, number32(segment, "r_key"));
            assert_eq!(bind.l_key, number32(segment, "l_key"));
            assert_eq!(bind.address, segment.number("address"));
            assert_eq!(bind.length, segment.number("length"));
            let mut rights = AccessRights::default();
            rights.set_remote_write(segment.number("access.remote_write") == 1);
            rights.set_remote_read(segment.number("access.remote_read") == 1);
            rights.set_remote_atomic(segment.number("access.remote_atomic") == 1);
            rights.set_zero_based(segment.number("access.zero_based") == 1);
            assert_eq!(bind.access, rights);
        }
        SendPayload::Invalidate(key) => {
            let bytes = part(vector, "ControlSegment").bytes("immediate");
            assert_eq!(*key, u32::from_le_bytes(bytes));
        }
    }
}

fn check_path(vector: &GoldenVector, found: Option<&DatagramSegment>) {
    let Some(segment) = vector.segment("DatagramSegment") else {
        assert!(found.is_none());
        return;
    };
    let path = found.expect("a datagram").path;
    assert_eq!(path.dest_gid, segment.bytes("path.dest_gid"));
    assert_eq!(path.dest_mac, segment.bytes("path.dest_mac"));
    let numbers = [
        ("path.vlan", u32::from(path.vlan)),
        ("path.source_gid_index", path.source_gid_index.into()),
        ("path.udp_source_port", path.udp_source_port.into()),
        ("path.traffic_class", path.traffic_class.into()),
        ("path.hop_limit", path.hop_limit.into()),
        ("path.service_level", path.service_level.into()),
        ("path.flow_label", path.flow_label),
        ("path.static_rate", path.static_rate),
    ];
    for (field, value) in numbers {
        assert_eq!(value, number32(segment, field), "{field}");
    }
}

/// Goal: the model takes each command for what it is, with the mailboxes that the vector has, and
/// refuses it with one byte of input less. Method: the entry is written as the vector has it, with
/// mailboxes of the test.
#[test]
fn commands_are_taken() {
    let vectors = golden_vectors("command");
    let commands = vectors
        .iter()
        .filter(|vector| !vector.name.starts_with("ended_"));
    let mut seen = BTreeSet::new();
    for vector in commands {
        let name = &vector.name;
        let entry = CommandEntry::read_from_bytes(&vector.bytes).expect("64 bytes");
        let ended = run(&entry);
        let status = CommandStatus(ended.completion.status());
        let misread = [CommandStatus::BAD_OPCODE, CommandStatus::BAD_MAILBOX];
        assert!(!misread.contains(&status), "{name}: {status:?}");
        if entry.opcode == CommandOpcode::NOP {
            assert_eq!(
                ended.result,
                part(vector, "CommandEntry").number("argument")
            );
        }
        if entry.input_length > 0 {
            let input_length = entry.input_length - 1;
            let ended = run(&CommandEntry {
                input_length,
                ..entry
            });
            let status = CommandStatus(ended.completion.status());
            assert_eq!(status, CommandStatus::BAD_MAILBOX, "{name}");
        }
        seen.insert(entry.opcode);
    }
    assert_eq!(seen.len(), CommandOpcode::TABLE.values.len());
}

/// Runs a command on a fresh machine, whose mailboxes are empty.
fn run(entry: &CommandEntry) -> CommandEntry {
    let (mut machine, _peer) = connected(PathMtuCode::MTU_1024);
    let mut entry = *entry;
    entry.input_iova = place::INPUT;
    entry.output_iova = place::OUTPUT;
    machine.run_command(&entry)
}
