//! The NICs of this process: functions with a driver each, shared by the contexts that the program
//! opens.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime};

use ferroce_driver::bus::ProgramClock;
use ferroce_driver::{AsyncEvent, Cqn, Device, GidEntry, Lease, Qpn, Srqn, UseCount};
use ferroce_embed::devices;
use ferroce_embed::fabric::host_peers::HostPeers;
use ferroce_embed::fabric::shown_qps::ShownQps;
use ferroce_embed::function::Function;
use ferroce_platform::host::{GidEntry as HostGid, HostIdentity};
use ferroce_platform::os;
use parking_lot::Mutex;

use crate::abi::*;
use crate::address::Neighbours;
use crate::errno::{Errno, Right};
use crate::event::{EventQueue, Source, Subject};
use crate::gid_table::GidTable;
use crate::identity;
use crate::on_demand::Keys;
use crate::open_error;
use crate::opening_thread;
use crate::os::fork::{Generation, ProcessLock};
use crate::tenancy::{End, Tenancy};
use crate::wall_clock::{Reading, WallClock};
use crate::xrc_domains::DomainsByFile;

/// Destination of the async events of an object.
#[derive(Clone)]
struct Registration {
    queue: Arc<EventQueue>,
    source: Arc<Source>,
}

/// The object that an async event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Object {
    QueuePair(Qpn),
    CompletionQueue(Cqn),
    SharedReceiveQueue(Srqn),
}

/// Recipients of async events.
#[derive(Default)]
struct Listeners {
    /// A QP that was opened several times has several.
    objects: BTreeMap<Object, Vec<Registration>>,
    /// Async queues of all contexts, for events of the port or the device.
    contexts: Vec<Weak<EventQueue>>,
    /// Called when the device fails.
    on_fatal: Vec<Arc<dyn Fn() + Send + Sync>>,
}

/// An opened function of a NIC.
pub struct Adapter {
    generation: Generation,
    clock: Option<Arc<dyn ProgramClock>>,
    device: Arc<Device>,
    function: Arc<Tenancy>,
    listeners: Arc<Mutex<Listeners>>,
    gid_table: Arc<GidTable>,
    /// Shared by all functions of the device.
    xrc_domains: Arc<DomainsByFile>,
    address_handles: UseCount,
    pub keys: Keys,
    wall_clock: WallClock,
    /// Where `ferroce top` finds the QPs; `None`: the device is not on the fabric.
    pub shown_qps: Option<ShownQps>,
}

/// An adapter that this process uses, and its end: the moment when all its resources are released.
struct Opened {
    generation: Generation,
    adapter: Weak<Adapter>,
    end: End,
}

impl Opened {
    /// Returns the adapter if this process has it open.
    fn current(&self) -> Option<Arc<Adapter>> {
        let is_ours = self.generation.is_current();
        is_ours.then(|| self.adapter.upgrade()).flatten()
    }

    /// Returns the end to wait for while the adapter is being closed.
    fn closing(&self) -> Option<&End> {
        let is_open = self.adapter.strong_count() > 0;
        (self.generation.is_current() && !is_open && !self.end.is_over()).then_some(&self.end)
    }

    /// Returns how busy the function is: whether it is being closed, and how many users it has.
    fn load(&self) -> (bool, usize) {
        if self.generation.is_current() {
            (self.closing().is_some(), self.adapter.strong_count())
        } else {
            (false, 0)
        }
    }
}

/// The adapters of this process, by device and function.
type Adapters = BTreeMap<(u8, u8), Opened>;

static SHARED: Mutex<Adapters> = Mutex::new(BTreeMap::new());

/// How long opening a device waits until its last use has ended. Longer than giving up a device
/// that no longer answers.
const CLOSING_LIMIT: Duration = Duration::from_secs(30);
const CANNOT_OPEN: &str = "cannot open the NIC";

impl Adapter {
    /// Opens a function of a NIC for a context: the function with the fewest users, because a
    /// context alone on a function contends with no other. If the NIC has one function, all
    /// contexts share it.
    ///
    /// # Errors
    /// The error of the function or the device; `EBUSY` when another thread has closed the device
    /// and has not finished.
    pub fn open(device: u8) -> Result<Arc<Self>, Errno> {
        crate::log::start();
        let count = devices::functions_of(device)
            .map_err(|error| open_error::report(CANNOT_OPEN, &error, error.errno()))?;
        Self::open_one_of(device, count)
    }

    /// Opens the first function of a NIC, or shares the one that this process has open.
    ///
    /// # Errors
    /// The errors of [`Self::open`].
    pub fn open_first(device: u8) -> Result<Arc<Self>, Errno> {
        crate::log::start();
        Self::open_one_of(device, 1)
    }

