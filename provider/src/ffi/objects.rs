//! The body of each public struct, and the links from object to object.

use std::cell::UnsafeCell;
use std::ops::Deref;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use ferroce_driver::{
    AddressVector, Lease, MemoryWindow, Poller, ProtectionDomain, SendBatch, WorkCompletion,
};
use libc::c_int;

use super::handle::Handle;
use crate::abi::*;
use crate::adapter::Adapter;
use crate::builder::Builder;
use crate::errno::{Errno, QueueLimits};
use crate::event::EventQueue;

/// Body of `struct ibv_context`, which is the end of a `struct verbs_context`.
pub(super) struct Context {
    pub(super) adapter: Arc<Adapter>,
    /// The async queue.
    pub(super) events: Arc<EventQueue>,
    /// The descriptor in `cmd_fd`: programs duplicate it, so it must be open.
    pub(super) _command_fd: OwnedFd,
    /// Memory that `verbs_context.priv` points to.
    pub(super) _private: Box<[u64; PRIVATE_WORDS]>,
}

impl Drop for Context {
    /// Closes the queue. Objects that were made from the context and not destroyed stay, and still
    /// refer to it.
    fn drop(&mut self) {
        self.events.close();
    }
}

/// Words at `verbs_context.priv`, all zero: more than any release reads.
pub(super) const PRIVATE_WORDS: usize = 1024;

impl Context {
    /// Returns the context that a pointer from the program points to.
    ///
    /// # Safety
    /// `context` is null or an open context of this library.
    pub(super) unsafe fn borrow<'a>(context: *mut ibv_context) -> Result<&'a Self, Errno> {
        // SAFETY: the caller guarantees that `context` is null or an open context of this library.
        unsafe { Handle::<verbs_context, Self>::borrow(Self::outer(context)) }
    }

    /// Returns the struct that a context is the end of. Null stays null.
    pub(super) fn outer(context: *mut ibv_context) -> *mut verbs_context {
        if context.is_null() {
            return std::ptr::null_mut();
        }
        context
            .wrapping_byte_sub(std::mem::offset_of!(verbs_context, context))
            .cast()
    }
}

/// Body of `struct ibv_mw`.
pub(super) struct Mw {
    pub(super) adapter: Arc<Adapter>,
    pub(super) window: Arc<MemoryWindow>,
    /// `enum ibv_mw_type`.
    pub(super) kind: c_int,
    pub(super) _lease: Lease,
}

/// Body of `struct ibv_comp_channel`.
pub(super) struct Channel {
    pub(super) adapter: Arc<Adapter>,
    pub(super) events: Arc<EventQueue>,
}

/// Body of `struct ibv_ah`.
pub(super) struct Ah {
    /// Parsed when the handle is made, so that posting need not parse it.
    pub(super) path: AddressVector,
    /// Domain of the handle: only QPs of the same domain may send with it.
    pub(super) protection: Arc<ProtectionDomain>,
    /// Leases of the domain and of the device's handles.
    pub(super) _leases: [Lease; 2],
}

/// A value that only the thread with the lock of the object's queue accesses.
pub(super) struct Locked<T>(UnsafeCell<T>);

impl<T> Locked<T> {
    fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    /// Returns the value.
    ///
    /// # Safety
    /// The thread holds the lock and no other reference from this call is alive.
    #[expect(clippy::mut_from_ref, reason = "this is what the cell is for")]
    #[inline]
    pub(super) unsafe fn get(&self) -> &mut T {
        // SAFETY: the caller guarantees that the thread holds the lock and no other reference from
        // this call is alive.
        unsafe { &mut *self.0.get() }
    }
}

/// State between `ibv_start_poll` and `ibv_end_poll`. `poller` holds the lock of the CQ.
pub(super) struct Polling {
    pub(super) poller: Poller<'static>,
    /// The program's current completion.
    pub(super) current: WorkCompletion,
}

/// Body of `struct ibv_cq` and `struct ibv_cq_ex`.
pub(super) struct Cq {
    /// Before `inner`, which it borrows from: fields are dropped in order.
    pub(super) polling: Locked<Option<Polling>>,
    inner: crate::cq::Cq,
    /// Lease of a parent domain.
    _lease: Option<Lease>,
}

