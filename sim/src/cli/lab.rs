//! `ferroce lab`: the page on which the model runs in a browser.

use std::io::ErrorKind;
use std::process::{Command, Stdio};

use clap::Args;

use super::library;

/// Program that opens a file with the user's program for it.
const OPENER: &str = "xdg-open";

/// Open the lab: a page that runs the model of `ferroce perf` in a browser, with the curves of a
/// card beside measured ones.
///
/// Choose a card, a host and a test, and move processing units, caches, PCIe, MTU and others. The
/// page prints the same figures as `ferroce perf`, and shows its command line. It needs neither a
/// server nor a network.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ferroce lab
  ferroce lab --print            the file, for another machine or browser")]
pub struct Lab {
    /// Print the path of the page, instead of opening it
    #[arg(long)]
    print: bool,
}

impl Lab {
    /// Opens the page, or prints its path.
    pub fn execute(self) -> Result<(), String> {
        let page = library::lab_page()?;
        if self.print {
            println!("{}", page.display());
            return Ok(());
        }
        let opened = Command::new(OPENER)
            .arg(&page)
            .stdin(Stdio::null())
            .status();
        let reason = match opened {
            Ok(status) if status.success() => return Ok(()),
            Ok(status) => format!("{OPENER} failed ({status})"),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                format!("there is no {OPENER} (package xdg-utils)")
            }
            Err(error) => format!("{OPENER}: {error}"),
        };
        Err(format!(
            "{reason}; open this file in a browser: {}",
            page.display()
        ))
    }
}
