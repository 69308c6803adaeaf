//! The QP context table: all queue pairs, by index and by number.

use ferroce_spec::context::{GSI_QPN, QpContext, ServiceCode};
use ferroce_spec::counter::Counter;
use ferroce_transport::Config;
use ferroce_units::{Duration, Instant};
use ferroce_wire::Qpn;

use crate::cache::{Cache, OnChip};
use crate::config::CacheShape;
use crate::contexts::queue_pair::QueuePair;
use crate::dma::Dma;
use crate::numbering::{CreateError, FreeNumbers, Numbering};
use crate::ports::host::{DmaError, Host};

/// All queue pairs: state machines on the chip, contexts in host memory behind a cache.
///
/// The context in host memory holds what a restart of the QP's engine needs (attributes, PSNs,
/// indices); a miss of the cache reads it and costs what it costs. WQEs in flight stay on the
/// chip, as in a card with a separate table of outstanding requests.
#[derive(Debug)]
pub struct QueuePairs {
    base: u32,
    slots: Vec<Option<Box<QueuePair>>>,
    free: FreeNumbers,
    number_seed: Option<u64>,
    /// One behind the last entry that was ever used.
    used: u32,
    cache: Cache<OnChip<QpContext>>,
}

/// Entries at the start of the table that are given to no other queue pair: QP0, which is never
/// created, and QP1, the GSI (IBTA vol 1, 3.9.4).
pub const RESERVED_QPS: u32 = 2;
/// Entry of the GSI.
pub const GSI_INDEX: u32 = GSI_QPN;

const _: () = assert!(GSI_QPN == Qpn::GSI.value() && GSI_INDEX < RESERVED_QPS);

impl QueuePairs {
    /// Returns the registers for misses, and the times together for which each was in use.
    pub fn miss_registers(&self) -> (usize, Duration) {
        self.cache.miss_registers()
    }

    /// No queue pairs; the first entry of the table is QPN `base`.
    pub fn new(base: u32, shape: CacheShape) -> Self {
        let cache = Cache::new(shape, Counter::qpc_hits, Counter::qpc_misses);
        Self {
            base,
            slots: Vec::new(),
            free: FreeNumbers::default(),
            number_seed: None,
            used: 0,
            cache,
        }
    }

    /// The same, whose entries are given in the order of a seed.
    #[must_use]
    pub fn with_numbers(self, number_seed: Option<u64>) -> Self {
        Self {
            number_seed,
            ..self
        }
    }

    /// The table now lies at `base` and has `1 << log_entries` entries.
    pub fn reset(&mut self, base: u64, log_entries: u8) {
        self.cache.reset(base);
        let entries = if base == 0 { 0 } else { 1u32 << log_entries };
        self.slots.clear();
        self.slots.resize_with(entries as usize, || None);
        let order = Numbering::new(self.number_seed, log_entries);
        let all = (0..entries).map(|n| order.entry(n));
        let others = all.filter(|entry| *entry >= RESERVED_QPS);
        self.free = FreeNumbers::new(RESERVED_QPS..entries, others);
        self.used = 0;
    }

    /// Entries of the table.
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// Creates a queue pair in RESET, with the QPN that software has chosen. If it has not, the
    /// index that was free for longest is taken, so that late packets for an old queue pair find
    /// none.
    pub fn create<H: Host>(
        &mut self,
        context: QpContext,
        chosen: Option<u32>,
        config: Config,
        dma: &mut Dma<'_, H>,
    ) -> Result<Qpn, CreateError> {
        let is_gsi = context.service == ServiceCode::GSI;
        let index = match is_gsi {
            true => self.free_gsi(chosen)?,
            // A QPN below the first one has no index.
            false => self
                .free
                .take(chosen.map(|qpn| qpn.checked_sub(self.base).unwrap_or(u32::MAX)))?,
        };
        if let Err(error) = self.cache.store(index, context, dma) {
            if !is_gsi {
                self.free.put_first(index);
            }
            return Err(error.into());
        }
        let qpn = match is_gsi {
            true => Qpn::GSI,
            false => Qpn::new(self.base + index),
        };
        let qp = QueuePair::new(qpn, index, &context, config);
        self.slots[index as usize] = Some(Box::new(qp));
        self.used = self.used.max(index + 1);
        Ok(qpn)
    }

