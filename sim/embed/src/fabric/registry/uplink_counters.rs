//! Counters of uplinks.

/// A counter of an uplink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UplinkCounter {
    /// Frames sent, including ARP and the like.
    Sent,
    /// Frames that could not be sent: there was no receiver, or the wire was full for long.
    SentLost,
    /// RoCE frames received for the model.
    Received,
    /// RoCE frames lost because the model did not take them in time.
    ReceivedLost,
    /// Received frames that are too long or not addressed to this function.
    Ignored,
    /// Answers to ARP, neighbour discovery and ping.
    Answered,
    /// How often the link went down.
    LinkDowns,
}

impl UplinkCounter {
    /// All counters, in their order in the registry.
    pub const ALL: [Self; 7] = [
        Self::Sent,
        Self::SentLost,
        Self::Received,
        Self::ReceivedLost,
        Self::Ignored,
        Self::Answered,
        Self::LinkDowns,
    ];

    /// Returns its printed name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sent => "uplink_tx_frames",
            Self::SentLost => "uplink_tx_lost",
            Self::Received => "uplink_rx_frames",
            Self::ReceivedLost => "uplink_rx_lost",
            Self::Ignored => "uplink_rx_ignored",
            Self::Answered => "uplink_answers",
            Self::LinkDowns => "uplink_link_downs",
        }
    }
}
