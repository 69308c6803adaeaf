//! Hosts, queue pairs and memory of a measurement, connected and ready to run.

mod node;

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use ferroce_driver::QueuePair;
use ferroce_model::preset::Preset;
use ferroce_units::Duration;
use ferroce_units::random::Random;
use ferroce_world::trace::{self, SharedTrace};
use ferroce_world::{World, WorldConfig};
use node::{Node, RegionMemory, target_memory};

use crate::calls::Locks;
use crate::connect::{Peer, connect};
use crate::error::Error;
use crate::lock::SpinLock;
use crate::pattern::Pattern;
use crate::plan::Plan;
use crate::queue::Queue;
use crate::region::{
    BATCH_REGION, HostMemory, LINE, PAGE, Region, RemoteRegion, WINDOW_REGION, buffer_bytes,
};
use crate::side::{Endpoint, Side, queue_pair};
use crate::spec::{Location, PerfSpec, Service, Topology, Workload};

/// Number of local buffers of a thread of `Batch`; each holds a cache line or a message.
const BATCH_BUFFERS: u64 = 64;
/// Streams of random numbers: this one for PSNs, then one for each thread.
const PSN_STREAM: u64 = 0;
/// PSNs have 24 bits.
const PSN_END: u64 = 1 << 24;

/// Hosts and their threads.
pub struct Setup {
    /// The world.
    pub world: World,
    /// Threads that measure.
    pub clients: Vec<Rc<Side>>,
    /// Threads at the other end, one for each client, if they have work.
    pub servers: Vec<Rc<Side>>,
    /// Goals: one for each thread of `servers` and `clients` that shares a QP.
    pub cq_locks: Vec<Option<Rc<SpinLock>>>,
}

struct Builder<'a> {
    spec: &'a PerfSpec,
    plan: &'a Plan,
    world: World,
    nodes: Vec<Node>,
    psn: Random,
}

/// Returns the number of hosts.
fn hosts(topology: Topology) -> usize {
    match topology {
        Topology::Pair => 2,
        Topology::Clients(clients) => clients as usize + 1,
        Topology::AllToAll { hosts, .. } | Topology::Flows { hosts, .. } => hosts as usize,
        Topology::Loopback => 1,
    }
}

/// Returns the pairs of sender and receiver.
pub fn flows(topology: Topology) -> Vec<(u32, u32)> {
    match topology {
        Topology::Loopback => vec![(0, 0)],
        Topology::Pair => vec![(0, 1)],
        Topology::Clients(clients) => Pattern::Incast.flows(clients + 1),
        Topology::Flows { hosts, pattern } => pattern.flows(hosts),
        Topology::AllToAll { hosts, .. } => Pattern::AllToAll.flows(hosts),
    }
}

/// Returns true if nothing takes time.
fn is_functional(preset: &Preset) -> bool {
    preset.name().split('@').next() == Some("functional")
}

impl Setup {
    /// Creates and connects everything. The cards report the work of their blocks to `trace`.
    ///
    /// # Errors
    /// Any [`Error`].
    pub fn new(spec: &PerfSpec, plan: &Plan, trace: Option<&SharedTrace>) -> Result<Self, Error> {
        let mut builder = Builder::new(spec, plan, trace)?;
        let (clients, servers) = match spec.topology {
            Topology::AllToAll { .. } => (builder.all_to_all()?, Vec::new()),
            _ => builder.clients_and_servers()?,
        };
        let shares_qps = spec.sharing.threads_per_qp > 1;
        let (clients, cq_locks) = if shares_qps {
            builder.share(clients)
        } else {
            let locks = clients.iter().map(|_| None).collect();
            (clients, locks)
        };
        let setup = Self {
            world: builder.world,
            clients: clients.into_iter().map(Rc::new).collect(),
            servers: servers.into_iter().map(Rc::new).collect(),
            cq_locks,
        };
        if plan.has_receives() {
            setup.post_receives(plan)?;
        }
        Ok(setup)
    }

    /// Returns the time for which the busiest lock of a host's threads was held.
    pub fn most_held(&self, host: usize) -> Duration {
        let sides = self.clients.iter().chain(&self.servers);
        let of_host = sides.filter(|side| side.host == host);
        let endpoints = of_host.flat_map(|side| &side.endpoints);
        let locks = endpoints.flat_map(|endpoint| [&endpoint.locks.qp, &endpoint.locks.doorbell]);
        let of_cqs = self.clients.iter().zip(&self.cq_locks);
        let of_cqs = of_cqs.filter(|(side, _)| side.host == host);
        let all = locks.chain(of_cqs.map(|(_, lock)| lock));
        let held = all.flatten().map(|lock| lock.held()).max();
        held.unwrap_or(Duration::ZERO)
    }

