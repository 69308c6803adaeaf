//! Converts reports of the transport to the encoding of the contract.

use ferroce_spec::counter::Counter;
use ferroce_spec::cqe::{Cqe, CqeOpcode, CqeStatus, CqeWord, VendorError};
use ferroce_spec::eqe::EventType;
use ferroce_spec::personality::Personality;
use ferroce_transport::{
    Completion, CompletionStatus, Event, Payload, ReceiveKind, SendKind, Statistics, Transmit,
};
use ferroce_units::Instant;

use crate::contexts::completion_queue::CompletionEntry;
use crate::contexts::queue_pair::{QueuePair, uses_srq};
use crate::counters::Counters;

/// Builds the CQE of a completion and retires its WQE.
#[inline]
pub fn completion_entry(qp: &mut QueuePair, completion: &Completion) -> CompletionEntry {
    let mut word = CqeWord::default();
    let status = status_code(completion.status());
    word.set_status(status.0);
    if status != CqeStatus::SUCCESS {
        word.set_vendor_error(detail(qp, status, completion.is_send()).0);
    }
    let mut cqe = Cqe {
        qpn: qp.qpn.value(),
        ..Cqe::default()
    };
    let cqn = match *completion {
        Completion::Send {
            id,
            operation,
            byte_length,
            ..
        } => {
            qp.send.retire(id);
            word.set_opcode(send_opcode(operation).0);
            cqe.wqe_index = id;
            cqe.byte_count = byte_length;
            qp.context.send_cqn
        }
        Completion::Receive {
            receive,
            operation,
            byte_length,
            immediate,
            invalidated,
            solicited,
            source,
            with_grh,
            srqn,
            ..
        } => {
            word.set_opcode(receive_opcode(operation).0);
            word.set_solicited(solicited);
            word.set_with_immediate(immediate.is_some());
            word.set_with_invalidate(invalidated.is_some());
            word.set_with_grh(with_grh);
            word.set_ipv4(with_grh && qp.header_is_ipv4);
            cqe.byte_count = byte_length;
            cqe.immediate = match (immediate, invalidated) {
                (Some(data), _) => data.0,
                (None, Some(key)) => key.0.to_le_bytes(),
                (None, None) => [0; 4],
            };
            cqe.source_qpn = match (source, srqn) {
                (Some(qpn), _) => qpn.value(),
                (None, Some(srqn)) => srqn,
                (None, None) => 0,
            };
            let shared = qp.receive.retire(receive);
            word.set_shared(shared.is_some());
            cqe.wqe_index = shared.map_or(receive, |shared| shared.tag);
            // XRC: the completion goes to the CQ of the shared receive queue.
            shared
                .and_then(|shared| shared.cqn)
                .unwrap_or(qp.context.receive_cqn)
        }
    };
    cqe.word = word;
    let after = qp.progress.visible;
    CompletionEntry { cqn, cqe, after }
}

/// Returns the detail of a completion in error.
#[cold]
fn detail(qp: &mut QueuePair, status: CqeStatus, is_send: bool) -> VendorError {
    if status == CqeStatus::RNR_RETRY_EXCEEDED {
        // The request waits no longer.
        let rnr_retry = qp.transport.attributes().rnr_retry;
        qp.notes.answered(qp.qpn.value(), rnr_retry);
    }
    qp.faults.take(status, is_send)
}

/// Reports to the transport that the payload of a packet could not be gathered, and on which side.
pub fn fail_payload(now: Instant, qp: &mut QueuePair, transmit: &Transmit) {
    match transmit.payload {
        Payload::Request { request, .. } => {
            qp.transport
                .fail_send(now, request, CompletionStatus::LocalProtection);
        }
        Payload::ReadResponse { .. } => {
            qp.transport
                .fail_read_response(now, transmit.headers.bth.psn);
        }
        Payload::None | Payload::Arrivals { .. } => {}
    }
}

/// Returns true if the number of an event is a QPN.
pub fn is_of_queue_pair(kind: EventType) -> bool {
    let first = EventType::QP_FATAL.0;
    (first..=EventType::LAST_WQE_REACHED.0).contains(&kind.0)
}

/// Returns the event type of the contract.
///
/// `None`: the last WQE event only matters with a shared receive queue.
pub fn event_type(qp: &QueuePair, event: Event) -> Option<EventType> {
    Some(match event {
        Event::CommunicationEstablished => EventType::COMMUNICATION_ESTABLISHED,
        Event::SqDrained => EventType::SEND_QUEUE_DRAINED,
        Event::RequestError => EventType::QP_REQUEST_ERROR,
        Event::AccessError => EventType::QP_ACCESS_ERROR,
        Event::Fatal => EventType::QP_FATAL,
        Event::LastWqeReached if uses_srq(&qp.context) => EventType::LAST_WQE_REACHED,
        Event::LastWqeReached => return None,
    })
}

