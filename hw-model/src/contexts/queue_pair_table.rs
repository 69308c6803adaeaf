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

/// All queue pairs: state machines on the chip, and contexts in host memory with a cache.
///
/// The context in host memory holds what a restart of the QP's engine needs (attributes, PSNs,
/// indices); a cache miss costs the time of reading it. WQEs in flight stay on the chip, as in a
/// card with a separate table of outstanding requests.
#[derive(Debug)]
pub struct QueuePairs {
    base: u32,
    slots: Vec<Option<Box<QueuePair>>>,
    free: FreeNumbers,
    number_seed: Option<u64>,
    /// The number of entries up to the highest one that was ever used.
    used: u32,
    cache: Cache<OnChip<QpContext>>,
}

/// Entries at the start of the table that are never allocated to other queue pairs: QP0, which is
/// never created, and QP1, the GSI (IBTA vol 1, 3.9.4).
pub const RESERVED_QPS: u32 = 2;
/// Entry of the GSI.
pub const GSI_INDEX: u32 = GSI_QPN;

const _: () = assert!(GSI_QPN == Qpn::GSI.value() && GSI_INDEX < RESERVED_QPS);

impl QueuePairs {
    /// Returns the number of miss registers, and the total time for which they were in use.
    pub fn miss_registers(&self) -> (usize, Duration) {
        self.cache.miss_registers()
    }

    /// Returns a table without queue pairs whose first entry is QPN `base`.
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

    /// Sets the seed of the order in which entries are allocated.
    #[must_use]
    pub fn with_numbers(self, number_seed: Option<u64>) -> Self {
        Self {
            number_seed,
            ..self
        }
    }

    /// Sets the address of the table to `base` and its size to `1 << log_entries` entries.
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

    /// Returns the number of entries of the table.
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// Creates a queue pair in RESET with the QPN that software has chosen. If there is none, takes
    /// the index that was free for longest, so that late packets for an old queue pair find no
    /// queue pair.
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
        let qpn = if is_gsi {
            Qpn::GSI
        } else {
            Qpn::new(self.base + index)
        };
        let qp = QueuePair::new(qpn, index, &context, config);
        self.slots[index as usize] = Some(Box::new(qp));
        self.used = self.used.max(index + 1);
        Ok(qpn)
    }

    /// Returns the index of the GSI unless it exists already.
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

    /// Returns all queue pairs, and the number of entries that were ever used.
    pub fn all(&self) -> (impl Iterator<Item = &QueuePair>, u32) {
        let used = &self.slots[..self.used as usize];
        (used.iter().flatten().map(|qp| &**qp), self.used)
    }

    /// Returns the index of `qpn` in the table if it can be in the table.
    #[inline]
    pub fn index_of(&self, qpn: Qpn) -> Option<u32> {
        let index = qpn.value().wrapping_sub(self.base);
        if index >= RESERVED_QPS && (index as usize) < self.slots.len() {
            return Some(index);
        }
        self.index_of_special(qpn)
    }

    /// Returns the index of a special QP. The GSI is QPN 1 on every card, whatever its first QPN
    /// is.
    #[cold]
    fn index_of_special(&self, qpn: Qpn) -> Option<u32> {
        (qpn == Qpn::GSI && GSI_QPN < self.slots.len() as u32).then_some(GSI_INDEX)
    }

    /// Returns the queue pair at `index`.
    #[inline]
    pub fn get_mut(&mut self, index: u32) -> Option<&mut QueuePair> {
        self.slots.get_mut(index as usize)?.as_deref_mut()
    }

    /// Returns the queue pair with number `qpn`, read-only.
    #[inline]
    pub fn get(&self, qpn: Qpn) -> Option<&QueuePair> {
        let index = self.index_of(qpn)?;
        self.slots.get(index as usize)?.as_deref()
    }

    /// Returns the queue pair with number `qpn`.
    #[inline]
    pub fn find(&mut self, qpn: Qpn) -> Option<&mut QueuePair> {
        self.get_mut(self.index_of(qpn)?)
    }

    /// Looks up the context of the queue pair at `index`; every packet does this.
    ///
    /// A packet changes PSNs and indices, so the context is written back on eviction. It is written
    /// as the last command left it; the model keeps the rest on the chip.
    #[inline]
    pub fn touch<H: Host>(&mut self, index: u32, dma: &mut Dma<'_, H>) -> Result<(), DmaError> {
        self.cache.get_mut(index, dma).map(drop)
    }

    /// Returns the time at which the context of the queue pair at `index` can be requested, if that
    /// is after `until`: the caller then waits rather than request the contexts of further queue
    /// pairs.
    #[inline]
    pub fn blocked_until(&self, index: u32, until: Instant) -> Option<Instant> {
        self.cache.blocked_until(index, until)
    }

    /// Writes the current context of the queue pair at `index`.
    pub fn store<H: Host>(&mut self, index: u32, dma: &mut Dma<'_, H>) -> Result<(), DmaError> {
        let Some(qp) = self.slots.get(index as usize).and_then(Option::as_deref) else {
            return Ok(());
        };
        self.cache.store(index, qp.image(), dma)
    }

    /// Invalidates the paths of datagrams because the GID table has changed.
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