    /// Opens the function with the fewest users of the first `count`.
    fn open_one_of(device: u8, count: u8) -> Result<Arc<Self>, Errno> {
        let deadline = Instant::now() + CLOSING_LIMIT;
        loop {
            let closing = match Self::try_open(device, count)? {
                Ok(adapter) => return Ok(adapter),
                Err(closing) => closing,
            };
            if !closing.wait(deadline.saturating_duration_since(Instant::now())) {
                tracing::error!(
                    device,
                    "cannot open the NIC: another thread is still closing it"
                );
                return Err(Errno::BUSY.because("another thread is still closing the device"));
            }
        }
    }

    /// Opens or shares a function, unless its last context is being closed: then returns the end to
    /// wait for.
    fn try_open(device: u8, count: u8) -> Result<Result<Arc<Self>, End>, Errno> {
        // Prevents a fork while the device comes up: the child would inherit SHARED locked.
        let _no_fork = ProcessLock::enter();
        let mut shared = SHARED.lock();
        let number = least_used(&shared, device, count);
        let key = (device, number);
        if let Some(opened) = shared.get(&key) {
            if let Some(adapter) = opened.current() {
                return Ok(Ok(adapter));
            }
            if let Some(closing) = opened.closing() {
                return Ok(Err(closing.clone()));
            }
        }
        let xrc_domains = xrc_domains(&shared, device);
        let adapter = opening_thread::run(|| Self::bring_up(device, number, xrc_domains))?;
        let opened = Opened {
            generation: adapter.generation,
            adapter: Arc::downgrade(&adapter),
            end: adapter.function.end(),
        };
        shared.insert(key, opened);
        Ok(Ok(adapter))
    }

    fn bring_up(
        device: u8,
        number: u8,
        xrc_domains: Arc<DomainsByFile>,
    ) -> Result<Arc<Self>, Errno> {
        let function = Function::open_function(device, number)
            .map_err(|error| open_error::report(CANNOT_OPEN, &error, error.errno()))?;
        let function = Tenancy::of(function);
        let config = function.device_config();
        let device = Device::open_kept(function.bus(), &config, Some(function.clone()))
            .map_err(|error| open_error::report(CANNOT_OPEN, &error, error.errno()))?;
        for (index, entry) in (0..).zip(&function.host().gids) {
            device.set_gid(
                index,
                &GidEntry {
                    gid: entry.gid,
                    mac: entry.mac,
                    vlan: None,
                },
            )?;
        }
        let listeners = Arc::new(Mutex::new(Listeners::default()));
        let gid_table = Arc::new(GidTable::default());
        let (recipients, table) = (listeners.clone(), gid_table.clone());
        device.set_event_handler(Some(Arc::new(move |event| {
            dispatch(&recipients, &table, event);
        })));
        Ok(Arc::new(Self {
            generation: Generation::current(),
            clock: function.bus().program_clock(),
            shown_qps: function.shown_qps(),
            device,
            function,
            listeners,
            gid_table,
            xrc_domains,
            address_handles: UseCount::default(),
            keys: Keys::default(),
            wall_clock: WallClock::default(),
        }))
    }

    /// Returns the driver, unless a parent of this process opened it.
    pub fn device(&self) -> Result<&Arc<Device>, Errno> {
        self.check()?;
        Ok(&self.device)
    }

    /// Returns the nanoseconds since 1970 at which the device's clock showed `stamp_ns`: not in the
    /// future, and never less than for an earlier stamp, unless the system's clock was set back.
    ///
    /// # Errors
    /// `EIO` in a child of the process that opened the NIC.
    pub fn wall_clock_ns(&self, stamp_ns: u64) -> Result<u64, Errno> {
        let device = self.device()?;
        let shown_ns = self.wall_clock.at(stamp_ns, || Reading {
            wall_ns: since_1970_ns(),
            device_ns: device.clock_ns(),
            wall_after_ns: since_1970_ns(),
        });
        // The conversion is accurate to a few hundred nanoseconds only. Programs subtract the
        // result from the current time, so it must not be in the future.
        Ok(shown_ns.min(since_1970_ns()))
    }

    /// Returns the clock that charges calls in simulated time; `None`: calls take real time.
    #[inline]
    pub fn program_clock(&self) -> Option<&Arc<dyn ProgramClock>> {
        self.clock.as_ref()
    }

    /// Checks the simulated world, for programs that measure in simulated time.
    ///
    /// # Errors
    /// `EIO` when the world has ended, or the only other program in it was killed.
    #[inline]
    pub fn check_world(&self) -> Result<(), Errno> {
        match self.program_clock() {
            Some(clock) if clock.has_failed() => {
                Err(Errno::IO.because("the simulated world has ended"))
            }
            _ => Ok(()),
        }
    }

