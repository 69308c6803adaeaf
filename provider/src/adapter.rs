//! The NIC of this process: one function and one driver, shared by all contexts that the program
//! opens.

use crate::address::Neighbours;
use crate::errno::Errno;
use crate::event::{EventQueue, Source, Subject};
use crate::ffi::abi::*;
use crate::ffi::{Generation, ProcessLock};
use ferroce_driver::{AsyncEvent, Cqn, Device, GidEntry, Qpn};
use ferroce_sim::function::Function;
use ferroce_sim::host::HostIdentity;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

/// Where the async events of an object go.
#[derive(Clone)]
struct Registration {
    queue: Arc<EventQueue>,
    source: Arc<Source>,
}

/// Who is told what.
#[derive(Default)]
struct Listeners {
    queue_pairs: BTreeMap<Qpn, Registration>,
    completion_queues: BTreeMap<Cqn, Registration>,
    /// Async queues of all contexts, for what concerns the port or the device.
    contexts: Vec<Weak<EventQueue>>,
}

/// The opened NIC.
pub struct Adapter {
    generation: Generation,
    device: Arc<Device>,
    function: Arc<Function>,
    listeners: Arc<Mutex<Listeners>>,
}

/// The adapter of this process while a context holds it, with the process that opened it.
static SHARED: Mutex<Option<(Generation, Weak<Adapter>)>> = Mutex::new(None);

impl Adapter {
    /// Opens the NIC, or shares the one that this process has open.
    pub fn open() -> Result<Arc<Self>, Errno> {
        crate::log::start();
        // No fork while the device comes up: the child would inherit SHARED locked.
        let _no_fork = ProcessLock::enter();
        let mut shared = SHARED.lock();
        if let Some((generation, adapter)) = shared.as_ref() {
            if generation.is_current() {
                if let Some(adapter) = adapter.upgrade() {
                    return Ok(adapter);
                }
            }
        }
        let adapter = Self::bring_up()?;
        *shared = Some((adapter.generation, Arc::downgrade(&adapter)));
        Ok(adapter)
    }

    fn bring_up() -> Result<Arc<Self>, Errno> {
        let function = Function::open().map_err(|error| {
            tracing::error!(%error, "cannot open the NIC");
            Errno(error.errno())
        })?;
        let device = Device::open(function.bus())?;
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
        let told = listeners.clone();
        device.set_event_handler(Some(Arc::new(move |event| dispatch(&told, event))));
        Ok(Arc::new(Self {
            generation: Generation::current(),
            device,
            function,
            listeners,
        }))
    }

    /// The driver, unless a parent of this process opened it.
    pub fn device(&self) -> Result<&Arc<Device>, Errno> {
        self.check()?;
        Ok(&self.device)
    }

    /// Fails in a child of the process that opened the NIC.
    #[inline]
    pub fn check(&self) -> Result<(), Errno> {
        if self.generation.is_current() {
            Ok(())
        } else {
            Err(Errno::IO)
        }
    }

    /// Who this host is on the fabric.
    pub fn host(&self) -> &HostIdentity {
        self.function.host()
    }

    /// Tells a context of what happens to the port and the device.
    pub fn add_context(&self, queue: &Arc<EventQueue>) {
        let mut listeners = self.listeners.lock();
        listeners
            .contexts
            .retain(|context| context.strong_count() > 0);
        listeners.contexts.push(Arc::downgrade(queue));
    }

    /// Tells a context of what happens to one of its QPs.
    pub fn add_queue_pair(&self, number: Qpn, queue: &Arc<EventQueue>, source: &Arc<Source>) {
        let registration = Registration {
            queue: queue.clone(),
            source: source.clone(),
        };
        self.listeners
            .lock()
            .queue_pairs
            .insert(number, registration);
    }

    /// Tells a context of what happens to one of its CQs.
    pub fn add_completion_queue(&self, number: Cqn, queue: &Arc<EventQueue>, source: &Arc<Source>) {
        let registration = Registration {
            queue: queue.clone(),
            source: source.clone(),
        };
        self.listeners
            .lock()
            .completion_queues
            .insert(number, registration);
    }

    /// No more events of this QP; those that wait are purged.
    pub fn remove_queue_pair(&self, number: Qpn) {
        let registration = self.listeners.lock().queue_pairs.remove(&number);
        if let Some(registration) = registration {
            registration.queue.purge(&registration.source);
        }
    }

    /// No more events of this CQ; those that wait are purged.
    pub fn remove_completion_queue(&self, number: Cqn) {
        let registration = self.listeners.lock().completion_queues.remove(&number);
        if let Some(registration) = registration {
            registration.queue.purge(&registration.source);
        }
    }
}

impl Neighbours for Adapter {
    fn gid_count(&self) -> usize {
        self.host().gids.len()
    }

    fn resolve_mac(&self, gid: [u8; 16]) -> Option<[u8; 6]> {
        self.function.resolve_mac(gid)
    }
}

/// Hands an event of the driver to the contexts that it concerns.
fn dispatch(listeners: &Mutex<Listeners>, event: AsyncEvent) {
    let (number, kind) = match event {
        AsyncEvent::QpFatal(qpn) => (qpn, IBV_EVENT_QP_FATAL),
        AsyncEvent::QpRequestError(qpn) => (qpn, IBV_EVENT_QP_REQ_ERR),
        AsyncEvent::QpAccessError(qpn) => (qpn, IBV_EVENT_QP_ACCESS_ERR),
        AsyncEvent::CommunicationEstablished(qpn) => (qpn, IBV_EVENT_COMM_EST),
        AsyncEvent::SqDrained(qpn) => (qpn, IBV_EVENT_SQ_DRAINED),
        AsyncEvent::LastWqeReached(qpn) => (qpn, IBV_EVENT_QP_LAST_WQE_REACHED),
        AsyncEvent::CqError(cqn) => {
            let registration = listeners.lock().completion_queues.get(&cqn).cloned();
            return tell(registration, IBV_EVENT_CQ_ERR);
        }
        AsyncEvent::PortActive => return tell_all(listeners, IBV_EVENT_PORT_ACTIVE),
        AsyncEvent::PortError => return tell_all(listeners, IBV_EVENT_PORT_ERR),
        AsyncEvent::DeviceFatal => return tell_all(listeners, IBV_EVENT_DEVICE_FATAL),
    };
    let registration = listeners.lock().queue_pairs.get(&number).cloned();
    tell(registration, kind);
}

fn tell(registration: Option<Registration>, kind: i32) {
    if let Some(Registration { queue, source }) = registration {
        queue.push(Subject::Object(kind, source));
    }
}

fn tell_all(listeners: &Mutex<Listeners>, kind: i32) {
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
