//! Client and server of another implementation (crate `vfio_user`, of rust-vmm) against this
//! crate's.
//!
//! Its client never checks the error flag, waits forever for a body that an error reply does not
//! have, and inverts `resettable`. Its server sends no errno and serves one client.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread;

use crate::common::{
    BAR0_SIZE, BAR2_AREA, BAR2_FILE_OFFSET, Call, TIMEOUT, TestDevice, TestMemory, VECTORS, event,
    event_count, is_same_file, memfd,
};
use ferroce_test_support::{TemporaryDirectory, temporary_directory};
use ferroce_vfio_user::{
    Client, ClientBacking, DmaBacking, DmaRange, Errno, RequestError, Server, Stop, irq, region,
};
use parking_lot::Mutex;
use vfio_bindings::bindings::vfio;

/// Returns a path for a socket, in a folder that is removed with the test.
fn socket_path() -> (TemporaryDirectory, PathBuf) {
    let folder = temporary_directory("foreign");
    let path = folder.join("socket");
    (folder, path)
}

/// Runs a test that a fault could block forever.
fn in_time(test: impl FnOnce() + Send + 'static) {
    let (done, ended) = mpsc::channel();
    let thread = thread::spawn(move || {
        test();
        let _ = done.send(());
    });
    if ended.recv_timeout(TIMEOUT) == Err(mpsc::RecvTimeoutError::Timeout) {
        panic!("the two do not understand each other");
    }
    thread.join().expect("the test has passed");
}

#[test]
fn their_client_uses_our_server() {
    in_time(|| {
        let (_folder, path) = socket_path();
        let server = Server::bind(&path).expect("bind");
        let device = TestDevice::default();
        let stop = Stop::new().expect("eventfd");
        thread::scope(|scope| {
            let serving = scope.spawn(|| server.serve(&device, &stop));
            their_client(&path, &device);
            stop.stop();
            serving
                .join()
                .expect("no panic")
                .expect("a stop is no error");
        });
        assert_eq!(device.calls().last(), Some(&Call::Disconnected));
    });
}

fn their_client(path: &Path, device: &TestDevice) {
    let mut client = vfio_user::Client::new(path).expect("version and regions");
    assert!(!client.resettable(), "the flag is inverted");

    let bar0 = client.region(region::BAR0).expect("BAR0");
    assert_eq!((bar0.flags, bar0.size), (3, BAR0_SIZE));
    let bar2 = client.region(region::BAR2).expect("BAR2");
    let file = bar2.file_offset.as_ref().expect("BAR2 can be mapped");
    assert!(is_same_file(file.file(), device.bar2_file()));
    assert_eq!(file.start(), BAR2_FILE_OFFSET);
    let area = bar2.sparse_areas[0];
    assert_eq!(area.offset..area.offset + area.size, BAR2_AREA);
    assert_eq!(bar2.sparse_areas.len(), 2);

    let mut word = [0; 4];
    client
        .region_read(region::BAR0, 0x20, &mut word)
        .expect("read");
    assert_eq!(word, [0x20, 0x21, 0x22, 0x23]);
    client
        .region_write(region::BAR0, 0x20, &[5, 6, 7, 8])
        .expect("write");
    client
        .region_read(region::BAR0, 0x20, &mut word)
        .expect("read");
    assert_eq!(word, [5, 6, 7, 8]);

    let memory = memfd(0x10000);
    client
        .dma_map(0x2000, 0x100000, 0x4000, memory.as_raw_fd())
        .expect("map");
    {
        let maps = device.maps.lock();
        assert_eq!((maps[0].iova, maps[0].length), (0x100000, 0x4000));
        let DmaBacking::Mmap {
            file,
            offset: 0x2000,
        } = &maps[0].backing
        else {
            panic!("{:?}", maps[0]);
        };
        assert!(is_same_file(file, &memory));
    }
    client.dma_unmap(0x100000, 0x4000).expect("unmap");
    assert!(device.maps.lock().is_empty());

    assert_eq!(
        client.get_irq_info(irq::MSIX).expect("MSI-X").count,
        VECTORS
    );
    let events = [event(), event()];
    let fds: Vec<_> = events.iter().map(AsRawFd::as_raw_fd).collect();
    client
        .set_irqs(irq::MSIX, 0x24, 3, 2, &fds)
        .expect("connect");
    device.send(3);
    device.send(4);
    device.send(4);
    assert_eq!(events.each_ref().map(event_count), [1, 2]);
    client
        .set_irqs(irq::MSIX, 0x21, 0, 0, &[])
        .expect("disable");
    device.send(3);
    assert_eq!(event_count(&events[0]), 0);
    client.reset().expect("reset");
    assert!(device.calls().contains(&Call::Reset));
    client.shutdown().expect("shutdown");
}

