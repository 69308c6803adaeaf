//! The communication manager of this process: one for all its channels and devices.
//!
//! Its state has one lock. Commands of the program take it; an event of QP 1, which may come on any
//! thread and inside any call of the driver, only tries: if the lock is taken, its holder looks
//! again before and after it releases it ([`Agent::run`]).

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once, Weak};
use std::time::{Duration, Instant as WallInstant};

use ferroce_driver::bus::Slept;
use ferroce_platform::os;
use ferroce_rdma_cm::{ChannelId, Config, Disposition, RdmaCm, Reply, Transmit};
use ferroce_units::Instant;
use parking_lot::Mutex;

use super::Manager;
use super::announced::Announced;
use super::gsi::{Gsi, Received};
use super::host::ProcessHost;
use super::report::Report;
use super::timer::Timer;
use crate::adapter::Adapter;
use crate::errno::Errno;
use crate::os::event_fd::EventFd;
use crate::os::fork::{Generation, ProcessLock};
use crate::tenancy::{End, NotifyOnDrop};

/// Rounds of receiving and sending in one call; what is left then raises another event.
const MAX_ROUNDS: usize = 64;

/// How often the agent checks that the processes at the other end of its connections are alive.
const LIVENESS_INTERVAL: ferroce_units::Duration = ferroce_units::Duration::from_ms(100);

/// How long a request for a service without a listener waits for one. perftest and qperf close a
/// listener and open the next one while the client is connecting; on Linux the client's address and
/// route resolution take longer than that, here they take no time.
const HOLD_TIME: ferroce_units::Duration = ferroce_units::Duration::from_ms(30);

/// Maximum number of such requests; others are refused at once.
const MAX_HELD: usize = 256;

/// Time limit for another thread that uses the agent while the process exits.
const EXIT_LIMIT: Duration = Duration::from_secs(1);

/// Tag of communication identifiers in a process that shares its address with no other.
const ONLY_PROCESS: u8 = 1;

/// The communication manager of this process.
pub struct Agent {
    me: Weak<Agent>,
    generation: Generation,
    state: Mutex<State>,
    /// True if QP 1 may have something that is not taken yet.
    pending: AtomicBool,
    /// Node GUIDs of devices that have failed since the last run.
    failed: Mutex<Vec<u64>>,
    timer: Arc<Timer>,
    started: WallInstant,
    /// Dropped after the state with its QPs.
    end: NotifyOnDrop,
}

struct State {
    cm: RdmaCm,
    host: ProcessHost,
    links: Vec<Gsi>,
    announced: BTreeMap<ChannelId, Announced>,
    next_liveness: Option<Instant>,
    report: Report,
    /// Requests for a service without a listener, and when they are refused.
    held: VecDeque<(Instant, Received)>,
    /// Keeps the agent while connections end whose channel is closed.
    keep: Option<Arc<Agent>>,
}

/// The agent of this process while it has channels or connections, and its end: the moment when its
/// devices have released QP 1.
#[derive(Clone)]
struct Opened {
    agent: Weak<Agent>,
    generation: Generation,
    end: End,
}

static AGENT: Mutex<Option<Opened>> = Mutex::new(None);

/// Time that opening a channel waits for the end of the last agent.
const CLOSING_LIMIT: Duration = Duration::from_secs(10);

impl Agent {
    /// Returns the agent of this process; creates it if there is none.
    ///
    /// # Errors
    /// The errors of opening the devices; `ENODEV` if none of them has QP 1 for this process,
    /// `EBUSY` when the last agent does not end.
    pub fn of_this_process() -> Result<Arc<Self>, Errno> {
        let deadline = WallInstant::now() + CLOSING_LIMIT;
        // Before the fork lock is taken, because opening a device takes it, too.
        let mut adapters = None;
        loop {
            let opened = Self::opened();
            if let Some(agent) = opened.as_ref().and_then(|opened| opened.agent.upgrade()) {
                return Ok(agent);
            }
            let left = deadline.saturating_duration_since(WallInstant::now());
            if opened.is_some_and(|opened| !opened.end.wait(left)) {
                return Err(Errno::BUSY);
            }
            let Some(adapters) = adapters.take() else {
                adapters = Some(open_adapters()?);
                continue;
            };
            if let Some(agent) = Self::create_once(adapters)? {
                static AT_EXIT: Once = Once::new();
                // Registered after the function's own exit handler, and so run before it.
                AT_EXIT.call_once(|| os::at_exit(disconnect_at_exit));
                agent.run();
                return Ok(agent);
            }
        }
    }

