//! The card in a PCIe slot: what configuration space allows it, and function-level reset.

mod card_support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use card_support::{CardBus, MAC};
use ferroce_driver::bus::Bus;
use ferroce_driver::{
    CompletionQueue, CompletionStatus, Device, MemoryRegion, QueuePair, SendOperation,
};
use ferroce_rtl_card::{Configuration, SlotSizes};
use ferroce_spec::register::MSIX_PENDING_OFFSET;
use ferroce_test_verbs as verbs;
use verbs::Memory;

const LINE_LATENCY_CYCLES: u64 = 16;
const GID: [u8; 16] = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
/// Bytes of a WRITE: two packets.
const BYTES: usize = 2 * 4096;
/// Register accesses in which a reset has to end, a few cycles each.
const RESET_ACCESSES_MAX: usize = 1000;
/// Empty polls in which a WRITE has to end.
const POLLS_MAX: usize = 1000;

/// A driver with two QPs that are connected to each other.
struct Program {
    cq: Arc<CompletionQueue>,
    events: Arc<AtomicU64>,
    qps: [Arc<QueuePair>; 2],
    region: Arc<MemoryRegion>,
    memory: Memory,
    _device: Arc<Device>,
}

impl Program {
    fn new(bus: &Arc<CardBus>) -> Self {
        let device = Device::open(bus.clone()).expect("the driver opens the card");
        verbs::set_gids(&device, [([0; 16], MAC), (GID, MAC)]);
        let pd = device.alloc_pd().expect("one of many");
        let events = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&events);
        let cq = verbs::new_cq_with_events(&device, move || {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        let memory = Memory::new(2 * BYTES);
        let region = verbs::register(&pd, &memory);
        let qps = [(); 2].map(|()| verbs::new_qp(&pd, &verbs::qp_config(&cq, 16)));
        for (qp, other) in [(&qps[0], &qps[1]), (&qps[1], &qps[0])] {
            let rtr = verbs::rtr(other.number(), verbs::path_to(GID, MAC));
            verbs::connect(qp, rtr, verbs::rts());
        }
        Self {
            cq,
            events,
            qps,
            region,
            memory,
            _device: device,
        }
    }

    /// Fills the source, and writes it to the target.
    fn post(&self, value: u64) {
        for word in &self.memory[..BYTES / 8] {
            word.store(value, Ordering::Relaxed);
        }
        let remote = verbs::remote(&self.region, BYTES);
        let segment = verbs::segment(&self.region, 0, BYTES);
        verbs::post(
            &self.qps[0],
            value,
            SendOperation::RdmaWrite(remote),
            segment,
        );
    }

    fn target_is(&self, value: u64) -> bool {
        let mut words = self.memory[BYTES / 8..].iter();
        words.all(|word| word.load(Ordering::Relaxed) == value)
    }

    fn await_write(&self, value: u64) {
        for _ in 0..POLLS_MAX {
            if let Some(completion) = verbs::poll(&self.cq).first() {
                assert_eq!(completion.status, CompletionStatus::Success);
                assert!(self.target_is(value), "the data is there");
                return;
            }
        }
        panic!("no completion");
    }

    fn events(&self) -> u64 {
        self.events.load(Ordering::Relaxed)
    }
}

fn card() -> Arc<CardBus> {
    let sizes = SlotSizes::new(256, 512);
    Arc::new(CardBus::new(LINE_LATENCY_CYCLES, sizes))
}

fn configure(bus: &CardBus, configuration: Configuration) {
    bus.access(|card, _| card.configure(configuration));
    bus.relax();
}

/// Resets the function, and enables it again, as a kernel does.
fn reset_function(bus: &CardBus) {
    bus.access(|card, _| card.begin_function_reset());
    let ends = (0..RESET_ACCESSES_MAX).find(|_| bus.access(|card, _| !card.resets_function()));
    assert!(ends.is_some(), "the reset does not end");
    configure(bus, Configuration::ENABLED);
}

/// Goal: with Function Mask, or without MSI-X Enable, a message stays pending, and leaves when its
/// vector is free again (PCIe base specification, 6.1.4).
#[test]
fn messages_of_a_masked_function_stay_pending() {
    let bus = card();
    let program = Program::new(&bus);
    let masks = [
        Configuration {
            function_mask: true,
            ..Configuration::ENABLED
        },
        Configuration {
            msix_enable: false,
            ..Configuration::ENABLED
        },
    ];
    for (value, mask) in (1..).zip(masks) {
        let before = program.events();
        program.cq.arm();
        configure(&bus, mask);
        program.post(value);
        program.await_write(value);
        bus.relax();
        assert_eq!(program.events(), before, "{mask:?}: an interrupt");
        assert_ne!(bus.read64(MSIX_PENDING_OFFSET), 0, "{mask:?}");
        configure(&bus, Configuration::ENABLED);
        assert_eq!(program.events(), before + 1, "{mask:?}: no interrupt");
        assert_eq!(bus.read64(MSIX_PENDING_OFFSET), 0, "{mask:?}");
    }
}

/// Goal: without Bus Master Enable the card reads and writes no memory, and answers its registers;
/// after a reset it works again.
#[test]
fn without_bus_mastering_no_memory_is_accessed() {
    let bus = card();
    let program = Program::new(&bus);
    program.post(1);
    program.await_write(1);
    let off = Configuration {
        bus_master: false,
        ..Configuration::ENABLED
    };
    configure(&bus, off);
    program.post(2);
    bus.relax();
    assert!(verbs::poll(&program.cq).is_empty(), "a CQE was written");
    assert!(program.target_is(1), "the target has changed");
    std::mem::forget(program);
    bus.lose_driver();
    reset_function(&bus);
    let program = Program::new(&bus);
    program.post(3);
    program.await_write(3);
}

/// Goal: a function-level reset ends in the middle of traffic, and the card works afterwards.
/// Method: each reset comes some cycles later; the data of WRITEs is under way in most of them.
#[test]
fn a_function_level_reset_ends_all_traffic() {
    let bus = card();
    let mut unfinished = 0;
    for accesses in (0..60).step_by(6) {
        let program = Program::new(&bus);
        program.post(1);
        program.await_write(1);
        program.post(2);
        (0..accesses).for_each(|_| bus.access(|_, _| ()));
        reset_function(&bus);
        unfinished += u32::from(!program.target_is(2));
        // The driver's objects no longer exist on the card.
        std::mem::forget(program);
        bus.lose_driver();
    }
    assert!(unfinished > 0, "no reset has met a WRITE");
    let program = Program::new(&bus);
    program.cq.arm();
    program.post(3);
    program.await_write(3);
    bus.relax();
    assert_eq!(program.events(), 1, "the vector was given an address again");
}
