//! Two functions in one process: driver, model, rings and background threads together.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ferroce_driver::{
    AddressVector, AsyncEvent, CompletionOpcode, CompletionQueue, CompletionQueueConfig,
    CompletionStatus, DataSegment, Destination, Device, GidEntry, InitAttributes, MemoryAccess,
    MemoryRegion, ModifyQp, PathMtu, ProtectionDomain, QpAccess, QueuePair, QueuePairConfig,
    ReceiveSource, RemoteAddress, RtrAttributes, RtsAttributes, SendData, SendOperation,
    SendRequest, Service, WorkCompletion,
};
use ferroce_sim::function::{Function, HostIdentity, Options};

/// Far more than anything here takes.
const PATIENCE: Duration = Duration::from_secs(20);
const BUFFER: usize = 1 << 20;

/// A rendezvous directory of its own.
struct Meeting(PathBuf);

impl Meeting {
    fn new(name: &str) -> Self {
        let unique = format!("ferroce-functions-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(unique);
        fs::create_dir_all(&path).expect("writable");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).expect("ours");
        Self(path)
    }

    fn options(&self, host: &str) -> Options {
        self.device_options(host, 0)
    }

    fn device_options(&self, host: &str, device: u8) -> Options {
        Options {
            directory: self.0.clone(),
            host: HostIdentity::named_device(host, device, None).expect("a name"),
            icrc: false,
            capture: None,
        }
    }

    /// Runs the command here; what it prints, and whether it succeeded.
    fn ferroce(&self, arguments: &[&str]) -> (String, bool) {
        let output = Command::new(env!("CARGO_BIN_EXE_ferroce"))
            .args(arguments)
            .env("FERROCE_DIR", &self.0)
            .output()
            .expect("the tool runs");
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        (text, output.status.success())
    }
}

impl Drop for Meeting {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A process: everything up to a connected QP.
struct Node {
    qp: Arc<QueuePair>,
    cq: Arc<CompletionQueue>,
    region: Arc<MemoryRegion>,
    memory: Box<[AtomicU8]>,
    events: Arc<AtomicU32>,
    /// What the device and its port have reported.
    reports: Arc<Mutex<Vec<AsyncEvent>>>,
    function: Arc<Function>,
}

impl Node {
    fn new(options: &Options) -> Self {
        let function = Function::open_with(options).expect("a place is free");
        let device = Device::open(function.bus()).expect("the model comes up");
        for (index, entry) in (0..).zip(&function.host().gids) {
            let entry = GidEntry {
                gid: entry.gid,
                mac: entry.mac,
                vlan: None,
            };
            device.set_gid(index, &entry).expect("in the table");
        }
        let reports = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&reports);
        device.set_event_handler(Some(Arc::new(move |event| {
            told.lock().expect("no panic").push(event);
        })));
        let pd = device.alloc_pd().expect("first PD");
        let memory: Box<[AtomicU8]> = (0..BUFFER).map(|_| AtomicU8::new(0)).collect();
        let events = Arc::new(AtomicU32::new(0));
        let (qp, cq) = Self::queues(&device, &pd, &events);
        let access = MemoryAccess {
            local_write: true,
            remote_write: true,
            remote_read: true,
            ..MemoryAccess::default()
        };
        let address = memory.as_ptr().expose_provenance();
        let region = MemoryRegion::register(&pd, address, BUFFER, address as u64, access)
            .expect("our own memory");
        Self {
            qp,
            cq,
            region,
            memory,
            events,
            reports,
            function,
        }
    }

