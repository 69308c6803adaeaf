//! Queue pairs, completion queues and memory of a simulated thread.

use std::rc::Rc;
use std::sync::Arc;

use ferroce_driver::{
    AddressVector, CompletionQueue, DataSegment, Destination, ProtectionDomain, Qpn, QueuePair,
    QueuePairConfig, ReceiveSource, RemoteAddress, SendData, SendOperation, SendRequest,
    Service as DriverService,
};

use crate::calls::Locks;
use crate::connect::Q_KEY;
use crate::error::Error;
use crate::plan::Plan;
use crate::queue::Queue;
use crate::region::{Region, RemoteRegion, place_of};
use crate::spec::{Operation, Service};

/// Operands of fetch and add, and of compare and swap (`ATOMIC_ADD_VALUE`, `ATOMIC_SWAP_VALUE`).
const ADDEND: u64 = 1;

/// A QP of a thread.
pub struct Endpoint {
    /// The QP.
    pub qp: Arc<QueuePair>,
    /// CQ of its send queue.
    pub send_cq: Queue,
    /// First PSN.
    pub psn: u32,
    /// Offset of its messages in the thread's regions and in the peer's regions.
    pub local_base: u64,
    /// Offset of received messages in the thread's regions.
    pub receive_base: u64,
    /// Its target address.
    pub remote_base: u64,
    /// Regions of the peer.
    pub remote: Rc<[RemoteRegion]>,
    /// UD: the destination.
    pub datagram: Option<(AddressVector, Qpn)>,
    /// True if it has no thread at the remote end.
    pub is_alone: bool,
    /// Locks that it shares with other threads.
    pub locks: Locks,
}

/// Queues and memory of one thread.
pub struct Side {
    /// Its host.
    pub host: usize,
    /// Its number on the host.
    pub thread: u32,
    /// Its QPs.
    pub endpoints: Vec<Endpoint>,
    /// CQ of the send queues; the first QP's if each QP has its own.
    pub send_cq: Queue,
    /// CQ of the receives.
    pub receive_cq: Queue,
    /// Its memory.
    pub regions: Vec<Region>,
}

impl Endpoint {
    /// Returns the operation of a message at `remote`.
    fn operation(&self, operation: Operation, remote: RemoteAddress) -> SendOperation {
        match operation {
            Operation::Write => SendOperation::RdmaWrite(remote),
            Operation::Read => SendOperation::RdmaRead(remote),
            Operation::Send => SendOperation::Send,
            Operation::FetchAdd => SendOperation::FetchAdd {
                remote,
                add: ADDEND,
            },
            Operation::CompareSwap => SendOperation::CompareSwap {
                remote,
                compare: 0,
                swap: ADDEND,
            },
        }
    }
}

/// Source and destination of a message.
#[derive(Debug, Clone, Copy)]
pub struct Message {
    /// Local memory.
    pub segment: DataSegment,
    /// The peer's.
    pub remote: RemoteAddress,
}

impl Side {
    /// Returns message number `count` of QP `index`, in perftest's order of addresses. Messages use
    /// the memory regions in round-robin order.
    #[inline]
    pub fn message(&self, plan: &Plan, index: usize, count: u64) -> Message {
        let endpoint = &self.endpoints[index];
        let place = place_of(plan.size.into(), count);
        let local = &self.regions[count as usize % self.regions.len()];
        let remote = &endpoint.remote[count as usize % endpoint.remote.len()];
        Message {
            segment: local.segment(endpoint.local_base + place, plan.size),
            remote: remote.at(if plan.one_address {
                endpoint.remote_base
            } else {
                endpoint.remote_base + place
            }),
        }
    }