    /// Returns the last agent that this process, not its parent, has created.
    fn opened() -> Option<Opened> {
        let _no_fork = ProcessLock::enter();
        let opened = AGENT.lock().clone();
        opened.filter(|opened| opened.generation.is_current())
    }

    /// Creates the agent, unless another thread has done so meanwhile. A device has one QP 1, so
    /// two threads cannot try at a time.
    fn create_once(adapters: Vec<Arc<Adapter>>) -> Result<Option<Arc<Self>>, Errno> {
        let _no_fork = ProcessLock::enter();
        let mut shared = AGENT.lock();
        let mut opened = shared.iter();
        if opened.any(|opened| opened.generation.is_current() && !opened.end.is_over()) {
            return Ok(None);
        }
        let agent = Self::create(adapters)?;
        *shared = Some(Opened {
            agent: Arc::downgrade(&agent),
            generation: agent.generation,
            end: agent.end.end(),
        });
        Ok(Some(agent))
    }

    fn create(adapters: Vec<Arc<Adapter>>) -> Result<Arc<Self>, Errno> {
        let peers = adapters.first().and_then(|adapter| adapter.host_peers());
        let tag = peers.map_or(ONLY_PROCESS, |peers| peers.number());
        let mut failure = Errno::new(libc::ENODEV);
        let agent = Arc::new_cyclic(|me: &Weak<Self>| {
            let mut links = Vec::new();
            for adapter in adapters {
                let agent = Weak::clone(me);
                let on_event = move || {
                    if let Some(agent) = agent.upgrade() {
                        agent.run();
                        release(agent);
                    }
                };
                match Gsi::open(adapter, on_event) {
                    Ok(link) => {
                        report_failure(&link, me);
                        links.push(link);
                    }
                    Err(errno) => failure = errno,
                }
            }
            let config = Config {
                // Differs from the id of the process that had this place before.
                first_id: std::process::id() << 8,
                ..Config::functional(tag)
            };
            Self {
                me: Weak::clone(me),
                generation: Generation::current(),
                state: Mutex::new(State {
                    cm: RdmaCm::new(config),
                    host: ProcessHost::new(&links, peers),
                    links,
                    announced: BTreeMap::new(),
                    next_liveness: None,
                    report: Report::default(),
                    held: VecDeque::new(),
                    keep: None,
                }),
                pending: AtomicBool::new(true),
                failed: Mutex::default(),
                timer: Arc::new(Timer::default()),
                started: WallInstant::now(),
                end: NotifyOnDrop::default(),
            }
        });
        if agent.state.lock().links.is_empty() {
            return Err(failure);
        }
        agent.start_timer().map_err(|error| {
            tracing::error!(%error, "no thread for the time-outs of RDMA CM");
            Errno::NO_MEMORY
        })?;
        Ok(agent)
    }

    /// Starts the thread that runs the time-outs, and waits until it runs: a program may patch
    /// functions of libc, as libfabric does, and a thread that starts meanwhile would execute
    /// half-patched code. The thread never runs a signal handler of the application.
    fn start_timer(&self) -> io::Result<()> {
        let builder = std::thread::Builder::new().name("ferroce-cm".to_owned());
        let (timer, agent) = (Arc::clone(&self.timer), Weak::clone(&self.me));
        os::with_signals_blocked(|| builder.spawn(move || run_time_outs(&timer, &agent)))?;
        self.timer.wait_for_start()
    }

    /// Changes the state, then sends and announces the results.
    fn with<R>(&self, change: impl FnOnce(&mut State, Instant) -> R) -> R {
        let mut state = self.state.lock();
        let result = change(&mut state, self.now());
        self.pending.store(true, Ordering::Release);
        drop(state);
        self.run();
        result
    }

    /// Receives, sends and runs time-outs, unless another thread does: that one repeats it.
    pub fn run(&self) {
        self.pending.store(true, Ordering::Release);
        while self.pending.load(Ordering::Acquire) {
            let Some(mut state) = self.state.try_lock() else {
                return;
            };
            self.pending.store(false, Ordering::Release);
            for node_guid in self.failed.lock().drain(..) {
                state.remove_device(self.now(), node_guid);
            }
            let due = state.settle(self.now());
            let due = due.into_iter().chain(state.publish(self.now())).min();
            self.timer.set(due.map(|due| self.wall(due)));
            let retired = state.update_keep(&self.me);
            drop(state);
            if let Some(retired) = retired {
                release(retired);
            }
        }
    }

