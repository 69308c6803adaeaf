//! Attributes of a queue pair: their values, and the groups in which a transition sets them.

use ferroce_qp::{Attribute, AttributeSet, PathMtu};
use ferroce_units::Duration;
use ferroce_wire::{PKey, Psn, QKey, Qpn, RnrTimer};

/// Rights of remote peers on a queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct RemoteAccess {
    /// RDMA READ is allowed.
    pub read: bool,
    /// RDMA WRITE is allowed.
    pub write: bool,
    /// Atomics are allowed.
    pub atomic: bool,
    /// FLUSH that makes writes visible to all readers.
    pub flush_global: bool,
    /// FLUSH that makes writes persistent.
    pub flush_persistent: bool,
}

/// Local ACK timeout, a 5-bit exponent: 4.096 µs × 2^n; 0 waits without a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct LocalAckTimeout(u8);

impl LocalAckTimeout {
    /// Takes the low 5 bits of `exponent`.
    #[must_use]
    pub const fn new(exponent: u8) -> LocalAckTimeout {
        LocalAckTimeout(exponent & 0x1f)
    }

    /// Returns the exponent.
    #[must_use]
    pub const fn value(self) -> u8 {
        self.0
    }

    /// Returns the time to wait for an acknowledgement; `None` means without a limit.
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
    /// RNR retry count without a limit.
    pub const RNR_FOREVER: RetryCount = RetryCount(7);

    /// Takes the low 3 bits of `count`.
    #[must_use]
    pub const fn new(count: u8) -> RetryCount {
        RetryCount(count & 7)
    }

    /// Returns the number.
    #[must_use]
    pub const fn value(self) -> u8 {
        self.0
    }
}

/// Attributes that RESET→INIT requires; INIT→INIT repeats them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InitAttributes {
    /// Partition key that packets carry and must carry.
    pub p_key: PKey,
    /// Rights of remote peers.
    pub access: RemoteAccess,
    /// Physical port, counted from 1.
    pub port: u8,
    /// UD: the Q_Key that received datagrams must carry.
    pub q_key: QKey,
}

/// Attributes that INIT→RTR requires. A service ignores the fields that it does not use: UD all of
/// them, UC and the XRC initiator the fields for READs, atomics and RNR.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RtrAttributes {
    /// Payload bytes per packet.
    pub path_mtu: PathMtu,
    /// The peer's queue pair.
    pub dest_qp: Qpn,
    /// PSN of the first request packet that the peer will send.
    pub rq_psn: Psn,
    /// Maximum number of READs and atomics that the peer may have outstanding here.
    pub max_dest_rd_atomic: u8,
    /// Time that a peer waits after an RNR NAK from this queue pair.
    pub min_rnr_timer: RnrTimer,
}

/// Attributes that RTR→RTS requires. A service ignores the fields that it does not use: UC and UD
/// all but the PSN, the XRC target all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RtsAttributes {
    /// PSN of the first request packet that we send.
    pub sq_psn: Psn,
    /// Local ACK timeout.
    pub timeout: LocalAckTimeout,
    /// Retries after timeouts and sequence errors.
    pub retry_count: RetryCount,
    /// Retries after RNR NAKs; 7 means without a limit.
    pub rnr_retry: RetryCount,
    /// Maximum number of READs and atomics outstanding at the peer.
    pub max_rd_atomic: u8,
}

impl Default for RtrAttributes {
    /// Returns values for UD, which uses none of them.
    fn default() -> RtrAttributes {
        RtrAttributes {
            path_mtu: PathMtu::Mtu256,
            dest_qp: Qpn::new(0),
            rq_psn: Psn::new(0),
            max_dest_rd_atomic: 0,
            min_rnr_timer: RnrTimer::new(0),
        }
    }
}

/// Optional attributes of a transition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AttributeUpdate {
    /// Rights of remote peers.
    pub access: Option<RemoteAccess>,
    /// Partition key.
    pub p_key: Option<PKey>,
    /// Physical port.
    pub port: Option<u8>,
    /// Time that a peer waits after an RNR NAK from this queue pair.
    pub min_rnr_timer: Option<RnrTimer>,
    /// Local ACK timeout.
    pub timeout: Option<LocalAckTimeout>,
    /// Retries after timeouts and sequence errors.
    pub retry_count: Option<RetryCount>,
    /// Retries after RNR NAKs.
    pub rnr_retry: Option<RetryCount>,
    /// Maximum number of READs and atomics outstanding at the peer.
    pub max_rd_atomic: Option<u8>,
    /// Maximum number of READs and atomics that the peer may have outstanding here.
    pub max_dest_rd_atomic: Option<u8>,
    /// UD: the Q_Key that received datagrams must carry.
    pub q_key: Option<QKey>,
}

impl AttributeUpdate {
    /// Returns the names of the attributes to change.
    pub(crate) fn names(&self) -> AttributeSet {
        let changed = [
            (Attribute::Access, self.access.is_some()),
            (Attribute::PKey, self.p_key.is_some()),
            (Attribute::Port, self.port.is_some()),
            (Attribute::MinRnrTimer, self.min_rnr_timer.is_some()),
            (Attribute::Timeout, self.timeout.is_some()),
            (Attribute::RetryCount, self.retry_count.is_some()),
            (Attribute::RnrRetry, self.rnr_retry.is_some()),
            (Attribute::MaxRdAtomic, self.max_rd_atomic.is_some()),
            (
                Attribute::MaxDestRdAtomic,
                self.max_dest_rd_atomic.is_some(),
            ),
            (Attribute::QKey, self.q_key.is_some()),
        ];
        changed
            .into_iter()
            .filter(|(_, is_changed)| *is_changed)
            .map(|(attribute, _)| attribute)
            .collect()
    }
}

/// The current attributes (for Query QP). Attributes that were never set are zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes {
    /// Partition key.
    pub p_key: PKey,
    /// Rights of remote peers.
    pub access: RemoteAccess,
    /// Physical port.
    pub port: u8,
    /// Payload bytes per packet.
    pub path_mtu: PathMtu,
    /// The peer's queue pair.
    pub dest_qp: Qpn,
    /// Maximum number of READs and atomics that the peer may have outstanding here.
    pub max_dest_rd_atomic: u8,
    /// Time that a peer waits after an RNR NAK from this queue pair.
    pub min_rnr_timer: RnrTimer,
    /// Local ACK timeout.
    pub timeout: LocalAckTimeout,
    /// Retries after timeouts and sequence errors.
    pub retry_count: RetryCount,
    /// Retries after RNR NAKs; 7 means without a limit.
    pub rnr_retry: RetryCount,
    /// Maximum number of READs and atomics outstanding at the peer.
    pub max_rd_atomic: u8,
    /// UD: the Q_Key that received datagrams must carry.
    pub q_key: QKey,
}

impl Attributes {
    /// Returns the attributes of a queue pair in RESET.
    pub(crate) const fn new() -> Attributes {
        Attributes {
            p_key: PKey(0),
            access: RemoteAccess {
                read: false,
                write: false,
                atomic: false,
                flush_global: false,
                flush_persistent: false,
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
            q_key: QKey(0),
        }
    }

    pub(crate) fn apply_init(&mut self, init: &InitAttributes) {
        self.p_key = init.p_key;
        self.access = init.access;
        self.port = init.port;
        self.q_key = init.q_key;
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
        set(&mut self.q_key, update.q_key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
