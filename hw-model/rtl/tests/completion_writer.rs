//! The completion writer against the model's completion queues, call by call: CQEs in host memory,
//! events, contexts, counters; and the order of completions of two engines.

mod common;

use std::collections::VecDeque;

use common::memory::{Effect, Memory};
use ferroce_model::Counters;
use ferroce_model::config::CacheShape;
use ferroce_model::contexts::completion_queue::{CompletionEntry, CompletionQueues};
use ferroce_model::dma::Dma;
use ferroce_rtl::seeds::for_each_seed;
use ferroce_rtl::verilated::completion_writer::CompletionWriter;
use ferroce_rtl::{LINE, bytes, structs, words};
use ferroce_spec::context::CqContext;
use ferroce_spec::counter::Counter;
use ferroce_spec::cqe::{Cqe, CqeStatus, CqeWord};
use ferroce_units::Instant;
use ferroce_units::random::SplitMix64;
use zerocopy::{FromBytes, IntoBytes};

const SEEDS: u64 = 20;
const CALLS_PER_SEED: usize = 3000;
/// Maximum cycles of a call.
const CYCLES_MAX: u64 = 20_000;
/// Maximum number of CQs.
const LOG_QUEUES: u8 = 4;

const TABLE: u64 = 0x100_0000_0000;
const RINGS: u64 = 0x200_0000_0000;
const RING_BYTES: u64 = 0x1000;
const RECORDS: u64 = 0x300_0000_0000;

const SHAPE: CacheShape = CacheShape {
    log_sets: 6,
    ways: 4,
    mshrs: 1,
};

/// Maps a CQN of the model to a CQN in RTL: from the first one to the last one.
fn number(cqn: u32) -> u8 {
    (cqn * (255 / ((1 << LOG_QUEUES) - 1))) as u8
}

/// An event: queue, type, number.
type Event = (u8, u8, u32);

#[derive(Debug, Clone, Copy)]
enum Engine {
    Requester,
    Responder,
}

/// A CQE in the format of the port.
fn completion(cqn: u8, frame: u16, cqe: &Cqe) -> [u32; 7] {
    let completion = structs::Completion {
        cqn,
        frame,
        qpn: cqe.qpn,
        wqe_index: cqe.wqe_index,
        byte_count: cqe.byte_count,
        immediate: u32::from_le_bytes(cqe.immediate),
        opcode: cqe.word.opcode(),
        status: cqe.word.status(),
        vendor_error: cqe.word.vendor_error(),
        with_immediate: cqe.word.with_immediate(),
        with_invalidate: cqe.word.with_invalidate(),
        solicited: cqe.word.solicited(),
        source_qpn: cqe.source_qpn,
        with_grh: cqe.word.with_grh(),
        is_ipv4: cqe.word.ipv4(),
    };
    completion.into()
}

/// The module, its host, and its outputs.
struct Card {
    rtl: CompletionWriter,
    random: SplitMix64,
    memory: Memory,
    events: Vec<Event>,
    /// A requested read: the time of its answer, and its address.
    read: Option<(u64, u64)>,
    counts: [u64; 2],
}

impl Card {
    fn new(seed: u64) -> Self {
        let mut rtl = CompletionWriter::new();
        rtl.set_rst(1);
        (0..4).for_each(|_| rtl.cycle());
        rtl.set_rst(0);
        rtl.settle();
        Self {
            rtl,
            random: SplitMix64::new(seed),
            memory: Memory::default(),
            events: Vec::new(),
            read: None,
            counts: [0; 2],
        }
    }

    fn settle(&mut self) {
        self.rtl.settle();
        let [read, event, write] = [0; 3].map(|_| u8::from(self.random.below(3) != 0));
        self.rtl.set_read_ready(read);
        self.rtl.set_event_ready(event);
        self.rtl.set_write_ready(write);
        let is_refused = self.memory.refuses(self.rtl.write_iova());
        self.rtl.set_write_error(is_refused.into());
        self.rtl.set_line_valid(0);
        if let Some((_, iova)) = self.read.take_if(|(at, _)| *at <= self.rtl.cycles()) {
            self.rtl.set_line_valid(1);
            self.rtl.set_line_error(self.memory.refuses(iova).into());
            self.rtl.set_line_data(words(&self.memory.line(iova), 0));
        }
        self.rtl.settle();
    }

