//! This crate's client against its server, over a socket pair and over a path.

use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::common::{
    self, BAD_REGISTER, BAR0_SIZE, BAR2_AREA, BAR2_FILE_OFFSET, BAR2_SIZE, Call, SLOW_REGISTER,
    TestDevice, TestMemory, VECTORS, event, event_count, is_same_file, memfd, pair, pair_with,
};
use ferroce_test_support::temporary_directory;
use ferroce_vfio_user::{
    Capabilities, Client, ClientBacking, ClientOptions, ConnectError, DmaBacking, DmaRange, Errno,
    RequestError, Server, ServerOptions, Stop, irq, region,
};

fn range(iova: u64, length: u64) -> DmaRange {
    DmaRange {
        iova,
        length,
        readable: true,
        writable: true,
    }
}

fn refused(errno: Errno) -> Result<(), RequestError> {
    Err(RequestError::Refused(errno))
}

#[test]
fn the_client_learns_what_the_device_is() {
    let (served, client, _) = pair();
    let info = client.device_info();
    assert_eq!((info.regions, info.irqs), (9, 5));
    assert!(info.resettable && info.pci);
    assert_eq!(client.server_capabilities().max_msg_fds, 8);

    let bar0 = client.region_info(region::BAR0).expect("BAR0");
    assert_eq!((bar0.flags, bar0.size), (3, BAR0_SIZE));
    assert!(bar0.mmap.is_none());
    let bar2 = client.region_info(region::BAR2).expect("BAR2");
    assert_eq!(bar2.size, BAR2_SIZE);
    let mmap = bar2.mmap.expect("it can be mapped");
    assert_eq!(mmap.offset, BAR2_FILE_OFFSET);
    assert_eq!(mmap.areas, [BAR2_AREA, 0x4000..0x5000]);
    assert!(is_same_file(&*mmap.file, served.device.bar2_file()));
    assert_eq!(client.region_info(region::ROM).expect("absent").size, 0);
    let outside = client.region_info(9).err();
    assert_eq!(outside, Some(RequestError::Refused(Errno::INVAL)));

    assert_eq!(client.irq_info(irq::MSIX).expect("MSI-X").count, VECTORS);
    assert_eq!(client.irq_info(irq::INTX).expect("absent").count, 0);
    assert!(client.irq_info(5).is_err());
}

#[test]
fn regions_are_read_and_written() {
    let (_served, client, _) = pair();
    let mut word = [0; 4];
    client.read(region::BAR0, 0x10, &mut word).expect("read");
    assert_eq!(word, [0x10, 0x11, 0x12, 0x13]);
    client
        .write(region::BAR0, 0x10, &[1, 2, 3, 4])
        .expect("write");
    client.write_posted(region::BAR0, 0x12, &[9]).expect("post");
    client.read(region::BAR0, 0x10, &mut word).expect("read");
    assert_eq!(word, [1, 2, 9, 4], "the posted write came before the read");

    let bad = client.read(region::BAR0, BAD_REGISTER, &mut word);
    assert_eq!(bad, refused(Errno::IO), "the device's own errno");
    let bad = client.write(region::BAR0, BAD_REGISTER, &word);
    assert_eq!(bad, refused(Errno::PERM));
    client
        .write_posted(region::BAR0, BAD_REGISTER, &word)
        .expect("no thread waits for it");
    for (region, offset) in [
        (region::BAR0, BAR0_SIZE - 3),
        (region::ROM, 0),
        (9, 0),
        (0, u64::MAX),
    ] {
        let outside = client.read(region, offset, &mut word);
        assert_eq!(
            outside,
            refused(Errno::INVAL),
            "region {region} at {offset:#x}"
        );
    }
    client
        .read(region::CONFIG, 0, &mut word)
        .expect("still there");
    assert_eq!(word, [7; 4]);
}

#[test]
fn what_is_longer_than_the_server_takes_becomes_several_accesses() {
    let options = ServerOptions {
        capabilities: Capabilities {
            max_data_xfer_size: 100,
            ..Capabilities::SUPPORTED
        },
        ..ServerOptions::default()
    };
    let (_served, client, _) = pair_with(options);
    assert_eq!(client.server_capabilities().max_data_xfer_size, 100);
    let written: Vec<u8> = (0..1000_u32).map(|byte| (byte * 7) as u8).collect();
    client.write(region::BAR0, 0x100, &written).expect("write");
    let mut read = vec![0; 1000];
    client.read(region::BAR0, 0x100, &mut read).expect("read");
    assert_eq!(read, written);
}

