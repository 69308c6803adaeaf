//! The queue pairs of a connection: creation, transitions, and memory offered to peers.

use std::sync::Arc;

use ferroce_driver::{
    Destination, InitAttributes, MemoryRegion, MemoryWindow, ModifyQp, QpAccess, QueuePair,
    QueuePairConfig, RKey, ReceiveSource, RemoteAddress, RtrAttributes, RtsAttributes, SendData,
    SendOperation, SendRequest, Service, UcRtr, UcRts, UdInit, UdRtr, UdRts, WindowAccess,
    WindowBinding, WindowType, XrcTargetRts,
};
use ferroce_units::random::Random;
use ferroce_world::World;

use crate::error::Wrong;
use crate::host::{Host, RECEIVE_SEGMENTS, Sharing};
use crate::program::{Connection, MAX_INLINE, MAX_SEGMENTS, Transport, direction};

/// The Q_Key of all datagrams.
pub(crate) const Q_KEY: u32 = 0x1234_5678;
/// The work request ID of binds and local invalidations.
pub(crate) const BIND: u64 = u64::MAX;
/// Retries of each kind; 7 for RNR NAKs means without a limit.
const RETRIES: u8 = 7;
/// Receives of a queue pair that has its own receive queue.
const OWN_DEPTH: u32 = 64;
const ALL_REMOTE: QpAccess = QpAccess {
    remote_write: true,
    remote_read: true,
    remote_atomic: true,
    flush_global: false,
    flush_persistent: false,
};

/// One side of a connection.
pub(crate) struct End {
    pub host: usize,
    pub qp: Arc<QueuePair>,
    pub sharing: Option<Sharing>,
    /// Memory that the peer writes and reads; `None`: it was deregistered, or there is none.
    pub offered: Option<Arc<MemoryRegion>>,
    /// Window to it, and its key if it is bound.
    pub window: Option<(Arc<MemoryWindow>, Option<RKey>)>,
    /// Receives in the own receive queue without a completion.
    pub outstanding: usize,
}

/// A connection.
pub(crate) struct Link {
    pub plan: Connection,
    pub ends: [End; 2],
    /// True if its queue pairs must be connected before they are used.
    pub is_broken: bool,
    /// Random PSNs of connections.
    random: Random,
}

impl Link {
    /// Creates the queue pairs.
    pub fn create(
        plan: &Connection,
        number: usize,
        hosts: &mut [Host],
        seed: u64,
    ) -> Result<Self, Wrong> {
        let mut end = |side: usize| {
            let host = &mut hosts[plan.hosts[side]];
            let sharing = sharing(plan, side);
            let qp = queue_pair(plan, side, host, sharing)?;
            let range = host.layout.targets.get(&direction(number, 1 - side));
            let range = range.filter(|_| accepts_writes(plan, side)).cloned();
            Ok::<_, Wrong>(End {
                host: plan.hosts[side],
                qp,
                sharing,
                offered: range.map(|range| host.offer(range)).transpose()?,
                window: None,
                outstanding: 0,
            })
        };
        Ok(Self {
            ends: [end(0)?, end(1)?],
            plan: plan.clone(),
            is_broken: true,
            random: Random::new(seed, (3 << 32) + number as u64),
        })
    }

    /// Takes both queue pairs from RESET to RTS.
    pub fn connect(&mut self, world: &World) -> Result<(), Wrong> {
        let psns = [0, 1].map(|_| match self.random.below(3) {
            // PSNs that soon wrap around.
            0 => 0xff_ffff - self.random.below(30) as u32,
            _ => self.random.next() as u32 & 0xff_ffff,
        });
        for side in 0..2 {
            for transition in self.transitions(world, side, psns) {
                let result = self.ends[side].qp.modify(&transition);
                result.map_err(|error| Wrong::of(error).at(format!("{transition:?}")))?;
            }
        }
        self.is_broken = false;
        Ok(())
    }

    fn transitions(&self, world: &World, side: usize, psns: [u32; 2]) -> [ModifyQp; 3] {
        let plan = &self.plan;
        let peer = &self.ends[1 - side];
        let init = ModifyQp::ToInit(InitAttributes {
            p_key_index: 0,
            port: 1,
            access: ALL_REMOTE,
        });
        let rtr = RtrAttributes {
            path_mtu: plan.mtu,
            dest_qpn: peer.qp.number(),
            rq_psn: psns[1 - side],
            max_dest_rd_atomic: plan.max_rd_atomic,
            min_rnr_timer: plan.min_rnr_timer,
            path: world.path(peer.host),
            access: None,
            p_key_index: None,
        };
        let unacknowledged = ModifyQp::ToRtrUc(UcRtr {
            path_mtu: plan.mtu,
            dest_qpn: peer.qp.number(),
            rq_psn: psns[1 - side],
            path: world.path(peer.host),
            access: None,
            p_key_index: None,
        });
        let sq_psn = psns[side];
        let rts = ModifyQp::ToRts(RtsAttributes {
            sq_psn,
            timeout: plan.timeout,
            retry_count: RETRIES,
            rnr_retry: RETRIES,
            max_rd_atomic: plan.max_rd_atomic,
            access: None,
            min_rnr_timer: None,
        });
        match plan.transport.service(side) {
            Service::UnreliableConnected => {
                let access = None;
                let rts = ModifyQp::ToRtsUc(UcRts { sq_psn, access });
                [init, unacknowledged, rts]
            }
            Service::UnreliableDatagram => [
                ModifyQp::ToInitUd(UdInit {
                    p_key_index: 0,
                    port: 1,
                    q_key: Q_KEY,
                }),
                ModifyQp::ToRtrUd(UdRtr::default()),
                ModifyQp::ToRtsUd(UdRts {
                    sq_psn,
                    q_key: None,
                }),
            ],
            Service::XrcInitiator => [init, unacknowledged, rts],
            Service::XrcTarget => {
                let rts = ModifyQp::ToRtsXrcTarget(XrcTargetRts {
                    sq_psn,
                    timeout: plan.timeout,
                    access: None,
                    min_rnr_timer: None,
                });
                [init, ModifyQp::ToRtr(rtr), rts]
            }
            _ => [init, ModifyQp::ToRtr(rtr), rts],
        }
    }

