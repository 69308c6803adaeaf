//! The policy on a simulated kernel: processors shared by several programs, time slices, spinning
//! programs, and threads that are stopped for a while, as by the CPU limit of a cgroup.
//!
//! The kernel is the worst fair one: first come, first served, and a woken thread overtakes no
//! other thread. The executors work like `in_process` and `background.rs`, but without the model: a
//! function has requests and frames, and takes all of them when it runs.

use std::collections::VecDeque;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::policy::{Attention, Background, Call, Promise, Step, Stream, Wait, Waiting};
use super::tunables::{DOZE_NS, FRESH_NS, IDLE_NS, Spans, WATCH_ALONE_NS, WATCH_SHARED_NS, after};
use crate::clock::Ticks;

/// Time slice of the simulated kernel.
const SLICE_NS: u64 = 3_000_000;
/// Duration of a call, and of a model run by the background thread.
const CALL_NS: u64 = 300;
/// How long a limit stops the threads of a program.
const STOP_NS: u64 = 20_000_000;
/// Simulated time of a case.
const END_NS: u64 = 200_000_000;
/// A processor counts as free after it was idle for this time: the background thread has noticed
/// it.
const NOTICED_NS: u64 = 2 * WATCH_SHARED_NS;
/// Bound for frames while a processor is free: the program counts as polling for a while, then the
/// background thread checks; plus a few steps on the way. The call itself begins a request.
const BOUND_FREE_NS: u64 = FRESH_NS + WATCH_ALONE_NS + 20 * CALL_NS;

/// The next action of a program.
#[derive(Debug, Clone, Copy)]
enum Action {
    /// Posts requests, one by one.
    Post(u8),
    /// Polls until it has found this number of completions, and at most this often.
    Poll(u8),
    /// Computes, or polls memory: makes no call.
    Compute(u64),
    Sleep(u64),
    /// Arms its CQ and sleeps.
    Arm(u64),
}

/// Deviations from the policy that the test has to detect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mutant {
    None,
    /// A polling program leaves a request to its next call, and no wake-up is scheduled for it.
    LeavesRequests,
    /// The background thread leaves the model forever to a program that has polled once.
    NeverWatches,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Ready,
    Running,
    /// Sleeps until this time, or until it is woken.
    Asleep(u64),
}

/// An action that a thread has begun, and continues when it next has a processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pending {
    Next,
    Yielded(u64),
    Slept,
}

#[derive(Debug)]
enum Role {
    Program {
        script: Vec<Action>,
        position: usize,
        left: u8,
        waiting: Waiting,
        dozes: bool,
    },
    Background(Background),
    /// A foreign program that never yields.
    Spinner,
}

#[derive(Debug)]
struct Thread {
    function: usize,
    role: Role,
    state: State,
    pending: Pending,
    slice_ns: u64,
    busy_ns: u64,
    was_woken: bool,
}

/// Work that has not begun.
#[derive(Debug, Clone, Copy)]
struct Work {
    since: u64,
}

#[derive(Debug)]
struct Function {
    attention: Attention,
    stream: Stream,
    is_helped: bool,
    polls_until: Ticks,
    background_sleeps: bool,
    wake_at: u64,
    requests: Vec<Work>,
    frames: Vec<Work>,
    acks: u32,
    in_flight: u32,
    completions: u32,
    check_at: u64,
}

struct Kernel {
    now: u64,
    spans: Spans,
    mutant: Mutant,
    processors: Vec<Option<usize>>,
    ready: VecDeque<usize>,
    threads: Vec<Thread>,
    functions: [Function; 2],
    stopped: Option<(usize, u64)>,
    stops: Vec<(u64, usize)>,
    /// The last time at which all processors were busy or a limit was active.
    busy_at: u64,
    worst_free_ns: u64,
    worst_request_ns: u64,
    worst_busy_ns: u64,
}

