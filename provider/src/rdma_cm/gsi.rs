//! QP 1 of a device: sends and receives management datagrams.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ferroce_driver::{
    AddressVector, CompletionOpcode, CompletionQueue, CompletionQueueConfig, CompletionStatus,
    DataSegment, Destination, LKey, MemoryAccess, MemoryRegion, ModifyQp, Qpn, QueuePair,
    QueuePairCapacity, QueuePairConfig, ReceiveSource, SendData, SendOperation, SendRequest,
    Service, UdInit, UdRtr, UdRts,
};
use ferroce_wire::cm::Mad;
use ferroce_wire::{Gid, QKey};

use crate::adapter::Adapter;
use crate::address::{self, Neighbours as _};
use crate::errno::Errno;

/// Datagrams that wait to be taken; further ones are lost, and sent again by the peer.
const RECEIVES: u32 = 256;
/// Datagrams on their way out; further ones are lost, and sent again after a time-out.
const SENDS: u32 = 256;
/// Completions that wait to be taken. Queues become up to twice as long as requested, and an
/// overrun CQ delivers nothing any more.
const COMPLETIONS: u32 = 2 * (RECEIVES + SENDS);
/// Bytes in front of a received datagram: its network header (IBTA vol 1, 11.4.1.2).
const HEADER_SIZE: usize = 40;
/// Bytes of a receive.
const SLOT_SIZE: usize = HEADER_SIZE + Mad::LENGTH;
const WORDS_PER_SLOT: usize = SLOT_SIZE / 8;
/// Completions that one call of [`Gsi::receive`] takes.
const MAX_TAKEN: usize = 64;
/// Hop limit of datagrams. Traffic class, service level and flow label are zero, as in Linux.
const HOP_LIMIT: u8 = 64;

const _: () = assert!(SLOT_SIZE.is_multiple_of(8));

/// A received datagram.
#[derive(Clone)]
pub struct Received {
    /// Source
    pub from: Gid,
    /// Destination
    pub to: Gid,
    /// The datagram
    pub mad: [u8; Mad::LENGTH],
}

/// QP 1 of a device.
pub struct Gsi {
    adapter: Arc<Adapter>,
    qp: Arc<QueuePair>,
    cq: Arc<CompletionQueue>,
    /// True if an event is requested and has not come.
    is_armed: Arc<AtomicBool>,
    l_key: LKey,
    /// Dropped after the QP and before the memory, which the device writes until then.
    _region: Arc<MemoryRegion>,
    memory: Box<[AtomicU64]>,
}

impl Gsi {
    /// Creates QP 1; `on_event` is called when there is something to take after [`Gsi::arm`].
    ///
    /// # Errors
    /// `EBUSY` if another owner of this function has it; errors of the device.
    pub fn open(
        adapter: Arc<Adapter>,
        on_event: impl Fn() + Send + Sync + 'static,
    ) -> Result<Self, Errno> {
        let is_armed = Arc::new(AtomicBool::new(false));
        let armed = Arc::clone(&is_armed);
        let on_event = Arc::new(move || {
            armed.store(false, Ordering::Release);
            on_event();
        });
        let device = adapter.device()?;
        let pd = device.alloc_pd()?;
        let config = CompletionQueueConfig {
            entries: COMPLETIONS,
            on_event: Some(on_event),
            on_error: Some(Arc::new(|| {
                tracing::error!("the CQ of QP 1 has failed: RDMA CM receives no more datagrams");
            })),
            ..CompletionQueueConfig::default()
        };
        let cq = CompletionQueue::create(device, config)?;
        let words = RECEIVES as usize * WORDS_PER_SLOT;
        let memory: Box<[AtomicU64]> = (0..words).map(|_| AtomicU64::new(0)).collect();
        let access = MemoryAccess {
            local_write: true,
            ..MemoryAccess::default()
        };
        let address = memory.as_ptr().expose_provenance();
        let length = size_of_val(&*memory);
        let region = MemoryRegion::register(&pd, address, length, address as u64, access)?;
        let config = QueuePairConfig {
            service: Service::Gsi,
            send_cq: Arc::clone(&cq),
            receive: ReceiveSource::Own {
                cq: Arc::clone(&cq),
                max_wr: RECEIVES,
                max_sge: 1,
            },
            max_send_wr: SENDS,
            max_send_sge: 1,
            max_inline_data: Mad::LENGTH as u32,
            signal_all: true,
            blocks_own_multicast: false,
        };
        let qp = QueuePair::create(&pd, &config)?;
        let QueuePairCapacity {
            max_send_wr,
            max_recv_wr,
            ..
        } = qp.capacity();
        if max_send_wr + max_recv_wr > cq.entries() {
            tracing::error!(max_send_wr, max_recv_wr, "QP 1 could overrun its CQ");
            return Err(Errno::NO_MEMORY);
        }
        let gsi = Self {
            adapter,
            qp,
            cq,
            is_armed,
            l_key: region.lkey(),
            _region: region,
            memory,
        };
        gsi.start()?;
        Ok(gsi)
    }

