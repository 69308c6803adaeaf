//! Send WQEs of every operation and service, decoded; and what is refused.

use ferroce_model::wqe::{SendPayload, SendWqe, WqeError, decode};
use ferroce_spec::wqe::{
    AtomicSegment, BLOCK_SIZE, BindSegment, ControlSegment, ControlWord, DataSegment,
    DatagramSegment, RemoteAddressSegment, SendOpcode,
};
use ferroce_transport::{Destination, LocalKind, Remote, SendOperation, SendRequest, Service};
use ferroce_wire::{Immediate, QKey, Qpn, RKey};
use zerocopy::IntoBytes;

const RC: Service = Service::ReliableConnected;
const SERVICES: [Service; 6] = [
    RC,
    Service::UnreliableConnected,
    Service::UnreliableDatagram,
    Service::XrcInitiator,
    Service::XrcTarget,
    Service::Gsi,
];

const DATA: DataSegment = DataSegment {
    address: 0x1000,
    length: 100,
    l_key: 5,
};

const REMOTE: RemoteAddressSegment = RemoteAddressSegment {
    virtual_address: 0x2000,
    r_key: 6,
    reserved: 0,
};

/// A WQE of `blocks` blocks with one data segment at the end of `segments`.
fn wqe(opcode: SendOpcode, blocks: u8, segments: &[&[u8]]) -> Vec<u8> {
    let mut control = ControlWord::default();
    control.set_opcode(opcode.0);
    control.set_blocks(blocks);
    control.set_data_segments(1);
    control.set_fence(true);
    let head = ControlSegment {
        control,
        index: 9,
        immediate: [1, 2, 3, 4],
        remote_srqn: 0x77,
    };
    let mut bytes = head.as_bytes().to_vec();
    segments
        .iter()
        .for_each(|part| bytes.extend_from_slice(part));
    bytes.resize(usize::from(blocks) * BLOCK_SIZE, 0);
    bytes
}

fn accept(bytes: &[u8], service: Service) -> (SendRequest, SendWqe) {
    let (request, wqe) = decode(bytes, service).expect("a good WQE");
    assert_eq!((request.id, wqe.index, request.fence), (9, 9, true));
    (request, wqe)
}

#[test]
fn sends_of_all_kinds() {
    let operations = [
        (SendOpcode::SEND, SendOperation::Send),
        (
            SendOpcode::SEND_IMMEDIATE,
            SendOperation::SendImmediate(Immediate([1, 2, 3, 4])),
        ),
        (
            SendOpcode::SEND_INVALIDATE,
            SendOperation::SendInvalidate(RKey(0x0403_0201)),
        ),
    ];
    for (opcode, operation) in operations {
        let (request, wqe) = accept(&wqe(opcode, 1, &[DATA.as_bytes()]), RC);
        assert_eq!((request.operation, request.length), (operation, 100));
        assert_eq!(request.destination, Destination::Connected);
        assert!(wqe.datagram.is_none());
    }
}

#[test]
fn atomics_have_operands_between_address_and_data() {
    let atomic = AtomicSegment {
        swap_add: 10,
        compare: 20,
    };
    let segments = [REMOTE.as_bytes(), atomic.as_bytes(), DATA.as_bytes()];
    let remote = Remote {
        virtual_address: 0x2000,
        r_key: RKey(6),
    };
    let (request, _) = accept(&wqe(SendOpcode::COMPARE_SWAP, 1, &segments), RC);
    let (compare, swap) = (20, 10);
    let expected = SendOperation::CompareSwap {
        remote,
        compare,
        swap,
    };
    assert_eq!(request.operation, expected);
    let (request, wqe) = accept(&wqe(SendOpcode::FETCH_ADD, 1, &segments), RC);
    assert_eq!(
        request.operation,
        SendOperation::FetchAdd { remote, add: 10 }
    );
    assert!(matches!(wqe.payload, SendPayload::Memory(list) if list.segments() == [DATA]));
}

#[test]
fn datagrams_carry_their_destination() {
    let datagram = DatagramSegment {
        q_key: 0x8000_0001,
        dest_qpn: 0xab12_3456,
        ..DatagramSegment::default()
    };
    let segments = [datagram.as_bytes(), DATA.as_bytes()];
    let bytes = wqe(SendOpcode::SEND, 2, &segments);
    for service in [Service::UnreliableDatagram, Service::Gsi] {
        let (request, wqe) = accept(&bytes, service);
        let (qpn, q_key) = (Qpn::new(0x12_3456), QKey(0x8000_0001));
        assert_eq!(request.destination, Destination::Datagram { qpn, q_key });
        assert_eq!(wqe.datagram.as_deref(), Some(&datagram));
        assert_eq!(request.length, 100);
    }
}

#[test]
fn xrc_requests_name_the_shared_receive_queue() {
    let bytes = wqe(
        SendOpcode::RDMA_READ,
        1,
        &[REMOTE.as_bytes(), DATA.as_bytes()],
    );
    let (request, _) = accept(&bytes, Service::XrcInitiator);
    assert_eq!(request.destination, Destination::Xrc { srqn: 0x77 });
}

#[test]
fn local_operations_have_no_length() {
    let bind = BindSegment {
        r_key: 1,
        l_key: 2,
        length: 3,
        ..BindSegment::default()
    };
    let (request, found) = accept(&wqe(SendOpcode::BIND_WINDOW, 1, &[bind.as_bytes()]), RC);
    assert_eq!(request.operation, SendOperation::Local(LocalKind::Bind));
    assert_eq!(request.length, 0);
    assert!(matches!(found.payload, SendPayload::Bind(segment) if *segment == bind));
    let (request, found) = accept(&wqe(SendOpcode::LOCAL_INVALIDATE, 1, &[]), RC);
    assert_eq!(
        request.operation,
        SendOperation::Local(LocalKind::Invalidate)
    );
    assert!(matches!(
        found.payload,
        SendPayload::Invalidate(0x0403_0201)
    ));
    let (request, _) = accept(&wqe(SendOpcode::NOP, 1, &[]), Service::UnreliableDatagram);
    assert_eq!(request.operation, SendOperation::Local(LocalKind::Nop));
}

#[test]
fn services_refuse_what_they_do_not_have() {
    for opcode in (0..=0xff).map(SendOpcode) {
        let bytes = wqe(opcode, 3, &[REMOTE.as_bytes()]);
        for service in SERVICES {
            let known = opcode.name().is_some();
            let available = match service {
                Service::XrcTarget => false,
                Service::UnreliableDatagram | Service::Gsi => matches!(
                    opcode,
                    SendOpcode::NOP | SendOpcode::SEND | SendOpcode::SEND_IMMEDIATE
                ),
                _ => known,
            };
            let refused =
                matches!(decode(&bytes, service), Err(WqeError::Opcode(o)) if o == opcode);
            assert_eq!(refused, !available, "{opcode:?} of {service:?}");
        }
    }
}

#[test]
fn segments_that_do_not_fit_are_refused() {
    let datagram = [0; DatagramSegment::SIZE];
    let short = wqe(SendOpcode::SEND, 1, &[&datagram[..48]]);
    let refused = decode(&short, Service::UnreliableDatagram);
    assert_eq!(refused.err(), Some(WqeError::Segments(1)));
    // An atomic has nowhere to put its result in an inline payload.
    let mut inline = wqe(SendOpcode::FETCH_ADD, 1, &[REMOTE.as_bytes()]);
    inline[1] |= 1 << 3;
    assert_eq!(decode(&inline, RC).err(), Some(WqeError::Segments(1)));
}
