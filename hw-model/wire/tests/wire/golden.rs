//! Captures of Linux soft-RoCE against this crate: every RoCEv2 frame is accepted, emitted again
//! byte for byte, and carries the ICRC that we compute.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use ferroce_wire::check::Checker;
use ferroce_wire::{
    Aeth, Extension, Frame, FrameKind, Immediate, Ip, Msn, NakCode, NotRoce, Opcode, Psn, QKey,
    Qpn, RnrTimer, Syndrome, classify,
};
use pcap_file::pcap::PcapReader;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden")
}

/// Returns the frames of a capture, by its name without extension.
fn frames(name: &str) -> Vec<Vec<u8>> {
    let path = folder().join(name).with_extension("pcap");
    let file = File::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut reader = PcapReader::new(file).unwrap();
    let mut frames = Vec::new();
    while let Some(packet) = reader.next_packet() {
        frames.push(packet.unwrap().data.into_owned());
    }
    frames
}

fn check(name: &str) -> Checker {
    let mut checker = Checker::new();
    for frame in frames(name) {
        checker.feed(&frame);
    }
    checker
}

fn counts(checker: &Checker) -> BTreeMap<String, u64> {
    checker
        .opcodes()
        .map(|(opcode, count)| (opcode.to_string(), count))
        .collect()
}

fn expected(pairs: &[(&str, u64)]) -> BTreeMap<String, u64> {
    pairs
        .iter()
        .map(|(name, count)| ((*name).to_string(), *count))
        .collect()
}

