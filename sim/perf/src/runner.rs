//! Runs one message size in a separate world.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};

use ferroce_model::preset::costs::Costs;
use ferroce_units::random::Random;
use ferroce_units::{Duration, Instant};
use ferroce_world::trace::{self, SharedTrace};
use ferroce_world::{HostUsage, Outcome, SharedRecorder, World};

use crate::course::Sample;
use crate::error::Error;
use crate::plan::Plan;
use crate::processor::{Program, SimThread};
use crate::result::{BandwidthRow, PerfRow};
use crate::setup::{Setup, flows};
use crate::side::Side;
use crate::spec::{Operation, PerfSpec, Test, Topology, Workload};
use crate::statistics::{bandwidth, latency, rate, sum};
use crate::timeline::Timeline;
use crate::traffic::Traffic;
use crate::utilisation::{self, Observed, Utilisation};
use crate::workload::batch::Goal;
use crate::workload::{self, Job, Record};

/// Simulated time between two checks of the stop flag.
const SLICE: Duration = Duration::from_us(200);
/// Simulated time between two samples of the queues of a fabric.
const SAMPLE_PERIOD: Duration = Duration::from_us(10);

/// The error of the first thread that fails.
type Failure = Rc<RefCell<Option<Error>>>;

/// A measurement of one size, ready to run.
struct Run<'a> {
    spec: &'a PerfSpec,
    plan: Rc<Plan>,
    setup: Setup,
    failure: Failure,
    goal: Rc<Goal>,
    clients: Vec<Rc<Record>>,
    servers: Vec<Rc<Record>>,
    /// Messages of each QP of a client, shared with its server.
    counts: Vec<Rc<Cell<u64>>>,
    /// Number of threads so far: each has a separate stream of random numbers.
    threads: u64,
    /// The threads, with their hosts.
    running: Vec<(usize, Rc<SimThread>)>,
    /// Queues of the fabric, at regular times.
    samples: Vec<Sample>,
}

/// Measures messages of `size` bytes, until `stop` is set. `trace` records everything from the
/// first step of a thread on.
///
/// # Errors
/// Any [`Error`].
pub fn run(
    spec: &PerfSpec,
    size: u32,
    stop: &AtomicBool,
    trace: Option<&SharedTrace>,
) -> Result<PerfRow, Error> {
    let mut run = Run::new(spec, size, trace)?;
    if let Some(trace) = trace {
        trace::start(&mut run.setup.world, trace);
    }
    let row = run.measure(stop)?;
    if let Some(trace) = trace {
        trace::stop(&mut run.setup.world, trace);
    }
    Ok(row)
}

/// Measures as [`run`] does; `recorder` records everything from the first step of a thread on.
///
/// # Errors
/// Any [`Error`].
pub fn run_recorded(
    spec: &PerfSpec,
    size: u32,
    stop: &AtomicBool,
    recorder: SharedRecorder,
) -> Result<PerfRow, Error> {
    let mut run = Run::new(spec, size, None)?;
    run.setup.world.record(Some(recorder));
    run.measure(stop)
}

impl<'a> Run<'a> {
    /// Creates hosts and threads.
    fn new(spec: &'a PerfSpec, size: u32, trace: Option<&SharedTrace>) -> Result<Self, Error> {
        let plan = Rc::new(Plan::new(spec, size)?);
        let setup = Setup::new(spec, &plan, trace)?;
        let messages = plan.iterations * setup.clients.len() as u64;
        let mut run = Self {
            spec,
            plan,
            failure: Failure::default(),
            goal: Goal::new(messages, setup.clients.len()),
            clients: Vec::new(),
            servers: Vec::new(),
            counts: Vec::new(),
            threads: 0,
            running: Vec::new(),
            samples: Vec::new(),
            setup,
        };
        run.spawn();
        Ok(run)
    }

