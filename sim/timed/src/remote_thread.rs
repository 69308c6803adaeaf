//! A thread of another process, as a thread of the world.
//!
//! A step passes the turn to the thread, waits until the thread passes it back, executes the
//! thread's stores, and returns to the world what the thread waits for. Some waits need a second
//! check when the world has reached the thread's own time: then the world decides without the
//! thread whether there is something to read.
//!
//! The content of a page is checked: a program with invalid pages is removed.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration as RealDuration, Instant as RealInstant};

use ferroce_driver::bus::Bus;
use ferroce_platform::os::time_stamp::{disable_rdtsc, machine_ns};
use ferroce_spec::doorbell::{BAR2_SIZE, SLOT_SIZE};
use ferroce_spec::register::BAR0_SIZE;
use ferroce_timed_protocol::cm::{self, CmCall};
use ferroce_timed_protocol::page::{NEVER_PS, ThreadPage, Turn};
use ferroce_timed_protocol::request::{Check, Wait};
use ferroce_timed_protocol::spin_policy::SpinPolicy;
use ferroce_timed_protocol::store::{Store, StoreKind};
use ferroce_timed_protocol::{MOST_AHEAD_PS, STUCK};
use ferroce_units::{Duration, Instant};
use ferroce_world::{Cpu, Next, Thread, ThreadId, Waker, Watch};

use super::addresses::{Addresses, Place};
use super::cm_agent::CmAgents;
use super::program::Program;
use super::shared::{Event, Shared};
use super::stall::{Stall, Verdict};
use super::streams::{Readable, Streams};

mod cm_calls;
mod each_other;
mod ends;
mod record_work;
mod reports;

use record_work::record_work;

/// Time limit of a wait in the kernel. Longer than a kernel tick: for a shorter limit the kernel
/// reprograms its timer, which costs a virtual machine more than the wait.
const LIMIT: RealDuration = RealDuration::from_millis(20);
/// The same for a thread that lets time pass in steps: a step for each of these.
const STUCK_LIMIT: RealDuration = RealDuration::from_millis(1);
/// Latest valid clock of a thread, about 53 days.
const MAX_CLOCK_PS: u64 = 1 << 62;
/// Longest iteration of a polling loop, and longest wake-up latency: ten seconds.
const MAX_COST_PS: u64 = 10_000_000_000_000;
/// Answer to a wait for a stream or a connection that ended for another reason.
const NOTHING: u64 = u64::MAX;

/// A thread for which the world does not wait, although it has its turn.
pub struct Outsider {
    pub thread: ThreadId,
    pub program: Arc<Program>,
    pub number: usize,
}

/// State that all threads of a world use.
pub struct Common {
    pub shared: Arc<Shared>,
    pub cm_agents: RefCell<CmAgents<Program>>,
    pub waker: Waker,
    pub streams: RefCell<Streams>,
    pub addresses: RefCell<Addresses<ThreadId>>,
    pub outsiders: RefCell<Vec<Outsider>>,
    /// Decides how long the world spins for a thread before it sleeps in the kernel.
    spin_policy: SpinPolicy,
    /// Threads that have a place in the world.
    pub places: RefCell<Vec<Outsider>>,
}

impl Common {
    /// Creates the state of a world without programs. `waker`: the world's waker.
    pub fn new(shared: &Arc<Shared>, waker: Waker, cm_agents: CmAgents<Program>) -> Self {
        let spin_policy = SpinPolicy::new(machine_ns);
        spin_policy.prepare();
        Self {
            shared: Arc::clone(shared),
            cm_agents: RefCell::new(cm_agents),
            waker,
            streams: RefCell::default(),
            addresses: RefCell::default(),
            outsiders: RefCell::default(),
            spin_policy,
            places: RefCell::default(),
        }
    }
}

