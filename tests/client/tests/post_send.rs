//! Every opcode over every service, by both send APIs; and the posts that are refused.

use ferroce_tests::{TIMEOUT, eventually};
use ferroce_verbs_client::bench::{Bench, Pair, SERVICES, Service, TARGET, pattern};
use ferroce_verbs_client::cq::imm_data;
use ferroce_verbs_client::qp::{CAP, QpConfig};
use ferroce_verbs_client::sys::*;
use ferroce_verbs_client::verbs_tests;
use ferroce_verbs_client::work_request::{ReceiveWr, SendWr};

const LENGTHS: [usize; 9] = [0, 1, 3, 4, 1023, 1024, 1025, 4097, 100_001];
const DATAGRAM_LENGTHS: [usize; 5] = [0, 1, 3, 64, 1024];
const IMMEDIATE: u32 = 0x0123_4567_u32.to_be();

fn lengths(service: Service) -> &'static [usize] {
    if service == Service::Ud {
        &DATAGRAM_LENGTHS
    } else {
        &LENGTHS
    }
}

/// A pair, and its send API.
struct Side {
    pair: Pair,
    is_built: bool,
}

/// Returns every service by every API.
fn sides(bench: &Bench) -> Vec<Side> {
    let both = |service| {
        [
            Side {
                pair: bench.pair(service),
                is_built: false,
            },
            Side {
                pair: bench.pair_with_builder(service),
                is_built: true,
            },
        ]
    };
    SERVICES.into_iter().flat_map(both).collect()
}

impl Side {
    #[track_caller]
    fn post(&self, wr: SendWr) {
        if self.is_built {
            self.pair.post_built(wr);
        } else {
            self.pair.post(wr);
        }
    }

    fn what(&self) -> String {
        format!("{:?}, new API: {}", self.pair.service, self.is_built)
    }
}

/// Pieces of a message: up to three data segments.
fn pieces(bench: &Bench, offset: usize, length: usize) -> Vec<ibv_sge> {
    let cut = length / 3;
    let at = [0, cut, 2 * cut, length];
    (0..3)
        .map(|piece| bench.sge(offset + at[piece], at[piece + 1] - at[piece]))
        .filter(|sge| sge.length > 0)
        .collect()
}

fn check_send(bench: &Bench, side: &Side, length: usize, with_immediate: bool) {
    let what = format!("{}, {length} bytes", side.what());
    let header = side.pair.service.header();
    bench.buffer.write(0, &pattern(length, length as u8));
    bench.buffer.fill(TARGET, length + header + 1, 0);
    side.pair
        .post_receive(1, bench.sge(TARGET, length + header + 1));
    let opcode = if with_immediate {
        IBV_WR_SEND_WITH_IMM
    } else {
        IBV_WR_SEND
    };
    let mut wr = SendWr::new(2, opcode).immediate(IMMEDIATE);
    wr.sges = pieces(bench, 0, length);
    side.post(wr);
    let wc = bench.send_cq.expect(2, IBV_WC_SUCCESS);
    assert_eq!(
        (wc.opcode, wc.qp_num),
        (IBV_WC_SEND, side.pair.a.number()),
        "{what}"
    );
    let wc = bench.receive_cq.expect(1, IBV_WC_SUCCESS);
    assert_eq!(
        (wc.opcode, wc.byte_len as usize),
        (IBV_WC_RECV, length + header),
        "{what}"
    );
    let grh = if header > 0 { IBV_WC_GRH } else { 0 };
    let flag = if with_immediate { IBV_WC_WITH_IMM } else { 0 };
    assert_eq!(wc.wc_flags, grh | flag, "{what}");
    if with_immediate {
        assert_eq!(imm_data(&wc), IMMEDIATE, "{what}");
    }
    let found = bench.buffer.read(TARGET + header, length + 1);
    assert_eq!(found[..length], pattern(length, length as u8), "{what}");
    assert_eq!(found[length], 0, "{what}: a byte too many");
}

