//! The driver over a fake device that keeps the contract: objects, WQEs, completions, events.

mod support;

use ferroce_driver::{
    AddressVector, AsyncEvent, CompletionOpcode, CompletionQueue, CompletionQueueConfig,
    CompletionStatus, DataSegment, Device, DeviceConfig, Error, GidEntry, InitAttributes,
    MemoryAccess, MemoryRegion, ModifyQp, PathMtu, PostError, ProtectionDomain, QpAccess, QpState,
    Qpn, QueuePair, QueuePairConfig, RKey, RemoteAddress, RtrAttributes, RtsAttributes, SendData,
    SendOperation, SendRequest, Service, WorkCompletion,
};
use ferroce_spec::command::CommandStatus;
use ferroce_spec::cqe::{Cqe, CqeOpcode, CqeStatus};
use ferroce_spec::doorbell::{DoorbellKind, DoorbellValue};
use ferroce_spec::eqe::EventType;
use ferroce_spec::wqe::{ControlSegment, ControlWord, L_KEY_END, RemoteAddressSegment, SendOpcode};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use support::{HonestDevice, QPN_BASE};

struct Setup {
    // In the order in which they must go.
    qp: Arc<QueuePair>,
    cq: Arc<CompletionQueue>,
    pd: Arc<ProtectionDomain>,
    device: Arc<Device>,
    fake: Arc<HonestDevice>,
}

fn open() -> (Arc<HonestDevice>, Arc<Device>) {
    let fake = HonestDevice::new();
    let device = Device::open(fake.clone()).expect("an honest device opens");
    (fake, device)
}

fn cq_of(device: &Arc<Device>, entries: u32) -> Arc<CompletionQueue> {
    let config = CompletionQueueConfig {
        entries,
        ..CompletionQueueConfig::default()
    };
    CompletionQueue::create(device, config).expect("small CQ")
}

fn qp_config(send_cq: &Arc<CompletionQueue>, receive_cq: &Arc<CompletionQueue>) -> QueuePairConfig {
    QueuePairConfig {
        service: Service::ReliableConnected,
        send_cq: Arc::clone(send_cq),
        receive_cq: Arc::clone(receive_cq),
        max_send_wr: 4,
        max_recv_wr: 4,
        max_send_sge: 2,
        max_recv_sge: 3,
        max_inline_data: 20,
        signal_all: false,
    }
}

fn setup() -> Setup {
    let (fake, device) = open();
    let pd = device.alloc_pd().expect("first PD");
    let cq = cq_of(&device, 16);
    let qp = QueuePair::create(&pd, &qp_config(&cq, &cq)).expect("small QP");
    Setup {
        qp,
        cq,
        pd,
        device,
        fake,
    }
}

fn connect(qp: &QueuePair) {
    let init = InitAttributes {
        p_key_index: 0,
        port: 1,
        access: QpAccess {
            remote_write: true,
            ..QpAccess::default()
        },
    };
    qp.modify(&ModifyQp::ToInit(init)).expect("RESET to INIT");
    let rtr = RtrAttributes {
        path_mtu: PathMtu::Mtu1024,
        dest_qpn: Qpn(0x77),
        rq_psn: 0x1ff_ffff,
        max_dest_rd_atomic: 3,
        min_rnr_timer: 12,
        path: AddressVector {
            hop_limit: 64,
            ..AddressVector::default()
        },
        access: None,
        p_key_index: None,
    };
    qp.modify(&ModifyQp::ToRtr(rtr)).expect("INIT to RTR");
    let rts = RtsAttributes {
        sq_psn: 5,
        timeout: 14,
        retry_count: 7,
        rnr_retry: 7,
        max_rd_atomic: 1,
        access: None,
        min_rnr_timer: None,
    };
    qp.modify(&ModifyQp::ToRts(rts)).expect("RTR to RTS");
}

