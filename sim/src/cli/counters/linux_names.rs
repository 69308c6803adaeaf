//! The names under which Linux shows counters: those of `ports/1/counters`, and of `hw_counters` as
//! mlx5 and rxe have them.

/// A name of Linux, the counters whose sum it is, and the divisor of its unit.
type Row = (&'static str, &'static [&'static str], u64);

/// Bytes of the unit of `port_xmit_data` and `port_rcv_data` (IBTA vol 1, 16.1.3.5).
const DATA_UNIT: u64 = 4;

const PORT: [Row; 7] = [
    ("port_xmit_data", &["tx_bytes"], DATA_UNIT),
    ("port_rcv_data", &["rx_bytes"], DATA_UNIT),
    ("port_xmit_packets", &["tx_frames"], 1),
    ("port_rcv_packets", &["rx_frames"], 1),
    ("port_rcv_errors", &["rx_malformed", "rx_icrc_errors"], 1),
    ("port_xmit_discards", &["tx_no_route"], 1),
    ("multicast_rcv_packets", &["rx_multicast"], 1),
];

const HARDWARE: [Row; 16] = [
    // mlx5.
    ("duplicate_request", &["duplicate_requests"], 1),
    ("local_ack_timeout_err", &["local_ack_timeouts"], 1),
    ("out_of_buffer", &["rnr_naks_sent", "rx_no_receive"], 1),
    (
        "out_of_sequence",
        &["sequence_naks_sent", "rx_out_of_sequence"],
        1,
    ),
    (
        "np_ecn_marked_roce_packets",
        &["np_ecn_marked_roce_packets"],
        1,
    ),
    ("np_cnp_sent", &["np_cnp_sent"], 1),
    ("rp_cnp_handled", &["rp_cnp_handled"], 1),
    ("packet_seq_err", &["sequence_naks_received"], 1),
    ("rnr_nak_retry_err", &["rnr_naks_received"], 1),
    ("rx_atomic_requests", &["atomics"], 1),
    ("rx_icrc_encapsulated", &["rx_icrc_errors"], 1),
    // rxe.
    ("sent_pkts", &["tx_frames"], 1),
    ("rcvd_pkts", &["rx_frames"], 1),
    ("rcvd_rnr_err", &["rnr_naks_received"], 1),
    ("rcvd_seq_err", &["sequence_naks_received"], 1),
    ("send_rnr_err", &["rnr_naks_sent"], 1),
];

/// Returns the counters of the port.
pub fn port_counters(
    counters: &[(&'static str, u64)],
) -> impl Iterator<Item = (&'static str, u64)> {
    sums(&PORT, counters)
}

/// Returns the counters of the hardware.
pub fn hw_counters(counters: &[(&'static str, u64)]) -> impl Iterator<Item = (&'static str, u64)> {
    sums(&HARDWARE, counters)
}

fn sums(
    rows: &'static [Row],
    counters: &[(&'static str, u64)],
) -> impl Iterator<Item = (&'static str, u64)> {
    let value = |name: &str| {
        let found = counters.iter().find(|(known, _)| *known == name);
        found.map_or(0, |(_, value)| *value)
    };
    rows.iter().map(move |(name, parts, unit)| {
        let sum: u64 = parts.iter().map(|part| value(part)).sum();
        (*name, sum / unit)
    })
}

#[cfg(test)]
mod tests {
    use ferroce_spec::counter::COUNTERS;

    use super::*;

    /// Goal: no row names a counter that the device does not have.
    #[test]
    fn each_name_is_made_of_counters_of_the_device() {
        for (name, parts, _) in PORT.iter().chain(&HARDWARE) {
            for part in *parts {
                assert!(
                    COUNTERS.iter().any(|row| row.name == *part),
                    "{name}: {part}"
                );
            }
        }
    }
}
