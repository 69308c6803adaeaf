//! Recovery beyond go-back-N: the modes of a queue pair, and the state that they need. A queue pair
//! without a mode has none of it.
//!
//! Selective repeat. The responder keeps packets that arrive behind a gap (its caller *holds* them,
//! [`crate::Step::Hold`]) and reports which ones it has in its NAK; the requester sends again what
//! is missing. A READ is different: its requester sees the gap in the responses, and asks for the
//! missing range with a duplicate READ request (IBTA vol 1, 9.7.5.1.4).
//!
//! Adaptive routing. The network may deliver packets in any order, so that a gap counts as a loss
//! only when it is older than the reorder time. Each packet of a WRITE carries its own address and
//! is placed when it arrives; what needs order (MSN, ACK, completion) follows when the gap closes.
//!
//! Both need a peer that can: each packet says so in bits that IBTA reserves
//! ([`ferroce_wire::recovery`]). Until the peer has said so, and with a peer that never does, the
//! queue pair does what go-back-N does.
//!
//! Files: [`psn_set`], the bitmap; [`sent`], what the requester knows of packets in flight;
//! [`received`], what the responder knows of packets behind a gap; [`adaptive_timer`], the timer.

mod adaptive_timer;
mod psn_set;
mod received;
mod sent;

pub use adaptive_timer::{AdaptiveTimer, TimeoutDecrement, TimeoutRange};
use ferroce_units::{Duration, Instant};
use ferroce_wire::{Bth, RecoveryBits};
pub(crate) use received::ReceivedWindow;
pub(crate) use sent::{Evidence, SentWindow};

use self::adaptive_timer::TimerState;

/// How lost packets are recovered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum RecoveryMode {
    /// From the first missing packet on everything is sent again.
    #[default]
    GoBackN,
    /// Only missing packets are sent again.
    SelectiveRepeat,
    /// The same on a network that reorders: WRITEs are placed in any order, and a gap is a loss
    /// only after the reorder time.
    AdaptiveRouting,
}

/// How a queue pair recovers lost packets; chosen before it goes to RTR.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Recovery {
    /// How lost packets are recovered.
    pub mode: RecoveryMode,
    /// A gap counts as a loss when it is older than this; zero: at once.
    pub reorder_time: Duration,
    /// What takes the place of the local ACK timeout.
    pub adaptive_timer: Option<AdaptiveTimer>,
    /// Of the random numbers.
    pub seed: u64,
}

impl Recovery {
    /// Returns true if it is that of a first RoCE NIC: go-back-N after the local ACK timeout.
    const fn is_plain(&self) -> bool {
        matches!(self.mode, RecoveryMode::GoBackN) && self.adaptive_timer.is_none()
    }
}

/// State of a queue pair with a mode.
#[derive(Debug, Clone)]
pub(crate) struct RecoveryState {
    /// What this side can.
    own: RecoveryBits,
    /// What the peer can, as far as it has said so.
    peer: RecoveryBits,
    pub(crate) reorder_time: Duration,
    pub(crate) sent: SentWindow,
    pub(crate) received: ReceivedWindow,
    timer: Option<TimerState>,
}

impl RecoveryState {
    /// Returns the state for `recovery`, if that needs any.
    pub(crate) fn new(recovery: &Recovery) -> Option<Box<RecoveryState>> {
        if recovery.is_plain() {
            return None;
        }
        let own = RecoveryBits {
            selective: recovery.mode != RecoveryMode::GoBackN,
            out_of_order: recovery.mode == RecoveryMode::AdaptiveRouting,
            more: false,
        };
        let timer = recovery.adaptive_timer;
        Some(Box::new(RecoveryState {
            own,
            peer: RecoveryBits::default(),
            reorder_time: recovery.reorder_time,
            sent: SentWindow::new(),
            received: ReceivedWindow::new(),
            timer: timer.map(|profile| TimerState::new(profile, recovery.seed)),
        }))
    }

    /// A packet of the peer has come.
    #[inline]
    pub(crate) fn note_peer(&mut self, bth: &Bth) {
        let bits = RecoveryBits::of(bth);
        self.peer.selective |= bits.selective && self.own.selective;
        self.peer.out_of_order |= bits.out_of_order && self.own.out_of_order;
    }

    /// Returns true if both sides recover selectively.
    #[inline]
    pub(crate) const fn is_selective(&self) -> bool {
        self.peer.selective
    }

    /// Returns true if both sides place WRITEs in any order.
    #[inline]
    pub(crate) const fn is_out_of_order(&self) -> bool {
        self.peer.out_of_order
    }

    /// Returns the bits of a request, which show the peer what this side can.
    pub(crate) const fn request_bits(&self) -> RecoveryBits {
        self.own
    }

    /// Returns the bits of a response: none towards a peer that has none.
    pub(crate) const fn response_bits(&self) -> RecoveryBits {
        self.peer
    }

    /// Returns the time at which a gap is old enough, or a timer of this kind expires otherwise.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        [self.sent.gap_deadline(), self.received.gap_deadline()]
            .into_iter()
            .flatten()
            .min()
    }

    /// The peer has come further.
    #[inline]
    pub(crate) fn progress(&mut self) {
        if let Some(timer) = &mut self.timer {
            timer.progress();
        }
    }

    /// The timer that takes the place of the local ACK timeout.
    pub(crate) fn timer(&mut self) -> Option<&mut TimerState> {
        self.timer.as_mut()
    }

    /// The adaptive timer, to be read.
    pub(crate) fn timer_ref(&self) -> Option<&TimerState> {
        self.timer.as_ref()
    }

    /// The queue pair has entered ERR: nothing is sent or received again.
    pub(crate) fn stop(&mut self) {
        self.sent = SentWindow::new();
        self.received = ReceivedWindow::new();
    }
}
