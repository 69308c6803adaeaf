//! The bus: the interface between driver and device, in a few methods.

#[expect(unsafe_code, reason = "memory of the program's allocator")]
mod buffer_pages;
#[expect(
    unsafe_code,
    reason = "a fake device's access to the memory that is mapped for it"
)]
pub mod fake;
mod program_clock;

use core::time::Duration;
use std::ops::Range;
use std::sync::Arc;

pub use buffer_pages::{BufferPages, PageOwner};
pub use program_clock::{PollFunction, PolledQueue, ProgramClock, Slept};

use crate::errno;

/// How a device translates the addresses of a region of application memory. IOVAs of a region are
/// contiguous, so each way is right for each region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegionTranslation {
    /// By pages of `1 << .0` bytes.
    Pages(u8),
    /// By an offset.
    Direct,
}

/// Accesses of the device to mapped memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DmaAccess {
    /// Reads only.
    Read,
    /// Reads and writes.
    ReadWrite,
}

/// Memory of this process that the device may reach by DMA.
///
/// `iova`, `address` and `length` are multiples of [`PAGE_SIZE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DmaMapping {
    /// First I/O virtual address, as the device names it.
    pub iova: u64,
    /// First address in this process.
    pub address: usize,
    /// Bytes, not zero.
    pub length: usize,
    /// Accesses that the device may make.
    pub access: DmaAccess,
    /// True for memory that the driver has allocated itself: the bus need not check that it exists.
    pub is_buffer: bool,
    /// The file mapped at `address`, if another process could map the memory. The bus need not
    /// check that the memory exists.
    pub file: Option<DmaFile>,
}

/// File and offset of the memory of a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DmaFile {
    /// Descriptor, as the operating system numbers it; open only until [`Bus::map`] has returned.
    pub descriptor: i32,
    /// Offset of the mapping's first byte in the file.
    pub offset: u64,
}

/// Granularity of DMA mappings, in bytes.
pub const PAGE_SIZE: usize = 4096;
/// Size of a huge page. See [`Bus::has_congruent_iovas`].
pub const HUGE_PAGE_SIZE: u64 = 2 << 20;

/// How on-demand regions get their pages from a device that raises page faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageFaulting {
    /// Bytes that are brought in together with the page of a fault, and follow it.
    pub prefetch_bytes: u64,
}

/// Called when the device sends the interrupt of a vector.
///
/// It may be called on any thread, including a thread inside [`Bus::doorbell`], [`Bus::push`],
/// [`Bus::relax`] or a register access, and again before an earlier call has returned.
pub type InterruptHandler = Arc<dyn Fn() + Send + Sync>;

/// Period of the health check ([`Bus::set_health_check`]). One check detects the loss of the
/// device, two the loss of an interrupt, and three the loss of a doorbell.
pub const HEALTH_PERIOD: Duration = Duration::from_millis(500);

/// Errors of the bus.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BusError {
    /// The mapping is empty, not aligned, wraps around or lies outside of the IOVA range.
    #[error("the DMA mapping is empty, not aligned or outside of the IOVA range")]
    InvalidMapping,
    /// The IOVA range overlaps an existing mapping.
    #[error("the IOVA range is already mapped")]
    AlreadyMapped,
    /// No mapping with exactly this IOVA and length.
    #[error("the IOVA range is not mapped")]
    NotMapped,
    /// The memory does not exist in this process, or does not allow the access.
    #[error("the memory does not exist or does not allow the access")]
    BadAddress,
    /// This process may not pin that much memory.
    #[error(
        "cannot pin {wanted} bytes for DMA on top of {pinned}: RLIMIT_MEMLOCK allows {limit}. \
         Raise it: `ulimit -l unlimited` in the shell (root may), `NAME - memlock unlimited` in \
         /etc/security/limits.conf, or LimitMEMLOCK=infinity in the systemd unit"
    )]
    MemoryLockLimit {
        /// Bytes that are already pinned.
        pinned: u64,
        /// Bytes requested in addition.
        wanted: u64,
        /// The limit, in bytes.
        limit: u64,
    },
    /// No more mappings or no more memory (VFIO: `dma_entry_limit`).
    #[error("no more memory can be mapped for DMA")]
    LimitReached,
    /// The device has no such interrupt vector.
    #[error("the device has no such interrupt vector")]
    NoSuchVector,
    /// The device is gone.
    #[error("the device is gone")]
    Disconnected,
    /// The operating system refused, with this errno.
    #[error("the operating system refused (errno {0})")]
    Os(i32),
}

