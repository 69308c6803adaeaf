//! The host's side of the card: lines of memory, interrupts, doorbells.

use std::collections::BTreeMap;
use std::ops::Range;

use ferroce_model::ports::host::{Doorbell, Host, WriteOrder};
use ferroce_rtl_harness::{LINE, bytes, words};
use ferroce_units::Instant;

use crate::host_link::HostLink;
use crate::verilated::Card;

/// Cycles from the request of a line to the line, without the slot of a preset.
pub const LINE_LATENCY_CYCLES: u64 = 16;
/// Maximum number of outstanding reads: one for each tag of an epoch.
const MAX_READS: usize = 1 << 11;

/// An outstanding read.
#[derive(Debug)]
struct Read {
    iova: u64,
    tag: u16,
}

/// Reads and writes in flight between the card and its host.
#[derive(Debug)]
pub struct Lines {
    /// By the cycle in which the line arrives, and the order of requests.
    reads: BTreeMap<(u64, u64), Read>,
    requests: u64,
    /// The read whose line is offered to the card.
    due: Option<Read>,
    doorbell: Option<Doorbell>,
    /// True if a write is taken in this cycle; the card sees this as `ready`.
    takes_write: bool,
    /// Cycles from the request of a line to the line, without a link.
    latency_cycles: u64,
    link: Option<HostLink>,
}

impl Default for Lines {
    fn default() -> Self {
        Self {
            reads: BTreeMap::new(),
            requests: 0,
            due: None,
            doorbell: None,
            takes_write: false,
            latency_cycles: LINE_LATENCY_CYCLES,
            link: None,
        }
    }
}

impl Lines {
    /// Sets the cycles from the request of a line to the line.
    pub fn set_latency_cycles(&mut self, cycles: u64) {
        self.latency_cycles = cycles;
    }

    /// Delays lines like this slot and host.
    pub fn set_link(&mut self, link: Option<HostLink>) {
        self.link = link;
    }

    /// Drops all reads and writes in flight.
    pub fn reset(&mut self) {
        *self = Self {
            latency_cycles: self.latency_cycles,
            link: self.link.take(),
            ..Self::default()
        };
    }

    /// Returns true if nothing is in flight.
    pub fn is_empty(&self) -> bool {
        self.reads.is_empty() && self.due.is_none() && self.doorbell.is_none()
    }

    /// Sets the inputs of a cycle without DMA and doorbells.
    pub fn rest(&self, rtl: &mut Card) {
        rtl.set_dma_read_ready(0);
        rtl.set_dma_write_ready(0);
        rtl.set_dma_line_valid(0);
        rtl.set_doorbell_valid(0);
    }

    /// Offers the next doorbell to the card. Returns true if there is one.
    pub fn offer_doorbell<H: Host>(&mut self, rtl: &mut Card, host: &mut H) -> bool {
        if self.doorbell.is_none() {
            self.doorbell = host.next_doorbell();
        }
        rtl.set_doorbell_valid(u8::from(self.doorbell.is_some()));
        if let Some(doorbell) = &self.doorbell {
            rtl.set_doorbell_slot(doorbell.slot & 0x7_ffff);
            rtl.set_doorbell_value(doorbell.value);
        }
        self.doorbell.is_some()
    }

    /// Offers the line that is due to the card, if there is one.
    pub fn offer_line<H: Host>(&mut self, rtl: &mut Card, now: Instant, host: &mut H) {
        let cycle = rtl.cycles();
        if self.due.is_none() {
            let first = self.reads.first_entry();
            let due = first.filter(|entry| entry.key().0 <= cycle);
            self.due = due.map(|entry| entry.remove());
        }
        rtl.set_dma_line_valid(u8::from(self.due.is_some()));
        if let Some(read) = &self.due {
            let mut line = [0xff; LINE];
            let result = host.dma_read(now, read.iova, &mut line);
            rtl.set_dma_line_tag(read.tag);
            rtl.set_dma_line_error(u8::from(result.is_err()));
            rtl.set_dma_line(words(&line, 0));
        }
        rtl.set_dma_read_ready(u8::from(self.reads.len() < MAX_READS));
        self.takes_write = self.link.as_ref().is_none_or(|link| link.is_free(cycle));
        rtl.set_dma_write_ready(u8::from(self.takes_write));
    }

