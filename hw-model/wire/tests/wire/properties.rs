//! Properties of every frame: parse inverts emit, emit inverts parse, and nothing panics.

use std::collections::BTreeSet;

use crate::common::{all_packets, packet, parts, path, payload};
use ferroce_wire::{
    Bth, Error, Extension, Frame, FrameKind, IcrcMode, Immediate, NetworkPath, Opcode,
    PathTemplate, Psn, Qpn, Reth, Transport, TransportHeaders, classify, emit_frame, finish,
    pad_count,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

const BUFFER_LENGTH: usize = 8192;

fn emit(path: &NetworkPath, headers: &TransportHeaders, payload: &[u8]) -> Vec<u8> {
    let mut buffer = vec![0xaa; BUFFER_LENGTH];
    emit_frame(path, headers, payload, IcrcMode::Computed, &mut buffer).to_vec()
}

/// Checks that accepted bytes are emitted again unchanged.
fn re_emits(bytes: &[u8]) -> Result<(), TestCaseError> {
    if let FrameKind::Roce(frame) = classify(bytes) {
        let mut buffer = vec![0xaa; BUFFER_LENGTH];
        prop_assert_eq!(&*frame.emit(&mut buffer), frame.bytes());
        prop_assert!(bytes.starts_with(frame.bytes()));
        frame.icrc_is_valid();
    }
    Ok(())
}

proptest! {
    #[test]
    fn parse_inverts_emit(path in path(), packet in packet(), payload in payload()) {
        let bytes = emit(&path, &packet, &payload);
        let frame = Frame::parse(&bytes).expect("what can be built can be parsed");
        let mut headers = packet;
        headers.bth.pad_count = pad_count(payload.len());
        prop_assert_eq!(frame.path(), path);
        prop_assert_eq!(frame.headers, headers);
        prop_assert_eq!(frame.payload(), &payload[..]);
        prop_assert!(frame.icrc_is_valid());
        prop_assert_eq!(frame.bytes(), &bytes[..]);
    }

    #[test]
    fn parse_inverts_emit_of_transport_headers(packet in packet()) {
        let mut buffer = [0xaa; 64];
        let length = packet.emit(&mut buffer);
        prop_assert_eq!(length, packet.length());
        let properties = packet.bth.opcode.parse().expect("made by a constructor");
        prop_assert_eq!(length, properties.header_length());
        prop_assert_eq!(TransportHeaders::parse(&buffer), Ok((packet, length)));
        prop_assert!(buffer[length..].iter().all(|byte| *byte == 0xaa));
        for short in 0..length {
            let error = TransportHeaders::parse(&buffer[..short]);
            let is_truncated = matches!(error, Err(Error::Truncated { .. }));
            prop_assert!(is_truncated, "{} of {} bytes", short, length);
        }
    }

    #[test]
    fn emit_inverts_parse_of_transport_headers(bytes: [u8; 64]) {
        if let Ok((headers, length)) = TransportHeaders::parse(&bytes) {
            let mut buffer = [0; 64];
            prop_assert_eq!(headers.emit(&mut buffer), length);
            prop_assert_eq!(&buffer[..length], &bytes[..length]);
            prop_assert!(headers.is_legal());
        }
    }

    #[test]
    fn any_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        re_emits(&bytes)?;
    }

    /// Frames with some bytes overwritten, removed or added get further than random bytes.
    #[test]
    fn damaged_frames_are_answered(
        path in path(),
        packet in packet(),
        payload in payload(),
        damage in proptest::collection::vec((0usize..120, any::<u8>()), 0..4),
        length in prop_oneof![Just(usize::MAX), 0usize..200],
        padding in 0usize..50,
    ) {
        let mut bytes = emit(&path, &packet, &payload);
        for (offset, value) in damage {
            if let Some(byte) = bytes.get_mut(offset) {
                *byte = value;
            }
        }
        bytes.truncate(length);
        bytes.resize(bytes.len() + padding, 0x55);
        re_emits(&bytes)?;
    }

    /// No checksum hides damage after the IP header from the transport's parser.
    #[test]
    fn damaged_transport_headers_are_answered(
        path in path(), packet in packet(), payload in payload(),
        damage in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..9),
    ) {
        let mut bytes = emit(&path, &packet, &payload);
        let start = path.length();
        for (offset, value) in damage {
            let offset = start + offset.index(bytes.len() - start);
            bytes[offset] = value;
        }
        re_emits(&bytes)?;
    }

    /// Ethernet pads short frames; the length in the IP header counts.
    #[test]
    fn trailing_padding_is_ignored(path in path(), packet in packet(), padding in 1usize..50) {
        let bytes = emit(&path, &packet, &[]);
        let mut padded = bytes.clone();
        padded.resize(bytes.len() + padding, 0);
        let frame = Frame::parse(&padded).expect("padded, not damaged");
        prop_assert_eq!(frame.bytes(), &bytes[..]);
        prop_assert!(frame.icrc_is_valid());
    }

    /// The ICRC detects each single changed byte of transport headers and payload, except the byte
    /// with FECN and BECN, which routers may change.
    #[test]
    fn icrc_covers_the_transport(
        path in path(), packet in packet(), payload in payload(),
        offset in any::<proptest::sample::Index>(), flip in 1u8..,
    ) {
        let bytes = emit(&path, &packet, &payload);
        let frame = Frame::parse(&bytes).expect("not damaged");
        let layout = *frame.layout();
        let offset = layout.bth() + offset.index(bytes.len() - layout.bth());
        let mut damaged = bytes.clone();
        damaged[offset] ^= flip;
        let is_masked = offset == layout.bth() + 4;
        let icrc_fits = |bytes: &[u8]| {
            let carried = u32::from_le_bytes(
                bytes[layout.icrc()].try_into().expect("four bytes")
            );
            carried == ferroce_wire::icrc::compute(bytes, &layout)
        };
        prop_assert!(icrc_fits(&bytes));
        prop_assert_eq!(icrc_fits(&damaged), is_masked);
    }

    /// A router decrements hops, marks congestion and rewrites the checksum: the ICRC stays valid.
    #[test]
    fn icrc_survives_the_way(
        path in path(), packet in packet(), payload in payload(),
        traffic_class: u8, hop_limit: u8, checksum: u16,
    ) {
        use ferroce_wire::Ip;
        let bytes = emit(&path, &packet, &payload);
        let mut routed = path;
        match &mut routed.ip {
            Ip::V4(v4) => (v4.traffic_class, v4.ttl) = (traffic_class, hop_limit),
            Ip::V6(v6) => {
                (v6.traffic_class, v6.hop_limit) = (traffic_class, hop_limit);
                v6.flow_label ^= u32::from(checksum);
            }
        }
        routed.udp.checksum = checksum;
        let mut headers = packet;
        headers.bth.fecn = !packet.bth.fecn;
        let routed_bytes = emit(&routed, &headers, &payload);
        prop_assert_eq!(&bytes[bytes.len() - 4..], &routed_bytes[routed_bytes.len() - 4..]);
    }

    /// A template builds the same frames as emitting header by header, whatever it has sent before.
    #[test]
    fn template_is_stateless(
        path in path(),
        packets in proptest::collection::vec((packet(), payload(), any::<u16>()), 1..4),
    ) {
        use ferroce_wire::Ip;
        let template = PathTemplate::new(&path);
        let mut buffer = vec![0xaa; BUFFER_LENGTH];
        for (packet, payload, identification) in packets {
            let layout = template.emit(&packet, payload.len(), identification, &mut buffer);
            prop_assert_eq!(layout.length(), template.frame_length(&packet, payload.len()));
            buffer[layout.payload()].copy_from_slice(&payload);
            finish(&mut buffer, &layout, IcrcMode::Computed);
            let mut path = path;
            if let Ip::V4(v4) = &mut path.ip {
                v4.identification = identification;
            }
            prop_assert_eq!(&buffer[..layout.length()], &emit(&path, &packet, &payload)[..]);
        }
    }

    #[test]
    fn a_trusted_wire_carries_zero(path in path(), packet in packet(), payload in payload()) {
        let mut buffer = vec![0xaa; BUFFER_LENGTH];
        let bytes = emit_frame(&path, &packet, &payload, IcrcMode::Zero, &mut buffer);
        prop_assert_eq!(&bytes[bytes.len() - 4..], &[0; 4]);
        let frame = Frame::parse(bytes).expect("the ICRC is not judged by parse");
        prop_assert_eq!(frame.payload(), &payload[..]);
    }
}