/// The waits that this module handles, not the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Goal {
    /// Its turn.
    Turn,
    /// An interrupt, unless one is there, or the program was notified since.
    Interrupt { wake_up: Duration, notices: u64 },
    /// An interrupt or notification, for a thread that already sleeps.
    Sleep,
    /// Something to read.
    Stream(u64),
    /// A connection.
    Connection(u16),
    /// The world to reach the time of the thread's check, and then more stores.
    Stores,
    /// Its return from outside.
    Return,
    /// The world to reach the time of its call of RDMA CM.
    Cm(CmCall),
    /// Another thread of its program to wake this address.
    Address(Place),
    /// Its own time: it was the last one at a barrier.
    LastAtBarrier,
}

/// Reason why a program is removed.
#[derive(Debug, thiserror::Error)]
enum ProtocolError {
    #[error("unknown request")]
    Request,
    #[error("its clock is at {0} ps")]
    Clock(u64),
    #[error("a call costs it {0} ps")]
    Cost(u64),
    #[error("it stores to {kind:?} {slot:#x}")]
    Store { kind: StoreKind, slot: u32 },
    #[error(transparent)]
    Streams(#[from] super::streams::TooMany),
}

/// A thread of another process.
pub struct RemoteThread {
    common: Rc<Common>,
    program: Arc<Program>,
    number: usize,
    bus: Arc<dyn Bus>,
    goal: Goal,
    deadline: Instant,
    answer: u64,
    /// Time at which the thread last caught up, and the time until which nothing happens after
    /// that.
    caught_up: Instant,
    quiet_until: Instant,
    /// True if the thread has stored since.
    has_stored: bool,
    /// Place of its next store to be executed.
    place: usize,
    /// Time for which its fenced stores have waited for the root port in this turn: its page knows
    /// nothing of it.
    fenced: Duration,
    has_explained: bool,
    /// True if the last turn followed more than a check: the thread had slept, or waited for
    /// something.
    has_rested: bool,
}

/// Result of a wait for a thread.
enum Back {
    Turn,
    Outside,
    Ended,
}

impl RemoteThread {
    /// Creates the thread of a program that has page `number`, with the bus of its host.
    pub fn new(
        common: &Rc<Common>,
        program: Arc<Program>,
        number: usize,
        bus: Arc<dyn Bus>,
    ) -> Self {
        Self {
            common: Rc::clone(common),
            program,
            number,
            bus,
            goal: Goal::Turn,
            deadline: Instant::MAX,
            answer: 0,
            caught_up: Instant::ZERO,
            quiet_until: Instant::ZERO,
            has_stored: false,
            place: 0,
            fenced: Duration::ZERO,
            has_explained: false,
            has_rested: true,
        }
    }

    /// Passes the turn to the thread and waits for its return. Returns what the thread waits for
    /// then.
    fn run(&mut self, cpu: &mut Cpu<'_>) -> Next {
        let program = Arc::clone(&self.program);
        let page = program.page(self.number);
        self.note_wake(cpu.thread());
        loop {
            self.write_turn_state(cpu, page);
            if !page.pass(Turn::Thread) {
                return self.end(cpu);
            }
            let next = match self.await_turn(page) {
                Back::Turn => self.take_back(cpu, page),
                Back::Outside => {
                    program.note_departure(&page.last_call.get());
                    self.explain();
                    Some(self.go_outside(cpu))
                }
                Back::Ended => Some(self.die(cpu, page)),
            };
            if let Some(next) = next {
                return next;
            }
        }
    }

    /// Writes the thread's data for its turn into the page.
    fn write_turn_state(&mut self, cpu: &Cpu<'_>, page: &ThreadPage) {
        // Its stores may cause a change.
        let quiet_until = if self.has_stored {
            Instant::ZERO
        } else {
            self.quiet_until
        };
        let (hidden_until, reaction) = self.common.waker.hidden_until(cpu.thread());
        let interrupts = self.common.take_interrupts(&self.program);
        for (cell, value) in [
            (&page.clock_ps, cpu.now().as_ps()),
            (&page.begun_ps, self.caught_up.as_ps()),
            (&page.quiet_until_ps, quiet_until.as_ps()),
            (&page.hidden_until_ps, hidden_until.as_ps()),
            (&page.reaction_ps, reaction.as_ps()),
            (&page.interrupts, interrupts),
            (&page.answer, std::mem::take(&mut self.answer)),
        ] {
            cell.store(value, Ordering::Relaxed);
        }
        page.turns.fetch_add(1, Ordering::Relaxed);
        self.fenced = Duration::ZERO;
        self.goal = Goal::Turn;
    }

