//! Clients that send invalid messages, or disconnect in the middle of one. The server answers each
//! message once, stays in step, and keeps no resources.

use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use crate::common::raw::{
    self, Access, DMA_MAP, GET_INFO, GET_REGION_INFO, NO_REPLY, REGION_READ, REGION_WRITE, Raw,
    Reply, SET_IRQS, VERSION, WRITE_MULTI, conversation, marker,
};
use crate::common::{BAR0_SIZE, Call, Served, TIMEOUT, TestDevice, alone, fd_count};
use ferroce_test_support::temporary_directory;
use ferroce_vfio_user::{Capabilities, Server, ServerOptions, Stop, Timeouts};
use proptest::collection::vec;
use proptest::prelude::*;

const EINVAL: u32 = 22;
const E2BIG: u32 = 7;
const ENOTSUP: u32 = 95;

fn options() -> ServerOptions {
    ServerOptions {
        capabilities: Capabilities::SUPPORTED,
        ..ServerOptions::default()
    }
}

/// Sends messages, hangs up, and returns the server's replies until it hangs up too.
fn converse(messages: &[Raw]) -> Vec<Reply> {
    let (mut served, stream) = Served::new(options());
    for message in messages {
        message.send(&stream);
    }
    let replies = raw::replies(&stream);
    served.wait_for_end();
    let calls = served.device.calls();
    let connected = calls
        .iter()
        .filter(|&call| *call == Call::Connected)
        .count();
    let disconnected = calls
        .iter()
        .filter(|&call| *call == Call::Disconnected)
        .count();
    assert_eq!(connected, disconnected);
    assert!(connected <= 1);
    replies
}

#[test]
fn a_conversation_without_fault() {
    let _alone = alone();
    let replies = converse(&conversation());
    let ids: Vec<u16> = replies.iter().map(|reply| reply.id).collect();
    assert_eq!(
        ids,
        [
            1,
            2,
            3,
            4,
            5,
            6,
            7,
            8,
            9,
            10,
            11,
            12,
            13,
            14,
            16,
            17,
            raw::MARKER_ID
        ]
    );
    for reply in &replies {
        assert_eq!((reply.flags, reply.errno), (1, 0), "{reply:?}");
    }
    assert!(replies[16].is_of_marker());
    assert_eq!(replies[14].body, 2_u64.to_le_bytes(), "both writes");
}

