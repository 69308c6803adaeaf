//! Counters: 64-bit registers from 0x1000 on, in this order.

/// One counter.
#[derive(Debug, Clone, Copy)]
pub struct CounterRow {
    /// Name, as `ferroce counters` prints it.
    pub name: &'static str,
    /// What it counts.
    pub meaning: &'static str,
}

macro_rules! counters {
    ( $( $name:ident, $meaning:literal; )* ) => {
        /// A counter: its place among the counter registers.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(usize)]
        #[expect(non_camel_case_types, reason = "spelled as they are printed")]
        pub enum Counter {
            $( #[doc = $meaning] $name, )*
        }

        /// All counters, in the order of their registers.
        pub const COUNTERS: &[CounterRow] = &[
            $( CounterRow { name: stringify!($name), meaning: $meaning }, )*
        ];
    };
}

counters! {
    tx_frames, "Frames sent.";
    tx_bytes, "Bytes of the frames sent, from the Ethernet header to the ICRC.";
    tx_no_route, "Frames lost because no function has the destination address and QPN.";
    tx_stalls, "Times a frame waited because the wire was full.";
    rx_frames, "Frames received.";
    rx_bytes, "Bytes of the frames received.";
    rx_malformed, "Frames dropped: not RoCEv2, or a header that makes no sense.";
    rx_icrc_errors, "Frames dropped: invariant CRC wrong.";
    rx_no_qp, "Frames dropped: no such QP, or in a state that does not receive.";
    rx_wrong_path, "Frames dropped: not from the peer to which the QP is connected.";
    doorbells, "Doorbells landed.";
    doorbell_errors, "Doorbells ignored: slot, number and kind do not belong together.";
    wqe_fetches, "DMA reads of send WQEs.";
    wqe_blocks, "Blocks of 64 bytes fetched.";
    wqe_errors, "Send WQEs that were not consistent.";
    receive_wqes, "Receive WQEs taken.";
    cqes, "CQEs written.";
    cq_overruns, "CQs that overran.";
    eqes, "Events written.";
    interrupts, "MSI-X messages sent.";
    commands, "Commands executed.";
    command_errors, "Commands that ended with a status other than SUCCESS.";
    dma_reads, "DMA reads.";
    dma_read_bytes, "Bytes read by DMA.";
    dma_writes, "DMA writes.";
    dma_write_bytes, "Bytes written by DMA.";
    dma_errors, "DMA accesses refused by the host.";
    qpc_hits, "QP contexts found in the cache.";
    qpc_misses, "QP contexts read from host memory.";
    cqc_hits, "CQ contexts found in the cache.";
    cqc_misses, "CQ contexts read from host memory.";
    mpt_hits, "MPT entries found in the cache.";
    mpt_misses, "MPT entries read from host memory.";
    mtt_hits, "MTT lines found in the cache.";
    mtt_misses, "MTT lines read from host memory.";
    packets_retransmitted, "Request packets sent again.";
    local_ack_timeouts, "Local ACK timeouts.";
    rnr_naks_sent, "RNR NAKs sent.";
    rnr_naks_received, "RNR NAKs received.";
    sequence_naks_sent, "NAKs for a PSN sequence error sent.";
    sequence_naks_received, "NAKs for a PSN sequence error received.";
    other_naks_sent, "NAKs for an access, request or operation error sent.";
    other_naks_received, "NAKs for an access, request or operation error received.";
    duplicate_requests, "Requests received again.";
    acks_sent, "ACKs sent.";
    rx_q_key_violations, "Datagrams dropped: wrong Q_Key.";
    rx_no_receive, "Datagrams and UC messages dropped: no receive WQE, or it was too small.";
    rx_out_of_sequence, "UC packets dropped because one before them was missing.";
    rx_multicast, "Datagrams received for a multicast group.";
    atomics, "Atomic operations executed for peers.";
    windows_bound, "Memory windows bound.";
    keys_invalidated, "Keys invalidated, by ourselves or by a peer.";
    protection_errors, "Keys, bounds or rights that did not allow an access.";
    srqc_hits, "SRQ contexts found in the cache.";
    srqc_misses, "SRQ contexts read from host memory.";
    pushes_used, "Pushed WQEs that were executed without reading the ring.";
    pushes_ignored, "Pushed WQEs that were dropped: torn, late, not the next one, or not consistent.";
    wqe_refetches, "Send WQEs read again for their completion, because they had to make room.";
    receive_wqe_hits, "Receive WQEs taken that had been fetched before.";
    receive_wqe_misses, "Receive WQEs taken that had to be fetched first.";
    tx_descheduled, "Turns that a QP ended with more to send; of a timed model.";
    tx_work_done, "Turns that a QP ended with nothing left to send; of a timed model.";
}

/// Number of counters.
pub const COUNTER_COUNT: usize = COUNTERS.len();

const _: () = assert!(COUNTER_COUNT * 8 <= 0x1000);
