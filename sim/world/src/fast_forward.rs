//! Fast-forward: the steady middle of long messages is skipped.
//!
//! A long message is a sequence of strides, and the NIC that receives it marks their ends
//! (`ferroce_model::fast_forward`). At each mark the world examines the stride that has ended. It
//! is *plain* if nothing has happened in the whole world but middle packets of the same messages
//! and their acknowledges: no doorbell, no completion, no command. It is *steady* if it took as
//! long as those before it, and no sender falls back behind its receiver. If no other queue pair is
//! active, the following strides will be the same, until one of the messages is about to end. They
//! are skipped: their bytes are copied, their packets counted, and their time passes in one step.
//! The beginning of a message, until it is steady, and its end are simulated.
//!
//! NICs, links and PCIe do not notice: no time passes for them. World time is device time plus all
//! time that was skipped; `EventLoop` converts it for threads.

use ferroce_model::Counters;
use ferroce_model::fast_forward::{
    Flow, Mark, Receiver, SeenStrides, is_plain_flow, stride_packets,
};
use ferroce_model::time::timing::Timing;
use ferroce_transport::{Gap, GapTarget, StreamKind};
use ferroce_units::{Duration, Instant};
use ferroce_wire::Psn;

use super::bulk::Bulk;
use super::event_loop::EventLoop;
use super::node::Node;

/// Most hosts of a world that fast-forwards.
const MAX_HOSTS: usize = 8;
/// Strides that must be alike before the next ones are skipped.
const MIN_ALIKE: u64 = 3;
/// Strides are alike if their times differ by less than one part of so many: two clocks whose
/// cycles beat.
const LIKENESS: u64 = 512;
/// Packets by which a sender may fall back from one mark to the next: two bursts.
const BURST_PACKETS: u32 = 32;
/// Fewest strides that are worth skipping.
const MIN_STRIDES: u64 = 2;
/// Paces that are remembered.
const MAX_PACES: usize = 64;
/// Bytes that are copied at a time.
const PIECE_BYTES: u32 = 64 << 10;

/// A stream from one host to another.
#[derive(Debug, Clone, Copy)]
struct Leg {
    from: usize,
    flow: Flow,
    to: usize,
    receiver: Receiver,
    /// Packets between the two.
    under_way: u32,
}

impl Leg {
    /// Returns true if both are of the same message, and `self` is at least as far.
    fn continues(&self, before: &Leg) -> bool {
        let (stream, old) = (&self.flow.stream, &before.flow.stream);
        (self.message(), self.to, stream.kind) == (before.message(), before.to, old.kind)
            && stream.left <= old.left
    }

    /// Returns what identifies the message: its sender, and its first PSN.
    fn message(&self) -> (usize, u32, Psn) {
        (self.from, self.flow.index, self.flow.stream.first)
    }

    /// Returns the number of packets that the receiver has not got.
    fn missing(&self) -> u32 {
        self.flow.stream.left + self.under_way
    }
}

/// The world at the end of a stride.
#[derive(Debug)]
struct Sample {
    lead: (usize, Mark),
    legs: Vec<Leg>,
    counters: Vec<Counters>,
}

impl Sample {
    /// Returns the host and queue pair that mark the strides.
    fn lead(&self) -> (usize, u32) {
        (self.lead.0, self.lead.1.index)
    }

    fn senders(&self) -> impl Iterator<Item = (usize, u32)> {
        self.legs.iter().map(|leg| (leg.from, leg.flow.index))
    }

    fn has_leg_to(&self, (host, index): (usize, u32)) -> bool {
        let leads = |leg: &Leg| (leg.to, leg.receiver.index) == (host, index);
        self.legs.iter().any(leads)
    }

    /// Returns the time of the stride from `before` to here, if it was plain, all streams have
    /// advanced by a stride, and no sender has fallen back.
    fn stride_since(&self, before: &Sample) -> Option<Duration> {
        let mut counters = self.counters.iter().zip(&before.counters);
        let is_plain = self.lead() == before.lead()
            && self.legs.len() == before.legs.len()
            && counters.all(|(after, before)| is_plain_flow(before, after));
        let mut legs = self.legs.iter().zip(&before.legs);
        let goes_on = |(after, before): (&Leg, &Leg)| {
            after.continues(before)
                && before.missing() - after.missing() == stride_packets(after.flow.mtu)
                && after.under_way + BURST_PACKETS >= before.under_way
        };
        let is_steady = is_plain && legs.all(goes_on);
        is_steady.then(|| self.lead.1.at - before.lead.1.at)
    }
}

