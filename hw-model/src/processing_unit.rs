//! Processing unit: runs the transport of the queue pairs that are pinned to it.

use crate::atomic::dma_atomic;
use crate::dma::{ATOMIC_BYTES, Dma};
use crate::host::Host;
use crate::memory::MemoryUnit;
use crate::mpt::Access;
use crate::queue::Edge;
use crate::queue_pair::QueuePair;
use crate::timing::{EdgeName, Timing, Work};
use crate::window::Binder;
use crate::wqe::SendPayload;
use ferroce_spec::context::AccessRights;
use ferroce_spec::counter::Counter;
use ferroce_transport::{Access as RemoteAccess, Instant, MemoryAnswer, MemoryOp, Step, Transmit};
use ferroce_wire::TransportHeaders;
use std::ops::Range;

/// Memory operations of one packet at most: check, take a receive, write; and one to spare.
const MAX_STEPS_PER_PACKET: usize = 4;

/// A packet on its way to a processing unit.
#[derive(Debug)]
pub struct Inbound<F> {
    /// Index of the queue pair.
    pub qp: u32,
    /// Transport headers.
    pub headers: TransportHeaders,
    /// Where the payload lies in the frame.
    pub payload: Range<usize>,
    /// The frame.
    pub frame: F,
}

/// A packet on its way to the packetizer.
#[derive(Debug)]
pub struct Outbound {
    /// Index of the queue pair.
    pub qp: u32,
    /// Headers and place of the payload.
    pub transmit: Transmit,
}

/// One processing unit and the edges around it.
#[derive(Debug)]
pub struct ProcessingUnit<F> {
    /// Packets from the depacketizer.
    pub inbound: Edge<Inbound<F>>,
    /// Packets to the packetizer.
    pub outbound: Edge<Outbound>,
}

impl<F: AsRef<[u8]>> ProcessingUnit<F> {
    /// An idle unit.
    pub fn new(edge_capacity: usize) -> Self {
        Self {
            inbound: Edge::new(EdgeName::Inbound, edge_capacity),
            outbound: Edge::new(EdgeName::Outbound, edge_capacity),
        }
    }

    /// Lets `qp` process one packet, with all memory operations that it needs.
    #[inline]
    pub fn receive<H: Host>(
        &mut self,
        now: Instant,
        qp: &mut QueuePair,
        packet: &Inbound<F>,
        memory: &mut MemoryUnit,
        dma: &mut Dma<'_, H>,
        fetch_receives: u32,
    ) {
        let payload = &packet.frame.as_ref()[packet.payload.clone()];
        let mut step = qp
            .transport
            .handle_packet(now, &packet.headers, payload.len() as u32);
        for _ in 0..MAX_STEPS_PER_PACKET {
            let Step::Memory(operation) = step else {
                return;
            };
            let answer = carry_out(operation, qp, payload, memory, dma, fetch_receives);
            step = qp.transport.handle_memory(now, answer);
        }
        debug_assert!(
            matches!(step, Step::Done),
            "a packet needs more steps than it can"
        );
    }

    /// Lets `qp` send up to `quantum` packets, as far as the edge has room.
    #[inline]
    pub fn transmit(&mut self, now: Instant, qp: &mut QueuePair, quantum: u32, timing: &Timing) {
        for _ in 0..quantum {
            if self.outbound.is_full() {
                return;
            }
            let next = qp
                .stalled
                .pop_front()
                .or_else(|| qp.transport.poll_transmit(now));
            let Some(transmit) = next else {
                return;
            };
            let work = Work {
                bytes: transmit.payload.length(),
                ..Work::default()
            };
            self.outbound.push(
                now,
                timing,
                &work,
                Outbound {
                    qp: qp.index,
                    transmit,
                },
            );
        }
    }
}

