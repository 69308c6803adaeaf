//! `ferroce man`: the manual pages of this command.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use clap::{Args, Command};
use clap_mangen::Man as Page;

/// Manual section for commands.
const SECTION: &str = "1";

/// Write the manual pages of this command and of its subcommands into a folder.
///
/// The Debian package and `make install` install them already.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ferroce man ~/.local/share/man/man1 && man ferroce-run")]
pub struct Man {
    /// The folder; it is created if it is missing
    folder: PathBuf,
}

impl Man {
    /// Writes the pages of `command`.
    pub fn execute(self, command: Command) -> Result<(), String> {
        let folder = &self.folder;
        fs::create_dir_all(folder)
            .map_err(|error| format!("{} cannot be created: {error}", folder.display()))?;
        let mut command = command.disable_help_subcommand(true);
        command.build();
        for (name, text) in pages(&command).map_err(|error| error.to_string())? {
            let path = folder.join(name);
            fs::write(&path, text)
                .map_err(|error| format!("{} cannot be written: {error}", path.display()))?;
        }
        Ok(())
    }
}

/// Returns the pages of a command and its subcommands, each with its file name.
fn pages(command: &Command) -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut found = vec![page(command)?];
    for below in command
        .get_subcommands()
        .filter(|below| !below.is_hide_set())
    {
        found.extend(pages(below)?);
    }
    Ok(found)
}

fn page(command: &Command) -> io::Result<(String, Vec<u8>)> {
    let page = Page::new(command.clone())
        .section(SECTION)
        .source(format!("Ferroce {}", env!("CARGO_PKG_VERSION")))
        .manual("Ferroce");
    let mut text = Vec::new();
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    page.render_description_section(&mut text)?;
    if command
        .get_arguments()
        .any(|argument| !argument.is_hide_set())
    {
        page.render_options_section(&mut text)?;
    }
    if command.has_subcommands() {
        page.render_subcommands_section(&mut text)?;
    }
    let examples = command.get_after_long_help().or(command.get_after_help());
    if let Some(examples) = examples {
        write_notes(&mut text, &examples.to_string())?;
    }
    Ok((page.get_filename(), text))
}

/// Writes the text that follows the options without filling its lines: it has tables and commands,
/// which clap_mangen would join into paragraphs.
fn write_notes(out: &mut impl Write, text: &str) -> io::Result<()> {
    writeln!(out, ".SH NOTES\n.nf")?;
    for line in text.lines() {
        // A dot or an apostrophe at the start of a line would be a request of roff.
        let line = line
            .replace('\\', "\\e")
            .replace('-', "\\-")
            .replace('\'', "\\(aq");
        let guard = if line.starts_with('.') { "\\&" } else { "" };
        writeln!(out, "{guard}{line}")?;
    }
    writeln!(out, ".fi")
}

#[cfg(test)]
mod tests {
    use super::write_notes;

    #[test]
    fn notes_are_no_requests() {
        let mut out = Vec::new();
        write_notes(&mut out, ".so x\n'br\n  a --b \\n").expect("memory");
        let expected = ".SH NOTES\n.nf\n\\&.so x\n\\(aqbr\n  a \\-\\-b \\en\n.fi\n";
        assert_eq!(String::from_utf8(out).expect("ASCII"), expected);
    }
}
