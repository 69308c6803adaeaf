//! The Python package: the JSON of every command matches its schema, and the package reads it. The
//! tests are in `python/tests`.

use std::path::Path;

use ferroce_tests::{Scratch, ferroce};

#[test]
fn documents_keep_their_schemas() {
    let scratch = Scratch::new();
    let package = concat!(env!("CARGO_MANIFEST_DIR"), "/../python");
    let mut tests = scratch.program(Path::new("python3"));
    tests
        .args(["-m", "unittest", "-v", "tests.test_documents"])
        .current_dir(package)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("FERROCE_BIN", ferroce());
    let output = scratch.finish(tests).expect_success();
    assert!(output.contains("\nOK\n"), "{output}");
}
