//! Comparison of records that the test writes like a card, each with one difference.

use std::path::Path;

use ferroce_record::compare::{Options, Report, Strict, compare};
use ferroce_record::load::Loaded;
use ferroce_record::{Kind, Recorder, Source};
use ferroce_spec::command::{CommandEntry, CommandOpcode};
use ferroce_spec::context::{CqContext, MemoryEntry, MemoryEntryWord};
use ferroce_spec::cqe::{Cqe, CqeOpcode, CqeWord, owner_at};
use ferroce_spec::register::offset;
use ferroce_test_support::temporary_directory;
use ferroce_units::Instant;
use zerocopy::{Immutable, IntoBytes};

const COMMANDS: u64 = 0x1_0000;
const MAILBOX: u64 = 0x2_0000;
const LOG_CQES: u8 = 2;

/// A card with one CQ and one region.
struct Card {
    recorder: Recorder,
    commands: u64,
    cqes: u32,
    ring: u64,
}

impl Card {
    fn new(path: &Path, cqn: u32, ring: u64) -> Self {
        let recorder = Recorder::create(path, Source::Rtl).expect("new");
        recorder.set_time(Instant::from_ns(1000), Some(100));
        recorder.record(
            Kind::REGISTER_WRITE,
            offset::command_queue_base.into(),
            &COMMANDS.to_le_bytes(),
        );
        recorder.record(
            Kind::REGISTER_WRITE,
            offset::command_queue_log_size.into(),
            &4u32.to_le_bytes(),
        );
        let mut card = Self {
            recorder,
            commands: 0,
            cqes: 0,
            ring,
        };
        let context = CqContext {
            base: ring,
            log_size: LOG_CQES,
            ..CqContext::default()
        };
        card.command(CommandOpcode::CREATE_CQ, cqn.into(), &context);
        let mut word = MemoryEntryWord::default();
        word.set_direct(true);
        let region = MemoryEntry {
            word,
            translation: ring + 0x1000,
            length: 4096,
            ..MemoryEntry::default()
        };
        card.command(CommandOpcode::CREATE_MR, u64::from(cqn) << 8, &region);
        card
    }

    fn command(
        &mut self,
        opcode: CommandOpcode,
        result: u64,
        input: &(impl IntoBytes + Immutable),
    ) {
        let iova = COMMANDS + self.commands * CommandEntry::SIZE as u64;
        self.commands += 1;
        let doorbell = offset::command_queue_doorbell.into();
        let posted = (self.commands as u32).to_le_bytes();
        self.recorder
            .record(Kind::REGISTER_WRITE, doorbell, &posted);
        let mut entry = CommandEntry {
            opcode,
            input_iova: MAILBOX,
            input_length: size_of_val(input) as u32,
            ..CommandEntry::default()
        };
        entry.completion.set_device_owned(true);
        self.recorder.record(Kind::DMA_READ, iova, entry.as_bytes());
        self.recorder
            .record(Kind::DMA_READ, MAILBOX, input.as_bytes());
        entry.completion.set_device_owned(false);
        entry.result = result;
        self.recorder
            .record(Kind::DMA_WRITE, iova + 48, &entry.as_bytes()[48..]);
    }

    fn complete(&mut self, byte_count: u32, timestamp: u64) {
        let mut word = CqeWord::default();
        word.set_opcode(CqeOpcode::RECEIVE.0);
        word.set_owner(owner_at(self.cqes, LOG_CQES.into()));
        let cqe = Cqe {
            wqe_index: self.cqes,
            byte_count,
            timestamp,
            word,
            ..Cqe::default()
        };
        let place = u64::from(self.cqes % (1 << LOG_CQES));
        self.cqes += 1;
        self.recorder.set_cycle(200 + u64::from(self.cqes));
        self.recorder
            .record(Kind::DMA_WRITE, self.ring + place * 32, cqe.as_bytes());
    }

    fn receive(&self, offset: u64, data: &[u8]) {
        self.recorder
            .record(Kind::DMA_WRITE, self.ring + 0x1000 + offset, data);
    }
}

