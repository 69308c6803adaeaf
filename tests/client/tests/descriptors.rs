//! Event descriptors in event loops: readable while an event waits, never writable, like the
//! kernel's uverbs descriptors.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use ferroce_verbs_client::bench::{Bench, Pair, Service};
use ferroce_verbs_client::context::{Context, readable};
use ferroce_verbs_client::sys::*;
use ferroce_verbs_client::verbs_tests;
use ferroce_verbs_client::work_request::SendWr;

const BOTH: u32 = (libc::EPOLLIN | libc::EPOLLOUT) as u32;
const EDGES: u32 = libc::EPOLLET as u32;
/// Time for which a test waits for an event that must not come.
const NO_EVENT: Duration = Duration::from_millis(100);
const LIMIT: Duration = Duration::from_secs(30);

/// An epoll instance that watches one descriptor.
struct Loop(OwnedFd);

impl Loop {
    fn new(fd: i32, events: u32) -> Self {
        // SAFETY: the first call takes no pointers and its result is ours; the second one reads the
        // local `event`.
        unsafe {
            let own = OwnedFd::from_raw_fd(libc::epoll_create1(libc::EPOLL_CLOEXEC));
            let mut event = libc::epoll_event { events, u64: 0 };
            let add = libc::epoll_ctl(own.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &mut event);
            assert_eq!(add, 0, "epoll_ctl");
            Self(own)
        }
    }

    /// Returns the events that come within `timeout`; 0 if none does.
    fn wait(&self, timeout: Duration) -> u32 {
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        // SAFETY: there is room for one event.
        unsafe {
            libc::epoll_wait(
                self.0.as_raw_fd(),
                &mut event,
                1,
                timeout.as_millis() as i32,
            );
        }
        event.events
    }
}

/// Returns the result of `poll` without waiting.
fn polled(fd: i32) -> i16 {
    let events = libc::POLLIN | libc::POLLOUT;
    let mut entry = libc::pollfd {
        fd,
        events,
        revents: 0,
    };
    // SAFETY: one entry.
    unsafe { libc::poll(&mut entry, 1, 0) };
    entry.revents
}

/// Causes an event on the channel.
fn complete(bench: &Bench, pair: &Pair, id: u64) {
    bench.send_cq.request_notify(false).expect("req_notify_cq");
    let (address, key) = bench.remote(4096);
    pair.post(
        SendWr::new(id, IBV_WR_RDMA_WRITE)
            .sge(bench.sge(0, 8))
            .remote(address, key),
    );
    bench.send_cq.expect(id, IBV_WC_SUCCESS);
}

verbs_tests! {
    /// InfiniStore watches for both directions with libuv.
    fn descriptors_are_never_writable() {
        let context = Context::open();
        let channel = context.create_channel().expect("a channel");
        for fd in [channel.fd(), context.async_fd()] {
            assert_eq!(polled(fd), 0);
            assert_eq!(Loop::new(fd, BOTH).wait(Duration::ZERO), 0);
        }
    }

    fn poll_and_epoll_show_an_event_until_it_is_taken() {
        let bench = Bench::new();
        let pair = bench.pair(Service::Rc);
        let fd = bench.channel.fd();
        let level = Loop::new(fd, BOTH);
        complete(&bench, &pair, 1);
        for _ in 0..2 {
            assert_eq!(level.wait(LIMIT), libc::EPOLLIN as u32);
            assert_eq!(polled(fd), libc::POLLIN);
        }
        bench.channel.expect_event(&bench.send_cq);
        assert_eq!((polled(fd), level.wait(NO_EVENT)), (0, 0));
    }

    fn each_event_is_an_edge() {
        let bench = Bench::new();
        let pair = bench.pair(Service::Rc);
        let edges = Loop::new(bench.channel.fd(), BOTH | EDGES);
        assert_eq!(edges.wait(NO_EVENT), 0);
        for id in 0..3 {
            complete(&bench, &pair, id);
            assert_eq!(edges.wait(LIMIT), libc::EPOLLIN as u32, "event {id}");
            assert_eq!(edges.wait(NO_EVENT), 0, "one edge for event {id}");
        }
        for _ in 0..3 {
            bench.channel.expect_event(&bench.send_cq);
        }
    }

    /// A program may read the descriptor itself: eight bytes per event, the size of
    /// `struct ib_uverbs_comp_event_desc`.
    fn a_read_takes_eight_bytes() {
        let bench = Bench::new();
        let pair = bench.pair(Service::Rc);
        complete(&bench, &pair, 1);
        assert!(readable(bench.channel.fd(), LIMIT));
        let mut bytes = [0_u8; 64];
        // SAFETY: the buffer has 64 bytes.
        let read = unsafe { libc::read(bench.channel.fd(), bytes.as_mut_ptr().cast(), 64) };
        assert_eq!(read, 8);
        assert_eq!(polled(bench.channel.fd()), 0);
    }

    /// Destroying a CQ removes its unread events, also for a loop that waits for them.
    fn events_go_with_their_cq() {
        let bench = Bench::new();
        let cq = bench.context.create_cq(8, Some(&bench.channel), 0).expect("a CQ");
        let mut config = bench.config(IBV_QPT_RC);
        config.send_cq = Some(&cq);
        let pair = bench.pair_of(Service::Rc, &config);
        cq.request_notify(false).expect("req_notify_cq");
        let (address, key) = bench.remote(4096);
        pair.post(SendWr::new(1, IBV_WR_RDMA_WRITE).sge(bench.sge(0, 8)).remote(address, key));
        cq.expect(1, IBV_WC_SUCCESS);
        assert!(readable(bench.channel.fd(), LIMIT));
        drop(pair);
        cq.destroy().expect("destroy_cq");
        assert_eq!(polled(bench.channel.fd()), 0);
    }
}
