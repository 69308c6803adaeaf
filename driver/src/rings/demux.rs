//! Maps CQEs to the queues whose work requests they complete.

use std::sync::Arc;

use ferroce_spec::cqe::Cqe;

use crate::identifier::{Qpn, Srqn};
use crate::rings::shadow::{ReceiveShadow, RetiredSend, SendShadow};
use crate::rings::tags::TagTable;

/// Source of a QP's receives.
#[derive(Clone)]
pub(crate) enum ReceiveShadows {
    /// The QP's own receive queue.
    Own(Arc<ReceiveShadow>),
    /// A shared receive queue.
    Shared(Arc<TagTable>),
}

/// The queues that complete into a CQ.
#[derive(Default)]
pub(crate) struct Demux {
    /// QPs, sorted by QPN. XRC target QPs are not among them.
    entries: Vec<QueueEntry>,
    /// Position where the last search ended.
    last: usize,
    /// XRC shared receive queues, sorted by SRQN.
    shared: Vec<(u32, Arc<TagTable>)>,
}

/// One QP, with the queues of it that complete into the CQ.
pub(crate) struct QueueEntry {
    pub(crate) qpn: u32,
    pub(crate) send: Option<Arc<SendShadow>>,
    pub(crate) receive: Option<ReceiveShadows>,
}

impl Demux {
    #[inline]
    fn find(&mut self, qpn: u32) -> Option<&QueueEntry> {
        let hit = self.entries.get(self.last).is_some_and(|e| e.qpn == qpn);
        if !hit {
            self.last = self.entries.binary_search_by_key(&qpn, |e| e.qpn).ok()?;
        }
        self.entries.get(self.last)
    }

    /// Returns all QPs, from where the last search ended.
    pub(crate) fn queues(&self) -> impl Iterator<Item = &QueueEntry> {
        let (before, from) = self.entries.split_at(self.last.min(self.entries.len()));
        from.iter().chain(before)
    }

    /// Retires the send work request that a CQE names.
    #[inline]
    pub(crate) fn retire_send(&mut self, cqe: &Cqe) -> Option<RetiredSend> {
        self.find(cqe.qpn)?.send.as_ref()?.retire(cqe.wqe_index)
    }

    /// Retires the work request of a QP's own receive queue that a CQE names.
    #[inline]
    pub(crate) fn retire_receive(&mut self, cqe: &Cqe) -> Option<u64> {
        match self.find(cqe.qpn)?.receive.as_ref()? {
            ReceiveShadows::Own(shadow) => shadow.retire(cqe.wqe_index),
            ReceiveShadows::Shared(_) => None,
        }
    }

    /// Retires the work request of a shared receive queue that a CQE names: the queue of the QP, or
    /// for XRC the queue that the peer has named.
    #[inline(never)]
    pub(crate) fn retire_shared(&mut self, cqe: &Cqe) -> Option<(u64, Option<Srqn>)> {
        let tag = cqe.wqe_index;
        if let Some(queue) = self.find(cqe.qpn) {
            if let Some(ReceiveShadows::Shared(tags)) = &queue.receive {
                return tags.retire(tag).map(|wr_id| (wr_id, None));
            }
        }
        let place = self.shared.binary_search_by_key(&cqe.source_qpn, |e| e.0);
        let (srqn, tags) = self.shared.get(place.ok()?)?;
        tags.retire(tag).map(|wr_id| (wr_id, Some(Srqn(*srqn))))
    }

    /// Returns true if a CQE belongs to a QP whose receives come from the queue with these tags.
    pub(crate) fn takes_from(&mut self, cqe: &Cqe, tags: &Arc<TagTable>) -> bool {
        let receive = self.find(cqe.qpn).and_then(|queue| queue.receive.as_ref());
        let is_same = |receive: &ReceiveShadows| match receive {
            ReceiveShadows::Shared(other) => Arc::ptr_eq(other, tags),
            ReceiveShadows::Own(_) => false,
        };
        cqe.word.shared() && receive.is_some_and(is_same)
    }

    /// Returns true if a CQE belongs to an XRC shared receive queue.
    pub(crate) fn is_of_shared(&mut self, cqe: &Cqe, srqn: Srqn) -> bool {
        cqe.word.shared() && cqe.source_qpn == srqn.0 && self.find(cqe.qpn).is_none()
    }

    /// Adds a QP, or the other side of it.
    pub(crate) fn add(
        &mut self,
        qpn: Qpn,
        send: Option<Arc<SendShadow>>,
        receive: Option<ReceiveShadows>,
    ) {
        let place = self.entries.binary_search_by_key(&qpn.0, |e| e.qpn);
        let place = place.unwrap_or_else(|place| {
            let entry = QueueEntry {
                qpn: qpn.0,
                send: None,
                receive: None,
            };
            self.entries.insert(place, entry);
            place
        });
        let entry = &mut self.entries[place];
        entry.send = send.or(entry.send.take());
        entry.receive = receive.or(entry.receive.take());
    }

    pub(crate) fn remove(&mut self, qpn: Qpn) {
        self.entries.retain(|entry| entry.qpn != qpn.0);
        self.last = 0;
    }

    /// Discards the work requests of a QP, except those in a shared receive queue.
    pub(crate) fn reset(&mut self, qpn: Qpn) {
        let Some(queue) = self.find(qpn.0) else {
            return;
        };
        if let Some(send) = &queue.send {
            send.reset();
        }
        if let Some(ReceiveShadows::Own(receive)) = &queue.receive {
            receive.reset();
        }
    }

    /// Adds an XRC shared receive queue.
    pub(crate) fn add_shared(&mut self, srqn: Srqn, tags: &Arc<TagTable>) {
        match self.shared.binary_search_by_key(&srqn.0, |e| e.0) {
            Ok(place) => self.shared[place].1 = Arc::clone(tags),
            Err(place) => self.shared.insert(place, (srqn.0, Arc::clone(tags))),
        }
    }

    pub(crate) fn remove_shared(&mut self, srqn: Srqn) {
        self.shared.retain(|(number, _)| *number != srqn.0);
    }
}
