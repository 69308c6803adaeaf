//! The driver over a device that answers garbage: it never panics and never hangs.
//!
//! `FERROCE_SEED=n` replays one seed.

mod support;

use ferroce_driver::bus::{Bus, BusError, DmaMapping, InterruptHandler, PAGE_SIZE};
use ferroce_driver::{
    AddressVector, CompletionQueue, CompletionQueueConfig, DataSegment, Device, DeviceConfig,
    GidEntry, InitAttributes, InitUpdate, MemoryAccess, MemoryRegion, ModifyQp, PathMtu,
    ProtectionDomain, QpAccess, Qpn, QueuePair, QueuePairConfig, RKey, RemoteAddress,
    RtrAttributes, RtsAttributes, RtsUpdate, SendData, SendOperation, SendRequest, Service,
    SqdUpdate,
};
use ferroce_spec::command::CommandStatus;
use ferroce_spec::cqe::{Cqe, CqeWord};
use ferroce_spec::register::offset;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use support::HonestDevice;

const SEEDS: u64 = 300;
const STEPS: u32 = 150;
/// Far longer than the time-outs of one seed can add up to, far shorter than a hang.
const SEED_TIME_LIMIT: Duration = Duration::from_secs(60);

/// SplitMix64.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn one_in(&mut self, n: u64) -> bool {
        n != 0 && self.below(n) == 0
    }

    /// Small numbers, special numbers and any number.
    fn number(&mut self) -> u64 {
        match self.below(4) {
            0 => self.below(16),
            1 => 0x100 + self.below(8),
            2 => u64::MAX >> self.below(64),
            _ => self.next(),
        }
    }
}

/// Lies once in so many times; zero: never.
#[derive(Clone, Copy)]
struct Lies {
    registers: u64,
    commands: u64,
    memory: u64,
    interrupts: u64,
    bus: u64,
}

struct HostileDevice {
    honest: Arc<HonestDevice>,
    rng: Mutex<Rng>,
    lies: Lies,
    /// Accesses that are answered honestly at first, so that some seeds get through bring-up.
    grace: AtomicU64,
    handlers: Mutex<BTreeMap<u16, InterruptHandler>>,
}

impl HostileDevice {
    fn new(seed: u64) -> Arc<Self> {
        let mut rng = Rng(seed);
        let mut rate = || [0, 1, 3, 10, 100][rng.below(5) as usize];
        let lies = Lies {
            registers: rate(),
            commands: rate(),
            memory: rate(),
            interrupts: rate(),
            bus: rate(),
        };
        let grace = [0, 50, 200, 1000][rng.below(4) as usize];
        Arc::new(Self {
            honest: Arc::default(),
            lies,
            grace: AtomicU64::new(grace),
            rng: Mutex::new(rng),
            handlers: Mutex::default(),
        })
    }

    fn lie(&self, rate: u64) -> bool {
        let grace = self.grace.load(Ordering::Relaxed);
        if grace > 0 {
            self.grace.store(grace - 1, Ordering::Relaxed);
            return false;
        }
        self.rng.lock().one_in(rate)
    }

    fn number(&self) -> u64 {
        self.rng.lock().number()
    }

    /// Garbage in memory, interrupts without cause.
    fn misbehave(&self) {
        if self.lie(self.lies.memory) {
            self.scribble();
        }
        if self.lie(self.lies.interrupts) {
            self.interrupt();
        }
    }

    fn interrupt(&self) {
        let vector = self.rng.lock().below(6) as u16;
        let handler = self.handlers.lock().get(&vector).cloned();
        if let Some(handler) = handler {
            handler();
        }
    }

    /// Writes a few words, mostly near the start of a mapping, where the rings are short.
    fn scribble(&self) {
        let mappings = self.honest.memory.mappings();
        if mappings.is_empty() {
            return;
        }
        let mut rng = self.rng.lock();
        let mapping = mappings[rng.below(mappings.len() as u64) as usize];
        let words = (mapping.length as u64 / 8).min(1 << rng.below(20));
        for _ in 0..rng.below(40) {
            let iova = mapping.iova + 8 * rng.below(words);
            let value = rng.number() ^ rng.below(4) << 62;
            self.honest.memory.store(iova, value);
        }
        if rng.one_in(2) {
            self.forge_completions(&mut rng);
        }
    }

