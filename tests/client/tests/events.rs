//! Asynchronous events: each comes once for its cause, and is acknowledged.

use std::time::Duration;

use ferroce_verbs_client::bench::{Bench, Service, TARGET};
use ferroce_verbs_client::context::Context;
use ferroce_verbs_client::object::errno;
use ferroce_verbs_client::sys::*;
use ferroce_verbs_client::verbs_tests;
use ferroce_verbs_client::work_request::SendWr;

verbs_tests! {
    /// If a peer accesses memory without the right, the responder's side gets an event.
    fn an_access_error_is_reported_to_the_responder() {
        let bench = Bench::new();
        let pair = bench.pair(Service::Rc);
        let (address, key) = bench.remote(TARGET);
        let write = SendWr::new(1, IBV_WR_RDMA_WRITE).sge(bench.sge(0, 8));
        pair.post(write.remote(address, key ^ 0x5a5a_5a00));
        bench.send_cq.expect(1, IBV_WC_REM_ACCESS_ERR);
        let event = bench.context.async_event();
        assert_eq!(event, (IBV_EVENT_QP_ACCESS_ERR, pair.b.raw() as usize));
        assert_eq!(pair.b.state(), IBV_QPS_ERR);
    }

    /// A request that the responder cannot even check.
    fn an_invalid_request_is_reported_to_the_responder() {
        let bench = Bench::new();
        let pair = bench.pair(Service::Rc);
        let (address, key) = bench.remote(TARGET + 4);
        let add = SendWr::new(1, IBV_WR_ATOMIC_FETCH_AND_ADD).sge(bench.sge(0, 8));
        pair.post(add.remote(address, key));
        bench.send_cq.expect(1, IBV_WC_REM_INV_REQ_ERR);
        let event = bench.context.async_event();
        assert_eq!(event, (IBV_EVENT_QP_REQ_ERR, pair.b.raw() as usize));
    }

    /// The first packet to a QP in RTR.
    fn communication_established() {
        let bench = Bench::new();
        let pair = bench.pair(Service::Rc);
        pair.b.to_state(IBV_QPS_RESET).expect("RESET");
        pair.b.to_init().expect("INIT");
        pair.b.to_rtr(bench.gid, pair.a.number()).expect("RTR");
        pair.post_receive(1, bench.sge(TARGET, 64));
        pair.post(SendWr::new(2, IBV_WR_SEND).sge(bench.sge(0, 8)));
        bench.send_cq.expect(2, IBV_WC_SUCCESS);
        let event = bench.context.async_event();
        assert_eq!(event, (IBV_EVENT_COMM_EST, pair.b.raw() as usize));
    }

    /// Destroying an object waits until its events are acknowledged, except events that were not
    /// fetched.
    fn an_event_that_is_not_fetched_goes_with_its_qp() {
        let bench = Bench::new();
        let pair = bench.pair(Service::Rc);
        let (address, key) = bench.remote(TARGET);
        let write = SendWr::new(1, IBV_WR_RDMA_WRITE).sge(bench.sge(0, 8));
        pair.post(write.remote(address, key ^ 0x5a5a_5a00));
        bench.send_cq.expect(1, IBV_WC_REM_ACCESS_ERR);
        pair.b.destroy().expect("destroy_qp");
        bench.context.expect_no_async_event();
    }

    fn a_nonblocking_descriptor_says_eagain() {
        let context = Context::open();
        // SAFETY: our own descriptor; the event is filled on success.
        let result = unsafe {
            libc::fcntl(context.async_fd(), libc::F_SETFL, libc::O_NONBLOCK);
            let mut event = std::mem::zeroed();
            ibv_get_async_event(context.raw(), &mut event)
        };
        assert_eq!((result, errno()), (-1, libc::EAGAIN));
    }

    /// The descriptor is level-triggered for poll and epoll.
    fn the_descriptor_stays_readable_until_the_event_is_taken() {
        let bench = Bench::new();
        let pair = bench.pair(Service::Rc);
        let (address, key) = bench.remote(TARGET);
        let write = SendWr::new(1, IBV_WR_RDMA_WRITE).sge(bench.sge(0, 8));
        pair.post(write.remote(address, key ^ 0x5a5a_5a00));
        bench.send_cq.expect(1, IBV_WC_REM_ACCESS_ERR);
        let fd = bench.context.async_fd();
        for _ in 0..3 {
            assert!(ferroce_verbs_client::context::readable(fd, Duration::from_secs(5)));
        }
        bench.context.async_event();
        bench.context.expect_no_async_event();
    }

    /// Each context gets only the events of its objects.
    fn events_go_to_the_context_of_their_object() {
        let (one, other) = (Bench::new(), Bench::new());
        let pair = one.pair(Service::Rc);
        let (address, key) = one.remote(TARGET);
        let write = SendWr::new(1, IBV_WR_RDMA_WRITE).sge(one.sge(0, 8));
        pair.post(write.remote(address, key ^ 0x5a5a_5a00));
        one.send_cq.expect(1, IBV_WC_REM_ACCESS_ERR);
        assert_eq!(one.context.async_event().0, IBV_EVENT_QP_ACCESS_ERR);
        other.context.expect_no_async_event();
    }
}
