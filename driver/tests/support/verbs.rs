//! Common parts of the tests over the honest device: a connected QP, requests, completions.

#![allow(dead_code, reason = "each test binary uses its part of it")]

use std::sync::Arc;

use ferroce_driver::{
    AddressVector, CompletionQueue, DataSegment, Device, DeviceConfig, InitAttributes, ModifyQp,
    PathMtu, PostError, ProtectionDomain, QpAccess, Qpn, QueuePair, QueuePairConfig, RKey,
    ReceiveQueue, ReceiveSource, RemoteAddress, RtrAttributes, RtsAttributes, SendData,
    SendOperation, SendQueue, SendRequest,
};
use ferroce_spec::cqe::{Cqe, CqeOpcode};

use ferroce_test_verbs as verbs;

use super::HonestDevice;

pub struct Setup {
    // Dropped in this order.
    pub qp: Arc<QueuePair>,
    pub cq: Arc<CompletionQueue>,
    pub pd: Arc<ProtectionDomain>,
    pub device: Arc<Device>,
    pub fake: Arc<HonestDevice>,
}

pub fn open() -> (Arc<HonestDevice>, Arc<Device>) {
    let fake = HonestDevice::new();
    let device = Device::open(fake.clone()).expect("an honest device opens");
    (fake, device)
}

pub use ferroce_test_verbs::new_cq as cq_of;
pub use ferroce_test_verbs::poll;

pub fn qp_config(
    send_cq: &Arc<CompletionQueue>,
    receive_cq: &Arc<CompletionQueue>,
) -> QueuePairConfig {
    QueuePairConfig {
        receive: own_receives(receive_cq, 4, 3),
        max_send_wr: 4,
        max_send_sge: 2,
        max_inline_data: 20,
        ..verbs::qp_config(send_cq, 4)
    }
}

/// Returns the receives of [`qp_config`], with other sizes.
pub fn own_receives(cq: &Arc<CompletionQueue>, max_wr: u32, max_sge: u32) -> ReceiveSource {
    ReceiveSource::Own {
        cq: Arc::clone(cq),
        max_wr,
        max_sge,
    }
}

pub fn setup() -> Setup {
    setup_of(HonestDevice::new())
}

pub fn setup_of(fake: Arc<HonestDevice>) -> Setup {
    setup_with(fake, &DeviceConfig::default())
}

pub fn setup_with(fake: Arc<HonestDevice>, config: &DeviceConfig) -> Setup {
    let device = Device::open_with(fake.clone(), config).expect("an honest device opens");
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

pub fn connect(qp: &QueuePair) {
    let init = InitAttributes {
        access: QpAccess {
            remote_write: true,
            ..QpAccess::default()
        },
        ..verbs::INIT
    };
    let rtr = RtrAttributes {
        path_mtu: PathMtu::Mtu1024,
        rq_psn: 0x1ff_ffff,
        max_dest_rd_atomic: 3,
        ..verbs::rtr(Qpn(0x77), AddressVector::default())
    };
    let rts = RtsAttributes {
        sq_psn: 5,
        max_rd_atomic: 1,
        ..verbs::rts()
    };
    verbs::modify(
        qp,
        [
            ModifyQp::ToInit(init),
            ModifyQp::ToRtr(rtr),
            ModifyQp::ToRts(rts),
        ],
    );
}

pub fn segment(length: u32) -> DataSegment {
    DataSegment {
        address: 0x1122_3344_5566_7788,
        length,
        l_key: 0xaabb_ccdd,
    }
}

pub const REMOTE: RemoteAddress = RemoteAddress {
    virtual_address: 0x0102_0304_0506_0708,
    r_key: RKey(0x1234_5678),
};

pub fn write_request(wr_id: u64, data: SendData<'_>) -> SendRequest<'_> {
    verbs::request(wr_id, SendOperation::RdmaWrite(REMOTE), data)
}

pub fn post(qp: &QueuePair, wr_id: u64) -> Result<(), PostError> {
    let segments = [segment(8)];
    let request = write_request(wr_id, SendData::ScatterGather(&segments));
    send_queue(qp).lock().post(&request)
}

pub fn send_queue(qp: &QueuePair) -> &SendQueue {
    qp.send_queue().expect("has one")
}

pub fn receive_queue(qp: &QueuePair) -> &ReceiveQueue {
    qp.receive_queue().expect("has its own")
}

pub fn cqe(qpn: Qpn, wqe_index: u32, opcode: CqeOpcode) -> Cqe {
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

pub fn wr_ids(cq: &CompletionQueue) -> Vec<u64> {
    poll(cq).iter().map(|completion| completion.wr_id).collect()
}
