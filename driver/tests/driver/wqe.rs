//! WQEs byte by byte, and doorbells, over an honest device.

use std::sync::Arc;

use crate::support::verbs::{
    REMOTE, Setup, connect, cq_of, cqe, poll, qp_config, receive_queue, segment, send_queue, setup,
    write_request,
};
use crate::support::{HonestDevice, QPN_BASE};
use ferroce_driver::{
    AddressVector, CompletionOpcode, DataSegment, Destination, Device, LKey, ModifyQp, PostError,
    Qpn, QueuePair, QueuePairConfig, RKey, ReceiveSource, SendData, SendOperation, SendRequest,
    Service, Srqn, WindowAccess, WindowBinding,
};
use ferroce_spec::command::DeviceFeatures;
use ferroce_spec::cqe::CqeOpcode;
use ferroce_spec::doorbell::{DoorbellKind, DoorbellValue};
use ferroce_spec::wqe::{
    BindSegment, ControlSegment, ControlWord, DatagramSegment, L_KEY_END, RemoteAddressSegment,
    SendOpcode,
};

/// Returns the bytes of block `index` of the QP's send ring.
fn block(s: &Setup, index: u64) -> [u8; 64] {
    let base = s
        .fake
        .with_state(|state| state.qps[&s.qp.number().0].send_base);
    s.fake.read(base + 64 * index)
}

#[test]
fn wqe_bytes_of_a_write() {
    let s = setup();
    connect(&s.qp);
    let segments = [segment(100), segment(200)];
    let mut request = write_request(1, SendData::ScatterGather(&segments));
    request.operation = SendOperation::RdmaWriteImmediate(REMOTE, [9, 8, 7, 6]);
    request.fence = true;
    send_queue(&s.qp).lock().post(&request).expect("fits");
    let mut expected = [0u8; 64];
    // Control: opcode, flags signaled and fence, 1 block, 2 data segments; index; immediate.
    expected[..12].copy_from_slice(&[0x09, 0x05, 0x01, 0x02, 0, 0, 0, 0, 9, 8, 7, 6]);
    expected[16..24].copy_from_slice(&[8, 7, 6, 5, 4, 3, 2, 1]);
    expected[24..28].copy_from_slice(&[0x78, 0x56, 0x34, 0x12]);
    for (place, length) in [(32, 100), (48, 200)] {
        let bytes = [
            0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, length, 0, 0, 0,
        ];
        expected[place..place + 12].copy_from_slice(&bytes);
        expected[place + 12..place + 16].copy_from_slice(&[0xdd, 0xcc, 0xbb, 0xaa]);
    }
    assert_eq!(block(&s, 0), expected);
    let slot = s
        .fake
        .with_state(|state| state.qps[&QPN_BASE].send_doorbell_slot);
    let value = DoorbellValue::new(DoorbellKind::SEND_QUEUE, QPN_BASE, 1);
    assert_eq!(s.fake.take_doorbells(), [(slot, value.bits())]);
}

#[test]
fn wqe_bytes_of_an_inline_send() {
    let s = setup();
    connect(&s.qp);
    let request = SendRequest {
        operation: SendOperation::Send,
        signaled: false,
        solicited: true,
        ..write_request(1, SendData::Inline(&[b"hello ", b"", b"world"]))
    };
    send_queue(&s.qp).lock().post(&request).expect("fits");
    let bytes = block(&s, 0);
    assert_eq!(bytes[..4], [0x01, 0x0a, 0x01, 0x00]);
    assert_eq!(bytes[16..20], [11, 0, 0, 0]);
    assert_eq!(&bytes[20..31], b"hello world");
    let long: [&[u8]; 1] = [&[0; 93]];
    let too_long = write_request(1, SendData::Inline(&long));
    let mut batch = send_queue(&s.qp).lock();
    assert_eq!(batch.post(&too_long), Err(PostError::InlineTooLong));
    let read = SendRequest {
        operation: SendOperation::RdmaRead(REMOTE),
        ..write_request(1, SendData::Inline(&[b"x"]))
    };
    assert_eq!(batch.post(&read), Err(PostError::InvalidOperation));
    let segments = [segment(1); 6];
    let many = write_request(1, SendData::ScatterGather(&segments));
    assert_eq!(batch.post(&many), Err(PostError::TooManySegments));
}

