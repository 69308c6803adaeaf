//! The vfio-user bus against a server in this process, which serves the honest device.

mod server;
#[path = "../../../tests/support/mod.rs"]
mod support;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use ferroce_driver::bus::{Bus, BusError};
use ferroce_driver::{
    AsyncEvent, CompletionQueue, CompletionQueueConfig, Device, Error, MemoryAccess, MemoryRegion,
    QueuePair,
};
use ferroce_spec::cqe::CqeOpcode;
use ferroce_spec::doorbell::{FUNCTION_SUMMARY_SLOT, SLEEPING_SLOT};
use ferroce_spec::eqe::EventType;
use ferroce_spec::register::{BAR4_SIZE, offset};
use ferroce_test_support::time_limit;
use ferroce_vfio_user::Errno;
use ferroce_vfio_user_bus::{VfioUser, VfioUserError};
use server::{Backing, Fault, Running, socket};
use support::HonestDevice;
use support::verbs::{connect, cq_of, cqe, post, qp_config, wr_ids};

/// Longer than any machine needs; only a failing test waits so long.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit for a silent server in a test.
const SHORT: Duration = Duration::from_millis(200);

fn open(running: &Running) -> Arc<dyn Bus> {
    Arc::new(VfioUser::open(&running.path).expect("a good server"))
}

fn open_error(running: &Running) -> VfioUserError {
    match VfioUser::open(&running.path) {
        Ok(_) => panic!("a bad server was accepted"),
        Err(error) => error,
    }
}

/// Returns a device that records doorbells which arrive as messages.
fn noting() -> Arc<HonestDevice> {
    HonestDevice::with_pushes(0, 0)
}

/// Records the events of a device and of a CQ.
fn watch(device: &Arc<Device>) -> (Arc<CompletionQueue>, Receiver<AsyncEvent>, Receiver<()>) {
    let (events, seen) = mpsc::channel();
    device.set_event_handler(Some(Arc::new(move |event| {
        events.send(event).ok();
    })));
    let (wakes, woken) = mpsc::channel();
    let config = CompletionQueueConfig {
        entries: 16,
        on_event: Some(Arc::new(move || {
            wakes.send(()).ok();
        })),
        ..CompletionQueueConfig::default()
    };
    let cq = CompletionQueue::create(device, config).expect("small CQ");
    (cq, seen, woken)
}

#[test]
fn a_device_comes_up_and_goes() {
    let running = Running::new("up", HonestDevice::new(), Fault::None);
    let bus = open(&running);
    assert_eq!(running.served.command() & 6, 6, "memory space, bus master");
    let identity = bus.read32(offset::device_id);
    assert_eq!(bus.config_read(0), Some(identity));
    assert_eq!(bus.region_size(4), Some(BAR4_SIZE.into()));
    assert_eq!(bus.region_size(1), None);
    let device = Device::open(bus).expect("an honest device");
    assert_eq!(device.clock_ns(), 1234);
    assert_eq!(device.counters().len(), 3);
    let pd = device.alloc_pd().expect("first PD");
    let mut memory = vec![7u8; 10_000];
    let access = MemoryAccess {
        local_write: true,
        ..MemoryAccess::default()
    };
    let address = memory.as_mut_ptr() as usize;
    let region = MemoryRegion::register(&pd, address, memory.len(), address as u64, access)
        .expect("memory of this process");
    {
        let backings = running.served.backings.lock();
        let (last, rings) = backings.split_last().expect("mappings");
        assert_eq!(*last, Backing::FileIo);
        assert!(rings.iter().all(|backing| *backing == Backing::Mapped));
    }
    let mappings = running.served.fake.memory.len();
    region.deregister().expect("it has no users");
    assert_eq!(running.served.fake.memory.len(), mappings - 1);
    drop((region, pd, device));
    assert_eq!(running.served.fake.memory.len(), 0, "all was unmapped");
    // The server takes the next client.
    Device::open(open(&running)).expect("an honest device");
}

#[test]
fn memory_that_does_not_exist_is_refused() {
    let running = Running::new("nowhere", HonestDevice::new(), Fault::None);
    let device = Device::open(open(&running)).expect("an honest device");
    let pd = device.alloc_pd().expect("first PD");
    let region = MemoryRegion::register(&pd, 4096, 4096, 0, MemoryAccess::default());
    assert_eq!(region.err(), Some(Error::Bus(BusError::BadAddress)));
    // Writing to constants would succeed through /proc/self/mem.
    static CONSTANT: [u8; 8192] = [1; 8192];
    let address = (CONSTANT.as_ptr() as usize).next_multiple_of(4096);
    let writes = MemoryAccess {
        local_write: true,
        ..MemoryAccess::default()
    };
    let region = MemoryRegion::register(&pd, address, 4096, 0, writes);
    assert_eq!(region.err(), Some(Error::Bus(BusError::BadAddress)));
    MemoryRegion::register(&pd, address, 4096, 0, MemoryAccess::default()).expect("readable");
}

