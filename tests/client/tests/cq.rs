//! Completion queues: creation, notification, resize, moderation, overrun.

use std::time::Duration;

use ferroce_verbs_client::bench::{Bench, Service, register_all};
use ferroce_verbs_client::context::{Context, nothing};
use ferroce_verbs_client::cq::Cq;
use ferroce_verbs_client::harness::is_served;
use ferroce_verbs_client::memory::Buffer;
use ferroce_verbs_client::object::check_pointer;
use ferroce_verbs_client::qp::QpConfig;
use ferroce_verbs_client::sys::*;
use ferroce_verbs_client::verbs_tests;
use ferroce_verbs_client::work_request::SendWr;

/// Returns a WRITE of eight bytes to the same memory.
fn write(bench: &Bench, id: u64) -> SendWr {
    let (address, key) = bench.remote(4096);
    SendWr::new(id, IBV_WR_RDMA_WRITE)
        .sge(bench.sge(0, 8))
        .remote(address, key)
}

/// Returns a pair whose sends complete on this CQ.
fn pair_on(bench: &Bench, cq: &Cq) -> ferroce_verbs_client::bench::Pair {
    let config = QpConfig {
        send_cq: Some(cq),
        ..bench.config(IBV_QPT_RC)
    };
    bench.pair_of(Service::Rc, &config)
}

