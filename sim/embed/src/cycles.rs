//! The clock cycles of the cards in RTL of this process, in one line when it ends.

use ferroce_platform::fork;
use parking_lot::Mutex;

/// Set by `ferroce run --rtl` to request the line.
pub const CYCLES_VARIABLE: &str = "FERROCE_RTL_CYCLES";

/// Cycles of functions that were closed.
#[derive(Debug, Default)]
struct Total {
    /// The fork generation to which they belong.
    generation: u32,
    cycles: u64,
    time_ns: u64,
}

static TOTAL: Mutex<Total> = Mutex::new(Total {
    generation: 0,
    cycles: 0,
    time_ns: 0,
});

/// Adds the cycles of a function and the time during which it was open.
pub(crate) fn add(cycles: u64, time_ns: u64) {
    let mut total = TOTAL.lock();
    if total.generation != fork::generation() {
        *total = Total {
            generation: fork::generation(),
            ..Total::default()
        };
    }
    total.cycles += cycles;
    total.time_ns += time_ns;
}

/// Prints the line, if it is wanted and there were cycles.
pub(crate) fn print() {
    let total = TOTAL.lock();
    let is_wanted = std::env::var_os(CYCLES_VARIABLE).is_some();
    if !is_wanted || total.cycles == 0 || total.generation != fork::generation() {
        return;
    }
    let seconds = total.time_ns as f64 / 1e9;
    let rate = total.cycles as f64 / seconds.max(1e-9) / 1e3;
    eprintln!(
        "ferroce: the card ran for {} clock cycles in {seconds:.2} s ({rate:.0} thousand/s)",
        total.cycles
    );
}
