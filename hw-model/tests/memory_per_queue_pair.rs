//! What idle queue pairs cost the machine that runs the model: thousands of them are created,
//! connected, and then wait.

mod common;

use std::alloc::System;

use common::connected;
use ferroce_model::contexts::queue_pair::QueuePair;
use ferroce_spec::context::PathMtuCode;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Bytes that a queue pair may cost, everything that it owns included.
const LIMIT: usize = 1024;
/// Queue pairs that are counted; the tables of a test machine have 256 entries.
const QUEUE_PAIRS: usize = 200;
/// Queue pairs before them: queues between blocks get their memory with the first work.
const FIRST_QUEUE_PAIRS: usize = 40;

const _: () = assert!(size_of::<QueuePair>() <= LIMIT);

/// One test, because it counts what the whole program allocates.
#[test]
fn a_queue_pair_that_is_connected_and_idle_costs_a_kibibyte_at_most() {
    let (mut a, b) = connected(PathMtuCode::MTU_1024);
    let mut create = |count: usize, numbers: &mut Vec<_>| {
        for _ in 0..count {
            numbers.push(a.create_connectable_qp().expect("room"));
        }
        for qpn in numbers.drain(..) {
            a.qpn = qpn;
            a.connect(b.identity(), PathMtuCode::MTU_1024);
        }
    };
    let mut numbers = Vec::with_capacity(QUEUE_PAIRS);
    create(FIRST_QUEUE_PAIRS, &mut numbers);
    let region = Region::new(ALLOCATOR);
    create(QUEUE_PAIRS, &mut numbers);
    let change = region.change();
    let kept = change.bytes_allocated as i64 - change.bytes_deallocated as i64;
    let each = kept / QUEUE_PAIRS as i64;
    println!(
        "{each} bytes for each queue pair, {} in its box",
        size_of::<QueuePair>()
    );
    assert!(each >= size_of::<QueuePair>() as i64, "they were created");
    assert!(each <= LIMIT as i64, "{each} bytes for each queue pair");
}
