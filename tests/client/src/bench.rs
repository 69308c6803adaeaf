//! Objects that most tests need: an open device, memory, CQs, and two connected QPs.

use std::sync::Arc;

use crate::address::{Ah, GID_INDEX, PORT, path_to};
use crate::context::Context;
use crate::cq::{Channel, Cq};
use crate::memory::{ALL_ACCESS, Buffer, Mr, Pd};
use crate::object::Outcome;
use crate::qp::{CAP, Q_KEY, Qp, QpConfig};
use crate::srq::{Srq, Xrcd};
use crate::sys::*;
use crate::work_request::{ReceiveWr, SendWr};

/// Bytes of the registered buffer.
pub const BUFFER: usize = 1 << 20;
/// Start of the targets of messages; the first half of the buffer holds their sources.
pub const TARGET: usize = BUFFER / 2;
/// Bytes in front of a datagram.
pub const GRH: usize = 40;
/// Operations of the new send API that every connected QP should have.
pub const SEND_OPS: u64 = (IBV_QP_EX_WITH_RDMA_WRITE
    | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM
    | IBV_QP_EX_WITH_SEND
    | IBV_QP_EX_WITH_SEND_WITH_IMM) as u64;
/// Operations of a reliable QP.
pub const RELIABLE_OPS: u64 = SEND_OPS
    | (IBV_QP_EX_WITH_RDMA_READ
        | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP
        | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD
        | IBV_QP_EX_WITH_LOCAL_INV
        | IBV_QP_EX_WITH_BIND_MW
        | IBV_QP_EX_WITH_SEND_WITH_INV) as u64;

/// The transport service of a pair of QPs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagram.
    Ud,
    /// Initiator and target.
    Xrc,
}

/// All of them.
pub const SERVICES: [Service; 4] = [Service::Rc, Service::Uc, Service::Ud, Service::Xrc];

impl Service {
    /// Returns the type of the QP that sends.
    pub fn sender(self) -> ibv_qp_type {
        match self {
            Self::Rc => IBV_QPT_RC,
            Self::Uc => IBV_QPT_UC,
            Self::Ud => IBV_QPT_UD,
            Self::Xrc => IBV_QPT_XRC_SEND,
        }
    }

    /// Returns true if the service has acknowledgements.
    pub fn is_reliable(self) -> bool {
        matches!(self, Self::Rc | Self::Xrc)
    }

    /// Operations of the service that the new send API can build.
    pub fn send_ops(self) -> u64 {
        match self {
            Self::Rc | Self::Xrc => RELIABLE_OPS,
            Self::Uc => SEND_OPS,
            Self::Ud => (IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM) as u64,
        }
    }

    /// Returns the bytes in front of a received message.
    pub fn header(self) -> usize {
        if self == Self::Ud { GRH } else { 0 }
    }
}

/// A device and the objects that QPs need.
pub struct Bench {
    /// Open device.
    pub context: Context,
    /// Protection domain.
    pub pd: Pd,
    /// Channel of both CQs.
    pub channel: Channel,
    /// CQ of every send queue.
    pub send_cq: Cq,
    /// CQ of every receive queue.
    pub receive_cq: Cq,
    /// Memory.
    pub buffer: Arc<Buffer>,
    /// Region of the whole buffer, with all rights.
    pub mr: Mr,
    /// The port's IPv4 GID.
    pub gid: ibv_gid,
}

impl Default for Bench {
    fn default() -> Self {
        Self::new()
    }
}

/// Exchanges of [`Bench::settle`].
const SETTLING: u64 = 16;

impl Bench {
    /// Waits until the device has had time for all earlier requests, without polling the bench's
    /// CQs. Method: round trips of another pair; the device serves it alternately with the others,
    /// and polls for these round trips advance the device.
    #[track_caller]
    pub fn settle(&self) {
        let cq = self.context.create_cq(16, None, 0).expect("a CQ");
        let config = QpConfig {
            send_cq: Some(&cq),
            receive_cq: Some(&cq),
            ..self.config(IBV_QPT_RC)
        };
        let pair = self.pair_of(Service::Rc, &config);
        for id in 0..SETTLING {
            // A message of no bytes changes no memory.
            let (address, key) = self.remote(0);
            pair.post(SendWr::new(id, IBV_WR_RDMA_WRITE).remote(address, key));
            cq.expect(id, IBV_WC_SUCCESS);
        }
    }

    /// Creates a bench on the first device.
    pub fn new() -> Self {
        Self::on(Context::open())
    }

    /// Creates a bench on this device.
    pub fn on(context: Context) -> Self {
        let pd = context.alloc_pd().expect("a PD");
        let channel = context.create_channel().expect("a channel");
        let send_cq = context.create_cq(256, Some(&channel), 0).expect("a CQ");
        let receive_cq = context.create_cq(256, Some(&channel), 0).expect("a CQ");
        let buffer = Buffer::new(BUFFER);
        let mr = register_all(&pd, &buffer);
        let gid = context
            .query_gid(PORT, i32::from(GID_INDEX))
            .expect("a GID");
        Self {
            context,
            pd,
            channel,
            send_cq,
            receive_cq,
            buffer,
            mr,
            gid,
        }
    }

