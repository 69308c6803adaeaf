//! What the NIC decides about its queue pairs, not the application.

use crate::time::Duration;

/// Policy of a queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Request packets that may be in flight unacknowledged; at least 1.
    pub max_unacknowledged_packets: u32,
    /// Request packets between two that ask for an acknowledge, inside a long run; at least 1.
    pub ack_request_interval: u32,
    /// Packets acknowledged by one ACK at most; at least 1.
    pub ack_coalesce: u32,
    /// How long a positive ACK may wait for company; zero sends each one at once.
    pub ack_delay: Duration,
}

impl Config {
    /// A value with each bound made sane: windows and intervals are never zero.
    pub(crate) fn bounded(self) -> Config {
        Config {
            max_unacknowledged_packets: self.max_unacknowledged_packets.max(1),
            ack_request_interval: self.ack_request_interval.max(1),
            ack_coalesce: self.ack_coalesce.max(1),
            ack_delay: self.ack_delay,
        }
    }
}

impl Default for Config {
    /// No delay; otherwise the bounds of Linux' soft-RoCE, rounded up.
    fn default() -> Config {
        Config {
            max_unacknowledged_packets: 256,
            ack_request_interval: 32,
            ack_coalesce: 64,
            ack_delay: Duration::ZERO,
        }
    }
}
