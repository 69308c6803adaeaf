//! Datagrams: packets, completions without an answer, failures that end only the send queue, and
//! the way back to RTS.

use ferroce_rtl::seeds::for_each_seed;
use ferroce_rtl::structs;
use ferroce_spec::cqe::CqeStatus;
use ferroce_units::random::SplitMix64;

use crate::bench::{Bench, Queue, STATE_RTS, STATE_SQE};
use crate::peer::{Conduct, PSN_MASK};
use crate::program::{KEY_BAD, Segment, Wqe, random_datagram};
use crate::random_queue;

const SEEDS: u64 = 10;
const WQES: u64 = 80;
const HALF: usize = WQES as usize / 2;
/// Index of the GSI.
const GSI: u8 = 1;
const CONTROL_RESUME: u64 = 3;
/// In the Q_Key of a WQE: the QP's own is sent.
const OWN_Q_KEY: u32 = 1 << 31;

/// Checks a packet against the next WQE of its QP.
pub fn check(queue: &mut Queue, q_key: u32, packet: &structs::TxPacket, payload: &[u8]) {
    let messages: Vec<&Wqe> = queue.program.iter().filter(|wqe| !wqe.is_nop()).collect();
    let wqe = messages[queue.peer.message];
    let datagram = wqe.datagram.expect("it is a datagram");
    let is_gsi = packet.qp == GSI;
    assert_eq!(packet.opcode, 0x64 | u8::from(wqe.has_immediate()));
    assert_eq!(
        (packet.solicited, packet.ack_request),
        (wqe.solicited, is_gsi)
    );
    let psn = queue.first_psn.wrapping_add(queue.peer.message as u32) & PSN_MASK;
    assert_eq!((packet.psn, packet.dest_qpn), (psn, datagram.dest_qpn));
    let sent_key = match datagram.q_key & OWN_Q_KEY == 0 && !is_gsi {
        true => datagram.q_key,
        false => q_key,
    };
    let deth = u64::from(sent_key) << 32 | 0x100 | u64::from(packet.qp);
    assert_eq!(packet.address, deth);
    if wqe.has_immediate() {
        assert_eq!(packet.immediate.to_le_bytes(), wqe.immediate);
    }
    let (given, path) = (&packet.path, &datagram.path);
    let octets: Vec<u8> = given
        .dest_gid
        .iter()
        .flat_map(|n| n.to_le_bytes())
        .collect();
    assert_eq!(octets, path.dest_gid);
    assert_eq!(given.dest_mac.to_le_bytes()[..6], path.dest_mac);
    let place = (
        given.vlan,
        given.source_gid_index.into(),
        given.udp_source_port,
    );
    assert_eq!(
        place,
        (path.vlan, path.source_gid_index, path.udp_source_port)
    );
    let class = (given.traffic_class, given.hop_limit, given.service_level);
    assert_eq!(
        class,
        (path.traffic_class, path.hop_limit, path.service_level)
    );
    assert_eq!(given.flow_label, path.flow_label);
    assert_eq!(payload, wqe.payload);
    queue.peer.message += 1;
}

/// A QP for datagrams with a random program; its last WQE is signaled.
fn datagram_queue(random: &mut SplitMix64, qp: u8, wqes: u64) -> Queue {
    let mut queue = random_queue(random, qp, wqes, Conduct::default());
    queue.context.q_key = Some(random.number() as u32);
    queue.context.path_mtu = 0;
    queue.context.timeout = 0;
    queue.context.max_rd_atomic = 0;
    queue.context.log_send_blocks = 6;
    let mut index = 0;
    for (number, wqe) in queue.program.iter_mut().enumerate() {
        let place = (u64::from(qp), number as u64);
        *wqe = random_datagram(random, place, index);
        wqe.signaled |= number % 2 == 0 || number as u64 + 1 == wqes;
        index += wqe.blocks;
    }
    queue
}

fn bench(seed: u64) -> Bench {
    let mut bench = Bench::new(seed);
    bench.stall = [0, 2, 3, 8][seed as usize % 4];
    bench
}

#[test]
fn datagrams_complete_when_they_have_left() {
    for_each_seed(SEEDS, |seed| {
        let mut bench = bench(seed);
        let mut random = SplitMix64::new(seed ^ 0xda7a);
        // QP 1 is the GSI, QP 2 is connected.
        for qp in 0..2 {
            bench.start(datagram_queue(&mut random, qp, WQES));
        }
        bench.start(random_queue(&mut random, 2, WQES, Conduct::default()));
        bench.run();
        for qp in 0..3 {
            let (next, oldest, producer, fetched) = bench.query(qp);
            let queue = &bench.queues[usize::from(qp)];
            let done = (queue.done, queue.has_failed);
            assert_eq!(done, (queue.program.len(), false), "QP {qp}");
            assert_eq!((next, producer), (oldest, fetched), "QP {qp}");
        }
    });
}

/// A fault of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Length,
    NoDestination,
    OtherVersion,
    NoGid,
    FarGid,
    Key,
    Payload,
}

