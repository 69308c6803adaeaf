//! The requester's state of the packets that it has sent.
//!
//! A packet is lost by order, not by time: if a packet that was sent later has arrived. Each
//! transmission has a number, its *stamp*; a retransmission gets a new stamp, so that its loss
//! needs new evidence.

use std::cmp::Ordering;

use ferroce_units::Instant;
use ferroce_wire::{Psn, REORDER_WINDOW_PACKETS};

use super::psn_set::{PsnSet, is_in_window};
use super::received::Gap;
use crate::span::span;

/// Maximum number of losses of the oldest packet without progress; beyond it the queue pair fails,
/// because only a broken peer causes more. Evidence for each loss is another packet of the window
/// that arrived or was answered.
const MAX_LOSSES_OF_OLDEST: u32 = 2 * REORDER_WINDOW_PACKETS;

/// The latest transmission that is known to have arrived or to have been answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Evidence {
    stamp: u64,
    psn: Psn,
}

impl Evidence {
    const NONE: Evidence = Evidence {
        stamp: 0,
        psn: Psn::new(0),
    };

    /// Returns true if it is later than `other`. Within a transmission of several PSNs (a READ
    /// request), the later PSN is answered later.
    pub(crate) fn is_after(&self, other: &Evidence) -> bool {
        match self.stamp.cmp(&other.stamp) {
            Ordering::Greater => true,
            Ordering::Equal => self.psn.is_after(other.psn),
            Ordering::Less => false,
        }
    }
}

/// Packets from the oldest in flight on, within the window.
#[derive(Debug, Clone)]
pub(crate) struct SentWindow {
    /// The oldest PSN in flight.
    start: Psn,
    /// Requests that arrived after a gap.
    arrived: PsnSet,
    /// Received responses to READs and atomics.
    answered: PsnSet,
    /// Packets to retransmit.
    lost: PsnSet,
    /// Stamp of the last transmission by PSN; 0: none.
    stamps: Box<[u64; REORDER_WINDOW_PACKETS as usize]>,
    transmissions: u64,
    /// The PSN after the newest request that is known to be executed.
    executed: Psn,
    /// After a timeout: PSNs before this one are lost when they enter the window.
    lost_before: Psn,
    latest_arrival: Evidence,
    latest_answer: Evidence,
    /// A gap in responses whose age is measured.
    gap: Option<Gap<Evidence>>,
    /// The response whose data is being written, or the NAK whose bitmap is being read.
    pub(crate) pending: Option<Psn>,
    /// The last lost transmission of the oldest packet, and the number of its losses without
    /// progress.
    last_loss: Option<Evidence>,
    losses_of_oldest: u32,
    /// The last packet that was retransmitted without evidence because a NAK named it.
    pub(crate) named: Option<Psn>,
}

impl SentWindow {
    pub(crate) fn new() -> SentWindow {
        SentWindow {
            start: Psn::new(0),
            arrived: PsnSet::EMPTY,
            answered: PsnSet::EMPTY,
            lost: PsnSet::EMPTY,
            stamps: Box::new([0; REORDER_WINDOW_PACKETS as usize]),
            transmissions: 0,
            executed: Psn::new(0),
            lost_before: Psn::new(0),
            latest_arrival: Evidence::NONE,
            latest_answer: Evidence::NONE,
            gap: None,
            pending: None,
            last_loss: None,
            losses_of_oldest: 0,
            named: None,
        }
    }

    /// Starts at RTR→RTS.
    pub(crate) fn begin(&mut self, oldest: Psn) {
        *self = SentWindow {
            start: oldest,
            executed: oldest,
            lost_before: oldest,
            ..SentWindow::new()
        };
    }

    /// Sets the oldest PSN in flight: PSNs that leave the window are dropped; PSNs that enter it
    /// are lost if a timeout has declared them lost.
    pub(crate) fn advance(&mut self, oldest: Psn) {
        let count = span(self.start, oldest);
        if count == 0 {
            return;
        }
        for set in [&mut self.arrived, &mut self.answered, &mut self.lost] {
            set.remove_range(self.start, count);
        }
        let entering = count.min(REORDER_WINDOW_PACKETS);
        let end = oldest.add(REORDER_WINDOW_PACKETS);
        for psn in (1..=entering).map(|back| end.sub(back)) {
            self.stamps[slot(psn)] = 0;
            if psn.is_before(self.lost_before) {
                self.lost.insert(psn);
            }
        }
        self.start = oldest;
        self.losses_of_oldest = 0;
        for mark in [&mut self.executed, &mut self.lost_before] {
            if mark.is_before(oldest) {
                *mark = oldest;
            }
        }
    }

    /// Stamps a packet with this PSN that is being sent.
    pub(crate) fn stamp(&mut self, psn: Psn, packets: u32) {
        self.transmissions += 1;
        for psn in (0..packets.min(REORDER_WINDOW_PACKETS)).map(|index| psn.add(index)) {
            if is_in_window(self.start, psn) {
                self.stamps[slot(psn)] = self.transmissions;
                self.lost.remove(psn);
            }
        }
    }