    fn await_turn(&self, page: &ThreadPage) -> Back {
        let mut stall = None;
        let is_stuck = page.is_stuck.load(Ordering::Relaxed) != 0;
        let limit = if is_stuck { STUCK_LIMIT } else { LIMIT };
        disable_rdtsc();
        let spin_policy = &self.common.spin_policy;
        let mut turn = spin_policy.wait(page, Turn::Thread, limit);
        loop {
            match turn {
                Turn::World => {
                    if is_stuck && page.last_call.get() != STUCK {
                        page.is_stuck.store(0, Ordering::Relaxed);
                    }
                    return Back::Turn;
                }
                Turn::Ended => return Back::Ended,
                Turn::Thread => {}
            }
            let now = RealInstant::now();
            let stall = stall.get_or_insert_with(|| {
                let tid = page.tid.load(Ordering::Relaxed);
                let mut stall = Stall::new(self.program.pid, tid, now);
                if is_stuck {
                    stall.set_stuck();
                }
                stall
            });
            let calls = page.calls.load(Ordering::Relaxed);
            let uses = self.common.shared.uses(self.program.host);
            let clock_ps = page.clock_ps.load(Ordering::Relaxed);
            match stall.check(calls.wrapping_add(uses), clock_ps, now) {
                Verdict::Outside if page.turn() == Turn::Thread => return Back::Outside,
                Verdict::Spinning => {
                    self.report_stall(stall);
                    self.program.note_departure(STUCK);
                    page.is_stuck.store(1, Ordering::Relaxed);
                    stall.set_stuck();
                }
                Verdict::Standing => self.report_standing_clock(page, stall),
                _ => {}
            }
            if self.common.shared.is_stopping() {
                return Back::Ended;
            }
            self.common.shared.dump_if_wanted(|| {
                let (name, pid) = (self.program.name, self.program.pid);
                format!("waiting for a thread of process {pid} on host {name}: {stall}\n")
            });
            turn = page.sleep_while(Turn::Thread, limit);
        }
    }

    /// Takes the turn back. Returns `None` if the thread wants it again at once, and nothing has
    /// changed.
    fn take_back(&mut self, cpu: &mut Cpu<'_>, page: &ThreadPage) -> Option<Next> {
        match self.execute(cpu, page) {
            Ok(next) => {
                if self.common.shared.has_events() {
                    cpu.leave();
                }
                next
            }
            Err(error) => {
                let Program { name, pid, .. } = *self.program;
                eprintln!(
                    "ferroce world: process {pid} on host {name} has invalid pages: {error}; it \
                     gets no more turns"
                );
                self.program.end();
                self.common.shared.report(Event::Gone(self.program.clone()));
                Some(self.end(cpu))
            }
        }
    }

    /// Notes that the world has reached the thread's time.
    fn note_time(&mut self, cpu: &Cpu<'_>) {
        self.caught_up = cpu.now();
        self.quiet_until = cpu.quiet_until();
        self.has_stored = false;
    }

    /// Returns true if nothing visible at `at` has changed since the thread caught up.
    fn is_up_to_date(&self, at: Instant) -> bool {
        at <= self.caught_up || at < self.quiet_until && !self.has_stored
    }

    /// Returns true if the thread may store at `at` without having caught up.
    fn is_close(&self, at: Instant) -> bool {
        at <= self.caught_up + Duration(MOST_AHEAD_PS)
    }

