//! Datagrams: a path for each request, and the header in front of each packet.

use ferroce_spec::context::AddressEntry;
use ferroce_spec::wqe::AddressPath;
use ferroce_wire::{Ipv4Header, Ipv6Header};
use zerocopy::IntoBytes;

use crate::contexts::path::Path;
use crate::contexts::queue_pair::QueuePair;
use crate::limits::MAX_GIDS;

/// Bytes in front of a datagram in its receive buffer: a GRH, which has the size and the fields of
/// an IPv6 header (IBTA annex A17.4.1.2).
pub const GRH_LENGTH: usize = 40;

const _: () = assert!(GRH_LENGTH == Ipv6Header::LENGTH);

/// The bytes that stand for the GRH, made of the IP header at the start of `bytes`: an IPv6 header
/// as it is, an IPv4 header in the last bytes behind zeros.
pub fn global_route_header(bytes: &[u8]) -> [u8; GRH_LENGTH] {
    let mut header = [0; GRH_LENGTH];
    let start = match is_ipv4(bytes) {
        true => GRH_LENGTH - Ipv4Header::LENGTH,
        false => 0,
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

/// Returns true if a datagram can take this path.
pub fn is_possible(path: &AddressPath, gids: &[AddressEntry; MAX_GIDS]) -> bool {
    gids.get(usize::from(path.source_gid_index))
        .is_some_and(|source| Path::connects(source, path))
}

/// Sees to it that the next packet of `qp` takes the path of `request`; false: there is no such
/// path any more. Requests to one destination follow each other, so that the last path is kept.
pub fn aim(qp: &mut QueuePair, request: Option<u32>, gids: &[AddressEntry; MAX_GIDS]) -> bool {
    let Some(datagram) = request.and_then(|request| qp.send.datagram(request)) else {
        return false;
    };
    let path = datagram.path;
    let is_same = |last: &AddressPath| last.as_bytes() == path.as_bytes();
    if qp.path.is_some() && qp.datagram_path.as_deref().is_some_and(is_same) {
        return true;
    }
    let source = gids.get(usize::from(path.source_gid_index));
    let Some(mut new) = source.and_then(|source| Path::new(source, &path)) else {
        return false;
    };
    new.identification = qp.path.as_ref().map_or(0, |old| old.identification);
    qp.path = Some(new);
    match &mut qp.datagram_path {
        Some(last) => **last = path,
        None => qp.datagram_path = Some(Box::new(path)),
    }
    true
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