verbs_tests! {
    fn a_cq_has_at_least_what_was_asked_for() {
        let context = Context::open();
        for cqe in [1, 2, 63, 64, 65, 1000] {
            let cq = context.create_cq(cqe, None, 0).expect("create_cq");
            assert!(cq.cqe() >= cqe, "{} of {cqe}", cq.cqe());
        }
    }

    fn create_cq_refuses() {
        let context = Context::open();
        let max = context.query_device().expect("query_device").max_cqe;
        for (cqe, vector) in [(0, 0), (-1, 0), (max + 1, 0), (16, -1), (16, 100_000)] {
            let result = context.create_cq(cqe, None, vector).err();
            assert_eq!(result, Some(libc::EINVAL), "cqe {cqe}, vector {vector}");
        }
        let cq = context.create_cq(max, None, 0).expect("the largest");
        assert!(cq.cqe() >= max);
    }

    fn max_cq_is_true() {
        let context = Context::open();
        let max = context.query_device().expect("query_device").max_cq;
        let all: Vec<_> = (0..max)
            .map(|_| context.create_cq(1, None, 0).expect("below max_cq"))
            .collect();
        assert_eq!(context.create_cq(1, None, 0).err(), Some(libc::ENOMEM));
        all[0].destroy().expect("destroy");
        context.create_cq(1, None, 0).expect("there is room again");
    }

    fn a_cq_or_channel_in_use_is_busy() {
        let bench = Bench::new();
        let qp = bench.qp(IBV_QPT_RC).expect("a QP");
        assert_eq!(bench.send_cq.destroy(), Err(libc::EBUSY));
        assert_eq!(bench.receive_cq.destroy(), Err(libc::EBUSY));
        assert_eq!(bench.channel.destroy(), Err(libc::EBUSY));
        qp.destroy().expect("destroy");
        bench.send_cq.destroy().expect("unused");
        bench.receive_cq.destroy().expect("unused");
        bench.channel.destroy().expect("unused");
    }

    fn an_armed_cq_gives_one_event() {
        let bench = Bench::new();
        let pair = bench.pair(Service::Rc);
        bench.send_cq.request_notify(false).expect("req_notify_cq");
        pair.post(write(&bench, 1));
        pair.post(write(&bench, 2));
        bench.channel.expect_event(&bench.send_cq);
        bench.channel.expect_no_event();
        bench.send_cq.expect(1, IBV_WC_SUCCESS);
        bench.send_cq.expect(2, IBV_WC_SUCCESS);
        pair.post(write(&bench, 3));
        bench.send_cq.expect(3, IBV_WC_SUCCESS);
        bench.channel.expect_no_event();
        // Armed anew, and again with one event.
        bench.send_cq.request_notify(false).expect("req_notify_cq");
        pair.post(write(&bench, 4));
        bench.channel.expect_event(&bench.send_cq);
    }

    fn nothing_armed_means_no_event() {
        let bench = Bench::new();
        let pair = bench.pair(Service::Rc);
        pair.post(write(&bench, 1));
        bench.send_cq.expect(1, IBV_WC_SUCCESS);
        bench.channel.expect_no_event();
    }

    /// Armed for solicited completions: a plain SEND does not count, one with the flag does, and so
    /// does an error.
    fn solicited_events() {
        let bench = Bench::new();
        let pair = bench.pair(Service::Rc);
        for id in 0..3 {
            pair.post_receive(id, bench.sge(8192, 64));
        }
        bench.receive_cq.request_notify(true).expect("req_notify_cq");
        let send = SendWr::new(1, IBV_WR_SEND).sge(bench.sge(0, 8));
        pair.post(send.clone());
        bench.receive_cq.expect(0, IBV_WC_SUCCESS);
        bench.channel.expect_no_event();
        pair.post(send.flags(IBV_SEND_SIGNALED | IBV_SEND_SOLICITED));
        bench.channel.expect_event(&bench.receive_cq);
        bench.receive_cq.expect(1, IBV_WC_SUCCESS);
        bench.receive_cq.request_notify(true).expect("req_notify_cq");
        pair.b.to_state(IBV_QPS_ERR).expect("ERR");
        bench.channel.expect_event(&bench.receive_cq);
        bench.receive_cq.expect(2, IBV_WC_WR_FLUSH_ERR);
    }

    fn a_nonblocking_channel_says_eagain() {
        let context = Context::open();
        let channel = context.create_channel().expect("a channel");
        // SAFETY: our own descriptor.
        unsafe { libc::fcntl(channel.fd(), libc::F_SETFL, libc::O_NONBLOCK) };
        let (mut cq, mut user) = (nothing(), nothing());
        // SAFETY: both are filled on success.
        let result = unsafe { ibv_get_cq_event(channel.raw(), &mut cq, &mut user) };
        assert_eq!((result, ferroce_verbs_client::object::errno()), (-1, libc::EAGAIN));
    }

    fn a_cq_grows_and_shrinks_with_its_entries() {
        let bench = Bench::new();
        let cq = bench.context.create_cq(8, None, 0).expect("create_cq");
        let pair = pair_on(&bench, &cq);
        let mut next = 0;
        for size in [64, 16, 256, 8] {
            for id in next..next + 5 {
                pair.post(write(&bench, id));
            }
            // Wait until all have arrived.
            bench.settle();
            cq.resize(size).expect("resize_cq");
            assert!(cq.cqe() >= size);
            for id in next..next + 5 {
                cq.expect(id, IBV_WC_SUCCESS);
            }
            next += 5;
            cq.expect_nothing();
        }
    }

    fn resize_refuses() {
        let bench = Bench::new();
        let cq = bench.context.create_cq(64, None, 0).expect("create_cq");
        let max = bench.context.query_device().expect("query_device").max_cqe;
        for cqe in [0, -1, max + 1] {
            assert_eq!(cq.resize(cqe), Err(libc::EINVAL), "{cqe}");
        }
        // The CQ holds more entries than would fit.
        let pair = pair_on(&bench, &cq);
        for id in 0..12 {
            pair.post(write(&bench, id));
        }
        bench.settle();
        assert!(cq.resize(4).is_err());
        for id in 0..12 {
            cq.expect(id, IBV_WC_SUCCESS);
        }
    }

    /// With moderation the event comes after `count` completions, or when the period has passed.
    fn moderation_holds_events_back() {
        let bench = Bench::new();
        let pair = bench.pair(Service::Rc);
        let long_us = u16::MAX;
        bench.send_cq.modify_moderation(IBV_CQ_ATTR_MODERATE, 4, long_us).expect("modify_cq");
        bench.send_cq.request_notify(false).expect("req_notify_cq");
        (0..3).for_each(|id| pair.post(write(&bench, id)));
        assert!(bench.channel.event(Duration::from_millis(20)).is_none());
        pair.post(write(&bench, 3));
        bench.channel.expect_event(&bench.send_cq);
        for id in 0..4 {
            bench.send_cq.expect(id, IBV_WC_SUCCESS);
        }
        bench.send_cq.modify_moderation(IBV_CQ_ATTR_MODERATE, 100, 1000).expect("modify_cq");
        bench.send_cq.request_notify(false).expect("req_notify_cq");
        pair.post(write(&bench, 4));
        bench.channel.expect_event(&bench.send_cq);
        bench.send_cq.modify_moderation(IBV_CQ_ATTR_MODERATE, 0, 0).expect("modify_cq");
        let result = bench.send_cq.modify_moderation(1 << 5, 0, 0);
        assert!(matches!(result, Err(libc::EINVAL | libc::EOPNOTSUPP)), "{result:?}");
    }

    /// If a CQ is not polled, an event reports its overrun.
    fn an_overrun_is_reported() {
        let bench = Bench::new();
        let cq = bench.context.create_cq(1, None, 0).expect("create_cq");
        let room = cq.cqe() as u64;
        let pair = pair_on(&bench, &cq);
        for id in 0..room + 8 {
            // In the end no request completes any more, and the send queue is full.
            let _ = pair.try_post(write(&bench, id));
            bench.settle();
        }
        let event = bench.context.async_event();
        assert_eq!(event, (IBV_EVENT_CQ_ERR, cq.raw() as usize));
    }

    fn polling_for_nothing_finds_nothing() {
        let context = Context::open();
        let cq = context.create_cq(4, None, 0).expect("create_cq");
        assert_eq!(cq.poll(0).expect("poll").len(), 0);
        assert_eq!(cq.poll(16).expect("poll").len(), 0);
    }

    /// An empty poll does all work that is ready: neither a message of thousands of packets nor a
    /// delayed ACK needs many polls.
    fn an_empty_poll_lets_the_device_work_until_it_rests() {
        if is_served() {
            return;
        }
        const LENGTH: usize = 4 << 20;
        const MESSAGES: u64 = 41;
        let bench = Bench::new();
        let buffer = Buffer::new(2 * LENGTH);
        let mr = register_all(&bench.pd, &buffer);
        let pair = bench.pair(Service::Rc);
        for length in [8, LENGTH] {
            let mut empty_polls: Vec<u32> = (0..MESSAGES)
                .map(|id| {
                    let sge = mr.sge(buffer.address(0), length as u32);
                    let write = SendWr::new(id, IBV_WR_RDMA_WRITE).sge(sge);
                    pair.post(write.remote(buffer.address(LENGTH), mr.rkey()));
                    let mut polls = 0..;
                    polls.find(|_| !bench.send_cq.poll(1).expect("poll").is_empty()).expect("u32")
                })
                .collect();
            empty_polls.sort_unstable();
            // Take the best of several tries: while the library's own thread runs the device, polls
            // do nothing, and on a busy machine that is most of the time.
            assert!(empty_polls[0] <= 1, "{length} bytes: {empty_polls:?}");
        }
    }

    fn destroying_a_qp_takes_its_completions_away() {
        let bench = Bench::new();
        let pair = bench.pair(Service::Rc);
        pair.post(write(&bench, 1));
        bench.settle();
        pair.a.destroy().expect("destroy");
        bench.send_cq.expect_nothing();
    }

    fn a_null_pd_is_refused_without_a_crash() {
        // SAFETY: the library has to check its arguments.
        let result = check_pointer(unsafe { ibv_create_cq(nothing(), 4, nothing(), nothing(), 0) });
        assert!(result.is_err());
    }
}