impl Kernel {
    fn new(processors: usize, spinners: usize, scripts: [Vec<Action>; 2], mutant: Mutant) -> Self {
        let function = || Function {
            attention: Attention::NEW,
            stream: Stream::NEW,
            is_helped: true,
            polls_until: Ticks(0),
            background_sleeps: false,
            wake_at: 0,
            requests: Vec::new(),
            frames: Vec::new(),
            acks: 0,
            in_flight: 0,
            completions: 0,
            check_at: u64::MAX,
        };
        let thread = |function, role| Thread {
            function,
            role,
            state: State::Ready,
            pending: Pending::Next,
            slice_ns: SLICE_NS,
            busy_ns: 0,
            was_woken: false,
        };
        let mut threads = Vec::new();
        for (number, script) in scripts.into_iter().enumerate() {
            let program = Role::Program {
                script,
                position: 0,
                left: 0,
                waiting: Waiting::NEW,
                dozes: false,
            };
            threads.push(thread(number, program));
            threads.push(thread(number, Role::Background(Background::NEW)));
        }
        threads.extend((0..spinners).map(|_| thread(usize::MAX, Role::Spinner)));
        Self {
            // Times of 0 mean never.
            now: 1_000_000_000,
            spans: Spans::with(|ns| ns),
            mutant,
            processors: vec![None; processors],
            ready: (0..threads.len()).collect(),
            threads,
            functions: [function(), function()],
            stopped: None,
            stops: Vec::new(),
            busy_at: 1_000_000_000,
            worst_free_ns: 0,
            worst_request_ns: 0,
            worst_busy_ns: 0,
        }
    }

    fn is_stopped(&self, thread: usize) -> bool {
        self.stopped
            .is_some_and(|(function, _)| function == self.threads[thread].function)
    }

    /// Runs threads until `end`.
    fn run(&mut self, end: u64) {
        while self.now < end {
            self.dispatch();
            self.step();
        }
    }

    fn dispatch(&mut self) {
        if self.stopped.is_some_and(|(_, until)| self.now >= until) {
            self.stopped = None;
        }
        if let Some(&(at, function)) = self.stops.last()
            && self.now >= at
        {
            self.stops.pop();
            self.stopped = Some((function, self.now + STOP_NS));
        }
        for processor in 0..self.processors.len() {
            let running = self.processors[processor];
            if let Some(thread) = running.filter(|thread| self.is_stopped(*thread)) {
                self.give_up(processor, thread);
            }
            if self.processors[processor].is_none() {
                let next = self
                    .ready
                    .iter()
                    .position(|thread| !self.is_stopped(*thread));
                if let Some(thread) = next.and_then(|index| self.ready.remove(index)) {
                    self.processors[processor] = Some(thread);
                    self.threads[thread].state = State::Running;
                    self.threads[thread].slice_ns = SLICE_NS;
                }
            }
        }
        if self.stopped.is_some() || self.processors.iter().all(Option::is_some) {
            self.busy_at = self.now;
        }
    }

    fn give_up(&mut self, processor: usize, thread: usize) {
        self.processors[processor] = None;
        self.threads[thread].state = State::Ready;
        self.ready.push_back(thread);
    }

    /// Advances to the time of the next event and handles it.
    fn step(&mut self) {
        let mut next = self.now + SLICE_NS;
        for thread in &self.threads {
            next = match thread.state {
                State::Running => next.min(self.now + thread.busy_ns.min(thread.slice_ns)),
                State::Asleep(until) => next.min(until),
                State::Ready => next,
            };
        }
        next = self.stopped.map_or(next, |(_, until)| next.min(until));
        next = self.stops.last().map_or(next, |(at, _)| next.min(*at));
        let passed_ns = next.saturating_sub(self.now);
        self.now = next.max(self.now);
        if self.processors.iter().all(Option::is_some) {
            self.busy_at = self.now;
        }
        for thread in 0..self.threads.len() {
            if self.threads[thread].state == State::Running {
                let running = &mut self.threads[thread];
                running.busy_ns = running.busy_ns.saturating_sub(passed_ns);
                running.slice_ns = running.slice_ns.saturating_sub(passed_ns);
            }
            if matches!(self.threads[thread].state, State::Asleep(until) if until <= self.now) {
                self.wake_thread(thread, false);
            }
        }
        for processor in 0..self.processors.len() {
            let Some(thread) = self.processors[processor] else {
                continue;
            };
            if self.threads[thread].busy_ns == 0 {
                self.act(processor, thread);
            }
            if self.processors[processor] == Some(thread) && self.threads[thread].slice_ns == 0 {
                self.give_up(processor, thread);
            }
        }
    }

    fn wake_thread(&mut self, thread: usize, was_woken: bool) {
        self.threads[thread].state = State::Ready;
        self.threads[thread].was_woken = was_woken;
        self.ready.push_back(thread);
    }

    fn sleep(&mut self, processor: usize, thread: usize, time_ns: u64) {
        self.processors[processor] = None;
        self.threads[thread].state = State::Asleep(self.now + time_ns);
        self.threads[thread].pending = Pending::Slept;
    }

    fn yield_now(&mut self, processor: usize, thread: usize) {
        self.threads[thread].pending = Pending::Yielded(self.now);
        self.threads[thread].busy_ns = CALL_NS;
        self.give_up(processor, thread);
    }

