//! Packets of a queue pair that have to wait before they leave.

use std::collections::VecDeque;

use ferroce_transport::Transmit;

/// Packets for which the wire had no room, or whose payload is in a page that is not present. Most
/// queue pairs have none, and no memory for any.
#[derive(Debug, Default)]
#[expect(
    clippy::box_collection,
    reason = "a pointer in each of many queue pairs, not three words"
)]
pub struct Stalled(Option<Box<VecDeque<Transmit>>>);

impl Stalled {
    /// Returns true if none waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(|packets| packets.is_empty())
    }

    /// Takes the first packet.
    pub fn pop_front(&mut self) -> Option<Transmit> {
        self.0.as_mut()?.pop_front()
    }

    /// Adds a packet after the others.
    pub fn push_back(&mut self, packet: Transmit) {
        self.0.get_or_insert_default().push_back(packet);
    }

    /// Adds a packet before the others.
    pub fn push_front(&mut self, packet: Transmit) {
        self.0.get_or_insert_default().push_front(packet);
    }

    /// Keeps the packets for which `stays` is true.
    pub fn retain(&mut self, stays: impl Fn(&Transmit) -> bool) {
        if let Some(packets) = &mut self.0 {
            packets.retain(stays);
        }
    }

    /// Drops all packets.
    pub fn clear(&mut self) {
        self.0 = None;
    }
}