    /// CQEs with plausible numbers and any owner bits.
    fn forge_completions(&self, rng: &mut Rng) {
        let rings = self
            .honest
            .with_state(|state| state.cqs.values().map(|q| q.context).collect::<Vec<_>>());
        for context in rings {
            for place in 0..1u64 << context.log_size.min(4) {
                let mut word = CqeWord::from_bits(rng.next() as u32);
                word.set_opcode(if rng.one_in(2) { 0x80 } else { 2 });
                let first = (0x100 + rng.below(4)) | (rng.below(12) << 32);
                let last = rng.number() & 0xffff_ffff | u64::from(word.bits()) << 32;
                let words = [first, rng.next(), rng.next(), last];
                let iova = context.base + place * Cqe::SIZE as u64;
                self.honest.memory.store_words(iova, &words);
            }
        }
    }
}

impl Bus for HostileDevice {
    fn read32(&self, at: u32) -> u32 {
        if self.lie(self.lies.registers) {
            return self.number() as u32;
        }
        self.honest.read32(at)
    }

    fn read64(&self, at: u32) -> u64 {
        if self.lie(self.lies.registers) {
            return self.number();
        }
        self.honest.read64(at)
    }

    fn write32(&self, at: u32, value: u32) {
        if at == offset::command_queue_doorbell {
            let lie = if self.lie(self.lies.commands) {
                self.rng.lock().below(4)
            } else {
                4
            };
            match lie {
                0 => return,
                1 => {
                    // Answers before or instead of executing.
                    for _ in 0..100 {
                        self.scribble();
                    }
                    return;
                }
                2 => {
                    *self.honest.refuse.lock() = Some(CommandStatus(self.number() as u8));
                }
                _ => {}
            }
            let entry_words = self.command_words();
            self.honest.write32(at, value);
            if lie == 3 {
                // Executes, then changes result and output.
                for iova in entry_words {
                    let garbage = self.number();
                    if self.rng.lock().one_in(3) {
                        self.honest.memory.store(iova, garbage & !(1 << 63));
                    }
                }
            }
            return;
        }
        self.honest.write32(at, value);
        self.misbehave();
    }

    fn write64(&self, at: u32, value: u64) {
        self.honest.write64(at, value);
    }

    fn doorbell(&self, slot: u32, value: u64) {
        self.honest.doorbell(slot, value);
        self.misbehave();
    }

    fn map(&self, mapping: &DmaMapping) -> Result<(), BusError> {
        if self.lie(self.lies.bus * 20) {
            return Err(BusError::LimitReached);
        }
        self.honest.map(mapping)
    }

    fn unmap(&self, iova: u64, length: usize) -> Result<(), BusError> {
        if self.lie(self.lies.bus * 20) {
            return Err(BusError::Disconnected);
        }
        self.honest.unmap(iova, length)
    }

    fn iova_range(&self) -> Range<u64> {
        self.honest.iova_range()
    }

    fn set_interrupt_handler(
        &self,
        vector: u16,
        handler: Option<InterruptHandler>,
    ) -> Result<(), BusError> {
        if self.lie(self.lies.bus * 20) {
            return Err(BusError::Os(libc::EINTR));
        }
        let mut handlers = self.handlers.lock();
        match &handler {
            Some(handler) => drop(handlers.insert(vector, Arc::clone(handler))),
            None => drop(handlers.remove(&vector)),
        }
        drop(handlers);
        self.honest.set_interrupt_handler(vector, handler)
    }

    fn relax(&self) {
        self.misbehave();
        // A command that was not answered must not take the whole time-out of a busy machine.
        std::thread::yield_now();
    }
}

impl HostileDevice {
    /// IOVAs of the words of the command queue's results and of the output mailbox.
    fn command_words(&self) -> Vec<u64> {
        let base = self.honest.with_state(|state| state.command_base());
        let results = (0..16).flat_map(|entry| [0x30, 0x38].map(|at| base + entry * 64 + at));
        let output = (0..32).map(|word| base + 8192 + 8 * word);
        results.chain(output).collect()
    }
}

/// Everything that the application holds.
#[derive(Default)]
struct Objects {
    pds: Vec<Arc<ProtectionDomain>>,
    cqs: Vec<Arc<CompletionQueue>>,
    qps: Vec<Arc<QueuePair>>,
    mrs: Vec<Arc<MemoryRegion>>,
}

fn pick<'a, T>(objects: &'a [T], rng: &mut Rng) -> Option<&'a T> {
    let count = objects.len() as u64;
    (count > 0).then(|| &objects[rng.below(count) as usize])
}

