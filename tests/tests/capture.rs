//! Frames as other tools decode them: tshark and `ferroce wire check` on our captures.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use ferroce_tests::capture::{expect_decoded, opcodes, tshark, wire_check};
use ferroce_tests::{Pair, Scratch};

/// Opcodes of RC (IBTA vol 1, table 38).
mod opcode {
    pub const SEND_FIRST: u8 = 0x00;
    pub const SEND_MIDDLE: u8 = 0x01;
    pub const SEND_LAST: u8 = 0x02;
    pub const SEND_ONLY: u8 = 0x04;
    pub const WRITE_FIRST: u8 = 0x06;
    pub const WRITE_MIDDLE: u8 = 0x07;
    pub const WRITE_LAST: u8 = 0x08;
    pub const READ_REQUEST: u8 = 0x0c;
    pub const READ_RESPONSE_FIRST: u8 = 0x0d;
    pub const READ_RESPONSE_MIDDLE: u8 = 0x0e;
    pub const READ_RESPONSE_LAST: u8 = 0x0f;
    pub const ACKNOWLEDGE: u8 = 0x11;
}

/// Programs that send, write and read messages of many packets.
const PROGRAMS: &[(&str, &[&str])] = &[
    (
        "ibv_rc_pingpong",
        &["-g", "1", "-s", "5000", "-n", "20", "-m", "1024"],
    ),
    ("ib_write_bw", &["-F", "-s", "65536", "-n", "5"]),
    ("ib_read_bw", &["-F", "-s", "65536", "-n", "5"]),
];

/// The opcodes in a capture with [`PROGRAMS`] on both sides.
const EXPECTED: &[u8] = &[
    opcode::SEND_FIRST,
    opcode::SEND_MIDDLE,
    opcode::SEND_LAST,
    opcode::WRITE_FIRST,
    opcode::WRITE_MIDDLE,
    opcode::WRITE_LAST,
    opcode::READ_REQUEST,
    opcode::READ_RESPONSE_FIRST,
    opcode::READ_RESPONSE_MIDDLE,
    opcode::READ_RESPONSE_LAST,
    opcode::ACKNOWLEDGE,
];

/// The sides of a pair that write the capture.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Sides {
    Both,
    Server,
    Client,
}

/// Runs [`PROGRAMS`]; all append to the capture `file`.
fn capture(scratch: &Scratch, file: &str, sides: Sides) {
    let path = scratch.path(file);
    let capture = ["--capture", path.to_str().expect("our own name")];
    let on = |is_on: bool| -> &[&str] { if is_on { &capture } else { &[] } };
    for (program, arguments) in PROGRAMS {
        let pair = Pair {
            program,
            arguments,
            options: &[],
        };
        let (server, client) = (sides != Sides::Client, sides != Sides::Server);
        pair.start(scratch, on(server), on(client)).finish();
    }
}

fn expect_good_capture(scratch: &Scratch, file: &str) -> BTreeMap<u8, u64> {
    let seen = opcodes(scratch, file);
    for opcode in EXPECTED {
        assert!(
            seen.contains_key(opcode),
            "no opcode {opcode:#04x}: {seen:?}"
        );
    }
    expect_decoded(scratch, file, &seen);
    seen
}

/// Goal: lost packets and the reserved bits of our recovery modes do not disturb tools. Method: a
/// capture with loss for each mode, whose requests have the bits of the mode
/// (`hw-model/wire/src/recovery.rs`).
#[test]
fn captures_with_loss_are_right_in_each_recovery_mode() {
    for (mode, expected) in [
        ("go-back-n", 0),
        ("selective-repeat", 0x40),
        ("adaptive-routing", 0x60),
    ] {
        let scratch = Scratch::new();
        let file = "loss.pcapng";
        let capture = scratch.path(file);
        let capture = capture.to_str().expect("our own name");
        for program in ["ib_write_bw", "ib_read_bw"] {
            let pair = Pair {
                program,
                arguments: &["-F", "-n", "40", "-u", "10"],
                options: &[
                    "--recovery",
                    mode,
                    "--faults",
                    "loss=2e-2,seed=5",
                    "--capture",
                    capture,
                ],
            };
            pair.run_in(&scratch);
        }
        expect_decoded(&scratch, file, &opcodes(&scratch, file));
        let lost = tshark(&scratch, file, &["-Y", "frame.comment"]);
        assert!(lost.contains('→'), "{mode}: nothing was lost");
        let requests = "infiniband.bth.opcode <= 12";
        let field = "infiniband.bth.reserved7";
        let bits = tshark(
            &scratch,
            file,
            &["-Y", requests, "-T", "fields", "-e", field],
        );
        let bits: Vec<u8> = bits.lines().filter_map(|line| line.parse().ok()).collect();
        // Some have the bit for further packets of the same message.
        let more = 0x10;
        let are_right = bits.iter().all(|bits| bits & !more == expected);
        assert!(are_right && bits.len() > 40, "{mode}: {bits:?}");
    }
}