    fn act(&mut self, processor: usize, thread: usize) {
        self.threads[thread].busy_ns = CALL_NS;
        match self.threads[thread].role {
            Role::Spinner => self.threads[thread].busy_ns = SLICE_NS,
            Role::Background(_) => self.act_in_background(processor, thread),
            Role::Program { .. } => self.act_as_program(processor, thread),
        }
    }

    /// Records that work begins.
    fn begin(&mut self, work: Work, is_request: bool) {
        let waited_ns = self.now - work.since;
        if self.busy_at + NOTICED_NS >= work.since {
            self.worst_busy_ns = self.worst_busy_ns.max(waited_ns);
        } else if is_request {
            self.worst_request_ns = self.worst_request_ns.max(waited_ns);
        } else {
            self.worst_free_ns = self.worst_free_ns.max(waited_ns);
        }
    }

    /// Runs the model of a function. Returns true if something moved.
    fn run_model(&mut self, number: usize) -> bool {
        let peer = 1 - number;
        let function = &mut self.functions[number];
        let (requests, frames) = (
            std::mem::take(&mut function.requests),
            std::mem::take(&mut function.frames),
        );
        let acks = std::mem::take(&mut function.acks);
        function.in_flight = function.in_flight + requests.len() as u32 - acks;
        function.completions += acks;
        let worked = !requests.is_empty() || !frames.is_empty() || acks > 0;
        let now = self.now;
        self.functions[peer].acks += frames.len() as u32;
        self.functions[peer]
            .frames
            .extend(requests.iter().map(|_| Work { since: now }));
        if !requests.is_empty() || !frames.is_empty() {
            self.functions[number].check_at = 0;
        }
        requests.into_iter().for_each(|work| self.begin(work, true));
        frames.into_iter().for_each(|work| self.begin(work, false));
        self.check_peer(number);
        worked
    }

    /// Wakes the peer if it has not taken all frames, as the port does.
    fn check_peer(&mut self, number: usize) {
        let peer = 1 - number;
        if self.functions[number].check_at > self.now {
            return;
        }
        self.functions[number].check_at = match self.functions[peer] {
            ref peer if peer.frames.is_empty() && peer.acks == 0 => u64::MAX,
            ref peer if Ticks(self.now) < peer.polls_until => peer.polls_until.0,
            _ => {
                if !self.wake_dozing(peer) {
                    self.wake_background(peer);
                }
                self.now + FRESH_NS
            }
        };
    }

    fn wake_dozing(&mut self, function: usize) -> bool {
        let thread = 2 * function;
        let Role::Program { ref mut dozes, .. } = self.threads[thread].role else {
            return false;
        };
        let sleeps = std::mem::take(dozes);
        if sleeps && matches!(self.threads[thread].state, State::Asleep(_)) {
            self.wake_thread(thread, true);
        }
        sleeps
    }

    fn wake_background(&mut self, function: usize) {
        let thread = 2 * function + 1;
        if std::mem::take(&mut self.functions[function].background_sleeps)
            && matches!(self.threads[thread].state, State::Asleep(_))
        {
            self.wake_thread(thread, true);
        }
    }

    fn notify_background(&mut self, function: usize) {
        if self.functions[function].check_at < self.functions[function].wake_at {
            self.wake_background(function);
        }
    }

    /// Records a call. Returns true if the program polls.
    fn note(&mut self, number: usize, call: Call) -> bool {
        let (now, spans) = (Ticks(self.now), self.spans);
        let function = &mut self.functions[number];
        function.stream = function.stream.after(call);
        let (attention, promise) = function.attention.after(call);
        function.attention = attention;
        let polls = match promise {
            Promise::Polls => true,
            Promise::Continues => now < function.polls_until,
            Promise::Sleeps => {
                function.polls_until = Ticks(0);
                false
            }
        };
        if polls {
            function.polls_until = after(now, spans.fresh);
            if function.wake_at > self.now + 2 * WATCH_SHARED_NS {
                self.wake_background(number);
            }
        }
        polls
    }

    fn post(&mut self, number: usize) {
        let polls = self.note(number, Call::Request);
        let since = self.now;
        let function = &mut self.functions[number];
        function.requests.push(Work { since });
        let waits = match self.mutant {
            Mutant::LeavesRequests => polls,
            _ => polls && function.stream.waits(function.is_helped),
        };
        if !waits {
            self.run_model(number);
            if !polls {
                self.notify_background(number);
            }
        }
    }