#[test]
fn memory_is_mapped_in_each_way() {
    let (served, client, _) = pair();
    let file = memfd(0x10000);
    let zero = std::fs::File::open("/dev/zero").expect("it exists");
    client
        .dma_map(
            range(0x10000, 0x3000),
            ClientBacking::Mmap(file.as_fd(), 0x1000),
        )
        .expect("map");
    client
        .dma_map(
            range(0x20000, 0x1000),
            ClientBacking::FileIo(zero.as_fd(), 0x7777),
        )
        .expect("map");
    client
        .dma_map(range(0x30000, 0x1000), ClientBacking::Messages)
        .expect("map");
    let overlap = client.dma_map(range(0x12000, 0x1000), ClientBacking::Messages);
    assert_eq!(overlap, refused(Errno::EXIST));
    let odd = client.dma_map(range(0x40000, 0x800), ClientBacking::Messages);
    assert!(matches!(odd, Err(RequestError::Invalid(_))), "{odd:?}");
    {
        let maps = served.device.maps.lock();
        assert!(maps.iter().all(|map| map.readable && map.writable));
        let DmaBacking::Mmap {
            file: ref mapped,
            offset: 0x1000,
        } = maps[0].backing
        else {
            panic!("{:?}", maps[0]);
        };
        assert!(is_same_file(mapped, &file));
        let DmaBacking::FileIo {
            file: ref mapped,
            offset: 0x7777,
        } = maps[1].backing
        else {
            panic!("{:?}", maps[1]);
        };
        assert!(is_same_file(mapped, &zero));
        assert!(matches!(maps[2].backing, DmaBacking::Messages));
    }
    client
        .dma_unmap(0x10000, 0x11000)
        .expect("two mappings at once");
    assert_eq!(served.device.maps.lock().len(), 1);
    client.dma_unmap_all().expect("unmap");
    assert!(served.device.maps.lock().is_empty());
    assert_eq!(client.dma_unmap(0, 0), refused(Errno::INVAL));
    let calls = served.device.calls();
    assert_eq!(calls.last(), Some(&Call::UnmapAll));
}

#[test]
fn interrupts_are_connected_one_message_per_limit() {
    let options = ServerOptions {
        capabilities: Capabilities {
            max_msg_fds: 3,
            ..Capabilities::SUPPORTED
        },
        ..ServerOptions::default()
    };
    let (served, client, _) = pair_with(options);
    let events: Vec<_> = (0..VECTORS).map(|_| event()).collect();
    let mut fds: Vec<_> = events.iter().map(|event| Some(event.as_fd())).collect();
    fds[5] = None;
    client.connect_irqs(irq::MSIX, 0, &fds).expect("connect");
    client.trigger_irqs(irq::MSIX, 0..VECTORS).expect("trigger");
    let counts: Vec<u64> = events.iter().map(event_count).collect();
    assert_eq!(counts, [1, 1, 1, 1, 1, 0, 1, 1]);
    client
        .connect_irqs(irq::MSIX, 1, &[None])
        .expect("takes vector 1 away");
    served.device.send(1);
    served.device.send(2);
    assert_eq!((event_count(&events[1]), event_count(&events[2])), (0, 1));
    client.disable_irqs(irq::MSIX).expect("disable");
    served.device.send(2);
    assert_eq!(event_count(&events[2]), 0);
    assert_eq!(client.mask_irqs(irq::MSIX, 0..1), refused(Errno::NOTSUP));
    assert_eq!(client.trigger_irqs(irq::MSIX, 7..9), refused(Errno::INVAL));
    assert_eq!(client.trigger_irqs(irq::INTX, 0..1), refused(Errno::INVAL));
    let shapes: Vec<String> = served
        .device
        .calls()
        .into_iter()
        .filter_map(|call| match call {
            Call::SetIrqs(shape) if shape.contains("connect") => Some(shape),
            _ => None,
        })
        .collect();
    assert_eq!(
        shapes,
        [
            "2: connect 0+3 with 3",
            "2: connect 3+2 with 2",
            "2: connect 5+1 with 0",
            "2: connect 6+2 with 2",
            "2: connect 1+1 with 0",
        ]
    );
}

#[test]
fn a_reset_reaches_the_device() {
    let (served, client, _) = pair();
    client.reset().expect("it can be reset");
    assert_eq!(served.device.calls(), [Call::Connected, Call::Reset]);
}

#[test]
fn the_device_reaches_memory_while_a_register_is_being_read() {
    let (served, client, memory) = pair();
    let client = Arc::new(client);
    let reader = {
        let client = Arc::clone(&client);
        thread::spawn(move || {
            let mut word = [0; 4];
            client.read(region::BAR0, SLOW_REGISTER, &mut word)
        })
    };
    served.device.wait_for_slow_read();
    let messages = served.device.messages();
    let written: Vec<u8> = (0..200_000_u32).map(|byte| (byte * 13) as u8).collect();
    messages.write(0x1234, &written).expect("four messages");
    assert_eq!(memory.0.lock()[0x1234..][..written.len()], written);
    let mut read = vec![0; written.len()];
    messages.read(0x1234, &mut read).expect("four messages");
    assert_eq!(read, written);
    assert_eq!(messages.read(1 << 20, &mut [0]), Err(Errno::NODEV));
    assert_eq!(messages.write(u64::MAX, &[0; 2]), Err(Errno::INVAL));
    served.device.release_slow_read();
    reader
        .join()
        .expect("no panic")
        .expect("the read is answered");
    drop(client);
    assert_eq!(messages.read(0, &mut [0]), Err(Errno::NOTCONN));
}

