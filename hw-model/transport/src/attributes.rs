//! Attributes of a queue pair and the transitions that set them.
//!
//! What a transition needs is complete or not constructible; what it may change besides is an
//! [`AttributeUpdate`], checked against the table of the verbs (`ibv_modify_qp(3)`).

use ferroce_wire::{PKey, Psn, Qpn, RnrTimer};

use crate::state::QpState;
use crate::time::Duration;

/// Path MTU: payload bytes per packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum PathMtu {
    /// 256 bytes.
    Mtu256 = 1,
    /// 512 bytes.
    Mtu512 = 2,
    /// 1024 bytes.
    Mtu1024 = 3,
    /// 2048 bytes.
    Mtu2048 = 4,
    /// 4096 bytes.
    Mtu4096 = 5,
}

impl PathMtu {
    /// All path MTUs, smallest first.
    pub const ALL: [PathMtu; 5] = [
        PathMtu::Mtu256,
        PathMtu::Mtu512,
        PathMtu::Mtu1024,
        PathMtu::Mtu2048,
        PathMtu::Mtu4096,
    ];

    /// Decodes the verbs' number (`enum ibv_mtu`: 1 = 256 … 5 = 4096).
    #[must_use]
    pub const fn from_code(code: u8) -> Option<PathMtu> {
        match code {
            1 => Some(PathMtu::Mtu256),
            2 => Some(PathMtu::Mtu512),
            3 => Some(PathMtu::Mtu1024),
            4 => Some(PathMtu::Mtu2048),
            5 => Some(PathMtu::Mtu4096),
            _ => None,
        }
    }

    /// The verbs' number (`enum ibv_mtu`).
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Payload bytes per packet.
    #[must_use]
    pub const fn bytes(self) -> u32 {
        1 << self.shift()
    }

    /// Base-2 logarithm of [`PathMtu::bytes`].
    #[must_use]
    pub(crate) const fn shift(self) -> u32 {
        self as u32 + 7
    }

    /// Packets that a message of `length` bytes needs; a message of no bytes needs one.
    #[must_use]
    pub const fn packets(self, length: u32) -> u32 {
        if length == 0 {
            1
        } else {
            ((length - 1) >> self.shift()) + 1
        }
    }
}

/// What remote peers may do through a queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct RemoteAccess {
    /// RDMA READ is allowed.
    pub read: bool,
    /// RDMA WRITE is allowed.
    pub write: bool,
    /// Atomics are allowed.
    pub atomic: bool,
}

/// Local ACK timeout, a 5-bit exponent: 4.096 µs × 2^n; 0 waits for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct LocalAckTimeout(u8);

impl LocalAckTimeout {
    /// Takes the low 5 bits of `exponent`.
    #[must_use]
    pub const fn new(exponent: u8) -> LocalAckTimeout {
        LocalAckTimeout(exponent & 0x1f)
    }

    /// The exponent.
    #[must_use]
    pub const fn value(self) -> u8 {
        self.0
    }

    /// The time to wait for an acknowledgement; `None` is for ever.
    #[must_use]
    pub const fn duration(self) -> Option<Duration> {
        match self.0 {
            0 => None,
            exponent => Some(Duration::from_ps(4_096_000 << exponent)),
        }
    }
}

/// A 3-bit number of retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct RetryCount(u8);

impl RetryCount {
    /// As an RNR retry count this value means "for ever".
    pub const RNR_FOREVER: RetryCount = RetryCount(7);

    /// Takes the low 3 bits of `count`.
    #[must_use]
    pub const fn new(count: u8) -> RetryCount {
        RetryCount(count & 7)
    }

    /// The number.
    #[must_use]
    pub const fn value(self) -> u8 {
        self.0
    }
}

/// What RESET→INIT needs; INIT→INIT repeats it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InitAttributes {
    /// Partition key that packets carry and must carry.
    pub p_key: PKey,
    /// What remote peers may do.
    pub access: RemoteAccess,
    /// Physical port, counted from 1.
    pub port: u8,
}