/// Goal: if an answer's event wakes a program, the program also finds the completion of its
/// request, as with a NIC that acknowledges at once. Method: check in a capture that the server
/// acknowledges each SEND before it answers.
#[test]
fn an_event_acknowledges_before_the_answer() {
    let scratch = Scratch::new();
    let file = "events.pcapng";
    let pair = Pair {
        program: "ib_send_lat",
        arguments: &["-F", "-e", "-n", "1000"],
        options: &[],
    };
    let path = scratch.path(file);
    let capture = ["--capture", path.to_str().expect("our own name")];
    pair.start(&scratch, &[], &capture).finish();
    let fields = ["infiniband.bth.destqp", "infiniband.bth.opcode"];
    let fields = fields.iter().flat_map(|field| ["-e", field]);
    let arguments: Vec<_> = ["-T", "fields"].into_iter().chain(fields).collect();
    let frames = tshark(&scratch, file, &arguments);
    let mut frames = frames.lines().filter_map(|line| {
        let (destination, opcode) = line.split_once('\t')?;
        Some((destination, opcode.parse::<u8>().ok()?))
    });
    let (server, first) = frames.next().expect("frames");
    assert_eq!(first, opcode::SEND_ONLY);
    let (mut is_acknowledged, mut answers) = (false, 0);
    for (destination, opcode) in frames {
        match (destination == server, opcode) {
            (true, opcode::SEND_ONLY) => is_acknowledged = false,
            (false, opcode::ACKNOWLEDGE) => is_acknowledged = true,
            (false, opcode::SEND_ONLY) => {
                assert!(is_acknowledged, "answer {answers} came before the ACK");
                answers += 1;
            }
            _ => {}
        }
    }
    assert_eq!(answers, 1000);
}

/// Returns the values of fields that tshark shows, without duplicates.
fn values(scratch: &Scratch, file: &str, options: &[&str], fields: &[&str]) -> BTreeSet<String> {
    let fields = fields.iter().flat_map(|field| ["-e", field]);
    let arguments: Vec<_> = options
        .iter()
        .copied()
        .chain(["-T", "fields"])
        .chain(fields)
        .collect();
    let shown = tshark(scratch, file, &arguments);
    let lines = shown.lines().filter(|line| !line.starts_with("Running as"));
    lines.map(str::to_owned).collect()
}

/// Goal: a capture shows which process has sent a frame, and which frame it answers or repeats.
/// Method: two processes with loss write one file; tshark reads it with our script.
#[test]
fn interfaces_directions_and_what_is_between_the_packets() {
    const SCRIPT: &str = concat!(
        "lua_script:",
        env!("CARGO_MANIFEST_DIR"),
        "/../packaging/wireshark/ferroce.lua"
    );
    let scratch = Scratch::new();
    let file = "between.pcapng";
    let capture = scratch.path(file);
    let capture = capture.to_str().expect("our own name");
    let pair = Pair {
        program: "ib_write_bw",
        arguments: &["-F", "-n", "200", "-u", "10"],
        options: &["--faults", "loss=2e-2,seed=5", "--capture", capture],
    };
    pair.run_in(&scratch);
    let interfaces = values(&scratch, file, &[], &["frame.interface_name"]);
    let named = |name: &String| name.starts_with("ferroce0 pid ");
    assert!(
        interfaces.len() == 2 && interfaces.iter().all(named),
        "{interfaces:?}"
    );
    let about = values(&scratch, file, &[], &["frame.interface_description"]);
    assert!(
        about
            .iter()
            .all(|about| about.starts_with("ib_write_bw on host ")),
        "{about:?}"
    );
    let directions = values(&scratch, file, &[], &["frame.packet_flags_direction"]);
    assert!(
        !directions.contains("") && !directions.is_empty(),
        "{directions:?}"
    );
    // The file has each frame once, so a PSN occurs twice only if it was sent twice.
    let filter = |filter| ["-X", SCRIPT, "-2", "-Y", filter];
    let lost = values(&scratch, file, &filter("frame.comment"), &["frame.number"]);
    let resent = filter("ferroce.retransmission && infiniband.bth.opcode <= 12");
    let resent = values(
        &scratch,
        file,
        &resent,
        &["frame.number", "ferroce.first_in"],
    );
    let answers = filter("ferroce.acknowledges && infiniband.bth.opcode == 17");
    let answers = values(&scratch, file, &answers, &["ferroce.response_time"]);
    assert!(
        !lost.is_empty() && !resent.is_empty(),
        "{lost:?} {resent:?}"
    );
    let is_time = |time: &String| time.parse().is_ok_and(|time: f64| time >= 0.0);
    assert!(
        !answers.is_empty() && answers.iter().all(is_time),
        "{answers:?}"
    );
}

