//! Depacketizer: frame to transport headers, with every reason to drop it counted.

use std::ops::Range;

use ferroce_spec::counter::Counter;
use ferroce_wire::{Frame, Gid, TransportHeaders};

use crate::counters::Counters;

/// A frame that made sense.
#[derive(Debug, Clone)]
pub struct Parsed {
    /// Transport headers.
    pub headers: TransportHeaders,
    /// GID of the sender.
    pub source: Gid,
    /// GID to which it was sent.
    pub destination: Gid,
    /// Where the IP header lies in the frame.
    pub ip: usize,
    /// Where the payload lies in the frame.
    pub payload: Range<usize>,
}

/// Reads a frame; `None`: dropped and counted. Frames that are not RoCEv2 count as malformed:
/// nothing behind this MAC takes them.
#[inline(always)]
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
