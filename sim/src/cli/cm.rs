//! `ferroce cm`: listeners, connections and rejections of RDMA CM in running programs.

use clap::Args;
use ferroce_embed::fabric::cm_report::CmEntry;
use ferroce_embed::fabric::host_peers;
use ferroce_embed::fabric::registry::Registry;
use ferroce_embed::runtime_directory;
use serde_json::{Value, json};

use super::devices::program_name;
use super::json::JsonOption;

/// Show listeners, connections and rejections of RDMA CM in running programs.
///
/// A program updates them at most ten times a second. The last 16 rejections are kept, with the
/// reason as the IBTA names it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ferroce run -- rping -s -C 10 & ferroce cm
  ferroce cm --json")]
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
                report.iter().for_each(|entry| println!("  {entry}"));
            }
            let mut process = described(&report);
            process["pid"] = pid.into();
            process["program"] = program.into();
            process["host"] = host.as_str().into();
            processes.push(process);
        }
        match (processes.is_empty(), self.pid) {
            (false, _) => self.json.write("cm", || json!({ "processes": processes })),
            (true, Some(pid)) => Err(format!("process {pid} does not use RDMA CM")),
            (true, None) => Err("no program uses RDMA CM now".to_owned()),
        }
    }
}

/// Returns the published entries of a process as JSON.
fn described(report: &[CmEntry]) -> Value {
    let (mut listeners, mut connections, mut rejections) = (Vec::new(), Vec::new(), Vec::new());
    let mut unlisted = 0;
    for entry in report {
        match entry {
            CmEntry::Listener {
                port_space,
                address,
                unread,
            } => listeners.push(json!({
                "port_space": port_space,
                "address": address,
                "unread_requests": unread,
            })),
            CmEntry::Connection {
                port_space,
                address,
                peer,
                state,
            } => connections.push(json!({
                "port_space": port_space,
                "address": address,
                "peer": peer,
                "state": state,
            })),
            CmEntry::Others(count) => unlisted = *count,
            CmEntry::Rejection {
                from,
                to,
                service,
                reason,
                name,
            } => rejections.push(json!({
                "from": from,
                "to": to,
                "service_id": service,
                "reason": reason,
                "reason_name": name,
            })),
        }
    }
    json!({
        "listeners": listeners,
        "connections": connections,
        "unlisted_connections": unlisted,
        "rejections": rejections,
        "lines": report.iter().map(ToString::to_string).collect::<Value>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_typed_values() {
        let lines = [
            "listener\ttcp\t0.0.0.0:7471\t1",
            "connection\ttcp\t127.0.0.1:7471\t-\tConnected",
            "others\t3",
            "rejection\t::1\t::2\t17178671\t28\tconsumer defined",
        ];
        let report: Option<Vec<_>> = lines.into_iter().map(CmEntry::parse).collect();
        let json = described(&report.expect("lines"));
        assert_eq!(json["listeners"][0]["unread_requests"], 1);
        assert_eq!(json["connections"][0]["state"], "Connected");
        assert!(json["connections"][0]["peer"].is_null());
        assert_eq!(json["unlisted_connections"], 3);
        assert_eq!(json["rejections"][0]["reason"], 28);
        assert_eq!(json["rejections"][0]["reason_name"], "consumer defined");
        assert_eq!(json["lines"][2], "connection and 3 more");
    }
}