    fn now(&self) -> Instant {
        let elapsed = self.started.elapsed().as_nanos();
        Instant::from_ns(u64::try_from(elapsed).unwrap_or(u64::MAX))
    }

    fn wall(&self, instant: Instant) -> WallInstant {
        self.started + Duration::from_nanos(instant.as_ns())
    }
}

impl Manager for Agent {
    fn is_current(&self) -> bool {
        self.generation.is_current()
    }

    fn open_channel(&self, fd: Arc<EventFd>) -> Result<ChannelId, Errno> {
        self.with(|state, _| {
            let id = state
                .cm
                .open_channel()
                .map_err(|errno| Errno::new(errno.0))?;
            state.announced.insert(id, Announced::new(fd));
            Ok(id)
        })
    }

    fn close_channel(&self, id: ChannelId) {
        self.with(|state, now| {
            state.announced.remove(&id);
            state.cm.close_channel(now, &mut state.host, id);
        });
    }

    fn command(&self, channel: ChannelId, bytes: &[u8], option: &[u8]) -> Result<Reply, Errno> {
        self.with(|state, now| {
            let reply = state
                .cm
                .command(now, &mut state.host, channel, bytes, option);
            reply.map_err(|errno| Errno::new(errno.0))
        })
    }

    fn migrate(
        &self,
        channel: ChannelId,
        bytes: &[u8],
        source: Result<ChannelId, ferroce_rdma_cm::Errno>,
    ) -> Result<Reply, Errno> {
        self.with(|state, _| {
            let reply = state.cm.migrate(channel, bytes, source);
            reply.map_err(|errno| Errno::new(errno.0))
        })
    }

    fn sleep_until_event(&self, _channel: ChannelId) -> Option<Slept> {
        None
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.timer.stop();
    }
}

/// Runs the time-outs while there is an agent.
fn run_time_outs(timer: &Timer, agent: &Weak<Agent>) {
    timer.note_start();
    while timer.wait() {
        let Some(agent) = agent.upgrade() else {
            return;
        };
        agent.run();
    }
}

/// Opens the first function, which has QP 1, of all devices of this process.
fn open_adapters() -> Result<Vec<Arc<Adapter>>, Errno> {
    let devices = 0..crate::host::identities()?.len();
    devices
        .map(|index| Adapter::open_first(index as u8))
        .collect()
}

/// Ends the connections of a program that exits without closing its channels, as the kernel does.
extern "C" fn disconnect_at_exit() {
    let opened = AGENT.try_lock().and_then(|opened| opened.clone());
    let agent = opened.and_then(|opened| opened.agent.upgrade());
    let Some(agent) = agent.filter(|agent| agent.is_current()) else {
        return;
    };
    let channels = agent.state.try_lock_for(EXIT_LIMIT).map(|mut state| {
        let channels = std::mem::take(&mut state.announced);
        channels.into_keys().collect::<Vec<_>>()
    });
    for channel in channels.unwrap_or_default() {
        agent.close_channel(channel);
    }
    // Not dropped here: other threads may use it until the process has ended.
    std::mem::forget(agent);
}

/// Notifies the agent when the device of a link fails.
fn report_failure(link: &Gsi, agent: &Weak<Agent>) {
    let (agent, node_guid) = (Weak::clone(agent), link.node_guid());
    link.adapter().on_fatal(move || {
        if let Some(agent) = agent.upgrade() {
            agent.failed.lock().push(node_guid);
            agent.run();
            release(agent);
        }
    });
}

/// Drops a reference. The last one is dropped on a separate thread: closing the devices takes
/// commands, which an event handler must not issue.
fn release(agent: Arc<Agent>) {
    if let Some(agent) = Arc::into_inner(agent) {
        let builder = std::thread::Builder::new().name("ferroce-cm".to_owned());
        // Without a thread the closure, and so the agent, is dropped here.
        let _ = os::with_signals_blocked(|| builder.spawn(move || drop(agent)));
    }
}

impl State {
    /// Removes a failed device: its ids end, and no id gets it any more.
    fn remove_device(&mut self, now: Instant, node_guid: u64) {
        let guid = format_args!("{node_guid:016x}");
        tracing::warn!(node_guid = %guid, "RDMA CM: the device has failed");
        self.cm.remove_device(now, &mut self.host, node_guid);
        self.host.remove_device(node_guid);
    }

