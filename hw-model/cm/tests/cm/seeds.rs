//! Two sides over a seeded bad link: whatever is lost, duplicated or overtaken, both sides agree on
//! the fate of every connection, and no state is left.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use crate::pair::link::{Faults, Link};
use crate::pair::{accept, connect, gid, listen, sidr, trimmed};
use ferroce_cm::{Cm, Config, Disposition, Ece, Event, PortSpace, Reject, SidrResponse, State};
use ferroce_units::random::Random;
use ferroce_units::{Duration, Instant};
use ferroce_wire::cm::{CommunicationId, RejectReason, SidrStatus};
use ferroce_wire::{QKey, Qpn};

const SEEDS: u64 = 1000;
const MAX_CONNECTIONS: u64 = 8;

/// Maximum lifetime of connections: most live longer than all retries of a message.
const LIFE_MS: u64 = 300_000;

/// The fate of a connection on one side.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Fate {
    is_established: bool,
    /// The event that ended it.
    end: Option<&'static str>,
    has_left_timewait: bool,
    /// Private data of REQ, REP and REJ that this side has sent.
    sent: Vec<(&'static str, Vec<u8>)>,
    /// Private data that this side has received.
    received: Vec<(&'static str, Vec<u8>)>,
    /// The queue pair of the caller, and the peer's.
    qpns: (u32, u32),
}

/// One side and its program.
struct Side {
    cm: Cm,
    fates: BTreeMap<CommunicationId, Fate>,
    /// By the peer's identifier.
    peers: BTreeMap<CommunicationId, CommunicationId>,
    resolved: Vec<(CommunicationId, bool)>,
    next_qpn: u32,
}

struct Run {
    now: Instant,
    random: Random,
    link: Link,
    sides: [Side; 2],
    /// Connections to disconnect, destroy, accept or reject, by time.
    agenda: BTreeMap<(Instant, u64), (usize, Task)>,
    sequence: u64,
}

#[derive(Debug, Clone)]
enum Task {
    Connect,
    Resolve,
    Answer(CommunicationId),
    Establish(CommunicationId),
    Disconnect(CommunicationId),
    Destroy(CommunicationId),
}

impl Run {
    fn new(seed: u64, faults: Faults) -> Self {
        let random = Random::new(seed, 0);
        let sides = [1, 2].map(|tag| {
            let mut config = match random.below(2) {
                0 => Config::new(tag),
                _ => Config::functional(tag),
            };
            // Longer than the retries of the peer: late messages meet TIMEWAIT.
            config.timewait_max = Duration::from_ms(10 + random.below(2000));
            config.first_id = random.next() as u32;
            let mut cm = Cm::new(config);
            cm.listen(&listen(PortSpace::Tcp, 4)).unwrap();
            cm.listen(&listen(PortSpace::Udp, 4)).unwrap();
            Side {
                cm,
                fates: BTreeMap::new(),
                peers: BTreeMap::new(),
                resolved: Vec::new(),
                next_qpn: 0x10 * u32::from(tag),
            }
        });
        let mut run = Self {
            now: Instant::from_us(1),
            link: Link::new(faults, seed),
            random,
            sides,
            agenda: BTreeMap::new(),
            sequence: 0,
        };
        for _ in 0..1 + run.random.below(MAX_CONNECTIONS) {
            let side = run.random.below(2) as usize;
            let task = match run.random.below(4) {
                0 => Task::Resolve,
                _ => Task::Connect,
            };
            run.plan(side, 5_000, task);
        }
        run
    }

    /// Puts a task on the agenda, within the given number of milliseconds.
    fn plan(&mut self, side: usize, within_ms: u64, task: Task) {
        let delay = Duration::from_us(self.random.below(within_ms * 1000));
        self.sequence += 1;
        let key = (self.now + delay, self.sequence);
        self.agenda.insert(key, (side, task));
    }

    fn data(&self, limit: u64) -> Vec<u8> {
        let length = self.random.below(limit + 1);
        (0..length)
            .map(|_| 1 + self.random.below(255) as u8)
            .collect()
    }

    fn qpn(&mut self, side: usize) -> u32 {
        self.sides[side].next_qpn += 1;
        self.sides[side].next_qpn
    }

    /// Runs until no event is left.
    fn run(&mut self) {
        let mut steps = 0;
        loop {
            self.flush();
            let timers = self.sides.iter().filter_map(|side| side.cm.next_timeout());
            let agenda = self.agenda.keys().next().map(|(time, _)| *time);
            let next = timers.chain(self.link.next_arrival()).chain(agenda).min();
            let Some(next) = next else { break };
            self.now = self.now.max(next);
            if let Some((to, transmit)) = self.link.receive(self.now) {
                let (from, at) = (transmit.from, transmit.to);
                let cm = &mut self.sides[to].cm;
                let disposition = cm.handle_mad(self.now, from, at, &transmit.mad[..]);
                let is_ours = |it| matches!(it, Disposition::Taken | Disposition::NotOurs(_));
                assert!(is_ours(disposition), "{disposition:?} {transmit:?}");
            }
            for side in &mut self.sides {
                side.cm.handle_timeout(self.now);
            }
            if let Some(entry) = self.agenda.first_entry() {
                if entry.key().0 <= self.now {
                    let (side, task) = entry.remove();
                    self.execute(side, task);
                }
            }
            steps += 1;
            assert!(steps < 100_000, "it does not end");
        }
    }

    fn flush(&mut self) {
        for side in 0..2 {
            while let Some(transmit) = self.sides[side].cm.poll_mad() {
                self.link.send(self.now, 1 - side, transmit);
            }
            while let Some(event) = self.sides[side].cm.poll_event() {
                self.take(side, event);
            }
        }
    }

    fn execute(&mut self, side: usize, task: Task) {
        let now = self.now;
        match task {
            Task::Connect => {
                let data = self.data(56);
                let qpn = self.qpn(side);
                let id = self.sides[side].cm.connect(now, &connect(side, qpn, &data));
                let fate = self.sides[side].fates.entry(id.unwrap()).or_default();
                fate.sent.push(("REQ", data));
                fate.qpns.0 = qpn;
            }
            Task::Resolve => {
                let request = sidr(side, &self.data(180));
                self.sides[side].cm.resolve_service(now, &request).unwrap();
            }
            Task::Answer(id) => self.answer(side, id),
            Task::Establish(id) => {
                let at = side;
                let side = &mut self.sides[at];
                if side.cm.state(id) == Some(State::RepReceived) {
                    side.cm.establish(id, &[]).unwrap();
                    side.fates.get_mut(&id).unwrap().is_established = true;
                    self.plan(at, LIFE_MS, Task::Disconnect(id));
                }
            }
            Task::Disconnect(id) => {
                if self.sides[side].cm.state(id) == Some(State::Established) {
                    let data = self.data(220);
                    self.sides[side].cm.disconnect(now, id, &data).unwrap();
                }
            }
            Task::Destroy(id) => {
                self.sides[side].cm.destroy(now, id);
                let fate = self.sides[side].fates.get_mut(&id).unwrap();
                fate.end.get_or_insert("destroyed");
                fate.sent.push(("REJ", Vec::new()));
                fate.has_left_timewait = true;
            }
        }
    }

    /// Accepts or rejects a request.
    fn answer(&mut self, side: usize, id: CommunicationId) {
        match self.sides[side].cm.state(id) {
            Some(State::ReqReceived) => {}
            Some(State::SidrReqReceived) => {
                let response = SidrResponse {
                    status: SidrStatus::SUCCESS,
                    qpn: Qpn::new(0x21),
                    q_key: QKey(1),
                    ece: Ece::default(),
                    private_data: self.data(136),
                };
                self.sides[side]
                    .cm
                    .respond(self.now, id, &response)
                    .unwrap();
                return;
            }
            _ => return,
        }
        let qpn = self.qpn(side);
        if self.random.below(4) == 0 {
            let data = self.data(148);
            let reject = Reject::by_consumer(data.clone());
            self.sides[side].cm.reject(self.now, id, &reject).unwrap();
            let fate = self.sides[side].fates.get_mut(&id).unwrap();
            fate.sent.push(("REJ", data));
            fate.end = Some("rejected");
        } else {
            let data = self.data(196);
            let accept = accept(side, qpn, &data);
            self.sides[side].cm.accept(self.now, id, &accept).unwrap();
            let fate = self.sides[side].fates.get_mut(&id).unwrap();
            fate.sent.push(("REP", data));
            fate.qpns.0 = qpn;
        }
    }

    fn take(&mut self, at: usize, event: Event) {
        let side = &mut self.sides[at];
        let known: Vec<_> = side.fates.keys().copied().collect();
        let is_resolution = |id: &CommunicationId| !known.contains(id);
        let mut end = |id: CommunicationId, end| {
            let fate = side.fates.get_mut(&id).unwrap();
            assert_eq!(fate.end, None, "{id} ends once");
            fate.end = Some(end);
        };
        match event {
            Event::ConnectRequest {
                id,
                request,
                private_data,
                from,
                ..
            } => {
                assert_eq!(from, gid(1 - at));
                let fate = side.fates.entry(id).or_default();
                fate.received.push(("REQ", trimmed(&private_data).to_vec()));
                fate.qpns.1 = request.local_qpn.value();
                side.peers.insert(id, request.local_communication_id);
                side.cm.release_backlog(id);
                self.plan(at, 8_000, Task::Answer(id));
                self.plan_destruction(at, id);
            }
            Event::ConnectResponse { id, response, .. } => {
                let fate = side.fates.get_mut(&id).unwrap();
                let data = trimmed(&response.private_data.0).to_vec();
                fate.received.push(("REP", data));
                fate.qpns.1 = response.local_qpn.value();
                side.peers.insert(id, response.local_communication_id);
                self.plan(at, 3_000, Task::Establish(id));
                self.plan_destruction(at, id);
            }
            Event::Established { id, .. } => {
                side.fates.get_mut(&id).unwrap().is_established = true;
                self.plan(at, LIFE_MS, Task::Disconnect(id));
            }
            Event::Rejected {
                id,
                reason,
                private_data,
                ..
            } => {
                end(id, "rejected");
                let fate = side.fates.get_mut(&id).unwrap();
                if reason == RejectReason::CONSUMER {
                    let data = trimmed(&private_data).to_vec();
                    fate.received.push(("REJ", data));
                }
            }
            Event::Unreachable { id } if is_resolution(&id) => side.resolved.push((id, false)),
            Event::Unreachable { id } => end(id, "unreachable"),
            Event::Disconnected { id, .. } => end(id, "disconnected"),
            Event::TimewaitExit { id } => {
                let fate = side.fates.get_mut(&id).unwrap();
                assert!(fate.end.is_some(), "{id} has ended");
                fate.has_left_timewait = true;
            }
            Event::SidrRequest { id, .. } => self.plan(at, 8_000, Task::Answer(id)),
            Event::SidrResponse { id, response, .. } => {
                assert_eq!(response.qpn, Qpn::new(0x21));
                side.resolved.push((id, true));
            }
        }
    }

    /// Plans the destruction of one in eight connections.
    fn plan_destruction(&mut self, side: usize, id: CommunicationId) {
        if self.random.below(8) == 0 {
            self.plan(side, 30_000, Task::Destroy(id));
        }
    }

    /// Checks that both sides hold the expected connections and nothing else.
    fn check(&self) -> Counts {
        let mut counts = Counts::default();
        for at in 0..2 {
            let side = &self.sides[at];
            assert!(side.cm.is_idle(), "{:?}", side.cm);
            counts.retransmissions += side.cm.statistics().retransmissions;
            counts.duplicates += side.cm.statistics().duplicates;
            counts.resolved += side.resolved.iter().filter(|(_, found)| *found).count();
            for (id, fate) in &side.fates {
                assert!(fate.end.is_some(), "{id}: {fate:?}");
                assert!(fate.has_left_timewait, "{id}: {fate:?}");
                *counts.ends.entry(fate.end.unwrap()).or_default() += 1;
                // A late REQ, or one whose REJ was lost, creates a second connection there.
                let other = &self.sides[1 - at];
                let named = |(peer, _): &(&CommunicationId, &Fate)| {
                    other.peers.get(peer) == Some(id) || side.peers.get(id) == Some(peer)
                };
                let others: Vec<_> = other.fates.iter().filter(named).map(|it| it.1).collect();
                check_private_data(fate, &others);
                let other = side.peers.get(id).and_then(|peer| other.fates.get(peer));
                if let Some(other) = other.filter(|_| fate.is_established) {
                    // If one side considers a connection established, the other side has never
                    // refused it.
                    assert_ne!(other.end, Some("rejected"), "{id}: {fate:?} {other:?}");
                }
                if let Some(other) = other.filter(|it| it.is_established && fate.is_established) {
                    assert_eq!(fate.qpns, (other.qpns.1, other.qpns.0));
                    counts.established += 1;
                }
            }
        }
        counts
    }
}

/// Asserts that a side has received what the other one has sent.
fn check_private_data(fate: &Fate, others: &[&Fate]) {
    for received in &fate.received {
        let mut sent = others.iter().flat_map(|other| &other.sent);
        assert!(sent.any(|sent| sent == received), "{received:?} {others:?}");
    }
}

#[derive(Debug, Default)]
struct Counts {
    ends: BTreeMap<&'static str, u64>,
    established: u64,
    resolved: usize,
    retransmissions: u64,
    duplicates: u64,
}

impl Counts {
    fn add(&mut self, other: &Self) {
        for (end, count) in &other.ends {
            *self.ends.entry(end).or_default() += count;
        }
        self.established += other.established;
        self.resolved += other.resolved;
        self.retransmissions += other.retransmissions;
        self.duplicates += other.duplicates;
    }
}

const BAD: Faults = Faults {
    loss: 200,
    duplication: 200,
    reordering: 300,
    jitter: Duration::from_ms(6_000),
    blackout: Instant::MAX,
};

fn for_seeds(faults: impl Fn(u64) -> Faults) -> Counts {
    let mut sum = Counts::default();
    for seed in 0..SEEDS {
        let mut run = Run::new(seed, faults(seed));
        let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            run.run();
            run.check()
        }));
        match ran {
            Ok(counts) => sum.add(&counts),
            Err(panic) => {
                eprintln!("seed {seed}");
                std::panic::resume_unwind(panic);
            }
        }
    }
    sum
}