    /// Moves both queue pairs to a state.
    pub fn modify_both(&self, transition: &ModifyQp) -> Result<(), Wrong> {
        let mut ends = self.ends.iter();
        ends.try_for_each(|end| end.qp.modify(transition).map_err(Wrong::of))
    }

    /// Registers the memory of a side again if it was deregistered.
    pub fn offer_again(&mut self, number: usize, side: usize, host: &Host) -> Result<(), Wrong> {
        let range = host.layout.targets.get(&direction(number, 1 - side));
        let end = &mut self.ends[side];
        if let (None, Some(range)) = (&end.offered, range) {
            end.offered = Some(host.offer(range.clone())?);
        }
        Ok(())
    }

    /// Binds the window of a side with a new key, if it has one.
    pub fn bind(&mut self, number: usize, side: usize, host: &Host) -> Result<(), Wrong> {
        let end = &mut self.ends[side];
        let range = host.layout.targets.get(&direction(number, 1 - side));
        let region = end.offered.as_ref().filter(|_| self.plan.has_window[side]);
        let (Some(region), Some(range)) = (region, range) else {
            return Ok(());
        };
        let bound = end
            .window
            .take()
            .and_then(|(window, key)| Some((window, key?)));
        let (window, RKey(key)) = match bound {
            Some((window, key)) => {
                post_local(&end.qp, SendOperation::LocalInvalidate(key))?;
                (window, key)
            }
            None => {
                let window = MemoryWindow::alloc(&host.pd, WindowType::Two).map_err(Wrong::of)?;
                let key = window.rkey();
                (window, key)
            }
        };
        let r_key = RKey(key & !0xff | (key + 1) & 0xff);
        let binding = WindowBinding {
            r_key,
            l_key: region.lkey(),
            address: host.memory.virtual_address(range.start),
            length: range.len() as u64,
            access: WindowAccess {
                remote_write: true,
                remote_read: true,
                remote_atomic: true,
                zero_based: false,
            },
        };
        post_local(&end.qp, SendOperation::BindWindow(binding))?;
        end.window = Some((window, Some(r_key)));
        Ok(())
    }

    /// Returns the address and key of the memory that a side offers, through its window if it is
    /// bound. For deregistered memory the key is one that it may have had.
    pub fn remote(&self, side: usize, host: &Host, offset: usize, number: usize) -> RemoteAddress {
        let end = &self.ends[side];
        let range = host.layout.targets.get(&direction(number, 1 - side));
        let start = range.map_or(0, |range| range.start);
        let window = end.window.as_ref().and_then(|(_, key)| *key);
        let region = end.offered.as_ref().map(|region| region.rkey());
        RemoteAddress {
            virtual_address: host.memory.virtual_address(start + offset),
            r_key: window.or(region).unwrap_or(RKey(u32::MAX)),
        }
    }
}

/// Posts an operation on a window.
fn post_local(qp: &QueuePair, operation: SendOperation) -> Result<(), Wrong> {
    let request = SendRequest {
        wr_id: BIND,
        operation,
        destination: Destination::Connected,
        signaled: true,
        solicited: false,
        fence: false,
        data: SendData::ScatterGather(&[]),
    };
    let queue = qp.send_queue().expect("sides with windows send");
    let mut batch = queue.lock();
    batch.post(&request).map_err(Wrong::of)?;
    batch.ring();
    Ok(())
}

fn accepts_writes(plan: &Connection, side: usize) -> bool {
    match plan.transport {
        Transport::Ud => false,
        Transport::Xrc => side == 1,
        Transport::Rc | Transport::Uc => true,
    }
}

fn sharing(plan: &Connection, side: usize) -> Option<Sharing> {
    match plan.transport {
        Transport::Xrc if side == 0 => None,
        Transport::Xrc => Some(Sharing::Xrc),
        _ if !plan.is_shared[side] => None,
        Transport::Rc => Some(Sharing::Reliable),
        Transport::Uc | Transport::Ud => Some(Sharing::Unreliable),
    }
}

fn queue_pair(
    plan: &Connection,
    side: usize,
    host: &mut Host,
    sharing: Option<Sharing>,
) -> Result<Arc<QueuePair>, Wrong> {
    let service = plan.transport.service(side);
    if service == Service::XrcTarget {
        return QueuePair::create_xrc_target(&host.domain).map_err(Wrong::of);
    }
    let cq = Arc::clone(&host.receive_cq);
    let receive = match sharing {
        _ if service == Service::XrcInitiator => ReceiveSource::None,
        Some(sharing) => ReceiveSource::Shared {
            cq,
            queue: Arc::clone(&host.shared(sharing).queue),
        },
        None => ReceiveSource::Own {
            cq,
            max_wr: OWN_DEPTH,
            max_sge: RECEIVE_SEGMENTS,
        },
    };
    let config = QueuePairConfig {
        service,
        send_cq: Arc::clone(&host.send_cq),
        receive,
        max_send_wr: plan.depth,
        max_send_sge: MAX_SEGMENTS as u32,
        max_inline_data: MAX_INLINE as u32,
        signal_all: false,
        blocks_own_multicast: false,
    };
    QueuePair::create(&host.pd, &config).map_err(Wrong::of)
}
