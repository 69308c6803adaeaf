//! Functions behind sockets, with a minimal client: the client's view, and its limits.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::PermissionsExt;

use crate::common::Rendezvous;
use crate::serve_support::{Backing, ENABLED, Hand, IOVA, SIZE, TIMEOUT, memory_file, serve};
use ferroce_spec::doorbell::{DOORBELL_PAGES_SIZE, DoorbellKind, DoorbellValue};
use ferroce_spec::register::{self, Control, offset};
use ferroce_test_support::{Deadline, eventually};
use ferroce_vfio_user::{ClientBacking, DmaRange, Errno, irq, region};
use rustix::event::{EventfdFlags, eventfd};

/// A possible doorbell slot of a queue.
const SLOT: u64 = 9;

#[test]
fn a_client_finds_the_function_on_the_bus() {
    let rendezvous = Rendezvous::new("serve-config");
    let (serving, paths) = serve(&rendezvous, "a", 1);
    let mode = std::fs::metadata(&paths[0]).expect("there").permissions();
    assert_eq!(mode.mode() & 0o777, 0o600);
    let hand = Hand::new(&paths[0], Backing::Mapped);
    let info = hand.client.device_info();
    assert!(info.pci && info.resettable);
    let ids = hand.read(region::CONFIG, 0);
    assert_eq!(u32::from_le_bytes(ids), 0xf10a_1172);
    let sizes = [region::BAR0, region::BAR2, region::BAR4, region::CONFIG].map(|index| {
        let info = hand.client.region_info(index).expect("answered");
        info.size
    });
    assert_eq!(sizes, [16 << 10, 4 << 20, 256 << 10, 4096]);
    for absent in [1, 3, 5, region::ROM, region::VGA] {
        let info = hand.client.region_info(absent).expect("answered");
        assert_eq!(info.size, 0, "{absent}");
    }
    assert_eq!(hand.client.irq_info(irq::MSIX).expect("answered").count, 16);
    assert_eq!(hand.client.irq_info(irq::INTX).expect("answered").count, 0);

    assert_eq!(hand.register(offset::magic), u32::MAX, "not enabled yet");
    hand.set_command(ENABLED);
    assert_eq!(hand.register(offset::magic), register::MAGIC);
    let capability = hand.read(region::BAR0, u64::from(offset::capability));
    let capability = register::Capability::from_bits(u64::from_le_bytes(capability));
    assert!(capability.present() && capability.polled_doorbells());
    let mac = serving.functions()[0].function().host().mac;
    let read: [u8; 8] = hand.read(region::BAR0, u64::from(offset::port_mac));
    assert!(read[..6].iter().eq(mac.iter().rev()));

    let bar2 = hand.client.region_info(region::BAR2).expect("answered");
    let mmap = bar2.mmap.expect("doorbell pages can be mapped");
    assert_eq!(mmap.areas.len(), 1);
    assert_eq!(mmap.areas[0], 0..u64::from(DOORBELL_PAGES_SIZE));
    let file = File::from(mmap.file.try_clone().expect("a descriptor"));
    assert!(file.set_len(0).is_err(), "its size is sealed");
}

#[test]
fn accesses_have_every_size() {
    let rendezvous = Rendezvous::new("serve-sizes");
    let (_serving, paths) = serve(&rendezvous, "a", 1);
    let hand = Hand::enabled(&paths[0], Backing::Mapped);
    assert_eq!(hand.read(region::BAR0, 0), *b"FROC");
    assert_eq!(hand.read(region::BAR0, 1), *b"R");
    assert_eq!(hand.read(region::BAR0, 2), *b"OC");
    let whole: [u8; 16] = hand.read(region::BAR0, 0);
    assert_eq!(hand.read::<9>(region::BAR0, 3), whole[3..12]);
    let base = u64::from(offset::command_queue_base);
    hand.write(region::BAR0, base, &0x1122_3344_5566_7780u64.to_le_bytes());
    hand.write(region::BAR0, base + 1, &[0xaa]);
    hand.write(region::BAR0, base + 6, &[0xbb, 0xcc]);
    let read: [u8; 8] = hand.read(region::BAR0, base);
    assert_eq!(u64::from_le_bytes(read), 0xccbb_3344_5566_aa80);

    hand.write(region::BAR4, 100, &[1, 2, 3, 4, 5]);
    assert_eq!(hand.read(region::BAR4, 99), [0, 1, 2, 3, 4, 5, 0]);
    // After the doorbell pages the BAR does not respond; writes there are lost.
    let push = u64::from(DOORBELL_PAGES_SIZE);
    hand.write(region::BAR2, push, &[1; 64]);
    assert_eq!(hand.read(region::BAR2, push), [0xff; 8]);
}

