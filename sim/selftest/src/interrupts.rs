//! Stage `interrupts`: each vector, with events of the device.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ferroce_driver::{
    AsyncEvent, CompletionQueue, CompletionQueueConfig, ModifyQp, SendData, SendOperation, Service,
};
use ferroce_spec::counter::Counter;
use ferroce_spec::register::{MSIX_ENTRY_SIZE, MSIX_TABLE_OFFSET, MSIX_VECTOR_MASKED};

use super::bench::{Bench, Counts};
use super::hint;
use super::observed::VectorCounts;
use super::outcome::{Failure, Outcome, Stop};
use super::pair::Pair;
use super::pattern::Memory;

/// Events for each vector.
const ROUNDS: u64 = 8;
/// Entries of the CQs.
const ENTRIES: u32 = 64;
const LENGTH: usize = 64;

pub(super) fn run(bench: &mut Bench) -> Outcome {
    let vectors = bench.opened()?.device.capabilities().completion_vectors;
    for vector in 0..vectors {
        check_completion_vector(bench, vector)?;
    }
    check_async_vector(bench)?;
    bench.figure("completion_vectors", vectors);
    bench.figure("events_each", ROUNDS);
    let counts = bench.opened()?.observed.interrupts();
    let counts: Vec<String> = counts.iter().map(u64::to_string).collect();
    bench.figure("interrupts", counts.join(" "));
    Ok(())
}

/// A CQ of a vector, whose events are counted, and a pair whose completions go to it.
struct Source {
    pair: Pair,
    cq: Arc<CompletionQueue>,
    events: Arc<AtomicU64>,
    memory: Memory,
    /// MSI-X vector, which equals the number of the event queue.
    msix: u16,
}

impl Source {
    fn new(bench: &Bench, vector: u16) -> Result<Self, Stop> {
        let opened = bench.opened()?;
        let events = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&events);
        let config = CompletionQueueConfig {
            entries: ENTRIES,
            vector,
            on_event: Some(Arc::new(move || {
                counted.fetch_add(1, Ordering::Release);
            })),
            on_error: None,
        };
        let failed = |error| hint::of_driver("no completion queue", &error, &*bench.bus);
        let cq = CompletionQueue::create(&opened.device, config).map_err(failed)?;
        let memory = Memory::open(&opened.pd, 2 * LENGTH).map_err(failed)?;
        let vectors = opened.device.capabilities().completion_vectors;
        Ok(Self {
            pair: Pair::with_cqs(bench, Service::ReliableConnected, &cq, &cq)?,
            cq,
            events,
            memory,
            // Event queue 0 has completion events only if there is no other.
            msix: if vectors == 1 {
                shared_vector(bench)
            } else {
                vector + 1
            },
        })
    }

    fn complete(&self, bench: &Bench) -> Result<(), Failure> {
        let write = SendOperation::RdmaWrite(self.memory.remote(LENGTH));
        let data = SendData::ScatterGather(&[self.memory.segment(0, LENGTH)]);
        self.pair
            .execute(bench, write, data, "RDMA WRITE")
            .map(|_| ())
    }

    fn events(&self) -> u64 {
        self.events.load(Ordering::Acquire)
    }
}

/// Returns the vector of completions if there is one completion vector: 1 if the device has it,
/// otherwise 0.
fn shared_vector(bench: &Bench) -> u16 {
    let bits = bench.bus.read64(ferroce_spec::register::offset::capability);
    let capability = ferroce_spec::register::Capability::from_bits(bits);
    u16::from(capability.vectors() > 1)
}

fn check_completion_vector(bench: &Bench, vector: u16) -> Result<(), Stop> {
    let source = Source::new(bench, vector)?;
    let observed = &bench.opened()?.observed;
    let (before, counts) = (observed.interrupts(), bench.counters());
    // Not armed: a completion must not interrupt.
    source.complete(bench)?;
    bench.stay_quiet();
    if source.events() != 0 {
        return Err(Failure::new(format!(
            "vector {}: an event has come for a completion queue that was not armed",
            source.msix
        ))
        .look_at("the armed state of a CQ after CREATE_CQ: not armed")
        .into());
    }
    for round in 1..=ROUNDS {
        source.cq.arm();
        source.complete(bench)?;
        if bench
            .wait(bench.timeouts.interrupt, || source.events() >= round)
            .is_none()
        {
            return Err(missing(bench, source.msix, &before, &counts)?.into());
        }
    }
    bench.stay_quiet();
    if source.events() != ROUNDS {
        return Err(Failure::new(format!(
            "vector {}: {} events for {ROUNDS} armings",
            source.msix,
            source.events()
        ))
        .look_at("a CQ raises one event for each arming, however many CQEs come")
        .into());
    }
    let after = observed.interrupts();
    Ok(check_others(source.msix, &before, &after)?)
}

