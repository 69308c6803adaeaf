//! Output of a command in addition to its results: progress bars and notes. `--quiet` silences
//! both.

use std::io::{IsTerminal, stderr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ferroce_lab::validate::perturb;
use ferroce_platform::os::service::Termination;
use indicatif::{ProgressBar, ProgressStyle};

/// Name of the work, its progress, and the remaining time.
const BAR: &str = "{msg} {wide_bar} {pos}/{len}, {eta} left ";

/// Interval in which a bar looks for an interruption again.
const LOOK: Duration = Duration::from_secs(3600);

/// True after `--quiet`. It is global because the option applies to the whole command, like a log
/// level.
static IS_QUIET: AtomicBool = AtomicBool::new(false);

/// Silences bars and notes from now on.
pub fn be_quiet() {
    IS_QUIET.store(true, Ordering::Relaxed);
}

/// Prints a note on standard error.
pub fn note(text: &str) {
    if !IS_QUIET.load(Ordering::Relaxed) {
        eprintln!("{text}");
    }
}

/// Prints a line about completed work whose result is elsewhere: in a file, or in the state of the
/// machine.
pub fn say(text: &str) {
    if !IS_QUIET.load(Ordering::Relaxed) {
        println!("{text}");
    }
}

/// A bar on standard error, if that is a terminal.
#[derive(Debug)]
pub struct Bar(ProgressBar);

impl Bar {
    /// Creates a progress bar for this many steps. A single step has no bar.
    pub fn new(what: &'static str, steps: usize) -> Self {
        if steps < 2 {
            return Self(ProgressBar::hidden());
        }
        let bar = Self::of_many();
        perturb::Listener::begin(&bar, what, steps);
        bar
    }

    /// Creates a bar that is reused for several pieces of work.
    pub fn of_many() -> Self {
        if !stderr().is_terminal() || IS_QUIET.load(Ordering::Relaxed) {
            return Self(ProgressBar::hidden());
        }
        let style = ProgressStyle::with_template(BAR);
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
        Self(ProgressBar::new(0).with_style(style))
    }

    /// Removes the bar and ends the command when the terminal or another process interrupts it.
    pub fn end_on_interrupt(&self) {
        let termination = Termination::keep();
        let bar = self.0.clone();
        std::thread::spawn(move || {
            loop {
                if let Some(signal) = termination.next(LOOK) {
                    bar.finish_and_clear();
                    eprintln!("ferroce: interrupted");
                    // Like a shell about a program that a signal has ended.
                    std::process::exit(128 + signal);
                }
            }
        });
    }

    /// Counts a completed step.
    pub fn advance(&self) {
        self.0.inc(1);
    }

    /// Prints other output above the bar.
    pub fn suspend(&self, print: impl FnOnce()) {
        self.0.suspend(print);
    }

    /// Removes the bar when all work is done.
    pub fn clear(&self) {
        self.0.finish_and_clear();
    }
}

impl perturb::Listener for Bar {
    fn begin(&self, what: &str, count: usize) {
        self.0.reset();
        self.0.set_length(count as u64);
        self.0.set_message(what.to_owned());
    }

    fn advance(&self) {
        Bar::advance(self);
    }
}