/// Goal: a capture of both sides holds each frame once, decodes, and has valid ICRCs. Method:
/// messages of known numbers of packets, seen by tshark and by `ferroce wire check`.
#[test]
fn a_capture_of_both_sides_is_right() {
    let scratch = Scratch::new();
    capture(&scratch, "both.pcapng", Sides::Both);
    let seen = expect_good_capture(&scratch, "both.pcapng");
    // 20 messages of 5 packets each way. On a busy machine, time-outs may repeat some; but if both
    // sides wrote each frame, there would be at least 80.
    let first = seen[&opcode::SEND_FIRST];
    assert!((40..80).contains(&first), "{seen:?}");
}

/// Goal: a capture of one side has the frames that it sends and the frames that it receives.
#[test]
fn a_capture_of_one_side_is_right() {
    let scratch = Scratch::new();
    capture(&scratch, "client.pcapng", Sides::Client);
    let client = expect_good_capture(&scratch, "client.pcapng");
    assert!(client[&opcode::SEND_FIRST] >= 40, "{client:?}");
    capture(&scratch, "server.pcapng", Sides::Server);
    let server = expect_good_capture(&scratch, "server.pcapng");
    assert!(server[&opcode::SEND_FIRST] >= 40, "{server:?}");
}

/// Goal: one wrong byte is found. Method: the last byte of payload of a known frame.
#[test]
fn a_wrong_byte_is_found() {
    let scratch = Scratch::new();
    let golden = root().join("tests/golden/pingpong_rc.pcap");
    let good = fs::read(&golden).expect("the golden captures are there");
    let (frame, start) = first_roce_frame(&good);
    // Last byte in front of the ICRC of the first RoCEv2 frame, which is a SEND with payload.
    let length = u32::from_le_bytes(good[start - 8..start - 4].try_into().expect("4 bytes"));
    let mut bad = good;
    bad[start + length as usize - 5] ^= 1;
    let file = scratch.path("bad.pcap");
    fs::write(&file, &bad).expect("the scratch directory can be written");
    let ended = wire_check(&scratch, &file);
    let code = ended.status.and_then(|status| status.code());
    assert_eq!(code, Some(1), "{ended:?}");
    assert!(ended.output.contains("BAD ICRC: 1 frames"), "{ended:?}");
    let named = format!("first frame {frame}:");
    assert!(ended.output.contains(&named), "not {named} in {ended:?}");
}

/// Goal: a frame with a wrong header is reported with its error. Method: a wrong IPv4 checksum,
/// which the ICRC does not cover.
#[test]
fn a_wrong_header_is_found() {
    const IPV4_CHECKSUM: usize = 14 + 10;
    let scratch = Scratch::new();
    let golden = root().join("tests/golden/pingpong_rc.pcap");
    let mut bytes = fs::read(&golden).expect("the golden captures are there");
    let (frame, start) = first_roce_frame(&bytes);
    bytes[start + IPV4_CHECKSUM] ^= 1;
    let file = scratch.path("bad.pcap");
    fs::write(&file, &bytes).expect("the scratch directory can be written");
    let ended = wire_check(&scratch, &file);
    let code = ended.status.and_then(|status| status.code());
    assert_eq!(code, Some(1), "{ended:?}");
    let named = format!("first frame {frame}: IPv4 header checksum");
    assert!(ended.output.contains(&named), "not {named} in {ended:?}");
}

/// Returns the number, from 1, and the offset of the first frame to UDP port 4791 in a
/// little-endian pcap file.
fn first_roce_frame(file: &[u8]) -> (u64, usize) {
    const FILE_HEADER: usize = 24;
    const FRAME_HEADER: usize = 16;
    const UDP: u8 = 17;
    let mut at = FILE_HEADER;
    let mut number = 0;
    loop {
        number += 1;
        let length = file[at + 8..at + 12].try_into().expect("4 bytes");
        let start = at + FRAME_HEADER;
        at = start + u32::from_le_bytes(length) as usize;
        let frame = &file[start..at];
        if frame[12..14] == [0x08, 0x00] && frame[23] == UDP && frame[36..38] == [0x12, 0xb7] {
            return (number, start);
        }
    }
}

