//! The command `ferroce`.

mod cli;

fn main() -> std::process::ExitCode {
    ferroce_platform::os::end_on_broken_pipe();
    ferroce_timed_client::install();
    cli::Cli::of_process().execute()
}
