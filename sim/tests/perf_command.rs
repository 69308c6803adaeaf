//! `ferroce perf` as a command: its output and its exit code.

use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

use ferroce_test_support::{Signal, send_signal};

const FERROCE: &str = env!("CARGO_BIN_EXE_ferroce");

fn perf(arguments: &str) -> Output {
    let output = Command::new(FERROCE)
        .arg("perf")
        .args(arguments.split_whitespace())
        .output();
    output.expect("the command starts")
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).expect("UTF-8")
}

/// Returns the first columns of the rows.
fn rows(text: &str) -> Vec<&str> {
    let rows = text.lines().skip_while(|line| !line.contains("#bytes"));
    rows.skip(1)
        .take_while(|line| !line.starts_with('-'))
        .filter_map(|line| line.split_whitespace().next())
        .collect()
}

#[test]
fn tables_of_a_functional_and_of_a_timed_card() {
    for preset in ["functional", "irdma-10g", "cx5-100g"] {
        for test in ["write_bw", "send_lat", "atomic_lat"] {
            let output = perf(&format!("{test} --preset {preset} -n 50"));
            assert!(output.status.success(), "{output:?}");
            let text = stdout(&output);
            assert_eq!(rows(text).len(), 1, "{text}");
            assert!(text.contains(&format!("preset {preset}, hash ")), "{text}");
        }
    }
}

#[test]
fn rows_come_in_the_order_of_the_sweep() {
    let output = perf("write_bw --preset cx5-100g -n 50 -j 4 --sweep size=256K,2,64K,8,1K");
    assert_eq!(rows(stdout(&output)), ["256K", "2", "64K", "8", "1K"]);
    let output =
        perf("read_bw --preset cx5-100g -s 8 -n 50 --sweep qps=1..4 --sweep mtu=1024,4096");
    assert_eq!(rows(stdout(&output)), ["1", "1", "2", "2", "4", "4"]);
    let text = stdout(&output);
    let columns = text
        .lines()
        .find(|line| line.contains("#bytes"))
        .expect("column names");
    assert!(columns.starts_with(" qps    mtu    #bytes"), "{columns}");
}

#[test]
fn all_sizes_are_those_of_perftest() {
    let output = perf("write_lat --preset functional -a -n 5");
    let sizes: Vec<String> = (1..=23).map(|log| (1u32 << log).to_string()).collect();
    assert_eq!(rows(stdout(&output)), sizes);
}

/// Goal: the figures depend neither on what the kernel gives a process nor on the number of worlds
/// at once.
#[test]
fn json_is_the_same_in_every_process() {
    let json = |jobs: u32| {
        let run = perf(&format!(
            "send_bw --preset cx5-100g -n 100 --sweep size=64,4K --json - -j {jobs}"
        ));
        assert!(run.status.success(), "{run:?}");
        run.stdout
    };
    let first = json(1);
    assert!(first.starts_with(b"{\n  \"program\": \"ferroce perf\""));
    for jobs in [1, 2, 2] {
        assert!(json(jobs) == first, "{jobs} worlds at once");
    }
}

#[test]
fn bad_input_is_refused_by_name() {
    for (bad, words) in [
        ("--preset cx9-800g", "cx9-800g"),
        ("--preset cx5-100g --set pcie.lane=16", "pcie.lane"),
        (
            "--preset cx5-100g --mtu 1500",
            "--mtu 1500: 256, 512, 1024, 2048 or 4096",
        ),
        (
            "--preset cx5-100g -c UD",
            "--connection UD: this operation has RC, UC",
        ),
        ("--preset cx5-100g --sge 17", "--sge 17: 1 to 16"),
        ("--preset cx5-100g --align 4K", "--align 4096: below 4096"),
        (
            "--preset cx5-100g --loop batch --threads 7 --region 64K",
            "--region 65536: each of the 7 threads",
        ),
        ("--preset cx5-100g --sweep loss=0.6", "--sweep loss"),
        ("--preset cx5-100g --sweep pigs=1..2", "--sweep pigs"),
        (
            "--preset cx5-100g --sweep qps",
            "--sweep qps: write KEY=VALUES",
        ),
        (
            "--preset cx5-100g --threads 100000",
            "--threads 100000: the host",
        ),
        (
            "--preset cx5-100g --json /no/such/folder/x",
            "/no/such/folder/x",
        ),
    ] {
        let output = perf(&format!("write_bw {bad}"));
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{bad}: {error}");
        assert!(error.contains(words), "{bad}: {error}");
        assert!(output.stdout.is_empty(), "{bad}: nothing has run");
    }
}

/// Returns the line under the table.
fn bottleneck(text: &str) -> &str {
    let line = text.lines().find(|line| line.starts_with(" Bottleneck"));
    line.unwrap_or_else(|| panic!("no bottleneck: {text}"))
}

