//! Inputs without a fuzzer: mutated pieces of a corpus. They are a pure function of seed and
//! number, so a finding can be reproduced.

use std::path::Path;
use std::{fs, io};

use ferroce_units::random::Random;

/// Returns the files of a corpus with their names, in alphabetical order; none if there is no such
/// folder.
///
/// # Errors
/// If the folder or a file cannot be read.
pub fn corpus(folder: &Path) -> io::Result<Vec<(String, Vec<u8>)>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        files.push((name.into_owned(), fs::read(&path)?));
    }
    files.sort();
    Ok(files)
}

/// Maximum number of changes to one input.
const CHANGES: usize = 8;
/// Maximum number of bytes that one change inserts, copies or removes.
const PIECE: usize = 32;
/// Values at the ends of ranges.
const EDGES: [u8; 8] = [0, 1, 0x7f, 0x80, 0xff, 0xfe, 0x10, 0x40];

/// Returns input `number` of `seed`: an element of `corpus` that was changed, or noise.
pub fn input(corpus: &[Vec<u8>], seed: u64, number: u64, longest: usize) -> Vec<u8> {
    let random = Random::new(seed, number);
    let below = |end: usize| random.below(end as u64) as usize;
    let mut bytes = match corpus.len() {
        0 => Vec::new(),
        length => corpus[below(length)].clone(),
    };
    if bytes.is_empty() || below(8) == 0 {
        let length = 1 + below(longest);
        bytes = (0..length).map(|_| random.next() as u8).collect();
    }
    if below(4) == 0 && !corpus.is_empty() {
        let other = &corpus[below(corpus.len())];
        let (keep, from) = (below(bytes.len()), below(other.len()));
        bytes.truncate(keep);
        bytes.extend(&other[from.min(other.len())..]);
    }
    for _ in 0..1 + below(CHANGES) {
        change(&mut bytes, &random);
    }
    bytes.truncate(longest);
    bytes
}

fn change(bytes: &mut Vec<u8>, random: &Random) {
    let below = |end: usize| random.below(end as u64) as usize;
    let at = below(bytes.len());
    let end = bytes.len().min(at + 1 + below(PIECE));
    match (below(7), bytes.get_mut(at)) {
        (0, Some(byte)) => *byte = random.next() as u8,
        (1, Some(byte)) => *byte ^= 1 << below(8),
        (2, Some(byte)) => *byte = EDGES[below(EDGES.len())],
        (3, Some(byte)) => *byte = byte.wrapping_add(below(9) as u8).wrapping_sub(4),
        (4, Some(_)) => drop(bytes.drain(at..end)),
        (5, Some(_)) => {
            let piece = bytes[at..end].to_vec();
            let to = below(bytes.len());
            bytes.splice(to..to, piece);
        }
        _ => {
            let piece: Vec<u8> = (0..1 + below(PIECE)).map(|_| random.next() as u8).collect();
            bytes.splice(at..at, piece);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_is_a_function_of_seed_and_number() {
        let corpus = [b"a corpus".to_vec(), b"of two".to_vec()];
        let make = |seed, number| input(&corpus, seed, number, 64);
        assert_eq!(make(1, 7), make(1, 7));
        assert_ne!(make(1, 7), make(2, 7));
        assert_ne!(make(1, 7), make(1, 8));
        assert!((0..1000).all(|number| make(3, number).len() <= 64));
        assert!((0..1000).any(|number| input(&[], 3, number, 64).len() > 32));
    }
}
