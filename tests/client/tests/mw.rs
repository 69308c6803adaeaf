//! Memory windows of both types: allocation, binding by both verbs, invalidation, and refusals.

use ferroce_verbs_client::bench::{Bench, Pair, Service, TARGET, pattern};
use ferroce_verbs_client::memory::{ALL_ACCESS, Mr, Mw};
use ferroce_verbs_client::sys::*;
use ferroce_verbs_client::verbs_tests;
use ferroce_verbs_client::work_request::{Bind, SendWr};

const REMOTE: u32 = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
const LENGTH: usize = 4096;

fn bind_to(mr: &Mr, address: u64, length: usize, access: u32) -> Bind {
    Bind {
        mr: Some(mr.clone()),
        address,
        length: length as u64,
        access,
    }
}

/// Returns a bind of the bench's target area.
fn target(bench: &Bench, access: u32) -> Bind {
    bind_to(&bench.mr, bench.buffer.address(TARGET), LENGTH, access)
}

const UNBIND: Bind = Bind {
    mr: None,
    address: 0,
    length: 0,
    access: 0,
};

/// Binds a window of type 1 on `b`, which owns the memory.
fn bind_1(bench: &Bench, pair: &Pair, window: &Mw, bind: &Bind) {
    pair.b
        .bind_mw(window, 90, IBV_SEND_SIGNALED, bind)
        .expect("bind_mw");
    let wc = bench.send_cq.expect(90, IBV_WC_SUCCESS);
    assert_eq!(wc.opcode, IBV_WC_BIND_MW);
}

/// Binds a window of type 2 on `b`; returns its new key.
fn bind_2(bench: &Bench, pair: &Pair, window: &Mw, bind: Bind) -> u32 {
    let key = window.next_rkey();
    let wr = SendWr::new(91, IBV_WR_BIND_MW).bind(window, key, bind);
    pair.b.post_send(&wr).expect("post_send");
    bench.send_cq.expect(91, IBV_WC_SUCCESS);
    key
}

/// Status of a WRITE by `a` of eight bytes.
fn write(bench: &Bench, pair: &Pair, offset: usize, key: u32) -> u32 {
    let address = bench.buffer.address(TARGET + offset);
    let wr = SendWr::new(1, IBV_WR_RDMA_WRITE).sge(bench.sge(0, 8));
    pair.post(wr.remote(address, key));
    bench.send_cq.next().status
}

/// Status of a request on `b`.
fn status_on_b(bench: &Bench, pair: &Pair, wr: &SendWr) -> u32 {
    pair.b.post_send(wr).expect("post_send");
    bench.send_cq.next().status
}

