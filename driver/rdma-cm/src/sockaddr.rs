//! C layouts of socket addresses.

use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use ferroce_wire::Gid;
use zerocopy::IntoBytes;

use crate::abi::{SockaddrIb, SockaddrIn6, SockaddrStorage};
use crate::errno::Errno;

const AF_UNSPEC: u16 = 0;
const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;
/// Addresses of InfiniBand, `struct sockaddr_ib`.
pub(crate) const AF_IB: u16 = 27;

const SOCKADDR_IN_LENGTH: u16 = 16;
const SOCKADDR_IN6_LENGTH: u16 = 28;

/// Reads the address at the start of `bytes`, which has room for a `sockaddr_in6`. Returns `None`
/// if it is unspecified.
///
/// InfiniBand addresses are refused: librdmacm tries them first, and then uses the commands for IP
/// addresses.
///
/// # Errors
///
/// EINVAL for a family other than IPv4 or IPv6.
pub(crate) fn parse(bytes: &[u8]) -> Result<Option<SocketAddr>, Errno> {
    let Some(([family @ .., p, q], _)) = bytes.split_first_chunk::<4>() else {
        return Err(Errno::EINVAL);
    };
    let port = u16::from_be_bytes([*p, *q]);
    match u16::from_ne_bytes(*family) {
        AF_UNSPEC => Ok(None),
        AF_INET => {
            let ip = Ipv4Addr::from(array(bytes, 4)?);
            Ok(Some(SocketAddrV4::new(ip, port).into()))
        }
        AF_INET6 => {
            let flow_info = u32::from_be_bytes(array(bytes, 4)?);
            let ip = Ipv6Addr::from(array::<16>(bytes, 8)?);
            let scope = u32::from_ne_bytes(array(bytes, 24)?);
            Ok(Some(SocketAddrV6::new(ip, port, flow_info, scope).into()))
        }
        _ => Err(Errno::EINVAL),
    }
}

/// Reads an address that must be specified.
pub(crate) fn parse_given(bytes: &[u8]) -> Result<SocketAddr, Errno> {
    parse(bytes)?.ok_or(Errno::EINVAL)
}

/// Reads an address with its size.
pub(crate) fn parse_sized(bytes: &SockaddrStorage, size: u16) -> Result<SocketAddr, Errno> {
    let address = parse_given(bytes)?;
    if length(Some(&address)) == size {
        Ok(address)
    } else {
        Err(Errno::EINVAL)
    }
}

fn array<const N: usize>(bytes: &[u8], offset: usize) -> Result<[u8; N], Errno> {
    let rest = bytes.get(offset..).ok_or(Errno::EINVAL)?;
    rest.first_chunk().copied().ok_or(Errno::EINVAL)
}

/// Returns the size of the C structure of an address.
pub(crate) const fn length(address: Option<&SocketAddr>) -> u16 {
    match address {
        None => 0,
        Some(SocketAddr::V4(_)) => SOCKADDR_IN_LENGTH,
        Some(SocketAddr::V6(_)) => SOCKADDR_IN6_LENGTH,
    }
}

/// Returns the C structure of an address; zeros for none.
pub(crate) fn to_sockaddr_in6(address: Option<&SocketAddr>) -> SockaddrIn6 {
    let mut bytes = [0; 28];
    match address {
        None => {}
        Some(SocketAddr::V4(v4)) => {
            bytes[..2].copy_from_slice(&AF_INET.to_ne_bytes());
            bytes[2..4].copy_from_slice(&v4.port().to_be_bytes());
            bytes[4..8].copy_from_slice(&v4.ip().octets());
        }
        Some(SocketAddr::V6(v6)) => {
            bytes[..2].copy_from_slice(&AF_INET6.to_ne_bytes());
            bytes[2..4].copy_from_slice(&v6.port().to_be_bytes());
            bytes[4..8].copy_from_slice(&v6.flowinfo().to_be_bytes());
            bytes[8..24].copy_from_slice(&v6.ip().octets());
            bytes[24..28].copy_from_slice(&v6.scope_id().to_ne_bytes());
        }
    }
    bytes
}

/// Returns `struct sockaddr_storage` with an address.
pub(crate) fn to_storage(address: Option<&SocketAddr>) -> SockaddrStorage {
    let mut bytes = [0; 128];
    bytes[..28].copy_from_slice(&to_sockaddr_in6(address));
    bytes
}

/// Returns `struct sockaddr_storage` with an address of InfiniBand.
pub(crate) fn ib_to_storage(address: &SockaddrIb) -> SockaddrStorage {
    let mut bytes = [0; 128];
    bytes[..size_of::<SockaddrIb>()].copy_from_slice(address.as_bytes());
    bytes
}

/// Returns the GID of an address.
pub(crate) fn gid(address: &SocketAddr) -> Gid {
    Gid::from_ip(address.ip())
}

/// Returns `like` with the IP of a GID: an IPv4 address only if both are IPv4.
pub(crate) fn with_gid(like: &SocketAddr, gid: Gid) -> SocketAddr {
    let mut address = *like;
    match (like, gid.to_ipv4()) {
        (SocketAddr::V4(_), Some(v4)) => address.set_ip(v4.into()),
        _ => address.set_ip(gid.to_ipv6().into()),
    }
    address
}

/// Returns the same address with another port.
pub(crate) fn with_port(address: &SocketAddr, port: u16) -> SocketAddr {
    let mut address = *address;
    address.set_port(port);
    address
}

/// Returns the wildcard address of a family.
pub(crate) fn any(like: &SocketAddr) -> SocketAddr {
    match like {
        SocketAddr::V4(_) => SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, 0, 0, 0).into(),
    }
}

/// Returns true for 127.0.0.0/8 and ::1.
pub(crate) fn is_loopback(gid: Gid) -> bool {
    let v4 = gid.to_ipv4();
    gid.to_ipv6().is_loopback() || v4.is_some_and(|v4| v4.is_loopback())
}

/// Returns true if both addresses have the same IP version.
pub(crate) fn is_same_version(one: Gid, other: Gid) -> bool {
    one.to_ipv4().is_some() == other.to_ipv4().is_some()
}