    /// Runs until all threads are done.
    fn measure(&mut self, stop: &AtomicBool) -> Result<PerfRow, Error> {
        let before = counters(&self.setup.world);
        let used = usage(&self.setup.world);
        let start = (self.setup.world.now(), self.setup.world.events());
        self.go(stop)?;
        let mut row = self.row(start, &before)?;
        row.utilisation = self.utilisation(start.0, &used);
        Ok(row)
    }

    /// Starts the threads.
    fn spawn(&mut self) {
        let (clients, servers) = (self.setup.clients.clone(), self.setup.servers.clone());
        let count = self.plan.iterations;
        self.counts = clients.iter().map(|_| Rc::new(Cell::new(count))).collect();
        for (number, side) in clients.iter().enumerate() {
            let record = self.client(number, side);
            self.clients.push(record);
        }
        for (number, side) in servers.iter().enumerate() {
            if let Some(record) = self.server(number, side) {
                self.servers.push(record);
            }
        }
    }

    fn job(&mut self, number: usize, side: &Rc<Side>) -> Job {
        self.threads += 1;
        let random = Random::new(self.spec.seed, self.threads);
        Job {
            thread: SimThread::new(
                (side.thread, self.plan.threads == 1),
                Costs::of_thread(&self.spec.preset, side.thread, self.plan.threads),
                random,
            ),
            side: Rc::clone(side),
            plan: Rc::clone(&self.plan),
            record: Rc::new(Record::default()),
            count: Rc::clone(&self.counts[number]),
        }
    }

    fn start(
        &mut self,
        host: usize,
        thread: &Rc<SimThread>,
        body: impl Future<Output = Result<(), Error>> + 'static,
    ) {
        let failure = Rc::clone(&self.failure);
        let body = async move {
            if let Err(error) = body.await {
                failure.borrow_mut().get_or_insert(error);
            }
        };
        self.running.push((host, Rc::clone(thread)));
        self.setup.world.spawn(host, Program::new(thread, body));
    }

    /// Starts a thread that measures.
    fn client(&mut self, number: usize, side: &Rc<Side>) -> Rc<Record> {
        let job = self.job(number, side);
        let (thread, record, host) = (Rc::clone(&job.thread), Rc::clone(&job.record), side.host);
        let goal = Rc::clone(&self.goal);
        match (self.spec.workload, self.plan.test, self.plan.operation) {
            (Workload::Batch, ..) => {
                let lock = self.setup.cq_locks[number].clone();
                self.start(host, &thread, async move {
                    workload::batch::run(&job, &goal, number, lock.as_ref()).await
                });
            }
            (Workload::Window, ..) => {
                self.start(host, &thread, async move {
                    workload::window::run(&job, &goal).await
                });
            }
            (_, Test::Latency, Operation::Write) => self.start(host, &thread, async move {
                workload::latency::write(&job, false).await
            }),
            (_, Test::Latency, Operation::Send) => self.start(host, &thread, async move {
                workload::latency::send(&job, false).await
            }),
            (_, Test::Latency, _) => self.start(host, &thread, async move {
                workload::latency::one_by_one(&job).await
            }),
            (_, Test::Bandwidth, Operation::Send) if self.plan.bidirectional => {
                self.start(host, &thread, async move {
                    workload::duplex::run(&job, false).await
                });
            }
            (_, Test::Bandwidth, _) => {
                self.start(host, &thread, async move {
                    workload::bandwidth::run(&job).await
                });
            }
        }
        record
    }

