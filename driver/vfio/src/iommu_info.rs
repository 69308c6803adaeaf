//! Properties of an IOMMU that the kernel reports.

use std::ops::Range;

/// Properties of an IOMMU.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct IommuInfo {
    /// IOVAs that mappings may use. Empty: the kernel does not report them.
    pub(super) ranges: Vec<Range<u64>>,
    /// Maximum number of simultaneous mappings, if limited.
    pub(super) entries: Option<u32>,
}