const FAULTS: [Fault; 7] = [
    Fault::Length,
    Fault::NoDestination,
    Fault::OtherVersion,
    Fault::NoGid,
    Fault::FarGid,
    Fault::Key,
    Fault::Payload,
];

/// Puts a fault into a datagram with segments; returns its place and its status.
fn inject(random: &mut SplitMix64, program: &mut [Wqe], fault: Fault) -> (usize, CqeStatus) {
    let begin = random.below(program.len() as u64 / 2) as usize;
    let has_bytes = |wqe: &Wqe| !wqe.is_inline && wqe.length > 0;
    let found = (begin..program.len()).find(|at| has_bytes(&program[*at]));
    let at = found.expect("a third of the WQEs are like this");
    let wqe = &mut program[at];
    let path = &mut wqe.datagram.as_mut().expect("it is a datagram").path;
    let status = match fault {
        Fault::Length => {
            wqe.length = 4097 + random.below(1 << 30) as u32;
            let others: u32 = wqe.segments[1..].iter().map(|s| s.length).sum();
            wqe.segments[0].length = wqe.length - others;
            CqeStatus::LOCAL_LENGTH
        }
        Fault::NoDestination => {
            path.dest_gid = [0; 16];
            CqeStatus::LOCAL_QP_OPERATION
        }
        Fault::OtherVersion => {
            path.dest_gid[..10].fill(0);
            path.dest_gid[10..12].fill(0xff);
            CqeStatus::LOCAL_QP_OPERATION
        }
        Fault::NoGid => {
            path.source_gid_index = 16 + random.below(200) as u16;
            CqeStatus::LOCAL_QP_OPERATION
        }
        Fault::FarGid => {
            path.source_gid_index |= 1 << (8 + random.below(8));
            CqeStatus::LOCAL_QP_OPERATION
        }
        Fault::Key => {
            let segment = wqe.segments.iter_mut().find(|segment| segment.length > 0);
            segment.expect("it has bytes").key = KEY_BAD;
            CqeStatus::LOCAL_PROTECTION
        }
        Fault::Payload => CqeStatus::LOCAL_PROTECTION,
    };
    (at, status)
}

/// The first bytes of a message.
fn first_bytes(wqe: &Wqe) -> &Segment {
    let used = wqe.segments.iter().find(|segment| segment.length > 0);
    used.expect("it has bytes")
}

/// Goal: a failed datagram ends only the send queue, and RTS begins it anew. Method: all WQEs of a
/// first program are posted; WQEs after the failure are flushed. WQEs of a second program,
/// posted after RTS, succeed with the next PSNs.
#[test]
fn a_failed_datagram_ends_the_send_queue_until_rts() {
    let mut seen = [0; FAULTS.len()];
    for_each_seed(4 * SEEDS, |seed| {
        let fault = FAULTS[seed as usize % FAULTS.len()];
        let mut bench = bench(seed);
        let mut random = SplitMix64::new(seed ^ 0xbad);
        let mut queue = datagram_queue(&mut random, 0, WQES);
        queue.post_limit = HALF;
        queue.program[HALF - 1].signaled = true;
        let (at, status) = inject(&mut random, &mut queue.program[..HALF], fault);
        if fault == Fault::Payload {
            let used = first_bytes(&queue.program[at]).address;
            bench.unreadable = used..used + 1;
        }
        bench.start(queue);
        bench.start(random_queue(&mut random, 1, WQES, Conduct::default()));
        bench.run();
        let queue = &mut bench.queues[0];
        assert_eq!(
            (queue.done, queue.context.state),
            (queue.post_limit, STATE_SQE)
        );
        let failed: Vec<_> = queue.completions.iter().filter(|c| c.status != 0).collect();
        assert_eq!(failed[0].wqe_index, queue.program[at].index, "{fault:?}");
        assert_eq!(CqeStatus(failed[0].status), status, "{fault:?}");
        let flushed = failed[1..].iter().map(|c| CqeStatus(c.status));
        assert!(flushed.eq((at + 1..queue.post_limit).map(|_| CqeStatus::WR_FLUSH)));
        let (next, oldest, ..) = bench.query(0);
        assert_eq!(next, oldest, "everything was flushed");

        let queue = &mut bench.queues[0];
        queue.context.state = STATE_RTS;
        queue.post_limit = queue.program.len();
        queue.has_failed = false;
        let begun = queue.program[..HALF].iter();
        let begun = begun.filter(|wqe| !wqe.is_nop()).count();
        (queue.peer.message, queue.left) = (begun, begun);
        queue.first_psn = next.wrapping_sub(begun as u32) & PSN_MASK;
        bench.unreadable = 0..0;
        bench.wake.push_back(0);
        bench.control(CONTROL_RESUME, 0, 0x12_3456);
        bench.run();
        for queue in &bench.queues {
            assert_eq!((queue.done, queue.has_failed), (queue.program.len(), false));
        }
        seen[seed as usize % FAULTS.len()] += 1;
    });
    println!("{seen:?}");
}
