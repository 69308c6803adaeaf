//! A served function: executes the messages of its client.

use std::cell::RefCell;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use ferroce_platform::doorbells::polled::DoorbellPages;
use ferroce_platform::served::ServedModel;
use ferroce_spec::doorbell::{BAR2_SIZE, DOORBELL_PAGES_SIZE};
use ferroce_spec::register::{BAR0_SIZE, BAR4_SIZE, VECTOR_COUNT};
use ferroce_vfio_user::{
    Device, DeviceInfo, DmaMap, DmaMessages, Errno, IrqAction, IrqInfo, ProcessMemory, RegionInfo,
    RegionMmap, irq, region,
};

use super::bar::{self, MessageDoorbells};
use super::client_memory::ClientMemory;
use super::config_space::{self, ConfigSpace, Request};
use super::interrupts::Events;
use super::process_memory;

/// State set up by one client.
#[derive(Debug)]
struct Session {
    memory: ClientMemory,
    events: Events,
    doorbells: MessageDoorbells,
}

/// A served function.
#[derive(Debug)]
pub struct ServedDevice {
    function: Arc<dyn ServedModel>,
    config: RefCell<ConfigSpace>,
    /// Doorbell pages of the current or next client: the last client may still have its own pages
    /// mapped. None: there is no memory for them, and doorbells come as messages.
    pages: RefCell<Option<Arc<DoorbellPages>>>,
    session: RefCell<Option<Session>>,
}

impl ServedDevice {
    /// Creates a function whose port has the address `mac`, without a client.
    pub fn new(function: Arc<dyn ServedModel>, mac: [u8; 6]) -> Self {
        function.set_bus_master(false);
        // The driver sets them.
        function.forget_addresses();
        let device = Self {
            function,
            config: RefCell::new(ConfigSpace::new(mac)),
            pages: RefCell::new(None),
            session: RefCell::new(None),
        };
        device.renew_pages();
        device
    }

    fn renew_pages(&self) {
        if !self.function.polls_doorbells() {
            return;
        }
        let pages = DoorbellPages::new().map(Arc::new);
        if let Err(error) = &pages {
            tracing::warn!(%error, "no memory for doorbell pages: doorbells come as messages");
        }
        *self.pages.borrow_mut() = pages.ok();
        self.function
            .set_doorbell_pages(self.pages.borrow().clone());
    }

    fn with_session<T>(
        &self,
        action: impl FnOnce(&dyn ServedModel, &mut Session) -> T,
    ) -> Result<T, Errno> {
        let mut session = self.session.borrow_mut();
        let session = session.as_mut().ok_or(Errno::NOTCONN)?;
        Ok(action(&*self.function, session))
    }

    fn write_config(&self, offset: u64, data: &[u8]) {
        let mut config = self.config.borrow_mut();
        let request = config.write(offset, data);
        if request == Request::FunctionLevelReset {
            config.reset();
            self.function.set_bus_master(false);
            self.function.reset();
        }
        self.function.set_bus_master(config.is_bus_master());
    }

    fn doorbell_pages(&self) -> Option<RegionMmap> {
        let pages = self.pages.borrow();
        Some(RegionMmap {
            file: pages.as_ref()?.file().clone(),
            offset: 0,
            areas: std::iter::once(0..u64::from(DOORBELL_PAGES_SIZE)).collect(),
        })
    }
}

impl Device for ServedDevice {
    fn info(&self) -> DeviceInfo {
        DeviceInfo {
            regions: region::COUNT,
            irqs: irq::COUNT,
            resettable: true,
            pci: true,
        }
    }

    fn region(&self, index: u32) -> Option<RegionInfo> {
        let size = match index {
            region::BAR0 => u64::from(BAR0_SIZE),
            region::BAR2 => u64::from(BAR2_SIZE),
            region::BAR4 => u64::from(BAR4_SIZE),
            region::CONFIG => config_space::SIZE as u64,
            _ => return None,
        };
        let mmap = match index {
            region::BAR2 => self.doorbell_pages(),
            _ => None,
        };
        Some(RegionInfo {
            flags: region::FLAG_READ | region::FLAG_WRITE,
            size,
            mmap,
        })
    }

