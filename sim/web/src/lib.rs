//! The lab in a browser: each request of the page is a JSON document, and so is its answer.
//!
//! - [`mod@answer`]: the function that the page calls. It is the same in a test and in WebAssembly.
//! - [`request`]: what can be asked, as options of `ferroce perf`. [`options`]: these options.
//! - [`catalogue`]: presets, host profiles, parameters and measured tables.
//! - [`command`]: the command line and the preset file that give the same figures.
//! - `exports`: the functions that JavaScript sees, in WebAssembly only.

pub mod answer;
pub mod catalogue;
pub mod command;
#[cfg(target_arch = "wasm32")]
mod exports;
pub mod options;
pub mod request;

pub use answer::answer;
