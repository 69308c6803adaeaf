//! `ferroce cm`: what running programs do with RDMA CM.

use clap::Args;
use ferroce_embed::fabric::host_peers;
use ferroce_embed::fabric::registry::Registry;
use ferroce_embed::runtime_directory;

use super::devices::program_name;

/// Show listeners, connections and rejections of RDMA CM in running programs.
///
/// A program updates them at most ten times a second. The last 16 rejections are kept, with the
/// reason as the IBTA names it.
#[derive(Debug, Args)]
pub struct Cm {
    /// Only those of this process
    #[arg(long)]
    pid: Option<u32>,
}

impl Cm {
    /// Prints them.
    pub fn execute(self) -> Result<(), String> {
        let directory = runtime_directory().map_err(|error| error.to_string())?;
        let registry = Registry::open(&directory).map_err(|error| error.to_string())?;
        let mut is_empty = true;
        for occupant in registry.occupants() {
            let pid = occupant.pid;
            if self.pid.is_some_and(|wanted| wanted != pid) {
                continue;
            }
            let Some(report) = host_peers::read_report(registry, occupant.place) else {
                continue;
            };
            is_empty = false;
            let host = &occupant.identity.host;
            println!("pid {pid}  {}  on host {host}", program_name(pid));
            for line in report.lines() {
                println!("  {line}");
            }
        }
        match (is_empty, self.pid) {
            (false, _) => Ok(()),
            (true, Some(pid)) => Err(format!("process {pid} does not use RDMA CM")),
            (true, None) => Err("no program uses RDMA CM now".to_owned()),
        }
    }
}
