//! `ferroce completions`: completions for shells.

use std::io;
use std::process::ExitCode;

use clap::{Args, Command, ValueEnum};
use clap_complete::Shell;

/// Print the completions of this command for a shell.
///
/// The Debian package and `make install` install them already.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ferroce completions bash > ~/.local/share/bash-completion/completions/ferroce
  ferroce completions zsh > ~/.zfunc/_ferroce      a folder of $fpath, before compinit
  ferroce completions fish > ~/.config/fish/completions/ferroce.fish")]
pub struct Completions {
    /// The shell
    #[arg(value_enum)]
    shell: Supported,
}

/// Shells whose completions are tested.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Supported {
    Bash,
    Zsh,
    Fish,
}

impl Completions {
    /// Prints the completions of `command`.
    pub fn execute(self, mut command: Command) -> ExitCode {
        let shell = match self.shell {
            Supported::Bash => Shell::Bash,
            Supported::Zsh => Shell::Zsh,
            Supported::Fish => Shell::Fish,
        };
        clap_complete::generate(shell, &mut command, "ferroce", &mut io::stdout());
        ExitCode::SUCCESS
    }
}