/// Adds the statistics of a queue pair to the function's counters.
pub fn count(statistics: &Statistics, counters: &mut Counters) {
    let rows = [
        (
            Counter::packets_retransmitted,
            statistics.packets_retransmitted,
        ),
        (Counter::local_ack_timeouts, statistics.local_ack_timeouts),
        (Counter::rnr_naks_sent, statistics.rnr_naks_sent),
        (Counter::rnr_naks_received, statistics.rnr_naks_received),
        (Counter::sequence_naks_sent, statistics.sequence_naks_sent),
        (
            Counter::sequence_naks_received,
            statistics.sequence_naks_received,
        ),
        (Counter::other_naks_sent, statistics.other_naks_sent),
        (Counter::other_naks_received, statistics.other_naks_received),
        (
            Counter::adaptive_retransmissions,
            statistics.adaptive_retransmissions.into(),
        ),
        (Counter::write_requests, statistics.write_requests.into()),
        (Counter::read_requests, statistics.read_requests.into()),
        (Counter::duplicate_requests, statistics.duplicate_requests),
        (Counter::acks_sent, statistics.acks_sent),
        (
            Counter::rx_q_key_violations,
            statistics.q_key_violations.into(),
        ),
        (Counter::rx_no_receive, statistics.no_receive_drops),
        (
            Counter::rx_out_of_sequence,
            statistics.out_of_sequence_drops,
        ),
    ];
    for (counter, amount) in rows {
        counters.add(counter, u64::from(amount));
    }
}

/// Counts a completion in error. A ConnectX counts flushed requests as errors only, and nothing for
/// receives ([`Personality::MLX5`]).
#[cold]
pub fn count_error(
    status: CqeStatus,
    is_send: bool,
    personality: Personality,
    counters: &mut Counters,
) {
    let mut add = |counter| counters.add(counter, 1);
    if is_send {
        add(Counter::requester_errors);
        match status {
            CqeStatus::WR_FLUSH if personality != Personality::MLX5 => {
                add(Counter::requester_flushes);
            }
            CqeStatus::REMOTE_ACCESS => add(Counter::requester_access_errors),
            CqeStatus::REMOTE_INVALID_REQUEST => add(Counter::requester_invalid_requests),
            CqeStatus::RNR_RETRY_EXCEEDED => add(Counter::requester_rnr_exceeded),
            CqeStatus::RETRY_EXCEEDED => add(Counter::requester_retries_exceeded),
            _ => {}
        }
    } else if personality != Personality::MLX5 {
        add(Counter::responder_errors);
        match status {
            CqeStatus::WR_FLUSH => add(Counter::responder_flushes),
            CqeStatus::LOCAL_LENGTH => add(Counter::responder_length_errors),
            _ => {}
        }
    }
}

fn send_opcode(kind: SendKind) -> CqeOpcode {
    match kind {
        SendKind::Send => CqeOpcode::SEND,
        SendKind::RdmaWrite => CqeOpcode::RDMA_WRITE,
        SendKind::RdmaRead => CqeOpcode::RDMA_READ,
        SendKind::CompareSwap => CqeOpcode::COMPARE_SWAP,
        SendKind::FetchAdd => CqeOpcode::FETCH_ADD,
        SendKind::Flush => CqeOpcode::FLUSH,
        SendKind::AtomicWrite => CqeOpcode::ATOMIC_WRITE,
        SendKind::LocalInvalidate => CqeOpcode::LOCAL_INVALIDATE,
        SendKind::BindWindow => CqeOpcode::BIND_WINDOW,
        SendKind::Nop => CqeOpcode::NOP,
    }
}

fn receive_opcode(kind: ReceiveKind) -> CqeOpcode {
    match kind {
        ReceiveKind::Send => CqeOpcode::RECEIVE,
        ReceiveKind::RdmaWriteImmediate => CqeOpcode::RECEIVE_RDMA_IMMEDIATE,
    }
}

fn status_code(status: CompletionStatus) -> CqeStatus {
    match status {
        CompletionStatus::Success => CqeStatus::SUCCESS,
        CompletionStatus::LocalLength => CqeStatus::LOCAL_LENGTH,
        CompletionStatus::LocalQpOperation => CqeStatus::LOCAL_QP_OPERATION,
        CompletionStatus::LocalProtection => CqeStatus::LOCAL_PROTECTION,
        CompletionStatus::WrFlush => CqeStatus::WR_FLUSH,
        CompletionStatus::WindowBind => CqeStatus::WINDOW_BIND,
        CompletionStatus::BadResponse => CqeStatus::BAD_RESPONSE,
        CompletionStatus::LocalAccess => CqeStatus::LOCAL_ACCESS,
        CompletionStatus::RemoteInvalidRequest => CqeStatus::REMOTE_INVALID_REQUEST,
        CompletionStatus::RemoteAccess => CqeStatus::REMOTE_ACCESS,
        CompletionStatus::RemoteOperation => CqeStatus::REMOTE_OPERATION,
        CompletionStatus::RetryExceeded => CqeStatus::RETRY_EXCEEDED,
        CompletionStatus::RnrRetryExceeded => CqeStatus::RNR_RETRY_EXCEEDED,
    }
}