    /// Polls. Returns the decision of the thread if the poll found nothing.
    fn poll(&mut self, thread: usize) -> Option<Wait> {
        let number = self.threads[thread].function;
        if self.functions[number].completions > 0 {
            self.functions[number].completions -= 1;
            let in_flight = self.functions[number].in_flight > 0;
            self.note(number, Call::FullPoll { in_flight });
            return None;
        }
        let polls = self.note(number, Call::EmptyPoll);
        let worked = self.run_model(number);
        if !polls {
            self.notify_background(number);
        }
        let now = Ticks(self.now);
        let Role::Program {
            ref mut waiting, ..
        } = self.threads[thread].role
        else {
            return None;
        };
        if worked {
            waiting.found();
            return Some(Wait::Spin);
        }
        Some(waiting.found_nothing(1, now))
    }

    fn act_as_program(&mut self, processor: usize, thread: usize) {
        let (now, spans) = (Ticks(self.now), self.spans);
        let number = self.threads[thread].function;
        let pending = std::mem::replace(&mut self.threads[thread].pending, Pending::Next);
        let Role::Program {
            ref script,
            ref mut position,
            ref mut left,
            ref mut waiting,
            ref mut dozes,
        } = self.threads[thread].role
        else {
            return;
        };
        if let Pending::Yielded(began) = pending {
            waiting.yielded(Ticks(began), now, &spans);
        }
        if std::mem::take(dozes) {
            self.functions[number].polls_until = after(now, spans.fresh);
        }
        let action = script[*position % script.len()];
        let times = match action {
            Action::Post(times) | Action::Poll(times) => times,
            _ => 1,
        };
        *left = left.checked_sub(1).unwrap_or(times);
        if *left == 0 {
            *position += 1;
        }
        match action {
            Action::Post(_) => self.post(number),
            Action::Compute(time_ns) => self.threads[thread].busy_ns = time_ns,
            Action::Sleep(time_ns) => self.sleep(processor, thread, time_ns),
            Action::Arm(time_ns) => {
                self.note(number, Call::Arm);
                self.run_model(number);
                self.notify_background(number);
                self.sleep(processor, thread, time_ns);
            }
            Action::Poll(_) => match self.poll(thread) {
                None | Some(Wait::Spin) => {}
                Some(Wait::Yield) => {
                    let until = after(now, spans.yield_fresh);
                    if now < self.functions[number].polls_until {
                        self.functions[number].polls_until = until;
                    }
                    self.yield_now(processor, thread);
                }
                Some(Wait::Doze) => self.doze(processor, thread),
            },
        }
    }

    fn doze(&mut self, processor: usize, thread: usize) {
        let number = self.threads[thread].function;
        self.functions[number].polls_until = Ticks(0);
        self.functions[number].check_at = 0;
        self.check_peer(number);
        let function = &self.functions[number];
        let has_work = !(function.frames.is_empty() && function.requests.is_empty());
        if let Role::Program { ref mut dozes, .. } = self.threads[thread].role {
            *dozes = true;
        }
        if !has_work && function.acks == 0 {
            let due = function.check_at.saturating_sub(self.now);
            self.sleep(processor, thread, DOZE_NS.min(due).max(1));
        }
    }

    fn act_in_background(&mut self, processor: usize, thread: usize) {
        let (now, spans) = (Ticks(self.now), self.spans);
        let number = self.threads[thread].function;
        let was_woken = self.threads[thread].was_woken;
        let pending = std::mem::replace(&mut self.threads[thread].pending, Pending::Next);
        let function = &mut self.functions[number];
        let Role::Background(ref mut policy) = self.threads[thread].role else {
            return;
        };
        match pending {
            Pending::Next => {}
            Pending::Yielded(began) => policy.yielded(Ticks(began), now, &spans),
            Pending::Slept => {
                function.background_sleeps = false;
                function.wake_at = 0;
                policy.slept(was_woken.then_some(now), now, &spans);
            }
        }
        function.is_helped = policy.is_alone(now);
        let polls = now < function.polls_until;
        let step = policy.next(now, polls, function.stream.flows(), &spans);
        let time_ns = match step {
            Step::Run => {
                let worked = self.run_model(number);
                if let Role::Background(ref mut policy) = self.threads[thread].role {
                    policy.ran(worked, now);
                }
                return;
            }
            Step::Yield => return self.yield_now(processor, thread),
            Step::Leave => return,
            Step::Watch(_) if self.mutant == Mutant::NeverWatches => IDLE_NS,
            Step::Watch(time_ns) => time_ns,
            Step::Sleep => {
                let has_work = !(function.frames.is_empty() && function.requests.is_empty());
                if has_work || function.acks > 0 {
                    1
                } else {
                    IDLE_NS
                        .min(function.check_at.saturating_sub(self.now))
                        .max(1)
                }
            }
        };
        function.background_sleeps = true;
        function.wake_at = self.now + time_ns;
        self.sleep(processor, thread, time_ns);
    }

