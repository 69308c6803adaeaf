//! The command `ferroce`.

mod cli;

use clap::Parser;

fn main() -> std::process::ExitCode {
    ferroce_sim::os::end_on_broken_pipe();
    cli::Cli::parse().execute()
}
