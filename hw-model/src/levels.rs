//! Fill levels of the NIC's queues, for waveforms: read from outside and only on request.

use crate::blocks::Blocks;
use crate::nic::Nic;
use crate::ports::port::Port;
use crate::time::timing::Timing;

/// A queue or a pool of the NIC whose level can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Level {
    /// Its name.
    pub name: &'static str,
    /// The processing unit that it belongs to.
    pub unit: Option<u8>,
}

/// Queues of a NIC, in the order of [`Nic::observe`].
const OF_NIC: [&str; 9] = [
    "doorbells",
    "fetches",
    "fetches_waiting",
    "mac_egress",
    "mac_ingress",
    "inbound",
    "completions",
    "events",
    "cq_entries",
];
/// Queues of each processing unit: QPs that wait to be served, and packets for the packetizer.
const OF_UNIT: [&str; 2] = ["ready_qps", "outbound"];

/// Returns the levels of a NIC with `units` processing units, in the order of [`Nic::observe`].
pub fn levels(units: u8) -> impl Iterator<Item = Level> {
    let of_nic = OF_NIC.map(|name| Level { name, unit: None });
    let of_units = (0..units).flat_map(|unit| {
        let unit = Some(unit);
        OF_UNIT.map(|name| Level { name, unit })
    });
    of_nic.into_iter().chain(of_units)
}

impl<P: Port, T: Timing, B: Blocks> Nic<P, T, B> {
    /// Appends the number of items in each of [`levels`].
    ///
    /// `read_record` reads the 32-bit word at an IOVA of host memory: software's position in a
    /// completion queue is only there.
    pub fn observe(&self, read_record: impl FnMut(u64) -> Option<u32>, values: &mut Vec<u64>) {
        let blocks = &self.blocks;
        let (under_way, waiting) = blocks.transmit.fetches();
        let (egress, ingress) = blocks.mac.levels();
        let of_nic: [usize; OF_NIC.len() - 1] = [
            blocks.doorbells.len(),
            under_way,
            waiting,
            egress,
            ingress,
            blocks.receive.len(),
            blocks.completions.len(),
            blocks.host_interface.events_waiting(),
        ];
        values.extend(of_nic.map(|length| length as u64));
        values.push(blocks.contexts.cqs.entries_waiting(read_record));
        for (ready_qps, outbound) in blocks.transmit.unit_levels() {
            let of_unit: [usize; OF_UNIT.len()] = [ready_qps, outbound];
            values.extend(of_unit.map(|length| length as u64));
        }
    }
}
