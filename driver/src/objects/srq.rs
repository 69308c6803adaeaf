//! Shared receive queues: creation, posting, limit, destruction. Posting is on the hot path.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ferroce_spec::context::SrqContext;
use ferroce_spec::doorbell::DoorbellKind;
use ferroce_spec::wqe::SharedReceiveSegment;
use parking_lot::Mutex;

use crate::dma::DmaBuffer;
use crate::error::{Error, PostError};
use crate::identifier::Srqn;
use crate::objects::cq::CompletionQueue;
use crate::objects::device::Device;
use crate::objects::pd::ProtectionDomain;
use crate::objects::xrcd::XrcDomain;
use crate::request::DataSegment;
use crate::rings::batch::{Batch, QueueDoorbell, QueueState};
use crate::rings::doorbell_check::{self, CheckDoorbells, Doorbell, DoorbellMark, RungState};
use crate::rings::receive_queue::{ReceiveShape, write_segments};
use crate::rings::ring::Ring;
use crate::rings::tags::{FreeTags, TagTable};
use crate::use_count::{Lease, UseCount};

/// Configuration of a shared receive queue.
#[derive(Clone)]
pub struct SharedReceiveQueueConfig {
    /// Receive work requests outstanding.
    pub max_wr: u32,
    /// Scatter/gather elements of a receive work request.
    pub max_sge: u32,
    /// Limit: `AsyncEvent::SrqLimit` is raised once when fewer entries are left. Zero: never.
    pub limit: u32,
    /// XRC: the domain whose target QPs may use the queue, and the CQ of its completions.
    pub xrc: Option<(Arc<XrcDomain>, Arc<CompletionQueue>)>,
}

/// Current attributes of a shared receive queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedReceiveQueueAttributes {
    /// Maximum number of outstanding receive work requests.
    pub max_wr: u32,
    /// Maximum number of scatter/gather elements of a receive work request.
    pub max_sge: u32,
    /// The limit; zero when it is off, as after its event.
    pub limit: u32,
}

/// A shared receive queue: buffers for the receives of several QPs.
pub struct SharedReceiveQueue {
    pd: Arc<ProtectionDomain>,
    xrc: Option<(Arc<XrcDomain>, Arc<CompletionQueue>)>,
    number: Srqn,
    shape: ReceiveShape,
    tags: Arc<TagTable>,
    state: Mutex<SharedReceiveState>,
    users: UseCount,
    destroyed: AtomicBool,
    /// Leases of the PD, and for XRC of the domain and the CQ; empty when the queue is destroyed.
    leases: Mutex<Vec<Lease>>,
}

/// State protected by the queue's lock.
pub struct SharedReceiveState {
    doorbell: QueueDoorbell,
    ring: Ring,
    tags: Arc<TagTable>,
    free: FreeTags,
    shape: ReceiveShape,
    open: bool,
    /// Next entry to write, free-running. The device copies an entry when it takes it, so the ring
    /// never holds more entries than there are outstanding tags: at most the ring's size.
    producer: u32,
    /// Producer index of the last doorbell.
    rung: u32,
    doorbell_mark: DoorbellMark,
}

impl RungState for SharedReceiveState {
    fn rung(&mut self) -> (&QueueDoorbell, u32, &mut DoorbellMark) {
        let Self {
            doorbell,
            rung,
            doorbell_mark,
            ..
        } = self;
        (doorbell, *rung, doorbell_mark)
    }
}

impl CheckDoorbells for SharedReceiveQueue {
    fn check_doorbells(&self) -> Result<Doorbell, Error> {
        let Some(due) = doorbell_check::due(&self.state) else {
            return Ok(Doorbell::NotAsked);
        };
        let in_device = self.device().query_srq(self.number)?.producer;
        Ok(doorbell_check::compare(&self.state, due, in_device))
    }
}

/// Receives posted to a shared receive queue.
pub type SharedReceiveBatch<'a> = Batch<'a, SharedReceiveState>;

