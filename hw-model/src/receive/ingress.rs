//! The receive path of the NIC: frames to the queue pairs that they are for.

use ferroce_spec::context::AddressEntry;
use ferroce_spec::counter::Counter;
use ferroce_spec::register::FatalSyndrome;
use ferroce_units::{Duration, Instant};
use ferroce_wire::{Extension, Frame, Gid, Qpn};

use crate::blocks::Blocks;
use crate::contexts::work_queue::ReceiveFetch;
use crate::host_interface::dma::Dma;
use crate::host_interface::event_queue::{ASYNC_EQN, Event};
use crate::limits::MAX_GIDS;
use crate::nic::Nic;
use crate::ports::host::Host;
use crate::ports::port::Port;
use crate::processing_unit::Inbound;
use crate::receive::depacketizer::{self, Parsed};
use crate::receive::multicast::MAX_QPS_PER_GROUP;
use crate::time::timing::{PLANNING_HORIZON, Stage, Timing, Work};
use crate::translation::responder_memory::MemoryBlocks;

/// Work of the link to the host for posted writes after which packets stay in the receive buffer.
const MAX_POSTED_BACKLOG: Duration = Duration::from_us(1);

impl<P: Port, T: Timing, B: Blocks> Nic<P, T, B> {
    /// Frames: depacketizer, then the processing unit of the queue pair.
    #[inline(always)]
    pub(crate) fn receive<H: Host>(&mut self, now: Instant, host: &mut H, port: &mut P) -> bool {
        let mut worked = false;
        while !self.completion_edge.is_nearly_full() {
            if self.inbound.is_full() {
                break;
            }
            let Some((at, frame)) = self.mac.ingress.pop_ahead() else {
                break;
            };
            worked = true;
            let check_icrc = port.carries_icrc(&frame);
            let parsed = depacketizer::parse(frame.as_ref(), check_icrc, &mut self.counters);
            let steered = parsed.as_ref().and_then(|parsed| self.steer(parsed));
            let (Some(qp), Some(parsed)) = (steered, parsed) else {
                port.release(frame);
                continue;
            };
            let inbound = Inbound {
                qp,
                headers: parsed.headers,
                ip: parsed.ip,
                payload: parsed.payload,
                frame,
            };
            if !T::IS_TIMED {
                // It would be taken off the edge at once.
                self.process_one(now, inbound, host, port);
                continue;
            }
            let unit = self.unit_of(&inbound);
            let work = Work {
                bytes: inbound.payload.len() as u32,
                messages: u32::from(inbound.headers.bth.opcode.begins_request()),
            };
            let stage = Stage::Receive(self.units[unit].number);
            let ready = self.timing.reserve(now, at, stage, work);
            self.inbound.push(ready, inbound);
        }
        if T::IS_TIMED {
            worked |= self.process(now, host, port);
        }
        worked
    }

    /// Returns the destination of a packet, if it has one: the index of a queue pair, or `None` for
    /// a multicast group.
    #[inline(always)]
    fn steer(&mut self, parsed: &Parsed) -> Option<Option<u32>> {
        let dest_qp = parsed.headers.bth.dest_qp;
        if dest_qp == Qpn::MULTICAST {
            return self.steer_multicast(parsed);
        }
        let index = self.qps.index_of(dest_qp);
        let Some(qp) = index.and_then(|index| self.qps.get_mut(index)) else {
            self.counters.add(Counter::rx_no_qp, 1);
            return None;
        };
        let recipient = Some(qp.index);
        let is_expected = match &qp.path {
            _ if qp.is_datagram() => is_own_address(&self.gids, parsed.destination),
            Some(path) => path.peer == parsed.source && path.local == parsed.destination,
            None => {
                self.counters.add(Counter::rx_no_qp, 1);
                return None;
            }
        };
        if !is_expected {
            self.counters.add(Counter::rx_wrong_path, 1);
            return None;
        }
        Some(recipient)
    }

    #[cold]
    fn steer_multicast(&mut self, parsed: &Parsed) -> Option<Option<u32>> {
        if self.multicast.members(parsed.destination).is_empty() {
            self.counters.add(Counter::rx_no_qp, 1);
            return None;
        }
        self.counters.add(Counter::rx_multicast, 1);
        Some(None)
    }

    /// Returns the processing unit that works on a packet. One unit makes all copies of a multicast
    /// datagram.
    #[inline]
    fn unit_of(&self, packet: &Inbound<P::Frame>) -> usize {
        packet.qp.map_or(0, |index| self.scheduler.unit_of(index))
    }

