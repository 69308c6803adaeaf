//! The send engine with a host and a peer around it: random programs, losses, refusals and faults.
//! The peer checks every packet, the host every completion and the data of READs.

mod bench;
mod bundles;
mod datagrams;
mod limits;
mod peer;
mod program;
mod retries;

use bench::{Bench, Queue, STATE_ERR, STATE_RTS};
use bundles::Qp;
use ferroce_rtl::seeds::for_each_seed;
use ferroce_spec::cqe::CqeStatus;
use ferroce_units::random::SplitMix64;
use peer::{Conduct, Peer};
use program::{KEY_BAD, KEY_READABLE, random_wqe};

const SEEDS: u64 = 10;
const QPS: u8 = 4;
const WQES: u64 = 60;

/// A QP with a random context and program; its last WQE is signaled.
fn random_queue(random: &mut SplitMix64, qp: u8, wqes: u64, conduct: Conduct) -> Queue {
    let context = Qp {
        state: STATE_RTS,
        path_mtu: 1 + random.below(4) as u8,
        pd: random.below(1 << 24) as u32,
        send_cqn: random.number() as u8,
        send_base: 0x1000_0000 * u64::from(qp + 1) + 64 * random.below(64),
        log_send_blocks: 5 + random.below(3) as u8,
        dest_qpn: random.below(1 << 24) as u32,
        retry_count: 7,
        rnr_retry: 7,
        timeout: 2 + random.below(3) as u8,
        max_rd_atomic: 1 + random.below(4) as u8,
        q_key: None,
    };
    let first_psn = match random.below(2) {
        0 => 0xff_ffff - random.below(100) as u32,
        _ => random.below(1 << 24) as u32,
    };
    let mut index = 0;
    let program = (0..wqes).map(|number| {
        let place = (u64::from(qp), number);
        let mut wqe = random_wqe(random, place, index, 128 << context.path_mtu);
        // Enough completions to free the ring.
        wqe.signaled |= number % 2 == 0 || number + 1 == wqes;
        index += wqe.blocks;
        wqe
    });
    let program: Vec<_> = program.collect();
    Queue {
        post_limit: program.len(),
        program,
        peer: Peer::new(qp, 128 << context.path_mtu, first_psn, conduct),
        context,
        posted: 0,
        done: 0,
        completions: Vec::new(),
        first_psn,
        has_failed: false,
        left: 0,
    }
}

fn bench_with(seed: u64, conduct: Conduct) -> Bench {
    let mut bench = Bench::new(seed);
    let mut random = SplitMix64::new(seed ^ 0x55);
    for qp in 0..QPS {
        bench.start(random_queue(&mut random, qp, WQES, conduct));
    }
    bench.stall = [0, 2, 3, 8][seed as usize % 4];
    bench
}

fn check_all_done(bench: &mut Bench) {
    for qp in 0..QPS {
        let (next, oldest, producer, fetched) = bench.query(qp);
        let queue = &bench.queues[usize::from(qp)];
        assert_eq!(
            (queue.done, queue.has_failed),
            (queue.program.len(), false),
            "QP {qp}"
        );
        assert_eq!((next, producer), (oldest, fetched), "QP {qp}");
    }
    assert_eq!(bench.doorbell_errors, 0);
}

#[test]
fn programs_without_losses() {
    for_each_seed(SEEDS, |seed| {
        let mut bench = bench_with(seed, Conduct::default());
        bench.run();
        check_all_done(&mut bench);
        let duplicates: u64 = bench.queues.iter().map(|queue| queue.peer.duplicates).sum();
        println!("{} cycles, {duplicates} duplicates", bench.rtl.cycles());
        assert_eq!(duplicates, 0, "nothing was lost");
    });
}

/// Goal: at most 64 requests are outstanding, and the time of an RNR NAK is kept. Method: many
/// short WQEs, few completions; the peer checks the time.
#[test]
fn long_rings_of_short_messages() {
    for_each_seed(SEEDS, |seed| {
        let conduct = Conduct {
            rnr: [0, 20][seed as usize % 2],
            ..Conduct::default()
        };
        let mut bench = Bench::new(seed);
        let mut random = SplitMix64::new(seed ^ 0x33);
        let mut queue = random_queue(&mut random, 0, 400, conduct);
        queue.context.log_send_blocks = 7;
        for (at, wqe) in queue.program.iter_mut().enumerate() {
            (wqe.index, wqe.written_index, wqe.blocks) = (at as u32, at as u32, 1);
            wqe.signaled = at % 100 == 99;
            if wqe.is_atomic() {
                wqe.opcode = ferroce_spec::wqe::SendOpcode::RDMA_READ;
            }
            wqe.fence = random.below(50) == 0;
            wqe.segments.truncate(1);
            wqe.length = wqe.segments.first().map_or(0, |s| s.length);
            (wqe.is_inline, wqe.payload) = (false, Vec::new());
            if !wqe.fetches() {
                wqe.segments.clear();
                wqe.length = 0;
            }
        }
        bench.start(queue);
        bench.run();
        assert_eq!(bench.queues[0].done, 400);
    });
}

