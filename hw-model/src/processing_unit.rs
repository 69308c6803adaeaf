//! Processing unit: runs the transport of the queue pairs that are pinned to it.
//!
//! - `responder_memory`: the memory operations of packets. `global_route_header`: the header before
//!   a datagram. `executing`: responses of atomics that are not executed yet.

pub(crate) mod executing;
pub mod global_route_header;
pub(crate) mod responder_memory;

use std::ops::Range;

use ferroce_transport::{QpState, Step, Transmit};
use ferroce_units::Instant;
use ferroce_wire::TransportHeaders;

use crate::contexts::queue_pair::QueuePair;
use crate::ports::host::Host;
use crate::processing_unit::executing::Executing;
use crate::processing_unit::responder_memory::{MemoryBlocks, PacketBytes, execute};
use crate::time::edge::Edge;
use crate::time::timing::{PLANNING_HORIZON, Stage, Timing, Work};
use crate::translation::mtt::TranslationTable;

/// Maximum number of memory operations of one packet: take a receive, write header and payload,
/// invalidate a key; and one spare.
const MAX_STEPS_PER_PACKET: usize = 5;

/// A packet on its way to a processing unit.
#[derive(Debug)]
pub struct Inbound<F> {
    /// Index of the queue pair; `None`: all queue pairs attached to a multicast group.
    pub qp: Option<u32>,
    /// Transport headers.
    pub headers: TransportHeaders,
    /// Offset of the IP header in the frame.
    pub ip: usize,
    /// Range of the payload in the frame.
    pub payload: Range<usize>,
    /// The frame.
    pub frame: F,
}

/// A packet on its way to the packetizer.
#[derive(Debug)]
pub struct Outbound {
    /// Index of the queue pair.
    pub qp: u32,
    /// Headers and location of the payload.
    pub packet: Transmit,
}

/// One processing unit and its output edge.
#[derive(Debug)]
pub struct ProcessingUnit {
    /// Its number.
    pub number: u8,
    /// Packets to the packetizer.
    pub outbound: Edge<Outbound>,
    /// Until then the unit waits for the context of its next queue pair, or for requested payload.
    pub resumes_at: Instant,
    /// Until then its newest packet waits for a miss register, and so do the packets after it.
    pub stands_until: Instant,
}

impl ProcessingUnit {
    /// Returns an idle unit.
    pub fn new(number: u8, edge_capacity: usize) -> Self {
        Self {
            number,
            outbound: Edge::new(edge_capacity),
            resumes_at: Instant::ZERO,
            stands_until: Instant::ZERO,
        }
    }

    /// Returns true if it has planned enough work ahead.
    #[inline]
    pub fn is_busy<T: Timing>(&self, now: Instant, timing: &T) -> bool {
        timing.free_at(Stage::Transmit(self.number)) > now + PLANNING_HORIZON
    }

    /// Returns true if its packets wait for a miss register.
    ///
    /// The pipeline stalls on a miss that finds no register. Otherwise the reads of all later
    /// misses would take the link's time now, long before they are issued, and misses that are
    /// issued earlier would be slow: the rate would fall with the load.
    #[inline]
    pub fn stands(&self, now: Instant) -> bool {
        self.stands_until > now + PLANNING_HORIZON
    }

    /// Returns the time at which it is no longer busy.
    pub fn next_turn<T: Timing>(&self, timing: &T) -> Instant {
        let free_at = timing
            .free_at(Stage::Transmit(self.number))
            .max(self.stands_until);
        let free_at = free_at - PLANNING_HORIZON;
        if self.outbound.is_empty() {
            free_at.max(self.resumes_at)
        } else {
            free_at
        }
    }

    /// Lets `qp`, whose state is available `at`, send up to `quantum` packets while the edge has
    /// room. Responses of atomics that are not executed yet go to `executing`.
    #[inline]
    pub fn transmit<T: Timing>(
        &mut self,
        now: Instant,
        at: Instant,
        qp: &mut QueuePair,
        quantum: u32,
        executing: &mut Executing,
        timing: &mut T,
    ) {
        for _ in 0..quantum {
            if self.outbound.is_full() || executing.is_full() || self.is_busy(now, timing) {
                return;
            }
            let Some(transmit) = qp.transport.poll_transmit(now) else {
                return;
            };
            let work = Work {
                bytes: transmit.payload.length(),
                messages: u32::from(transmit.begins_request()),
                continues_read: false,
            };
            let ready = timing.reserve(now, at, Stage::Transmit(self.number), work);
            let (index, packet) = (qp.index, transmit);
            let outbound = Outbound { qp: index, packet };
            if executing.holds(now, qp, ready) {
                executing.push(ready, self.number, outbound);
            } else {
                self.outbound.push(ready, outbound);
            }
        }
    }
}

/// Lets `qp` process one packet with all its memory operations. Returns true if the packet is out
/// of order and must be held.
#[inline]
pub fn process_packet<F: AsRef<[u8]>, H: Host, M: TranslationTable>(
    now: Instant,
    qp: &mut QueuePair,
    packet: &Inbound<F>,
    blocks: &mut MemoryBlocks<'_, '_, H, M>,
) -> bool {
    let bytes = PacketBytes {
        frame: packet.frame.as_ref(),
        ip: packet.ip,
        payload: packet.payload.clone(),
    };
    let length = bytes.payload.len() as u32;
    let before = qp.transport.state();
    let mut step = qp.transport.handle_packet(now, &packet.headers, length);
    for _ in 0..MAX_STEPS_PER_PACKET {
        let Step::Memory(operation) = step else {
            break;
        };
        let answer = execute(operation, qp, &bytes, blocks);
        step = qp.transport.handle_memory(now, answer);
    }
    if qp.transport.state() == QpState::Err && before != QpState::Err {
        note_end(qp, &packet.headers);
    }
    if qp.notes.awaits_peer() {
        note_answer(qp, &packet.headers);
    }
    debug_assert!(
        !matches!(step, Step::Memory(_)),
        "a packet needs more steps than it can"
    );
    if matches!(step, Step::Arrivals) {
        let payload = &bytes.frame[bytes.payload.clone()];
        qp.transport.handle_arrivals(now, payload);
    }
    matches!(step, Step::Hold)
}

/// Records that the peer has answered, unless its answer is that it is still not ready.
#[cold]
fn note_answer(qp: &mut QueuePair, headers: &TransportHeaders) {
    let opcode = headers.bth.opcode.parse();
    let is_answer = opcode.is_some_and(|opcode| !opcode.is_request());
    if is_answer && !qp.transport.has_note() {
        let rnr_retry = qp.transport.attributes().rnr_retry;
        qp.notes.answered(qp.qpn.value(), rnr_retry);
    }
}

/// Records that a packet has ended its queue pair; logs the reason if it was a request and no
/// reason was logged.
#[cold]
fn note_end(qp: &mut QueuePair, headers: &TransportHeaders) {
    let opcode = headers.bth.opcode.parse();
    if opcode.is_some_and(|opcode| opcode.is_request()) {
        let access = qp.transport.attributes().access;
        let note = qp.transport.take_note();
        qp.faults
            .note_refusal(qp.qpn.value(), headers, access, note);
    }
}
