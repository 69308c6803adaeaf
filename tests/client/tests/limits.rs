//! The reported limits are correct: many objects at once, long queues, and a clean end.
//!
//! Limits of a single kind of object are tested in that object's file.

use ferroce_verbs_client::bench::{Bench, Service, TARGET, pattern};
use ferroce_verbs_client::memory::{ALL_ACCESS, Buffer};
use ferroce_verbs_client::qp::{CAP, QpConfig};
use ferroce_verbs_client::sys::*;
use ferroce_verbs_client::verbs_tests;
use ferroce_verbs_client::work_request::SendWr;

const SMALL: ibv_qp_cap = ibv_qp_cap {
    max_send_wr: 4,
    max_recv_wr: 4,
    max_send_sge: 1,
    max_recv_sge: 1,
    max_inline_data: 0,
};

/// Returns the resident memory of this process in KiB.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("procfs");
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let word = line.and_then(|line| line.split_whitespace().nth(1));
    word.and_then(|word| word.parse().ok()).expect("a number")
}

verbs_tests! {
    /// Thousands of connected QPs work.
    fn thousands_of_qps() {
        let bench = Bench::new();
        let config = QpConfig { cap: SMALL, ..bench.config(IBV_QPT_RC) };
        let pairs: Vec<_> = (0..1000).map(|_| bench.pair_of(Service::Rc, &config)).collect();
        for (index, pair) in pairs.iter().enumerate() {
            bench.buffer.write(0, &pattern(32, index as u8));
            let (address, key) = bench.remote(TARGET);
            let write = SendWr::new(index as u64, IBV_WR_RDMA_WRITE).sge(bench.sge(0, 32));
            pair.post(write.remote(address, key));
            bench.send_cq.expect(index as u64, IBV_WC_SUCCESS);
            assert_eq!(bench.buffer.read(TARGET, 32), pattern(32, index as u8));
        }
    }

    fn thousands_of_regions() {
        let bench = Bench::new();
        let buffer = Buffer::new(16 << 20);
        let regions: Vec<_> = (0..4000)
            .map(|index| bench.pd.register_part(&buffer, index * 4096, 4096, ALL_ACCESS))
            .map(|result| result.expect("reg_mr"))
            .collect();
        let pair = bench.pair(Service::Rc);
        for (index, mr) in regions.iter().enumerate().step_by(37) {
            let address = buffer.address(index * 4096);
            let write = SendWr::new(1, IBV_WR_RDMA_WRITE).sge(bench.sge(0, 4096));
            pair.post(write.remote(address, mr.rkey()));
            bench.send_cq.expect(1, IBV_WC_SUCCESS);
        }
    }

    /// The longest queue that the device has, filled to the last entry and drained.
    fn the_longest_send_queue() {
        let bench = Bench::new();
        let limits = bench.context.query_device().expect("query_device");
        let depth = limits.max_qp_wr;
        assert!(depth >= 16384, "max_qp_wr is {depth}");
        let cqe = depth.min(limits.max_cqe);
        let cq = bench.context.create_cq(cqe, None, 0).expect("create_cq");
        let cap = ibv_qp_cap { max_send_wr: depth as u32, ..CAP };
        let config = QpConfig { cap, send_cq: Some(&cq), ..bench.config(IBV_QPT_RC) };
        let pair = bench.pair_of(Service::Rc, &config);
        let (address, key) = bench.remote(TARGET);
        for round in 0..3_u64 {
            for id in 0..cqe as u64 {
                let write = SendWr::new(round << 32 | id, IBV_WR_RDMA_WRITE);
                pair.post(write.sge(bench.sge(0, 8)).remote(address, key));
            }
            for id in 0..cqe as u64 {
                cq.expect(round << 32 | id, IBV_WC_SUCCESS);
            }
        }
    }

    /// Creating and destroying objects leaks nothing.
    fn memory_is_bounded() {
        let bench = Bench::new();
        let turn = || {
            let cq = bench.context.create_cq(64, None, 0).expect("create_cq");
            let config = QpConfig { send_cq: Some(&cq), ..bench.config(IBV_QPT_RC) };
            let pair = bench.pair_of(Service::Rc, &config);
            let mr = bench.pd.register(&bench.buffer, ALL_ACCESS).expect("reg_mr");
            let (address, _) = bench.remote(TARGET);
            let write = SendWr::new(1, IBV_WR_RDMA_WRITE).sge(bench.sge(0, 8));
            pair.post(write.remote(address, mr.rkey()));
            cq.expect(1, IBV_WC_SUCCESS);
        };
        (0..200).for_each(|_| turn());
        let before = resident_kib();
        (0..2000).for_each(|_| turn());
        let after = resident_kib();
        assert!(after < before + 4096, "from {before} to {after} KiB");
    }

    /// Opening and closing contexts leaks nothing.
    fn opening_and_closing_many_times() {
        for _ in 0..50 {
            let bench = Bench::new();
            let pair = bench.pair(Service::Rc);
            let (address, key) = bench.remote(TARGET);
            let write = SendWr::new(1, IBV_WR_RDMA_WRITE).sge(bench.sge(0, 8));
            pair.post(write.remote(address, key));
            bench.send_cq.expect(1, IBV_WC_SUCCESS);
        }
    }
}
