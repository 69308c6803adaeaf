//! `ferroce inject`: faults for running programs.

mod worlds;

use std::fmt::Write;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use ferroce_embed::clock::{Clock, Ticks};
use ferroce_embed::fabric::registry::{DeviceFault, Injection, Occupant, Registry};
use ferroce_embed::runtime_directory;
use ferroce_faults::{Onset, OnsetError, Plan, Situation};
use ferroce_platform::host::device_name;

use super::devices::program_name;
use super::progress;

/// How long a function that has not taken its last situation is waited for.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

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

Situations that peers notice, of the program and its device:
  ferroce inject peer-qp-error --pid 4711 as if it had moved its queue pairs to ERR
  ferroce inject peer-killed qp-first     killed; the kernel destroys its queue pairs first
  ferroce inject peer-killed mr-first     killed; its memory regions go first, the queue pairs
                                          10 ms later (mr-first/1s: a second later)
  ferroce inject peer-stopped 4s          stopped for this time, while its card goes on
  ferroce inject mr-gone                  its memory regions are gone
  ferroce inject no-receive 4s            its receives are not fetched; without a time: until
                                          `ferroce inject no-faults`
  ferroce inject link-down 4s             the cable is unplugged for this time; without a time:
                                          until `ferroce inject port-up`
  ferroce inject address-gone 4s          the IPv4 addresses of its port are removed for this
                                          time: IBV_EVENT_GID_CHANGE; without a time: until
                                          `ferroce inject no-faults`

A function of `ferroce serve` has the pid of the server. `ferroce devices` shows whose port is down,
and which devices have stopped or are removed. `ferroce counters` shows what packet faults have
done. The book's page on faults says what programs see.

Programs in simulated time are not reached: their faults are those of `ferroce world --faults`.")]
pub struct Inject {
    /// The fault
    #[arg(value_enum)]
    fault: Fault,

    /// Of `faults`: the plan, as for `ferroce run --faults`; numbers and times count from now on.
    /// Of `peer-killed`: what the kernel destroys first, qp-first or mr-first. Of `peer-stopped`,
    /// `no-receive`, `link-down` and `address-gone`: how long, such as 4s
    #[arg(value_name = "VALUE", required_if_eq_any([
        ("fault", "faults"), ("fault", "peer-killed"), ("fault", "peer-stopped")]))]
    value: Option<String>,

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
    /// Packets suffer no faults any more, and situations that last end
    NoFaults,
    /// Situation: the queue pairs of the program move to ERR
    PeerQpError,
    /// Situation: the program is killed. VALUE: qp-first or mr-first
    PeerKilled,
    /// Situation: the program is stopped, and its card goes on. VALUE: how long
    PeerStopped,
    /// Situation: the memory regions of the program are deregistered
    MrGone,
    /// Situation: the receives of the program are not fetched. VALUE: how long, or nothing
    NoReceive,
    /// Situation: the cable is unplugged. VALUE: how long, or nothing
    LinkDown,
    /// Situation: the IPv4 addresses of the port are removed. VALUE: how long, or nothing
    AddressGone,
}

/// What is injected.
enum Order {
    /// A fault of a device or of its port, and the message for a device where it was already in
    /// force.
    Device(Injection, &'static str),
    /// Faults of packets; `None`: no faults.
    Packets(Option<Plan>),
    /// A situation.
    Situation(Onset),
}

impl Order {
    /// Returns true if something happens to a process, and not only to its device.
    fn concerns_process(&self) -> bool {
        match self {
            Self::Device(..) | Self::Packets(None) => false,
            Self::Packets(Some(plan)) => plan.situations().any(Situation::concerns_process),
            Self::Situation(onset) => onset.situation.concerns_process(),
        }
    }
}

impl Fault {
    /// Returns the injection, and the message for a device where it was already in force; `None`
    /// for faults of packets, and for situations.
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
            Fault::Faults
            | Fault::NoFaults
            | Fault::PeerQpError
            | Fault::PeerKilled
            | Fault::PeerStopped
            | Fault::MrGone
            | Fault::NoReceive
            | Fault::LinkDown
            | Fault::AddressGone => return None,
        })
    }
}

