//! The reset of the function while reads are under way: it lasts until the last of them has come.
//! The other registers are tested on the whole card, by `ferroce selftest`.

use ferroce_rtl::seeds::for_each_seed;
use ferroce_rtl::verilated::registers::Registers;
use ferroce_spec::register::{Control, offset};
use ferroce_units::random::SplitMix64;

const SEEDS: u64 = 40;
/// Cycles of a reset at least.
const RESET_CYCLES_MIN: u64 = 4;
const LATE_CYCLES: u64 = 200;

fn start() -> Registers {
    let mut rtl = Registers::new();
    rtl.set_rst(1);
    rtl.set_reads_drained(1);
    (0..3).for_each(|_| rtl.cycle());
    rtl.set_rst(0);
    (0..20).for_each(|_| rtl.cycle());
    assert_eq!(rtl.reset(), 0, "the reset of power-on has ended");
    rtl
}

fn write_control(rtl: &mut Registers, control: Control) {
    rtl.set_write_at(offset::control as u16);
    rtl.set_write_data(control.bits().into());
    rtl.set_write_valid(1);
    rtl.cycle();
    rtl.set_write_valid(0);
    rtl.settle();
}

/// Returns the Control register.
fn read_control(rtl: &mut Registers) -> Control {
    rtl.set_read_at(offset::control as u16);
    rtl.set_read_valid(1);
    rtl.cycle();
    rtl.set_read_valid(0);
    Control::from_bits(rtl.read_data() as u32)
}

/// Goal: a reset begins at once, and ends when all reads of the time before have come, but not
/// before the least time. Method: reads that end at a random time, before or after that.
#[test]
fn a_reset_waits_for_reads_that_are_under_way() {
    let (mut early, mut late) = (0, 0);
    for_each_seed(SEEDS, |seed| {
        let mut random = SplitMix64::new(seed);
        let mut rtl = start();
        for _ in 0..50 {
            let mut control = Control::default();
            control.set_enable(true);
            write_control(&mut rtl, control);
            assert_eq!(rtl.enabled(), 1);
            rtl.set_reads_drained(0);
            let mut control = Control::default();
            control.set_reset(true);
            write_control(&mut rtl, control);
            assert_eq!((rtl.reset(), rtl.enabled()), (1, 0));
            let begin = rtl.cycles();
            let longest = [RESET_CYCLES_MIN, LATE_CYCLES][random.below(2) as usize];
            let drained = random.below(longest);
            while rtl.cycles() < begin + drained {
                assert!(read_control(&mut rtl).reset(), "it has not ended");
                rtl.settle();
                assert_eq!(rtl.reset(), 1, "reads are under way");
            }
            rtl.set_reads_drained(1);
            while rtl.reset() != 0 {
                rtl.cycle();
                assert!(rtl.cycles() < begin + drained + 20, "it does not end");
            }
            let cycles = rtl.cycles() - begin;
            assert!(cycles >= RESET_CYCLES_MIN, "{cycles} cycles");
            early += u64::from(drained < RESET_CYCLES_MIN);
            late += u64::from(drained > RESET_CYCLES_MIN);
            assert!(!read_control(&mut rtl).reset());
        }
    });
    assert!(early > 0 && late > 0);
}