    /// Returns the transmission of `psn`. For a response that was not requested again, this is the
    /// transmission of its request at `request`.
    pub(crate) fn transmission(&self, psn: Psn, request: Psn) -> Evidence {
        let known = |psn| {
            if is_in_window(self.start, psn) {
                self.stamps[slot(psn)]
            } else {
                0
            }
        };
        let stamp = match known(psn) {
            0 => known(request),
            own => own,
        };
        Evidence { stamp, psn }
    }

    /// Records that all requests before `psn` are executed.
    pub(crate) fn execute_before(&mut self, psn: Psn) {
        if psn.is_after(self.executed) {
            self.executed = psn;
        }
    }

    pub(crate) const fn executed(&self) -> Psn {
        self.executed
    }

    /// Records that a request arrived after a gap.
    pub(crate) fn note_arrived(&mut self, psn: Psn) {
        if is_in_window(self.start, psn) {
            self.arrived.insert(psn);
            self.lost.remove(psn);
            self.note_arrival(self.transmission(psn, psn));
        }
    }

    /// Records that a request has arrived, executed or not.
    pub(crate) fn note_arrival(&mut self, transmission: Evidence) {
        if transmission.is_after(&self.latest_arrival) {
            self.latest_arrival = transmission;
        }
    }

    /// Records a response or an acknowledge.
    pub(crate) fn note_answer(&mut self, transmission: Evidence) {
        self.note_arrival(transmission);
        if transmission.is_after(&self.latest_answer) {
            self.latest_answer = transmission;
        }
    }

    pub(crate) const fn latest_arrival(&self) -> Evidence {
        self.latest_arrival
    }

    pub(crate) const fn latest_answer(&self) -> Evidence {
        self.latest_answer
    }

    pub(crate) fn has_arrived(&self, psn: Psn) -> bool {
        is_in_window(self.start, psn) && self.arrived.contains(psn)
    }

    /// Records that the responder has dropped a packet again because it has no receive WQE for it.
    pub(crate) fn forget_arrival(&mut self, psn: Psn) {
        self.arrived.remove(psn);
    }

    /// Returns true if a response can be accepted: it is in the window.
    pub(crate) fn can_answer(&self, psn: Psn) -> bool {
        is_in_window(self.start, psn)
    }

    /// Records that the data of a response has been written.
    pub(crate) fn note_answered(&mut self, psn: Psn) {
        if is_in_window(self.start, psn) {
            self.answered.insert(psn);
            self.lost.remove(psn);
        }
    }

    pub(crate) fn is_answered(&self, psn: Psn) -> bool {
        is_in_window(self.start, psn) && self.answered.contains(psn)
    }

    /// Marks a packet to be retransmitted. Returns true if it was not marked before.
    pub(crate) fn lose(&mut self, psn: Psn) -> bool {
        let is_new = is_in_window(self.start, psn) && !self.lost.contains(psn);
        if is_new {
            self.lost.insert(psn);
        }
        is_new
    }

    /// Counts a lost transmission of the oldest packet; `request` is the PSN of the request that it
    /// answers. Returns false if there were too many losses without progress.
    pub(crate) fn count_loss_of(&mut self, oldest: Psn, request: Psn) -> bool {
        let transmission = Some(self.transmission(oldest, request));
        if self.is_lost(oldest) && self.last_loss != transmission {
            self.last_loss = transmission;
            self.losses_of_oldest += 1;
        }
        self.losses_of_oldest <= MAX_LOSSES_OF_OLDEST
    }

    pub(crate) fn is_lost(&self, psn: Psn) -> bool {
        is_in_window(self.start, psn) && self.lost.contains(psn)
    }

    /// Unmarks packets from `psn` on: they will be sent in order anyway.
    pub(crate) fn keep_from(&mut self, psn: Psn) {
        let kept = span(self.start, psn);
        if kept < REORDER_WINDOW_PACKETS {
            self.lost.remove_range(psn, REORDER_WINDOW_PACKETS - kept);
        }
        if self.lost_before.is_after(psn) {
            self.lost_before = psn;
        }
    }

    /// Declares PSNs before `psn` lost when they enter the window.
    pub(crate) fn lose_before(&mut self, psn: Psn) {
        self.lost_before = psn;
    }

    /// Returns the first packet to retransmit before `end`.
    pub(crate) fn first_lost(&self, end: Psn) -> Option<Psn> {
        if self.lost.is_empty() {
            return None;
        }
        let count = span(self.start, end).min(REORDER_WINDOW_PACKETS);
        (0..count)
            .map(|index| self.start.add(index))
            .find(|psn| self.lost.contains(*psn))
    }

    /// Starts to measure the age of a gap in responses, unless one is being measured.
    pub(crate) fn measure_gap(&mut self, deadline: Instant) {
        let seen = self.latest_answer;
        self.gap.get_or_insert(Gap { deadline, seen });
    }

    pub(crate) fn close_gap(&mut self) {
        self.gap = None;
    }

    pub(crate) fn gap_deadline(&self) -> Option<Instant> {
        self.gap.map(|gap| gap.deadline)
    }

    pub(crate) fn take_old_gap(&mut self, now: Instant) -> Option<Gap<Evidence>> {
        self.gap.take_if(|gap| gap.deadline <= now)
    }
}

#[inline]
const fn slot(psn: Psn) -> usize {
    (psn.value() % REORDER_WINDOW_PACKETS) as usize
}
