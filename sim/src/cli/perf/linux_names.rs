//! Counters of the cards of a measurement under the names that Linux uses in sysfs.

use std::fmt::Write as _;

use ferroce_spec::counter::COUNTERS;
use ferroce_spec::counter::linux::LINUX_COUNTERS;

/// Width of a name, as in the tables above it.
const NAME_WIDTH: usize = 63;

/// Returns a table with the counters of several hosts side by side, without counters that are zero
/// on all hosts.
pub fn table(hosts: &[Vec<(&'static str, u64)>]) -> String {
    let mut text = String::from("Names of Linux, without those that are zero:\n");
    let registers: Vec<_> = hosts.iter().map(|host| registers(host)).collect();
    for counter in LINUX_COUNTERS {
        let values = registers.iter().map(|host| counter.value(host));
        let values: Vec<u64> = values.collect();
        if values.iter().all(|value| *value == 0) {
            continue;
        }
        let name = format!("{}/{}", counter.folder.name(), counter.name);
        // Writing to a string does not fail.
        let _ = write!(text, "{name:<NAME_WIDTH$}");
        for value in values {
            let _ = write!(text, " {value:>22}");
        }
        text.push('\n');
    }
    text
}

/// Returns the values of the card's counter registers. A host does not list the counters of blocks
/// that its card does not have; they are zero.
fn registers(host: &[(&'static str, u64)]) -> Vec<u64> {
    let value = |name| host.iter().find(|(listed, _)| *listed == name);
    let values = COUNTERS.iter().map(|counter| value(counter.name));
    values
        .map(|listed| listed.map_or(0, |(_, value)| *value))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_stand_beside_each_other_under_the_names_of_linux() {
        let host = |bytes: u64| {
            let counter = |name| (name, if name == "tx_bytes" { bytes } else { 0 });
            let rows = COUNTERS.iter().map(|row| counter(row.name));
            rows.chain([("pcie_reads", 9)]).collect::<Vec<_>>()
        };
        let text = table(&[host(400), host(0)]);
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(lines.len(), 1, "{text}");
        let words: Vec<&str> = lines[0].split_whitespace().collect();
        assert_eq!(words, ["counters/port_xmit_data", "100", "0"]);
    }

    #[test]
    fn a_counter_that_is_not_listed_moves_no_other() {
        let names = COUNTERS.iter().map(|row| row.name);
        let names = names.filter(|name| *name != "rp_cnp_handled");
        let host: Vec<_> = names
            .map(|name| (name, (name == "dma_reads").into()))
            .collect();
        let text = table(&[host]);
        assert_eq!(text.lines().count(), 1, "{text}");
    }
}
