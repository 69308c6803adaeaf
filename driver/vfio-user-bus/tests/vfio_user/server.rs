//! The honest device behind a socket.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;

use ferroce_driver::bus::{Bus, DmaAccess, DmaMapping};
use ferroce_linux::shared_mapping::SharedMapping;
use ferroce_spec::doorbell::{BAR2_SIZE, DOORBELL_PAGES_SIZE};
use ferroce_spec::register::{
    BAR0_SIZE, BAR4_SIZE, Capability, DEVICE_ID, VECTOR_COUNT, VENDOR_ID, offset,
};
use ferroce_vfio_user::region::{BAR0, BAR2, BAR4, CONFIG, COUNT, FLAG_READ, FLAG_WRITE};
use ferroce_vfio_user::{
    Device, DeviceInfo, DmaBacking, DmaMap, DmaMessages, Errno, IrqAction, IrqInfo, ProcessMemory,
    RegionInfo, RegionMmap, Server, Stop, irq,
};
use parking_lot::Mutex;
use rustix::fs::{MemfdFlags, SealFlags};
use zerocopy::IntoBytes;

use crate::support::HonestDevice;

const CONFIG_SIZE: usize = 256;
/// The command register in configuration space.
const COMMAND: usize = 4;

/// Deviation of the server from a good one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Fault {
    #[default]
    None,
    /// Does not offer the doorbell pages as memory.
    NoPages,
    /// Offers the doorbell pages in a file that could be truncated.
    UnsealedPages,
    /// Cannot access the client's memory.
    NoProcessMemory,
    /// Is another device.
    OtherDevice,
    /// Has a BAR0 of another size.
    SmallBar,
    /// Has no interrupts.
    NoVectors,
}

/// Way in which the server accesses a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backing {
    Mapped,
    FileIo,
    Messages,
}

pub struct Served {
    pub fake: Arc<HonestDevice>,
    fault: Fault,
    config: Mutex<[u8; CONFIG_SIZE]>,
    /// The doorbell pages.
    pub pages: Arc<OwnedFd>,
    pub backings: Mutex<Vec<Backing>>,
    /// Files that are mapped for the device, by IOVA.
    files: Mutex<BTreeMap<u64, SharedMapping>>,
    /// Writes to the register `wake`.
    pub woken: AtomicU32,
    /// Held by a test to make the server silent.
    pub silence: Mutex<()>,
    pub messages: Mutex<Option<Arc<DmaMessages>>>,
}

impl Served {
    pub fn new(fake: Arc<HonestDevice>, fault: Fault) -> Arc<Self> {
        let flags = MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC;
        let pages = rustix::fs::memfd_create(c"doorbells", flags).expect("a file in memory");
        rustix::fs::ftruncate(&pages, DOORBELL_PAGES_SIZE.into()).expect("room");
        if fault != Fault::UnsealedPages {
            rustix::fs::fcntl_add_seals(&pages, SealFlags::SHRINK).expect("its seal");
        }
        let mut config = [0; CONFIG_SIZE];
        config[..2].copy_from_slice(&VENDOR_ID.to_le_bytes());
        let device = if fault == Fault::OtherDevice {
            0x1234
        } else {
            DEVICE_ID
        };
        config[2..4].copy_from_slice(&device.to_le_bytes());
        Arc::new(Self {
            fake,
            fault,
            config: Mutex::new(config),
            pages: Arc::new(pages),
            backings: Mutex::default(),
            files: Mutex::default(),
            woken: AtomicU32::new(0),
            silence: Mutex::default(),
            messages: Mutex::default(),
        })
    }

    /// Returns the PCI command register.
    pub fn command(&self) -> u16 {
        let config = self.config.lock();
        u16::from_le_bytes([config[COMMAND], config[COMMAND + 1]])
    }

    /// Returns a slot of the doorbell pages.
    pub fn slot(&self, slot: u32) -> u64 {
        let file = File::from(self.pages.try_clone().expect("a descriptor"));
        let mut word = [0; 8];
        file.read_exact_at(&mut word, u64::from(slot) * 8)
            .expect("inside of the pages");
        u64::from_le_bytes(word)
    }

