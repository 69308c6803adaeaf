use ferroce_model::preset::Preset;
use ferroce_perf::plan::Plan;
use ferroce_perf::{Iterations, Operation, PerfSpec, Test, run, table};

use super::*;

/// Output of perftest 4.5 itself.
macro_rules! fixture {
    ($name:literal) => {
        include_str!(concat!("../../../../perf/fixtures/", $name, ".txt"))
    };
}

fn one(name: &str, text: &str) -> Table {
    let mut tables = parse(name, text).expect("a table of perftest");
    assert_eq!(tables.len(), 1, "{tables:?}");
    tables.remove(0)
}

fn bandwidth(table: &Table) -> &[BandwidthRow] {
    match &table.rows {
        Rows::Bandwidth(rows) => rows,
        Rows::Latency(_) => panic!("{} is a table of latencies", table.name),
    }
}

fn latency(table: &Table) -> &[LatencyRow] {
    match &table.rows {
        Rows::Latency(rows) => rows,
        Rows::Bandwidth(_) => panic!("{} is a table of bandwidths", table.name),
    }
}

#[test]
fn all_sizes_in_mib() {
    let table = one("mine", fixture!("ib_write_bw_all"));
    let rows = bandwidth(&table);
    assert_eq!((rows.len(), rows[22].bytes), (23, 8 << 20));
    assert!((rows[22].average_gbps - 14969.59 * 1.048_576 * 8e-3).abs() < 1e-6);
    assert_eq!(rows[22].message_rate_mpps, 0.001_871);
    let expected = Setup {
        mtu_bytes: Some(4096),
        tx_depth: Some(128),
        cq_moderation: Some(100),
        max_inline_bytes: Some(0),
        ..Setup::new(Verb::Write)
    };
    assert_eq!(table.setup, expected);
    assert_eq!(table.warnings, [""; 0]);
}

#[test]
fn bidirectional_in_gbits() {
    let table = one("mine", fixture!("ib_write_bw_bidirectional_gbits"));
    assert!(table.setup.bidirectional);
    assert_eq!(bandwidth(&table)[22].average_gbps, 79.44);
    assert_eq!(bandwidth(&table)[0].peak_gbps, Some(0.090_948));
}

#[test]
fn latencies_of_all_sizes() {
    let table = one("mine", fixture!("ib_read_lat_all"));
    assert_eq!(table.setup.verb, Verb::Read);
    let row = &latency(&table)[1];
    assert_eq!(
        (row.bytes, row.typical_us, row.average_us),
        (4, Some(0.82), Some(1.03))
    );
    assert_eq!((row.p99_us, row.p999_us), (Some(3.67), Some(30.99)));
}

#[test]
fn latency_with_duration_has_an_average_only() {
    let table = one("mine", fixture!("ib_write_lat_duration"));
    assert_eq!(latency(&table)[0].value_us(), 1.13);
}

#[test]
fn load_of_the_cpu_is_passed_over() {
    let table = one("mine", fixture!("ib_write_bw_cpu_util"));
    assert_eq!(bandwidth(&table)[0].message_rate_mpps, 0.222_039);
    assert_eq!(bandwidth(&table)[0].peak_gbps, None);
}

#[test]
fn atomics() {
    let table = one("mine", fixture!("ib_atomic_bw"));
    assert_eq!((table.setup.verb, table.sizes()), (Verb::Atomic, vec![8]));
}

#[test]
fn noise_around_and_several_tests_in_one_file() {
    let text = format!(
        "2026-01-01 12:00:00 starting\n************************\n* Waiting for client to \
         connect... *\n{}Conflicting CPU frequency values detected: 800.0 != 3400.0. CPU Freq is \
         not max.\n{}done\n",
        fixture!("ib_write_bw_all"),
        fixture!("ib_read_lat_all"),
    );
    let tables = parse("mine", &text).expect("two tables");
    let names: Vec<_> = tables.iter().map(|table| table.name.as_str()).collect();
    assert_eq!(names, ["mine", "mine:2"]);
    assert!(!tables[0].is_latency() && tables[1].is_latency());
}