/// The constructors reach each supported opcode exactly once, and `new` accepts an extension only
/// for the opcodes that require it.
#[test]
fn constructors_cover_all_legal_pairs() {
    let mut runner = TestRunner::deterministic();
    let parts = parts().new_tree(&mut runner).expect("no filter").current();
    let packets = all_packets(&parts);
    let reached: BTreeSet<Opcode> = packets.iter().map(|packet| packet.bth.opcode).collect();
    assert_eq!(reached.len(), packets.len());

    for value in 0..=u8::MAX {
        let opcode = Opcode(value);
        let known = opcode
            .parse()
            .filter(|it| it.transport != Transport::ReliableDatagram);
        assert_eq!(reached.contains(&opcode), known.is_some(), "{opcode}");
        for packet in &packets {
            let pair = TransportHeaders::new(
                Bth {
                    opcode,
                    ..packet.bth
                },
                packet.extension,
            );
            let demanded = opcode.parse().map(|it| it.headers());
            let is_legal = demanded == Some(packet.extension.headers());
            assert_eq!(
                pair.is_ok(),
                is_legal,
                "{opcode} with {:?}",
                packet.extension
            );
        }
    }
}

#[test]
fn unknown_opcodes_are_refused() {
    for value in [
        0x18, 0x1f, 0x36, 0x40, 0x51, 0x60, 0x80, 0x82, 0xb5, 0xc0, 0xff,
    ] {
        let mut bytes = [0; 64];
        bytes[0] = value;
        let expected = Error::UnknownOpcode(Opcode(value));
        assert_eq!(TransportHeaders::parse(&bytes), Err(expected));
    }
}

#[test]
fn illegal_pairs_are_refused() {
    let reth = Reth {
        virtual_address: 0,
        r_key: ferroce_wire::RKey(0),
        dma_length: 0,
    };
    let read_request = Opcode(0x0c);
    let bth = Bth::new(read_request, Qpn::new(2), Psn::new(0));
    let with_immediate = Extension::RethImmediate(reth, Immediate([0; 4]));
    let illegal = Err(Error::IllegalExtension(read_request));
    assert_eq!(TransportHeaders::new(bth, with_immediate), illegal);
}