fn segment(length: u32) -> DataSegment {
    DataSegment {
        address: 0x1122_3344_5566_7788,
        length,
        l_key: 0xaabb_ccdd,
    }
}

const REMOTE: RemoteAddress = RemoteAddress {
    virtual_address: 0x0102_0304_0506_0708,
    r_key: RKey(0x1234_5678),
};

fn write_request(wr_id: u64, data: SendData<'_>) -> SendRequest<'_> {
    SendRequest {
        wr_id,
        operation: SendOperation::RdmaWrite(REMOTE),
        signaled: true,
        solicited: false,
        fence: false,
        data,
    }
}

fn post(qp: &QueuePair, wr_id: u64) -> Result<(), PostError> {
    let segments = [segment(8)];
    let request = write_request(wr_id, SendData::ScatterGather(&segments));
    qp.send_queue().lock().post(&request)
}

fn cqe(qpn: Qpn, wqe_index: u32, opcode: CqeOpcode) -> Cqe {
    let mut cqe = Cqe {
        qpn: qpn.0,
        wqe_index,
        byte_count: 99,
        immediate: [1, 2, 3, 4],
        timestamp: 777,
        ..Cqe::default()
    };
    cqe.word.set_opcode(opcode.0);
    cqe
}

fn poll(cq: &CompletionQueue) -> Vec<WorkCompletion> {
    let mut all = Vec::new();
    cq.poll(100, |completion| all.push(completion));
    all
}

fn wr_ids(cq: &CompletionQueue) -> Vec<u64> {
    poll(cq).iter().map(|completion| completion.wr_id).collect()
}

#[test]
fn bring_up_and_teardown() {
    let (fake, device) = open();
    let capabilities = device.capabilities();
    assert_eq!(capabilities.firmware_version, "fake 1.2");
    assert_eq!(
        (capabilities.vendor_id, capabilities.part_id),
        (0x1172, 0xf10a)
    );
    assert_eq!(capabilities.port_mac, [2, 0, 0, 0, 0, 1]);
    assert_eq!((capabilities.max_qp, capabilities.max_sge), (1022, 16));
    assert_eq!(capabilities.completion_vectors, 4);
    assert_eq!(device.counters().len(), 3);
    assert_eq!(device.counters()[1], ("tx_bytes", 0x1008));
    assert!(device.link_is_up() && !device.is_dead());
    let gid = GidEntry {
        gid: [7; 16],
        mac: [1, 2, 3, 4, 5, 6],
        vlan: Some(5),
    };
    device.set_gid(3, &gid).expect("index is small");
    assert_eq!(device.gid(3), Ok(gid));
    assert_eq!(device.gid(4).map(|gid| gid.gid), Ok([0; 16]));
    fake.with_state(|state| assert_eq!(state.eqs.len(), 5));
    drop(device);
    assert!(fake.memory.is_empty(), "{:?}", fake.memory.mappings());
    fake.with_state(|state| assert!(state.tables.is_none(), "the device was reset"));
}

#[test]
fn parents_are_busy_and_everything_comes_back() {
    let s = setup();
    assert_eq!(s.pd.dealloc(), Err(Error::Busy));
    assert_eq!(s.cq.destroy(), Err(Error::Busy));
    assert_eq!(s.qp.destroy(), Ok(()));
    assert_eq!(s.qp.destroy(), Err(Error::Destroyed));
    assert_eq!(s.cq.destroy(), Ok(()));
    assert_eq!(s.cq.destroy(), Err(Error::Destroyed));
    assert_eq!(s.pd.dealloc(), Ok(()));
    assert_eq!(s.pd.dealloc(), Err(Error::Destroyed));
    let fake = s.fake.clone();
    drop(s);
    assert!(fake.memory.is_empty());
}

#[test]
fn a_refused_creation_leaves_nothing() {
    let (fake, device) = open();
    let pd = device.alloc_pd().expect("first PD");
    let mappings = fake.memory.len();
    let refuse = || *fake.refuse.lock() = Some(CommandStatus::NO_RESOURCES);
    refuse();
    let config = CompletionQueueConfig {
        entries: 1,
        ..CompletionQueueConfig::default()
    };
    let error = CompletionQueue::create(&device, config)
        .err()
        .expect("refused");
    assert_eq!(error.errno(), libc::ENOMEM);
    let cq = cq_of(&device, 1);
    refuse();
    assert!(QueuePair::create(&pd, &qp_config(&cq, &cq)).is_err());
    let memory = [0u64; 2];
    refuse();
    let address = memory.as_ptr() as usize;
    let access = MemoryAccess::default();
    assert!(MemoryRegion::register(&pd, address, 16, 0, access).is_err());
    assert_eq!(fake.memory.len(), mappings + 1);
    assert_eq!(cq.destroy(), Ok(()));
    assert_eq!(pd.dealloc(), Ok(()));
}

#[test]
fn memory_region_pages() {
    let (fake, device) = open();
    let pd = device.alloc_pd().expect("first PD");
    let memory = vec![5u8; 3 * 4096 + 100];
    let address = memory.as_ptr() as usize;
    let access = MemoryAccess {
        local_write: true,
        remote_write: true,
        ..MemoryAccess::default()
    };
    let region = MemoryRegion::register(&pd, address, memory.len(), 0x55, access).expect("fits");
    assert_eq!(region.lkey().0, region.rkey().0);
    let key = region.lkey().0;
    let entry = fake.with_state(|state| state.mrs[&key]);
    assert_eq!((entry.start, entry.length), (0x55, memory.len() as u64));
    assert_eq!(entry.first_page_offset, address as u64 % 4096);
    assert_eq!((entry.word.log_page_size(), entry.word.valid()), (12, true));
    assert!(entry.access.remote_write() && !entry.access.remote_read());
    assert_eq!(entry.pd, pd.number());
    let pages = (entry.first_page_offset + entry.length).div_ceil(4096);
    for page in 0..pages {
        let translation = fake.translation(key, page);
        assert!(translation.present());
        let mapping = fake.memory.mappings();
        let mapping = mapping
            .iter()
            .find(|m| (m.iova..m.iova + m.length as u64).contains(&translation.iova()));
        let mapping = mapping.expect("the page is mapped");
        let seen = mapping.address as u64 + (translation.iova() - mapping.iova);
        assert_eq!(seen, address as u64 / 4096 * 4096 + page * 4096);
    }
    let mappings = fake.memory.len();
    assert_eq!(region.deregister(), Ok(()));
    assert_eq!(region.deregister(), Err(Error::Destroyed));
    assert_eq!(fake.memory.len(), mappings - 1);
    assert_eq!(pd.dealloc(), Ok(()));
}

#[test]
fn memory_regions_that_cannot_be() {
    let (_fake, device) = open();
    let pd = device.alloc_pd().expect("first PD");
    let errno = |address: usize, length: usize, start: u64, access: MemoryAccess| {
        MemoryRegion::register(&pd, address, length, start, access)
            .err()
            .map(|error| error.errno())
    };
    let none = MemoryAccess::default();
    assert_eq!(errno(0x1000, 0, 0x1000, none), Some(libc::EINVAL));
    assert_eq!(errno(usize::MAX - 5, 10, 0, none), Some(libc::EINVAL));
    assert_eq!(errno(usize::MAX - 5, 5, 0, none), Some(libc::EINVAL));
    assert_eq!(errno(0x1000, 10, u64::MAX - 5, none), Some(libc::EINVAL));
    assert_eq!(errno(0x1000, 1 << 41, 0, none), Some(libc::EINVAL));
    assert_eq!(errno(0x1000, 1 << 38, 0, none), Some(libc::ENOMEM));
    let remote = MemoryAccess {
        remote_write: true,
        ..none
    };
    assert_eq!(errno(0x1000, 10, 0, remote), Some(libc::EINVAL));
    assert_eq!(pd.dealloc(), Ok(()));
}

#[test]
fn queue_sizes() {
    let s = setup();
    let capacity = s.qp.capacity();
    assert_eq!((capacity.max_send_wr, capacity.max_send_sge), (4, 2));
    assert_eq!((capacity.max_recv_wr, capacity.max_recv_sge), (4, 4));
    assert_eq!(capacity.max_inline_data, 28);
    let big = QueuePairConfig {
        max_send_wr: 5,
        max_send_sge: 16,
        max_inline_data: 512,
        ..qp_config(&s.cq, &s.cq)
    };
    let qp = QueuePair::create(&s.pd, &big).expect("within the limits");
    assert_eq!(qp.capacity().max_send_wr, 64 / 9);
    assert_eq!(qp.capacity().max_inline_data, 512);
    for bad in [
        QueuePairConfig {
            max_send_sge: 17,
            ..big.clone()
        },
        QueuePairConfig {
            max_recv_sge: 17,
            ..big.clone()
        },
        QueuePairConfig {
            max_inline_data: 513,
            ..big.clone()
        },
        QueuePairConfig {
            max_send_wr: 1 << 16,
            ..big.clone()
        },
        QueuePairConfig {
            max_send_wr: u32::MAX,
            ..big.clone()
        },
        QueuePairConfig {
            max_recv_wr: u32::MAX,
            ..big.clone()
        },
    ] {
        let error = QueuePair::create(&s.pd, &bad).err().expect("too much");
        assert_eq!(error.errno(), libc::EINVAL);
    }
    let service = Service::UnreliableDatagram;
    let ud = QueuePairConfig { service, ..big };
    let error = QueuePair::create(&s.pd, &ud)
        .err()
        .expect("not implemented");
    assert_eq!(error.errno(), libc::EOPNOTSUPP);
    for (entries, vector) in [(0, 0), (1 << 17, 0), (4, 4)] {
        let config = CompletionQueueConfig {
            entries,
            vector,
            ..CompletionQueueConfig::default()
        };
        let error = CompletionQueue::create(&s.device, config).err();
        assert_eq!(error.map(|error| error.errno()), Some(libc::EINVAL));
    }
    let none = QueuePairConfig {
        max_send_wr: 0,
        max_recv_wr: 0,
        max_send_sge: 0,
        max_recv_sge: 0,
        max_inline_data: 0,
        ..qp_config(&s.cq, &s.cq)
    };
    let qp = QueuePair::create(&s.pd, &none).expect("an empty QP is a QP");
    connect(&qp);
    assert_eq!(post(&qp, 1), Err(PostError::QueueFull));
    assert_eq!(qp.receive_queue().post(1, &[]), Err(PostError::QueueFull));
}

#[test]
fn transitions_reach_the_device() {
    let s = setup();
    connect(&s.qp);
    let now = s.qp.query().expect("exists");
    // The fake device takes the context of the last transition as it is.
    assert_eq!(now.state, QpState::Rts);
    assert_eq!((now.sq_psn, now.timeout, now.retry_count), (5, 14, 7));
    let wrong = ModifyQp::InitToInit(ferroce_driver::InitUpdate::default());
    let error = s.qp.modify(&wrong).expect_err("is in RTS");
    assert_eq!(error.errno(), libc::EINVAL);
    assert_eq!(s.qp.software_state(), QpState::Rts);
    let notify_drained = true;
    s.qp.modify(&ModifyQp::ToSqd { notify_drained })
        .expect("RTS to SQD");
    assert_eq!(post(&s.qp, 1), Ok(()));
    s.qp.modify(&ModifyQp::ToErr).expect("any to ERR");
    assert_eq!(post(&s.qp, 2), Ok(()));
    assert_eq!(s.qp.receive_queue().post(3, &[]), Ok(()));
}

#[test]
fn posting_needs_the_right_state() {
    let s = setup();
    let receive = || s.qp.receive_queue().post(1, &[segment(4)]);
    assert_eq!(post(&s.qp, 1), Err(PostError::InvalidState));
    assert_eq!(receive(), Err(PostError::InvalidState));
    let init = InitAttributes {
        p_key_index: 0,
        port: 1,
        access: QpAccess::default(),
    };
    s.qp.modify(&ModifyQp::ToInit(init)).expect("RESET to INIT");
    assert_eq!(post(&s.qp, 1), Err(PostError::InvalidState));
    assert_eq!(receive(), Ok(()));
    assert!(s.fake.take_doorbells().len() == 1);
    s.qp.destroy().expect("exists");
    assert_eq!(receive(), Err(PostError::InvalidState));
}

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
    s.qp.send_queue().lock().post(&request).expect("fits");
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
    s.qp.send_queue().lock().post(&request).expect("fits");
    let bytes = block(&s, 0);
    assert_eq!(bytes[..4], [0x01, 0x0a, 0x01, 0x00]);
    assert_eq!(bytes[16..20], [11, 0, 0, 0]);
    assert_eq!(&bytes[20..31], b"hello world");
    let long: [&[u8]; 1] = [&[0; 29]];
    let too_long = write_request(1, SendData::Inline(&long));
    let mut batch = s.qp.send_queue().lock();
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
        qp.send_queue().lock().post(&request).expect("fits");
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
    s.qp.receive_queue().post(1, &[segment(7)]).expect("room");
    s.qp.receive_queue()
        .post(2, &[segment(1); 4])
        .expect("room");
    let too_many = s.qp.receive_queue().post(2, &[segment(1); 5]);
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
fn completions_free_the_queue() {
    let s = setup();
    connect(&s.qp);
    for lap in 0..20u32 {
        for i in 0..4 {
            post(&s.qp, u64::from(lap * 4 + i)).expect("room");
        }
        assert_eq!(post(&s.qp, 0), Err(PostError::QueueFull));
        let number = s.qp.number();
        s.fake.complete(
            s.cq.number().0,
            cqe(number, lap * 4 + 1, CqeOpcode::RDMA_WRITE),
        );
        s.fake.complete(
            s.cq.number().0,
            cqe(number, lap * 4 + 3, CqeOpcode::RDMA_WRITE),
        );
        let expected = [u64::from(lap * 4 + 1), u64::from(lap * 4 + 3)];
        assert_eq!(wr_ids(&s.cq), expected);
        s.qp.receive_queue().post(lap.into(), &[]).expect("room");
        s.fake
            .complete(s.cq.number().0, cqe(number, lap, CqeOpcode::RECEIVE));
        let done = poll(&s.cq);
        assert_eq!(done[0].wr_id, u64::from(lap));
        assert_eq!(done[0].opcode, CompletionOpcode::Receive);
        assert_eq!((done[0].byte_length, done[0].timestamp_ns), (99, 777));
        assert_eq!(done[0].immediate, None);
    }
    let record = s
        .fake
        .with_state(|state| state.cqs[&s.cq.number().0].context.consumer_record);
    assert_eq!(s.fake.memory.load(record), Some(60));
    assert_eq!(s.cq.skipped(), 0);
}

#[test]
fn completion_fields() {
    let s = setup();
    connect(&s.qp);
    s.qp.receive_queue().post(5, &[]).expect("room");
    let mut entry = cqe(s.qp.number(), 0, CqeOpcode::RECEIVE_RDMA_IMMEDIATE);
    entry.word.set_with_immediate(true);
    entry.word.set_solicited(true);
    s.fake.complete(s.cq.number().0, entry);
    post(&s.qp, 6).expect("room");
    let mut entry = cqe(s.qp.number(), 0, CqeOpcode(0x55));
    entry.word.set_status(CqeStatus::RETRY_EXCEEDED.0);
    entry.word.set_vendor_error(0x81);
    s.fake.complete(s.cq.number().0, entry);
    let done = poll(&s.cq);
    assert_eq!(done[0].opcode, CompletionOpcode::ReceiveRdmaWithImmediate);
    assert_eq!(done[0].immediate, Some([1, 2, 3, 4]));
    assert!(done[0].solicited);
    assert_eq!(done[1].status, CompletionStatus::RetryExceededError);
    assert_eq!((done[1].wr_id, done[1].vendor_error), (6, 0x81));
    assert_eq!(done[1].opcode, CompletionOpcode::RdmaWrite);
}

#[test]
fn cqes_that_name_nothing_are_skipped() {
    let s = setup();
    connect(&s.qp);
    post(&s.qp, 1).expect("room");
    let cqn = s.cq.number().0;
    s.fake.complete(cqn, cqe(Qpn(0xdead), 0, CqeOpcode::SEND));
    s.fake.complete(cqn, cqe(s.qp.number(), 1, CqeOpcode::SEND));
    s.fake
        .complete(cqn, cqe(s.qp.number(), 0, CqeOpcode::RECEIVE));
    s.fake.complete(cqn, cqe(s.qp.number(), 0, CqeOpcode::SEND));
    s.fake.complete(cqn, cqe(s.qp.number(), 0, CqeOpcode::SEND));
    assert_eq!(wr_ids(&s.cq), [1]);
    assert_eq!(wr_ids(&s.cq), [0u64; 0]);
    assert_eq!(s.cq.skipped(), 4);
}

#[test]
fn batches_ring_once_and_can_be_taken_back() {
    let s = setup();
    connect(&s.qp);
    let segments = [segment(8)];
    let request = |wr_id| write_request(wr_id, SendData::ScatterGather(&segments));
    let mut batch = s.qp.send_queue().lock_owned();
    batch.post(&request(1)).expect("room");
    batch.post(&request(2)).expect("room");
    batch.abort();
    assert!(s.fake.take_doorbells().is_empty());
    s.fake
        .complete(s.cq.number().0, cqe(s.qp.number(), 0, CqeOpcode::SEND));
    assert_eq!(wr_ids(&s.cq), [0u64; 0], "never told to the device");
    let mut batch = s.qp.send_queue().lock();
    batch.post(&request(3)).expect("room");
    batch.post(&request(4)).expect("room");
    batch.ring();
    batch.post(&request(5)).expect("room");
    batch.abort();
    let rung: Vec<u32> = s
        .fake
        .take_doorbells()
        .iter()
        .map(|&(_, value)| DoorbellValue::from_bits(value).index())
        .collect();
    assert_eq!(rung, [2]);
    s.fake
        .complete(s.cq.number().0, cqe(s.qp.number(), 1, CqeOpcode::SEND));
    let mut poller = s.cq.lock_owned();
    assert_eq!(poller.next().map(|completion| completion.wr_id), Some(4));
    assert_eq!(poller.next(), None);
}

#[test]
fn reset_and_destroy_remove_stale_completions() {
    let s = setup();
    let other = QueuePair::create(&s.pd, &qp_config(&s.cq, &s.cq)).expect("small QP");
    let cqn = s.cq.number().0;
    // Move the CQ's indices to the end of the ring, so that entries wrap around it.
    connect(&s.qp);
    connect(&other);
    for index in 0..14 {
        post(&s.qp, 0).expect("room");
        s.fake
            .complete(cqn, cqe(s.qp.number(), index, CqeOpcode::SEND));
        assert_eq!(poll(&s.cq).len(), 1);
    }
    for i in 0..4 {
        post(&s.qp, 100 + i).expect("room");
        post(&other, 200 + i).expect("room");
        s.fake
            .complete(cqn, cqe(s.qp.number(), 14 + i as u32, CqeOpcode::SEND));
        s.fake
            .complete(cqn, cqe(other.number(), i as u32, CqeOpcode::SEND));
    }
    s.qp.modify(&ModifyQp::ToReset).expect("always");
    assert_eq!(post(&s.qp, 0), Err(PostError::InvalidState));
    let mut poller = s.cq.lock();
    assert_eq!(poller.next().map(|completion| completion.wr_id), Some(200));
    drop(poller);
    connect(&s.qp);
    for i in 0..4 {
        post(&s.qp, 300 + i).expect("all free again");
        s.fake
            .complete(cqn, cqe(s.qp.number(), i as u32, CqeOpcode::SEND));
    }
    other.destroy().expect("exists");
    assert_eq!(wr_ids(&s.cq), [300, 301, 302, 303]);
    assert_eq!(s.cq.skipped(), 0);
    let record = s
        .fake
        .with_state(|state| state.cqs[&cqn].context.consumer_record);
    assert_eq!(s.fake.memory.load(record), Some(14 + 8 + 4));
}

#[test]
fn two_cqs() {
    let s = setup();
    let receive_cq = cq_of(&s.device, 4);
    let qp = QueuePair::create(&s.pd, &qp_config(&s.cq, &receive_cq)).expect("small QP");
    connect(&qp);
    post(&qp, 1).expect("room");
    qp.receive_queue().post(2, &[]).expect("room");
    s.fake
        .complete(s.cq.number().0, cqe(qp.number(), 0, CqeOpcode::RECEIVE));
    s.fake
        .complete(receive_cq.number().0, cqe(qp.number(), 0, CqeOpcode::SEND));
    assert_eq!(
        poll(&s.cq).len() + poll(&receive_cq).len(),
        0,
        "wrong sides"
    );
    s.fake
        .complete(s.cq.number().0, cqe(qp.number(), 0, CqeOpcode::SEND));
    s.fake.complete(
        receive_cq.number().0,
        cqe(qp.number(), 0, CqeOpcode::RECEIVE),
    );
    assert_eq!((wr_ids(&s.cq), wr_ids(&receive_cq)), (vec![1], vec![2]));
    assert_eq!(receive_cq.destroy(), Err(Error::Busy));
    qp.modify(&ModifyQp::ToReset).expect("always");
    drop(qp);
    assert_eq!(receive_cq.destroy(), Ok(()));
}

#[test]
fn completion_events() {
    let (fake, device) = open();
    let events = Arc::new(AtomicU32::new(0));
    let this: Arc<Mutex<Option<Arc<CompletionQueue>>>> = Arc::default();
    let (count, again) = (events.clone(), this.clone());
    let config = CompletionQueueConfig {
        entries: 4,
        vector: 2,
        on_event: Some(Arc::new(move || {
            count.fetch_add(1, Ordering::Relaxed);
            // A handler may poll and arm.
            if let Some(cq) = &*again.lock() {
                cq.poll(1, |_| {});
                cq.arm(true);
            }
        })),
        on_error: None,
    };
    let cq = CompletionQueue::create(&device, config).expect("small CQ");
    *this.lock() = Some(cq.clone());
    let slot = fake.with_state(|state| state.cqs[&cq.number().0].context.doorbell_slot);
    let doorbell = |kind| (slot, DoorbellValue::new(kind, cq.number().0, 0).bits());
    cq.arm(true);
    assert_eq!(
        fake.take_doorbells(),
        [doorbell(DoorbellKind::CQ_ARM_SOLICITED)]
    );
    cq.arm(false);
    cq.arm(true);
    let any = doorbell(DoorbellKind::CQ_ARM);
    assert_eq!(
        fake.take_doorbells(),
        [any, any],
        "the stronger request stands"
    );
    fake.raise(3, EventType::COMPLETION, cq.number().0);
    assert_eq!(events.load(Ordering::Relaxed), 1);
    assert_eq!(
        fake.take_doorbells(),
        [doorbell(DoorbellKind::CQ_ARM_SOLICITED)]
    );
    // More events than the queue has places: it is drained and armed again each time.
    for _ in 0..200 {
        fake.raise(3, EventType::COMPLETION, cq.number().0);
    }
    assert_eq!(events.load(Ordering::Relaxed), 201);
    fake.raise(3, EventType::COMPLETION, 0x999);
    assert_eq!(device.skipped_events(), 1);
    this.lock().take();
    cq.destroy().expect("no QPs");
    fake.raise(3, EventType::COMPLETION, cq.number().0);
    assert_eq!(events.load(Ordering::Relaxed), 201);
}

#[test]
fn asynchronous_events() {
    let s = setup();
    let seen: Arc<Mutex<Vec<AsyncEvent>>> = Arc::default();
    let log = seen.clone();
    s.device
        .set_event_handler(Some(Arc::new(move |event| log.lock().push(event))));
    let (qpn, cqn) = (s.qp.number(), s.cq.number());
    s.fake.raise(0, EventType::QP_FATAL, qpn.0);
    s.fake.raise(0, EventType::QP_FATAL, qpn.0 + 1);
    s.fake.raise(0, EventType::COMMUNICATION_ESTABLISHED, qpn.0);
    s.fake.raise(0, EventType::CQ_ERROR, cqn.0);
    s.fake.raise(0, EventType(0x77), 1);
    s.fake.raise(0, EventType::DEVICE_FATAL, 0);
    let expected = [
        AsyncEvent::QpFatal(qpn),
        AsyncEvent::CommunicationEstablished(qpn),
        AsyncEvent::CqError(cqn),
        AsyncEvent::DeviceFatal,
    ];
    assert_eq!(*seen.lock(), expected);
    assert_eq!(s.device.skipped_events(), 2);
    assert!(s.device.is_dead());
    assert_eq!(s.qp.query(), Err(Error::DeviceDead));
    // Even so everything can be given back.
    assert_eq!(s.qp.destroy(), Ok(()));
    assert_eq!(s.cq.destroy(), Ok(()));
    let fake = s.fake.clone();
    drop(s);
    assert!(fake.memory.is_empty());
}

#[test]
fn a_device_that_falls_silent() {
    let fake = HonestDevice::new();
    let config = DeviceConfig {
        command_timeout: Duration::from_millis(20),
        ..DeviceConfig::default()
    };
    let device = Device::open_with(fake.clone(), &config).expect("still answers");
    let cq = cq_of(&device, 4);
    *fake.mute.lock() = true;
    let error = device.gid(0).expect_err("no answer");
    assert_eq!(error.errno(), libc::ETIMEDOUT);
    assert_eq!(device.gid(0), Err(Error::DeviceDead));
    assert_eq!(cq.destroy(), Ok(()));
    drop((cq, device));
    assert!(fake.memory.is_empty());
}

#[test]
fn an_empty_poll_lets_the_bus_work_once() {
    let s = setup();
    connect(&s.qp);
    post(&s.qp, 42).expect("room");
    let count = Arc::new(AtomicU32::new(0));
    let (turns, fake) = (count.clone(), Arc::downgrade(&s.fake));
    let entry = cqe(s.qp.number(), 0, CqeOpcode::RDMA_WRITE);
    let cqn = s.cq.number().0;
    *s.fake.on_relax.lock() = Some(Box::new(move || {
        if turns.fetch_add(1, Ordering::Relaxed) == 1 {
            fake.upgrade().expect("alive").complete(cqn, entry);
        }
    }));
    assert_eq!(poll(&s.cq).len(), 0);
    assert_eq!(wr_ids(&s.cq), [42], "found after the bus has worked");
    assert_eq!(count.load(Ordering::Relaxed), 2);
    s.fake.on_relax.lock().take();
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
        qp.send_queue().lock().post(&request).expect("room");
        let base = s
            .fake
            .with_state(|state| state.qps[&qp.number().0].send_base);
        let control = ControlWord::from_bits(s.fake.memory.load(base).expect("mapped") as u32);
        assert_eq!(control.signaled(), expected);
    }
}
