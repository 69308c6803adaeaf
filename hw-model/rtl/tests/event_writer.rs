//! The event writer against the model's event queues, call by call: EQEs, interrupts, contexts;
//! with software that sleeps until it is interrupted; and errors that stop it.

mod common;

use common::memory::{Effect, Memory};
use ferroce_model::Counters;
use ferroce_model::config::InterruptModeration;
use ferroce_model::dma::Dma;
use ferroce_model::host_interface::event_queue::{Event, EventQueues};
use ferroce_model::host_interface::msix::MsixTable;
use ferroce_rtl::seeds::for_each_seed;
use ferroce_rtl::verilated::event_writer::EventWriter;
use ferroce_rtl::{LINE, bytes, structs, words};
use ferroce_spec::context::EqContext;
use ferroce_spec::counter::Counter;
use ferroce_spec::cqe::owner_at;
use ferroce_spec::eqe::{Eqe, EventType};
use ferroce_spec::register::{EventQueueDoorbell, MSIX_ENTRY_SIZE};
use ferroce_units::Instant;
use ferroce_units::random::SplitMix64;
use zerocopy::{FromBytes, IntoBytes};

const SEEDS: u64 = 20;
const CALLS_PER_SEED: usize = 3000;
const CYCLES_MAX: u64 = 20_000;
const EQS: u64 = 16;
/// Number of kept events of full queues, as in `build.rs`.
const PARKED: usize = 1 << 5;
/// Events in the module's FIFO.
const FIFO: usize = 16;

const RINGS: u64 = 0x200_0000_0000;
const RING_BYTES: u64 = 0x1000;
const VECTOR_CONTROL: u32 = 12;

/// The module, its host, and its outputs.
struct Card {
    rtl: EventWriter,
    random: SplitMix64,
    memory: Memory,
    eqes: u64,
}

impl Card {
    fn new(seed: u64) -> Self {
        let mut rtl = EventWriter::new();
        rtl.set_rst(1);
        (0..4).for_each(|_| rtl.cycle());
        rtl.set_rst(0);
        rtl.settle();
        Self {
            rtl,
            random: SplitMix64::new(seed),
            memory: Memory::default(),
            eqes: 0,
        }
    }

    fn settle(&mut self) {
        self.rtl.settle();
        let [write, interrupt] = [0; 2].map(|_| u8::from(self.random.below(3) != 0));
        self.rtl.set_write_ready(write);
        self.rtl.set_interrupt_ready(interrupt);
        let is_refused = self.memory.refuses(self.rtl.write_iova());
        self.rtl.set_write_error(is_refused.into());
        self.rtl.settle();
    }

    fn cycle(&mut self) {
        if self.rtl.write_valid() & self.rtl.write_ready() != 0 && self.rtl.write_error() == 0 {
            self.write();
        }
        if self.rtl.interrupt_valid() & self.rtl.interrupt_ready() != 0 {
            let vector = u16::from(self.rtl.interrupt_vector());
            self.memory.log.push(Effect::Interrupt(vector));
        }
        self.eqes += u64::from(self.rtl.count_eqe());
        self.rtl.cycle();
    }

    fn write(&mut self) {
        let strobe = self.rtl.write_strobe();
        let place = strobe.trailing_zeros() as usize;
        assert_eq!(strobe >> place, 0xffff, "one EQE");
        let (iova, line) = (self.rtl.write_iova(), bytes(self.rtl.write_line()));
        self.memory.write_line(iova, &line, strobe);
        let eqe = line[place..place + Eqe::SIZE].to_vec();
        let effect = Effect::Descriptor(iova + place as u64, eqe);
        self.memory.log.push(effect);
    }

    fn run(&mut self, is_done: impl Fn(&EventWriter) -> bool) {
        let limit = self.rtl.cycles() + CYCLES_MAX;
        loop {
            self.settle();
            if is_done(&self.rtl) {
                return;
            }
            self.cycle();
            assert!(self.rtl.cycles() < limit, "it does not end");
        }
    }

    fn run_until_idle(&mut self) {
        self.run(|rtl| rtl.idle() != 0);
    }

    fn control(&mut self, op: u8, eqn: u8, context: &EqContext) -> EqContext {
        self.rtl.set_control_valid(1);
        self.rtl.set_control_op(op);
        self.rtl.set_control_number(eqn);
        self.rtl
            .set_control_context(words(context.as_bytes(), 0xff));
        self.run(|rtl| rtl.control_ready() != 0);
        let answer = bytes(self.rtl.answer_context());
        self.cycle();
        self.rtl.set_control_valid(0);
        assert_eq!(answer[EqContext::SIZE..], [0; LINE - EqContext::SIZE]);
        EqContext::read_from_bytes(&answer[..EqContext::SIZE]).expect("32 bytes")
    }