    /// Lets the processing units work on the packets that have reached them.
    #[inline(always)]
    fn process<H: Host>(&mut self, now: Instant, host: &mut H, port: &mut P) -> bool {
        let mut worked = false;
        while !self.completion_edge.is_nearly_full() {
            if T::IS_TIMED && (self.is_receive_paused(now, host) || self.is_packet_blocked(now)) {
                break;
            }
            let Some(inbound) = self.inbound.pop(now) else {
                break;
            };
            self.process_one(now, inbound, host, port);
            worked = true;
        }
        worked
    }

    /// Lets a processing unit work on a packet.
    #[inline(always)]
    fn process_one<H: Host>(
        &mut self,
        now: Instant,
        inbound: Inbound<P::Frame>,
        host: &mut H,
        port: &mut P,
    ) {
        let unit = self.unit_of(&inbound);
        match inbound.qp {
            Some(index) => self.deliver(now, unit, index, &inbound, host),
            None => self.fan_out(now, unit, &inbound, host),
        }
        port.release(inbound.frame);
    }

    /// Returns true if so much waits for the host that packets stay in the receive buffer.
    fn is_receive_paused<H: Host>(&mut self, now: Instant, host: &H) -> bool {
        let resumes_at = host.posted_until() - MAX_POSTED_BACKLOG;
        self.receive_resumes_at = resumes_at;
        resumes_at > now
    }

    /// Returns true if the next packet, and all behind it, waits for the context of its queue pair.
    fn is_packet_blocked(&mut self, now: Instant) -> bool {
        let next = self.inbound.front().and_then(|packet| packet.qp);
        let until = now + PLANNING_HORIZON;
        let blocked = next.and_then(|index| self.qps.blocked_until(index, until));
        if let Some(free_at) = blocked {
            self.receive_resumes_at = self.receive_resumes_at.max(free_at - PLANNING_HORIZON);
        }
        blocked.is_some()
    }

    /// Gives a datagram to all queue pairs of a group but the one that sent it.
    #[cold]
    fn fan_out<H: Host>(
        &mut self,
        now: Instant,
        unit: usize,
        inbound: &Inbound<P::Frame>,
        host: &mut H,
    ) {
        let sender = match inbound.headers.extension {
            Extension::Deth(deth) | Extension::DethImmediate(deth, _) => deth.source_qp,
            _ => return,
        };
        // Parsed again here, instead of carrying the frame with every packet.
        let Ok(frame) = Frame::parse(inbound.frame.as_ref()) else {
            return;
        };
        let group = frame.ip.destination_gid();
        let is_ours = is_own_address(&self.gids, frame.ip.source_gid());
        let sender = self.qps.index_of(sender).filter(|_| is_ours);
        for position in 0..MAX_QPS_PER_GROUP {
            let Some(index) = self.multicast.members(group).get(position).copied() else {
                break;
            };
            if Some(index) != sender {
                self.deliver(now, unit, index, inbound, host);
            }
        }
    }

    /// Lets a queue pair process a packet.
    #[inline(always)]
    fn deliver<H: Host>(
        &mut self,
        now: Instant,
        unit: usize,
        index: u32,
        inbound: &Inbound<P::Frame>,
        host: &mut H,
    ) {
        let mut dma = Dma::new(host, &mut self.counters, now);
        if self.qps.touch(index, T::IS_TIMED, &mut dma).is_err() {
            self.bar.stop(FatalSyndrome::CONTEXT_TABLE_DMA);
            return;
        }
        let Some(qp) = self.qps.get_mut(index) else {
            return;
        };
        if T::IS_TIMED {
            dma.at = dma.at.max(qp.progress.ready);
            dma.visible = qp.progress.visible;
        }
        let mut blocks = MemoryBlocks {
            memory: &mut self.memory,
            srqs: &mut self.srqs,
            dma: &mut dma,
            receive_fetch: ReceiveFetch {
                batch: self.config.fetch_receives,
                ahead: self.config.receives_ahead,
            },
            srq_event: None,
        };
        self.units[unit].receive(now, qp, inbound, &mut blocks);
        if T::IS_TIMED {
            qp.progress.ready = blocks.dma.at;
            qp.progress.visible = blocks.dma.visible;
            self.marks.note(now, qp, inbound);
        }
        if let Some((kind, number)) = blocks.srq_event {
            let eqn = ASYNC_EQN;
            self.raise(now, Event { eqn, kind, number });
        }
        self.settle(now, index);
    }
}

/// Returns true if `gid` is an address of this NIC.
#[inline]
fn is_own_address(gids: &[AddressEntry; MAX_GIDS], gid: Gid) -> bool {
    gids.iter().any(|entry| entry.gid == gid.0)
}
