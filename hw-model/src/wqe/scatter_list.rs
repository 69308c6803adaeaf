//! The data segments of a WQE, kept on the chip from fetch to retirement.

use ferroce_spec::wqe::{DataSegment, L_KEY_END};

/// Number of segments that are kept without an allocation; nearly every WQE has no more.
const FEW: usize = 3;

/// A list of data segments.
#[derive(Debug, Clone)]
pub enum ScatterList {
    /// Up to three segments.
    Few {
        /// Number of segments in use.
        count: u8,
        /// The segments.
        segments: [DataSegment; FEW],
    },
    /// More segments.
    Many(Box<[DataSegment]>),
}

impl ScatterList {
    /// Returns a list of `segments`.
    pub fn new(segments: &[DataSegment]) -> Self {
        if segments.len() > FEW {
            return ScatterList::Many(segments.into());
        }
        let mut few = [DataSegment::default(); FEW];
        few[..segments.len()].copy_from_slice(segments);
        ScatterList::Few {
            count: segments.len() as u8,
            segments: few,
        }
    }

    /// Returns the segments of a receive WQE, up to its end mark.
    pub fn from_receive(segments: &[DataSegment]) -> Self {
        let end = segments
            .iter()
            .position(|s| s.l_key == L_KEY_END)
            .unwrap_or(segments.len());
        Self::new(&segments[..end])
    }

    /// Returns the segments.
    #[inline]
    pub fn segments(&self) -> &[DataSegment] {
        match self {
            ScatterList::Few { count, segments } => &segments[..usize::from(*count)],
            ScatterList::Many(segments) => segments,
        }
    }

    /// Returns the total length of all segments; saturates far above the longest message.
    pub fn length(&self) -> u32 {
        self.segments()
            .iter()
            .fold(0u32, |sum, s| sum.saturating_add(s.length))
    }

    /// Returns the parts of the segments that hold `length` bytes from `offset` on.
    #[inline]
    pub fn pieces(&self, offset: u32, length: u32) -> impl Iterator<Item = DataSegment> + '_ {
        let mut skip = offset;
        let mut left = length;
        self.segments().iter().filter_map(move |segment| {
            if skip >= segment.length {
                skip -= segment.length;
                return None;
            }
            let piece = DataSegment {
                address: segment.address.wrapping_add(u64::from(skip)),
                length: (segment.length - skip).min(left),
                l_key: segment.l_key,
            };
            skip = 0;
            left -= piece.length;
            (piece.length > 0).then_some(piece)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(address: u64, length: u32) -> DataSegment {
        DataSegment {
            address,
            length,
            l_key: 7,
        }
    }

    #[test]
    fn pieces_cross_segments_and_skip_empty_ones() {
        let list = ScatterList::new(&[
            segment(100, 10),
            segment(200, 0),
            segment(300, 5),
            segment(400, 20),
        ]);
        assert_eq!(list.length(), 35);
        let pieces: Vec<_> = list.pieces(8, 12).map(|p| (p.address, p.length)).collect();
        assert_eq!(pieces, [(108, 2), (300, 5), (400, 5)]);
        assert_eq!(list.pieces(35, 0).count(), 0);
    }

    #[test]
    fn receive_list_ends_at_its_mark() {
        let end = DataSegment {
            address: 0,
            length: 0,
            l_key: L_KEY_END,
        };
        let list = ScatterList::from_receive(&[segment(1, 2), end, segment(3, 4)]);
        assert_eq!(list.segments().len(), 1);
    }
}
