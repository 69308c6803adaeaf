//! The names under which Linux shows counters of an RDMA device in sysfs: files of
//! `ports/1/counters`, which all drivers share, and of `ports/1/hw_counters`, with the names of
//! mlx5 and rxe. If both have a counter under different names, both names exist.
//!
//! Only counters of the device have a name here.

use alloc::string::String;
use core::fmt::Write as _;

use super::{COUNTERS, Counter};

/// A directory of sysfs below `ports/1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Folder {
    /// Counters of the port.
    Counters,
    /// Counters of the transport, which differ between drivers.
    HwCounters,
}

impl Folder {
    /// Returns the name of the directory.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counters => "counters",
            Self::HwCounters => "hw_counters",
        }
    }
}

/// A counter under a name of Linux.
#[derive(Debug, Clone, Copy)]
pub struct LinuxCounter {
    /// The file's name.
    pub name: &'static str,
    /// The file's directory.
    pub folder: Folder,
    /// Drivers that have it, in the words of the table.
    pub drivers: &'static str,
    /// The counters of the device whose sum it is.
    pub parts: &'static [Counter],
    /// How many of the device's units are one of Linux.
    pub unit: u64,
}

impl LinuxCounter {
    /// Returns the value, made of the counters of the device in the order of their registers.
    #[must_use]
    pub fn value(&self, counters: &[u64]) -> u64 {
        let part = |part: &Counter| counters.get(*part as usize).copied().unwrap_or(0);
        let sum = self.parts.iter().map(part).fold(0, u64::wrapping_add);
        sum / self.unit
    }
}

/// Bytes of the unit of `port_xmit_data` and `port_rcv_data` (IBTA vol 1, 16.1.3.5).
const DATA_UNIT: u64 = 4;

const fn row(
    folder: Folder,
    name: &'static str,
    drivers: &'static str,
    parts: &'static [Counter],
) -> LinuxCounter {
    LinuxCounter {
        name,
        folder,
        drivers,
        parts,
        unit: 1,
    }
}

const fn port(name: &'static str, parts: &'static [Counter]) -> LinuxCounter {
    row(Folder::Counters, name, "all", parts)
}

const fn data(name: &'static str, parts: &'static [Counter]) -> LinuxCounter {
    LinuxCounter {
        unit: DATA_UNIT,
        ..port(name, parts)
    }
}

const fn mlx5(name: &'static str, parts: &'static [Counter]) -> LinuxCounter {
    row(Folder::HwCounters, name, "mlx5", parts)
}

const fn rxe(name: &'static str, parts: &'static [Counter]) -> LinuxCounter {
    row(Folder::HwCounters, name, "rxe", parts)
}

