//! Completion queues: checks of their attributes, and completions in the layout of verbs.h.

use std::sync::Arc;

use ferroce_driver::{
    CompletionOpcode, CompletionQueue, CompletionQueueConfig, CompletionStatus, QpState,
    WorkCompletion,
};

use ferroce_embed::fabric::shown_qps::QpChange;

use crate::abi::*;
use crate::adapter::{Adapter, Object};
use crate::errno::{Errno, Shown, at_most, within};
use crate::event::{EventQueue, Source, Subject};
use crate::watch;

/// A completion queue with its context and channel.
pub struct Cq {
    pub adapter: Arc<Adapter>,
    pub queue: Arc<CompletionQueue>,
    pub source: Arc<Source>,
    /// The channel that completion events go to.
    pub channel: Option<Arc<EventQueue>>,
}

impl Cq {
    /// Creates a CQ of at least `entries` entries.
    ///
    /// # Errors
    /// `EINVAL` when the number of entries or the vector is out of range.
    pub fn create(
        adapter: &Arc<Adapter>,
        events: &Arc<EventQueue>,
        channel: Option<Arc<EventQueue>>,
        entries: u32,
        vector: u32,
    ) -> Result<Self, Errno> {
        let device = adapter.device()?;
        let capabilities = device.capabilities();
        check_entries(entries, capabilities.max_cqe)?;
        let last = capabilities.completion_vectors.saturating_sub(1);
        at_most("comp_vector", vector, last)?;
        let vector = u16::try_from(vector).unwrap_or(last);
        let source = Arc::new(Source::default());
        let on_event = channel.clone().map(|channel| {
            let source = source.clone();
            let announce = move || channel.push(Subject::Completion(source.clone()));
            Arc::new(announce) as Arc<dyn Fn() + Send + Sync>
        });
        let config = CompletionQueueConfig {
            entries,
            vector,
            on_event,
            on_error: None,
        };
        let queue = CompletionQueue::create(device, config)?;
        adapter.add(Object::CompletionQueue(queue.number()), events, &source);
        watch::add_queue(adapter, &queue, channel.as_ref());
        Ok(Self {
            adapter: adapter.clone(),
            queue,
            source,
            channel,
        })
    }

    /// `ibv_resize_cq`: returns the new number of entries.
    ///
    /// # Errors
    /// `EINVAL` when the number is out of range, or the waiting completions do not fit.
    pub fn resize(&self, entries: u32) -> Result<u32, Errno> {
        let device = self.adapter.device()?;
        check_entries(entries, device.capabilities().max_cqe)?;
        self.queue.resize(entries)?;
        Ok(self.queue.entries())
    }

    /// `ibv_modify_cq`.
    ///
    /// # Errors
    /// `EINVAL` for attributes other than moderation.
    pub fn modify(&self, attr: &ibv_modify_cq_attr) -> Result<(), Errno> {
        self.adapter.check()?;
        if attr.attr_mask != IBV_CQ_ATTR_MODERATE {
            let mask = Shown::Bits(attr.attr_mask.into());
            let right = "IBV_CQ_ATTR_MODERATE";
            return Err(Errno::wrong("attr->attr_mask", mask, right));
        }
        let moderation = attr.moderate;
        let (count, period_us) = (moderation.cq_count, moderation.cq_period);
        Ok(self.queue.modify_moderation(count, period_us)?)
    }

    /// Checks the device and the queue after an empty poll.
    ///
    /// # Errors
    /// `EIO` when the device has stopped or is gone, or the queue has failed: no more completions
    /// will come.
    #[inline]
    pub fn check_device(&self) -> Result<(), Errno> {
        self.adapter.check_world()?;
        if self.queue.device().is_dead() || self.queue.has_failed() {
            Err(Errno::IO.because("the device has stopped, or the CQ has overflowed"))
        } else {
            Ok(())
        }
    }

    /// Notes that the program arms the queue.
    #[inline]
    pub fn note_armed(&self) {
        if let Some(channel) = &self.channel {
            channel.note_armed(&self.source);
        }
    }

    /// Destroys the queue and purges unread events.
    ///
    /// # Errors
    /// `EBUSY` while QPs use it; the queue is unchanged then.
    pub fn destroy(&self) -> Result<(), Errno> {
        self.adapter.check()?;
        self.queue.destroy()?;
        let object = Object::CompletionQueue(self.queue.number());
        self.adapter.remove(object, &self.source);
        if let Some(channel) = &self.channel {
            channel.purge(&self.source);
        }
        Ok(())
    }
}

