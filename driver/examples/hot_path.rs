//! Prints the cost of posting, polling and registering memory in the driver, over a bus without a
//! device.
//!
//! `cargo run --release -p ferroce-driver --example hot_path`

#[path = "../tests/support/mod.rs"]
mod support;

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ferroce_driver::{
    AddressVector, CompletionQueue, CompletionQueueConfig, DataSegment, Destination, Device,
    InitAttributes, MemoryAccess, MemoryRange, MemoryRegion, ModifyQp, PathMtu, ProtectionDomain,
    QpAccess, Qpn, QueuePair, QueuePairConfig, RKey, ReceiveSource, RemoteAddress, RtrAttributes,
    RtsAttributes, SendData, SendOperation, SendRequest, Service, Translation,
};
use ferroce_spec::cqe::{Cqe, CqeOpcode};
use support::HonestDevice;
use support::verbs::{receive_queue, send_queue};

const DEPTH: u32 = 128;
const ROUNDS: u32 = 20_000;
const HUGE_PAGE: usize = 2 << 20;
/// Regions whose registration is timed together.
const TIMED_REGIONS: usize = 200;

fn connect(qp: &QueuePair) {
    let transitions = [
        ModifyQp::ToInit(InitAttributes {
            p_key_index: 0,
            port: 1,
            access: QpAccess::default(),
        }),
        ModifyQp::ToRtr(RtrAttributes {
            path_mtu: PathMtu::Mtu1024,
            dest_qpn: Qpn(1),
            rq_psn: 0,
            max_dest_rd_atomic: 1,
            min_rnr_timer: 12,
            path: AddressVector::default(),
            access: None,
            p_key_index: None,
        }),
        ModifyQp::ToRts(RtsAttributes {
            sq_psn: 0,
            timeout: 14,
            retry_count: 7,
            rnr_retry: 7,
            max_rd_atomic: 1,
            access: None,
            min_rnr_timer: None,
        }),
    ];
    for transition in &transitions {
        qp.modify(transition).expect("the fake device takes it");
    }
}

fn cqe(qpn: Qpn, wqe_index: u32, opcode: CqeOpcode) -> Cqe {
    let mut cqe = Cqe {
        qpn: qpn.0,
        wqe_index,
        ..Cqe::default()
    };
    cqe.word.set_opcode(opcode.0);
    cqe
}

/// Posts `DEPTH` requests, completes them and polls, `ROUNDS` times; prints the best round of
/// posting and of polling.
fn measure(
    name: &str,
    fake: &HonestDevice,
    cq: &CompletionQueue,
    mut post: impl FnMut(),
    entry: impl Fn(u32) -> Cqe,
) {
    let (mut post_best, mut poll_best) = (Duration::MAX, Duration::MAX);
    for round in 0..ROUNDS {
        let start = Instant::now();
        for _ in 0..DEPTH {
            post();
        }
        post_best = post_best.min(start.elapsed());
        for index in 0..DEPTH {
            fake.complete(cq.number().0, entry(round * DEPTH + index));
        }
        let start = Instant::now();
        for _ in 0..DEPTH {
            assert_eq!(
                cq.poll(1, |completion| {
                    black_box(completion);
                }),
                1
            );
        }
        poll_best = poll_best.min(start.elapsed());
    }
    let each = |time: Duration| time.as_secs_f64() * 1e9 / f64::from(DEPTH);
    let (post, poll) = (each(post_best), each(poll_best));
    println!("{name:24} post {post:5.1} ns   poll {poll:5.1} ns");
}

fn new_qp(
    pd: &Arc<ProtectionDomain>,
    cq: &Arc<CompletionQueue>,
    max_inline_data: u32,
) -> Arc<QueuePair> {
    let config = QueuePairConfig {
        service: Service::ReliableConnected,
        send_cq: Arc::clone(cq),
        receive: ReceiveSource::Own {
            cq: Arc::clone(cq),
            max_wr: DEPTH,
            max_sge: 1,
        },
        max_send_wr: DEPTH,
        max_send_sge: 1,
        max_inline_data,
        signal_all: false,
    };
    let qp = QueuePair::create(pd, &config).expect("small QP");
    connect(&qp);
    qp
}

fn main() {
    let fake = Arc::new(HonestDevice::default());
    let device = Device::open(fake.clone()).expect("an honest device opens");
    let pd = device.alloc_pd().expect("first PD");
    let config = CompletionQueueConfig {
        entries: DEPTH,
        ..CompletionQueueConfig::default()
    };
    let cq = CompletionQueue::create(&device, config).expect("small CQ");
    let new_qp = |max_inline_data| new_qp(&pd, &cq, max_inline_data);
    let segments = [DataSegment {
        address: 0x1000,
        length: 64,
        l_key: 5,
    }];
    let remote = RemoteAddress {
        virtual_address: 0x2000,
        r_key: RKey(7),
    };
    let request = |data| SendRequest {
        wr_id: 1,
        destination: Destination::Connected,
        operation: SendOperation::RdmaWrite(remote),
        signaled: true,
        solicited: false,
        fence: false,
        data,
    };

    let qp = new_qp(0);
    let gather = request(SendData::ScatterGather(&segments));
    let post = || {
        send_queue(&qp)
            .lock()
            .post(black_box(&gather))
            .expect("room");
    };
    let done = |index| cqe(qp.number(), index, CqeOpcode::RDMA_WRITE);
    measure("write 64 B", &fake, &cq, post, done);

    let qp = new_qp(64);
    let bytes = [5u8; 64];
    let pieces: [&[u8]; 1] = [&bytes];
    let inline = request(SendData::Inline(&pieces));
    let post = || {
        send_queue(&qp)
            .lock()
            .post(black_box(&inline))
            .expect("room");
    };
    let done = |index: u32| cqe(qp.number(), index.wrapping_mul(2), CqeOpcode::RDMA_WRITE);
    measure("write 64 B inline", &fake, &cq, post, done);

    let qp = new_qp(0);
    let post = || {
        receive_queue(&qp)
            .post(1, black_box(&segments))
            .expect("room");
    };
    let done = |index| cqe(qp.number(), index, CqeOpcode::RECEIVE);
    measure("receive", &fake, &cq, post, done);
    register_regions(&pd);
}

/// Registers regions that are congruent modulo the size of a huge page; prints what one costs when
/// there are few and when there are many.
fn register_regions(pd: &Arc<ProtectionDomain>) {
    let memory = vec![0_u8; HUGE_PAGE + 4096];
    let mut regions = Vec::new();
    let mut register_until = |count: usize| {
        while regions.len() < count {
            regions.push(register(pd, &memory));
        }
    };
    for count in [TIMED_REGIONS, 1_000, 2_000, 4_000] {
        register_until(count - TIMED_REGIONS);
        let start = Instant::now();
        register_until(count);
        let each_us = start.elapsed().as_secs_f64() * 1e6 / TIMED_REGIONS as f64;
        println!("register, {count:4} regions    {each_us:5.1} us");
    }
}

fn register(pd: &Arc<ProtectionDomain>, memory: &[u8]) -> Arc<MemoryRegion> {
    let range = MemoryRange {
        address: memory.as_ptr() as usize,
        length: memory.len(),
        virtual_address: 0,
    };
    let access = MemoryAccess {
        remote_read: true,
        ..MemoryAccess::default()
    };
    MemoryRegion::register_translated(pd, range, access, Translation::Direct)
        .expect("a key is left")
}
