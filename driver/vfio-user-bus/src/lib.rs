//! A model in another process, over vfio-user.
//!
//! Registers and the device's own memory are messages to the server. Doorbells are stores to pages
//! that both processes share, where the server offers them. The driver's rings are files that the
//! server maps. The application's memory stays as it is: the server accesses it with its own
//! rights, or by messages. Interrupts are eventfds.
//!
//! Nothing leaves this process before the kernel has reported that the server runs as the same user
//! or as root. No descriptor is sent that gives access to more than the driver's rings. A server
//! that may open the memory of this process, as a debugger may, does so, and finds there the
//! [`memory::Proof`] that it is the right process; for other servers each access is a message,
//! which is checked against the mappings.
//!
//! A server that ends, or does not answer for [`REQUEST_TIMEOUT`], counts as a card that was pulled
//! out: registers read as all ones, nothing can be mapped, and every interrupt handler is called
//! once so that waiting threads check the device again.

mod connect;
mod error;
mod link;
#[expect(unsafe_code, reason = "system calls on memory of the application")]
mod memory;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

pub use error::VfioUserError;
use ferroce_spec::register::offset;
use ferroce_vfio_user::region::{BAR0, BAR2, BAR4, CONFIG};
use ferroce_vfio_user::{Client, ClientBacking, DmaRange, Errno, RequestError};

use self::link::Link;
use self::memory::Proof;
use ferroce_driver::bus::BufferPages;
use ferroce_driver::bus::{Bus, BusError, DmaAccess, DmaMapping, InterruptHandler, PAGE_SIZE};
use ferroce_linux::buffer_memory::BufferMemory;
use ferroce_linux::doorbell_pages::DoorbellPages;
use ferroce_linux::fork::ForkMark;
use ferroce_linux::{clock, huge_page, idle};

/// Time limit of a request. A server that exceeds it counts as dead.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// IOVAs that the driver may use: all 48-bit addresses except the first pages.
const IOVAS: Range<u64> = 0x1_0000..1 << 48;

/// The bus to a model behind a socket.
pub struct VfioUser {
    /// `None` only during drop.
    client: Option<Client>,
    link: Arc<Link>,
    /// Value by which the server identifies this process; kept while the server may check it.
    _proof: Option<Proof>,
    /// `None`: doorbells are sent as messages.
    doorbells: Option<DoorbellPages>,
    region_sizes: [u64; 3],
    fork: ForkMark,
}

impl VfioUser {
    /// Sends one request, or returns the error of a device that is gone.
    fn request<T>(
        &self,
        request: impl FnOnce(&Client) -> Result<T, RequestError>,
    ) -> Result<T, RequestError> {
        let Some(client) = self.client.as_ref().filter(|_| !self.is_gone()) else {
            return Err(RequestError::Disconnected);
        };
        let result = request(client);
        if matches!(result, Err(RequestError::Timeout)) {
            self.link.give_up();
        }
        result
    }

    fn read(&self, region: u32, offset: u64, data: &mut [u8]) -> bool {
        match self.request(|client| client.read(region, offset, data)) {
            Ok(()) => true,
            Err(error) => {
                tracing::debug!(region, offset, %error, "cannot be read");
                false
            }
        }
    }

    /// Writes and waits until the device has the data, because a doorbell that is a store could
    /// overtake the message.
    fn write(&self, region: u32, offset: u64, data: &[u8]) {
        if let Err(error) = self.request(|client| client.write(region, offset, data)) {
            tracing::debug!(region, offset, %error, "cannot be written");
        }
    }

    /// Writes without waiting.
    fn post(&self, region: u32, offset: u64, data: &[u8]) {
        if let Err(error) = self.request(|client| client.write_posted(region, offset, data)) {
            tracing::debug!(region, offset, %error, "cannot be written");
        }
    }

    fn wake(&self) {
        self.post(BAR0, offset::wake.into(), &1u32.to_le_bytes());
    }

    fn map_memory(&self, mapping: &DmaMapping) -> Result<(), RequestError> {
        let range = range_of(mapping);
        if let Some(file) = mapping.file {
            return self.request(|client| {
                memory::with_file(file.descriptor, |descriptor| {
                    client.dma_map(range, ClientBacking::Mmap(descriptor, file.offset))
                })
            });
        }
        let backing = ClientBacking::OwnMemory(mapping.address as u64);
        self.request(|client| client.dma_map(range, backing))
    }
}

