//! Frames of the fabric.

use std::net::Ipv4Addr;

use ferroce_wire::{
    Gid, IcrcMode, Mac, NetworkPath, Qpn, Station, TransportHeaders, UdpHeader, emit_frame,
};

/// Returns an RC SEND Only over IPv4 on loopback, without ICRC.
pub fn send_frame(source: Mac, dest_qp: Qpn, payload: &[u8]) -> Vec<u8> {
    let local = Station {
        mac: source,
        gid: Gid::from_ipv4(Ipv4Addr::LOCALHOST),
    };
    let udp = UdpHeader::parse(&[0xc0, 0, 0x12, 0xb7, 0, 8, 0, 0]).expect("well formed");
    let path = NetworkPath::new(local, local, udp);
    let [_, a, b, c] = dest_qp.value().to_be_bytes();
    // Opcode RC SEND Only, default P_Key, PSN 1.
    let bth = [0x04, 0, 0xff, 0xff, 0, a, b, c, 0, 0, 0, 1];
    let send = [&bth[..], payload].concat();
    let (headers, _) = TransportHeaders::parse(&send).expect("well formed");
    let mut buffer = [0; 4096];
    emit_frame(&path, &headers, payload, IcrcMode::Zero, &mut buffer).to_vec()
}

/// As [`send_frame`], with default addresses.
pub fn write_frame(payload: &[u8]) -> Vec<u8> {
    send_frame(Mac([2, 0, 0, 0, 0, 1]), Qpn::new(0x1_0001), payload)
}
