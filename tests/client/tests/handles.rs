//! Programs that overwrite the public `handle` or `context` of an object: verbs that the kernel
//! would execute do not find it; posting and polling do not check it. google/rdma-unit-test has
//! some twenty such cases.

use ferroce_verbs_client::address::path_to;
use ferroce_verbs_client::bench::{Bench, Service};
use ferroce_verbs_client::context::Context;
use ferroce_verbs_client::memory::ALL_ACCESS;
use ferroce_verbs_client::qp::QpConfig;
use ferroce_verbs_client::sys::*;
use ferroce_verbs_client::verbs_tests;
use ferroce_verbs_client::work_request::SendWr;

/// Evaluates an expression while the handle of an object has another value.
macro_rules! overwritten {
    ($object:expr, $then:expr) => {{
        let raw = $object.raw();
        // SAFETY: alive, and a program may write its fields.
        unsafe { (*raw).handle ^= 0xdead_beef };
        let result = $then;
        // SAFETY: as before; the evaluated expression must not destroy the object.
        unsafe { (*raw).handle ^= 0xdead_beef };
        result
    }};
}

/// Checks that an object cannot be destroyed while its handle is overwritten, and can be
/// afterwards.
macro_rules! is_kept {
    ($object:expr) => {{
        let object = &$object;
        let refused = overwritten!(object, object.destroy());
        assert_eq!(refused, Err(libc::ENOENT), stringify!($object));
        assert_eq!(ferroce_verbs_client::object::errno(), libc::ENOENT);
        object.destroy().expect("found by its handle again");
    }};
}

verbs_tests! {
    /// As in the kernel's look-up of an object to be destroyed.
    fn what_is_not_found_is_not_destroyed() {
        let bench = Bench::new();
        is_kept!(bench.pd.create_ah(path_to(bench.gid)).expect("an AH"));
        is_kept!(bench.pd.register(&bench.buffer, ALL_ACCESS).expect("an MR"));
        is_kept!(bench.pd.alloc_mw(IBV_MW_TYPE_1).expect("a window"));
        is_kept!(bench.pd.alloc_mw(IBV_MW_TYPE_2).expect("a window"));
        is_kept!(bench.pd.create_srq(4, 1).expect("an SRQ").0);
        is_kept!(bench.qp(IBV_QPT_RC).expect("a QP"));
        is_kept!(bench.context.create_cq(4, None, 0).expect("a CQ"));
        is_kept!(bench.context.create_cq_ex(None, |_| ()).expect("an extended CQ"));
        is_kept!(bench.context.alloc_pd().expect("a PD"));
        is_kept!(bench.context.alloc_dm(4096, 0).expect("device memory"));
    }

    /// The kernel looks in the objects of the context's descriptor.
    fn what_another_context_does_not_have_is_not_found() {
        let bench = Bench::new();
        let other = Context::open();
        let pd = bench.context.alloc_pd().expect("a PD");
        let raw = pd.raw();
        let mr = bench.pd.register(&bench.buffer, ALL_ACCESS).expect("an MR");
        // SAFETY: alive, and a program may write its fields.
        let set = |context: &Context| unsafe { (*raw).context = context.raw() };
        set(&other);
        assert_eq!(pd.destroy(), Err(libc::ENOENT));
        assert_eq!(pd.register(&bench.buffer, 0).err(), Some(libc::EINVAL));
        set(&bench.context);
        pd.register(&bench.buffer, 0).expect("an MR").destroy().expect("deregistered");
        pd.destroy().expect("found by its context again");
        let foreign = other.alloc_pd().expect("a PD of the other context");
        let moved = mr.reregister(IBV_REREG_MR_CHANGE_PD, Some(&foreign), None, 0);
        assert_eq!(moved.map_err(|e| e.1), Err(libc::EINVAL));
    }

    fn nothing_is_made_in_a_pd_that_is_not_found() {
        let bench = Bench::new();
        let pd = &bench.pd;
        let dm = bench.context.alloc_dm(4096, 0).expect("device memory");
        let mr = pd.register(&bench.buffer, ALL_ACCESS).expect("an MR");
        let other = bench.context.alloc_pd().expect("a PD");
        let access = IBV_ACCESS_ZERO_BASED;
        let refused = overwritten!(pd, [
            pd.register(&bench.buffer, 0).err(),
            pd.register_dm(&dm, 0, 64, access).err(),
            pd.alloc_mw(IBV_MW_TYPE_1).err(),
            pd.create_ah(path_to(bench.gid)).err(),
            pd.create_srq(4, 1).err(),
            bench.qp(IBV_QPT_RC).err(),
        ]);
        assert_eq!(refused, [Some(libc::EINVAL); 6]);
        let moved = |to| mr.reregister(IBV_REREG_MR_CHANGE_PD, Some(to), None, 0).map_err(|e| e.1);
        assert_eq!(overwritten!(other, moved(&other)), Err(libc::EINVAL));
        assert_eq!(overwritten!(mr, moved(&other)), Err(libc::EINVAL));
        moved(&other).expect("rereg_mr");
        let in_dm = overwritten!(dm, pd.register_dm(&dm, 0, 64, access).err());
        assert_eq!(in_dm, Some(libc::EINVAL));
    }

    fn no_qp_uses_a_queue_that_is_not_found() {
        let bench = Bench::new();
        let cq = bench.context.create_cq(4, None, 0).expect("a CQ");
        let (srq, _) = bench.pd.create_srq(4, 1).expect("an SRQ");
        let config = || bench.config(IBV_QPT_RC);
        let refused = |config: QpConfig| bench.context.create_qp(&config).err();
        let sends = QpConfig { send_cq: Some(&cq), ..config() };
        assert_eq!(overwritten!(cq, refused(sends)), Some(libc::EINVAL));
        let receives = QpConfig { receive_cq: Some(&cq), ..config() };
        assert_eq!(overwritten!(cq, refused(receives)), Some(libc::EINVAL));
        let shares = QpConfig { srq: Some(&srq), ..config() };
        assert_eq!(overwritten!(srq, refused(shares)), Some(libc::EINVAL));
    }

    fn nothing_is_asked_of_what_is_not_found() {
        let bench = Bench::new();
        let qp = bench.qp(IBV_QPT_RC).expect("a QP");
        assert_eq!(overwritten!(qp, qp.to_init()), Err(libc::EINVAL));
        qp.to_init().expect("RESET to INIT");
        assert_eq!(overwritten!(qp, qp.query().err()), Some(libc::EINVAL));
        let cq = &bench.send_cq;
        assert_eq!(overwritten!(cq, cq.request_notify(false)), Err(libc::EINVAL));
        assert_eq!(overwritten!(cq, cq.resize(300)), Err(libc::EINVAL));
        let (srq, _) = bench.pd.create_srq(4, 1).expect("an SRQ");
        assert_eq!(overwritten!(srq, srq.query().err()), Some(libc::EINVAL));
    }

    /// As with mlx5, whose library posts and polls by itself.
    fn posting_and_polling_do_not_look() {
        let bench = Bench::new();
        let pair = bench.pair(Service::Rc);
        let (address, key) = bench.remote(4096);
        let wr = SendWr::new(7, IBV_WR_RDMA_WRITE).sge(bench.sge(0, 8)).remote(address, key);
        overwritten!(pair.a, pair.post(wr));
        overwritten!(bench.send_cq, bench.send_cq.expect(7, IBV_WC_SUCCESS));
    }
}