/// The address space of this process, for on-demand regions.
impl VfioUser {
    /// Makes the address space visible at `iovas`: the byte at address `a` has the IOVA `start +
    /// a`. Unlike a [`Bus::map`], this does not check that there is memory: see
    /// [`Self::bring_in`].
    ///
    /// # Errors
    /// [`BusError::AlreadyMapped`], and errors of the server.
    pub fn map_address_space(&self, iovas: Range<u64>) -> Result<(), BusError> {
        if self.is_gone() {
            return Err(BusError::Disconnected);
        }
        let mapping = all_memory(&iovas);
        self.link.add(&mapping)?;
        self.map_memory(&mapping).map_err(|error| {
            self.link.remove(mapping.iova, mapping.length).ok();
            bus_error(error)
        })
    }

    /// Hides the address space again.
    ///
    /// # Errors
    /// As [`Bus::unmap`].
    pub fn unmap_address_space(&self, iovas: Range<u64>) -> Result<(), BusError> {
        let mapping = all_memory(&iovas);
        self.unmap(mapping.iova, mapping.length)
    }

    /// Brings memory of this process in. Returns false if some of it does not exist, or does not
    /// permit the access.
    pub fn bring_in(&self, address: usize, length: usize, access: DmaAccess) -> bool {
        memory::is_usable(&DmaMapping {
            address,
            length,
            access,
            iova: 0,
            file: None,
            is_buffer: false,
        })
    }
}

/// Returns the mapping of the address space at `iovas`.
fn all_memory(iovas: &Range<u64>) -> DmaMapping {
    DmaMapping {
        address: 0,
        length: (iovas.end - iovas.start) as usize,
        iova: iovas.start,
        access: DmaAccess::ReadWrite,
        file: None,
        is_buffer: false,
    }
}

impl Bus for VfioUser {
    fn read32(&self, offset: u32) -> u32 {
        let mut data = [0; 4];
        if self.read(BAR0, offset.into(), &mut data) {
            u32::from_le_bytes(data)
        } else {
            u32::MAX
        }
    }

    fn write32(&self, offset: u32, value: u32) {
        let data = value.to_le_bytes();
        if is_doorbell(offset) {
            self.post(BAR0, offset.into(), &data);
        } else {
            self.write(BAR0, offset.into(), &data);
        }
    }

    fn read64(&self, offset: u32) -> u64 {
        let mut data = [0; 8];
        if self.read(BAR0, offset.into(), &mut data) {
            u64::from_le_bytes(data)
        } else {
            u64::MAX
        }
    }

    fn write64(&self, offset: u32, value: u64) {
        self.write(BAR0, offset.into(), &value.to_le_bytes());
    }

    #[inline]
    fn doorbell(&self, slot: u32, value: u64) {
        match &self.doorbells {
            Some(pages) if slot < pages.slots() => pages.ring(slot, value, || self.wake()),
            _ => self.post(BAR2, u64::from(slot) * 8, &value.to_le_bytes()),
        }
    }

    fn read_device_memory(&self, offset: u64, destination: &mut [u8]) {
        let [.., size] = self.region_sizes;
        let inside = size.saturating_sub(offset).min(destination.len() as u64);
        let (inside, outside) = destination.split_at_mut(inside as usize);
        outside.fill(u8::MAX);
        if !inside.is_empty() && !self.read(BAR4, offset, inside) {
            inside.fill(u8::MAX);
        }
    }

    fn write_device_memory(&self, offset: u64, source: &[u8]) {
        let [.., size] = self.region_sizes;
        let inside = size.saturating_sub(offset).min(source.len() as u64);
        if inside > 0 {
            self.write(BAR4, offset, &source[..inside as usize]);
        }
    }

    fn allocate(&self, length: usize) -> Result<BufferPages, BusError> {
        BufferMemory::Shared.allocate(length)
    }

    fn log_page_size(&self, address: usize, length: usize, page_sizes: u64) -> u8 {
        huge_page::log_page_size(address, length, page_sizes)
    }

    fn now(&self) -> Duration {
        clock::now()
    }

