//! MAC: the edges between the packet engines and the wire.

use std::collections::VecDeque;

use ferroce_units::{Duration, Instant};

use crate::ports::host::Host;
use crate::ports::port::Port;
use crate::time::edge::Edge;
use crate::time::timing::{PLANNING_HORIZON, Stage, Timing, Work};
use crate::time::turn::Turn;

/// A packet of a request that completes when its last packet has left the card (UC, UD).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// Index of the queue pair.
    pub qp: u32,
    /// Its request.
    pub request: u32,
}

/// A frame on its way to the wire.
#[derive(Debug)]
pub struct Departing<F> {
    /// `None`: its destination does not exist. The entry keeps its position in the queue pair's
    /// order.
    pub frame: Option<F>,
    /// The request to notify when the frame has left.
    pub sent: Option<Sent>,
}

/// Outgoing and incoming frames.
///
/// Congestion notifications go before all other frames and are never paused. A frame whose priority
/// the other end of the cable has paused stays; frames of other priorities overtake it.
#[derive(Debug)]
pub struct Mac<F> {
    /// Notifications of congestion.
    notifications: VecDeque<(Instant, F)>,
    /// While paused frames stay: the time at which the next frame that is not paused is ready, if
    /// any.
    paused: Option<Option<Instant>>,
    /// Frames that became ready during a pause leave no earlier than this.
    not_before: Instant,
    /// Frames from the packetizer.
    egress: Edge<Departing<F>>,
    /// Packets that have left the card and are not yet reported, with the time.
    left: VecDeque<(Instant, Sent)>,
    /// Frames to the depacketizer.
    ingress: Edge<F>,
    /// True if frames stayed on the wire because there was no room.
    leaves_frames: bool,
    /// When the last frame was received.
    received: Instant,
    /// Sums of the times, in picoseconds, at which outgoing frames began and ended to wait. Only
    /// the difference is meaningful: the sums may wrap.
    waiting: (u64, u64),
}

impl<F: AsRef<[u8]> + AsMut<[u8]>> Mac<F> {
    /// Returns an idle MAC.
    pub fn new(edge_capacity: usize, egress_packets: usize) -> Self {
        Self {
            notifications: VecDeque::new(),
            paused: None,
            not_before: Instant::ZERO,
            egress: Edge::new(egress_packets),
            left: VecDeque::new(),
            ingress: Edge::new(edge_capacity),
            leaves_frames: false,
            received: Instant::ZERO,
            waiting: (0, 0),
        }
    }

    /// Puts frames on the wire that are due, or will be soon: they can no longer change.
    #[inline]
    pub fn transmit<P: Port<Frame = F>, T: Timing>(
        &mut self,
        now: Instant,
        timing: &mut T,
        port: &mut P,
    ) {
        let until = now + PLANNING_HORIZON;
        if self.paused.take().is_some() {
            self.not_before = now;
        }
        while timing.free_at(Stage::MacTransmit) <= until {
            if !self.notifications.is_empty() && self.notify(now, until, timing, port) {
                continue;
            }
            let next = if port.is_paused() {
                self.pop_unpaused(until, port)
            } else {
                self.egress.pop_until(until)
            };
            let Some((ready, departing)) = next else {
                break;
            };
            self.waiting.1 = self.waiting.1.wrapping_add(now.as_ps());
            self.transmit_one(now, ready, departing, timing, port);
        }
    }

    /// Takes the next frame whose priority is not paused.
    #[cold]
    fn pop_unpaused<P: Port<Frame = F>>(
        &mut self,
        until: Instant,
        port: &P,
    ) -> Option<(Instant, Departing<F>)> {
        let passes = |departing: &Departing<F>| {
            !departing
                .frame
                .as_ref()
                .is_some_and(|frame| port.pauses(frame))
        };
        match self.egress.pop_past(until, passes) {
            Ok(next) => Some(next),
            Err(ready) => {
                self.paused = Some(ready);
                None
            }
        }
    }

    /// Puts the next notification on the wire if it is due. Returns true if it was.
    #[cold]
    fn notify<P: Port<Frame = F>, T: Timing>(
        &mut self,
        now: Instant,
        until: Instant,
        timing: &mut T,
        port: &mut P,
    ) -> bool {
        let next = self
            .notifications
            .pop_front_if(|(ready, _)| *ready <= until);
        let Some((ready, frame)) = next else {
            return false;
        };
        let departing = Departing {
            frame: Some(frame),
            sent: None,
        };
        self.transmit_one(now, ready, departing, timing, port);
        true
    }

    /// Takes a congestion notification that is ready at `ready`.
    pub fn send_notification(&mut self, ready: Instant, frame: F) {
        self.notifications.push_back((ready, frame));
    }

    /// Puts a frame that is ready at `ready` on the wire.
    #[inline]
    fn transmit_one<P: Port<Frame = F>, T: Timing>(
        &mut self,
        now: Instant,
        ready: Instant,
        departing: Departing<F>,
        timing: &mut T,
        port: &mut P,
    ) {
        let mut at = ready.max(self.not_before);
        if let Some(frame) = departing.frame {
            let work = Work::bytes(frame.as_ref().len() as u32);
            at = timing.reserve(now, at, Stage::MacTransmit, work);
            port.transmit(at, frame);
        }
        if let Some(sent) = departing.sent {
            self.left.push_back((at, sent));
        }
    }

