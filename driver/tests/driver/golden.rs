//! The golden vectors of the contract: the driver writes the same bytes, and decodes them to the
//! same values.

use std::sync::Arc;

use crate::support::verbs::{
    Setup, poll, post, qp_config, receive_queue, segment, send_queue, setup, setup_of,
};
use crate::support::{HonestDevice, QPN_BASE};
use ferroce_driver::{
    AddressVector, CompletionOpcode, CompletionStatus, DataSegment, Destination, FlushKind, LKey,
    ModifyQp, Qpn, QueuePair, QueuePairConfig, RKey, ReceiveSource, RemoteAddress, SendData,
    SendOperation, SendRequest, Service, Srqn, WindowAccess, WindowBinding, WorkCompletion,
};
use ferroce_spec::cqe::{Cqe, CqeStatus};
use ferroce_spec::wqe::VLAN_NONE;
use ferroce_test_support::{GoldenSegment, GoldenVector, golden_vectors};
use zerocopy::FromBytes;

/// A QP of a service in a state that allows posting, with room for every vector.
fn queue_pair(s: &Setup, service: Service) -> Arc<QueuePair> {
    let receive = match service {
        Service::XrcInitiator => ReceiveSource::None,
        _ => qp_config(&s.cq, &s.cq).receive,
    };
    let config = QueuePairConfig {
        service,
        receive,
        max_send_wr: 16,
        max_send_sge: 4,
        max_inline_data: 64,
        ..qp_config(&s.cq, &s.cq)
    };
    let qp = QueuePair::create(&s.pd, &config).expect("within the limits");
    // Posting is also allowed in ERR, and the transition to ERR needs no attributes.
    qp.modify(&ModifyQp::ToErr).expect("from any state");
    qp
}

fn number32(segment: &GoldenSegment, field: &str) -> u32 {
    segment.number(field) as u32
}

fn data_segments(vector: &GoldenVector) -> Vec<DataSegment> {
    let segments = vector.all("DataSegment");
    let segment = |segment: &GoldenSegment| DataSegment {
        address: segment.number("address"),
        length: number32(segment, "length"),
        l_key: number32(segment, "l_key"),
    };
    segments.map(segment).collect()
}

/// Returns the work request that a WQE encodes.
fn operation(vector: &GoldenVector) -> SendOperation {
    let control = vector.segment("ControlSegment").expect("each has one");
    let remote = || {
        let segment = vector
            .segment("RemoteAddressSegment")
            .expect("a remote address");
        RemoteAddress {
            virtual_address: segment.number("virtual_address"),
            r_key: RKey(number32(segment, "r_key")),
        }
    };
    let operands = || {
        let segment = vector.segment("AtomicSegment").expect("operands");
        (segment.number("swap_add"), segment.number("compare"))
    };
    let immediate: [u8; 4] = control.bytes("immediate");
    let key = RKey(u32::from_le_bytes(immediate));
    match control.named("control.opcode") {
        "SEND" => SendOperation::Send,
        "SEND_IMMEDIATE" => SendOperation::SendImmediate(immediate),
        "SEND_INVALIDATE" => SendOperation::SendInvalidate(key),
        "RDMA_WRITE" => SendOperation::RdmaWrite(remote()),
        "RDMA_WRITE_IMMEDIATE" => SendOperation::RdmaWriteImmediate(remote(), immediate),
        "RDMA_READ" => SendOperation::RdmaRead(remote()),
        "COMPARE_SWAP" => SendOperation::CompareSwap {
            remote: remote(),
            compare: operands().1,
            swap: operands().0,
        },
        "FETCH_ADD" => SendOperation::FetchAdd {
            remote: remote(),
            add: operands().0,
        },
        "FLUSH" => {
            let segment = vector.segment("FlushSegment").expect("a range");
            let kind = number32(segment, "kind");
            SendOperation::Flush {
                remote: remote(),
                length: number32(segment, "length"),
                kind: FlushKind {
                    global: kind & 1 != 0,
                    persistent: kind & 2 != 0,
                    whole_region: kind & 0x10 != 0,
                },
            }
        }
        "ATOMIC_WRITE" => SendOperation::AtomicWrite(remote()),
        "LOCAL_INVALIDATE" => SendOperation::LocalInvalidate(key),
        "BIND_WINDOW" => SendOperation::BindWindow(binding(vector)),
        other => panic!("the driver has no {other}"),
    }
}