    /// Receives and sends until nothing is left, and returns when to come back.
    fn settle(&mut self, now: Instant) -> Option<Instant> {
        self.cm.handle_timeout(now, &mut self.host);
        self.end_lost(now);
        self.refuse_held(now);
        for _ in 0..MAX_ROUNDS {
            let received: Vec<_> = self.links.iter().flat_map(Gsi::receive).collect();
            let mut worked = !received.is_empty();
            for datagram in &received {
                self.take(now, datagram);
            }
            while let Some(transmit) = self.cm.poll_mad() {
                self.transmit(now, &transmit);
                worked = true;
            }
            if !worked && self.arm() {
                self.announce();
                let held = self.held.front().map(|(due, _)| *due);
                let others = self.next_liveness.into_iter().chain(held);
                return self.cm.next_timeout().into_iter().chain(others).min();
            }
        }
        self.announce();
        Some(now)
    }

    /// Requests events. Returns false if something has already arrived, for which no event will
    /// come.
    fn arm(&self) -> bool {
        let left = self.links.iter().filter(|link| !link.arm());
        left.count() == 0
    }

    /// From time to time, ends connections to processes of this machine that have ended.
    fn end_lost(&mut self, now: Instant) {
        if self.next_liveness.is_some_and(|next| now < next) {
            return;
        }
        let Some(peers) = self.host.peers() else {
            return;
        };
        let has_ended = |address, tag| peers.has_ended(address, tag);
        self.cm.end_lost(now, &mut self.host, has_ended);
        let is_needed = self.cm.has_connections();
        self.next_liveness = is_needed.then(|| now + LIVENESS_INTERVAL);
    }

    fn take(&mut self, now: Instant, datagram: &Received) {
        let Received { from, to, mad } = datagram;
        let host = &mut self.host;
        let disposition = self.cm.handle_mad(now, host, *from, *to, mad);
        let is_refused = match disposition {
            Disposition::Taken => false,
            Disposition::NoListener(service) => host.refuses(*to, service),
            Disposition::NotOurs(tag) => host.answers_for(*to, tag),
            Disposition::Malformed(error) => {
                tracing::debug!(%error, "datagram on QP 1 dropped");
                false
            }
        };
        match disposition {
            _ if !is_refused => {}
            Disposition::NoListener(_) if self.held.len() < MAX_HELD => {
                self.held.push_back((now + HOLD_TIME, datagram.clone()));
            }
            _ => self.cm.refuse(*from, *to, mad),
        }
    }

    /// Refuses requests whose service has had no listener for [`HOLD_TIME`].
    fn refuse_held(&mut self, now: Instant) {
        while let Some((_, datagram)) = self.held.pop_front_if(|(due, _)| *due <= now) {
            let Received { from, to, mad } = &datagram;
            let host = &mut self.host;
            let disposition = self.cm.handle_mad(now, host, *from, *to, mad);
            // Another process may have a listener by now, which gets the next copy.
            if matches!(disposition, Disposition::NoListener(it) if self.host.refuses(*to, it)) {
                self.cm.refuse(*from, *to, mad);
            }
        }
    }

    fn transmit(&mut self, now: Instant, transmit: &Transmit) {
        let Transmit { from, to, mad } = transmit;
        let link = self.links.iter().find(|link| link.owns(*from));
        match link {
            // A refusal in the name of a host without a communication manager, see below.
            None => {
                self.cm
                    .handle_mad(now, &mut self.host, *from, *to, &mad[..]);
            }
            Some(_) if self.host.is_deserted(*to) => self.cm.refuse(*from, *to, &mad[..]),
            Some(link) => {
                if let Err(errno) = link.send(*from, *to, mad) {
                    tracing::debug!(?errno, %to, "datagram of RDMA CM not sent");
                }
            }
        }
    }

    /// Makes each descriptor show the events of its channel.
    fn announce(&mut self) {
        for (id, announced) in &mut self.announced {
            announced.show(self.cm.waiting_events(*id));
        }
    }

    /// Publishes what has changed, at most once in an interval. Returns when to come back for what
    /// is not published yet.
    fn publish(&mut self, now: Instant) -> Option<Instant> {
        let peers = self.host.peers()?;
        self.report.publish(now, &self.cm, &peers)
    }

    /// Keeps the agent, or returns the reference that kept it.
    fn update_keep(&mut self, me: &Weak<Agent>) -> Option<Arc<Agent>> {
        let is_ending = self.announced.is_empty() && !self.cm.is_idle();
        match (is_ending, &self.keep) {
            (true, None) => {
                self.keep = me.upgrade();
                None
            }
            (false, Some(_)) => self.keep.take(),
            _ => None,
        }
    }
}
