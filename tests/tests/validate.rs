//! The figures of the model that the book shows.

use std::time::Duration;

use ferroce_tests::page::compare_part;
use ferroce_tests::{Process, Scratch};

/// All targets take a minute of processor time.
const LIMIT: Duration = Duration::from_secs(600);

/// Goal: a change of the model that moves a figure moves it in the book, too.
#[test]
fn the_book_has_the_figures_of_the_model() {
    let scratch = Scratch::new();
    let command = scratch.ferroce(&["validate", "--markdown"]);
    let output = Process::start(command, &scratch, "validate", LIMIT).wait();
    let output = output.expect_success();
    compare_part("docs/src/connectx.md", "validate", &output);
}