/// Calls `look` with the accepted RoCEv2 frames of a capture, in order.
fn for_each_roce_frame(name: &str, mut look: impl FnMut(&Frame<'_>)) {
    for bytes in frames(name) {
        if let FrameKind::Roce(frame) = classify(&bytes) {
            look(&frame);
        }
    }
}

/// Each capture with its number of frames, and the number of RoCEv2 frames among them. All others
/// are ARP, IPv6 neighbour discovery, or TCP.
const CAPTURES: [(&str, u64, u64); 27] = [
    ("loss_rc_ack", 79, 63),
    ("loss_rc_last_timeout", 79, 62),
    ("loss_rc_readresp", 82, 65),
    ("loss_rc_request", 82, 64),
    ("loss_write_bw", 2986, 2947),
    ("netem_loss", 851, 822),
    ("perftest_atomic_fadd", 49, 10),
    ("perftest_read_bw", 64, 25),
    ("perftest_send_bw", 53, 25),
    ("perftest_write_bw", 66, 25),
    ("pingpong_rc", 62, 50),
    ("pingpong_uc", 34, 20),
    ("pingpong_ud", 21, 10),
    ("rping_cm", 54, 53),
    ("rvec_rc_1024", 78, 62),
    ("rvec_rc_1024_ipv6", 82, 62),
    ("rvec_rc_badkey", 23, 4),
    ("rvec_rc_rnr", 92, 74),
    ("rvec_uc_1024", 42, 27),
    ("rvec_ud_1024", 27, 8),
    ("udaddy_cm", 8, 8),
    ("e1000/perftest_read_bw", 63, 25),
    ("e1000/pingpong_rc", 62, 50),
    ("e1000/pingpong_ud", 22, 10),
    ("stream/perftest_write_bw", 66, 25),
    ("stream/pingpong_rc", 63, 50),
    ("tap/tap_bridge", 153, 153),
];

#[test]
fn every_frame_re_emits_and_verifies() {
    for (name, frames, roce_frames) in CAPTURES {
        let checker = check(name);
        assert_eq!(checker.first_malformed(), None, "{name}");
        assert_eq!(checker.first_difference(), None, "{name}");
        assert_eq!(checker.first_icrc_failure(), None, "{name}");
        assert!(checker.is_clean(), "{name}");
        assert_eq!(checker.frames(), frames, "{name}");
        assert_eq!(checker.roce_frames(), roce_frames, "{name}");

        let others: u64 = checker.others().map(|(_, count)| count).sum();
        assert_eq!(others, frames - roce_frames, "{name}");
        for (other, _) in checker.others() {
            const ARP: NotRoce = NotRoce::EtherType(0x0806);
            const TCP: NotRoce = NotRoce::IpProtocol(6);
            const ICMP_V6: NotRoce = NotRoce::IpProtocol(58);
            const HOP_BY_HOP: NotRoce = NotRoce::IpProtocol(0);
            assert!(
                [ARP, TCP, ICMP_V6, HOP_BY_HOP].contains(&other),
                "{name}: {other}"
            );
        }
    }
}

#[test]
fn no_capture_is_forgotten() {
    let mut found = 0;
    for folder in [
        folder(),
        folder().join("e1000"),
        folder().join("stream"),
        folder().join("tap"),
    ] {
        for entry in folder.read_dir().unwrap() {
            let is_capture = entry
                .unwrap()
                .path()
                .extension()
                .is_some_and(|it| it == "pcap");
            found += usize::from(is_capture);
        }
    }
    assert_eq!(found, CAPTURES.len());
}

#[test]
fn reliable_connection_has_the_known_packets() {
    let everything = expected(&[
        ("RC_ACKNOWLEDGE", 18),
        ("RC_ATOMIC_ACKNOWLEDGE", 3),
        ("RC_COMPARE_SWAP", 2),
        ("RC_FETCH_ADD", 1),
        ("RC_RDMA_READ_REQUEST", 3),
        ("RC_RDMA_READ_RESPONSE_FIRST", 1),
        ("RC_RDMA_READ_RESPONSE_LAST", 1),
        ("RC_RDMA_READ_RESPONSE_MIDDLE", 3),
        ("RC_RDMA_READ_RESPONSE_ONLY", 2),
        ("RC_SEND_FIRST", 3),
        ("RC_SEND_LAST", 2),
        ("RC_SEND_LAST_WITH_IMMEDIATE", 1),
        ("RC_SEND_MIDDLE", 3),
        ("RC_SEND_ONLY", 8),
        ("RC_SEND_ONLY_WITH_IMMEDIATE", 1),
        ("RC_RDMA_WRITE_FIRST", 2),
        ("RC_RDMA_WRITE_LAST", 1),
        ("RC_RDMA_WRITE_LAST_WITH_IMMEDIATE", 1),
        ("RC_RDMA_WRITE_MIDDLE", 2),
        ("RC_RDMA_WRITE_ONLY", 3),
        ("RC_RDMA_WRITE_ONLY_WITH_IMMEDIATE", 1),
    ]);
    assert_eq!(counts(&check("rvec_rc_1024")), everything);
    assert_eq!(
        counts(&check("rvec_rc_1024_ipv6")),
        everything,
        "the same over IPv6"
    );
}

#[test]
fn other_captures_have_the_known_packets() {
    for (name, packets) in [
        (
            "loss_write_bw",
            &[
                ("RC_ACKNOWLEDGE", 36),
                ("RC_RDMA_WRITE_FIRST", 361),
                ("RC_RDMA_WRITE_LAST", 366),
                ("RC_RDMA_WRITE_MIDDLE", 2184),
            ][..],
        ),
        (
            "pingpong_uc",
            &[("UC_SEND_FIRST", 10), ("UC_SEND_LAST", 10)],
        ),
        ("pingpong_ud", &[("UD_SEND_ONLY", 10)]),
        (
            "rvec_ud_1024",
            &[("UD_SEND_ONLY", 7), ("UD_SEND_ONLY_WITH_IMMEDIATE", 1)],
        ),
        (
            "udaddy_cm",
            &[("UD_SEND_ONLY", 2), ("UD_SEND_ONLY_WITH_IMMEDIATE", 6)],
        ),
        (
            "perftest_atomic_fadd",
            &[("RC_ATOMIC_ACKNOWLEDGE", 5), ("RC_FETCH_ADD", 5)],
        ),
        (
            "rvec_rc_rnr",
            &[("RC_ACKNOWLEDGE", 37), ("RC_SEND_ONLY", 37)],
        ),
    ] {
        assert_eq!(counts(&check(name)), expected(packets), "{name}");
    }
}

/// The client of `rvec` counts from 0xfffffa, so that its packet numbers wrap; its payloads follow
/// a rule: byte i of a message of length n is 3 i + n.
#[test]
fn values_are_those_that_the_programs_printed() {
    let mut requests = 0u32;
    let mut immediates = Vec::new();
    for_each_roce_frame("rvec_rc_1024", |frame| {
        let Ip::V4(ip) = frame.ip else {
            panic!("{frame}")
        };
        let properties = frame.headers.bth.opcode.parse().unwrap();
        assert_eq!(
            (ip.ttl, ip.traffic_class, ip.dont_fragment),
            (64, 0x28, true)
        );
        assert_eq!(frame.udp.checksum, 0);
        assert_eq!(frame.headers.bth.dest_qp, Qpn::new(0x11));
        if !properties.is_request() {
            return;
        }
        if requests == 0 {
            assert_eq!(frame.headers.bth.psn, Psn::new(0xff_fffa));
        }
        requests += 1;
        match frame.headers.extension {
            Extension::Immediate(immediate) | Extension::RethImmediate(_, immediate) => {
                immediates.push(immediate);
            }
            Extension::Reth(reth) => assert!([0x2e7, 0x2af].contains(&reth.r_key.0), "{frame}"),
            _ => {}
        }
        if frame.headers.bth.opcode == Opcode(0x04) {
            let length = frame.payload_length();
            let rule: Vec<u8> = (0..length)
                .map(|index| (3 * index + length) as u8)
                .collect();
            assert_eq!(frame.payload(), rule, "{frame}");
        }
    });
    assert_eq!(
        immediates,
        [
            [0xa1, 0xb2, 0xc3, 0xd4],
            [1, 2, 3, 4],
            [0xfe, 0xed, 0xf0, 0x0d],
            [0xfe, 0xed, 0xf0, 0x0e]
        ]
        .map(Immediate)
    );
}

#[test]
fn ipv6_carries_no_udp_checksum_either() {
    for_each_roce_frame("rvec_rc_1024_ipv6", |frame| {
        assert!(matches!(frame.ip, Ip::V6(_)));
        assert_eq!(frame.udp.checksum, 0);
        assert!(frame.ip.source_gid().is_link_local());
    });
}

#[test]
fn negative_acknowledges() {
    let syndromes = |name| {
        let mut syndromes = Vec::new();
        for_each_roce_frame(name, |frame| {
            if let Extension::Aeth(Aeth { syndrome, .. }) = frame.headers.extension {
                if !matches!(syndrome, Syndrome::Ack { .. }) {
                    syndromes.push(syndrome);
                }
            }
        });
        syndromes
    };
    let sequence_error = Syndrome::Nak(NakCode::PsnSequenceError);
    assert_eq!(syndromes("loss_rc_request"), [sequence_error]);
    assert_eq!(
        syndromes("rvec_rc_badkey"),
        [Syndrome::Nak(NakCode::RemoteAccessError)]
    );
    let not_ready = Syndrome::RnrNak {
        timer: RnrTimer::new(14),
    };
    let rnr_naks = syndromes("rvec_rc_rnr");
    assert!(
        !rnr_naks.is_empty() && rnr_naks.iter().all(|it| *it == not_ready),
        "{rnr_naks:?}"
    );
}

#[test]
fn message_numbers_count_up() {
    let mut last = Msn::new(0);
    for_each_roce_frame("pingpong_rc", |frame| {
        if let Extension::Aeth(aeth) = frame.headers.extension {
            assert!((0..=1).contains(&aeth.msn.distance_from(last)), "{frame}");
            last = aeth.msn;
        }
    });
    assert_eq!(last, Msn::new(5));
}

#[test]
fn connection_manager_speaks_on_qp_1() {
    let mut datagrams = 0;
    for_each_roce_frame("rping_cm", |frame| {
        if let Extension::Deth(deth) = frame.headers.extension {
            assert_eq!(frame.headers.bth.dest_qp, Qpn::GSI);
            assert_eq!((deth.q_key, deth.source_qp), (QKey::GSI, Qpn::GSI));
            assert_eq!(frame.payload_length(), 256, "a MAD");
            datagrams += 1;
        }
    });
    assert_eq!(datagrams, 5);
    let names = |name| -> Vec<_> {
        let checker = check(name);
        assert!(checker.is_clean());
        let messages = checker.messages();
        messages.map(|(kind, count)| (kind.name(), count)).collect()
    };
    let connection = ["REQ", "REP", "RTU", "DREQ", "DREP"];
    assert_eq!(names("rping_cm"), connection.map(|name| (name, 1)));
    assert_eq!(names("udaddy_cm"), [("SIDR_REQ", 1), ("SIDR_REP", 1)]);
    assert_eq!(names("pingpong_rc"), []);
}

/// A checker that cannot fail proves nothing: each kind of damage is detected and located.
#[test]
fn damage_is_found() {
    let mut frame = frames("tap/tap_bridge").remove(10);
    let last = frame.len() - 1;
    frame[last] ^= 1;
    let mut checker = Checker::new();
    checker.feed(&frames("udaddy_cm")[0]);
    checker.feed(&frame);
    assert_eq!(checker.icrc_failures(), 1);
    let failure = checker.first_icrc_failure().unwrap();
    assert_eq!(
        (failure.frame, failure.expected ^ failure.actual),
        (2, 0x0100_0000)
    );

    checker.feed(&frame[..last]);
    assert_eq!(checker.malformed(), 1);
    assert_eq!(checker.first_malformed().unwrap().0, 3);
    assert!(!checker.is_clean());
}
