//! Counters of a host's NIC, PCIe link and cable.

use ferroce_faults::FaultCounters;
use ferroce_model::Counters;
use ferroce_model::pcie::PcieCounters;
use ferroce_spec::counter::{COUNTERS, Counter};
use ferroce_units::{Duration, Instant};

/// Counters that are only listed if there is congestion control.
const CONGESTION: [Counter; 3] = [
    Counter::np_ecn_marked_roce_packets,
    Counter::np_cnp_sent,
    Counter::rp_cnp_handled,
];

/// Counters of a host's line, from the point of view of its card.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Frames that the card has sent.
    pub sent_frames: u64,
    /// Bytes of these frames without preamble, frame check sequence and gap.
    pub sent_bytes: u64,
    /// Time of these frames on the wire, including preamble, frame check sequence and gap.
    pub sent_busy: Duration,
    /// Frames to the card.
    pub received_frames: u64,
    /// Bytes of these frames.
    pub received_bytes: u64,
    /// Time of these frames on the wire.
    pub received_busy: Duration,
    /// Total time that frames to the card waited in the switch.
    pub waited: Duration,
    /// Frames without a destination.
    pub lost_frames: u64,
    /// Frames to the card that switches have dropped.
    pub dropped_frames: u64,
    /// Maximum number of frames in flight to the card.
    pub most_under_way: u64,
    /// Faults of frames to the card; `None`: the world has no faults.
    pub faults: Option<FaultCounters>,
}

impl LinkCounters {
    /// Returns the utilisation of the card's two directions up to `now`: sent, received.
    pub fn utilisation(&self, now: Instant) -> (f64, f64) {
        let share = |busy: Duration| busy.as_ps() as f64 / now.as_ps().max(1) as f64;
        (share(self.sent_busy), share(self.received_busy))
    }
}

/// Counters of one host.
#[derive(Debug, Clone)]
pub struct HostCounters {
    /// The NIC's own counters.
    pub nic: Counters,
    /// True if the NIC has congestion control.
    pub controls_congestion: bool,
    /// The slot; `None` in a functional world.
    pub pcie: Option<PcieCounters>,
    /// The cable.
    pub link: LinkCounters,
}

impl HostCounters {
    /// Returns all counters by name; the NIC's come first.
    pub fn list(&self) -> Vec<(&'static str, u64)> {
        let is_listed = |number: &usize| {
            self.controls_congestion || !CONGESTION.iter().any(|one| *one as usize == *number)
        };
        let listed = (0..COUNTERS.len()).filter(is_listed);
        let values = self.nic.values();
        let mut list: Vec<_> = listed
            .map(|number| (COUNTERS[number].name, values[number]))
            .collect();
        if let Some(pcie) = &self.pcie {
            list.extend(pcie_list(pcie));
        }
        let link = &self.link;
        list.extend([
            ("link_sent_frames", link.sent_frames),
            ("link_sent_bytes", link.sent_bytes),
            ("link_sent_busy_ns", link.sent_busy.as_ns()),
            ("link_received_frames", link.received_frames),
            ("link_received_bytes", link.received_bytes),
            ("link_received_busy_ns", link.received_busy.as_ns()),
            ("link_waited_ns", link.waited.as_ns()),
            ("link_lost_frames", link.lost_frames),
        ]);
        if let Some(faults) = &link.faults {
            list.extend(faults.list());
        }
        list
    }
}

fn pcie_list(pcie: &PcieCounters) -> [(&'static str, u64); 30] {
    [
        ("pcie_reads", pcie.reads),
        ("pcie_read_bytes", pcie.read_bytes),
        ("pcie_writes", pcie.writes),
        ("pcie_write_bytes", pcie.write_bytes),
        ("pcie_atomics", pcie.atomics),
        ("pcie_interrupts", pcie.interrupts),
        ("pcie_mmio_writes", pcie.mmio_writes),
        ("pcie_mmio_reads", pcie.mmio_reads),
        ("pcie_outbound_tlps", pcie.outbound_tlps),
        ("pcie_outbound_wire_bytes", pcie.outbound_wire_bytes),
        ("pcie_outbound_busy_ns", pcie.outbound_busy.as_ns()),
        ("pcie_inbound_tlps", pcie.inbound_tlps),
        ("pcie_inbound_wire_bytes", pcie.inbound_wire_bytes),
        ("pcie_inbound_busy_ns", pcie.inbound_busy.as_ns()),
        (
            "pcie_read_stalled_no_read_engines_ns",
            pcie.read_stalled_no_read_engines.as_ns(),
        ),
        (
            "pcie_read_stalled_no_completion_buffer_ns",
            pcie.read_stalled_no_completion_buffer.as_ns(),
        ),
        (
            "pcie_read_stalled_no_credits_ns",
            pcie.read_stalled_no_credits.as_ns(),
        ),
        (
            "pcie_read_stalled_ordering_ns",
            pcie.read_stalled_ordering.as_ns(),
        ),
        (
            "pcie_write_stalled_no_credits_ns",
            pcie.write_stalled_no_credits.as_ns(),
        ),
        (
            "pcie_write_stalled_ordering_ns",
            pcie.write_stalled_ordering.as_ns(),
        ),
        ("pcie_outbound_stalled_ns", pcie.outbound_stalled.as_ns()),
        ("pcie_inbound_stalled_ns", pcie.inbound_stalled.as_ns()),
        ("pcie_iotlb_hits", pcie.iotlb_hits),
        ("pcie_iotlb_misses", pcie.iotlb_misses),
        (
            "pcie_iommu_stalled_no_walker_ns",
            pcie.iommu_stalled_no_walker.as_ns(),
        ),
        ("pcie_llc_hits", pcie.llc_hits),
        ("pcie_llc_misses", pcie.llc_misses),
        ("pcie_read_latency_avg_ns", pcie.read_latency_avg().as_ns()),
        ("pcie_read_latency_min_ns", pcie.read_latency_min.as_ns()),
        ("pcie_read_latency_max_ns", pcie.read_latency_max.as_ns()),
    ]
}
