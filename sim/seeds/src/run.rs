//! Runs a scenario: rounds of operations in a world, with checks between them.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;

use ferroce_driver::ModifyQp;
use ferroce_faults::FaultCounters;
use ferroce_spec::counter::Counter;
use ferroce_units::{Duration, Instant};
use ferroce_world::{Cpu, Next, Outcome, SharedRecorder, ThreadId, Watch, World};
use parking_lot::Mutex;

use crate::error::Wrong;
use crate::events::Events;
use crate::levels::Levels;
use crate::program::Operation;
use crate::scenario::{Scenario, ScenarioError};
use crate::state::{Results, State};

/// Period of a polling loop.
const GRID: Duration = Duration::from_ns(50);
/// Simulated time in which all writes become visible and all PCIe credits return.
const SETTLE_TIME: Duration = Duration::from_us(10);
/// Simulated time in which local requests complete and queue pairs become idle.
const LOCAL_LIMIT: Duration = Duration::from_ms(100);

/// The result of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Results of all requests.
    pub results: Results,
    /// Frames that the cards have sent.
    pub frames: u64,
    /// Number of faults.
    pub faults: u64,
    /// NAKs for PSN sequence errors, and local ACK timeouts: none without faults.
    pub recoveries: u64,
    /// Simulated time.
    pub took: Duration,
    /// Number of operations of each service and kind.
    pub kinds: BTreeMap<String, u64>,
}

impl Report {
    /// Adds another one.
    pub fn add(&mut self, other: &Self) {
        self.results.add(&other.results);
        self.frames += other.frames;
        self.faults += other.faults;
        self.recoveries += other.recoveries;
        self.took = self.took + other.took;
        for (kind, count) in &other.kinds {
            *self.kinds.entry(kind.clone()).or_default() += count;
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Results {
            posted,
            succeeded,
            failed,
            flushed,
            received,
        } = self.results;
        write!(
            f,
            "{posted} requests, {succeeded} completed, {failed} failed, "
        )?;
        write!(
            f,
            "{flushed} flushed, {received} messages received, {} frames, ",
            self.frames
        )?;
        write!(f, "{} faults, {} us", self.faults, self.took.as_ns() / 1000)
    }
}

/// The failure of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The error.
    pub what: String,
    /// Time at which it was detected.
    pub at: Instant,
    /// The last events before it.
    pub events: Vec<String>,
    /// State of each part of the world.
    pub state: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ns: {}", self.at.as_ns(), self.what)
    }
}

/// Runs a scenario.
///
/// `traced`: maximum number of last events in a failure.
///
/// # Errors
/// [`ScenarioError`] for a preset or a parameter that does not exist; within it [`Failure`].
pub fn run(scenario: &Scenario, traced: usize) -> Result<Result<Report, Failure>, ScenarioError> {
    let config = scenario.config()?;
    let mut world = match World::new(&config) {
        Ok(world) => world,
        Err(error) => {
            return Err(ScenarioError::Value {
                key: "hosts".to_owned(),
                value: scenario.hosts.to_string(),
                expected: error.to_string(),
            });
        }
    };
    let events = (traced > 0).then(|| Arc::new(Mutex::new(Events::new(traced))));
    let attempt = || Run::start(&mut world, scenario, events.clone()).and_then(Run::finish);
    let result = catch_unwind(AssertUnwindSafe(attempt)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(Wrong::new(format!("panic: {}", text.unwrap_or_default())))
    });
    Ok(result.map_err(|wrong| Failure {
        what: wrong.0,
        at: world.now(),
        events: events.map_or(Vec::new(), |events| events.lock().lines()),
        state: world.dump(),
    }))
}

/// A run in progress.
struct Run<'a> {
    world: &'a mut World,
    scenario: &'a Scenario,
    state: Rc<RefCell<State>>,
    events: Option<Arc<Mutex<Events>>>,
}

impl<'a> Run<'a> {
    fn start(
        world: &'a mut World,
        scenario: &'a Scenario,
        events: Option<Arc<Mutex<Events>>>,
    ) -> Result<Self, Wrong> {
        let state = State::new(world, scenario)?;
        let mut run = Self {
            world,
            scenario,
            state: Rc::new(RefCell::new(state)),
            events,
        };
        run.record();
        Ok(run)
    }

    fn record(&mut self) {
        let events = self.events.clone();
        self.world
            .record(events.map(|events| events as SharedRecorder));
    }

    fn finish(mut self) -> Result<Report, Wrong> {
        for round in 0..self.scenario.rounds {
            let place = |wrong: Wrong| wrong.at(format!("round {round}"));
            self.prepare(round).map_err(place)?;
            self.round().map_err(place)?;
            self.settle();
            self.state.borrow_mut().check_round().map_err(place)?;
            self.check_levels().map_err(place)?;
            self.repair().map_err(place)?;
        }
        self.tear_down()?;
        Ok(self.report())
    }

