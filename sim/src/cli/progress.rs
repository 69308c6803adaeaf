//! What a command says beside its results: bars of long work, and notes. `--quiet` silences both.

use std::io::{IsTerminal, stderr};
use std::sync::atomic::{AtomicBool, Ordering};

use ferroce_lab::validate::perturb;
use indicatif::{ProgressBar, ProgressStyle};

/// What is done, how far it is, and how long it will take.
const BAR: &str = "{msg} {wide_bar} {pos}/{len}, {eta} left ";

/// True after `--quiet`. It is an option of the whole command, like the level of a log.
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

/// Prints a line that says what was done, where the result is elsewhere: in a file, or in the
/// state of the machine.
pub fn say(text: &str) {
    if !IS_QUIET.load(Ordering::Relaxed) {
        println!("{text}");
    }
}

/// A bar on standard error, if that is a terminal.
#[derive(Debug)]
pub struct Bar(ProgressBar);

impl Bar {
    /// Creates the bar of work in so many steps. A single step has no bar.
    pub fn new(what: &'static str, steps: usize) -> Self {
        if steps < 2 {
            return Self(ProgressBar::hidden());
        }
        let bar = Self::of_many();
        perturb::Listener::begin(&bar, what, steps);
        bar
    }

    /// Creates a bar that is used for one piece of work after the other.
    pub fn of_many() -> Self {
        if !stderr().is_terminal() || IS_QUIET.load(Ordering::Relaxed) {
            return Self(ProgressBar::hidden());
        }
        let style = ProgressStyle::with_template(BAR);
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
        Self(ProgressBar::new(0).with_style(style))
    }

    /// A step is done.
    pub fn advance(&self) {
        self.0.inc(1);
    }

    /// Prints something else, above the bar.
    pub fn suspend(&self, print: impl FnOnce()) {
        self.0.suspend(print);
    }

    /// Removes the bar: all is done.
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
