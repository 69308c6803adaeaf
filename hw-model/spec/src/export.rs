//! Prints the contract in other languages from the declarations.

mod c;
mod json;
mod names;
mod systemrdl;
mod systemverilog;

use alloc::string::String;

/// A language in which the contract can be printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A package for RTL: offsets, fields, structures and named values.
    SystemVerilog,
    /// A header for C11 and C++11.
    C,
    /// SystemRDL 2.0: registers, counters and the MSI-X table of BAR0.
    SystemRdl,
    /// Everything, for other programs.
    Json,
}

impl Format {
    /// Returns the contract in this language.
    #[must_use]
    pub fn print(self) -> String {
        match self {
            Self::SystemVerilog => systemverilog::print(),
            Self::C => c::print(),
            Self::SystemRdl => systemrdl::print(),
            Self::Json => json::print(),
        }
    }
}