    /// Connects broken connections, and binds windows.
    fn prepare(&mut self, round: usize) -> Result<(), Wrong> {
        let mut state = self.state.borrow_mut();
        let State { links, hosts, .. } = &mut *state;
        for (number, link) in links.iter_mut().enumerate() {
            if link.is_broken {
                link.connect(self.world)?;
            }
            for side in 0..2 {
                let host = &hosts[link.ends[side].host];
                link.offer_again(number, side, host)?;
                link.bind(number, side, host)?;
            }
        }
        state.begin_round(round);
        drop(state);
        self.rest()?;
        let mut state = self.state.borrow_mut();
        for connection in 0..state.links.len() {
            for side in 0..2 {
                state.feed(connection, side)?;
            }
        }
        Ok(())
    }

    /// Runs without threads until the world is idle, and polls.
    fn rest(&mut self) -> Result<(), Wrong> {
        let outcome = self.world.run(self.world.now() + LOCAL_LIMIT);
        if outcome != Outcome::Idle {
            return Err(Wrong::new(format!(
                "the cards do not come to rest: {outcome:?}"
            )));
        }
        let mut state = self.state.borrow_mut();
        (0..self.scenario.hosts).try_for_each(|host| state.poll(host))
    }

    /// Executes the operations of a round, and waits until the world is idle.
    fn round(&mut self) -> Result<(), Wrong> {
        let shared = Rc::new(RefCell::new(Progress::default()));
        let threads: Vec<_> = (0..self.scenario.hosts)
            .map(|host| self.spawn(host, &shared))
            .collect();
        let until = self.world.now() + self.scenario.limit;
        let mut outcome = self.world.run(until);
        if shared.borrow().is_over {
            // Packets in flight arrive.
            outcome = self.world.run(until);
        }
        for thread in threads {
            self.world.kill(thread);
        }
        if let Some(wrong) = shared.borrow_mut().wrong.take() {
            return Err(wrong);
        }
        let is_over = shared.borrow().is_over;
        let is_at_rest = outcome == Outcome::Stalled && self.world.next_event().is_none();
        if is_over && is_at_rest {
            return Ok(());
        }
        let why = match is_over {
            true => "all requests are complete, but events go on".to_owned(),
            false if self.finds_completions() => {
                "completions are there, but a polling thread was not woken".to_owned()
            }
            false => {
                let oldest = self.state.borrow().oldest_outstanding();
                format!("requests have no completion: {}", oldest.join("; "))
            }
        };
        Err(Wrong::new(format!("{outcome:?}: {why}")))
    }

    /// Returns true if polling finds completions.
    fn finds_completions(&self) -> bool {
        let mut state = self.state.borrow_mut();
        let before = state.results;
        let hosts = 0..self.scenario.hosts;
        let is_fine = hosts.clone().all(|host| state.poll(host).is_ok());
        !is_fine || state.results != before
    }