    /// Returns true if it cannot take another outgoing frame.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.egress.is_full()
    }

    /// Returns true if less than half of its room for outgoing frames is free.
    #[inline]
    pub fn is_nearly_full(&self) -> bool {
        self.egress.is_nearly_full()
    }

    /// Takes a frame that is ready at `ready`. The caller has checked [`Mac::is_full`].
    #[inline]
    pub(crate) fn send<P: Port<Frame = F>, H: Host, T: Timing>(
        &mut self,
        turn: &mut Turn<'_, H, T>,
        ready: Instant,
        departing: Departing<F>,
        port: &mut P,
    ) {
        if self.egress.is_empty() && turn.passes(ready) {
            self.transmit_one(turn.now, ready, departing, turn.timing, port);
        } else {
            self.waiting.0 = self.waiting.0.wrapping_add(turn.now.as_ps());
            self.egress.push(ready, departing);
        }
    }

    /// Takes the report of the next packet that has left the card.
    #[inline]
    pub fn take_left(&mut self) -> Option<(Instant, Sent)> {
        self.left.pop_front()
    }

    /// Returns the next report.
    #[inline]
    pub fn next_left(&self) -> Option<(Instant, Sent)> {
        self.left.front().copied()
    }

    /// Returns true if a received frame can be taken.
    #[inline]
    pub fn has_received(&self) -> bool {
        !self.ingress.is_empty()
    }

    /// Returns true if frames stayed on the wire for which there is room now.
    #[inline]
    pub fn has_room_again(&self) -> bool {
        self.leaves_frames && !self.ingress.is_full()
    }

    /// Takes the next received frame, and the time at which its last byte has arrived.
    #[inline]
    pub fn take_received(&mut self) -> Option<(Instant, F)> {
        self.ingress.pop_ahead()
    }

    /// Returns the numbers of outgoing and incoming frames.
    pub fn levels(&self) -> (usize, usize) {
        (self.egress.len(), self.ingress.len())
    }

    /// Returns the room for outgoing frames, and the total time up to `now` for which its places
    /// were in use.
    pub fn egress_usage(&self, now: Instant) -> (usize, Duration) {
        let (came, went) = self.waiting;
        let still_there = now.as_ps().wrapping_mul(self.egress.len() as u64);
        let held = went.wrapping_add(still_there).wrapping_sub(came);
        (self.egress.capacity(), Duration::from_ps(held))
    }

    /// Drops the pending reports for the queue pair at index `qp`.
    pub fn forget(&mut self, qp: u32) {
        self.egress.for_each_mut(|departing| {
            departing.sent = departing.sent.filter(|sent| sent.qp != qp);
        });
        self.left.retain(|(_, sent)| sent.qp != qp);
    }

    /// Resets the MAC: outgoing frames are sent, received frames are dropped.
    pub fn reset<P: Port<Frame = F>>(&mut self, now: Instant, port: &mut P) {
        self.egress.clear(|departing| {
            if let Some(frame) = departing.frame {
                port.transmit(now, frame);
            }
        });
        for (_, frame) in self.notifications.drain(..) {
            port.transmit(now, frame);
        }
        self.left.clear();
        self.paused = None;
        self.waiting = (0, 0);
        self.drop_received(port);
    }

    /// Drops received frames.
    pub fn drop_received<P: Port<Frame = F>>(&mut self, port: &mut P) {
        self.ingress.clear(|frame| port.release(frame));
    }

    /// Returns the time at which [`Mac::transmit`] has to be called again.
    pub fn next_transmit<T: Timing>(&self, timing: &T) -> Option<Instant> {
        let free_at = timing.free_at(Stage::MacTransmit);
        // The end of the pause wakes the NIC.
        let frame = match self.paused {
            None => self.egress.next_delivery(),
            Some(unpaused) => unpaused,
        };
        let notification = self.notifications.front().map(|(ready, _)| *ready);
        let ready = match (frame, notification) {
            (Some(frame), Some(notification)) => frame.min(notification),
            (frame, notification) => frame.or(notification)?,
        };
        Some(ready.max(free_at) - PLANNING_HORIZON)
    }

    /// Drops incoming frames because the link is down, at most as many as one [`Mac::receive`]
    /// would take.
    pub fn discard<P: Port<Frame = F>>(&mut self, now: Instant, port: &mut P) {
        for _ in 0..self.ingress.capacity() {
            match port.receive(now) {
                Some((_, frame)) => port.release(frame),
                None => break,
            }
        }
    }

    /// Takes frames off the wire while the edge has room. Returns true if there were some.
    #[inline]
    pub fn receive<P: Port<Frame = F>, T: Timing>(
        &mut self,
        now: Instant,
        timing: &mut T,
        port: &mut P,
    ) -> bool {
        let mut received = false;
        self.leaves_frames = true;
        while !self.ingress.is_full() {
            let Some((at, frame)) = port.receive(now) else {
                self.leaves_frames = false;
                break;
            };
            let work = Work::bytes(frame.as_ref().len() as u32);
            let ready = timing.reserve(now, at, Stage::MacReceive, work);
            // A frame does not overtake an earlier one, however short it is.
            self.received = ready.max(self.received);
            self.ingress.push(self.received, frame);
            received = true;
        }
        received
    }
}
