//! The test kit: code that the tests of several crates share.
//!
//! Of the project it uses only the wire format, so every crate can have it as a development
//! dependency. Code that needs the driver is in `ferroce-test-verbs`.

mod directory;
mod frames;
#[cfg(loom)]
pub mod loom_memory;
mod ports;
mod process;
mod vectors;
mod wait;

pub use directory::{TemporaryDirectory, temporary_directory};
pub use frames::{send_frame, write_frame};
pub use ports::{free_port, is_listening, wait_until_listening};
pub use process::{Ended, Process, Signal, send_signal};
pub use vectors::{GoldenField, GoldenSegment, GoldenVector, golden_vectors};
pub use wait::{Deadline, TIMEOUT, eventually, eventually_some, stays, time_limit};