#[test]
fn doorbells_are_stores_where_the_server_has_pages() {
    for fault in [Fault::None, Fault::UnsealedPages, Fault::NoPages] {
        let running = Running::new(&format!("bells{fault:?}"), noting(), fault);
        let served = &running.served;
        let device = Device::open(open(&running)).expect("an honest device");
        let cq = cq_of(&device, 16);
        let slot = served
            .fake
            .with_state(|state| state.cqs[&cq.number().0].context.doorbell_slot);
        cq.arm();
        // A register read is behind the messages before it.
        device.clock_ns();
        let doorbells = served.fake.take_doorbells();
        if fault == Fault::None {
            assert_eq!(doorbells, []);
            assert_ne!(served.slot(slot), 0);
            assert_eq!(served.slot(FUNCTION_SUMMARY_SLOT), 1);
            assert_eq!(served.woken.load(Ordering::SeqCst), 0);
            served.set_slot(SLEEPING_SLOT, 1);
            cq.arm();
            device.clock_ns();
            assert_eq!(served.slot(FUNCTION_SUMMARY_SLOT), 2);
            assert_eq!(served.woken.load(Ordering::SeqCst), 1);
        } else {
            assert_eq!(doorbells.len(), 1, "{fault:?}");
            assert_eq!(doorbells[0].0, slot);
        }
    }
}

#[test]
fn completions_and_events_arrive() {
    let running = Running::new("events", HonestDevice::new(), Fault::None);
    let fake = &running.served.fake;
    let device = Device::open(open(&running)).expect("an honest device");
    let (cq, events, woken) = watch(&device);
    let pd = device.alloc_pd().expect("first PD");
    let qp = QueuePair::create(&pd, &qp_config(&cq, &cq)).expect("small QP");
    connect(&qp);
    post(&qp, 5).expect("room");
    fake.complete(cq.number().0, cqe(qp.number(), 0, CqeOpcode::RDMA_WRITE));
    fake.raise(1, EventType::COMPLETION, cq.number().0);
    woken
        .recv_timeout(time_limit(TIMEOUT))
        .expect("a completion event");
    assert_eq!(wr_ids(&cq), [5]);
    fake.raise(0, EventType::QP_FATAL, qp.number().0);
    assert_eq!(
        events.recv_timeout(time_limit(TIMEOUT)),
        Ok(AsyncEvent::QpFatal(qp.number()))
    );
}

/// Goal: a server that cannot access the memory of the process uses messages for the application's
/// memory, and reaches mapped memory only.
#[test]
fn memory_is_reached_by_messages() {
    let running = Running::new("messages", HonestDevice::new(), Fault::NoProcessMemory);
    let served = &running.served;
    let bus = open(&running);
    let device = Device::open(bus).expect("an honest device");
    let pd = device.alloc_pd().expect("first PD");
    let mut memory = vec![0u8; 3 * 4096];
    let address = memory.as_mut_ptr() as usize;
    let access = MemoryAccess {
        local_write: true,
        ..MemoryAccess::default()
    };
    let region = MemoryRegion::register(&pd, address, memory.len(), 0, access)
        .expect("memory of this process");
    assert_eq!(served.backings.lock().last(), Some(&Backing::Messages));
    let iova = served.fake.translation(region.lkey().0, 0).iova() + address as u64 % 4096;
    let dma = served.messages.lock().clone().expect("a client");
    dma.write(iova + 4090, b"twelve bytes").expect("mapped");
    let mut back = [0; 12];
    dma.read(iova + 4090, &mut back).expect("mapped");
    assert_eq!(&back, b"twelve bytes");
    assert_eq!(dma.read(16, &mut back), Err(Errno::NODEV));
    region.deregister().expect("it has no users");
    assert_eq!(dma.read(iova, &mut back), Err(Errno::NODEV));
    assert_eq!(&memory[4090..4102], b"twelve bytes");
}

/// Checks in the child of a fork the state and the calls of inherited objects; returns true if
/// all is as expected.
fn is_foreign(bus: &dyn Bus, device: Arc<Device>, cq: Arc<CompletionQueue>) -> bool {
    expect_gone(bus);
    cq.arm();
    let is_empty = cq.poll(1, |_| {}) == 0;
    let dead = device.gid(0) == Err(Error::DeviceDead);
    let destroyed = cq.destroy().is_ok();
    drop((cq, device));
    is_empty && dead && destroyed && bus.unmap(1 << 20, 4096) == Err(BusError::Disconnected)
}

