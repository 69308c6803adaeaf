//! Entry points for the fuzzer: any bytes as the peer's messages. This module is not part of the
//! public interface.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::fs::{MemfdFlags, memfd_create};

use crate::client::{Client, ClientMemory, ClientOptions};
use crate::device::{Device, DeviceInfo};
use crate::dma::{DmaMap, DmaMessages};
use crate::error::Errno;
use crate::irq::{self, IrqAction, IrqInfo};
use crate::message::{HEADER_SIZE, Header};
use crate::region::{self, RegionInfo, RegionMmap};
use crate::server::{ServerOptions, serve_connection};
use crate::stop::Stop;
use crate::{Capabilities, limit};

const REGION_SIZE: usize = 0x2000;
const VECTORS: u32 = 16;

/// A device with memory in BAR0, partly mappable. A write of its first byte makes it access memory
/// of the client.
struct Echo {
    bar0: Mutex<Vec<u8>>,
    mmap: RegionMmap,
    messages: Mutex<Option<Arc<DmaMessages>>>,
}

impl Device for Echo {
    fn info(&self) -> DeviceInfo {
        DeviceInfo {
            regions: region::COUNT,
            irqs: irq::COUNT,
            resettable: true,
            pci: true,
        }
    }

    fn region(&self, index: u32) -> Option<RegionInfo> {
        (index == region::BAR0).then(|| RegionInfo {
            flags: region::FLAG_READ | region::FLAG_WRITE,
            size: REGION_SIZE as u64,
            mmap: Some(self.mmap.clone()),
        })
    }

    fn irqs(&self, index: u32) -> Option<IrqInfo> {
        (index == irq::MSIX).then_some(IrqInfo {
            flags: irq::FLAG_EVENTFD,
            count: VECTORS,
        })
    }

    fn read(&self, _region: u32, offset: u64, data: &mut [u8]) -> Result<(), Errno> {
        let offset = offset as usize;
        data.copy_from_slice(&self.bar0.lock()[offset..offset + data.len()]);
        Ok(())
    }

    fn write(&self, _region: u32, offset: u64, data: &[u8]) -> Result<(), Errno> {
        let offset = offset as usize;
        self.bar0.lock()[offset..offset + data.len()].copy_from_slice(data);
        let messages = self.messages.lock().clone();
        if let (0, Some(messages)) = (offset, messages) {
            let mut memory = [0; 8];
            messages.read(u64::from(data[0]), &mut memory)?;
            messages.write(u64::from(data[0]), &memory)?;
        }
        Ok(())
    }

    fn map(&self, map: DmaMap) -> Result<(), Errno> {
        assert!(map.length > 0 && map.iova.checked_add(map.length - 1).is_some());
        Ok(())
    }

    fn unmap(&self, iova: u64, length: u64) -> Result<(), Errno> {
        assert!(length > 0 && iova.checked_add(length - 1).is_some());
        Ok(())
    }

    fn unmap_all(&self) {}

    fn set_irqs(&self, index: u32, action: IrqAction) -> Result<(), Errno> {
        assert_eq!(index, irq::MSIX);
        match action {
            IrqAction::Trigger(vectors) | IrqAction::Mask(vectors) | IrqAction::Unmask(vectors) => {
                assert!(vectors.iter().all(|&vector| vector < VECTORS));
            }
            IrqAction::Connect { start, events } => {
                assert!(start as usize + events.len() <= VECTORS as usize);
            }
            IrqAction::Disable => {}
        }
        Ok(())
    }

    fn reset(&self) -> Result<(), Errno> {
        Ok(())
    }

    fn connected(&self, dma: Arc<DmaMessages>) {
        *self.messages.lock() = Some(dma);
    }

    fn disconnected(&self) {
        *self.messages.lock() = None;
    }
}

/// Error text when the system has no free file descriptors.
const NO_FDS: &str = "no more file descriptors";

