//! A NIC function that this process uses: either its own (a place in the fabric, the model, its bus
//! and its thread), or a device at the other end of a socket or in a PCIe slot.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::address::DeviceAddress;
use crate::open::open;
use ferroce_driver::DeviceConfig;
use ferroce_driver::bus::Bus;
use ferroce_faults::Plan;
use ferroce_model::NicConfig;
use ferroce_platform::host::{self, EnvironmentError, MAX_FUNCTIONS, device_name};
pub use ferroce_platform::host::{GidEntry, HostIdentity, MAX_DEVICES};
use ferroce_platform::{fork, os};
use ferroce_record::{Recorder, RecordingBus, Source};
use ferroce_spec::personality::Personality;
use ferroce_wire::{Gid, Mac};
use parking_lot::Mutex;

use crate::attached::{self, Attached, Properties};
use crate::capture::{self, Capture};
use crate::clock::Clock;
use crate::error::Error;
use crate::fabric::directory::runtime_directory;
use crate::fabric::host_peers::HostPeers;
use crate::fabric::registry::{Identity, Registry};
use crate::fabric::shown_qps::ShownQps;
use crate::in_process::{self, InProcess, mapping_calls};
use crate::neighbours::Neighbours;
use crate::port::{FabricPort, patient};
use crate::uplink::{Uplink, UplinkSpec};
use crate::{
    background, cycles, devices, faults, personality, random_keys, recovery, relaxed_order,
};

/// Time limit for another thread that is opening.
const OPEN_TIMEOUT: Duration = Duration::from_secs(10);

/// The same limit for a thread that only reads counters: it may be a signal handler that
/// interrupted the opening thread.
const READ_TIMEOUT: Duration = Duration::from_millis(100);

/// Time limit for the last publication of counters while another thread runs the model.
const END_TIMEOUT: Duration = Duration::from_millis(100);

/// A function of this process while it is in use, and the fork generation that opened it.
type Current = Option<(u32, Weak<Function>)>;

/// The functions of a device.
type Functions = [Current; MAX_FUNCTIONS as usize];

/// The functions of this process, by device.
static CURRENT: Mutex<[Functions; MAX_DEVICES as usize]> =
    Mutex::new([const { [const { None }; MAX_FUNCTIONS as usize] }; MAX_DEVICES as usize]);

/// How a function joins the fabric.
#[derive(Debug, Clone)]
pub struct Options {
    /// The rendezvous directory.
    pub directory: PathBuf,
    /// The host, and the number of the device on that host.
    pub host: HostIdentity,
    /// True if sent frames carry an ICRC even on this trusted wire.
    pub icrc: bool,
    /// Its capture file.
    pub capture: Option<PathBuf>,
    /// The record of the function's inputs and outputs.
    pub record: Option<PathBuf>,
    /// Its uplink.
    pub port: Option<UplinkSpec>,
    /// Faults of the frames that it receives, and of the frames that it sends on its uplink.
    pub faults: Option<Plan>,
    /// True if timeouts are stretched for a busy machine.
    pub is_patient: bool,
    /// Seed of the order in which relaxed writes reach memory; `None`: in order.
    pub relaxed_order: Option<u64>,
    /// True if the driver is in another process and rings doorbells in shared pages.
    pub is_served: bool,
}

impl Options {
    /// Returns the options that the environment requests for one of the devices: see `ferroce run
    /// --help`.
    ///
    /// # Errors
    /// [`Error::Environment`], [`Error::Directory`].
    pub fn from_environment(device: u8) -> Result<Self, Error> {
        let capture = std::env::var_os("FERROCE_CAPTURE").filter(|path| !path.is_empty());
        Ok(Self {
            directory: runtime_directory()?,
            host: host::of_device(device)?,
            icrc: icrc_from_environment()?,
            capture: capture.map(PathBuf::from),
            record: record_from_environment(),
            port: UplinkSpec::from_environment(device)?,
            faults: faults::from_environment()?,
            is_patient: patient::from_environment()?,
            relaxed_order: relaxed_order::from_environment()?,
            is_served: false,
        })
    }
}

