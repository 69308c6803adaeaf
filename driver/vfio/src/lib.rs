//! The bus to a PCI function bound to the kernel's VFIO driver: a card, or a model that QEMU
//! provides to a virtual machine.
//!
//! The function is opened through its device node and iommufd if the kernel has them, otherwise
//! with its whole IOMMU group (type 1, version 2). Registers and doorbells are mapped BARs, DMA
//! mappings are pinned memory behind the IOMMU, MSI-X vectors are eventfds, and one thread waits
//! for them.
//!
//! # One process, one function
//!
//! The kernel gives a function to one process at a time, and not to its children: [`Vfio::open`] in
//! another process fails with [`VfioOpenError::Busy`], and in a child made by fork the function
//! that its parent opened behaves like a card that was pulled out. Several processes need several
//! functions.
//!
//! # Limitations
//!
//! Pushes ([`Bus::push`]): vfio-pci maps BARs uncached, not write-combining, so that a block of 64
//! bytes would leave as eight writes; [`Bus::push_blocks`] is zero. Groups are refused in VFIO's
//! mode without an IOMMU.
#![expect(unsafe_code, reason = "ioctls of VFIO, and words of mapped BARs")]

mod card;
mod error;
mod inspect;
mod interrupts;
mod iommu;
mod iommu_info;
mod mappings;
mod memlock;
pub mod pci;
mod presence;
mod region;
#[cfg(test)]
mod tests;
mod type1_info;

use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

pub use error::{NodeOwner, VfioOpenError};
use ferroce_spec::doorbell::{DOORBELL_PAGES_SIZE, SLOT_SIZE, SLOTS};
use ferroce_spec::register::{Capability, MAGIC, VECTOR_COUNT, offset};
use vfio_bindings::bindings::vfio::{VFIO_PCI_MSIX_IRQ_INDEX, VFIO_PCI_REQ_IRQ_INDEX};

use self::card::Card;
use self::mappings::Mappings;
use self::presence::Presence;
use self::region::Region;
use crate::pci::{Bdf, Roots};
use ferroce_driver::bus::BufferPages;
use ferroce_driver::bus::{Bus, BusError, DmaMapping, InterruptHandler};
use ferroce_linux::buffer_memory::BufferMemory;
use ferroce_linux::doorbell_pages::DoorbellPages;
use ferroce_linux::eventfds::EventFds;
use ferroce_linux::fork::ForkMark;
use ferroce_linux::{clock, huge_page, idle};

/// Offset of the command register in configuration space, and its bits (PCI 3.0, 6.2.2).
const COMMAND: u64 = 4;
const MEMORY_SPACE: u16 = 1 << 1;
const BUS_MASTER: u16 = 1 << 2;
/// Value of every read from a function that does not respond.
const GONE: u32 = u32::MAX;

/// A PCI function opened by this process.
///
/// Dropping it stops its interrupts and DMA, resets it and returns it to the kernel.
pub struct Vfio {
    fork: ForkMark,
    bdf: Bdf,
    /// True if the device polls its doorbell pages: a model.
    is_polled: bool,
    // Regions and eventfds keep the card open, so they are dropped before it.
    doorbells: Option<DoorbellPages>,
    bar0: Region,
    bar2: Region,
    bar4: Region,
    config: Region,
    events: EventFds,
    /// MSI-X vectors; the eventfds after them are for the bus itself.
    vectors: u16,
    presence: Arc<Presence>,
    card: Card,
    // The last owner of the IOMMU's address space: pages stay pinned until the card is closed.
    mappings: Mappings,
}

impl std::fmt::Debug for Vfio {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Vfio")
            .field("bdf", &self.bdf)
            .field("is_polled", &self.is_polled)
            .finish_non_exhaustive()
    }
}

impl Vfio {
    /// Opens the function `bdf`, resets it and enables its memory accesses.
    ///
    /// # Errors
    ///
    /// Any [`VfioOpenError`]: its text states what is wrong and what to do.
    pub fn open(bdf: Bdf) -> Result<Self, VfioOpenError> {
        let roots = Roots::system();
        let candidate = inspect::inspect(&roots, bdf)?;
        let (card, iommu) = card::take(&roots, &candidate)?;
        let mappings = Mappings::new(iommu);
        let mappings = mappings.map_err(kernel(bdf, "describe its IOMMU"))?;
        Self::start(bdf, card, mappings)
    }