fn check_write(bench: &Bench, side: &Side, length: usize, with_immediate: bool) {
    let what = format!("{}, {length} bytes", side.what());
    bench.buffer.write(0, &pattern(length, !length as u8));
    bench.buffer.fill(TARGET, length + 1, 0);
    let (address, key) = bench.remote(TARGET);
    let opcode = if with_immediate {
        IBV_WR_RDMA_WRITE_WITH_IMM
    } else {
        IBV_WR_RDMA_WRITE
    };
    let mut wr = SendWr::new(3, opcode)
        .remote(address, key)
        .immediate(IMMEDIATE);
    wr.sges = pieces(bench, 0, length);
    if with_immediate {
        side.pair.post_receive(4, bench.sge(0, 0));
    }
    side.post(wr);
    assert_eq!(
        bench.send_cq.expect(3, IBV_WC_SUCCESS).opcode,
        IBV_WC_RDMA_WRITE,
        "{what}"
    );
    if with_immediate {
        let wc = bench.receive_cq.expect(4, IBV_WC_SUCCESS);
        assert_eq!(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM, "{what}");
        assert_eq!(
            (wc.wc_flags, imm_data(&wc)),
            (IBV_WC_WITH_IMM, IMMEDIATE),
            "{what}"
        );
        assert_eq!(wc.byte_len as usize, length, "{what}");
    } else if !side.pair.service.is_reliable() {
        // A completed send may not have arrived yet.
        eventually(&what, TIMEOUT, || {
            bench.send_cq.expect_nothing();
            bench.buffer.read(TARGET, length) == pattern(length, !length as u8)
        });
    }
    let found = bench.buffer.read(TARGET, length + 1);
    assert_eq!(found[..length], pattern(length, !length as u8), "{what}");
    assert_eq!(found[length], 0, "{what}: a byte too many");
}

fn check_read(bench: &Bench, side: &Side, length: usize) {
    let what = format!("{}, {length} bytes", side.what());
    bench.buffer.write(TARGET, &pattern(length, 1));
    bench.buffer.fill(0, length + 1, 0);
    let (address, key) = bench.remote(TARGET);
    let mut wr = SendWr::new(5, IBV_WR_RDMA_READ).remote(address, key);
    wr.sges = pieces(bench, 0, length);
    side.post(wr);
    let wc = bench.send_cq.expect(5, IBV_WC_SUCCESS);
    assert_eq!(
        (wc.opcode, wc.byte_len as usize),
        (IBV_WC_RDMA_READ, length),
        "{what}"
    );
    let found = bench.buffer.read(0, length + 1);
    assert_eq!(found[..length], pattern(length, 1), "{what}");
    assert_eq!(found[length], 0, "{what}: a byte too many");
}

fn reliable(bench: &Bench) -> Vec<Side> {
    let mut sides = sides(bench);
    sides.retain(|side| side.pair.service.is_reliable());
    sides
}

