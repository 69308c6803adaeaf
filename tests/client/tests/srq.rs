//! Shared receive queues: sizes, posting, the limit and its event, several QPs on one.

use std::collections::BTreeSet;

use ferroce_verbs_client::bench::{Bench, Service, TARGET, pattern};
use ferroce_verbs_client::qp::{Qp, QpConfig};
use ferroce_verbs_client::srq::Srq;
use ferroce_verbs_client::sys::*;
use ferroce_verbs_client::verbs_tests;
use ferroce_verbs_client::work_request::{ReceiveWr, SendWr};

fn srq(bench: &Bench, max_wr: u32) -> Srq {
    bench.pd.create_srq(max_wr, 2).expect("create_srq").0
}

/// Returns two connected RC QPs, the second with this SRQ.
fn pair(bench: &Bench, srq: &Srq) -> (Qp, Qp) {
    let config = QpConfig {
        srq: Some(srq),
        ..bench.config(IBV_QPT_RC)
    };
    let a = bench.qp(IBV_QPT_RC).expect("a QP");
    let (b, _) = bench.context.create_qp(&config).expect("a QP with an SRQ");
    a.connect(bench.gid, b.number());
    b.connect(bench.gid, a.number());
    (a, b)
}

fn receive(bench: &Bench, id: u64) -> ReceiveWr {
    ReceiveWr::new(id, bench.sge(TARGET + id as usize * 64, 64))
}

fn send(bench: &Bench, id: u64) -> SendWr {
    SendWr::new(id, IBV_WR_SEND).sge(bench.sge(id as usize * 64, 64))
}

