//! Every possible status, with its cause (`ibv_poll_cq(3)`, IBTA vol 1, 10.10.3).

use std::time::Duration;

use ferroce_tests::{TIMEOUT, eventually};
use ferroce_verbs_client::bench::{Bench, Pair, SERVICES, Service, TARGET, pattern};
use ferroce_verbs_client::qp::{Q_KEY, rtr_attr, rts_attr};
use ferroce_verbs_client::sys::*;
use ferroce_verbs_client::verbs_tests;
use ferroce_verbs_client::work_request::{ReceiveWr, SendWr};

const RELIABLE: [Service; 2] = [Service::Rc, Service::Xrc];

fn send(bench: &Bench, length: usize) -> SendWr {
    SendWr::new(1, IBV_WR_SEND).sge(bench.sge(0, length))
}

/// The failing request has this status, the next one is flushed, and the sender is in ERR.
fn expect_failure(bench: &Bench, pair: &Pair, status: ibv_wc_status) {
    let wc = bench.send_cq.next();
    let what = format!("{:?}: {}", pair.service, wc.status);
    assert_eq!((wc.wr_id, wc.status), (1, status), "{what}");
    assert_eq!(wc.qp_num, pair.a.number(), "{what}");
    pair.post(SendWr::new(2, IBV_WR_SEND));
    bench.send_cq.expect(2, IBV_WC_WR_FLUSH_ERR);
    assert_eq!(pair.a.state(), IBV_QPS_ERR, "{what}");
}

/// Returns a pair whose sender gives up early.
fn impatient(bench: &Bench, service: Service, rnr_retry: u8, peer: Option<u32>) -> Pair {
    let pair = bench.pair(service);
    pair.a.to_state(IBV_QPS_RESET).expect("RESET");
    pair.a.to_init().expect("INIT");
    let peer = peer.unwrap_or(pair.b.number());
    let (attr, mask) = rtr_attr(pair.a.qp_type(), bench.gid, peer);
    pair.a.modify(&attr, mask).expect("RTR");
    let (attr, mask) = rts_attr(pair.a.qp_type());
    let attr = ibv_qp_attr {
        timeout: 8,
        retry_cnt: 2,
        rnr_retry,
        ..attr
    };
    pair.a.modify(&attr, mask).expect("RTS");
    pair
}