verbs_tests! {
    fn sends_of_every_length() {
        let bench = Bench::new();
        for side in sides(&bench) {
            for length in lengths(side.pair.service) {
                check_send(&bench, &side, *length, false);
                check_send(&bench, &side, *length, true);
            }
        }
    }

    fn writes_of_every_length() {
        let bench = Bench::new();
        for side in sides(&bench).iter().filter(|side| side.pair.service != Service::Ud) {
            for length in LENGTHS {
                check_write(&bench, side, length, false);
                check_write(&bench, side, length, true);
            }
        }
    }

    fn reads_of_every_length() {
        let bench = Bench::new();
        for side in reliable(&bench) {
            for length in LENGTHS {
                check_read(&bench, &side, length);
            }
        }
    }

    fn atomics_do_what_they_say() {
        let bench = Bench::new();
        for side in reliable(&bench) {
            let (address, key) = bench.remote(TARGET);
            bench.buffer.write_u64(TARGET, u64::MAX - 1);
            let add = SendWr::new(1, IBV_WR_ATOMIC_FETCH_AND_ADD).sge(bench.sge(0, 8));
            side.post(add.remote(address, key).operands(3, 0));
            let wc = bench.send_cq.expect(1, IBV_WC_SUCCESS);
            assert_eq!((wc.opcode, wc.byte_len), (IBV_WC_FETCH_ADD, 8), "{}", side.what());
            assert_eq!(bench.buffer.read_u64(0), u64::MAX - 1, "{}", side.what());
            assert_eq!(bench.buffer.read_u64(TARGET), 1, "it wraps, {}", side.what());
            for (compare, expected) in [(7, 1), (1, 99)] {
                let before = bench.buffer.read_u64(TARGET);
                let swap = SendWr::new(2, IBV_WR_ATOMIC_CMP_AND_SWP).sge(bench.sge(0, 8));
                side.post(swap.remote(address, key).operands(compare, 99));
                let wc = bench.send_cq.expect(2, IBV_WC_SUCCESS);
                assert_eq!(wc.opcode, IBV_WC_COMP_SWAP, "{}", side.what());
                assert_eq!(bench.buffer.read_u64(0), before, "{}", side.what());
                assert_eq!(bench.buffer.read_u64(TARGET), expected, "{}", side.what());
            }
        }
    }

    /// As with mlx5 and soft-RoCE; bytes after the eighth do not change.
    fn the_result_of_an_atomic_is_scattered() {
        let bench = Bench::new();
        for side in reliable(&bench) {
            let (address, key) = bench.remote(TARGET);
            for (lengths, places) in [([4, 4, 0], [0, 100, 200]), ([3, 0, 9], [300, 400, 500])] {
                bench.buffer.write(0, &[0x5a; 600]);
                bench.buffer.write(TARGET, &pattern(8, 9));
                let mut wr = SendWr::new(1, IBV_WR_ATOMIC_FETCH_AND_ADD).remote(address, key);
                wr.sges = (0..3).map(|i| bench.sge(places[i], lengths[i])).collect();
                side.post(wr.operands(1, 0));
                let wc = bench.send_cq.expect(1, IBV_WC_SUCCESS);
                assert_eq!((wc.opcode, wc.byte_len), (IBV_WC_FETCH_ADD, 8), "{}", side.what());
                let mut expected = [0x5a; 600];
                let mut result = pattern(8, 9).into_iter();
                for (place, length) in places.into_iter().zip(lengths) {
                    let element = expected[place..place + length].iter_mut();
                    element.zip(&mut result).for_each(|(byte, value)| *byte = value);
                }
                assert_eq!(bench.buffer.read(0, 600), expected, "{lengths:?}, {}", side.what());
            }
        }
    }

    /// An atomic may have as many elements as the queue allows, and so may each request of a full
    /// queue. Less than eight bytes in total are a length error.
    fn an_atomic_with_the_longest_list() {
        let bench = Bench::new();
        let most = bench.context.query_device().expect("query_device").max_sge as u32;
        let (address, key) = bench.remote(TARGET);
        for max_send_sge in [1, 2, 3, 6, 7, most] {
            let cap = ibv_qp_cap { max_send_sge, ..CAP };
            let config = QpConfig { cap, ..bench.config(IBV_QPT_RC) };
            let pair = bench.pair_of(Service::Rc, &config);
            let granted = pair.a.query().expect("query_qp").1.cap;
            assert!(granted.max_send_sge >= max_send_sge);
            let count = granted.max_send_sge as usize;
            bench.buffer.write_u64(TARGET, 0x0102_0304_0506_0708);
            for id in 0..u64::from(granted.max_send_wr) {
                let mut wr = SendWr::new(id, IBV_WR_ATOMIC_CMP_AND_SWP).remote(address, key);
                wr.sges = vec![bench.sge(0, 0); count - 1];
                wr.sges.push(bench.sge(64, 8));
                pair.post(wr);
            }
            for id in 0..u64::from(granted.max_send_wr) {
                bench.send_cq.expect(id, IBV_WC_SUCCESS);
            }
            assert_eq!(bench.buffer.read_u64(64), 0x0102_0304_0506_0708);
            let mut wr = SendWr::new(1, IBV_WR_ATOMIC_FETCH_AND_ADD).remote(address, key);
            wr.sges = vec![bench.sge(0, 8); count + 1];
            assert_eq!(pair.try_post(wr.clone()), Err(libc::EINVAL), "{count} elements");
            wr.sges = vec![bench.sge(0, 0); count - 1];
            wr.sges.push(bench.sge(0, 7));
            pair.post(wr);
            bench.send_cq.expect(1, IBV_WC_LOC_LEN_ERR);
        }
    }

    /// Inline data is copied into the request: the buffer can be reused when the post returns, and
    /// needs no key.
    fn inline_data() {
        let bench = Bench::new();
        for side in sides(&bench) {
            for length in [0, 1, 13, CAP.max_inline_data as usize] {
                let header = side.pair.service.header();
                bench.buffer.write(0, &pattern(length, 3));
                side.pair.post_receive(1, bench.sge(TARGET, 256));
                let flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
                let mut wr = SendWr::new(2, IBV_WR_SEND).flags(flags);
                wr.sges = pieces(&bench, 0, length);
                for sge in &mut wr.sges {
                    sge.lkey = 0xdead_beef;
                }
                side.post(wr);
                bench.buffer.fill(0, length.max(1), 0xee);
                bench.send_cq.expect(2, IBV_WC_SUCCESS);
                let wc = bench.receive_cq.expect(1, IBV_WC_SUCCESS);
                assert_eq!(wc.byte_len as usize, length + header, "{}", side.what());
                let found = bench.buffer.read(TARGET + header, length);
                assert_eq!(found, pattern(length, 3), "{}", side.what());
            }
        }
    }

    /// Opcodes that a service does not have are refused when they are posted.
    fn operations_that_a_service_lacks() {
        let bench = Bench::new();
        let reads = [IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD];
        let writes = [IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM];
        let all = [&reads[..], &writes[..]].concat();
        for (service, opcodes) in [(Service::Uc, &reads[..]), (Service::Ud, &all[..])] {
            let pair = bench.pair(service);
            for opcode in opcodes {
                let (address, key) = bench.remote(TARGET);
                let wr = SendWr::new(1, *opcode).sge(bench.sge(0, 8)).remote(address, key);
                let result = pair.try_post(wr);
                assert_eq!(result, Err(libc::EINVAL), "{service:?}, opcode {opcode}");
            }
            bench.send_cq.expect_nothing();
            assert_eq!(pair.a.state(), IBV_QPS_RTS);
        }
        let pair = bench.pair(Service::Rc);
        for opcode in [IBV_WR_TSO, 60, 200] {
            let result = pair.try_post(SendWr::new(1, opcode).sge(bench.sge(0, 8)));
            assert!(matches!(result, Err(libc::EINVAL | libc::EOPNOTSUPP)), "opcode {opcode}");
        }
    }

    /// Requests before the bad one are posted.
    fn a_full_send_queue() {
        let bench = Bench::new();
        for service in SERVICES {
            let pair = bench.pair(service);
            // In SQD no request leaves the queue.
            pair.a.to_state(IBV_QPS_SQD).expect("SQD");
            let room = pair.a.query().expect("query_qp").1.cap.max_send_wr as usize;
            let wr = pair.addressed(SendWr::new(1, IBV_WR_SEND).sge(bench.sge(0, 8)));
            pair.a.post_sends(&vec![wr.clone(); room - 1]).expect("room for all");
            assert_eq!(pair.a.post_sends(&[wr.clone(), wr.clone()]), Err((libc::ENOMEM, 1)));
            assert_eq!(pair.a.post_sends(&[wr]), Err((libc::ENOMEM, 0)), "{service:?}");
        }
    }

    fn a_full_receive_queue() {
        let bench = Bench::new();
        for qp_type in [IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD] {
            let qp = bench.qp(qp_type).expect("a QP");
            qp.to_init().expect("INIT");
            let room = qp.query().expect("query_qp").1.cap.max_recv_wr as usize;
            let wr = ReceiveWr::new(1, bench.sge(0, 64));
            qp.post_receives(&vec![wr.clone(); room - 1]).expect("room for all");
            assert_eq!(qp.post_receives(&[wr.clone(), wr.clone()]), Err((libc::ENOMEM, 1)));
            assert_eq!(qp.post_receives(&[wr]), Err((libc::ENOMEM, 0)), "type {qp_type}");
        }
    }

    fn too_many_segments_and_too_much_inline() {
        let bench = Bench::new();
        for service in SERVICES {
            let pair = bench.pair(service);
            let cap = pair.a.query().expect("query_qp").1.cap;
            let good = pair.addressed(SendWr::new(1, IBV_WR_SEND).sge(bench.sge(0, 8)));
            let mut wide = good.clone();
            wide.sges = vec![bench.sge(0, 8); cap.max_send_sge as usize + 1];
            pair.post_receive(9, bench.sge(TARGET, 256));
            assert_eq!(pair.a.post_sends(&[good.clone(), wide]), Err((libc::EINVAL, 1)));
            bench.send_cq.expect(1, IBV_WC_SUCCESS);
            bench.receive_cq.expect(9, IBV_WC_SUCCESS);
            let mut long = good.flags(IBV_SEND_SIGNALED | IBV_SEND_INLINE);
            long.sges = vec![bench.sge(0, cap.max_inline_data as usize + 1)];
            assert_eq!(pair.a.post_sends(&[long]), Err((libc::EINVAL, 0)), "{service:?}");
            if pair.srq.is_none() {
                let sges = vec![bench.sge(0, 8); cap.max_recv_sge as usize + 1];
                let wr = ReceiveWr { id: 1, sges };
                assert_eq!(pair.b.post_receives(&[wr]), Err((libc::EINVAL, 0)), "{service:?}");
            }
        }
    }

    /// A message that is too long for a UD packet, or for the port.
    fn messages_that_are_too_long() {
        let bench = Bench::new();
        let pair = bench.pair(Service::Ud);
        let mtu = bench.context.query_port(1).expect("query_port").active_mtu;
        let longest = 128 << mtu;
        let result = pair.try_post(SendWr::new(1, IBV_WR_SEND).sge(bench.sge(0, longest + 1)));
        if result.is_ok() {
            bench.send_cq.expect(1, IBV_WC_LOC_LEN_ERR);
        } else {
            assert_eq!(result, Err(libc::EINVAL));
        }
    }

    fn an_aborted_batch_leaves_nothing() {
        let bench = Bench::new();
        let pair = bench.pair_with_builder(Service::Rc);
        let (address, key) = bench.remote(TARGET);
        let write = SendWr::new(0, IBV_WR_RDMA_WRITE).sge(bench.sge(0, 8)).remote(address, key);
        let write = |id| SendWr { id, ..write.clone() };
        pair.a.build_and_abort(&[write(1), write(2)]);
        bench.send_cq.expect_nothing();
        pair.a.post_built(&[write(3), write(4)]).expect("wr_complete");
        bench.send_cq.expect(3, IBV_WC_SUCCESS);
        bench.send_cq.expect(4, IBV_WC_SUCCESS);
        // Too many for the queue: all or nothing.
        let many: Vec<_> = (0..100_000).map(write).collect();
        assert_eq!(pair.a.post_built(&many), Err(libc::ENOMEM));
        bench.send_cq.expect_nothing();
    }

    /// Only signaled requests have completions, which also complete the earlier requests.
    fn unsignaled_requests() {
        let bench = Bench::new();
        for side in sides(&bench) {
            let room = side.pair.a.query().expect("query_qp").1.cap.max_send_wr as u64;
            for round in 0..3 {
                for id in 0..room {
                    side.pair.post_receive(50, bench.sge(TARGET, 256));
                    let flags = if id + 1 == room { IBV_SEND_SIGNALED } else { 0 };
                    let wr = SendWr::new(round * 1000 + id, IBV_WR_SEND);
                    side.post(wr.flags(flags).sge(bench.sge(0, 8)));
                    bench.receive_cq.expect(50, IBV_WC_SUCCESS);
                }
                bench.send_cq.expect(round * 1000 + room - 1, IBV_WC_SUCCESS);
                bench.send_cq.expect_nothing();
            }
        }
    }

    fn sq_sig_all_signals_everything() {
        let bench = Bench::new();
        let config = QpConfig { sq_sig_all: true, ..bench.config(IBV_QPT_RC) };
        let pair = bench.pair_of(Service::Rc, &config);
        let (address, key) = bench.remote(TARGET);
        for id in 0..5 {
            let write = SendWr::new(id, IBV_WR_RDMA_WRITE).flags(0).sge(bench.sge(0, 8));
            pair.post(write.remote(address, key));
        }
        for id in 0..5 {
            bench.send_cq.expect(id, IBV_WC_SUCCESS);
        }
    }

    /// A fenced request waits for earlier READs.
    fn a_fence_waits_for_reads() {
        let bench = Bench::new();
        let pair = bench.pair(Service::Rc);
        for round in 0..50_u8 {
            bench.buffer.write(TARGET, &pattern(8192, round));
            let (source, key) = bench.remote(TARGET);
            let read = SendWr::new(1, IBV_WR_RDMA_READ).sge(bench.sge(0, 8192));
            pair.post(read.remote(source, key));
            // The data that was just read is sent.
            let (target, key) = bench.remote(TARGET + 16384);
            let flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE;
            let write = SendWr::new(2, IBV_WR_RDMA_WRITE).flags(flags).sge(bench.sge(0, 8192));
            pair.post(write.remote(target, key));
            bench.send_cq.expect(1, IBV_WC_SUCCESS);
            bench.send_cq.expect(2, IBV_WC_SUCCESS);
            assert_eq!(bench.buffer.read(TARGET + 16384, 8192), pattern(8192, round));
        }
    }
}
