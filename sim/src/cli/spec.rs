//! `ferroce spec`: the contract in other languages.

use std::fs;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use ferroce_spec::export;

/// Print the hardware/software contract for RTL, for C, and for other programs.
///
/// It is printed from the declarations that the model and the driver are compiled from. The
/// chapter "The contract" says where the reference for readers is.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ferroce spec --format sv ferroce_pkg.sv      a package for Verilator, yosys and vendors' tools
  ferroce spec --format c > ferroce.h
  ferroce spec --format json | jq .registers")]
pub struct Spec {
    /// The language
    #[arg(long, value_enum)]
    format: Language,
    /// Write it to this file instead of standard output
    file: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Language {
    /// SystemVerilog package: offsets, fields, structures, named values
    Sv,
    /// Header for C11 and C++11
    C,
    /// SystemRDL 2.0: registers, counters and MSI-X table of BAR0
    #[value(name = "systemrdl")]
    SystemRdl,
    /// Everything
    Json,
}

impl Spec {
    /// Prints the contract.
    pub fn execute(self) -> Result<(), String> {
        let format = match self.format {
            Language::Sv => export::Format::SystemVerilog,
            Language::C => export::Format::C,
            Language::SystemRdl => export::Format::SystemRdl,
            Language::Json => export::Format::Json,
        };
        let text = format.print();
        match self.file {
            Some(path) => fs::write(&path, text)
                .map_err(|error| format!("{} cannot be written: {error}", path.display())),
            None => {
                print!("{text}");
                Ok(())
            }
        }
    }
}
