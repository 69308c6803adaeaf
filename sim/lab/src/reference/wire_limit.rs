//! Goodput that the headers leave of a link: an upper limit for every NIC.

use ferroce_perf::Service;

use super::{Setup, Verb};

/// Preamble 8, Ethernet 14, FCS 4, gap 12, IPv4 20, UDP 8, BTH 12, ICRC 4.
const ROCE_PACKET_BYTES: u64 = 82;
/// LRH 8, BTH 12, ICRC 4, VCRC 2; the symbols between packets are not counted.
const INFINIBAND_PACKET_BYTES: u64 = 26;
/// Minimum length of an Ethernet frame, with preamble and gap.
const ETHERNET_BYTES_MIN: u64 = 84;
const RETH_BYTES: u64 = 16;
const AETH_BYTES: u64 = 4;
const DETH_BYTES: u64 = 8;

/// Returns the bytes that a message of `bytes` takes on the wire, in the direction of its payload.
fn wire_bytes(setup: &Setup, mtu: u64, bytes: u64) -> u64 {
    let packets = bytes.div_ceil(mtu).max(1);
    let packet = if setup.infiniband {
        INFINIBAND_PACKET_BYTES
    } else {
        ROCE_PACKET_BYTES
    };
    let datagram = if setup.service == Some(Service::Ud) {
        DETH_BYTES
    } else {
        0
    };
    let extension = match setup.verb {
        Verb::Write => RETH_BYTES,
        Verb::Read if packets == 1 => AETH_BYTES,
        Verb::Read => 2 * AETH_BYTES,
        Verb::Send | Verb::Atomic => 0,
    };
    let padding = bytes.wrapping_neg() % 4;
    let total = bytes + padding + packets * (packet + datagram) + extension;
    if setup.infiniband {
        total
    } else {
        total.max(packets * ETHERNET_BYTES_MIN)
    }
}

/// Returns the rate of messages of `bytes` on a link of `link_gbps` in one direction, in M/s.
pub fn message_rate_mpps(setup: &Setup, link_gbps: f64, mtu: u32, bytes: u64) -> f64 {
    link_gbps * 1e3 / (wire_bytes(setup, u64::from(mtu), bytes) as f64 * 8.0)
}

/// Returns the payload that a link of `link_gbps` carries in one direction.
pub fn goodput_gbps(setup: &Setup, link_gbps: f64, mtu: u32, bytes: u64) -> f64 {
    message_rate_mpps(setup, link_gbps, mtu, bytes) * bytes as f64 * 8e-3
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::builtin::Other;

    #[test]
    fn agrees_with_the_table_of_limits() {
        let csv = Other::RoceLimits.csv();
        for row in &csv.rows {
            let verb = match csv.text(row, "verb") {
                "write" => Verb::Write,
                "send" => Verb::Send,
                _ => Verb::Read,
            };
            let number = |column| {
                csv.number(row, column)
                    .expect("a number")
                    .expect("not empty")
            };
            let (link, mtu) = (number("link_gbps"), number("mtu") as u32);
            let rate = message_rate_mpps(&Setup::new(verb), link, mtu, number("bytes") as u64);
            let expected = number("msgrate_mpps");
            assert!(
                (rate / expected - 1.0).abs() < 1e-3,
                "line {}: {rate}",
                row.line
            );
        }
    }

    #[test]
    fn infiniband_has_shorter_headers() {
        let roce = Setup::new(Verb::Write);
        let infiniband = Setup {
            infiniband: true,
            ..roce.clone()
        };
        let goodput = |setup| goodput_gbps(setup, 200.0, 4096, 8 << 20);
        assert!((goodput(&roce) - 196.07).abs() < 0.01, "{}", goodput(&roce));
        assert!(goodput(&infiniband) > 198.0);
    }
}
