//! The GRH before a datagram in its receive buffer.

use ferroce_wire::{Ipv4Header, Ipv6Header};

/// Bytes before a datagram in its receive buffer: a GRH, with the size and the fields of an IPv6
/// header (IBTA annex A17.4.1.2).
pub const GRH_LENGTH: usize = 40;

const _: () = assert!(GRH_LENGTH == Ipv6Header::LENGTH);

/// Returns the bytes of the GRH for the IP header at the start of `bytes`: an IPv6 header
/// unchanged, an IPv4 header in the last bytes with zeros before it.
pub fn global_route_header(bytes: &[u8]) -> [u8; GRH_LENGTH] {
    let mut header = [0; GRH_LENGTH];
    let start = if is_ipv4(bytes) {
        GRH_LENGTH - Ipv4Header::LENGTH
    } else {
        0
    };
    if let Some(ip) = bytes.get(..GRH_LENGTH - start) {
        header[start..].copy_from_slice(ip);
    }
    header
}

/// Returns true if `bytes` begin with an IPv4 header.
pub fn is_ipv4(bytes: &[u8]) -> bool {
    const IPV4: u8 = 4;
    bytes.first().is_some_and(|first| first >> 4 == IPV4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grh_is_the_ip_header() {
        let mut bytes = [7u8; 60];
        bytes[0] = 0x45;
        let header = global_route_header(&bytes);
        assert_eq!(header[..20], [0; 20]);
        assert_eq!((header[20], &header[21..]), (0x45, &[7u8; 19][..]));
        bytes[0] = 0x60;
        assert_eq!(global_route_header(&bytes)[..], bytes[..40]);
        assert_eq!(global_route_header(&[0x60]), [0; GRH_LENGTH], "too short");
    }
}