    /// Starts a thread at the other end, if it has work.
    fn server(&mut self, number: usize, side: &Rc<Side>) -> Option<Rc<Record>> {
        let both = self.plan.bidirectional;
        if self.spec.workload != Workload::Perftest {
            return None;
        }
        let (test, operation) = (self.plan.test, self.plan.operation);
        let job = self.job(number, side);
        let (thread, record, host) = (Rc::clone(&job.thread), Rc::clone(&job.record), side.host);
        match (test, operation) {
            (Test::Latency, Operation::Write) => self.start(host, &thread, async move {
                workload::latency::write(&job, true).await
            }),
            (Test::Latency, Operation::Send) => self.start(host, &thread, async move {
                workload::latency::send(&job, true).await
            }),
            (Test::Bandwidth, Operation::Send) if both => {
                self.start(host, &thread, async move {
                    workload::duplex::run(&job, true).await
                });
            }
            (Test::Bandwidth, Operation::Send) => {
                self.start(
                    host,
                    &thread,
                    async move { workload::receive::run(&job).await },
                );
            }
            (Test::Bandwidth, _) if both => {
                self.start(host, &thread, async move {
                    workload::bandwidth::run(&job).await
                });
            }
            _ => return None,
        }
        Some(record)
    }

    /// Runs the world until all threads are done.
    fn go(&mut self, stop: &AtomicBool) -> Result<(), Error> {
        let slice = match self.spec.fabric {
            None => SLICE,
            Some(_) => SAMPLE_PERIOD,
        };
        loop {
            let world = &mut self.setup.world;
            let until = world.now() + slice;
            let outcome = world.run(until);
            if let Some(queues) = world.sample_fabric() {
                let at = world.now();
                self.samples.push(Sample { at, queues });
            }
            if let Some(error) = self.failure.take() {
                return Err(error);
            }
            match outcome {
                Outcome::Done => return Ok(()),
                Outcome::Until if stop.load(Ordering::Relaxed) => return Err(Error::Interrupted),
                Outcome::Until => {}
                Outcome::Idle | Outcome::Stalled => return Err(self.stalled()),
            }
        }
    }

    fn stalled(&self) -> Error {
        let mut dump = self.setup.world.dump();
        for side in self.setup.clients.iter().chain(&self.setup.servers) {
            let cqs = side.endpoints.iter().map(|endpoint| &endpoint.send_cq);
            let waiting = cqs
                .chain([&side.receive_cq])
                .filter(|cq| !cq.is_empty())
                .count();
            if waiting > 0 {
                let (host, thread) = (side.host, side.thread);
                dump.push_str(&format!(
                    "thread {thread} of host {host}: {waiting} CQs have completions that it has \
                    not seen\n"
                ));
            }
        }
        Error::Stalled {
            operation: self.plan.operation,
            size: self.plan.size,
            dump,
        }
    }

