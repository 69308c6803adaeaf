//! Protection domains, thread domains, parent domains.

use ferroce_verbs_client::bench::{Bench, Service};
use ferroce_verbs_client::context::Context;
use ferroce_verbs_client::memory::{ALL_ACCESS, Buffer};
use ferroce_verbs_client::sys::*;
use ferroce_verbs_client::verbs_tests;
use ferroce_verbs_client::work_request::SendWr;

verbs_tests! {
    fn a_pd_in_use_is_busy() {
        let context = Context::open();
        let pd = context.alloc_pd().expect("a PD");
        let mr = pd.register(&Buffer::new(4096), 0).expect("an MR");
        assert_eq!(pd.destroy(), Err(libc::EBUSY), "an MR");
        mr.destroy().expect("dereg");
        let (srq, _) = pd.create_srq(4, 1).expect("an SRQ");
        assert_eq!(pd.destroy(), Err(libc::EBUSY), "an SRQ");
        srq.destroy().expect("destroy");
        let window = pd.alloc_mw(IBV_MW_TYPE_1).expect("a window");
        assert_eq!(pd.destroy(), Err(libc::EBUSY), "a window");
        window.destroy().expect("dealloc");
        pd.destroy().expect("an unused PD");
    }

    fn the_qps_of_a_pd_keep_it() {
        let bench = Bench::new();
        let qp = bench.qp(IBV_QPT_RC).expect("a QP");
        bench.mr.destroy().expect("dereg");
        assert_eq!(bench.pd.destroy(), Err(libc::EBUSY), "a QP");
        qp.destroy().expect("destroy");
        let path = ferroce_verbs_client::address::path_to(bench.gid);
        let ah = bench.pd.create_ah(path).expect("an AH");
        assert_eq!(bench.pd.destroy(), Err(libc::EBUSY), "an AH");
        ah.destroy().expect("destroy");
        bench.pd.destroy().expect("an unused PD");
    }

    /// Goal: max_pd is correct, and one more fails with ENOMEM.
    fn max_pd_is_true() {
        let context = Context::open();
        let max = context.query_device().expect("query_device").max_pd;
        let all: Vec<_> = (0..max).map(|_| context.alloc_pd().expect("below max_pd")).collect();
        assert_eq!(context.alloc_pd().err(), Some(libc::ENOMEM));
        all[0].destroy().expect("dealloc");
        context.alloc_pd().expect("there is room again");
    }

    /// Goal: domains protect memory. Method: use keys of one PD on a QP of another.
    fn keys_of_another_pd_are_refused() {
        let bench = Bench::new();
        let other = bench.context.alloc_pd().expect("another PD");
        let foreign = other.register(&bench.buffer, ALL_ACCESS).expect("an MR");
        let pair = bench.pair(Service::Rc);
        let (address, _) = bench.remote(0);
        let sge = foreign.sge(address, 8);
        let (target, key) = bench.remote(4096);
        pair.post(SendWr::new(1, IBV_WR_RDMA_WRITE).sge(sge).remote(target, key));
        bench.send_cq.expect(1, IBV_WC_LOC_PROT_ERR);
        let pair = bench.pair(Service::Rc);
        let wr = SendWr::new(2, IBV_WR_RDMA_WRITE).sge(bench.sge(0, 8));
        pair.post(wr.remote(target, foreign.rkey()));
        bench.send_cq.expect(2, IBV_WC_REM_ACCESS_ERR);
    }

    /// An operation with bytes needs a valid key; without bytes no key is checked (IBTA vol 1,
    /// 9.7.4.1.5).
    fn no_bytes_need_no_key() {
        let bench = Bench::new();
        let pair = bench.pair(Service::Rc);
        pair.post(SendWr::new(1, IBV_WR_RDMA_WRITE).remote(0, 0x1234_5678));
        bench.send_cq.expect(1, IBV_WC_SUCCESS);
    }

    fn thread_domains() {
        let context = Context::open();
        let td = context.alloc_td(0).expect("a TD");
        assert!(context.alloc_td(1).is_err(), "an unknown comp_mask");
        let pd = context.alloc_pd().expect("a PD");
        let parent = context.alloc_parent_domain(&pd, Some(&td)).expect("a parent domain");
        assert_eq!(td.destroy(), Err(libc::EBUSY));
        assert_eq!(pd.destroy(), Err(libc::EBUSY));
        parent.destroy().expect("dealloc");
        td.destroy().expect("dealloc");
        pd.destroy().expect("dealloc");
    }

    /// Goal: a parent domain works in place of its PD, and is the same domain.
    fn parent_domains_serve_as_pds() {
        let bench = Bench::new();
        let parent = bench.context.alloc_parent_domain(&bench.pd, None).expect("a parent domain");
        let below = bench.context.create_cq_under(&parent).expect("a CQ");
        let mut config = bench.config(IBV_QPT_RC);
        config.pd = Some(&parent);
        config.send_cq = Some(&below);
        let pair = bench.pair_of(Service::Rc, &config);
        let (address, key) = bench.remote(4096);
        pair.post(SendWr::new(7, IBV_WR_RDMA_WRITE).sge(bench.sge(0, 64)).remote(address, key));
        below.expect(7, IBV_WC_SUCCESS);
        assert_eq!(parent.destroy(), Err(libc::EBUSY), "its QPs live");
        drop(pair);
        below.destroy().expect("destroy");
        parent.destroy().expect("dealloc");
    }
}