verbs_tests! {
    fn types_that_there_are_not_are_refused() {
        let bench = Bench::new();
        for window_type in [0, 3] {
            assert!(bench.pd.alloc_mw(window_type).is_err(), "type {window_type}");
        }
    }

    fn type_1_is_reachable_when_it_is_bound() {
        let bench = Bench::new();
        let pair = bench.pair(Service::Rc);
        let window = bench.pd.alloc_mw(IBV_MW_TYPE_1).expect("alloc_mw");
        let before = window.rkey();
        bind_1(&bench, &pair, &window, &target(&bench, REMOTE));
        assert_ne!(window.rkey(), before, "a bind gives a new key");
        bench.buffer.write(0, &pattern(8, 5));
        assert_eq!(write(&bench, &pair, LENGTH - 8, window.rkey()), IBV_WC_SUCCESS);
        assert_eq!(bench.buffer.read(TARGET + LENGTH - 8, 8), pattern(8, 5));
        assert_eq!(write(&bench, &pair, LENGTH - 7, window.rkey()), IBV_WC_REM_ACCESS_ERR);
    }

    fn an_unbound_window_is_out_of_reach() {
        let bench = Bench::new();
        let pair = bench.pair(Service::Rc);
        let window = bench.pd.alloc_mw(IBV_MW_TYPE_1).expect("alloc_mw");
        assert_eq!(write(&bench, &pair, 0, window.rkey()), IBV_WC_REM_ACCESS_ERR);
        let pair = bench.pair(Service::Rc);
        bind_1(&bench, &pair, &window, &target(&bench, REMOTE));
        let key = window.rkey();
        assert_eq!(write(&bench, &pair, 0, key), IBV_WC_SUCCESS);
        bind_1(&bench, &pair, &window, &UNBIND);
        assert_eq!(write(&bench, &pair, 0, key), IBV_WC_REM_ACCESS_ERR);
    }

    /// Binding again invalidates the old key.
    fn the_old_key_dies_with_the_next_bind() {
        let bench = Bench::new();
        let pair = bench.pair(Service::Rc);
        let window = bench.pd.alloc_mw(IBV_MW_TYPE_1).expect("alloc_mw");
        bind_1(&bench, &pair, &window, &target(&bench, REMOTE));
        let old = window.rkey();
        bind_1(&bench, &pair, &window, &target(&bench, REMOTE));
        assert_eq!(write(&bench, &pair, 0, window.rkey()), IBV_WC_SUCCESS);
        assert_eq!(write(&bench, &pair, 0, old), IBV_WC_REM_ACCESS_ERR);
    }

    fn a_window_gives_no_more_rights_than_it_was_bound_with() {
        let bench = Bench::new();
        let pair = bench.pair(Service::Rc);
        let window = bench.pd.alloc_mw(IBV_MW_TYPE_1).expect("alloc_mw");
        bind_1(&bench, &pair, &window, &target(&bench, IBV_ACCESS_REMOTE_READ));
        let address = bench.buffer.address(TARGET);
        let read = SendWr::new(2, IBV_WR_RDMA_READ).sge(bench.sge(0, 8));
        pair.post(read.remote(address, window.rkey()));
        bench.send_cq.expect(2, IBV_WC_SUCCESS);
        assert_eq!(write(&bench, &pair, 0, window.rkey()), IBV_WC_REM_ACCESS_ERR);
    }

    /// A window gives access through a region without remote rights, which is its purpose.
    fn the_region_needs_no_remote_rights() {
        let bench = Bench::new();
        let pair = bench.pair(Service::Rc);
        let access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND;
        let mr = bench.pd.register(&bench.buffer, access).expect("reg_mr");
        let window = bench.pd.alloc_mw(IBV_MW_TYPE_1).expect("alloc_mw");
        let bind = bind_to(&mr, bench.buffer.address(TARGET), LENGTH, REMOTE);
        bind_1(&bench, &pair, &window, &bind);
        assert_eq!(write(&bench, &pair, 0, window.rkey()), IBV_WC_SUCCESS);
    }

    fn a_region_with_windows_is_busy() {
        let bench = Bench::new();
        let pair = bench.pair(Service::Rc);
        let mr = bench.pd.register(&bench.buffer, ALL_ACCESS).expect("reg_mr");
        let window = bench.pd.alloc_mw(IBV_MW_TYPE_1).expect("alloc_mw");
        let bind = bind_to(&mr, bench.buffer.address(TARGET), LENGTH, REMOTE);
        bind_1(&bench, &pair, &window, &bind);
        assert_eq!(mr.destroy(), Err(libc::EBUSY));
        window.destroy().expect("dealloc_mw of a bound window");
        mr.destroy().expect("unused again");
    }

    fn bind_mw_refuses() {
        let bench = Bench::new();
        let pair = bench.pair(Service::Rc);
        let (one, two) = [IBV_MW_TYPE_1, IBV_MW_TYPE_2]
            .map(|of| bench.pd.alloc_mw(of).expect("alloc_mw"))
            .into();
        let other = bench.context.alloc_pd().expect("a PD");
        let foreign = other.register(&bench.buffer, ALL_ACCESS).expect("reg_mr");
        let signaled = IBV_SEND_SIGNALED;
        let refused = |window: &Mw, bind: Bind| pair.b.bind_mw(window, 1, signaled, &bind).err();
        assert_eq!(refused(&two, target(&bench, REMOTE)), Some(libc::EINVAL), "type 2");
        let address = bench.buffer.address(0);
        assert_eq!(refused(&one, bind_to(&foreign, address, 8, REMOTE)), Some(libc::EPERM));
        let nowhere = Bind { length: 8, ..UNBIND };
        assert_eq!(refused(&one, nowhere), Some(libc::EINVAL), "a length without a region");
        bench.send_cq.expect_nothing();
    }

    /// An invalid bind is refused at the post, or completes with MW_BIND_ERR when it is executed.
    fn binds_that_may_not_be() {
        let bench = Bench::new();
        let (start, size) = (bench.buffer.address(0), bench.buffer.length());
        let no_bind = bench.pd.register(&bench.buffer, ALL_ACCESS & !IBV_ACCESS_MW_BIND);
        let no_bind = no_bind.expect("reg_mr");
        let read_only = bench.pd.register(&bench.buffer, IBV_ACCESS_MW_BIND).expect("reg_mr");
        for (what, bind) in [
            ("no right to bind", bind_to(&no_bind, start, 64, REMOTE)),
            ("behind the end", bind_to(&bench.mr, start + size as u64 - 8, 64, REMOTE)),
            ("in front of the start", bind_to(&bench.mr, start - 8, 64, REMOTE)),
            ("writing without LOCAL_WRITE", bind_to(&read_only, start, 64, REMOTE)),
        ] {
            for window_type in [IBV_MW_TYPE_1, IBV_MW_TYPE_2] {
                let pair = bench.pair(Service::Rc);
                let window = bench.pd.alloc_mw(window_type).expect("alloc_mw");
                let posted = if window_type == IBV_MW_TYPE_1 {
                    pair.b.bind_mw(&window, 5, IBV_SEND_SIGNALED, &bind)
                } else {
                    let key = window.next_rkey();
                    let wr = SendWr::new(5, IBV_WR_BIND_MW).bind(&window, key, bind.clone());
                    pair.b.post_send(&wr)
                };
                match posted {
                    Ok(()) => {
                        bench.send_cq.expect(5, IBV_WC_MW_BIND_ERR);
                        assert_eq!(pair.b.state(), IBV_QPS_ERR, "{what}");
                    }
                    Err(code) => {
                        assert!([libc::EINVAL, libc::EPERM].contains(&code), "{what}: {code}");
                    }
                }
            }
        }
    }

    fn type_2_is_bound_by_a_work_request() {
        let bench = Bench::new();
        let pair = bench.pair(Service::Rc);
        let window = bench.pd.alloc_mw(IBV_MW_TYPE_2).expect("alloc_mw");
        let key = bind_2(&bench, &pair, &window, target(&bench, REMOTE));
        assert_eq!(key >> 8, window.rkey() >> 8);
        assert_eq!(write(&bench, &pair, 0, key), IBV_WC_SUCCESS);
        // A window of type 2B belongs to the QP that has bound it.
        let other = bench.pair(Service::Rc);
        assert_eq!(write(&bench, &other, 0, key), IBV_WC_REM_ACCESS_ERR);
        assert_eq!(write(&bench, &pair, 0, key), IBV_WC_SUCCESS, "the other QP has failed");
    }

    fn type_2_is_bound_by_the_new_send_api() {
        let bench = Bench::new();
        let pair = bench.pair_with_builder(Service::Rc);
        let window = bench.pd.alloc_mw(IBV_MW_TYPE_2).expect("alloc_mw");
        let key = window.next_rkey();
        let wr = SendWr::new(3, IBV_WR_BIND_MW).bind(&window, key, target(&bench, REMOTE));
        pair.b.post_built(&[wr]).expect("wr_complete");
        bench.send_cq.expect(3, IBV_WC_SUCCESS);
        assert_eq!(write(&bench, &pair, 0, key), IBV_WC_SUCCESS);
        let wr = SendWr::new(4, IBV_WR_LOCAL_INV).immediate(key);
        pair.b.post_built(&[wr]).expect("wr_complete");
        bench.send_cq.expect(4, IBV_WC_SUCCESS);
        assert_eq!(write(&bench, &pair, 0, key), IBV_WC_REM_ACCESS_ERR);
    }

    fn a_bound_type_2_window_is_not_bound_again() {
        let bench = Bench::new();
        let pair = bench.pair(Service::Rc);
        let window = bench.pd.alloc_mw(IBV_MW_TYPE_2).expect("alloc_mw");
        let key = bind_2(&bench, &pair, &window, target(&bench, REMOTE));
        let again = (key & !0xff) | (key.wrapping_add(1) & 0xff);
        let wr = SendWr::new(5, IBV_WR_BIND_MW).bind(&window, again, target(&bench, REMOTE));
        assert_eq!(status_on_b(&bench, &pair, &wr), IBV_WC_MW_BIND_ERR);
    }

    fn local_invalidate() {
        let bench = Bench::new();
        let pair = bench.pair(Service::Rc);
        let window = bench.pd.alloc_mw(IBV_MW_TYPE_2).expect("alloc_mw");
        let key = bind_2(&bench, &pair, &window, target(&bench, REMOTE));
        pair.b.post_send(&SendWr::new(6, IBV_WR_LOCAL_INV).immediate(key)).expect("post_send");
        assert_eq!(bench.send_cq.expect(6, IBV_WC_SUCCESS).opcode, IBV_WC_LOCAL_INV);
        assert_eq!(write(&bench, &pair, 0, key), IBV_WC_REM_ACCESS_ERR);
        // After its invalidation it can be bound again, by a working QP.
        let pair = bench.pair(Service::Rc);
        let wr = SendWr::new(7, IBV_WR_BIND_MW);
        let again = (key & !0xff) | (key.wrapping_add(1) & 0xff);
        let wr = wr.bind(&window, again, target(&bench, REMOTE));
        assert_eq!(status_on_b(&bench, &pair, &wr), IBV_WC_SUCCESS);
        assert_eq!(write(&bench, &pair, 0, again), IBV_WC_SUCCESS);
    }

    /// An invalid key, and windows of type 1, which only a bind invalidates.
    fn local_invalidate_of_something_else_fails() {
        let bench = Bench::new();
        let window = bench.pd.alloc_mw(IBV_MW_TYPE_1).expect("alloc_mw");
        let binder = bench.pair(Service::Rc);
        bind_1(&bench, &binder, &window, &target(&bench, REMOTE));
        let other = bench.context.alloc_pd().expect("a PD");
        let foreign = other.alloc_mw(IBV_MW_TYPE_2).expect("alloc_mw");
        for (what, key) in [
            ("no key at all", 0xdead_be00),
            ("a region", bench.mr.rkey()),
            ("a window of type 1", window.rkey()),
            ("a window of another PD", foreign.rkey()),
        ] {
            let pair = bench.pair(Service::Rc);
            let wr = SendWr::new(6, IBV_WR_LOCAL_INV).immediate(key);
            assert_eq!(status_on_b(&bench, &pair, &wr), IBV_WC_MW_BIND_ERR, "{what}");
            assert_eq!(pair.b.state(), IBV_QPS_ERR, "{what}");
        }
    }

    fn send_with_invalidate() {
        let bench = Bench::new();
        for is_built in [false, true] {
            let pair = bench.pair_with_builder(Service::Rc);
            let window = bench.pd.alloc_mw(IBV_MW_TYPE_2).expect("alloc_mw");
            let key = bind_2(&bench, &pair, &window, target(&bench, REMOTE));
            assert_eq!(write(&bench, &pair, 0, key), IBV_WC_SUCCESS);
            pair.post_receive(8, bench.sge(8192, 64));
            let wr = SendWr::new(9, IBV_WR_SEND_WITH_INV).sge(bench.sge(0, 8)).immediate(key);
            if is_built { pair.post_built(wr) } else { pair.post(wr) }
            bench.send_cq.expect(9, IBV_WC_SUCCESS);
            let wc = bench.receive_cq.expect(8, IBV_WC_SUCCESS);
            assert_eq!(wc.wc_flags & IBV_WC_WITH_INV, IBV_WC_WITH_INV);
            assert_eq!(ferroce_verbs_client::cq::invalidated_rkey(&wc), key);
            assert_eq!(write(&bench, &pair, 0, key), IBV_WC_REM_ACCESS_ERR);
        }
    }

    /// IBTA vol 1, 9.9.3, class J: only the responder reports the error. Its receive completes in
    /// error and its QP goes to ERR; the requester gets no answer, and its retries run out.
    fn send_with_a_key_that_the_peer_may_not_invalidate() {
        let bench = Bench::new();
        let [one, two, free] = [IBV_MW_TYPE_1, IBV_MW_TYPE_2, IBV_MW_TYPE_2]
            .map(|of| bench.pd.alloc_mw(of).expect("alloc_mw"));
        let binder = bench.pair(Service::Rc);
        bind_1(&bench, &binder, &one, &target(&bench, REMOTE));
        let of_another = bind_2(&bench, &binder, &two, target(&bench, REMOTE));
        let keys = [
            ("no key at all", bench.mr.rkey() ^ 0x5a5a_5a00),
            ("a region", bench.mr.rkey()),
            ("a window of type 1", one.rkey()),
            ("a window that is not bound", free.rkey()),
            ("a window of another QP", of_another),
        ];
        let pairs = keys.map(|(what, key)| {
            let pair = bench.pair(Service::Rc);
            pair.post_receive(8, bench.sge(8192, 64));
            let wr = SendWr::new(9, IBV_WR_SEND_WITH_INV).sge(bench.sge(0, 8));
            pair.post(wr.immediate(key));
            bench.receive_cq.expect(8, IBV_WC_REM_INV_REQ_ERR);
            assert_eq!(pair.b.state(), IBV_QPS_ERR, "{what}");
            pair
        });
        for _ in &pairs {
            bench.send_cq.expect(9, IBV_WC_RETRY_EXC_ERR);
        }
        assert_eq!(write(&bench, &binder, 0, of_another), IBV_WC_SUCCESS, "it is bound still");
    }

    /// The SEND before it was executed, and is acknowledged.
    fn send_before_one_that_may_not_invalidate_its_key() {
        let bench = Bench::new();
        let pair = bench.pair(Service::Rc);
        pair.post_receive(1, bench.sge(8192, 64));
        pair.post_receive(2, bench.sge(8192, 64));
        pair.post(SendWr::new(3, IBV_WR_SEND).sge(bench.sge(0, 8)));
        let wr = SendWr::new(4, IBV_WR_SEND_WITH_INV).sge(bench.sge(0, 8));
        pair.post(wr.immediate(bench.mr.rkey()));
        bench.receive_cq.expect(1, IBV_WC_SUCCESS);
        bench.receive_cq.expect(2, IBV_WC_REM_INV_REQ_ERR);
        bench.send_cq.expect(3, IBV_WC_SUCCESS);
        bench.send_cq.expect(4, IBV_WC_RETRY_EXC_ERR);
    }

    /// IBTA vol 1, o10-37.2.40: only windows of type 1 are unbound by a bind of no bytes.
    fn a_type_2_window_is_not_bound_to_no_bytes() {
        let bench = Bench::new();
        let mut binds = vec![UNBIND];
        binds.push(bind_to(&bench.mr, bench.buffer.address(TARGET), 0, REMOTE));
        for bind in binds {
            let pair = bench.pair(Service::Rc);
            let window = bench.pd.alloc_mw(IBV_MW_TYPE_2).expect("alloc_mw");
            let wr = SendWr::new(5, IBV_WR_BIND_MW).bind(&window, window.next_rkey(), bind);
            assert_eq!(status_on_b(&bench, &pair, &wr), IBV_WC_MW_BIND_ERR);
        }
    }

    /// As with mlx5 and soft-RoCE, only eight bits of the requested key are used; the others come
    /// from the window. The window's `rkey` then holds the resulting key.
    fn a_type_2_bind_takes_eight_bits_of_the_key() {
        let bench = Bench::new();
        for is_built in [false, true] {
            let pair = bench.pair_with_builder(Service::Rc);
            let window = bench.pd.alloc_mw(IBV_MW_TYPE_2).expect("alloc_mw");
            let variant = window.next_rkey() & 0xff;
            let key = (window.rkey() & !0xff) | variant;
            let bind = target(&bench, REMOTE);
            let wr = SendWr::new(5, IBV_WR_BIND_MW).bind(&window, 0xabcd_ef00 | variant, bind);
            if is_built {
pair.b.post_built(&[wr]).expect("wr_complete");
} else {
pair.b.post_send(&wr).expect("post_send");
}
            bench.send_cq.expect(5, IBV_WC_SUCCESS);
            assert_eq!(window.rkey(), key);
            assert_eq!(write(&bench, &pair, 0, key), IBV_WC_SUCCESS);
        }
    }

    /// A window of type 2B belongs to its queue pair; another queue pair cannot invalidate it.
    fn local_invalidate_of_the_window_of_another_queue_pair_fails() {
        let bench = Bench::new();
        let pair = bench.pair(Service::Rc);
        let other = bench.pair(Service::Rc);
        let window = bench.pd.alloc_mw(IBV_MW_TYPE_2).expect("alloc_mw");
        let key = bind_2(&bench, &pair, &window, target(&bench, REMOTE));
        let wr = SendWr::new(6, IBV_WR_LOCAL_INV).immediate(key);
        assert_eq!(status_on_b(&bench, &other, &wr), IBV_WC_MW_BIND_ERR);
        assert_eq!(other.b.state(), IBV_QPS_ERR);
        assert_eq!(write(&bench, &pair, 0, key), IBV_WC_SUCCESS, "it is bound still");
        assert_eq!(status_on_b(&bench, &pair, &wr), IBV_WC_SUCCESS);
    }

    /// IBTA vol 1, C10-72.
    fn a_window_of_another_pd_is_not_bound() {
        let bench = Bench::new();
        let pair = bench.pair(Service::Rc);
        let other = bench.context.alloc_pd().expect("a PD");
        let window = other.alloc_mw(IBV_MW_TYPE_2).expect("alloc_mw");
        let wr = SendWr::new(5, IBV_WR_BIND_MW);
        let wr = wr.bind(&window, window.next_rkey(), target(&bench, REMOTE));
        assert_eq!(status_on_b(&bench, &pair, &wr), IBV_WC_MW_BIND_ERR);
    }

    fn zero_based_windows() {
        let bench = Bench::new();
        let pair = bench.pair(Service::Rc);
        let window = bench.pd.alloc_mw(IBV_MW_TYPE_2).expect("alloc_mw");
        let bind = target(&bench, REMOTE | IBV_ACCESS_ZERO_BASED);
        let key = window.next_rkey();
        let wr = SendWr::new(3, IBV_WR_BIND_MW).bind(&window, key, bind);
        pair.b.post_send(&wr).expect("post_send");
        bench.send_cq.expect(3, IBV_WC_SUCCESS);
        bench.buffer.write(0, &pattern(8, 77));
        let wr = SendWr::new(4, IBV_WR_RDMA_WRITE).sge(bench.sge(0, 8)).remote(16, key);
        pair.post(wr);
        bench.send_cq.expect(4, IBV_WC_SUCCESS);
        assert_eq!(bench.buffer.read(TARGET + 16, 8), pattern(8, 77));
    }

    /// Windows whose QP was destroyed cannot be accessed, but can be deallocated.
    fn a_type_2_window_survives_its_qp_as_nothing() {
        let bench = Bench::new();
        let pair = bench.pair(Service::Rc);
        let window = bench.pd.alloc_mw(IBV_MW_TYPE_2).expect("alloc_mw");
        let key = bind_2(&bench, &pair, &window, target(&bench, REMOTE));
        drop(pair);
        let pair = bench.pair(Service::Rc);
        assert_eq!(write(&bench, &pair, 0, key), IBV_WC_REM_ACCESS_ERR);
        window.destroy().expect("dealloc_mw");
    }

    fn max_mw_is_true() {
        let bench = Bench::new();
        let attr = bench.context.query_device().expect("query_device");
        // Windows and regions share a table, in which one region uses an entry.
        let all: Vec<_> = (1..attr.max_mw)
            .map(|_| bench.pd.alloc_mw(IBV_MW_TYPE_1).expect("below max_mw"))
            .collect();
        let beyond: Vec<_> = (0..2).map(|_| bench.pd.alloc_mw(IBV_MW_TYPE_1)).collect();
        assert_eq!(beyond[1].as_ref().err(), Some(&libc::ENOMEM));
        drop(beyond);
        all[0].destroy().expect("dealloc_mw");
        bench.pd.alloc_mw(IBV_MW_TYPE_1).expect("there is room again");
    }
}
