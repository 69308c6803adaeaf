//! The receive path of the NIC: frames to the queue pairs that they are for.

use crate::depacketizer::{self, Parsed};
use crate::dma::Dma;
use crate::host::Host;
use crate::nic::Nic;
use crate::port::Port;
use crate::processing_unit::Inbound;
use crate::timing::Work;
use ferroce_spec::counter::Counter;
use ferroce_spec::register::FatalSyndrome;
use ferroce_transport::Instant;

impl<P: Port> Nic<P> {
    /// Frames: depacketizer, then the processing unit of the queue pair.
    #[inline]
    pub(crate) fn receive<H: Host>(&mut self, now: Instant, host: &mut H, port: &mut P) -> bool {
        let mut worked = false;
        while !self.completion_edge.is_nearly_full() {
            let Some(frame) = self.mac.ingress.pop(now) else {
                break;
            };
            worked = true;
            let check_icrc = port.carries_icrc(&frame);
            let parsed = depacketizer::parse(frame.as_ref(), check_icrc, &mut self.counters);
            let Some((qp, parsed)) = parsed.and_then(|parsed| self.steer(parsed)) else {
                port.release(frame);
                continue;
            };
            let Parsed {
                headers, payload, ..
            } = parsed;
            let inbound = Inbound {
                qp,
                headers,
                payload,
                frame,
            };
            let unit = qp as usize % self.units.len();
            let work = Work {
                bytes: inbound.payload.len() as u32,
                ..Work::default()
            };
            self.units[unit]
                .inbound
                .push(now, &self.config.timing, &work, inbound);
            self.process(now, unit, host, port);
        }
        worked
    }

    /// The queue pair of a packet, if it may receive it.
    #[inline]
    fn steer(&mut self, parsed: Parsed) -> Option<(u32, Parsed)> {
        let index = self.qps.index_of(parsed.headers.bth.dest_qp);
        let Some(qp) = index.and_then(|index| self.qps.get_mut(index)) else {
            self.counters.add(Counter::rx_no_qp, 1);
            return None;
        };
        match &qp.path {
            Some(path) if path.peer == parsed.source && path.local == parsed.destination => {
                Some((qp.index, parsed))
            }
            Some(_) => {
                self.counters.add(Counter::rx_wrong_path, 1);
                None
            }
            None => {
                self.counters.add(Counter::rx_no_qp, 1);
                None
            }
        }
    }

    /// Lets a processing unit work on the packets that have reached it.
    #[inline]
    fn process<H: Host>(&mut self, now: Instant, unit: usize, host: &mut H, port: &mut P) {
        while let Some(inbound) = self.units[unit].inbound.pop(now) {
            let mut dma = Dma {
                host,
                counters: &mut self.counters,
            };
            let loaded = self.qps.touch(inbound.qp, &mut dma);
            if let (Ok(()), Some(qp)) = (loaded, self.qps.get_mut(inbound.qp)) {
                let (unit, memory) = (&mut self.units[unit], &mut self.memory);
                unit.receive(
                    now,
                    qp,
                    &inbound,
                    memory,
                    &mut dma,
                    self.config.fetch_receives,
                );
                self.settle(now, inbound.qp);
            }
            if loaded.is_err() {
                self.bar.stop(FatalSyndrome::CONTEXT_TABLE_DMA);
            }
            port.release(inbound.frame);
        }
    }
}
