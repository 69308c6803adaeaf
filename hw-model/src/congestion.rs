//! Congestion control: the reaction of a card to packets that switches have marked.
//!
//! - [`notification_point`]: the receiver of a marked packet notifies its sender with a congestion
//!   notification packet (CNP; IBTA annex A17).
//! - [`reaction_point`]: the sender of the packet then sends slower, each queue pair at its own
//!   rate. A [`RateControl`] sets the rate; [`dcqcn`] is one. Another algorithm is another file
//!   with an implementation, and a variant of [`Algorithm`].
//!
//! A card without congestion control ignores marks, and its packets are not marked, because they
//! are not ECN-capable.

pub mod dcqcn;
pub(crate) mod notification_point;
pub(crate) mod reaction_point;

use std::fmt;

use ferroce_spec::wqe::AddressPath;
use ferroce_units::{Duration, Instant};
use ferroce_wire::{Opcode, Operation};

use dcqcn::{Dcqcn, DcqcnParameters};
use notification_point::NotificationPoint;
use reaction_point::ReactionPoint;

pub use reaction_point::LimitedRates;

/// The two ECN bits of a traffic class (RFC 3168).
const ECN_MASK: u8 = 0b11;
/// The packet can be marked: ECT(0).
const ECN_CAPABLE: u8 = 0b10;
/// Congestion experienced.
const ECN_MARKED: u8 = 0b11;

/// Returns a path whose packets say that switches can mark them, if there is congestion control.
pub(crate) fn marked(path: AddressPath, has_congestion_control: bool) -> AddressPath {
    let ecn = if has_congestion_control {
        ECN_CAPABLE
    } else {
        0
    };
    AddressPath {
        traffic_class: path.traffic_class | ecn,
        ..path
    }
}

/// Configuration of congestion control.
#[derive(Debug, Clone, PartialEq)]
pub struct CongestionConfig {
    /// Configuration of the receiver.
    pub notification: NotificationConfig,
    /// Algorithm of the sender.
    pub algorithm: Algorithm,
}

/// Configuration of the receiver of marked packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotificationConfig {
    /// Minimum time between two CNPs of a queue pair.
    pub min_time_between_cnps: Duration,
    /// DSCP of CNPs.
    pub cnp_dscp: u8,
}

impl NotificationConfig {
    /// Defaults of a ConnectX-5 (`mlxconfig`: `MIN_TIME_BETWEEN_CNPS`, `CNP_DSCP`). Other firmware
    /// has 0 or 4 us.
    pub const CONNECTX: Self = Self {
        min_time_between_cnps: Duration::from_us(2),
        cnp_dscp: 48,
    };
}

/// The algorithm with which a sender sets its rate.
#[derive(Debug, Clone, PartialEq)]
pub enum Algorithm {
    /// The rate does not change; receivers still send CNPs.
    None,
    /// DCQCN (SIGCOMM 2015), with the parameters of a ConnectX.
    Dcqcn(DcqcnParameters),
}

impl Algorithm {
    /// Returns the rate control of a queue pair on its first CNP; `None`: it does not react.
    fn start(&self, now: Instant, line_rate_mbps: f64) -> Option<Box<dyn RateControl>> {
        match self {
            Self::None => None,
            Self::Dcqcn(parameters) => Some(Box::new(Dcqcn::new(
                parameters.clone(),
                now,
                line_rate_mbps,
            ))),
        }
    }
}

/// Sets the rate of one queue pair.
///
/// No method is called periodically: an implementation catches up with its timers whenever it is
/// called, so that an idle queue pair costs nothing.
pub trait RateControl: fmt::Debug + Send {
    /// Handles a CNP.
    fn congested(&mut self, now: Instant);

    /// Records that `bytes` were sent.
    fn sent(&mut self, now: Instant, bytes: u32);

    /// Returns the rate in Mb/s; `None`: the line rate.
    fn rate_mbps(&mut self, now: Instant) -> Option<f64>;
}

/// Congestion control of a card.
#[derive(Debug)]
pub(crate) struct Congestion {
    /// The receiver side.
    pub notification: NotificationPoint,
    /// The sender side.
    pub reaction: ReactionPoint,
}

impl Congestion {
    pub fn new(config: &CongestionConfig, line_rate_mbps: f64) -> Self {
        Self {
            notification: NotificationPoint::new(config.notification),
            reaction: ReactionPoint::new(config.algorithm.clone(), line_rate_mbps),
        }
    }

    /// Forgets the state of the queue pair at `index`.
    pub fn forget(&mut self, index: u32) {
        self.notification.forget(index);
        self.reaction.forget(index);
    }

    /// Forgets the state of all queue pairs (reset).
    pub fn reset(&mut self) {
        self.notification.reset();
        self.reaction.reset();
    }
}

/// Returns true if a switch has marked the frame, whose IP header is at `ip`.
#[inline]
pub(crate) fn is_marked(frame: &[u8], ip: usize) -> bool {
    let class = match frame[ip] >> 4 {
        4 => frame[ip + 1],
        _ => frame[ip + 1] >> 4,
    };
    class & ECN_MASK == ECN_MARKED
}

/// Returns true if marks on such packets cause a CNP: they carry payload.
pub(crate) fn is_answered(opcode: Opcode) -> bool {
    opcode.parse().is_some_and(|packet| {
        packet.is_request() || packet.operation == Operation::RdmaReadResponse
    })
}
