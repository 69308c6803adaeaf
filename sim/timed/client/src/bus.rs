//! The bus of a program in simulated time.
//!
//! Frequent stores go through the pages that the program shares with its world, each with its time:
//! doorbells, pushes, and the answers to events. Everything else goes to the card's socket and
//! takes no simulated time: registers, the device's memory, mappings. Before such an access, the
//! card gets all stores that it has not seen.
//!
//! Memory that the program registers is shared with its world while it is registered, where that is
//! possible ([`Registered`]).

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ferroce_driver::bus::BufferPages;
use ferroce_driver::bus::RegionTranslation;
use ferroce_driver::bus::{
    Bus, BusError, DmaAccess, DmaFile, DmaMapping, InterruptHandler, PageFaulting, ProgramClock,
};
use ferroce_host::mapping::FileIdentity;
use ferroce_platform::mapped_file::{Mapped, shared_mapping};
use ferroce_platform::shared_memory::registered::Registered;
use ferroce_spec::doorbell::{DoorbellKind, DoorbellValue};
use ferroce_spec::push::WORDS_PER_BLOCK;
use ferroce_spec::register::{
    Control, MSIX_ENTRY_SIZE, MSIX_TABLE_OFFSET, MSIX_VECTOR_MASKED, answers_events, offset,
};
use ferroce_timed_protocol::control::card_socket;
use ferroce_timed_protocol::page::{NO_REGION_PAGES, REGION_PAGES_OF_KERNEL};
use ferroce_timed_protocol::request::Wait;
use ferroce_timed_protocol::store::StoreKind;
use ferroce_units::Duration;
use ferroce_vfio_user_bus::{VfioUser, VfioUserError};
use parking_lot::Mutex;

use crate::interrupts;
use crate::library::Library;
use crate::paging;
use crate::processor::Processor;

/// Longest time that the last acknowledgements may be in flight.
const LINGER: Duration = Duration::from_us(20);

/// IOVAs of the program's address space, for on-demand regions: above the IOVAs of all mappings. A
/// program has 47 bits of addresses.
const ADDRESS_SPACE: Range<u64> = 1 << 48..(1 << 48) + (1 << 47);

/// The bus to a card of a world.
pub struct TimedBus {
    library: Library,
    processor: Arc<Processor>,
    /// `None` only while it is dropped.
    card: Option<Arc<VfioUser>>,
    /// True from the first reset on: before it, the card has nothing in flight for this program.
    is_in_use: AtomicBool,
    /// Memory shared with the world, by IOVA.
    registered: Mutex<BTreeMap<u64, Registered>>,
}

impl std::fmt::Debug for TimedBus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TimedBus")
            .field("host", &self.library.host())
            .finish_non_exhaustive()
    }
}

impl TimedBus {
    /// Connects to the card of this program's host in the world at `control`.
    ///
    /// # Errors
    /// Any [`VfioUserError`].
    pub fn open(library: Library, control: &Path) -> Result<Self, VfioUserError> {
        let socket = card_socket(control, library.host());
        let card = library.outside(|| VfioUser::open(&socket))?;
        interrupts::call_handlers_of(library);
        Ok(Self {
            library,
            processor: Arc::new(Processor::new(library)),
            card: Some(Arc::new(card)),
            is_in_use: AtomicBool::new(false),
            registered: Mutex::default(),
        })
    }

    /// Returns the connection to the card's socket.
    fn card(&self) -> &Arc<VfioUser> {
        self.card.as_ref().expect("it is there until the end")
    }

    /// Runs an action that takes no simulated time, after the card has got all stores.
    fn with_flushed_card<R>(&self, action: impl FnOnce(&VfioUser) -> R) -> R {
        self.library.flush();
        self.library.outside(|| action(self.card()))
    }

    /// Returns how much of a range is persistent memory of the host.
    fn persistent(&self, address: usize, length: usize) -> io::Result<Mapped> {
        let program = self.library.program();
        let file = FileIdentity {
            device: program.persistent_device.load(Ordering::Relaxed),
            inode: program.persistent_inode.load(Ordering::Relaxed),
        };
        if file.inode == 0 {
            return Ok(Mapped::Nothing);
        }
        shared_mapping(&(address..address.saturating_add(length)), file)
    }

