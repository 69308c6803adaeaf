//! Frames between QP 1 of two hosts: the datagrams that Linux sends, field by field.

use ferroce_host::numbered_hosts;
use ferroce_rdma_cm::Transmit;
use ferroce_wire::path::{IcrcMode, emit_frame};
use ferroce_wire::{
    Bth, Deth, Frame, Gid, NetworkPath, Opcode, Psn, QKey, Qpn, Station, TransportHeaders,
    UdpHeader,
};

/// The UDP source port of a flow label of zero.
const SOURCE_PORT: u16 = 0xc000;
/// Longest headers of such a frame, in bytes, with its ICRC.
const MAX_HEADERS: usize = 128;

/// A received datagram.
pub struct Received<'a> {
    /// Source
    pub from: Gid,
    /// Destination
    pub to: Gid,
    /// The datagram
    pub mad: &'a [u8],
}

/// Returns the frame of a datagram between these two hosts.
pub fn emit(transmit: &Transmit, from: usize, to: usize, number: u32) -> Vec<u8> {
    let source = Station {
        mac: numbered_hosts::mac_of(from),
        gid: transmit.from,
    };
    let destination = Station {
        mac: numbered_hosts::mac_of(to),
        gid: transmit.to,
    };
    let udp = UdpHeader {
        source_port: SOURCE_PORT,
        checksum: 0,
    };
    let path = NetworkPath::new(source, destination, udp);
    // `emit_frame` sets the opcode according to the headers.
    let mut bth = Bth::new(Opcode(0), Qpn::GSI, Psn::new(number));
    // Linux sets it in management datagrams; no receiver evaluates it (IBTA vol 1, 9.2).
    bth.ack_request = true;
    let deth = Deth::new(QKey::GSI, Qpn::GSI);
    let headers = TransportHeaders::datagram(bth, deth, None);
    let payload = &transmit.mad[..];
    let mut buffer = vec![0; MAX_HEADERS + payload.len()];
    let length = emit_frame(&path, &headers, payload, IcrcMode::Computed, &mut buffer).len();
    buffer.truncate(length);
    buffer
}

/// Returns the datagram in a frame.
pub fn parse(bytes: &[u8]) -> Option<Received<'_>> {
    let frame = Frame::parse(bytes).ok()?;
    Some(Received {
        from: frame.ip.source_gid(),
        to: frame.ip.destination_gid(),
        mad: frame.payload(),
    })
}
