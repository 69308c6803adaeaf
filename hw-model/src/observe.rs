//! How full the NIC's queues are, for waveforms: looked at from outside, and only if somebody wants
//! to know.

use crate::nic::Nic;
use crate::port::Port;
use crate::timing::Timing;

/// A queue or a pool of the NIC whose level can be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Level {
    /// What it is.
    pub name: &'static str,
    /// The processing unit that it belongs to.
    pub unit: Option<u8>,
}

impl Level {
    const fn of_nic(name: &'static str) -> Self {
        Self { name, unit: None }
    }

    const fn of_unit(name: &'static str, unit: u8) -> Self {
        let unit = Some(unit);
        Self { name, unit }
    }
}

impl<P: Port, T: Timing> Nic<P, T> {
    /// Tells the level of each queue, always in the same order.
    ///
    /// `read_record` reads the 32-bit word at an IOVA of host memory: how far software has come with
    /// a completion queue is only there.
    pub fn observe(
        &self,
        read_record: impl FnMut(u64) -> Option<u32>,
        mut tell: impl FnMut(Level, u64),
    ) {
        let queues = [
            ("doorbells", self.doorbells.len()),
            ("fetches", self.fetch.under_way()),
            ("fetches_waiting", self.fetch.waiting()),
            ("mac_egress", self.mac.egress.len()),
            ("mac_ingress", self.mac.ingress.len()),
            ("inbound", self.inbound.len()),
            ("completions", self.completion_edge.len()),
            ("events", self.event_edge.len()),
        ];
        for (name, length) in queues {
            tell(Level::of_nic(name), length as u64);
        }
        for (index, unit) in self.units.iter().enumerate() {
            let ready = self.scheduler.len(index) as u64;
            tell(Level::of_unit("ready_qps", unit.number), ready);
            let outbound = unit.outbound.len() as u64;
            tell(Level::of_unit("outbound", unit.number), outbound);
        }
        let waiting = self.cqs.entries_waiting(read_record);
        tell(Level::of_nic("cq_entries"), waiting);
    }
}