impl SharedReceiveQueue {
    /// Creates a shared receive queue.
    ///
    /// # Errors
    ///
    /// [`Error::NotSupported`] when the device has none, [`Error::InvalidArgument`] for sizes or a
    /// limit that are out of range, [`Error::NoResources`], and errors of the device.
    pub fn create(
        pd: &Arc<ProtectionDomain>,
        config: &SharedReceiveQueueConfig,
    ) -> Result<Arc<Self>, Error> {
        let device = pd.device();
        let limits = device.limits();
        if !limits.features.shared_receive_queues() {
            let what = "shared receive queues";
            return Err(Error::NotSupported { what });
        }
        let head = SharedReceiveSegment::SIZE;
        let (wr, sge) = (config.max_wr, config.max_sge);
        let shape = ReceiveShape::new(wr, sge, head, limits.max_sge, limits.log_receives);
        let Some(shape) = shape.filter(|shape| shape.max_wr > 0) else {
            let what = "size of the shared receive queue";
            return Err(Error::InvalidArgument { what });
        };
        let limit = check_limit(config.limit, &shape)?;
        let leases = leases(pd, config.xrc.as_ref())?;
        let slot = device.allocate_slot()?;
        let buffer = Arc::new(DmaBuffer::new(device.space(), shape.ring_size())?);
        let xrc = config.xrc.as_ref();
        let context = SrqContext {
            base: buffer.iova(),
            log_size: shape.log_entries,
            log_stride: shape.log_stride,
            limit,
            pd: pd.number(),
            doorbell_slot: slot.number(),
            xrcd: xrc.map_or(0, |(domain, _)| domain.number()),
            cqn: xrc.map_or(0, |(_, cq)| cq.number().0),
            ..SrqContext::default()
        };
        let (tags, free) = TagTable::new(shape.log_entries);
        let tags = Arc::new(tags);
        let number = device.create_srq(&context, |number| {
            if let Some((_, cq)) = xrc {
                cq.add_shared(number, &tags);
            }
        })?;
        let kind = DoorbellKind::SHARED_RECEIVE_QUEUE;
        let state = SharedReceiveState {
            doorbell: QueueDoorbell::new(device.bus(), slot, kind, number.0),
            ring: Ring::new(&buffer, 0, shape.ring_size()),
            tags: Arc::clone(&tags),
            free,
            shape,
            open: true,
            producer: 0,
            rung: 0,
            doorbell_mark: DoorbellMark::default(),
        };
        let queue = Arc::new(Self {
            pd: Arc::clone(pd),
            xrc: config.xrc.clone(),
            number,
            shape,
            tags,
            state: Mutex::new(state),
            users: UseCount::default(),
            destroyed: AtomicBool::new(false),
            leases: Mutex::new(leases),
        });
        device.doorbell_checks().add(&queue);
        Ok(queue)
    }

    /// Returns the SRQ number.
    pub fn number(&self) -> Srqn {
        self.number
    }

    /// Returns the protection domain.
    pub fn pd(&self) -> &Arc<ProtectionDomain> {
        &self.pd
    }

    /// Returns the domain of an XRC shared receive queue.
    pub fn xrc_domain(&self) -> Option<&Arc<XrcDomain>> {
        self.xrc.as_ref().map(|(domain, _)| domain)
    }

    /// Returns the maximum number of outstanding work requests.
    pub fn max_wr(&self) -> u32 {
        self.shape.max_wr
    }

    /// Returns the maximum number of scatter/gather elements of a work request.
    pub fn max_sge(&self) -> u32 {
        self.shape.max_sge
    }

