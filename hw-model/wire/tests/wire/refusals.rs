//! Inconsistent frames are refused with the reason.

use ferroce_wire::{
    Bth, Connected, Error, Frame, Gid, IcrcMode, Mac, NetworkPath, Opcode, Psn, Qpn, SendPart,
    Station, TransportHeaders, UdpHeader, emit_frame,
};

/// Ethernet, IPv6 and UDP before the BTH
const BTH: usize = 14 + 40 + 8;
const PAD_COUNT_BYTE: usize = BTH + 1;

/// Returns a SEND over IPv6, which has no header checksum that would mask the tested fault.
fn send(payload: &[u8]) -> Vec<u8> {
    let [source, destination] = [1, 2].map(|host| {
        let mac = Mac([2, 0, 0, 0, 0, host]);
        let gid = Gid::link_local(mac);
        Station { mac, gid }
    });
    let udp = UdpHeader::of_flow(Qpn::new(2), Qpn::new(3));
    let path = NetworkPath::new(source, destination, udp);
    let bth = Bth::new(Opcode(0), Qpn::new(3), Psn::new(0));
    let headers = TransportHeaders::send(bth, Connected::Reliable, SendPart::Only);
    let mut buffer = [0; 256];
    emit_frame(&path, &headers, payload, IcrcMode::Computed, &mut buffer).to_vec()
}

/// Cuts the frame to `length` bytes and adjusts the lengths in IP and UDP.
fn cut(mut bytes: Vec<u8>, length: usize) -> Vec<u8> {
    bytes.truncate(length);
    let udp_length = u16::try_from(length - 14 - 40)
        .expect("a short frame")
        .to_be_bytes();
    bytes[18..20].copy_from_slice(&udp_length);
    bytes[58..60].copy_from_slice(&udp_length);
    bytes
}

fn refusal(bytes: &[u8]) -> Error {
    Frame::parse(bytes).expect_err("spoiled")
}

#[test]
fn the_frame_itself_is_accepted() {
    let bytes = send(&[1, 2, 3, 4, 5]);
    let frame = Frame::parse(&bytes).expect("not spoiled");
    assert_eq!(frame.payload(), [1, 2, 3, 4, 5]);
    assert_eq!(frame.layout().pad(), BTH + 17..BTH + 20);
    assert_eq!(cut(bytes.clone(), bytes.len()), bytes);
}

#[test]
fn payload_must_be_a_multiple_of_four_with_its_pad() {
    let bytes = send(&[0; 8]);
    for missing in [1, 2, 3] {
        let spoiled = cut(bytes.clone(), bytes.len() - missing);
        assert_eq!(
            refusal(&spoiled),
            Error::Pad {
                length: 8 - missing,
                pad_count: 0
            }
        );
    }
}

#[test]
fn pad_must_fit() {
    let mut bytes = send(&[]);
    bytes[PAD_COUNT_BYTE] = 0x10;
    assert_eq!(
        refusal(&bytes),
        Error::Pad {
            length: 0,
            pad_count: 1
        }
    );
}

#[test]
fn headers_and_icrc_must_fit() {
    let bytes = send(&[]);
    let needs = |header, needed, available| Error::Truncated {
        header,
        needed,
        available,
    };
    assert_eq!(refusal(&cut(bytes.clone(), BTH + 15)), needs("ICRC", 4, 3));
    assert_eq!(refusal(&cut(bytes.clone(), BTH + 11)), needs("BTH", 12, 11));

    let mut write = bytes.clone();
    write[BTH] = 0x0a; // RDMA WRITE Only: a RETH of 16 bytes should follow
    assert_eq!(refusal(&write), needs("RETH", 16, 4));
}

#[test]
fn lengths_of_the_layers_must_agree() {
    let bytes = send(&[0; 4]);
    let length = |field, actual, limit| Error::Length {
        field,
        actual,
        limit,
    };

    let mut short_udp = bytes.clone();
    short_udp[59] -= 4;
    assert_eq!(refusal(&short_udp), length("UDP length", 24, 28));

    let missing_byte = &bytes[..bytes.len() - 1];
    assert_eq!(refusal(missing_byte), length("IPv6 payload length", 28, 27));
}

#[test]
fn ip_version_must_fit_the_ether_type() {
    let mut bytes = send(&[]);
    bytes[12..14].copy_from_slice(&[0x08, 0x00]);
    assert_eq!(refusal(&bytes), Error::IpVersion(6));
}
