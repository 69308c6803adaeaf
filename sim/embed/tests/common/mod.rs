//! Shared set-up of the tests with functions: everything up to a connected QP.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ferroce_driver::bus::Bus;
use ferroce_driver::{
    AddressVector, AsyncEvent, CompletionQueue, CompletionQueueConfig, DataSegment, Destination,
    Device, GidEntry, InitAttributes, MemoryAccess, MemoryRegion, ModifyQp, PathMtu,
    ProtectionDomain, QpAccess, QueuePair, QueuePairConfig, ReceiveSource, RemoteAddress,
    RtrAttributes, RtsAttributes, SendData, SendOperation, SendRequest, Service, WorkCompletion,
};
use ferroce_embed::function::{Function, HostIdentity, Options};

/// Far more than any step here takes.
pub const TIMEOUT: Duration = Duration::from_secs(20);
/// Bytes of a node's memory.
pub const BUFFER: usize = 1 << 20;

/// A separate rendezvous directory.
pub struct Rendezvous(pub PathBuf);

impl Rendezvous {
    pub fn new(name: &str) -> Self {
        let unique = format!("ferroce-functions-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(unique);
        fs::create_dir_all(&path).expect("writable");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).expect("ours");
        Self(path)
    }

    pub fn options(&self, host: &str) -> Options {
        self.device_options(host, 0)
    }

    pub fn device_options(&self, host: &str, device: u8) -> Options {
        Options {
            directory: self.0.clone(),
            host: HostIdentity::named_device(host, device, None).expect("a name"),
            icrc: false,
            capture: None,
            port: None,
            is_served: false,
        }
    }
}

impl Drop for Rendezvous {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
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

    /// Creates a process whose device, with the addresses of `host`, is behind a bus.
    pub fn over(bus: Arc<dyn Bus>, host: HostIdentity, function: Option<Arc<Function>>) -> Self {
        let device = Device::open(bus).expect("the model comes up");
        for (index, entry) in (0..).zip(&host.gids) {
            let entry = GidEntry {
                gid: entry.gid,
                mac: entry.mac,
                vlan: None,
            };
            device.set_gid(index, &entry).expect("in the table");
        }
        let reports = Arc::new(Mutex::new(Vec::new()));
        let reported = Arc::clone(&reports);
        device.set_event_handler(Some(Arc::new(move |event| {
            reported.lock().expect("no panic").push(event);
        })));
        let pd = device.alloc_pd().expect("first PD");
        let memory: Box<[AtomicU64]> = (0..BUFFER / 8).map(|_| AtomicU64::new(0)).collect();
        let events = Arc::new(AtomicU32::new(0));
        let (qp, cq) = Self::queues(&device, &pd, &events);
        let access = MemoryAccess {
            local_write: true,
            remote_write: true,
            remote_read: true,
            remote_atomic: true,
            ..MemoryAccess::default()
        };
        let address = memory.as_ptr().expose_provenance();
        let region = MemoryRegion::register(&pd, address, BUFFER, address as u64, access)
            .expect("our own memory");
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

    /// Waits until all these events were reported, and removes them.
    pub fn expect_reports(&self, expected: &[AsyncEvent]) {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let mut reports = self.reports.lock().expect("no panic");
            if reports.len() >= expected.len() {
                assert_eq!(*reports, expected);
                reports.clear();
                return;
            }
            drop(reports);
            assert!(Instant::now() < deadline, "{expected:?} are missing");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn queues(
        device: &Arc<Device>,
        pd: &Arc<ProtectionDomain>,
        events: &Arc<AtomicU32>,
    ) -> (Arc<QueuePair>, Arc<CompletionQueue>) {
        let counted = Arc::clone(events);
        let config = CompletionQueueConfig {
            entries: 256,
            on_event: Some(Arc::new(move || {
                counted.fetch_add(1, Ordering::SeqCst);
            })),
            ..CompletionQueueConfig::default()
        };
        let cq = CompletionQueue::create(device, config).expect("small CQ");
        let config = QueuePairConfig {
            service: Service::ReliableConnected,
            send_cq: Arc::clone(&cq),
            receive: ReceiveSource::Own {
                cq: Arc::clone(&cq),
                max_wr: 64,
                max_sge: 1,
            },
            max_send_wr: 64,
            max_send_sge: 1,
            max_inline_data: 0,
            signal_all: false,
        };
        (QueuePair::create(pd, &config).expect("small QP"), cq)
    }

    pub fn connect(&self, to: &Node) {
        self.initialise();
        self.connect_initialised(to);
    }

    /// Moves the QP to INIT, where receives can be posted before any packet arrives.
    pub fn initialise(&self) {
        let init = InitAttributes {
            p_key_index: 0,
            port: 1,
            access: QpAccess {
                remote_write: true,
                remote_read: true,
                remote_atomic: true,
            },
        };
        self.qp.modify(&ModifyQp::ToInit(init)).expect("from RESET");
    }

    /// Moves the QP from INIT to RTS.
    pub fn connect_initialised(&self, to: &Node) {
        let dest_gid = to.host.gids[1].gid;
        let dest_mac = match &self.function {
            Some(function) => function.resolve_mac(dest_gid),
            None => Some(to.host.mac),
        };
        let transitions = [
            ModifyQp::ToRtr(RtrAttributes {
                path_mtu: PathMtu::Mtu4096,
                dest_qpn: to.qp.number(),
                rq_psn: 7,
                max_dest_rd_atomic: 1,
                min_rnr_timer: 12,
                path: AddressVector {
                    dest_gid,
                    dest_mac: dest_mac.expect("it is on the fabric"),
                    source_gid_index: 1,
                    hop_limit: 64,
                    udp_source_port: 0xc001,
                    ..AddressVector::default()
                },
                access: None,
                p_key_index: None,
            }),
            ModifyQp::ToRts(RtsAttributes {
                sq_psn: 7,
                // 4.096 us * 2^14 = 67 ms
                timeout: 14,
                retry_count: 7,
                rnr_retry: 7,
                max_rd_atomic: 1,
                access: None,
                min_rnr_timer: None,
            }),
        ];
        for transition in &transitions {
            self.qp.modify(transition).expect("a legal transition");
        }
    }

    pub fn segment(&self, length: usize) -> DataSegment {
        DataSegment {
            address: self.region.address() as u64,
            length: length as u32,
            l_key: self.region.lkey().0,
        }
    }

    pub fn post(&self, operation: SendOperation, length: usize) {
        let segments = [self.segment(length)];
        let request = SendRequest {
            wr_id: 11,
            operation,
            destination: Destination::Connected,
            signaled: true,
            solicited: false,
            fence: false,
            data: SendData::ScatterGather(&segments),
        };
        let mut batch = self.qp.send_queue().expect("RC").lock();
        batch.post(&request).expect("there is room");
        batch.ring();
    }

    pub fn remote(&self) -> RemoteAddress {
        RemoteAddress {
            virtual_address: self.region.address() as u64,
            r_key: self.region.rkey(),
        }
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
        let deadline = Instant::now() + TIMEOUT;
        let mut found = None;
        while found.is_none() {
            self.cq.poll(1, |completion| found = Some(completion));
            if let Some(other) = other {
                other.cq.relax();
            }
            assert!(Instant::now() < deadline, "nothing completes");
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
