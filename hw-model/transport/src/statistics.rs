//! What a queue pair counts for the NIC's counters.

/// Events since the last [`crate::Qp::take_statistics`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Request packets sent again.
    pub packets_retransmitted: u32,
    /// Local ACK timeouts.
    pub local_ack_timeouts: u32,
    /// RNR NAKs sent.
    pub rnr_naks_sent: u32,
    /// RNR NAKs received and obeyed.
    pub rnr_naks_received: u32,
    /// NAKs for a PSN sequence error sent.
    pub sequence_naks_sent: u32,
    /// NAKs for a PSN sequence error received and obeyed, and gaps in READ responses.
    pub sequence_naks_received: u32,
    /// NAKs that end the queue pair sent.
    pub other_naks_sent: u32,
    /// NAKs that end the queue pair received.
    pub other_naks_received: u32,
    /// Requests received again.
    pub duplicate_requests: u32,
    /// Positive ACKs sent, READ responses not counted.
    pub acks_sent: u32,
    /// Datagrams dropped because of their Q_Key.
    pub q_key_violations: u32,
    /// Datagrams and UC messages dropped for want of a receive WQE that is large enough.
    pub no_receive_drops: u32,
    /// UC packets dropped because one before them is missing.
    pub out_of_sequence_drops: u32,
}
