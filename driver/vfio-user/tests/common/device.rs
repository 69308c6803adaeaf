//! A device that records its calls.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use ferroce_vfio_user::{
    Device, DeviceInfo, DmaBacking, DmaMap, DmaMessages, Errno, IrqAction, IrqInfo, RegionInfo,
    RegionMmap, irq, region,
};
use parking_lot::{Condvar, Mutex};

use super::{TIMEOUT, memfd};

pub const BAR0_SIZE: u64 = 0x10000;
pub const BAR2_SIZE: u64 = 0x8000;
pub const BAR2_AREA: std::ops::Range<u64> = 0x1000..0x3000;
pub const BAR2_FILE_OFFSET: u64 = 0x4000;
pub const VECTORS: u32 = 8;

/// A register whose reads block until the test releases them.
pub const SLOW_REGISTER: u64 = 0x8000;
/// A register that cannot be accessed.
pub const BAD_REGISTER: u64 = 0x8008;

/// Calls of the device, in order.
#[derive(Debug, PartialEq, Eq, Clone)]
pub enum Call {
    Connected,
    Disconnected,
    Map {
        iova: u64,
        length: u64,
        kind: &'static str,
    },
    Unmap {
        iova: u64,
        length: u64,
    },
    UnmapAll,
    SetIrqs(String),
    Reset,
}

/// BAR0 is memory, BAR2 can be mapped, reads of [`SLOW_REGISTER`] block until
/// [`TestDevice::release_slow_read`].
pub struct TestDevice {
    bar0: Mutex<Vec<u8>>,
    bar2: Arc<OwnedFd>,
    pub maps: Mutex<Vec<DmaMap>>,
    pub events: Mutex<Vec<Option<OwnedFd>>>,
    pub calls: Mutex<Vec<Call>>,
    pub messages: Mutex<Option<Arc<DmaMessages>>>,
    gate: Mutex<Gate>,
    gate_changed: Condvar,
}

#[derive(Default)]
struct Gate {
    waiting: bool,
    open: bool,
}

impl Default for TestDevice {
    fn default() -> Self {
        Self {
            bar0: Mutex::new((0..BAR0_SIZE).map(|byte| byte as u8).collect()),
            bar2: Arc::new(memfd(BAR2_FILE_OFFSET + BAR2_SIZE)),
            maps: Mutex::default(),
            events: Mutex::new((0..VECTORS).map(|_| None).collect()),
            calls: Mutex::default(),
            messages: Mutex::default(),
            gate: Mutex::default(),
            gate_changed: Condvar::new(),
        }
    }
}

impl TestDevice {
    fn note(&self, call: Call) {
        self.calls.lock().push(call);
    }

    pub fn calls(&self) -> Vec<Call> {
        self.calls.lock().clone()
    }

    pub fn messages(&self) -> Arc<DmaMessages> {
        self.messages.lock().clone().expect("a client is connected")
    }

    /// Waits until a read of [`SLOW_REGISTER`] is under way.
    pub fn wait_for_slow_read(&self) {
        let mut gate = self.gate.lock();
        let result = self
            .gate_changed
            .wait_while_for(&mut gate, |gate| !gate.waiting, TIMEOUT);
        assert!(!result.timed_out(), "no thread reads the slow register");
    }

    /// Releases the read of [`SLOW_REGISTER`].
    pub fn release_slow_read(&self) {
        self.gate.lock().open = true;
        self.gate_changed.notify_all();
    }

    pub fn send(&self, vector: u32) {
        if let Some(event) = &self.events.lock()[vector as usize] {
            rustix::io::write(event, &1_u64.to_ne_bytes()).expect("eventfd");
        }
    }

    pub fn bar2_file(&self) -> &OwnedFd {
        &self.bar2
    }
}

impl Device for TestDevice {
    fn info(&self) -> DeviceInfo {
        DeviceInfo {
            regions: region::COUNT,
            irqs: irq::COUNT,
            resettable: true,
            pci: true,
        }
    }

