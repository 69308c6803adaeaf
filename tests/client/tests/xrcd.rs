//! XRC domains, their SRQs, and their QPs.

use std::fs::File;
use std::os::fd::AsRawFd;

use ferroce_verbs_client::bench::{Bench, Service, TARGET, pattern};
use ferroce_verbs_client::sys::*;
use ferroce_verbs_client::verbs_tests;
use ferroce_verbs_client::work_request::{ReceiveWr, SendWr};

verbs_tests! {
    fn open_xrcd_refuses() {
        let bench = Bench::new();
        let context = &bench.context;
        assert!(context.open_xrcd(-1, libc::O_CREAT).is_ok(), "no file: of this context alone");
        let file = File::open("/proc/self/exe").expect("a file");
        let open = |oflags| context.open_xrcd(file.as_raw_fd(), oflags);
        assert_eq!(open(0).err(), Some(libc::EAGAIN), "it does not exist");
        let created = open(libc::O_CREAT).expect("created");
        let exclusive = open(libc::O_CREAT | libc::O_EXCL).err();
        assert_eq!(exclusive, Some(libc::EINVAL), "exclusive, but there");
        let shared = open(0).expect("opened");
        shared.destroy().expect("close_xrcd");
        created.destroy().expect("close_xrcd");
        assert_eq!(open(0).err(), Some(libc::EAGAIN), "gone");
        let missing = context.open_xrcd(12345, libc::O_CREAT).err();
        assert_eq!(missing, Some(libc::EBADF), "no such descriptor");
    }

    fn an_xrcd_in_use_is_busy() {
        let bench = Bench::new();
        let xrcd = bench.context.private_xrcd().expect("open_xrcd");
        let srq = bench
            .context
            .create_xrc_srq(&bench.pd, &xrcd, &bench.receive_cq, 4)
            .expect("create_srq_ex");
        assert_eq!(xrcd.destroy(), Err(libc::EBUSY), "an SRQ");
        assert_eq!(bench.receive_cq.destroy(), Err(libc::EBUSY), "the CQ of an SRQ");
        srq.destroy().expect("destroy_srq");
        let target = bench.target(&xrcd).expect("a target");
        assert_eq!(xrcd.destroy(), Err(libc::EBUSY), "a QP");
        target.destroy().expect("destroy_qp");
        xrcd.destroy().expect("unused");
    }

    fn an_initiator_cannot_receive_and_a_target_cannot_send() {
        let bench = Bench::new();
        let pair = bench.pair(Service::Xrc);
        let receive = ReceiveWr::new(1, bench.sge(0, 8));
        assert_eq!(pair.a.post_receive(&receive), Err(libc::EINVAL));
        assert_eq!(pair.b.post_receive(&receive), Err(libc::EINVAL));
        let send = SendWr::new(1, IBV_WR_SEND).sge(bench.sge(0, 8));
        assert_eq!(pair.b.post_send(&send), Err(libc::EINVAL));
    }

    /// One target serves SRQs of its domain, by the number that each request carries; the
    /// completion goes to the SRQ's own CQ.
    fn a_request_chooses_its_srq() {
        let bench = Bench::new();
        let xrcd = bench.context.private_xrcd().expect("open_xrcd");
        let target = bench.target(&xrcd).expect("a target");
        let initiator = bench.qp(IBV_QPT_XRC_SEND).expect("an initiator");
        initiator.connect(bench.gid, target.number());
        target.connect(bench.gid, initiator.number());
        let sides = [0, 1].map(|side| {
            let cq = bench.context.create_cq(16, None, 0).expect("a CQ");
            let srq = bench
                .context
                .create_xrc_srq(&bench.pd, &xrcd, &cq, 4)
                .expect("create_srq_ex");
            let sge = bench.sge(TARGET + side * 64, 64);
            srq.post_receive(&ReceiveWr::new(side as u64, sge)).expect("post_srq_recv");
            (cq, srq)
        });
        assert_ne!(sides[0].1.number(), sides[1].1.number());
        for side in [1, 0] {
            bench.buffer.write(0, &pattern(64, side as u8));
            let mut wr = SendWr::new(9, IBV_WR_SEND).sge(bench.sge(0, 64));
            wr.srqn = sides[side].1.number().expect("a number");
            initiator.post_send(&wr).expect("post_send");
            bench.send_cq.expect(9, IBV_WC_SUCCESS);
            let wc = sides[side].0.expect(side as u64, IBV_WC_SUCCESS);
            assert_eq!((wc.byte_len, wc.opcode), (64, IBV_WC_RECV));
            assert_eq!(bench.buffer.read(TARGET + side * 64, 64), pattern(64, side as u8));
            sides[1 - side].0.expect_nothing();
        }
    }

    /// This target cannot use an SRQ of another domain.
    fn an_srq_of_another_domain_is_refused() {
        let bench = Bench::new();
        let other = bench.context.private_xrcd().expect("open_xrcd");
        let foreign = bench
            .context
            .create_xrc_srq(&bench.pd, &other, &bench.receive_cq, 4)
            .expect("create_srq_ex");
        foreign.post_receive(&ReceiveWr::new(1, bench.sge(TARGET, 64))).expect("post_srq_recv");
        let pair = bench.pair(Service::Xrc);
        let mut wr = SendWr::new(2, IBV_WR_SEND).sge(bench.sge(0, 8));
        wr.srqn = foreign.number().expect("a number");
        pair.a.post_send(&wr).expect("post_send");
        let status = bench.send_cq.next().status;
        let expected = [IBV_WC_REM_INV_REQ_ERR, IBV_WC_REM_INV_RD_REQ_ERR, IBV_WC_REM_OP_ERR];
        assert!(expected.contains(&status), "{status}");
        bench.receive_cq.expect_nothing();
    }

    fn rdma_and_atomics_over_xrc() {
        let bench = Bench::new();
        let pair = bench.pair(Service::Xrc);
        let (address, key) = bench.remote(TARGET);
        bench.buffer.write(0, &pattern(3000, 1));
        let write = SendWr::new(1, IBV_WR_RDMA_WRITE).sge(bench.sge(0, 3000));
        pair.post(write.remote(address, key));
        bench.send_cq.expect(1, IBV_WC_SUCCESS);
        assert_eq!(bench.buffer.read(TARGET, 3000), pattern(3000, 1));
        let read = SendWr::new(2, IBV_WR_RDMA_READ).sge(bench.sge(8192, 3000));
        pair.post(read.remote(address, key));
        bench.send_cq.expect(2, IBV_WC_SUCCESS);
        assert_eq!(bench.buffer.read(8192, 3000), pattern(3000, 1));
        bench.buffer.write_u64(TARGET, 40);
        let add = SendWr::new(3, IBV_WR_ATOMIC_FETCH_AND_ADD).sge(bench.sge(0, 8));
        pair.post(add.remote(address, key).operands(2, 0));
        bench.send_cq.expect(3, IBV_WC_SUCCESS);
        assert_eq!((bench.buffer.read_u64(0), bench.buffer.read_u64(TARGET)), (40, 42));
    }

    /// A target that another handle opens by its number is the same QP.
    fn open_qp_shares_a_target() {
        let bench = Bench::new();
        let file = File::open("/proc/self/exe").expect("a file");
        let xrcd = bench
            .context
            .open_xrcd(file.as_raw_fd(), libc::O_CREAT)
            .expect("open_xrcd");
        let target = bench.target(&xrcd).expect("a target");
        match bench.context.open_qp(target.number(), IBV_QPT_XRC_RECV, &xrcd) {
            Ok(opened) => {
                assert_eq!(opened.number(), target.number());
                opened.to_init().expect("INIT");
                assert_eq!(target.state(), IBV_QPS_INIT);
            }
            Err(code) => assert_eq!(code, libc::EOPNOTSUPP),
        }
        let missing = bench.context.open_qp(0xff_fff0, IBV_QPT_XRC_RECV, &xrcd);
        assert!(missing.is_err());
    }
}
