//! Objects over an honest device: bring-up, sizes, transitions, teardown.

use crate::support::verbs::{
    connect, cq_of, open, own_receives, post, qp_config, receive_queue, segment, setup,
};
use ferroce_driver::{
    CompletionQueue, CompletionQueueConfig, Error, GidEntry, InitAttributes, InitUpdate,
    MemoryAccess, MemoryRegion, ModifyQp, PostError, QpAccess, QpState, QueuePair, QueuePairConfig,
};
use ferroce_spec::command::CommandStatus;

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
    assert_eq!(
        errno(0x1000, 0, 0x1000, none),
        None,
        "no bytes need no memory"
    );
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
    // Two blocks: an atomic with operands and two elements does not fit into one.
    assert_eq!((capacity.max_send_wr, capacity.max_send_sge), (4, 5));
    assert_eq!((capacity.max_recv_wr, capacity.max_recv_sge), (4, 4));
    assert_eq!(capacity.max_inline_data, 92);
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
            receive: own_receives(&s.cq, 4, 17),
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
            receive: own_receives(&s.cq, u32::MAX, 1),
            ..big.clone()
        },
    ] {
        let error = QueuePair::create(&s.pd, &bad).err().expect("too much");
        assert_eq!(error.errno(), libc::EINVAL);
    }
    for (entries, vector) in [(0, 0), (1 << 17, 0), (4, 4)] {
        let config = CompletionQueueConfig {
            entries,
            vector,
            ..CompletionQueueConfig::default()
        };
        let error = CompletionQueue::create(&s.device, config).err();
        assert_eq!(error.map(|error| error.errno()), Some(libc::EINVAL));
    }
}

#[test]
fn a_qp_without_queues() {
    let s = setup();
    let none = QueuePairConfig {
        max_send_wr: 0,
        receive: own_receives(&s.cq, 0, 0),
        max_send_sge: 0,
        max_inline_data: 0,
        ..qp_config(&s.cq, &s.cq)
    };
    let qp = QueuePair::create(&s.pd, &none).expect("an empty QP is a QP");
    connect(&qp);
    assert_eq!(post(&qp, 1), Err(PostError::QueueFull));
    assert_eq!(receive_queue(&qp).post(1, &[]), Err(PostError::QueueFull));
}

#[test]
fn transitions_reach_the_device() {
    let s = setup();
    connect(&s.qp);
    let now = s.qp.query().expect("exists");
    // The fake device takes the context of the last transition as it is.
    assert_eq!(now.state, QpState::Rts);
    assert_eq!((now.sq_psn, now.timeout, now.retry_count), (5, 14, 7));
    let wrong = ModifyQp::InitToInit(InitUpdate::default());
    let error = s.qp.modify(&wrong).expect_err("is in RTS");
    assert_eq!(error.errno(), libc::EINVAL);
    assert_eq!(s.qp.software_state(), QpState::Rts);
    let notify_drained = true;
    s.qp.modify(&ModifyQp::ToSqd { notify_drained })
        .expect("RTS to SQD");
    assert_eq!(post(&s.qp, 1), Ok(()));
    s.qp.modify(&ModifyQp::ToErr).expect("any to ERR");
    assert_eq!(post(&s.qp, 2), Ok(()));
    assert_eq!(receive_queue(&s.qp).post(3, &[]), Ok(()));
}

#[test]
fn posting_needs_the_right_state() {
    let s = setup();
    let receive = || receive_queue(&s.qp).post(1, &[segment(4)]);
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