    /// Serves the ports' requests, and runs one cycle.
    fn cycle(&mut self) {
        if self.rtl.read_valid() & self.rtl.read_ready() != 0 {
            assert!(self.read.is_none());
            let at = self.rtl.cycles() + 1 + self.random.below(20);
            self.read = Some((at, self.rtl.read_iova()));
        }
        if self.rtl.event_valid() & self.rtl.event_ready() != 0 {
            let event = self.rtl.event_data();
            let number = event as u32 & 0xff_ffff;
            self.events
                .push(((event >> 32) as u8, (event >> 24) as u8, number));
        }
        if self.rtl.write_valid() & self.rtl.write_ready() & !self.rtl.write_error() & 1 != 0 {
            self.write();
        }
        self.counts[0] += u64::from(self.rtl.count_cqe());
        self.counts[1] += u64::from(self.rtl.count_overrun());
        self.rtl.cycle();
    }

    fn write(&mut self) {
        let strobe = self.rtl.write_strobe();
        let place = strobe.trailing_zeros() as usize;
        assert_eq!(strobe >> place, 0xffff_ffff, "one CQE");
        let (iova, line) = (self.rtl.write_iova(), bytes(self.rtl.write_line()));
        self.memory.write_line(iova, &line, strobe);
        let cqe = line[place..place + Cqe::SIZE].to_vec();
        let effect = Effect::Descriptor(iova + place as u64, cqe);
        self.memory.log.push(effect);
    }

    /// Runs the clock until a request is done; its valid input is set.
    fn run(&mut self, is_done: impl Fn(&CompletionWriter) -> bool) {
        let limit = self.rtl.cycles() + CYCLES_MAX;
        loop {
            self.settle();
            let done = is_done(&self.rtl);
            if done {
                return;
            }
            self.cycle();
            assert!(self.rtl.cycles() < limit, "it does not end");
        }
    }

    fn control(&mut self, op: u8, cqn: u8, context: &CqContext) -> CqContext {
        let context: [u8; LINE] = context.as_bytes().try_into().expect("64 bytes");
        self.rtl.set_control_valid(1);
        self.rtl.set_control_op(op);
        self.rtl.set_control_number(cqn);
        self.rtl.set_control_context(words(&context, 0));
        self.run(|rtl| rtl.control_ready() != 0);
        let answer = bytes(self.rtl.answer_context());
        self.cycle();
        self.rtl.set_control_valid(0);
        CqContext::read_from_bytes(&answer).expect("64 bytes")
    }

    fn arm(&mut self, cqn: u8, consumer: u32, solicited: bool) {
        self.rtl.set_arm_valid(1);
        self.rtl.set_arm_cqn(cqn);
        self.rtl.set_arm_consumer(consumer);
        self.rtl.set_arm_solicited(solicited.into());
        self.run(|rtl| rtl.arm_ready() != 0);
        self.cycle();
        self.rtl.set_arm_valid(0);
    }

    fn offer(&mut self, engine: Engine, port: Option<[u32; 7]>) {
        let valid = port.is_some().into();
        let port = port.unwrap_or_default();
        match engine {
            Engine::Requester => {
                self.rtl.set_requester_completion_valid(valid);
                self.rtl.set_requester_completion(port);
            }
            Engine::Responder => {
                self.rtl.set_responder_completion_valid(valid);
                self.rtl.set_responder_completion(port);
            }
        }
    }

    fn complete(&mut self, engine: Engine, port: [u32; 7]) {
        self.offer(engine, Some(port));
        self.run(|rtl| match engine {
            Engine::Requester => rtl.requester_completion_ready() != 0,
            Engine::Responder => rtl.responder_completion_ready() != 0,
        });
        self.cycle();
        self.offer(engine, None);
    }

    fn run_until_idle(&mut self) {
        self.run(|rtl| rtl.idle() != 0);
    }
}

/// Software's state of a CQ.
#[derive(Debug, Clone, Copy)]
struct Queue {
    cqn: u32,
    slot: u32,
    record: u64,
    ring: u64,
    /// Number of CQEs that software has taken.
    consumer: u32,
}

/// Both implementations.
struct Pair {
    random: SplitMix64,
    now: Instant,
    model: CompletionQueues,
    host: Memory,
    counters: Counters,
    card: Card,
    events: Vec<Event>,
    queues: Vec<Queue>,
    created: u64,
}

impl Pair {
    fn new(seed: u64) -> Self {
        let mut model = CompletionQueues::new(SHAPE);
        model.reset(TABLE, LOG_QUEUES);
        Self {
            random: SplitMix64::new(seed),
            now: Instant::from_ns(1000),
            model,
            host: Memory::default(),
            counters: Counters::new(),
            card: Card::new(seed),
            events: Vec::new(),
            queues: Vec::new(),
            created: 0,
        }
    }