    fn start(bdf: Bdf, card: Card, mappings: Mappings) -> Result<Self, VfioOpenError> {
        let open = kernel(bdf, "open its regions");
        let config = card.config().map_err(&open)?;
        card.reset();
        // Done after the reset, which may clear it, and before BAR accesses, which fault without
        // it.
        enable(bdf, &config)?;
        let bar0 = card.bar(0).map_err(&open)?;
        let bar2 = card.bar(2).map_err(&open)?;
        let bar4 = card.bar(4).map_err(&open)?;
        let (events, vectors) = connect(bdf, &card)?;
        let presence = Presence::new(&events, vectors.into()).map_err(&open)?;
        listen_for_requests(&card, &events, vectors, &presence);
        let is_polled = polls_doorbells(&bar0);
        let doorbells = bar2
            .map_start(u64::from(DOORBELL_PAGES_SIZE))
            .map(|mapping| DoorbellPages::new(mapping, is_polled));
        tracing::debug!(
            %bdf,
            bar0 = bar0.size(), bar0_mapped = bar0.is_mapped(),
            bar2 = bar2.size(), doorbells_mapped = doorbells.is_some(),
            bar4 = bar4.size(), bar4_mapped = bar4.is_mapped(),
            vectors, is_polled,
            "the card is open"
        );
        Ok(Self {
            fork: ForkMark::of_this_process(),
            bdf,
            is_polled,
            doorbells,
            bar0,
            bar2,
            bar4,
            config,
            events,
            vectors,
            presence,
            card,
            mappings,
        })
    }

    /// Checks whether the card is gone after a register has read as all ones.
    #[cold]
    fn check_presence(&self) {
        if self.bar0.read::<u32>(offset::magic.into()) == GONE {
            self.presence.lose("its registers read as all ones");
        }
    }

    /// Returns the function's address.
    pub fn bdf(&self) -> Bdf {
        self.bdf
    }
}

impl Drop for Vfio {
    fn drop(&mut self) {
        if self.fork.is_foreign() {
            return;
        }
        let command: u16 = self.config.read(COMMAND);
        self.config.write(COMMAND, command & !BUS_MASTER);
        if self.vectors > 0 {
            if let Err(error) = self.card.device().disable_msix() {
                tracing::debug!(%error, "MSI-X was not switched off");
            }
        }
        self.card.reset();
    }
}

/// Returns a function that converts an error of the operating system to an error of opening.
fn kernel(bdf: Bdf, what: &'static str) -> impl Fn(io::Error) -> VfioOpenError {
    move |error| VfioOpenError::kernel(bdf, what, &error)
}

/// Enables memory accesses to and by the function.
fn enable(bdf: Bdf, config: &Region) -> Result<(), VfioOpenError> {
    if config.read::<u32>(0) == GONE {
        let error = io::Error::other("its configuration space reads as all ones: it is gone");
        return Err(VfioOpenError::kernel(bdf, "enable it", &error));
    }
    let command: u16 = config.read(COMMAND);
    let wanted = command | MEMORY_SPACE | BUS_MASTER;
    config.write(COMMAND, wanted);
    let found: u16 = config.read(COMMAND);
    if found & wanted != wanted {
        let error = format!("its command register reads {found:#06x} after {wanted:#06x}");
        return Err(VfioOpenError::kernel(
            bdf,
            "enable it",
            &io::Error::other(error),
        ));
    }
    Ok(())
}

/// Connects every vector of the function to an eventfd and returns the number of vectors; one
/// eventfd more follows them. A function without MSI-X gets none.
fn connect(bdf: Bdf, card: &Card) -> Result<(EventFds, u16), VfioOpenError> {
    let vectors = u16::try_from(card.vectors()).map_or(VECTOR_COUNT, |all| all.min(VECTOR_COUNT));
    let count = usize::from(vectors);
    let events = EventFds::new(count + 1).map_err(kernel(bdf, "make eventfds"))?;
    if count == 0 {
        tracing::warn!(%bdf, "the function has no MSI-X vectors: completions must be polled for");
        return Ok((events, vectors));
    }
    let device = card.device().as_raw_fd();
    let connected =
        interrupts::connect(device, VFIO_PCI_MSIX_IRQ_INDEX, events.files().take(count));
    connected.map_err(kernel(bdf, "connect its interrupts"))?;
    Ok((events, vectors))
}

/// Requests a notification when the kernel needs the card's release because it is being unbound or
/// pulled out: the kernel then waits until this process has closed the card.
fn listen_for_requests(card: &Card, events: &EventFds, vectors: u16, presence: &Arc<Presence>) {
    if !card.has_request_interrupt() {
        return;
    }
    let losing = presence.clone();
    let handler = move || losing.lose("the kernel wants it back");
    let device = card.device().as_raw_fd();
    let file = events.files().skip(vectors.into());
    let connected = events
        .set_handler(vectors, Some(Arc::new(handler)))
        .map_err(io::Error::other)
        .and_then(|()| interrupts::connect(device, VFIO_PCI_REQ_IRQ_INDEX, file));
    if let Err(error) = connected {
        tracing::debug!(%error, "the kernel cannot request the card: unbinding it waits");
    }
}