#[test]
fn wqes_of_all_operations() {
    let s = setup();
    let big = QueuePairConfig {
        max_send_wr: 16,
        max_send_sge: 16,
        ..qp_config(&s.cq, &s.cq)
    };
    let qp = QueuePair::create(&s.pd, &big).expect("within the limits");
    connect(&qp);
    let base = s
        .fake
        .with_state(|state| state.qps[&qp.number().0].send_base);
    let (remote, compare, swap, add) = (REMOTE, 5, 6, 7);
    let operations = [
        (SendOperation::Send, SendOpcode::SEND, 1),
        (
            SendOperation::SendImmediate([1; 4]),
            SendOpcode::SEND_IMMEDIATE,
            1,
        ),
        (
            SendOperation::SendInvalidate(RKey(9)),
            SendOpcode::SEND_INVALIDATE,
            1,
        ),
        (SendOperation::RdmaWrite(remote), SendOpcode::RDMA_WRITE, 16),
        (SendOperation::RdmaRead(remote), SendOpcode::RDMA_READ, 16),
        (
            SendOperation::CompareSwap {
                remote,
                compare,
                swap,
            },
            SendOpcode::COMPARE_SWAP,
            2,
        ),
        (
            SendOperation::FetchAdd { remote, add },
            SendOpcode::FETCH_ADD,
            16,
        ),
    ];
    let mut index = 0;
    for (operation, opcode, sge) in operations {
        let segments = vec![segment(8); sge];
        let request = SendRequest {
            operation,
            ..write_request(1, SendData::ScatterGather(&segments))
        };
        send_queue(&qp).lock().post(&request).expect("fits");
        let control: ControlSegment = s.fake.read(base + 64 * index);
        assert_eq!(control.control.opcode(), opcode.0);
        assert_eq!(control.index, index as u32);
        assert_eq!(usize::from(control.control.data_segments()), sge);
        let atomic = matches!(
            operation,
            SendOperation::CompareSwap { .. } | SendOperation::FetchAdd { .. }
        );
        if atomic {
            let remote: RemoteAddressSegment = s.fake.read(base + 64 * index + 16);
            assert_eq!(remote.r_key, REMOTE.r_key.0);
            let operands: [u64; 2] = s.fake.read(base + 64 * index + 32);
            assert!(operands == [6, 5] || operands == [7, 0]);
        }
        index += u64::from(control.control.blocks());
    }
    assert_eq!(index, 3 + 5 + 5 + 2 + 5);
}

#[test]
fn receive_wqe_bytes() {
    let s = setup();
    connect(&s.qp);
    receive_queue(&s.qp).post(1, &[segment(7)]).expect("room");
    receive_queue(&s.qp)
        .post(2, &[segment(1); 4])
        .expect("room");
    let too_many = receive_queue(&s.qp).post(2, &[segment(1); 5]);
    assert_eq!(too_many, Err(PostError::TooManySegments));
    let base = s.fake.with_state(|state| state.qps[&QPN_BASE].receive_base);
    let segments: [DataSegment; 2] = [s.fake.read(base), s.fake.read(base + 16)];
    assert_eq!(segments[0], segment(7));
    assert_eq!(segments[1].l_key, L_KEY_END);
    assert_eq!(s.fake.read::<DataSegment>(base + 64 + 48), segment(1));
    let slot = s
        .fake
        .with_state(|state| state.qps[&QPN_BASE].receive_doorbell_slot);
    let value = |index| DoorbellValue::new(DoorbellKind::RECEIVE_QUEUE, QPN_BASE, index).bits();
    assert_eq!(
        s.fake.take_doorbells(),
        [(slot, value(1)), (slot, value(2))]
    );
}

#[test]
fn unsignaled_unless_all_are_signaled() {
    let s = setup();
    connect(&s.qp);
    let all = QueuePairConfig {
        signal_all: true,
        ..qp_config(&s.cq, &s.cq)
    };
    let all = QueuePair::create(&s.pd, &all).expect("small QP");
    connect(&all);
    for (qp, expected) in [(&s.qp, false), (&all, true)] {
        let request = SendRequest {
            signaled: false,
            ..write_request(1, SendData::ScatterGather(&[]))
        };
        send_queue(qp).lock().post(&request).expect("room");
        let base = s
            .fake
            .with_state(|state| state.qps[&qp.number().0].send_base);
        let control = ControlWord::from_bits(s.fake.memory.load(base).expect("mapped") as u32);
        assert_eq!(control.signaled(), expected);
    }
}

