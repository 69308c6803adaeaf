//! A host of a seeded world: its device, and the objects that its connections share.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use ferroce_driver::{
    CompletionQueue, CompletionQueueConfig, DataSegment, Device, MemoryAccess, MemoryRegion,
    PostError, ProtectionDomain, SharedReceiveQueue, SharedReceiveQueueConfig, Srqn, XrcDomain,
};
use ferroce_world::World;

use crate::error::Wrong;
use crate::layout::{ALIGNMENT, Layout};
use crate::memory::Memory;

/// Entries of a completion queue: more than the possible work requests.
const COMPLETIONS: u32 = 4096;
/// Data segments of a receive.
pub(crate) const RECEIVE_SEGMENTS: u32 = 2;
/// The last byte at which a receive is cut.
const LAST_CUT: usize = 300;
/// Maximum number of receives in a shared queue.
pub(crate) const SHARED_DEPTH: u32 = 16;

/// All rights.
const ALL_ACCESS: MemoryAccess = MemoryAccess {
    local_write: true,
    remote_write: true,
    remote_read: true,
    remote_atomic: true,
    flush_global: false,
    flush_persistent: false,
    window_bind: true,
    relaxed_ordering: false,
};
const LOCAL_ACCESS: MemoryAccess = MemoryAccess {
    remote_write: false,
    remote_read: false,
    remote_atomic: false,
    flush_global: false,
    flush_persistent: false,
    window_bind: false,
    ..ALL_ACCESS
};

/// The queue pairs of a host that share receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sharing {
    Reliable,
    Unreliable,
    Xrc,
}

/// A shared receive queue and the receives in it.
pub(crate) struct Shared {
    pub queue: Arc<SharedReceiveQueue>,
    /// Receives without a completion.
    pub outstanding: usize,
}

/// A host.
pub(crate) struct Host {
    pub device: Arc<Device>,
    pub pd: Arc<ProtectionDomain>,
    pub send_cq: Arc<CompletionQueue>,
    pub receive_cq: Arc<CompletionQueue>,
    pub domain: Arc<XrcDomain>,
    shared: [Shared; 3],
    /// Region over all memory, for the host itself.
    pub local: Arc<MemoryRegion>,
    /// Region of the counters to which peers add.
    pub counters: Arc<MemoryRegion>,
    pub layout: Layout,
    /// Unused receive buffers.
    free: VecDeque<usize>,
    /// Contents of all memory that were checked.
    pub known: Vec<u8>,
    /// Last field: dropped when devices no longer use it.
    pub memory: Memory,
}

impl Host {
    /// Brings the device of a host up.
    pub fn open(world: &World, number: usize, seed: u64, layout: Layout) -> Result<Self, Wrong> {
        let memory = Memory::new(seed, number, layout.bytes);
        let device = world.open(number).map_err(Wrong::of)?;
        let pd = device.alloc_pd().map_err(Wrong::of)?;
        let cq = || {
            let config = CompletionQueueConfig {
                entries: COMPLETIONS,
                ..CompletionQueueConfig::default()
            };
            CompletionQueue::create(&device, config).map_err(Wrong::of)
        };
        let (send_cq, receive_cq) = (cq()?, cq()?);
        let domain = XrcDomain::alloc(&device).map_err(Wrong::of)?;
        let shared = |xrc| {
            let config = SharedReceiveQueueConfig {
                max_wr: SHARED_DEPTH,
                max_sge: RECEIVE_SEGMENTS,
                limit: 0,
                xrc,
            };
            let queue = SharedReceiveQueue::create(&pd, &config).map_err(Wrong::of)?;
            let outstanding = 0;
            Ok::<_, Wrong>(Shared { queue, outstanding })
        };
        let xrc = Some((Arc::clone(&domain), Arc::clone(&receive_cq)));
        let shared = [shared(None)?, shared(None)?, shared(xrc)?];
        let local = register(&pd, &memory, 0..layout.bytes, LOCAL_ACCESS)?;
        let counters = register(&pd, &memory, layout.counters.clone(), ALL_ACCESS)?;
        Ok(Self {
            send_cq,
            receive_cq,
            domain,
            shared,
            local,
            counters,
            free: layout.receives.clone().step_by(layout.receive).collect(),
            known: memory.copy(),
            layout,
            memory,
            pd,
            device,
        })
    }

    /// Registers a part of the memory for peers.
    pub fn offer(&self, range: Range<usize>) -> Result<Arc<MemoryRegion>, Wrong> {
        register(&self.pd, &self.memory, range, ALL_ACCESS)
    }

    /// Returns the shared receive queue of some queue pairs.
    pub fn shared(&mut self, sharing: Sharing) -> &mut Shared {
        &mut self.shared[sharing as usize]
    }

