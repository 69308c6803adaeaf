//! Shared receive queues: checks of their attributes.

use std::sync::Arc;

use ferroce_driver::{Lease, SharedReceiveQueue, SharedReceiveQueueConfig};
use libc::c_int;

use crate::abi::*;
use crate::adapter::{Adapter, Object};
use crate::cq::Cq;
use crate::domain::Domain;
use crate::errno::{Errno, QueueLimits, at_most, within};
use crate::event::Source;
use crate::xrc::Xrcd;

/// A shared receive queue with its context.
pub struct Srq {
    pub adapter: Arc<Adapter>,
    pub queue: Arc<SharedReceiveQueue>,
    pub source: Arc<Source>,
    /// True if it takes the receives of XRC target QPs.
    pub is_xrc: bool,
    _domain: Lease,
    _xrcd: Option<Lease>,
}

impl Srq {
    /// Creates an SRQ of at least the given size. Sets `attr` to the actual size; its limit is
    /// ignored.
    ///
    /// # Errors
    /// `EINVAL` for sizes above the device's limits.
    pub fn create(
        domain: &Domain,
        xrc: Option<(&Xrcd, &Cq)>,
        attr: &mut ibv_srq_attr,
    ) -> Result<Self, Errno> {
        let limits = domain.adapter.device()?.capabilities();
        if limits.max_srq == 0 {
            return Err(Errno::NOT_SUPPORTED.because("the device has no SRQs"));
        }
        if attr.max_wr == 0 {
            return Err(Errno::wrong("attr.max_wr", attr.max_wr, "at least 1"));
        }
        at_most("attr.max_wr", attr.max_wr, limits.max_srq_wr)?;
        at_most("attr.max_sge", attr.max_sge, limits.max_srq_sge)?;
        let config = SharedReceiveQueueConfig {
            max_wr: attr.max_wr,
            max_sge: attr.max_sge,
            limit: 0,
            xrc: xrc.map(|(xrcd, cq)| (xrcd.shared.domain.clone(), cq.queue.clone())),
        };
        let queue = SharedReceiveQueue::create(&domain.protection, &config)?;
        attr.max_wr = queue.max_wr();
        attr.max_sge = queue.max_sge();
        let source = Arc::new(Source::default());
        let object = Object::SharedReceiveQueue(queue.number());
        domain.adapter.add(object, &domain.events, &source);
        Ok(Self {
            adapter: domain.adapter.clone(),
            queue,
            source,
            is_xrc: xrc.is_some(),
            _domain: domain.lease(),
            _xrcd: xrc.map(|(xrcd, _)| xrcd.lease()),
        })
    }

    /// `ibv_modify_srq`.
    ///
    /// # Errors
    /// `EINVAL` for a limit beyond the size, and for a resize, which the device does not support
    /// (`IBV_DEVICE_SRQ_RESIZE`).
    pub fn modify(&self, attr: &ibv_srq_attr, mask: c_int) -> Result<(), Errno> {
        self.adapter.check()?;
        let possible = IBV_SRQ_LIMIT as u32;
        within(Errno::INVALID, "srq_attr_mask", mask as u32, possible)?;
        if mask & IBV_SRQ_LIMIT != 0 {
            at_most("attr->srq_limit", attr.srq_limit, self.queue.max_wr())?;
            self.queue.modify_limit(attr.srq_limit)?;
        }
        Ok(())
    }

    /// Returns the sizes of the queue, for messages.
    #[cold]
    pub fn limits(&self) -> QueueLimits {
        QueueLimits {
            max_wr: self.queue.max_wr(),
            max_sge: self.queue.max_sge(),
            max_inline: 0,
            state: None,
        }
    }

    /// `ibv_query_srq`.
    pub fn query(&self) -> Result<ibv_srq_attr, Errno> {
        self.adapter.check()?;
        let now = self.queue.query()?;
        Ok(ibv_srq_attr {
            max_wr: now.max_wr,
            max_sge: now.max_sge,
            srq_limit: now.limit,
        })
    }

    /// Destroys the SRQ and purges unread events.
    ///
    /// # Errors
    /// `EBUSY` while QPs use it; the SRQ is unchanged then.
    pub fn destroy(&self) -> Result<(), Errno> {
        self.adapter.check()?;
        self.queue.destroy()?;
        let object = Object::SharedReceiveQueue(self.queue.number());
        self.adapter.remove(object, &self.source);
        Ok(())
    }
}

/// Kinds of SRQ that `ibv_create_srq_ex` may request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Basic,
    Xrc,
}

/// Checks the extended attributes of `ibv_create_srq_ex`.
///
/// # Errors
/// `EINVAL` when an attribute is missing, `EOPNOTSUPP` for tag matching and unknown attributes.
pub fn check_extended(attr: &ibv_srq_init_attr_ex) -> Result<Kind, Errno> {
    const KNOWN: u32 = IBV_SRQ_INIT_ATTR_TYPE
        | IBV_SRQ_INIT_ATTR_PD
        | IBV_SRQ_INIT_ATTR_XRCD
        | IBV_SRQ_INIT_ATTR_CQ;
    let has = |bit: u32| attr.comp_mask & bit != 0;
    let kind = if has(IBV_SRQ_INIT_ATTR_TYPE) {
        attr.srq_type
    } else {
        IBV_SRQT_BASIC
    };
    let lacking = Errno::NOT_SUPPORTED;
    within(lacking, "attr->comp_mask", attr.comp_mask, KNOWN)?;
    if kind == IBV_SRQT_TM {
        return Err(lacking.because("tag matching is not supported"));
    }
    if !has(IBV_SRQ_INIT_ATTR_PD) {
        return Err(Errno::INVALID.because("attr->comp_mask lacks IBV_SRQ_INIT_ATTR_PD"));
    }
    match kind {
        IBV_SRQT_BASIC => Ok(Kind::Basic),
        IBV_SRQT_XRC if has(IBV_SRQ_INIT_ATTR_XRCD) && has(IBV_SRQ_INIT_ATTR_CQ) => Ok(Kind::Xrc),
        IBV_SRQT_XRC => {
            let text = "attr->comp_mask lacks IBV_SRQ_INIT_ATTR_XRCD or IBV_SRQ_INIT_ATTR_CQ";
            Err(Errno::INVALID.because(text))
        }
        _ => {
            let right = "IBV_SRQT_BASIC or IBV_SRQT_XRC";
            Err(Errno::wrong("attr->srq_type", kind, right))
        }
    }
}