/// Goal: each output names what limits the figures.
#[test]
fn the_bottleneck_is_named_in_each_output() {
    let output = perf("write_bw --preset cx5-100g -n 200 --sweep size=64,64K --csv -");
    let text = stdout(&output);
    let line = bottleneck(text);
    assert!(
        line.contains("size=64: host 0, program's thread ("),
        "{line}"
    );
    assert!(line.contains("size=64K: host 0, MAC, transmit ("), "{line}");
    let csv: Vec<&str> = text.lines().filter(|line| line.contains(',')).collect();
    assert!(
        csv.iter().any(|line| line.starts_with("size,bytes,")),
        "{text}"
    );
    let limits = |part: &str| csv.iter().any(|line| line.contains(part));
    assert!(
        limits(",host_thread,server,0,") && limits(",mac_transmit,server,0,"),
        "{text}"
    );
    let output = perf("write_bw --preset cx5-100g -s 64 -n 200 --json -");
    let document = stdout(&output);
    for words in [
        "\"bottleneck\": {",
        "\"part\": \"host_thread\"",
        "\"utilisation\": [",
        "\"part\": \"pcie_tags\"",
    ] {
        assert!(document.contains(words), "{words}");
    }
    let functional = perf("write_bw --preset functional -n 50");
    assert!(
        !stdout(&functional).contains("Bottleneck"),
        "nothing takes time"
    );
}

#[test]
fn sensitivity_ranks_the_parameters() {
    let output = perf("write_bw --preset cx5-100g -s 64K -n 60 --sensitivity");
    let text = stdout(&output);
    let first = text
        .lines()
        .skip_while(|line| !line.starts_with(" parameter"))
        .nth(1);
    assert!(
        first.is_some_and(|line| line.starts_with(" mac.rate_gbps")),
        "{text}"
    );
    assert!(
        text.contains("have no effect (less than 0.05 %)."),
        "{text}"
    );
    let output = perf("write_bw --preset cx5-100g -a --sensitivity");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("one size"), "{error}");
}

/// Goal: a host is fitted to what a slower one has printed, and the output says so.
#[test]
fn a_host_is_calibrated_by_the_output_of_perftest() {
    let scratch = std::env::temp_dir().join(format!("ferroce-host-{}", std::process::id()));
    let printed = [2, 32, 64, 4096].map(|size| {
        let slow = "write_bw --preset cx5-100g --set host.post_ns=300 -n 1000";
        let output = perf(&format!("{slow} -s {size}"));
        let lines: Vec<String> = stdout(&output).lines().map(str::to_owned).collect();
        let columns = lines.iter().position(|line| line.contains("#bytes"));
        lines[columns.expect("column names")..][..2].join("\n")
    });
    let title = "                    RDMA_Write BW Test";
    let rows: Vec<&str> = printed
        .iter()
        .filter_map(|text| text.lines().nth(1))
        .collect();
    let columns = printed[0].lines().next().unwrap_or_default();
    let table = format!("{title}\n{columns}\n{}\n", rows.join("\n"));
    std::fs::write(&scratch, table).expect("the folder can be written");
    let file = scratch.display();
    let fitted = perf(&format!(
        "write_bw --preset cx5-100g -s 64 -n 500 --calibrate-host {file}"
    ));
    let _ = std::fs::remove_file(&scratch);
    let text = stdout(&fitted);
    assert!(fitted.status.success(), "{fitted:?}");
    assert!(text.contains("host calibrated by"), "{text}");
    assert!(text.contains("32, 64 B: "), "{text}");
    let value = text
        .split("host.post_ns = ")
        .nth(1)
        .and_then(|rest| rest.split(' ').next());
    let value: f64 = value.expect("a value").parse().expect("a number");
    assert!((value - 300.0).abs() < 6.0, "{text}");
}

/// Goal: an interrupt from the terminal ends a sweep soon, in order. Method: the first row shows
/// that it runs; there are far more points than a test could wait for, yet so few that it begins
/// at once.
#[test]
fn an_interrupt_ends_a_sweep() {
    let mut child = Command::new(FERROCE)
        .args(["perf", "write_bw", "--preset", "cx5-100g", "-n", "2000"])
        .args(["--sweep", "seed=1..1G", "--sweep", "qps=1..4", "-j", "2"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut lines = lines.map_while(Result::ok);
    lines
        .find(|line| line.contains("#bytes"))
        .expect("column names");
    lines.next().expect("a row");
    send_signal(child.id(), Signal::INT);
    let rest = lines.count();
    let status = child.wait().expect("it ends");
    assert_eq!(status.code(), Some(130), "{rest} more lines");
}

/// Returns the average bandwidth of the only row, in Gb/s.
fn gbps(text: &str) -> f64 {
    let row = text
        .lines()
        .skip_while(|line| !line.contains("#bytes"))
        .nth(1)
        .unwrap_or_else(|| panic!("no row: {text}"));
    let average = row.split_whitespace().nth(3).expect("four columns");
    let mib_per_s: f64 = average.parse().expect("a number");
    mib_per_s * f64::from(1 << 20) * 8.0 / 1e9
}

/// UC and UD complete when a packet has left the card: not faster than the wire takes it, and also
/// when the card had no room for the last ones at first.
#[test]
fn unreliable_sends_are_not_faster_than_the_wire() {
    // Bytes of a packet on the wire beside its payload: 82 with ICRC, preamble and gap, and DETH.
    for (card, service, rate_gbps, size, overhead) in [
        ("irdma-10g", "UC", 10.0, 1024.0, 82.0),
        ("irdma-10g", "UD", 10.0, 1024.0, 90.0),
        ("cx3-40g@xeon-qdr", "UD", 32.0, 1024.0, 90.0),
    ] {
        let output = perf(&format!(
            "send_bw --preset {card} -c {service} -s {size} -m 1024 -n 1000"
        ));
        assert!(output.status.success(), "{output:?}");
        let limit = rate_gbps * size / (size + overhead);
        let seen = gbps(stdout(&output));
        assert!(
            0.9 * limit < seen && seen <= limit,
            "{card} {service}: {seen} Gb/s of {limit}"
        );
    }
}