impl BusError {
    /// Returns the errno that corresponds to this error.
    pub fn errno(self) -> i32 {
        match self {
            Self::InvalidMapping => errno::EINVAL,
            Self::AlreadyMapped => errno::EEXIST,
            Self::NotMapped => errno::ENOENT,
            Self::BadAddress => errno::EFAULT,
            Self::LimitReached | Self::MemoryLockLimit { .. } => errno::ENOMEM,
            Self::NoSuchVector => errno::EINVAL,
            Self::Disconnected => errno::EIO,
            Self::Os(errno) => errno,
        }
    }
}

/// The path to the device: registers, doorbells, DMA mappings and interrupts.
///
/// # Ordering
///
/// - Register writes, doorbells and pushes of one thread reach the device in program order.
/// - Everything that a thread stored to DMA memory before [`Bus::doorbell`], [`Bus::push`],
///   [`Bus::write32`] or [`Bus::write64`] is visible to the device when that write is (release).
/// - Everything that the device stored to DMA memory before a word that carries an owner bit is
///   visible to a thread that has loaded that word with acquire ordering. Everything that it stored
///   before an interrupt is visible inside the handler.
/// - A register read returns after all earlier writes of this thread have reached the device. It
///   does not order earlier DMA of the device.
///
/// # Re-entrance
///
/// Every method may be called from any thread, and from inside an interrupt handler. An
/// implementation holds none of its locks while it calls a handler. The driver calls
/// [`Bus::doorbell`] and [`Bus::push`] with the lock of one send or receive queue held, and no
/// other method with a lock that a handler takes.
pub trait Bus: Send + Sync {
    /// Reads a 32-bit register of BAR0. `offset` is a multiple of 4.
    ///
    /// An address without a register and a device that is gone read as all ones.
    fn read32(&self, offset: u32) -> u32;

    /// Writes a 32-bit register of BAR0. `offset` is a multiple of 4.
    fn write32(&self, offset: u32, value: u32);

    /// Reads a 64-bit register of BAR0. `offset` is a multiple of 8.
    fn read64(&self, offset: u32) -> u64;

    /// Writes a 64-bit register of BAR0. `offset` is a multiple of 8.
    fn write64(&self, offset: u32, value: u64);

    /// Writes doorbell slot `slot` of BAR2 (byte offset `8 * slot`).
    ///
    /// A newer value may replace an older one of the same slot before the device sees it.
    fn doorbell(&self, slot: u32, value: u64);

    /// Returns the size, in blocks of 64 bytes, of the longest push that the bus carries
    /// ([`Bus::push`]). Zero, unless the bus has mapped the push pages write-combining.
    fn push_blocks(&self) -> u32 {
        0
    }

    /// Writes `words`, whole blocks of a push window, to BAR2 from slot `slot` on (byte offset `8 *
    /// slot`), and flushes the write-combining buffers. Blocks past the end of the window wrap
    /// around to its start.
    ///
    /// Never called when [`Bus::push_blocks`] is zero.
    fn push(&self, slot: u32, words: &[u64]) {
        let _ = (slot, words);
    }

    /// Reads the device's own memory (BAR4) from byte `offset` on.
    ///
    /// Bytes beyond its end, and all bytes of a device that is gone, read as all ones.
    fn read_device_memory(&self, offset: u64, destination: &mut [u8]);

    /// Writes the device's own memory (BAR4) from byte `offset` on. Bytes beyond its end are
    /// dropped.
    fn write_device_memory(&self, offset: u64, source: &[u8]);