/// Goal: the send side is no bottleneck for long messages. Method: one QP, a host that never
/// stalls; a packet of 4096 bytes is 66 beats of 64 bytes, one of 1024 bytes 18.
#[test]
fn cycles_for_each_packet() {
    for (path_mtu, most) in [(5, 66), (3, 40)] {
        let mut bench = Bench::new(1);
        bench.stall = 0;
        let mut random = SplitMix64::new(1);
        let mut queue = random_queue(&mut random, 0, 4, Conduct::default());
        queue.context.path_mtu = path_mtu;
        queue.peer = Peer::new(0, 128 << path_mtu, queue.first_psn, Conduct::default());
        for (at, wqe) in queue.program.iter_mut().enumerate() {
            let (address, length) = ((1 << 40) + 300, 1 << 18);
            let segment = program::Segment {
                address,
                length,
                key: KEY_READABLE,
            };
            wqe.opcode = ferroce_spec::wqe::SendOpcode::RDMA_WRITE;
            (wqe.index, wqe.written_index, wqe.blocks) = (at as u32, at as u32, 1);
            (wqe.length, wqe.is_inline, wqe.fence) = (length, false, false);
            wqe.segments = vec![segment];
            let bytes = 0..u64::from(length);
            wqe.payload = bytes.map(|i| program::content(address + i)).collect();
        }
        bench.start(queue);
        let begin = bench.rtl.cycles();
        bench.run();
        let packets = 4 * (1u64 << 18) / (128 << path_mtu);
        let cycles = (bench.rtl.cycles() - begin) / packets;
        println!("MTU {}: {cycles} cycles a packet", 128 << path_mtu);
        assert!(cycles <= most);
    }
}

#[test]
fn programs_with_losses_and_rnr_naks() {
    let mut seen = [0; 2];
    for_each_seed(SEEDS, |seed| {
        let conduct = Conduct {
            loss: [100, 20, 8][seed as usize % 3],
            rnr: [0, 8][seed as usize % 2],
            ..Conduct::default()
        };
        let mut bench = bench_with(seed, conduct);
        bench.run();
        check_all_done(&mut bench);
        for queue in &bench.queues {
            seen[0] += queue.peer.duplicates;
            seen[1] += queue.peer.rnr_naks;
        }
    });
    println!("duplicates, RNR NAKs: {seen:?}");
    assert!(seen.iter().all(|count| *count > 10));
}

/// Reason for the early end of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Refused(u32, CqeStatus),
    Silent,
    RnrForever,
    LocalKey,
    ReadKey,
    Payload,
    Garbled,
    Stale,
    Ring,
    HostError,
}

const FAULTS: [Fault; 14] = [
    Fault::Refused(0x61, CqeStatus::REMOTE_INVALID_REQUEST),
    Fault::Refused(0x62, CqeStatus::REMOTE_ACCESS),
    Fault::Refused(0x63, CqeStatus::REMOTE_OPERATION),
    Fault::Refused(0x64, CqeStatus::REMOTE_INVALID_REQUEST),
    Fault::Refused(0x66, CqeStatus::BAD_RESPONSE),
    Fault::Silent,
    Fault::RnrForever,
    Fault::LocalKey,
    Fault::ReadKey,
    Fault::Payload,
    Fault::Garbled,
    Fault::Stale,
    Fault::Ring,
    Fault::HostError,
];

