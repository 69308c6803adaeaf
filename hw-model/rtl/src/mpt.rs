//! The memory protection table in RTL. The caller chooses the numbers of entries, like the command
//! processor of a card; otherwise it has the calls of the model's table.

use ferroce_model::dma::Dma;
use ferroce_model::ports::host::{DmaError, Host};
use ferroce_model::translation::mpt::Access;
use ferroce_model::translation::protection::ProtectionFault;
use ferroce_spec::context::MemoryEntry;
use ferroce_spec::counter::Counter;
use zerocopy::{FromBytes, IntoBytes};

use crate::line_port::{line_reader, line_writer, serve_read, serve_write};
use crate::verilated::mpt::Mpt as Verilated;
use crate::{bytes, words};

line_reader!(Verilated);
line_writer!(Verilated);

/// Maximum cycles of a request.
const CYCLES_MAX: u64 = 10_000;

/// Requests, as `OP_*` of the module.
mod op {
    pub const CHECK: u8 = 0;
    pub const ENTRY: u8 = 1;
    pub const UPDATE: u8 = 2;
    pub const STORE: u8 = 3;
    pub const REMOVE: u8 = 4;
    pub const TABLE: u8 = 5;
}

/// The memory protection table.
#[derive(Debug)]
pub struct Mpt {
    rtl: Verilated,
}

impl Default for Mpt {
    fn default() -> Self {
        Self::new()
    }
}

impl Mpt {
    /// Returns a table without entries.
    pub fn new() -> Self {
        let mut rtl = Verilated::new();
        rtl.set_rst(1);
        rtl.cycle();
        rtl.set_rst(0);
        rtl.set_read_ready(1);
        rtl.settle();
        Self { rtl }
    }

    /// Returns the module, for its clock cycles and waveforms.
    pub fn rtl(&mut self) -> &mut Verilated {
        &mut self.rtl
    }

    /// Places the table; `base` 0: there is none.
    pub fn reset<H: Host>(&mut self, base: u64, log_entries: u8, dma: &mut Dma<'_, H>) {
        self.rtl.set_s_base(base);
        self.rtl.set_s_log_entries(log_entries);
        let done = self.request(op::TABLE, 0, dma);
        done.expect("the cache is cleared without DMA");
    }

    /// Checks an access; returns the region.
    ///
    /// # Errors
    /// The fault that the module has found.
    pub fn check<H: Host>(
        &mut self,
        access: &Access,
        dma: &mut Dma<'_, H>,
    ) -> Result<MemoryEntry, ProtectionFault> {
        self.rtl.set_s_pd(access.pd);
        self.rtl.set_s_qpn(access.qpn);
        self.rtl.set_s_rights(access.rights.bits());
        self.rtl.set_s_address(access.address);
        self.rtl.set_s_length(access.length);
        let key = access.key;
        match self.request(op::CHECK, key, dma) {
            Err(ProtectionFault::Bounds { .. }) => Err(ProtectionFault::Bounds {
                address: access.address,
                length: access.length,
            }),
            Err(fault) => Err(fault),
            Ok(()) => Ok(self.line()),
        }
    }

    /// Returns the valid entry for `key`, for a change.
    ///
    /// # Errors
    /// The fault that the module has found.
    pub fn entry<H: Host>(
        &mut self,
        key: u32,
        dma: &mut Dma<'_, H>,
    ) -> Result<MemoryEntry, ProtectionFault> {
        self.request(op::ENTRY, key, dma)?;
        Ok(self.line())
    }

    /// Replaces the entry that [`Mpt::entry`] has returned last.
    pub fn update<H: Host>(&mut self, key: u32, entry: &MemoryEntry, dma: &mut Dma<'_, H>) {
        self.rtl.set_s_line(words(entry.as_bytes(), 0));
        let done = self.request(op::UPDATE, key, dma);
        done.expect("the entry is still cached");
    }

    /// Creates or replaces the entry for its key.
    ///
    /// # Errors
    /// The error of the DMA.
    pub fn store<H: Host>(
        &mut self,
        mut entry: MemoryEntry,
        dma: &mut Dma<'_, H>,
    ) -> Result<(), ProtectionFault> {
        entry.word.set_valid(true);
        self.rtl.set_s_line(words(entry.as_bytes(), 0));
        self.request(op::STORE, entry.key, dma)
    }

    /// Removes the entry for `key`.
    ///
    /// # Errors
    /// The error of the DMA.
    pub fn remove<H: Host>(
        &mut self,
        key: u32,
        dma: &mut Dma<'_, H>,
    ) -> Result<(), ProtectionFault> {
        self.request(op::REMOVE, key, dma)
    }

    fn line(&self) -> MemoryEntry {
        let line = bytes(self.rtl.m_line());
        MemoryEntry::read_from_bytes(&line).expect("an entry is a line")
    }

    /// Runs a request to its end, with its DMA.
    fn request<H: Host>(
        &mut self,
        op: u8,
        key: u32,
        dma: &mut Dma<'_, H>,
    ) -> Result<(), ProtectionFault> {
        let limit = self.rtl.cycles() + CYCLES_MAX;
        self.rtl.set_s_op(op);
        self.rtl.set_s_key(key);
        self.rtl.set_s_valid(1);
        self.rtl.settle();
        while self.rtl.s_ready() == 0 {
            self.rtl.cycle();
            assert!(self.rtl.cycles() < limit, "the module is not ready");
        }
        self.rtl.cycle();
        self.rtl.set_s_valid(0);
        let mut error = None;
        while self.rtl.m_valid() == 0 {
            error = self.step(dma).err().or(error);
            assert!(self.rtl.cycles() < limit, "the module does not end");
        }
        fault(self.rtl.m_fault(), key, error)
    }

    /// Runs one cycle, or the cycles of a DMA.
    fn step<H: Host>(&mut self, dma: &mut Dma<'_, H>) -> Result<(), DmaError> {
        let rtl = &mut self.rtl;
        dma.counters.add(Counter::mpt_hits, u64::from(rtl.hit()));
        dma.counters.add(Counter::mpt_misses, u64::from(rtl.miss()));
        if rtl.read_valid() != 0 {
            return serve_read(rtl, dma);
        }
        if rtl.write_valid() != 0 {
            return serve_write(rtl, dma);
        }
        rtl.cycle();
        Ok(())
    }
}

/// Returns the fault for a code, one of the module's `FAULT_*`. The bounds of the access are
/// unknown here.
fn fault(code: u8, key: u32, error: Option<DmaError>) -> Result<(), ProtectionFault> {
    assert_eq!(code == 6, error.is_some(), "the module has seen the error");
    match (code, error) {
        (0, _) => Ok(()),
        (1, _) => Err(ProtectionFault::InvalidKey { key }),
        (2, _) => Err(ProtectionFault::ProtectionDomain { key }),
        (3, _) => Err(ProtectionFault::QueuePair { key }),
        (4, _) => Err(ProtectionFault::Rights { key }),
        (5, _) => Err(ProtectionFault::Bounds {
            address: 0,
            length: 0,
        }),
        (6, Some(error)) => Err(ProtectionFault::Dma(error)),
        (other, _) => panic!("the module knows no fault {other}"),
    }
}