    /// Executes the stores of the thread up to `clock`. Returns when the thread has checked memory,
    /// or is so far ahead of its card that the world has to catch up first.
    fn execute_stores(
        &mut self,
        cpu: &mut Cpu<'_>,
        page: &ThreadPage,
        clock: Instant,
    ) -> Result<Option<Instant>, ProtocolError> {
        while let Some((store, next)) = page.stores.get(self.place) {
            let at = Instant(store.at_ps).min(clock) + self.fenced;
            let is_close = match store.kind {
                StoreKind::Check => self.is_up_to_date(at),
                _ => self.is_close(at),
            };
            if !is_close {
                cpu.spend_until(at);
                return Ok(Some(at));
            }
            self.place = next;
            if store.kind != StoreKind::Check {
                self.has_stored = true;
                cpu.spend_until(at);
                let now = cpu.now();
                self.store(cpu.thread(), now, &store)?;
                self.fenced = self.fenced + (cpu.now() - now);
            }
        }
        page.stores.clear();
        self.place = 0;
        Ok(None)
    }

    /// Executes what the thread has done up to its clock, and its request. Returns what it does
    /// next; `None`: it continues at once, and nothing has changed.
    fn execute(
        &mut self,
        cpu: &mut Cpu<'_>,
        page: &ThreadPage,
    ) -> Result<Option<Next>, ProtocolError> {
        let clock = page.clock_ps.load(Ordering::Relaxed);
        if clock > MAX_CLOCK_PS {
            return Err(ProtocolError::Clock(clock));
        }
        let clock = Instant(clock).max(cpu.now() - self.fenced);
        record_work(cpu, page, clock);
        if let Some(at) = self.execute_stores(cpu, page, clock)? {
            self.goal = Goal::Stores;
            return Ok(Some(Next::At(at)));
        }
        let clock = clock + self.fenced;
        cpu.spend_until(clock);
        let wait = page.request.get().ok_or(ProtocolError::Request)?;
        let (program, number, call) = (self.program.id, self.number, page.last_call.get());
        let calls = page.calls.load(Ordering::Relaxed);
        tracing::trace!(program, number, ?clock, calls, call, ?wait, "a turn");
        match wait {
            Wait::Room if self.is_close(clock) => return Ok(None),
            Wait::Check if self.is_up_to_date(clock) => return Ok(None),
            _ => {}
        }
        self.let_others_check(cpu, &wait);
        self.deadline = Instant(page.deadline_ps.load(Ordering::Relaxed));
        if let Wait::OnWrite {
            check: Check::CompletionsUntil { time_ps } | Check::EverythingUntil { time_ps },
            ..
        } = wait
        {
            cpu.recheck_at(Instant(time_ps));
        }
        if matches!(wait, Wait::OnWrite { .. }) && self.common.waker.has_only_rechecks() {
            // With nothing in progress the conductor decides when threads check.
            cpu.leave();
        }
        if self.deadline.as_ps() < NEVER_PS {
            cpu.set_deadline(self.deadline);
        }
        self.next_of(cpu, page, wait, clock).map(Some)
    }

    /// Returns what the thread does next, at `clock`, after requesting `wait`.
    fn next_of(
        &mut self,
        cpu: &mut Cpu<'_>,
        page: &ThreadPage,
        wait: Wait,
        clock: Instant,
    ) -> Result<Next, ProtocolError> {
        let cost = |ps: u64| {
            if ps <= MAX_COST_PS {
                Ok(Duration(ps))
            } else {
                Err(ProtocolError::Cost(ps))
            }
        };
        Ok(match wait {
            Wait::Check | Wait::Room | Wait::Return => Next::At(clock),
            Wait::At { time_ps } if time_ps > MAX_CLOCK_PS => Next::Parked,
            Wait::At { time_ps } => Next::At(Instant(time_ps)),
            Wait::OnWrite { grid_ps, check } => Next::OnWrite {
                not_before: clock,
                grid: cost(grid_ps)?,
                watch: watch_of(check),
            },
            Wait::OnInterrupt { wake_up_ps } => {
                let (wake_up, notices) = (cost(wake_up_ps)?, self.program.notices());
                self.aim(Goal::Interrupt { wake_up, notices }, clock)
            }
            Wait::OnStream { stream } => self.aim(Goal::Stream(stream), clock),
            Wait::OnConnection { port } => self.aim(Goal::Connection(port), clock),
            Wait::Cm(call) => self.aim(Goal::Cm(call), clock),
            Wait::OnAddress { address, bits } => self.wait_at(cpu.thread(), address, bits, clock),
            Wait::AtBarrier { address, threads } => {
                self.arrive(cpu.thread(), address, threads, clock)
            }
            Wait::External => {
                // The thread keeps its turn, for as long as it needs.
                page.pass(Turn::Thread);
                self.go_outside(cpu)
            }
            Wait::End => self.end(cpu),
        })
    }