/// Puts a fault into a program; returns the failing WQE and its status. `None`: no WQE can fail in
/// this way.
fn inject(random: &mut SplitMix64, queue: &mut Queue, fault: Fault) -> Option<(usize, CqeStatus)> {
    let begin = random.below(queue.program.len() as u64 / 2) as usize;
    let find = |wanted: &dyn Fn(&program::Wqe) -> bool| {
        (begin..queue.program.len()).find(|at| wanted(&queue.program[*at]))
    };
    let at = match fault {
        Fault::RnrForever => find(&|wqe| wqe.takes_receive() && !wqe.is_write())?,
        Fault::LocalKey | Fault::Payload => {
            find(&|wqe| !wqe.fetches() && !wqe.is_inline && wqe.length > 0)?
        }
        Fault::ReadKey | Fault::Garbled => find(&|wqe| wqe.fetches() && wqe.length > 0)?,
        _ => find(&|wqe| !wqe.is_nop())?,
    };
    let message = queue.program[..at]
        .iter()
        .filter(|wqe| !wqe.is_nop())
        .count();
    let conduct = &mut queue.peer.conduct;
    let status = match fault {
        Fault::Refused(syndrome, status) => {
            conduct.refuse = Some((message, syndrome));
            status
        }
        Fault::RnrForever => {
            conduct.refuse = Some((message, 0x21));
            queue.context.rnr_retry = random.below(7) as u8;
            CqeStatus::RNR_RETRY_EXCEEDED
        }
        Fault::Silent => {
            conduct.silent_from = Some(message);
            queue.context.retry_count = random.below(7) as u8;
            CqeStatus::RETRY_EXCEEDED
        }
        Fault::LocalKey | Fault::ReadKey => {
            let with_bytes = queue.program[at]
                .segments
                .iter_mut()
                .filter(|s| s.length > 0);
            let mut with_bytes: Vec<_> = with_bytes.collect();
            let which = random.below(with_bytes.len() as u64) as usize;
            with_bytes[which].key = if fault == Fault::ReadKey {
                KEY_READABLE
            } else {
                KEY_BAD
            };
            CqeStatus::LOCAL_PROTECTION
        }
        Fault::Payload => CqeStatus::LOCAL_PROTECTION,
        Fault::Garbled => {
            conduct.garble = Some(message);
            CqeStatus::BAD_RESPONSE
        }
        Fault::Stale => {
            queue.program[at].written_index ^= 1 << random.below(32);
            queue.program.truncate(at + 1);
            queue.post_limit = at + 1;
            CqeStatus::LOCAL_QP_OPERATION
        }
        Fault::Ring => {
            queue.program[at].segments.truncate(0);
            queue.program[at].opcode = ferroce_spec::wqe::SendOpcode::FLUSH;
            CqeStatus::LOCAL_QP_OPERATION
        }
        Fault::HostError => CqeStatus::WR_FLUSH,
    };
    Some((at, status))
}

/// A silent peer has received the oldest packet once more for each retry, not before the time-out.
fn check_passes(queue: &Queue) {
    let passes = &queue.peer.pass_ns;
    assert_eq!(passes.len(), usize::from(queue.context.retry_count) + 1);
    let timeout_ns = 4096 << queue.context.timeout;
    // An earlier packet may have started the timer; a packet takes some time.
    let pairs = passes.windows(2).skip(1);
    assert!(
        pairs
            .map(|pair| pair[1] - pair[0])
            .all(|ns| ns + timeout_ns / 4 >= timeout_ns)
    );
}

#[test]
fn a_failure_ends_the_program_and_flushes_the_rest_in_order() {
    let mut seen = [0; FAULTS.len()];
    for_each_seed(10 * SEEDS, |seed| {
        let fault = FAULTS[seed as usize % FAULTS.len()];
        let mut bench = Bench::new(seed);
        bench.stall = [0, 2, 3, 8][seed as usize % 4];
        let mut random = SplitMix64::new(seed ^ 0x77);
        // QP 0 fails; this must not affect QP 1.
        let mut queue = random_queue(&mut random, 0, WQES, Conduct::default());
        let Some((at, status)) = inject(&mut random, &mut queue, fault) else {
            return;
        };
        if fault == Fault::Payload {
            let used = queue.program[at].segments.iter().find(|s| s.length > 0);
            let used = used.expect("it has bytes");
            bench.unreadable = used.address..used.address + 1;
        }
        bench.start(queue);
        bench.start(random_queue(&mut random, 1, WQES, Conduct::default()));
        if fault == Fault::HostError {
            let cycles = bench.rtl.cycles() + 500 + random.below(3000);
            while bench.rtl.cycles() < cycles {
                bench.post(0);
                (0..40).for_each(|_| bench.step());
            }
            bench.queues[0].context.state = STATE_ERR;
            bench.wake.push_back(0);
        }
        bench.run();
        let queue = &bench.queues[0];
        assert_eq!(
            queue.done,
            queue.program.len(),
            "{fault:?}: some WQEs have no CQE"
        );
        let failed: Vec<_> = queue.completions.iter().filter(|c| c.status != 0).collect();
        if fault != Fault::HostError {
            let first = failed.first().expect("a CQE of the failure");
            assert_eq!(first.wqe_index, queue.program[at].index, "{fault:?}");
            assert_eq!(CqeStatus(first.status), status, "{fault:?}");
            assert_eq!(failed.len(), queue.program.len() - at, "{fault:?}");
            assert_eq!(queue.context.state, STATE_ERR);
        }
        if fault == Fault::Silent {
            check_passes(queue);
        }
        let flushed = &failed[usize::from(fault != Fault::HostError)..];
        assert!(
            flushed
                .iter()
                .all(|c| CqeStatus(c.status) == CqeStatus::WR_FLUSH)
        );
        assert_eq!(bench.queues[1].done, bench.queues[1].program.len());
        assert!(!bench.queues[1].has_failed);
        seen[seed as usize % FAULTS.len()] += 1;
    });
    println!("{seen:?}");
}