/// Names the path of records: each function that is opened gets a separate file.
pub const RECORD_VARIABLE: &str = "FERROCE_RECORD";

/// The number of a `ferroce run`, which uses it to find the functions of its program.
pub const RUN_VARIABLE: &str = "FERROCE_RUN";

/// Returns the name of this program as the kernel reports it.
fn program_name() -> String {
    let name = std::fs::read_to_string("/proc/self/comm").unwrap_or_default();
    name.trim_end().to_owned()
}

fn run_from_environment() -> u64 {
    let text = std::env::var(RUN_VARIABLE);
    text.ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn record_from_environment() -> Option<PathBuf> {
    let path = std::env::var_os(RECORD_VARIABLE)?;
    (!path.is_empty()).then(|| path.into())
}

/// Creates a record.
fn create_record(path: &Path, source: Source) -> Result<Recorder, Error> {
    Recorder::create(path, source).map_err(|source| Error::File {
        path: path.to_owned(),
        action: "create the record",
        source,
    })
}

fn icrc_from_environment() -> Result<bool, Error> {
    match std::env::var("FERROCE_ICRC").as_deref() {
        Err(_) | Ok("" | "off" | "0") => Ok(false),
        Ok("on" | "1") => Ok(true),
        Ok(other) => Err(Error::Environment(EnvironmentError {
            name: "FERROCE_ICRC",
            value: other.to_owned(),
            reason: "is neither on nor off".to_owned(),
        })),
    }
}

/// A NIC function. Dropping the last reference removes it from the fabric, or releases the device.
pub struct Function {
    fork_generation: u32,
    bus: Arc<dyn Bus>,
    host: HostIdentity,
    neighbours: Neighbours,
    model: Option<Model>,
    config: DeviceConfig,
    properties: Properties,
}

/// The model of a function in this process.
#[derive(Debug)]
struct Model {
    bus: Arc<InProcess>,
    thread: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Function")
            .field("host", &self.host)
            .field("model", &self.model)
            .finish_non_exhaustive()
    }
}

impl Function {
    /// Opens the first device of this process.
    ///
    /// # Errors
    /// As [`Self::open_device`].
    pub fn open() -> Result<Arc<Self>, Error> {
        Self::open_device(0)
    }

    /// Opens the first function of a device of this process.
    ///
    /// # Errors
    /// As [`Self::open_function`].
    pub fn open_device(device: u8) -> Result<Arc<Self>, Error> {
        Self::open_function(device, 0)
    }

    /// Opens a function of a device of this process. The first call creates it, later calls share
    /// it. A forked child gets its own.
    ///
    /// # Errors
    /// [`Error`] with the reason.
    pub fn open_function(device: u8, number: u8) -> Result<Arc<Self>, Error> {
        let mut current = CURRENT
            .try_lock_for(OPEN_TIMEOUT)
            .ok_or(Error::OpeningInterrupted)?;
        let is_first = current.iter().flatten().all(Option::is_none);
        let functions = current.get_mut(usize::from(device));
        let Some(place) = functions.and_then(|all| all.get_mut(usize::from(number))) else {
            let count = devices::from_environment()?.len() as u8;
            return Err(Error::NoSuchDevice { device, count });
        };
        if let Some(function) = shared(place) {
            return Ok(function);
        }
        let function = match attached::open(device)? {
            Some(attached) => Self::of_attached(attached),
            None => match devices::address_of(device)? {
                DeviceAddress::InProcess => Self::open_with(&Options::from_environment(device)?)?,
                address => Self::open_card(&address, device)?,
            },
        };
        if is_first {
            os::at_exit(linger_at_exit);
        }
        *place = Some((function.fork_generation, Arc::downgrade(&function)));
        Ok(function)
    }

