//! MAC: the edges between the packet engines and the wire.

use std::collections::VecDeque;

use ferroce_units::{Duration, Instant};

use crate::ports::host::Host;
use crate::ports::port::Port;
use crate::time::edge::Edge;
use crate::time::timing::{PLANNING_HORIZON, Stage, Timing, Work};
use crate::time::turn::Turn;

/// A packet of a request that is complete when its last one has left the card (UC, UD).
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
    /// `None`: its destination does not exist. It keeps its place among those of its queue pair.
    pub frame: Option<F>,
    /// The request to be notified when it has left.
    pub sent: Option<Sent>,
}

/// Frames on their way out and in.
#[derive(Debug)]
pub struct Mac<F> {
    /// Frames from the packetizer.
    egress: Edge<Departing<F>>,
    /// Packets that have left and are still to be reported, with the time.
    left: VecDeque<(Instant, Sent)>,
    /// Frames to the depacketizer.
    ingress: Edge<F>,
    /// When the last frame was received.
    received: Instant,
    /// Sums of the times, in picoseconds, at which frames came to wait on their way out, and at
    /// which they went on. Only their difference counts: they may wrap.
    waiting: (u64, u64),
}

impl<F: AsRef<[u8]> + AsMut<[u8]>> Mac<F> {
    /// An idle MAC.
    pub fn new(edge_capacity: usize, egress_packets: usize) -> Self {
        Self {
            egress: Edge::new(egress_packets),
            left: VecDeque::new(),
            ingress: Edge::new(edge_capacity),
            received: Instant::ZERO,
            waiting: (0, 0),
        }
    }

    /// Puts frames on the wire that are due, or will be soon: nothing changes them any more.
    #[inline(always)]
    pub fn transmit<P: Port<Frame = F>, T: Timing>(
        &mut self,
        now: Instant,
        timing: &mut T,
        port: &mut P,
    ) {
        let until = now + PLANNING_HORIZON;
        while timing.free_at(Stage::MacTransmit) <= until {
            let Some((ready, departing)) = self.egress.pop_until(until) else {
                break;
            };
            self.waiting.1 = self.waiting.1.wrapping_add(now.as_ps());
            self.transmit_one(now, ready, departing, timing, port);
        }
    }

    /// Puts a frame that is ready at `ready` on the wire.
    #[inline(always)]
    fn transmit_one<P: Port<Frame = F>, T: Timing>(
        &mut self,
        now: Instant,
        ready: Instant,
        departing: Departing<F>,
        timing: &mut T,
        port: &mut P,
    ) {
        let mut at = ready;
        if let Some(frame) = departing.frame {
            let work = Work::bytes(frame.as_ref().len() as u32);
            at = timing.reserve(now, ready, Stage::MacTransmit, work);
            port.transmit(at, frame);
        }
        if let Some(sent) = departing.sent {
            self.left.push_back((at, sent));
        }
    }

    /// Returns true if it holds as many frames to send as it may.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.egress.is_full()
    }

    /// Returns true if it has room for less than half of these frames.
    #[inline]
    pub fn is_nearly_full(&self) -> bool {
        self.egress.is_nearly_full()
    }

    /// Takes a frame that is ready at `ready`. The caller has looked at [`Mac::is_full`].
    #[inline(always)]
    pub(crate) fn send<P: Port<Frame = F>, H: Host, T: Timing>(
        &mut self,
        turn: &mut Turn<'_, H, T>,
        ready: Instant,
        departing: Departing<F>,
        port: &mut P,
    ) {
        match self.egress.is_empty() && turn.passes(ready) {
            true => self.transmit_one(turn.now, ready, departing, turn.timing, port),
            false => {
                self.waiting.0 = self.waiting.0.wrapping_add(turn.now.as_ps());
                self.egress.push(ready, departing);
            }
        }
    }

    /// Takes the report of the next packet that has left.
    #[inline]
    pub fn take_left(&mut self) -> Option<(Instant, Sent)> {
        self.left.pop_front()
    }

    /// Returns the report that is taken next.
    #[inline]
    pub fn next_left(&self) -> Option<(Instant, Sent)> {
        self.left.front().copied()
    }

    /// Returns true if a received frame can be taken.
    #[inline]
    pub fn has_received(&self) -> bool {
        !self.ingress.is_empty()
    }

    /// Takes the next received frame, and when its last byte is there.
    #[inline]
    pub fn take_received(&mut self) -> Option<(Instant, F)> {
        self.ingress.pop_ahead()
    }

    /// Returns the frames that wait on their way out, and on their way in.
    pub fn levels(&self) -> (usize, usize) {
        (self.egress.len(), self.ingress.len())
    }

    /// Returns the room for frames on their way out, and the times together up to `now` for which
    /// a place of it was taken.
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

    /// Forgets all frames (reset): those that were made are sent, those that were received are
    /// dropped.
    pub fn reset<P: Port<Frame = F>>(&mut self, now: Instant, port: &mut P) {
        self.egress.clear(|departing| {
            if let Some(frame) = departing.frame {
                port.transmit(now, frame);
            }
        });
        self.left.clear();
        self.waiting = (0, 0);
        self.drop_received(port);
    }

    /// Drops the frames that were received.
    pub fn drop_received<P: Port<Frame = F>>(&mut self, port: &mut P) {
        self.ingress.clear(|frame| port.release(frame));
    }

    /// Returns the time at which [`Mac::transmit`] has to be called again.
    pub fn next_transmit<T: Timing>(&self, timing: &T) -> Option<Instant> {
        let free_at = timing.free_at(Stage::MacTransmit);
        let ready = self.egress.next_delivery()?;
        Some(ready.max(free_at) - PLANNING_HORIZON)
    }

    /// Drops what comes from the wire, as far as one turn of [`Mac::receive`] would take it: the
    /// link is down.
    pub fn discard<P: Port<Frame = F>>(&mut self, now: Instant, port: &mut P) {
        for _ in 0..self.ingress.capacity() {
            match port.receive(now) {
                Some((_, frame)) => port.release(frame),
                None => break,
            }
        }
    }

    /// Takes frames off the wire, as far as the edge has room. True: there were some.
    #[inline(always)]
    pub fn receive<P: Port<Frame = F>, T: Timing>(
        &mut self,
        now: Instant,
        timing: &mut T,
        port: &mut P,
    ) -> bool {
        let mut received = false;
        while !self.ingress.is_full() {
            let Some((at, frame)) = port.receive(now) else {
                break;
            };
            let work = Work::bytes(frame.as_ref().len() as u32);
            let ready = timing.reserve(now, at, Stage::MacReceive, work);
            // A frame does not pass the one in front of it, however short it is.
            self.received = ready.max(self.received);
            self.ingress.push(self.received, frame);
            received = true;
        }
        received
    }
}
