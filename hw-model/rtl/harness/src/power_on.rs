//! The state of a module after power-on: random, so that a test finds a missing reset. A run
//! repeats exactly, because the seeds depend only on what this thread has created before.

use std::cell::Cell;

/// Variable of the environment: another first seed, or 0 for a state of zeros.
const VARIABLE: &str = "RTL_POWER_ON";

thread_local! {
    static NEXT: Cell<u64> = const { Cell::new(1) };
}

/// Chooses the states of all modules that this thread creates from now on.
pub fn begin(seed: u64) {
    NEXT.set(seed << 8 | 1);
}

/// Returns the seed of the next module: 0 for zeros.
///
/// # Panics
/// If the variable is not a number.
pub(crate) fn next_seed() -> i32 {
    let first = std::env::var(VARIABLE).map_or(Some(1), |text| text.parse::<u32>().ok());
    let first = first.unwrap_or_else(|| panic!("{VARIABLE} is not a number"));
    let number = NEXT.get();
    NEXT.set(number.wrapping_add(1));
    if first == 0 {
        return 0;
    }
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(first);
    (mixed >> 33) as i32 | 1 // Verilator takes 0 for a seed of the time of day
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_repeat_and_differ() {
        let four = |seed| {
            begin(seed);
            [(); 4].map(|()| next_seed())
        };
        let first = four(7);
        assert_eq!(first, four(7));
        assert_ne!(first, four(8));
        assert!(first.iter().all(|seed| *seed > 0));
        assert!(first.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