    fn pick(&mut self) -> Option<usize> {
        let count = self.queues.len() as u64;
        (count != 0).then(|| self.random.below(count) as usize)
    }

    fn note(&mut self, event: Option<ferroce_model::host_interface::event_queue::Event>) {
        let number = |n| u32::from(number(n));
        let seen = event.map(|e| (e.eqn as u8, e.kind.0, number(e.number)));
        self.events.extend(seen);
    }

    fn moderation(&mut self) -> (u16, u16) {
        match self.random.below(3) {
            0 => (self.random.below(6) as u16, self.random.below(60) as u16),
            1 => (self.random.number() as u16, self.random.number() as u16),
            _ => (0, 0),
        }
    }

    fn create(&mut self) {
        self.created += 1;
        let (moderation_count, moderation_us) = self.moderation();
        let context = CqContext {
            base: RINGS + self.created * RING_BYTES,
            consumer_record: RECORDS + self.created * 64 + 4 * self.random.below(16),
            log_size: self.random.below(5) as u8,
            eqn: self.random.below(16) as u32,
            doorbell_slot: self.random.below(1000) as u32,
            moderation_count,
            moderation_us,
            producer: self.random.number() as u32,
            armed: 1,
            state: self.random.below(2) as u8,
            ..CqContext::default()
        };
        let mut dma = Dma::new(&mut self.host, &mut self.counters, self.now);
        let Ok(cqn) = self.model.create(context, None, &mut dma) else {
            return; // the table is full
        };
        self.card.control(0, number(cqn), &context);
        self.queues.push(Queue {
            cqn,
            slot: context.doorbell_slot,
            record: context.consumer_record,
            ring: context.base,
            consumer: 0,
        });
    }

    fn destroy(&mut self) {
        let Some(index) = self.pick() else { return };
        let queue = self.queues.swap_remove(index);
        self.model.destroy(queue.cqn);
        self.card
            .control(1, number(queue.cqn), &CqContext::default());
    }

    fn modify(&mut self) {
        let Some(index) = self.pick() else { return };
        let cqn = self.queues[index].cqn;
        let (moderation_count, moderation_us) = self.moderation();
        let input = CqContext {
            moderation_count,
            moderation_us,
            ..CqContext::default()
        };
        let mut dma = Dma::new(&mut self.host, &mut self.counters, self.now);
        let done = self.model.modify(cqn, &input, &mut dma);
        assert!(done.is_ok());
        self.card.control(3, number(cqn), &input);
    }

    fn context(&mut self, cqn: u32) -> CqContext {
        let mut dma = Dma::new(&mut self.host, &mut self.counters, self.now);
        *self.model.get_mut(cqn, &mut dma).expect("memory")
    }

    fn query(&mut self) {
        let Some(index) = self.pick() else { return };
        let cqn = self.queues[index].cqn;
        let answer = self.card.control(2, number(cqn), &CqContext::default());
        assert_eq!(answer, self.context(cqn));
    }

    /// Takes some CQEs as software, and usually updates the consumer index.
    fn consume(&mut self) {
        if let Some(index) = self.pick() {
            self.consume_from(index);
        }
    }

    fn consume_from(&mut self, index: usize) {
        let producer = self.context(self.queues[index].cqn).producer;
        let queue = &mut self.queues[index];
        let waiting = producer.wrapping_sub(queue.consumer);
        let taken = self.random.below(u64::from(waiting) + 1) as u32;
        queue.consumer = queue.consumer.wrapping_add(taken);
        let (record, place) = (queue.record & !63, queue.record as usize % LINE);
        let mut line = [0x55; LINE];
        line[place..place + 4].copy_from_slice(&queue.consumer.to_le_bytes());
        for memory in [&mut self.host, &mut self.card.memory] {
            memory.write_line(record, &line, u64::MAX);
        }
    }

    fn arm(&mut self) {
        let Some(index) = self.pick() else { return };
        let queue = self.queues[index];
        let consumer = match self.random.below(12) {
            0 => self.random.number() as u32,
            1 => queue.consumer.wrapping_sub(self.random.below(20) as u32),
            2 => queue.consumer.wrapping_add(self.random.below(20) as u32),
            _ => queue.consumer,
        };
        let solicited = self.random.below(3) == 0;
        let mut dma = Dma::new(&mut self.host, &mut self.counters, self.now);
        let event = self.model.arm(
            self.now, queue.cqn, queue.slot, consumer, solicited, &mut dma,
        );
        self.note(event.expect("the slot is right"));
        self.card.arm(number(queue.cqn), consumer, solicited);
    }

