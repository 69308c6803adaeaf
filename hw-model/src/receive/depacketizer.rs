//! Depacketizer: parses a frame to transport headers, and counts every reason to drop it.

use std::ops::Range;

use ferroce_spec::counter::Counter;
use ferroce_wire::{Frame, Gid, TransportHeaders};

use crate::counters::Counters;

/// A valid frame.
#[derive(Debug, Clone)]
pub struct Parsed {
    /// Transport headers.
    pub headers: TransportHeaders,
    /// GID of the sender.
    pub source: Gid,
    /// GID of the destination.
    pub destination: Gid,
    /// Offset of the IP header in the frame.
    pub ip: usize,
    /// Range of the payload in the frame.
    pub payload: Range<usize>,
}

/// Parses a frame; `None`: dropped and counted. Frames that are not RoCEv2 count as malformed,
/// because nothing else on this card takes them.
#[inline]
pub fn parse(bytes: &[u8], check_icrc: bool, counters: &mut Counters) -> Option<Parsed> {
    counters.add(Counter::rx_frames, 1);
    counters.add(Counter::rx_bytes, bytes.len() as u64);
    let Ok(frame) = Frame::parse(bytes) else {
        counters.add(Counter::rx_malformed, 1);
        return None;
    };
    if check_icrc && !frame.icrc_is_valid() {
        counters.add(Counter::rx_icrc_errors, 1);
        return None;
    }
    Some(Parsed {
        headers: frame.headers,
        source: frame.ip.source_gid(),
        destination: frame.ip.destination_gid(),
        ip: frame.layout().ip(),
        payload: frame.layout().payload(),
    })
}
