//! `ferroce cm`: what running programs do with RDMA CM.

use clap::Args;
use ferroce_embed::fabric::host_peers;
use ferroce_embed::fabric::registry::Registry;
use ferroce_embed::runtime_directory;
use serde_json::json;

use super::devices::program_name;
use super::json::JsonOption;

/// Show listeners, connections and rejections of RDMA CM in running programs.
///
/// A program updates them at most ten times a second. The last 16 rejections are kept, with the
/// reason as the IBTA names it.
#[derive(Debug, Args)]
pub struct Cm {
    /// Only those of this process
    #[arg(long)]
    pid: Option<u32>,

    #[command(flatten)]
    json: JsonOption,
}

impl Cm {
    /// Prints them.
    pub fn execute(self) -> Result<(), String> {
        let directory = runtime_directory().map_err(|error| error.to_string())?;
        let registry = Registry::open(&directory).map_err(|error| error.to_string())?;
        let prints_text = self.json.prepare()?;
        let mut processes = Vec::new();
        for occupant in registry.occupants() {
            let pid = occupant.pid;
            if self.pid.is_some_and(|wanted| wanted != pid) {
                continue;
            }
            let Some(report) = host_peers::read_report(registry, occupant.place) else {
                continue;
            };
            let (program, host) = (program_name(pid), &occupant.identity.host);
            if prints_text {
                println!("pid {pid}  {program}  on host {host}");
                report.lines().for_each(|line| println!("  {line}"));
            }
            let lines: Vec<_> = report.lines().collect();
            processes.push(json!({ "pid": pid, "program": program, "host": host, "lines": lines }));
        }
        match (processes.is_empty(), self.pid) {
            (false, _) => self.json.write("cm", || json!({ "processes": processes })),
            (true, Some(pid)) => Err(format!("process {pid} does not use RDMA CM")),
            (true, None) => Err("no program uses RDMA CM now".to_owned()),
        }
    }
}