fn check_entries(entries: u32, largest: u32) -> Result<(), Errno> {
    if entries == 0 {
        return Err(Errno::wrong("cqe", entries, "at least 1"));
    }
    at_most("cqe", entries, largest)
}

/// Checks the extended attributes of `ibv_create_cq_ex`. The caller checks the parent domain.
///
/// `EINVAL` for bits that no release defines, `EOPNOTSUPP` for fields that this device does not
/// report: VLAN tags, flow tags and tag matching.
pub fn check_extended(attr: &ibv_cq_init_attr_ex) -> Result<(), Errno> {
    const MASK: u32 = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
    const FLAGS: u32 = IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
    let invalid = Errno::INVALID;
    within(invalid, "cq_attr->comp_mask", attr.comp_mask, MASK)?;
    let defined = IBV_CREATE_CQ_SUP_WC_FLAGS;
    within(invalid, "cq_attr->wc_flags", attr.wc_flags, defined)?;
    let reported = IBV_WC_STANDARD_FLAGS
        | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP
        | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
    let lacking = Errno::NOT_SUPPORTED;
    within(lacking, "cq_attr->wc_flags", attr.wc_flags, reported)?;
    if attr.comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS == 0 {
        return Ok(());
    }
    within(invalid, "cq_attr->flags", attr.flags, FLAGS)?;
    // A CQ with a lock also satisfies SINGLE_THREADED. Overwriting completions is not supported.
    let possible = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
    within(lacking, "cq_attr->flags", attr.flags, possible)
}

impl Cq {
    /// Shows the QP of a failed completion as failed in `ferroce top`.
    #[cold]
    pub fn show_failed(&self, completion: &WorkCompletion) {
        if let Some(shown) = &self.adapter.shown_qps {
            shown.change(completion.qpn.0, QpState::Err, QpChange::default());
        }
    }
}

/// Returns the `wc_flags` of a completion.
#[inline]
pub fn flags(completion: &WorkCompletion) -> u32 {
    let mut flags = 0;
    if completion.immediate.is_some() {
        flags |= IBV_WC_WITH_IMM;
    }
    if completion.invalidated_key.is_some() {
        flags |= IBV_WC_WITH_INV;
    }
    if completion.with_grh {
        flags |= IBV_WC_GRH;
    }
    flags
}

/// Returns the `sl` of a datagram: on RoCE it encodes the kind of header that the packet had (IBTA
/// vol 1, A17.4.5.1), in the encoding that mlx5 uses and UCX reads: bit 3 for UDP, 1 for IPv6, 2
/// for IPv4.
#[inline]
pub fn service_level(completion: &WorkCompletion) -> u8 {
    match (completion.with_grh, completion.ipv4) {
        (false, _) => 0,
        (true, false) => 0b1001,
        (true, true) => 0b1010,
    }
}

/// Returns the immediate data in the format of verbs.h: four bytes in network order in memory; or
/// the invalidated key.
#[inline]
pub fn immediate(completion: &WorkCompletion) -> u32 {
    match (completion.immediate, completion.invalidated_key) {
        (Some(bytes), _) => u32::from_ne_bytes(bytes),
        (None, Some(key)) => key,
        (None, None) => 0,
    }
}

/// Returns a completion as `ibv_poll_cq` stores it.
#[inline]
pub fn to_wc(completion: &WorkCompletion) -> ibv_wc {
    ibv_wc {
        wr_id: completion.wr_id,
        status: status_number(completion.status),
        opcode: opcode_number(completion.opcode),
        vendor_err: completion.vendor_error,
        byte_len: completion.byte_length,
        imm_data: immediate(completion),
        qp_num: completion.qpn.0,
        src_qp: completion.source_qpn.0,
        wc_flags: flags(completion),
        pkey_index: 0,
        slid: 0,
        sl: service_level(completion),
        dlid_path_bits: 0,
    }
}

/// Returns the `enum ibv_wc_status`; the driver uses the same numbers.
#[inline]
pub fn status_number(status: CompletionStatus) -> i32 {
    i32::from(status as u8)
}

/// Returns the `enum ibv_wc_opcode`; the driver uses the same numbers.
#[inline]
pub fn opcode_number(opcode: CompletionOpcode) -> i32 {
    i32::from(opcode as u8)
}
