//! Explains where the time of one operation went.

use std::fmt;

use ferroce_model::time::timing::Stage;
use ferroce_units::{Duration, Instant};

use super::path::{Part, What, parts};
use super::step::{Kind, Step};
use crate::Activity;

/// Characters of a bar that represents the whole time.
const BAR: u64 = 40;
/// A PCIe request that takes this many times as long as the fastest of its size has waited.
const WAITED: (u64, u64) = (3, 2);
/// Bytes of a doorbell; a larger store is a pushed WQE.
const DOORBELL_BYTES: u32 = 8;
/// Bytes of the operand of an atomic.
const OPERAND_BYTES: u32 = 8;
/// Bytes of the consumer record of a completion queue.
const RECORD_BYTES: u32 = 4;

/// A row: one part of the time, or several consecutive ones of the same kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The host or its card; for a frame on the cable, its sender.
    pub host: usize,
    /// The activity.
    pub what: String,
    /// Its limit.
    pub bound: &'static str,
    /// Its start.
    pub start: Instant,
    /// Its duration.
    pub time: Duration,
    /// Number of parts.
    pub count: u64,
}

/// The parts of an operation's time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// Its start.
    pub start: Instant,
    /// Its end.
    pub end: Instant,
    /// Its parts in order, without gaps.
    pub rows: Vec<Row>,
}

impl Explanation {
    /// Explains the time from `start` to `end` of a processor of `host`, using the recorded steps.
    pub fn new(steps: &[Step], host: usize, start: Instant, end: Instant) -> Self {
        let parts = parts(steps, host, start, end);
        let mut rows: Vec<Row> = Vec::new();
        for (index, part) in parts.iter().enumerate() {
            let is_read = |part: &&Part| part.what == What::Step(Kind::Host(Activity::PcieRead));
            let before = parts[..index].iter().rev().find(|part| !is_read(part));
            let what = describe(part, before, parts.get(index + 1));
            let bound = bound(part, steps);
            match rows.last_mut() {
                Some(row) if (row.host, &row.what, row.bound) == (part.host, &what, bound) => {
                    row.time = row.time + part.time();
                    row.count += 1;
                }
                _ => rows.push(Row {
                    host: part.host,
                    what,
                    bound,
                    start: part.start,
                    time: part.time(),
                    count: 1,
                }),
            }
        }
        Self { start, end, rows }
    }

    /// Explains the last message of the last posting host, from its post to the next one. `None`:
    /// no host has posted twice.
    pub fn of_last_message(steps: &[Step]) -> Option<(usize, Self)> {
        let posts = |host: Option<usize>| {
            let is_post = move |step: &&Step| {
                step.kind == Kind::Host(Activity::Post) && host.is_none_or(|host| step.host == host)
            };
            steps.iter().rev().filter(is_post)
        };
        let host = posts(None).map(|step| step.host).max()?;
        let mut last = posts(Some(host)).map(|step| step.start);
        let (end, start) = (last.next()?, last.next()?);
        // Steps that ended long before are irrelevant.
        let known_from = Instant(start.as_ps().saturating_sub((end - start).as_ps()));
        let is_near = |step: &&Step| step.end > known_from && step.start < end;
        let near: Vec<Step> = steps.iter().filter(is_near).copied().collect();
        Some((host, Self::new(&near, host, start, end)))
    }

    /// Returns the whole time.
    pub fn total(&self) -> Duration {
        self.end - self.start
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:>12} {:>11} {:>7}  {:<4} {:<46} {:<18}",
            "start [ns]", "time [ns]", "share", "host", "what", "bound by"
        )?;
        for row in &self.rows {
            let what = match row.count {
                1 => row.what.clone(),
                count => format!("{} ({count} times)", row.what),
            };
            writeln!(
                f,
                "{:>12} {:>11} {:>5}.{} %  {:<4} {what:<46} {:<18} {}",
                ns(row.start - self.start),
                ns(row.time),
                self.per_mille(row.time) / 10,
                self.per_mille(row.time) % 10,
                row.host,
                row.bound,
                self.bar(row.time),
            )?;
        }
        let sum: u64 = self.rows.iter().map(|row| row.time.as_ps()).sum();
        writeln!(f, "{:>12} {:>11}", "sum", ns(Duration::from_ps(sum)))
    }
}

impl Explanation {
    fn per_mille(&self, time: Duration) -> u64 {
        let total = self.total().as_ps().max(1);
        (time.as_ps() * 1000 + total / 2) / total
    }

    fn bar(&self, time: Duration) -> String {
        let total = self.total().as_ps().max(1);
        "█".repeat(((time.as_ps() * BAR + total / 2) / total) as usize)
    }
}

/// Formats nanoseconds exactly, with three decimals.
fn ns(time: Duration) -> String {
    format!("{}.{:03}", time.as_ps() / 1000, time.as_ps() % 1000)
}

