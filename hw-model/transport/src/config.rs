//! Policy that the NIC, not the application, sets for its queue pairs.

use ferroce_qp::PathMtu;
use ferroce_units::Duration;

/// Policy of a queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Maximum number of unacknowledged request packets in flight; at least 1.
    pub max_unacknowledged_packets: u32,
    /// Distance between request packets that request an acknowledge, within a long run; at least 1.
    pub ack_request_interval: u32,
    /// Maximum number of packets that one ACK acknowledges; at least 1.
    pub ack_coalesce: u32,
    /// Maximum delay of a positive ACK, in which ACKs are coalesced; zero sends each ACK
    /// immediately.
    pub ack_delay: Duration,
    /// The requester's timer expires after this many local ACK timeouts, 1 ..= 4. IBTA vol 1,
    /// 9.7.6.1.3 permits any time from one to four of them; a busy host needs the longer one.
    pub local_ack_timeout_multiple: u8,
    /// Payload bytes of the longest datagram: the MTU of the port.
    pub datagram_mtu: PathMtu,
    /// How the responder checks the memory that a request names.
    pub remote_check: RemoteCheck,
}

/// How the responder checks the memory that a request names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RemoteCheck {
    /// Checks the memory of the whole message with its first packet; each fault is a remote access
    /// error (IBTA vol 1, 9.7.4.1.5).
    #[default]
    Message,
    /// As measured on ConnectX: checks a WRITE packet by packet, so that the packets before the end
    /// of the region are written; a right that the region lacks makes the request invalid.
    Connectx,
}

/// Largest [`Config::local_ack_timeout_multiple`].
const MAX_LOCAL_ACK_TIMEOUT_MULTIPLE: u8 = 4;

impl Config {
    /// Returns a valid value: windows, intervals and multiples are never zero.
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
            remote_check: self.remote_check,
        }
    }
}

impl Default for Config {
    /// Returns a configuration without delay; its other bounds are soft-RoCE's in Linux,
    /// rounded up.
    fn default() -> Config {
        Config {
            max_unacknowledged_packets: 256,
            ack_request_interval: 32,
            ack_coalesce: 64,
            ack_delay: Duration::ZERO,
            local_ack_timeout_multiple: 1,
            datagram_mtu: PathMtu::Mtu4096,
            remote_check: RemoteCheck::Message,
        }
    }
}
