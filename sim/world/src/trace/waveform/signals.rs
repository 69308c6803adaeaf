//! The lines of a waveform, in the form that its file declares.

use std::io::{Seek, Write};

use ferroce_model::levels::levels;
use fst_writer::{
    FstHeaderWriter, FstScopeType, FstSignalType, FstVarDirection, FstVarType, FstWriteError,
};

use super::Signal;
use super::lines::{CACHES, HostLines, Line, PortLines, Units, Usage};
use crate::fabric::routing::Ends;
use crate::fabric_plan::{Node, PRIORITIES};
use crate::{FabricPlan, PortObservation, WorldConfig};

/// Bits of a number of items.
const COUNT_BITS: u32 = 16;
/// Bits of a number of bytes.
const BYTES_BITS: u32 = 32;
/// Bits of a rate in Mb/s.
const RATE_BITS: u32 = 24;

/// Lines of the hosts of a world, and of the ports of its switches.
pub type WorldLines = (Vec<HostLines>, Vec<PortLines>);

/// Builder of a file's header.
pub struct Declaration<'a, W: Write + Seek> {
    header: &'a mut FstHeaderWriter<W>,
    signals: Vec<Signal>,
}

impl<'a, W: Write + Seek> Declaration<'a, W> {
    /// Returns the header of a file without lines.
    pub fn new(header: &'a mut FstHeaderWriter<W>) -> Self {
        let signals = Vec::new();
        Self { header, signals }
    }

    /// Returns the declared lines.
    pub fn signals(self) -> Vec<Signal> {
        self.signals
    }

    /// Declares all lines of a world: the lines of its hosts, and of the ports of its switches.
    pub fn world(&mut self, config: &WorldConfig) -> Result<WorldLines, FstWriteError> {
        self.scope("world", |world| {
            let hosts = (0..config.hosts).map(|host| {
                let name = format!("host{host}");
                world.scope(&name, |scope| scope.host(config, host))
            });
            let hosts = hosts.collect::<Result<_, _>>()?;
            let ports = match &config.fabric {
                None => Vec::new(),
                Some(plan) => world.scope("fabric", |fabric| fabric.ports(plan))?,
            };
            Ok((hosts, ports))
        })
    }

    /// Declares the lines of the ports of switches; returns them in the order of the links.
    fn ports(&mut self, plan: &FabricPlan) -> Result<Vec<PortLines>, FstWriteError> {
        let ends = Ends::of(plan);
        let mut declared = Vec::new();
        for (number, switch) in plan.switches.iter().enumerate() {
            self.scope(&switch.name, |scope| {
                for (port, channel) in ends.from(Node::Switch(number)).enumerate() {
                    let to = match ends.to(channel) {
                        Node::Host(host) => format!("n{host}"),
                        Node::Switch(other) => plan.switches[other].name.clone(),
                    };
                    let name = format!("port{port}_to_{to}");
                    let lines = scope.scope(&name, Self::port)?;
                    declared.push((channel, lines));
                }
                Ok(())
            })?;
        }
        declared.sort_by_key(|(channel, _)| *channel);
        Ok(declared.into_iter().map(|(_, lines)| lines).collect())
    }

    fn port(&mut self) -> Result<PortLines, FstWriteError> {
        Ok(PortLines {
            queued_bytes: self.line("queued_bytes", BYTES_BITS)?,
            paused: self.line("paused", PRIORITIES as u32)?,
            seen: PortObservation {
                queued_bytes: 0,
                paused: 0,
            },
        })
    }

    fn host(&mut self, config: &WorldConfig, host: usize) -> Result<HostLines, FstWriteError> {
        let preset = config.preset_of(host);
        let units = preset.map_or(1, |preset| preset.units.count as u8);
        let gbps = preset.map_or(f64::INFINITY, |preset| preset.mac.rate_gbps);
        let of_nic: Vec<&str> = names_of(units, None);
        let mut queues = self.group("queues", &of_nic, COUNT_BITS)?;
        let blocks = self.group("blocks", &BLOCKS, 1)?;
        let requests = self.group("requests", &REQUESTS, COUNT_BITS)?;
        let mut busy = Units::default();
        for unit in 0..units {
            let name = format!("unit{unit}");
            self.scope(&name, |scope| {
                for level in names_of(units, Some(unit)) {
                    queues.push(scope.line(level, COUNT_BITS)?);
                }
                busy.transmit.push(scope.line("transmit_busy", 1)?);
                busy.receive.push(scope.line("receive_busy", 1)?);
                Ok(())
            })?;
        }
        let caches: Vec<String> = CACHES
            .iter()
            .flat_map(|cache| {
                [
                    format!("{}_hit", cache.name),
                    format!("{}_miss", cache.name),
                ]
            })
            .collect();
        let caches: Vec<&str> = caches.iter().map(String::as_str).collect();
        let caches = self.group("caches", &caches, 1)?;
        let usage = self.scope("pcie", |pcie| {
            Ok(Usage {
                up: pcie.line("up_busy", 1)?,
                down: pcie.line("down_busy", 1)?,
                tags: pcie.line("tags", COUNT_BITS)?,
                read_bytes: pcie.line("read_bytes", BYTES_BITS)?,
                posted_headers: pcie.line("posted_headers", COUNT_BITS)?,
                posted_data: pcie.line("posted_data", COUNT_BITS)?,
            })
        })?;
        let link = self.group("link", &["tx_busy", "frame_on_cable", "rx_busy"], 1)?;
        let processor = self.group("processor", &["post", "poll", "compute"], 1)?;
        let congestion = match &config.fabric {
            Some(_) => self.group("congestion", &RATES, RATE_BITS)?,
            None => Vec::new(),
        };
        Ok(HostLines::new(
            queues, blocks, requests, busy, caches, usage, link, processor, congestion, gbps,
        ))
    }

    fn group(&mut self, name: &str, lines: &[&str], bits: u32) -> Result<Vec<Line>, FstWriteError> {
        self.scope(name, |scope| {
            lines.iter().map(|line| scope.line(line, bits)).collect()
        })
    }

    fn scope<R>(
        &mut self,
        name: &str,
        body: impl FnOnce(&mut Self) -> Result<R, FstWriteError>,
    ) -> Result<R, FstWriteError> {
        self.header.scope(name, "", FstScopeType::Module)?;
        let result = body(self)?;
        self.header.up_scope()?;
        Ok(result)
    }

    fn line(&mut self, name: &str, width: u32) -> Result<Line, FstWriteError> {
        let id = self.header.var(
            name,
            FstSignalType::bit_vec(width),
            FstVarType::Wire,
            FstVarDirection::Implicit,
            None,
        )?;
        let line = Line(self.signals.len());
        let value = 0;
        self.signals.push(Signal { id, width, value });
        Ok(line)
    }
}

/// Blocks with a busy line, in the order of [`HostLines`].
const BLOCKS: [&str; 6] = [
    "doorbell_busy",
    "fetch_busy",
    "packetizer_busy",
    "depacketizer_busy",
    "completion_busy",
    "event_busy",
];
/// PCIe requests in flight, in the order of [`HostLines`].
const REQUESTS: [&str; 5] = ["reads", "writes", "atomics", "interrupts", "stores"];

/// Queue pairs with their own rates, in the order of [`HostLines`].
const RATES: [&str; 2] = ["limited_qps", "lowest_rate_mbps"];

fn names_of(units: u8, unit: Option<u8>) -> Vec<&'static str> {
    let of_unit = levels(units).filter(|level| level.unit == unit);
    of_unit.map(|level| level.name).collect()
}