fn root() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Goal: frames from Linux are emitted again without a difference.
#[test]
fn captures_of_linux_are_clean() {
    let scratch = Scratch::new();
    let golden = root().join("tests/golden");
    let entries = fs::read_dir(&golden).expect("the golden captures are there");
    let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| {
        path.extension()
            .is_some_and(|extension| extension == "pcap")
    });
    assert!(files.len() >= 15, "{files:?}");
    let mut command = scratch.ferroce(&["wire", "check"]);
    command.args(&files);
    scratch.finish(command).expect_success();
}

/// Goal: files that are not captures are reported, without a crash.
#[test]
fn what_is_no_capture_is_refused() {
    let scratch = Scratch::new();
    let file = scratch.path("text");
    fs::write(&file, "this is not a capture, but long enough for one").expect("written");
    for path in [file.as_path(), Path::new("/nothing/here.pcap")] {
        let ended = wire_check(&scratch, path);
        let code = ended.status.and_then(|status| status.code());
        assert!(code.is_some_and(|code| code > 0), "{ended:?}");
        let name = path.to_str().expect("our own name");
        assert!(ended.output.contains(name), "{ended:?}");
    }
}

/// Messages of the connection manager: attribute identifiers (IBTA vol 1, table 98).
mod cm {
    pub const REQ: &str = "0x0010";
    pub const REJ: &str = "0x0012";
    pub const REP: &str = "0x0013";
    pub const RTU: &str = "0x0014";
    pub const DREQ: &str = "0x0015";
    pub const DREP: &str = "0x0016";
    pub const SIDR_REQ: &str = "0x0017";
    pub const SIDR_REP: &str = "0x0018";
}

/// Captures of programs on the model, with Linux on the other side, and the messages in them.
const INTEROP: &[(&str, &[&str])] = &[
    (
        "rping_ipv6_model_serves",
        &[cm::REQ, cm::REP, cm::RTU, cm::DREQ, cm::DREP],
    ),
    ("rejected_ipv4_guest_serves", &[cm::REQ, cm::REJ]),
    (
        "rejected_ipv4_model_serves",
        &[
            cm::REQ,
            cm::REJ,
            cm::REQ,
            cm::REP,
            cm::RTU,
            cm::DREQ,
            cm::DREP,
        ],
    ),
    ("udaddy_ipv4_guest_serves", &[cm::SIDR_REQ, cm::SIDR_REP]),
];

/// Goal: Linux and the model use the same RDMA CM messages. Method: tshark and `ferroce wire check`
/// read captures of `tests/scripts/qemu-roce`.
#[test]
fn captures_with_linux_are_clean() {
    let scratch = Scratch::new();
    for (name, expected) in INTEROP {
        let file = root().join(format!("tests/golden/interop/{name}.pcapng"));
        let path = file.to_str().expect("our own name");
        let malformed = tshark(&scratch, path, &["-Y", "_ws.malformed || !infiniband"]);
        assert!(!malformed.contains('→'), "{name}: {malformed}");
        let fields = ["-T", "fields", "-e", "infiniband.mad.attributeid"];
        let seen = tshark(&scratch, path, &fields);
        let messages: Vec<_> = seen.lines().filter(|line| line.starts_with("0x")).collect();
        assert_eq!(messages, *expected, "{name}");
        wire_check(&scratch, &file).expect_success();
    }
}

/// Goal: Linux and the model use the same packets for FLUSH and ATOMIC WRITE, and for the answers.
/// Method: each packet of `tests/c/remote_log.c` is decoded, and emitted again byte for byte.
#[test]
fn captures_with_linux_have_flush_and_atomic_write() {
    let scratch = Scratch::new();
    for serves in ["guest", "model"] {
        let name = format!("tests/golden/interop/remote_log_gid1_{serves}_serves.pcapng");
        let output = wire_check(&scratch, &root().join(name)).expect_success();
        for (opcode, count) in [
            ("RC_FLUSH", "14"),
            ("RC_ATOMIC_WRITE", "10"),
            ("RC_RDMA_READ_RESPONSE_ONLY", "16"),
        ] {
            let found = output
                .lines()
                .find(|line| line.trim_start().starts_with(&format!("{opcode} ")));
            assert!(
                found.is_some_and(|line| line.trim_end().ends_with(&format!(" {count}"))),
                "{serves}: {opcode}: {output}"
            );
        }
    }
}
