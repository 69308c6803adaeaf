//! Clients that flood the server, and clients that are killed at any moment.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::common::{Call, Served, TIMEOUT, TestDevice, TestMemory, alone, event, fd_count};
use ferroce_test_support::temporary_directory;
use ferroce_vfio_user::{
    Client, ClientBacking, ClientOptions, DmaRange, Server, ServerOptions, Stop, irq, region,
};

#[test]
fn a_flood_of_posted_writes_is_bounded_and_complete() {
    let _alone = alone();
    let (served, stream) = Served::new(ServerOptions::default());
    let options = ClientOptions {
        timeout: TIMEOUT,
        ..ClientOptions::default()
    };
    let client = Client::from_stream(stream, TestMemory::new(0), options).expect("connect");
    for count in 0..50_000_u32 {
        client
            .write_posted(region::BAR0, 0x60, &count.to_le_bytes())
            .expect("sent sometime");
    }
    let mut word = [0; 4];
    client.read(region::BAR0, 0x60, &mut word).expect("read");
    assert_eq!(u32::from_le_bytes(word), 49_999);
    drop(client);
    drop(served);
}

/// Uses a client until its connection is cut by another thread; each request returns an answer or
/// an error.
fn use_until_cut(client: &Client, seed: u64) {
    let range = DmaRange {
        iova: (seed % 7) * 0x1000,
        length: 0x1000,
        readable: true,
        writable: true,
    };
    let event = event();
    let fds = [Some(event.as_fd())];
    let mut word = [0; 8];
    while client.is_connected() {
        let _ = client.read(region::BAR0, 0x10, &mut word);
        let _ = client.write_posted(region::BAR0, 0x18, &word);
        let _ = client.dma_map(range, ClientBacking::Messages);
        let _ = client.connect_irqs(irq::MSIX, (seed % 8) as u32, &fds);
        let _ = client.region_info(region::BAR2);
        let _ = client.dma_unmap(range.iova, range.length);
    }
}

/// Ends the threads of a test on drop, also when it fails: `scope` would otherwise wait for them
/// forever.
struct Ending<'a>(&'a AtomicBool, &'a Stop);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        self.1.stop();
    }
}

#[test]
fn clients_that_are_killed() {
    const CLIENTS: u64 = 200;
    let _alone = alone();
    let before = fd_count();
    let folder = temporary_directory("killed");
    let path = folder.join("socket");
    let server = Server::bind(&path).expect("bind");
    let device = TestDevice::default();
    let stop = Stop::new().expect("eventfd");
    let finished = AtomicBool::new(false);
    thread::scope(|scope| {
        let ending = Ending(&finished, &stop);
        scope.spawn(|| {
            server
                .serve(&device, &stop)
                .expect("no client ends the server");
        });
        // The device accesses the memory of the current client.
        scope.spawn(|| {
            let mut data = [0; 3000];
            while !finished.load(Ordering::Relaxed) {
                let messages = device.messages.lock().clone();
                match messages {
                    Some(messages) => {
                        let _ = messages.read(0x100, &mut data);
                        let _ = messages.write(0x200, &data);
                    }
                    None => thread::yield_now(),
                }
            }
        });
        for seed in 0..CLIENTS {
            let stream = UnixStream::connect(&path).expect("the server is there");
            let knife = stream.try_clone().expect("duplicate");
            let options = ClientOptions {
                timeout: TIMEOUT,
                ..ClientOptions::default()
            };
            // Cut at 0 to 2 ms, sometimes before or within the exchange of versions.
            let delay = Duration::from_micros(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 2000);
            thread::scope(|scope| {
                scope.spawn(move || {
                    thread::sleep(delay);
                    let _ = knife.shutdown(std::net::Shutdown::Both);
                });
                let memory = TestMemory::new(1 << 16);
                if let Ok(client) = Client::from_stream(stream, memory, options) {
                    thread::scope(|scope| {
                        scope.spawn(|| use_until_cut(&client, seed));
                        scope.spawn(|| use_until_cut(&client, seed + 1));
                    });
                }
            });
        }
        let client = Client::connect(&path, TestMemory::new(1 << 16)).expect("connect");
        let mut word = [0; 4];
        client
            .read(region::BAR0, 0x50, &mut word)
            .expect("the server works");
        assert_eq!(word, [0x50, 0x51, 0x52, 0x53]);
        assert!(
            device.maps.lock().is_empty(),
            "the other clients' resources are released"
        );
        drop((client, ending));
    });
    drop(server);
    let calls = device.calls();
    let connected = calls
        .iter()
        .filter(|&call| *call == Call::Connected)
        .count();
    let disconnected = calls
        .iter()
        .filter(|&call| *call == Call::Disconnected)
        .count();
    assert_eq!(connected, disconnected);
    drop((device, stop));
    assert_eq!(fd_count(), before, "file descriptors are left");
}