    /// Locks the queue for posting.
    #[inline]
    pub fn lock(&self) -> SharedReceiveBatch<'_> {
        Batch {
            state: self.state.lock(),
        }
    }

    /// Posts one receive and rings the doorbell.
    ///
    /// # Errors
    ///
    /// Any [`PostError`].
    #[inline]
    pub fn post(&self, wr_id: u64, segments: &[DataSegment]) -> Result<(), PostError> {
        self.lock().post(wr_id, segments)
    }

    /// Sets the limit: `AsyncEvent::SrqLimit` is raised once when fewer entries are left. Zero:
    /// never.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for a limit beyond the size of the queue, errors of the device,
    /// [`Error::Destroyed`].
    pub fn modify_limit(&self, limit: u32) -> Result<(), Error> {
        self.check()?;
        let input = SrqContext {
            limit: check_limit(limit, &self.shape)?,
            ..SrqContext::default()
        };
        self.device().modify_srq(self.number, &input)
    }

    /// Queries the device for the queue's current attributes.
    ///
    /// # Errors
    ///
    /// Errors of the device, [`Error::Destroyed`].
    pub fn query(&self) -> Result<SharedReceiveQueueAttributes, Error> {
        self.check()?;
        let context = self.device().query_srq(self.number)?;
        Ok(SharedReceiveQueueAttributes {
            max_wr: self.shape.max_wr,
            max_sge: self.shape.max_sge,
            limit: context.limit.into(),
        })
    }

    /// Destroys the queue.
    ///
    /// # Errors
    ///
    /// [`Error::Busy`] while QPs use it, [`Error::Destroyed`] the second time, and errors of the
    /// device.
    pub fn destroy(&self) -> Result<(), Error> {
        if !self.users.close() {
            self.check()?;
            return Err(Error::Busy);
        }
        self.state.lock().open = false;
        let result = self.device().destroy_srq(self.number, || self.disconnect());
        match result {
            Ok(()) => {
                self.destroyed.store(true, Ordering::Release);
                self.leases.lock().clear();
            }
            Err(_) => {
                self.state.lock().open = true;
                self.users.reopen();
            }
        }
        result
    }

    fn disconnect(&self) {
        if let Some((_, cq)) = &self.xrc {
            cq.remove_shared(self.number);
        }
    }

    fn check(&self) -> Result<(), Error> {
        if self.destroyed.load(Ordering::Acquire) {
            return Err(Error::Destroyed);
        }
        Ok(())
    }

    fn device(&self) -> &Arc<Device> {
        self.pd.device()
    }

    /// Returns true if QPs seem to have taken entries whose completions have neither been polled
    /// nor wait in `cq`.
    pub(crate) fn has_taken(&self, cq: &CompletionQueue) -> bool {
        // In this order, concurrent events make the result true rather than false.
        let retired = self.tags.retired_count();
        let waiting = cq.waiting_shared(&self.tags);
        let Ok(context) = self.device().query_srq(self.number) else {
            return false;
        };
        context.consumer.wrapping_sub(retired).wrapping_sub(waiting) as i32 > 0
    }

    /// Returns the queue's tags, for CQs.
    pub(crate) fn tags(&self) -> &Arc<TagTable> {
        &self.tags
    }

    /// Adds a user.
    pub(crate) fn lease(&self) -> Result<Lease, Error> {
        self.users.acquire().ok_or(Error::Destroyed)
    }
}

impl Drop for SharedReceiveQueue {
    fn drop(&mut self) {
        match self.destroy() {
            Ok(()) | Err(Error::Destroyed) => {}
            Err(error) => {
                tracing::warn!(srqn = self.number.0, %error, "SRQ not destroyed");
                self.device().forget_srq(self.number);
                self.disconnect();
            }
        }
    }
}

/// Takes leases of all objects that the queue needs.
fn leases(
    pd: &Arc<ProtectionDomain>,
    xrc: Option<&(Arc<XrcDomain>, Arc<CompletionQueue>)>,
) -> Result<Vec<Lease>, Error> {
    let mut leases = vec![pd.lease()?];
    if let Some((domain, cq)) = xrc {
        let device = pd.device();
        if !Arc::ptr_eq(domain.device(), device) || !Arc::ptr_eq(cq.device(), device) {
            let what = "an XRC domain or a CQ of another device";
            return Err(Error::InvalidArgument { what });
        }
        leases.extend([domain.lease()?, cq.lease()?]);
    }
    Ok(leases)
}

fn check_limit(limit: u32, shape: &ReceiveShape) -> Result<u16, Error> {
    let what = "limit of the shared receive queue";
    let limit = u16::try_from(limit).ok();
    limit
        .filter(|&limit| u32::from(limit) <= shape.max_wr)
        .ok_or(Error::InvalidArgument { what })
}

impl SharedReceiveBatch<'_> {
    /// Writes one receive into the queue.
    ///
    /// # Errors
    ///
    /// Any [`PostError`]. Earlier work requests of the batch stay posted.
    #[inline]
    pub fn post(&mut self, wr_id: u64, segments: &[DataSegment]) -> Result<(), PostError> {
        self.state.post(wr_id, segments)
    }
}

impl SharedReceiveState {
    #[inline]
    fn post(&mut self, wr_id: u64, segments: &[DataSegment]) -> Result<(), PostError> {
        if !self.open {
            return Err(PostError::InvalidState);
        }
        if segments.len() > self.shape.max_sge as usize {
            return Err(PostError::TooManySegments);
        }
        let tag = self.tags.issue(&mut self.free, wr_id);
        let tag = tag.ok_or(PostError::QueueFull)?;
        let mut writer = self.ring.writer(self.shape.first_word(self.producer));
        writer.push_halves(tag, 0);
        writer.push(0);
        let room = (1 << self.shape.log_stride) / DataSegment::SIZE - 1;
        write_segments(&mut writer, segments, room);
        self.producer = self.producer.wrapping_add(1);
        Ok(())
    }
}

impl QueueState for SharedReceiveState {
    #[inline]
    fn ring_doorbell(&mut self) {
        if self.producer == self.rung {
            return;
        }
        self.rung = self.producer;
        self.doorbell.ring(self.producer);
    }
}
