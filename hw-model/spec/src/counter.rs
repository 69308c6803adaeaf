//! Counters: 64-bit registers from 0x1000 on, in this order; [`linux`] has the names of the kernel.

pub mod linux;

/// What makes a counter grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CounterClass {
    /// The packets that are sent: a steady flow of packets counts equal amounts for each.
    Sent,
    /// The packets that are received, which may come faster than they are worked on.
    Received,
    /// The flow of packets in another way: ACKs, lookups, stalls. A steady flow
    /// of packets counts equal amounts in equal times.
    Flow,
    /// Something else, which a steady flow of packets does not cause.
    Event,
}

/// One counter.
#[derive(Debug, Clone, Copy)]
pub struct CounterRow {
    /// Name, as `ferroce counters` prints it.
    pub name: &'static str,
    /// What it counts.
    pub meaning: &'static str,
    /// What makes it grow.
    pub class: CounterClass,
}

macro_rules! counters {
    ( $( $name:ident, $class:ident, $meaning:literal; )* ) => {
        /// A counter: its place among the counter registers.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(usize)]
        #[expect(non_camel_case_types, reason = "spelled as they are printed")]
        pub enum Counter {
            $( #[doc = $meaning] $name, )*
        }

        /// All counters, in the order of their registers.
        pub const COUNTERS: &[CounterRow] = &[
            $( CounterRow {
                name: stringify!($name),
                meaning: $meaning,
                class: CounterClass::$class,
            }, )*
        ];
    };
}

counters! {
    tx_frames, Sent, "Frames sent.";
    tx_bytes, Sent, "Bytes of the frames sent, from the Ethernet header to the ICRC.";
    tx_no_route, Event, "Frames lost because no function has the destination address and QPN.";
    tx_stalls, Flow, "Times a frame waited because the wire was full.";
    rx_frames, Received, "Frames received.";
    rx_bytes, Received, "Bytes of the frames received.";
    rx_malformed, Event, "Frames dropped: not RoCEv2, or a header that makes no sense.";
    rx_icrc_errors, Event, "Frames dropped: invariant CRC wrong, or the MAC found the FCS wrong.";
    rx_no_qp, Event, "Frames dropped: no such QP, or in a state that does not receive.";
    rx_wrong_path, Event, "Frames dropped: not from or to the addresses of the QP's path.";
    doorbells, Event, "Doorbells landed.";
    doorbell_errors, Event, "Doorbells ignored: slot, number and kind do not belong together.";
    wqe_fetches, Event, "DMA reads of send WQEs.";
    wqe_blocks, Event, "Blocks of 64 bytes fetched.";
    wqe_errors, Event, "Send WQEs that were not consistent.";
    receive_wqes, Event, "Receive WQEs taken.";
    cqes, Event, "CQEs written.";
    cq_overruns, Event, "CQs that overran.";
    eqes, Event, "Events written.";
    interrupts, Event, "MSI-X messages sent.";
    commands, Event, "Commands executed.";
    command_errors, Event, "Commands that ended with a status other than SUCCESS.";
    dma_reads, Sent, "DMA reads.";
    dma_read_bytes, Sent, "Bytes read by DMA.";
    dma_writes, Flow, "DMA writes.";
    dma_write_bytes, Flow, "Bytes written by DMA.";
    dma_errors, Event, "DMA accesses that failed.";
    qpc_hits, Flow, "QP contexts found in the cache.";
    qpc_misses, Flow, "QP contexts read from host memory.";
    cqc_hits, Flow, "CQ contexts found in the cache.";
    cqc_misses, Flow, "CQ contexts read from host memory.";
    mpt_hits, Flow, "MPT entries found in the cache.";
    mpt_misses, Flow, "MPT entries read from host memory.";
    mtt_hits, Flow, "MTT lines found in the cache.";
    mtt_misses, Flow, "MTT lines read from host memory.";
    packets_retransmitted, Event, "Request packets sent again.";
    local_ack_timeouts, Event, "Local ACK timeouts.";
    rnr_naks_sent, Event, "RNR NAKs sent.";
    rnr_naks_received, Event, "RNR NAKs received.";
    sequence_naks_sent, Event, "NAKs for a PSN sequence error sent.";
    sequence_naks_received, Event, "NAKs for a PSN sequence error received.";
    other_naks_sent, Event, "NAKs for an access, request or operation error sent.";
    other_naks_received, Event, "NAKs for an access, request or operation error received.";
    duplicate_requests, Event, "Requests received again.";
    acks_sent, Flow, "ACKs sent.";
    rx_q_key_violations, Event, "Datagrams dropped: wrong Q_Key.";
    rx_no_receive, Event, "Datagrams and UC messages dropped: no receive WQE, or it was too small.";
    rx_out_of_sequence, Event, "UC packets dropped because one before them was missing.";
    rx_multicast, Event, "Datagrams received for a multicast group.";
    atomics, Event, "Atomic operations executed for peers.";
    windows_bound, Event, "Memory windows bound.";
    keys_invalidated, Event, "Keys invalidated, by ourselves or by a peer.";
    protection_errors, Event, "Keys, bounds or rights that did not allow an access.";
    srqc_hits, Flow, "SRQ contexts found in the cache.";
    srqc_misses, Flow, "SRQ contexts read from host memory.";
    pushes_used, Event, "Pushed WQEs that were executed without reading the ring.";
    pushes_ignored, Event,
        "Pushed WQEs that were dropped: torn, late, not the next one, or not consistent.";
    wqe_refetches, Event,
        "Send WQEs of READs and atomics read again for their response: there was no room for them.";
    receive_wqe_hits, Event, "Receive WQEs taken that had been fetched before.";
    receive_wqe_misses, Event, "Receive WQEs taken that had to be fetched first.";
    tx_descheduled, Flow, "Turns that a QP ended with more to send; of a timed model.";
    tx_work_done, Flow, "Turns that a QP ended with nothing left to send; of a timed model.";
    dma_completion_timeouts, Event, "DMA reads that ended with the completion time-out.";
    dma_poisoned, Event, "DMA reads whose data was poisoned.";
    rx_held, Event, "Packets held in the reorder buffer because one before them was missing.";
    rx_hold_drops, Event, "Such packets dropped because the reorder buffer was full.";
    rx_overflows, Event, "Frames dropped because the receive buffer was full.";
    responder_hits, Flow, "Responder resources of READs and atomics found in the cache.";
    responder_misses, Flow, "Responder resources of READs and atomics read from host memory.";
    np_ecn_marked_roce_packets, Event,
        "Packets received that a switch has marked: congestion experienced.";
    np_cnp_sent, Event, "Congestion notification packets sent.";
    rp_cnp_handled, Event, "Congestion notification packets received, and reacted to.";
    adaptive_retransmissions, Event, "Expiries in an adaptive phase of the ACK timer.";
    write_requests, Flow,
        "RDMA WRITE requests whose last packet was received, without duplicates and empty ones.";
    read_requests, Flow, "RDMA READ requests received, without duplicates and empty ones.";
    requester_errors, Event, "Send WQEs completed in error, flushed ones too.";
    requester_flushes, Event, "Send WQEs flushed. Not counted with the personality mlx5.";
    requester_access_errors, Event, "Send WQEs completed with REMOTE_ACCESS.";
    requester_invalid_requests, Event, "Send WQEs completed with REMOTE_INVALID_REQUEST.";
    requester_rnr_exceeded, Event, "Send WQEs completed with RNR_RETRY_EXCEEDED.";
    requester_retries_exceeded, Event, "Send WQEs completed with RETRY_EXCEEDED.";
    responder_errors, Event,
        "Receive WQEs completed in error, flushed ones too. Not counted with the personality mlx5.";
    responder_flushes, Event, "Receive WQEs flushed. Not counted with the personality mlx5.";
    responder_length_errors, Event,
        "Receive WQEs completed with LOCAL_LENGTH. Not counted with the personality mlx5.";
    page_faults, Event, "Page faults of on-demand regions: events raised.";
    page_waits, Event, "Accesses put off because a page of an on-demand region was not present.";
}

/// Number of counters.
pub const COUNTER_COUNT: usize = COUNTERS.len();

/// Counters whose unit is the implementation's own: how it cuts DMA accesses, what it caches, when
/// it sends an ACK. Tests may ask that they move, not by how much.
pub const IMPLEMENTATION_DEFINED: &[Counter] = &[
    Counter::tx_no_route,
    Counter::tx_stalls,
    Counter::wqe_fetches,
    Counter::wqe_blocks,
    Counter::dma_reads,
    Counter::dma_read_bytes,
    Counter::dma_writes,
    Counter::dma_write_bytes,
    Counter::qpc_hits,
    Counter::qpc_misses,
    Counter::cqc_hits,
    Counter::cqc_misses,
    Counter::mpt_hits,
    Counter::mpt_misses,
    Counter::mtt_hits,
    Counter::mtt_misses,
    Counter::acks_sent,
    Counter::srqc_hits,
    Counter::srqc_misses,
    Counter::pushes_used,
    Counter::pushes_ignored,
    Counter::wqe_refetches,
    Counter::receive_wqe_hits,
    Counter::receive_wqe_misses,
    Counter::tx_descheduled,
    Counter::tx_work_done,
    Counter::responder_hits,
    Counter::responder_misses,
];

/// Returns true if the unit of counter number `index` is the implementation's own.
#[must_use]
pub fn is_implementation_defined(index: usize) -> bool {
    IMPLEMENTATION_DEFINED
        .iter()
        .any(|counter| *counter as usize == index)
}

const _: () = assert!(COUNTER_COUNT * 8 <= 0x1000);
