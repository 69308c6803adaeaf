//! Packets of the captures of Linux soft-RoCE.

use std::path::Path;

use ferroce_wire::{Frame, Gid, Transport, TransportHeaders};

/// A packet of a capture.
pub struct Captured {
    pub source: Gid,
    pub headers: TransportHeaders,
    pub payload_length: u32,
}

/// Returns the packets of one service in a capture (classic pcap, little-endian, Ethernet).
pub fn packets(name: &str, transport: Transport) -> Vec<Captured> {
    const FILE_HEADER: usize = 24;
    const RECORD_HEADER: usize = 16;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
    let file =
        std::fs::read(folder.join(name).with_extension("pcap")).expect("the capture is there");
    let mut rest = &file[FILE_HEADER..];
    let mut packets = Vec::new();
    while rest.len() >= RECORD_HEADER {
        let length = u32::from_le_bytes(rest[8..12].try_into().expect("four bytes")) as usize;
        let (record, next) = rest[RECORD_HEADER..].split_at(length);
        rest = next;
        let Ok(frame) = Frame::parse(record) else {
            continue;
        };
        let known = frame.headers.bth.opcode.parse().expect("it was parsed");
        if known.transport == transport {
            packets.push(Captured {
                source: frame.ip.source_gid(),
                headers: frame.headers,
                payload_length: frame.payload().len() as u32,
            });
        }
    }
    packets
}