fn binding(vector: &GoldenVector) -> WindowBinding {
    let segment = vector.segment("BindSegment").expect("a binding");
    let right = |name: &str| segment.number(name) == 1;
    WindowBinding {
        r_key: RKey(number32(segment, "r_key")),
        l_key: LKey(number32(segment, "l_key")),
        address: segment.number("address"),
        length: segment.number("length"),
        access: WindowAccess {
            remote_write: right("access.remote_write"),
            remote_read: right("access.remote_read"),
            remote_atomic: right("access.remote_atomic"),
            zero_based: right("access.zero_based"),
        },
    }
}

fn address_vector(segment: &GoldenSegment) -> AddressVector {
    let byte = |name: &str| segment.number(name) as u8;
    assert_eq!(segment.number("path.vlan"), u64::from(VLAN_NONE));
    AddressVector {
        dest_gid: segment.bytes("path.dest_gid"),
        dest_mac: segment.bytes("path.dest_mac"),
        source_gid_index: segment.number("path.source_gid_index") as u16,
        traffic_class: byte("path.traffic_class"),
        hop_limit: byte("path.hop_limit"),
        flow_label: number32(segment, "path.flow_label"),
        udp_source_port: segment.number("path.udp_source_port") as u16,
        service_level: byte("path.service_level"),
        vlan: None,
        static_rate: byte("path.static_rate"),
    }
}

/// Posts the work request of a vector; returns the resulting WQE in the ring.
fn posted(s: &Setup, vector: &GoldenVector) -> Vec<u8> {
    let service = match vector.service.as_deref() {
        Some("RC") => Service::ReliableConnected,
        Some("UD") => Service::UnreliableDatagram,
        Some("XRC") => Service::XrcInitiator,
        other => panic!("no service {other:?}"),
    };
    let qp = queue_pair(s, service);
    let control = vector.segment("ControlSegment").expect("each has one");
    let datagram = vector.segment("DatagramSegment");
    let path = datagram.map(address_vector).unwrap_or_default();
    let destination = match (service, datagram) {
        (Service::UnreliableDatagram, Some(segment)) => Destination::Datagram {
            path: &path,
            qpn: Qpn(number32(segment, "dest_qpn")),
            q_key: number32(segment, "q_key"),
        },
        (Service::XrcInitiator, _) => Destination::Xrc {
            srqn: Srqn(number32(control, "remote_srqn")),
        },
        _ => Destination::Connected,
    };
    let flag = |name: &str| control.number(name) == 1;
    let segments = data_segments(vector);
    let payload = vector.segment("payload").map(GoldenSegment::payload);
    let pieces = [payload.unwrap_or_default()];
    let request = SendRequest {
        wr_id: 1,
        operation: operation(vector),
        destination,
        signaled: flag("control.signaled"),
        solicited: flag("control.solicited"),
        fence: flag("control.fence"),
        data: match payload {
            Some(_) => SendData::Inline(&pieces),
            None => SendData::ScatterGather(&segments),
        },
    };
    send_queue(&qp).lock().post(&request).expect("it fits");
    let base = s
        .fake
        .with_state(|state| state.qps[&qp.number().0].send_base);
    let words = (0..vector.bytes.len() as u64 / 8).map(|word| base + 8 * word);
    let words = words.map(|iova| s.fake.memory.load(iova).expect("mapped"));
    words.flat_map(u64::to_le_bytes).collect()
}

/// Goal: the driver writes each WQE with the vector's bytes. Its index is 0, because it is the
/// first in the ring.
#[test]
fn send_wqes_are_the_vectors() {
    let s = setup();
    // The driver posts no NOP.
    let vectors = golden_vectors("send_wqe");
    let vectors = vectors.iter().filter(|vector| vector.name != "nop");
    let mut count = 0;
    for vector in vectors {
        let mut expected = vector.bytes.clone();
        expected[4..8].fill(0);
        // The bytes after the WQE in its last block are undefined.
        let end = used_bytes(vector);
        let bytes = posted(&s, vector);
        assert_eq!(bytes[..end], expected[..end], "{}", vector.name);
        count += 1;
    }
    assert_eq!(count, 15);
}