#[test]
fn each_fault_has_its_errno() {
    let _alone = alone();
    let read =
        |offset, region, count| Raw::access(2, REGION_READ, 0, offset, region, Access::Read(count));
    let mut too_many = 1_u64.to_le_bytes().to_vec();
    too_many.extend([0; 12]);
    too_many.extend([9, 0, 0, 0]);
    too_many.extend([0; 8]);
    let faults = [
        (ENOTSUP, "unknown command", Raw::new(2, 99, 0, &[1; 40])),
        (ENOTSUP, "command 0", Raw::new(2, 0, 0, &[])),
        (ENOTSUP, "device feature", Raw::new(2, 16, 0, &[0; 16])),
        (ENOTSUP, "region IO fds", Raw::new(2, 6, 0, &[0; 16])),
        (
            ENOTSUP,
            "DMA read from the client",
            Raw::new(2, 11, 0, &[0; 16]),
        ),
        (EINVAL, "second VERSION", Raw::version(2)),
        (
            EINVAL,
            "file descriptors for nothing",
            read(0, 0, 4).with_fds(1),
        ),
        (
            E2BIG,
            "too many file descriptors",
            read(0, 0, 4).with_fds(17),
        ),
        (E2BIG, "far too many", read(0, 0, 4).with_fds(200)),
        (EINVAL, "type 2", Raw::new(2, GET_INFO, 2, &[16, 0, 0, 0])),
        (
            EINVAL,
            "short info",
            Raw::fields(2, GET_INFO, &[16, 0, 0], &[]),
        ),
        (
            EINVAL,
            "small argsz",
            Raw::fields(2, GET_INFO, &[15, 0, 0, 0], &[]),
        ),
        (
            EINVAL,
            "small argsz",
            Raw::fields(2, GET_REGION_INFO, &[31, 0, 0, 0], &[0, 0]),
        ),
        (
            EINVAL,
            "no such region",
            Raw::fields(2, GET_REGION_INFO, &[32, 0, 9, 0], &[0, 0]),
        ),
        (EINVAL, "no such region", read(0, u32::MAX, 4)),
        (EINVAL, "empty region", read(0, 1, 4)),
        (EINVAL, "beyond the end", read(BAR0_SIZE, 0, 1)),
        (EINVAL, "wraps", read(u64::MAX, 0, 2)),
        (EINVAL, "nothing", read(0, 0, 0)),
        (E2BIG, "4 GiB", read(0, 0, u32::MAX)),
        (
            EINVAL,
            "no data",
            Raw::access(2, REGION_WRITE, 0, 0, 0, Access::Read(4)),
        ),
        (
            EINVAL,
            "no such irqs",
            Raw::fields(2, SET_IRQS, &[20, 0x21, 5, 0, 0], &[]),
        ),
        (
            EINVAL,
            "no such vector",
            Raw::fields(2, SET_IRQS, &[20, 0x21, 2, 8, 1], &[]),
        ),
        (
            EINVAL,
            "all vectors and one",
            Raw::fields(2, SET_IRQS, &[20, 0x24, 2, 1, u32::MAX], &[]),
        ),
        (
            EINVAL,
            "empty mapping",
            Raw::fields(2, DMA_MAP, &[32, 3], &[0, 0, 0]),
        ),
        (
            EINVAL,
            "two files",
            Raw::fields(2, DMA_MAP, &[32, 3], &[0, 0, 4096]).with_fds(2),
        ),
        (
            EINVAL,
            "unknown unmap",
            Raw::fields(2, raw::DMA_UNMAP, &[24, 4], &[0, 4096]),
        ),
        (
            EINVAL,
            "all and a range",
            Raw::fields(2, raw::DMA_UNMAP, &[24, 2], &[0, 4096]),
        ),
        (
            ENOTSUP,
            "dirty pages",
            Raw::fields(2, raw::DMA_UNMAP, &[24, 1], &[0, 4096]),
        ),
        (
            EINVAL,
            "9 bytes of 8",
            Raw::new(2, WRITE_MULTI, 0, &too_many),
        ),
        (
            EINVAL,
            "more than there is",
            Raw::new(2, WRITE_MULTI, 0, &[0xff; 32]),
        ),
    ];
    for (errno, why, fault) in faults {
        let replies = converse(&[Raw::version(1), fault.clone(), marker()]);
        assert_eq!(replies.len(), 3, "{why}: {replies:?}");
        let reply = &replies[1];
        assert_eq!(
            (reply.id, reply.flags, reply.errno),
            (2, 0x21, errno),
            "{why}"
        );
        assert!(reply.body.is_empty(), "{why}");
        assert!(replies[2].is_of_marker(), "{why}");
        // Does the same with commands that request no reply: none comes, and the server stays in
        // step.
        let mut posted = fault;
        posted.bytes[8] |= NO_REPLY as u8;
        let replies = converse(&[Raw::version(1), posted, marker()]);
        assert_eq!(replies.len(), 2, "{why}");
        assert!(replies[1].is_of_marker(), "{why}");
    }
}

