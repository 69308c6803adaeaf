//! The lines of a waveform, as its file declares them.

use std::io::{Seek, Write};

use ferroce_model::levels::levels;
use fst_writer::{
    FstHeaderWriter, FstScopeType, FstSignalType, FstVarDirection, FstVarType, FstWriteError,
};

use super::Signal;
use super::lines::{CACHES, HostLines, Line, Units, Usage};
use crate::WorldConfig;

/// Bits of a number of items.
const COUNT_BITS: u32 = 16;
/// Bits of a number of bytes.
const BYTES_BITS: u32 = 32;

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

    /// Returns the lines that were declared.
    pub fn signals(self) -> Vec<Signal> {
        self.signals
    }

    /// Declares all lines of a world.
    pub fn world(&mut self, config: &WorldConfig) -> Result<Vec<HostLines>, FstWriteError> {
        self.scope("world", |world| {
            (0..config.hosts)
                .map(|host| {
                    let name = format!("host{host}");
                    world.scope(&name, |scope| scope.host(config, host))
                })
                .collect()
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
        Ok(HostLines::new(
            queues, blocks, requests, busy, caches, usage, link, processor, gbps,
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
/// PCIe requests under way, in the order of [`HostLines`].
const REQUESTS: [&str; 5] = ["reads", "writes", "atomics", "interrupts", "stores"];

fn names_of(units: u8, unit: Option<u8>) -> Vec<&'static str> {
    let of_unit = levels(units).filter(|level| level.unit == unit);
    of_unit.map(|level| level.name).collect()
}