    /// Maps memory of the program if it is a part of the host's persistent memory. Returns whether
    /// it is.
    fn map_persistent(&self, card: &VfioUser, mapping: &DmaMapping) -> Result<bool, BusError> {
        match self.persistent(mapping.address, mapping.length) {
            Ok(Mapped::Nothing) => Ok(false),
            Ok(Mapped::Whole(file, offset)) => {
                let descriptor = file.as_raw_fd();
                let file = Some(DmaFile { descriptor, offset });
                card.map(&DmaMapping { file, ..*mapping }).map(|()| true)
            }
            Ok(Mapped::Part) => {
                tracing::warn!(
                    "a memory region lies partly in the persistent memory of its host; right: \
                     one mapping of the file, or none of it"
                );
                Err(BusError::InvalidMapping)
            }
            Err(error) => {
                tracing::warn!(%error, "the persistent memory of the host cannot be mapped");
                Err(BusError::BadAddress)
            }
        }
    }

    /// Maps memory of the program: shared if possible, otherwise as private memory.
    fn map_program_memory(&self, card: &VfioUser, mapping: &DmaMapping) -> Result<(), BusError> {
        if let Some(registered) = Registered::share(mapping.address, mapping.length) {
            let file = Some(registered.file());
            match card.map(&DmaMapping { file, ..*mapping }) {
                Ok(()) => {
                    self.registered.lock().insert(mapping.iova, registered);
                    return Ok(());
                }
                Err(error) => tracing::debug!(%error, "the world does not map shared memory"),
            }
        }
        card.map(mapping)
    }

    fn write(&self, at: u32, value: u32) {
        let is_reset = at == offset::control && Control::from_bits(value).reset();
        if is_reset && self.is_in_use.swap(true, Ordering::Relaxed) {
            self.linger();
        }
        if answers_events(at) {
            let words = [u64::from(value)];
            return self.library.store(StoreKind::Register, at, &words);
        }
        self.with_flushed_card(|card| {
            card.write32(at, value);
            if at == offset::command_queue_doorbell {
                // The write is posted. The read after it proves that the write has arrived, and
                // then commands are complete.
                card.read32(offset::status);
            }
        });
    }
}

impl Bus for TimedBus {
    fn read32(&self, offset: u32) -> u32 {
        self.with_flushed_card(|card| card.read32(offset))
    }

    fn write32(&self, offset: u32, value: u32) {
        self.write(offset & !3, value);
    }

    fn read64(&self, offset: u32) -> u64 {
        self.with_flushed_card(|card| card.read64(offset))
    }

    fn write64(&self, offset: u32, value: u64) {
        self.with_flushed_card(|card| card.write64(offset, value));
    }

    #[inline]
    fn doorbell(&self, slot: u32, value: u64) {
        // The cost of a receive post includes its doorbell.
        let kind = DoorbellKind(DoorbellValue::from_bits(value).kind());
        if kind != DoorbellKind::RECEIVE_QUEUE && kind != DoorbellKind::SHARED_RECEIVE_QUEUE {
            self.processor.ring(0);
        }
        self.library.store(StoreKind::Doorbell, slot, &[value]);
    }

    fn push_blocks(&self) -> u32 {
        let blocks = &self.library.program().push_blocks;
        blocks.load(Ordering::Relaxed)
    }

    #[inline]
    fn push(&self, slot: u32, words: &[u64]) {
        self.processor.ring((words.len() / WORDS_PER_BLOCK) as u64);
        self.library.store(StoreKind::Push, slot, words);
    }

    fn read_device_memory(&self, offset: u64, destination: &mut [u8]) {
        self.with_flushed_card(|card| card.read_device_memory(offset, destination));
    }

    fn write_device_memory(&self, offset: u64, source: &[u8]) {
        self.with_flushed_card(|card| card.write_device_memory(offset, source));
    }

    fn allocate(&self, length: usize) -> Result<BufferPages, BusError> {
        self.card().allocate(length)
    }

    fn log_page_size(&self, address: usize, length: usize, page_sizes: u64) -> u8 {
        self.card().log_page_size(address, length, page_sizes)
    }

    fn region_translation(&self) -> Option<RegionTranslation> {
        let pages = &self.library.program().region_pages;
        match pages.load(Ordering::Relaxed) {
            REGION_PAGES_OF_KERNEL => None,
            NO_REGION_PAGES => Some(RegionTranslation::Direct),
            log => Some(RegionTranslation::Pages(log as u8)),
        }
    }

    fn is_persistent(&self, address: usize, length: usize) -> bool {
        let found = self.library.outside(|| self.persistent(address, length));
        matches!(found, Ok(Mapped::Whole(..)))
    }

    fn now(&self) -> std::time::Duration {
        self.card().now()
    }