    /// Returns `vendor_part_id`.
    pub fn part_id(&self) -> u32 {
        identity::part_id(self.function.properties().part_id)
    }

    /// Returns the path MTU as an `enum ibv_mtu`: the network's if it is known, and never more than
    /// `max_path_mtu`.
    pub fn active_mtu(&self, max_path_mtu: u8) -> u8 {
        let modelled = self.function.properties().path_mtu_bytes;
        // 256 bytes are code 1, and each further code doubles them.
        let code = modelled.and_then(|bytes| bytes.checked_ilog2()?.checked_sub(7));
        code.map_or(max_path_mtu, |code| {
            max_path_mtu.min(code.clamp(1, 5) as u8)
        })
    }

    /// Returns the data rate of the port in units of 100 Mb/s: the modelled card's, if a particular
    /// card is modelled.
    pub fn speed_100mbps(&self) -> u64 {
        let modelled = self.function.properties().rate_mbps;
        modelled.map_or(identity::PORT_SPEED_100MBPS, |mbps| u64::from(mbps) / 100)
    }

    /// Fails in a child of the process that opened the NIC.
    #[inline]
    pub fn check(&self) -> Result<(), Errno> {
        if self.generation.is_current() {
            Ok(())
        } else {
            Err(of_the_parent())
        }
    }

    /// Returns the identity of this host on the fabric.
    pub fn host(&self) -> &HostIdentity {
        self.function.host()
    }

    /// Returns an entry of the host's GID table if the card has it.
    pub fn gid(&self, index: usize) -> Option<&HostGid> {
        let host = self.host();
        let entry = host.gids.get(index)?;
        let is_gone = self.gid_table.lacks(index, &self.device, host);
        (!is_gone).then_some(entry)
    }

    /// Returns true if a function of a device that this process uses has lost an entry of its GID
    /// table.
    pub fn has_lost_gid(device: u8, index: usize) -> bool {
        let open: Vec<Arc<Self>> = {
            // Prevents a fork meanwhile: the child would inherit SHARED locked.
            let _no_fork = ProcessLock::enter();
            let shared = SHARED.lock();
            let functions = shared.range((device, 0)..=(device, u8::MAX));
            functions
                .filter_map(|(_, opened)| opened.current())
                .collect()
        };
        open.iter().any(|adapter| adapter.gid(index).is_none())
    }

    /// Returns this process and the others of its host, for a device on the fabric.
    pub fn host_peers(&self) -> Option<HostPeers> {
        self.function.host_peers()
    }

    /// Takes a lease for an address handle, which counts against the device's limit although it
    /// uses only memory of the program.
    pub fn address_handle(&self) -> Result<Lease, Errno> {
        let limit = self.device()?.capabilities().max_ah;
        self.address_handles.acquire_below(limit).ok_or_else(|| {
            let count = u64::from(limit) + 1;
            Errno::NO_MEMORY.argument("address handles", count, Right::AtMost(limit.into()))
        })
    }

    /// Returns the XRC domains of the device that were opened with a file.
    pub fn xrc_domains(&self) -> &DomainsByFile {
        &self.xrc_domains
    }

    /// Adds a context that gets the events of the port and the device.
    pub fn add_context(&self, queue: &Arc<EventQueue>) {
        let mut listeners = self.listeners.lock();
        listeners
            .contexts
            .retain(|context| context.strong_count() > 0);
        listeners.contexts.push(Arc::downgrade(queue));
    }

    /// Calls `on_fatal` when the device fails.
    pub fn on_fatal(&self, on_fatal: impl Fn() + Send + Sync + 'static) {
        self.listeners.lock().on_fatal.push(Arc::new(on_fatal));
    }

    /// Adds a context that gets the events of one of its objects.
    pub fn add(&self, object: Object, queue: &Arc<EventQueue>, source: &Arc<Source>) {
        let registration = Registration {
            queue: queue.clone(),
            source: source.clone(),
        };
        let mut listeners = self.listeners.lock();
        listeners
            .objects
            .entry(object)
            .or_default()
            .push(registration);
    }

    /// Removes an object from the recipients of that source, and purges its waiting events.
    pub fn remove(&self, object: Object, source: &Arc<Source>) {
        let mut gone = Vec::new();
        let mut listeners = self.listeners.lock();
        if let Some(registrations) = listeners.objects.get_mut(&object) {
            let (matching, others) = std::mem::take(registrations)
                .into_iter()
                .partition(|registration| Arc::ptr_eq(&registration.source, source));
            gone = matching;
            *registrations = others;
            if registrations.is_empty() {
                listeners.objects.remove(&object);
            }
        }
        drop(listeners);
        for Registration { queue, source } in gone {
            queue.purge(&source);
        }
    }
}

