//! The self-test against good cards, and against cards with one known fault: it must find the fault
//! in the right stage, and name the cause.

mod selftest_support;

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use ferroce_selftest::{Report, STAGES, Timeouts, Verdict};
use ferroce_spec::counter::Counter;
use selftest_support::{Card, Fault};

/// Far more than a check takes, even on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Returns short limits: a broken card causes many timeouts.
fn short() -> Timeouts {
    Timeouts {
        register: Duration::from_millis(100),
        command: Duration::from_millis(200),
        completion: Duration::from_secs(2),
        interrupt: Duration::from_millis(100),
        counter: Duration::from_millis(50),
        quiet: Duration::from_millis(2),
        // 67 ms
        ack_timeout: 14,
    }
}

/// Checks a card in a thread, so that a check that hangs is detected.
fn check(fault: Fault, names: &[&str]) -> Vec<Report> {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let card = Arc::new(Card::new(fault));
        let stages = ferroce_selftest::select(&names).expect("stages");
        let reports = ferroce_selftest::run(card.clone(), &stages, &short(), |_| {});
        let _ = sender.send((reports, card.holds_no_memory()));
    });
    let (reports, holds_no_memory) = receiver
        .recv_timeout(TIMEOUT)
        .unwrap_or_else(|error| panic!("{fault:?}: the check hangs or has crashed ({error})"));
    assert!(holds_no_memory, "{fault:?}: memory is still mapped");
    reports
}

fn all_texts(reports: &[Report]) -> String {
    reports.iter().map(ferroce_selftest::text).collect()
}

/// Checks that `stage` is the first failed one, that its text has all `words`, and that the stages
/// that need it were skipped.
fn expect(fault: Fault, stage: &'static str, words: &[&str]) {
    // All stages before it, and the stages that need it.
    let index = STAGES.iter().position(|other| other.name == stage);
    let index = index.expect("a stage");
    let behind = STAGES[index + 1..].iter();
    let needing = behind.filter(|other| other.needs.contains(&stage));
    let names: Vec<_> = STAGES[..=index]
        .iter()
        .chain(needing)
        .map(|stage| stage.name)
        .collect();
    expect_among(&names, fault, stage, words);
}

/// Does the same for these stages and the stages that they need.
fn expect_among(stages: &[&str], fault: Fault, stage: &'static str, words: &[&str]) {
    let reports = check(fault, stages);
    let failed = reports
        .iter()
        .find_map(|report| match &report.verdict {
            Verdict::Failed(failure) => Some((report.stage.name, failure)),
            _ => None,
        })
        .unwrap_or_else(|| panic!("{fault:?} is not found:\n{}", all_texts(&reports)));
    let (name, failure) = failed;
    let said = format!("{} {}", failure.what, failure.look_at.join(" "));
    assert_eq!(name, stage, "{fault:?}: {said}");
    assert!(!failure.look_at.is_empty(), "{fault:?}: no hint: {said}");
    let said: String = said.split_whitespace().collect::<Vec<_>>().join(" ");
    for word in words {
        assert!(said.contains(word), "{fault:?}: no {word:?} in: {said}");
    }
    for report in &reports {
        if report.stage.needs.contains(&stage) {
            assert_eq!(report.verdict, Verdict::Skipped(stage), "{fault:?}");
        }
    }
}

#[test]
fn a_card_that_is_right_passes_all_stages() {
    let reports = check(Fault::None, &[]);
    for report in &reports {
        let text = ferroce_selftest::text(report);
        assert_eq!(report.verdict, Verdict::Passed, "{text}");
        assert!(!report.figures.is_empty(), "no figures:\n{text}");
    }
    let text = all_texts(&reports);
    for word in [
        "1172:f10a",
        "link 8 GT/s x4",
        "the link could be 8 GT/s x8",
        "bar2_kib 4096",
    ] {
        assert!(text.contains(word), "no {word}:\n{text}");
    }
}

