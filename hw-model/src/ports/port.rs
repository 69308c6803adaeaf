//! The MAC's view of the cable.

use ferroce_units::Instant;
use ferroce_wire::{Gid, Mac, Qpn};

/// Destination of a frame; a switch uses the MAC address, a fabric inside one host also GID and
/// QPN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// Destination MAC address.
    pub mac: Mac,
    /// Destination GID (the IP address of RoCEv2).
    pub gid: Gid,
    /// Destination queue pair.
    pub qpn: Qpn,
}

/// Result of a request for a transmit buffer.
#[derive(Debug)]
pub enum Reservation<F> {
    /// A buffer of exactly the requested length.
    Ready(F),
    /// The wire is full: back-pressure. Retry later.
    Full,
    /// The destination does not exist: the frame would leave on the cable and be lost. Count it and
    /// continue.
    NoRoute,
}

/// The wire of the MAC. A frame buffer has one owner at a time.
pub trait Port {
    /// A frame buffer; on the shared-memory wire a slot of the ring itself, so that the payload is
    /// copied once by the sender's DMA engine and once by the receiver's.
    type Frame: AsRef<[u8]> + AsMut<[u8]> + std::fmt::Debug;

    /// True if [`Port::receive`] may return a frame before it arrives.
    const LOOKS_AHEAD: bool = false;

    /// Requests a transmit buffer of `length` bytes for `route`.
    fn reserve(&mut self, route: &Route, length: usize) -> Reservation<Self::Frame>;

    /// Returns true if the other end of the cable has paused any priority (PFC).
    fn is_paused(&self) -> bool {
        false
    }

    /// Returns true if the priority of a frame is paused. Called only while [`Port::is_paused`].
    fn pauses(&self, _frame: &Self::Frame) -> bool {
        false
    }

    /// Sends a frame whose last bit leaves the MAC at `at`.
    ///
    /// A NIC without timing transmits frames to one destination in the order of their reservations.
    /// A timed NIC may let frames of one queue pair overtake frames of another.
    fn transmit(&mut self, at: Instant, frame: Self::Frame);

    /// Returns a reserved buffer unsent (its DMA failed). Only legal for the newest reservation.
    fn cancel(&mut self, frame: Self::Frame);

    /// Takes the next received frame, and the time at which its last bit arrives. A simulated link
    /// knows that in advance, so it may be later than `now`; frames arrive in the order in which
    /// they are returned.
    fn receive(&mut self, now: Instant) -> Option<(Instant, Self::Frame)>;

    /// Returns the buffer of a received frame to the wire.
    fn release(&mut self, frame: Self::Frame);

    /// Returns true if sent frames need a valid ICRC.
    ///
    /// False only on a trusted wire inside one machine that is not captured.
    fn computes_icrc(&self) -> bool;

    /// Returns true if the sender of a received frame has computed its ICRC, so that it must be
    /// checked.
    fn carries_icrc(&self, frame: &Self::Frame) -> bool;

    /// Subscribes to frames to the multicast `group`, including frames that this end sends.
    ///
    /// A real cable delivers everything; a fabric inside one host delivers only subscribed groups.
    fn join(&mut self, _group: Gid) {}

    /// Unsubscribes from frames to the multicast `group`.
    fn leave(&mut self, _group: Gid) {}

    /// Sets whether frames to the GSI, QP 1, are delivered.
    ///
    /// A real cable delivers everything. QP 1 has the same number on every function; in a fabric
    /// where several functions share an address, a frame to QP 1 goes to all that subscribe.
    fn set_gsi(&mut self, _is_open: bool) {}

    /// Sets entry `index` of the GID table to `gid`; unspecified: none.
    ///
    /// A real cable need not know; a fabric inside one host finds a NIC by its addresses.
    fn set_gid(&mut self, _index: usize, _gid: Gid) {}

    /// Notifies the port that a queue pair can receive from now on.
    ///
    /// A real cable need not know; a replayed capture waits for it.
    fn queue_pair_ready(&mut self, _qpn: Qpn) {}

    /// Returns true if a peer has disappeared since the last call. A real cable does not know.
    fn take_loss(&mut self) -> bool {
        false
    }

    /// Returns true if the function at `route` no longer exists and will never answer.
    fn is_gone(&self, _route: &Route) -> bool {
        false
    }

    /// Returns true if the function at `route` exists and has not taken all frames sent to it, so
    /// that its silence does not mean packet loss.
    fn is_behind(&mut self, _route: &Route) -> bool {
        false
    }

    /// Returns true if the link is up. While it is down nothing is sent or received.
    fn link_is_up(&self) -> bool {
        true
    }
}
