//! Limits of the requester's requests in flight, and the validity of their acknowledges.

use ferroce_rtl::seeds::for_each_seed;
use ferroce_spec::wqe::SendOpcode;
use ferroce_units::random::SplitMix64;

use crate::bench::{Bench, Queue};
use crate::bundles::Answer;
use crate::peer::{ACK, ACK_SYNDROME, Conduct, PSN_MASK};
use crate::random_queue;

const SEEDS: u64 = 4;
/// Maximum number of a QP's requests in flight.
const OUTSTANDING_MAX: u32 = 64;
/// Less than the shortest time-out of these programs.
const QUIET_CYCLES: u64 = 2000;

/// Returns a program of WRITEs without payload; the peer does not answer them until `answer`.
fn unanswered(random: &mut SplitMix64, wqes: u64) -> Queue {
    let conduct = Conduct {
        silent_from: Some(0),
        ..Conduct::default()
    };
    let mut queue = random_queue(random, 0, wqes, conduct);
    queue.context.log_send_blocks = 7;
    for (at, wqe) in queue.program.iter_mut().enumerate() {
        wqe.opcode = SendOpcode::RDMA_WRITE;
        (wqe.index, wqe.written_index, wqe.blocks) = (at as u32, at as u32, 1);
        (wqe.length, wqe.is_inline, wqe.fence) = (0, false, false);
        (wqe.segments, wqe.payload) = (Vec::new(), Vec::new());
    }
    queue
}

fn answer(bench: &mut Bench) {
    bench.queues[0].peer.conduct.silent_from = None;
    bench.run();
    let queue = &bench.queues[0];
    assert_eq!((queue.done, queue.has_failed), (queue.program.len(), false));
}

/// Goal: requests in flight do not exceed the limit, and the remaining ones follow.
#[test]
fn requests_in_flight_are_limited() {
    for_each_seed(SEEDS, |seed| {
        let mut bench = Bench::new(seed);
        let mut random = SplitMix64::new(seed);
        bench.start(unanswered(&mut random, 200));
        let begin = bench.rtl.cycles();
        while bench.rtl.cycles() < begin + QUIET_CYCLES {
            bench.post(0);
            (0..20).for_each(|_| bench.step());
        }
        let (next, oldest, ..) = bench.query(0);
        assert_eq!(next.wrapping_sub(oldest) & PSN_MASK, OUTSTANDING_MAX);
        answer(&mut bench);
    });
}

/// Goal: an acknowledge of an unsent PSN has no effect. Method: the PSN after the newest one.
#[test]
fn an_acknowledge_of_what_was_not_sent_changes_nothing() {
    for_each_seed(SEEDS, |seed| {
        let mut bench = Bench::new(seed);
        let mut random = SplitMix64::new(seed);
        bench.start(unanswered(&mut random, 1));
        assert!(bench.post(0));
        while bench.queues[0].peer.pass_ns.is_empty() {
            bench.step();
        }
        let early = Answer {
            number: 0,
            opcode: ACK,
            qp: 0,
            psn: bench.queues[0].first_psn.wrapping_add(1) & PSN_MASK,
            aeth: ACK_SYNDROME << 24,
            payload: Vec::new(),
        };
        bench.answers.push_back((bench.rtl.cycles(), early));
        (0..QUIET_CYCLES).for_each(|_| bench.step());
        let (next, oldest, ..) = bench.query(0);
        assert_eq!(next.wrapping_sub(oldest) & PSN_MASK, 1, "it was taken");
        answer(&mut bench);
        assert!(bench.queues[0].peer.duplicates > 0, "it was not sent again");
    });
}