    fn set_event(&mut self, event: Option<&Event>) {
        self.rtl.set_event_valid(event.is_some().into());
        if let Some(event) = event {
            let data = structs::Event {
                eqn: event.eqn as u8,
                event_type: event.kind.0,
                number: event.number,
            };
            self.rtl.set_event_data(data.into());
        }
    }

    fn event(&mut self, event: &Event) {
        self.set_event(Some(event));
        self.run(|rtl| rtl.event_ready() != 0);
        self.cycle();
        self.set_event(None);
    }

    fn set_doorbell(&mut self, eqn: u8, value: EventQueueDoorbell) {
        self.rtl.set_doorbell_valid(1);
        self.rtl.set_doorbell_eqn(eqn);
        self.rtl.set_doorbell_consumer(value.consumer_index());
        self.rtl.set_doorbell_arm(value.arm().into());
    }

    fn ring(&mut self, eqn: u8, value: EventQueueDoorbell) {
        self.set_doorbell(eqn, value);
        self.run(|rtl| rtl.doorbell_ready() != 0);
        self.cycle();
        self.rtl.set_doorbell_valid(0);
    }
}

fn doorbell(consumer: u32, arm: bool) -> EventQueueDoorbell {
    let mut value = EventQueueDoorbell::default();
    value.set_consumer_index(consumer & 0xff_ffff);
    value.set_arm(arm);
    value
}

fn random_event(random: &mut SplitMix64) -> Event {
    let kinds = [
        EventType::COMPLETION,
        EventType::CQ_ERROR,
        EventType::QP_FATAL,
    ];
    Event::new(
        random.below(EQS) as u32,
        kinds[random.below(3) as usize],
        random.below(1 << 24) as u32,
    )
}

/// Both implementations. Events of full queues wait in front of the model's.
struct Pair {
    random: SplitMix64,
    model: EventQueues,
    msix: MsixTable,
    host: Memory,
    counters: Counters,
    card: Card,
    waiting: Vec<Event>,
    failed: bool,
    created: u64,
}

impl Pair {
    fn new(seed: u64) -> Self {
        let mut msix = MsixTable::new();
        for vector in 0..EQS as u32 {
            msix.write(vector * MSIX_ENTRY_SIZE + VECTOR_CONTROL, 0);
        }
        Self {
            random: SplitMix64::new(seed),
            model: EventQueues::new(InterruptModeration::NONE),
            msix,
            host: Memory::default(),
            counters: Counters::new(),
            card: Card::new(seed),
            waiting: Vec::new(),
            failed: false,
            created: 0,
        }
    }

    fn eqn(&mut self) -> u32 {
        self.random.below(EQS) as u32
    }

    /// Writes the events for which there is room, like the model's host interface.
    fn write_waiting(&mut self) {
        while let Some(at) = self.waiting.iter().position(|e| self.model.has_room(e.eqn)) {
            let event = self.waiting.remove(at);
            let mut dma = Dma::new(&mut self.host, &mut self.counters, Instant::ZERO);
            let result = self.model.write(&event, &mut self.msix, &mut dma);
            self.failed |= result.is_err();
            if self.failed {
                return;
            }
        }
    }

    fn create(&mut self) {
        let eqn = self.eqn();
        if self.model.get(eqn).is_some() {
            return;
        }
        self.created += 1;
        let context = EqContext {
            base: RINGS + self.created * RING_BYTES,
            log_size: self.random.below(5) as u8,
            vector: self.random.below(EQS) as u16,
            armed: 1,
            producer: self.random.number() as u32,
            consumer: self.random.number() as u32,
            ..EqContext::default()
        };
        self.model.create(eqn, context);
        self.card.control(0, eqn as u8, &context);
    }

    fn destroy(&mut self) {
        let eqn = self.eqn();
        self.model.destroy(eqn);
        self.card.control(1, eqn as u8, &EqContext::default());
        self.write_waiting();
    }

    fn query(&mut self) {
        let eqn = self.eqn();
        if let Some(context) = self.model.get(eqn) {
            let answer = self.card.control(2, eqn as u8, &EqContext::default());
            assert_eq!(answer, *context);
        }
    }

    fn event(&mut self) {
        if self.waiting.len() == PARKED {
            return;
        }
        let event = random_event(&mut self.random);
        self.waiting.push(event);
        self.write_waiting();
        self.card.event(&event);
    }