/// All of them, in the order in which they are listed.
pub const LINUX_COUNTERS: &[LinuxCounter] = &[
    data("port_xmit_data", &[Counter::tx_bytes]),
    data("port_rcv_data", &[Counter::rx_bytes]),
    port("port_xmit_packets", &[Counter::tx_frames]),
    port("port_rcv_packets", &[Counter::rx_frames]),
    port(
        "port_rcv_errors",
        &[Counter::rx_malformed, Counter::rx_icrc_errors],
    ),
    port("port_xmit_discards", &[Counter::tx_no_route]),
    port("multicast_rcv_packets", &[Counter::rx_multicast]),
    row(
        Folder::HwCounters,
        "duplicate_request",
        "mlx5, rxe",
        &[Counter::duplicate_requests],
    ),
    mlx5("local_ack_timeout_err", &[Counter::local_ack_timeouts]),
    mlx5(
        "out_of_buffer",
        &[Counter::rnr_naks_sent, Counter::rx_no_receive],
    ),
    mlx5(
        "out_of_sequence",
        &[Counter::sequence_naks_sent, Counter::rx_out_of_sequence],
    ),
    mlx5(
        "np_ecn_marked_roce_packets",
        &[Counter::np_ecn_marked_roce_packets],
    ),
    mlx5("np_cnp_sent", &[Counter::np_cnp_sent]),
    mlx5("rp_cnp_handled", &[Counter::rp_cnp_handled]),
    mlx5("packet_seq_err", &[Counter::sequence_naks_received]),
    mlx5("rnr_nak_retry_err", &[Counter::rnr_naks_received]),
    mlx5("rx_atomic_requests", &[Counter::atomics]),
    mlx5("rx_icrc_encapsulated", &[Counter::rx_icrc_errors]),
    mlx5("rx_write_requests", &[Counter::write_requests]),
    mlx5("rx_read_requests", &[Counter::read_requests]),
    mlx5("roce_adp_retrans", &[Counter::adaptive_retransmissions]),
    mlx5("req_cqe_error", &[Counter::requester_errors]),
    mlx5("req_cqe_flush_error", &[Counter::requester_flushes]),
    mlx5(
        "req_remote_access_errors",
        &[Counter::requester_access_errors],
    ),
    mlx5(
        "req_remote_invalid_request",
        &[Counter::requester_invalid_requests],
    ),
    mlx5(
        "req_rnr_retries_exceeded",
        &[Counter::requester_rnr_exceeded],
    ),
    mlx5(
        "req_transport_retries_exceeded",
        &[Counter::requester_retries_exceeded],
    ),
    mlx5("resp_cqe_error", &[Counter::responder_errors]),
    mlx5("resp_cqe_flush_error", &[Counter::responder_flushes]),
    mlx5(
        "resp_local_length_error",
        &[Counter::responder_length_errors],
    ),
    rxe("sent_pkts", &[Counter::tx_frames]),
    rxe("rcvd_pkts", &[Counter::rx_frames]),
    rxe(
        "out_of_seq_request",
        &[Counter::sequence_naks_sent, Counter::rx_out_of_sequence],
    ),
    rxe("rcvd_rnr_err", &[Counter::rnr_naks_received]),
    rxe("rcvd_seq_err", &[Counter::sequence_naks_received]),
    rxe("send_rnr_err", &[Counter::rnr_naks_sent]),
];

/// Returns the counters of a directory.
pub fn of_folder(folder: Folder) -> impl Iterator<Item = &'static LinuxCounter> {
    LINUX_COUNTERS
        .iter()
        .filter(move |counter| counter.folder == folder)
}

/// Returns the list as a Markdown table.
#[must_use]
pub fn markdown() -> String {
    let mut text = String::from("| file below `ports/1` | drivers | is |\n| --- | --- | --- |\n");
    for counter in LINUX_COUNTERS {
        let (folder, name) = (counter.folder.name(), counter.name);
        // Writing to a string does not fail.
        let _ = write!(text, "| `{folder}/{name}` | {} | ", counter.drivers);
        for (index, part) in counter.parts.iter().enumerate() {
            let separator = if index == 0 { "" } else { " + " };
            let _ = write!(text, "{separator}`{}`", COUNTERS[*part as usize].name);
        }
        if counter.unit != 1 {
            let _ = write!(text, ", in units of {} bytes", counter.unit);
        }
        text.push_str(" |\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counter::COUNTER_COUNT;

    #[test]
    fn values_are_sums_in_the_units_of_linux() {
        let mut counters = [0; COUNTER_COUNT];
        counters[Counter::tx_bytes as usize] = 403;
        counters[Counter::sequence_naks_sent as usize] = 2;
        counters[Counter::rx_out_of_sequence as usize] = 3;
        let value = |name: &str, counters: &[u64]| {
            let found = LINUX_COUNTERS.iter().find(|counter| counter.name == name);
            found.map(|counter| counter.value(counters))
        };
        assert_eq!(value("port_xmit_data", &counters), Some(100));
        assert_eq!(value("out_of_sequence", &counters), Some(5));
        // A card of an earlier contract has fewer counters.
        assert_eq!(value("port_xmit_data", &[]), Some(0));
    }

    #[test]
    fn a_directory_has_no_name_twice() {
        for (index, counter) in LINUX_COUNTERS.iter().enumerate() {
            let mut later = LINUX_COUNTERS[index + 1..].iter();
            let again =
                later.find(|other| other.name == counter.name && other.folder == counter.folder);
            assert!(again.is_none(), "{}", counter.name);
            assert!(!counter.parts.is_empty(), "{}", counter.name);
        }
    }
}