/// Backend of the other server: BAR0 is memory.
#[derive(Default)]
struct Backend {
    bar0: Vec<u8>,
    seen: Arc<Mutex<Vec<String>>>,
    events: Vec<File>,
}

impl vfio_user::ServerBackend for Backend {
    fn region_read(&mut self, _region: u32, offset: u64, data: &mut [u8]) -> io::Result<()> {
        let offset = offset as usize;
        data.copy_from_slice(&self.bar0[offset..offset + data.len()]);
        Ok(())
    }

    fn region_write(&mut self, _region: u32, offset: u64, data: &[u8]) -> io::Result<()> {
        if offset == 0x80 {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let offset = offset as usize;
        self.bar0[offset..offset + data.len()].copy_from_slice(data);
        Ok(())
    }

    fn dma_map(
        &mut self,
        _flags: vfio_user::DmaMapFlags,
        offset: u64,
        address: u64,
        size: u64,
        file: Option<File>,
    ) -> io::Result<()> {
        let text = format!("map {address:#x} {size:#x} {offset:#x} {}", file.is_some());
        self.seen.lock().push(text);
        Ok(())
    }

    fn dma_unmap(
        &mut self,
        _flags: vfio_user::DmaUnmapFlags,
        address: u64,
        size: u64,
    ) -> io::Result<()> {
        self.seen
            .lock()
            .push(format!("unmap {address:#x} {size:#x}"));
        Ok(())
    }

    fn reset(&mut self) -> io::Result<()> {
        self.seen.lock().push("reset".to_owned());
        Ok(())
    }

    fn set_irqs(
        &mut self,
        index: u32,
        flags: u32,
        start: u32,
        count: u32,
        fds: Vec<File>,
    ) -> io::Result<()> {
        let text = format!("irqs {index} {flags:#x} {start}+{count} {}", fds.len());
        self.seen.lock().push(text);
        self.events.extend(fds);
        Ok(())
    }
}

fn their_server(path: &Path, file: &File) -> vfio_user::Server {
    let area = vfio::vfio_region_sparse_mmap_area {
        offset: 0x1000,
        size: 0x2000,
    };
    let bar = |index, flags| vfio_user::ServerRegion {
        region_info: vfio::vfio_region_info {
            argsz: 32,
            flags,
            index,
            cap_offset: 0,
            size: 0x4000,
            offset: 0,
        },
        sparse_areas: Vec::new(),
        mmap_fd: None,
    };
    let mut mapped = bar(1, 7);
    mapped.sparse_areas.push(vfio_user::SparseArea { area });
    mapped.mmap_fd = Some(file.as_raw_fd());
    let irqs = vec![vfio_user::IrqInfo {
        index: 0,
        flags: 1,
        count: 4,
    }];
    vfio_user::Server::new(path, true, irqs, vec![bar(0, 3), mapped]).expect("bind")
}

#[test]
fn our_client_uses_their_server() {
    in_time(|| {
        let (_folder, path) = socket_path();
        let file = File::from(memfd(0x4000));
        let server = their_server(&path, &file);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let mut backend = Backend {
            bar0: vec![0x11; 0x4000],
            seen: Arc::clone(&seen),
            events: Vec::new(),
        };
        thread::scope(|scope| {
            let serving = scope.spawn(|| server.run(&mut backend));
            our_client(&path, &file);
            serving
                .join()
                .expect("no panic")
                .expect("the client has gone");
        });
        assert_eq!(
            seen.lock().as_slice(),
            [
                "map 0x10000 0x2000 0x1000 true",
                "map 0x20000 0x1000 0x0 false",
                "unmap 0x10000 0x2000",
                // It accepts one file descriptor in a message, as stated.
                "irqs 0 0x24 0+1 1",
                "irqs 0 0x24 1+1 1",
                "irqs 0 0x21 0+0 0",
                "reset",
            ]
        );
    });
}

fn our_client(path: &Path, file: &File) {
    let client = Client::connect(path, TestMemory::new(0)).expect("connect");
    let info = client.device_info();
    assert_eq!((info.regions, info.irqs), (2, 1));
    assert!(info.resettable);
    assert_eq!(client.server_capabilities().max_msg_fds, 1);
    assert!(client.region_info(0).expect("BAR0").mmap.is_none());
    let mmap = client
        .region_info(1)
        .expect("BAR1")
        .mmap
        .expect("it can be mapped");
    assert_eq!(mmap.areas.first(), Some(&(0x1000..0x3000)));
    assert!(is_same_file(&*mmap.file, file));
    assert_eq!(client.irq_info(0).expect("irqs").count, 4);

    let mut word = [0; 4];
    client.write(0, 0x40, &[1, 2, 3, 4]).expect("write");
    client.write_posted(0, 0x42, &[9]).expect("posted write");
    client.read(0, 0x40, &mut word).expect("read");
    assert_eq!(word, [1, 2, 9, 4]);
    let refused = client.write(0, 0x80, &word);
    assert_eq!(
        refused,
        Err(RequestError::Refused(Errno::IO)),
        "it sends no errno"
    );

    let memory = memfd(0x4000);
    let range = |iova, length| DmaRange {
        iova,
        length,
        readable: true,
        writable: true,
    };
    let backing = ClientBacking::Mmap(memory.as_fd(), 0x1000);
    client
        .dma_map(range(0x10000, 0x2000), backing)
        .expect("map");
    client
        .dma_map(range(0x20000, 0x1000), ClientBacking::Messages)
        .expect("map");
    client.dma_unmap(0x10000, 0x2000).expect("unmap");
    let events = [event(), event()];
    let fds = events.each_ref().map(|event| Some(event.as_fd()));
    client.connect_irqs(0, 0, &fds).expect("connect");
    client.disable_irqs(0).expect("disable");
    client.reset().expect("reset");
}

#[test]
fn the_numbers_are_those_of_the_kernel() {
    assert_eq!(region::BAR0, vfio::VFIO_PCI_BAR0_REGION_INDEX);
    assert_eq!(region::BAR2, vfio::VFIO_PCI_BAR2_REGION_INDEX);
    assert_eq!(region::BAR4, vfio::VFIO_PCI_BAR4_REGION_INDEX);
    assert_eq!(region::ROM, vfio::VFIO_PCI_ROM_REGION_INDEX);
    assert_eq!(region::CONFIG, vfio::VFIO_PCI_CONFIG_REGION_INDEX);
    assert_eq!(region::VGA, vfio::VFIO_PCI_VGA_REGION_INDEX);
    assert_eq!(region::COUNT, vfio::VFIO_PCI_NUM_REGIONS);
    assert_eq!(region::FLAG_READ, vfio::VFIO_REGION_INFO_FLAG_READ);
    assert_eq!(region::FLAG_WRITE, vfio::VFIO_REGION_INFO_FLAG_WRITE);
    assert_eq!(region::FLAG_MMAP, vfio::VFIO_REGION_INFO_FLAG_MMAP);
    assert_eq!(region::FLAG_CAPS, vfio::VFIO_REGION_INFO_FLAG_CAPS);
    assert_eq!(irq::INTX, vfio::VFIO_PCI_INTX_IRQ_INDEX);
    assert_eq!(irq::MSI, vfio::VFIO_PCI_MSI_IRQ_INDEX);
    assert_eq!(irq::MSIX, vfio::VFIO_PCI_MSIX_IRQ_INDEX);
    assert_eq!(irq::ERROR, vfio::VFIO_PCI_ERR_IRQ_INDEX);
    assert_eq!(irq::REQUEST, vfio::VFIO_PCI_REQ_IRQ_INDEX);
    assert_eq!(irq::COUNT, vfio::VFIO_PCI_NUM_IRQS);
    assert_eq!(irq::FLAG_EVENTFD, vfio::VFIO_IRQ_INFO_EVENTFD);
    assert_eq!(irq::FLAG_MASKABLE, vfio::VFIO_IRQ_INFO_MASKABLE);
    assert_eq!(irq::FLAG_AUTOMASKED, vfio::VFIO_IRQ_INFO_AUTOMASKED);
    assert_eq!(irq::FLAG_NORESIZE, vfio::VFIO_IRQ_INFO_NORESIZE);
}