    /// Fills the receive queues before the measurement starts.
    fn post_receives(&self, plan: &Plan) -> Result<(), Error> {
        for side in self.servers.iter().chain(&self.clients) {
            for (index, endpoint) in side.endpoints.iter().enumerate() {
                let Some(queue) = endpoint.qp.receive_queue() else {
                    continue;
                };
                let mut batch = queue.lock();
                for count in 0..u64::from(plan.receive_depth) {
                    let segment = side.receive(plan, index, count);
                    batch
                        .post(index as u64, &[segment])
                        .map_err(|source| Error::Post {
                            operation: plan.operation,
                            size: plan.size,
                            host: side.host,
                            source,
                        })?;
                }
            }
        }
        Ok(())
    }
}

/// Checks that cards can reach all of a thread's regions.
fn check_reach(location: &Location, regions: &[Region]) -> Result<(), Error> {
    let bytes = regions.iter().map(|region| region.remote().length).sum();
    match location.exceeded_by(bytes) {
        None => Ok(()),
        Some(reachable) => Err(Error::Bar {
            bytes,
            memory: location.name().unwrap_or_default().to_owned(),
            reachable,
        }),
    }
}

/// Returns the world in which `spec` is measured.
pub fn world_config(spec: &PerfSpec) -> WorldConfig {
    let hosts = hosts(spec.topology);
    let mut config = if is_functional(&spec.preset) {
        WorldConfig::functional(hosts)
    } else {
        WorldConfig::timed(spec.preset.clone(), hosts)
    };
    config.seed = spec.seed;
    config.cards = spec.placement.cards.max(1) as usize;
    config.fast_forward = spec.fast_forward;
    config.faults.clone_from(&spec.faults);
    config.fabric.clone_from(&spec.fabric);
    match spec.switched {
        Some(true) => config.topology = ferroce_world::Topology::Switch,
        Some(false) => config.topology = ferroce_world::Topology::Cable,
        None => {}
    }
    config
}

impl<'a> Builder<'a> {
    fn new(spec: &'a PerfSpec, plan: &'a Plan, trace: Option<&SharedTrace>) -> Result<Self, Error> {
        let config = world_config(spec);
        let world = match trace {
            Some(trace) => trace::world(&config, trace)?,
            None => World::new(&config)?,
        };
        let nodes = (0..config.hosts).map(|host| Node::new(&world, spec, plan, host));
        Ok(Self {
            nodes: nodes.collect::<Result<_, _>>()?,
            psn: Random::new(spec.seed, PSN_STREAM),
            spec,
            plan,
            world,
        })
    }

    /// Connects thread `t` of each client with a thread of its server.
    fn clients_and_servers(&mut self) -> Result<(Vec<Side>, Vec<Side>), Error> {
        let flows = flows(self.spec.topology);
        // A host that sends and receives has its servers first, because they are started first.
        let mut servers = VecDeque::new();
        if matches!(self.spec.topology, Topology::Flows { .. }) {
            servers = self.sides_of(flows.iter().map(|(_, to)| *to), false)?;
        }
        let mut pairs = (Vec::new(), Vec::new());
        let mut clients = vec![0; self.nodes.len()];
        let mut targets = clients.clone();
        for (host, server) in flows {
            let (host, server) = (host as usize, server as usize);
            let first = clients[host];
            clients[host] += self.plan.threads;
            for thread in 0..self.qps_of_threads() {
                let mut client = self.side(host, first + thread, true)?;
                let mut target = match servers.pop_front() {
                    Some(server) => server,
                    None => self.side(server, targets[server] + thread, false)?,
                };
                for index in 0..client.endpoints.len() {
                    self.join(&mut client, index, &mut target, index)?;
                }
                pairs.0.push(client);
                pairs.1.push(target);
            }
            targets[server] += self.plan.threads;
        }
        Ok(pairs)
    }

    /// Creates the threads of one end of each flow, in order.
    fn sides_of(
        &mut self,
        hosts: impl Iterator<Item = u32>,
        is_client: bool,
    ) -> Result<VecDeque<Side>, Error> {
        let mut sides = VecDeque::new();
        let mut threads = vec![0; self.nodes.len()];
        for host in hosts.map(|host| host as usize) {
            for thread in 0..self.qps_of_threads() {
                sides.push_back(self.side(host, threads[host] + thread, is_client)?);
            }
            threads[host] += self.plan.threads;
        }
        Ok(sides)
    }

