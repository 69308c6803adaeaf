//! The Internet checksum (RFC 1071).

use std::net::Ipv6Addr;

/// Returns the checksum of bytes in which its own field is zero. Over bytes with a valid checksum:
/// 0.
pub fn checksum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0u32;
    for part in parts {
        // Only the last part may have an odd length.
        for word in part.chunks(2) {
            let low = word.get(1).copied().unwrap_or(0);
            sum += u32::from(u16::from_be_bytes([word[0], low]));
            sum = (sum & 0xffff) + (sum >> 16);
        }
    }
    !(sum as u16)
}

/// Returns the checksum of an ICMPv6 message, which covers a pseudo-header (RFC 8200, 8.1).
pub fn icmpv6_checksum(source: Ipv6Addr, destination: Ipv6Addr, message: &[u8]) -> u16 {
    let length = (message.len() as u32).to_be_bytes();
    let next_header = [0, 0, 0, super::ipv6::ICMPV6];
    checksum(&[
        &source.octets(),
        &destination.octets(),
        &length,
        &next_header,
        message,
    ])
}
