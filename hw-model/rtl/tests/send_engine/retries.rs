//! Retries: their count begins again with each progress, and RNR NAKs are obeyed for the time of
//! their code.

use ferroce_rtl::seeds::for_each_seed;
use ferroce_spec::wqe::SendOpcode;
use ferroce_units::random::SplitMix64;

use crate::bench::{Bench, Queue};
use crate::peer::{ACK, Conduct, Peer, rnr_ns};
use crate::program::{KEY_WRITABLE, Segment};
use crate::random_queue;

const SEEDS: u64 = 4;
/// Packets of a READ.
const PACKETS: u32 = 5;
/// Least and most difference of a pause from the time of its code.
const RNR_SLACK_NS: u64 = 5000;

/// Returns a program of a single WQE without payload.
fn single(random: &mut SplitMix64, opcode: SendOpcode) -> Queue {
    let mut queue = random_queue(random, 0, 1, Conduct::default());
    let wqe = &mut queue.program[0];
    wqe.opcode = opcode;
    (wqe.index, wqe.written_index, wqe.blocks) = (0, 0, 1);
    (wqe.length, wqe.is_inline, wqe.fence) = (0, false, false);
    (wqe.segments, wqe.payload) = (Vec::new(), Vec::new());
    queue
}

/// Goal: a READ response is progress: it begins the count of retries again. Method: one retry is
/// allowed, and each request for the READ or its rest is answered with one response only.
#[test]
fn each_read_response_allows_all_retries_again() {
    for_each_seed(SEEDS, |seed| {
        let mut bench = Bench::new(seed);
        let mut random = SplitMix64::new(seed);
        let mut queue = single(&mut random, SendOpcode::RDMA_READ);
        queue.context.retry_count = 1;
        let mtu = 128 << queue.context.path_mtu;
        queue.peer = Peer::new(0, mtu, queue.first_psn, Conduct::default());
        let wqe = &mut queue.program[0];
        wqe.length = PACKETS * mtu;
        wqe.segments = vec![Segment {
            address: 1 << 40,
            length: wqe.length,
            key: KEY_WRITABLE,
        }];
        bench.start(queue);
        assert!(bench.post(0));
        while bench.queues[0].done == 0 {
            bench.advance();
            bench.answers.retain(|(_, answer)| answer.opcode != ACK);
            bench.answers.truncate(1);
        }
        assert!(
            !bench.queues[0].has_failed,
            "{:?}",
            bench.queues[0].completions
        );
        let requests = bench.queues[0].peer.times_ns.len();
        assert_eq!(requests, PACKETS as usize, "requests of the READ");
    });
}

/// Goal: the pause after an RNR NAK is that of its code (IBTA vol 1, table 45). Method: a SEND that
/// is refused once, with each code.
#[test]
fn an_rnr_nak_pauses_for_the_time_of_its_code() {
    for code in 0..32 {
        let mut bench = Bench::new(code.into());
        let mut random = SplitMix64::new(code.into());
        let mut queue = single(&mut random, SendOpcode::SEND);
        queue.peer.conduct.refuse = Some((0, 0x20 | code));
        bench.start(queue);
        assert!(bench.post(0));
        while bench.queues[0].peer.silence.is_none() {
            bench.advance();
        }
        bench.queues[0].peer.conduct.refuse = None;
        let refused_ns = bench.now_ns;
        bench.run();
        let queue = &bench.queues[0];
        assert_eq!((queue.done, queue.has_failed), (1, false), "code {code}");
        let [_, again_ns] = queue.peer.times_ns[..] else {
            panic!("code {code}: {:?}", queue.peer.times_ns);
        };
        let (pause_ns, expected_ns) = (again_ns - refused_ns, rnr_ns(code));
        assert!(
            pause_ns.abs_diff(expected_ns) < RNR_SLACK_NS,
            "code {code}: {pause_ns} ns, not {expected_ns} ns"
        );
    }
}
