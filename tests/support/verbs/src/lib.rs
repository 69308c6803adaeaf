//! Objects of the driver with the settings that most tests need: CQ, QP, memory, a connection,
//! requests, completions.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use ferroce_driver::{
    AddressVector, CompletionQueue, CompletionQueueConfig, DataSegment, Destination, Device,
    GSI_Q_KEY, GidEntry, InitAttributes, MemoryAccess, MemoryRegion, ModifyQp, PathMtu,
    ProtectionDomain, QpAccess, Qpn, QueuePair, QueuePairConfig, ReceiveSource, RemoteAddress,
    RtrAttributes, RtsAttributes, SendData, SendOperation, SendRequest, Service, UdInit, UdRtr,
    UdRts, WorkCompletion,
};

/// Bytes of a page.
const PAGE: usize = 4096;

/// All rights that the remote side can have on a QP.
pub const ALL_REMOTE: QpAccess = QpAccess {
    remote_write: true,
    remote_read: true,
    remote_atomic: true,
    flush_global: false,
    flush_persistent: false,
};

/// Memory that begins at a page boundary, like large buffers of programs: the position within pages
/// affects the time of an access.
#[derive(Debug)]
pub struct Memory {
    words: Box<[AtomicU64]>,
    skipped: usize,
    length: usize,
}

impl Memory {
    /// Returns memory of zeros.
    pub fn new(bytes: usize) -> Self {
        let words: Box<[AtomicU64]> = (0..(bytes + PAGE) / 8).map(|_| AtomicU64::new(0)).collect();
        let skipped = words.as_ptr().addr().wrapping_neg() % PAGE / 8;
        let length = bytes / 8;
        Self {
            words,
            skipped,
            length,
        }
    }
}

impl Deref for Memory {
    type Target = [AtomicU64];
    fn deref(&self) -> &[AtomicU64] {
        &self.words[self.skipped..][..self.length]
    }
}

/// Sets the GID table of a device.
pub fn set_gids(device: &Device, entries: impl IntoIterator<Item = ([u8; 16], [u8; 6])>) {
    for (index, (gid, mac)) in (0..).zip(entries) {
        let entry = GidEntry {
            gid,
            mac,
            vlan: None,
        };
        device.set_gid(index, &entry).expect("in the table");
    }
}

/// Returns a CQ without events.
pub fn new_cq(device: &Arc<Device>, entries: u32) -> Arc<CompletionQueue> {
    let config = CompletionQueueConfig {
        entries,
        ..CompletionQueueConfig::default()
    };
    CompletionQueue::create(device, config).expect("small CQ")
}

/// Returns a CQ of 256 entries whose events call `on_event`.
pub fn new_cq_with_events(
    device: &Arc<Device>,
    on_event: impl Fn() + Send + Sync + 'static,
) -> Arc<CompletionQueue> {
    let config = CompletionQueueConfig {
        entries: 256,
        on_event: Some(Arc::new(on_event)),
        ..CompletionQueueConfig::default()
    };
    CompletionQueue::create(device, config).expect("small CQ")
}

/// Registers memory with all rights, at its own address.
pub fn register(pd: &Arc<ProtectionDomain>, memory: &[AtomicU64]) -> Arc<MemoryRegion> {
    let access = MemoryAccess {
        local_write: true,
        remote_write: true,
        remote_read: true,
        remote_atomic: true,
        flush_global: false,
        flush_persistent: false,
        window_bind: true,
        ..MemoryAccess::default()
    };
    let address = memory.as_ptr().expose_provenance();
    let length = size_of_val(memory);
    MemoryRegion::register(pd, address, length, address as u64, access).expect("our own memory")
}

/// Returns the segment of `length` bytes from byte `offset` of a region on.
pub fn segment(region: &MemoryRegion, offset: usize, length: usize) -> DataSegment {
    DataSegment {
        address: (region.address() + offset) as u64,
        length: length as u32,
        l_key: region.lkey().0,
    }
}

/// Returns the address and key of byte `offset` of a region, for peers.
pub fn remote(region: &MemoryRegion, offset: usize) -> RemoteAddress {
    RemoteAddress {
        virtual_address: (region.address() + offset) as u64,
        r_key: region.rkey(),
    }
}

/// Returns a QP's own receive queue, with one segment for each receive.
pub fn own_receives(cq: &Arc<CompletionQueue>, max_wr: u32) -> ReceiveSource {
    ReceiveSource::Own {
        cq: Arc::clone(cq),
        max_wr,
        max_sge: 1,
    }
}

/// Returns an RC QP that completes on one CQ, with `depth` requests and receives of one segment,
/// and no inline data.
pub fn qp_config(cq: &Arc<CompletionQueue>, depth: u32) -> QueuePairConfig {
    QueuePairConfig {
        service: Service::ReliableConnected,
        send_cq: Arc::clone(cq),
        receive: own_receives(cq, depth),
        max_send_wr: depth,
        max_send_sge: 2,
        max_inline_data: 0,
        signal_all: false,
        blocks_own_multicast: false,
    }
}