#[test]
fn both_directions_at_once_from_many_threads() {
    let (served, client, _memory) = pair();
    let messages = served.device.messages();
    thread::scope(|scope| {
        for thread in 0..4_u64 {
            let (client, messages) = (&client, &messages);
            scope.spawn(move || {
                for round in 0..300_u64 {
                    let at = thread * 0x100;
                    client
                        .write_posted(region::BAR0, at, &round.to_le_bytes())
                        .expect("post");
                    let mut word = [0; 8];
                    client.read(region::BAR0, at, &mut word).expect("read");
                    assert_eq!(u64::from_le_bytes(word), round);
                }
            });
            scope.spawn(move || {
                for round in 0..300_u64 {
                    let at = thread * 0x10000;
                    let data = [round as u8; 5000];
                    messages.write(at, &data).expect("write");
                    let mut read = [0; 5000];
                    messages.read(at, &mut read).expect("read");
                    assert_eq!(read, data);
                }
            });
        }
    });
}

#[test]
fn a_server_that_does_not_answer_is_given_up() {
    let (_silent, stream) = UnixStream::pair().expect("socketpair");
    let options = ClientOptions {
        timeout: Duration::from_millis(50),
        ..ClientOptions::default()
    };
    let result = Client::from_stream(stream, TestMemory::new(0), options);
    assert!(matches!(
        result,
        Err(ConnectError::Version(RequestError::Timeout))
    ));
}

#[test]
fn a_request_times_out_and_the_next_one_is_answered() {
    let (served, stream) = common::Served::new(ServerOptions::default());
    let options = ClientOptions {
        timeout: Duration::from_secs(2),
        ..ClientOptions::default()
    };
    let client = Client::from_stream(stream, TestMemory::new(0), options).expect("connect");
    let mut word = [0; 4];
    let slow = client.read(region::BAR0, SLOW_REGISTER, &mut word);
    assert_eq!(slow, Err(RequestError::Timeout));
    served.device.release_slow_read();
    client.read(region::BAR0, 0, &mut word).expect("in time");
    assert_eq!(word, [0, 1, 2, 3], "and it is not the late reply");
}

#[test]
fn one_client_after_the_other_until_the_stop() {
    let folder = temporary_directory("pair");
    let path = folder.join("socket");
    // A socket that a server has left behind.
    drop(std::os::unix::net::UnixListener::bind(&path).expect("bind"));
    let server = Server::bind(&path).expect("a stale socket is replaced");
    let taken = Server::bind(&path).expect_err("this one is in use");
    assert_eq!(taken.kind(), std::io::ErrorKind::AddrInUse);

    let device = TestDevice::default();
    let stop = Stop::new().expect("eventfd");
    thread::scope(|scope| {
        let serving = scope.spawn(|| server.serve(&device, &stop));
        for _ in 0..50 {
            let client = Client::connect(&path, TestMemory::new(0)).expect("connect");
            client
                .dma_map(range(0, 0x1000), ClientBacking::Messages)
                .expect("map");
            drop(client);
        }
        let last = Client::connect(&path, TestMemory::new(0)).expect("connect");
        for _ in 0..2 {
            let second = Client::connect(&path, TestMemory::new(0)).expect_err("it is in use");
            let busy = RequestError::Refused(Errno::BUSY);
            assert!(matches!(second, ConnectError::Version(error) if error == busy));
        }
        // A silent client is refused as well.
        let mut silent = UnixStream::connect(&path).expect("accepted");
        assert_eq!(silent.read(&mut [0]).expect("end of the stream"), 0);
        last.reset().expect("the first is still served");
        assert!(
            device.maps.lock().is_empty(),
            "the device has discarded the others"
        );
        stop.stop();
        serving
            .join()
            .expect("no panic")
            .expect("a stop is no error");
        let gone = last.reset();
        assert_eq!(gone, Err(RequestError::Disconnected));
        assert!(!last.is_connected());
    });
    server.serve(&device, &stop).expect("it stays stopped");
    drop(server);
    assert!(!path.exists(), "the socket is removed");
    let connections = device
        .calls()
        .iter()
        .filter(|&call| *call == Call::Connected)
        .count();
    let ends = device
        .calls()
        .iter()
        .filter(|&call| *call == Call::Disconnected)
        .count();
    assert_eq!((connections, ends), (51, 51));
    std::fs::remove_dir(&folder).expect("empty");
}