    /// Checks for `goal` when the world has reached the thread's time.
    fn aim(&mut self, goal: Goal, clock: Instant) -> Next {
        self.goal = goal;
        Next::At(clock)
    }

    /// Executes one store of the thread.
    fn store(
        &mut self,
        thread: ThreadId,
        now: Instant,
        store: &Store,
    ) -> Result<(), ProtocolError> {
        let Store { kind, slot, .. } = *store;
        let invalid = || ProtocolError::Store { kind, slot };
        let word = |place: usize| store.words().get(place).copied().ok_or_else(invalid);
        let port = || u16::try_from(slot).map_err(|_| invalid());
        let program = self.program.id;
        let mut streams = self.common.streams.borrow_mut();
        let woken = match kind {
            StoreKind::Doorbell => {
                self.bus.doorbell(slot, word(0)?);
                None
            }
            StoreKind::Push => {
                let end = u64::from(slot) + store.words().len() as u64;
                if store.words().is_empty() || end > u64::from(BAR2_SIZE / SLOT_SIZE) {
                    return Err(invalid());
                }
                self.bus.push(slot, store.words());
                None
            }
            StoreKind::Register => {
                if slot % 4 != 0 || slot >= BAR0_SIZE {
                    return Err(invalid());
                }
                self.bus.write32(slot, word(0)? as u32);
                None
            }
            StoreKind::Listen => {
                streams.listen(port()?, program);
                None
            }
            StoreKind::Connect => {
                self.answer = u64::from(streams.listens(port()?));
                // A connection without a name is matched by its time only.
                let name = store.words().first().copied();
                streams.connect(port()?, name, now)?
            }
            StoreKind::Accept => {
                self.answer = u64::from(streams.take_name(port()?, word(0)?));
                None
            }
            StoreKind::Send => streams.send(word(0)?, program, word(1)?, now)?,
            StoreKind::Receive => {
                streams.receive(word(0)?, program, word(1)?)?;
                None
            }
            StoreKind::Close => streams.close(word(0)?, program, now),
            StoreKind::Check => None,
            StoreKind::Notify => {
                self.common.notify(&self.program, now, Some(thread));
                None
            }
            StoreKind::Wake => {
                let (address, bits) = (word(0)?, word(1)? as u32);
                let common = &self.common;
                self.answer = common.wake_address(&self.program, address, slot, bits, now);
                None
            }
            StoreKind::Work => return Err(invalid()),
        };
        if let Some((thread, at)) = woken {
            self.common.waker.wake(thread, at);
        }
        Ok(())
    }

    /// Lets the world continue without the thread.
    fn go_outside(&mut self, cpu: &mut Cpu<'_>) -> Next {
        self.goal = Goal::Return;
        let outsider = Outsider {
            thread: cpu.thread(),
            program: Arc::clone(&self.program),
            number: self.number,
        };
        self.common.outsiders.borrow_mut().push(outsider);
        // The conductor has to decide again whether time is paced.
        cpu.leave();
        // The thread returns by itself.
        cpu.set_deadline(Instant::MAX);
        Next::Parked
    }

    /// Answers the thread if there is something to read, or to accept.
    fn answer_if_readable(&mut self, cpu: &mut Cpu<'_>, readable: Readable) -> Option<Next> {
        match readable {
            Readable::Bytes(bytes) => self.answer = bytes,
            _ if self.deadline <= cpu.now() || self.is_interrupted() => self.answer = NOTHING,
            Readable::At(at) => return Some(self.wait_for(cpu, Next::At(at))),
            Readable::Unknown => return Some(self.wait_for(cpu, Next::Parked)),
        }
        None
    }