    fn region(&self, index: u32) -> Option<RegionInfo> {
        let (size, mmap) = match index {
            region::BAR0 => (BAR0_SIZE, None),
            region::BAR2 => {
                let mmap = RegionMmap {
                    file: Arc::clone(&self.bar2),
                    offset: BAR2_FILE_OFFSET,
                    areas: vec![BAR2_AREA, 0x4000..0x5000],
                };
                (BAR2_SIZE, Some(mmap))
            }
            region::CONFIG => (4096, None),
            _ => return None,
        };
        let flags = region::FLAG_READ | region::FLAG_WRITE;
        Some(RegionInfo { flags, size, mmap })
    }

    fn irqs(&self, index: u32) -> Option<IrqInfo> {
        (index == irq::MSIX).then_some(IrqInfo {
            flags: irq::FLAG_EVENTFD | irq::FLAG_NORESIZE,
            count: VECTORS,
        })
    }

    fn read(&self, region: u32, offset: u64, data: &mut [u8]) -> Result<(), Errno> {
        if region == region::BAR0 && offset == BAD_REGISTER {
            return Err(Errno::IO);
        }
        if region == region::BAR0 && offset == SLOW_REGISTER {
            let mut gate = self.gate.lock();
            gate.waiting = true;
            self.gate_changed.notify_all();
            self.gate_changed
                .wait_while_for(&mut gate, |gate| !gate.open, TIMEOUT);
        }
        if region == region::BAR0 {
            let offset = offset as usize;
            data.copy_from_slice(&self.bar0.lock()[offset..offset + data.len()]);
        } else {
            data.fill(region as u8);
        }
        Ok(())
    }

    fn write(&self, region: u32, offset: u64, data: &[u8]) -> Result<(), Errno> {
        if region == region::BAR0 && offset == BAD_REGISTER {
            return Err(Errno::PERM);
        }
        if region == region::BAR0 {
            let offset = offset as usize;
            self.bar0.lock()[offset..offset + data.len()].copy_from_slice(data);
        }
        Ok(())
    }

    fn map(&self, map: DmaMap) -> Result<(), Errno> {
        let mut maps = self.maps.lock();
        let overlaps =
            |old: &DmaMap| old.iova < map.iova + map.length && map.iova < old.iova + old.length;
        if maps.iter().any(overlaps) {
            return Err(Errno::EXIST);
        }
        self.note(Call::Map {
            iova: map.iova,
            length: map.length,
            kind: match map.backing {
                DmaBacking::Mmap { .. } => "mmap",
                DmaBacking::FileIo { .. } => "file",
                DmaBacking::Messages => "messages",
            },
        });
        maps.push(map);
        Ok(())
    }

    fn unmap(&self, iova: u64, length: u64) -> Result<(), Errno> {
        self.note(Call::Unmap { iova, length });
        let inside = |map: &DmaMap| iova <= map.iova && map.iova + map.length <= iova + length;
        self.maps.lock().retain(|map| !inside(map));
        Ok(())
    }

    fn unmap_all(&self) {
        self.note(Call::UnmapAll);
        self.maps.lock().clear();
    }

    fn set_irqs(&self, index: u32, action: IrqAction) -> Result<(), Errno> {
        let shape = match &action {
            IrqAction::Connect { start, events } => {
                let fds = events.iter().flatten().count();
                format!("{index}: connect {start}+{} with {fds}", events.len())
            }
            action => format!("{index}: {action:?}"),
        };
        self.note(Call::SetIrqs(shape));
        match action {
            IrqAction::Disable => self.events.lock().fill_with(|| None),
            IrqAction::Trigger(vectors) => vectors.into_iter().for_each(|vector| self.send(vector)),
            IrqAction::Connect { start, events } => {
                let mut connected = self.events.lock();
                for (vector, event) in (start as usize..).zip(events) {
                    connected[vector] = event;
                }
            }
            IrqAction::Mask(_) | IrqAction::Unmask(_) => return Err(Errno::NOTSUP),
        }
        Ok(())
    }

    fn reset(&self) -> Result<(), Errno> {
        self.note(Call::Reset);
        Ok(())
    }

    fn connected(&self, dma: Arc<DmaMessages>) {
        *self.messages.lock() = Some(dma);
        self.note(Call::Connected);
    }

    fn disconnected(&self) {
        *self.messages.lock() = None;
        self.maps.lock().clear();
        self.events.lock().fill_with(|| None);
        self.note(Call::Disconnected);
    }
}