    fn map(&self, mapping: &DmaMapping) -> Result<(), BusError> {
        let mut is_file = mapping.file.is_some();
        let result = self.with_flushed_card(|card| {
            if is_file {
                return card.map(mapping);
            }
            is_file = self.map_persistent(card, mapping)?;
            if is_file {
                return Ok(());
            }
            self.map_program_memory(card, mapping)
        });
        if result.is_ok() && mapping.access == DmaAccess::ReadWrite {
            // The program may have mapped its file elsewhere, or do so later.
            let is_file_of_program = is_file && !mapping.is_buffer;
            let (start, length) = if is_file_of_program {
                (0, usize::MAX)
            } else {
                (mapping.address, mapping.length)
            };
            self.library.note_card_memory(start, length);
        }
        result
    }

    fn unmap(&self, iova: u64, length: usize) -> Result<(), BusError> {
        self.with_flushed_card(|card| {
            card.unmap(iova, length)?;
            // The card can no longer reach the mapping.
            let registered = self.registered.lock().remove(&iova);
            drop(registered);
            Ok(())
        })
    }

    fn address_space(&self) -> Option<Range<u64>> {
        Some(ADDRESS_SPACE)
    }

    fn map_address_space(&self) -> Result<(), BusError> {
        self.with_flushed_card(|card| card.map_address_space(ADDRESS_SPACE))?;
        self.library.note_card_memory(0, usize::MAX);
        paging::start(self.library);
        Ok(())
    }

    fn unmap_address_space(&self) -> Result<(), BusError> {
        self.with_flushed_card(|card| card.unmap_address_space(ADDRESS_SPACE))
    }

    fn page_faults(&self) -> Option<PageFaulting> {
        let prefetch_bytes = &self.library.program().page_fault_prefetch_bytes;
        Some(PageFaulting {
            prefetch_bytes: prefetch_bytes.load(Ordering::Relaxed).into(),
        })
    }

    fn bring_in(&self, address: usize, length: usize, access: DmaAccess) -> bool {
        self.library
            .outside(|| self.card().bring_in(address, length, access))
    }

    /// The kernel works as long as for a page fault, while the program waits in its call.
    fn wait_for_prefetch(&self) {
        let cost_ps = &self.library.program().costs.page_fault_ps;
        let time_ps = self.library.now_ps() + cost_ps.load(Ordering::Relaxed);
        self.library.wait(&Wait::At { time_ps });
    }

    fn mapping_limit(&self) -> Option<u32> {
        self.card().mapping_limit()
    }

    fn iova_range(&self) -> Range<u64> {
        self.card().iova_range()
    }

    fn has_congruent_iovas(&self) -> bool {
        false
    }

    fn set_interrupt_handler(
        &self,
        vector: u16,
        handler: Option<InterruptHandler>,
    ) -> Result<(), BusError> {
        // The card's socket reports only its end.
        let at_the_end = handler.clone().map(|handler| {
            let card = Arc::downgrade(self.card());
            Arc::new(move || {
                if card.upgrade().is_none_or(|card| card.is_gone()) {
                    handler();
                }
            }) as InterruptHandler
        });
        self.card().set_interrupt_handler(vector, at_the_end)?;
        let is_masked = handler.is_none();
        let _old = interrupts::set_handler(vector, handler)?;
        // The kernel's VFIO driver does the same with the MSI-X table of a card.
        let entry = MSIX_TABLE_OFFSET + u32::from(vector) * MSIX_ENTRY_SIZE;
        let control = if is_masked { MSIX_VECTOR_MASKED } else { 0 };
        self.write32(entry + MSIX_ENTRY_SIZE - 4, control);
        Ok(())
    }

    fn config_read(&self, offset: u32) -> Option<u32> {
        self.with_flushed_card(|card| card.config_read(offset))
    }

    fn region_size(&self, bar: u32) -> Option<u64> {
        self.card().region_size(bar)
    }

    fn is_gone(&self) -> bool {
        self.card().is_gone() || self.library.has_ended()
    }

    /// Does nothing: the result of a poll is known before it ([`Processor::before_poll`]), and a
    /// command is complete when its doorbell has been delivered.
    #[inline]
    fn relax(&self) {
        std::hint::spin_loop();
    }

    fn linger(&self) {
        if !self.is_gone() {
            let time_ps = self.library.now_ps() + LINGER.as_ps();
            self.library.wait(&Wait::At { time_ps });
        }
    }

    fn program_clock(&self) -> Option<Arc<dyn ProgramClock>> {
        Some(self.processor.clone())
    }
}

impl Drop for TimedBus {
    fn drop(&mut self) {
        // Dropping it waits for its threads.
        self.library.outside(|| {
            drop(self.card.take());
            self.registered.get_mut().clear();
        });
    }
}
