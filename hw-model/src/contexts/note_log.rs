//! Explains what a queue pair notices about packets: drops, which have no completion, and waits for
//! the peer, which may not end. A drop is logged at level info for the first of its kind, at level
//! debug for others; a wait at level debug when it begins and, with `ended`, when it ends.

use ferroce_transport::{Note, RetryCount};

use crate::contexts::fault_log::TARGET;

/// Target of the log lines about drops.
const DROPPED: &str = "ferroce::dropped";
/// Target of the log lines about what waits.
const WAITING: &str = "ferroce::waiting";
/// Bytes of the global route header.
const GRH_BYTES: u32 = 40;

/// What was logged of a queue pair: the constants below, in one byte, as there are many of them.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoteLog(u8);

const WRONG_Q_KEY: u8 = 1 << 0;
const NO_RECEIVE: u8 = 1 << 1;
const SHORT_RECEIVE: u8 = 1 << 2;
const WRONG_PSN: u8 = 1 << 3;
/// A request of the peer waits for a receive.
const AWAITS_RECEIVE: u8 = 1 << 4;
/// A request waits for a receive of the peer.
const AWAITS_PEER: u8 = 1 << 5;

impl NoteLog {
    /// Logs a note.
    #[cold]
    pub fn log(&mut self, qpn: u32, note: Note, rnr_retry: RetryCount) {
        match note {
            Note::WrongQKey { came, own } => {
                let text = format!(
                    "a datagram has Q_Key {:#x}, this QP {:#x}; right: wr.ud.remote_qkey of the \
                     sender is the qkey of ibv_modify_qp here",
                    came.0, own.0
                );
                self.log_drop(WRONG_Q_KEY, qpn, &text);
            }
            Note::NoReceive => {
                let text = "no receive is posted; right: ibv_post_recv before the peer sends";
                self.log_drop(NO_RECEIVE, qpn, text);
            }
            Note::ShortReceive { payload, capacity } => {
                let needed = payload + GRH_BYTES;
                let text = format!(
                    "a datagram of {payload} bytes needs {needed} bytes, {GRH_BYTES} of them for \
                     the GRH; the receive has {capacity}"
                );
                self.log_drop(SHORT_RECEIVE, qpn, &text);
            }
            Note::LongMessage { length, capacity } => {
                let text = format!(
                    "a message is longer than its receive: {length} bytes so far, the receive has \
                     {capacity}"
                );
                self.log_drop(SHORT_RECEIVE, qpn, &text);
            }
            Note::FirstPsn { .. } | Note::PeerPsn { .. } => self.log_psn(qpn, note),
            Note::NotReady => self.begin(AWAITS_RECEIVE, qpn, RECEIVE),
            Note::PeerNotReady => self.begin(AWAITS_PEER, qpn, peer(rnr_retry)),
            // The refusal is logged with the end of the queue pair.
            Note::TooManyFetches { .. } => {}
        }
    }

    fn log_psn(&mut self, qpn: u32, note: Note) {
        if self.was_set(WRONG_PSN) {
            return;
        }
        match note {
            Note::FirstPsn { came, expected } => tracing::info!(target: TARGET, qpn,
                "the peer's first request has PSN {:#x}, but {:#x} is expected; right: rq_psn of \
                 this QP (ibv_modify_qp to RTR) is the peer's sq_psn", came.value(),
                expected.value()),
            Note::PeerPsn { expected, first } => tracing::info!(target: TARGET, qpn,
                "the peer answers, and expects PSN {:#x}, but this QP began with {:#x}; right: \
                 sq_psn of this QP (ibv_modify_qp to RTS) is the peer's rq_psn", expected.value(),
                first.value()),
            _ => {}
        }
    }

    /// Notes that a receive was found.
    #[inline]
    pub fn found_receive(&mut self, qpn: u32) {
        if self.0 & AWAITS_RECEIVE != 0 {
            self.end(AWAITS_RECEIVE, qpn, RECEIVE);
        }
    }

    /// Returns true if a request waits for a receive of the peer.
    #[inline]
    pub fn awaits_peer(&self) -> bool {
        self.0 & AWAITS_PEER != 0
    }

    /// Notes that the peer has answered.
    #[cold]
    pub fn answered(&mut self, qpn: u32, rnr_retry: RetryCount) {
        self.end(AWAITS_PEER, qpn, peer(rnr_retry));
    }

    /// Sets a bit. Returns whether it was set.
    fn was_set(&mut self, bit: u8) -> bool {
        let before = self.0;
        self.0 |= bit;
        before & bit != 0
    }

    /// Logs a drop; its bit is set from the first one on.
    fn log_drop(&mut self, bit: u8, qpn: u32, text: &str) {
        if self.was_set(bit) {
            tracing::debug!(target: DROPPED, qpn, "{text}");
        } else {
            tracing::info!(target: DROPPED, qpn, "{text}");
        }
    }

    fn begin(&mut self, bit: u8, qpn: u32, text: &str) {
        if !self.was_set(bit) {
            tracing::debug!(target: WAITING, qpn, "{text}");
        }
    }

    #[cold]
    fn end(&mut self, bit: u8, qpn: u32, text: &str) {
        if self.was_set(bit) {
            tracing::debug!(target: WAITING, qpn, ended = true, "{text}");
        }
        self.0 &= !bit;
    }
}

const RECEIVE: &str = "a request of the peer: no receive is posted for it (RNR NAK); right: \
                       ibv_post_recv before the peer sends";

/// Describes the wait for a receive of the peer.
fn peer(rnr_retry: RetryCount) -> &'static str {
    if rnr_retry == RetryCount::RNR_FOREVER {
        "a request of this QP: the peer has no receive posted (RNR NAK), and rnr_retry 7 asks \
         without end; right: ibv_post_recv of the peer"
    } else {
        "a request of this QP: the peer has no receive posted (RNR NAK); right: ibv_post_recv of \
         the peer"
    }
}