/// Returns the error of a verb on an object that this process inherited by fork. The first such
/// verb prints the reason, because the same program works with a kernel driver.
#[cold]
fn of_the_parent() -> Errno {
    static PRINTED_BY: AtomicU32 = AtomicU32::new(0);
    let process = std::process::id();
    if PRINTED_BY.swap(process, Ordering::Relaxed) != process {
        let line = format!(
            "ferroce: process {process} was made by fork and uses a device that its parent has \
             opened: such calls fail with EIO. Open the device after fork, in the process that \
             uses it\n"
        );
        // Not by `tracing`: another thread of the parent may have held its locks during the fork.
        os::write_to_stderr(&line);
    }
    Errno::IO.because("the object belongs to the parent process, which has forked")
}

/// Returns the number of the function with the fewest users, of `count`.
fn least_used(adapters: &Adapters, device: u8, count: u8) -> u8 {
    let load = |number: &u8| {
        let opened = adapters.get(&(device, *number));
        opened.map_or((false, 0), Opened::load)
    };
    (0..count).min_by_key(load).unwrap_or(0)
}

/// Returns the XRC domains of a device, which its functions share.
fn xrc_domains(adapters: &Adapters, device: u8) -> Arc<DomainsByFile> {
    let functions = adapters.range((device, 0)..=(device, u8::MAX));
    let mut open = functions.filter_map(|(_, opened)| opened.current());
    open.next()
        .map_or_else(Arc::default, |adapter| adapter.xrc_domains.clone())
}

impl Neighbours for Adapter {
    fn gid_count(&self) -> usize {
        self.host().gids.len()
    }

    fn has_gid(&self, index: usize) -> bool {
        self.gid(index).is_some()
    }

    fn resolve_mac(&self, gid: [u8; 16]) -> Option<[u8; 6]> {
        self.function.resolve_mac(gid)
    }
}

fn since_1970_ns() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |now| u64::try_from(now.as_nanos()).unwrap_or(u64::MAX))
}

/// Passes an event of the driver to the contexts that it concerns.
fn dispatch(listeners: &Mutex<Listeners>, gid_table: &GidTable, event: AsyncEvent) {
    use Object::{CompletionQueue, QueuePair, SharedReceiveQueue};
    let (object, kind) = match event {
        AsyncEvent::QpFatal(qpn) => (QueuePair(qpn), IBV_EVENT_QP_FATAL),
        AsyncEvent::QpRequestError(qpn) => (QueuePair(qpn), IBV_EVENT_QP_REQ_ERR),
        AsyncEvent::QpAccessError(qpn) => (QueuePair(qpn), IBV_EVENT_QP_ACCESS_ERR),
        AsyncEvent::CommunicationEstablished(qpn) => (QueuePair(qpn), IBV_EVENT_COMM_EST),
        AsyncEvent::SqDrained(qpn) => (QueuePair(qpn), IBV_EVENT_SQ_DRAINED),
        AsyncEvent::LastWqeReached(qpn) => (QueuePair(qpn), IBV_EVENT_QP_LAST_WQE_REACHED),
        AsyncEvent::SrqLimit(srqn) => (SharedReceiveQueue(srqn), IBV_EVENT_SRQ_LIMIT_REACHED),
        AsyncEvent::SrqError(srqn) => (SharedReceiveQueue(srqn), IBV_EVENT_SRQ_ERR),
        AsyncEvent::CqError(cqn) => (CompletionQueue(cqn), IBV_EVENT_CQ_ERR),
        AsyncEvent::PortActive => return notify_all(listeners, IBV_EVENT_PORT_ACTIVE),
        AsyncEvent::PortError => return notify_all(listeners, IBV_EVENT_PORT_ERR),
        AsyncEvent::GidChange(_) => {
            gid_table.note_change();
            return notify_all(listeners, IBV_EVENT_GID_CHANGE);
        }
        AsyncEvent::DeviceFatal => {
            notify_all(listeners, IBV_EVENT_DEVICE_FATAL);
            let called = listeners.lock().on_fatal.clone();
            return called.iter().for_each(|on_fatal| on_fatal());
        }
    };
    let registrations = listeners.lock().objects.get(&object).cloned();
    for Registration { queue, source } in registrations.unwrap_or_default() {
        queue.push(Subject::Object(kind, source));
    }
}

fn notify_all(listeners: &Mutex<Listeners>, kind: i32) {
    let contexts: Vec<_> = listeners
        .lock()
        .contexts
        .iter()
        .filter_map(Weak::upgrade)
        .collect();
    for queue in contexts {
        queue.push(Subject::Port(kind));
    }
}