    /// Returns the segment of receive number `count` of QP `index`.
    #[inline]
    pub fn receive(&self, plan: &Plan, index: usize, count: u64) -> DataSegment {
        let place = self.endpoints[index].receive_base + place_of(plan.size.into(), count);
        let region = &self.regions[count as usize % self.regions.len()];
        match plan.service {
            Service::Ud => {
                let grh = crate::region::GRH;
                region.segment(place - grh, plan.size + grh as u32)
            }
            _ => region.segment(place, plan.size),
        }
    }

    /// Calls `post` with the work request of a message.
    pub fn request<'a>(
        &'a self,
        plan: &Plan,
        index: usize,
        message: &'a Message,
        data: SendData<'a>,
        signaled: bool,
    ) -> SendRequest<'a> {
        let endpoint = &self.endpoints[index];
        let destination = match &endpoint.datagram {
            Some((path, qpn)) => Destination::Datagram {
                path,
                qpn: *qpn,
                q_key: Q_KEY,
            },
            None => Destination::Connected,
        };
        SendRequest {
            wr_id: index as u64,
            operation: endpoint.operation(plan.operation, message.remote),
            destination,
            signaled,
            solicited: false,
            fence: false,
            data,
        }
    }

    /// Returns the bytes at `segment`, which lies in the thread's memory.
    pub fn bytes(&self, segment: &DataSegment) -> Vec<u8> {
        let buffers = self
            .regions
            .iter()
            .filter_map(|region| region.buffer.as_ref());
        for buffer in buffers {
            let place = segment.address.wrapping_sub(buffer.address() as u64) as usize;
            if place < buffer.length() {
                return buffer.copy(place, segment.length as usize);
            }
        }
        vec![0; segment.length as usize]
    }
}

/// Splits a message into `count` contiguous pieces of the same length; the last ones are a byte
/// shorter if need be.
pub fn pieces(whole: DataSegment, count: u32) -> impl Iterator<Item = DataSegment> {
    let count = count.max(1);
    let (each, longer) = (whole.length / count, whole.length % count);
    (0..count).map(move |index| DataSegment {
        address: whole.address + u64::from(index * each + index.min(longer)),
        length: each + u32::from(index < longer),
        l_key: whole.l_key,
    })
}

/// Returns a QP for `depth` outstanding sends.
///
/// # Errors
/// [`Error::Driver`].
pub fn queue_pair(
    pd: &Arc<ProtectionDomain>,
    plan: &Plan,
    depth: u32,
    send_cq: &Arc<CompletionQueue>,
    receive_cq: &Arc<CompletionQueue>,
) -> Result<Arc<QueuePair>, Error> {
    let service = match plan.service {
        Service::Rc => DriverService::ReliableConnected,
        Service::Uc => DriverService::UnreliableConnected,
        Service::Ud => DriverService::UnreliableDatagram,
    };
    let max_wr = if plan.has_receives() {
        plan.receive_depth
    } else {
        1
    };
    let config = QueuePairConfig {
        service,
        send_cq: Arc::clone(send_cq),
        receive: ReceiveSource::Own {
            cq: Arc::clone(receive_cq),
            max_wr,
            max_sge: 1,
        },
        max_send_wr: depth,
        max_send_sge: plan.segments,
        max_inline_data: plan.inline_limit,
        signal_all: false,
        blocks_own_multicast: false,
    };
    QueuePair::create(pd, &config).map_err(Error::driver("queue pair"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_the_whole_message_without_gap() {
        for (length, count) in [(4096, 1), (4096, 3), (13, 13), (100, 7), (1 << 30, 13)] {
            let whole = DataSegment {
                address: 0x1_0000_0fff,
                length,
                l_key: 7,
            };
            let pieces: Vec<_> = pieces(whole, count).collect();
            assert_eq!(pieces.len(), count as usize);
            let mut next = whole.address;
            for piece in &pieces {
                assert_eq!((piece.address, piece.l_key), (next, 7));
                assert!(piece.length.abs_diff(length / count) <= 1);
                next += u64::from(piece.length);
            }
            assert_eq!(next, whole.address + u64::from(length));
        }
    }
}
