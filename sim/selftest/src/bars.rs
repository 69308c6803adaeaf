//! Stage `bars`: the regions of the device.

use ferroce_spec::doorbell::{BAR2_SIZE, DOORBELL_PAGES_SIZE};
use ferroce_spec::register::{BAR0_SIZE, BAR4_SIZE};

use super::bench::Bench;
use super::outcome::{Failure, Outcome, Stop};

pub(super) fn run(bench: &mut Bench) -> Outcome {
    let sizes = [0, 2, 4].map(|bar| bench.bus.region_size(bar));
    if sizes.iter().all(Option::is_none) {
        let why = "this bus does not report the sizes of BARs";
        return Err(Stop::NotApplicable(why.to_owned()));
    }
    let [registers, doorbells, memory] = sizes.map(Option::unwrap_or_default);
    for (bar, size) in [(0, registers), (2, doorbells), (4, memory)] {
        bench.figure(format!("bar{bar}_kib"), size >> 10);
    }
    check(0, registers, BAR0_SIZE, "registers")?;
    check(2, doorbells, DOORBELL_PAGES_SIZE, "doorbell pages")?;
    if doorbells < BAR2_SIZE.into() {
        bench.note("BAR2 has no room for push pages");
    }
    if memory < BAR4_SIZE.into() {
        bench.note(format!(
            "BAR4 is smaller than the {BAR4_SIZE} bytes of the contract"
        ));
    }
    Ok(())
}

fn check(bar: u32, size: u64, least: u32, what: &str) -> Result<(), Failure> {
    if size >= u64::from(least) {
        return Ok(());
    }
    let what = format!("BAR{bar} has {size} bytes, the {what} take {least}");
    let failure = Failure::new(what)
        .look_at("the BAR settings of the PCIe hard IP; BARs are 0, 2 and 4, 64 bits each");
    Err(if size == 0 {
        failure.look_at("dmesg: \"can't assign\": the BAR has no address")
    } else {
        failure
    })
}
