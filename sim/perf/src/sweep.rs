//! Many measurements in parallel: one world for each, on all processors. Results are reported in
//! the order of the jobs.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use crate::error::Error;
use crate::result::PerfRow;
use crate::runner;
use crate::spec::PerfSpec;

/// One size of one specification.
#[derive(Debug, Clone)]
pub struct Job {
    /// What is measured.
    pub spec: PerfSpec,
    /// Bytes of a message.
    pub size: u32,
    /// The values that distinguish it from the other points of the sweep.
    pub point: Vec<(String, String)>,
}

/// Progress of a sweep.
pub trait Listener {
    /// Reports that a job is done; jobs come in any order.
    fn progress(&mut self);
    /// Reports the row of job number `index`; jobs come in order.
    fn row(&mut self, index: usize, row: PerfRow);
}

/// Returns the number of jobs that run in parallel.
pub fn workers() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// Runs `jobs`, `workers` in parallel, until `stop` is set or one fails. Rows of jobs before the
/// one that fails are reported.
///
/// # Errors
/// The error of the first job, in order, that has failed.
pub fn run(
    jobs: &[Job],
    workers: usize,
    stop: &AtomicBool,
    listener: &mut impl Listener,
) -> Result<(), Error> {
    let results = |results| in_order(results, listener);
    spread(jobs, workers, stop, Failures::End, results)
}

/// Runs all jobs, even if some fail, and calls `each` with the index and the result of each, in any
/// order.
pub fn run_each(
    jobs: &[Job],
    workers: usize,
    stop: &AtomicBool,
    each: &mut dyn FnMut(usize, Result<PerfRow, Error>),
) {
    let results = |results: mpsc::Receiver<_>| {
        for (index, result) in results {
            each(index, result);
        }
    };
    spread(jobs, workers, stop, Failures::Count, results);
}

/// Effect of a failed job on the jobs that have not begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Failures {
    /// They do not run.
    End,
    /// They run.
    Count,
}

/// Runs jobs on several threads, and passes their results to `take` on this one.
fn spread<R>(
    jobs: &[Job],
    workers: usize,
    stop: &AtomicBool,
    failures: Failures,
    take: impl FnOnce(mpsc::Receiver<(usize, Result<PerfRow, Error>)>) -> R,
) -> R {
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..workers.clamp(1, jobs.len().max(1)) {
            let sender = sender.clone();
            let (next, failed) = (&next, &failed);
            scope.spawn(move || {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = jobs.get(index) else {
                        break;
                    };
                    if failures == Failures::End && failed.load(Ordering::Relaxed) {
                        break;
                    }
                    let result = if stop.load(Ordering::Relaxed) {
                        Err(Error::Interrupted)
                    } else {
                        runner::run(&job.spec, job.size, stop, None)
                    };
                    failed.fetch_or(result.is_err(), Ordering::Relaxed);
                    // The receiver is dropped: the caller has seen a failure.
                    if sender.send((index, result)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        take(receiver)
    })
}

/// Reports results in order; keeps early ones until then.
fn in_order(
    results: mpsc::Receiver<(usize, Result<PerfRow, Error>)>,
    listener: &mut impl Listener,
) -> Result<(), Error> {
    let mut early = BTreeMap::new();
    let mut next = 0;
    for (index, result) in results {
        listener.progress();
        early.insert(index, result);
        while let Some(result) = early.remove(&next) {
            listener.row(next, result?);
            next += 1;
        }
    }
    // Jobs before the failed one may not have begun.
    early
        .into_values()
        .find_map(Result::err)
        .map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use ferroce_model::preset::Preset;

    use super::*;
    use crate::spec::{Iterations, Operation, Test};

    #[derive(Default)]
    struct Seen {
        done: usize,
        sizes: Vec<(usize, u32)>,
    }

    impl Listener for Seen {
        fn progress(&mut self) {
            self.done += 1;
        }

        fn row(&mut self, index: usize, row: PerfRow) {
            self.sizes.push((index, row.size));
        }
    }

    fn jobs(sizes: &[u32]) -> Vec<Job> {
        let preset = Preset::load("functional").expect("built in");
        let mut spec = PerfSpec::new(preset, Operation::Write, Test::Bandwidth);
        spec.iterations = Iterations::Exactly(20);
        let job = |&size| Job {
            spec: spec.clone(),
            size,
            point: Vec::new(),
        };
        sizes.iter().map(job).collect()
    }

    #[test]
    fn rows_come_in_the_order_of_jobs() {
        let sizes = [65_536, 2, 4, 262_144, 8, 16, 131_072, 32];
        for workers in [1, 4, 100] {
            let mut seen = Seen::default();
            run(&jobs(&sizes), workers, &AtomicBool::new(false), &mut seen).expect("they run");
            let expected: Vec<_> = sizes.into_iter().enumerate().collect();
            assert_eq!((seen.sizes, seen.done), (expected, sizes.len()));
        }
    }

    #[test]
    fn a_failure_ends_it_and_is_returned() {
        let mut seen = Seen::default();
        let error = run(&jobs(&[2, 0, 4]), 1, &AtomicBool::new(false), &mut seen);
        assert!(
            error
                .expect_err("size 0")
                .to_string()
                .starts_with("--size 0")
        );
        assert_eq!(seen.sizes, [(0, 2)]);
    }

    #[test]
    fn all_run_although_one_fails() {
        let mut seen = Vec::new();
        let jobs = jobs(&[2, 0, 4]);
        run_each(&jobs, 2, &AtomicBool::new(false), &mut |index, result| {
            seen.push((index, result.is_ok()));
        });
        seen.sort();
        assert_eq!(seen, [(0, true), (1, false), (2, true)]);
    }

    #[test]
    fn it_can_be_stopped() {
        let mut seen = Seen::default();
        let error = run(&jobs(&[2, 4]), 1, &AtomicBool::new(true), &mut seen);
        assert!(matches!(error, Err(Error::Interrupted)));
        assert!(seen.sizes.is_empty());
    }

    #[test]
    fn nothing_to_do() {
        assert!(run(&[], 3, &AtomicBool::new(false), &mut Seen::default()).is_ok());
    }
}
