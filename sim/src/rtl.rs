//! The command `ferroce-rtl`: what `ferroce … --rtl` becomes where the device lives in its own
//! process. The card in SystemVerilog takes the place of the model; there is no model in this
//! program.

#[path = "cli/device.rs"]
mod device;
#[path = "cli/faults.rs"]
mod faults;
#[expect(
    dead_code,
    reason = "selftest needs less of it than the commands of `ferroce` do"
)]
#[path = "cli/json.rs"]
mod json;
#[path = "cli/record.rs"]
mod record;
#[allow(
    dead_code,
    reason = "this is the card already: it becomes nothing else"
)]
#[path = "cli/rtl.rs"]
mod rtl;
#[path = "cli/selftest.rs"]
mod selftest;
#[path = "cli/serve.rs"]
mod serve;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Exit code of a failure of this command, as in env(1) and timeout(1).
const EXIT_FAILURE: u8 = 125;

/// Version of the command, and revision of its sources.
const VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (",
    env!("FERROCE_REVISION"),
    ")"
);

/// The commands of `ferroce` with the card in SystemVerilog, Verilated, in place of the model.
#[derive(Debug, Parser)]
#[command(name = "ferroce-rtl", version = VERSION)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Serve),
    #[command(name = "selftest")]
    SelfTest(selftest::SelfTest),
}

fn main() -> ExitCode {
    ferroce_platform::os::end_on_broken_pipe();
    match Cli::parse().command {
        Command::Serve(serve) => match serve.execute() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => report_error(&error, EXIT_FAILURE),
        },
        Command::SelfTest(selftest) => selftest.execute(),
    }
}

fn report_error(error: &str, code: u8) -> ExitCode {
    eprintln!("ferroce-rtl: {error}");
    ExitCode::from(code)
}
