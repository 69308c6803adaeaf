//! Utilisation of the wires and of the limited resources.

use super::Pcie;
use crate::usage::Usage;

impl Pcie {
    /// Returns the utilisation of the slot: wires, then pools.
    pub fn usage(&self) -> Vec<Usage> {
        let [tags, buffer] = self.reads.busy();
        let [headers, data] = self.posted.busy();
        let mut parts = vec![
            Usage::server("pcie_to_host", self.outbound.busy()),
            Usage::server("pcie_from_host", self.inbound.lane().busy()),
            Usage::server("pcie_engine_store", self.storage.busy()),
        ];
        if let Some(iommu) = &self.iommu {
            parts.push(Usage::servers("iommu_walkers", iommu.walkers()));
        }
        parts.extend([
            Usage::whole_pool("pcie_tags", tags),
            Usage::whole_pool("pcie_read_buffer", buffer),
            Usage::whole_pool("pcie_posted_headers", headers),
            Usage::whole_pool("pcie_posted_data", data),
        ]);
        if let Some(credits) = &self.nonposted {
            let [headers, _] = credits.busy();
            parts.push(Usage::whole_pool("pcie_nonposted_headers", headers));
        }
        if let Some(attachment) = &self.attachment {
            parts.extend(attachment.usage());
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use ferroce_units::{Duration, Instant};

    use super::*;
    use crate::pcie::Parameters;
    use crate::preset::Preset;

    #[test]
    fn a_wire_is_in_use_for_what_it_carries() {
        let preset = Preset::load("cx5-100g").expect("built in");
        let mut pcie = Pcie::new(&Parameters::from(&preset), 1);
        let before: Vec<Duration> = pcie.usage().iter().map(|part| part.busy).collect();
        assert!(before.iter().all(|busy| busy.is_zero()));
        let done = pcie.read(Instant::ZERO, 0, 4096);
        let busy = |name: &str| {
            let parts = pcie.usage();
            let part = parts.iter().find(|part| part.name == name);
            part.expect("it is listed").busy
        };
        let (to_host, from_host) = (busy("pcie_to_host"), busy("pcie_from_host"));
        assert!(to_host < from_host, "requests are shorter than completions");
        assert!(Instant::ZERO + from_host < done);
        assert!(!busy("pcie_tags").is_zero());
        assert!(busy("pcie_posted_headers").is_zero());
    }
}
