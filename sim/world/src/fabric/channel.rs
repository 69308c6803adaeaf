//! One direction of a link: the queues of the sending port, the wire, and the packets that the
//! receiving port still holds.

use std::collections::VecDeque;

use ferroce_units::{Duration, Instant};

use super::buffer::{Ingress, Part};
use super::packet::Class;
use crate::fabric_plan::{Node, PRIORITIES};
use crate::rate::Rate;
use crate::recorder::PortObservation;

/// Priorities 6 and 7 are strict: network control and CNPs go before all others.
const STRICT: u8 = 0b1100_0000;
/// Bytes that a priority may send per round: at least the longest frame, so that each round sends
/// something.
const QUANTUM_BYTES: u64 = 4500;

/// A packet in the network.
#[derive(Debug)]
pub struct Packet<F> {
    /// Its frame.
    pub frame: F,
    /// Length of the frame.
    pub bytes: u32,
    /// The sending host.
    pub from: usize,
    /// When the last bit left its card.
    pub sent: Instant,
    /// The destination host.
    pub to: usize,
    /// Fields that switches use.
    pub class: Class,
    /// Channel on which it leaves its current or next switch.
    pub egress: usize,
    /// Channel on which it entered the switch, and the part of the buffer that holds it.
    pub place: (usize, Part),
}

/// The queues of a sending port, one for each priority.
///
/// Priorities 7 and 6 are strict; the others share the wire by bytes (deficit round robin).
#[derive(Debug)]
pub struct Egress<F> {
    queues: [VecDeque<Packet<F>>; PRIORITIES],
    bytes: [u64; PRIORITIES],
    /// Bitmap of priorities with packets.
    waiting: u8,
    turn: usize,
    deficits: [u64; PRIORITIES],
    levels: Levels,
}

/// Fill levels of a port's queues.
#[derive(Debug, Clone, Copy, Default)]
pub struct Levels {
    bytes: u64,
    most: u64,
    /// Maximum since the last sample.
    recent_most: u64,
    /// Bytes times picoseconds up to `since`.
    area: u128,
    since: Instant,
}

impl Levels {
    #[inline]
    fn change(&mut self, now: Instant, bytes: u64) {
        let time = now.saturating_since(self.since).as_ps();
        self.area += u128::from(self.bytes) * u128::from(time);
        self.since = self.since.max(now);
        self.bytes = bytes;
        self.most = self.most.max(bytes);
        self.recent_most = self.recent_most.max(bytes);
    }

    /// Returns the maximum number of queued bytes.
    pub fn most(&self) -> u64 {
        self.most
    }

    /// Returns the integral of queued bytes over time in picoseconds, up to `now`.
    pub fn area(&self, now: Instant) -> u128 {
        let time = now.saturating_since(self.since).as_ps();
        self.area + u128::from(self.bytes) * u128::from(time)
    }
}

impl<F> Default for Egress<F> {
    fn default() -> Self {
        Self {
            queues: Default::default(),
            bytes: [0; PRIORITIES],
            waiting: 0,
            turn: 0,
            deficits: [0; PRIORITIES],
            levels: Levels::default(),
        }
    }
}

impl<F> Egress<F> {
    /// Returns the bytes in the queue of a priority.
    #[inline]
    pub fn queued(&self, priority: u8) -> u64 {
        self.bytes[usize::from(priority)]
    }

    /// Returns the fill levels of the queues.
    pub fn levels(&self) -> &Levels {
        &self.levels
    }

    /// Returns the maximum number of queued bytes since the last call.
    pub fn take_recent_most(&mut self) -> u64 {
        std::mem::replace(&mut self.levels.recent_most, self.levels.bytes)
    }

    /// Returns true if a packet is queued.
    #[inline]
    pub fn has_packets(&self) -> bool {
        self.waiting != 0
    }

    /// Returns the number of queued packets.
    pub fn len(&self) -> usize {
        self.queues.iter().map(VecDeque::len).sum()
    }

    /// Appends a packet to its queue.
    #[inline]
    pub fn push(&mut self, now: Instant, packet: Packet<F>) {
        let priority = usize::from(packet.class.priority);
        let bytes = u64::from(packet.bytes);
        self.bytes[priority] += bytes;
        self.waiting |= 1 << priority;
        self.queues[priority].push_back(packet);
        self.levels.change(now, self.levels.bytes + bytes);
    }

    /// Takes the next packet of a priority that is not paused, and returns the bytes that its queue
    /// held, including the packet.
    #[inline]
    pub fn take(&mut self, now: Instant, paused: u8) -> Option<(Packet<F>, u64)> {
        let priority = self.next(paused)?;
        let queue = &mut self.queues[priority];
        let packet = queue.pop_front()?;
        let bytes = u64::from(packet.bytes);
        if queue.is_empty() {
            self.waiting &= !(1 << priority);
            self.deficits[priority] = 0;
        }
        let queued = self.bytes[priority];
        self.bytes[priority] -= bytes;
        self.levels.change(now, self.levels.bytes - bytes);
        Some((packet, queued))
    }

    /// Returns the next priority to serve.
    #[inline]
    fn next(&mut self, paused: u8) -> Option<usize> {
        let ready = self.waiting & !paused;
        let strict = ready & STRICT;
        if strict != 0 {
            return Some(strict.ilog2() as usize);
        }
        match ready.count_ones() {
            0 => None,
            1 => Some(ready.ilog2() as usize),
            _ => Some(self.next_in_turn(ready)),
        }
    }