/// Alike strides of the same queue pairs, in a row or apart.
#[derive(Debug, Clone)]
struct Pace {
    /// Host and queue pair that mark them.
    lead: (usize, u32),
    /// Senders of all streams.
    senders: Vec<(usize, u32)>,
    strides: u64,
    time: Duration,
    /// Counter differences of each NIC. They need several strides: not each has an acknowledge, and
    /// bursts do not end with strides.
    seen: Vec<SeenStrides>,
}

impl Pace {
    /// Returns a pace without strides, of the streams of a sample.
    fn new(sample: &Sample) -> Self {
        Self {
            lead: sample.lead(),
            senders: sample.senders().collect(),
            strides: 0,
            time: Duration::ZERO,
            seen: vec![SeenStrides::default(); sample.counters.len()],
        }
    }

    fn is_of(&self, sample: &Sample) -> bool {
        self.lead == sample.lead() && sample.senders().eq(self.senders.iter().copied())
    }

    fn is_like(&self, stride: Duration) -> bool {
        let (time, all) = (stride.as_ps() * self.strides, self.time.as_ps());
        time.abs_diff(all) < all / LIKENESS
    }

    /// Adds the stride from `before` to `after`.
    fn add(&mut self, stride: Duration, before: &Sample, after: &Sample) {
        self.strides += 1;
        self.time = self.time + stride;
        let counters = before.counters.iter().zip(&after.counters);
        for (seen, (before, after)) in self.seen.iter_mut().zip(counters) {
            seen.strides += 1;
            seen.counts.add_difference(before, after);
        }
    }

    /// Returns the time of so many strides.
    fn of(&self, strides: u64) -> Duration {
        let time = u128::from(self.time.as_ps()) * u128::from(strides);
        Duration::from_ps((time / u128::from(self.strides)) as u64)
    }

    /// Returns the number of strides in `time`.
    fn strides_in(&self, time: Duration) -> u64 {
        let strides = u128::from(time.as_ps()) * u128::from(self.strides);
        (strides / u128::from(self.time.as_ps().max(1))) as u64
    }
}

/// A stream of which packets are to be skipped.
struct SkippedStream {
    leg: Leg,
    gap: Gap,
    target: GapTarget,
}

/// State of fast-forward: the paces that are known, and the time that was skipped.
#[derive(Debug, Default)]
pub(super) struct FastForward {
    is_on: bool,
    /// Time that was skipped: world time minus device time.
    pub skipped: Duration,
    last: Option<Sample>,
    /// A message of which nothing can be skipped: its sender, and its first PSN.
    refused: Option<(usize, u32, Psn)>,
    paces: Vec<Pace>,
    piece: Vec<u8>,
}

impl FastForward {
    /// Returns the state of a world, which may skip packets if `is_on`.
    pub fn new(is_on: bool) -> Self {
        Self {
            is_on,
            ..Self::default()
        }
    }

    /// Adds a stride to its pace; returns the pace if enough strides were alike.
    fn pace(&mut self, stride: Duration, before: &Sample, after: &Sample) -> Option<&Pace> {
        let place = self.paces.iter().position(|pace| pace.is_of(after));
        let place = place.unwrap_or_else(|| {
            if self.paces.len() == MAX_PACES {
                self.paces.remove(0);
            }
            self.paces.push(Pace::new(after));
            self.paces.len() - 1
        });
        let pace = &mut self.paces[place];
        if !pace.is_like(stride) {
            *pace = Pace::new(after);
        }
        pace.add(stride, before, after);
        (pace.strides >= MIN_ALIKE).then_some(&*pace)
    }
}

impl<T: Timing> EventLoop<T> {
    /// Converts device time to world time.
    #[inline]
    pub fn outside(&self, inside: Instant) -> Instant {
        match inside {
            Instant::MAX => inside,
            _ => inside + self.fast_forward.skipped,
        }
    }

    /// Converts world time to device time.
    #[inline]
    pub fn inside(&self, outside: Instant) -> Instant {
        match outside {
            Instant::MAX => outside,
            _ => outside - self.fast_forward.skipped,
        }
    }

    /// Skips the following strides if the NIC, which has just been advanced, has come to the end of
    /// a stride and the following ones will be like it.
    #[inline]
    pub fn fast_forward(&mut self, host: usize) {
        if !self.fast_forward.is_on {
            return;
        }
        if let Some(mark) = self.nodes[host].nic.take_mark() {
            self.end_stride(host, mark);
        }
    }

