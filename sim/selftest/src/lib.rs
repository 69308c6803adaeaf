//! The staged check of a device: the first test of a new bitstream.
//!
//! Stages go from the outside in: configuration space, registers, reset, the command queue, DMA,
//! interrupts, queue pairs. Each proves one thing, reports figures, and on failure lists what to
//! check. Stages that depend on a failed one are skipped and named.
//!
//! Everything goes through [`Bus`], so that the same code checks a card, a model behind a socket
//! and a model in this process. No value from the device is trusted, and each wait has a limit:
//! [`Timeouts`].

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use ferroce_driver::bus::Bus;

mod bars;
mod bench;
mod bring_up;
mod clock;
mod command_ring;
mod commands;
mod config_space;
mod counters;
mod datagrams;
mod device_memory;
mod dma;
mod doorbells;
mod hint;
mod identity;
mod interrupts;
mod loopback;
mod observed;
mod outcome;
mod pair;
mod pattern;
pub mod register_names;
mod registers;
mod reset;
mod reset_dma;
mod timing;

use bench::Bench;
pub use bench::Timeouts;
pub use dma::{DESTINATION_PLACES, LENGTHS};
pub use outcome::{Failure, Figure, Report, Value, Verdict, json, text};
use outcome::{Outcome, Stop};

/// One stage.
#[derive(Debug)]
pub struct Stage {
    /// Name, as `--stage` takes it.
    pub name: &'static str,
    /// The property that it proves.
    pub proves: &'static str,
    /// Stages that must have passed before.
    pub needs: &'static [&'static str],
    run: fn(&mut Bench) -> Outcome,
}

/// All stages, in order. A stage needs only earlier stages.
pub const STAGES: &[Stage] = &[
    Stage {
        name: "config",
        proves: "the card is enumerated, may be addressed and may do DMA, and has the capabilities \
                 PCIe, MSI-X and power management",
        needs: &[],
        run: config_space::run,
    },
    Stage {
        name: "bars",
        proves: "registers (BAR0), doorbells (BAR2) and device memory (BAR4) have their sizes",
        needs: &[],
        run: bars::run,
    },
    Stage {
        name: "identity",
        proves: "reads of BAR0 reach the register block, and it has this contract",
        needs: &[],
        run: identity::run,
    },
    Stage {
        name: "registers",
        proves: "each bit of a register can be written and read, 32 and 64 bits at a time, and \
                 nothing can be written that may not",
        needs: &["identity"],
        run: registers::run,
    },
    Stage {
        name: "reset",
        proves: "a reset ends, and leaves every register as the contract says",
        needs: &["identity"],
        run: reset::run,
    },
    Stage {
        name: "clock",
        proves: "the device clock never goes back and counts nanoseconds",
        needs: &["identity"],
        run: clock::run,
    },
    Stage {
        name: "commands",
        proves: "the device reads and writes host memory by DMA: commands are executed in order, \
                 around the end of the ring, and an unknown one is refused",
        needs: &["registers", "reset"],
        run: commands::run,
    },
    Stage {
        name: "reset-dma",
        proves: "a reset while commands are under way ends them: nothing that was read before is \
                 executed, and nothing is written after it",
        needs: &["commands"],
        run: reset_dma::run,
    },
    Stage {
        name: "bring-up",
        proves: "the driver brings the device up: limits, context tables, event queues, GID table",
        needs: &["commands"],
        run: bring_up::run,
    },
    Stage {
        name: "dma",
        proves: "payload of every length arrives at every alignment and across pages, and not a \
                 byte beside it changes",
        needs: &["bring-up"],
        run: dma::run,
    },
    Stage {
        name: "interrupts",
        proves: "each MSI-X vector arrives, once for each event, and no other with it",
        needs: &["bring-up"],
        run: interrupts::run,
    },
    Stage {
        name: "doorbells",
        proves: "doorbells land on all pages of BAR2, and one that is wrong is counted and ignored",
        needs: &["bring-up"],
        run: doorbells::run,
    },
    Stage {
        name: "loopback",
        proves: "RC, UC and UD queue pairs carry SEND, RDMA WRITE, RDMA READ and atomics to \
                 themselves, with the right data and completions",
        needs: &["bring-up"],
        run: loopback::run,
    },
    Stage {
        name: "counters",
        proves: "counters move exactly as the traffic says",
        needs: &["loopback"],
        run: counters::run,
    },
    Stage {
        name: "device-memory",
        proves: "each byte of BAR4 holds what is written there, by software and by the device",
        needs: &["bring-up"],
        run: device_memory::run,
    },
    Stage {
        name: "timing",
        proves: "nothing; it says how long registers, completions and DMA take",
        needs: &["bring-up"],
        run: timing::run,
    },
];

