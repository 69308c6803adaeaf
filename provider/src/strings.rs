//! Texts and conversions that need no device.

use std::ffi::CStr;

use libc::c_int;

/// Returns the entry of a table, or the text for a value that the table does not have.
fn entry(table: &[&'static CStr], index: c_int, unknown: &'static CStr) -> &'static CStr {
    usize::try_from(index)
        .ok()
        .and_then(|index| table.get(index))
        .copied()
        .unwrap_or(unknown)
}

/// Returns the text of `enum ibv_wc_status`.
pub fn completion_status(status: c_int) -> &'static CStr {
    const TEXTS: &[&CStr] = &[
        c"success",
        c"local length error",
        c"local QP operation error",
        c"local EE context operation error",
        c"local protection error",
        c"Work Request Flushed Error",
        c"memory management operation error",
        c"bad response error",
        c"local access error",
        c"remote invalid request error",
        c"remote access error",
        c"remote operation error",
        c"transport retry counter exceeded",
        c"RNR retry counter exceeded",
        c"local RDD violation error",
        c"remote invalid RD request",
        c"aborted error",
        c"invalid EE context number",
        c"invalid EE context state",
        c"fatal error",
        c"response timeout error",
        c"general error",
        c"TM error",
        c"TM software rendezvous",
    ];
    entry(TEXTS, status, c"unknown")
}

/// Returns the text of `enum ibv_event_type`.
pub fn event_type(event: c_int) -> &'static CStr {
    const TEXTS: &[&CStr] = &[
        c"CQ error",
        c"local work queue catastrophic error",
        c"invalid request local work queue error",
        c"local access violation work queue error",
        c"communication established",
        c"send queue drained",
        c"path migrated",
        c"path migration request error",
        c"local catastrophic error",
        c"port active",
        c"port error",
        c"LID change",
        c"P_Key change",
        c"SM change",
        c"SRQ catastrophic error",
        c"SRQ limit reached",
        c"last WQE reached",
        c"client reregistration",
        c"GID table change",
        c"WQ fatal",
        c"device speed change",
    ];
    entry(TEXTS, event, c"unknown")
}

/// Returns the text of `enum ibv_node_type`.
pub fn node_type(node: c_int) -> &'static CStr {
    const TEXTS: &[&CStr] = &[
        c"unknown",
        c"InfiniBand channel adapter",
        c"InfiniBand switch",
        c"InfiniBand router",
        c"iWARP NIC",
        c"usNIC",
        c"usNIC UDP",
        c"unspecified",
    ];
    entry(TEXTS, node, c"unknown")
}

/// Returns the text of `enum ibv_port_state`.
pub fn port_state(state: c_int) -> &'static CStr {
    const TEXTS: &[&CStr] = &[
        c"no state change (NOP)",
        c"PORT_DOWN",
        c"PORT_INIT",
        c"PORT_ARMED",
        c"PORT_ACTIVE",
        c"PORT_ACTIVE_DEFER",
    ];
    entry(TEXTS, state, c"invalid state")
}

/// `enum ibv_rate` with the rate in Mb/s and in multiples of 2.5 Gb/s (0: not a multiple).
///
/// The Mb/s are the lanes' signalling rates, so most are not round; the multiples use nominal
/// rates.
const RATES: &[(c_int, c_int, c_int)] = &[
    (2, 2_500, 1),
    (5, 5_000, 2),
    (3, 10_000, 4),
    (6, 20_000, 8),
    (4, 30_000, 12),
    (7, 40_000, 16),
    (8, 60_000, 24),
    (9, 80_000, 32),
    (10, 120_000, 48),
    (11, 14_062, 0),
    (12, 56_250, 0),
    (13, 112_500, 0),
    (14, 168_750, 0),
    (15, 25_781, 0),
    (16, 103_125, 0),
    (17, 206_250, 0),
    (18, 309_375, 0),
    (19, 28_125, 11),
    (20, 53_125, 20),
    (21, 425_000, 160),
    (22, 637_500, 240),
    (23, 850_000, 320),
    (24, 1_275_000, 480),
];

/// `IBV_RATE_MAX`, which stands for "no limit" and for every rate that has no name.
const RATE_MAX: c_int = 0;

/// Returns the Mb/s of an `enum ibv_rate`; -1 for an unknown one.
pub fn rate_to_mbps(rate: c_int) -> c_int {
    RATES
        .iter()
        .find(|row| row.0 == rate)
        .map_or(-1, |row| row.1)
}

/// Returns the `enum ibv_rate` of exactly this many Mb/s.
pub fn mbps_to_rate(mbps: c_int) -> c_int {
    RATES
        .iter()
        .find(|row| row.1 == mbps)
        .map_or(RATE_MAX, |row| row.0)
}

/// Returns the multiple of 2.5 Gb/s of an `enum ibv_rate`; -1 when it is not a multiple.
pub fn rate_to_multiple(rate: c_int) -> c_int {
    RATES
        .iter()
        .find(|row| row.0 == rate && row.2 != 0)
        .map_or(-1, |row| row.2)
}

/// Returns the `enum ibv_rate` of a multiple of 2.5 Gb/s.
pub fn multiple_to_rate(multiple: c_int) -> c_int {
    RATES
        .iter()
        .find(|row| row.2 == multiple && row.2 != 0)
        .map_or(RATE_MAX, |row| row.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_survive_the_round_trip() {
        for &(rate, mbps, multiple) in RATES {
            assert_eq!(rate_to_mbps(rate), mbps);
            assert_eq!(mbps_to_rate(mbps), rate);
            if multiple != 0 {
                assert_eq!(multiple_to_rate(rate_to_multiple(rate)), rate);
            }
        }
        assert_eq!(rate_to_mbps(1), -1);
        assert_eq!(rate_to_multiple(11), -1);
        assert_eq!(multiple_to_rate(0), RATE_MAX);
    }

    #[test]
    fn unknown_values_have_a_text() {
        assert_eq!(completion_status(0), c"success");
        assert_eq!(completion_status(-1), c"unknown");
        assert_eq!(event_type(1000), c"unknown");
        assert_eq!(node_type(-1), c"unknown");
        assert_eq!(port_state(4), c"PORT_ACTIVE");
    }
}
