//! Path MTU.

/// Path MTU: payload bytes per packet. Numbered as in the verbs (`enum ibv_mtu`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum PathMtu {
    /// 256 bytes.
    Mtu256 = 1,
    /// 512 bytes.
    Mtu512 = 2,
    /// 1024 bytes.
    Mtu1024 = 3,
    /// 2048 bytes.
    Mtu2048 = 4,
    /// 4096 bytes.
    Mtu4096 = 5,
}

impl PathMtu {
    /// All path MTUs, smallest first.
    pub const ALL: [PathMtu; 5] = [
        PathMtu::Mtu256,
        PathMtu::Mtu512,
        PathMtu::Mtu1024,
        PathMtu::Mtu2048,
        PathMtu::Mtu4096,
    ];

    /// Returns the path MTU with this number; `None` for an unknown number.
    #[must_use]
    pub fn from_number(number: u32) -> Option<PathMtu> {
        PathMtu::ALL.into_iter().find(|mtu| *mtu as u32 == number)
    }

    /// Returns the payload bytes per packet.
    #[inline]
    #[must_use]
    pub const fn bytes(self) -> u32 {
        1 << self.shift()
    }

    /// Returns the base-2 logarithm of [`PathMtu::bytes`].
    #[inline]
    #[must_use]
    pub const fn shift(self) -> u32 {
        self as u32 + 7
    }

    /// Returns the number of packets of a message of `length` bytes; an empty message has one
    /// packet.
    #[inline]
    #[must_use]
    pub const fn packets(self, length: u32) -> u32 {
        if length == 0 {
            1
        } else {
            ((length - 1) >> self.shift()) + 1
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_a_message() {
        let mtu = PathMtu::Mtu1024;
        assert_eq!(mtu.packets(0), 1);
        assert_eq!(mtu.packets(1), 1);
        assert_eq!(mtu.packets(1024), 1);
        assert_eq!(mtu.packets(1025), 2);
        assert_eq!(PathMtu::Mtu256.packets(1 << 31), 1 << 23);
    }

    #[test]
    fn numbers_are_those_of_the_verbs() {
        for (number, mtu) in (1..).zip(PathMtu::ALL) {
            assert_eq!(PathMtu::from_number(number), Some(mtu));
            assert_eq!(mtu.bytes(), 128 << number);
        }
        assert_eq!(PathMtu::from_number(0), None);
        assert_eq!(PathMtu::from_number(6), None);
    }
}