    /// Moves `length` bytes of the device's own memory, from `offset` on, to a file that begins
    /// with them, and returns a descriptor of it, which belongs to the caller. The bytes stay the
    /// device's: it and the mappings of the file see each other's writes. Both numbers are
    /// multiples of [`PAGE_SIZE`]. A second call for the same range returns another descriptor of
    /// the same file.
    ///
    /// # Errors
    ///
    /// [`BusError::Os`] with EOPNOTSUPP, unless the device's memory is memory of this process; any
    /// other [`BusError`].
    fn export_device_memory(&self, offset: u64, length: u64) -> Result<i32, BusError> {
        let _ = (offset, length);
        Err(BusError::Os(errno::EOPNOTSUPP))
    }

    /// Ends an export: the device continues with other, zeroed memory, and the file, which others
    /// may still have open or mapped, keeps its content. Exactly the range of one
    /// [`Bus::export_device_memory`].
    fn withdraw_device_memory(&self, offset: u64, length: u64) {
        let _ = (offset, length);
    }

    /// Allocates `length` bytes of zeroed pages for a buffer of the driver, of the kind that is
    /// fastest on this bus. `length` is a multiple of [`PAGE_SIZE`] and not zero.
    ///
    /// # Errors
    ///
    /// Any [`BusError`].
    fn allocate(&self, length: usize) -> Result<BufferPages, BusError> {
        BufferPages::from_allocator(length)
    }

    /// Returns the base-2 logarithm of the page size with which all of this application memory is
    /// backed, if it is among `page_sizes` (a sum of sizes); otherwise 12.
    fn log_page_size(&self, address: usize, length: usize, page_sizes: u64) -> u8 {
        let _ = (address, length, page_sizes);
        PAGE_SIZE.trailing_zeros() as u8
    }

    /// Returns how the device translates regions of application memory, whatever pages the kernel
    /// uses for it; `None`: by pages of [`Bus::log_page_size`].
    fn region_translation(&self) -> Option<RegionTranslation> {
        None
    }

    /// Returns true if all of this memory is persistent, and the device can make what it has
    /// written there persistent by FLUSH. Only a device with
    /// [`Capabilities::persistent_flush`](crate::Capabilities::persistent_flush) can.
    fn is_persistent(&self, address: usize, length: usize) -> bool {
        let _ = (address, length);
        false
    }

    /// Makes memory of this process visible to the device.
    ///
    /// The memory stays mapped in this process until [`Bus::unmap`] has returned. If the
    /// application unmaps and remaps it in between, the device sees the old pages (VFIO, pinned) or
    /// the new ones (in process).
    ///
    /// # Errors
    ///
    /// Any [`BusError`]; nothing has been mapped then.
    fn map(&self, mapping: &DmaMapping) -> Result<(), BusError>;

    /// Removes a mapping: exactly the `iova` and `length` of one [`Bus::map`]. When this returns,
    /// the device no longer accesses the memory.
    ///
    /// # Errors
    ///
    /// Any [`BusError`]; the device may then still access the memory.
    fn unmap(&self, iova: u64, length: usize) -> Result<(), BusError>;

    /// Returns the IOVAs at which the device can see the address space of this process: the byte at
    /// address `a` has the IOVA `start + a`. `None`: the device's accesses do not go through the
    /// page tables of this process, so that there is no on-demand paging.
    fn address_space(&self) -> Option<Range<u64>> {
        None
    }

    /// Makes the address space of this process visible to the device. Each access reaches what the
    /// process has mapped at that moment, within the process's own rights; what it has not mapped
    /// is refused. Called only when [`Bus::address_space`] is not `None`.
    ///
    /// # Errors
    ///
    /// [`BusError::AlreadyMapped`], or another [`BusError`].
    fn map_address_space(&self) -> Result<(), BusError> {
        Err(BusError::InvalidMapping)
    }