#[test]
fn nothing_comes_before_the_version() {
    let _alone = alone();
    let replies = converse(&conversation()[1..4]);
    let errnos: Vec<u32> = replies.iter().map(|reply| reply.errno).collect();
    assert_eq!(errnos, [EINVAL; 3]);
    for body in [
        &[1, 0, 0, 0][..],
        &[0, 0, 0],
        &[0, 0, 0, 0, b'{'],
        &[0, 0, 0, 0, b'{', 0],
    ] {
        // A better VERSION may follow a refused one.
        let wrong = Raw::new(1, VERSION, 0, body);
        let replies = converse(&[wrong, Raw::version(2), marker()]);
        assert_eq!((replies[0].id, replies[0].errno), (1, EINVAL), "{body:?}");
        assert!(replies[2].is_of_marker());
    }
    let plain = Raw::new(1, VERSION, 0, &[0, 0, 9, 0]);
    let replies = converse(&[plain, marker()]);
    assert_eq!(
        replies[0].body[..4],
        [0, 0, 1, 0],
        "version 0.1, for one without JSON"
    );
    assert!(replies[1].is_of_marker());
}

#[test]
fn write_multi_only_if_both_know_it() {
    let _alone = alone();
    let multi = conversation().swap_remove(15);
    let without = Raw::new(1, VERSION, 0, b"\0\0\x01\0{}\0");
    let replies = converse(&[without, multi.clone(), marker()]);
    assert!(!String::from_utf8_lossy(&replies[0].body).contains("write_multiple"));
    assert_eq!(replies[1].errno, ENOTSUP);
    assert!(replies[2].is_of_marker());
}

#[test]
fn an_impossible_size_ends_the_connection() {
    let _alone = alone();
    for size in [0_u32, 15, 2 << 20, u32::MAX] {
        let mut wrong = marker();
        wrong.bytes[4..8].copy_from_slice(&size.to_le_bytes());
        let replies = converse(&[Raw::version(1), marker(), wrong, marker()]);
        assert_eq!(replies.len(), 2, "size {size}");
        assert!(replies[1].is_of_marker());
    }
}

#[test]
fn a_client_that_goes_anywhere() {
    let _alone = alone();
    let before = fd_count();
    let whole = conversation();
    for cut_message in 0..whole.len() {
        for length in 0..whole[cut_message].bytes.len() {
            let mut part = whole[..=cut_message].to_vec();
            part[cut_message].bytes.truncate(length);
            let replies = converse(&part);
            let wanted = whole[..cut_message]
                .iter()
                .filter(|message| message.bytes[8] == 0);
            assert_eq!(
                replies.len(),
                wanted.count(),
                "cut at {cut_message}:{length}"
            );
        }
    }
    assert_eq!(fd_count(), before, "file descriptors are left");
}

#[test]
fn each_bit_the_wrong_way_round() {
    let _alone = alone();
    let before = fd_count();
    let whole = conversation();
    for (index, message) in whole[..whole.len() - 1].iter().enumerate() {
        for bit in 0..message.bytes.len() * 8 {
            let mut flipped = whole.clone();
            flipped[index].bytes[bit / 8] ^= 1 << (bit % 8);
            let replies = converse(&flipped);
            let in_size = (4..8).contains(&(bit / 8));
            // Without VERSION no other command is executed.
            if !in_size && index > 0 {
                let last = replies.last().expect("a reply");
                assert!(last.is_of_marker(), "message {index}, bit {bit}: {last:?}");
            }
        }
    }
    assert_eq!(fd_count(), before, "file descriptors are left");
}