    /// Returns the number of threads of a client that have their own QPs.
    fn qps_of_threads(&self) -> u32 {
        self.plan.threads / self.spec.sharing.threads_per_qp.min(self.plan.threads)
    }

    /// Connects thread `t` of each host with thread `t` of each other.
    fn all_to_all(&mut self) -> Result<Vec<Side>, Error> {
        let hosts = self.nodes.len();
        let threads = self.plan.threads as usize;
        let mut sides = Vec::new();
        for host in 0..hosts {
            for thread in 0..threads {
                sides.push(Some(self.side(host, thread as u32, true)?));
            }
        }
        let per_peer = self.plan.qps_per_thread as usize / hosts;
        for thread in 0..threads {
            for (a, b) in (0..hosts).flat_map(|a| (0..a).map(move |b| (a, b))) {
                let (one, other) = (a * threads + thread, b * threads + thread);
                let taken = sides[one].take().zip(sides[other].take());
                let Some((mut first, mut second)) = taken else {
                    continue;
                };
                for machine in 0..per_peer {
                    let (to, from) = (machine * hosts + b, machine * hosts + a);
                    self.join(&mut first, to, &mut second, from)?;
                }
                sides[one] = Some(first);
                sides[other] = Some(second);
            }
        }
        Ok(sides.into_iter().flatten().collect())
    }

    /// Creates queues and memory of a thread, not connected yet.
    fn side(&mut self, host: usize, thread: u32, is_client: bool) -> Result<Side, Error> {
        let (plan, workload) = (self.plan, self.spec.workload);
        let depth = plan.depth * self.spec.sharing.threads_per_qp;
        let qps = plan.qps_per_thread;
        let device = Arc::clone(&self.nodes[host].device);
        let most = device.capabilities().max_cqe;
        let own_cqs = workload == Workload::Window;
        let send_entries = if own_cqs { depth } else { depth * qps };
        let receive_entries = if plan.has_receives() {
            plan.receive_depth * qps
        } else {
            1
        };
        let placement = &self.spec.placement;
        let queues = placement.of_host(&placement.queues, host);
        let completions = placement.of_host(&placement.completions, host);
        self.world.place_memory(host, completions);
        let send_cq = Queue::new(&device, send_entries.min(most), plan.events)?;
        let receive_cq = Queue::new(&device, receive_entries.min(most), plan.events)?;
        let location = if is_client {
            &placement.local
        } else {
            &placement.remote
        };
        self.world
            .place_memory(host, placement.of_host(location, host));
        let regions = self.regions(host, is_client)?;
        check_reach(location, &regions)?;
        let mut endpoints = Vec::new();
        for index in 0..qps {
            let cq = if own_cqs && index > 0 {
                self.world.place_memory(host, completions);
                Queue::new(&device, send_entries.min(most), false)?
            } else {
                send_cq.clone()
            };
            self.world.place_memory(host, queues);
            let qp = queue_pair(&self.nodes[host].pd, plan, depth, cq.cq(), receive_cq.cq())?;
            endpoints.push(self.endpoint(host, thread, (index, is_client), qp, cq));
        }
        Ok(Side {
            host,
            thread,
            endpoints,
            send_cq,
            receive_cq,
            regions,
        })
    }

    fn endpoint(
        &mut self,
        host: usize,
        thread: u32,
        (index, is_client): (u32, bool),
        qp: Arc<QueuePair>,
        send_cq: Queue,
    ) -> Endpoint {
        let stride = self.stride();
        let (qps, index) = (u64::from(self.plan.qps_per_thread), u64::from(index));
        let (local_base, receive_base) = match self.spec.workload {
            Workload::Perftest => (index * stride, (qps + index) * stride + self.headroom()),
            Workload::Batch => (u64::from(thread) * self.batch_bytes(), 0),
            Workload::Window => (0, 0),
        };
        Endpoint {
            qp,
            send_cq,
            psn: self.psn.below(PSN_END) as u32,
            local_base,
            receive_base,
            remote_base: 0,
            remote: Rc::from([]),
            datagram: None,
            is_alone: true,
            locks: Locks {
                qp: None,
                doorbell: if is_client || self.plan.bidirectional {
                    self.nodes[host].doorbell()
                } else {
                    None
                },
            },
        }
    }

    /// Returns the bytes between the buffers of two QPs.
    fn stride(&self) -> u64 {
        buffer_bytes(self.plan.size.into()) + self.headroom()
    }

