//! One connection or service resolution.

use ferroce_units::{Duration, Instant};
use ferroce_wire::Gid;
use ferroce_wire::cm::{CommunicationId, Mad, MessageKind, ServiceId};

use crate::command::ListenerId;
use crate::parameters::QpParameters;
use crate::state::State;

/// A datagram as bytes.
pub(crate) type MadBytes = Box<[u8; Mad::LENGTH]>;

/// A message without an answer so far.
#[derive(Debug, Clone)]
pub(crate) struct Pending {
    pub(crate) mad: MadBytes,
    /// Time until the next retransmission.
    pub(crate) interval: Duration,
    pub(crate) retries_left: u8,
}

#[derive(Debug, Clone)]
pub(crate) struct Connection {
    pub(crate) state: State,
    pub(crate) service_id: ServiceId,
    pub(crate) local_gid: Gid,
    pub(crate) remote_gid: Gid,
    pub(crate) local_ca_guid: u64,
    pub(crate) transaction_id: u64,
    /// NONE until the peer has sent it.
    pub(crate) remote_id: CommunicationId,
    /// None for a service resolution.
    pub(crate) parameters: Option<QpParameters>,
    pub(crate) is_peer: bool,
    /// The listener whose backlog holds the request.
    pub(crate) backlog_of: Option<ListenerId>,
    /// Answer to a duplicate of the answered message: RTU, REJ, SIDR_REP.
    pub(crate) answer: Option<(MessageKind, MadBytes)>,
    pub(crate) pending: Option<Pending>,
    /// Response time of the peer, including the round trip.
    pub(crate) response_time: Duration,
    pub(crate) max_cm_retries: u8,
    pub(crate) timewait: Duration,
    pub(crate) deadline: Option<Instant>,
    /// The caller has destroyed it: no more events.
    pub(crate) is_orphan: bool,
}

impl Connection {
    /// Returns a connection that has sent no message.
    pub(crate) fn new(state: State, local_gid: Gid, remote_gid: Gid) -> Self {
        Self {
            state,
            service_id: ServiceId::default(),
            local_gid,
            remote_gid,
            local_ca_guid: 0,
            transaction_id: 0,
            remote_id: CommunicationId::NONE,
            parameters: None,
            is_peer: false,
            backlog_of: None,
            answer: None,
            pending: None,
            response_time: Duration::ZERO,
            max_cm_retries: 0,
            timewait: Duration::ZERO,
            deadline: None,
            is_orphan: false,
        }
    }

    /// Returns the answer to a duplicate, if it is a message of this kind.
    pub(crate) fn answer(&self, kind: MessageKind) -> Option<MadBytes> {
        let (found, mad) = self.answer.as_ref()?;
        (*found == kind).then(|| mad.clone())
    }
}
