//! Two connected queue pairs of the device.

use std::sync::Arc;

use ferroce_driver::{
    CompletionQueue, CompletionQueueConfig, Destination, Error, InitAttributes, ModifyQp, PathMtu,
    PostError, QpAccess, QueuePair, QueuePairConfig, ReceiveSource, RtrAttributes, RtsAttributes,
    SendData, SendOperation, SendRequest, Service, UcRtr, UcRts, UdInit, UdRtr, UdRts,
};

use super::bench::{Bench, Opened};
use super::hint;
use super::outcome::{Failure, Stop};

/// Work requests per queue.
pub const DEPTH: u32 = 64;
/// Scatter/gather elements of a work request.
pub const SEGMENTS: u32 = 4;
/// First PSN: close to the wrap-around.
const FIRST_PSN: u32 = 0xff_fff0;
/// Q_Key of the datagrams.
pub const Q_KEY: u32 = 0x1234_5678;
/// Retries after a timeout.
const RETRIES: u8 = 3;
/// Entries of a CQ.
const CQ_ENTRIES: u32 = 4 * DEPTH;

/// Two queue pairs, with completion queues for sends and for receives.
pub struct Pair {
    pub requester: Arc<QueuePair>,
    pub responder: Arc<QueuePair>,
    pub send_cq: Arc<CompletionQueue>,
    pub receive_cq: Arc<CompletionQueue>,
}

impl Pair {
    /// Creates a pair of a service, with new CQs.
    pub fn new(bench: &Bench, service: Service) -> Result<Self, Stop> {
        let opened = bench.opened()?;
        let new = || {
            let config = CompletionQueueConfig {
                entries: CQ_ENTRIES,
                ..CompletionQueueConfig::default()
            };
            CompletionQueue::create(&opened.device, config)
        };
        let cqs = new().and_then(|send| Ok((send, new()?)));
        let (send_cq, receive_cq) =
            cqs.map_err(|error| hint::of_driver("no completion queue", &error, &*bench.bus))?;
        Self::with_cqs(bench, service, &send_cq, &receive_cq)
    }

    /// Creates a pair whose completions go to the given CQs.
    pub fn with_cqs(
        bench: &Bench,
        service: Service,
        send_cq: &Arc<CompletionQueue>,
        receive_cq: &Arc<CompletionQueue>,
    ) -> Result<Self, Stop> {
        let opened = bench.opened()?;
        let pair = Self::create(opened, service, send_cq, receive_cq).and_then(|pair| {
            pair.connect(opened, bench.timeouts.ack_timeout, service)?;
            Ok(pair)
        });
        let what = format!("no pair of connected {service:?} queue pairs");
        Ok(pair.map_err(|error| hint::of_driver(&what, &error, &*bench.bus))?)
    }

    fn create(
        opened: &Opened,
        service: Service,
        send_cq: &Arc<CompletionQueue>,
        receive_cq: &Arc<CompletionQueue>,
    ) -> Result<Self, Error> {
        let limits = opened.device.capabilities();
        let config = QueuePairConfig {
            service,
            send_cq: Arc::clone(send_cq),
            receive: ReceiveSource::Own {
                cq: Arc::clone(receive_cq),
                max_wr: DEPTH,
                max_sge: 1,
            },
            max_send_wr: DEPTH,
            max_send_sge: SEGMENTS.min(limits.max_sge),
            max_inline_data: 64.min(limits.max_inline_data),
            signal_all: true,
            blocks_own_multicast: false,
        };
        Ok(Self {
            requester: QueuePair::create(&opened.pd, &config)?,
            responder: QueuePair::create(&opened.pd, &config)?,
            send_cq: Arc::clone(send_cq),
            receive_cq: Arc::clone(receive_cq),
        })
    }

    fn connect(&self, opened: &Opened, ack_timeout: u8, service: Service) -> Result<(), Error> {
        for (qp, peer) in [
            (&self.requester, &self.responder),
            (&self.responder, &self.requester),
        ] {
            for step in transitions(opened, ack_timeout, service, peer) {
                qp.modify(&step)?;
            }
        }
        Ok(())
    }

    /// Posts a request of the requester.
    pub fn post(
        &self,
        operation: SendOperation,
        destination: Destination<'_>,
        data: SendData<'_>,
        wr_id: u64,
    ) -> Result<(), PostError> {
        let request = SendRequest {
            wr_id,
            operation,
            destination,
            signaled: true,
            solicited: false,
            fence: false,
            data,
        };
        let queue = self.requester.send_queue().ok_or(PostError::InvalidState)?;
        queue.lock().post(&request)
    }

    /// Posts a request of a connected requester, and waits for its success.
    pub fn execute(
        &self,
        bench: &Bench,
        operation: SendOperation,
        data: SendData<'_>,
        what: &str,
    ) -> Result<ferroce_driver::WorkCompletion, Failure> {
        self.post(operation, Destination::Connected, data, 1)
            .map_err(|error| refused(what, error))?;
        bench.success(&self.send_cq, what)
    }
}

/// Returns the failure of a post that the driver refused; the device is not involved.
pub fn refused(what: &str, error: PostError) -> Failure {
    Failure::new(format!("{what}: the driver does not post it: {error}"))
        .look_at("limits of QUERY_DEVICE; is the queue full because completions are missing?")
}

/// Returns the largest path MTU of the device.
pub fn path_mtu(opened: &Opened) -> PathMtu {
    let number = opened.device.capabilities().max_path_mtu;
    PathMtu::from_number(number.into()).unwrap_or(PathMtu::Mtu1024)
}

fn transitions(opened: &Opened, timeout: u8, service: Service, peer: &QueuePair) -> [ModifyQp; 3] {
    let (path_mtu, path) = (path_mtu(opened), opened.path);
    let is_reliable = service != Service::UnreliableConnected;
    let access = QpAccess {
        remote_write: true,
        remote_read: is_reliable,
        remote_atomic: is_reliable,
        flush_global: false,
        flush_persistent: false,
    };
    let init = ModifyQp::ToInit(InitAttributes {
        p_key_index: 0,
        port: 1,
        access,
    });
    let limits = opened.device.capabilities();
    match service {
        Service::UnreliableDatagram => [
            ModifyQp::ToInitUd(UdInit {
                p_key_index: 0,
                port: 1,
                q_key: Q_KEY,
            }),
            ModifyQp::ToRtrUd(UdRtr::default()),
            ModifyQp::ToRtsUd(UdRts {
                sq_psn: FIRST_PSN,
                q_key: None,
            }),
        ],
        Service::UnreliableConnected => [
            init,
            ModifyQp::ToRtrUc(UcRtr {
                path_mtu,
                dest_qpn: peer.number(),
                rq_psn: FIRST_PSN,
                path,
                access: None,
                p_key_index: None,
            }),
            ModifyQp::ToRtsUc(UcRts {
                sq_psn: FIRST_PSN,
                access: None,
            }),
        ],
        _ => [
            init,
            ModifyQp::ToRtr(RtrAttributes {
                path_mtu,
                dest_qpn: peer.number(),
                rq_psn: FIRST_PSN,
                max_dest_rd_atomic: limits.max_dest_rd_atomic.clamp(1, 16),
                min_rnr_timer: 12,
                path,
                access: None,
                p_key_index: None,
            }),
            ModifyQp::ToRts(RtsAttributes {
                sq_psn: FIRST_PSN,
                timeout,
                retry_count: RETRIES,
                rnr_retry: RETRIES,
                max_rd_atomic: limits.max_rd_atomic.clamp(1, 16),
                access: None,
                min_rnr_timer: None,
            }),
        ],
    }
}
