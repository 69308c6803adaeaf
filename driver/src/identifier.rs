//! Numbers of objects, one type for each kind.

use ferroce_spec::context::GSI_QPN;

/// Queue pair number, 24 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Qpn(pub u32);

impl Qpn {
    /// The GSI of every port (IBTA vol 1, 3.9.4).
    pub const GSI: Self = Self(GSI_QPN);
}

/// Completion queue number, 24 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Cqn(pub u32);

/// Shared receive queue number, 24 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Srqn(pub u32);

/// Local key of a memory region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct LKey(pub u32);

/// Remote key of a memory region or a memory window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RKey(pub u32);
