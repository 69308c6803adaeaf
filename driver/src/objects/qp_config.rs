//! Configuration and capacity of a QP.

use std::sync::Arc;

use ferroce_qp::Service;
use ferroce_spec::context::QpShape;
use ferroce_spec::wqe::BLOCK_SIZE;

use crate::capabilities::Limits;
use crate::error::Error;
use crate::objects::cq::CompletionQueue;
use crate::objects::device::Device;
use crate::objects::srq::SharedReceiveQueue;
use crate::rings::receive_queue::ReceiveShape;
use crate::rings::send_queue::{SendLimits, SendShape};
use crate::service::Addressing;

/// Base-2 logarithm of the stride in the context of a QP without a receive queue.
const LOG_LEAST_STRIDE: u8 = 4;

/// Source of a QP's receives, and their CQ.
#[derive(Clone)]
pub enum ReceiveSource {
    /// Its own receive queue.
    Own {
        /// CQ of the receive queue.
        cq: Arc<CompletionQueue>,
        /// Receive work requests outstanding.
        max_wr: u32,
        /// Scatter/gather elements of a receive work request.
        max_sge: u32,
    },
    /// A shared receive queue (RC, UC, UD and GSI).
    Shared {
        /// CQ of the receives of this QP.
        cq: Arc<CompletionQueue>,
        /// The shared receive queue, which must not be one for XRC.
        queue: Arc<SharedReceiveQueue>,
    },
    /// No receives (XRC initiators).
    None,
}

/// Configuration of a QP.
#[derive(Clone)]
pub struct QueuePairConfig {
    /// Transport service; XRC targets are created by
    /// [`QueuePair::create_xrc_target`](crate::QueuePair::create_xrc_target). A device has one GSI,
    /// with the number [`Qpn::GSI`](crate::Qpn::GSI).
    pub service: Service,
    /// CQ of the send queue.
    pub send_cq: Arc<CompletionQueue>,
    /// Source of the receives.
    pub receive: ReceiveSource,
    /// Send work requests outstanding.
    pub max_send_wr: u32,
    /// Scatter/gather elements of a send work request.
    pub max_send_sge: u32,
    /// Bytes of an inline payload.
    pub max_inline_data: u32,
    /// True if all send work requests are signaled.
    pub signal_all: bool,
    /// UD: true if the QP does not receive its own datagrams to multicast groups.
    pub blocks_own_multicast: bool,
}

/// Actual capacity of a QP: at least the requested one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueuePairCapacity {
    /// Send work requests outstanding.
    pub max_send_wr: u32,
    /// Receive work requests outstanding; zero without its own receive queue.
    pub max_recv_wr: u32,
    /// Scatter/gather elements of a send work request.
    pub max_send_sge: u32,
    /// Scatter/gather elements of a receive work request; zero without its own receive queue.
    pub max_recv_sge: u32,
    /// Bytes of an inline payload.
    pub max_inline_data: u32,
}

impl QueuePairConfig {
    /// Refuses combinations that are invalid for any sizes.
    pub(crate) fn check(&self, device: &Arc<Device>) -> Result<(), Error> {
        let invalid = |what| Err(Error::InvalidArgument { what });
        if !device.limits().features.has(self.service) {
            let what = "the transport service";
            return Err(Error::NotSupported { what });
        }
        if self.blocks_own_multicast {
            let is_datagram = self.service == Service::UnreliableDatagram;
            if !is_datagram || !device.capabilities().own_multicast {
                let what = "leaving out a QP's own datagrams to groups";
                return Err(Error::NotSupported { what });
            }
        }
        let same = |cq: &CompletionQueue| Arc::ptr_eq(cq.device(), device);
        let is_initiator = self.service == Service::XrcInitiator;
        let receives = match &self.receive {
            ReceiveSource::Own { cq, .. } => same(cq),
            ReceiveSource::Shared { cq, queue } => {
                if queue.xrc_domain().is_some() {
                    return invalid("an XRC shared receive queue");
                }
                same(cq) && Arc::ptr_eq(queue.pd().device(), device)
            }
            ReceiveSource::None => true,
        };
        if !receives || !same(&self.send_cq) {
            return invalid("a CQ or a shared receive queue of another device");
        }
        match &self.receive {
            _ if self.service == Service::XrcTarget => invalid("an XRC target with a PD"),
            ReceiveSource::None if !is_initiator => invalid("a QP without receives"),
            ReceiveSource::None => Ok(()),
            _ if is_initiator => invalid("an XRC initiator with receives"),
            _ => Ok(()),
        }
    }
}

/// Sizes of both queues, and their offsets in the QP's buffer.
#[derive(Clone, Copy)]
pub(crate) struct Shapes {
    pub(crate) send: SendShape,
    /// `None`: the QP has no receive queue.
    pub(crate) receive: Option<ReceiveShape>,
}

impl Shapes {
    pub(crate) fn new(limits: &Limits, config: &QueuePairConfig) -> Result<Self, Error> {
        let send_limits = SendLimits {
            max_sge: limits.max_sge,
            max_inline: limits.max_inline,
            max_blocks_per_wqe: limits.max_send_blocks,
            log_blocks: limits.log_send_blocks,
            addressing: Addressing::of(config.service),
        };
        let send = SendShape::new(
            config.max_send_wr,
            config.max_send_sge,
            config.max_inline_data,
            &send_limits,
        );
        let what = "max_send_wr requests with max_send_sge elements and max_inline_data bytes \
                    each, which need more blocks than a send queue has";
        let send = send.ok_or(Error::InvalidArgument { what })?;
        let ReceiveSource::Own {
            max_wr, max_sge, ..
        } = config.receive
        else {
            return Ok(Self {
                send,
                receive: None,
            });
        };
        let what = "max_recv_wr requests with max_recv_sge elements each, which need more memory \
                    than a receive queue has";
        let shape = ReceiveShape::new(max_wr, max_sge, 0, limits.max_sge, limits.log_receives);
        let receive = Some(shape.ok_or(Error::InvalidArgument { what })?);
        Ok(Self { send, receive })
    }

    pub(crate) fn send_size(&self) -> usize {
        BLOCK_SIZE << self.send.log_blocks
    }

    /// Returns the size of the buffer: the receive ring follows the send ring, whose size is a
    /// multiple of 64.
    pub(crate) fn buffer_size(&self) -> usize {
        let receive = self.receive.map_or(0, |receive| receive.ring_size());
        self.send_size() + receive
    }

    pub(crate) fn context(&self) -> QpShape {
        let mut shape = QpShape::default();
        shape.set_log_send_blocks(self.send.log_blocks);
        shape.set_log_receives(self.receive.map_or(0, |receive| receive.log_entries));
        let stride = self.receive.map(|receive| receive.log_stride);
        shape.set_log_receive_stride(stride.unwrap_or(LOG_LEAST_STRIDE));
        shape
    }

    pub(crate) fn capacity(&self) -> QueuePairCapacity {
        QueuePairCapacity {
            max_send_wr: self.send.max_wr,
            max_recv_wr: self.receive.map_or(0, |receive| receive.max_wr),
            max_send_sge: self.send.max_sge,
            max_recv_sge: self.receive.map_or(0, |receive| receive.max_sge),
            max_inline_data: self.send.max_inline,
        }
    }
}