    /// Takes the card's read requests and writes of this cycle. Its outputs have settled.
    pub fn take<H: Host>(&mut self, rtl: &mut Card, now: Instant, host: &mut H) {
        self.due = None;
        if rtl.doorbell_ready() != 0 {
            self.doorbell = None;
        }
        if rtl.dma_read_valid() != 0 && self.reads.len() < MAX_READS {
            self.request(rtl);
        }
        if rtl.dma_write_valid() != 0 && self.takes_write {
            let is_refused = !write(rtl, now, host);
            rtl.set_dma_write_error(u8::from(is_refused));
            rtl.settle();
            if let Some(link) = &mut self.link {
                occupy(link, rtl);
            }
        }
    }

    /// Takes the request of a line.
    fn request(&mut self, rtl: &Card) {
        let (cycle, iova) = (rtl.cycles(), rtl.dma_read_iova());
        let due_cycle = match &mut self.link {
            Some(link) => link.read(cycle, iova, LINE as u64),
            None => cycle + self.latency_cycles,
        };
        let read = Read {
            iova,
            tag: rtl.dma_read_tag(),
        };
        self.reads.insert((due_cycle, self.requests), read);
        self.requests += 1;
    }
}

/// Charges the wire time of the write or message that the card offers.
fn occupy(link: &mut HostLink, rtl: &Card) {
    if rtl.dma_write_message() != 0 {
        link.interrupt(rtl.cycles());
    } else {
        let bytes = rtl.dma_write_strobe().count_ones().into();
        link.write(rtl.cycles(), rtl.dma_write_iova(), bytes);
    }
}

/// Returns the order of a write at `now`.
pub fn order_at(now: Instant) -> WriteOrder {
    WriteOrder {
        at: now,
        after: now,
        ..WriteOrder::default()
    }
}

/// Executes the write that the card offers, or sends its MSI-X message. Returns false if the host
/// refuses it.
fn write<H: Host>(rtl: &Card, now: Instant, host: &mut H) -> bool {
    let order = order_at(now);
    if rtl.dma_write_message() != 0 {
        host.interrupt(order, rtl.dma_write_vector().into());
        return true;
    }
    let line = bytes(rtl.dma_write_line());
    let iova = rtl.dma_write_iova();
    let mut runs = Runs(rtl.dma_write_strobe());
    runs.all(|run| write_run(iova + run.start as u64, &line[run], order, host))
}

/// Writes up to a line of bytes. Returns false if the host refuses them.
pub fn write_run<H: Host>(at: u64, source: &[u8], order: WriteOrder, host: &mut H) -> bool {
    if at % 8 != 0 || source.len() % 8 != 0 {
        return host.dma_write(order, at, source).is_ok();
    }
    // Whole words may be a descriptor, so the last word must become visible last.
    let mut words = [0; LINE / 8];
    for (word, bytes) in words.iter_mut().zip(source.chunks_exact(8)) {
        *word = u64::from_le_bytes(bytes.try_into().expect("chunks of eight"));
    }
    host.dma_write_descriptor(order, at, &words[..source.len() / 8])
        .is_ok()
}

/// Returns the runs of ones in a strobe, from the lowest on.
struct Runs(u64);

impl Iterator for Runs {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        if self.0 == 0 {
            return None;
        }
        let start = self.0.trailing_zeros() as usize;
        let length = (self.0 >> start).trailing_ones() as usize;
        let end = start + length;
        self.0 = if end == LINE { 0 } else { self.0 >> end << end };
        Some(start..end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_a_strobe_are_in_order_and_whole() {
        let runs = |strobe| Runs(strobe).collect::<Vec<_>>();
        assert!(runs(0).is_empty());
        assert_eq!(Runs(u64::MAX).next(), Some(0..64));
        assert_eq!(Runs(0xffff << 48).next(), Some(48..64));
        assert_eq!(runs(0b0110_1001), [0..1, 3..4, 5..7]);
    }
}
