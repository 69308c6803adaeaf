//! Runs each experiment once, however many plots and targets ask for it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};

use ferroce_perf::{PerfResult, PerfSpec};

use crate::reference::experiment::Simulator;

type Slot = Arc<OnceLock<Result<PerfResult, String>>>;

/// A simulator with a cache of its results.
pub struct Cache<'a> {
    simulator: &'a dyn Simulator,
    results: Mutex<BTreeMap<String, Slot>>,
}

impl<'a> Cache<'a> {
    /// Returns a cache for `simulator`.
    pub fn new(simulator: &'a dyn Simulator) -> Self {
        Self {
            simulator,
            results: Mutex::default(),
        }
    }
}

impl Simulator for Cache<'_> {
    fn run(&self, spec: &PerfSpec) -> Result<PerfResult, String> {
        // The debug text of a specification contains all of it, so it serves as the key.
        let key = format!("{spec:?}");
        let slot = {
            let mut results = self
                .results
                .lock()
                .expect("no thread panics with it locked");
            Arc::clone(results.entry(key).or_default())
        };
        slot.get_or_init(|| self.simulator.run(spec)).clone()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use ferroce_perf::Operation;

    use super::*;
    use crate::validate::plan::Perf;

    struct Counting(AtomicU32);

    impl Simulator for Counting {
        fn run(&self, _: &PerfSpec) -> Result<PerfResult, String> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(PerfResult { rows: Vec::new() })
        }
    }

    #[test]
    fn what_is_the_same_runs_once() {
        let counting = Counting(AtomicU32::new(0));
        let cache = Cache::new(&counting);
        let spec = |size| Perf::bandwidth("cx5-100g", Operation::Write, size).spec();
        for size in [&[64], &[64], &[128]] {
            let spec = spec(size).expect("a built-in preset");
            assert!(cache.run(&spec).is_ok());
        }
        assert_eq!(counting.0.load(Ordering::Relaxed), 2);
    }
}
