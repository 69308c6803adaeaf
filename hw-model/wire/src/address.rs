//! MAC addresses and GIDs.

use core::fmt;
use core::net::{AddrParseError, IpAddr, Ipv4Addr, Ipv6Addr};
use core::str::FromStr;

/// An Ethernet MAC address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// All ones: every station.
    pub const BROADCAST: Self = Self([0xff; 6]);

    /// Returns true if the group bit is set (multicast or broadcast).
    #[inline]
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// Returns the EUI-64 of this address, as in the lower half of a link-local GID.
    pub const fn to_eui64(self) -> [u8; 8] {
        let [a, b, c, d, e, f] = self.0;
        // RFC 4291, appendix A: ff:fe goes into the middle, the universal/local bit is inverted.
        [a ^ 0x02, b, c, 0xff, 0xfe, d, e, f]
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mac({self})")
    }
}

/// The text is not six hexadecimal bytes separated by colons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a MAC address is written as six hexadecimal bytes: 02:00:00:00:00:01")]
pub struct MacParseError;

impl FromStr for Mac {
    type Err = MacParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut bytes = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            let part = parts.next().ok_or(MacParseError)?;
            let is_hex = part.bytes().all(|digit| digit.is_ascii_hexdigit());
            if part.is_empty() || part.len() > 2 || !is_hex {
                return Err(MacParseError);
            }
            *byte = u8::from_str_radix(part, 16).map_err(|_| MacParseError)?;
        }
        if parts.next().is_some() {
            Err(MacParseError)
        } else {
            Ok(Self(bytes))
        }
    }
}

/// A global identifier: the address of a port. With RoCEv2 it is the port's IPv6 address, or its
/// IPv4 address as an IPv4-mapped IPv6 address (`::ffff:a.b.c.d`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Gid(pub [u8; 16]);

impl Gid {
    /// The unspecified address.
    pub const UNSPECIFIED: Self = Self([0; 16]);

    /// Returns the IPv4-mapped GID of an IPv4 address.
    pub const fn from_ipv4(address: Ipv4Addr) -> Self {
        Self(address.to_ipv6_mapped().octets())
    }

    /// Returns the IPv4 address of an IPv4-mapped GID; `None` for any other GID.
    pub fn to_ipv4(self) -> Option<Ipv4Addr> {
        self.to_ipv6().to_ipv4_mapped()
    }

    /// Returns the GID as an IPv6 address.
    pub fn to_ipv6(self) -> Ipv6Addr {
        Ipv6Addr::from(self.0)
    }

    /// Returns the GID of an IP address of either version.
    pub const fn from_ip(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(v4) => Self::from_ipv4(v4),
            IpAddr::V6(v6) => Self(v6.octets()),
        }
    }

    /// Returns the link-local GID (`fe80::` and the EUI-64) of a MAC address.
    pub const fn link_local(mac: Mac) -> Self {
        let [a, b, c, d, e, f, g, h] = mac.to_eui64();
        Self([0xfe, 0x80, 0, 0, 0, 0, 0, 0, a, b, c, d, e, f, g, h])
    }

    /// Returns true if the GID is in `fe80::/10`.
    #[inline]
    pub const fn is_link_local(self) -> bool {
        self.0[0] == 0xfe && self.0[1] & 0xc0 == 0x80
    }

    /// Returns true if the GID is an IPv6 or (mapped) IPv4 multicast address.
    pub fn is_multicast(self) -> bool {
        self.0[0] == 0xff || self.to_ipv4().is_some_and(|v4| v4.is_multicast())
    }
}

impl From<IpAddr> for Gid {
    fn from(address: IpAddr) -> Self {
        Self::from_ip(address)
    }
}

impl fmt::Display for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_ipv6().fmt(f)
    }
}

impl fmt::Debug for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gid({self})")
    }
}

impl FromStr for Gid {
    type Err = AddrParseError;

    /// Accepts IPv6 text, and IPv4 text for the IPv4-mapped GID.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self::from_ip)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mac_text_round_trips() {
        let mac: Mac = "52:54:00:00:0a:ff".parse().expect("well formed");
        assert_eq!(mac, Mac([0x52, 0x54, 0, 0, 0x0a, 0xff]));
        assert_eq!(mac.to_string(), "52:54:00:00:0a:ff");
        for bad in [
            "",
            "52:54:00:00:0a",
            "52:54:00:00:0a:ff:00",
            "+2:54:00:00:0a:ff",
            "::::::",
        ] {
            assert_eq!(bad.parse::<Mac>(), Err(MacParseError), "{bad}");
        }
    }

    #[test]
    fn link_local_gid_is_made_of_the_mac() {
        let gid = Gid::link_local(Mac([0x52, 0x54, 0, 0, 0, 1]));
        assert_eq!(gid.to_string(), "fe80::5054:ff:fe00:1");
        assert!(gid.is_link_local());
        assert_eq!(gid.to_ipv4(), None);
    }

    #[test]
    fn ipv4_gid_is_mapped() {
        let gid = Gid::from_ipv4(Ipv4Addr::new(10, 0, 0, 2));
        assert_eq!(gid.to_string(), "::ffff:10.0.0.2");
        assert_eq!(gid.to_ipv4(), Some(Ipv4Addr::new(10, 0, 0, 2)));
        assert_eq!("10.0.0.2".parse(), Ok(gid));
        assert_eq!("::ffff:10.0.0.2".parse(), Ok(gid));
        assert!(!gid.is_link_local() && !gid.is_multicast());
        assert!(
            "224.0.0.5"
                .parse::<Gid>()
                .expect("well formed")
                .is_multicast()
        );
    }
}