    /// Waits until all these events were reported, and forgets them.
    fn expect_reports(&self, expected: &[AsyncEvent]) {
        let deadline = Instant::now() + PATIENCE;
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

    fn connect(&self, to: &Node) {
        let dest_gid = to.function.host().gids[1].gid;
        let dest_mac = self.function.resolve_mac(dest_gid);
        let access = QpAccess {
            remote_write: true,
            remote_read: true,
            ..QpAccess::default()
        };
        let transitions = [
            ModifyQp::ToInit(InitAttributes {
                p_key_index: 0,
                port: 1,
                access,
            }),
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

    fn segment(&self, length: usize) -> DataSegment {
        DataSegment {
            address: self.region.address() as u64,
            length: length as u32,
            l_key: self.region.lkey().0,
        }
    }

    fn post(&self, operation: SendOperation, length: usize) {
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

    fn remote(&self) -> RemoteAddress {
        RemoteAddress {
            virtual_address: self.region.address() as u64,
            r_key: self.region.rkey(),
        }
    }

    fn fill(&self, byte: u8) {
        for place in &self.memory {
            place.store(byte, Ordering::Relaxed);
        }
    }

    fn holds(&self, length: usize, byte: u8) -> bool {
        self.memory[..length]
            .iter()
            .all(|place| place.load(Ordering::Acquire) == byte)
    }

    /// Polls until something completes.
    fn wait(&self) -> WorkCompletion {
        self.wait_beside(None)
    }

    /// Polls until something completes; `other` polls, too.
    fn wait_beside(&self, other: Option<&Node>) -> WorkCompletion {
        let deadline = Instant::now() + PATIENCE;
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

fn two(meeting: &Meeting, hosts: [&str; 2]) -> (Node, Node) {
    let (one, other) = hosts.map(|host| Node::new(&meeting.options(host))).into();
    one.connect(&other);
    other.connect(&one);
    (one, other)
}

#[test]
fn write_send_and_read_between_two_that_poll() {
    let meeting = Meeting::new("polling");
    let (one, other) = two(&meeting, ["a", "a"]);
    one.fill(1);
    one.post(SendOperation::RdmaWrite(other.remote()), BUFFER);
    let done = one.wait_beside(Some(&other));
    assert_eq!(done.status, CompletionStatus::Success);
    assert!(other.holds(BUFFER, 1));

    other
        .qp
        .receive_queue()
        .expect("its own")
        .post(33, &[other.segment(BUFFER)])
        .expect("room");
    one.fill(2);
    one.post(SendOperation::Send, 100_000);
    let received = other.wait_beside(Some(&one));
    assert_eq!(received.opcode, CompletionOpcode::Receive);
    assert_eq!((received.wr_id, received.byte_length), (33, 100_000));
    assert!(other.holds(100_000, 2));
    assert_eq!(one.wait_beside(Some(&other)).wr_id, 11);

    other.fill(3);
    one.post(SendOperation::RdmaRead(other.remote()), BUFFER);
    assert_eq!(
        one.wait_beside(Some(&other)).status,
        CompletionStatus::Success
    );
    assert!(one.holds(BUFFER, 3));
}

#[test]
fn a_target_that_never_polls_is_served_by_its_thread() {
    let meeting = Meeting::new("passive");
    let (one, other) = two(&meeting, ["a", "b"]);
    for round in 1..=50 {
        one.fill(round);
        one.post(SendOperation::RdmaWrite(other.remote()), 5000);
        assert_eq!(one.wait().status, CompletionStatus::Success);
        assert!(other.holds(5000, round));
        if round % 10 == 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn an_armed_queue_raises_an_event_while_nobody_polls() {
    let meeting = Meeting::new("events");
    let (one, other) = two(&meeting, ["a", "a"]);
    for round in 1..=20 {
        other
            .qp
            .receive_queue()
            .expect("its own")
            .post(1, &[other.segment(64)])
            .expect("room");
        other.cq.arm(false);
        one.post(SendOperation::Send, 64);
        let deadline = Instant::now() + PATIENCE;
        while other.events.load(Ordering::SeqCst) < round {
            assert!(Instant::now() < deadline, "no event in round {round}");
            std::thread::sleep(Duration::from_micros(100));
        }
        let mut received = 0;
        other.cq.poll(16, |_| received += 1);
        assert_eq!(received, 1);
        assert_eq!(one.wait().status, CompletionStatus::Success);
    }
}

#[test]
fn a_peer_that_leaves_ends_in_retry_exceeded() {
    let meeting = Meeting::new("leaves");
    let (one, other) = two(&meeting, ["a", "a"]);
    let target = other.remote();
    one.post(SendOperation::RdmaWrite(target), 64);
    assert_eq!(one.wait().status, CompletionStatus::Success);
    drop(other);
    one.post(SendOperation::RdmaWrite(target), 64);
    assert_eq!(one.wait().status, CompletionStatus::RetryExceededError);
}

#[test]
fn loopback_inside_one_function() {
    let meeting = Meeting::new("loopback");
    let node = Node::new(&meeting.options("a"));
    node.connect(&node);
    node.post(SendOperation::RdmaWrite(node.remote()), BUFFER);
    assert_eq!(node.wait().status, CompletionStatus::Success);
}

#[test]
fn devices_of_one_process_reach_each_other() {
    let meeting = Meeting::new("devices");
    let nodes = [0, 1].map(|device| Node::new(&meeting.device_options("a", device)));
    let [one, other] = &nodes;
    one.connect(other);
    other.connect(one);
    one.fill(9);
    one.post(SendOperation::RdmaWrite(other.remote()), BUFFER);
    assert_eq!(one.wait().status, CompletionStatus::Success);
    assert!(other.holds(BUFFER, 9));
    let (devices, _) = meeting.ferroce(&["devices"]);
    let (counters, _) = meeting.ferroce(&["counters"]);
    for name in ["ferroce0", "ferroce1"] {
        assert!(devices.contains(name), "{devices}");
        assert!(
            counters.contains(&format!("{name} on host a")),
            "{counters}"
        );
    }
}

#[test]
fn an_injected_fault_is_reported_by_the_device_that_it_was_meant_for() {
    let meeting = Meeting::new("inject");
    let (one, other) = two(&meeting, ["a", "b"]);
    let inject = |arguments: &[&str]| {
        let (text, success) = meeting.ferroce(&[&["inject"], arguments].concat());
        assert!(success, "{text}");
        text
    };
    let text = inject(&["port-down", "--host", "b"]);
    assert!(text.contains("on host b: done"), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    other.expect_reports(&[AsyncEvent::PortError]);
    let (devices, _) = meeting.ferroce(&["devices"]);
    assert!(devices.contains("port down"), "{devices}");
    one.fill(1);
    one.post(SendOperation::RdmaWrite(other.remote()), 64);
    std::thread::sleep(Duration::from_millis(20));
    one.cq.poll(1, |_| panic!("nothing gets through"));
    assert!(other.holds(64, 0));
    assert!(inject(&["port-down", "--host", "b"]).contains("down already"));
    inject(&["port-up"]);
    other.expect_reports(&[AsyncEvent::PortActive]);
    assert_eq!(one.wait().status, CompletionStatus::Success, "a retry");
    assert!(other.holds(64, 1));
    one.expect_reports(&[]);

    inject(&["device-fatal", "--host", "b", "--device", "ferroce0"]);
    other.expect_reports(&[AsyncEvent::DeviceFatal]);
    one.post(SendOperation::RdmaWrite(other.remote()), 64);
    assert_eq!(one.wait().status, CompletionStatus::RetryExceededError);
    one.expect_reports(&[]);
}

#[test]
fn faults_for_nobody_are_refused() {
    let meeting = Meeting::new("refused");
    let refusal = |arguments: &[&str]| {
        let (text, success) = meeting.ferroce(&[&["inject"], arguments].concat());
        assert!(!success, "{text}");
        text
    };
    assert!(refusal(&["port-down"]).contains("no program uses the device"));
    let _function = Function::open_with(&meeting.options("a")).expect("a place is free");
    let here = format!("pid {}", std::process::id());
    for (option, value) in [("--host", "b"), ("--pid", "1"), ("--device", "ferroce1")] {
        let text = refusal(&["port-down", option, value]);
        assert!(text.contains(value) && text.contains(&here), "{text}");
    }
    assert!(refusal(&["fire"]).contains("port-down"));
}

#[test]
fn everybody_captures_into_one_file() {
    let meeting = Meeting::new("capture");
    let path: &Path = &meeting.0.join("frames.pcapng");
    let options = Options {
        capture: Some(path.to_owned()),
        ..meeting.options("a")
    };
    let (one, other) = (Node::new(&options), Node::new(&options));
    one.connect(&other);
    other.connect(&one);
    one.post(SendOperation::RdmaWrite(other.remote()), 10_000);
    assert_eq!(
        one.wait_beside(Some(&other)).status,
        CompletionStatus::Success
    );
    drop((one, other));
    let tool = env!("CARGO_BIN_EXE_ferroce");
    let output = Command::new(tool)
        .args(["wire", "check"])
        .arg(path)
        .output()
        .expect("the tool runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    for (opcode, count) in [
        ("WRITE_FIRST", "1"),
        ("WRITE_MIDDLE", "1"),
        ("WRITE_LAST", "1"),
    ] {
        let line = text.lines().find(|line| line.contains(opcode));
        assert!(line.is_some_and(|line| line.ends_with(count)), "{text}");
    }
}