    fn cqe(&mut self) -> Cqe {
        let mut word = CqeWord::default();
        word.set_opcode([1, 3, 0x80, 0x81][self.random.below(4) as usize]);
        if self.random.below(8) == 0 {
            word.set_status(CqeStatus::LOCAL_LENGTH.0 + self.random.below(9) as u8);
            word.set_vendor_error(self.random.number() as u8);
        }
        word.set_with_immediate(self.random.below(3) == 0);
        word.set_with_invalidate(self.random.below(3) == 0);
        word.set_solicited(self.random.below(4) == 0);
        word.set_with_grh(self.random.below(3) == 0);
        word.set_ipv4(self.random.below(3) == 0);
        Cqe {
            qpn: self.random.below(1 << 24) as u32,
            wqe_index: self.random.number() as u32,
            byte_count: self.random.number() as u32,
            immediate: (self.random.number() as u32).to_le_bytes(),
            source_qpn: self.random.below(1 << 24) as u32,
            word,
            ..Cqe::default()
        }
    }

    fn complete(&mut self) {
        // Some CQs do not exist; few overrun.
        let cqn = match self.pick() {
            Some(index) if self.random.below(50) != 0 => {
                if self.random.below(20) != 0 {
                    self.consume_from(index);
                }
                self.queues[index].cqn
            }
            _ => self.random.below(1 << LOG_QUEUES) as u32,
        };
        let cqe = self.cqe();
        let entry = CompletionEntry {
            cqn,
            cqe,
            after: self.now,
        };
        let mut dma = Dma::new(&mut self.host, &mut self.counters, self.now);
        let event = self.model.write(&entry, self.now, &mut dma);
        self.note(event);
        let frames_done = self.random.number() as u16;
        let frame = frames_done.wrapping_sub(self.random.below(0x8000) as u16);
        self.card.rtl.set_frames_done(frames_done);
        let engine = [Engine::Requester, Engine::Responder][self.random.below(2) as usize];
        self.card
            .complete(engine, completion(number(cqn), frame, &cqe));
    }

    fn advance(&mut self) {
        let step = [100, 10_000, 100_000_000][self.random.below(3) as usize];
        self.now = Instant::from_ns(self.now.as_ns() + self.random.below(step));
        self.card.rtl.set_now_ns(self.now.as_ns());
        while let Some(cqn) = self.model.pop_due(self.now) {
            let mut dma = Dma::new(&mut self.host, &mut self.counters, self.now);
            let event = self.model.expire(cqn, &mut dma);
            self.note(event);
        }
        self.card.run_until_idle();
        // A pass goes by number, the model by time.
        self.events.sort_unstable();
        self.card.events.sort_unstable();
    }

    /// Makes the host refuse a line of a queue, or accept it again.
    fn refuse(&mut self) {
        let Some(index) = self.pick() else { return };
        let queue = self.queues[index];
        let line = match self.random.below(2) {
            0 => queue.ring + 64 * self.random.below(4),
            _ => queue.record & !63,
        };
        let is_new = self.random.below(3) == 0;
        for memory in [&mut self.host, &mut self.card.memory] {
            if is_new {
                memory.refused.insert(line)
            } else {
                memory.refused.remove(&line)
            };
        }
    }

    fn compare(&mut self) {
        assert_eq!(self.card.events, self.events);
        assert_eq!(self.card.memory.log, self.host.log);
        self.card.memory.log.clear();
        self.host.log.clear();
        let values = [Counter::cqes, Counter::cq_overruns].map(|c| self.counters.value(c));
        assert_eq!(self.card.counts, values);
        // The clock may stand still until then.
        let deadline = (self.card.rtl.deadline_valid() != 0).then(|| self.card.rtl.deadline_ns());
        if let Some(due) = self.model.next_timeout() {
            assert!(deadline.is_some_and(|deadline| deadline <= due.as_ns()));
        }
    }
}

