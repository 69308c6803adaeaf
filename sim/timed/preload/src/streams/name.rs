//! Common names of the two directions of a connection at both ends.

use std::net::{IpAddr, SocketAddr};

use crate::descriptor::Descriptor;

/// A direction of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stream(pub u64);

/// The two directions, as one end sees them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connection {
    /// The direction that this end writes.
    pub outgoing: Stream,
    /// The direction that this end reads.
    pub incoming: Stream,
}

impl Connection {
    /// Returns the connection of a descriptor, if it is a connected TCP socket.
    #[inline]
    pub fn of(descriptor: Descriptor) -> Option<Self> {
        let local = descriptor.local()?;
        Some(Self::new(local, descriptor.peer()?))
    }

    /// Returns the connection of a TCP socket that is about to be connected to `peer`.
    pub fn to_peer(descriptor: Descriptor, peer: SocketAddr) -> Option<Self> {
        Some(Self::new(descriptor.local()?, peer))
    }

    /// Returns the names for the socket at `local`, which is connected to the one at `peer`.
    pub fn new(local: SocketAddr, peer: SocketAddr) -> Self {
        Self {
            outgoing: Stream::new(local, peer),
            incoming: Stream::new(peer, local),
        }
    }
}

impl Stream {
    fn new(from: SocketAddr, to: SocketAddr) -> Self {
        let mut hash = Fnv::default();
        for end in [from, to] {
            match end.ip().to_canonical() {
                IpAddr::V4(address) => hash.take(&address.octets()),
                IpAddr::V6(address) => hash.take(&address.octets()),
            }
            hash.take(&end.port().to_be_bytes());
        }
        // Zero is no stream.
        Self(hash.0.max(1))
    }
}

/// FNV-1a, 64 bits.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn take(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn the_ends_agree() {
        let client = Connection::new(at("127.0.0.1:40000"), at("127.0.0.1:18515"));
        let server = Connection::new(at("127.0.0.1:18515"), at("127.0.0.1:40000"));
        assert_eq!(client.outgoing, server.incoming);
        assert_eq!(client.incoming, server.outgoing);
        assert_ne!(client.incoming, client.outgoing);
    }

    #[test]
    fn mapped_addresses_are_those_that_they_map() {
        let plain = Connection::new(at("10.0.0.1:1"), at("10.0.0.2:2"));
        let mapped = Connection::new(at("[::ffff:10.0.0.1]:1"), at("[::ffff:10.0.0.2]:2"));
        assert_eq!(plain, mapped);
    }

    #[test]
    fn the_hash_is_the_published_one() {
        let mut hash = Fnv::default();
        hash.take(b"foobar");
        assert_eq!(hash.0, 0x8594_4171_f739_67e8);
    }
}
