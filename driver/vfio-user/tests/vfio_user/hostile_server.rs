//! Servers that send invalid replies: the client returns an error or an answer, in time, and stays
//! usable.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use crate::common::raw::{self, Raw, framed, record};
use crate::common::{Served, TIMEOUT, TestMemory};
use ferroce_vfio_user::{
    Client, ClientMemory, ClientOptions, ConnectError, Errno, RequestError, ServerOptions, fuzz,
    irq, region,
};
use proptest::collection::vec;
use proptest::prelude::*;

#[test]
fn replies_that_are_cut_off() {
    let chunks = record();
    assert_eq!(chunks.len(), 11, "VERSION, DEVICE_GET_INFO and nine more");
    for index in 0..chunks.len() {
        for length in 0..chunks[index].len() {
            let mut part = chunks[..=index].to_vec();
            part[index].truncate(length);
            fuzz::client_input(&framed(&part));
        }
    }
}

#[test]
fn replies_with_one_bit_the_wrong_way_round() {
    let chunks = record();
    for index in 0..chunks.len() {
        for bit in 0..chunks[index].len() * 8 {
            let mut flipped = chunks.clone();
            flipped[index][bit / 8] ^= 1 << (bit % 8);
            let waits = bit / 8 < 8; // for a reply to another request, or for more of this one
            if waits {
                flipped.truncate(index + 1);
            }
            fuzz::client_input(&framed(&flipped));
        }
    }
}

/// Runs `test` with a client of a server that sends these messages for the requests after VERSION
/// and DEVICE_GET_INFO.
fn with_replies<T>(replies: Vec<Vec<u8>>, test: impl FnOnce(&Client) -> T) -> T {
    let mut chunks = record();
    chunks.truncate(2);
    chunks.extend(replies);
    let (ours, theirs) = UnixStream::pair().expect("socketpair");
    thread::scope(|scope| {
        scope.spawn(move || {
            for chunk in chunks {
                raw::skip(&theirs);
                Raw {
                    bytes: chunk,
                    fds: 0,
                }
                .send(&theirs);
            }
            raw::skip(&theirs); // and hangs up
        });
        let options = ClientOptions {
            timeout: TIMEOUT,
            ..ClientOptions::default()
        };
        let client = Client::from_stream(ours, TestMemory::new(0x100), options).expect("connect");
        test(&client)
    })
}

/// Returns a reply to the request with identifier 2, the first of the test.
fn reply(command: u16, flags: u32, errno: u32, body: &[u8]) -> Vec<u8> {
    let mut raw = Raw::new(2, command, flags, body);
    raw.bytes[12..16].copy_from_slice(&errno.to_le_bytes());
    raw.bytes
}

#[test]
fn wrong_replies_are_named() {
    let mut word = [0; 4];
    let mut read =
        |replies| with_replies(replies, |client| client.read(region::BAR0, 0, &mut word));
    let refused = read(vec![reply(raw::REGION_READ, 0x21, 13, &[])]);
    assert_eq!(refused, Err(RequestError::Refused(Errno::ACCESS)));
    for number in [0, 5000, u32::MAX] {
        let refused = read(vec![reply(raw::REGION_READ, 0x21, number, &[])]);
        assert_eq!(
            refused,
            Err(RequestError::Refused(Errno::IO)),
            "errno {number}"
        );
    }
    for wrong in [
        reply(raw::REGION_READ, 1, 0, &[]),
        reply(raw::REGION_READ, 1, 0, &[0; 20]),
        reply(raw::REGION_WRITE, 1, 0, &[0; 16]),
        [&[0; 12][..], &[4, 0, 0, 0, 9, 9, 9]].concat(),
    ] {
        let is_message = wrong[4..8] != [0; 4];
        let result = read(vec![wrong]);
        if is_message {
            assert!(
                matches!(result, Err(RequestError::Malformed(_))),
                "{result:?}"
            );
        } else {
            assert_eq!(result, Err(RequestError::Disconnected));
        }
    }
    assert_eq!(read(vec![]), Err(RequestError::Disconnected), "it hangs up");
    let other = with_replies(vec![reply(raw::GET_IRQ_INFO, 1, 0, &[0; 16])], |client| {
        client.irq_info(irq::MSIX)
    });
    assert!(
        matches!(other, Err(RequestError::Malformed(_))),
        "{other:?}"
    );
}

