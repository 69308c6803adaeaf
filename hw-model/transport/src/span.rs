//! Lengths of ranges of PSNs.

use ferroce_wire::Psn;

/// Returns the number of PSNs from `from` up to `to`, modulo 2^24.
#[inline]
pub(crate) const fn span(from: Psn, to: Psn) -> u32 {
    to.sub(from.value()).value()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn span_is_modulo_2_to_the_24() {
        assert_eq!(span(Psn::new(0xff_fffe), Psn::new(3)), 5);
        assert_eq!(span(Psn::new(7), Psn::new(7)), 0);
        assert_eq!(span(Psn::new(1), Psn::new(0)), 0xff_ffff);
    }
}