/// Number of bytes from the start of a WQE to the end of its last segment.
fn used_bytes(vector: &GoldenVector) -> usize {
    let last = vector.segments.last().expect("segments");
    last.offset
        + match last.kind.as_str() {
            "payload" => last.payload().len(),
            "BindSegment" => 32,
            _ => 16,
        }
}

/// Goal: the driver writes receive WQEs with the vector's bytes.
#[test]
fn receive_wqes_are_the_vectors() {
    let s = setup();
    let vectors = golden_vectors("receive_wqe");
    let vector = &vectors[0];
    let segments = data_segments(vector);
    s.qp.modify(&ModifyQp::ToErr).expect("from any state");
    receive_queue(&s.qp).post(1, &segments[..2]).expect("room");
    let base = s.fake.with_state(|state| state.qps[&QPN_BASE].receive_base);
    let bytes: [u8; 64] = s.fake.read(base);
    assert_eq!(bytes[..32], vector.bytes[..32]);
    assert_eq!(bytes[44..48], vector.bytes[44..48], "the end of the list");
}

/// Returns the completion of a CQE that names a request of the QP.
fn completion_of(vector: &GoldenVector) -> WorkCompletion {
    let s = setup_of(HonestDevice::new());
    queue_pair_takes(&s);
    let mut cqe = Cqe::read_from_bytes(&vector.bytes).expect("32 bytes");
    cqe.qpn = s.qp.number().0;
    cqe.wqe_index = 0;
    cqe.word.set_shared(false);
    let cqn = s
        .fake
        .with_state(|state| *state.cqs.keys().next().expect("one CQ"));
    s.fake.complete(cqn, cqe);
    poll(&s.cq)[0]
}

/// Posts one send and one receive.
fn queue_pair_takes(s: &Setup) {
    s.qp.modify(&ModifyQp::ToErr).expect("from any state");
    post(&s.qp, 7).expect("room");
    receive_queue(&s.qp).post(8, &[segment(1)]).expect("room");
}

/// Goal: the driver decodes each CQE to the vector's values. QPN and index name a posted request.
#[test]
fn completions_are_the_vectors() {
    for vector in golden_vectors("cqe") {
        let segment = vector.segment("Cqe").expect("a CQE");
        let found = completion_of(&vector);
        let name = &vector.name;
        let flag = |field: &str| segment.number(field) == 1;
        let receives = segment.named("word.opcode").starts_with("RECEIVE");
        assert_eq!(found.wr_id, if receives { 8 } else { 7 }, "{name}");
        assert_eq!(found.status, status(segment), "{name}");
        assert_eq!(
            u64::from(found.vendor_error),
            segment.number("word.vendor_error"),
            "{name}"
        );
        assert_eq!(
            u64::from(found.byte_length),
            segment.number("byte_count"),
            "{name}"
        );
        assert_eq!(found.timestamp_ns, segment.number("timestamp"), "{name}");
        assert_eq!(
            u64::from(found.source_qpn.0),
            segment.number("source_qpn"),
            "{name}"
        );
        let four: [u8; 4] = segment.bytes("immediate");
        assert_eq!(
            found.immediate,
            flag("word.with_immediate").then_some(four),
            "{name}"
        );
        let key = flag("word.with_invalidate").then_some(u32::from_le_bytes(four));
        assert_eq!(found.invalidated_key, key, "{name}");
        let flags = (found.with_grh, found.ipv4, found.solicited);
        let expected = (
            flag("word.with_grh"),
            flag("word.ipv4"),
            flag("word.solicited"),
        );
        assert_eq!(flags, expected, "{name}");
        let kind = match segment.named("word.opcode") {
            "RECEIVE" => CompletionOpcode::Receive,
            "RECEIVE_RDMA_IMMEDIATE" => CompletionOpcode::ReceiveRdmaWithImmediate,
            // The driver remembers what was posted: here, an RDMA WRITE.
            _ => CompletionOpcode::RdmaWrite,
        };
        assert_eq!(found.opcode, kind, "{name}");
    }
}

fn status(segment: &GoldenSegment) -> CompletionStatus {
    let name = segment.named("word.status");
    let row = CqeStatus::TABLE.values.iter().find(|row| row.name == name);
    CompletionStatus::from(CqeStatus(row.expect("a status").value as u8))
}