/// Checks vector 0, which has the asynchronous events, such as a drained send queue.
fn check_async_vector(bench: &Bench) -> Result<(), Stop> {
    let opened = bench.opened()?;
    let pair = Pair::new(bench, Service::ReliableConnected)?;
    let number = pair.requester.number();
    let events = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&events);
    opened.device.set_event_handler(Some(Arc::new(move |event| {
        if event == AsyncEvent::SqDrained(number) {
            counted.fetch_add(1, Ordering::Release);
        }
    })));
    let (before, counts) = (opened.observed.interrupts(), bench.counters());
    let drained = pair.requester.modify(&ModifyQp::ToSqd {
        notify_drained: true,
    });
    drained.map_err(|error| hint::of_driver("RTS to SQD", &error, &*bench.bus))?;
    let timeout = bench.timeouts.interrupt;
    let came = bench.wait(timeout, || events.load(Ordering::Acquire) >= 1);
    opened.device.set_event_handler(None);
    if came.is_none() {
        return Err(missing(bench, 0, &before, &counts)?.into());
    }
    bench.stay_quiet();
    Ok(check_others(0, &before, &opened.observed.interrupts())?)
}

fn check_others(msix: u16, before: &VectorCounts, after: &VectorCounts) -> Result<(), Failure> {
    let others = (0..).zip(before.iter().zip(after));
    for (vector, (before, after)) in others {
        if vector != msix && after != before {
            return Err(Failure::new(format!(
                "vector {vector} has interrupted {} times while only vector {msix} had reason to",
                after - before
            ))
            .look_at("which MSI-X table entry the card takes for an event queue"));
        }
    }
    Ok(())
}

/// Describes where the event or its interrupt was lost.
fn missing(
    bench: &Bench,
    msix: u16,
    before: &VectorCounts,
    counts: &Counts,
) -> Result<Failure, Stop> {
    let now = bench.counters();
    let events = now.since(counts, Counter::eqes);
    let messages = now.since(counts, Counter::interrupts);
    let arrived = bench.opened()?.observed.interrupts();
    let vector = usize::from(msix);
    let failure = Failure::new(format!(
        "vector {msix}: no event within {:?} (events written {events}, MSI-X messages sent \
         {messages}, interrupts that arrived {})",
        bench.timeouts.interrupt,
        arrived[vector] - before[vector]
    ));
    let elsewhere = (0..arrived.len()).find(|&v| v != vector && arrived[v] != before[v]);
    Ok(if let Some(other) = elsewhere {
        failure.look_at(format!(
            "vector {other} has interrupted instead: which table entry the card takes"
        ))
    } else if arrived[vector] != before[vector] {
        failure.look_at(
            "the interrupt has arrived before its event: an MSI-X message must not pass the posted \
             write of the EQE",
        )
    } else if events == 0 {
        failure.look_at(
            "the card has written no event: the doorbell that arms the CQ, the number of the event \
             queue in the CQ context",
        )
    } else if messages == 0 {
        failure
            .look_at(table_entry(bench, msix))
            .look_at("the event queue must be armed (event_queue_doorbell) and its vector unmasked")
    } else {
        failure.look_at(table_entry(bench, msix)).look_at(
            "the message was sent and has not arrived: bus master, MSI-X enable and function \
                 mask in configuration space, interrupt remapping of the IOMMU (dmesg)",
        )
    })
}

fn table_entry(bench: &Bench, msix: u16) -> String {
    let at = MSIX_TABLE_OFFSET + u32::from(msix) * MSIX_ENTRY_SIZE;
    let address = bench.bus.read64(at);
    let (data, control) = (bench.bus.read32(at + 8), bench.bus.read32(at + 12));
    let masked = if control & MSIX_VECTOR_MASKED != 0 {
        "masked"
    } else {
        "not masked"
    };
    format!("MSI-X table entry {msix}: address {address:#x}, data {data:#x}, {masked}")
}