    fn spawn(&mut self, host: usize, progress: &Rc<RefCell<Progress>>) -> ThreadId {
        let state = self.state.borrow();
        let links = &state.links;
        let is_own = |o: &&Operation| links[o.connection].ends[o.side].host == host;
        let operations = state.program.round(state.round).filter(is_own).cloned();
        let mut program = HostProgram {
            host,
            operations: operations.collect(),
            due: self.world.now(),
            has_commanded: false,
            state: Rc::clone(&self.state),
            progress: Rc::clone(progress),
            events: self.events.clone(),
        };
        progress.borrow_mut().left += program.operations.len();
        drop(state);
        self.world
            .spawn(host, Box::new(move |cpu: &mut Cpu<'_>| program.step(cpu)))
    }

    /// Checks that every queue and pool of the cards is empty.
    fn check_levels(&mut self) -> Result<(), Wrong> {
        let levels = Arc::new(Mutex::new(Levels::default()));
        self.world
            .record(Some(Arc::clone(&levels) as SharedRecorder));
        self.record();
        levels.lock().check()?;
        let state = self.state.borrow();
        state.hosts.iter().try_for_each(|host| host.check_driver())
    }

    /// Lets time pass in which the last writes become visible and PCIe credits return, for which no
    /// events remain.
    fn settle(&mut self) {
        let end = self.world.now() + SETTLE_TIME;
        let wait = move |cpu: &mut Cpu<'_>| {
            if cpu.now() < end {
                Next::At(end)
            } else {
                Next::Done
            }
        };
        self.world.spawn(0, Box::new(wait));
        self.world.run(end + GRID);
    }

    /// Resets the queue pairs of connections that have failed or were expected to fail.
    fn repair(&mut self) -> Result<(), Wrong> {
        let broken: Vec<_> = {
            let state = self.state.borrow();
            (0..state.links.len())
                .filter(|link| state.links[*link].is_broken || state.may_break(*link))
                .collect()
        };
        self.fail(&broken)?;
        let mut state = self.state.borrow_mut();
        for number in broken {
            let link = &mut state.links[number];
            link.modify_both(&ModifyQp::ToReset)?;
            link.is_broken = true;
        }
        Ok(())
    }

    /// Moves connections to ERR, and checks that each receive is then complete.
    fn fail(&mut self, links: &[usize]) -> Result<(), Wrong> {
        {
            let mut state = self.state.borrow_mut();
            for number in links {
                state.links[*number].is_broken = true;
                state.links[*number].modify_both(&ModifyQp::ToErr)?;
            }
        }
        self.rest()?;
        let state = self.state.borrow();
        for number in links {
            let ends = &state.links[*number].ends;
            if let Some(end) = ends.iter().find(|end| end.outstanding > 0) {
                return Err(Wrong::new(format!(
                    "connection {number}: {} receives of host {} are not flushed",
                    end.outstanding, end.host
                )));
            }
        }
        Ok(())
    }

    /// Moves everything to ERR, checks the remaining state, and destroys all objects.
    fn tear_down(&mut self) -> Result<(), Wrong> {
        let all: Vec<_> = (0..self.state.borrow().links.len()).collect();
        let connected = all
            .into_iter()
            .filter(|link| !self.state.borrow().links[*link].is_broken);
        let connected: Vec<_> = connected.collect();
        self.fail(&connected)?;
        let mut state = self.state.borrow_mut();
        state
            .hosts
            .iter_mut()
            .try_for_each(|host| host.check_shared())?;
        for link in &mut state.links {
            for end in &mut link.ends {
                end.window = None;
                if let Some(region) = end.offered.take() {
                    region.deregister().map_err(Wrong::of)?;
                }
                end.qp.destroy().map_err(Wrong::of)?;
            }
        }
        state.links.clear();
        state.hosts.iter().try_for_each(|host| host.destroy())
    }

    fn report(&self) -> Report {
        let state = self.state.borrow();
        let (mut frames, mut faults, mut recoveries) = (0, 0, 0);
        for host in 0..self.scenario.hosts {
            let counters = self.world.counters(host);
            let (nic, link) = (&counters.nic, &counters.link);
            recoveries += nic.value(Counter::sequence_naks_sent);
            recoveries += nic.value(Counter::local_ack_timeouts);
            frames += link.sent_frames;
            let list = link.faults.iter().flat_map(FaultCounters::list);
            faults += list.map(|(_, value)| value).sum::<u64>();
        }
        let mut kinds = BTreeMap::new();
        for operation in &state.program.operations {
            *kinds.entry(operation.name(&state.program)).or_insert(0) += 1;
        }
        Report {
            results: state.results,
            frames,
            faults,
            recoveries,
            took: self.world.now() - Instant::ZERO,
            kinds,
        }
    }
}

/// The progress of the threads.
#[derive(Default)]
struct Progress {
    /// Operations that no thread has executed.
    left: usize,
    /// True if all operations are executed and all requests are complete.
    is_over: bool,
    wrong: Option<Wrong>,
}

/// The program of a host: executes its operations one after the other.
struct HostProgram {
    host: usize,
    operations: VecDeque<Operation>,
    /// When the first of them is executed.
    due: Instant,
    /// True if this step has executed a command of the device: its writes are already in memory, so
    /// no write would wake a thread that waits for them.
    has_commanded: bool,
    state: Rc<RefCell<State>>,
    progress: Rc<RefCell<Progress>>,
    events: Option<Arc<Mutex<Events>>>,
}

impl HostProgram {
    fn step(&mut self, cpu: &mut Cpu<'_>) -> Next {
        let result = self.state.borrow_mut().poll(self.host);
        let result = result.and_then(|()| self.execute_due(cpu));
        let mut progress = self.progress.borrow_mut();
        let outstanding = self.state.borrow().outstanding();
        if let Err(wrong) = result {
            progress.wrong.get_or_insert(wrong);
            cpu.leave();
        } else if progress.left == 0 && outstanding == 0 && !progress.is_over {
            progress.is_over = true;
            cpu.leave();
        }
        if std::mem::take(&mut self.has_commanded) {
            return Next::At(cpu.now() + GRID);
        }
        if !self.operations.is_empty() && self.due > cpu.now() {
            cpu.set_deadline(self.due);
        }
        Next::OnWrite {
            not_before: cpu.now() + GRID,
            grid: GRID,
            watch: Watch::Completions,
        }
    }

    /// Executes operations until the next one is not due, or its queue is full.
    fn execute_due(&mut self, cpu: &mut Cpu<'_>) -> Result<(), Wrong> {
        while let Some(operation) = self.operations.front() {
            if self.due > cpu.now() || !self.state.borrow_mut().execute(operation)? {
                return Ok(());
            }
            self.has_commanded |= !operation.kind.is_posted();
            if let Some(events) = &self.events {
                events.lock().note(cpu.now(), self.host, operation);
            }
            self.operations.pop_front();
            let pause = self.operations.front().map(|operation| operation.pause);
            self.due = cpu.now() + pause.unwrap_or_default();
            self.progress.borrow_mut().left -= 1;
        }
        Ok(())
    }
}
