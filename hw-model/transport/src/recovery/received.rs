//! The responder's state of packets that arrived after a gap.

use std::collections::VecDeque;

use ferroce_units::Instant;
use ferroce_wire::{Arrivals, Position, Psn, REORDER_WINDOW_PACKETS};

use super::psn_set::{PsnSet, is_in_window};
use crate::span::span;

/// Maximum number of READ response ranges that wait to be retransmitted; the requester requests
/// ranges that find no room again.
const MAX_READ_RANGES: usize = 64;

/// A gap whose age is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gap<T> {
    /// The time at which the gap becomes a loss.
    pub(crate) deadline: Instant,
    /// The position reached when the gap was found: packets missing before it are as old as the
    /// gap.
    pub(crate) seen: T,
}

/// Response packets of a READ to retransmit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadRange {
    /// PSN of the first packet.
    pub(crate) first: Psn,
    /// Number of packets.
    pub(crate) packets: u32,
    /// Number of packets already sent.
    pub(crate) next: u32,
}

/// Packets from the expected one on, within the window.
#[derive(Debug, Clone)]
pub(crate) struct ReceivedWindow {
    /// The expected PSN.
    start: Psn,
    /// Packets that the caller holds.
    held: PsnSet,
    /// Packets whose payload was placed.
    placed: PsnSet,
    /// Placed packets that end a message, and placed packets that request an acknowledge.
    ends: PsnSet,
    asks: PsnSet,
    /// The PSN after the newest packet that has arrived.
    newest: Psn,
    /// The packet for which an RNR NAK was sent: it is not lost.
    not_ready: Option<Psn>,
    /// The gap whose age is measured; `None` with a reorder time of zero.
    gap: Option<Gap<Psn>>,
    /// NAKs report packets up to this PSN.
    reported: Psn,
    /// Bytes passed so far of a message whose packets are all WRITEs with their own address.
    message_bytes: u32,
    ranges: VecDeque<ReadRange>,
}

impl ReceivedWindow {
    pub(crate) const fn new() -> ReceivedWindow {
        ReceivedWindow {
            start: Psn::new(0),
            held: PsnSet::EMPTY,
            placed: PsnSet::EMPTY,
            ends: PsnSet::EMPTY,
            asks: PsnSet::EMPTY,
            newest: Psn::new(0),
            not_ready: None,
            gap: None,
            reported: Psn::new(0),
            message_bytes: 0,
            ranges: VecDeque::new(),
        }
    }

    /// Starts at INIT→RTR.
    pub(crate) fn start(&mut self, expected: Psn) {
        *self = ReceivedWindow {
            start: expected,
            newest: expected,
            reported: expected,
            ..ReceivedWindow::new()
        };
    }

    /// Records a packet after the expected one. Returns true if it is new and in the window.
    pub(crate) fn arrive(&mut self, psn: Psn) -> bool {
        if psn.next().is_after(self.newest) {
            self.newest = psn.next();
        }
        is_in_window(self.start, psn) && !self.has(psn)
    }

    fn has(&self, psn: Psn) -> bool {
        self.held.contains(psn) || self.placed.contains(psn)
    }

    /// Records that the caller holds the packet.
    pub(crate) fn hold(&mut self, psn: Psn) {
        self.held.insert(psn);
    }

    /// Records that the caller does not hold the packet: it has no room, or returns it for
    /// processing.
    pub(crate) fn drop_held(&mut self, psn: Psn) {
        self.held.remove(psn);
    }

    /// Returns true if the caller holds the packet.
    pub(crate) fn is_held(&self, psn: Psn) -> bool {
        self.held.contains(psn)
    }

    /// Records that the payload of the packet is placed.
    pub(crate) fn place(&mut self, psn: Psn, ends_message: bool, ack_request: bool) {
        self.placed.insert(psn);
        if ends_message {
            self.ends.insert(psn);
        }
        if ack_request {
            self.asks.insert(psn);
        }
    }

    /// Passes the packet `psn` if it was placed. Returns whether it ends a message, and whether it
    /// requests an acknowledge.
    pub(crate) fn take_placed(&mut self, psn: Psn) -> Option<(bool, bool)> {
        let is_placed = self.placed.contains(psn);
        let flags = (self.ends.contains(psn), self.asks.contains(psn));
        is_placed.then_some(flags)
    }

    /// Sets the expected PSN.
    #[inline]
    pub(crate) fn advance(&mut self, expected: Psn) {
        let count = span(self.start, expected);
        if count == 0 {
            return;
        }
        for set in [
            &mut self.held,
            &mut self.placed,
            &mut self.ends,
            &mut self.asks,
        ] {
            set.remove_range(self.start, count);
        }
        self.start = expected;
        if expected.is_after(self.newest) {
            self.newest = expected;
        }
    }

    /// Passes `bytes` of an unfinished message.
    pub(crate) fn pass_part(&mut self, bytes: u32) {
        self.message_bytes = self.message_bytes.saturating_add(bytes);
    }