#[test]
fn faults_of_configuration_space() {
    expect(
        Fault::NotEnumerated,
        "config",
        &["ffff:ffff", "all ones", "rescan"],
    );
    expect(Fault::OtherDevice, "config", &["15b3:1017", "bitstream"]);
    expect(
        Fault::NoBusMaster,
        "config",
        &["bus master (bit 2) is off", "setpci"],
    );
    expect(
        Fault::NoMemoryDecoding,
        "config",
        &["memory decoding (bit 1) is off"],
    );
    expect(Fault::NoMsix, "config", &["no MSI-X capability"]);
    expect(Fault::MsixElsewhere, "config", &["table is at BAR4", "BIR"]);
    expect(Fault::CapabilityLoop, "config", &["no end"]);
    expect(Fault::NoBarAddress, "config", &["BAR0", "dmesg"]);
    expect(Fault::SmallDoorbellBar, "bars", &["BAR2 has 4096 bytes"]);
}

#[test]
fn faults_of_the_register_block() {
    expect(
        Fault::Gone,
        "identity",
        &["0xffffffff", "link", "BAR mapped"],
    );
    expect(
        Fault::BigEndian,
        "identity",
        &["bytes are reversed", "big-endian"],
    );
    expect(
        Fault::OtherContract,
        "identity",
        &["contract 2.7", "same major version"],
    );
    expect(Fault::NoMac, "identity", &["port_mac reads 0x0"]);
    expect(
        Fault::MarginalLink,
        "identity",
        &["reads were right", "marginal link"],
    );
    expect(Fault::ReadHalves, "identity", &["capability", "two halves"]);
    expect(
        Fault::WritableIdentity,
        "registers",
        &["hardware_revision", "read-only"],
    );
    expect(
        Fault::AliasedRegisters,
        "registers",
        &["offset 0x800", "address bits"],
    );
}

#[test]
fn stuck_bits_are_named() {
    let at_one = ["bits 0x0000000000001000 are stuck at one"];
    expect(Fault::StuckAtOne(1 << 12), "registers", &at_one);
    let at_zero = ["bits 0x0000010000000000 are stuck at zero", "lane"];
    expect(Fault::StuckAtZero(1 << 40), "registers", &at_zero);
    expect(
        Fault::StuckAtZero(0xffff << 48),
        "registers",
        &["too narrow"],
    );
    expect(
        Fault::StuckAtZero(u64::MAX),
        "registers",
        &["takes no write"],
    );
    expect(Fault::UpperWritesLost, "registers", &["only the low half"]);
}

#[test]
fn faults_of_reset_and_clock() {
    expect(
        Fault::ResetNeverEnds,
        "reset",
        &["not ended within 100ms", "completion time-out"],
    );
    expect(
        Fault::ResetForgetsNothing,
        "reset",
        &["command_queue_base reads 0x5a5a", "not 0x0"],
    );
    expect(Fault::CountersSurviveReset, "reset", &["dma_reads reads 3"]);
    expect(Fault::ClockStands, "clock", &["stands still"]);
    expect(Fault::ClockCycles, "clock", &["counts 0.2", "MHz"]);
    expect(Fault::ClockGoesBack, "clock", &["went back", "latched"]);
}

#[test]
fn faults_of_the_command_queue() {
    let doorbell = [
        "NOP number 0: not answered",
        "does command_queue_doorbell arrive",
    ];
    expect(Fault::CommandDoorbellLost, "commands", &doorbell);
    expect(
        Fault::CommandReadsLost,
        "commands",
        &["COMMAND_QUEUE_DMA", "bus master", "IOMMU"],
    );
    expect(
        Fault::CommandWritesLost,
        "commands",
        &["not answered", "its DMA write does not arrive"],
    );
    expect(Fault::WrongByteOrder, "commands", &["byte order"]);
    expect(
        Fault::NeverEnabled,
        "commands",
        &["status.enabled is not one"],
    );
    expect(
        Fault::DmaRefused,
        "commands",
        &["DMA is refused by the host"],
    );
}

#[test]
fn faults_of_a_reset_under_way() {
    let stale = ["the command of before the reset", "epoch"];
    expect(Fault::StaleReadAfterReset, "reset-dma", &stale);
    let late = ["was written after the reset", "posted writes"];
    expect(Fault::WriteAfterReset, "reset-dma", &late);
}

#[test]
fn faults_of_dma() {
    let destination = ["was not written", "4 KiB boundary of the destination"];
    expect(Fault::WritesEndAtPage, "dma", &destination);
    expect(
        Fault::ReadsEndAtPage,
        "dma",
        &["4 KiB boundary of the source"],
    );
    expect(
        Fault::NoByteEnables,
        "dma",
        &["just after the data", "byte enables"],
    );
    expect(
        Fault::WritesEndAfter(256),
        "dma",
        &["byte 256 was not written", "MPS"],
    );
    expect(Fault::Misaligned, "dma", &["displaced", "aligner"]);
}