    /// Opens another function in this process, for tests and tools.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_with(options: &Options) -> Result<Arc<Self>, Error> {
        let device_config = device_config(options.host.mac)?;
        let clock = Clock::start();
        let registry = Registry::open(&options.directory)?;
        let capture = options
            .capture
            .as_deref()
            .map(|path| Capture::open(Path::new(path), &capture::interface(&options.host)))
            .transpose()?;
        let place = registry.claim(&Identity {
            host: options.host.name.clone(),
            device: options.host.device,
            mac: Mac(options.host.mac),
            gids: options
                .host
                .gids
                .iter()
                .map(|entry| Gid(entry.gid))
                .collect(),
            capture: capture.as_ref().map_or(0, Capture::identity),
        })?;
        registry.describe(place.number(), &program_name(), run_from_environment());
        let uplink = options
            .port
            .as_ref()
            .map(|spec| Uplink::open(spec, &place, Mac(options.host.mac), &clock))
            .transpose()?;
        let neighbours = Neighbours::from_environment(Some(registry), uplink.clone())?;
        let mut config = NicConfig {
            polled_doorbells: options.is_served,
            number_seed: device_config.key_seed,
            recovery: recovery::from_environment()?,
            // Client memory is accessed as a file, where instructions of this process are not
            // atomic.
            global_atomics: !options.is_served,
            ..NicConfig::functional(place.first_qpn().value(), options.host.mac)
        };
        if personality::from_environment()? == Personality::MLX5 {
            config = config.as_mlx5();
        }
        let record = options.record.as_deref();
        let recorder = record.map(|path| create_record(path, in_process::SOURCE));
        let port = FabricPort::new(place, &clock, options.icrc, capture)
            .with_recorder(recorder.transpose()?)
            .with_uplink(uplink)
            .with_faults(options.faults.clone())
            // The card in RTL asks whether a peer is slow on every run, not when a timer expires.
            .with_patient_mode(options.is_patient && !cfg!(feature = "rtl"));
        let bus = Arc::new(InProcess::new(config, port, clock, options.relaxed_order));
        let thread = background::start(bus.clone()).map_err(Error::Thread)?;
        mapping_calls::add(&bus);
        // Remove the report of the place's last owner, if it was killed.
        HostPeers::new(bus.place()).withdraw();
        Ok(Arc::new(Self {
            fork_generation: fork::generation(),
            bus: bus.clone(),
            host: options.host.clone(),
            neighbours,
            model: Some(Model {
                bus,
                thread: Some(thread),
            }),
            config: device_config,
            properties: Properties::default(),
        }))
    }

    /// Returns the open functions of a device of this process.
    pub fn in_use(device: u8) -> Vec<Arc<Self>> {
        let Some(current) = CURRENT.try_lock_for(READ_TIMEOUT) else {
            return Vec::new();
        };
        let functions = current.get(usize::from(device)).into_iter().flatten();
        functions.filter_map(shared).collect()
    }

    /// Returns the counters of a device outside of this process. `None`: the device is in this
    /// process, and its counters are now published.
    ///
    /// # Errors
    /// [`Error::NotOurs`].
    pub fn registers(&self) -> Result<Option<Vec<u64>>, Error> {
        if let Some(bus) = self.in_process() {
            bus.publish(Duration::ZERO);
            return Ok(None);
        }
        let counters = ferroce_driver::read_counters(&*self.bus);
        counters.map(Some).map_err(|error| Error::NotOurs {
            address: device_name(self.host.device),
            reason: error.to_string(),
        })
    }

    /// Wraps a function that another crate has opened.
    fn of_attached(attached: Attached) -> Arc<Self> {
        Arc::new(Self {
            fork_generation: fork::generation(),
            bus: attached.bus,
            host: attached.host,
            neighbours: Neighbours::fixed(attached.neighbours),
            model: None,
            config: attached.config,
            properties: attached.properties,
        })
    }

    /// Opens a function that is not in this process.
    fn open_card(address: &DeviceAddress, device: u8) -> Result<Arc<Self>, Error> {
        let (bus, _) = open_bus(address, record_from_environment().as_deref())?;
        let mac = ferroce_driver::port_mac(&*bus).map_err(|error| Error::NotOurs {
            address: address.to_string(),
            reason: error.to_string(),
        })?;
        // A served model is on the fabric of this machine; its peers are found there.
        let registry = runtime_directory().and_then(|directory| Registry::open(&directory));
        Ok(Arc::new(Self {
            fork_generation: fork::generation(),
            bus,
            host: host::of_card(device, mac)?,
            neighbours: Neighbours::from_environment(registry.ok(), None)?,
            model: None,
            config: device_config(mac)?,
            properties: Properties::default(),
        }))
    }

    /// Returns the bus for the driver.
    pub fn bus(&self) -> Arc<dyn Bus> {
        self.bus.clone()
    }

    /// Returns the model of a function in this process.
    pub fn in_process(&self) -> Option<&Arc<InProcess>> {
        self.model.as_ref().map(|model| &model.bus)
    }

    /// Returns the processes of the host, for a function on the fabric.
    pub fn host_peers(&self) -> Option<HostPeers> {
        let model = self.in_process()?;
        Some(HostPeers::new(model.place()))
    }

    /// Returns the list that shows queue pairs, for a function on the fabric.
    pub fn shown_qps(&self) -> Option<ShownQps> {
        Some(ShownQps::new(self.in_process()?.place()))
    }

    /// Returns the configuration with which the driver brings it up.
    pub fn device_config(&self) -> DeviceConfig {
        self.config
    }

    /// Returns the properties of the device.
    pub fn properties(&self) -> Properties {
        self.properties
    }

    /// Returns the host that this function is on.
    pub fn host(&self) -> &HostIdentity {
        &self.host
    }

    /// Returns the MAC address for a GID. `None` if no station has the GID.
    pub fn resolve_mac(&self, gid: [u8; 16]) -> Option<[u8; 6]> {
        self.neighbours.resolve_mac(&self.host, gid)
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else {
            return;
        };
        if self.bus.is_foreign() {
            // The thread belongs to the parent and does not exist in this process.
            std::mem::forget(thread);
            return;
        }
        self.bus.linger();
        self.bus.stop();
        self.bus.publish(END_TIMEOUT);
        mapping_calls::remove(&self.bus);
        count_cycles(&self.bus);
        // An interrupt handler on that very thread may drop the last reference.
        if thread.thread().id() != std::thread::current().id() {
            let _ = thread.join();
        }
    }
}

