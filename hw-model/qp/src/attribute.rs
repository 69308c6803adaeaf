//! Attributes by name, and sets of them.

/// An attribute by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Attribute {
    /// Remote access rights.
    Access,
    /// Partition key.
    PKey,
    /// Port number.
    Port,
    /// Minimum RNR NAK timer.
    MinRnrTimer,
    /// Local ACK timeout.
    Timeout,
    /// Retry count.
    RetryCount,
    /// RNR retry count.
    RnrRetry,
    /// Outstanding READs and atomics as requester.
    MaxRdAtomic,
    /// Outstanding READs and atomics as responder.
    MaxDestRdAtomic,
    /// Queue key.
    QKey,
    /// Path to the peer.
    Path,
    /// Path MTU.
    PathMtu,
    /// The peer's queue pair.
    DestQp,
    /// PSN of the first request that the peer sends.
    ReceivePsn,
    /// PSN of the first request that we send.
    SendPsn,
    /// Assumed current state of the queue pair.
    CurrentState,
    /// Requests an event when the send queue is drained.
    DrainNotification,
    /// Second path, for path migration (IBTA vol 1, chapter 17).
    AlternatePath,
    /// State of path migration.
    MigrationState,
}

impl Attribute {
    /// All attributes.
    pub const ALL: [Attribute; 19] = [
        Attribute::Access,
        Attribute::PKey,
        Attribute::Port,
        Attribute::MinRnrTimer,
        Attribute::Timeout,
        Attribute::RetryCount,
        Attribute::RnrRetry,
        Attribute::MaxRdAtomic,
        Attribute::MaxDestRdAtomic,
        Attribute::QKey,
        Attribute::Path,
        Attribute::PathMtu,
        Attribute::DestQp,
        Attribute::ReceivePsn,
        Attribute::SendPsn,
        Attribute::CurrentState,
        Attribute::DrainNotification,
        Attribute::AlternatePath,
        Attribute::MigrationState,
    ];
}

/// A set of attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AttributeSet(u32);

impl AttributeSet {
    /// No attribute.
    pub const NONE: AttributeSet = AttributeSet(0);

    /// Returns the set of `attributes`.
    #[must_use]
    pub const fn of(attributes: &[Attribute]) -> AttributeSet {
        let mut bits = 0;
        let mut index = 0;
        while index < attributes.len() {
            bits |= 1 << attributes[index] as u32;
            index += 1;
        }
        AttributeSet(bits)
    }

    /// Returns the union of both sets.
    #[must_use]
    pub const fn with(self, other: AttributeSet) -> AttributeSet {
        AttributeSet(self.0 | other.0)
    }

    /// Returns the set without the attributes of `other`.
    #[must_use]
    pub const fn without(self, other: AttributeSet) -> AttributeSet {
        AttributeSet(self.0 & !other.0)
    }

    /// Returns true if `attribute` is in the set.
    #[must_use]
    pub const fn contains(self, attribute: Attribute) -> bool {
        self.0 & 1 << attribute as u32 != 0
    }

    /// Returns the first attribute of the set in the order of [`Attribute::ALL`].
    #[must_use]
    pub fn first(self) -> Option<Attribute> {
        Attribute::ALL.into_iter().find(|a| self.contains(*a))
    }
}

impl FromIterator<Attribute> for AttributeSet {
    fn from_iter<I: IntoIterator<Item = Attribute>>(attributes: I) -> AttributeSet {
        attributes.into_iter().fold(AttributeSet::NONE, |set, a| {
            set.with(AttributeSet::of(&[a]))
        })
    }
}