#[test]
fn commands_of_the_server_are_answered_once() {
    let dma = |id, command, iova: u64, count: u64, data: &[u8]| {
        let body = [&iova.to_le_bytes()[..], &count.to_le_bytes(), data].concat();
        Raw::new(id, command, 0, &body)
    };
    let commands = [
        (0, dma(1, 12, 8, 4, &[1, 2, 3, 4])),
        (0, dma(2, 11, 8, 4, &[])),
        (19, dma(3, 11, 0x100, 1, &[])),
        (22, dma(4, 11, u64::MAX, 2, &[])),
        (22, dma(5, 11, 0, 0, &[])),
        (7, dma(6, 11, 0, u64::MAX, &[])),
        (22, dma(7, 12, 0, 4, &[1])),
        (22, dma(8, 11, 0, 4, &[1])),
        (22, Raw::new(9, 11, 0, &[0; 3])),
        (95, Raw::new(10, 9, 0, &[0; 16])),
        (22, Raw::new(11, 11, 7, &[0; 16])),
    ];
    let mut chunks = record();
    chunks.truncate(2);
    let (ours, theirs) = UnixStream::pair().expect("socketpair");
    thread::scope(|scope| {
        let connecting = scope.spawn(move || {
            let options = ClientOptions {
                timeout: TIMEOUT,
                ..ClientOptions::default()
            };
            Client::from_stream(ours, TestMemory::new(0x100), options).expect("connect")
        });
        for bytes in chunks {
            raw::skip(&theirs);
            Raw { bytes, fds: 0 }.send(&theirs);
        }
        let client = connecting.join().expect("no panic");
        for (errno, command) in &commands {
            command.send(&theirs);
            let reply = raw::parse(&raw::receive(&theirs).expect("a reply")).remove(0);
            assert_eq!(reply.errno, *errno, "{command:?}");
            assert_eq!(reply.flags, if *errno == 0 { 1 } else { 0x21 });
            if command.bytes[2] == 11 && *errno == 0 {
                assert_eq!(reply.body[16..], [1, 2, 3, 4]);
            }
        }
        assert!(client.is_connected());
    });
}

/// Memory that only counts the ends of the connection.
#[derive(Default)]
struct Ends(AtomicU32);

impl ClientMemory for Ends {
    fn read(&self, _iova: u64, _data: &mut [u8]) -> Result<(), Errno> {
        Err(Errno::NODEV)
    }

    fn write(&self, _iova: u64, _data: &[u8]) -> Result<(), Errno> {
        Err(Errno::NODEV)
    }

    fn disconnected(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn the_memory_hears_once_of_the_end() {
    let (served, stream) = Served::new(ServerOptions::default());
    let ends = Arc::new(Ends::default());
    let options = ClientOptions {
        timeout: TIMEOUT,
        ..ClientOptions::default()
    };
    let client = Client::from_stream(stream, ends.clone(), options).expect("connect");
    drop(served);
    assert_eq!(client.reset(), Err(RequestError::Disconnected));
    drop(client);
    assert_eq!(ends.0.load(Ordering::SeqCst), 1);
}

#[test]
fn a_server_of_another_version() {
    for body in [
        &b"\x01\0\0\0{}\0"[..],
        b"\0\0\x02\0{}\0",
        b"\0\0",
        b"\0\0\0\0{",
    ] {
        let (ours, theirs) = UnixStream::pair().expect("socketpair");
        let answer = Raw::new(0, raw::VERSION, 1, body);
        let result = thread::scope(|scope| {
            scope.spawn(|| {
                raw::skip(&theirs);
                answer.send(&theirs);
            });
            let options = ClientOptions {
                timeout: TIMEOUT,
                ..ClientOptions::default()
            };
            Client::from_stream(ours, TestMemory::new(0), options)
        });
        let error = result.expect_err("not our version");
        assert!(
            matches!(error, ConnectError::Version(RequestError::Malformed(_))),
            "{error}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_chunks(agreed in any::<bool>(), chunks in vec(vec(any::<u8>(), 0..80), 0..8)) {
        let mut sent = if agreed { record() } else { Vec::new() };
        sent.truncate(2);
        sent.extend(chunks);
        fuzz::client_input(&framed(&sent));
    }
}
