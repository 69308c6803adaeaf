//! The counters of one function, as they are printed.

use std::sync::atomic::Ordering;

use ferroce_embed::fabric::registry::{Occupant, Registry, UplinkCounter};
use ferroce_faults::FaultCounter;
use ferroce_platform::host::device_name;
use ferroce_spec::counter::COUNTERS;
use ferroce_spec::counter::linux::{Folder, of_folder};
use serde_json::{Map, Value, json};

/// The counters of one function.
pub struct Function {
    pub pid: u32,
    pub program: String,
    pub device: String,
    pub host: String,
    /// Name and value, in the order of printing: the device's counters come first, in the order of
    /// their registers.
    pub counters: Vec<(&'static str, u64)>,
}

impl Function {
    /// Reads them.
    pub fn read(registry: &Registry, occupant: &Occupant) -> Self {
        let place = occupant.place;
        let of_the_nic = COUNTERS.iter().enumerate().map(|(index, counter)| {
            let value = registry.counter(place, index);
            (counter.name, value)
        });
        let of_the_host = [
            ("late_wakeups", registry.late_wakeups(place)),
            ("max_late_us", registry.max_late_us(place)),
        ];
        let of_the_wire = UplinkCounter::ALL.map(|counter| {
            let value = registry.uplink_counter(place, counter);
            (counter.name(), value)
        });
        let of_faults = FaultCounter::ALL.map(|counter| {
            let value = registry.fault_counter(place, counter);
            (counter.name(), value)
        });
        let all = of_the_nic.chain(of_the_wire).chain(of_faults);
        Self {
            pid: occupant.pid,
            program: registry.program(place),
            device: device_name(occupant.identity.device),
            host: occupant.identity.host.clone(),
            counters: all
                .chain(of_the_host)
                .map(|(name, value)| (name, value.load(Ordering::Relaxed)))
                .collect(),
        }
    }

    /// Returns a counter by its index in this order.
    pub fn value(&self, index: usize) -> u64 {
        self.counters.get(index).map_or(0, |(_, value)| *value)
    }

    /// Returns the counters under the names of Linux.
    fn under_linux(&self, folder: Folder) -> impl Iterator<Item = (&'static str, u64)> {
        let registers = self.counters.iter().map(|(_, value)| *value);
        let registers: Vec<u64> = registers.take(COUNTERS.len()).collect();
        of_folder(folder).map(move |counter| (counter.name, counter.value(&registers)))
    }

    /// Returns them as JSON.
    pub fn json(&self) -> Value {
        let object = |pairs: &mut dyn Iterator<Item = (&'static str, u64)>| {
            let pairs = pairs.map(|(name, value)| (name.to_owned(), value.into()));
            Value::Object(pairs.collect::<Map<_, _>>())
        };
        json!({
            "pid": self.pid,
            "program": self.program,
            "device": self.device,
            "host": self.host,
            "counters": object(&mut self.counters.iter().copied()),
            "port_counters": object(&mut self.under_linux(Folder::Counters)),
            "hw_counters": object(&mut self.under_linux(Folder::HwCounters)),
        })
    }

    /// Returns them as text; with `all`, includes counters that are zero.
    pub fn text(&self, all: bool) -> String {
        let Self {
            pid,
            program,
            device,
            host,
            counters,
        } = self;
        let mut text = format!("pid {pid}  {program}  {device} on host {host}\n");
        for (name, value) in counters.iter().filter(|(_, value)| *value != 0 || all) {
            text += &format!("  {name:24} {value:>16}\n");
        }
        text
    }
}

/// Returns the document of several functions.
pub fn result(functions: &[Function]) -> Value {
    json!({ "functions": functions.iter().map(Function::json).collect::<Value>() })
}

/// Returns a function with these counters; all others are zero.
#[cfg(test)]
pub fn example(program: &str, values: &[(&'static str, u64)]) -> Function {
    let mut counters: Vec<_> = COUNTERS.iter().map(|row| (row.name, 0)).collect();
    for (name, value) in values {
        match counters.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => *old = *value,
            None => counters.push((name, *value)),
        }
    }
    Function {
        pid: 7,
        program: program.to_owned(),
        device: "ferroce0".to_owned(),
        host: "a".to_owned(),
        counters,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_typed_values_and_the_names_of_linux() {
        let value = example("a", &[("tx_frames", 3), ("tx_bytes", 400)]).json();
        assert_eq!(value["counters"]["tx_bytes"], 400);
        assert_eq!(value["port_counters"]["port_xmit_data"], 100);
        assert_eq!(value["port_counters"]["port_xmit_packets"], 3);
        assert_eq!(value["hw_counters"]["sent_pkts"], 3);
    }
}
