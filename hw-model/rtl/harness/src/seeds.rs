//! The seeds of a random test.

use std::ops::Range;

use crate::power_on;

/// Returns the seeds of a test: `default` seeds from 0 on, or the ones in `RTL_SEEDS`,
/// which is a number of seeds or a range `FROM..TO`.
///
/// # Panics
/// If the variable has another form.
pub fn seeds(default: u64) -> Range<u64> {
    let Ok(text) = std::env::var("RTL_SEEDS") else {
        return 0..default;
    };
    let number = |text: &str| text.parse::<u64>().ok();
    let range = match text.split_once("..") {
        Some((from, to)) => number(from).zip(number(to)).map(|(from, to)| from..to),
        None => number(&text).map(|count| 0..count),
    };
    range.unwrap_or_else(|| panic!("RTL_SEEDS={text}: neither COUNT nor FROM..TO"))
}

/// Runs `test` for each seed of [`seeds`]; prints the seed that failed.
pub fn for_each_seed(default: u64, mut test: impl FnMut(u64)) {
    for seed in seeds(default) {
        let mut guard = Failed(Some(seed));
        power_on::begin(seed);
        test(seed);
        guard.0 = None;
    }
}

/// Prints the current seed when a test fails.
struct Failed(Option<u64>);

impl Drop for Failed {
    fn drop(&mut self) {
        if let (true, Some(seed)) = (std::thread::panicking(), self.0) {
            eprintln!("seed {seed} failed: RTL_SEEDS={seed}..{}", seed + 1);
        }
    }
}
