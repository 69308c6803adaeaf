//! `ferroce top`: live activity of the NICs of running programs.

mod sample;
mod terminal;
mod view;

use std::io::{IsTerminal, stdout};
use std::time::{Duration, Instant};

use clap::Args;
use ferroce_embed::fabric::registry::Registry;
use ferroce_embed::runtime_directory;
use ferroce_platform::os::service::Termination;

use self::sample::Sample;
use self::terminal::{Event, Terminal};
use super::counters::interval;

/// Size of a table without a terminal: all columns and all rows.
const UNLIMITED: view::Size = view::Size {
    columns: 120,
    rows: u16::MAX,
};

/// Show the queue pairs, rates and errors of running programs, live.
///
/// Rates are those since the table before. A program publishes its counters every few hundred runs
/// of its NIC, and when it becomes idle. LOST is what had to be sent again or was not ready at the
/// peer: retransmitted packets, ACK time-outs, NAKs; ERRORS is what no repetition mends, and the
/// last lines name the counters. The state of a QP is that of the last ibv_modify_qp(), or ERR
/// after a completion in error.
///
/// Keys: q ends it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ferroce top
  ferroce top --interval 0.2
  ferroce top --once                       one table, for scripts and logs

`ferroce counters --json --watch` has the same for programs. NO_COLOR turns colours off.")]
pub struct Top {
    /// Only this process
    #[arg(long)]
    pid: Option<u32>,

    /// Time between two tables
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    interval: Duration,

    /// Print one table, with the rates of one interval, and end
    #[arg(long)]
    once: bool,
}

impl Top {
    /// Shows the tables until the user quits or the terminal is closed.
    pub fn execute(self) -> Result<(), String> {
        let directory = runtime_directory().map_err(|error| error.to_string())?;
        let registry = Registry::open(&directory).map_err(|error| error.to_string())?;
        if let Some(pid) = self.pid
            && !registry.occupants().iter().any(|one| one.pid == pid)
        {
            return Err(format!(
                "no program with pid {pid} uses a device now; `ferroce devices` lists those that do"
            ));
        }
        let take = || Sample::take(registry, self.pid, Instant::now());
        if self.once {
            let before = take();
            if Termination::keep().wait(self.interval) {
                return Ok(());
            }
            let lines = view::lines(&before, &take(), UNLIMITED);
            lines.iter().for_each(|line| println!("{}", line.text));
            return Ok(());
        }
        if !stdout().is_terminal() {
            return Err("standard output is no terminal; --once prints one table".to_owned());
        }
        let terminal = Terminal::open().map_err(|error| format!("the terminal: {error}"))?;
        // A closed terminal is a normal end, not an error.
        let _ = self.watch(terminal, take);
        Ok(())
    }

    fn watch(&self, mut terminal: Terminal, take: impl Fn() -> Sample) -> std::io::Result<()> {
        let (mut before, mut now) = (take(), take());
        loop {
            let size = terminal.size()?;
            terminal.draw(&view::lines(&before, &now, size))?;
            match terminal.wait(now.taken + self.interval, size)? {
                Event::End => return Ok(()),
                Event::Resized => {}
                Event::Time => {
                    before = now;
                    now = take();
                }
            }
        }
    }
}
