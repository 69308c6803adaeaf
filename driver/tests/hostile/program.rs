//! A program that calls all functions of the driver at random.

use std::sync::Arc;

use ferroce_driver::{
    AddressVector, CompletionQueue, CompletionQueueConfig, DataSegment, Destination, Device,
    DeviceMemory, GidEntry, InitAttributes, InitUpdate, LKey, MemoryAccess, MemoryRange,
    MemoryRegion, MemoryWindow, ModifyQp, PathMtu, ProtectionDomain, QpAccess, Qpn, QueuePair,
    QueuePairConfig, RKey, ReceiveSource, RemoteAddress, Reregistration, RtrAttributes,
    RtsAttributes, RtsUpdate, SendData, SendOperation, SendRequest, Service, SharedReceiveQueue,
    SharedReceiveQueueConfig, SqdUpdate, Srqn, UcRtr, UcRts, UdInit, UdRtr, UdRts, WindowAccess,
    WindowBinding, WindowType, XrcDomain, XrcTargetRts,
};
use parking_lot::Mutex;

use crate::rng::Rng;

/// All objects of the application.
#[derive(Default)]
pub struct Objects {
    pub pds: Vec<Arc<ProtectionDomain>>,
    pub cqs: Vec<Arc<CompletionQueue>>,
    qps: Vec<Arc<QueuePair>>,
    srqs: Vec<Arc<SharedReceiveQueue>>,
    xrcds: Vec<Arc<XrcDomain>>,
    mrs: Vec<Arc<MemoryRegion>>,
    mws: Vec<Arc<MemoryWindow>>,
    memories: Vec<Arc<DeviceMemory>>,
}

fn pick<'a, T>(objects: &'a [T], rng: &mut Rng) -> Option<&'a T> {
    let count = objects.len() as u64;
    (count > 0).then(|| &objects[rng.below(count) as usize])
}

fn service(rng: &mut Rng) -> Service {
    match rng.below(6) {
        0 => Service::UnreliableConnected,
        1 => Service::UnreliableDatagram,
        2 => Service::XrcInitiator,
        3 => Service::Gsi,
        _ => Service::ReliableConnected,
    }
}

/// Returns RESET to INIT in the form of a service.
fn to_init(service: Service) -> ModifyQp {
    let (p_key_index, port) = (0, 1);
    if service.is_datagram() {
        return ModifyQp::ToInitUd(UdInit {
            p_key_index,
            port,
            q_key: 1,
        });
    }
    ModifyQp::ToInit(InitAttributes {
        p_key_index,
        port,
        access: QpAccess::default(),
    })
}

fn to_rtr(service: Service, rng: &mut Rng) -> ModifyQp {
    let (dest_qpn, rq_psn) = (Qpn(rng.next() as u32), rng.next() as u32);
    match service {
        Service::UnreliableDatagram | Service::Gsi => ModifyQp::ToRtrUd(UdRtr::default()),
        Service::UnreliableConnected | Service::XrcInitiator => ModifyQp::ToRtrUc(UcRtr {
            path_mtu: PathMtu::Mtu256,
            dest_qpn,
            rq_psn,
            path: AddressVector::default(),
            access: None,
            p_key_index: Some(0),
        }),
        Service::ReliableConnected | Service::XrcTarget => ModifyQp::ToRtr(RtrAttributes {
            path_mtu: PathMtu::Mtu4096,
            dest_qpn,
            rq_psn,
            max_dest_rd_atomic: rng.next() as u8,
            min_rnr_timer: rng.next() as u8,
            path: AddressVector::default(),
            access: Some(QpAccess::default()),
            p_key_index: None,
        }),
    }
}

fn to_rts(service: Service, rng: &mut Rng) -> ModifyQp {
    let sq_psn = rng.next() as u32;
    match service {
        Service::UnreliableDatagram | Service::Gsi => ModifyQp::ToRtsUd(UdRts {
            sq_psn,
            q_key: None,
        }),
        Service::UnreliableConnected => ModifyQp::ToRtsUc(UcRts {
            sq_psn,
            access: None,
        }),
        Service::XrcTarget => ModifyQp::ToRtsXrcTarget(XrcTargetRts {
            sq_psn,
            timeout: rng.next() as u8,
            access: None,
            min_rnr_timer: None,
        }),
        Service::ReliableConnected | Service::XrcInitiator => ModifyQp::ToRts(RtsAttributes {
            sq_psn,
            timeout: rng.next() as u8,
            retry_count: rng.next() as u8,
            rnr_retry: rng.next() as u8,
            max_rd_atomic: rng.next() as u8,
            access: None,
            min_rnr_timer: None,
        }),
    }
}

