//! The answer of VFIO_IOMMU_GET_INFO: a fixed header, followed by a chain of capabilities
//! (linux/vfio.h, `struct vfio_iommu_type1_info`).

use std::ops::Range;

use vfio_bindings::bindings::vfio::{
    VFIO_IOMMU_INFO_CAPS, VFIO_IOMMU_TYPE1_INFO_CAP_IOVA_RANGE, VFIO_IOMMU_TYPE1_INFO_DMA_AVAIL,
    vfio_iommu_type1_info,
};

use super::iommu_info::IommuInfo;

/// Bytes of `vfio_info_cap_header`: id, version, offset of the next one.
const CAP_HEADER: usize = 8;
/// Upper bound of capabilities: the kernel has three.
const MAX_CAPABILITIES: usize = 32;

/// Parses the kernel's answer: its `header`, and the `capabilities` that follow it. Implausible
/// entries are ignored.
pub(super) fn parse(header: &vfio_iommu_type1_info, capabilities: &[u8]) -> IommuInfo {
    let mut info = IommuInfo::default();
    if header.flags & VFIO_IOMMU_INFO_CAPS == 0 {
        return info;
    }
    let mut offset = header.cap_offset;
    for _ in 0..MAX_CAPABILITIES {
        // Offsets are relative to the header. Zero ends the chain.
        let Some(at) = (offset as usize).checked_sub(size_of_val(header)) else {
            break;
        };
        let (Some(id), Some(next)) = (read16(capabilities, at), read32(capabilities, at + 4))
        else {
            break;
        };
        match u32::from(id) {
            VFIO_IOMMU_TYPE1_INFO_CAP_IOVA_RANGE => info.ranges = ranges(capabilities, at),
            VFIO_IOMMU_TYPE1_INFO_DMA_AVAIL => info.entries = read32(capabilities, at + CAP_HEADER),
            _ => {}
        }
        offset = next;
    }
    info
}

/// Parses `vfio_iommu_type1_info_cap_iova_range`: a count, padding, and pairs of first and last
/// IOVA.
fn ranges(bytes: &[u8], at: usize) -> Vec<Range<u64>> {
    let count = read32(bytes, at + CAP_HEADER).unwrap_or(0) as usize;
    let pairs = bytes.get(at + CAP_HEADER + 8..).unwrap_or_default();
    pairs
        .chunks_exact(16)
        .take(count)
        .filter_map(|pair| {
            let (first, last) = (read64(pair, 0)?, read64(pair, 8)?);
            (first <= last).then(|| first..last.saturating_add(1))
        })
        .collect()
}

fn read16(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..at.checked_add(2)?)?;
    Some(u16::from_ne_bytes(bytes.try_into().ok()?))
}

fn read32(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

fn read64(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(8)?)?;
    Some(u64::from_ne_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "lists of ranges")]
mod tests {
    use super::*;

    const HEADER: u32 = size_of::<vfio_iommu_type1_info>() as u32;

    fn header(cap_offset: u32) -> vfio_iommu_type1_info {
        vfio_iommu_type1_info {
            flags: VFIO_IOMMU_INFO_CAPS,
            cap_offset,
            ..Default::default()
        }
    }

    /// Returns the answer of a current kernel with these capabilities (id, body).
    fn chain(capabilities: &[(u16, Vec<u8>)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (index, (id, body)) in capabilities.iter().enumerate() {
            let is_last = index + 1 == capabilities.len();
            let next = HEADER as usize + bytes.len() + CAP_HEADER + body.len();
            bytes.extend(id.to_ne_bytes());
            bytes.extend(1u16.to_ne_bytes());
            bytes.extend(if is_last { 0 } else { next as u32 }.to_ne_bytes());
            bytes.extend(body);
        }
        bytes
    }

    fn parse_chain(capabilities: &[(u16, Vec<u8>)]) -> IommuInfo {
        parse(&header(HEADER), &chain(capabilities))
    }

    fn iova_ranges(ranges: &[(u64, u64)]) -> (u16, Vec<u8>) {
        let mut body = (ranges.len() as u64).to_ne_bytes().to_vec();
        for (first, last) in ranges {
            body.extend(first.to_ne_bytes());
            body.extend(last.to_ne_bytes());
        }
        (1, body)
    }

    #[test]
    fn ranges_and_the_limit_are_found_behind_other_capabilities() {
        let migration = (2, vec![0; 24]);
        let available = (3, 65_535u64.to_ne_bytes().to_vec());
        let ranges = iova_ranges(&[(0, 0xfedf_ffff), (0xfef0_0000, (1 << 39) - 1)]);
        let info = parse_chain(&[migration, available, ranges]);
        assert_eq!(info.ranges, [0..0xfee0_0000, 0xfef0_0000..1 << 39]);
        assert_eq!(info.entries, Some(65_535));
    }

    #[test]
    fn the_last_iova_of_all_does_not_wrap() {
        let info = parse_chain(&[iova_ranges(&[(0x1000, u64::MAX)])]);
        assert_eq!(info.ranges, [0x1000..u64::MAX]);
    }

    #[test]
    fn a_malformed_answer_says_nothing() {
        let full = chain(&[iova_ranges(&[(0, 100)]), (3, vec![1, 0, 0, 0])]);
        for length in 0..full.len() {
            parse(&header(HEADER), &full[..length]);
        }
        let mut circle = full.clone();
        circle[4..8].copy_from_slice(&HEADER.to_ne_bytes());
        assert_eq!(parse(&header(HEADER), &circle).ranges, [0..101]);
        for offset in [0, HEADER - 1, HEADER + full.len() as u32, u32::MAX] {
            assert_eq!(parse(&header(offset), &full), IommuInfo::default());
        }
        let backwards = parse_chain(&[iova_ranges(&[(5, 4)])]);
        assert_eq!(backwards.ranges, Vec::<Range<u64>>::new());
        let without = vfio_iommu_type1_info {
            flags: 0,
            ..header(HEADER)
        };
        assert_eq!(parse(&without, &full), IommuInfo::default());
    }
}
