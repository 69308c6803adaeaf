//! Regions of the device, and their descriptions in replies.

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use zerocopy::IntoBytes;

use crate::message::{CapabilityHeader, RegionInfoFields, SparseArea, SparseMmap, split};

/// Index of BAR0; BAR1 to BAR5 follow.
pub const BAR0: u32 = 0;
/// Index of BAR2.
pub const BAR2: u32 = 2;
/// Index of BAR4.
pub const BAR4: u32 = 4;
/// Index of the expansion ROM.
pub const ROM: u32 = 6;
/// Index of the configuration space.
pub const CONFIG: u32 = 7;
/// Index of the legacy VGA ranges.
pub const VGA: u32 = 8;
/// Regions of a PCI device.
pub const COUNT: u32 = 9;

/// `VFIO_REGION_INFO_FLAG_READ`: the region can be read.
pub const FLAG_READ: u32 = 1;
/// `VFIO_REGION_INFO_FLAG_WRITE`: the region can be written.
pub const FLAG_WRITE: u32 = 1 << 1;
/// `VFIO_REGION_INFO_FLAG_MMAP`: the region, or areas of it, can be mapped.
pub const FLAG_MMAP: u32 = 1 << 2;
/// `VFIO_REGION_INFO_FLAG_CAPS`: capabilities follow the description.
pub const FLAG_CAPS: u32 = 1 << 3;

/// A region.
#[derive(Debug, Clone)]
pub struct RegionInfo {
    /// [`FLAG_READ`] and [`FLAG_WRITE`]. A server adds the other flags itself.
    pub flags: u32,
    /// Bytes.
    pub size: u64,
    /// Its memory, if it can be mapped.
    pub mmap: Option<RegionMmap>,
}

/// The mappable memory of a region.
#[derive(Debug, Clone)]
pub struct RegionMmap {
    /// File to map.
    pub file: Arc<OwnedFd>,
    /// Offset of the region in the file.
    pub offset: u64,
    /// The areas that can be mapped, as bytes of the region, page-aligned. An area's first byte is
    /// at `offset` plus its start in the file.
    pub areas: Vec<Range<u64>>,
}

/// `VFIO_REGION_INFO_CAP_SPARSE_MMAP`.
const CAPABILITY_SPARSE_MMAP: u16 = 1;

/// Bytes of the description of a region without its capabilities.
pub(crate) const FIXED_SIZE: u32 = 32;
const _: () = assert!(size_of::<RegionInfoFields>() == FIXED_SIZE as usize);

impl RegionInfo {
    /// Description of a missing region.
    pub(crate) const ABSENT: Self = Self {
        flags: 0,
        size: 0,
        mmap: None,
    };

    /// Returns the reply that describes it in at most `argsz` bytes, which is at least
    /// [`FIXED_SIZE`]. Capabilities that do not fit are omitted, and the reply states their size.
    pub(crate) fn encode(&self, index: u32, argsz: u32) -> Vec<u8> {
        let mut fields = RegionInfoFields {
            argsz: FIXED_SIZE.into(),
            flags: (self.flags & (FLAG_READ | FLAG_WRITE)).into(),
            index: index.into(),
            size: self.size.into(),
            ..RegionInfoFields::default()
        };
        let Some(mmap) = &self.mmap else {
            return fields.as_bytes().to_vec();
        };
        let sparse = mmap.encode();
        let needed = FIXED_SIZE.saturating_add(u32::try_from(sparse.len()).unwrap_or(u32::MAX));
        fields.argsz = needed.into();
        fields.flags = (fields.flags.get() | FLAG_MMAP | FLAG_CAPS).into();
        fields.offset = mmap.offset.into();
        // Set even if they are omitted: QEMU refuses a region that has capabilities at offset zero
        // before it checks whether they are all there (11.1, vfio_user_device_io_get_region_info).
        fields.cap_offset = FIXED_SIZE.into();
        if argsz < needed {
            return fields.as_bytes().to_vec();
        }
        [fields.as_bytes(), &sparse].concat()
    }

    /// Parses a reply about region `index`.
    pub(crate) fn decode(
        index: u32,
        body: &[u8],
        file: Option<OwnedFd>,
    ) -> Result<Self, &'static str> {
        let (fields, _) =
            split::<RegionInfoFields>(body).map_err(|_| "the description of a region is short")?;
        if fields.index.get() != index {
            return Err("it describes another region");
        }
        let flags = fields.flags.get();
        let size = fields.size.get();
        let mmap = match file {
            Some(file) if flags & FLAG_MMAP != 0 => {
                let whole = 0..size;
                let areas = sparse_areas(&fields, body)?.unwrap_or_else(|| vec![whole]);
                let offset = fields.offset.get();
                check_areas(&areas, size, offset)?;
                Some(RegionMmap {
                    file: Arc::new(file),
                    offset,
                    areas,
                })
            }
            _ => None,
        };
        Ok(Self {
            flags: flags & (FLAG_READ | FLAG_WRITE),
            size,
            mmap,
        })
    }
}

impl RegionMmap {
    /// Returns the sparse-mmap capability, the last of its list.
    fn encode(&self) -> Vec<u8> {
        let header = CapabilityHeader {
            id: CAPABILITY_SPARSE_MMAP.into(),
            version: 1.into(),
            next: 0.into(),
        };
        let fixed = SparseMmap {
            area_count: u32::try_from(self.areas.len()).unwrap_or(u32::MAX).into(),
            reserved: 0.into(),
        };
        let mut bytes = [header.as_bytes(), fixed.as_bytes()].concat();
        for area in &self.areas {
            let area = SparseArea {
                offset: area.start.into(),
                size: area.end.saturating_sub(area.start).into(),
            };
            bytes.extend_from_slice(area.as_bytes());
        }
        bytes
    }
}