fn transition(rng: &mut Rng) -> ModifyQp {
    let access = QpAccess::default();
    match rng.below(11) {
        0 => ModifyQp::ToReset,
        1 | 2 => ModifyQp::ToInit(InitAttributes {
            p_key_index: 0,
            port: 1,
            access,
        }),
        3 => ModifyQp::InitToInit(InitUpdate::default()),
        4 | 5 => ModifyQp::ToRtr(RtrAttributes {
            path_mtu: PathMtu::Mtu4096,
            dest_qpn: Qpn(rng.next() as u32),
            rq_psn: rng.next() as u32,
            max_dest_rd_atomic: rng.next() as u8,
            min_rnr_timer: rng.next() as u8,
            path: AddressVector::default(),
            access: Some(access),
            p_key_index: None,
        }),
        6 | 7 => ModifyQp::ToRts(RtsAttributes {
            sq_psn: rng.next() as u32,
            timeout: rng.next() as u8,
            retry_count: rng.next() as u8,
            rnr_retry: rng.next() as u8,
            max_rd_atomic: rng.next() as u8,
            access: None,
            min_rnr_timer: None,
        }),
        8 => ModifyQp::ToSqd {
            notify_drained: true,
        },
        9 => ModifyQp::SqdUpdate(SqdUpdate::default()),
        10 => ModifyQp::SqdToRts(RtsUpdate::default()),
        _ => ModifyQp::ToErr,
    }
}

/// Handlers that poll and arm, as a provider's may.
fn create_cq(device: &Arc<Device>, rng: &mut Rng) -> Option<Arc<CompletionQueue>> {
    let this: Arc<Mutex<std::sync::Weak<CompletionQueue>>> = Arc::default();
    let again = Arc::clone(&this);
    let config = CompletionQueueConfig {
        entries: 1 + rng.below(8) as u32,
        vector: rng.below(5) as u16,
        on_event: Some(Arc::new(move || {
            let cq = again.lock().upgrade();
            if let Some(cq) = cq {
                cq.poll(4, |_| {});
                cq.arm(false);
            }
        })),
        on_error: Some(Arc::new(|| {})),
    };
    let cq = CompletionQueue::create(device, config).ok()?;
    *this.lock() = Arc::downgrade(&cq);
    Some(cq)
}

fn create_qp(objects: &Objects, rng: &mut Rng) -> Option<Arc<QueuePair>> {
    let config = QueuePairConfig {
        service: Service::ReliableConnected,
        send_cq: Arc::clone(pick(&objects.cqs, rng)?),
        receive_cq: Arc::clone(pick(&objects.cqs, rng)?),
        max_send_wr: rng.below(9) as u32,
        max_recv_wr: rng.below(9) as u32,
        max_send_sge: rng.below(18) as u32,
        max_recv_sge: rng.below(18) as u32,
        max_inline_data: rng.below(200) as u32,
        signal_all: rng.one_in(2),
    };
    let qp = QueuePair::create(pick(&objects.pds, rng)?, &config).ok()?;
    if !rng.one_in(4) {
        bring_up(&qp);
    }
    Some(qp)
}

/// RESET to RTS, as far as the device lets it.
fn bring_up(qp: &QueuePair) {
    let mut rng = Rng(0);
    let mut wanted = (0..200).map(|_| transition(&mut rng));
    for kind in [
        |t: &ModifyQp| matches!(t, ModifyQp::ToInit(_)),
        |t: &ModifyQp| matches!(t, ModifyQp::ToRtr(_)),
        |t: &ModifyQp| matches!(t, ModifyQp::ToRts(_)),
    ] {
        if let Some(transition) = wanted.find(kind) {
            qp.modify(&transition).ok();
        }
    }
}

fn post(qp: &QueuePair, rng: &mut Rng) {
    let segment = DataSegment {
        address: rng.next(),
        length: rng.next() as u32,
        l_key: rng.next() as u32,
    };
    let segments = vec![segment; rng.below(18) as usize];
    let bytes = vec![1u8; rng.below(100) as usize];
    let pieces: [&[u8]; 2] = [&bytes, &bytes];
    let remote = RemoteAddress {
        virtual_address: rng.next(),
        r_key: RKey(rng.next() as u32),
    };
    let request = SendRequest {
        wr_id: rng.next(),
        operation: match rng.below(4) {
            0 => SendOperation::Send,
            1 => SendOperation::RdmaRead(remote),
            2 => SendOperation::FetchAdd { remote, add: 1 },
            _ => SendOperation::RdmaWriteImmediate(remote, [1; 4]),
        },
        signaled: rng.one_in(2),
        solicited: rng.one_in(2),
        fence: rng.one_in(2),
        data: if rng.one_in(2) {
            SendData::Inline(&pieces)
        } else {
            SendData::ScatterGather(&segments)
        },
    };
    let mut batch = qp.send_queue().lock_owned();
    batch.post(&request).ok();
    batch.post(&request).ok();
    if rng.one_in(4) {
        batch.abort();
    }
    qp.receive_queue().post(rng.next(), &segments).ok();
}