#[test]
fn dma_by_each_way() {
    let rendezvous = Rendezvous::new("serve-dma");
    let (_serving, paths) = serve(&rendezvous, "a", 1);
    for backing in [Backing::Mapped, Backing::FileIo, Backing::Messages] {
        let mut hand = Hand::enabled(&paths[0], backing);
        hand.start();
        for argument in 1..20 {
            assert!(hand.no_operation(argument), "{backing:?}");
        }
        hand.client.dma_unmap(IOVA, SIZE).expect("mapped");
        assert!(!hand.no_operation(1), "nothing is mapped: {backing:?}");
        hand.map().expect("free again");
        hand.client.reset().expect("resettable");
        hand.start();
        assert!(hand.no_operation(77), "{backing:?}");
    }
}

#[test]
fn without_bus_master_there_is_no_dma() {
    let rendezvous = Rendezvous::new("serve-master");
    let (_serving, paths) = serve(&rendezvous, "a", 1);
    let mut hand = Hand::enabled(&paths[0], Backing::Mapped);
    hand.set_command(2);
    hand.start();
    assert!(!hand.no_operation(5));
    hand.client.reset().expect("resettable");
    hand.set_command(ENABLED);
    hand.start();
    assert!(hand.no_operation(5), "what was mapped is still there");
}

#[test]
fn a_function_level_reset_forgets_the_configuration() {
    let rendezvous = Rendezvous::new("serve-flr");
    let (_serving, paths) = serve(&rendezvous, "a", 1);
    let mut hand = Hand::enabled(&paths[0], Backing::Mapped);
    hand.start();
    hand.write(region::CONFIG, 0x10, &0xfebe_0000u32.to_le_bytes());
    assert!(hand.status().enabled());
    // The device control register of the PCI Express capability.
    let control: [u8; 2] = hand.read(region::CONFIG, 0x58);
    hand.write(region::CONFIG, 0x58, &[control[0], control[1] | 0x80]);
    assert_eq!(hand.read(region::CONFIG, 4), [0, 0]);
    assert_eq!(hand.read(region::CONFIG, 0x10), [4, 0, 0, 0]);
    hand.set_command(ENABLED);
    assert!(hand.status().ready() && !hand.status().enabled());
    hand.start();
    assert!(hand.no_operation(5), "mappings are the client's");
}

#[test]
fn doorbells_by_messages_ring() {
    let rendezvous = Rendezvous::new("serve-doorbells");
    let (_serving, paths) = serve(&rendezvous, "a", 1);
    let hand = Hand::enabled(&paths[0], Backing::Mapped);
    let counter = |name: &str| {
        let index = ferroce_spec::counter::COUNTERS
            .iter()
            .position(|counter| counter.name == name)
            .expect("known");
        let at = u64::from(register::COUNTERS_OFFSET) + 8 * index as u64;
        u64::from_le_bytes(hand.read(region::BAR0, at))
    };
    // The queue does not exist: the doorbell counts as invalid.
    let value = DoorbellValue::new(DoorbellKind::SEND_QUEUE, 5, 1).bits();
    let bytes = value.to_le_bytes();
    let at = 8 * SLOT;
    hand.write(region::BAR2, at, &bytes);
    assert_eq!((counter("doorbells"), counter("doorbell_errors")), (1, 1));
    hand.write(region::BAR2, at, &bytes[..4]);
    assert_eq!(counter("doorbells"), 1, "only half of it");
    hand.write(region::BAR2, at + 4, &bytes[4..]);
    assert_eq!(counter("doorbells"), 2);
    hand.write(region::BAR2, at + 4, &bytes[4..]);
    hand.write(region::BAR2, at, &bytes[..4]);
    assert_eq!(counter("doorbells"), 3, "the other half first");
    for (at, bytes) in [(8, &bytes[..]), (at + 1, &bytes), (at, &bytes[..2])] {
        hand.write(region::BAR2, at, bytes);
    }
    assert_eq!(counter("doorbells"), 3, "reserved, not aligned, too short");
}