/// Writes two records, B from a card with other numbers, and compares them.
fn differences(options: &Options, of_b: impl Fn(&mut Card)) -> Report {
    let directory = temporary_directory("compare");
    let paths = ["a.rec", "b.rec"].map(|name| directory.path().join(name));
    let mut a = Card::new(&paths[0], 3, 0x10_0000);
    (0..6).for_each(|number| a.complete(64 * number, 5));
    a.receive(0x40, &[1; 64]);
    drop(a);
    let mut b = Card::new(&paths[1], 9, 0x30_0000);
    of_b(&mut b);
    drop(b);
    let [a, b] = paths.map(|path| Loaded::open(&path).expect("a record"));
    compare(&a.streams, &b.streams, options)
}

fn six_right(card: &mut Card) {
    (0..6).for_each(|number| card.complete(64 * number, 9));
    card.receive(0x40, &[1; 64]);
}

#[test]
fn other_numbers_addresses_and_times_are_no_difference() {
    let report = differences(&Options::default(), six_right);
    assert_eq!(report.differences, [], "{report:?}");
    assert_eq!(report.streams, 4, "registers, commands, CQ, region");
}

#[test]
fn they_are_if_that_is_asked_for() {
    for (strict, word) in [
        (Strict::Numbers, "cqn CQ 1 (0x9), was CQ 1 (0x3)"),
        (Strict::Addresses, "base"),
        (Strict::Time, "timestamp 9, was 5"),
    ] {
        let mut options = Options::default();
        options.strict.insert(strict);
        let report = differences(&options, six_right);
        let texts: Vec<_> = report.differences.iter().map(|d| &d.text).collect();
        assert!(texts.iter().any(|text| text.contains(word)), "{texts:?}");
    }
}

/// Goal: an additional query is no difference, although it rings the command queue and shifts the
/// numbers of later commands. Method: B has a query.
#[test]
fn a_query_and_its_doorbell_are_left_out() {
    let query = |card: &mut Card| {
        card.command(CommandOpcode::QUERY_CQ, 9, &CqContext::default());
        six_right(card);
    };
    let report = differences(&Options::default(), query);
    assert!(report.is_same(), "{report:?}");
    let mut options = Options::default();
    options.strict.insert(Strict::Queries);
    let report = differences(&options, query);
    let texts: Vec<_> = report.differences.iter().map(|d| &d.text).collect();
    for word in ["only B has command 2", "only B has register write 4"] {
        assert!(texts.iter().any(|text| text.contains(word)), "{texts:?}");
    }
}

/// Returns the only difference.
fn only(of_b: impl Fn(&mut Card)) -> (String, Option<u64>) {
    let report = differences(&Options::default(), of_b);
    let [difference] = &report.differences[..] else {
        panic!("{:?}", report.differences);
    };
    (
        difference.text.clone(),
        difference.b.and_then(|at| at.cycle),
    )
}

#[test]
fn the_first_difference_of_a_queue_is_named() {
    let (text, cycle) = only(|card| {
        for number in 0..6 {
            card.complete(if number < 4 { 64 * number } else { 1 }, 0);
        }
        card.receive(0x40, &[1; 64]);
    });
    assert_eq!(text, "CQE 4 of CQ 1 (0x3, in B 0x9): byte_count 1, was 256");
    assert_eq!(cycle, Some(205));
}

#[test]
fn a_missing_entry_and_a_wrong_place_are_differences() {
    let (text, _) = only(|card| {
        (0..5).for_each(|number| card.complete(64 * number, 0));
        card.receive(0x40, &[1; 64]);
    });
    assert!(text.contains("6 in A, 5 in B; only A has CQE 5"), "{text}");
    let (text, _) = only(|card| {
        (0..3).for_each(|number| card.complete(64 * number, 0));
        card.ring += 32; // beside its place
        (3..6).for_each(|number| card.complete(64 * number, 0));
        card.ring -= 32;
        card.receive(0x40, &[1; 64]);
    });
    assert!(text.contains("is_at_next_place false, was true"), "{text}");
}

#[test]
fn memory_is_compared_by_region() {
    let (text, _) = only(|card| {
        six_right(card);
        card.receive(0x45, &[2]);
    });
    assert_eq!(
        text,
        "memory of region 1 (0x300, in B 0x900) from 0x40: content differs from byte 5 on: 0x02, \
         was 0x01"
    );
    let options = Options {
        without_payload: true,
        ..Options::default()
    };
    let report = differences(&options, |card| {
        six_right(card);
        card.receive(0x45, &[2]);
    });
    assert_eq!(report.differences, []);
}