    /// Hides the address space again. When this returns, the device no longer accesses it.
    ///
    /// # Errors
    ///
    /// Any [`BusError`]; the device may then still access the memory.
    fn unmap_address_space(&self) -> Result<(), BusError> {
        Err(BusError::NotMapped)
    }

    /// Returns how on-demand regions get their pages if the device raises page faults; `None`: each
    /// access goes through the page tables of this process, and the device knows no pages.
    fn page_faults(&self) -> Option<PageFaulting> {
        None
    }

    /// Brings `length` bytes at `address` into memory: whole pages of an on-demand region. Returns
    /// false if some of them do not exist, or do not permit the access. Called only when
    /// [`Bus::page_faults`] is not `None`.
    fn bring_in(&self, _address: usize, _length: usize, _access: DmaAccess) -> bool {
        false
    }

    /// Lets the time pass that a prefetch takes, after its pages were brought in.
    fn wait_for_prefetch(&self) {}

    /// Returns the maximum number of simultaneous mappings. `None`: limited by memory alone.
    fn mapping_limit(&self) -> Option<u32> {
        None
    }

    /// Returns the I/O virtual addresses that mappings may use.
    fn iova_range(&self) -> Range<u64>;

    /// Returns true if IOVAs of large mappings are congruent to their addresses modulo a huge page,
    /// so that an IOMMU can use huge pages, too. Simulated hosts have IOVAs that depend on no
    /// address: the system chooses addresses at random, and results would depend on them.
    fn has_congruent_iovas(&self) -> bool {
        true
    }

    /// Sets or clears (`None`) the handler of an interrupt vector and unmasks or masks it.
    ///
    /// After clearing, a call that has already begun may still be running.
    ///
    /// # Errors
    ///
    /// [`BusError::NoSuchVector`], or the error of the operating system.
    fn set_interrupt_handler(
        &self,
        vector: u16,
        handler: Option<InterruptHandler>,
    ) -> Result<(), BusError>;

    /// Sets or clears (`None`) the driver's check of the device. The bus calls it once in each
    /// [`HEALTH_PERIOD`], on one of its threads that is inside no other method: unlike an interrupt
    /// handler, the check may issue commands. A bus whose time is not the machine's time never
    /// calls it.
    ///
    /// After clearing, a call that has already begun may still be running.
    fn set_health_check(&self, check: Option<InterruptHandler>) {
        let _ = check;
    }

    /// Reads PCI configuration space. `offset` is a multiple of 4.
    ///
    /// Returns `None` when the bus has no configuration space or cannot read it there.
    fn config_read(&self, offset: u32) -> Option<u32> {
        let _ = offset;
        None
    }

    /// Returns the size of BAR `bar` (0, 2 or 4) in bytes. `None`: the bus does not know it.
    fn region_size(&self, bar: u32) -> Option<u64> {
        let _ = bar;
        None
    }

    /// Returns true if the device is gone for good: a card that was pulled out, a model whose
    /// process has ended, or the parent's device in the child of a fork. When that happens, every
    /// interrupt handler is called once (but not in the child), so that threads that sleep until
    /// the device does something wake up.
    fn is_gone(&self) -> bool {
        false
    }

    /// Returns the time since some fixed moment; the driver uses it for its time-outs.
    fn now(&self) -> Duration;

    /// Runs the bus. The driver calls it whenever it waits for the device: on each empty poll of a
    /// CQ, and in each iteration of waiting for a command or a register.
    ///
    /// Hardware needs no more than a spin hint; a model in this process runs here. The caller
    /// holds no lock of a CQ.
    fn relax(&self);

    /// Reports a poll of a CQ that has found completions. The driver calls it for each such poll:
    /// it notifies a model in this process that the program is polling, without running the model.
    #[inline]
    fn note_poll(&self) {}

    /// Waits until outstanding packets have left, before the function or the process ends.
    fn linger(&self) {}

    /// Returns the program's clock, if its time is not the machine's time.
    fn program_clock(&self) -> Option<Arc<dyn ProgramClock>> {
        None
    }
}
