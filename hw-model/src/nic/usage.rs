//! Utilisation of each part of the card.

use ferroce_units::Instant;

use super::Nic;
use crate::blocks::Blocks;
use crate::ports::port::Port;
use crate::time::timing::{Stage, Timing};
use crate::usage::{FETCHES, Usage};

/// Returns the name of a block, and its processing unit. `MacReceive` is reported as the
/// depacketizer: frames arrive spread over time by the wire, so the depacketizer's time covers
/// both.
const fn name(stage: Stage) -> (&'static str, Option<u8>) {
    match stage {
        Stage::Doorbell => ("doorbell", None),
        Stage::Fetch => ("fetch", None),
        Stage::Transmit(unit) => ("transmit", Some(unit)),
        Stage::Packetize => ("packetizer", None),
        Stage::MacTransmit => ("mac_transmit", None),
        Stage::MacReceive => ("depacketizer", None),
        Stage::Receive(unit) => ("receive", Some(unit)),
        Stage::Completion => ("completion", None),
        Stage::Event => ("event", None),
    }
}

impl<P: Port, T: Timing, B: Blocks> Nic<P, T, B> {
    /// Returns the utilisation of the card's parts up to `now`: blocks in data path order, then
    /// pools.
    pub fn usage(&self, now: Instant) -> Vec<Usage> {
        let mut parts = Vec::new();
        self.timing().visit_busy(&mut |stage, busy| {
            let (name, unit) = name(stage);
            parts.push(Usage {
                unit,
                ..Usage::server(name, busy)
            });
        });
        let blocks = &self.blocks;
        let (atomics, address) = blocks.translation.atomics_usage();
        parts.push(Usage::server("atomic_address", address));
        let (mpt, mtt) = blocks.translation.miss_registers();
        let contexts = &blocks.contexts;
        parts.extend([
            Usage::pool(FETCHES, blocks.transmit.fetch_usage()),
            Usage::pool("atomic_units", atomics),
            Usage::pool("qpc_mshrs", contexts.qps.miss_registers()),
            Usage::pool("cqc_mshrs", contexts.cqs.miss_registers()),
            Usage::pool("srqc_mshrs", contexts.srqs.miss_registers()),
            Usage::pool("responder_mshrs", contexts.responder.miss_registers()),
            Usage::pool("mpt_mshrs", mpt),
            Usage::pool("mtt_mshrs", mtt),
            Usage::pool("wqe_mshrs", contexts.wqe_records.miss_registers()),
            Usage::pool("egress_packets", blocks.mac.egress_usage(now)),
        ]);
        parts
    }
}