#[test]
fn random_calls_have_the_effects_of_the_model() {
    let (mut cqes, mut overruns, mut events) = (0, 0, 0);
    for_each_seed(SEEDS, |seed| {
        let mut pair = Pair::new(seed);
        pair.card.rtl.set_now_ns(pair.now.as_ns());
        for _ in 0..CALLS_PER_SEED {
            match pair.random.below(200) {
                0..=3 => pair.create(),
                4..=5 => pair.destroy(),
                6..=9 => pair.modify(),
                10..=19 => pair.query(),
                20..=60 => pair.consume(),
                61..=90 => pair.arm(),
                91..=100 => pair.advance(),
                101 => pair.refuse(),
                _ => pair.complete(),
            }
            pair.compare();
            events += pair.events.len();
            pair.events.clear();
            pair.card.events.clear();
        }
        cqes += pair.card.counts[0];
        overruns += pair.card.counts[1];
    });
    println!("{cqes} CQEs, {overruns} overruns, {events} events");
    assert!(cqes > 0 && overruns > 0 && events > 0);
}

/// Two engines that complete WQEs into one CQ, while payloads are written.
struct Engines {
    card: Card,
    random: SplitMix64,
    /// Index and frame of the completions that each engine still has to hand over.
    queues: [VecDeque<(u32, u16)>; 2],
    frames_done: u16,
    written: usize,
}

impl Engines {
    const CQN: u8 = 7;
    const COMPLETIONS: u32 = 400;

    fn new(seed: u64) -> Self {
        let mut card = Card::new(seed);
        let mut random = SplitMix64::new(seed ^ 1);
        let context = CqContext {
            base: RINGS,
            log_size: 18,
            ..CqContext::default()
        };
        card.control(0, Self::CQN, &context);
        let frames_done = random.number() as u16;
        card.rtl.set_frames_done(frames_done);
        let mut queues = [VecDeque::new(), VecDeque::new()];
        let mut frames = [frames_done; 2];
        for index in 0..Self::COMPLETIONS {
            let engine = random.below(2) as usize;
            frames[engine] = frames[engine].wrapping_add(random.below(4) as u16);
            queues[engine].push_back((index, frames[engine]));
        }
        Self {
            card,
            random,
            queues,
            frames_done,
            written: 0,
        }
    }

    fn is_due(&self, frame: u16) -> bool {
        self.frames_done.wrapping_sub(frame) < 0x8000
    }

    fn offer(&mut self) {
        let engines = [Engine::Requester, Engine::Responder].into_iter();
        for (engine, queue) in engines.zip(&self.queues) {
            let port = queue.front().map(|(index, frame)| {
                let cqe = Cqe {
                    wqe_index: *index,
                    ..Cqe::default()
                };
                completion(Self::CQN, *frame, &cqe)
            });
            self.card.offer(engine, port);
        }
    }

    /// The first completion of an engine was taken.
    fn check(&mut self, engine: usize) {
        let (index, frame) = self.queues[engine].pop_front().expect("it was offered");
        assert!(self.is_due(frame), "{frame}, {} done", self.frames_done);
        let Some(Effect::Descriptor(iova, cqe)) = self.card.memory.log.get(self.written) else {
            panic!("CQE {index} is not written");
        };
        assert_eq!(*iova, RINGS + 32 * self.written as u64);
        assert_eq!(cqe[4..8], index.to_le_bytes());
        self.written += 1;
    }

    /// The next payload is written at a random time, but only when no completion is due: a due
    /// completion does not wait for the other engine's.
    fn write_payload(&mut self) {
        let mut first = self.queues.iter().filter_map(|queue| queue.front());
        if first.all(|(_, frame)| !self.is_due(*frame)) && self.random.below(12) == 0 {
            self.frames_done = self.frames_done.wrapping_add(1);
            self.card.rtl.set_frames_done(self.frames_done);
        }
    }
}

/// Goal: a completion waits for the payload of its frame, and later completions of the same engine
/// wait for it, but the other engine's completions do not.
#[test]
fn completions_wait_for_their_frames_in_order() {
    for_each_seed(SEEDS, |seed| {
        let mut engines = Engines::new(seed);
        while engines.queues.iter().any(|queue| !queue.is_empty()) {
            engines.offer();
            engines.card.settle();
            let rtl = &engines.card.rtl;
            let ready = [
                rtl.requester_completion_ready(),
                rtl.responder_completion_ready(),
            ];
            engines.card.cycle();
            for engine in (0..2).filter(|engine| ready[*engine] != 0) {
                engines.check(engine);
            }
            engines.write_payload();
            let cycles = engines.card.rtl.cycles();
            assert!(cycles < CYCLES_MAX, "it does not end");
        }
        let count = Engines::COMPLETIONS as usize;
        assert_eq!(
            (engines.written, engines.card.memory.log.len()),
            (count, count)
        );
    });
}