/// What INIT→RTR needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RtrAttributes {
    /// Payload bytes per packet.
    pub path_mtu: PathMtu,
    /// The peer's queue pair.
    pub dest_qp: Qpn,
    /// PSN of the first request packet that the peer will send.
    pub rq_psn: Psn,
    /// READs and atomics that the peer may have outstanding here.
    pub max_dest_rd_atomic: u8,
    /// How long a peer waits after an RNR NAK of ours.
    pub min_rnr_timer: RnrTimer,
}

/// What RTR→RTS needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RtsAttributes {
    /// PSN of the first request packet that we send.
    pub sq_psn: Psn,
    /// Local ACK timeout.
    pub timeout: LocalAckTimeout,
    /// Retries after time-outs and sequence errors.
    pub retry_count: RetryCount,
    /// Retries after RNR NAKs; 7 is for ever.
    pub rnr_retry: RetryCount,
    /// READs and atomics that we may have outstanding at the peer.
    pub max_rd_atomic: u8,
}

/// Attributes that a transition may change besides those that it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AttributeUpdate {
    /// What remote peers may do.
    pub access: Option<RemoteAccess>,
    /// Partition key.
    pub p_key: Option<PKey>,
    /// Physical port.
    pub port: Option<u8>,
    /// How long a peer waits after an RNR NAK of ours.
    pub min_rnr_timer: Option<RnrTimer>,
    /// Local ACK timeout.
    pub timeout: Option<LocalAckTimeout>,
    /// Retries after time-outs and sequence errors.
    pub retry_count: Option<RetryCount>,
    /// Retries after RNR NAKs.
    pub rnr_retry: Option<RetryCount>,
    /// READs and atomics that we may have outstanding.
    pub max_rd_atomic: Option<u8>,
    /// READs and atomics that the peer may have outstanding here.
    pub max_dest_rd_atomic: Option<u8>,
}

/// An attribute by name, for errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
}

impl AttributeUpdate {
    /// The attributes that are to be changed.
    fn named(&self) -> impl Iterator<Item = Attribute> {
        [
            self.access.map(|_| Attribute::Access),
            self.p_key.map(|_| Attribute::PKey),
            self.port.map(|_| Attribute::Port),
            self.min_rnr_timer.map(|_| Attribute::MinRnrTimer),
            self.timeout.map(|_| Attribute::Timeout),
            self.retry_count.map(|_| Attribute::RetryCount),
            self.rnr_retry.map(|_| Attribute::RnrRetry),
            self.max_rd_atomic.map(|_| Attribute::MaxRdAtomic),
            self.max_dest_rd_atomic.map(|_| Attribute::MaxDestRdAtomic),
        ]
        .into_iter()
        .flatten()
    }
}

/// A Modify QP, complete by construction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transition {
    /// To RESET from any state: everything is forgotten, nothing completes.
    Reset,
    /// RESET→INIT, INIT→INIT.
    Init(InitAttributes),
    /// INIT→RTR.
    Rtr {
        /// What the transition needs.
        attributes: RtrAttributes,
        /// What it may change besides.
        update: AttributeUpdate,
    },
    /// RTR→RTS.
    Rts {
        /// What the transition needs.
        attributes: RtsAttributes,
        /// What it may change besides.
        update: AttributeUpdate,
    },
    /// RTS→RTS, SQD→SQD: attributes change, the state does not.
    Update(AttributeUpdate),
    /// RTS→SQD.
    Drain {
        /// Raise [`crate::Event::SqDrained`] when every request that was begun has completed.
        notify: bool,
    },
    /// SQD→RTS, SQE→RTS.
    Resume(AttributeUpdate),
    /// To ERR from any state but RESET: everything outstanding is flushed.
    Err,
}

impl Transition {
    /// The state that this transition leads to, given the state it starts from.
    #[must_use]
    pub const fn target(&self, from: QpState) -> QpState {
        match self {
            Transition::Reset => QpState::Reset,
            Transition::Init(_) => QpState::Init,
            Transition::Rtr { .. } => QpState::Rtr,
            Transition::Rts { .. } | Transition::Resume(_) => QpState::Rts,
            Transition::Update(_) => from,
            Transition::Drain { .. } => QpState::Sqd,
            Transition::Err => QpState::Err,
        }
    }