    fn start(&self) -> Result<(), Errno> {
        self.qp.modify(&ModifyQp::ToInitUd(UdInit {
            p_key_index: 0,
            port: 1,
            q_key: QKey::GSI.0,
        }))?;
        for slot in 0..u64::from(RECEIVES) {
            self.post_receive(slot)?;
        }
        self.qp.modify(&ModifyQp::ToRtrUd(UdRtr::default()))?;
        self.qp.modify(&ModifyQp::ToRtsUd(UdRts {
            sq_psn: 0,
            q_key: None,
        }))?;
        Ok(())
    }

    /// Returns the device.
    pub fn adapter(&self) -> &Arc<Adapter> {
        &self.adapter
    }

    /// Returns the GUID of the device.
    pub fn node_guid(&self) -> u64 {
        u64::from_be_bytes(self.adapter.host().node_guid)
    }

    /// Returns true if the device has this address.
    pub fn owns(&self, address: Gid) -> bool {
        self.gid_index(address).is_some()
    }

    fn gid_index(&self, address: Gid) -> Option<u16> {
        let mut gids = (0..).zip(&self.adapter.host().gids);
        let found = gids.find(|(_, entry)| entry.gid == address.0);
        found.map(|(index, _)| index)
    }

    /// Requests an event for the next completion. Returns true if none is there already.
    pub fn arm(&self) -> bool {
        if !self.is_armed.swap(true, Ordering::AcqRel) {
            self.cq.arm();
        }
        self.cq.is_empty()
    }

    /// Takes received datagrams, not necessarily all.
    pub fn receive(&self) -> Vec<Received> {
        let mut taken = Vec::new();
        let mut slots = Vec::new();
        self.cq.poll(MAX_TAKEN, |completion| {
            if completion.opcode != CompletionOpcode::Receive {
                return;
            }
            slots.push(completion.wr_id);
            let is_datagram = completion.byte_length as usize == SLOT_SIZE;
            if completion.status == CompletionStatus::Success && is_datagram {
                taken.extend(self.slot(completion.wr_id));
            }
        });
        for slot in slots {
            if let Err(errno) = self.post_receive(slot) {
                tracing::debug!(?errno, slot, "QP 1 has a receive less");
            }
        }
        taken
    }

    fn slot(&self, slot: u64) -> Option<Received> {
        let first = usize::try_from(slot).ok()?.checked_mul(WORDS_PER_SLOT)?;
        let words = self.memory.get(first..first + WORDS_PER_SLOT)?;
        let mut bytes = [0; SLOT_SIZE];
        for (bytes, word) in bytes.chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
        }
        let (header, mad) = bytes.split_first_chunk()?;
        let route = address::received(header);
        Some(Received {
            from: Gid(route.source),
            to: Gid(route.destination),
            mad: mad.try_into().ok()?,
        })
    }

    fn post_receive(&self, slot: u64) -> Result<(), Errno> {
        let queue = self.qp.receive_queue().ok_or(Errno::INVALID)?;
        let offset = slot * SLOT_SIZE as u64;
        let segment = DataSegment {
            address: self.memory.as_ptr().addr() as u64 + offset,
            length: SLOT_SIZE as u32,
            l_key: self.l_key.0,
        };
        Ok(queue.post(slot, &[segment])?)
    }

    /// Sends a datagram.
    ///
    /// # Errors
    /// `EHOSTUNREACH` for an address without an answer, `ENOMEM` when the queue is full.
    pub fn send(&self, from: Gid, to: Gid, mad: &[u8; Mad::LENGTH]) -> Result<(), Errno> {
        let path = AddressVector {
            dest_gid: to.0,
            dest_mac: self
                .adapter
                .resolve_mac(to.0)
                .ok_or_else(|| Errno::unreachable(to.0))?,
            source_gid_index: self.gid_index(from).ok_or(Errno::INVALID)?,
            hop_limit: HOP_LIMIT,
            udp_source_port: address::udp_source_port(0),
            ..AddressVector::default()
        };
        let pieces = [&mad[..]];
        let request = SendRequest {
            wr_id: 0,
            operation: SendOperation::Send,
            destination: Destination::Datagram {
                path: &path,
                qpn: Qpn(1),
                q_key: QKey::GSI.0,
            },
            signaled: true,
            solicited: false,
            fence: false,
            data: SendData::Inline(&pieces),
        };
        let queue = self.qp.send_queue().ok_or(Errno::INVALID)?;
        let mut batch = queue.lock();
        batch.post(&request)?;
        batch.ring();
        Ok(())
    }
}
