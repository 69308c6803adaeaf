//! What the MAC sees of the cable.

use ferroce_units::Instant;
use ferroce_wire::{Gid, Mac, Qpn};

/// Where a frame goes; a switch looks at the MAC, a fabric inside one host also at GID and QPN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// Destination MAC address.
    pub mac: Mac,
    /// Destination GID (the IP address of RoCEv2).
    pub gid: Gid,
    /// Destination queue pair.
    pub qpn: Qpn,
}

/// The answer to a request for a transmit buffer.
#[derive(Debug)]
pub enum Reservation<F> {
    /// A buffer of exactly the length asked for.
    Ready(F),
    /// The wire is full: back-pressure. Ask again later.
    Full,
    /// The destination does not exist: the frame would leave on the cable and be lost. Count it and
    /// continue.
    NoRoute,
}

/// The wire behind the MAC. A frame buffer has one owner at a time.
pub trait Port {
    /// A frame buffer; on the shared-memory wire a slot of the ring itself, so that payload is
    /// copied once by the sender's DMA engine and once by the receiver's.
    type Frame: AsRef<[u8]> + AsMut<[u8]> + std::fmt::Debug;

    /// True if [`Port::receive`] may give a frame before it arrives.
    const LOOKS_AHEAD: bool = false;

    /// Asks for a transmit buffer of `length` bytes towards `route`.
    fn reserve(&mut self, route: &Route, length: usize) -> Reservation<Self::Frame>;

    /// Returns true if the other end of the cable has paused some priority of this one (PFC).
    fn is_paused(&self) -> bool {
        false
    }

    /// Returns true if the priority of a frame is paused. Asked only while [`Port::is_paused`].
    fn pauses(&self, _frame: &Self::Frame) -> bool {
        false
    }

    /// Sends a frame whose last bit leaves the MAC at `at`.
    ///
    /// A NIC without timing transmits frames to one destination in the order in which they were
    /// reserved. A timed one may let frames of one queue pair overtake those of another.
    fn transmit(&mut self, at: Instant, frame: Self::Frame);

    /// Gives back a reserved buffer unsent (its DMA failed). Only legal for the newest reservation.
    fn cancel(&mut self, frame: Self::Frame);

    /// Takes the next received frame, and when its last bit arrives. A simulated link knows that
    /// in advance, so that it may be later than `now`; frames arrive in the order in which they
    /// are given.
    fn receive(&mut self, now: Instant) -> Option<(Instant, Self::Frame)>;

    /// Gives a received frame's buffer back to the wire.
    fn release(&mut self, frame: Self::Frame);

    /// Returns true if the ICRC of frames to be sent is computed.
    ///
    /// False only on a trusted wire inside one machine that is not captured.
    fn computes_icrc(&self) -> bool;

    /// Returns true if the sender of a received frame has computed its ICRC, so that it is to be
    /// checked.
    fn carries_icrc(&self, frame: &Self::Frame) -> bool;

    /// Frames to the multicast `group` are wanted from now on, also those that this end sends.
    ///
    /// A real cable brings everything; a fabric inside one host delivers only what is wanted.
    fn join(&mut self, _group: Gid) {}

    /// Frames to the multicast `group` are no longer wanted.
    fn leave(&mut self, _group: Gid) {}

    /// Frames to the GSI, QP 1, are wanted from now on (`true`), or no longer.
    ///
    /// A real cable brings everything. QP 1 has the same number on every function; in a fabric
    /// where several functions have one address, a frame to it goes to all that want it.
    fn set_gsi(&mut self, _is_open: bool) {}

    /// Entry `index` of the GID table is `gid` from now on; unspecified: there is none.
    ///
    /// A real cable need not know; a fabric inside one host finds a NIC by its addresses.
    fn set_gid(&mut self, _index: usize, _gid: Gid) {}

    /// A queue pair can receive from now on.
    ///
    /// A real cable need not know; a capture that is replayed waits for it.
    fn queue_pair_ready(&mut self, _qpn: Qpn) {}

    /// Returns true if a peer has disappeared since the last call. A real cable does not know.
    fn take_loss(&mut self) -> bool {
        false
    }

    /// Returns true if the function at `route` no longer exists and will never answer.
    fn is_gone(&self, _route: &Route) -> bool {
        false
    }

    /// Returns true if the function at `route` exists and has not yet taken what was sent to it, so
    /// that its silence does not mean that packets were lost.
    fn is_behind(&mut self, _route: &Route) -> bool {
        false
    }

    /// Returns true if the link is up. While it is down nothing is sent or received.
    fn link_is_up(&self) -> bool {
        true
    }
}