    /// Whether the verbs have this transition from `from` (a finer question than whether they
    /// have any transition between the two states).
    const fn starts_from(&self, from: QpState) -> bool {
        match self {
            Transition::Rts { .. } => matches!(from, QpState::Rtr),
            Transition::Update(_) => matches!(from, QpState::Rts | QpState::Sqd),
            Transition::Resume(_) => matches!(from, QpState::Sqd | QpState::Sqe),
            Transition::Drain { .. } => matches!(from, QpState::Rts),
            _ => from.can_become(self.target(from)),
        }
    }

    /// The optional part.
    const fn update(&self) -> Option<&AttributeUpdate> {
        match self {
            Transition::Rtr { update, .. }
            | Transition::Rts { update, .. }
            | Transition::Update(update)
            | Transition::Resume(update) => Some(update),
            _ => None,
        }
    }

    /// Whether the verbs let this transition change `attribute` as an option.
    fn may_change(&self, from: QpState, attribute: Attribute) -> bool {
        match (self, attribute) {
            (Transition::Rtr { .. }, Attribute::Access | Attribute::PKey) => true,
            (
                Transition::Rts { .. } | Transition::Resume(_),
                Attribute::Access | Attribute::MinRnrTimer,
            ) => true,
            (Transition::Update(_), _) if matches!(from, QpState::Sqd) => true,
            (Transition::Update(_), Attribute::Access | Attribute::MinRnrTimer) => true,
            _ => false,
        }
    }

    /// Checks this transition against the state table and the table of optional attributes.
    pub(crate) fn check(&self, from: QpState) -> Result<QpState, TransitionError> {
        let to = self.target(from);
        if !from.can_become(to) || !self.starts_from(from) {
            return Err(TransitionError::Illegal { from, to });
        }
        for attribute in self.update().into_iter().flat_map(AttributeUpdate::named) {
            if !self.may_change(from, attribute) {
                return Err(TransitionError::Attribute {
                    attribute,
                    from,
                    to,
                });
            }
        }
        Ok(to)
    }
}

/// Why a Modify QP was refused. The queue pair is unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TransitionError {
    /// The state table has no such transition.
    #[error("a queue pair cannot go from {from} to {to}")]
    Illegal {
        /// The present state.
        from: QpState,
        /// The state that was asked for.
        to: QpState,
    },
    /// The transition exists but may not change this attribute.
    #[error("{attribute:?} cannot be changed on the way from {from} to {to}")]
    Attribute {
        /// The attribute.
        attribute: Attribute,
        /// The present state.
        from: QpState,
        /// The state that was asked for.
        to: QpState,
    },
    /// The send queue is still draining; attributes change only when it is drained.
    #[error("the send queue is still draining")]
    Draining,
}

/// Attributes as they stand (for Query QP). Those not yet set are zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes {
    /// Partition key.
    pub p_key: PKey,
    /// What remote peers may do.
    pub access: RemoteAccess,
    /// Physical port.
    pub port: u8,
    /// Payload bytes per packet.
    pub path_mtu: PathMtu,
    /// The peer's queue pair.
    pub dest_qp: Qpn,
    /// READs and atomics that the peer may have outstanding here.
    pub max_dest_rd_atomic: u8,
    /// How long a peer waits after an RNR NAK of ours.
    pub min_rnr_timer: RnrTimer,
    /// Local ACK timeout.
    pub timeout: LocalAckTimeout,
    /// Retries after time-outs and sequence errors.
    pub retry_count: RetryCount,
    /// Retries after RNR NAKs; 7 is for ever.
    pub rnr_retry: RetryCount,
    /// READs and atomics that we may have outstanding.
    pub max_rd_atomic: u8,
}

impl Attributes {
    /// The attributes of a queue pair in RESET.
    pub(crate) const fn new() -> Attributes {
        Attributes {
            p_key: PKey(0),
            access: RemoteAccess {
                read: false,
                write: false,
                atomic: false,
            },
            port: 0,
            path_mtu: PathMtu::Mtu256,
            dest_qp: Qpn::new(0),
            max_dest_rd_atomic: 0,
            min_rnr_timer: RnrTimer::new(0),
            timeout: LocalAckTimeout(0),
            retry_count: RetryCount(0),
            rnr_retry: RetryCount(0),
            max_rd_atomic: 0,
        }
    }

