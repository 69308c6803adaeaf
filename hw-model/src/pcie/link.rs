//! The two directions of the link: the data on the lanes, and when they are free.

use ferroce_units::{Duration, Instant};

use super::tlp::FLIT_GENERATION;

/// Bytes of an ACK or flow control DLLP on the wire.
const DLLP_BYTES: f64 = 8.0;
/// A skip ordered set costs 4 bytes every 1538 bytes.
const SKIP_SHARE: f64 = 4.0 / 1538.0;
/// Overhead of a TLP in the specification's rule for the ACK latency limit.
const LIMIT_OVERHEAD_BYTES: f64 = 28.0;

/// Part of a FLIT that is left for TLPs: 236 of 256 bytes. The others are DLLPs 6, CRC 8 and FEC 6.
const FLIT_SHARE: f64 = 236.0 / 256.0;

/// Rate of the lanes in Gb/s after line encoding.
pub fn raw_gbps(generation: u32, lanes: u32) -> f64 {
    let (giga_transfers, encoding) = match generation {
        0 | 1 => (2.5, 8.0 / 10.0),
        2 => (5.0, 8.0 / 10.0),
        3 => (8.0, 128.0 / 130.0),
        4 => (16.0, 128.0 / 130.0),
        5 => (32.0, 128.0 / 130.0),
        _ => (64.0, 1.0),
    };
    giga_transfers * encoding * f64::from(lanes.max(1))
}

/// Returns the part of [`raw_gbps`] that is left for TLPs, without the ACK and flow control DLLPs
/// and the skip ordered sets.
///
/// One ACK and one flow control update are sent per ACK latency limit of the specification, as in
/// pcie-bench's model (Neugebauer et al., SIGCOMM 2018). For generations 4 and 5 this is accurate
/// to about 3 %. In FLIT mode, DLLPs have their own bytes in every FLIT.
pub fn tlp_gbps(generation: u32, lanes: u32, mps_bytes: u32) -> f64 {
    if generation >= FLIT_GENERATION {
        return raw_gbps(generation, lanes) * FLIT_SHARE * (1.0 - SKIP_SHARE);
    }
    let dllps = 2.0 * DLLP_BYTES / ack_limit_bytes(generation, lanes, mps_bytes);
    raw_gbps(generation, lanes) * (1.0 - dllps - SKIP_SHARE)
}

/// Returns the symbol times between two ACKs (PCIe base specification, ACK transmission latency
/// limit): `(MPS + overhead) * factor / lanes + internal delay`, rounded down.
fn ack_limit_bytes(generation: u32, lanes: u32, mps_bytes: u32) -> f64 {
    let factor = match (lanes, mps_bytes) {
        (..=4, ..=256) => 1.4,
        (..=15, ..=256) => 2.5,
        (_, ..=256) => 3.0,
        (..=15, _) => 1.0,
        _ => 2.0,
    };
    let internal_delay = match generation {
        0 | 1 => 19.0,
        2 => 70.0,
        _ => 115.0,
    };
    let mps = f64::from(mps_bytes) + LIMIT_OVERHEAD_BYTES;
    (mps * factor / f64::from(lanes.max(1)) + internal_delay).floor()
}

/// Time per byte, as a binary fraction so that arithmetic is the same on every machine.
#[derive(Debug, Clone, Copy)]
pub struct Rate {
    ps_per_byte: u64,
}

impl Rate {
    const FRACTION_BITS: u32 = 20;

    /// Returns a rate in Gb/s; at zero or less nothing takes time.
    pub fn from_gbps(gbps: f64) -> Self {
        let ps_per_byte = if gbps > 0.0 { 8000.0 / gbps } else { 0.0 };
        Self {
            ps_per_byte: (ps_per_byte * f64::from(1 << Self::FRACTION_BITS)).round() as u64,
        }
    }

    /// Returns the time that `bytes` take.
    #[inline]
    pub fn span(&self, bytes: u64) -> Duration {
        Duration::from_ps((bytes.wrapping_mul(self.ps_per_byte)) >> Self::FRACTION_BITS)
    }
}

/// One direction of the link.
#[derive(Debug)]
pub struct Lane {
    rate: Rate,
    free_at: Instant,
    busy: Duration,
    tlps: u64,
    wire_bytes: u64,
}

impl Lane {
    /// Returns an idle direction.
    pub fn new(rate: Rate) -> Self {
        Self {
            rate,
            free_at: Instant::ZERO,
            busy: Duration::ZERO,
            tlps: 0,
            wire_bytes: 0,
        }
    }

    /// Returns the time that `bytes` take.
    #[inline]
    pub fn span(&self, bytes: u64) -> Duration {
        self.rate.span(bytes)
    }

    /// Reserves the time for `tlps` from `now` on; returns when they begin and end.
    #[inline]
    pub fn reserve(&mut self, now: Instant, tlps: super::tlp::Tlps) -> (Instant, Instant) {
        let begin = self.free_at.max(now);
        let span = self.rate.span(tlps.wire_bytes);
        self.free_at = begin + span;
        self.busy = self.busy + span;
        self.tlps += tlps.count;
        self.wire_bytes += tlps.wire_bytes;
        (begin, self.free_at)
    }

    /// Returns the time at which it is free.
    pub fn free_at(&self) -> Instant {
        self.free_at
    }

    /// Returns the total time for which it carried TLPs.
    pub fn busy(&self) -> Duration {
        self.busy
    }

    /// Returns the number of TLPs that it carried.
    pub fn tlps(&self) -> u64 {
        self.tlps
    }

    /// Returns the bytes of these TLPs, with headers.
    pub fn wire_bytes(&self) -> u64 {
        self.wire_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Limits of the specification's tables for generation 1 and 3.
    #[test]
    fn ack_limit_is_that_of_the_specification() {
        let table = [
            (1, 1, 128, 237.0),
            (1, 8, 256, 107.0),
            (2, 4, 512, 205.0),
            (3, 1, 4096, 4239.0),
            (3, 2, 128, 224.0),
            (3, 4, 256, 214.0),
            (3, 8, 128, 163.0),
            (3, 8, 256, 203.0),
            (3, 8, 512, 182.0),
            (3, 16, 128, 144.0),
            (3, 16, 256, 168.0),
            (3, 16, 1024, 246.0),
        ];
        for (generation, lanes, mps_bytes, limit) in table {
            let model = ack_limit_bytes(generation, lanes, mps_bytes);
            assert_eq!(model, limit, "gen {generation} x{lanes} MPS {mps_bytes}");
        }
    }

    /// 64 GT/s x 16 lanes x 236/256 = 944 Gb/s, less the skip ordered sets.
    #[test]
    fn generation_6_carries_236_bytes_of_tlps_in_a_flit_of_256() {
        assert_eq!(raw_gbps(6, 16), 1024.0);
        let tlp = tlp_gbps(6, 16, 256);
        assert!((tlp - 941.5).abs() < 0.1, "{tlp}");
        assert_eq!(tlp, tlp_gbps(6, 16, 512), "no ACKs between TLPs");
    }

    #[test]
    fn a_rate_of_zero_takes_no_time() {
        assert_eq!(Rate::from_gbps(0.0).span(1 << 30), Duration::ZERO);
        assert_eq!(Rate::from_gbps(8.0).span(1000).as_ns(), 1000);
    }
}
