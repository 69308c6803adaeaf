//! Limits, and the configuration by the caller.

use ferroce_units::Duration;
use ferroce_wire::cm::CmTimeout;

/// Maximum number of listeners of one [`Cm`](crate::Cm).
pub const MAX_LISTENERS: usize = 4096;

/// Maximum number of connections and service resolutions of one [`Cm`](crate::Cm), including
/// TIMEWAIT.
pub const MAX_CONNECTIONS: usize = 65536;

/// Maximum number of requests that a listener holds for the caller.
pub const MAX_BACKLOG: u32 = 1024;

/// Configuration by the caller.
#[derive(Debug, Clone)]
pub struct Config {
    /// The top byte of local communication identifiers. It names the process on its host, so that
    /// processes with the same GID recognize their own datagrams.
    pub tag: u8,
    /// Low 24 bits of the first local communication identifier. A process that reuses the tag of
    /// another one should start with another value.
    pub first_id: u32,
    /// Response time of this side, and the response time granted to the peer
    pub response_timeout: CmTimeout,
    /// Maximum number of retransmissions of a message after the response timeout
    pub max_cm_retries: u8,
    /// Target ACK Delay of a REP
    pub target_ack_delay: CmTimeout,
    /// If set, loss is repaired sooner than after the response timeout: this is the first
    /// retransmission interval, which then doubles up to the timeout. These retransmissions do not
    /// count as retries.
    pub first_retransmission: Option<Duration>,
    /// Maximum duration of TIMEWAIT, so that queue pair numbers and ports become free
    pub timewait_max: Duration,
}

impl Config {
    /// Returns the values of Linux, for a process with this tag.
    #[must_use]
    pub const fn new(tag: u8) -> Self {
        Self {
            tag,
            first_id: 1,
            response_timeout: CmTimeout::new(20),
            max_cm_retries: 15,
            target_ack_delay: CmTimeout::new(15),
            first_retransmission: None,
            timewait_max: Duration::from_ms(10_000),
        }
    }

    /// Returns values for processes of one machine: lost datagrams are repaired quickly, TIMEWAIT
    /// is short.
    #[must_use]
    pub const fn functional(tag: u8) -> Self {
        Self {
            first_retransmission: Some(Duration::from_ms(50)),
            timewait_max: Duration::from_ms(50),
            ..Self::new(tag)
        }
    }
}
