//! Fuzz targets: each accepts any bytes, and panics if the code under test is wrong.
//!
//! - [`wire`]: a frame. [`capture`]: a capture file. [`model`]: the whole NIC with a hostile
//!   driver, a hostile program and a hostile peer. [`verbs`]: calls of the C ABI.
//! - [`input`]: bytes as decisions. [`generate`]: inputs without a fuzzer.
//!
//! Two drivers run them: libFuzzer (`libfuzzer/`, guided by coverage, with the nightly toolchain)
//! and the program of this crate, which needs nothing but the toolchain of the project.

pub mod capture;
pub mod generate;
pub mod input;
pub mod model;
#[expect(unsafe_code, reason = "a program in C, written in Rust")]
pub mod verbs;
pub mod wire;

/// A fuzz target.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name, which is also the name of its corpus.
    pub name: &'static str,
    /// Length of the longest useful input in bytes.
    pub longest: usize,
    /// Runs one input.
    pub run: fn(&[u8]),
}

/// All of them.
pub const TARGETS: &[Target] = &[
    Target {
        name: "wire",
        longest: 512,
        run: wire::fuzz,
    },
    Target {
        name: "capture",
        longest: 2048,
        run: capture::fuzz,
    },
    Target {
        name: "model",
        longest: 1024,
        run: model::fuzz,
    },
    Target {
        name: "verbs",
        longest: 512,
        run: verbs::fuzz,
    },
];

/// Returns the target with this name.
pub fn find(name: &str) -> Option<Target> {
    TARGETS.iter().copied().find(|target| target.name == name)
}
