//! Private data of the RDMA IP CM service (IBTA vol 1, annex A11.3): the IP addresses of both
//! sides, before the consumer's data.

use core::net::{IpAddr, Ipv4Addr};

use super::layout::{PrivateData, layout};
use crate::address::Gid;

layout! {
    /// The header at the start of the private data of a REQ or SIDR_REQ (table A11-3).
    pub struct IpCmHeader of 288 bits {
        /// MajV: major version of the format, 0
        pub major_version: u8 = 4,
        /// MinV: minor version
        pub minor_version: u8 = 4,
        /// IPV: 4 or 6
        pub ip_version: u8 = 4,
        /// Sent as zero, kept when received
        pub reserved4: u8 = 4,
        /// Source Port
        pub source_port: u16 = 16,
        /// Source IP Address; an IPv4 address is in its last four bytes
        pub source_ip_address: PrivateData<16> = 128,
        /// Destination IP Address; an IPv4 address is in its last four bytes
        pub destination_ip_address: PrivateData<16> = 128,
    }
}

impl IpCmHeader {
    /// Returns the header between two addresses, of IPv4 if both are.
    #[must_use]
    pub const fn new(source: IpAddr, source_port: u16, destination: IpAddr) -> Self {
        let (ip_version, source, destination) = match (source, destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => (4, last(source), last(destination)),
            _ => (6, Gid::from_ip(source).0, Gid::from_ip(destination).0),
        };
        Self {
            major_version: 0,
            minor_version: 0,
            ip_version,
            reserved4: 0,
            source_port,
            source_ip_address: PrivateData(source),
            destination_ip_address: PrivateData(destination),
        }
    }

    /// Returns source and destination address; None for an unknown version of IP or of the header.
    #[must_use]
    pub fn addresses(&self) -> Option<(IpAddr, IpAddr)> {
        let address = |data: &PrivateData<16>| match self.ip_version {
            4 => {
                let [.., a, b, c, d] = data.0;
                Some(IpAddr::from([a, b, c, d]))
            }
            6 => Some(IpAddr::from(data.0)),
            _ => None,
        };
        if self.major_version != 0 {
            return None;
        }
        let source = address(&self.source_ip_address)?;
        Some((source, address(&self.destination_ip_address)?))
    }
}

/// An IPv4 address in the last four of 16 bytes.
const fn last(address: Ipv4Addr) -> [u8; 16] {
    let [a, b, c, d] = address.octets();
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, a, b, c, d]
}
