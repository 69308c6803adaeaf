//! IEEE 802.1Q tag.

/// The tag control information of a VLAN tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VlanTag {
    /// Priority code point, 0 ..= 7
    pub priority: u8,
    /// Drop eligible indicator
    pub drop_eligible: bool,
    /// VLAN identifier, 12 bits
    pub identifier: u16,
}

impl VlanTag {
    /// Decodes the 16 bits after the EtherType 0x8100.
    #[inline]
    pub const fn from_bits(bits: u16) -> Self {
        Self {
            priority: (bits >> 13) as u8,
            drop_eligible: bits & 0x1000 != 0,
            identifier: bits & 0x0fff,
        }
    }

    /// Returns the 16 bits; excess bits of a field are cut off.
    #[inline]
    pub const fn to_bits(self) -> u16 {
        (self.priority as u16 & 0x7) << 13
            | (self.drop_eligible as u16) << 12
            | self.identifier & 0x0fff
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_every_bit() {
        for bits in 0..=u16::MAX {
            assert_eq!(VlanTag::from_bits(bits).to_bits(), bits);
        }
    }
}