    /// Ends the case: for work that has not begun, its waiting time until now counts.
    fn end(&mut self) {
        for number in 0..2 {
            let function = &mut self.functions[number];
            let requests = std::mem::take(&mut function.requests);
            let frames = std::mem::take(&mut function.frames);
            requests.into_iter().for_each(|work| self.begin(work, true));
            frames.into_iter().for_each(|work| self.begin(work, false));
        }
    }
}

#[derive(Debug, Clone)]
struct Case {
    processors: usize,
    spinners: usize,
    scripts: [Vec<Action>; 2],
    stops: Vec<(u64, usize)>,
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        4 => (1..20_u8).prop_map(Action::Post),
        4 => (1..100_u8).prop_map(Action::Poll),
        2 => (100..2_000_000_u64).prop_map(Action::Compute),
        1 => (1_000..5_000_000_u64).prop_map(Action::Sleep),
        1 => (1_000..5_000_000_u64).prop_map(Action::Arm),
    ]
}

fn case() -> impl Strategy<Value = Case> {
    let script = || proptest::collection::vec(action(), 1..12);
    let stop = (1_000_000_000..1_000_000_000 + END_NS, 0..2_usize);
    let stops = proptest::collection::vec(stop, 0..3);
    (1..=16_usize, 0..4_usize, [script(), script()], stops).prop_map(
        |(processors, spinners, scripts, mut stops)| {
            stops.sort_unstable_by_key(|(at, _)| std::cmp::Reverse(*at));
            Case {
                processors,
                spinners,
                scripts,
                stops,
            }
        },
    )
}

/// Returns the bound while no processor is free. Three threads have to run: the sender that checks
/// again, the receiver, and one that had already begun. Each waits for the time slices of all other
/// threads, and a limit may stop a program.
fn bound_busy_ns(case: &Case) -> u64 {
    let turns = (4 + case.spinners as u64) * SLICE_NS / case.processors.min(4) as u64;
    4 * turns + 2 * WATCH_SHARED_NS + (1 + case.stops.len() as u64) * STOP_NS
}

fn check(case: &Case, mutant: Mutant) -> Result<(), String> {
    let mut kernel = Kernel::new(case.processors, case.spinners, case.scripts.clone(), mutant);
    kernel.stops = case.stops.clone();
    kernel.run(kernel.now + END_NS);
    kernel.end();
    let bounds = [
        (
            "a request with a processor free",
            kernel.worst_request_ns,
            0,
        ),
        (
            "a frame with a processor free",
            kernel.worst_free_ns,
            BOUND_FREE_NS,
        ),
        (
            "work without one",
            kernel.worst_busy_ns,
            bound_busy_ns(case),
        ),
    ];
    match bounds
        .into_iter()
        .find(|(_, waited_ns, bound_ns)| waited_ns > bound_ns)
    {
        Some((what, waited_ns, bound_ns)) => Err(format!(
            "{what} has waited {waited_ns} ns, not {bound_ns} at most"
        )),
        None => Ok(()),
    }
}

fn check_cases(mutant: Mutant) -> Result<(), String> {
    let config = Config {
        cases: 200,
        failure_persistence: None,
        ..Config::default()
    };
    TestRunner::new_with_rng(
        config,
        proptest::test_runner::TestRng::deterministic_rng(
            proptest::test_runner::RngAlgorithm::ChaCha,
        ),
    )
    .run(&case(), |case| {
        check(&case, mutant).map_err(TestCaseError::fail)
    })
    .map_err(|error| error.to_string())
}

/// Goal: work that a call leaves begins within a bound, whatever the program does next. Method:
/// random programs, processors, foreign programs and limits.
#[test]
fn work_begins_within_the_bound() {
    check_cases(Mutant::None).unwrap_or_else(|error| panic!("{error}"));
}

/// Goal: the test above detects a policy that leaves work undone. Method: two such policies.
#[test]
fn a_policy_that_leaves_work_is_found() {
    for mutant in [Mutant::LeavesRequests, Mutant::NeverWatches] {
        assert!(check_cases(mutant).is_err(), "{mutant:?} is not found");
    }
}
