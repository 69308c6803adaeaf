//! Splits accesses into TLPs: header bytes, and the number of TLPs of an access.
//!
//! Header sizes follow pcie-bench's model (Neugebauer et al., SIGCOMM 2018): 2 bytes of
//! framing, 6 bytes of data link layer (sequence number and LCRC) and the TLP header itself.
//! In FLIT mode, from generation 6 on, the FLIT has framing, sequence number and CRC.

/// From this generation on, a link is in FLIT mode.
pub const FLIT_GENERATION: u32 = 6;
/// Framing and data link layer of a TLP outside FLIT mode.
const FRAMING_BYTES: u64 = 2 + 6;
/// No request crosses a multiple of this (PCIe base specification 2.2.7).
pub const BOUNDARY_BYTES: u64 = 4096;
/// Bytes per data credit.
pub const CREDIT_BYTES: u64 = 16;

/// Bytes of a TLP besides its payload.
#[derive(Debug, Clone, Copy)]
pub struct Headers {
    /// Request with a 64-bit address (MRd, MWr, FetchAdd, ...).
    pub request: u64,
    /// Completion (CplD).
    pub completion: u64,
}

impl Headers {
    /// Returns those on a link of this generation.
    pub fn of(generation: u32) -> Self {
        let is_flit = generation >= FLIT_GENERATION;
        let framing = if is_flit { 0 } else { FRAMING_BYTES };
        Self {
            request: framing + 16,
            completion: framing + 12,
        }
    }
}

/// The TLPs of an access in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tlps {
    /// Their number.
    pub count: u64,
    /// Bytes on the wire, with headers.
    pub wire_bytes: u64,
}

/// The maximum sizes negotiated for the link: powers of two, stored as logarithms.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Headers of its TLPs.
    pub headers: Headers,
    log_mps: u32,
    log_mrrs: u32,
    log_rcb: u32,
}

impl Limits {
    /// Returns limits with PCIe's powers of two: maximum payload, maximum read request, read
    /// completion boundary. Other values are rounded up.
    pub fn new(headers: Headers, mps_bytes: u32, mrrs_bytes: u32, rcb_bytes: u32) -> Self {
        let log = |bytes: u32, most: u32| bytes.clamp(1, most).next_power_of_two().ilog2();
        Self {
            headers,
            log_mps: log(mps_bytes, 4096),
            log_mrrs: log(mrrs_bytes, 4096),
            log_rcb: log(rcb_bytes, 128),
        }
    }

    /// Returns the requests of a read of `length` bytes within one page.
    #[inline]
    pub fn read_requests(&self, length: u64) -> Tlps {
        let count = shift_ceil(length, self.log_mrrs);
        Tlps {
            count,
            wire_bytes: count * self.headers.request,
        }
    }

    /// Returns the completions of a read of `length` bytes at `iova` within one page.
    ///
    /// A completion that is not the last of its request ends at a multiple of the RCB, so an
    /// unaligned start shortens the first one. The root complex sends as few as the rules allow.
    #[inline]
    pub fn completions(&self, iova: u64, length: u64) -> Tlps {
        let offset = iova & ((1 << self.log_rcb) - 1);
        let full = length >> self.log_mrrs;
        let rest = length & ((1 << self.log_mrrs) - 1);
        let mut count = full * shift_ceil(offset + (1 << self.log_mrrs), self.log_mps);
        if rest > 0 {
            count += shift_ceil(offset + rest, self.log_mps);
        }
        Tlps {
            count,
            wire_bytes: count * self.headers.completion + length,
        }
    }

    /// Returns the completions of the longest request.
    pub fn longest_completions(&self) -> Tlps {
        self.completions(0, 1 << self.log_mrrs)
    }

    /// Returns the TLPs of a write of `length` bytes within one page.
    #[inline]
    pub fn writes(&self, length: u64) -> Tlps {
        let count = shift_ceil(length, self.log_mps);
        Tlps {
            count,
            wire_bytes: count * self.headers.request + length,
        }
    }

    /// Returns the data credits of such a write.
    #[inline]
    pub fn data_credits(&self, length: u64) -> u64 {
        // The MPS is a multiple of 16 bytes, so only the last TLP is rounded up.
        length.div_ceil(CREDIT_BYTES)
    }
}

/// Returns `value / 2^log`, rounded up.
#[inline]
const fn shift_ceil(value: u64, log: u32) -> u64 {
    (value + (1 << log) - 1) >> log
}

/// Splits `length` bytes at `iova` at page boundaries; returns start and length of each piece.
#[inline]
pub fn pieces(iova: u64, length: u64) -> impl Iterator<Item = (u64, u64)> {
    let mut start = iova;
    let mut left = length;
    std::iter::from_fn(move || {
        if left == 0 {
            return None;
        }
        let piece = left.min(BOUNDARY_BYTES - (start & (BOUNDARY_BYTES - 1)));
        let result = (start, piece);
        start = start.wrapping_add(piece);
        left -= piece;
        Some(result)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MPS_BYTES: u64 = 256;
    const MRRS_BYTES: u64 = 512;
    const RCB_BYTES: u64 = 64;

    /// Computes the same number TLP by TLP.
    fn completions_one_by_one(iova: u64, length: u64) -> u64 {
        let (mut address, end, mut count) = (iova, iova + length, 0);
        while address < end {
            let request_end = end.min(address + MRRS_BYTES);
            while address < request_end {
                let most = address - address % RCB_BYTES + MPS_BYTES;
                address = request_end.min(most);
                count += 1;
            }
        }
        count
    }

    #[test]
    fn closed_form_of_completions_is_what_one_by_one_gives() {
        let limits = Limits::new(Headers::of(3), 256, 512, 64);
        for offset in [0, 1, 4, 63, 64, 65, 200] {
            for length in 1..=2100 {
                let iova = 0x1000 + offset;
                assert_eq!(
                    limits.completions(iova, length).count,
                    completions_one_by_one(iova, length),
                    "{length} bytes at {iova:#x}"
                );
            }
        }
    }

    #[test]
    fn pieces_end_at_page_boundaries() {
        let cut: Vec<_> = pieces(0x1fc0, 0x1100).collect();
        assert_eq!(cut, [(0x1fc0, 0x40), (0x2000, 0x1000), (0x3000, 0xc0)]);
        assert_eq!(pieces(0x1000, 0).count(), 0);
        assert_eq!(pieces(u64::MAX, 2).count(), 2);
    }

    #[test]
    fn sizes_that_pcie_does_not_have_do_no_harm() {
        let limits = Limits::new(Headers::of(3), 0, 300, u32::MAX);
        assert_eq!(limits.read_requests(4096).count, 8);
        assert_eq!(limits.writes(4).count, 4);
        assert_eq!(limits.completions(0, 4).count, 4);
    }
}