#[test]
fn faults_of_interrupts() {
    let dead = [
        "vector 5: no event",
        "sent 1",
        "arrived 0",
        "interrupt remapping",
        "table entry 5",
    ];
    expect(Fault::VectorDead(5), "interrupts", &dead);
    expect(Fault::VectorDead(0), "interrupts", &["vector 0: no event"]);
    let swapped = ["vector 3: no event", "vector 4 has interrupted instead"];
    expect(Fault::VectorSwapped(3, 4), "interrupts", &swapped);
    expect(
        Fault::InterruptsTwice,
        "interrupts",
        &["only vector 1 had reason to"],
    );
}

#[test]
fn faults_of_doorbells() {
    let dead = ["page 8", "moved by 0", "address bits"];
    expect(Fault::DoorbellPageDead(8), "doorbells", &dead);
    let aliased = [
        "of a CQ of another page",
        "page 64",
        "taken for a right one",
    ];
    expect(Fault::DoorbellPagesAliased, "doorbells", &aliased);
}

#[test]
fn faults_of_wire_counters_and_memory() {
    expect(
        Fault::NoLoopback,
        "dma",
        &["RetryExceededError", "loopback plug"],
    );
    expect(
        Fault::CorruptFrames,
        "dma",
        &["RetryExceededError", "rx_icrc_errors"],
    );
    let lost = ["UC SEND", "lost frames"];
    expect_among(&["loopback"], Fault::LossyLoopback(50), "loopback", &lost);
    let sent_twice = ["sent twice", "lost frames"];
    expect_among(
        &["counters"],
        Fault::LossyReliable(150),
        "counters",
        &sent_twice,
    );
    let stands = Fault::CounterStands(Counter::receive_wqes);
    expect(stands, "counters", &["receive_wqes moved by 0, not by 16"]);
    let twice = Fault::CounterTwice(Counter::tx_bytes);
    expect(twice, "counters", &["tx_bytes moved by", "Ethernet header"]);
    expect(
        Fault::DeviceMemoryAliased,
        "device-memory",
        &["BAR4", "address bits"],
    );
    expect(
        Fault::DeviceMemoryDwords,
        "device-memory",
        &["byte enables"],
    );
}

/// Goal: no value of a device makes the check hang or crash. Method: it returns random values, in
/// registers or in memory.
#[test]
fn a_device_that_answers_at_random_is_survived() {
    for seed in 0..12 {
        for fault in [Fault::Random(seed), Fault::RandomDma(seed)] {
            let reports = check(fault, &[]);
            let is_good = reports.iter().all(|report| report.verdict.is_good());
            assert!(!is_good, "{fault:?} passes");
            let text = all_texts(&reports);
            assert!(!text.contains("the check itself"), "{fault:?}:\n{text}");
        }
    }
}

/// Goal: the loss of a device is reported as such, whenever it happens.
#[test]
fn a_lost_device_is_reported_as_gone() {
    for reads in [500, 1_000, 1_500, 3_000, 4_500, 6_000, 7_000, 9_000, 12_000] {
        let fault = Fault::GoneAfter(reads);
        let reports = check(fault, &[]);
        let bad: Vec<_> = reports
            .iter()
            .filter(|report| !report.verdict.is_good())
            .collect();
        let Verdict::Failed(failure) = &bad[0].verdict else {
            panic!("{fault:?}: skipped before anything has failed");
        };
        assert!(
            failure.what.contains("the device is gone now"),
            "{fault:?}: {failure:?}"
        );
        for report in &bad[1..] {
            assert_eq!(
                report.verdict,
                Verdict::Skipped(bad[0].stage.name),
                "{fault:?}"
            );
        }
        println!("{reads} reads: {}", bad[0].stage.name);
    }
}

#[test]
fn only_chosen_stages_run() {
    let reports = check(Fault::NoBusMaster, &["clock"]);
    let names: Vec<_> = reports.iter().map(|report| report.stage.name).collect();
    assert_eq!(names, ["identity", "clock"]);
    assert!(
        reports
            .iter()
            .all(|report| report.verdict == Verdict::Passed)
    );
}
