//! Recovery beyond go-back-N: the modes of a queue pair, and their state. A queue pair without a
//! mode has none of it.
//!
//! Selective repeat. The responder keeps packets that arrive after a gap (its caller *holds* them,
//! [`crate::Step::Hold`]) and reports them in its NAK; the requester retransmits the missing ones.
//! A READ is different: its requester detects the gap in the responses, and requests the missing
//! range with a duplicate READ request (IBTA vol 1, 9.7.5.1.4).
//!
//! Adaptive routing. The network may deliver packets in any order, so a gap counts as a loss only
//! when it is older than the reorder time. Each packet of a WRITE carries its own address and is
//! placed when it arrives; the ordered actions (MSN, ACK, completion) follow when the gap closes.
//!
//! Both modes need support by the peer: each packet shows it in bits that IBTA reserves
//! ([`ferroce_wire::recovery`]). Until the peer has shown support, and with a peer that never does,
//! the queue pair uses go-back-N.
//!
//! Files: [`psn_set`], the bitmap; [`sent`], the requester's state of packets in flight;
//! [`received`], the responder's state of packets after a gap; [`ack_timer`], the schedules of
//! retransmissions without an answer, of which [`adaptive_timer`] and [`connectx_timer`] are two.

pub(crate) mod ack_timer;
mod adaptive_timer;
mod connectx_timer;
pub(crate) mod expiry;
mod psn_set;
mod received;
mod sent;

pub use ack_timer::AckTimeouts;
pub use adaptive_timer::{AdaptiveTimer, TimeoutDecrement, TimeoutRange};
pub use connectx_timer::ConnectxSchedule;
use ferroce_units::{Duration, Instant};
use ferroce_wire::{Bth, RecoveryBits};
pub(crate) use received::ReceivedWindow;
pub(crate) use sent::{Evidence, SentWindow};

/// Recovery mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum RecoveryMode {
    /// Everything from the first missing packet on is retransmitted.
    #[default]
    GoBackN,
    /// Only missing packets are retransmitted.
    SelectiveRepeat,
    /// The same on a network that reorders: WRITEs are placed in any order, and a gap is a loss
    /// only after the reorder time.
    AdaptiveRouting,
}

/// Recovery settings of a queue pair, chosen before it goes to RTR.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Recovery {
    /// Recovery mode.
    pub mode: RecoveryMode,
    /// A gap counts as a loss when it is older than this; zero: immediately.
    pub reorder_time: Duration,
    /// Retransmissions without an answer.
    pub ack_timeouts: AckTimeouts,
    /// Seed of the random numbers.
    pub seed: u64,
}

/// State of a queue pair with a recovery mode.
#[derive(Debug, Clone)]
pub(crate) struct RecoveryState {
    /// Capabilities of this side.
    own: RecoveryBits,
    /// Capabilities that the peer has shown.
    peer: RecoveryBits,
    pub(crate) reorder_time: Duration,
    pub(crate) sent: SentWindow,
    pub(crate) received: ReceivedWindow,
}

impl RecoveryState {
    /// Returns the state for `recovery`, or `None` if it needs none.
    pub(crate) fn new(recovery: &Recovery) -> Option<Box<RecoveryState>> {
        if recovery.mode == RecoveryMode::GoBackN {
            return None;
        }
        let own = RecoveryBits {
            selective: true,
            out_of_order: recovery.mode == RecoveryMode::AdaptiveRouting,
            more: false,
        };
        Some(Box::new(RecoveryState {
            own,
            peer: RecoveryBits::default(),
            reorder_time: recovery.reorder_time,
            sent: SentWindow::new(),
            received: ReceivedWindow::new(),
        }))
    }

    /// Records the capabilities in a packet of the peer.
    #[inline]
    pub(crate) fn note_peer(&mut self, bth: &Bth) {
        let bits = RecoveryBits::of(bth);
        self.peer.selective |= bits.selective && self.own.selective;
        self.peer.out_of_order |= bits.out_of_order && self.own.out_of_order;
    }

    /// Returns true if both sides use selective repeat.
    #[inline]
    pub(crate) const fn is_selective(&self) -> bool {
        self.peer.selective
    }

    /// Returns true if both sides place WRITEs in any order.
    #[inline]
    pub(crate) const fn is_out_of_order(&self) -> bool {
        self.peer.out_of_order
    }

    /// Returns the bits of a request, which show the capabilities of this side.
    pub(crate) const fn request_bits(&self) -> RecoveryBits {
        self.own
    }

    /// Returns the bits of a response: none if the peer has shown none.
    pub(crate) const fn response_bits(&self) -> RecoveryBits {
        self.peer
    }

    /// Returns the time at which a gap becomes a loss or another timer of the mode expires.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        [self.sent.gap_deadline(), self.received.gap_deadline()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Stops all timers because the queue pair has entered ERR.
    pub(crate) fn stop(&mut self) {
        self.sent = SentWindow::new();
        self.received = ReceivedWindow::new();
    }
}