    fn ring(&mut self) {
        let eqn = self.eqn();
        let random = &mut self.random;
        let consumer = match self.model.get(eqn) {
            Some(context) if random.below(16) != 0 => {
                let waiting = context.producer.wrapping_sub(context.consumer);
                let taken = random.below(u64::from(waiting) + 1) as u32;
                context.consumer.wrapping_add(taken)
            }
            _ => random.number() as u32,
        };
        let value = doorbell(consumer, random.below(3) != 0);
        let mut dma = Dma::new(&mut self.host, &mut self.counters, Instant::ZERO);
        self.model.ring(eqn, value, &mut self.msix, &mut dma);
        self.write_waiting();
        self.card.ring(eqn as u8, value);
    }

    /// Makes the host refuse a part of a queue's ring from now on.
    fn refuse(&mut self) {
        let eqn = self.eqn();
        if let Some(context) = self.model.get(eqn) {
            let line = context.base + 64 * self.random.below(4);
            self.host.refused.insert(line);
            self.card.memory.refused.insert(line);
        }
    }

    fn compare(&mut self) {
        self.card.run_until_idle();
        assert_eq!(self.card.memory.log, self.host.log);
        self.card.memory.log.clear();
        self.host.log.clear();
        assert_eq!(self.card.rtl.fatal() != 0, self.failed);
        assert_eq!(self.card.eqes, self.counters.value(Counter::eqes));
    }

    /// After a failure, nothing is written any more.
    fn compare_silence(&mut self) {
        for eqn in 0..EQS as u8 {
            let mut event = random_event(&mut self.random);
            event.eqn = eqn.into();
            self.card.event(&event);
            self.card.ring(eqn, doorbell(0, true));
        }
        self.card.run_until_idle();
        assert_eq!(self.card.memory.log, []);
        assert_eq!(self.card.rtl.fatal(), 1);
    }
}

#[test]
fn random_calls_have_the_effects_of_the_model() {
    let (mut eqes, mut interrupts, mut failures) = (0, 0, 0);
    for_each_seed(SEEDS, |seed| {
        let mut pair = Pair::new(seed);
        for _ in 0..CALLS_PER_SEED {
            match pair.random.below(200) {
                0..=5 => pair.create(),
                6..=7 => pair.destroy(),
                8..=20 => pair.query(),
                21..=110 => pair.ring(),
                111 if pair.random.below(30) == 0 => pair.refuse(),
                _ => pair.event(),
            }
            pair.compare();
            if pair.failed {
                failures += 1;
                pair.compare_silence();
                break;
            }
        }
        eqes += pair.card.eqes;
        interrupts += pair.counters.value(Counter::interrupts);
    });
    println!("{eqes} EQEs, {interrupts} interrupts, {failures} failures");
    assert!(eqes > 0 && interrupts > 0 && failures > 0);
}

/// An event queue whose software sleeps until it is interrupted, and then takes the available
/// events.
struct Sleeper {
    eqn: u8,
    context: EqContext,
    consumer: u32,
    is_asleep: bool,
    /// Time of the last interrupt in nanoseconds.
    interrupted_ns: Option<u64>,
    raised: Vec<u32>,
    taken: Vec<u32>,
}

impl Sleeper {
    fn new(eqn: u8, random: &mut SplitMix64) -> Self {
        let context = EqContext {
            base: RINGS + u64::from(eqn) * RING_BYTES,
            log_size: 1 + random.below(4) as u8,
            vector: (eqn ^ 5).into(),
            moderation_us: [0, 1, 3][random.below(3) as usize],
            ..EqContext::default()
        };
        Self {
            eqn,
            context,
            consumer: 0,
            is_asleep: true,
            interrupted_ns: None,
            raised: Vec::new(),
            taken: Vec::new(),
        }
    }

    fn interrupt(&mut self, now_ns: u64) {
        assert!(self.is_asleep, "it was not armed");
        if let Some(before) = self.interrupted_ns {
            let least = 1000 * u64::from(self.context.moderation_us);
            assert!(now_ns - before >= least, "{} ns", now_ns - before);
        }
        self.interrupted_ns = Some(now_ns);
        self.is_asleep = false;
    }

    /// Takes the next EQE if its owner bit marks it as valid.
    fn take(&mut self, memory: &Memory) -> bool {
        let log_size = u32::from(self.context.log_size);
        let slot = u64::from(self.consumer & ((1 << log_size) - 1));
        let iova = self.context.base + slot * Eqe::SIZE as u64;
        let (line, place) = (memory.line(iova & !63), iova as usize % LINE);
        let eqe = Eqe::read_from_bytes(&line[place..place + Eqe::SIZE]).expect("16 bytes");
        if eqe.word.owner() != owner_at(self.consumer, log_size) {
            return false;
        }
        assert_eq!(eqe.sequence, self.consumer);
        self.taken.push(eqe.number);
        self.consumer = self.consumer.wrapping_add(1);
        true
    }
}

