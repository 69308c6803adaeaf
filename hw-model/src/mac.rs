//! MAC: the edges between the packet engines and the wire.

use crate::port::Port;
use crate::queue::Edge;
use crate::timing::{EdgeName, Timing, Work};
use ferroce_transport::Instant;

/// Frames on their way out and in.
#[derive(Debug)]
pub struct Mac<F> {
    /// Frames from the packetizer.
    pub egress: Edge<F>,
    /// Frames to the depacketizer.
    pub ingress: Edge<F>,
}

impl<F: AsRef<[u8]> + AsMut<[u8]>> Mac<F> {
    /// An idle MAC.
    pub fn new(edge_capacity: usize) -> Self {
        Self {
            egress: Edge::new(EdgeName::Egress, edge_capacity),
            ingress: Edge::new(EdgeName::Ingress, edge_capacity),
        }
    }

    /// Puts frames that are due on the wire.
    #[inline(always)]
    pub fn transmit<P: Port<Frame = F>>(&mut self, now: Instant, port: &mut P) {
        while let Some(frame) = self.egress.pop(now) {
            port.transmit(frame);
        }
    }

    /// Drops what comes from the wire, as far as one turn of [`Mac::receive`] would take it: the
    /// link is down.
    pub fn discard<P: Port<Frame = F>>(&mut self, port: &mut P) {
        for _ in 0..self.ingress.capacity() {
            match port.receive() {
                Some(frame) => port.release(frame),
                None => break,
            }
        }
    }

    /// Takes frames off the wire, as far as the edge has room. True: there were some.
    #[inline(always)]
    pub fn receive<P: Port<Frame = F>>(
        &mut self,
        now: Instant,
        timing: &Timing,
        port: &mut P,
    ) -> bool {
        let mut received = false;
        while !self.ingress.is_full() {
            let Some(frame) = port.receive() else {
                break;
            };
            let work = Work {
                bytes: frame.as_ref().len() as u32,
                ..Work::default()
            };
            self.ingress.push(now, timing, &work, frame);
            received = true;
        }
        received
    }
}
