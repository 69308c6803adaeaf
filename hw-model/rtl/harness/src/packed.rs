//! Fields of packed structs, in the types in which Verilator stores a port, for generated code.

use crate::port::PortValue;

/// Returns a field of a port: `bits` bits from bit `low` on.
pub fn get<P: PortValue, T: PortValue>(port: &P, low: u32, bits: u32) -> T {
    let word = |n: usize| -> u64 { port.word(n).into() };
    T::of_words(|n| {
        let rest = bits.saturating_sub(32 * n as u32).min(32);
        let first = low + 32 * n as u32;
        let index = first as usize / 32;
        // A field that ends in this word has no next one.
        let next = match first % 32 + rest > 32 {
            true => word(index + 1),
            false => 0,
        };
        let from_first = if rest == 0 {
            0
        } else {
            word(index) | next << 32
        };
        ((from_first >> (first % 32)) & ((1 << rest) - 1)) as u32
    })
}

/// Sets a field of a port, whose bits are zero.
///
/// # Panics
/// If the value has more bits than the field.
pub fn set<T: PortValue>(words: &mut [u32], name: &str, low: u32, bits: u32, value: T) {
    assert!(value.fits(bits), "field {name} has {bits} bits: too narrow");
    for from in (0..bits).step_by(32) {
        let part = u64::from(value.word(from as usize / 32)) << ((low + from) % 32);
        let index = (low + from) as usize / 32;
        words[index] |= part as u32;
        if part >> 32 != 0 {
            words[index + 1] |= (part >> 32) as u32;
        }
    }
}

/// Returns the port of these words.
pub fn port<P: PortValue>(words: &[u32]) -> P {
    P::of_words(|n| words.get(n).copied().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_got() {
        let mut words = [0; 5];
        set(&mut words, "a", 0, 3, 5u8);
        set(&mut words, "b", 3, 64, 0x0123_4567_89ab_cdefu64);
        set(&mut words, "c", 67, 1, 1u8);
        set(&mut words, "d", 68, 70, [u32::MAX, 7, 0x3f]);
        let whole: [u32; 5] = port(&words);
        assert_eq!(get::<_, u8>(&whole, 0, 3), 5);
        assert_eq!(get::<_, u64>(&whole, 3, 64), 0x0123_4567_89ab_cdef);
        assert_eq!(get::<_, u8>(&whole, 67, 1), 1);
        assert_eq!(get::<_, [u32; 3]>(&whole, 68, 70), [u32::MAX, 7, 0x3f]);
        let small: u16 = port(&[0x1234]);
        assert_eq!(get::<_, u8>(&small, 8, 8), 0x12);
    }

    #[test]
    #[should_panic(expected = "field a has 3 bits")]
    fn what_does_not_fit_is_refused() {
        set(&mut [0], "a", 0, 3, 8u8);
    }
}