verbs_tests! {
    fn loc_prot_err_of_a_wrong_lkey() {
        let bench = Bench::new();
        for service in RELIABLE {
            for opcode in [
                IBV_WR_SEND,
                IBV_WR_RDMA_WRITE,
                IBV_WR_RDMA_READ,
                IBV_WR_ATOMIC_FETCH_AND_ADD,
            ] {
                let pair = bench.pair(service);
                pair.post_receive(9, bench.sge(TARGET, 64));
                let mut sge = bench.sge(0, 8);
                sge.lkey ^= 0x5a5a_5a00;
                let (address, key) = bench.remote(TARGET);
                pair.post(SendWr::new(1, opcode).sge(sge).remote(address, key));
                expect_failure(&bench, &pair, IBV_WC_LOC_PROT_ERR);
                // The receive for a message that never came.
                drop(pair);
                while bench.receive_cq.try_next().is_some() {}
            }
        }
    }

    fn loc_prot_err_of_bytes_outside() {
        let bench = Bench::new();
        let pair = bench.pair(Service::Rc);
        let end = bench.buffer.address(bench.buffer.length() - 4);
        let (address, key) = bench.remote(TARGET);
        let write = SendWr::new(1, IBV_WR_RDMA_WRITE).sge(bench.mr.sge(end, 8));
        pair.post(write.remote(address, key));
        expect_failure(&bench, &pair, IBV_WC_LOC_PROT_ERR);
    }

    /// The receiver's own buffer is bad: its completion has the reason, and the sender's completion
    /// names the receiver as the cause.
    fn rem_op_err_of_a_bad_receive() {
        let bench = Bench::new();
        for service in RELIABLE {
            let pair = bench.pair(service);
            let mut sge = bench.sge(TARGET, 64);
            sge.lkey ^= 0x5a5a_5a00;
            pair.post_receive(3, sge);
            pair.post(send(&bench, 8));
            expect_failure(&bench, &pair, IBV_WC_REM_OP_ERR);
            bench.receive_cq.expect(3, IBV_WC_LOC_PROT_ERR);
            assert_eq!(pair.b.state(), IBV_QPS_ERR);
        }
    }

    fn loc_len_err_of_a_short_receive() {
        let bench = Bench::new();
        for service in RELIABLE {
            for (room, length) in [(100, 101), (0, 1), (5000, 5001), (1024, 4096)] {
                let pair = bench.pair(service);
                pair.post_receive(3, bench.sge(TARGET, room));
                pair.post(send(&bench, length));
                expect_failure(&bench, &pair, IBV_WC_REM_INV_REQ_ERR);
                bench.receive_cq.expect(3, IBV_WC_LOC_LEN_ERR);
                assert_eq!(bench.buffer.read(TARGET + room, 1), [0], "behind the buffer");
            }
        }
    }

    /// A datagram that does not fit is dropped; its receive serves the next one.
    fn a_datagram_that_does_not_fit() {
        let bench = Bench::new();
        let pair = bench.pair(Service::Ud);
        pair.post_receive(3, bench.sge(TARGET, 40 + 10));
        for length in [11, 10] {
            pair.post(send(&bench, length));
            bench.send_cq.expect(1, IBV_WC_SUCCESS);
        }
        assert_eq!(bench.receive_cq.expect(3, IBV_WC_SUCCESS).byte_len, 50);
        bench.receive_cq.expect_nothing();
    }

    fn rem_access_err() {
        let bench = Bench::new();
        for service in RELIABLE {
            for opcode in [IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP] {
                let (address, key) = bench.remote(TARGET);
                let end = bench.buffer.address(bench.buffer.length());
                for (address, key) in [(address, key ^ 0x5a5a_5a00), (end, key), (0, key)] {
                    let pair = bench.pair(service);
                    pair.post(SendWr::new(1, opcode).sge(bench.sge(0, 8)).remote(address, key));
                    expect_failure(&bench, &pair, IBV_WC_REM_ACCESS_ERR);
                }
            }
        }
    }

    /// An access needs the rights of both the QP and the region.
    fn rem_inv_req_err_of_a_qp_without_rights() {
        let bench = Bench::new();
        for opcode in [IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD] {
            let pair = bench.pair(Service::Rc);
            let none = ibv_qp_attr { qp_state: IBV_QPS_RTS, ..Default::default() };
            pair.b.modify(&none, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS).expect("no rights");
            let (address, key) = bench.remote(TARGET);
            pair.post(SendWr::new(1, opcode).sge(bench.sge(0, 8)).remote(address, key));
            expect_failure(&bench, &pair, IBV_WC_REM_INV_REQ_ERR);
        }
    }

    fn rem_inv_req_err_of_a_misaligned_atomic() {
        let bench = Bench::new();
        for service in RELIABLE {
            for opcode in [IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD] {
                let pair = bench.pair(service);
                let (address, key) = bench.remote(TARGET + 4);
                pair.post(SendWr::new(1, opcode).sge(bench.sge(0, 8)).remote(address, key));
                expect_failure(&bench, &pair, IBV_WC_REM_INV_REQ_ERR);
            }
        }
    }

    /// The receive of a WRITE with immediate completes with a local access error, because its own
    /// side's memory failed (IBTA vol 1, 11.6.2).
    fn loc_access_err_of_a_write_with_immediate() {
        let bench = Bench::new();
        let pair = bench.pair(Service::Rc);
        pair.post_receive(3, bench.sge(TARGET, 64));
        let (address, key) = bench.remote(TARGET);
        let wr = SendWr::new(1, IBV_WR_RDMA_WRITE_WITH_IMM).sge(bench.sge(0, 8)).immediate(7);
        pair.post(wr.remote(address, key ^ 0x5a5a_5a00));
        bench.receive_cq.expect(3, IBV_WC_LOC_ACCESS_ERR);
        expect_failure(&bench, &pair, IBV_WC_REM_ACCESS_ERR);
    }

    /// An atomic returns eight bytes. Less room is a length error; with more room, as with
    /// soft-RoCE, the first eight bytes are used.
    fn an_atomic_whose_room_is_not_eight_bytes() {
        let bench = Bench::new();
        let (address, key) = bench.remote(TARGET);
        for opcode in [IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD] {
            for length in [0, 4, 7] {
                let pair = bench.pair(Service::Rc);
                pair.post(SendWr::new(1, opcode).sge(bench.sge(0, length)).remote(address, key));
                expect_failure(&bench, &pair, IBV_WC_LOC_LEN_ERR);
            }
            let pair = bench.pair(Service::Rc);
            bench.buffer.write(0, &[0x5a; 16]);
            bench.buffer.write(TARGET, &pattern(8, 3));
            pair.post(SendWr::new(1, opcode).sge(bench.sge(0, 16)).remote(address, key));
            assert_eq!(bench.send_cq.expect(1, IBV_WC_SUCCESS).byte_len, 8);
            assert_eq!(bench.buffer.read(0, 8), pattern(8, 3));
            assert_eq!(bench.buffer.read(8, 8), [0x5a; 8]);
        }
    }

    fn rnr_retry_exc_err() {
        let bench = Bench::new();
        for service in RELIABLE {
            let pair = impatient(&bench, service, 2, None);
            pair.post(send(&bench, 8));
            expect_failure(&bench, &pair, IBV_WC_RNR_RETRY_EXC_ERR);
        }
    }

    /// rnr_retry 7 means retrying forever, so a late receive still completes the request.
    fn rnr_retry_7_waits() {
        let bench = Bench::new();
        let pair = impatient(&bench, Service::Rc, 7, None);
        pair.post(send(&bench, 8));
        // Longer than seven waits of the RNR timer.
        std::thread::sleep(Duration::from_millis(200));
        pair.post_receive(3, bench.sge(TARGET, 64));
        bench.send_cq.expect(1, IBV_WC_SUCCESS);
        bench.receive_cq.expect(3, IBV_WC_SUCCESS);
    }

    fn retry_exc_err_without_a_peer() {
        let bench = Bench::new();
        for service in RELIABLE {
            let pair = impatient(&bench, service, 7, Some(0xff_fff0));
            pair.post(send(&bench, 8));
            expect_failure(&bench, &pair, IBV_WC_RETRY_EXC_ERR);
        }
    }

    fn retry_exc_err_of_a_peer_that_is_gone() {
        let bench = Bench::new();
        let pair = impatient(&bench, Service::Rc, 7, None);
        pair.b.to_state(IBV_QPS_ERR).expect("ERR");
        pair.post(send(&bench, 8));
        expect_failure(&bench, &pair, IBV_WC_RETRY_EXC_ERR);
    }

    /// Unreliable senders get no error when a message is lost.
    fn unreliable_senders_succeed_into_nothing() {
        let bench = Bench::new();
        for service in [Service::Uc, Service::Ud] {
            let pair = bench.pair(service);
            pair.b.to_state(IBV_QPS_ERR).expect("ERR");
            pair.post(send(&bench, 8));
            bench.send_cq.expect(1, IBV_WC_SUCCESS);
            let pair = bench.pair(service);
            // Without a receive the message is dropped; the next one that has a receive arrives.
            pair.post(send(&bench, 8));
            bench.send_cq.expect(1, IBV_WC_SUCCESS);
            bench.settle();
            bench.receive_cq.expect_nothing();
            pair.post_receive(3, bench.sge(TARGET, 64));
            pair.post(send(&bench, 8));
            bench.send_cq.expect(1, IBV_WC_SUCCESS);
            bench.receive_cq.expect(3, IBV_WC_SUCCESS);
            assert_eq!(pair.b.state(), IBV_QPS_RTS, "{service:?}");
        }
    }

    /// A bad WRITE over UC is dropped silently; nothing is written, no QP fails.
    fn a_bad_write_over_uc_is_dropped() {
        let bench = Bench::new();
        let pair = bench.pair(Service::Uc);
        let (address, key) = bench.remote(TARGET);
        bench.buffer.fill(0, 64, 0xaa);
        let write = SendWr::new(1, IBV_WR_RDMA_WRITE).sge(bench.sge(0, 64));
        pair.post(write.clone().remote(address, key ^ 0x5a5a_5a00));
        bench.send_cq.expect(1, IBV_WC_SUCCESS);
        bench.settle();
        bench.receive_cq.expect_nothing();
        assert_eq!(bench.buffer.read(TARGET, 64), [0; 64]);
        pair.post(write.remote(address, key));
        bench.send_cq.expect(1, IBV_WC_SUCCESS);
        eventually("the next one arrives", TIMEOUT, || {
            bench.receive_cq.expect_nothing();
            bench.buffer.read(TARGET, 64) == [0xaa; 64]
        });
    }

    fn a_wrong_q_key_is_dropped() {
        let bench = Bench::new();
        let pair = bench.pair(Service::Ud);
        pair.post_receive(3, bench.sge(TARGET, 64));
        let ah = pair.ah.clone().expect("an AH");
        let wr = send(&bench, 8).datagram(&ah, pair.b.number(), Q_KEY ^ 1);
        pair.a.post_send(&wr).expect("post_send");
        bench.send_cq.expect(1, IBV_WC_SUCCESS);
        bench.receive_cq.expect_nothing();
        // With the highest bit set the QP's own Q_Key goes out (IBTA vol 1, 10.2.5).
        let wr = send(&bench, 8).datagram(&ah, pair.b.number(), 1 << 31);
        pair.a.post_send(&wr).expect("post_send");
        bench.send_cq.expect(1, IBV_WC_SUCCESS);
        bench.receive_cq.expect(3, IBV_WC_SUCCESS);
    }

    /// All outstanding requests of a failed QP complete, in the order of posting.
    fn flush_in_order() {
        let bench = Bench::new();
        for service in SERVICES {
            let pair = bench.pair(service);
            pair.a.to_state(IBV_QPS_SQD).expect("SQD");
            for id in 10..15 {
                let mut wr = send(&bench, 8);
                wr.id = id;
                // Unsignaled requests complete, too.
                pair.post(wr.flags(0));
            }
            let receives = service != Service::Xrc;
            for id in 20..25 {
                if receives {
                    let wr = ReceiveWr::new(id, bench.sge(TARGET, 64));
                    pair.a.post_receive(&wr).expect("post_recv");
                }
            }
            pair.a.to_state(IBV_QPS_ERR).expect("ERR");
            for id in 10..15 {
                let wc = bench.send_cq.expect(id, IBV_WC_WR_FLUSH_ERR);
                assert_eq!(wc.qp_num, pair.a.number());
            }
            for id in 20..25 {
                if receives {
                    bench.receive_cq.expect(id, IBV_WC_WR_FLUSH_ERR);
                }
            }
            bench.send_cq.expect_nothing();
            bench.receive_cq.expect_nothing();
        }
    }

    /// A message as long as the port allows arrives whole; one byte more is refused or fails.
    fn the_longest_message() {
        let bench = Bench::new();
        let max = bench.context.query_port(1).expect("query_port").max_msg_sz as usize;
        let length = max.min(64 << 20);
        let buffer = ferroce_verbs_client::memory::Buffer::new(2 * length);
        let mr = ferroce_verbs_client::bench::register_all(&bench.pd, &buffer);
        buffer.write(length - 64, &pattern(64, 1));
        let pair = bench.pair(Service::Rc);
        let sge = mr.sge(buffer.address(0), length as u32);
        let write = SendWr::new(1, IBV_WR_RDMA_WRITE).sge(sge);
        pair.post(write.remote(buffer.address(length), mr.rkey()));
        bench.send_cq.expect(1, IBV_WC_SUCCESS);
        let found = buffer.read(2 * length - 64, 64);
        assert_eq!(found, pattern(64, 1));
    }
}