/// Returns a transition, occasionally one of another service.
fn transition(of: Service, rng: &mut Rng) -> ModifyQp {
    let of = if rng.one_in(8) { service(rng) } else { of };
    match rng.below(13) {
        0 => ModifyQp::ToReset,
        1 | 2 => to_init(of),
        3 => ModifyQp::InitToInit(InitUpdate::default()),
        4 | 5 => to_rtr(of, rng),
        6 | 7 => to_rts(of, rng),
        8 => ModifyQp::ToSqd {
            notify_drained: true,
        },
        9 => ModifyQp::SqdUpdate(SqdUpdate::default()),
        10 => ModifyQp::SqdToRts(RtsUpdate::default()),
        11 => ModifyQp::SqeToRts(RtsUpdate::default()),
        _ => ModifyQp::ToErr,
    }
}

/// Creates a CQ with handlers that poll and arm, as a provider's may.
pub fn create_cq(device: &Arc<Device>, rng: &mut Rng) -> Option<Arc<CompletionQueue>> {
    let this: Arc<Mutex<std::sync::Weak<CompletionQueue>>> = Arc::default();
    let again = Arc::clone(&this);
    let config = CompletionQueueConfig {
        entries: 1 + rng.below(8) as u32,
        vector: rng.below(5) as u16,
        on_event: Some(Arc::new(move || {
            let cq = again.lock().upgrade();
            if let Some(cq) = cq {
                cq.poll(4, |_| {});
                cq.arm();
            }
        })),
        on_error: Some(Arc::new(|| {})),
    };
    let cq = CompletionQueue::create(device, config).ok()?;
    *this.lock() = Arc::downgrade(&cq);
    Some(cq)
}

fn create_srq(objects: &Objects, rng: &mut Rng) -> Option<Arc<SharedReceiveQueue>> {
    let xrc = match pick(&objects.xrcds, rng) {
        Some(domain) if rng.one_in(2) => {
            Some((Arc::clone(domain), Arc::clone(pick(&objects.cqs, rng)?)))
        }
        _ => None,
    };
    let config = SharedReceiveQueueConfig {
        max_wr: rng.below(12) as u32,
        max_sge: rng.below(18) as u32,
        limit: rng.below(3) as u32,
        xrc,
    };
    SharedReceiveQueue::create(pick(&objects.pds, rng)?, &config).ok()
}

fn create_qp(objects: &Objects, rng: &mut Rng) -> Option<Arc<QueuePair>> {
    if rng.one_in(6) {
        let domain = pick(&objects.xrcds, rng)?;
        return QueuePair::create_xrc_target(domain).ok();
    }
    let service = service(rng);
    let cq = Arc::clone(pick(&objects.cqs, rng)?);
    let receive = match pick(&objects.srqs, rng) {
        _ if service == Service::XrcInitiator => ReceiveSource::None,
        Some(queue) if rng.one_in(2) => ReceiveSource::Shared {
            cq,
            queue: Arc::clone(queue),
        },
        _ => ReceiveSource::Own {
            cq,
            max_wr: rng.below(9) as u32,
            max_sge: rng.below(18) as u32,
        },
    };
    let config = QueuePairConfig {
        service,
        send_cq: Arc::clone(pick(&objects.cqs, rng)?),
        receive,
        max_send_wr: rng.below(9) as u32,
        max_send_sge: rng.below(18) as u32,
        max_inline_data: rng.below(200) as u32,
        signal_all: rng.one_in(2),
        blocks_own_multicast: service == Service::UnreliableDatagram && rng.one_in(2),
    };
    QueuePair::create(pick(&objects.pds, rng)?, &config).ok()
}

