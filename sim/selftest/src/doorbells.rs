//! Stage `doorbells`: BAR2, page by page.

use ferroce_driver::{CompletionQueue, CompletionQueueConfig};
use ferroce_spec::counter::Counter;
use ferroce_spec::doorbell::{DoorbellKind, DoorbellValue, PAGES, SLOTS_PER_PAGE};
use ferroce_spec::register::{Capability, offset};

use super::bench::Bench;
use super::hint;
use super::outcome::{Failure, Outcome};

/// A number that no queue has.
const NO_QUEUE: u32 = 0xff_fffe;
/// A slot that no queue has: queues take the lowest slots.
const LAST_SLOT: u32 = SLOTS_PER_PAGE - 1;

pub(super) fn run(bench: &mut Bench) -> Outcome {
    let capability = Capability::from_bits(bench.bus.read64(offset::capability));
    let pages = 1u32.checked_shl(capability.log_doorbell_pages().into());
    let pages = pages.unwrap_or(PAGES).min(PAGES);
    let chosen = chosen_pages(pages);
    for &page in &chosen {
        check_wrong_value(bench, page)?;
    }
    check_right_one(bench, &chosen)?;
    bench.figure("pages", pages);
    bench.figure("pages_rung", chosen.len());
    Ok(())
}

/// Returns pages whose numbers differ in each bit: 0, 1, 2, 4, … and the last.
fn chosen_pages(pages: u32) -> Vec<u32> {
    let powers = (0..PAGES.ilog2()).map(|bit| 1 << bit);
    let mut chosen: Vec<u32> = [0].into_iter().chain(powers).chain([pages - 1]).collect();
    chosen.retain(|&page| page < pages);
    chosen.dedup();
    chosen
}

/// Checks that a doorbell for a missing queue is counted, and has no effect.
fn check_wrong_value(bench: &Bench, page: u32) -> Result<(), Failure> {
    let slot = page * SLOTS_PER_PAGE + LAST_SLOT;
    let value = DoorbellValue::new(DoorbellKind::SEND_QUEUE, NO_QUEUE, page + 1);
    expect_error(bench, slot, value.bits(), "for a queue that is not there")
}

/// Rings a doorbell that must be counted as an error, once.
fn expect_error(bench: &Bench, slot: u32, value: u64, what: &str) -> Result<(), Failure> {
    let before = bench.counters();
    bench.bus.doorbell(slot, value);
    let errors = || bench.counters().since(&before, Counter::doorbell_errors);
    bench.wait(bench.timeouts.counter, || errors() > 0);
    let after = bench.counters();
    let landed = after.since(&before, Counter::doorbells);
    let errors = after.since(&before, Counter::doorbell_errors);
    if (landed, errors) == (1, 1) {
        return Ok(());
    }
    let page = slot / SLOTS_PER_PAGE;
    let failure = Failure::new(format!(
        "a doorbell {what}, in slot {slot} (page {page}): doorbells moved by {landed}, \
         doorbell_errors by {errors}, not both by 1"
    ));
    Err(match (landed, errors) {
        (0, _) if page == 0 => failure
            .look_at("does BAR2 decode to the doorbell block? 64-bit posted writes")
            .look_at_all(hint::of_silence(&*bench.bus)),
        (0, _) => failure.look_at(format!(
            "page {page} of BAR2 (byte {:#x}): address bits of the doorbell block, size of BAR2",
            u64::from(slot) * 8
        )),
        (1, 0) => failure.look_at(
            "it was taken for a right one: the slot must be compared with that in the context of \
             the queue, all bits of it",
        ),
        _ => failure.look_at("one write of 8 bytes is one doorbell: is it split in two?"),
    })
}

/// Checks that the doorbell of a real CQ is valid in its own slot, and invalid in the same slot of
/// other pages.
fn check_right_one(bench: &Bench, pages: &[u32]) -> Outcome {
    let opened = bench.opened()?;
    let config = CompletionQueueConfig {
        entries: 16,
        ..CompletionQueueConfig::default()
    };
    let cq = CompletionQueue::create(&opened.device, config)
        .map_err(|error| hint::of_driver("no completion queue", &error, &*bench.bus))?;
    let before = bench.counters();
    cq.arm();
    let landed = || bench.counters().since(&before, Counter::doorbells);
    bench.wait(bench.timeouts.counter, || landed() > 0);
    let errors = bench.counters().since(&before, Counter::doorbell_errors);
    let (slot, value) = opened.observed.last_doorbell();
    if (landed(), errors) != (1, 0) {
        return Err(Failure::new(format!(
            "arming a CQ, slot {slot}, value {value:#x}: doorbells moved by {}, doorbell_errors by \
             {errors}, not by 1 and 0",
            landed()
        ))
        .look_at("the CQ context (doorbell_slot), and how the doorbell block compares it")
        .into());
    }
    let (page, place) = (slot / SLOTS_PER_PAGE, slot % SLOTS_PER_PAGE);
    for &other in pages.iter().filter(|&&other| other != page) {
        let slot = other * SLOTS_PER_PAGE + place;
        expect_error(bench, slot, value, "of a CQ of another page")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_differ_in_each_address_bit() {
        assert_eq!(
            chosen_pages(512),
            [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 511]
        );
        assert_eq!(chosen_pages(2), [0, 1]);
        assert_eq!(chosen_pages(1), [0]);
    }
}