/// Opens the bus to a card or to a device in another process. With `record`, what the driver reads
/// and writes is recorded there.
///
/// # Errors
/// [`Error`] with the reason.
pub fn open_bus(
    address: &DeviceAddress,
    record: Option<&Path>,
) -> Result<(Arc<dyn Bus>, Option<Recorder>), Error> {
    let bus = open(address)?;
    let Some(path) = record else {
        return Ok((bus, None));
    };
    let recorder = create_record(path, Source::Driver)?;
    let recorded = RecordingBus::new(bus, recorder.clone());
    Ok((Arc::new(recorded), Some(recorder)))
}

/// Returns the configuration with which the driver brings up a device with this MAC address.
fn device_config(mac: [u8; 6]) -> Result<DeviceConfig, Error> {
    Ok(DeviceConfig {
        key_seed: random_keys::seed(mac)?,
        ..DeviceConfig::default()
    })
}

/// Returns the function if it is in use and this process opened it, not its parent.
fn shared(current: &Current) -> Option<Arc<Function>> {
    let (generation, function) = current.as_ref()?;
    (*generation == fork::generation())
        .then(|| function.upgrade())
        .flatten()
}

/// Sends pending ACKs at exit: a program may exit right after it has seen its last message, before
/// the ACK was sent.
extern "C" fn linger_at_exit() {
    let functions: Vec<_> = CURRENT.try_lock().map_or_else(Vec::new, |current| {
        current.iter().flatten().filter_map(shared).collect()
    });
    for function in functions {
        function.bus.linger();
        if let Some(bus) = function.in_process() {
            bus.publish(END_TIMEOUT);
            count_cycles(bus);
        }
        // Not dropped here: other threads may use it until the process ends.
        std::mem::forget(function);
    }
    cycles::print();
}

/// Adds the clock cycles of a card in RTL to the total of this process.
fn count_cycles(bus: &InProcess) {
    if let Some(cycles) = bus.cycles() {
        cycles::add(cycles, bus.clock().now().as_ns());
    }
}
