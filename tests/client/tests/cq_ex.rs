//! Extended completion queues: the fields that they record, and polling.

use std::time::{SystemTime, UNIX_EPOCH};

use ferroce_verbs_client::bench::{Bench, Pair, SERVICES, Service};
use ferroce_verbs_client::context::Context;
use ferroce_verbs_client::cq::Cq;
use ferroce_verbs_client::qp::QpConfig;
use ferroce_verbs_client::sys::*;
use ferroce_verbs_client::verbs_tests;
use ferroce_verbs_client::work_request::SendWr;

/// Everything that a RoCE NIC can record.
const FLAGS: u64 = (IBV_WC_EX_WITH_BYTE_LEN
    | IBV_WC_EX_WITH_IMM
    | IBV_WC_EX_WITH_QP_NUM
    | IBV_WC_EX_WITH_SRC_QP
    | IBV_WC_EX_WITH_SLID
    | IBV_WC_EX_WITH_SL
    | IBV_WC_EX_WITH_DLID_PATH_BITS
    | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP
    | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK) as u64;

fn create(context: &Context) -> Cq {
    context
        .create_cq_ex(None, |attr| attr.wc_flags = FLAGS)
        .expect("create_cq_ex")
}

/// Returns a pair with both queues on this CQ. The SRQ of an XRC target is on the bench's own.
fn pair_on(bench: &Bench, cq: &Cq, service: Service) -> Pair {
    let config = QpConfig {
        send_cq: Some(cq),
        receive_cq: Some(cq),
        ..bench.config(service.sender())
    };
    bench.pair_of(service, &config)
}

/// Sends a message with immediate data and lets both completions arrive.
fn exchange(bench: &Bench, pair: &Pair) {
    pair.post_receive(70, bench.sge(8192, 1024));
    let send = SendWr::new(71, IBV_WR_SEND_WITH_IMM).sge(bench.sge(0, 100));
    pair.post(send.immediate(0x1234_5678_u32.to_be()));
}

