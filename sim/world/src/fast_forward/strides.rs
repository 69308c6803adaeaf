//! Skips the steady middle of long messages.
//!
//! A long message is a sequence of strides, and the receiving NIC marks their ends
//! (`ferroce_model::fast_forward`). At each mark the finished stride is examined. It is *plain* if
//! in the whole world there were only middle packets of the same messages and their ACKs: no
//! doorbell, no completion, no command. It is *steady* if it took as long as the previous ones and
//! no sender fell back behind its receiver. If no other queue pair is active, the following strides
//! will be the same until one of the messages is about to end. They are skipped: their bytes are
//! copied, their packets counted, and their time passes in one step. The beginning of a message,
//! until it is steady, and its end are simulated.

use ferroce_model::fast_forward::{Mark, stride_packets};
use ferroce_model::time::timing::Timing;
use ferroce_transport::{MemoryOp, Train};
use ferroce_units::Duration;
use ferroce_wire::Psn;

use super::Skipper;
use super::bulk::{self, Places, PlacesOf};
use super::pace::{Pace, Paces};
use super::sample::{End, Leg, Sample};
use crate::devices::Devices;
use crate::node::Node;

/// Maximum number of hosts of a world that fast-forwards.
const MAX_HOSTS: usize = 8;
/// Minimum number of strides worth skipping.
const MIN_STRIDES: u64 = 2;
/// Bytes whose locations are recorded at a time.
const PIECE_BYTES: u32 = 64 << 10;

/// A message with packets to skip.
struct Skipped {
    leg: Leg,
    train: Train,
    /// Writes the bytes in flight, and the bytes of the train after them.
    target: MemoryOp,
}

/// Skips strides that are similar to the previous ones.
#[derive(Debug, Default)]
pub struct SteadyStrides {
    last: Option<Sample>,
    /// A message whose packets cannot be skipped: its sender, and its first PSN.
    refused: Option<(End, Psn)>,
    paces: Paces,
    piece: Vec<u8>,
    /// Source and destination of a train's payload.
    sources: Places,
    targets: Places,
}

impl<T: Timing> Skipper<T> for SteadyStrides {
    fn offer(
        &mut self,
        devices: &mut Devices<T>,
        host: usize,
        mark: Mark,
        quiet_time: &dyn Fn() -> Duration,
    ) -> Option<Duration> {
        if devices.is_recorded() || devices.nodes.len() > MAX_HOSTS {
            return None;
        }
        let sample = Sample::take(devices, host, mark);
        let lead = sample.lead();
        let other = self.last.as_ref().map(Sample::lead);
        let leads_other =
            other.is_some_and(|other| other != lead && sample.received_by(other).is_some());
        if leads_other || sample.received_by(lead).is_none() {
            return None;
        }
        let mut paces = std::mem::take(&mut self.paces);
        let skipped = self.last.take().and_then(|last| {
            let stride = sample.stride_since(&last)?;
            let pace = paces.add(stride, &last, &sample)?;
            self.skip(devices, &sample, pace, quiet_time)
        });
        self.paces = paces;
        self.last = Some(match skipped {
            Some(_) => Sample::take(devices, host, mark),
            None => sample,
        });
        skipped
    }
}

impl SteadyStrides {
    /// Skips all strides that are certain to come; returns their duration. `None` if they are too
    /// few or cannot be skipped.
    fn skip<T: Timing>(
        &mut self,
        devices: &mut Devices<T>,
        sample: &Sample,
        pace: &Pace,
        quiet_time: &dyn Fn() -> Duration,
    ) -> Option<Duration> {
        let of_legs = sample.legs.iter().map(Leg::strides).min()?;
        let strides = if devices.is_quiet() {
            of_legs.min(pace.strides_in(quiet_time()))
        } else {
            0
        };
        let strides = strides.min(strides_without_fault(devices, sample, strides));
        let is_refused = |leg: &Leg| self.refused == Some(leg.message());
        if strides < MIN_STRIDES
            || sample.legs.iter().any(is_refused)
            || !is_idle_but_for(devices, sample)
        {
            return None;
        }
        let skipped = sample
            .legs
            .iter()
            .map(|leg| skipped_of(devices, leg, strides));
        let skipped = skipped.collect::<Option<Vec<_>>>()?;
        // Not tried again, because a look-up of translations changes the contents of the caches.
        let refused = skipped.iter().find(|skipped| !self.copy(devices, skipped));
        if let Some(Skipped { leg, .. }) = refused {
            self.refused = Some(leg.message());
            return None;
        }
        for Skipped { leg, train, .. } in &skipped {
            let ((from, sender), (to, receiver)) = (leg.from, leg.to);
            if devices.nodes[from].nic.fast_forward().send(sender, train) {
                let mut nic = devices.nodes[to].nic.fast_forward();
                nic.receive(receiver, train);
                let packets = u64::from(train.packets);
                devices.fabric.leave_out(&leg.data(), packets);
            }
        }
        for (host, seen) in pace.seen.iter().enumerate() {
            let packets = |of: fn(&Leg) -> usize| {
                let own = skipped.iter().filter(|skipped| of(&skipped.leg) == host);
                own.map(|skipped| u64::from(skipped.train.packets)).sum()
            };
            let (sent, received) = (packets(|leg| leg.from.0), packets(|leg| leg.to.0));
            let mut nic = devices.nodes[host].nic.fast_forward();
            nic.count(seen, strides, sent, received);
        }
        Some(pace.time_of(strides))
    }