    /// Returns the room for a datagram's GRH.
    fn headroom(&self) -> u64 {
        match self.plan.service {
            Service::Ud => LINE,
            _ => 0,
        }
    }

    /// Registers the local buffers of a thread of `Batch`.
    fn batch_bytes(&self) -> u64 {
        BATCH_BUFFERS.max(self.plan.depth.into()) * u64::from(self.plan.size).max(LINE)
    }

    fn regions(&mut self, host: usize, is_client: bool) -> Result<Vec<Region>, Error> {
        let (plan, spec) = (self.plan, self.spec);
        let pd = Arc::clone(&self.nodes[host].pd);
        if plan.one_address && !is_client {
            let node = &mut self.nodes[host];
            return Ok(vec![node.shared_region(
                false,
                LINE,
                target_memory(spec),
            )?]);
        }
        if plan.is_atomic() && spec.atomics.device_memory && !is_client {
            return Ok(vec![Region::of_card(&pd, PAGE)?]);
        }
        let length = match spec.workload {
            Workload::Perftest => 2 * u64::from(plan.qps_per_thread) * self.stride(),
            Workload::Window => spec.region_bytes.unwrap_or(WINDOW_REGION),
            Workload::Batch => {
                let length = if is_client {
                    self.batch_bytes() * u64::from(plan.threads)
                } else {
                    spec.region_bytes.unwrap_or(BATCH_REGION)
                };
                let memory = RegionMemory::Host(HostMemory::of(spec));
                let region = self.nodes[host].shared_region(is_client, length, memory)?;
                return Ok(vec![region]);
            }
        };
        (0..plan.regions_per_thread)
            .map(|_| Region::new(&pd, length, HostMemory::of(spec)))
            .collect()
    }

    /// Connects QP `here` of one thread with QP `there` of another.
    fn join(
        &self,
        first: &mut Side,
        here: usize,
        second: &mut Side,
        there: usize,
    ) -> Result<(), Error> {
        self.aim(first, here, second, there)?;
        self.aim(second, there, first, here)
    }

    fn aim(&self, from: &mut Side, here: usize, to: &Side, there: usize) -> Result<(), Error> {
        let target = &to.endpoints[there];
        let peer = Peer {
            path: self.world.path(to.host),
            qpn: target.qp.number(),
            psn: target.psn,
        };
        let remote: Rc<[RemoteRegion]> = to.regions.iter().map(Region::remote).collect();
        let is_card = to.regions.iter().any(|region| region.buffer.is_none());
        let base = if self.plan.one_address || is_card {
            0
        } else {
            target.receive_base
        };
        let endpoint = &mut from.endpoints[here];
        connect(&endpoint.qp, endpoint.psn, &peer, self.plan).map_err(Error::driver("QP"))?;
        endpoint.remote = remote;
        endpoint.remote_base = base;
        endpoint.is_alone = false;
        if self.plan.service == Service::Ud {
            endpoint.datagram = Some((peer.path, peer.qpn));
        }
        Ok(())
    }

    /// Gives each QP to `threads_per_qp` threads, with locks.
    fn share(&self, owners: Vec<Side>) -> (Vec<Side>, Vec<Option<Rc<SpinLock>>>) {
        let mut sides = Vec::new();
        let mut cq_locks = Vec::new();
        let threads = self.spec.sharing.threads_per_qp.min(self.plan.threads);
        for (group, owner) in (0..).zip(owners) {
            let cq_lock = Rc::new(SpinLock::of_queue());
            let qp_lock = Rc::new(SpinLock::of_queue());
            for member in 0..threads {
                let thread = group * threads + member;
                let endpoints = owner.endpoints.iter().map(|endpoint| Endpoint {
                    qp: Arc::clone(&endpoint.qp),
                    send_cq: endpoint.send_cq.clone(),
                    remote: Rc::clone(&endpoint.remote),
                    local_base: u64::from(thread) * self.batch_bytes(),
                    locks: Locks {
                        qp: Some(Rc::clone(&qp_lock)),
                        doorbell: endpoint.locks.doorbell.clone(),
                    },
                    ..*endpoint
                });
                sides.push(Side {
                    thread,
                    endpoints: endpoints.collect(),
                    send_cq: owner.send_cq.clone(),
                    receive_cq: owner.receive_cq.clone(),
                    regions: owner.regions.clone(),
                    host: owner.host,
                });
                cq_locks.push(Some(Rc::clone(&cq_lock)));
            }
        }
        (sides, cq_locks)
    }
}