    fn irqs(&self, index: u32) -> Option<IrqInfo> {
        (index == irq::MSIX).then_some(IrqInfo {
            flags: irq::FLAG_EVENTFD | irq::FLAG_MASKABLE,
            count: u32::from(VECTOR_COUNT),
        })
    }

    fn read(&self, region: u32, offset: u64, data: &mut [u8]) -> Result<(), Errno> {
        let config = self.config.borrow();
        match region {
            region::CONFIG if self.function.is_removed() => data.fill(u8::MAX),
            region::CONFIG => config.read(offset, data),
            region::BAR0 | region::BAR2 | region::BAR4 if !config.is_memory_enabled() => {
                data.fill(u8::MAX);
            }
            region::BAR0 => bar::read_registers(&*self.function, offset, data),
            region::BAR2 => bar::read_doorbells(self.pages.borrow().as_deref(), offset, data),
            region::BAR4 => self.function.read_device_memory(offset, data),
            _ => return Err(Errno::INVAL),
        }
        Ok(())
    }

    fn write(&self, region: u32, offset: u64, data: &[u8]) -> Result<(), Errno> {
        if region == region::CONFIG {
            self.write_config(offset, data);
            return Ok(());
        }
        let is_enabled = self.config.borrow().is_memory_enabled();
        match region {
            // The BARs do not respond, and a write is posted: it is lost silently.
            region::BAR0 | region::BAR2 | region::BAR4 if !is_enabled => {}
            region::BAR0 => bar::write_registers(&*self.function, offset, data),
            region::BAR2 => self.with_session(|function, session| {
                session.doorbells.write(function, offset, data);
            })?,
            region::BAR4 => self.function.write_device_memory(offset, data),
            _ => return Err(Errno::INVAL),
        }
        Ok(())
    }

    fn map(&self, map: DmaMap) -> Result<(), Errno> {
        self.with_session(|function, session| session.memory.map(function, map))?
    }

    fn unmap(&self, iova: u64, length: u64) -> Result<(), Errno> {
        self.with_session(|function, session| session.memory.unmap(function, iova, length))?
    }

    fn unmap_all(&self) {
        let _ = self.with_session(|function, session| session.memory.unmap_all(function));
    }

    fn set_irqs(&self, index: u32, action: IrqAction) -> Result<(), Errno> {
        if index != irq::MSIX {
            return Err(Errno::INVAL);
        }
        self.with_session(|function, session| session.events.set(function, action))?
    }

    /// Resets the function as the kernel does for a card: the configuration space is restored.
    fn reset(&self) -> Result<(), Errno> {
        self.function.reset();
        Ok(())
    }

    fn process_memory(
        &self,
        connection: BorrowedFd<'_>,
        memory: &ProcessMemory,
    ) -> Option<OwnedFd> {
        process_memory::open(connection, memory)
            .inspect_err(|error| tracing::info!(%error, "a client's memory is reached by messages"))
            .ok()
    }

    fn connected(&self, dma: Arc<DmaMessages>) {
        *self.session.borrow_mut() = Some(Session {
            memory: ClientMemory::new(dma),
            events: Events::default(),
            doorbells: MessageDoorbells::default(),
        });
    }

    fn disconnected(&self) {
        // Stop memory accesses before the function is reset.
        self.function.set_bus_master(false);
        if let Some(mut session) = self.session.borrow_mut().take() {
            session.memory.unmap_all(&*self.function);
            session.events.disconnect_all(&*self.function);
        }
        self.renew_pages();
        self.function.reset();
        self.function.reset_vectors();
        self.function.forget_addresses();
        self.config.borrow_mut().reset();
    }
}