/// Describes a part; its purpose follows from its neighbours.
fn describe(part: &Part, before: Option<&Part>, after: Option<&Part>) -> String {
    let kind_of = |part: Option<&Part>| match part?.what {
        What::Step(kind) | What::Busy(kind) => Some(kind),
        What::Turn(_) => None,
    };
    match part.what {
        What::Step(kind) => name(kind, part.bytes, kind_of(before), kind_of(after)),
        What::Busy(kind) => format!("waits: {}", name(kind, 0, None, None)),
        What::Turn(kind) => match kind.filter(|kind| !kind.is_processor()) {
            None => "until the processor looks".to_owned(),
            Some(kind) => format!("until its turn: {}", name(kind, 0, None, None)),
        },
    }
}

/// Returns the name of an activity, with its purpose if its neighbours show it.
fn name(kind: Kind, bytes: u32, before: Option<Kind>, after: Option<Kind>) -> String {
    let size = match bytes {
        0 => String::new(),
        bytes => format!(", {bytes} B"),
    };
    match kind {
        Kind::Host(Activity::Post) => "posts".to_owned(),
        Kind::Host(Activity::PostReceive) => "posts a receive".to_owned(),
        Kind::Host(Activity::Doorbell) => "rings, or pushes the WQE".to_owned(),
        Kind::Host(Activity::Poll) => "polls".to_owned(),
        Kind::Host(Activity::WakeUp) => "interrupt handler, wake-up of the thread".to_owned(),
        Kind::Host(Activity::Compute) => "looks at memory, computes".to_owned(),
        Kind::Host(Activity::Mmio) if bytes > DOORBELL_BYTES => format!("MMIO: pushed WQE{size}"),
        Kind::Host(Activity::Mmio) => "MMIO: doorbell".to_owned(),
        Kind::Host(Activity::PcieRead) => match after {
            Some(Kind::Card(Stage::Fetch)) => format!("PCIe read: WQEs{size}"),
            Some(Kind::Card(Stage::Packetize)) => format!("PCIe read: payload{size}"),
            Some(Kind::Host(Activity::PcieWrite)) if bytes == RECORD_BYTES => {
                format!("PCIe read: consumer record{size}")
            }
            Some(Kind::Card(Stage::Transmit(_))) if bytes == OPERAND_BYTES => {
                format!("PCIe read: operand of the atomic{size}")
            }
            None => format!("PCIe read{size}"),
            _ => format!("PCIe read: context, receive WQEs{size}"),
        },
        Kind::Host(Activity::PcieWrite) => match before {
            Some(Kind::Card(Stage::Completion)) => format!("PCIe write: CQE{size}"),
            Some(Kind::Card(Stage::Event)) => format!("PCIe write: event{size}"),
            _ => format!("PCIe write: payload{size}"),
        },
        Kind::Host(Activity::PcieAtomic) => "PCIe AtomicOp".to_owned(),
        Kind::Host(Activity::Interrupt) => "MSI-X".to_owned(),
        Kind::Host(Activity::Link) => format!("cable, switch{size}"),
        Kind::Card(Stage::Doorbell) => "doorbell decode, scheduler".to_owned(),
        Kind::Card(Stage::Fetch) => "WQE decode".to_owned(),
        Kind::Card(Stage::Transmit(unit)) => format!("processing unit {unit}: sends"),
        Kind::Card(Stage::Packetize) => format!("packetizer{size}"),
        Kind::Card(Stage::MacTransmit) => format!("MAC: sends{size}"),
        Kind::Card(Stage::MacReceive) => format!("MAC, depacketizer{size}"),
        Kind::Card(Stage::Receive(unit)) => format!("processing unit {unit}: receives"),
        Kind::Card(Stage::Completion) => "completion".to_owned(),
        Kind::Card(Stage::Event) => "event".to_owned(),
    }
}

/// Returns what limits the time of a part.
fn bound(part: &Part, steps: &[Step]) -> &'static str {
    match part.what {
        What::Busy(_) => "others",
        What::Turn(_) => "turn",
        What::Step(kind) if kind.is_processor() => "processor",
        What::Step(Kind::Card(_)) if part.occupied.as_ps() * 2 >= part.time().as_ps() => {
            "occupancy"
        }
        What::Step(
            kind @ Kind::Host(Activity::PcieRead | Activity::PcieWrite | Activity::Link),
        ) => {
            let same = steps
                .iter()
                .filter(|step| step.kind == kind && step.bytes == part.bytes);
            let fastest = same.map(|step| (step.end - step.start).as_ps()).min();
            let (times, of) = WAITED;
            match fastest {
                Some(fastest) if part.time().as_ps() * of > fastest * times => "latency, others",
                _ => "latency",
            }
        }
        What::Step(_) => "latency",
    }
}