/// Returns the areas of the sparse-mmap capability in a description, if there is one.
fn sparse_areas(
    fields: &RegionInfoFields,
    body: &[u8],
) -> Result<Option<Vec<Range<u64>>>, &'static str> {
    const OUTSIDE: &str = "a capability lies outside of the description";
    if fields.flags.get() & FLAG_CAPS == 0 {
        return Ok(None);
    }
    let mut offset = fields.cap_offset.get();
    while offset != 0 {
        let bytes = body.get(offset as usize..).ok_or(OUTSIDE)?;
        let (header, bytes) = split::<CapabilityHeader>(bytes).map_err(|_| OUTSIDE)?;
        if header.id.get() == CAPABILITY_SPARSE_MMAP {
            let (fixed, bytes) = split::<SparseMmap>(bytes).map_err(|_| OUTSIDE)?;
            return areas(fixed.area_count.get(), bytes).map(Some);
        }
        let next = header.next.get();
        if next != 0 && next <= offset {
            return Err("the list of capabilities does not end");
        }
        offset = next;
    }
    Ok(None)
}

/// Parses `count` areas at the beginning of `bytes`.
fn areas(count: u32, mut bytes: &[u8]) -> Result<Vec<Range<u64>>, &'static str> {
    let mut areas = Vec::new();
    for _ in 0..count {
        let (area, rest) = split::<SparseArea>(bytes).map_err(|_| "an area is missing")?;
        bytes = rest;
        let start = area.offset.get();
        let end = start.checked_add(area.size.get());
        areas.push(start..end.ok_or("an area wraps around")?);
    }
    Ok(areas)
}

/// Checks that every area lies in the region, and its file offset does not wrap around.
fn check_areas(areas: &[Range<u64>], size: u64, offset: u64) -> Result<(), &'static str> {
    let is_good = |area: &Range<u64>| {
        area.start < area.end && area.end <= size && offset.checked_add(area.end).is_some()
    };
    if areas.iter().all(is_good) {
        Ok(())
    } else {
        Err("an area is empty or lies outside of the region")
    }
}

#[cfg(test)]
mod tests {
    use zerocopy::FromBytes;

    use super::*;

    fn file() -> OwnedFd {
        rustix::fs::memfd_create("region", rustix::fs::MemfdFlags::CLOEXEC).expect("memfd")
    }

    fn sparse() -> RegionInfo {
        RegionInfo {
            flags: FLAG_READ | FLAG_WRITE,
            size: 0x10000,
            mmap: Some(RegionMmap {
                file: Arc::new(file()),
                offset: 0x3000,
                areas: vec![0x1000..0x2000, 0x4000..0x8000],
            }),
        }
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        let body = sparse().encode(2, 4096);
        assert_eq!(body.len(), 32 + 16 + 2 * 16);
        let info = RegionInfo::decode(2, &body, Some(file())).expect("own encoding");
        assert_eq!((info.flags, info.size), (3, 0x10000));
        let mmap = info.mmap.expect("it has areas");
        assert_eq!(mmap.offset, 0x3000);
        assert_eq!(mmap.areas, [0x1000..0x2000, 0x4000..0x8000]);
    }

    #[test]
    fn what_does_not_fit_is_announced() {
        let body = sparse().encode(2, FIXED_SIZE + 16 + 31);
        assert_eq!(body.len(), 32);
        let fields = RegionInfoFields::read_from_bytes(&body).expect("fixed part");
        assert_eq!(fields.argsz.get(), 32 + 16 + 32);
        assert_eq!(fields.flags.get(), 0xf);
        assert_eq!(fields.cap_offset.get(), FIXED_SIZE);
    }

    #[test]
    fn without_areas_the_whole_region_can_be_mapped() {
        let mut body = RegionInfo::ABSENT.encode(0, 32);
        body[4] = 7; // READ | WRITE | MMAP
        body[16..24].copy_from_slice(&0x4000_u64.to_le_bytes());
        let info = RegionInfo::decode(0, &body, Some(file())).expect("legal");
        let areas = info.mmap.expect("a file came").areas;
        assert_eq!((areas.len(), &areas[0]), (1, &(0..0x4000)));
        let info = RegionInfo::decode(0, &body, None).expect("legal");
        assert!(info.mmap.is_none(), "no file, nothing to map");
    }

    #[test]
    fn a_malformed_description_is_refused() {
        let good = sparse().encode(2, 4096);
        let decode = |body: &[u8]| RegionInfo::decode(2, body, Some(file()));
        for length in 0..good.len() {
            assert!(decode(&good[..length]).is_err(), "{length} bytes");
        }
        assert!(RegionInfo::decode(1, &good, None).is_err(), "another index");
        for (at, value, why) in [
            (12, 0xffff_fff0_u32, "capability far outside"),
            (40, 0xffff_ffff, "more areas than bytes"),
            (52, 0x7fff_ffff, "area outside of the region"),
            (28, 0xffff_ffff, "file offset wraps"),
        ] {
            let mut body = good.clone();
            body[at..at + 4].copy_from_slice(&value.to_le_bytes());
            let wraps = at == 28;
            if wraps {
                body[24..28].copy_from_slice(&u32::MAX.to_le_bytes());
            }
            assert!(decode(&body).is_err(), "{why}");
        }
        let mut endless = good;
        endless[32] = 9; // an unknown capability …
        endless[36] = 32; // … that comes after itself
        assert!(decode(&endless).is_err());
    }
}