    /// Returns the number of the shared receive queue that XRC peers name.
    pub fn xrc_number(&self) -> Srqn {
        self.shared[Sharing::Xrc as usize].queue.number()
    }

    /// Returns a data segment of the memory.
    pub fn segment(&self, offset: usize, length: usize) -> DataSegment {
        DataSegment {
            address: self.memory.virtual_address(offset),
            length: length as u32,
            l_key: self.local.lkey().0,
        }
    }

    /// Returns the buffer of a new receive, cut in two; its offset is the ID of the work request.
    pub fn take_buffer(&mut self) -> Option<(u64, [DataSegment; 2])> {
        let offset = self.free.pop_front()?;
        let cut = 1 + offset / ALIGNMENT % LAST_CUT;
        let rest = self.segment(offset + cut, self.layout.receive - cut);
        Some((offset as u64, [self.segment(offset, cut), rest]))
    }

    /// Returns the offsets of the buffers of receives that have no completion.
    pub fn buffers_in_use(&self) -> Vec<usize> {
        let all = self.layout.receives.clone().step_by(self.layout.receive);
        all.filter(|offset| !self.free.contains(offset)).collect()
    }

    /// Frees a buffer whose receive is complete. Its contents were checked.
    pub fn free_buffer(&mut self, offset: usize) {
        self.learn(offset..offset + self.layout.receive);
        self.free.push_back(offset);
    }

    /// Records that the contents of some memory were checked.
    pub fn learn(&mut self, range: Range<usize>) {
        let bytes = self.memory.bytes(range.clone());
        self.known[range].copy_from_slice(&bytes);
    }

    /// Posts receives to a shared queue until `count` are in it.
    pub fn fill_shared(&mut self, sharing: Sharing, count: usize) -> Result<(), Wrong> {
        while self.shared(sharing).outstanding < count {
            let Some((wr_id, segments)) = self.take_buffer() else {
                return Ok(());
            };
            let shared = self.shared(sharing);
            shared.queue.post(wr_id, &segments).map_err(Wrong::of)?;
            shared.outstanding += 1;
        }
        Ok(())
    }

    /// Checks that the shared queues have room for all receives that are not outstanding.
    pub fn check_shared(&mut self) -> Result<(), Wrong> {
        let local = self.segment(self.layout.receives.start, self.layout.receive);
        for shared in &self.shared {
            let room = (shared.queue.max_wr() as usize).saturating_sub(shared.outstanding);
            let posted = (0..=room).take_while(|_| shared.queue.post(0, &[local]).is_ok());
            let posted = posted.count();
            if posted != room {
                let outstanding = shared.outstanding;
                return Err(Wrong::new(format!(
                    "a shared receive queue has room for {posted}, not {room} receives: \
                     {outstanding} have no completion"
                )));
            }
        }
        Ok(())
    }

    /// Destroys all objects, which no queue pair uses any more.
    pub fn destroy(&self) -> Result<(), Wrong> {
        for shared in &self.shared {
            shared.queue.destroy().map_err(Wrong::of)?;
        }
        self.send_cq.destroy().map_err(Wrong::of)?;
        self.receive_cq.destroy().map_err(Wrong::of)?;
        self.domain.dealloc().map_err(Wrong::of)?;
        self.counters.deregister().map_err(Wrong::of)?;
        self.local.deregister().map_err(Wrong::of)?;
        self.pd.dealloc().map_err(Wrong::of)
    }

    /// Checks that the driver has understood everything that the device has written.
    pub fn check_driver(&self) -> Result<(), Wrong> {
        let skipped = self.send_cq.skipped() + self.receive_cq.skipped();
        let events = self.device.skipped_events();
        if skipped + events > 0 || self.device.is_dead() {
            return Err(Wrong::new(format!(
                "the driver has skipped {skipped} CQEs and {events} EQEs"
            )));
        }
        Ok(())
    }
}

/// Returns true if a queue is full, and false if a work request was posted.
pub(crate) fn is_full(result: Result<(), PostError>) -> Result<bool, Wrong> {
    match result {
        Ok(()) => Ok(false),
        Err(PostError::QueueFull) => Ok(true),
        Err(error) => Err(Wrong::of(error)),
    }
}

fn register(
    pd: &Arc<ProtectionDomain>,
    memory: &Memory,
    range: Range<usize>,
    access: MemoryAccess,
) -> Result<Arc<MemoryRegion>, Wrong> {
    let address = memory.address(range.start);
    let virtual_address = memory.virtual_address(range.start);
    let region = MemoryRegion::register(pd, address, range.len(), virtual_address, access);
    region.map_err(Wrong::of)
}