// SAFETY: the cell is accessed by the thread that holds the CQ's lock, and by the one that destroys
// the CQ, when no other thread uses it.
unsafe impl Send for Cq {}
// SAFETY: as for `Send`: the CQ's lock serialises access to the cell; the other fields are `Sync`.
unsafe impl Sync for Cq {}

impl Cq {
    pub(super) fn new(inner: crate::cq::Cq, lease: Option<Lease>) -> Self {
        Self {
            polling: Locked::new(None),
            inner,
            _lease: lease,
        }
    }

    /// Locks the CQ for as long as the object lives.
    ///
    /// # Safety
    /// The poller is dropped before the object: it is kept in `polling` or dropped by the caller.
    #[inline]
    pub(super) unsafe fn lock(&self) -> Poller<'static> {
        // SAFETY: only the lifetime changes. An `Arc` of this object owns the CQ, and this object
        // is on the heap until it is destroyed.
        unsafe { std::mem::transmute::<Poller<'_>, Poller<'static>>(self.inner.queue.lock()) }
    }
}

impl Deref for Cq {
    type Target = crate::cq::Cq;

    #[inline]
    fn deref(&self) -> &Self::Target {
        &self.inner
    }
}

/// State between `ibv_wr_start` and `ibv_wr_complete`. `batch` holds the lock of the send queue.
pub(super) struct Posting {
    pub(super) batch: SendBatch<'static>,
    pub(super) builder: Builder,
}

/// Body of `struct ibv_qp` and `struct ibv_qp_ex`.
pub(super) struct Qp {
    /// Before `inner`, which it borrows from: fields are dropped in order.
    pub(super) posting: Locked<Option<Posting>>,
    inner: crate::qp::Qp,
    /// True if the program requested `ibv_wr_*`.
    pub(super) extended: bool,
    /// Creation attributes for `ibv_query_qp`.
    pub(super) created: ibv_qp_init_attr,
}

// SAFETY: the cell is accessed by the thread that holds the send queue's lock, and by the one that
// destroys the QP, when no other thread uses it. The pointers in `created` are never dereferenced
// here, only returned to the program.
unsafe impl Send for Qp {}
// SAFETY: as for `Send`: the send queue's lock serialises access to the cell; the other fields are
// `Sync`.
unsafe impl Sync for Qp {}

impl Qp {
    pub(super) fn new(inner: crate::qp::Qp, extended: bool, created: ibv_qp_init_attr) -> Self {
        Self {
            posting: Locked::new(None),
            inner,
            extended,
            created,
        }
    }

    /// Returns sizes and state of the send queue, for messages. The queue must not be locked: the
    /// state's lock is taken before the queues' locks.
    #[cold]
    pub(super) fn send_limits(&self) -> QueueLimits {
        QueueLimits::of_sends(self.pair.capacity(), self.state())
    }

    /// Returns sizes and state of the receive queue, for messages. The queue must not be locked.
    #[cold]
    pub(super) fn receive_limits(&self) -> QueueLimits {
        QueueLimits::of_receives(self.pair.capacity(), self.state())
    }

    /// Returns the state that the program requested last; the driver accepts work requests by it.
    fn state(&self) -> c_int {
        self.pair.software_state() as c_int
    }

    /// Locks the send queue for as long as the object lives.
    ///
    /// # Safety
    /// The batch is dropped before the object: it is kept in `posting` or dropped by the caller.
    #[inline]
    pub(super) unsafe fn lock(&self) -> Result<SendBatch<'static>, Errno> {
        let queue = self.send_queue()?;
        // SAFETY: only the lifetime changes. An `Arc` of this object owns the queue, and this
        // object is on the heap until it is destroyed.
        Ok(unsafe { std::mem::transmute::<SendBatch<'_>, SendBatch<'static>>(queue.lock()) })
    }
}

impl Deref for Qp {
    type Target = crate::qp::Qp;

    #[inline]
    fn deref(&self) -> &Self::Target {
        &self.inner
    }
}