    /// Index of the GSI, unless there is one.
    fn free_gsi(&self, chosen: Option<u32>) -> Result<u32, CreateError> {
        if chosen.is_some_and(|qpn| qpn != GSI_QPN) {
            return Err(CreateError::NoNumber);
        }
        match self.slots.get(GSI_INDEX as usize) {
            Some(None) => Ok(GSI_INDEX),
            Some(Some(_)) if chosen.is_some() => Err(CreateError::Taken),
            _ => Err(CreateError::NoNumber),
        }
    }

    /// All queue pairs, and how many entries of the table have ever had one.
    pub fn all(&self) -> (impl Iterator<Item = &QueuePair>, u32) {
        let used = &self.slots[..self.used as usize];
        (used.iter().flatten().map(|qp| &**qp), self.used)
    }

    /// Index of `qpn` in the table, if it can be one of ours.
    #[inline]
    pub fn index_of(&self, qpn: Qpn) -> Option<u32> {
        let index = qpn.value().wrapping_sub(self.base);
        if index >= RESERVED_QPS && (index as usize) < self.slots.len() {
            return Some(index);
        }
        self.index_of_special(qpn)
    }

    /// The GSI has number 1 on every card, whatever its first number is.
    #[cold]
    fn index_of_special(&self, qpn: Qpn) -> Option<u32> {
        (qpn == Qpn::GSI && GSI_QPN < self.slots.len() as u32).then_some(GSI_INDEX)
    }

    /// The queue pair at `index`.
    #[inline]
    pub fn get_mut(&mut self, index: u32) -> Option<&mut QueuePair> {
        self.slots.get_mut(index as usize)?.as_deref_mut()
    }

    /// The queue pair with number `qpn`, to look at.
    #[inline]
    pub fn get(&self, qpn: Qpn) -> Option<&QueuePair> {
        let index = self.index_of(qpn)?;
        self.slots.get(index as usize)?.as_deref()
    }

    /// The queue pair with number `qpn`.
    #[inline]
    pub fn find(&mut self, qpn: Qpn) -> Option<&mut QueuePair> {
        self.get_mut(self.index_of(qpn)?)
    }

    /// Looks the context of the queue pair at `index` up, as each packet does.
    ///
    /// A packet changes PSNs and indices, so that the context is written back when it makes room.
    /// What is written then is what the last command has left; the model keeps the rest on the
    /// chip.
    #[inline]
    pub fn touch<H: Host>(&mut self, index: u32, dma: &mut Dma<'_, H>) -> Result<(), DmaError> {
        self.cache.get_mut(index, dma).map(drop)
    }

    /// Returns the time at which the context of the queue pair at `index` can be requested, if that
    /// is after `until`: the caller waits, instead of requesting those of the next queue pairs too.
    #[inline]
    pub fn blocked_until(&self, index: u32, until: Instant) -> Option<Instant> {
        self.cache.blocked_until(index, until)
    }

    /// Writes the context of the queue pair at `index` as it stands now.
    pub fn store<H: Host>(&mut self, index: u32, dma: &mut Dma<'_, H>) -> Result<(), DmaError> {
        let Some(qp) = self.slots.get(index as usize).and_then(Option::as_deref) else {
            return Ok(());
        };
        self.cache.store(index, qp.image(), dma)
    }

    /// The GID table has changed: paths of datagrams are made anew.
    pub fn forget_datagram_paths(&mut self) {
        for qp in self.slots.iter_mut().flatten() {
            qp.datagram_path = None;
        }
    }

    /// Destroys the queue pair at `index`.
    pub fn destroy(&mut self, index: u32) -> Option<Box<QueuePair>> {
        let qp = self.slots.get_mut(index as usize)?.take()?;
        self.cache.invalidate(index);
        if index >= RESERVED_QPS {
            self.free.put_last(index);
        }
        Some(qp)
    }
}
