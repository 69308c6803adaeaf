//! Event descriptors in event loops: readable while an event waits, never writable, like the
//! kernel's uverbs descriptors.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ferroce_tests::eventually;
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

/// Words of `struct io_uring_params` (`<linux/io_uring.h>`) that are used here.
mod parameter {
    pub const SQ_TAIL: usize = 11;
    pub const SQ_MASK: usize = 12;
    pub const SQ_ARRAY: usize = 16;
    pub const CQ_TAIL: usize = 21;
    pub const COUNT: usize = 30;
}

/// An io_uring of the kernel that polls descriptors, one request at a time.
struct PollRing {
    ring: OwnedFd,
    parameters: [u32; parameter::COUNT],
    /// Both rings: the kernel has mapped them together since 5.4.
    queues: *mut u8,
    requests: *mut u8,
}

impl PollRing {
    /// Bytes of each mapping; the rings of one request take less.
    const MAPPED: usize = 4096;
    const REQUESTS_OFFSET: i64 = 0x1000_0000; // IORING_OFF_SQES
    const POLL_ADD: u8 = 6; // IORING_OP_POLL_ADD
    const GET_EVENTS: u32 = 1; // IORING_ENTER_GETEVENTS

    /// `None`: the kernel has no io_uring, or forbids it.
    fn new() -> Option<Self> {
        let mut parameters = [0_u32; parameter::COUNT];
        // SAFETY: the kernel writes to the local parameters, which have the size of its struct; the
        // descriptor is ours; the mappings are new.
        unsafe {
            let ring = libc::syscall(libc::SYS_io_uring_setup, 1, parameters.as_mut_ptr());
            if ring < 0 {
                return None;
            }
            let map = |offset| {
                let access = libc::PROT_READ | libc::PROT_WRITE;
                let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
                let null = std::ptr::null_mut();
                let mapped = libc::mmap(null, Self::MAPPED, access, flags, ring as i32, offset);
                assert_ne!(mapped, libc::MAP_FAILED, "mmap of an io_uring");
                mapped.cast()
            };
            Some(Self {
                parameters,
                queues: map(0),
                requests: map(Self::REQUESTS_OFFSET),
                ring: OwnedFd::from_raw_fd(ring as i32),
            })
        }
    }

    /// Returns a word of the rings.
    fn word(&self, parameter: usize) -> &AtomicU32 {
        // SAFETY: the kernel's offsets are aligned and lie in the mapping, which lasts as long as
        // the process.
        unsafe { &*self.queues.add(self.parameters[parameter] as usize).cast() }
    }

    /// Submits a request that completes when `fd` is readable.
    fn submit(&self, fd: i32) {
        let tail = self.word(parameter::SQ_TAIL).load(Ordering::Relaxed);
        let index = tail & self.word(parameter::SQ_MASK).load(Ordering::Relaxed);
        assert_eq!(index, 0, "one request");
        // SAFETY: `struct io_uring_sqe` has 64 bytes, the first of the mapping: the operation in
        // byte 0, the descriptor in bytes 4 to 7, the events in bytes 28 to 31.
        unsafe {
            self.requests.write_bytes(0, 64);
            self.requests.write(Self::POLL_ADD);
            self.requests.add(4).cast::<i32>().write(fd);
            self.requests
                .add(28)
                .cast::<u32>()
                .write(libc::POLLIN as u32);
        }
        self.word(parameter::SQ_ARRAY)
            .store(index, Ordering::Relaxed);
        self.word(parameter::SQ_TAIL)
            .store(tail + 1, Ordering::Release);
        assert_eq!(self.enter(1), 1, "io_uring_enter");
    }

    /// Returns the number of requests that have completed since the ring was created.
    fn completed(&self) -> u32 {
        self.word(parameter::CQ_TAIL).load(Ordering::Acquire)
    }

    /// Submits requests, without waiting for completions.
    fn enter(&self, submitted: u32) -> libc::c_long {
        let (ring, flags) = (self.ring.as_raw_fd(), Self::GET_EVENTS);
        // SAFETY: no signal mask is given.
        unsafe { libc::syscall(libc::SYS_io_uring_enter, ring, submitted, 0, flags, 0, 0) }
    }
}

/// Sends a descriptor through a socket of the process (`SCM_RIGHTS`), and returns the received one.
fn through_a_socket(fd: i32) -> OwnedFd {
    let (sender, receiver) = UnixStream::pair().expect("a pair of sockets");
    let mut byte = [0_u8; 1];
    // Aligned for `struct cmsghdr`.
    let mut control = [0_u64; 4];
    let mut part = libc::iovec {
        iov_base: byte.as_mut_ptr().cast(),
        iov_len: 1,
    };
    // SAFETY: the message names local buffers with their lengths, and the control buffer has room
    // for one descriptor, so that CMSG_FIRSTHDR is not null before the send.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(4) as usize;
        let header = libc::CMSG_FIRSTHDR(&message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(4) as usize;
        libc::CMSG_DATA(header).cast::<i32>().write_unaligned(fd);
        assert_eq!(libc::sendmsg(sender.as_raw_fd(), &message, 0), 1);
        (*header).cmsg_len = 0;
        let received = libc::recvmsg(receiver.as_raw_fd(), &mut message, libc::MSG_CMSG_CLOEXEC);
        assert_eq!(received, 1);
        let header = libc::CMSG_FIRSTHDR(&message);
        assert!(!header.is_null(), "no descriptor");
        OwnedFd::from_raw_fd(libc::CMSG_DATA(header).cast::<i32>().read_unaligned())
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

    /// A program may hand its loop to another process.
    fn a_descriptor_that_was_sent_shows_the_same_events() {
        let bench = Bench::new();
        let pair = bench.pair(Service::Rc);
        let sent = through_a_socket(bench.channel.fd());
        let level = Loop::new(sent.as_raw_fd(), BOTH);
        assert_eq!((polled(sent.as_raw_fd()), level.wait(Duration::ZERO)), (0, 0));
        complete(&bench, &pair, 1);
        assert_eq!(level.wait(LIMIT), libc::EPOLLIN as u32);
        bench.channel.expect_event(&bench.send_cq);
        assert_eq!((polled(sent.as_raw_fd()), level.wait(NO_EVENT)), (0, 0));
    }

    fn an_io_uring_polls_a_channel() {
        let bench = Bench::new();
        let pair = bench.pair(Service::Rc);
        let Some(ring) = PollRing::new() else {
            eprintln!("skipped: the kernel has no io_uring, or forbids it");
            return;
        };
        ring.submit(bench.channel.fd());
        assert_eq!(ring.completed(), 0);
        complete(&bench, &pair, 1);
        eventually("the request completes", LIMIT, || {
            // The kernel also completes requests in system calls.
            ring.enter(0);
            ring.completed() == 1
        });
        bench.channel.expect_event(&bench.send_cq);
        ring.submit(bench.channel.fd());
        assert_eq!(ring.completed(), 1);
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