#[test]
fn a_queue_pair_that_was_reset_begins_anew() {
    for_each_seed(SEEDS, |seed| {
        let conduct = Conduct {
            loss: 20,
            rnr: 8,
            ..Conduct::default()
        };
        let mut bench = bench_with(seed, conduct);
        let mut random = SplitMix64::new(seed ^ 0x99);
        for _ in 0..6 {
            let cycles = bench.rtl.cycles() + random.below(3000);
            let qp = random.below(u64::from(QPS)) as u8;
            while bench.rtl.cycles() < cycles {
                bench.post(qp);
                (0..20).for_each(|_| bench.step());
            }
            bench.restart(qp, random_queue(&mut random, qp, WQES, conduct));
        }
        bench.run();
        check_all_done(&mut bench);
    });
}

#[test]
fn doorbells_that_go_back_or_too_far_change_nothing() {
    let mut bench = Bench::new(0);
    let mut random = SplitMix64::new(0);
    bench.start(random_queue(&mut random, 0, WQES, Conduct::default()));
    let ring = 1 << bench.queues[0].context.log_send_blocks;
    assert!(bench.post(0));
    let producer = bench.query(0).2;
    assert!(producer > 0);
    bench.ring_doorbell(0, producer);
    assert_eq!(bench.doorbell_errors, 0, "the same index again");
    while bench.query(0).3 != producer {
        bench.step();
    }
    for wrong in [producer - 1, 0, producer + ring + 1, producer ^ 1 << 31] {
        let before = bench.doorbell_errors;
        bench.ring_doorbell(0, wrong);
        bench.step();
        assert_eq!(
            (bench.doorbell_errors, bench.query(0).2),
            (before + 1, producer)
        );
    }
    bench.run();
    assert_eq!(bench.queues[0].done, bench.queues[0].program.len());
    // The QP is reset while a doorbell waits.
    bench.queues[0].context.state = 0;
    bench.ring_doorbell(0, bench.queues[0].program.len() as u32 + 1);
    bench.control(1, 0, 0);
    assert_eq!((bench.doorbell_errors, bench.query(0)), (5, (0, 0, 0, 0)));
}

/// Goal: the longest READ uses half of all PSNs, and no later request is begun that would need
/// more. Method: a peer that does not answer, and a limited number of retries.
#[test]
fn the_longest_read_fills_the_window() {
    for path_mtu in 1..=5 {
        let conduct = Conduct {
            silent_from: Some(0),
            ..Conduct::default()
        };
        let mut bench = Bench::new(u64::from(path_mtu));
        let mut random = SplitMix64::new(5);
        let mut queue = random_queue(&mut random, 0, 3, conduct);
        queue.context.path_mtu = path_mtu;
        queue.context.retry_count = 1;
        for (at, wqe) in queue.program.iter_mut().enumerate() {
            let segment = program::Segment {
                address: 1 << 40,
                length: 1 << 31,
                key: KEY_READABLE,
            };
            wqe.opcode = ferroce_spec::wqe::SendOpcode::RDMA_READ;
            (wqe.index, wqe.written_index, wqe.blocks) = (at as u32, at as u32, 1);
            (wqe.length, wqe.is_inline, wqe.fence) = (1 << 31, false, false);
            wqe.segments = vec![segment];
        }
        let (first_psn, packets) = (queue.first_psn, (1u32 << 31) >> (7 + path_mtu));
        queue.peer = Peer::new(0, 128 << path_mtu, first_psn, conduct);
        bench.start(queue);
        assert!(bench.post(0));
        (0..1000).for_each(|_| bench.step());
        let (next, oldest, ..) = bench.query(0);
        assert_eq!(
            (next, oldest),
            ((first_psn + packets) & 0xff_ffff, first_psn)
        );
        bench.run();
        let statuses = bench.queues[0]
            .completions
            .iter()
            .map(|c| CqeStatus(c.status));
        let flush = CqeStatus::WR_FLUSH;
        assert!(statuses.eq([CqeStatus::RETRY_EXCEEDED, flush, flush]));
    }
}
