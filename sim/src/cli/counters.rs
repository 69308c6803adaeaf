//! `ferroce counters`: the counters of the NICs of running programs.

use std::sync::atomic::Ordering;

use clap::Args;
use ferroce_embed::fabric::registry::{Registry, UplinkCounter};
use ferroce_embed::runtime_directory;
use ferroce_faults::FaultCounter;
use ferroce_platform::host::device_name;
use ferroce_spec::counter::COUNTERS;

use super::devices::program_name;

/// Show the counters of the NIC functions of running programs.
///
/// A program updates its counters every few hundred runs of its NIC, and when it becomes idle.
///
/// Those of uplink_... are of its wire out of this machine (see `ferroce run --port`), those of
/// fault_... of injected packet faults (see `ferroce run --faults`).
///
/// The last two are not the NIC's: how often the thread that serves a program while it does not
/// poll got a processor more than 100 ms too late (the machine is overloaded, or the program was
/// stopped; peers then see timeouts), and the longest time in microseconds that it ever waited.
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
            let device = device_name(occupant.identity.device);
            println!("pid {pid}  {}  {device} on host {host}", program_name(pid));
            let of_the_nic = COUNTERS.iter().enumerate().map(|(index, counter)| {
                let value = registry.counter(occupant.place, index);
                (counter.name, value)
            });
            let of_the_host = [
                ("late_wakeups", registry.late_wakeups(occupant.place)),
                ("max_late_us", registry.max_late_us(occupant.place)),
            ];
            let of_the_wire = UplinkCounter::ALL.map(|counter| {
                let value = registry.uplink_counter(occupant.place, counter);
                (counter.name(), value)
            });
            let of_faults = FaultCounter::ALL.map(|counter| {
                let value = registry.fault_counter(occupant.place, counter);
                (counter.name(), value)
            });
            let all = of_the_nic.chain(of_the_wire).chain(of_faults);
            for (name, value) in all.chain(of_the_host) {
                let value = value.load(Ordering::Relaxed);
                if value != 0 || self.all {
                    println!("  {name:24} {value:>16}");
                }
            }
        }
        Ok(())
    }
}
