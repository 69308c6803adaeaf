//! Finds a shorter program that still fails.

use crate::program::Program;

/// Maximum number of programs that are tried.
const MAX_TRIES: usize = 400;

/// Returns a program without irrelevant steps: removing any single remaining step makes it pass,
/// unless [`MAX_TRIES`] was reached.
pub fn shrink(program: &Program, mut fails: impl FnMut(&Program) -> bool) -> Program {
    let mut smallest = program.clone();
    let mut tries = 0;
    let mut length = smallest.steps.len().div_ceil(2);
    while length > 0 {
        let mut at = 0;
        let mut has_shrunk = false;
        while at < smallest.steps.len() && tries < MAX_TRIES {
            let mut shorter = smallest.clone();
            let end = (at + length).min(shorter.steps.len());
            shorter.steps.drain(at..end);
            tries += 1;
            if fails(&shorter) {
                smallest = shorter;
                has_shrunk = true;
            } else {
                at += length;
            }
        }
        if !has_shrunk || length > 1 {
            length /= 2;
        }
    }
    smallest
}