    #[cold]
    fn end_stride(&mut self, host: usize, mark: Mark) {
        if self.recorder.is_some() || self.nodes.len() > MAX_HOSTS {
            return;
        }
        let sample = self.sample(host, mark);
        let lead = (host, mark.index);
        let other = self.fast_forward.last.as_ref().map(Sample::lead);
        let leads_other = other.is_some_and(|other| other != lead && sample.has_leg_to(other));
        if leads_other || !sample.has_leg_to(lead) {
            return;
        }
        let has_skipped = self.fast_forward.last.take().is_some_and(|last| {
            let stride = sample.stride_since(&last);
            let pace = stride.and_then(|stride| self.fast_forward.pace(stride, &last, &sample));
            let pace = pace.cloned();
            pace.is_some_and(|pace| self.skip_strides(&sample, &pace))
        });
        self.fast_forward.last = Some(match has_skipped {
            true => self.sample(host, mark),
            false => sample,
        });
    }

    fn sample(&mut self, host: usize, mark: Mark) -> Sample {
        let mut legs = Vec::new();
        for to in 0..self.nodes.len() {
            let receivers: Vec<_> = self.nodes[to].nic.receivers().collect();
            for receiver in receivers {
                match self.leg(to, receiver) {
                    Some(leg) => legs.push(leg),
                    None => self.nodes[to].nic.forget_receiver(receiver.index),
                }
            }
        }
        let counters = self.nodes.iter().map(|node| node.nic.counters().clone());
        Sample {
            lead: (host, mark),
            legs,
            counters: counters.collect(),
        }
    }

    /// Returns the stream to a receiver.
    fn leg(&mut self, to: usize, receiver: Receiver) -> Option<Leg> {
        let mut nodes = self.nodes.iter_mut().enumerate();
        let (from, flow) =
            nodes.find_map(|(from, node)| Some((from, node.nic.flow_to(&receiver)?)))?;
        let under_way = flow.stream.under_way(receiver.next_of(&flow.stream))?;
        Some(Leg {
            from,
            flow,
            to,
            receiver,
            under_way,
        })
    }

    /// Skips all strides that are certain to come. Returns false if these are too few, or if they
    /// cannot be skipped.
    fn skip_strides(&mut self, sample: &Sample, pace: &Pace) -> bool {
        let refused = self.fast_forward.refused;
        let is_refused = |leg: &Leg| refused == Some(leg.message());
        let strides = self.strides_ahead(sample, pace);
        if strides < MIN_STRIDES
            || sample.legs.iter().any(is_refused)
            || !self.is_busy_only_with(&sample.legs)
        {
            return false;
        }
        let skipped = sample
            .legs
            .iter()
            .map(|leg| self.skipped_stream(leg, strides));
        let Some(skipped) = skipped.collect::<Option<Vec<_>>>() else {
            return false;
        };
        // Not tried again: a lookup of translations changes what the caches hold.
        let refused = skipped.iter().find(|stream| !self.copy_skipped(stream));
        if let Some(SkippedStream { leg, .. }) = refused {
            self.fast_forward.refused = Some(leg.message());
            return false;
        }
        for SkippedStream { leg, gap, .. } in &skipped {
            if self.nodes[leg.from].nic.skip(leg.flow.index, gap) {
                self.nodes[leg.to].nic.skip_receive(leg.receiver.index, gap);
            }
        }
        for (host, seen) in pace.seen.iter().enumerate() {
            let own = skipped.iter().filter(|stream| stream.leg.from == host);
            let packets = own.map(|stream| u64::from(stream.gap.packets)).sum();
            let nic = &mut self.nodes[host].nic;
            nic.count_left_out(seen, strides, packets);
        }
        self.skip_time(pace.of(strides));
        true
    }

    /// Returns the number of strides of this pace that are certain to come: until one of the
    /// messages is about to end, a thread wakes up or a store arrives.
    fn strides_ahead(&self, sample: &Sample, pace: &Pace) -> u64 {
        let is_quiet = |node: &Node<T>| {
            node.host.next_store().is_none() && node.host.next_interrupt().is_none()
        };
        if pace.time.is_zero() || !self.nodes.iter().all(is_quiet) {
            return 0;
        }
        let of_legs = sample.legs.iter().map(|leg| {
            let strides = leg.flow.stream.left / stride_packets(leg.flow.mtu);
            // The last one is simulated.
            u64::from(strides).saturating_sub(1)
        });
        let threads = 0..self.entries.len();
        let wakes = threads.filter_map(|thread| self.wakes_at(thread));
        let of_threads = wakes.map(|at| pace.strides_in(at - self.now));
        of_legs.chain(of_threads).min().unwrap_or(0)
    }

