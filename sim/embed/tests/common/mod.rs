//! Shared set-up of the tests with functions: everything up to a connected QP.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use ferroce_driver::bus::Bus;
use ferroce_driver::{
    AsyncEvent, CompletionQueue, DataSegment, Device, MemoryRegion, ModifyQp, ProtectionDomain,
    QueuePair, RemoteAddress, RtrAttributes, RtsAttributes, SendOperation, WorkCompletion,
};
use ferroce_embed::function::{Function, HostIdentity, Options};
use ferroce_platform::host;
pub use ferroce_test_support::TIMEOUT;
use ferroce_test_support::{Deadline, TemporaryDirectory, eventually, temporary_directory};
use ferroce_test_verbs as verbs;

/// Bytes of a node's memory.
pub const BUFFER: usize = 1 << 20;

/// A rendezvous directory for one test.
pub struct Rendezvous(pub TemporaryDirectory);

impl Rendezvous {
    pub fn new(name: &str) -> Self {
        Self(temporary_directory(name))
    }

    pub fn options(&self, host: &str) -> Options {
        self.device_options(host, 0)
    }

    pub fn device_options(&self, host: &str, device: u8) -> Options {
        Options {
            directory: self.0.path().to_owned(),
            host: host::named_device(host, device, None).expect("a name"),
            icrc: false,
            capture: None,
            record: None,
            port: None,
            faults: None,
            is_patient: false,
            relaxed_order: None,
            is_served: false,
        }
    }
}

/// A process: everything up to a connected QP.
pub struct Node {
    pub device: Arc<Device>,
    pub pd: Arc<ProtectionDomain>,
    pub qp: Arc<QueuePair>,
    pub cq: Arc<CompletionQueue>,
    pub region: Arc<MemoryRegion>,
    pub memory: Box<[AtomicU64]>,
    pub events: Arc<AtomicU32>,
    /// Asynchronous events of the device and its port.
    pub reports: Arc<Mutex<Vec<AsyncEvent>>>,
    pub host: HostIdentity,
    /// The function, if the model is in this process.
    pub function: Option<Arc<Function>>,
}

impl Node {
    pub fn new(options: &Options) -> Self {
        let function = Function::open_with(options).expect("a place is free");
        let host = function.host().clone();
        Self::over(function.bus(), host, Some(function))
    }

    /// Creates a process whose device is behind a bus and has the addresses of `host`.
    pub fn over(bus: Arc<dyn Bus>, host: HostIdentity, function: Option<Arc<Function>>) -> Self {
        let device = Device::open(bus).expect("the model comes up");
        verbs::set_gids(
            &device,
            host.gids.iter().map(|entry| (entry.gid, entry.mac)),
        );
        let reports = Arc::new(Mutex::new(Vec::new()));
        let reported = Arc::clone(&reports);
        device.set_event_handler(Some(Arc::new(move |event| {
            reported.lock().expect("no panic").push(event);
        })));
        let pd = device.alloc_pd().expect("first PD");
        let memory: Box<[AtomicU64]> = (0..BUFFER / 8).map(|_| AtomicU64::new(0)).collect();
        let events = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&events);
        let cq = verbs::new_cq_with_events(&device, move || {
            counted.fetch_add(1, Ordering::SeqCst);
        });
        let qp = verbs::new_qp(&pd, &verbs::qp_config(&cq, 64));
        let region = verbs::register(&pd, &memory);
        Self {
            device,
            pd,
            qp,
            cq,
            region,
            memory,
            events,
            reports,
            host,
            function,
        }
    }

    /// Waits until all these events have been reported, and removes them.
    pub fn expect_reports(&self, expected: &[AsyncEvent]) {
        eventually(&format!("{expected:?}"), TIMEOUT, || {
            let mut reports = self.reports.lock().expect("no panic");
            let are_there = reports.len() >= expected.len();
            if are_there {
                assert_eq!(*reports, expected);
                reports.clear();
            }
            are_there
        });
    }

    /// Waits until the CQ has raised this many events since the start.
    pub fn expect_events(&self, count: u32) {
        eventually(&format!("event {count} of the CQ"), TIMEOUT, || {
            self.events.load(Ordering::SeqCst) >= count
        });
    }

    pub fn connect(&self, to: &Node) {
        self.initialise();
        self.connect_initialised(to);
    }

    /// Moves the QP to INIT, where receives can be posted before any packet arrives.
    pub fn initialise(&self) {
        verbs::modify(&self.qp, [ModifyQp::ToInit(verbs::INIT)]);
    }

    /// Moves the QP from INIT to RTS.
    pub fn connect_initialised(&self, to: &Node) {
        let dest_gid = to.host.gids[1].gid;
        let dest_mac = match &self.function {
            Some(function) => function.resolve_mac(dest_gid),
            None => Some(to.host.mac),
        };
        let path = verbs::path_to(dest_gid, dest_mac.expect("it is on the fabric"));
        let rtr = RtrAttributes {
            max_dest_rd_atomic: 1,
            ..verbs::rtr(to.qp.number(), path)
        };
        let rts = RtsAttributes {
            max_rd_atomic: 1,
            ..verbs::rts()
        };
        verbs::modify(&self.qp, [ModifyQp::ToRtr(rtr), ModifyQp::ToRts(rts)]);
    }

    pub fn segment(&self, length: usize) -> DataSegment {
        verbs::segment(&self.region, 0, length)
    }

    pub fn post(&self, operation: SendOperation, length: usize) {
        verbs::post(&self.qp, 11, operation, self.segment(length));
    }

    pub fn post_receive(&self, wr_id: u64, length: usize) {
        verbs::post_receive(&self.qp, wr_id, self.segment(length));
    }

    pub fn remote(&self) -> RemoteAddress {
        verbs::remote(&self.region, 0)
    }

    pub fn fill(&self, byte: u8) {
        for word in &self.memory {
            word.store(u64::from_ne_bytes([byte; 8]), Ordering::Relaxed);
        }
    }

    pub fn holds(&self, length: usize, byte: u8) -> bool {
        assert_eq!(length % 8, 0);
        self.memory[..length / 8]
            .iter()
            .all(|word| word.load(Ordering::Acquire) == u64::from_ne_bytes([byte; 8]))
    }

    /// Polls until a completion arrives.
    pub fn wait(&self) -> WorkCompletion {
        self.wait_beside(None)
    }

    /// Polls until a completion arrives; `other` polls, too.
    pub fn wait_beside(&self, other: Option<&Node>) -> WorkCompletion {
        // Polling advances the model, so there is no pause.
        let deadline = Deadline::new("a completion", TIMEOUT);
        let mut found = None;
        while found.is_none() {
            self.cq.poll(1, |completion| found = Some(completion));
            if let Some(other) = other {
                other.cq.relax();
            }
            deadline.check();
        }
        found.expect("just checked")
    }
}

pub fn two(rendezvous: &Rendezvous, hosts: [&str; 2]) -> (Node, Node) {
    let (one, other) = hosts
        .map(|host| Node::new(&rendezvous.options(host)))
        .into();
    one.connect(&other);
    other.connect(&one);
    (one, other)
}