    /// Returns the next of several priorities that share the wire.
    fn next_in_turn(&mut self, ready: u8) -> usize {
        loop {
            let priority = self.turn;
            let front = self.queues[priority].front();
            let bytes = front.map_or(0, |packet| u64::from(packet.bytes));
            let is_ready = ready & 1 << priority != 0;
            if is_ready && self.deficits[priority] >= bytes {
                self.deficits[priority] -= bytes;
                return priority;
            }
            self.turn = (priority + 1) % PRIORITIES;
            if ready & 1 << self.turn != 0 {
                self.deficits[self.turn] += QUANTUM_BYTES;
            }
        }
    }
}

/// A sample of a port's queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueSample {
    /// Integral of queued bytes over time in picoseconds.
    pub area: u128,
    /// Maximum number of queued bytes since the last sample.
    pub most_bytes: u64,
}

/// The paused priorities of a channel over time.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pauses {
    /// Bitmap of paused priorities.
    bits: u8,
    since: Instant,
    time: Duration,
}

impl Pauses {
    /// Returns the bitmap of paused priorities.
    #[inline]
    pub fn bits(&self) -> u8 {
        self.bits
    }

    /// Pauses a priority, or ends its pause.
    pub fn set(&mut self, now: Instant, priority: u8, is_paused: bool) {
        self.time = self.time(now);
        self.since = now;
        if is_paused {
            self.bits |= 1 << priority;
        } else {
            self.bits &= !(1 << priority);
        }
    }

    /// Returns the time for which at least one priority was paused, up to `now`.
    pub fn time(&self, now: Instant) -> Duration {
        match self.bits {
            0 => self.time,
            _ => self.time + now.saturating_since(self.since),
        }
    }
}

/// Totals of a channel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Frames put on the wire.
    pub frames: u64,
    /// Bytes of these frames.
    pub bytes: u64,
    /// Frames marked with congestion experienced.
    pub marked: u64,
    /// Frames that the sending port dropped: its queue was longer than its share of the buffer.
    pub queue_drops: u64,
    /// Frames that the receiving port dropped: its headroom was full.
    pub headroom_drops: u64,
    /// Pause frames of the receiving port; frames that end a pause are not counted.
    pub pauses: u64,
}

/// One direction of a link.
#[derive(Debug)]
pub struct Channel<F> {
    /// The sending node.
    pub from: Node,
    /// The receiving node.
    pub to: Node,
    /// Rate of the wire.
    pub rate: Rate,
    /// Propagation delay.
    pub cable: Duration,
    /// When the sending port can start another frame.
    pub free_at: Instant,
    /// Queues of the sending port, if it belongs to a switch.
    pub egress: Egress<F>,
    /// Priorities of the sending port that the receiving port has paused.
    pub pauses: Pauses,
    /// Packets in flight, and when the receiving switch forwards them to a port.
    pub under_way: VecDeque<(Instant, Packet<F>)>,
    /// Packets that the receiving switch still holds.
    pub ingress: Ingress,
    /// Totals.
    pub totals: Totals,
}

impl<F> Channel<F> {
    /// Returns the state of its sending port.
    pub fn observation(&self) -> PortObservation {
        PortObservation {
            queued_bytes: self.egress.levels().bytes,
            paused: self.pauses.bits(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(priority: u8, bytes: u32) -> Packet<u32> {
        Packet {
            frame: bytes,
            bytes,
            from: 0,
            sent: Instant::ZERO,
            to: 1,
            class: Class {
                priority,
                can_be_marked: false,
                flow: 0,
            },
            egress: 0,
            place: (0, Part::Shared),
        }
    }

    #[test]
    fn priorities_share_the_wire_by_bytes_behind_the_strict_ones() {
        let mut egress = Egress::default();
        for _ in 0..1000 {
            egress.push(Instant::ZERO, packet(0, 1000));
            egress.push(Instant::ZERO, packet(3, 250));
        }
        egress.push(Instant::ZERO, packet(6, 80));
        egress.push(Instant::ZERO, packet(7, 80));
        let mut sent = [0; PRIORITIES];
        let mut order = Vec::new();
        for _ in 0..600 {
            let (packet, _) = egress.take(Instant::ZERO, 0).expect("a packet");
            sent[usize::from(packet.class.priority)] += packet.bytes;
            order.push(packet.class.priority);
        }
        assert_eq!(&order[..2], &[7, 6]);
        let share = f64::from(sent[0]) / f64::from(sent[3]);
        assert!((0.9..1.1).contains(&share), "{sent:?}");
        let paused = 1 << 0;
        let (next, queued) = egress.take(Instant::ZERO, paused).expect("of priority 3");
        assert_eq!(next.class.priority, 3);
        assert_eq!(queued, egress.queued(3) + 250);
    }

    #[test]
    fn the_mean_is_weighted_with_time() {
        let mut egress = Egress::default();
        egress.push(Instant(100), packet(0, 50));
        egress.push(Instant(200), packet(0, 70));
        egress.take(Instant(300), 0).expect("a packet");
        assert_eq!(egress.levels().most(), 120);
        let area = 50 * 100 + 120 * 100 + 70 * 50;
        assert_eq!(egress.levels().area(Instant(350)), area);
    }

    #[test]
    fn pauses_of_several_priorities_count_once() {
        let mut pauses = Pauses::default();
        pauses.set(Instant(100), 3, true);
        pauses.set(Instant(150), 4, true);
        pauses.set(Instant(200), 3, false);
        pauses.set(Instant(300), 4, false);
        assert_eq!(pauses.time(Instant(900)), Duration(200));
        assert_eq!(pauses.bits(), 0);
    }
}