/// Goal: a bad link changes only timing. Method: accepted connections are established and
/// disconnected on both sides; with 15 retries, 20 % loss makes no side unreachable.
#[test]
fn a_bad_link_changes_nothing() {
    let sum = for_seeds(|_| BAD);
    assert!(sum.established > 1000 && sum.resolved > 500, "{sum:?}");
    assert!(
        sum.retransmissions > 1000 && sum.duplicates > 1000,
        "{sum:?}"
    );
    assert_eq!(sum.ends.get("unreachable"), None, "{sum:?}");
}

/// Goal: a dead link leaves no state. Method: the link dies at some time; every connection ends on
/// both sides, at the latest by a timeout.
#[test]
fn a_dead_link_ends_every_connection() {
    let sum = for_seeds(|seed| {
        let at = Random::new(seed, 2).below(20_000);
        Faults {
            blackout: Instant::ZERO + Duration::from_ms(at),
            ..BAD
        }
    });
    assert!(sum.ends["unreachable"] > 100, "{sum:?}");
    assert!(sum.ends["disconnected"] > 1000, "{sum:?}");
}

#[test]
fn a_seed_reproduces_a_run() {
    let trace = || {
        let mut run = Run::new(7, BAD);
        run.run();
        let fates = run.sides.map(|side| side.fates);
        (run.now, format!("{fates:?}"))
    };
    assert_eq!(trace(), trace());
}
