//! Fast-forward: the middle of long messages is left out once it is known how it goes.
//!
//! A long message is a row of strides, and the NIC that receives it marks their ends
//! (`ferroce_model::fast_forward`). At each mark the world looks at the stride that has ended. It is
//! *plain* if nothing has happened in the whole world but middle packets of the same messages, and
//! what acknowledges them: no doorbell, no completion, no command. It is *steady* if it took as long as
//! those before it, and no sender falls back behind its receiver. If no queue pair has anything else to
//! do, the strides to come will be the same, until one of the messages comes to its end. They are left
//! out: their bytes are copied, their packets counted, and their time passes at once. Simulated are the
//! beginning of a message, until it flows steadily, and its end.
//!
//! What is inside of NICs, links and PCIe does not notice: to it no time has passed. The time of the
//! world is that of the devices and all that was skipped; `Core` translates where threads come in.

use ferroce_model::Counters;
use ferroce_model::fast_forward::{
    Flow, Mark, Receiver, SeenStrides, is_plain_flow, stride_packets,
};
use ferroce_model::time::timing::Timing;
use ferroce_transport::{Gap, GapTarget, StreamKind};
use ferroce_units::{Duration, Instant};
use ferroce_wire::Psn;

use super::bulk::Bulk;
use super::core::Core;
use super::node::Node;

/// Most hosts of a world whose strides are looked at.
const MAX_HOSTS: usize = 8;
/// Strides that are alike before the next ones are left out.
const MIN_ALIKE: u64 = 3;
/// Strides are alike if their times differ by less than one part of so many: the cycles of two clocks
/// that beat.
const LIKENESS: u64 = 512;
/// Packets by which a sender may fall back from one mark to the next: two bursts.
const BURST_PACKETS: u32 = 32;
/// Fewest strides that are worth to be left out.
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
    /// Whether both are of the same message, and `self` is further.
    fn continues(&self, before: &Leg) -> bool {
        let (stream, old) = (&self.flow.stream, &before.flow.stream);
        (self.message(), self.to, stream.kind) == (before.message(), before.to, old.kind)
            && stream.left <= old.left
    }

    /// The message: its sender, and its first PSN.
    fn message(&self) -> (usize, u32, Psn) {
        (self.from, self.flow.index, self.flow.stream.first)
    }

    /// Packets that the receiver has not got.
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
    /// Who marks its strides.
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

    /// The time of the stride from `before` to here, if it was plain, all streams have come as far in
    /// it, and no sender has fallen back.
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

/// Strides of the same queue pairs: all that were alike, one after the other or since then.
#[derive(Debug, Clone)]
struct Pace {
    /// Who marks them.
    lead: (usize, u32),
    /// Senders of all streams.
    senders: Vec<(usize, u32)>,
    strides: u64,
    time: Duration,
    /// What each NIC has done meanwhile. An acknowledge does not come with each stride, and a burst does
    /// not end with one.
    seen: Vec<SeenStrides>,
}

impl Pace {
    /// None yet, of the streams of a sample.
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

    /// A stride more, from `before` to `after`.
    fn add(&mut self, stride: Duration, before: &Sample, after: &Sample) {
        self.strides += 1;
        self.time = self.time + stride;
        let counters = before.counters.iter().zip(&after.counters);
        for (seen, (before, after)) in self.seen.iter_mut().zip(counters) {
            seen.strides += 1;
            seen.counts.add_difference(before, after);
        }
    }

    /// The time of so many strides.
    fn of(&self, strides: u64) -> Duration {
        let time = u128::from(self.time.as_ps()) * u128::from(strides);
        Duration::from_ps((time / u128::from(self.strides)) as u64)
    }

    /// How many strides there are in `time`.
    fn strides_in(&self, time: Duration) -> u64 {
        let strides = u128::from(time.as_ps()) * u128::from(self.strides);
        (strides / u128::from(self.time.as_ps().max(1))) as u64
    }
}

/// A stream of which packets are to be left out.
struct Omission {
    leg: Leg,
    gap: Gap,
    target: GapTarget,
}

/// What is known of the strides so far.
#[derive(Debug, Default)]
pub(super) struct FastForward {
    is_on: bool,
    /// Time that was skipped: that of the world is so much later than that of its devices.
    pub skipped: Duration,
    last: Option<Sample>,
    /// A message of which nothing can be left out: its sender, and its first PSN.
    refused: Option<(usize, u32, Psn)>,
    paces: Vec<Pace>,
    piece: Vec<u8>,
}

impl FastForward {
    /// Of a world that may leave packets out.
    pub fn new(is_on: bool) -> Self {
        Self {
            is_on,
            ..Self::default()
        }
    }

    /// Takes note of a stride; returns the pace at which the next ones will go, if that is known.
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

impl<T: Timing> Core<T> {
    /// The time of the world at a time of the devices.
    #[inline]
    pub fn outside(&self, inside: Instant) -> Instant {
        match inside {
            Instant::MAX => inside,
            _ => inside + self.fast_forward.skipped,
        }
    }