    /// Returns true if an interrupt is there, or the program was notified since `notices`.
    fn is_due(&self, notices: u64) -> bool {
        self.common.has_interrupts(&self.program) || self.program.notices() != notices
    }

    /// Keeps the deadline.
    fn wait_for(&self, cpu: &mut Cpu<'_>, next: Next) -> Next {
        if self.deadline.as_ps() < NEVER_PS {
            cpu.set_deadline(self.deadline);
        }
        next
    }

    /// Executes a call of RDMA CM, and passes the turn back.
    fn call_cm(&mut self, cpu: &mut Cpu<'_>, call: CmCall) -> Next {
        let program = Arc::clone(&self.program);
        let page = program.page(self.number);
        let answer = self.common.call_cm(cpu.now(), &program, page, call);
        self.answer = cm::answer(answer.map_err(|errno| errno.0 as u32));
        self.common.announce_cm_events(cpu.now());
        self.note_time(cpu);
        // Its datagrams may have an effect before the next known event.
        self.has_stored = true;
        if self.common.shared.has_events() {
            cpu.leave();
        }
        self.run(cpu)
    }
}

impl Thread for RemoteThread {
    fn step(&mut self, cpu: &mut Cpu<'_>) -> Next {
        if self.is_over() {
            return self.end(cpu);
        }
        let (program, thread) = (self.program.id, cpu.thread());
        match self.goal {
            Goal::Turn | Goal::Sleep | Goal::Address(_) | Goal::LastAtBarrier => {}
            Goal::Stores => {
                let program = Arc::clone(&self.program);
                self.goal = Goal::Turn;
                self.note_time(cpu);
                if let Some(next) = self.take_back(cpu, program.page(self.number)) {
                    return next;
                }
                return self.run(cpu);
            }
            Goal::Interrupt { wake_up, notices } => {
                if self.deadline > cpu.now() && !self.is_due(notices) {
                    self.goal = Goal::Sleep;
                    return self.wait_for(cpu, Next::OnInterrupt { wake_up });
                }
            }
            Goal::Stream(stream) => {
                let mut streams = self.common.streams.borrow_mut();
                // The stream was checked at the first request.
                let readable = streams.readable(stream, program, cpu.now());
                let readable = readable.unwrap_or(Readable::Bytes(0));
                drop(streams);
                let next = self.answer_if_readable(cpu, readable);
                let waiter = next.as_ref().map(|_| thread);
                self.common.streams.borrow_mut().await_bytes(stream, waiter);
                if let Some(next) = next {
                    return next;
                }
            }
            Goal::Connection(port) => {
                let readable = self.common.streams.borrow_mut().accept(port, cpu.now());
                let next = self.answer_if_readable(cpu, readable);
                let waiter = next.as_ref().map(|_| thread);
                self.common
                    .streams
                    .borrow_mut()
                    .await_connection(port, waiter);
                if let Some(next) = next {
                    return next;
                }
            }
            Goal::Cm(call) => return self.call_cm(cpu, call),
            Goal::Return => {
                let program = Arc::clone(&self.program);
                let page = program.page(self.number);
                match page.turn() {
                    // Spurious early wake-up.
                    Turn::Thread => return Next::Parked,
                    Turn::World => {}
                    Turn::Ended => return self.end(cpu),
                }
                self.goal = Goal::Turn;
                let mut outsiders = self.common.outsiders.borrow_mut();
                outsiders.retain(|outsider| outsider.thread != thread);
                drop(outsiders);
                self.note_time(cpu);
                if let Some(next) = self.take_back(cpu, page) {
                    return next;
                }
            }
        }
        self.note_time(cpu);
        self.run(cpu)
    }
}

/// Returns what a thread that waits for a write watches.
fn watch_of(check: Check) -> Watch {
    match check {
        Check::Everything | Check::EverythingUntil { .. } => Watch::Everything,
        Check::Completions | Check::CompletionsUntil { .. } => Watch::Completions,
        Check::Memory(range) => {
            let address = |address| usize::try_from(address).unwrap_or(usize::MAX);
            Watch::Memory(address(range.start)..address(range.end))
        }
    }
}
