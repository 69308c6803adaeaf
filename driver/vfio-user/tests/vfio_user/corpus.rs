//! Replays the fuzzer's findings and seeds without the fuzzer.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::raw::{Raw, conversation, framed, marker, record};
use ferroce_vfio_user::fuzz;

fn folder(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fuzz/corpus")
        .join(target)
}

fn replay(target: &str, input: fn(&[u8])) {
    let mut count = 0;
    for file in fs::read_dir(folder(target)).expect("the corpus is in the repository") {
        let path = file.expect("readable").path();
        println!("{}", path.display());
        input(&fs::read(&path).expect("readable"));
        count += 1;
    }
    assert!(count > 0, "the corpus of {target} is empty");
}

#[test]
fn the_server_survives_its_corpus() {
    replay("server", fuzz::server_input);
}

#[test]
fn the_client_survives_its_corpus() {
    replay("client", fuzz::client_input);
}

#[test]
#[ignore = "writes the files that the fuzzer starts from"]
fn write_seeds() {
    let write = |target: &str, name: &str, bytes: &[u8]| {
        fs::create_dir_all(folder(target)).expect("writable");
        fs::write(folder(target).join(name), bytes).expect("writable");
    };
    let whole = conversation();
    let bytes = |messages: &[Raw]| -> Vec<u8> {
        messages
            .iter()
            .flat_map(|message| message.bytes.clone())
            .collect()
    };
    write("server", "seed-conversation", &bytes(&whole));
    for (index, message) in whole.iter().enumerate().skip(1) {
        let name = format!("seed-{index:02}");
        write("server", &name, &bytes(&[Raw::version(1), message.clone()]));
    }
    // The device accesses memory; the replies to its two requests follow.
    let doorbell = Raw::new(3, 10, 0, &[&[0; 12][..], &[1, 0, 0, 0, 5]].concat());
    let access = [&5_u64.to_le_bytes()[..], &8_u64.to_le_bytes()].concat();
    let memory = Raw::new(0, 11, 1, &[&access[..], &[7; 8]].concat());
    let written = Raw::new(1, 12, 1, &access);
    let dma = [Raw::version(1), doorbell, memory, written, marker()];
    write("server", "seed-dma", &bytes(&dma));

    let chunks = record();
    write("client", "seed-conversation", &framed(&chunks));
    let mut with_dma = chunks.clone();
    let command = Raw::new(9, 11, 0, &access);
    with_dma[2] = [command.bytes, with_dma[2].clone()].concat();
    write("client", "seed-dma", &framed(&with_dma));
}