/// Moves a QP from RESET towards RTS, until the device refuses a transition.
fn bring_up(qp: &QueuePair, rng: &mut Rng) {
    let service = qp.service();
    for transition in [to_init(service), to_rtr(service, rng), to_rts(service, rng)] {
        qp.modify(&transition).ok();
    }
}

fn operation(rng: &mut Rng) -> SendOperation {
    let remote = RemoteAddress {
        virtual_address: rng.next(),
        r_key: RKey(rng.next() as u32),
    };
    match rng.below(7) {
        0 => SendOperation::Send,
        1 => SendOperation::RdmaRead(remote),
        2 => SendOperation::FetchAdd { remote, add: 1 },
        3 => SendOperation::LocalInvalidate(remote.r_key),
        4 => SendOperation::BindWindow(WindowBinding {
            r_key: remote.r_key,
            l_key: LKey(rng.next() as u32),
            address: rng.next(),
            length: rng.next(),
            access: WindowAccess::default(),
        }),
        _ => SendOperation::RdmaWriteImmediate(remote, [1; 4]),
    }
}

fn post(qp: &QueuePair, rng: &mut Rng) {
    let segment = DataSegment {
        address: rng.next(),
        length: rng.next() as u32,
        l_key: rng.next() as u32,
    };
    let segments = vec![segment; rng.below(18) as usize];
    let bytes = vec![1u8; rng.below(100) as usize];
    let pieces: [&[u8]; 2] = [&bytes, &bytes];
    let path = AddressVector::default();
    let request = SendRequest {
        wr_id: rng.next(),
        operation: operation(rng),
        destination: match qp.service() {
            Service::UnreliableDatagram | Service::Gsi => Destination::Datagram {
                path: &path,
                qpn: Qpn(rng.next() as u32),
                q_key: rng.next() as u32,
            },
            Service::XrcInitiator => Destination::Xrc {
                srqn: Srqn(rng.next() as u32),
            },
            _ => Destination::Connected,
        },
        signaled: rng.one_in(2),
        solicited: rng.one_in(2),
        fence: rng.one_in(2),
        data: if rng.one_in(2) {
            SendData::Inline(&pieces)
        } else {
            SendData::ScatterGather(&segments)
        },
    };
    if let Some(queue) = qp.send_queue() {
        let mut batch = queue.lock();
        batch.post(&request).ok();
        batch.post(&request).ok();
        if rng.one_in(4) {
            batch.abort();
        }
    }
    if let Some(queue) = qp.receive_queue() {
        queue.post(rng.next(), &segments).ok();
    }
    if let Some(queue) = qp.shared_receive_queue() {
        queue.post(rng.next(), &segments).ok();
    }
}

fn access(rng: &mut Rng) -> MemoryAccess {
    MemoryAccess {
        local_write: rng.one_in(2),
        window_bind: rng.one_in(2),
        ..MemoryAccess::default()
    }
}

fn range(memory: &[u8], rng: &mut Rng) -> MemoryRange {
    MemoryRange {
        address: memory.as_ptr() as usize,
        length: 1 + rng.below(memory.len() as u64) as usize,
        virtual_address: rng.next() >> 1,
    }
}

/// Performs a step on memory regions, windows and device memory.
fn memory_step(
    device: &Arc<Device>,
    objects: &mut Objects,
    memory: &[u8],
    rng: &mut Rng,
) -> Option<()> {
    match rng.below(9) {
        0 | 1 => {
            let (range, access) = (range(memory, rng), access(rng));
            let (address, length) = (range.address, range.length);
            let pd = pick(&objects.pds, rng)?;
            let start = range.virtual_address;
            let region = MemoryRegion::register(pd, address, length, start, access);
            objects.mrs.extend(region.ok());
        }
        2 => {
            let change = Reregistration {
                pd: pick(&objects.pds, rng).filter(|_| rng.one_in(2)).cloned(),
                range: rng.one_in(2).then(|| range(memory, rng)),
                access: rng.one_in(2).then(|| access(rng)),
                translation: None,
            };
            pick(&objects.mrs, rng)?.reregister(&change).ok();
        }
        3 => pick(&objects.mrs, rng)?.deregister().ok()?,
        4 => objects
            .mrs
            .extend(MemoryRegion::register_null(pick(&objects.pds, rng)?).ok()),
        5 => {
            let kind = [WindowType::One, WindowType::Two][rng.below(2) as usize];
            let window = MemoryWindow::alloc(pick(&objects.pds, rng)?, kind);
            objects.mws.extend(window.ok());
        }
        6 => pick(&objects.mws, rng)?.dealloc().ok()?,
        7 => {
            let memory = DeviceMemory::alloc(device, rng.number(), rng.below(14) as u32);
            objects.memories.extend(memory.ok());
        }
        _ => {
            let memory = pick(&objects.memories, rng)?;
            let mut bytes = vec![0; rng.below(300) as usize];
            memory.copy_in(rng.below(64), &bytes).ok();
            memory.copy_out(rng.number(), &mut bytes).ok();
            let pd = pick(&objects.pds, rng)?;
            let access = access(rng);
            let region = MemoryRegion::register_device_memory(pd, memory, 0, 8, 0, access);
            objects.mrs.extend(region.ok());
            memory.free().ok();
        }
    }
    Some(())
}

