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
    CompletionQueue, DataSegment, Device, MemoryAccess, MemoryRange, MemoryRegion,
    ProtectionDomain, Qpn, QueuePair, QueuePairConfig, RKey, RemoteAddress, SendData,
    SendOperation, Translation,
};
use ferroce_spec::cqe::{Cqe, CqeOpcode};
use ferroce_test_verbs as verbs;
use support::HonestDevice;
use support::verbs::{connect, cq_of, receive_queue, send_queue};

const DEPTH: u32 = 128;
const ROUNDS: u32 = 20_000;
const HUGE_PAGE: usize = 2 << 20;
/// Regions whose registration is timed together.
const TIMED_REGIONS: usize = 200;

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
        max_inline_data,
        ..verbs::qp_config(cq, DEPTH)
    };
    let qp = verbs::new_qp(pd, &config);
    connect(&qp);
    qp
}

fn main() {
    let fake = Arc::new(HonestDevice::default());
    let device = Device::open(fake.clone()).expect("an honest device opens");
    let pd = device.alloc_pd().expect("first PD");
    let cq = cq_of(&device, DEPTH);
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
    let request = |data| verbs::request(1, SendOperation::RdmaWrite(remote), data);

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
