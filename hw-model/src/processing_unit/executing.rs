//! Responses of atomics that are not executed yet.
//!
//! A responder keeps them with its resources for the requests, of which a queue pair has as many as
//! its peer may have outstanding. They have no place at the packetizer and the MAC: there they
//! would hold up the responses of atomics that are executed.

use ferroce_units::Instant;

use crate::contexts::queue_pair::QueuePair;
use crate::processing_unit::Outbound;
use crate::time::edge::Edge;
use crate::time::timing::PLANNING_HORIZON;

/// Maximum number of packets: processing units make no more until some have left.
const MAX_PACKETS: usize = 1 << 20;

/// The responses, and later packets of the same queue pairs.
#[derive(Debug)]
pub struct Executing {
    packets: Edge<(u8, Outbound)>,
    /// Until when the last packet of a queue pair waits, by index; as long as the highest index of
    /// which a packet has waited.
    held_until: Vec<Instant>,
}

impl Executing {
    /// Returns a place without packets.
    pub fn new() -> Self {
        Self {
            packets: Edge::new(MAX_PACKETS),
            held_until: Vec::new(),
        }
    }

    /// Returns true if it cannot take another packet.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.packets.is_full()
    }

    /// Returns true if a packet of `qp` that is ready at `ready` has to wait here: an atomic before
    /// it is executed, or a packet before it waits.
    #[inline]
    pub fn holds(&self, now: Instant, qp: &QueuePair, ready: Instant) -> bool {
        let first = self.packets.next_delivery();
        first.is_some_and(|first| self.held_until(qp.index) >= first)
            || (qp.progress.executed > now && ready > now + PLANNING_HORIZON)
    }

    /// Takes a packet that processing unit `unit` has made, until `ready`.
    pub fn push(&mut self, ready: Instant, unit: u8, outbound: Outbound) {
        let index = outbound.qp as usize;
        if self.held_until.len() <= index {
            self.held_until.resize(index + 1, Instant::ZERO);
        }
        let ready = ready.max(self.held_until[index]);
        self.held_until[index] = ready;
        self.packets.push(ready, (unit, outbound));
    }

    fn held_until(&self, index: u32) -> Instant {
        let until = self.held_until.get(index as usize);
        until.copied().unwrap_or(Instant::ZERO)
    }

    /// Takes the next packet that is ready soon, if `has_room` for it at its processing unit.
    #[inline]
    pub fn pop(
        &mut self,
        now: Instant,
        has_room: impl FnOnce(u8) -> bool,
    ) -> Option<(Instant, u8, Outbound)> {
        let (unit, _) = self.packets.front()?;
        if !has_room(*unit) {
            return None;
        }
        let (ready, (unit, outbound)) = self.packets.pop_until(now + PLANNING_HORIZON)?;
        Some((ready, unit, outbound))
    }

    /// Returns the time at which [`Executing::pop`] has a packet, if it `has_room`.
    pub fn next_release(&self, has_room: impl FnOnce(u8) -> bool) -> Option<Instant> {
        let ready = self.packets.next_delivery_if(|(unit, _)| has_room(*unit))?;
        Some(ready - PLANNING_HORIZON)
    }

    /// Drops the packets of a queue pair that is reset or destroyed.
    pub fn forget(&mut self, index: u32) {
        self.retain(|packet| packet.qp != index);
        if let Some(until) = self.held_until.get_mut(index as usize) {
            *until = Instant::ZERO;
        }
    }

    /// Drops the packets for which `keep` returns false.
    pub fn retain(&mut self, mut keep: impl FnMut(&Outbound) -> bool) {
        self.packets.retain(|(_, outbound)| keep(outbound));
    }

    /// Drops all packets (reset).
    pub fn clear(&mut self) {
        self.packets.clear(drop);
        self.held_until.clear();
    }
}