verbs_tests! {
    fn create_cq_ex_refuses() {
        let context = Context::open();
        let unknown = context.create_cq_ex(None, |attr| attr.wc_flags = 1 << 40).err();
        assert!(matches!(unknown, Some(libc::EINVAL | libc::EOPNOTSUPP)), "{unknown:?}");
        let mask = context.create_cq_ex(None, |attr| attr.comp_mask = 1 << 20).err();
        assert!(matches!(mask, Some(libc::EINVAL | libc::EOPNOTSUPP)), "{mask:?}");
        let none = context.create_cq_ex(None, |attr| attr.cqe = 0).err();
        assert_eq!(none, Some(libc::EINVAL));
        for flag in [IBV_CREATE_CQ_ATTR_SINGLE_THREADED, IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN] {
            let result = context.create_cq_ex(None, |attr| {
                attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
                attr.flags = flag;
            });
            assert!(matches!(result.err(), None | Some(libc::EOPNOTSUPP)));
        }
    }

    fn every_field_of_every_service() {
        let bench = Bench::new();
        for service in SERVICES {
            let cq = create(&bench.context);
            let pair = pair_on(&bench, &cq, service);
            exchange(&bench, &pair);
            let mut ids = Vec::new();
            // The receive of XRC completes elsewhere.
            let count = if service == Service::Xrc { 1 } else { 2 };
            for _ in 0..count {
                cq.next_extended(|wc| {
                    assert_eq!(wc.status(), IBV_WC_SUCCESS, "{service:?}");
                    assert_eq!((wc.slid(), wc.dlid_path_bits()), (0, 0));
                    ids.push(wc.wr_id());
                    if wc.wr_id() == 71 {
                        assert_eq!(wc.opcode(), IBV_WC_SEND);
                        assert_eq!(wc.qp_num(), pair.a.number());
                        return;
                    }
                    assert_eq!(wc.opcode(), IBV_WC_RECV);
                    assert_eq!(wc.qp_num(), pair.b.number());
                    assert_eq!(wc.byte_len() as usize, 100 + service.header());
                    assert_eq!(wc.imm_data(), 0x1234_5678_u32.to_be());
                    let with_grh = if service == Service::Ud { IBV_WC_GRH } else { 0 };
                    assert_eq!(wc.wc_flags(), IBV_WC_WITH_IMM | with_grh);
                    if service == Service::Ud {
                        assert_eq!(wc.src_qp(), pair.a.number());
                        // RoCE v2 over IPv4, as mlx5 encodes it.
                        assert_eq!(wc.sl(), 0b1010);
                    }
                });
            }
            ids.sort_unstable();
            assert_eq!(ids, [70, 71][2 - count..], "{service:?}");
        }
    }

    fn one_poll_reads_several() {
        let bench = Bench::new();
        let cq = create(&bench.context);
        let pair = pair_on(&bench, &cq, Service::Rc);
        let (address, key) = bench.remote(4096);
        for id in 0..3 {
            let write = SendWr::new(id, IBV_WR_RDMA_WRITE).sge(bench.sge(0, 8));
            pair.post(write.remote(address, key));
        }
        bench.settle();
        assert_eq!(cq.start_poll(0), 0);
        let reader = cq.reader();
        assert_eq!(reader.wr_id(), 0);
        for id in 1..3 {
            assert_eq!(cq.next_poll(), 0);
            assert_eq!(reader.wr_id(), id);
        }
        assert_eq!(cq.next_poll(), libc::ENOENT);
        cq.end_poll();
        assert_eq!(cq.start_poll(0), libc::ENOENT, "empty: nothing to end");
        assert_eq!(cq.start_poll(1 << 10), libc::EINVAL, "an unknown mask");
    }

    /// Time stamps of the clock that `ibv_query_rt_values_ex` reads increase; wall clock time
    /// stamps are the system's time.
    fn time_stamps() {
        let bench = Bench::new();
        let cq = create(&bench.context);
        let pair = pair_on(&bench, &cq, Service::Rc);
        let wall = || {
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            now.expect("after 1970").as_nanos() as u64
        };
        let mut before = (0, wall());
        for id in 0..5 {
            let (address, key) = bench.remote(4096);
            let write = SendWr::new(id, IBV_WR_RDMA_WRITE).sge(bench.sge(0, 8));
            pair.post(write.remote(address, key));
            let stamps = cq.next_extended(|wc| (wc.completion_ts(), wc.wallclock_ns()));
            assert!(stamps.0 > before.0 && stamps.1 >= before.1, "{before:?} {stamps:?}");
            assert!(stamps.1 <= wall(), "not in the future");
            before = stamps;
        }
    }

    /// The two time stamps of a completion are two readings of one clock: in the order of the CQ
    /// neither runs backwards, and both increase by the same amount.
    fn wall_clock_stamps_follow_the_hardware_clock() {
        const ROUNDS: u64 = 300;
        const BATCH: u64 = 16;
        let bench = Bench::new();
        let cq = create(&bench.context);
        let pair = pair_on(&bench, &cq, Service::Rc);
        let (address, key) = bench.remote(4096);
        let mut stamps: Vec<(u64, u64)> = Vec::new();
        for _ in 0..ROUNDS {
            for id in 0..BATCH {
                let write = SendWr::new(id, IBV_WR_RDMA_WRITE).sge(bench.sge(0, 8));
                pair.post(write.remote(address, key));
            }
            for _ in 0..BATCH {
                stamps.push(cq.next_extended(|wc| (wc.completion_ts(), wc.wallclock_ns())));
            }
        }
        let backwards = stamps.windows(2).filter(|two| two[1].1 < two[0].1).count();
        assert_eq!(backwards, 0, "of {} completions", stamps.len());
        // A deviation of the clocks is corrected by a sixteenth of the passing time. A wall clock
        // time in the future is replaced by the present time. It can be in the future by the error
        // of comparing the clocks, which takes some microseconds through a socket.
        for two in stamps.windows(2) {
            let (hardware_ns, wall_ns) = (two[1].0 - two[0].0, two[1].1 - two[0].1);
            let difference_ns = hardware_ns.abs_diff(wall_ns);
            assert!(difference_ns <= 10_000 + hardware_ns / 8, "{two:?}");
        }
    }

    fn errors_are_reported() {
        let bench = Bench::new();
        let cq = create(&bench.context);
        let pair = pair_on(&bench, &cq, Service::Rc);
        let (address, key) = bench.remote(4096);
        let write = SendWr::new(5, IBV_WR_RDMA_WRITE).sge(bench.sge(0, 8));
        pair.post(write.remote(address, key ^ 0x5a5a_5a00));
        let found = cq.next_extended(|wc| (wc.wr_id(), wc.status(), wc.qp_num()));
        assert_eq!(found, (5, IBV_WC_REM_ACCESS_ERR, pair.a.number()));
    }

    /// The old way of polling works on an extended CQ, too.
    fn ibv_poll_cq_serves_an_extended_cq() {
        let bench = Bench::new();
        let cq = create(&bench.context);
        let pair = pair_on(&bench, &cq, Service::Rc);
        exchange(&bench, &pair);
        let mut ids = [cq.next().wr_id, cq.next().wr_id];
        ids.sort_unstable();
        assert_eq!(ids, [70, 71]);
    }
}
