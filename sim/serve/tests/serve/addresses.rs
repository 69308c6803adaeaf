//! Clients whose memory is in a file indexed by address: their mappings work, and their changes to
//! the file harm no other process.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use crate::common::Rendezvous;
use crate::serve_support::{Backing, ENABLED, Hand, IOVA, SIZE, TIMEOUT, memory_file, serve};
use ferroce_platform::shared_memory::registered::ADDRESS_SPACE;
use ferroce_spec::register::offset;
use ferroce_test_support::Deadline;
use ferroce_vfio_user::{ClientBacking, DmaRange, Errno};

/// Address of the client's memory.
const ADDRESS: u64 = 0x7f12_3456_7000;
/// Offsets of argument, result and ownership in an entry of the command queue.
const ARGUMENT: u64 = 0x08;
const RESULT: u64 = 0x30;
const COMPLETION: u64 = 0x38;
const DEVICE_OWNED: u64 = 1 << 63;

fn map(hand: &Hand, file: &File, iova: u64, offset: u64, length: u64) -> Result<(), Errno> {
    let range = DmaRange {
        iova,
        length,
        readable: true,
        writable: true,
    };
    let backing = ClientBacking::Mmap(file.as_fd(), offset);
    let mapped = hand.client.dma_map(range, backing);
    mapped.map_err(|error| error.errno())
}

/// Submits command `number` at `ADDRESS`, and returns its result.
fn command(hand: &Hand, file: &File, number: u32) -> Option<u64> {
    let store = |at: u64, value: u64| {
        let written = file.write_all_at(&value.to_le_bytes(), ADDRESS + at);
        written.expect("inside");
    };
    let load = |at: u64| {
        let mut bytes = [0; 8];
        file.read_exact_at(&mut bytes, ADDRESS + at)
            .expect("inside");
        u64::from_le_bytes(bytes)
    };
    for at in (0..64).step_by(8) {
        store(at, 0);
    }
    store(ARGUMENT, u64::from(number) + 1000);
    store(COMPLETION, DEVICE_OWNED);
    is_taken(hand, number).then(|| load(RESULT))
}

/// Returns true if the device takes command `number`; otherwise it has failed.
fn is_taken(hand: &Hand, number: u32) -> bool {
    hand.set_register(offset::command_queue_doorbell, number);
    let deadline = Deadline::new("the end of a command", TIMEOUT);
    while hand.register(offset::command_queue_consumer) != number {
        if hand.status().fatal() {
            return false;
        }
        deadline.check();
    }
    true
}

fn client(path: &std::path::Path) -> (Hand, File) {
    let mut hand = Hand::new(path, Backing::Mapped);
    hand.set_command(ENABLED);
    let file = memory_file(ADDRESS_SPACE);
    map(&hand, &file, IOVA, ADDRESS, SIZE).expect("a part of the file");
    hand.start();
    (hand, file)
}

#[test]
fn a_part_of_an_address_space_is_mapped() {
    let rendezvous = Rendezvous::new("serve-addresses");
    let (_serving, paths) = serve(&rendezvous, "a", 1);
    let (hand, file) = client(&paths[0]);
    for number in 1..5 {
        assert_eq!(
            command(&hand, &file, number),
            Some(u64::from(number) + 1000)
        );
    }
    let page = 4096;
    let map = |at, length| map(&hand, &file, IOVA + SIZE, at, length);
    assert_eq!(map(0, page), Err(Errno::INVAL), "there is no such memory");
    assert_eq!(map(ADDRESS_SPACE, page), Err(Errno::INVAL));
    assert_eq!(map(ADDRESS_SPACE - page, 2 * page), Err(Errno::INVAL));
    assert_eq!(map(ADDRESS + 1, page), Err(Errno::INVAL));
    assert_eq!(map(ADDRESS_SPACE - page, page), Ok(()));
    hand.client.dma_unmap(IOVA + SIZE, page).expect("mapped");
    // The same pages a second time while they are in use.
    assert_eq!(map(ADDRESS, SIZE), Ok(()));
    assert_eq!(command(&hand, &file, 5), Some(1005));
    hand.client.dma_unmap(IOVA + SIZE, SIZE).expect("mapped");
    assert_eq!(command(&hand, &file, 6), Some(1006));
}

#[test]
fn a_truncated_file_ends_no_other_client() {
    let rendezvous = Rendezvous::new("serve-addresses-cut");
    let (serving, paths) = serve(&rendezvous, "a", 2);
    let (hand, file) = client(&paths[0]);
    let (other, other_file) = client(&paths[1]);
    assert_eq!(command(&hand, &file, 1), Some(1001));
    file.set_len(ADDRESS).expect("it is ours");
    // The device finds zeros where the command was.
    is_taken(&hand, 2);
    assert_eq!(command(&other, &other_file, 1), Some(1001));
    drop(hand);
    let (hand, file) = client(&paths[0]);
    assert_eq!(command(&hand, &file, 1), Some(1001));
    assert!(!serving.has_failed());
    serving.end().expect("no error");
}
