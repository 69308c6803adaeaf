//! The Internet checksum (RFC 1071).

/// Returns the checksum of bytes whose checksum field is zero. Over bytes with a valid checksum it
/// is 0.
pub fn internet_checksum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0u32;
    for part in parts {
        // Only the last part may have an odd length.
        for word in part.chunks(2) {
            let low = word.get(1).copied().unwrap_or(0);
            sum += u32::from(u16::from_be_bytes([word[0], low]));
            sum = (sum & 0xffff) + (sum >> 16);
        }
    }
    complement(sum)
}

/// Returns the ones' complement of a sum of 16-bit words.
#[inline]
pub(crate) fn complement(sum: u32) -> u16 {
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff); // the first addition may carry again
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 1071, section 3.
    const WORDS: [u8; 8] = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];

    #[test]
    fn example_of_the_rfc() {
        assert_eq!(internet_checksum(&[&WORDS]), !0xddf2);
        assert_eq!(internet_checksum(&[&WORDS[..4], &WORDS[4..]]), !0xddf2);
        let sum = internet_checksum(&[&WORDS]).to_be_bytes();
        assert_eq!(internet_checksum(&[&WORDS, &sum]), 0);
    }

    #[test]
    fn an_odd_byte_is_the_high_half_of_a_word() {
        assert_eq!(
            internet_checksum(&[&[0x12, 0x34, 0x56]]),
            !(0x1234 + 0x5600)
        );
    }

    #[test]
    fn carries_go_round_until_none_is_left() {
        assert_eq!(complement(0x0001_ffff), !1);
        assert_eq!(internet_checksum(&[&[0xff; 6]]), 0);
    }
}