/// Error: no stage has this name.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no stage {0:?}; there are: {names}", names = names().join(", "))]
pub struct NoSuchStage(pub String);

/// Returns the names of all stages, in order.
pub fn names() -> Vec<&'static str> {
    STAGES.iter().map(|stage| stage.name).collect()
}

/// Returns the named stages and the stages that they need, in order; without names, all.
///
/// # Errors
/// [`NoSuchStage`] naming the first unknown one.
pub fn select(wanted: &[String]) -> Result<Vec<&'static Stage>, NoSuchStage> {
    let unknown = |name: &&String| !STAGES.iter().any(|stage| stage.name == name.as_str());
    if let Some(name) = wanted.iter().find(unknown) {
        return Err(NoSuchStage(name.clone()));
    }
    let mut chosen: Vec<&Stage> = Vec::new();
    // From last to first, because a stage comes after the stages that it needs.
    for stage in STAGES.iter().rev() {
        let is_wanted = wanted.is_empty() || wanted.iter().any(|name| name == stage.name);
        let is_needed = chosen.iter().any(|other| other.needs.contains(&stage.name));
        if is_wanted || is_needed {
            chosen.push(stage);
        }
    }
    chosen.reverse();
    Ok(chosen)
}

/// Runs stages on the device behind `bus`, which must be exclusive, and calls `done` after each.
/// The device is reset several times; its state is lost.
pub fn run(
    bus: Arc<dyn Bus>,
    stages: &[&'static Stage],
    timeouts: &Timeouts,
    mut done: impl FnMut(&Report),
) -> Vec<Report> {
    let mut bench = Bench::new(bus, timeouts);
    let mut reports: Vec<Report> = Vec::new();
    for stage in stages {
        let report = run_stage(stage, &reports, &mut bench);
        done(&report);
        reports.push(report);
    }
    reports
}

fn run_stage(stage: &'static Stage, before: &[Report], bench: &mut Bench) -> Report {
    let is_missing = |report: &&Report| {
        let has_result = matches!(report.verdict, Verdict::Passed | Verdict::NotApplicable(_));
        stage.needs.contains(&report.stage.name) && !has_result
    };
    let start = Instant::now();
    let missing = before.iter().find(is_missing);
    let verdict = match bench.gone_since.or(missing.map(|report| report.stage.name)) {
        Some(name) => Verdict::Skipped(name),
        None => verdict_of(stage, bench),
    };
    let (figures, notes) = bench.take_findings();
    Report {
        stage,
        verdict,
        figures,
        notes,
        duration: start.elapsed(),
    }
}

fn verdict_of(stage: &Stage, bench: &mut Bench) -> Verdict {
    // A device must not be able to crash the check; if it does, that is a result.
    match catch_unwind(AssertUnwindSafe(|| (stage.run)(bench))) {
        // If all ones are valid values, a device that has disappeared would pass.
        Ok(Ok(())) if bench.is_gone() => {
            let failure = Failure::new("nothing was wrong before");
            Verdict::Failed(bench.explain(stage.name, failure))
        }
        Ok(Ok(())) => Verdict::Passed,
        Ok(Err(Stop::NotApplicable(why))) => Verdict::NotApplicable(why),
        Ok(Err(Stop::Failed(failure))) => Verdict::Failed(bench.explain(stage.name, failure)),
        Err(_) => Verdict::Failed(
            Failure::new("the check itself has failed (see the message above)")
                .look_at("an answer of the device for which self-test or driver has no case: a bug, please report it"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_needs_only_stages_before_it() {
        for (index, stage) in STAGES.iter().enumerate() {
            for need in stage.needs {
                let before = STAGES[..index].iter().any(|other| other.name == *need);
                assert!(before, "{} needs {need}", stage.name);
            }
        }
    }

    #[test]
    fn what_a_stage_needs_comes_with_it() {
        let chosen = select(&["doorbells".to_owned()]).expect("a stage");
        let names: Vec<_> = chosen.iter().map(|stage| stage.name).collect();
        let expected = [
            "identity",
            "registers",
            "reset",
            "commands",
            "bring-up",
            "doorbells",
        ];
        assert_eq!(names, expected);
        assert_eq!(select(&[]).expect("all").len(), STAGES.len());
    }

    #[test]
    fn an_unknown_stage_is_named() {
        let error = select(&["dam".to_owned()]).expect_err("no such stage");
        let text = error.to_string();
        assert!(text.contains("\"dam\"") && text.contains("dma"), "{text}");
    }
}
