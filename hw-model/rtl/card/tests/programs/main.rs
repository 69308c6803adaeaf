//! Random programs on two functions, card or model. The same program runs on two models, two cards,
//! and one of each; software and the wire must show the same results.
//!
//! `RTL_SEEDS=17..18` runs one seed, without and with loss.

#[path = "../machines/mod.rs"]
mod machines;

mod compare;
mod frames;
mod generate;
mod plan;
mod program;
mod run;
mod wqes;

use std::panic::{AssertUnwindSafe, catch_unwind};

use ferroce_rtl_harness::seeds::for_each_seed;
use ferroce_units::shrink::shrunk;
use ferroce_wire::Pretty;
use machines::device::Kind;
use program::{Program, Step};
use run::{Outcome, run};

/// Seeds of each test.
const SEEDS: u64 = 250;
/// Programs that are tried to shrink one, at most.
const MAX_TRIES: usize = 400;
/// Frames of a million that are lost, of even and of odd seeds: 1 %, and more.
const LOSS_PER_MILLION: [u64; 2] = [10_000, 40_000];

/// Runs a program; a panic is an error.
fn attempt(program: &Program, kinds: [Kind; 2]) -> Result<Outcome, String> {
    let result = catch_unwind(AssertUnwindSafe(|| run(program, kinds)));
    result.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(format!("panic: {}", text.unwrap_or_default()))
    })
}

/// Runs a program on two models and on another pair.
fn check(program: &Program, kinds: [Kind; 2]) -> Result<Outcome, String> {
    let in_pair = |kinds: [Kind; 2]| move |what| format!("{kinds:?}: {what}");
    let models = [Kind::Model; 2];
    let reference = attempt(program, models).map_err(in_pair(models))?;
    let other = attempt(program, kinds).map_err(in_pair(kinds))?;
    let is_lossy = program.loss_per_million > 0;
    compare::compare(&reference, &other, is_lossy).map_err(in_pair(kinds))?;
    Ok(other)
}

/// Returns the pairs of functions on which a seed runs, in addition to two models.
fn kinds(seed: u64) -> [[Kind; 2]; 2] {
    let mixed = match seed % 2 {
        0 => [Kind::Rtl, Kind::Model],
        _ => [Kind::Model, Kind::Rtl],
    };
    [[Kind::Rtl; 2], mixed]
}

/// Runs the programs of all seeds.
fn check_seeds(default: u64, loss: impl Fn(u64) -> u64) {
    let (mut programs, mut frames, mut lost, mut completions) = (0, 0, 0, 0);
    for_each_seed(default, |seed| {
        let program = generate::program(seed, loss(seed));
        for kinds in kinds(seed) {
            match check(&program, kinds) {
                Ok(outcome) => {
                    frames += outcome.frames.len();
                    lost += outcome.frames.iter().filter(|frame| frame.is_lost).count();
                    completions += outcome.completions.values().map(Vec::len).sum::<usize>();
                }
                Err(what) => fail(&program, kinds, &what),
            }
        }
        programs += 1;
    });
    println!("{programs} programs, {completions} CQEs, {frames} frames, {lost} lost");
    assert!(completions > 0 && frames > 0, "nothing was compared");
}

/// Shrinks a failing program, and fails with the result.
fn fail(program: &Program, kinds: [Kind; 2], what: &str) -> ! {
    println!("{what}");
    let with = |steps: &[Step]| Program {
        steps: steps.to_vec(),
        ..program.clone()
    };
    let mut tries = 0;
    let steps = shrunk(&program.steps, |rest| {
        tries += 1;
        tries <= MAX_TRIES && check(&with(rest), kinds).is_err()
    });
    let smallest = with(&steps);
    let what = match check(&smallest, kinds) {
        Err(what) => what,
        Ok(_) => "a run differs from the one before".to_owned(),
    };
    for pair in [[Kind::Model; 2], kinds] {
        println!("{pair:?}");
        let outcome = attempt(&smallest, pair).unwrap_or_default();
        for sent in outcome.frames {
            let verdict = if sent.is_lost { "LOST " } else { "" };
            println!("{} {verdict}{}", sent.from, Pretty(&sent.bytes));
        }
    }
    panic!("{what}\n{smallest}");
}

/// Goal: card and model are indistinguishable for software and on the wire.
#[test]
fn card_and_model_are_the_same() {
    check_seeds(SEEDS, |_| 0);
}

/// Goal: the same CQEs and the same memory when frames are lost in both directions.
#[test]
fn card_and_model_are_the_same_with_loss() {
    check_seeds(SEEDS, |seed| LOSS_PER_MILLION[(seed % 2) as usize]);
}