#[test]
fn noise_between_the_rows() {
    let header =
        " #bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]   MsgRate[Mpps]";
    let text =
        format!("{header}\n 2 1000 1 1.0 0.5\nWarning: 3 messages lost\n 4 1000 1 2.0 0.5\n");
    assert_eq!(one("ib_send_bw", &text).sizes(), [2, 4]);
}

#[test]
fn columns_of_service_levels_and_of_two_ports() {
    let levels = " #bytes    #sl      #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   \
        MsgRate[Mpps]\n 64 3 1000 1.0 0.9 1.757812\n";
    assert_eq!(bandwidth(&one("w", levels))[0].average_gbps, 0.9);
    let ports = " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   \
    MsgRate[Mpps]   \
        BW Port1[Gb/sec]   MsgRate Port1[Mpps]   BW Port2[Gb/sec]   MsgRate Port2[Mpps]\n 64 1000 \
        1.0 0.9 1.757812 0.45 0.878 0.45 0.878\n";
    assert_eq!(bandwidth(&one("w", ports))[0].message_rate_mpps, 1.757_812);
}

#[test]
fn tables_of_old_versions_have_fewer_columns() {
    let old = " #bytes #iterations    BW peak[MB/sec]    BW average[MB/sec]\n 1024 5000 900 800\n";
    let table = one("w", old);
    assert!((bandwidth(&table)[0].message_rate_mpps - 0.8192).abs() < 1e-9);
    let old =
        " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]\n 2 1000 1 9 1.5\n";
    assert_eq!(latency(&one("w", old))[0].typical_us, Some(1.5));
}

#[test]
fn what_is_wrong_is_named_with_its_line() {
    let header = " #bytes #iterations BW peak[MB/sec] BW average[MB/sec] MsgRate[Mpps]\n";
    for (text, line, word) in [
        (
            "65536 5000 18434.18 16899.45 0.270391\n".to_owned(),
            1,
            "#bytes",
        ),
        (
            format!("{header} 65536 5000 18434.18\n"),
            2,
            "columns above are 5",
        ),
        (
            format!("{header} 65536 5000 inf -nan 0.0\n"),
            2,
            "iterations",
        ),
        (format!("{header} 0 5000 1 1 1\n"), 2, "size"),
        (header.replace("MB/sec", "kB/sec"), 1, "[MiB/sec]"),
        (" #bytes #iterations\n".to_owned(), 1, "t_typical"),
        (header.to_owned(), 1, "#bytes"),
        (String::new(), 1, "#bytes"),
    ] {
        let error = parse("mine", &text).expect_err(&text);
        assert_eq!(error.line, line, "{error}");
        assert!(error.to_string().contains(word), "{error}");
    }
}

#[test]
fn a_missing_title_is_warned_of() {
    let text =
        " #bytes #iterations BW peak[Gb/sec] BW average[Gb/sec] MsgRate[Mpps]\n64 9 1 1 1.953\n";
    assert_eq!(one("mine", text).warnings.len(), 1);
    assert_eq!(one("my_ib_read_bw", text).setup.verb, Verb::Read);
}

#[test]
fn the_table_of_our_perf_is_understood() {
    let preset = Preset::load("cx5-100g").expect("built in");
    let mut spec = PerfSpec::new(preset, Operation::Write, Test::Latency);
    (spec.sizes, spec.iterations) = (vec![8], Iterations::Exactly(200));
    let plan = Plan::new(&spec, 8).expect("legal");
    let (header, result) = (table::header(&spec, &plan), run(&spec));
    let row = table::row(&result.expect("measured").rows[0]);
    let columns = table::columns(Test::Latency);
    let text = format!("{header}{columns}\n{row}\n{}\n", table::LINE);
    one("ib_write_lat", &text);
}
