//! Queue pairs: creation, queries, drain, reuse, destruction.

use ferroce_verbs_client::bench::{Bench, Pair, SERVICES, Service};
use ferroce_verbs_client::qp::{CAP, Q_KEY, QpConfig};
use ferroce_verbs_client::sys::*;
use ferroce_verbs_client::verbs_tests;
use ferroce_verbs_client::work_request::{ReceiveWr, SendWr};

const TYPES: [u32; 4] = [IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_XRC_SEND];

fn send(bench: &Bench, id: u64) -> SendWr {
    SendWr::new(id, IBV_WR_SEND).sge(bench.sge(0, 8))
}

/// Returns the result of a post to a QP that cannot send now.
fn try_send(bench: &Bench, pair: &Pair) -> Result<(), i32> {
    pair.a.post_send(&pair.addressed(send(bench, 1)))
}

verbs_tests! {
    fn types_that_there_are_not_are_refused() {
        let bench = Bench::new();
        for qp_type in [IBV_QPT_RAW_PACKET, IBV_QPT_DRIVER] {
            assert_eq!(bench.qp(qp_type).err(), Some(libc::EOPNOTSUPP), "type {qp_type}");
        }
        for qp_type in [0, 1, 7, 200] {
            let result = bench.qp(qp_type).err();
            assert!(matches!(result, Some(libc::EINVAL | libc::EOPNOTSUPP)), "type {qp_type}");
        }
    }

    fn capacities_are_granted_or_refused() {
        let bench = Bench::new();
        let limits = bench.context.query_device().expect("query_device");
        let (wr, sge) = (limits.max_qp_wr as u32, limits.max_sge as u32);
        for qp_type in [IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD] {
            let config = bench.config(qp_type);
            let (_qp, granted) = bench.context.create_qp(&config).expect("create_qp");
            assert!(granted.max_send_wr >= CAP.max_send_wr);
            assert!(granted.max_recv_wr >= CAP.max_recv_wr);
            assert!(granted.max_send_sge >= CAP.max_send_sge);
            assert!(granted.max_recv_sge >= CAP.max_recv_sge);
            assert!(granted.max_inline_data >= CAP.max_inline_data);
            for cap in [
                ibv_qp_cap { max_send_wr: wr + 1, ..CAP },
                ibv_qp_cap { max_recv_wr: wr + 1, ..CAP },
                ibv_qp_cap { max_send_sge: sge + 1, ..CAP },
                ibv_qp_cap { max_recv_sge: sge + 1, ..CAP },
                ibv_qp_cap { max_inline_data: 1 << 20, ..CAP },
            ] {
                let result = bench.context.create_qp(&QpConfig { cap, ..config.clone() });
                assert_eq!(result.err(), Some(libc::EINVAL), "type {qp_type}");
            }
            let cap = ibv_qp_cap { max_send_wr: wr, max_recv_wr: wr, ..CAP };
            bench.context.create_qp(&QpConfig { cap, ..config }).expect("the longest queues");
        }
    }

    fn a_qp_without_cqs_is_refused() {
        let bench = Bench::new();
        for (with_send, with_receive) in [(false, true), (true, false), (false, false)] {
            let mut config = bench.config(IBV_QPT_RC);
            config.send_cq = config.send_cq.filter(|_| with_send);
            config.receive_cq = config.receive_cq.filter(|_| with_receive);
            let result = bench.context.create_qp(&config).err();
            assert_eq!(result, Some(libc::EINVAL), "{with_send}, {with_receive}");
        }
    }

    fn the_new_send_api_of_operations_that_a_service_lacks_is_refused() {
        let bench = Bench::new();
        for (service, operation) in [
            (Service::Uc, IBV_QP_EX_WITH_RDMA_READ),
            (Service::Uc, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD),
            (Service::Ud, IBV_QP_EX_WITH_RDMA_WRITE),
            (Service::Ud, IBV_QP_EX_WITH_RDMA_READ),
            (Service::Rc, IBV_QP_EX_WITH_TSO),
        ] {
            let mut config = bench.config(service.sender());
            config.send_ops = Some(operation as u64);
            let result = bench.context.create_qp(&config).err();
            assert!(matches!(result, Some(libc::EOPNOTSUPP | libc::EINVAL)), "{service:?}");
        }
    }

    fn a_query_returns_what_was_set() {
        let bench = Bench::new();
        for service in SERVICES {
            let pair = bench.pair(service);
            let (attr, init) = pair.a.query().expect("query_qp");
            assert_eq!((attr.qp_state, attr.cur_qp_state), (IBV_QPS_RTS, IBV_QPS_RTS));
            assert_eq!(attr.port_num, 1);
            assert_eq!(attr.sq_psn & 0xff_ffff, 0xff_fffe, "nothing has been sent");
            assert_eq!(init.qp_type, pair.a.qp_type());
            assert_eq!(init.send_cq, bench.send_cq.raw());
            assert!(init.cap.max_send_wr >= CAP.max_send_wr);
            if service == Service::Ud {
                assert_eq!(attr.qkey, Q_KEY);
                continue;
            }
            assert_eq!(attr.path_mtu, IBV_MTU_1024);
            assert_eq!(attr.dest_qp_num, pair.b.number());
            assert_eq!((attr.ah_attr.is_global, attr.ah_attr.grh.sgid_index), (1, 1));
            assert_ne!(attr.qp_access_flags & IBV_ACCESS_REMOTE_WRITE, 0);
            if service.is_reliable() {
                assert_eq!((attr.timeout, attr.retry_cnt, attr.rnr_retry), (14, 7, 7));
                assert_eq!(attr.max_rd_atomic, 4);
            }
        }
    }

    fn posting_in_each_state() {
        let bench = Bench::new();
        for qp_type in TYPES {
            let qp = bench.qp(qp_type).expect("a QP");
            let mut pair = Pair {
                service: Service::Rc,
                a: qp.clone(),
                b: qp.clone(),
                ah: None,
                srq: None,
            };
            let ah = bench.pd.create_ah(ferroce_verbs_client::address::path_to(bench.gid));
            pair.ah = (qp_type == IBV_QPT_UD).then(|| ah.expect("an AH"));
            let receive = ReceiveWr::new(1, bench.sge(0, 64));
            let receives = qp_type != IBV_QPT_XRC_SEND;
            let takes = |expected: Result<(), i32>| {
                if receives {
                    assert_eq!(qp.post_receive(&receive), expected, "type {qp_type}");
                }
            };
            assert_eq!(try_send(&bench, &pair), Err(libc::EINVAL), "RESET, type {qp_type}");
            takes(Err(libc::EINVAL));
            qp.to_init().expect("INIT");
            assert_eq!(try_send(&bench, &pair), Err(libc::EINVAL), "INIT, type {qp_type}");
            takes(Ok(()));
            qp.to_rtr(bench.gid, qp.number()).expect("RTR");
            assert_eq!(try_send(&bench, &pair), Err(libc::EINVAL), "RTR, type {qp_type}");
            takes(Ok(()));
            qp.to_rts().expect("RTS");
            qp.to_state(IBV_QPS_ERR).expect("ERR");
            assert_eq!(try_send(&bench, &pair), Ok(()), "ERR, type {qp_type}");
            bench.send_cq.expect(1, IBV_WC_WR_FLUSH_ERR);
            takes(Ok(()));
            for _ in 0..if receives { 3 } else { 0 } {
                bench.receive_cq.expect(1, IBV_WC_WR_FLUSH_ERR);
            }
        }
    }

    /// SQD with notification: an event comes when the send queue is drained; requests that are
    /// posted after that wait.
    fn drain_and_its_event() {
        let bench = Bench::new();
        for service in [Service::Rc, Service::Uc, Service::Ud] {
            let pair = bench.pair(service);
            pair.post_receive(2, bench.sge(8192, 64));
            let drain = ibv_qp_attr {
                qp_state: IBV_QPS_SQD,
                en_sqd_async_notify: 1,
                ..Default::default()
            };
            let mask = IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY;
            pair.a.modify(&drain, mask).expect("SQD");
            let event = bench.context.async_event();
            assert_eq!(event, (IBV_EVENT_SQ_DRAINED, pair.a.raw() as usize), "{service:?}");
            let (attr, _) = pair.a.query().expect("query_qp");
            assert_eq!((attr.qp_state, attr.sq_draining), (IBV_QPS_SQD, 0));
            pair.post(send(&bench, 1));
            bench.send_cq.expect_nothing();
            pair.a.to_state(IBV_QPS_RTS).expect("RTS");
            bench.send_cq.expect(1, IBV_WC_SUCCESS);
            bench.receive_cq.expect(2, IBV_WC_SUCCESS);
        }
    }

    /// Requests that began before the drain are finished first.
    fn draining_lets_the_begun_finish() {
        let bench = Bench::new();
        let pair = bench.pair(Service::Rc);
        pair.post(send(&bench, 1));
        bench.settle();
        let drain = ibv_qp_attr {
            qp_state: IBV_QPS_SQD,
            en_sqd_async_notify: 1,
            ..Default::default()
        };
        pair.a.modify(&drain, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY).expect("SQD");
        assert_eq!(pair.a.query().expect("query_qp").0.sq_draining, 1);
        bench.context.expect_no_async_event();
        pair.post_receive(2, bench.sge(8192, 64));
        bench.send_cq.expect(1, IBV_WC_SUCCESS);
        assert_eq!(bench.context.async_event().0, IBV_EVENT_SQ_DRAINED);
    }

    /// An unreliable QP whose send queue has failed still receives, and continues after SQE to RTS.
    fn a_send_queue_error_leaves_receiving_alone() {
        let bench = Bench::new();
        for service in [Service::Uc, Service::Ud] {
            let pair = bench.pair(service);
            let mut sge = bench.sge(0, 8);
            sge.lkey ^= 0x5a5a_5a00;
            pair.post(SendWr::new(1, IBV_WR_SEND).sge(sge));
            bench.send_cq.expect(1, IBV_WC_LOC_PROT_ERR);
            assert_eq!(pair.a.state(), IBV_QPS_SQE, "{service:?}");
            pair.post(send(&bench, 2));
            bench.send_cq.expect(2, IBV_WC_WR_FLUSH_ERR);
            let receive = ReceiveWr::new(3, bench.sge(8192, 64));
            pair.a.post_receive(&receive).expect("post_recv");
            let mut back = send(&bench, 4);
            if let Some(ah) = &pair.ah {
                back = back.datagram(ah, pair.a.number(), Q_KEY);
            }
            pair.b.post_send(&back).expect("post_send");
            bench.send_cq.expect(4, IBV_WC_SUCCESS);
            bench.receive_cq.expect(3, IBV_WC_SUCCESS);
            pair.a.to_state(IBV_QPS_RTS).expect("SQE to RTS");
            pair.post_receive(5, bench.sge(8192, 64));
            pair.post(send(&bench, 6));
            bench.send_cq.expect(6, IBV_WC_SUCCESS);
            bench.receive_cq.expect(5, IBV_WC_SUCCESS);
        }
    }

    /// RESET forgets everything: queues, completions, sequence numbers.
    fn reset_and_use_again() {
        let bench = Bench::new();
        for service in [Service::Rc, Service::Uc, Service::Ud] {
            let pair = bench.pair(service);
            for round in 0..3 {
                for id in 0..5 {
                    let wr = ReceiveWr::new(id, bench.sge(8192, 64));
                    pair.b.post_receive(&wr).expect("post_recv");
                }
                pair.post(send(&bench, 100 + round));
                bench.send_cq.expect(100 + round, IBV_WC_SUCCESS);
                bench.receive_cq.expect(0, IBV_WC_SUCCESS);
                // Leave an unpolled completion and unused receives.
                pair.post(send(&bench, 200));
                bench.settle();
                for qp in [&pair.a, &pair.b] {
                    qp.to_state(IBV_QPS_RESET).expect("RESET");
                }
                bench.send_cq.expect_nothing();
                bench.receive_cq.expect_nothing();
                pair.a.connect(bench.gid, pair.b.number());
                pair.b.connect(bench.gid, pair.a.number());
            }
        }
    }

    fn destroying_with_work_outstanding() {
        let bench = Bench::new();
        for service in SERVICES {
            let pair = bench.pair(service);
            for id in 0..8 {
                pair.post_receive(id, bench.sge(8192, 64));
                let (address, key) = bench.remote(65536);
                let wr = if service == Service::Ud {
                    send(&bench, id)
                } else {
                    let write = SendWr::new(id, IBV_WR_RDMA_WRITE).sge(bench.sge(0, 32768));
                    write.remote(address, key)
                };
                pair.post(wr);
            }
            pair.a.destroy().expect("destroy_qp");
            pair.b.destroy().expect("destroy_qp");
            bench.send_cq.expect_nothing();
        }
    }

    /// A QP that is connected to itself.
    fn a_qp_talks_to_itself() {
        let bench = Bench::new();
        for service in [Service::Rc, Service::Uc, Service::Ud] {
            let qp = bench.qp(service.sender()).expect("a QP");
            qp.connect(bench.gid, qp.number());
            qp.post_receive(&ReceiveWr::new(1, bench.sge(8192, 128))).expect("post_recv");
            let mut wr = send(&bench, 2);
            let ah = bench.pd.create_ah(ferroce_verbs_client::address::path_to(bench.gid));
            if service == Service::Ud {
                wr = wr.datagram(&ah.expect("an AH"), qp.number(), Q_KEY);
            }
            qp.post_send(&wr).expect("post_send");
            bench.receive_cq.expect(1, IBV_WC_SUCCESS);
            bench.send_cq.expect(2, IBV_WC_SUCCESS);
        }
    }

    fn ece_is_answered() {
        let bench = Bench::new();
        let qp = bench.qp(IBV_QPT_RC).expect("a QP");
        match qp.query_ece() {
            Ok(ece) => assert_eq!((ece.options, ece.comp_mask), (0, 0)),
            Err(code) => assert_eq!(code, libc::EOPNOTSUPP),
        }
        let result = qp.set_ece(0, 0);
        assert!(matches!(result, Ok(()) | Err(libc::EOPNOTSUPP)), "{result:?}");
    }

    fn data_in_order_is_answered() {
        let bench = Bench::new();
        let qp = bench.qp(IBV_QPT_RC).expect("a QP");
        let answer = qp.data_in_order(IBV_WR_RDMA_WRITE, 0);
        assert!([0, 1].contains(&answer), "{answer}");
        assert_eq!(qp.data_in_order(IBV_WR_RDMA_WRITE, 1 << 8), 0, "unknown flags");
    }

    fn max_qp_is_true() {
        let bench = Bench::new();
        let max = bench.context.query_device().expect("query_device").max_qp;
        let mut config = bench.config(IBV_QPT_RC);
        config.cap = ibv_qp_cap {
            max_send_wr: 1,
            max_recv_wr: 1,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline_data: 0,
        };
        let all: Vec<_> = (0..max)
            .map(|_| bench.context.create_qp(&config).expect("below max_qp"))
            .collect();
        assert_eq!(bench.context.create_qp(&config).err(), Some(libc::ENOMEM));
        all[0].0.destroy().expect("destroy_qp");
        bench.context.create_qp(&config).expect("there is room again");
    }
}