    pub fn set_slot(&self, slot: u32, value: u64) {
        let file = File::from(self.pages.try_clone().expect("a descriptor"));
        file.write_all_at(&value.to_le_bytes(), u64::from(slot) * 8)
            .expect("inside of the pages");
    }
}

impl Device for Served {
    fn info(&self) -> DeviceInfo {
        DeviceInfo {
            regions: COUNT,
            irqs: irq::COUNT,
            resettable: true,
            pci: true,
        }
    }

    fn region(&self, index: u32) -> Option<RegionInfo> {
        let size = match index {
            BAR0 if self.fault == Fault::SmallBar => 0x1000,
            BAR0 => BAR0_SIZE.into(),
            BAR2 => BAR2_SIZE.into(),
            BAR4 => BAR4_SIZE.into(),
            CONFIG => CONFIG_SIZE as u64,
            _ => return None,
        };
        let has_pages = index == BAR2 && self.fault != Fault::NoPages;
        Some(RegionInfo {
            flags: FLAG_READ | FLAG_WRITE,
            size,
            mmap: has_pages.then(|| RegionMmap {
                file: Arc::clone(&self.pages),
                offset: 0,
                areas: std::iter::once(0..DOORBELL_PAGES_SIZE.into()).collect(),
            }),
        })
    }

    fn irqs(&self, index: u32) -> Option<IrqInfo> {
        (index == irq::MSIX && self.fault != Fault::NoVectors).then_some(IrqInfo {
            flags: irq::FLAG_EVENTFD,
            count: VECTOR_COUNT.into(),
        })
    }

    fn read(&self, region: u32, offset: u64, data: &mut [u8]) -> Result<(), Errno> {
        let _silence = self.silence.lock();
        match region {
            BAR0 if data.len() == 8 => {
                let mut value = self.fake.read64(offset as u32);
                if offset == u64::from(offset::capability) {
                    let mut capability = Capability::from_bits(value);
                    capability.set_polled_doorbells(self.fault != Fault::NoPages);
                    value = capability.bits();
                }
                data.copy_from_slice(&value.to_le_bytes());
            }
            BAR0 if data.len() == 4 => {
                data.copy_from_slice(&self.fake.read32(offset as u32).to_le_bytes());
            }
            BAR4 => self.fake.read_device_memory(offset, data),
            CONFIG => data.copy_from_slice(&self.config.lock()[offset as usize..][..data.len()]),
            _ => return Err(Errno::INVAL),
        }
        Ok(())
    }

    fn write(&self, region: u32, offset: u64, data: &[u8]) -> Result<(), Errno> {
        let _silence = self.silence.lock();
        match (region, data) {
            (BAR0, &[a, b, c, d]) if offset == u64::from(offset::wake) => {
                assert_ne!([a, b, c, d], [0; 4]);
                self.woken.fetch_add(1, Ordering::SeqCst);
            }
            (BAR0, &[a, b, c, d]) => self
                .fake
                .write32(offset as u32, u32::from_le_bytes([a, b, c, d])),
            (BAR0, &[a, b, c, d, e, f, g, h]) => {
                let value = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
                self.fake.write64(offset as u32, value);
            }
            (BAR2, &[a, b, c, d, e, f, g, h]) => {
                let value = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
                self.fake.doorbell((offset / 8) as u32, value);
            }
            (BAR4, data) => self.fake.write_device_memory(offset, data),
            (CONFIG, data) => {
                self.config.lock()[offset as usize..][..data.len()].copy_from_slice(data);
            }
            _ => return Err(Errno::INVAL),
        }
        Ok(())
    }