    /// Returns a data segment of the buffer.
    pub fn sge(&self, offset: usize, length: usize) -> ibv_sge {
        self.mr.sge(self.buffer.address(offset), length as u32)
    }

    /// Returns the remote address and key of a place in the buffer.
    pub fn remote(&self, offset: usize) -> (u64, u32) {
        (self.buffer.address(offset), self.mr.rkey())
    }

    /// Returns a QP's configuration with this bench's PD and CQs.
    pub fn config(&self, qp_type: ibv_qp_type) -> QpConfig<'_> {
        QpConfig {
            receive_cq: Some(&self.receive_cq),
            ..QpConfig::new(qp_type, &self.pd, &self.send_cq)
        }
    }

    /// Returns a QP in RESET.
    pub fn qp(&self, qp_type: ibv_qp_type) -> Outcome<Qp> {
        if qp_type == IBV_QPT_XRC_RECV {
            let xrcd = self.context.private_xrcd()?;
            return self.target(&xrcd);
        }
        Ok(self.context.create_qp(&self.config(qp_type))?.0)
    }

    /// Returns an XRC target.
    pub fn target(&self, xrcd: &Xrcd) -> Outcome<Qp> {
        let config = QpConfig {
            pd: None,
            send_cq: None,
            receive_cq: None,
            xrcd: Some(xrcd),
            ..self.config(IBV_QPT_XRC_RECV)
        };
        Ok(self.context.create_qp(&config)?.0)
    }

    /// Returns two connected QPs.
    pub fn pair(&self, service: Service) -> Pair {
        self.pair_of(service, &self.config(service.sender()))
    }

    /// Returns two connected QPs with the new send API.
    pub fn pair_with_builder(&self, service: Service) -> Pair {
        let config = QpConfig {
            send_ops: Some(service.send_ops()),
            ..self.config(service.sender())
        };
        self.pair_of(service, &config)
    }

    /// Returns two connected QPs of this configuration (an XRC target has none).
    pub fn pair_of(&self, service: Service, config: &QpConfig) -> Pair {
        let (a, _) = self.context.create_qp(config).expect("a QP that sends");
        let mut pair = match service {
            Service::Xrc => self.xrc_pair(a),
            _ => Pair {
                service,
                b: self.context.create_qp(config).expect("a second QP").0,
                a,
                ah: None,
                srq: None,
            },
        };
        if service == Service::Ud {
            pair.ah = Some(self.pd.create_ah(path_to(self.gid)).expect("an AH"));
        }
        pair.a.connect(self.gid, pair.b.number());
        pair.b.connect(self.gid, pair.a.number());
        pair
    }

    fn xrc_pair(&self, a: Qp) -> Pair {
        let xrcd = self.context.private_xrcd().expect("an XRC domain");
        let srq = self
            .context
            .create_xrc_srq(&self.pd, &xrcd, &self.receive_cq, CAP.max_recv_wr)
            .expect("an XRC SRQ");
        Pair {
            service: Service::Xrc,
            b: self.target(&xrcd).expect("an XRC target"),
            a,
            ah: None,
            srq: Some(srq),
        }
    }
}

/// Registers a buffer with every right.
pub fn register_all(pd: &Pd, buffer: &Arc<Buffer>) -> Mr {
    pd.register(buffer, ALL_ACCESS).expect("a memory region")
}

/// Two QPs: `a` sends to `b`.
pub struct Pair {
    /// Their service.
    pub service: Service,
    /// Sends.
    pub a: Qp,
    /// Receives.
    pub b: Qp,
    /// The path to `b` for datagrams.
    pub ah: Option<Ah>,
    /// SRQ of an XRC target.
    pub srq: Option<Srq>,
}

impl Pair {
    /// Adds the fields to a request that address `b` in its service.
    pub fn addressed(&self, mut wr: SendWr) -> SendWr {
        if let Some(ah) = &self.ah {
            wr = wr.datagram(ah, self.b.number(), Q_KEY);
        }
        if let Some(srq) = &self.srq {
            wr.srqn = srq.number().expect("an XRC SRQ has a number");
        }
        wr
    }

    /// Posts to `a`.
    #[track_caller]
    pub fn post(&self, wr: SendWr) {
        self.try_post(wr).expect("post_send");
    }

    /// Posts to `a`.
    pub fn try_post(&self, wr: SendWr) -> Outcome<()> {
        self.a.post_send(&self.addressed(wr))
    }

    /// Posts to `a` through the new send API.
    #[track_caller]
    pub fn post_built(&self, wr: SendWr) {
        self.a
            .post_built(&[self.addressed(wr)])
            .expect("ibv_wr_complete");
    }

    /// Posts a receive to the queue from which `b` takes receives.
    #[track_caller]
    pub fn post_receive(&self, id: u64, sge: ibv_sge) {
        let wr = ReceiveWr::new(id, sge);
        match &self.srq {
            Some(srq) => srq.post_receive(&wr),
            None => self.b.post_receive(&wr),
        }
        .expect("post_recv");
    }
}

/// Returns bytes that differ from their neighbours, by seed.
pub fn pattern(length: usize, seed: u8) -> Vec<u8> {
    (0..length)
        .map(|index| {
            (index as u8)
                .wrapping_mul(7)
                .wrapping_add((index >> 8) as u8)
                ^ seed
        })
        .collect()
}
