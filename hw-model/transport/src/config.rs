//! What the NIC decides about its queue pairs, not the application.

use ferroce_qp::PathMtu;
use ferroce_units::Duration;

/// Policy of a queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Request packets that may be in flight unacknowledged; at least 1.
    pub max_unacknowledged_packets: u32,
    /// Request packets between two that ask for an acknowledge, inside a long run; at least 1.
    pub ack_request_interval: u32,
    /// Packets acknowledged by one ACK at most; at least 1.
    pub ack_coalesce: u32,
    /// Longest delay of a positive ACK, in which ACKs are coalesced; zero sends each one at once.
    pub ack_delay: Duration,
    /// The requester's timer expires after this many local ACK timeouts, 1 ..= 4: any time from
    /// one to four of them is right (IBTA vol 1, 9.7.6.1.3), and a busy host wants the longer.
    pub local_ack_timeout_multiple: u8,
    /// Payload bytes of the longest datagram: the MTU of the port.
    pub datagram_mtu: PathMtu,
}

/// Largest [`Config::local_ack_timeout_multiple`].
const MAX_LOCAL_ACK_TIMEOUT_MULTIPLE: u8 = 4;

impl Config {
    /// A value with each bound made sane: windows, intervals and multiples are never zero.
    pub(crate) fn bounded(self) -> Config {
        Config {
            max_unacknowledged_packets: self.max_unacknowledged_packets.max(1),
            ack_request_interval: self.ack_request_interval.max(1),
            ack_coalesce: self.ack_coalesce.max(1),
            ack_delay: self.ack_delay,
            local_ack_timeout_multiple: self
                .local_ack_timeout_multiple
                .clamp(1, MAX_LOCAL_ACK_TIMEOUT_MULTIPLE),
            datagram_mtu: self.datagram_mtu,
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
            local_ack_timeout_multiple: 1,
            datagram_mtu: PathMtu::Mtu4096,
        }
    }
}