    /// Returns the passed bytes of such a message.
    pub(crate) const fn message_bytes(&self) -> u32 {
        self.message_bytes
    }

    /// Returns the length of a message whose last packet has `bytes`.
    pub(crate) fn end_message(&mut self, bytes: u32) -> u32 {
        std::mem::take(&mut self.message_bytes).saturating_add(bytes)
    }

    /// Records that an RNR NAK was sent for the expected packet.
    pub(crate) fn refuse_for_now(&mut self) {
        self.not_ready = Some(self.start);
    }

    /// Returns true if the expected packet is missing although later ones have arrived.
    pub(crate) fn has_gap(&self) -> bool {
        let expected = self.start;
        self.newest.is_after(expected) && self.not_ready != Some(expected) && !self.has(expected)
    }

    /// Starts to measure the age of a gap, unless one is being measured.
    pub(crate) fn measure_gap(&mut self, deadline: Instant) {
        let seen = self.newest;
        self.gap.get_or_insert(Gap { deadline, seen });
    }

    /// Stops measuring: the gap is closed.
    pub(crate) fn close_gap(&mut self) {
        self.gap = None;
    }

    pub(crate) fn gap_deadline(&self) -> Option<Instant> {
        self.gap.map(|gap| gap.deadline)
    }

    /// Takes the gap if it is old enough at `now`.
    pub(crate) fn take_old_gap(&mut self, now: Instant) -> Option<Gap<Psn>> {
        self.gap.take_if(|gap| gap.deadline <= now)
    }

    /// Returns true if a packet at or after `seen` has arrived.
    pub(crate) fn has_more_than(&self, seen: Psn) -> bool {
        self.newest.is_after(seen)
    }

    /// Makes NAKs report missing packets before `end`.
    pub(crate) fn report_to(&mut self, end: Psn) {
        self.reported = end;
    }

    /// Makes NAKs report all missing packets.
    pub(crate) fn report_all(&mut self) {
        self.reported = self.newest;
    }

    /// Returns the number of packets after `missing` that a NAK for it reports.
    pub(crate) fn reported_behind(&self, missing: Psn) -> u32 {
        let end = self.reported.distance_from(missing) - 1;
        (end.max(0) as u32).min(REORDER_WINDOW_PACKETS - 1)
    }

    /// Returns which of the reported packets after `missing` have arrived.
    pub(crate) fn arrivals(&self, missing: Psn) -> Arrivals {
        let expected = self.start;
        let mut arrivals = Arrivals::default();
        for behind in 1..=self.reported_behind(missing) {
            let psn = missing.add(behind);
            if psn.is_before(expected) || is_in_window(expected, psn) && self.has(psn) {
                arrivals.insert(behind);
            }
        }
        arrivals
    }
}

/// READ responses to be sent again.
impl ReceivedWindow {
    /// Queues a range, if there is room.
    pub(crate) fn push_range(&mut self, first: Psn, packets: u32) {
        if self.ranges.len() < MAX_READ_RANGES {
            let next = 0;
            self.ranges.push_back(ReadRange {
                first,
                packets,
                next,
            });
        }
    }

    pub(crate) fn has_ranges(&self) -> bool {
        !self.ranges.is_empty()
    }

    /// Takes one packet of the first range: its PSN, and its position in the range.
    pub(crate) fn next_of_range(&mut self) -> Option<(Psn, Position)> {
        let range = self.ranges.front_mut()?;
        let position = Position::of(range.next, range.packets);
        let packet = (range.first.add(range.next), position);
        range.next += 1;
        if range.next >= range.packets {
            self.ranges.pop_front();
        }
        Some(packet)
    }

    /// Drops all ranges.
    pub(crate) fn clear_ranges(&mut self) {
        self.ranges.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_ends_where_the_measured_gap_did() {
        let expected = Psn::new(0xff_ffff);
        let mut window = ReceivedWindow::new();
        window.start(expected);
        for behind in [1, 3] {
            assert!(window.arrive(expected.add(behind)));
            window.hold(expected.add(behind));
        }
        assert!(!window.arrive(expected.add(3)), "it is there");
        assert!(!window.arrive(expected.add(600)), "too far");
        window.measure_gap(Instant::from_us(5));
        assert!(window.take_old_gap(Instant::from_us(4)).is_none());
        window.report_to(expected.add(2));
        let arrived = |window: &ReceivedWindow| {
            let arrivals = window.arrivals(expected);
            arrivals.psns(expected).map(Psn::value).collect::<Vec<_>>()
        };
        assert_eq!(arrived(&window), [0]);
        window.report_all();
        assert_eq!(arrived(&window), [0, 2]);
        assert!(window.has_gap());
        window.advance(Psn::new(0));
        assert!(!window.has_gap(), "that one is held");
        window.advance(Psn::new(1));
        assert!(window.has_gap());
        window.refuse_for_now();
        assert!(!window.has_gap(), "that one was refused");
    }
}