/// Feeds `bytes` to a server from a client that then hangs up.
pub fn server_input(bytes: &[u8]) {
    let (ours, theirs) = UnixStream::pair().expect(NO_FDS);
    let device = Echo {
        bar0: Mutex::new(vec![0; REGION_SIZE]),
        mmap: RegionMmap {
            file: Arc::new(memfd_create("fuzz", MemfdFlags::CLOEXEC).expect(NO_FDS)),
            offset: 0,
            areas: vec![0x1000..0x2000, 0..0x1000],
        },
        messages: Mutex::default(),
    };
    let options = ServerOptions {
        capabilities: Capabilities::SUPPORTED,
        ..ServerOptions::default()
    };
    let stop = Stop::new().expect(NO_FDS);
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut replies = Vec::new();
            let _ = (&theirs).read_to_end(&mut replies);
        });
        let writer = scope.spawn(|| {
            let _ = (&theirs).write_all(bytes);
            let _ = theirs.shutdown(Shutdown::Write);
        });
        serve_connection(ours, &device, options, &stop).expect("a good socket");
        join([reader, writer]);
    });
}

/// Memory of zeros.
struct Zeros;

impl ClientMemory for Zeros {
    fn read(&self, _iova: u64, data: &mut [u8]) -> Result<(), Errno> {
        data.fill(0);
        Ok(())
    }

    fn write(&self, _iova: u64, _data: &[u8]) -> Result<(), Errno> {
        Ok(())
    }
}

/// Feeds `bytes` to a client from its server. They are in chunks, each with its length (16 bits,
/// little-endian) in front; the server sends one chunk for each request that it gets, and hangs up
/// after the last.
pub fn client_input(bytes: &[u8]) {
    let (ours, theirs) = UnixStream::pair().expect(NO_FDS);
    thread::scope(|scope| {
        let server = scope.spawn(|| {
            let _ = send_chunks(&theirs, bytes);
            let _ = theirs.shutdown(Shutdown::Both);
        });
        let options = ClientOptions {
            process_memory: None,
            timeout: Duration::from_millis(4),
        };
        if let Ok(client) = Client::from_stream(ours, Arc::new(Zeros), options) {
            use_all(&client);
        }
        join([server]);
    });
}

/// Waits for the ends of threads. `scope` waits only for their closures; memory that they still
/// hold afterwards would be reported as a leak by the fuzzer.
fn join<const COUNT: usize>(threads: [ScopedJoinHandle<'_, ()>; COUNT]) {
    for thread in threads {
        thread.join().unwrap_or_else(|panic| resume_unwind(panic));
    }
}

fn send_chunks(mut stream: &UnixStream, mut bytes: &[u8]) -> std::io::Result<()> {
    while let Some((length, rest)) = bytes.split_first_chunk() {
        let length = usize::from(u16::from_le_bytes(*length)).min(rest.len());
        let (chunk, rest) = rest.split_at(length);
        bytes = rest;
        skip_message(stream)?;
        stream.write_all(chunk)?;
    }
    Ok(())
}

/// Reads one message of the client.
fn skip_message(stream: &UnixStream) -> std::io::Result<()> {
    use zerocopy::FromBytes;

    let mut header = [0; HEADER_SIZE];
    let mut stream = stream;
    stream.read_exact(&mut header)?;
    let header = Header::read_from_bytes(&header).map_err(|_| std::io::ErrorKind::InvalidData)?;
    let size = header.size.get() as usize;
    assert!((HEADER_SIZE..=limit::MESSAGE_SIZE_MAX).contains(&size));
    stream.read_exact(&mut vec![0; size - HEADER_SIZE])
}

/// Sends one of each request and ignores the results.
pub fn use_all(client: &Client) {
    let mut word = [0; 8];
    let _ = client.region_info(region::BAR0);
    let _ = client.irq_info(irq::MSIX);
    let _ = client.read(region::BAR0, 0, &mut word);
    let _ = client.write(region::BAR0, 8, &[1; 4]);
    let _ = client.dma_unmap(0, 4096);
    let _ = client.dma_unmap_all();
    let _ = client.connect_irqs(irq::MSIX, 0, &[None, None]);
    let _ = client.disable_irqs(irq::MSIX);
    let _ = client.reset();
}