#[test]
fn the_next_client_finds_nothing_of_the_last_one() {
    let rendezvous = Rendezvous::new("serve-next");
    let (_serving, paths) = serve(&rendezvous, "a", 1);
    let mut hand = Hand::enabled(&paths[0], Backing::Mapped);
    hand.start();
    assert!(hand.no_operation(1));
    hand.write(region::BAR4, 0, b"secret");
    hand.write(region::CONFIG, 0x10, &0xfebe_0000u32.to_le_bytes());
    hand.write(
        region::BAR0,
        u64::from(register::MSIX_TABLE_OFFSET),
        &[1; 12],
    );
    let pages = |hand: &Hand| {
        let info = hand.client.region_info(region::BAR2).expect("answered");
        let file = info.mmap.expect("pages").file;
        let stat = rustix::fs::fstat(&file).expect("a file");
        (file, stat.st_ino)
    };
    let (_kept, old_pages) = pages(&hand);
    drop(hand);

    let mut hand = Hand::new(&paths[0], Backing::Mapped);
    assert_ne!(pages(&hand).1, old_pages, "the old client still has those");
    assert_eq!(hand.read(region::CONFIG, 4), [0, 0]);
    assert_eq!(hand.read(region::CONFIG, 0x10), [4, 0, 0, 0]);
    hand.set_command(ENABLED);
    assert_eq!(hand.read(region::BAR4, 0), [0; 6]);
    let entry = u64::from(register::MSIX_TABLE_OFFSET);
    let expected = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0];
    assert_eq!(hand.read(region::BAR0, entry), expected);
    assert!(hand.status().ready() && !hand.status().enabled());
    hand.start();
    assert!(!hand.no_operation(1), "nothing is mapped");
}

#[test]
fn mappings_have_limits_and_rights() {
    let rendezvous = Rendezvous::new("serve-limits");
    let (_serving, paths) = serve(&rendezvous, "a", 1);
    let hand = Hand::enabled(&paths[0], Backing::Mapped);
    let page = 4096;
    let file = memory_file(4 * page);
    let map = |iova, length, (readable, writable), backing| {
        let range = DmaRange {
            iova,
            length,
            readable,
            writable,
        };
        let result = hand.client.dma_map(range, backing);
        result.err().map(|error| error.errno())
    };
    let both = (true, true);
    let at = |offset| ClientBacking::Mmap(file.as_fd(), offset);
    let messages = ClientBacking::Messages;
    assert_eq!(map(IOVA, page, both, messages), Some(Errno::EXIST));
    assert_eq!(map(1 << 40, 8 * page, both, at(0)), Some(Errno::INVAL));
    assert_eq!(map(1 << 40, page, both, at(4 * page)), Some(Errno::INVAL));
    assert_eq!(
        map(1 << 40, page, (false, false), messages),
        Some(Errno::INVAL)
    );
    assert_eq!(map(1 << 40, 1 << 48, both, messages), Some(Errno::NOMEM));
    let zero = File::open("/dev/zero").expect("everywhere");
    let device = ClientBacking::FileIo(zero.as_fd(), 0);
    assert_eq!(
        map(1 << 40, page, (true, false), device),
        Some(Errno::INVAL)
    );
    let memory = File::open("/proc/self/mem").expect("our own");
    let own = || ClientBacking::FileIo(memory.as_fd(), 0x1000);
    assert_eq!(map(1 << 40, page, both, own()), Some(Errno::ACCESS));
    assert_eq!(map(1 << 40, page, (true, false), own()), None);
    // Ranges that a virtual machine maps without a file: its ROM, the BARs of other devices.
    assert_eq!(map(0xc_0000, 8 * page, (true, false), messages), None);
    // A part of a mapping cannot be unmapped; a range of several mappings can, and an empty range
    // is no error.
    let unmap = |iova, length| {
        let result = hand.client.dma_unmap(iova, length);
        result.err().map(|error| error.errno())
    };
    assert_eq!(unmap(IOVA, page), Some(Errno::INVAL));
    assert_eq!(map(IOVA + SIZE, page, both, at(page)), None);
    assert_eq!(unmap(IOVA, SIZE + page), None);
    assert_eq!(unmap(IOVA, SIZE + page), None);
    hand.client.dma_unmap_all().expect("always");
    assert_eq!(map(IOVA, page, both, at(0)), None);
}

#[test]
fn memory_that_a_client_removes_ends_no_other_client() {
    let rendezvous = Rendezvous::new("serve-truncate");
    let (serving, paths) = serve(&rendezvous, "a", 2);
    let mut hand = Hand::enabled(&paths[0], Backing::Mapped);
    let mut other = Hand::enabled(&paths[1], Backing::Mapped);
    hand.start();
    other.start();
    assert!(hand.no_operation(1));
    hand.file.set_len(0).expect("it is ours");
    // The device finds zeros where the command was.
    hand.set_register(offset::command_queue_doorbell, 2);
    let deadline = Deadline::new("command 2, or a failure", TIMEOUT);
    let is_done =
        |hand: &Hand| hand.status().fatal() || hand.register(offset::command_queue_consumer) == 2;
    while !is_done(&hand) && !deadline.is_over() {
        assert!(other.no_operation(2));
    }
    assert!(other.no_operation(3));
    drop(hand);
    let mut hand = Hand::enabled(&paths[0], Backing::Mapped);
    hand.start();
    assert!(hand.no_operation(4));
    assert!(!serving.has_failed());
    serving.end().expect("no error");
    assert!(paths.iter().all(|path| !path.exists()));
}