fn step(device: &Arc<Device>, objects: &mut Objects, memory: &[u8], rng: &mut Rng) {
    match rng.below(20) {
        0 => objects.pds.extend(device.alloc_pd().ok()),
        1 | 2 => objects.cqs.extend(create_cq(device, rng)),
        3 | 4 => {
            let qp = create_qp(objects, rng);
            objects.qps.extend(qp);
        }
        5 => {
            let address = memory.as_ptr() as usize;
            let access = MemoryAccess {
                local_write: rng.one_in(2),
                ..MemoryAccess::default()
            };
            let length = 1 + rng.below(memory.len() as u64) as usize;
            if let Some(pd) = pick(&objects.pds, rng) {
                let region = MemoryRegion::register(pd, address, length, rng.next() >> 1, access);
                objects.mrs.extend(region.ok());
            }
        }
        6..=9 => {
            if let Some(qp) = pick(&objects.qps, rng) {
                post(qp, rng);
            }
        }
        10..=12 => {
            if let Some(cq) = pick(&objects.cqs, rng) {
                cq.poll(16, |completion| assert!(completion.qpn.0 <= 0xff_ffff));
                cq.arm(rng.one_in(2));
            }
        }
        13 | 14 => {
            if let Some(qp) = pick(&objects.qps, rng) {
                qp.modify(&transition(rng)).ok();
                qp.query().ok();
            }
        }
        15 => {
            device.set_gid(rng.next() as u16, &GidEntry::default()).ok();
            device.gid(0).ok();
            device.counters();
            device.link_is_up();
        }
        16 => {
            if let Some(qp) = pick(&objects.qps, rng) {
                qp.destroy().ok();
            }
        }
        17 => {
            if let Some(cq) = pick(&objects.cqs, rng) {
                cq.destroy().ok();
            }
            if let Some(pd) = pick(&objects.pds, rng) {
                pd.dealloc().ok();
            }
        }
        18 => {
            if let Some(region) = pick(&objects.mrs, rng) {
                region.deregister().ok();
            }
        }
        _ => drop(objects.qps.pop()),
    }
}

fn run(seed: u64) -> bool {
    let mut rng = Rng(!seed);
    let hostile = HostileDevice::new(seed);
    let config = DeviceConfig {
        command_timeout: Duration::from_millis(2),
        reset_timeout: Duration::from_millis(2),
        completion_vectors: rng.below(20) as u16,
    };
    let Ok(device) = Device::open_with(hostile.clone(), &config) else {
        return false;
    };
    device.set_event_handler(Some(Arc::new(|_| {})));
    let stop = AtomicBool::new(false);
    // Whole pages: the device writes here, and what else lies in these pages is lost.
    let buffer = vec![0u8; 100 * PAGE_SIZE];
    let skip = buffer.as_ptr().align_offset(PAGE_SIZE);
    let memory = &buffer[skip..][..99 * PAGE_SIZE];
    std::thread::scope(|scope| {
        let chaos = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                hostile.misbehave();
                std::thread::yield_now();
            }
        });
        let mut objects = Objects::default();
        objects.pds.extend(device.alloc_pd().ok());
        objects.cqs.extend(create_cq(&device, &mut rng));
        for _ in 0..STEPS {
            step(&device, &mut objects, memory, &mut rng);
        }
        drop(objects);
        drop(device);
        stop.store(true, Ordering::Relaxed);
        chaos.join().expect("the device's thread does not panic");
    });
    true
}

/// Names the seed when its run panics.
struct SeedOnPanic(u64);

impl Drop for SeedOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("replay with FERROCE_SEED={}", self.0);
        }
    }
}

#[test]
fn garbage_never_panics_and_never_hangs() {
    let replay = std::env::var("FERROCE_SEED").ok();
    let seeds = match replay.map(|seed| seed.parse::<u64>()) {
        Some(seed) => {
            let seed = seed.expect("FERROCE_SEED is a number");
            seed..seed + 1
        }
        None => 0..SEEDS,
    };
    let mut opened = 0;
    for seed in seeds.clone() {
        let _name = SeedOnPanic(seed);
        let start = Instant::now();
        opened += u64::from(run(seed));
        assert!(start.elapsed() < SEED_TIME_LIMIT, "seed {seed} is slow");
    }
    if seeds.end - seeds.start == SEEDS {
        assert!(
            opened > SEEDS / 4,
            "only {opened} seeds got through bring-up"
        );
    }
}