/// Returns a message with any command, flags, body and file descriptors, but with its right length.
fn any_message() -> impl Strategy<Value = Raw> {
    let flags = prop_oneof![6 => Just(0), 1 => Just(NO_REPLY), 1 => any::<u32>()];
    let byte = prop_oneof![3 => Just(0_u8), 2 => 0..40_u8, 1 => any::<u8>()];
    let word = vec(byte, 4).prop_map(|bytes| bytes.try_into().expect("four"));
    let word = prop_oneof![4 => word, 1 => (0..40_u32).prop_map(u32::to_le_bytes)];
    let body = vec(word, 0..14).prop_map(|words| words.concat());
    let fds = prop_oneof![6 => Just(0_usize), 2 => 1..4_usize, 1 => 15..20_usize];
    (any::<u16>(), 0..20_u16, flags, body, fds).prop_map(|(id, command, flags, body, fds)| {
        Raw::new(id, command, flags, &body).with_fds(fds)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_message_is_answered_once_and_in_order(messages in vec(any_message(), 0..30)) {
        let _alone = alone();
        let before = fd_count();
        let mut sent = vec![Raw::version(1)];
        sent.extend(messages);
        sent.push(marker());
        let wanted: Vec<u16> = sent
            .iter()
            .filter(|message| message.bytes[8] & 0xf != 1 && message.bytes[8] & 0x10 == 0)
            .map(|message| u16::from_le_bytes([message.bytes[0], message.bytes[1]]))
            .collect();
        let replies = converse(&sent);
        let ids: Vec<u16> = replies.iter().map(|reply| reply.id).collect();
        prop_assert_eq!(ids, wanted);
        prop_assert_eq!(fd_count(), before);
    }

    #[test]
    fn any_bytes(version in any::<bool>(), bytes in vec(any::<u8>(), 0..300), fds in 0..20_usize) {
        let _alone = alone();
        let before = fd_count();
        let noise = Raw { bytes, fds };
        if version {
            converse(&[Raw::version(1), noise]);
        } else {
            converse(&[noise]);
        }
        prop_assert_eq!(fd_count(), before);
    }
}

/// Goal: a silent client, or one that stops inside of a message, does not block the device forever;
/// one that has agreed on a version may be silent. Method: short limits, one silence after the
/// other on the same server.
#[test]
fn a_silent_client_is_disconnected_and_the_next_one_served() {
    let _alone = alone();
    let folder = temporary_directory("silent");
    let path = folder.join("socket");
    let timeouts = Timeouts {
        agreement: Some(Duration::from_millis(100)),
        message: Duration::from_millis(100),
    };
    let options = ServerOptions {
        timeouts,
        ..options()
    };
    let server = Server::bind_with(&path, options).expect("a free name");
    let mode = std::fs::metadata(&path).expect("a socket").mode();
    assert_eq!(mode & 0o777, 0o600);
    let (device, stop) = (TestDevice::default(), Stop::new().expect("eventfd"));
    thread::scope(|scope| {
        scope.spawn(|| server.serve(&device, &stop).expect("a listening socket"));
        let connect = || {
            let stream = UnixStream::connect(&path).expect("the server listens");
            stream.set_read_timeout(Some(TIMEOUT)).expect("a socket");
            stream
        };
        let begun = &Raw::version(1).bytes[..20];
        let wrong_version = &Raw::new(1, VERSION, 0, &[7, 0, 0, 0]).bytes[..];
        for said in [&[][..], &begun[..1], begun, wrong_version] {
            let mut silent = connect();
            silent.write_all(said).expect("the server reads");
            let mut rest = Vec::new();
            // The server hangs up: after an error reply, for the last one.
            silent.read_to_end(&mut rest).expect("an end");
            assert_eq!(rest.len(), if said == wrong_version { 16 } else { 0 });
            // A client that meanwhile gets EBUSY tries again.
            let mut next = connect();
            Raw::version(2).send(&next);
            let mut header = [0; 16];
            next.read_exact(&mut header).expect("a reply");
            assert_eq!(header[12..], [0; 4], "served");
            let size = u32::from_le_bytes([header[4], header[5], header[6], header[7]]);
            let mut body = vec![0; size as usize - header.len()];
            next.read_exact(&mut body).expect("the rest of it");
            // Longer than either limit, between messages.
            thread::sleep(3 * Duration::from_millis(100));
            marker().send(&next);
            assert!(raw::replies(&next).last().is_some_and(Reply::is_of_marker));
        }
        stop.stop();
    });
}