#[test]
fn interrupts_go_to_eventfds() {
    let rendezvous = Rendezvous::new("serve-irqs");
    let (_serving, paths) = serve(&rendezvous, "a", 1);
    let hand = Hand::enabled(&paths[0], Backing::Mapped);
    let event = || eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("eventfd");
    let count = |event: &rustix::fd::OwnedFd| {
        let mut count = [0; 8];
        rustix::io::read(event, &mut count).map_or(0, |_| u64::from_ne_bytes(count))
    };
    let events = [event(), event()];
    let fds = [Some(events[0].as_fd()), None, Some(events[1].as_fd())];
    hand.client.connect_irqs(irq::MSIX, 3, &fds).expect("free");
    hand.client
        .trigger_irqs(irq::MSIX, 3..6)
        .expect("connected");
    assert_eq!(events.each_ref().map(count), [1, 1]);
    let control = |vector: u32| {
        let entry = register::MSIX_TABLE_OFFSET + vector * register::MSIX_ENTRY_SIZE;
        hand.register(entry + 12)
    };
    assert_eq!([3, 4, 5].map(control), [0, 1, 0], "connected is unmasked");
    hand.client.mask_irqs(irq::MSIX, 5..6).expect("connected");
    assert_eq!(control(5), 1);
    hand.client.unmask_irqs(irq::MSIX, 5..6).expect("connected");
    assert_eq!(control(5), 0);
    let (pipe, _) = std::os::unix::net::UnixStream::pair().expect("descriptors");
    let refused = hand
        .client
        .connect_irqs(irq::MSIX, 0, &[Some(pipe.as_fd())]);
    let errno = refused.expect_err("no eventfd").errno();
    assert_eq!(errno, Errno::INVAL);
    hand.client.disable_irqs(irq::MSIX).expect("always");
    assert_eq!([3, 5].map(control), [1, 1]);
    hand.client.trigger_irqs(irq::MSIX, 3..6).expect("in range");
    assert_eq!(events.each_ref().map(count), [0, 0]);
}

#[test]
fn the_client_of_rust_vmm_uses_a_function() {
    let rendezvous = Rendezvous::new("serve-foreign");
    let (_serving, paths) = serve(&rendezvous, "a", 1);
    let mut client = vfio_user::Client::new(&paths[0]).expect("version and regions");
    let mut word = [0; 4];
    let mut read = |client: &mut vfio_user::Client, region, at| {
        client.region_read(region, at, &mut word).expect("read");
        u32::from_le_bytes(word)
    };
    assert_eq!(read(&mut client, region::CONFIG, 0), 0xf10a_1172);
    client
        .region_write(region::CONFIG, 4, &ENABLED.to_le_bytes())
        .expect("write");
    assert_eq!(read(&mut client, region::BAR0, 0), register::MAGIC);
    let bar2 = client.region(region::BAR2).expect("BAR2");
    assert!(bar2.file_offset.is_some() && !bar2.sparse_areas.is_empty());

    let file = memory_file(SIZE);
    client
        .dma_map(0, IOVA, SIZE, file.as_raw_fd())
        .expect("map");
    let mut entry = [0; 64];
    entry[8] = 99;
    entry[63] = 0x80;
    std::os::unix::fs::FileExt::write_all_at(&file, &entry, 0).expect("inside");
    let mut control = Control::default();
    control.set_enable(true);
    let writes = [
        (offset::command_queue_base, IOVA as u32),
        (offset::command_queue_base + 4, 0),
        (offset::control, control.bits()),
        (offset::command_queue_doorbell, 1),
    ];
    for (at, value) in writes {
        client
            .region_write(region::BAR0, u64::from(at), &value.to_le_bytes())
            .expect("write");
    }
    let consumer = u64::from(offset::command_queue_consumer);
    eventually("the end of a command", TIMEOUT, || {
        read(&mut client, region::BAR0, consumer) == 1
    });
    std::os::unix::fs::FileExt::read_exact_at(&file, &mut entry, 0).expect("inside");
    assert_eq!((entry[0x30], entry[63]), (99, 0));

    let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("eventfd");
    client
        .set_irqs(irq::MSIX, 0x24, 2, 1, &[event.as_raw_fd()])
        .expect("connect");
    client
        .set_irqs(irq::MSIX, 0x21, 2, 1, &[])
        .expect("trigger");
    let mut count = [0; 8];
    assert_eq!(rustix::io::read(&event, &mut count), Ok(8));
    client.dma_unmap(IOVA, SIZE).expect("unmap");
    client.shutdown().expect("shutdown");
}
