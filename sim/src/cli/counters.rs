//! `ferroce counters`: what the NICs of running programs have counted.

use clap::Args;
use ferroce_sim::fabric::registry::Registry;
use ferroce_sim::runtime_directory;
use ferroce_spec::counter::COUNTERS;
use std::sync::atomic::Ordering;

use super::devices::program_name;

/// Show the counters of the NIC functions of running programs.
///
/// A program brings its counters up to date every few hundred turns of its NIC, and when it
/// becomes idle.
#[derive(Debug, Args)]
pub struct Counters {
    /// Only those of this process
    #[arg(long)]
    pid: Option<u32>,

    /// Also counters that are zero
    #[arg(long)]
    all: bool,
}

impl Counters {
    /// Prints them.
    pub fn execute(self) -> Result<(), String> {
        let directory = runtime_directory().map_err(|error| error.to_string())?;
        let registry = Registry::open(&directory).map_err(|error| error.to_string())?;
        let mut occupants = registry.occupants();
        occupants.retain(|occupant| self.pid.is_none_or(|pid| pid == occupant.pid));
        if occupants.is_empty() {
            return Err(match self.pid {
                Some(pid) => format!("process {pid} does not use the device"),
                None => "no program uses the device now".to_owned(),
            });
        }
        for occupant in occupants {
            let (pid, host) = (occupant.pid, &occupant.identity.host);
            println!("pid {pid}  {}  on host {host}", program_name(pid));
            for (index, counter) in COUNTERS.iter().enumerate() {
                let value = registry
                    .counter(occupant.place, index)
                    .load(Ordering::Relaxed);
                if value != 0 || self.all {
                    println!("  {:24} {value:>16}", counter.name);
                }
            }
        }
        Ok(())
    }
}
