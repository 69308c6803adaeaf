//! WQEs byte by byte, and doorbells, over an honest device.

mod support;

use ferroce_driver::{
    DataSegment, PostError, QueuePair, QueuePairConfig, RKey, SendData, SendOperation, SendRequest,
};
use ferroce_spec::doorbell::{DoorbellKind, DoorbellValue};
use ferroce_spec::wqe::{ControlSegment, ControlWord, L_KEY_END, RemoteAddressSegment, SendOpcode};
use support::QPN_BASE;
use support::verbs::{
    REMOTE, Setup, connect, qp_config, receive_queue, segment, send_queue, setup, write_request,
};

/// Bytes of block `index` of the QP's send ring.
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
    let long: [&[u8]; 1] = [&[0; 29]];
    let too_long = write_request(1, SendData::Inline(&long));
    let mut batch = send_queue(&s.qp).lock();
    assert_eq!(batch.post(&too_long), Err(PostError::InlineTooLong));
    let read = SendRequest {
        operation: SendOperation::RdmaRead(REMOTE),
        ..write_request(1, SendData::Inline(&[b"x"]))
    };
    assert_eq!(batch.post(&read), Err(PostError::InvalidOperation));
    let segments = [segment(1); 3];
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
            1,
        ),
        (
            SendOperation::FetchAdd { remote, add },
            SendOpcode::FETCH_ADD,
            1,
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
    assert_eq!(index, 3 + 5 + 5 + 2);
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
        send_queue(&qp).lock().post(&request).expect("room");
        let base = s
            .fake
            .with_state(|state| state.qps[&qp.number().0].send_base);
        let control = ControlWord::from_bits(s.fake.memory.load(base).expect("mapped") as u32);
        assert_eq!(control.signaled(), expected);
    }
}
