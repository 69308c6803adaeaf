//! Blocks of pcapng, with time stamps and ICRC.

use crate::Frame;

/// Type of the block that begins a section.
pub const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
/// Type of the block that describes an interface.
pub const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
const LINKTYPE_ETHERNET: u16 = 1;
const OPTION_END: u16 = 0;
const OPTION_COMMENT: u16 = 1;
const OPTION_APPLICATION: u16 = 4;
const OPTION_INTERFACE_NAME: u16 = 2;
const OPTION_INTERFACE_ABOUT: u16 = 3;
const OPTION_TIMESTAMP_RESOLUTION: u16 = 9;
const OPTION_PACKET_FLAGS: u16 = 2;
/// Timestamps count units of 10^-9 s.
pub const NANOSECONDS: u8 = 9;

/// Computes the ICRC of a frame and writes it; other frames are not changed.
pub fn write_icrc(frame: &mut [u8]) {
    let Ok(parsed) = Frame::parse(frame) else {
        return;
    };
    let (icrc, place) = (parsed.computed_icrc(), parsed.layout().icrc());
    frame[place].copy_from_slice(&icrc.to_le_bytes());
}

/// Direction of a frame through an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// The interface received it.
    Inbound,
    /// The interface sent it.
    Outbound,
}

/// Returns the block of a frame at `interface`, with a comment if there is one; `time` in units of
/// the interface's resolution.
pub fn packet_block(
    interface: u32,
    time: u64,
    direction: Direction,
    frame: &[u8],
    comment: Option<&str>,
) -> Vec<u8> {
    let options = packet_options(direction, comment);
    let mut block = Vec::with_capacity(frame.len() + 64);
    let length = begin_packet(&mut block, interface, time, frame, options.len());
    block.extend(options);
    block.extend(length.to_le_bytes());
    block
}

/// Returns the options of a frame's block: its direction, and a comment if there is one.
pub fn packet_options(direction: Direction, comment: Option<&str>) -> Vec<u8> {
    let flags: u32 = match direction {
        Direction::Inbound => 1,
        Direction::Outbound => 2,
    };
    let mut options = Vec::new();
    if let Some(comment) = comment {
        option(&mut options, OPTION_COMMENT, comment.as_bytes());
    }
    option(&mut options, OPTION_PACKET_FLAGS, &flags.to_le_bytes());
    option(&mut options, OPTION_END, b"");
    options
}

/// Writes the block of a frame up to its options; returns its whole length, which is repeated at
/// its end.
pub fn begin_packet(
    block: &mut Vec<u8>,
    interface: u32,
    time: u64,
    frame: &[u8],
    options: usize,
) -> u32 {
    let padded = frame.len().next_multiple_of(4);
    let length = (32 + padded + options) as u32;
    for word in [
        ENHANCED_PACKET,
        length,
        interface,
        (time >> 32) as u32,
        time as u32,
        frame.len() as u32,
        frame.len() as u32,
    ] {
        block.extend(word.to_le_bytes());
    }
    block.extend(frame);
    block.resize(block.len() + padded - frame.len(), 0);
    length
}

/// An interface of a capture.
#[derive(Debug, Clone)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// What it is, if there is more to say.
    pub about: Option<String>,
    /// Its time stamps count units of 10^-`resolution` s.
    pub resolution: u8,
}

/// Returns the header of a section.
pub fn section_header() -> Vec<u8> {
    let mut section = Vec::new();
    section.extend(BYTE_ORDER_MAGIC.to_le_bytes());
    section.extend(1u16.to_le_bytes()); // version 1.0
    section.extend(0u16.to_le_bytes());
    section.extend(u64::MAX.to_le_bytes()); // length of the section: not specified
    option(&mut section, OPTION_APPLICATION, b"Ferroce");
    option(&mut section, OPTION_END, b"");
    block(SECTION_HEADER, &section)
}

/// Returns the description of an interface; its number is that of descriptions before it in the
/// section.
pub fn interface_description(interface: &Interface) -> Vec<u8> {
    let mut body = Vec::new();
    body.extend(LINKTYPE_ETHERNET.to_le_bytes());
    body.extend(0u16.to_le_bytes()); // reserved
    body.extend(0u32.to_le_bytes()); // no limit of the captured length
    option(&mut body, OPTION_INTERFACE_NAME, interface.name.as_bytes());
    if let Some(about) = &interface.about {
        option(&mut body, OPTION_INTERFACE_ABOUT, about.as_bytes());
    }
    let resolution = [interface.resolution];
    option(&mut body, OPTION_TIMESTAMP_RESOLUTION, &resolution);
    option(&mut body, OPTION_END, b"");
    block(INTERFACE_DESCRIPTION, &body)
}

fn option(block: &mut Vec<u8>, code: u16, value: &[u8]) {
    block.extend(code.to_le_bytes());
    block.extend((value.len() as u16).to_le_bytes());
    block.extend(value);
    block.resize(block.len().next_multiple_of(4), 0);
}

fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let length = (12 + body.len() as u32).to_le_bytes();
    [&kind.to_le_bytes(), &length, body, &length].concat()
}
