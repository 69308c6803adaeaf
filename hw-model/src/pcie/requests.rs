//! The way of one request over wires, pools, IOMMU and memory.

use ferroce_units::{Duration, Instant};

use super::Pcie;
use super::machine::Beyond;
use super::pool::{Shortage, Units};
use super::tlp::{self, Tlps};
use crate::ports::host::PostedOrder;

/// Posted TLPs: when their last byte is on the wire, and their credits.
#[derive(Debug, Clone, Copy)]
pub(super) struct SentPosted {
    pub(super) at: Instant,
    units: Units,
}

impl Pcie {
    /// Makes a request with completions, within one page; returns when all have arrived.
    #[inline]
    pub(super) fn nonposted_request(
        &mut self,
        at: Instant,
        iova: u64,
        length: u64,
        requests: Tlps,
        completions: Tlps,
    ) -> Instant {
        let now = self.now;
        let (start, units) = self.take_tags(requests.count, length);
        let start = self.take_nonposted(start, requests.count);
        let (begin, sent) = self.outbound.reserve(now, requests);
        self.counters.outbound_stalled = self.counters.outbound_stalled + (begin - now);
        let sent = sent.max(start + self.outbound.span(requests.wire_bytes));
        let beyond = self.read_beyond(iova, [requests, completions], length);
        let translated = self.translate(sent, iova).max(beyond.start);
        let back = self.inbound.span(completions.wire_bytes);
        let (begin, received) = if beyond.crosses_root_port {
            self.inbound.reserve_read(now, completions)
        } else {
            self.inbound.reserve(now, completions)
        };
        let received = received.max(translated + back).max(beyond.until);
        if begin > translated {
            let stall = begin - translated;
            self.counters.inbound_stalled = self.counters.inbound_stalled + stall;
        }
        let memory = if beyond.has_llc {
            let hit = self.memory.read(iova);
            self.memory_latency(hit)
        } else {
            Duration::ZERO
        };
        let latency = self.spread.next() + memory + self.latencies.engine_read;
        let latency = latency + beyond.longer - beyond.shorter;
        let there = at + (received - now) + latency;
        // A read does not overtake writes: it returns the data that was written before.
        let ordered = self.written.before(at) + self.latencies.read_return + back;
        if ordered > there {
            let stall = ordered - there;
            self.counters.read_stalled_ordering = self.counters.read_stalled_ordering + stall;
        }
        let data = Tlps {
            count: requests.count,
            wire_bytes: length,
        };
        let (_, stored) = self.storage.reserve(now, data);
        // Data of concurrent reads is stored one read after the other.
        let stored = at + (stored - now) + latency;
        let done = stored.max(there.max(ordered) + self.storage.span(length));
        // Some tags of several TLPs return earlier: on average by half of the wire time of the
        // completions.
        let early = match requests.count {
            0 | 1 => Duration::ZERO,
            _ => Duration::from_ps(back.as_ps() / 2),
        };
        self.reads.give_back(now + ((done - at) - early), units);
        done
    }

    /// Takes tags and completion buffer; returns when they are available.
    #[inline]
    fn take_tags(&mut self, count: u64, length: u64) -> (Instant, Units) {
        let units = Units {
            headers: count as u32,
            data: length as u32,
        };
        let (start, units, shortage) = self.reads.take(self.now, units);
        let stall = start - self.now;
        let counters = &mut self.counters;
        match shortage {
            None if stall.is_zero() => {}
            None | Some(Shortage::Headers) => {
                counters.read_stalled_no_read_engines =
                    counters.read_stalled_no_read_engines + stall;
            }
            Some(Shortage::Data) => {
                counters.read_stalled_no_completion_buffer =
                    counters.read_stalled_no_completion_buffer + stall;
            }
        }
        (start, units)
    }

    /// Takes non-posted credits if they can run out; they return when the host has accepted the
    /// request.
    #[inline]
    fn take_nonposted(&mut self, start: Instant, count: u64) -> Instant {
        let Some(pool) = &mut self.nonposted else {
            return start;
        };
        let units = Units {
            headers: count as u32,
            data: 0,
        };
        let (had, units, _) = pool.take(self.now, units);
        pool.give_back(had.max(start) + self.latencies.read_return, units);
        let counters = &mut self.counters;
        counters.read_stalled_no_credits = counters.read_stalled_no_credits + (had - start);
        had.max(start)
    }