    fn map(&self, mapping: &DmaMapping) -> Result<(), BusError> {
        check(mapping)?;
        if mapping.file.is_none() && !memory::is_usable(mapping) {
            return Err(BusError::BadAddress);
        }
        if self.is_gone() {
            return Err(BusError::Disconnected);
        }
        self.link.add(mapping)?;
        self.map_memory(mapping).map_err(|error| {
            self.link.remove(mapping.iova, mapping.length).ok();
            bus_error(error)
        })
    }

    fn unmap(&self, iova: u64, length: usize) -> Result<(), BusError> {
        if self.fork.is_foreign() {
            return Err(BusError::Disconnected);
        }
        let unmapped = self.request(|client| client.dma_unmap(iova, length as u64));
        match unmapped {
            Ok(()) => {}
            // A server that ends the connection no longer uses the client's memory.
            Err(RequestError::Disconnected) if self.link.has_ended() => {}
            Err(error) => return Err(bus_error(error)),
        }
        self.link.remove(iova, length)
    }

    fn mapping_limit(&self) -> Option<u32> {
        let limit = self.client.as_ref()?.server_capabilities().max_dma_maps;
        u32::try_from(limit).ok()
    }

    fn iova_range(&self) -> Range<u64> {
        IOVAS
    }

    fn set_interrupt_handler(
        &self,
        vector: u16,
        handler: Option<InterruptHandler>,
    ) -> Result<(), BusError> {
        // All vectors are connected while the bus lives.
        self.link.events().set_handler(vector, handler)
    }

    fn set_health_check(&self, check: Option<InterruptHandler>) {
        self.link.events().set_health_check(check);
    }

    fn config_read(&self, offset: u32) -> Option<u32> {
        let mut data = [0; 4];
        self.read(CONFIG, offset.into(), &mut data)
            .then(|| u32::from_le_bytes(data))
    }

    fn region_size(&self, bar: u32) -> Option<u64> {
        let index = [BAR0, BAR2, BAR4]
            .iter()
            .position(|&region| region == bar)?;
        Some(self.region_sizes[index])
    }

    fn is_gone(&self) -> bool {
        self.fork.is_foreign() || self.link.is_gone()
    }

    #[inline]
    fn relax(&self) {
        idle::after_empty_poll();
    }
}

impl Drop for VfioUser {
    fn drop(&mut self) {
        // A child made by fork has none of the client's threads, and shares the parent's socket.
        if self.fork.is_foreign() {
            std::mem::forget(self.client.take());
        }
        self.link.close();
    }
}

/// Returns true for registers that act as doorbells: memory repeats their content, or the device
/// checks it again, so a later store to a doorbell page may overtake them.
fn is_doorbell(offset: u32) -> bool {
    let event_queues = offset::event_queue_doorbell
        ..offset::event_queue_doorbell + 4 * u32::from(ferroce_spec::register::VECTOR_COUNT);
    offset == offset::command_queue_doorbell
        || offset == offset::wake
        || event_queues.contains(&offset)
}

fn range_of(mapping: &DmaMapping) -> DmaRange {
    DmaRange {
        iova: mapping.iova,
        length: mapping.length as u64,
        readable: true,
        writable: mapping.access == DmaAccess::ReadWrite,
    }
}

fn check(mapping: &DmaMapping) -> Result<(), BusError> {
    let page = PAGE_SIZE as u64;
    let length = mapping.length as u64;
    let is_aligned =
        mapping.iova % page == 0 && mapping.address as u64 % page == 0 && length % page == 0;
    let end = mapping.iova.checked_add(length);
    let is_inside = mapping.iova >= IOVAS.start && end.is_some_and(|end| end <= IOVAS.end);
    if is_aligned && is_inside && length > 0 {
        Ok(())
    } else {
        Err(BusError::InvalidMapping)
    }
}

fn bus_error(error: RequestError) -> BusError {
    match error {
        RequestError::Refused(errno) => match errno {
            Errno::EXIST => BusError::AlreadyMapped,
            Errno::INVAL => BusError::InvalidMapping,
            Errno::NOENT => BusError::NotMapped,
            Errno::FAULT => BusError::BadAddress,
            Errno::NOMEM | Errno::NOSPC | Errno::MFILE | Errno::NFILE => BusError::LimitReached,
            errno => BusError::Os(errno.raw_os_error()),
        },
        RequestError::Disconnected => BusError::Disconnected,
        error => BusError::Os(error.errno().raw_os_error()),
    }
}
