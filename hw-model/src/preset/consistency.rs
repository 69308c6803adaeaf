//! Values that contradict each other: each is permitted alone, but no card can have both.

use super::{Preset, PresetError};

/// Bytes per posted data credit (PCIe base specification, 2.6.1).
const BYTES_PER_DATA_CREDIT: f64 = 16.0;

/// A rule: the first value must not exceed the limit that other parameters set.
struct Rule {
    name: &'static str,
    /// The value to check, and its parameter.
    wanted: (&'static str, fn(&Preset) -> f64),
    /// The limit, and the parameters that set it.
    possible: (&'static str, fn(&Preset) -> f64),
    unit: &'static str,
}

/// All rules, in the order in which they are checked.
const RULES: [Rule; 6] = [
    Rule {
        name: "the MAC's user side carries the rate of the wire",
        wanted: ("mac.rate_gbps", |preset| preset.mac.rate_gbps),
        possible: ("mac.width_bits x clock.mac_mhz", |preset| {
            f64::from(preset.mac.width_bits) * preset.clock.mac_mhz / 1000.0
        }),
        unit: "Gb/s",
    },
    Rule {
        name: "the buffer of read completions holds one read request",
        wanted: ("pcie.mrrs_bytes", |preset| {
            f64::from(preset.pcie.mrrs_bytes)
        }),
        possible: ("pcie.read_buffer_bytes", |preset| {
            f64::from(preset.pcie.read_buffer_bytes)
        }),
        unit: "bytes",
    },
    Rule {
        name: "the host's posted data credits hold one write",
        wanted: ("pcie.mps_bytes", |preset| f64::from(preset.pcie.mps_bytes)),
        possible: ("16 x pcie.posted_data_credits", |preset| {
            BYTES_PER_DATA_CREDIT * f64::from(preset.pcie.posted_data_credits)
        }),
        unit: "bytes",
    },
    Rule {
        name: "reads do not end before they begin",
        wanted: ("pcie.read_jitter_ns", |preset| preset.pcie.read_jitter_ns),
        possible: ("pcie.read_latency_ns", |preset| preset.pcie.read_latency_ns),
        unit: "ns",
    },
    Rule {
        name: "a way of the IOTLB has an entry",
        wanted: ("iommu.iotlb_ways", |preset| {
            f64::from(preset.iommu.iotlb_ways)
        }),
        possible: ("iommu.iotlb_entries", |preset| {
            f64::from(preset.iommu.iotlb_entries)
        }),
        unit: "entries",
    },
    Rule {
        name: "the reorder buffer holds one packet",
        wanted: ("transport.path_mtu_bytes", |preset| {
            if preset.transport.selective_repeat || preset.transport.adaptive_routing {
                f64::from(preset.transport.path_mtu_bytes)
            } else {
                0.0
            }
        }),
        possible: ("transport.reorder_buffer_bytes", |preset| {
            f64::from(preset.transport.reorder_buffer_bytes)
        }),
        unit: "bytes",
    },
];

impl Preset {
    /// Checks values that depend on each other. [`Preset::load`] and [`Preset::parse`] call it;
    /// after [`Preset::set`] the caller has to, because several changes may be needed.
    pub fn check(&self) -> Result<(), PresetError> {
        if let Some(topology) = self.topology.as_ref().filter(|_| self.memory.remote_socket) {
            return Err(PresetError::Topology {
                file: topology.stated_by.clone(),
                element: "socket".to_owned(),
                reason: "memory.remote_socket is true, too: with a topology, the place of memory \
                         is given for each buffer, such as `--memory dram1`"
                    .to_owned(),
            });
        }
        let broken = RULES.iter().find(|rule| rule.is_broken(self));
        broken.map_or(Ok(()), |rule| Err(rule.error(self)))
    }
}

impl Rule {
    fn is_broken(&self, preset: &Preset) -> bool {
        (self.wanted.1)(preset) > (self.possible.1)(preset)
    }

    fn error(&self, preset: &Preset) -> PresetError {
        PresetError::Contradiction {
            preset: preset.name().to_owned(),
            rule: self.name,
            wanted: self.wanted.0,
            wanted_value: rounded((self.wanted.1)(preset)),
            possible: self.possible.0,
            possible_value: rounded((self.possible.1)(preset)),
            unit: self.unit,
        }
    }
}

/// Rounds a value to three decimals.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the values that a rule names break it, and smaller ones do not. Method: the checked
    /// value is set to just above the limit, and then to the limit.
    #[test]
    fn contradictions_are_named() {
        let broken = [
            ("mac.rate_gbps", "221", "220"),
            ("pcie.read_buffer_bytes", "511", "512"),
            ("pcie.posted_data_credits", "15", "16"),
            ("pcie.read_jitter_ns", "1e6", "0"),
            ("iommu.iotlb_entries", "1", "4096"),
            ("transport.reorder_buffer_bytes", "1000", "1000000"),
        ];
        assert_eq!(broken.len(), RULES.len());
        for ((key, wrong, right), rule) in broken.into_iter().zip(&RULES) {
            let mut preset = Preset::load("cx5-100g").expect("built in");
            preset
                .set("transport.selective_repeat", "true")
                .expect("a parameter");
            preset.set(key, wrong).expect("permitted alone");
            let error = preset.check().expect_err(key).to_string();
            assert!(error.contains(rule.name), "{error}");
            assert!(error.contains(rule.wanted.0), "{error}");
            assert!(error.contains(rule.possible.0), "{error}");
            preset.set(key, right).expect("permitted alone");
            assert_eq!(preset.check(), Ok(()), "{key} = {right}");
        }
    }

    #[test]
    fn built_in_presets_contradict_nothing() {
        for name in Preset::names() {
            Preset::load(name).expect(name);
        }
    }
}