verbs_tests! {
    fn an_srq_has_at_least_what_was_asked_for() {
        let bench = Bench::new();
        for (max_wr, max_sge) in [(1, 1), (3, 2), (100, 4)] {
            let (srq, granted) = bench.pd.create_srq(max_wr, max_sge).expect("create_srq");
            assert!(granted.max_wr >= max_wr && granted.max_sge >= max_sge);
            let found = srq.query().expect("query_srq");
            assert!(found.max_wr >= max_wr && found.max_sge >= max_sge);
            assert_eq!(found.srq_limit, 0);
        }
    }

    fn create_srq_refuses() {
        let bench = Bench::new();
        let attr = bench.context.query_device().expect("query_device");
        let (max_wr, max_sge) = (attr.max_srq_wr as u32, attr.max_srq_sge as u32);
        for (wr, sge) in [(0, 1), (max_wr + 1, 1), (1, max_sge + 1)] {
            let result = bench.pd.create_srq(wr, sge).err();
            assert_eq!(result, Some(libc::EINVAL), "{wr}, {sge}");
        }
        bench.pd.create_srq(max_wr, max_sge).expect("the largest");
    }

    fn max_srq_is_true() {
        let bench = Bench::new();
        let max = bench.context.query_device().expect("query_device").max_srq;
        let all: Vec<_> = (0..max)
            .map(|_| bench.pd.create_srq(1, 1).expect("below max_srq"))
            .collect();
        assert_eq!(bench.pd.create_srq(1, 1).err(), Some(libc::ENOMEM));
        all[0].0.destroy().expect("destroy_srq");
        bench.pd.create_srq(1, 1).expect("there is room again");
    }

    fn a_full_srq_refuses_with_the_right_request() {
        let bench = Bench::new();
        let (srq, granted) = bench.pd.create_srq(4, 2).expect("create_srq");
        for id in 1..u64::from(granted.max_wr) {
            srq.post_receive(&receive(&bench, id)).expect("post_srq_recv");
        }
        let two = [receive(&bench, 0), receive(&bench, 1)];
        assert_eq!(srq.post_receives(&two), Err((libc::ENOMEM, 1)));
        let mut wide = receive(&bench, 1);
        wide.sges = vec![bench.sge(0, 8); granted.max_sge as usize + 1];
        let other = srq_with_room(&bench);
        assert_eq!(other.post_receives(&[receive(&bench, 0), wide]), Err((libc::EINVAL, 1)));
    }

    /// Two QPs use one SRQ; each buffer is used once, and the completion names the QP.
    fn qps_share_receives() {
        let bench = Bench::new();
        let srq = srq(&bench, 16);
        let pairs = [pair(&bench, &srq), pair(&bench, &srq)];
        for id in 0..8 {
            srq.post_receive(&receive(&bench, id)).expect("post_srq_recv");
            bench.buffer.write(id as usize * 64, &pattern(64, id as u8));
        }
        for id in 0..8_u64 {
            let (a, b) = &pairs[id as usize % 2];
            a.post_send(&send(&bench, id)).expect("post_send");
            bench.send_cq.expect(id, IBV_WC_SUCCESS);
            let wc = bench.receive_cq.next();
            assert_eq!((wc.status, wc.qp_num, wc.byte_len), (IBV_WC_SUCCESS, b.number(), 64));
            let place = TARGET + wc.wr_id as usize * 64;
            assert_eq!(bench.buffer.read(place, 64), pattern(64, id as u8));
        }
    }

    fn posting_to_the_qp_itself_is_refused() {
        let bench = Bench::new();
        let srq = srq(&bench, 4);
        let (_a, b) = pair(&bench, &srq);
        assert_eq!(b.post_receive(&receive(&bench, 0)), Err(libc::EINVAL));
    }

    /// ibv_create_qp(3): `max_recv_wr` and `max_recv_sge` are ignored then.
    fn the_receive_capacity_of_a_qp_with_an_srq_is_ignored() {
        let bench = Bench::new();
        let srq = srq(&bench, 4);
        let mut config = QpConfig { srq: Some(&srq), ..bench.config(IBV_QPT_RC) };
        (config.cap.max_recv_wr, config.cap.max_recv_sge) = (u32::MAX, u32::MAX);
        bench.context.create_qp(&config).expect("a QP with an SRQ");
    }

    fn an_srq_in_use_is_busy() {
        let bench = Bench::new();
        let srq = srq(&bench, 4);
        let (_a, b) = pair(&bench, &srq);
        assert_eq!(srq.destroy(), Err(libc::EBUSY));
        b.destroy().expect("destroy_qp");
        srq.destroy().expect("unused");
    }

    fn an_empty_srq_is_receiver_not_ready() {
        let bench = Bench::new();
        let srq = srq(&bench, 4);
        let (a, _b) = pair(&bench, &srq);
        a.post_send(&send(&bench, 1)).expect("post_send");
        bench.settle();
        srq.post_receive(&receive(&bench, 2)).expect("post_srq_recv");
        bench.send_cq.expect(1, IBV_WC_SUCCESS);
        bench.receive_cq.expect(2, IBV_WC_SUCCESS);
    }

    /// The limit causes one event when fewer receives are left, and is then disarmed.
    fn the_limit_event() {
        let bench = Bench::new();
        let srq = srq(&bench, 16);
        let (a, _b) = pair(&bench, &srq);
        for id in 0..8 {
            srq.post_receive(&receive(&bench, id)).expect("post_srq_recv");
        }
        srq.modify(0, 4, IBV_SRQ_LIMIT).expect("modify_srq");
        assert_eq!(srq.query().expect("query_srq").srq_limit, 4);
        let one = |id| {
            a.post_send(&send(&bench, id)).expect("post_send");
            bench.send_cq.expect(id, IBV_WC_SUCCESS);
            bench.receive_cq.next();
        };
        (0..4).for_each(one);
        bench.context.expect_no_async_event();
        one(4);
        let event = bench.context.async_event();
        assert_eq!(event, (IBV_EVENT_SRQ_LIMIT_REACHED, srq.raw() as usize));
        assert_eq!(srq.query().expect("query_srq").srq_limit, 0, "disarmed");
        one(5);
        bench.context.expect_no_async_event();
    }

    fn modify_srq_refuses() {
        let bench = Bench::new();
        let (srq, granted) = bench.pd.create_srq(8, 1).expect("create_srq");
        let above = srq.modify(0, granted.max_wr + 1, IBV_SRQ_LIMIT);
        assert_eq!(above, Err(libc::EINVAL), "a limit above the size");
        assert_eq!(srq.modify(0, 0, 1 << 7), Err(libc::EINVAL), "an unknown mask");
        let resized = srq.modify(64, 0, IBV_SRQ_MAX_WR);
        assert!(matches!(resized, Ok(()) | Err(libc::EOPNOTSUPP | libc::EINVAL)), "{resized:?}");
        let can_resize = bench.context.query_device().expect("query_device").device_cap_flags
            & IBV_DEVICE_SRQ_RESIZE;
        assert_eq!(resized.is_ok(), can_resize != 0, "as advertised");
    }

    /// The last receive that a failed QP will ever take is reported.
    fn last_wqe_reached() {
        let bench = Bench::new();
        let srq = srq(&bench, 4);
        let (_a, b) = pair(&bench, &srq);
        b.to_state(IBV_QPS_ERR).expect("ERR");
        let event = bench.context.async_event();
        assert_eq!(event, (IBV_EVENT_QP_LAST_WQE_REACHED, b.raw() as usize));
    }

    fn receives_of_an_srq_stay_when_a_qp_fails() {
        let bench = Bench::new();
        let srq = srq(&bench, 4);
        let (_a, b) = pair(&bench, &srq);
        srq.post_receive(&receive(&bench, 1)).expect("post_srq_recv");
        b.to_state(IBV_QPS_ERR).expect("ERR");
        bench.receive_cq.expect_nothing();
        let (a, _b) = pair(&bench, &srq);
        a.post_send(&send(&bench, 2)).expect("post_send");
        bench.receive_cq.expect(1, IBV_WC_SUCCESS);
    }

    fn datagrams_on_an_srq() {
        let bench = Bench::new();
        let srq = srq(&bench, 8);
        let config = QpConfig { srq: Some(&srq), ..bench.config(IBV_QPT_UD) };
        let pair = bench.pair_of(Service::Ud, &config);
        for id in 0..4 {
            let sge = bench.sge(TARGET + id as usize * 128, 128);
            srq.post_receive(&ReceiveWr::new(id, sge)).expect("post_srq_recv");
        }
        let mut seen = BTreeSet::new();
        for id in 0..4 {
            pair.post(send(&bench, id));
            bench.send_cq.expect(id, IBV_WC_SUCCESS);
            let wc = bench.receive_cq.next();
            assert_eq!((wc.status, wc.byte_len), (IBV_WC_SUCCESS, 104));
            seen.insert(wc.wr_id);
        }
        assert_eq!(seen.len(), 4);
    }

    fn a_plain_srq_has_no_number() {
        let bench = Bench::new();
        let result = srq(&bench, 4).number();
        assert!(matches!(result, Ok(_) | Err(libc::EINVAL | libc::EOPNOTSUPP)));
    }
}

fn srq_with_room(bench: &Bench) -> Srq {
    srq(bench, 16)
}