    /// Makes a posted write in all its pieces; returns when they would be visible if nothing was
    /// older, except in a root complex whose places for strictly ordered writes are limited.
    #[inline]
    pub(super) fn post(
        &mut self,
        at: Instant,
        iova: u64,
        length: u64,
        order: PostedOrder,
    ) -> Instant {
        self.counters.writes += 1;
        self.counters.write_bytes += length;
        let mut visible = at;
        for (start, bytes) in tlp::pieces(iova, length) {
            let tlps = self.limits.writes(bytes);
            let sent = self.send_posted(tlps, bytes);
            let beyond = self.write_beyond(start, tlps, bytes);
            let arrived = self.translate(sent.at, start).max(beyond.until);
            let memory = if beyond.has_llc {
                let hit = self.memory.write(start);
                self.memory_latency(hit)
            } else {
                Duration::ZERO
            };
            let latency = self.latencies.write + self.latencies.engine_write + memory;
            let latency = latency + beyond.longer - beyond.shorter;
            let delay = match order {
                PostedOrder::Strict => self.delay_of_commit(arrived, start, memory, bytes),
                PostedOrder::Relaxed => Duration::ZERO,
            };
            let piece = at + (arrived - self.now) + delay + latency;
            visible = visible.max(piece);
            self.return_credits(&sent, piece - at);
        }
        visible
    }

    /// Reserves what a read crosses beyond the slot.
    #[inline]
    fn read_beyond(&mut self, iova: u64, tlps: [Tlps; 2], length: u64) -> Beyond {
        match &mut self.attachment {
            None => Beyond::NOTHING,
            Some(attachment) => attachment.read(self.now, iova, tlps, length),
        }
    }

    /// Reserves what a write crosses beyond the slot.
    #[inline]
    fn write_beyond(&mut self, iova: u64, tlps: Tlps, length: u64) -> Beyond {
        match &mut self.attachment {
            None => Beyond::NOTHING,
            Some(attachment) => attachment.write(self.now, iova, tlps, length),
        }
    }

    /// Returns the delay of a strictly ordered write in the root complex. Its credits return
    /// after that delay, so that distance and order together limit the rate. `memory`: additional
    /// latency of the memory.
    #[inline]
    fn delay_of_commit(
        &mut self,
        arrived: Instant,
        iova: u64,
        memory: Duration,
        bytes: u64,
    ) -> Duration {
        let attachment = self.attachment.as_mut();
        attachment.map_or(Duration::ZERO, |attachment| {
            attachment.commit(arrived, iova, memory, bytes)
        })
    }

    /// Puts posted TLPs on the wire.
    #[inline]
    pub(super) fn send_posted(&mut self, tlps: Tlps, length: u64) -> SentPosted {
        let units = Units {
            headers: tlps.count as u32,
            data: self.limits.data_credits(length) as u32,
        };
        let (start, units, _) = self.posted.take(self.now, units);
        let counters = &mut self.counters;
        counters.write_stalled_no_credits = counters.write_stalled_no_credits + (start - self.now);
        let (begin, sent) = self.outbound.reserve(self.now, tlps);
        counters.outbound_stalled = counters.outbound_stalled + (begin - self.now);
        SentPosted {
            at: sent.max(start + self.outbound.span(tlps.wire_bytes)),
            units,
        }
    }

    /// Returns the credits: the host has room again when the write has become visible.
    #[inline]
    pub(super) fn return_credits(&mut self, sent: &SentPosted, hold: Duration) {
        self.posted.give_back(self.now + hold, sent.units);
    }

    /// Orders a write after all older ones; returns when it becomes visible.
    #[inline]
    pub(super) fn order(&mut self, at: Instant, visible: Instant) -> Instant {
        let before = self.written.before(at);
        let counters = &mut self.counters;
        counters.write_stalled_ordering = counters.write_stalled_ordering + (before - visible);
        let visible = visible.max(before);
        self.written.push(at, visible);
        visible
    }

    #[inline]
    fn translate(&mut self, arrival: Instant, iova: u64) -> Instant {
        match &mut self.iommu {
            Some(iommu) => iommu.translate(self.now, arrival, iova),
            None => arrival,
        }
    }

    /// Returns the additional latency of host memory over the LLC of the near socket. `hit`: the
    /// access was to the LLC.
    #[inline]
    fn memory_latency(&self, hit: bool) -> Duration {
        if hit {
            self.latencies.numa
        } else {
            self.latencies.numa + self.latencies.dram
        }
    }
}