/// Goal: a child made by fork neither uses the parent's device nor disturbs it.
#[test]
fn a_child_of_fork_has_no_device() {
    let running = Running::new("fork", noting(), Fault::None);
    let bus = open(&running);
    let device = Device::open(bus.clone()).expect("an honest device");
    let (cq, events, _woken) = watch(&device);
    #[expect(unsafe_code, reason = "fork")]
    // SAFETY: the child calls only what this library allows in the child of a process with threads,
    // and ends itself; the parent waits for that child, which the alarm ends at the latest.
    let status = unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::alarm(TIMEOUT.as_secs() as u32);
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                is_foreign(&*bus, device, cq)
            }));
            libc::_exit(i32::from(!matches!(result, Ok(true))));
        }
        let mut status = -1;
        assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
        status
    };
    assert_eq!(status, 0, "what the child saw");
    assert!(!bus.is_gone());
    assert!(device.gid(0).is_ok());
    cq.arm();
    assert_eq!(running.served.slot(FUNCTION_SUMMARY_SLOT), 1);
    assert!(events.try_recv().is_err());
}

fn expect_gone(bus: &dyn Bus) {
    assert!(bus.is_gone());
    assert_eq!(bus.read32(offset::status), u32::MAX);
    assert_eq!(bus.read64(offset::clock), u64::MAX);
    bus.write32(offset::control, 0);
    bus.doorbell(8, 1);
    bus.relax();
    let mut bytes = [0; 3];
    bus.read_device_memory(0, &mut bytes);
    assert_eq!(bytes, [0xff; 3]);
    assert_eq!(bus.config_read(0), None);
}

#[test]
fn a_server_that_ends_is_a_device_that_is_gone() {
    let mut running = Running::new("ends", HonestDevice::new(), Fault::None);
    let bus = open(&running);
    let device = Device::open(bus.clone()).expect("an honest device");
    let (cq, events, woken) = watch(&device);
    let pd = device.alloc_pd().expect("first PD");
    let memory = vec![0u8; 4096];
    let address = memory.as_ptr() as usize;
    let region = MemoryRegion::register(&pd, address, 4096, 0, MemoryAccess::default())
        .expect("memory of this process");
    running.stop();
    assert_eq!(
        events.recv_timeout(time_limit(TIMEOUT)),
        Ok(AsyncEvent::DeviceFatal)
    );
    woken
        .recv_timeout(time_limit(TIMEOUT))
        .expect("the sleeping thread is woken");
    assert!(device.is_dead());
    expect_gone(&*bus);
    assert_eq!(cq.poll(1, |_| {}), 0);
    cq.arm();
    let again = MemoryRegion::register(&pd, address, 4096, 0, MemoryAccess::default());
    assert_eq!(again.err(), Some(Error::Bus(BusError::Disconnected)));
    assert_eq!(device.gid(0), Err(Error::DeviceDead));
    region.deregister().expect("resources go back");
    cq.destroy().expect("resources go back");
    assert!(events.try_recv().is_err(), "it is said once");
}

#[test]
fn a_silent_server_is_a_device_that_is_gone() {
    let running = Running::new("silent", HonestDevice::new(), Fault::None);
    let bus = Arc::new(VfioUser::open_with(&running.path, SHORT).expect("a good server"));
    let device = Device::open(bus.clone()).expect("an honest device");
    let (_cq, events, woken) = watch(&device);
    let silence = running.served.silence.lock();
    assert_eq!(device.clock_ns(), u64::MAX);
    assert_eq!(
        events.recv_timeout(time_limit(TIMEOUT)),
        Ok(AsyncEvent::DeviceFatal)
    );
    woken
        .recv_timeout(time_limit(TIMEOUT))
        .expect("the sleeping thread is woken");
    expect_gone(&*bus);
    drop(silence);
    assert_eq!(device.clock_ns(), u64::MAX, "no further request is sent");
}

#[test]
fn what_is_no_device_is_refused() {
    let Err(error) = VfioUser::open(&socket("no-listener")) else {
        panic!("no process listens there");
    };
    assert!(matches!(error, VfioUserError::Connect { .. }));
    assert!(
        error.to_string().contains("ferroce serve --socket"),
        "{error}"
    );
    let error = |fault| {
        let running = Running::new(&format!("bad{fault:?}"), HonestDevice::new(), fault);
        open_error(&running)
    };
    assert!(matches!(
        error(Fault::OtherDevice),
        VfioUserError::NotFerroce { device: 0x1234, .. }
    ));
    assert!(matches!(
        error(Fault::SmallBar),
        VfioUserError::RegionSize { bar: 0, .. }
    ));
    assert!(matches!(error(Fault::NoVectors), VfioUserError::NoVectors));
}
