//! Statistics of a queue pair for the NIC's counters.

/// Events since the last [`crate::Qp::take_statistics`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Retransmitted request packets.
    pub packets_retransmitted: u32,
    /// Local ACK timeouts.
    pub local_ack_timeouts: u32,
    /// Expiries of the adaptive phase of the timer.
    pub adaptive_retransmissions: u16,
    /// RNR NAKs sent.
    pub rnr_naks_sent: u32,
    /// RNR NAKs received that took effect.
    pub rnr_naks_received: u32,
    /// NAKs for a PSN sequence error sent.
    pub sequence_naks_sent: u32,
    /// NAKs for a PSN sequence error received that took effect, and gaps in READ responses.
    pub sequence_naks_received: u32,
    /// Sent NAKs that end the queue pair.
    pub other_naks_sent: u32,
    /// Received NAKs that end the queue pair.
    pub other_naks_received: u32,
    /// WRITE requests whose last packet was received, without duplicates and empty ones.
    pub write_requests: u16,
    /// READ requests received, without duplicates and empty ones.
    pub read_requests: u16,
    /// Duplicate requests received.
    pub duplicate_requests: u32,
    /// Positive ACKs sent, without READ responses.
    pub acks_sent: u32,
    /// Datagrams dropped because of their Q_Key.
    pub q_key_violations: u16,
    /// Datagrams and UC messages dropped because no receive WQE is large enough.
    pub no_receive_drops: u32,
    /// UC packets dropped because an earlier one is missing.
    pub out_of_sequence_drops: u32,
}
