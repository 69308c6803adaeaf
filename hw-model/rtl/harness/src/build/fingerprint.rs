//! Fingerprints of files: what was made from the same files is kept.

use std::env;
use std::hash::{Hash, Hasher};
use std::path::Path;

use super::read;

/// Variables of the environment that choose the compiler and its flags.
const VARIABLES: [&str; 4] = ["OPT_LEVEL", "DEBUG", "CXX", "CXXFLAGS"];

/// Returns a text that differs if a name or the content of a file differs, or how C++ is compiled.
#[expect(
    clippy::disallowed_types,
    reason = "another hash in another release of Rust only compiles once more"
)]
pub fn fingerprint<'a>(files: impl Iterator<Item = &'a Path>) -> String {
    let mut hasher = std::hash::DefaultHasher::new();
    for file in files {
        (file, read(file)).hash(&mut hasher);
    }
    let values = VARIABLES.map(env::var_os);
    (values, cfg!(feature = "coverage")).hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}
