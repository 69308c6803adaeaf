//! Verilated modules as Rust types.
//!
//! A build script calls `build::modules` (feature `build`): Verilator converts SystemVerilog to
//! C++, which becomes one static library, and each module gets a Rust file with a type that has one
//! accessor for each port. That type dereferences to [`Simulation`], which runs the module: clock,
//! ports, waveforms, coverage, failed assertions.
//!
//! Ports are read from the C++ header that Verilator writes, not from its XML, which later versions
//! do not write. Tested with Verilator 5.006 (Debian 12) and 5.048.

#[cfg(feature = "build")]
pub mod build;
mod clock;
mod line;
pub mod packed;
mod port;
pub mod power_on;
pub mod seeds;
#[expect(unsafe_code, reason = "the only calls of the generated C++")]
mod simulation;
mod waves;

pub use clock::{Clock, Clocks, Rising};
pub use line::{LINE, bytes, words};
pub use port::{Direction, Port, PortValue};
pub use simulation::{Functions, Simulation, TraceError};
pub use waves::Waves;