    fn row(
        &self,
        start: (Instant, u64),
        before: &[Vec<(&'static str, u64)>],
    ) -> Result<PerfRow, Error> {
        let plan = &*self.plan;
        let latency = match plan.test {
            Test::Bandwidth => None,
            Test::Latency => {
                let timeline = self.clients[0].timeline.borrow();
                latency(&timeline.posted, plan.rounds())
            }
        };
        let bandwidth = match plan.test {
            Test::Bandwidth => self.bandwidth(),
            Test::Latency => None,
        };
        let world = &self.setup.world;
        Ok(PerfRow {
            size: plan.size,
            iterations: match &bandwidth {
                Some(row) => row.messages,
                None => plan.iterations,
            },
            ended_early: self.clients.iter().any(|record| record.ended_early.get()),
            bandwidth,
            latency,
            counters: differences(before, &counters(world)),
            utilisation: None,
            simulated_ps: world.now().saturating_since(start.0).as_ps(),
            events: world.events() - start.1,
            last_message_ps: self.last_message(),
            traffic: self.traffic(),
        })
    }

    /// Returns the use of each part since `start`.
    fn utilisation(&self, start: Instant, before: &[HostUsage]) -> Option<Utilisation> {
        let world = &self.setup.world;
        let observed = before.iter().enumerate().map(|(host, before)| {
            let after = world.usage(host);
            Observed {
                program: self.program(host),
                elapsed: after.now.saturating_since(before.now),
                usage: after.since(before),
            }
        });
        let observed: Vec<Observed> = observed.collect();
        let elapsed = world.now().saturating_since(start);
        Utilisation::new(&self.plan, self.spec.workload, &observed, elapsed)
    }

    /// Returns the traffic of the flows, if there are several.
    fn traffic(&self) -> Option<Traffic> {
        let is_asked = matches!(self.spec.topology, Topology::Flows { .. });
        if !is_asked && self.spec.fabric.is_none() {
            return None;
        }
        let flows = flows(self.spec.topology);
        let per_flow = (self.clients.len() / flows.len()).max(1);
        let repeated = |flow: (u32, u32)| std::iter::repeat_n(flow, per_flow);
        let ends: Vec<_> = flows.into_iter().flat_map(repeated).collect();
        let timelines: Vec<Timeline> = self
            .clients
            .iter()
            .map(|record| record.timeline.borrow().clone())
            .collect();
        Traffic::new(
            &self.spec.preset,
            (self.plan.size, self.plan.mtu.bytes()),
            &ends,
            &timelines,
            self.setup.world.fabric(),
            &self.samples,
        )
    }

    /// Returns the times of a host's threads.
    fn program(&self, host: usize) -> utilisation::Program {
        let of_host = self.running.iter().filter(|(other, _)| *other == host);
        let times = of_host.map(|(_, thread)| (thread.worked(), thread.spun()));
        let busiest = times.max_by_key(|(worked, spun)| *worked + *spun);
        let (worked, spun) = busiest.unwrap_or_default();
        utilisation::Program {
            worked,
            spun,
            lock: self.setup.most_held(host),
        }
    }

    /// Returns the times at which the last measured message was posted and ended.
    fn last_message(&self) -> Option<(u64, u64)> {
        let timeline = self.clients.first()?.timeline.borrow();
        match (self.plan.test, timeline.posted.as_slice()) {
            (Test::Latency, [.., start, end]) => Some((*start, *end)),
            (Test::Bandwidth, [.., start]) => {
                timeline.completed.last().map(|(_, end)| (*start, *end))
            }
            _ => None,
        }
    }

    fn bandwidth(&self) -> Option<BandwidthRow> {
        if self.spec.workload != Workload::Perftest {
            let (messages, elapsed) = self.goal.figures()?;
            return Some(rate(self.plan.size, messages, elapsed, 0.0));
        }
        let row = |records: &[Rc<Record>]| {
            let timelines: Vec<Timeline> = records
                .iter()
                .map(|record| record.timeline.borrow().clone())
                .collect();
            bandwidth(self.plan.size, &timelines, self.plan.with_peak)
        };
        let clients = row(&self.clients)?;
        if self.plan.bidirectional {
            sum(&[clients, row(&self.servers)?])
        } else {
            Some(clients)
        }
    }
}

fn usage(world: &World) -> Vec<HostUsage> {
    (0..world.hosts()).map(|host| world.usage(host)).collect()
}

fn counters(world: &World) -> Vec<Vec<(&'static str, u64)>> {
    (0..world.hosts())
        .map(|host| world.counters(host).list())
        .collect()
}

/// Returns the differences of counters, except for means and maxima, which stay as they are.
fn differences(
    before: &[Vec<(&'static str, u64)>],
    after: &[Vec<(&'static str, u64)>],
) -> Vec<Vec<(&'static str, u64)>> {
    let is_level = |name: &str| {
        ["_avg", "_min", "_max"]
            .iter()
            .any(|part| name.contains(part))
    };
    let hosts = before.iter().zip(after);
    hosts
        .map(|(before, after)| {
            let pairs = before.iter().zip(after);
            pairs
                .map(|(&(name, before), &(_, after))| {
                    if is_level(name) {
                        (name, after)
                    } else {
                        (name, after.saturating_sub(before))
                    }
                })
                .collect()
        })
        .collect()
}