/// Performs a step on shared receive queues and XRC domains.
fn shared_step(device: &Arc<Device>, objects: &mut Objects, rng: &mut Rng) -> Option<()> {
    match rng.below(8) {
        0 => objects.xrcds.extend(XrcDomain::alloc(device).ok()),
        1 | 2 => {
            let queue = create_srq(objects, rng);
            objects.srqs.extend(queue);
        }
        3 | 4 => {
            let queue = pick(&objects.srqs, rng)?;
            let segment = DataSegment::default();
            let mut batch = queue.lock();
            for _ in 0..rng.below(8) {
                batch.post(rng.next(), &[segment]).ok();
            }
        }
        5 => {
            let queue = pick(&objects.srqs, rng)?;
            queue.modify_limit(rng.below(10) as u32).ok();
            queue.query().ok();
        }
        6 => pick(&objects.srqs, rng)?.destroy().ok()?,
        _ => pick(&objects.xrcds, rng)?.dealloc().ok()?,
    }
    Some(())
}

fn queue_step(device: &Arc<Device>, objects: &mut Objects, rng: &mut Rng) -> Option<()> {
    match rng.below(14) {
        0 => objects.cqs.extend(create_cq(device, rng)),
        1 | 2 => {
            let qp = create_qp(objects, rng)?;
            if !rng.one_in(4) {
                bring_up(&qp, rng);
            }
            objects.qps.push(qp);
        }
        3..=6 => post(pick(&objects.qps, rng)?, rng),
        7..=9 => {
            let cq = pick(&objects.cqs, rng)?;
            cq.poll(16, |completion| assert!(completion.qpn.0 <= 0xff_ffff));
            if rng.one_in(2) {
                cq.arm_solicited();
            } else {
                cq.arm();
            }
        }
        10 => {
            let cq = pick(&objects.cqs, rng)?;
            cq.resize(rng.below(20) as u32).ok();
            cq.modify_moderation(rng.below(4) as u16, rng.below(100) as u16)
                .ok();
        }
        11 => {
            let qp = pick(&objects.qps, rng)?;
            qp.modify(&transition(qp.service(), rng)).ok();
            qp.query().ok();
            qp.attach_multicast([0xff; 16]).ok();
            qp.detach_multicast([0xff; 16]).ok();
        }
        12 => pick(&objects.qps, rng)?.destroy().ok()?,
        _ => drop(objects.qps.pop()),
    }
    Some(())
}

pub fn step(device: &Arc<Device>, objects: &mut Objects, memory: &[u8], rng: &mut Rng) {
    match rng.below(20) {
        0 => objects.pds.extend(device.alloc_pd().ok()),
        1 => {
            device.set_gid(rng.next() as u16, &GidEntry::default()).ok();
            device.gid(0).ok();
            device.counters();
            device.link_is_up();
        }
        2 => {
            if let Some(cq) = pick(&objects.cqs, rng) {
                cq.destroy().ok();
            }
            if let Some(pd) = pick(&objects.pds, rng) {
                pd.dealloc().ok();
            }
        }
        3 | 4 => drop(memory_step(device, objects, memory, rng)),
        5 | 6 => drop(shared_step(device, objects, rng)),
        _ => drop(queue_step(device, objects, rng)),
    }
}