impl Inject {
    /// Injects the fault, and prints the affected devices.
    pub fn execute(self) -> Result<(), String> {
        let order = self.order()?;
        let directory = runtime_directory().map_err(|error| error.to_string())?;
        let registry = Registry::open(&directory).map_err(|error| error.to_string())?;
        let occupants = registry.occupants();
        let chosen: Vec<_> = occupants.iter().filter(|o| self.is_meant(o)).collect();
        if chosen.is_empty() {
            return Err(self.no_match(&occupants, &directory));
        }
        if order.concerns_process() {
            refuse_served(registry, &chosen)?;
        }
        let now = Clock::start().ticks();
        for occupant in chosen {
            let note = inject(registry, occupant.place, &order, now);
            progress::say(&format!("{}: {note}", name(occupant)));
        }
        Ok(())
    }

    /// Returns what is injected.
    fn order(&self) -> Result<Order, String> {
        let value = self.value.as_deref();
        let name = self.fault.to_possible_value();
        let name = name.as_ref().map_or("", PossibleValue::get_name);
        match (self.fault, value) {
            (Fault::Faults, plan) => {
                let plan = ferroce_embed::faults::read(plan.unwrap_or_default());
                plan.map(|plan| Order::Packets(Some(plan)))
            }
            (Fault::NoFaults, None) => Ok(Order::Packets(None)),
            (fault, value) => match (fault.injection(self.count), value) {
                (Some((injection, was_so)), None) => Ok(Order::Device(injection, was_so)),
                (None, value) if !matches!(fault, Fault::NoFaults) => {
                    let text = format!("{name} {}", value.unwrap_or_default());
                    let onset = text.trim_end().parse().map(Order::Situation);
                    onset.map_err(|error: OnsetError| error.to_string())
                }
                (_, value) => Err(format!(
                    "`ferroce inject {name}` has no value, and {:?} was given; a plan belongs to \
                     `ferroce inject faults`",
                    value.unwrap_or_default()
                )),
            },
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
    fn no_match(&self, occupants: &[Occupant], directory: &Path) -> String {
        let nothing = "nothing to inject into: no program uses the device";
        if occupants.is_empty() || self.pid.is_some() {
            if let Some(explanation) = worlds::explanation(self.pid, directory) {
                return format!("{nothing} in the time of the machine\n{explanation}");
            }
        }
        if occupants.is_empty() {
            return format!("{nothing} in {} now", directory.display());
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

/// Injects into the device at a place; returns the result as text.
fn inject(registry: &Registry, place: u8, order: &Order, now: Ticks) -> &'static str {
    match order {
        Order::Packets(plan) => registry.inject_plan(place, plan.as_ref(), now),
        Order::Device(injection, was_so) if !registry.inject(place, *injection, now) => {
            return was_so;
        }
        Order::Device(..) => {}
        Order::Situation(onset) => {
            let begun = Instant::now();
            while !registry.inject_situation(place, *onset, now) {
                if begun.elapsed() > LONGEST_WAIT {
                    return "its last situation has not begun yet: is the process stopped?";
                }
                thread::yield_now();
            }
        }
    }
    "done"
}

/// Refuses what happens to a process if the function of one is served: its program is another
/// process, to which the system's own tools can do the same.
fn refuse_served(registry: &Registry, chosen: &[&Occupant]) -> Result<(), String> {
    let served = chosen
        .iter()
        .find(|occupant| registry.is_served(occupant.place));
    match served {
        Some(occupant) => Err(format!(
            "{}: the function is served to another process, and its card goes on in any case; stop \
             or kill that program: `kill -STOP`, `kill -KILL`; or choose another one with --pid",
            name(occupant)
        )),
        None => Ok(()),
    }
}

fn name(occupant: &Occupant) -> String {
    let (pid, identity) = (occupant.pid, &occupant.identity);
    let (program, device) = (program_name(pid), device_name(identity.device));
    format!("pid {pid}  {program}  {device} on host {}", identity.host)
}
