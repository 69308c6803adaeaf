//! Destroying an object twice, or something that is not an object, returns an errno and disturbs
//! nothing else.

use ferroce_verbs_client::address::path_to;
use ferroce_verbs_client::bench::{Bench, Service};
use ferroce_verbs_client::context::Context;
use ferroce_verbs_client::sys::*;
use ferroce_verbs_client::verbs_tests;
use ferroce_verbs_client::work_request::SendWr;

/// Destroys an object correctly, and then once more.
macro_rules! destroy_twice {
    ($object:expr, $verb:path) => {{
        let raw = $object.raw();
        $object.destroy().expect("the first time");
        // SAFETY: the test checks that the library detects this.
        let result = unsafe { $verb(raw) };
        assert_eq!(result, libc::EINVAL, stringify!($verb));
    }};
}

verbs_tests! {
    fn each_kind_twice() {
        let bench = Bench::new();
        let (srq, _) = bench.pd.create_srq(4, 1).expect("create_srq");
        destroy_twice!(srq, ibv_destroy_srq);
        let qp = bench.qp(IBV_QPT_RC).expect("create_qp");
        destroy_twice!(qp, ibv_destroy_qp);
        let ah = bench.pd.create_ah(path_to(bench.gid)).expect("create_ah");
        destroy_twice!(ah, ibv_destroy_ah);
        destroy_twice!(bench.mr, ibv_dereg_mr);
        destroy_twice!(bench.send_cq, ibv_destroy_cq);
        destroy_twice!(bench.receive_cq, ibv_destroy_cq);
        destroy_twice!(bench.channel, ibv_destroy_comp_channel);
        destroy_twice!(bench.pd, ibv_dealloc_pd);
        destroy_twice!(bench.context, ibv_close_device);
    }

    /// A refusal changes nothing: an object in use stays alive.
    fn a_refused_destruction_leaves_the_object_alive() {
        let bench = Bench::new();
        let pair = bench.pair(Service::Rc);
        for _ in 0..2 {
            assert_eq!(bench.pd.destroy(), Err(libc::EBUSY));
            assert_eq!(bench.send_cq.destroy(), Err(libc::EBUSY));
        }
        let (address, key) = bench.remote(4096);
        pair.post(SendWr::new(7, IBV_WR_RDMA_WRITE).sge(bench.sge(0, 8)).remote(address, key));
        bench.send_cq.expect(7, IBV_WC_SUCCESS);
    }

    /// An object of another kind, memory that is not an object, and an invalid address.
    fn what_never_was_such_an_object() {
        let bench = Bench::new();
        let mut garbage = [0x5a_u64; 256];
        let addresses = [bench.pd.raw() as usize, garbage.as_mut_ptr() as usize, 0, 1];
        for address in addresses {
            // SAFETY: the test checks that the library detects this.
            let results = unsafe {
                [
                    ibv_dereg_mr(address as *mut ibv_mr),
                    ibv_destroy_cq(address as *mut ibv_cq),
                    ibv_destroy_qp(address as *mut ibv_qp),
                    ibv_destroy_srq(address as *mut ibv_srq),
                    ibv_destroy_ah(address as *mut ibv_ah),
                    ibv_destroy_comp_channel(address as *mut ibv_comp_channel),
                    ibv_close_device(address as *mut ibv_context),
                ]
            };
            assert_eq!(results, [libc::EINVAL; 7], "{address:#x}");
        }
        bench.mr.destroy().expect("it lives");
    }

    /// Two threads destroy one object: only one succeeds.
    fn by_two_threads_at_once() {
        const ROUNDS: usize = 200;
        let context = Context::open();
        for _ in 0..ROUNDS {
            let pd = context.alloc_pd().expect("alloc_pd");
            let address = pd.raw() as usize;
            let start = std::sync::Barrier::new(2);
            let destroy = || {
                start.wait();
                // SAFETY: the test checks that the library detects this.
                unsafe { ibv_dealloc_pd(address as *mut ibv_pd) }
            };
            let mut results = std::thread::scope(|scope| {
                let other = scope.spawn(destroy);
                [destroy(), other.join().expect("it returns")]
            });
            results.sort_unstable();
            assert_eq!(results, [0, libc::EINVAL]);
            std::mem::forget(pd);
        }
    }
}