    /// The time of the devices at a time of the world.
    #[inline]
    pub fn inside(&self, outside: Instant) -> Instant {
        match outside {
            Instant::MAX => outside,
            _ => outside - self.fast_forward.skipped,
        }
    }

    /// A NIC has been advanced: if it has come to the end of a stride, and strides like that are to
    /// follow, they are left out.
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
            pace.is_some_and(|pace| self.leave_out(&sample, &pace))
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

    /// The stream to a receiver.
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

    /// Leaves out as many strides as there are to come. False: too few, or it cannot be done.
    fn leave_out(&mut self, sample: &Sample, pace: &Pace) -> bool {
        let refused = self.fast_forward.refused;
        let is_refused = |leg: &Leg| refused == Some(leg.message());
        let strides = self.strides_ahead(sample, pace);
        if strides < MIN_STRIDES
            || sample.legs.iter().any(is_refused)
            || !self.is_busy_only_with(&sample.legs)
        {
            return false;
        }
        let omissions = sample.legs.iter().map(|leg| self.omission(leg, strides));
        let Some(omissions) = omissions.collect::<Option<Vec<_>>>() else {
            return false;
        };
        // Not tried again: who looks at translations changes what the caches hold.
        let refused = omissions.iter().find(|omission| !self.carry(omission));
        if let Some(Omission { leg, .. }) = refused {
            self.fast_forward.refused = Some(leg.message());
            return false;
        }
        for Omission { leg, gap, .. } in &omissions {
            if self.nodes[leg.from].nic.leave_out(leg.flow.index, gap) {
                self.nodes[leg.to].nic.expect_gap(leg.receiver.index, gap);
            }
        }
        for (host, seen) in pace.seen.iter().enumerate() {
            let own = omissions
                .iter()
                .filter(|omission| omission.leg.from == host);
            let packets = own.map(|omission| u64::from(omission.gap.packets)).sum();
            let nic = &mut self.nodes[host].nic;
            nic.count_left_out(seen, strides, packets);
        }
        self.skip(pace.of(strides));
        true
    }

    /// How many strides of this pace are certain to come: until one of the messages is about to end, a
    /// thread wakes up or a store arrives.
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

    /// Whether no queue pair of the world has anything to do but these streams.
    fn is_busy_only_with(&self, legs: &[Leg]) -> bool {
        let mut nodes = self.nodes.iter().enumerate();
        nodes.all(|(host, node)| {
            node.nic.is_busy_only(|index, business| {
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
                (!business.sends || sends(StreamKind::Request))
                    && (!business.responds || sends(StreamKind::ReadResponse))
                    && (!business.fetches || is_answered())
            })
        })
    }

    /// When a thread goes on that may do more than look round.
    pub(super) fn wakes_at(&self, thread: usize) -> Option<Instant> {
        let at = self.threads.time_of(thread)?;
        match self.entries[thread].patience {
            Some(patience) if at == patience.look_round => {
                (patience.last < Instant::MAX).then_some(patience.last)
            }
            _ => Some(at),
        }
    }

    fn omission(&mut self, leg: &Leg, strides: u64) -> Option<Omission> {
        let packets = strides as u32 * stride_packets(leg.flow.mtu);
        let gap = Gap::of(&leg.flow.stream, packets);
        let target = self.nodes[leg.to]
            .nic
            .gap_target(leg.receiver.index, &gap)?;
        Some(Omission {
            leg: *leg,
            gap,
            target,
        })
    }

    /// Copies what is left out. False: not all of it can be read or written, or somebody watches it, or
    /// what is in front of it, come. What was copied then will come again.
    fn carry(&mut self, omission: &Omission) -> bool {
        let Omission { leg, gap, target } = omission;
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
                true => Bulk::looking(host),
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

    /// Lets time pass for the threads, and none for the devices.
    fn skip(&mut self, time: Duration) {
        self.fast_forward.skipped = self.fast_forward.skipped + time;
        self.put_off_looks(self.now + time);
        self.threads.bring_forward(time);
        for entry in &mut self.entries {
            entry.clock = entry.clock - time;
            if let Some(patience) = &mut entry.patience {
                patience.look_round = patience.look_round - time;
                if patience.last < Instant::MAX {
                    patience.last = patience.last - time;
                }
            }
        }
        let now = self.now;
        for node in &mut self.nodes {
            node.host.watchers.bring_forward(time, now);
        }
    }
    /// Threads that would look round before `time` do so with the first turn of their grid that is not.
    fn put_off_looks(&mut self, time: Instant) {
        for thread in 0..self.entries.len() {
            let at = self.threads.time_of(thread);
            let Some(patience) = &mut self.entries[thread].patience else {
                continue;
            };
            if at != Some(patience.look_round) || patience.look_round >= time {
                continue;
            }
            let (late, grid) = (time - patience.look_round, patience.grid.as_ps().max(1));
            let turns = late.as_ps().div_ceil(grid);
            patience.look_round += Duration::from_ps(turns * grid);
            let look_round = patience.look_round;
            let moment = self.moment(look_round);
            self.threads.set(thread, Some(moment));
        }
    }
}
