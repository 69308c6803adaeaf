//! Reasons why bytes were refused.

use crate::opcode::Opcode;

/// The bytes are not a frame that this crate can represent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The bytes end inside a header.
    #[error("{header} needs {needed} bytes, {available} are left")]
    Truncated {
        /// The header that was being read.
        header: &'static str,
        /// The length of that header in bytes.
        needed: usize,
        /// Remaining bytes.
        available: usize,
    },
    /// The headers of this opcode are unknown: it is reserved, or a Reliable Datagram opcode.
    #[error("opcode {:#04x} is reserved or not supported", .0.0)]
    UnknownOpcode(Opcode),
    /// The opcode requires other headers than the given ones.
    #[error("{0} does not go with these extension headers")]
    IllegalExtension(Opcode),
    /// A valid frame that is not RoCEv2.
    #[error("not RoCEv2: {0}")]
    NotRoce(NotRoce),
    /// An IP version field that contradicts the EtherType.
    #[error("IP version {0} contradicts the EtherType")]
    IpVersion(u8),
    /// IPv4 options, which the ICRC of RoCEv2 does not define.
    #[error("IPv4 header of {0} bytes: options are not supported")]
    Ipv4Options(usize),
    /// The first fragment of a RoCEv2 packet in IPv4, or the reserved flag.
    #[error("IPv4 fragment or reserved flag (flags and offset {0:#06x})")]
    Ipv4Fragment(u16),
    /// A wrong IPv4 header checksum.
    #[error("IPv4 header checksum is {actual:#06x}, computed {expected:#06x}")]
    Ipv4Checksum {
        /// Computed over the header.
        expected: u16,
        /// Found in the header.
        actual: u16,
    },
    /// A length field that contradicts the lower layer or the length of the frame.
    #[error("{field} is {actual}, {limit} expected or available")]
    Length {
        /// The length field.
        field: &'static str,
        /// Its value in bytes.
        actual: usize,
        /// The expected or maximum value, in bytes.
        limit: usize,
    },
    /// Payload and pad are not a multiple of four bytes, or the pad count exceeds their length.
    #[error("payload with pad has {length} bytes, pad count is {pad_count}")]
    Pad {
        /// Bytes between the last header and the ICRC.
        length: usize,
        /// The pad count of the BTH.
        pad_count: u8,
    },
}

/// Kind of a frame that is not RoCEv2, by the first field that shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum NotRoce {
    /// Neither IPv4 nor IPv6 (ARP is 0x0806), or a length (IEEE 802.3) if below 0x0600.
    #[error("EtherType {0:#06x}")]
    EtherType(u16),
    /// An IP protocol other than UDP (TCP is 6), or an IPv6 extension header.
    #[error("IP protocol {0}")]
    IpProtocol(u8),
    /// A fragment of an IPv4 packet, other than the first: it has no port.
    #[error("IPv4 fragment")]
    IpFragment,
    /// A UDP destination port other than 4791.
    #[error("UDP destination port {0}")]
    UdpPort(u16),
}