    pub(crate) fn apply_init(&mut self, init: &InitAttributes) {
        self.p_key = init.p_key;
        self.access = init.access;
        self.port = init.port;
    }

    pub(crate) fn apply_rtr(&mut self, rtr: &RtrAttributes) {
        self.path_mtu = rtr.path_mtu;
        self.dest_qp = rtr.dest_qp;
        self.max_dest_rd_atomic = rtr.max_dest_rd_atomic;
        self.min_rnr_timer = rtr.min_rnr_timer;
    }

    pub(crate) fn apply_rts(&mut self, rts: &RtsAttributes) {
        self.timeout = rts.timeout;
        self.retry_count = rts.retry_count;
        self.rnr_retry = rts.rnr_retry;
        self.max_rd_atomic = rts.max_rd_atomic;
    }

    pub(crate) fn apply_update(&mut self, update: &AttributeUpdate) {
        fn set<T: Copy>(attribute: &mut T, value: Option<T>) {
            *attribute = value.unwrap_or(*attribute);
        }
        set(&mut self.access, update.access);
        set(&mut self.p_key, update.p_key);
        set(&mut self.port, update.port);
        set(&mut self.min_rnr_timer, update.min_rnr_timer);
        set(&mut self.timeout, update.timeout);
        set(&mut self.retry_count, update.retry_count);
        set(&mut self.rnr_retry, update.rnr_retry);
        set(&mut self.max_rd_atomic, update.max_rd_atomic);
        set(&mut self.max_dest_rd_atomic, update.max_dest_rd_atomic);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_a_message() {
        let mtu = PathMtu::Mtu1024;
        assert_eq!(mtu.packets(0), 1);
        assert_eq!(mtu.packets(1), 1);
        assert_eq!(mtu.packets(1024), 1);
        assert_eq!(mtu.packets(1025), 2);
        assert_eq!(PathMtu::Mtu256.packets(1 << 31), 1 << 23);
        for mtu in PathMtu::ALL {
            assert_eq!(PathMtu::from_code(mtu.code()), Some(mtu));
            assert_eq!(mtu.bytes(), 128 << mtu.code());
        }
        assert_eq!(PathMtu::from_code(0), None);
        assert_eq!(PathMtu::from_code(6), None);
    }

    #[test]
    fn local_ack_timeout_is_a_power_of_two() {
        assert_eq!(LocalAckTimeout::new(0).duration(), None);
        assert_eq!(
            LocalAckTimeout::new(1).duration(),
            Some(Duration::from_ns(8192))
        );
        assert_eq!(
            LocalAckTimeout::new(14).duration(),
            Some(Duration::from_ns(4096 << 14))
        );
        assert_eq!(
            LocalAckTimeout::new(31).duration(),
            Some(Duration::from_ns(4096 << 31))
        );
    }

    #[test]
    fn optional_attributes_follow_the_verbs() {
        let timeout = AttributeUpdate {
            timeout: Some(LocalAckTimeout::new(3)),
            ..AttributeUpdate::default()
        };
        let access = AttributeUpdate {
            access: Some(RemoteAccess::default()),
            ..AttributeUpdate::default()
        };
        assert!(Transition::Update(access).check(QpState::Rts).is_ok());
        assert!(Transition::Update(timeout).check(QpState::Sqd).is_ok());
        assert_eq!(
            Transition::Update(timeout).check(QpState::Rts),
            Err(TransitionError::Attribute {
                attribute: Attribute::Timeout,
                from: QpState::Rts,
                to: QpState::Rts
            })
        );
        assert!(Transition::Resume(timeout).check(QpState::Sqd).is_err());
        assert!(Transition::Resume(access).check(QpState::Rts).is_err());
        assert!(Transition::Update(access).check(QpState::Init).is_err());
        assert!(Transition::Err.check(QpState::Reset).is_err());
        assert!(Transition::Reset.check(QpState::Err).is_ok());
    }
}