/// Goal: no event is lost or announced twice, and no interrupt is missing. Method: events come at
/// any time; software reads a queue only after its interrupt.
#[test]
fn software_that_sleeps_gets_all_events() {
    for_each_seed(SEEDS, |seed| {
        let mut card = Card::new(seed);
        let mut random = SplitMix64::new(seed ^ 9);
        let mut sleepers: Vec<_> = (0..4).map(|eqn| Sleeper::new(eqn, &mut random)).collect();
        for sleeper in &sleepers {
            card.control(0, sleeper.eqn, &sleeper.context);
            card.ring(sleeper.eqn, doorbell(0, true));
        }
        let (mut now_ns, mut left, mut number) = (0, 600, 0);
        let mut pending: Option<Event> = None;
        while left != 0 || sleepers.iter().any(|s| s.taken != s.raised) {
            now_ns += 4;
            // The clock may stand still until something is due.
            if card.rtl.idle() & card.rtl.deadline_valid() != 0 && random.below(4) == 0 {
                now_ns = now_ns.max(card.rtl.deadline_ns() - 20);
            }
            card.rtl.set_now_ns(now_ns);
            // The maximum number that can be kept.
            let kept: usize = sleepers
                .iter()
                .map(|s| s.raised.len() - s.taken.len())
                .sum();
            if pending.is_none() && left != 0 && kept < PARKED && random.below(20) == 0 {
                let eqn = random.below(4) as u32;
                let kind = EventType::COMPLETION;
                pending = Some(Event::new(eqn, kind, number));
                sleepers[eqn as usize].raised.push(number);
                number += 1;
                left -= 1;
            }
            card.set_event(pending.as_ref());
            card.rtl.set_doorbell_valid(0);
            let awake = sleepers.iter_mut().find(|s| !s.is_asleep);
            if let Some(sleeper) = awake.filter(|_| random.below(50) == 0) {
                while sleeper.take(&card.memory) {}
                sleeper.is_asleep = true;
                card.set_doorbell(sleeper.eqn, doorbell(sleeper.consumer, true));
            }
            card.settle();
            if card.rtl.event_ready() != 0 {
                pending = None;
            }
            card.cycle();
            for effect in card.memory.log.drain(..) {
                if let Effect::Interrupt(vector) = effect {
                    let mut sleepers = sleepers.iter_mut();
                    let sleeper = sleepers.find(|s| s.context.vector == vector);
                    sleeper.expect("it has the vector").interrupt(now_ns);
                }
            }
            assert_eq!(card.rtl.fatal(), 0);
            assert!(card.rtl.cycles() < 1_000_000, "an interrupt is missing");
        }
    });
}

#[test]
fn more_events_than_can_be_kept_are_fatal() {
    let mut card = Card::new(0);
    let context = EqContext {
        base: RINGS,
        log_size: 1,
        ..EqContext::default()
    };
    card.control(0, 0, &context);
    let mut random = SplitMix64::new(0);
    for count in 0..2 + PARKED + 1 {
        assert_eq!(card.rtl.fatal(), 0, "after {count} events");
        let mut event = random_event(&mut random);
        event.eqn = 0;
        card.event(&event);
        card.run_until_idle();
    }
    assert_eq!((card.rtl.fatal(), card.eqes), (1, 2));
    for _ in 0..2 * FIFO {
        card.event(&random_event(&mut random));
    }
    card.ring(0, doorbell(2, true));
    card.run_until_idle();
    assert_eq!((card.rtl.fatal(), card.eqes), (1, 2));
    card.rtl.set_rst(1);
    card.cycle();
    card.rtl.set_rst(0);
    card.settle();
    assert_eq!(card.rtl.fatal(), 0);
}

/// Goal: the newest doorbell of a queue takes effect, in any phase of the processing of the
/// previous one.
#[test]
fn a_newer_doorbell_is_not_lost() {
    let mut card = Card::new(0);
    let context = EqContext {
        base: RINGS,
        log_size: 4,
        ..EqContext::default()
    };
    card.control(0, 0, &context);
    for gap in 0..12 {
        card.ring(0, doorbell(0, false));
        for _ in 0..gap {
            card.settle();
            card.cycle();
        }
        card.ring(0, doorbell(0, true));
        card.run_until_idle();
        let armed = card.control(2, 0, &EqContext::default()).armed;
        assert_eq!(armed, 1, "{gap} cycles between them");
    }
}
