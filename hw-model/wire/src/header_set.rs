//! The set of headers of a packet.

use crate::aeth::Aeth;
use crate::atomic::{AtomicAckEth, AtomicEth};
use crate::bth::Bth;
use crate::deth::Deth;
use crate::flush::Feth;
use crate::immediate::{Ieth, Immediate};
use crate::opcode::{Opcode, OpcodeProperties};
use crate::operation::{Operation, Transport};
use crate::reth::Reth;
use crate::xrc::XrcEth;

/// Bytes of the RDETH, which this crate only skips.
const RDETH_LENGTH: usize = 4;
/// Bytes of a congestion notification packet after its BTH.
pub(crate) const CNP_LENGTH: usize = 16;

/// The headers that follow the BTH, as a set. Their order on the wire is fixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HeaderSet(u16);

impl HeaderSet {
    /// Only the BTH
    pub const NONE: Self = Self(0);
    /// Reliable datagram extended transport header
    pub const RDETH: Self = Self(1 << 0);
    /// Datagram extended transport header
    pub const DETH: Self = Self(1 << 1);
    /// XRC extended transport header
    pub const XRCETH: Self = Self(1 << 2);
    /// RDMA extended transport header
    pub const RETH: Self = Self(1 << 3);
    /// Atomic extended transport header
    pub const ATOMIC_ETH: Self = Self(1 << 4);
    /// Acknowledge extended transport header
    pub const AETH: Self = Self(1 << 5);
    /// Atomic acknowledge extended transport header
    pub const ATOMIC_ACK_ETH: Self = Self(1 << 6);
    /// Immediate data
    pub const IMMEDIATE: Self = Self(1 << 7);
    /// Invalidate extended transport header
    pub const IETH: Self = Self(1 << 8);
    /// The 16 reserved bytes of a congestion notification packet
    pub const CNP: Self = Self(1 << 9);
    /// Flush extended transport header, which precedes the RETH
    pub const FETH: Self = Self(1 << 10);

    /// Returns the union of both sets.
    #[inline]
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the set without the headers of `other`.
    #[inline]
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub(crate) const fn with_if(self, condition: bool, other: Self) -> Self {
        if condition { self.with(other) } else { self }
    }

    /// Returns true if all of `other` is in the set.
    #[inline]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the total length of the headers in bytes.
    pub const fn length(self) -> usize {
        const LENGTHS: [(HeaderSet, usize); 11] = [
            (HeaderSet::RDETH, RDETH_LENGTH),
            (HeaderSet::DETH, Deth::LENGTH),
            (HeaderSet::XRCETH, XrcEth::LENGTH),
            (HeaderSet::RETH, Reth::LENGTH),
            (HeaderSet::ATOMIC_ETH, AtomicEth::LENGTH),
            (HeaderSet::AETH, Aeth::LENGTH),
            (HeaderSet::ATOMIC_ACK_ETH, AtomicAckEth::LENGTH),
            (HeaderSet::IMMEDIATE, Immediate::LENGTH),
            (HeaderSet::IETH, Ieth::LENGTH),
            (HeaderSet::CNP, CNP_LENGTH),
            (HeaderSet::FETH, Feth::LENGTH),
        ];
        let mut length = 0;
        let mut index = 0;
        while index < LENGTHS.len() {
            if self.contains(LENGTHS[index].0) {
                length += LENGTHS[index].1;
            }
            index += 1;
        }
        length
    }
}

impl Opcode {
    /// Returns the headers that follow the BTH; `None` for reserved codes.
    #[inline]
    pub(crate) const fn headers(self) -> Option<HeaderSet> {
        HEADERS[self.0 as usize]
    }
}

impl OpcodeProperties {
    /// Returns the headers that follow the BTH.
    #[inline]
    pub const fn headers(self) -> HeaderSet {
        let is_request = self.operation.is_request();
        let is_rd = matches!(self.transport, Transport::ReliableDatagram);
        let is_ud = matches!(self.transport, Transport::UnreliableDatagram);
        let is_xrc = matches!(self.transport, Transport::ExtendedReliableConnected);
        HeaderSet::NONE
            .with_if(is_rd, HeaderSet::RDETH)
            .with_if(is_request && (is_rd || is_ud), HeaderSet::DETH)
            .with_if(is_request && is_xrc, HeaderSet::XRCETH)
            .with_if(matches!(self.operation, Operation::Flush), HeaderSet::FETH)
            .with_if(self.has_reth(), HeaderSet::RETH)
            .with_if(self.has_atomic_eth(), HeaderSet::ATOMIC_ETH)
            .with_if(self.has_aeth(), HeaderSet::AETH)
            .with_if(self.has_atomic_ack_eth(), HeaderSet::ATOMIC_ACK_ETH)
            .with_if(self.has_immediate(), HeaderSet::IMMEDIATE)
            .with_if(
                matches!(self.operation, Operation::SendInvalidate),
                HeaderSet::IETH,
            )
            .with_if(
                matches!(self.operation, Operation::CongestionNotification),
                HeaderSet::CNP,
            )
    }

    /// Returns the bytes of the BTH and the headers that follow it.
    #[inline]
    pub const fn header_length(self) -> usize {
        Bth::LENGTH + self.headers().length()
    }
}

/// The headers of each opcode, computed by the compiler from [`OpcodeProperties::headers`].
const HEADERS: [Option<HeaderSet>; 256] = {
    let mut headers = [None; 256];
    let mut value = 0;
    while value < headers.len() {
        if let Some(properties) = Opcode(value as u8).parse() {
            headers[value] = Some(properties.headers());
        }
        value += 1;
    }
    headers
};
