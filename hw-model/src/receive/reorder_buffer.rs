//! The reorder buffer of the card: packets that arrived before a missing one.

use std::collections::{BTreeMap, VecDeque};

use ferroce_wire::{Psn, TransportHeaders};

/// Overhead of a held packet in bytes: its headers, and its place in the list.
const HEADER_BYTES: usize = 128;

/// A packet without its network headers, which are already checked.
#[derive(Debug)]
pub struct Held {
    /// Transport headers.
    pub headers: TransportHeaders,
    /// Payload.
    pub payload: Box<[u8]>,
}

impl Held {
    fn cost(&self) -> usize {
        HEADER_BYTES + self.payload.len()
    }
}

/// Packets of all queue pairs, bounded in bytes.
#[derive(Debug)]
pub struct ReorderBuffer {
    capacity_bytes: usize,
    used_bytes: usize,
    /// By index of the queue pair, in PSN order.
    queues: BTreeMap<u32, VecDeque<Held>>,
}

impl ReorderBuffer {
    /// Returns an empty buffer.
    pub fn new(capacity_bytes: usize) -> Self {
        Self {
            capacity_bytes,
            used_bytes: 0,
            queues: BTreeMap::new(),
        }
    }

    /// Keeps a packet of the queue pair at `index`. Returns false if there is no room for it.
    pub fn hold(&mut self, index: u32, headers: &TransportHeaders, payload: &[u8]) -> bool {
        let cost = HEADER_BYTES + payload.len();
        if self.used_bytes + cost > self.capacity_bytes {
            return false;
        }
        let psn = headers.bth.psn;
        let queue = self.queues.entry(index).or_default();
        // Most packets arrive in order, so the position is near the end.
        let behind = queue.iter().rev();
        let later = behind.take_while(|held| held.headers.bth.psn.is_after(psn));
        let place = queue.len() - later.count();
        let held = Held {
            headers: *headers,
            payload: payload.into(),
        };
        queue.insert(place, held);
        self.used_bytes += cost;
        true
    }

    /// Takes the packet `psn` of a queue pair, and drops the earlier ones.
    pub fn take(&mut self, index: u32, psn: Psn) -> Option<Held> {
        self.drop_before(index, psn);
        let queue = self.queues.get_mut(&index)?;
        let is_it = queue
            .front()
            .is_some_and(|held| held.headers.bth.psn == psn);
        let held = queue.pop_front().filter(|_| is_it)?;
        self.used_bytes -= held.cost();
        Some(held)
    }

    /// Drops the packets before `expected` of a queue pair.
    pub fn drop_before(&mut self, index: u32, expected: Psn) {
        let Some(queue) = self.queues.get_mut(&index) else {
            return;
        };
        while let Some(held) = queue.front()
            && held.headers.bth.psn.is_before(expected)
        {
            self.used_bytes -= held.cost();
            queue.pop_front();
        }
        if queue.is_empty() {
            self.queues.remove(&index);
        }
    }

    /// Drops all packets of a queue pair.
    pub fn forget(&mut self, index: u32) {
        let queue = self.queues.remove(&index).unwrap_or_default();
        self.used_bytes -= queue.iter().map(Held::cost).sum::<usize>();
    }

    /// Drops all packets.
    pub fn clear(&mut self) {
        *self = Self::new(self.capacity_bytes);
    }

    /// Returns the number of bytes in use.
    pub fn used_bytes(&self) -> usize {
        self.used_bytes
    }
}

#[cfg(test)]
mod tests {
    use ferroce_wire::{Bth, Connected, Opcode, Qpn, SendPart};

    use super::*;

    fn packet(psn: u32) -> TransportHeaders {
        let bth = Bth::new(Opcode(0), Qpn::new(7), Psn::new(psn));
        TransportHeaders::send(bth, Connected::Reliable, SendPart::Only)
    }

    #[test]
    fn packets_leave_in_order_and_their_room_is_free_again() {
        let mut buffer = ReorderBuffer::new(4 * (HEADER_BYTES + 100));
        for psn in [0xff_ffff, 2, 0, 1] {
            assert!(buffer.hold(3, &packet(psn), &[psn as u8; 100]));
        }
        assert!(!buffer.hold(4, &packet(9), &[0; 100]), "it is full");
        for psn in [0xff_ffff, 0, 2] {
            let held = buffer.take(3, Psn::new(psn)).expect("it is held");
            assert_eq!(held.payload[..], [psn as u8; 100]);
        }
        assert_eq!(buffer.used_bytes(), 0, "number 1 was passed");
        assert!(buffer.hold(4, &packet(9), &[0; 100]));
        assert!(buffer.take(3, Psn::new(9)).is_none());
        buffer.forget(4);
        assert_eq!(buffer.used_bytes(), 0);
    }
}