/// Returns true if the function reports that it polls its doorbell pages, and the report is
/// plausible.
fn polls_doorbells(bar0: &Region) -> bool {
    let capability = Capability::from_bits(bar0.read(offset::capability.into()));
    let is_ours = bar0.read::<u32>(offset::magic.into()) == MAGIC && capability.present();
    is_ours && capability.polled_doorbells()
}

impl Bus for Vfio {
    #[inline]
    fn read32(&self, offset: u32) -> u32 {
        if self.fork.is_foreign() {
            return GONE;
        }
        let value = self.bar0.read(offset.into());
        if value == GONE {
            self.check_presence();
        }
        value
    }

    #[inline]
    fn write32(&self, offset: u32, value: u32) {
        if !self.fork.is_foreign() {
            self.bar0.write(offset.into(), value);
        }
    }

    #[inline]
    fn read64(&self, offset: u32) -> u64 {
        if self.fork.is_foreign() {
            return u64::MAX;
        }
        let value = self.bar0.read(offset.into());
        if value == u64::MAX {
            self.check_presence();
        }
        value
    }

    #[inline]
    fn write64(&self, offset: u32, value: u64) {
        if !self.fork.is_foreign() {
            self.bar0.write(offset.into(), value);
        }
    }

    #[inline]
    fn doorbell(&self, slot: u32, value: u64) {
        if self.fork.is_foreign() {
            return;
        }
        match &self.doorbells {
            Some(pages) => {
                pages.ring(slot, value, || self.write32(offset::wake, 1));
            }
            None if slot < SLOTS => {
                let place = u64::from(slot) * u64::from(SLOT_SIZE);
                self.bar2.write(place, value);
            }
            None => {}
        }
    }

    fn read_device_memory(&self, offset: u64, destination: &mut [u8]) {
        if self.fork.is_foreign() {
            destination.fill(u8::MAX);
        } else {
            self.bar4.read_bytes(offset, destination);
        }
    }

    fn write_device_memory(&self, offset: u64, source: &[u8]) {
        if !self.fork.is_foreign() {
            self.bar4.write_bytes(offset, source);
        }
    }

    fn allocate(&self, length: usize) -> Result<BufferPages, BusError> {
        BufferMemory::Pinned.allocate(length)
    }

    fn log_page_size(&self, address: usize, length: usize, page_sizes: u64) -> u8 {
        huge_page::log_page_size(address, length, page_sizes)
    }

    fn now(&self) -> Duration {
        clock::now()
    }

    fn map(&self, mapping: &DmaMapping) -> Result<(), BusError> {
        if self.fork.is_foreign() {
            Err(BusError::Disconnected)
        } else {
            self.mappings.map(mapping)
        }
    }

    fn unmap(&self, iova: u64, length: usize) -> Result<(), BusError> {
        if self.fork.is_foreign() {
            Err(BusError::Disconnected)
        } else {
            self.mappings.unmap(iova, length)
        }
    }

    fn iova_range(&self) -> Range<u64> {
        self.mappings.range()
    }

    fn set_interrupt_handler(
        &self,
        vector: u16,
        handler: Option<InterruptHandler>,
    ) -> Result<(), BusError> {
        if vector < self.vectors {
            self.events.set_handler(vector, handler)
        } else {
            Err(BusError::NoSuchVector)
        }
    }

    fn is_gone(&self) -> bool {
        self.fork.is_foreign() || self.presence.is_gone()
    }

    fn set_health_check(&self, check: Option<InterruptHandler>) {
        self.events.set_health_check(check);
    }

    fn config_read(&self, offset: u32) -> Option<u32> {
        let is_inside = u64::from(offset) + 4 <= self.config.size();
        let is_ours = !self.fork.is_foreign();
        (offset % 4 == 0 && is_inside && is_ours).then(|| self.config.read(offset.into()))
    }

    fn region_size(&self, bar: u32) -> Option<u64> {
        match bar {
            0 => Some(self.bar0.size()),
            2 => Some(self.bar2.size()),
            4 => Some(self.bar4.size()),
            _ => None,
        }
    }

    #[inline]
    fn relax(&self) {
        // A card works while the processor spins. A model may need this processor.
        if self.is_polled {
            idle::after_empty_poll();
        } else {
            std::hint::spin_loop();
        }
    }
}