/// Returns a QP of another service in RTS, and the IOVA of its send ring.
fn other_service(s: &Setup, service: Service) -> (Arc<QueuePair>, u64) {
    let config = QueuePairConfig {
        service,
        receive: match service {
            Service::XrcInitiator => ReceiveSource::None,
            _ => qp_config(&s.cq, &s.cq).receive,
        },
        ..qp_config(&s.cq, &s.cq)
    };
    let qp = QueuePair::create(&s.pd, &config).expect("small QP");
    // Sends can be posted in ERR, too, and the transition to ERR needs no attributes.
    qp.modify(&ModifyQp::ToErr)
        .expect("the fake device takes it");
    let base = s
        .fake
        .with_state(|state| state.qps[&qp.number().0].send_base);
    (qp, base)
}

#[test]
fn wqe_of_a_datagram() {
    let s = setup();
    let (qp, base) = other_service(&s, Service::UnreliableDatagram);
    assert!(qp.capacity().max_send_sge >= 2 && qp.capacity().max_inline_data >= 20);
    let path = AddressVector {
        dest_gid: [3; 16],
        dest_mac: [1, 2, 3, 4, 5, 6],
        source_gid_index: 1,
        hop_limit: 64,
        flow_label: 0x12345,
        udp_source_port: 0xc001,
        ..AddressVector::default()
    };
    let segments = [segment(40), segment(41)];
    let request = SendRequest {
        operation: SendOperation::SendImmediate([1, 2, 3, 4]),
        destination: Destination::Datagram {
            path: &path,
            qpn: Qpn(0xff00_0077),
            q_key: 0x8000_0001,
        },
        ..write_request(1, SendData::ScatterGather(&segments))
    };
    send_queue(&qp).lock().post(&request).expect("fits");
    let control: ControlSegment = s.fake.read(base);
    assert_eq!(control.control.opcode(), SendOpcode::SEND_IMMEDIATE.0);
    assert_eq!((control.control.blocks(), control.remote_srqn), (2, 0));
    let datagram: DatagramSegment = s.fake.read(base + 16);
    assert_eq!((datagram.q_key, datagram.dest_qpn), (0x8000_0001, 0x77));
    assert_eq!(datagram.path, (&path).into());
    assert_eq!(s.fake.read::<DataSegment>(base + 80), segments[0]);
    assert_eq!(s.fake.read::<DataSegment>(base + 96), segments[1]);
    let inline = SendRequest {
        data: SendData::Inline(&[b"hello"]),
        ..request
    };
    send_queue(&qp).lock().post(&inline).expect("fits");
    let bytes: [u8; 9] = s.fake.read::<[u8; 64]>(base + 128 + 80)[..9]
        .try_into()
        .expect("nine");
    assert_eq!(&bytes, b"\x05\0\0\0hello");
    for (operation, destination) in [
        (SendOperation::RdmaWrite(REMOTE), request.destination),
        (SendOperation::Send, Destination::Connected),
        (SendOperation::Send, Destination::Xrc { srqn: Srqn(1) }),
    ] {
        let wrong = SendRequest {
            operation,
            destination,
            ..request
        };
        let result = send_queue(&qp).lock().post(&wrong);
        assert_eq!(result, Err(PostError::InvalidOperation));
    }
}

#[test]
fn wqes_of_xrc_name_the_queue() {
    let s = setup();
    let (qp, base) = other_service(&s, Service::XrcInitiator);
    let destination = Destination::Xrc { srqn: Srqn(0x1234) };
    let segments = [segment(8)];
    let request = SendRequest {
        destination,
        ..write_request(1, SendData::ScatterGather(&segments))
    };
    send_queue(&qp).lock().post(&request).expect("fits");
    let control: ControlSegment = s.fake.read(base);
    assert_eq!(control.remote_srqn, 0x1234);
    let remote: RemoteAddressSegment = s.fake.read(base + 16);
    assert_eq!(remote.r_key, REMOTE.r_key.0);
    let connected = SendRequest {
        destination: Destination::Connected,
        ..request
    };
    let result = send_queue(&qp).lock().post(&connected);
    assert_eq!(result, Err(PostError::InvalidOperation));
    let local = SendRequest {
        operation: SendOperation::LocalInvalidate(RKey(1)),
        ..connected
    };
    assert_eq!(send_queue(&qp).lock().post(&local), Ok(()));
}