    /// Returns true if these streams are the only activity of all queue pairs of the world.
    fn is_busy_only_with(&self, legs: &[Leg]) -> bool {
        let mut nodes = self.nodes.iter().enumerate();
        nodes.all(|(host, node)| {
            node.nic.only_streams_active(|index, activity| {
                let sends = |kind| {
                    let is_own = |leg: &Leg| (leg.from, leg.flow.index) == (host, index);
                    let mut own = legs.iter().filter(|leg| is_own(leg));
                    own.any(|leg| leg.flow.stream.kind == kind)
                };
                let is_answered = || {
                    let is_own = |leg: &Leg| (leg.to, leg.receiver.index) == (host, index);
                    let mut own = legs.iter().filter(|leg| is_own(leg));
                    own.any(|leg| leg.flow.stream.kind == StreamKind::ReadResponse)
                };
                (!activity.sends || sends(StreamKind::Request))
                    && (!activity.responds || sends(StreamKind::ReadResponse))
                    && (!activity.fetches || is_answered())
            })
        })
    }

    /// Returns when a thread wakes for more than a recheck.
    pub(super) fn wakes_at(&self, thread: usize) -> Option<Instant> {
        let at = self.threads.time_of(thread)?;
        match self.entries[thread].recheck {
            Some(recheck) if at == recheck.at => {
                (recheck.last < Instant::MAX).then_some(recheck.last)
            }
            _ => Some(at),
        }
    }

    fn skipped_stream(&mut self, leg: &Leg, strides: u64) -> Option<SkippedStream> {
        let packets = strides as u32 * stride_packets(leg.flow.mtu);
        let gap = Gap::of(&leg.flow.stream, packets);
        let target = self.nodes[leg.to]
            .nic
            .gap_target(leg.receiver.index, &gap)?;
        Some(SkippedStream {
            leg: *leg,
            gap,
            target,
        })
    }

    /// Copies the skipped payload. Returns false if not all of it can be read or written, or if a
    /// thread watches it or the packets under way in front of it; the copied bytes are then written
    /// again by the packets themselves.
    fn copy_skipped(&mut self, stream: &SkippedStream) -> bool {
        let SkippedStream { leg, gap, target } = stream;
        let under_way = target.under_way();
        let end = under_way + gap.packets * leg.flow.mtu.bytes();
        let mut piece = std::mem::take(&mut self.fast_forward.piece);
        piece.resize(PIECE_BYTES as usize, 0);
        let mut at = 0;
        while at < end {
            let is_under_way = at < under_way;
            let stop = if is_under_way { under_way } else { end };
            let length = (stop - at).min(PIECE_BYTES);
            let bytes = &mut piece[..length as usize];
            let is_read = is_under_way || {
                let Node { nic, host, .. } = &mut self.nodes[leg.from];
                let source = leg.flow.source.piece(at - under_way, length);
                nic.read_gap(leg.flow.index, &source, bytes, &mut Bulk::new(host))
            };
            let Node { nic, host, .. } = &mut self.nodes[leg.to];
            let mut bulk = match is_under_way {
                true => Bulk::checking(host),
                false => Bulk::new(host),
            };
            let operation = target.piece(at, length);
            if !is_read || !nic.write_gap(leg.receiver.index, operation, bytes, &mut bulk) {
                break;
            }
            at += length;
        }
        self.fast_forward.piece = piece;
        at == end
    }

    /// Lets time pass for the threads, but not for the devices.
    fn skip_time(&mut self, time: Duration) {
        self.fast_forward.skipped = self.fast_forward.skipped + time;
        self.put_off_rechecks(self.now + time);
        self.threads.bring_forward(time);
        for entry in &mut self.entries {
            entry.clock = entry.clock - time;
            if let Some(recheck) = &mut entry.recheck {
                recheck.at = recheck.at - time;
                if recheck.last < Instant::MAX {
                    recheck.last = recheck.last - time;
                }
            }
        }
        let now = self.now;
        for node in &mut self.nodes {
            node.host.watchers.bring_forward(time, now);
        }
    }

    /// Moves rechecks before `time` to the first turn of the thread's grid that is not before it.
    fn put_off_rechecks(&mut self, time: Instant) {
        for thread in 0..self.entries.len() {
            let at = self.threads.time_of(thread);
            let Some(recheck) = &mut self.entries[thread].recheck else {
                continue;
            };
            if at != Some(recheck.at) || recheck.at >= time {
                continue;
            }
            let (late, grid) = (time - recheck.at, recheck.grid.as_ps().max(1));
            let turns = late.as_ps().div_ceil(grid);
            recheck.at += Duration::from_ps(turns * grid);
            let recheck_at = recheck.at;
            let moment = self.moment(recheck_at);
            self.threads.set(thread, Some(moment));
        }
    }
}
