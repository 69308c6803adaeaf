//! Replays the seeds and the findings of the fuzzers.

use std::fs;
use std::path::{Path, PathBuf};

use ferroce_fuzz::{TARGETS, generate};

/// Number of inputs that are derived from each corpus: enough to see that a target works.
const INPUTS: u64 = 300;
/// Their seed.
const SEED: u64 = 1;
/// Maximum length of frames and captures in a corpus.
const LONGEST_SEED: usize = 1500;

fn corpus(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(target)
}

#[test]
fn every_target_survives_its_corpus() {
    for target in TARGETS {
        let files = generate::corpus(&corpus(target.name)).expect("the corpus can be read");
        assert!(!files.is_empty(), "the corpus of {} is empty", target.name);
        for (name, bytes) in &files {
            println!("{} {name}", target.name);
            (target.run)(bytes);
        }
    }
}

#[test]
fn every_target_survives_some_inputs_of_our_own() {
    for target in TARGETS {
        let files = generate::corpus(&corpus(target.name)).expect("the corpus can be read");
        let corpus: Vec<_> = files.into_iter().map(|(_, bytes)| bytes).collect();
        for number in 0..INPUTS {
            println!("{} input {number} of seed {SEED}", target.name);
            let input = generate::input(&corpus, SEED, number, target.longest);
            (target.run)(&input);
        }
    }
}

/// Writes a seed, unless the name exists already.
fn write(target: &str, name: &str, bytes: &[u8]) {
    fs::create_dir_all(corpus(target)).expect("writable");
    fs::write(corpus(target).join(name), bytes).expect("writable");
}

/// The first frame of each opcode and length class of the captures in `tests/golden`, and the short
/// captures.
#[test]
#[ignore = "writes the files that the fuzzers start from"]
fn write_seeds() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../golden");
    let mut seen = std::collections::BTreeSet::new();
    for file in fs::read_dir(golden).expect("there are captures") {
        let path = file.expect("readable").path();
        if path.extension().is_none_or(|extension| extension != "pcap") {
            continue;
        }
        let stem = path
            .file_stem()
            .expect("a file")
            .to_string_lossy()
            .into_owned();
        let bytes = fs::read(&path).expect("readable");
        write("capture", &stem, &bytes[..bytes.len().min(LONGEST_SEED)]);
        let read = ferroce_embed::capture::reader::for_each_frame(&*bytes, &mut |captured| {
            let parsed = ferroce_wire::Frame::parse(captured.bytes);
            if let Ok(opcode) = parsed.as_ref().map(|frame| frame.headers.bth.opcode)
                && captured.bytes.len() < 300
                && seen.insert(opcode)
            {
                write("wire", &format!("opcode-{:02x}", opcode.0), captured.bytes);
            }
            std::ops::ControlFlow::Continue(())
        });
        read.expect("a capture");
    }
}