    fn map(&self, map: DmaMap) -> Result<(), Errno> {
        let length = usize::try_from(map.length).map_err(|_| Errno::INVAL)?;
        let (address, backing) = match &map.backing {
            DmaBacking::Mmap { file, offset } => {
                let memory = SharedMapping::new(file.as_fd(), *offset, length);
                let memory = memory.map_err(|_| Errno::INVAL)?;
                let address = memory.address().addr().get();
                self.files.lock().insert(map.iova, memory);
                (address, Backing::Mapped)
            }
            // This is the client's process.
            DmaBacking::FileIo { offset, .. } => (*offset as usize, Backing::FileIo),
            DmaBacking::Messages => {
                self.backings.lock().push(Backing::Messages);
                return Ok(());
            }
        };
        self.backings.lock().push(backing);
        let access = if map.writable {
            DmaAccess::ReadWrite
        } else {
            DmaAccess::Read
        };
        let mapping = DmaMapping {
            iova: map.iova,
            address,
            length,
            access,
            is_buffer: false,
            file: None,
        };
        self.fake.memory.map(&mapping).map_err(|_| Errno::EXIST)
    }

    fn unmap(&self, iova: u64, length: u64) -> Result<(), Errno> {
        // Memory that is accessed by messages is not in the list.
        self.fake.memory.unmap(iova, length as usize).ok();
        self.files.lock().remove(&iova);
        Ok(())
    }

    fn unmap_all(&self) {
        for mapping in self.fake.memory.mappings() {
            self.unmap(mapping.iova, mapping.length as u64).ok();
        }
    }

    fn set_irqs(&self, index: u32, action: IrqAction) -> Result<(), Errno> {
        assert_eq!(index, irq::MSIX);
        let IrqAction::Connect { start, events } = action else {
            return Ok(());
        };
        for (vector, event) in (start as u16..).zip(events) {
            let handler = event.map(|event| {
                let event = File::from(event);
                Arc::new(move || {
                    (&event).write_all(&1u64.to_ne_bytes()).expect("an eventfd");
                }) as Arc<dyn Fn() + Send + Sync>
            });
            let result = self.fake.set_interrupt_handler(vector, handler);
            result.map_err(|_| Errno::INVAL)?;
        }
        Ok(())
    }

    fn reset(&self) -> Result<(), Errno> {
        Ok(())
    }

    fn process_memory(
        &self,
        _connection: BorrowedFd<'_>,
        memory: &ProcessMemory,
    ) -> Option<OwnedFd> {
        assert_eq!(memory.process, std::process::id());
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open("/proc/self/mem");
        let file = file.expect("our own");
        let mut token = [0; 16];
        file.read_exact_at(&mut token, memory.address)
            .expect("a mapping of the client");
        assert_eq!(token, *memory.token.as_bytes());
        (self.fault != Fault::NoProcessMemory).then(|| file.into())
    }

    fn connected(&self, dma: Arc<DmaMessages>) {
        *self.messages.lock() = Some(dma);
    }

    fn disconnected(&self) {
        self.unmap_all();
    }
}

/// A server on its own thread; ends when dropped.
pub struct Running {
    pub served: Arc<Served>,
    pub path: PathBuf,
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    pub fn new(name: &str, fake: Arc<HonestDevice>, fault: Fault) -> Self {
        let path = socket(name);
        let served = Served::new(fake, fault);
        let server = Server::bind(&path).expect("a socket");
        let stop = Arc::new(Stop::new().expect("an eventfd"));
        let (device, end) = (served.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            server.serve(&*device, &end).expect("a listening socket");
        });
        Self {
            served,
            path,
            stop,
            thread: Some(thread),
        }
    }

    /// Ends the server, as if its process had ended.
    pub fn stop(&mut self) {
        self.stop.stop();
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the server does not panic");
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.stop();
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

/// Returns the path of a socket that no other test uses.
pub fn socket(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let name = format!("{name}-{}.sock", std::process::id());
    // `sockaddr_un` has room for 107 bytes, which a long path of the checkout may exceed.
    if directory.as_os_str().len() + name.len() < 100 {
        directory.join(name)
    } else {
        std::env::temp_dir().join(name)
    }
}
