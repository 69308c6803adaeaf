//! Many threads: with their own QPs, with shared CQs and SRQs, and with atomics.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use ferroce_tests::time_limit;
use ferroce_verbs_client::bench::{Bench, Service, TARGET, pattern};
use ferroce_verbs_client::context::Context;
use ferroce_verbs_client::qp::QpConfig;
use ferroce_verbs_client::sys::*;
use ferroce_verbs_client::verbs_tests;
use ferroce_verbs_client::work_request::{ReceiveWr, SendWr};

const THREADS: usize = 4;
const ROUNDS: u64 = 500;
const TIMEOUT: Duration = Duration::from_secs(30);

verbs_tests! {
    /// Independent threads on one context: each has its own CQ and QPs.
    fn threads_with_their_own_queues() {
        let bench = Bench::new();
        thread::scope(|scope| {
            for index in 0..THREADS {
                let bench = &bench;
                scope.spawn(move || {
                    let cq = bench.context.create_cq(64, None, 0).expect("create_cq");
                    let config = QpConfig { send_cq: Some(&cq), ..bench.config(IBV_QPT_RC) };
                    let pair = bench.pair_of(Service::Rc, &config);
                    let (source, target) = (index * 8192, TARGET + index * 8192);
                    for round in 0..ROUNDS {
                        bench.buffer.write(source, &pattern(3000, round as u8));
                        let (address, key) = bench.remote(target);
                        let write = SendWr::new(round, IBV_WR_RDMA_WRITE);
                        pair.post(write.sge(bench.sge(source, 3000)).remote(address, key));
                        cq.expect(round, IBV_WC_SUCCESS);
                        assert_eq!(bench.buffer.read(target, 3000), pattern(3000, round as u8));
                    }
                });
            }
        });
    }

    /// Threads share a CQ: each completion goes to exactly one of them.
    fn a_shared_cq() {
        let bench = Bench::new();
        let pairs: Vec<_> = (0..THREADS).map(|_| bench.pair(Service::Rc)).collect();
        let (posted, seen, sum) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        let deadline = Instant::now() + time_limit(TIMEOUT);
        let total = THREADS as u64 * ROUNDS;
        thread::scope(|scope| {
            for (index, pair) in pairs.iter().enumerate() {
                let (bench, posted, seen, sum) = (&bench, &posted, &seen, &sum);
                scope.spawn(move || {
                    let (address, key) = bench.remote(TARGET + index * 64);
                    let mut mine = 0;
                    while seen.load(Ordering::SeqCst) < total && Instant::now() < deadline {
                        let id = index as u64 * ROUNDS + mine;
                        let write = SendWr::new(id, IBV_WR_RDMA_WRITE).sge(bench.sge(0, 8));
                        if mine < ROUNDS && pair.try_post(write.remote(address, key)).is_ok() {
                            mine += 1;
                            posted.fetch_add(1, Ordering::SeqCst);
                        }
                        for wc in bench.send_cq.poll(4).expect("poll_cq") {
                            assert_eq!(wc.status, IBV_WC_SUCCESS);
                            sum.fetch_add(wc.wr_id, Ordering::SeqCst);
                            seen.fetch_add(1, Ordering::SeqCst);
                        }
                    }
                });
            }
        });
        assert_eq!((posted.into_inner(), seen.into_inner()), (total, total));
        assert_eq!(sum.into_inner(), total * (total - 1) / 2, "each once");
    }

    /// Several threads post to one QP.
    fn a_shared_qp() {
        let bench = Bench::new();
        let pair = bench.pair(Service::Rc);
        let done = AtomicU64::new(0);
        let deadline = Instant::now() + time_limit(TIMEOUT);
        let total = THREADS as u64 * ROUNDS;
        thread::scope(|scope| {
            for _ in 0..THREADS {
                let (bench, pair, done) = (&bench, &pair, &done);
                scope.spawn(move || {
                    let (address, key) = bench.remote(TARGET);
                    let mut mine = 0;
                    while done.load(Ordering::SeqCst) < total && Instant::now() < deadline {
                        let add = SendWr::new(1, IBV_WR_ATOMIC_FETCH_AND_ADD).sge(bench.sge(0, 8));
                        let add = add.remote(address, key).operands(1, 0);
                        if mine < ROUNDS && pair.try_post(add).is_ok() {
                            mine += 1;
                        }
                        let found = bench.send_cq.poll(4).expect("poll_cq");
                        done.fetch_add(found.len() as u64, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(bench.buffer.read_u64(TARGET), total);
    }

    /// One SRQ, filled by one thread and emptied by QPs of the others.
    fn a_shared_srq() {
        let bench = Bench::new();
        let (srq, _) = bench.pd.create_srq(64, 1).expect("create_srq");
        let config = QpConfig { srq: Some(&srq), ..bench.config(IBV_QPT_RC) };
        let received = AtomicU64::new(0);
        let pairs = Mutex::new(Vec::new());
        let total = THREADS as u64 * ROUNDS;
        let deadline = Instant::now() + time_limit(TIMEOUT);
        thread::scope(|scope| {
            for index in 0..THREADS {
                let (bench, config, pairs) = (&bench, config.clone(), &pairs);
                scope.spawn(move || {
                    let cq = bench.context.create_cq(64, None, 0).expect("create_cq");
                    let config = QpConfig { send_cq: Some(&cq), ..config };
                    let pair = bench.pair_of(Service::Rc, &config);
                    for id in 0..ROUNDS {
                        pair.post(SendWr::new(id, IBV_WR_SEND).sge(bench.sge(index * 64, 64)));
                        cq.expect(id, IBV_WC_SUCCESS);
                    }
                    // Destroying a QP removes its completions that have not been polled.
                    pairs.lock().expect("no thread has panicked").push(pair);
                });
            }
            scope.spawn(|| {
                let mut posted = 0;
                while received.load(Ordering::SeqCst) < total && Instant::now() < deadline {
                    let wr = ReceiveWr::new(posted, bench.sge(TARGET, 64));
                    if posted < total && srq.post_receive(&wr).is_ok() {
                        posted += 1;
                    }
                    for wc in bench.receive_cq.poll(8).expect("poll_cq") {
                        assert_eq!((wc.status, wc.byte_len), (IBV_WC_SUCCESS, 64));
                        received.fetch_add(1, Ordering::SeqCst);
                    }
                }
            });
        });
        assert_eq!(received.into_inner(), total);
    }

    /// Atomics are atomic among QPs, and also with the processor if the device reports that.
    fn atomics_are_atomic() {
        let bench = Bench::new();
        let caps = bench.context.query_device_ex(0).expect("query_device_ex").pci_atomic_caps;
        let eight_bytes = IBV_PCI_ATOMIC_OPERATION_8_BYTE_SIZE_SUP;
        let with_processor = u32::from(caps.fetch_add) & eight_bytes != 0;
        let buffer = Arc::clone(&bench.buffer);
        thread::scope(|scope| {
            for index in 0..THREADS {
                let bench = &bench;
                scope.spawn(move || {
                    let cq = bench.context.create_cq(64, None, 0).expect("create_cq");
                    let config = QpConfig { send_cq: Some(&cq), ..bench.config(IBV_QPT_RC) };
                    let pair = bench.pair_of(Service::Rc, &config);
                    let (address, key) = bench.remote(TARGET);
                    for id in 0..ROUNDS {
                        let add = SendWr::new(id, IBV_WR_ATOMIC_FETCH_AND_ADD);
                        let add = add.sge(bench.sge(index * 64, 8)).operands(1, 0);
                        pair.post(add.remote(address, key));
                        cq.expect(id, IBV_WC_SUCCESS);
                    }
                });
            }
            if with_processor {
                scope.spawn(move || {
                    for _ in 0..ROUNDS * 1000 {
                        buffer.atomic(TARGET).fetch_add(1 << 32, Ordering::SeqCst);
                    }
                });
            }
        });
        let mut expected = THREADS as u64 * ROUNDS;
        expected += if with_processor { (ROUNDS * 1000) << 32 } else { 0 };
        assert_eq!(bench.buffer.read_u64(TARGET), expected);
    }

    /// One thread waits for events, others cause them.
    fn events_wake_another_thread() {
        let bench = Bench::new();
        let pair = bench.pair(Service::Rc);
        thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                for id in 0..20 {
                    bench.channel.expect_event(&bench.receive_cq);
                    bench.receive_cq.request_notify(false).expect("req_notify_cq");
                    bench.receive_cq.expect(id, IBV_WC_SUCCESS);
                    pair.b
                        .post_receive(&ReceiveWr::new(id + 1, bench.sge(TARGET, 64)))
                        .expect("post_recv");
                }
            });
            bench.receive_cq.request_notify(false).expect("req_notify_cq");
            pair.post_receive(0, bench.sge(TARGET, 64));
            let mut sent = 0;
            while !waiter.is_finished() && sent < 20 {
                pair.post(SendWr::new(1, IBV_WR_SEND).sge(bench.sge(0, 8)));
                bench.send_cq.expect(1, IBV_WC_SUCCESS);
                sent += 1;
            }
        });
    }

    /// A device is opened while another thread closes its last context: each context is complete,
    /// and its objects work.
    fn opening_while_the_last_context_closes() {
        const ROUNDS: usize = 60;
        let mut last = Context::open();
        for round in 0..ROUNDS {
            let start = Barrier::new(2);
            last = thread::scope(|scope| {
                let opened = scope.spawn(|| {
                    start.wait();
                    open_whole(round)
                });
                start.wait();
                drop(last);
                opened.join().expect("the thread that opens has not panicked")
            });
        }
    }
}

/// Opens a context, and checks that a CQ and a domain can be created in it.
fn open_whole(round: usize) -> Context {
    let context = Context::open_nth(0);
    let context = context.unwrap_or_else(|errno| panic!("round {round}: open_device: {errno}"));
    let cq = context.create_cq(16, None, 0);
    drop(cq.unwrap_or_else(|errno| panic!("round {round}: create_cq: {errno}")));
    let pd = context.alloc_pd();
    drop(pd.unwrap_or_else(|errno| panic!("round {round}: alloc_pd: {errno}")));
    context
}