    /// Copies the payload of a train. Returns false if not all of it can be read or written, or if
    /// a thread watches it or the packets in flight before it. It may then have copied a part,
    /// which the packets themselves write again.
    fn copy<T: Timing>(&mut self, devices: &mut Devices<T>, skipped: &Skipped) -> bool {
        let Skipped { leg, train, target } = skipped;
        let ((from, sender), (to, receiver)) = (leg.from, leg.to);
        let (sources, targets) = (&mut self.sources, &mut self.targets);
        sources.clear();
        targets.clear();
        // The locations of each piece are recorded, but not its bytes.
        let piece = &mut self.piece;
        piece.resize(PIECE_BYTES as usize, 0);
        let payload = piece.as_ptr_range();
        let mut each_piece = |bytes: u32, note: &mut dyn FnMut(u32, &mut [u8]) -> bool| {
            let mut pieces = (0..bytes).step_by(PIECE_BYTES as usize);
            pieces.all(|at| note(at, &mut piece[..(bytes - at).min(PIECE_BYTES) as usize]))
        };
        let Node { nic, host, .. } = &mut devices.nodes[from];
        let mut host = PlacesOf {
            host,
            places: sources,
            payload: payload.clone(),
        };
        let is_read = each_piece(train.bytes(), &mut |at, piece| {
            let source = train.payload.part(at, piece.len() as u32);
            nic.fast_forward().read(sender, &source, piece, &mut host)
        });
        // Device memory and null regions are not in host memory.
        let payload_bytes = u64::from(train.bytes());
        if !is_read || sources.length() != payload_bytes {
            return false;
        }
        let Node { nic, host, .. } = &mut devices.nodes[to];
        let mut host = PlacesOf {
            host,
            places: targets,
            payload,
        };
        let is_written = each_piece(target.length(), &mut |at, piece| {
            let target = target.part(at, piece.len() as u32);
            nic.fast_forward().write(receiver, target, piece, &mut host)
        });
        targets.skip(u64::from(target.length() - train.bytes()));
        is_written
            && targets.length() == payload_bytes
            && bulk::copy(devices, from, sources, to, targets).is_ok()
    }
}

/// Returns how many of the next `strides` strides have no fault.
fn strides_without_fault<T: Timing>(
    devices: &mut Devices<T>,
    sample: &Sample,
    strides: u64,
) -> u64 {
    if strides < MIN_STRIDES || !devices.fabric.has_faults() {
        return strides;
    }
    let of_leg = |leg: &Leg| {
        let packets = devices.fabric.frames_from(&leg.data(), leg.acks().as_ref());
        packets / u64::from(stride_packets(leg.rest.mtu))
    };
    sample.legs.iter().map(of_leg).min().unwrap_or(0)
}

/// Returns true if the messages of a sample are the only activity of all queue pairs of the world.
fn is_idle_but_for<T: Timing>(devices: &mut Devices<T>, sample: &Sample) -> bool {
    let mut nodes = devices.nodes.iter_mut().enumerate();
    nodes.all(|(host, node)| {
        node.nic.fast_forward().is_idle_but_for(|index| {
            let end = (host, index);
            (sample.sent_by(end), sample.received_by(end))
        })
    })
}

fn skipped_of<T: Timing>(devices: &mut Devices<T>, leg: &Leg, strides: u64) -> Option<Skipped> {
    let train = leg.rest.head(strides as u32 * stride_packets(leg.rest.mtu));
    let (to, receiver) = leg.to;
    let mut nic = devices.nodes[to].nic.fast_forward();
    Some(Skipped {
        leg: *leg,
        train,
        target: nic.target(receiver, &train)?,
    })
}
