//! `ferroce inject`: faults for running programs.

mod worlds;

use std::fmt::Write;

use clap::{Args, ValueEnum};
use ferroce_embed::clock::{Clock, Ticks};
use ferroce_embed::fabric::registry::{DeviceFault, Injection, Occupant, Registry};
use ferroce_embed::runtime_directory;
use ferroce_faults::Plan;
use ferroce_platform::host::device_name;

use super::devices::program_name;
use super::progress;

/// Inject a fault into devices in use.
///
/// Without options it affects all devices of all your programs on this machine. A program that
/// starts afterwards finds its port up.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ferroce run -- ibv_asyncwatch &
  ferroce inject port-down                IBV_EVENT_PORT_ERR: nothing is sent or received
  ferroce inject port-up                  IBV_EVENT_PORT_ACTIVE: transport continues
  ferroce inject device-fatal --pid 4711  IBV_EVENT_DEVICE_FATAL: the device is gone
  ferroce inject poisoned-data --count 3  three DMA reads fail, and their queue pairs
  ferroce inject faults loss=1e-2,seed=3  packet faults, in place of those of `ferroce run --faults`
  ferroce inject faults drop=ack#1-3      drops the next three ACKs of each flow
  ferroce inject no-faults                the end of packet faults

A function of `ferroce serve` has the pid of the server. `ferroce devices` shows whose port is down,
and which devices have stopped or are removed. `ferroce counters` shows what packet faults have
done. The book's page on faults says what programs see.

Programs in simulated time are not reached: their faults are those of `ferroce world --faults`.")]
pub struct Inject {
    /// The fault
    #[arg(value_enum)]
    fault: Fault,

    /// Of `faults`: which, as for `ferroce run --faults`. Numbers and times count from now on
    #[arg(value_name = "PLAN", value_parser = ferroce_embed::faults::read,
          required_if_eq("fault", "faults"))]
    plan: Option<Plan>,

    /// How often a fault of one access happens: to the next DMA reads, interrupts or doorbells
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u8).range(1..))]
    count: u8,

    /// Only to programs on this host of the fabric
    #[arg(long, value_name = "NAME")]
    host: Option<String>,

    /// Only to this process
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,

    /// Only to devices of this name
    #[arg(long, value_name = "ferroceN")]
    device: Option<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Fault {
    /// The cable is unplugged
    PortDown,
    /// The cable is plugged in again
    PortUp,
    /// The device stops working, until the program opens it again
    DeviceFatal,
    /// PCIe: a DMA read is completed as an unsupported request
    CompletionError,
    /// PCIe: a DMA read is not completed
    CompletionTimeout,
    /// PCIe: the data of a DMA read is poisoned
    PoisonedData,
    /// PCIe: an MSI-X message is lost
    LostInterrupt,
    /// PCIe: a write to a doorbell is lost
    StuckDoorbell,
    /// The next command does not end, and none after it until the device is reset
    CommandHang,
    /// PCIe: the card is pulled out; all registers read as ones
    SurpriseRemoval,
    /// PCIe: a card is plugged in again
    Insertion,
    /// PCIe: the function is reset while it is in use
    FunctionLevelReset,
    /// Packets that the device receives, or sends on a wire out of this machine, suffer faults
    Faults,
    /// Packets suffer no faults any more
    NoFaults,
}

impl Fault {
    /// Returns the injection, and the message for a device where it was already in force; `None`
    /// for faults of packets.
    fn injection(self, count: u8) -> Option<(Injection, &'static str)> {
        let device = |fault, count| (Injection::Device(fault, count), "");
        Some(match self {
            Fault::PortDown => (Injection::PortDown, "its port was down already"),
            Fault::PortUp => (Injection::PortUp, "its port was up already"),
            Fault::DeviceFatal => (Injection::DeviceFatal, "it had stopped already"),
            Fault::SurpriseRemoval => (Injection::SurpriseRemoval, "it was removed already"),
            Fault::Insertion => (Injection::Insertion, "it was not removed"),
            Fault::CompletionError => device(DeviceFault::CompletionError, count),
            Fault::CompletionTimeout => device(DeviceFault::CompletionTimeout, count),
            Fault::PoisonedData => device(DeviceFault::PoisonedData, count),
            Fault::LostInterrupt => device(DeviceFault::LostInterrupt, count),
            Fault::StuckDoorbell => device(DeviceFault::StuckDoorbell, count),
            Fault::CommandHang => device(DeviceFault::CommandHang, 1),
            Fault::FunctionLevelReset => device(DeviceFault::FunctionLevelReset, 1),
            Fault::Faults | Fault::NoFaults => return None,
        })
    }
}

impl Inject {
    /// Injects the fault, and prints the affected devices.
    pub fn execute(self) -> Result<(), String> {
        let directory = runtime_directory().map_err(|error| error.to_string())?;
        let registry = Registry::open(&directory).map_err(|error| error.to_string())?;
        let occupants = registry.occupants();
        let chosen: Vec<_> = occupants.iter().filter(|o| self.is_meant(o)).collect();
        if chosen.is_empty() {
            return Err(self.no_match(&occupants));
        }
        if self.plan.is_some() && !matches!(self.fault, Fault::Faults) {
            return Err("a plan belongs to `ferroce inject faults`".to_owned());
        }
        let now = Clock::start().ticks();
        for occupant in chosen {
            let note = self.inject(registry, occupant.place, now);
            progress::say(&format!("{}: {note}", name(occupant)));
        }
        Ok(())
    }

    /// Injects the fault into the device at a place; returns the result as text.
    fn inject(&self, registry: &Registry, place: u8, now: Ticks) -> &'static str {
        let Some((injection, was_so)) = self.fault.injection(self.count) else {
            registry.inject_plan(place, self.plan.as_ref(), now);
            return "done";
        };
        if registry.inject(place, injection, now) {
            "done"
        } else {
            was_so
        }
    }

    fn is_meant(&self, occupant: &Occupant) -> bool {
        let identity = &occupant.identity;
        let has = |wanted: &Option<String>, is: &str| wanted.as_ref().is_none_or(|w| w == is);
        has(&self.host, &identity.host)
            && has(&self.device, &device_name(identity.device))
            && self.pid.is_none_or(|pid| pid == occupant.pid)
    }

    /// Returns a message that no device matches, with the existing ones.
    fn no_match(&self, occupants: &[Occupant]) -> String {
        if occupants.is_empty() || self.pid.is_some() {
            if let Some(explanation) = worlds::explanation(self.pid) {
                return explanation;
            }
        }
        if occupants.is_empty() {
            return "no program uses the device now".to_owned();
        }
        let mut message = "no program that runs uses".to_owned();
        let device = self.device.as_deref().unwrap_or("the device");
        // Writing to a string cannot fail.
        let _ = write!(message, " {device}");
        if let Some(host) = &self.host {
            let _ = write!(message, " on host {host}");
        }
        if let Some(pid) = self.pid {
            let _ = write!(message, " as process {pid}");
        }
        message.push_str("; there are:");
        for occupant in occupants {
            let _ = write!(message, "\n  {}", name(occupant));
        }
        message
    }
}

fn name(occupant: &Occupant) -> String {
    let (pid, identity) = (occupant.pid, &occupant.identity);
    let (program, device) = (program_name(pid), device_name(identity.device));
    format!("pid {pid}  {program}  {device} on host {}", identity.host)
}
