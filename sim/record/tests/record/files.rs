//! Files: written records are read back; truncated, damaged and foreign files are reported.

use std::fs;
use std::path::Path;

use ferroce_record::format::{FileHeader, MAX_DATA};
use ferroce_record::reader::Ending;
use ferroce_record::{Kind, ReadError, Reader, Record, Recorder, Source, flags, prepare};
use ferroce_test_support::temporary_directory;
use ferroce_units::Instant;

fn read(path: &Path) -> (Vec<Record>, Result<Ending, ReadError>) {
    let mut reader = Reader::open(path).expect("a record");
    let mut records = Vec::new();
    loop {
        match reader.next_record() {
            Ok(Some(record)) => records.push(record),
            Ok(None) => return (records, Ok(reader.ending().expect("at the end"))),
            Err(error) => return (records, Err(error)),
        }
    }
}

fn write(path: &Path) {
    let recorder = Recorder::create(path, Source::Rtl).expect("new");
    recorder.set_time(Instant::from_ns(1_500), Some(7));
    recorder.record(Kind::REGISTER_WRITE, 0x20, &2u32.to_le_bytes());
    recorder.record_with(
        Kind::DMA_READ,
        flags::FAILED,
        1,
        0x1000,
        &64u64.to_le_bytes(),
    );
    recorder.set_cycle(9);
    recorder.record(Kind::DMA_WRITE, 0x2000, &vec![5; MAX_DATA + 3]);
}

#[test]
fn what_is_written_is_read() {
    let directory = temporary_directory("record");
    let path = directory.path().join("a.rec");
    write(&path);
    let (records, ending) = read(&path);
    assert_eq!(ending.expect("whole"), Ending::Closed);
    let kinds: Vec<_> = records
        .iter()
        .map(|r| (r.kind, r.address, r.data.len()))
        .collect();
    assert_eq!(
        kinds,
        [
            (Kind::REGISTER_WRITE, 0x20, 4),
            (Kind::DMA_READ, 0x1000, 8),
            (Kind::DMA_WRITE, 0x2000, MAX_DATA),
            (Kind::DMA_WRITE, 0x2000 + MAX_DATA as u64, 3),
        ]
    );
    assert_eq!((records[1].flags, records[1].detail), (flags::FAILED, 1));
    assert_eq!(
        records[0].position.to_string(),
        "record 0, 1.500 us, cycle 7"
    );
    assert_eq!(records[3].position.cycle, Some(9));
}

/// Goal: no length of a file makes the reader fail or invent records. Method: truncate a file at
/// every position in its first records.
#[test]
fn a_file_that_is_cut_has_the_records_before() {
    let directory = temporary_directory("record-cut");
    let path = directory.path().join("a.rec");
    write(&path);
    let whole = fs::read(&path).expect("written");
    let (all, _) = read(&path);
    for length in size_of::<FileHeader>()..size_of::<FileHeader>() + 200 {
        fs::write(&path, &whole[..length]).expect("ours");
        let (records, ending) = read(&path);
        assert_eq!(ending.expect("an end"), Ending::Cut, "{length}");
        assert_eq!(records, all[..records.len()], "{length}");
    }
}

#[test]
fn other_files_are_refused_in_words() {
    let directory = temporary_directory("record-other");
    let path = directory.path().join("a.rec");
    write(&path);
    let whole = fs::read(&path).expect("written");
    let refusal = |bytes: &[u8]| {
        fs::write(&path, bytes).expect("ours");
        match Reader::open(&path) {
            Err(error) => error.to_string(),
            Ok(_) => read(&path).1.expect_err("damaged").to_string(),
        }
    };
    assert!(refusal(b"Dear reader,").contains("does not begin with FERROREC"));
    assert!(refusal(b"").contains("too short"));
    assert!(refusal(&whole[..20]).contains("too short"));
    let changed = |at: usize, byte: u8| {
        let mut bytes = whole.clone();
        bytes[at] = byte;
        bytes
    };
    assert!(refusal(&changed(8, 9)).contains("version 9"));
    assert!(refusal(&changed(16, 77)).contains("not valid"));
    let first = size_of::<FileHeader>();
    assert!(refusal(&changed(first, 3)).contains("number is not the next"));
    assert!(refusal(&changed(first + 35, 3)).contains("beyond the limit"));
}

#[test]
fn each_function_has_its_own_file_and_a_new_run_replaces_them() {
    let directory = temporary_directory("record-names");
    let path = directory.path().join("a.rec");
    let second = directory.path().join("a.rec.1");
    write(&path);
    write(&path);
    assert!(second.exists(), "of the second function");
    prepare(&path).expect("records are replaced");
    assert!(!path.exists() && !second.exists());
    fs::write(&path, "a letter").expect("ours");
    let refused = prepare(&path).expect_err("another file");
    assert!(refused.to_string().contains("no record"), "{refused}");
    assert!(prepare(&directory.path().join("no/a.rec")).is_err());
}
