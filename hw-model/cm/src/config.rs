//! Limits, and what the caller decides.

use ferroce_units::Duration;
use ferroce_wire::cm::CmTimeout;

/// Listeners of one [`Cm`](crate::Cm).
pub const MAX_LISTENERS: usize = 4096;

/// Connections and service resolutions of one [`Cm`](crate::Cm), with those in TIMEWAIT.
pub const MAX_CONNECTIONS: usize = 65536;

/// Requests that a listener holds for the caller.
pub const MAX_BACKLOG: u32 = 1024;

/// What the caller decides.
#[derive(Debug, Clone)]
pub struct Config {
    /// The top byte of local communication identifiers: names the process on its host, so that
    /// processes which share a GID recognize their own datagrams.
    pub tag: u8,
    /// Low 24 bits of the first local communication identifier. A process that reuses the tag of
    /// another one should begin elsewhere.
    pub first_id: u32,
    /// How long this side takes to answer, and how long the peer is given
    pub response_timeout: CmTimeout,
    /// How often a message is sent again after the response time-out
    pub max_cm_retries: u8,
    /// Target ACK Delay of a REP
    pub target_ack_delay: CmTimeout,
    /// Where loss is repaired sooner than the response time-out: the first retransmission, after
    /// which the interval doubles up to the time-out. These do not count as retries.
    pub first_retransmission: Option<Duration>,
    /// Bound of TIMEWAIT, so that queue pair numbers and ports come back
    pub timewait_max: Duration,
}

impl Config {
    /// Returns what Linux sends, for a process with this tag.
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

    /// Between processes of one machine: lost datagrams are repaired at once, TIMEWAIT is short.
    #[must_use]
    pub const fn functional(tag: u8) -> Self {
        Self {
            first_retransmission: Some(Duration::from_ms(50)),
            timewait_max: Duration::from_ms(50),
            ..Self::new(tag)
        }
    }
}
