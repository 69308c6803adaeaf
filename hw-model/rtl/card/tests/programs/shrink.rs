//! A shorter program that still fails.

use crate::program::Program;

/// Programs that are tried, at most.
const MAX_TRIES: usize = 400;

/// Returns a program without the steps that do not matter: none of those that are left can be left
/// out alone, unless [`MAX_TRIES`] was too few.
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