#[test]
fn wqes_of_local_operations() {
    let s = setup();
    connect(&s.qp);
    let binding = WindowBinding {
        r_key: RKey(0x501),
        l_key: LKey(0x402),
        address: 0x1000,
        length: 0x2000,
        access: WindowAccess {
            remote_read: true,
            zero_based: true,
            ..WindowAccess::default()
        },
    };
    let segments = [segment(8)];
    // The data arguments are ignored.
    let bind = SendRequest {
        operation: SendOperation::BindWindow(binding),
        ..write_request(1, SendData::ScatterGather(&segments))
    };
    let invalidate = SendRequest {
        operation: SendOperation::LocalInvalidate(RKey(0x501)),
        ..write_request(2, SendData::Inline(&[b"x"]))
    };
    let mut batch = send_queue(&s.qp).lock();
    batch.post(&bind).expect("room");
    batch.post(&invalidate).expect("room");
    drop(batch);
    let base = s
        .fake
        .with_state(|state| state.qps[&s.qp.number().0].send_base);
    let control: ControlSegment = s.fake.read(base);
    assert_eq!(control.control.opcode(), SendOpcode::BIND_WINDOW.0);
    assert_eq!(
        (control.control.blocks(), control.control.data_segments()),
        (1, 0)
    );
    let bound: BindSegment = s.fake.read(base + 16);
    assert_eq!((bound.r_key, bound.l_key), (0x501, 0x402));
    assert_eq!((bound.address, bound.length), (0x1000, 0x2000));
    assert!(bound.access.remote_read() && bound.access.zero_based());
    assert!(!bound.access.remote_write() && !bound.access.local_write());
    let control: ControlSegment = s.fake.read(base + 64);
    assert_eq!(control.control.opcode(), SendOpcode::LOCAL_INVALIDATE.0);
    assert!(!control.control.inline());
    assert_eq!(control.immediate, [1, 5, 0, 0]);
    let cqn = s.cq.number().0;
    for (index, opcode) in [
        (0, CqeOpcode::BIND_WINDOW),
        (1, CqeOpcode::LOCAL_INVALIDATE),
    ] {
        s.fake.complete(cqn, cqe(s.qp.number(), index, opcode));
    }
    let opcodes: Vec<_> = poll(&s.cq).iter().map(|done| done.opcode).collect();
    let expected = [
        CompletionOpcode::BindMemoryWindow,
        CompletionOpcode::LocalInvalidate,
    ];
    assert_eq!(opcodes, expected);
}

#[test]
fn operations_of_services_and_devices() {
    let s = setup();
    let (qp, _) = other_service(&s, Service::UnreliableConnected);
    let segments = [segment(8)];
    let result = |qp: &QueuePair, operation| {
        let request = SendRequest {
            operation,
            ..write_request(1, SendData::ScatterGather(&segments))
        };
        send_queue(qp).lock().post(&request)
    };
    let add = SendOperation::FetchAdd {
        remote: REMOTE,
        add: 1,
    };
    let read = SendOperation::RdmaRead(REMOTE);
    for operation in [read, add, SendOperation::SendInvalidate(RKey(1))] {
        assert_eq!(result(&qp, operation), Err(PostError::InvalidOperation));
    }
    assert_eq!(result(&qp, SendOperation::RdmaWrite(REMOTE)), Ok(()));
    let mut lacks = DeviceFeatures::default();
    lacks.set_atomics(true);
    let device = Device::open(HonestDevice::without(lacks)).expect("opens");
    let pd = device.alloc_pd().expect("first PD");
    let cq = cq_of(&device, 4);
    let qp = QueuePair::create(&pd, &qp_config(&cq, &cq)).expect("small QP");
    connect(&qp);
    assert_eq!(result(&qp, add), Err(PostError::InvalidOperation));
    assert_eq!(result(&qp, read), Ok(()));
}