/// Carries a memory operation of the transport out.
#[inline]
fn carry_out<H: Host>(
    operation: MemoryOp,
    qp: &mut QueuePair,
    payload: &[u8],
    memory: &mut MemoryUnit,
    dma: &mut Dma<'_, H>,
    fetch_receives: u32,
) -> MemoryAnswer {
    let pd = qp.pd();
    match operation {
        MemoryOp::Validate {
            r_key,
            virtual_address,
            length,
            access,
            srqn: _,
        } => {
            let rights = remote_rights(access);
            let (address, length) = (virtual_address, u64::from(length));
            let access = Access {
                pd,
                key: r_key.0,
                address,
                length,
                rights,
                qpn: qp.qpn.value(),
            };
            match memory.validate(&access, dma) {
                Ok(()) => MemoryAnswer::Valid,
                Err(_) => MemoryAnswer::Invalid,
            }
        }
        MemoryOp::TakeReceive => match qp.receive.take(fetch_receives, dma) {
            Ok(Some(wqe)) => {
                dma.counters.add(Counter::receive_wqes, 1);
                MemoryAnswer::Receive {
                    id: wqe.index,
                    capacity: wqe.list.length(),
                }
            }
            Ok(None) => MemoryAnswer::NoReceive,
            Err(_) => MemoryAnswer::ReceiveError,
        },
        MemoryOp::WriteRemote {
            r_key,
            virtual_address,
            length,
            srqn: _,
        } => {
            let access = Access {
                pd,
                key: r_key.0,
                address: virtual_address,
                length: u64::from(length),
                rights: remote_rights(RemoteAccess::Write),
                qpn: qp.qpn.value(),
            };
            done(memory.write(&access, payload, dma).is_ok())
        }
        MemoryOp::WriteReceive {
            receive, offset, ..
        } => match qp.receive.get(receive) {
            Some(wqe) => {
                let pd = wqe.shared.map_or(pd, |shared| shared.pd);
                done(memory.scatter(pd, &wqe.list, offset, payload, dma).is_ok())
            }
            None => MemoryAnswer::Failed,
        },
        MemoryOp::TakeShared { .. } => MemoryAnswer::Invalid,
        MemoryOp::Atomic {
            r_key,
            virtual_address,
            operation,
            srqn: _,
        } => {
            let access = Access {
                pd,
                key: r_key.0,
                address: virtual_address,
                length: ATOMIC_BYTES as u64,
                rights: remote_rights(RemoteAccess::Atomic),
                qpn: qp.qpn.value(),
            };
            match memory.atomic(&access, dma_atomic(operation), dma) {
                Ok(original) => MemoryAnswer::Atomic(original),
                Err(_) => MemoryAnswer::Failed,
            }
        }
        MemoryOp::WriteAtomicResult { request, value } => match qp.send.payload(request) {
            Some(SendPayload::Memory(list)) => {
                let bytes = value.to_ne_bytes();
                done(memory.scatter(pd, list, 0, &bytes, dma).is_ok())
            }
            _ => MemoryAnswer::Failed,
        },
        MemoryOp::Invalidate { r_key, srqn: _ } => {
            let qpn = qp.qpn.value();
            let binder = Binder { pd, qpn };
            done(memory.invalidate_remotely(binder, r_key.0, dma).is_ok())
        }
        MemoryOp::WriteGrh { .. } => MemoryAnswer::Failed,
        MemoryOp::WriteReadResponse {
            request, offset, ..
        } => match qp.send.payload(request) {
            Some(SendPayload::Memory(list)) => {
                done(memory.scatter(pd, list, offset, payload, dma).is_ok())
            }
            _ => MemoryAnswer::Failed,
        },
    }
}

fn done(success: bool) -> MemoryAnswer {
    if success {
        MemoryAnswer::Done
    } else {
        MemoryAnswer::Failed
    }
}

/// The right of a memory region that a remote access needs.
fn remote_rights(access: RemoteAccess) -> AccessRights {
    let mut rights = AccessRights::default();
    match access {
        RemoteAccess::Write => rights.set_remote_write(true),
        RemoteAccess::Read => rights.set_remote_read(true),
        RemoteAccess::Atomic => rights.set_remote_atomic(true),
    }
    rights
}