/// Creates a QP.
pub fn new_qp(pd: &Arc<ProtectionDomain>, config: &QueuePairConfig) -> Arc<QueuePair> {
    QueuePair::create(pd, config).expect("small QP")
}

/// Attributes of the transition to INIT, with all remote rights.
pub const INIT: InitAttributes = InitAttributes {
    p_key_index: 0,
    port: 1,
    access: ALL_REMOTE,
};

/// Returns attributes of the transition to RTR that match [`rts`] of the peer, MTU 4096.
pub fn rtr(dest_qpn: Qpn, path: AddressVector) -> RtrAttributes {
    RtrAttributes {
        path_mtu: PathMtu::Mtu4096,
        dest_qpn,
        rq_psn: 7,
        max_dest_rd_atomic: 16,
        min_rnr_timer: 12,
        path,
        access: None,
        p_key_index: None,
    }
}

/// Returns attributes of the transition to RTS: PSN 7, as many retries as possible.
pub fn rts() -> RtsAttributes {
    RtsAttributes {
        sq_psn: 7,
        // 4.096 us * 2^14 = 67 ms
        timeout: 14,
        retry_count: 7,
        rnr_retry: 7,
        max_rd_atomic: 16,
        access: None,
        min_rnr_timer: None,
    }
}

/// Returns a path to a GID of the fabric, from the second entry of this side's GID table.
pub fn path_to(dest_gid: [u8; 16], dest_mac: [u8; 6]) -> AddressVector {
    AddressVector {
        dest_gid,
        dest_mac,
        source_gid_index: 1,
        hop_limit: 64,
        udp_source_port: 0xc001,
        ..AddressVector::default()
    }
}

/// Takes a QP through transitions.
pub fn modify(qp: &QueuePair, transitions: impl IntoIterator<Item = ModifyQp>) {
    for transition in transitions {
        qp.modify(&transition).expect("a legal transition");
    }
}

/// Takes an RC QP from RESET to RTS.
pub fn connect(qp: &QueuePair, rtr: RtrAttributes, rts: RtsAttributes) {
    let to_init = ModifyQp::ToInit(INIT);
    modify(qp, [to_init, ModifyQp::ToRtr(rtr), ModifyQp::ToRts(rts)]);
}

/// Returns a signaled request of a connected QP.
pub fn request(wr_id: u64, operation: SendOperation, data: SendData<'_>) -> SendRequest<'_> {
    SendRequest {
        wr_id,
        operation,
        destination: Destination::Connected,
        signaled: true,
        solicited: false,
        fence: false,
        data,
    }
}

/// Posts a signaled request with one segment and rings the doorbell.
pub fn post(qp: &QueuePair, wr_id: u64, operation: SendOperation, segment: DataSegment) {
    let segments = [segment];
    let request = request(wr_id, operation, SendData::ScatterGather(&segments));
    let mut batch = qp.send_queue().expect("has one").lock();
    batch.post(&request).expect("there is room");
    batch.ring();
}

/// Posts a receive of one segment.
pub fn post_receive(qp: &QueuePair, wr_id: u64, segment: DataSegment) {
    let queue = qp.receive_queue().expect("its own");
    queue.post(wr_id, &[segment]).expect("there is room");
}

/// Creates the GSI of a device, with `depth` requests and receives, and takes it to RTS.
pub fn new_gsi(
    pd: &Arc<ProtectionDomain>,
    cq: &Arc<CompletionQueue>,
    depth: u32,
) -> Arc<QueuePair> {
    let config = QueuePairConfig {
        service: Service::Gsi,
        ..qp_config(cq, depth)
    };
    let qp = new_qp(pd, &config);
    let transitions = [
        ModifyQp::ToInitUd(UdInit {
            p_key_index: 0,
            port: 1,
            q_key: GSI_Q_KEY,
        }),
        ModifyQp::ToRtrUd(UdRtr::default()),
        ModifyQp::ToRtsUd(UdRts {
            sq_psn: 0,
            q_key: None,
        }),
    ];
    modify(&qp, transitions);
    qp
}

/// Posts a signaled SEND of one segment to the GSI at the end of a path.
pub fn send_to_gsi(qp: &QueuePair, wr_id: u64, path: &AddressVector, segment: DataSegment) {
    let segments = [segment];
    let request = SendRequest {
        destination: Destination::Datagram {
            path,
            qpn: Qpn::GSI,
            q_key: GSI_Q_KEY,
        },
        ..request(
            wr_id,
            SendOperation::Send,
            SendData::ScatterGather(&segments),
        )
    };
    let mut batch = qp.send_queue().expect("has one").lock();
    batch.post(&request).expect("there is room");
    batch.ring();
}

/// Takes all completions of a CQ.
pub fn poll(cq: &CompletionQueue) -> Vec<WorkCompletion> {
    let mut all = Vec::new();
    while cq.poll(100, |completion| all.push(completion)) == 100 {}
    all
}
