//! Items cross between clocks of any periods, in order and unchanged.

use ferroce_rtl_harness::Clocks;
use ferroce_rtl_harness::seeds::for_each_seed;
use ferroce_rtl_harness_example::clock_crossing::ClockCrossing;
use ferroce_rtl_harness_example::item::{Item, Tag};

const ITEMS: u64 = 200;
/// Edges of both clocks after which all items have crossed, whatever their periods.
const MAX_EDGES: u64 = 100_000;

/// The item of a number. Different numbers below 2^24 have different items.
fn item(number: u64) -> Item {
    Item {
        tag: Tag {
            source: number as u8,
            last: number.is_multiple_of(3),
        },
        address: number << 24 | 0xabcdef,
        bytes: number as u32,
    }
}

/// Knuth's generator.
fn random(state: &mut u64) -> u64 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1);
    *state >> 33
}

/// Goal: what is written is read. Method: random periods in picoseconds, and sides that pause at
/// random.
#[test]
fn items_cross_in_order() {
    for_each_seed(50, |seed| {
        let mut state = seed;
        let mut fifo = ClockCrossing::new();
        let mut period = || 1000 + random(&mut state) % 9000;
        let mut clocks = Clocks::new()
            .with(ClockCrossing::WRITE_CLK, period(), 0)
            .with(ClockCrossing::READ_CLK, period(), period());
        let (mut written, mut read) = (0, 0);
        while read < ITEMS {
            assert!(
                fifo.cycles() < MAX_EDGES,
                "{read} of {ITEMS} items have crossed"
            );
            fifo.set_write_valid(u8::from(written < ITEMS && random(&mut state) % 4 > 0));
            fifo.set_write_item(item(written).into());
            fifo.set_read_ready(u8::from(random(&mut state) % 4 > 0));
            fifo.settle();
            let writes = fifo.write_valid() & fifo.write_ready() != 0;
            let reads = fifo.read_valid() & fifo.read_ready() != 0;
            let found = Item::from(fifo.read_item());
            let rising = fifo.step(&mut clocks);
            if writes && rising.contains(ClockCrossing::WRITE_CLK) {
                written += 1;
            }
            if reads && rising.contains(ClockCrossing::READ_CLK) {
                assert_eq!(found, item(read));
                read += 1;
            }
        }
    });
}

/// Goal: a full FIFO refuses items until some are read. Method: only the writer's clock runs.
#[test]
fn a_full_fifo_is_not_ready() {
    let mut fifo = ClockCrossing::new();
    let mut writer = Clocks::new().with(ClockCrossing::WRITE_CLK, 1, 0);
    fifo.set_write_valid(1);
    for number in 0..20 {
        fifo.settle();
        assert_eq!(fifo.write_ready() != 0, number < 8, "{number}");
        fifo.step(&mut writer);
    }
    assert_eq!(fifo.read_valid(), 0, "the reader has had no clock");
}
