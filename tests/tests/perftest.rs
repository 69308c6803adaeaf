//! Debian's perftest: every tool over every transport, as two processes, by both send APIs.
//!
//! Tests marked `ignored` are the long mode (`make soak`).

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use ferroce_tests::{Pair, Scratch};

/// The part ID of a ConnectX-5: with it, perftest uses the new send API (`ibv_wr_*`) unless it gets
/// `--use_old_post_send`.
const AS_CONNECTX: &[&str] = &["--part-id", "0x1017"];
const NEW_API: &str = "ibv_wr* API     : ON";
const OLD_API: &str = "ibv_wr* API     : OFF";
/// Messages of perftest after a failure, although it continues.
const COMPLAINTS: &[&str] = &["Couldn't", "Failed", "failed", "Unable"];

/// Returns the message size, the first number of each line of results.
fn sizes(output: &str) -> Vec<u64> {
    let row = |line: &str| {
        let columns: Vec<f64> = line
            .split_whitespace()
            .map_while(|word| word.parse().ok())
            .collect();
        (columns.len() >= 5).then(|| columns[0] as u64)
    };
    output.lines().filter_map(row).collect()
}

/// Returns a library with which perftest calibrates its clock in 2 ms instead of 0.2 s, which it
/// does for each size.
fn calibration() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let new = folder.join(format!("calibration-{}", std::process::id()));
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/c/calibration.c");
        let mut compiler = Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".into()));
        compiler.args([
            "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o",
        ]);
        let status = compiler.arg(&new).arg(source).status();
        assert!(status.expect("a C compiler").success(), "{source}");
        // Another run of this test may still use the old one.
        let library = folder.join("calibration.so");
        fs::rename(&new, &library).expect("our own folder");
        library
    })
}

/// Runs a pair of a tool; fails unless both succeed and the client shows results.
fn run(tool: &str, options: &[&str], arguments: &[&str]) -> String {
    let program = format!("ib_{tool}");
    let arguments = [&["-F"], arguments].concat();
    let pair = Pair {
        program: &program,
        arguments: &arguments,
        options,
    };
    let (server, client) = pair.run_in(&Scratch::new().preload(calibration()));
    assert!(!sizes(&client).is_empty(), "no results:\n{client}");
    for complaint in COMPLAINTS {
        assert!(!server.contains(complaint), "{server}");
        assert!(!client.contains(complaint), "{client}");
    }
    client
}

/// Runs a tool with the API that perftest chooses by itself.
fn by_default(tool: &str, arguments: &str) -> String {
    let arguments: Vec<_> = arguments.split_whitespace().collect();
    run(tool, &[], &arguments)
}

/// Runs a tool with one of the two APIs, which perftest then names.
fn by_api(tool: &str, arguments: &str, api: &str) -> String {
    let mut arguments: Vec<_> = arguments.split_whitespace().collect();
    if api == OLD_API {
        arguments.push("--use_old_post_send");
    }
    let client = run(tool, AS_CONNECTX, &arguments);
    assert!(client.contains(api), "not {api}:\n{client}");
    client
}

/// Declares a test for each pair.
macro_rules! tools {
    ($( $test:ident: $tool:literal $arguments:literal; )*) => {
        $(
            #[test]
            fn $test() {
                by_default($tool, $arguments);
            }
        )*
    };
}

/// Declares two tests for each pair, one for each send API.
macro_rules! send_apis {
    ($( $(#[$meta:meta])* $test:ident: $tool:literal $arguments:literal; )*) => {
        $(
            mod $test {
                $(#[$meta])*
                #[test]
                fn new_send_api() {
                    super::by_api($tool, $arguments, super::NEW_API);
                }

                $(#[$meta])*
                #[test]
                fn old_post_send() {
                    super::by_api($tool, $arguments, super::OLD_API);
                }
            }
        )*
    };
}

/// Declares, for each tool, one test of all sizes by each send API.
macro_rules! all_sizes {
    ($(
        $(#[$meta:meta])*
        $test:ident: $tool:literal $arguments:literal up to $largest:literal;
    )*) => {
        $(
            mod $test {
                fn run(api: &str) {
                    let client = super::by_api($tool, concat!("-a ", $arguments), api);
                    let sizes = super::sizes(&client);
                    assert_eq!(sizes.last(), Some(&$largest), "{client}");
                    assert!(sizes.len() >= 11, "{client}");
                }

                $(#[$meta])*
                #[test]
                fn new_send_api() {
                    run(super::NEW_API);
                }

                $(#[$meta])*
                #[test]
                fn old_post_send() {
                    run(super::OLD_API);
                }
            }
        )*
    };
}

tools! {
    write_bw: "write_bw" "";
    read_bw: "read_bw" "";
    send_bw: "send_bw" "";
    write_lat: "write_lat" "";
    read_lat: "read_lat" "";
    send_lat: "send_lat" "";
    atomic_fetch_add: "atomic_bw" "-A FETCH_AND_ADD";
    atomic_compare_swap: "atomic_bw" "-A CMP_AND_SWAP";
    atomic_lat: "atomic_lat" "";
    atomic_lat_compare_swap: "atomic_lat" "-A CMP_AND_SWAP";
    write_bw_q16: "write_bw" "-q 16 -n 500";
    read_bw_q16: "read_bw" "-q 16 -n 500";
    send_bw_q16: "send_bw" "-q 16 -n 500";
    atomic_bw_q16: "atomic_bw" "-q 16 -n 500";
    read_bw_bidirectional: "read_bw" "-b -n 500";
    send_bw_bidirectional: "send_bw" "-b -n 500";
    atomic_bw_bidirectional: "atomic_bw" "-b -n 500";
    send_bw_events: "send_bw" "-e -n 500";
    send_lat_events: "send_lat" "-e -n 500";
    read_lat_events: "read_lat" "-e -n 500";
    atomic_bw_events: "atomic_bw" "-e -n 500";
    send_bw_ud_events: "send_bw" "-c UD -e -n 500 -s 1000";
    // perftest requires the same IP version for group and port, and its default group is IPv6.
    send_bw_ud_multicast_ipv4:
        "send_bw" "-c UD -g -x 1 -M 0:0:0:0:0:0:0:0:0:0:255:255:239:1:2:3 -s 512 -n 500";
    send_bw_ud_multicast_ipv6: "send_bw" "-c UD -g -x 0 -s 512 -n 500";
    send_bw_ud_q16: "send_bw" "-c UD -q 16 -s 1024 -n 500";
    send_bw_ud_bidirectional: "send_bw" "-c UD -b -s 1024 -n 500";
    send_bw_uc_bidirectional: "send_bw" "-c UC -b -n 500";
    write_bw_uc_q16: "write_bw" "-c UC -q 16 -n 500";
    send_bw_srq_q4: "send_bw" "--use-srq -q 4 -n 500";
    send_bw_srq_q16: "send_bw" "--use-srq -q 16 -n 500";
    send_bw_xrc_q16: "send_bw" "-c XRC -q 16 -n 500";
    send_lat_xrc: "send_lat" "-c XRC";
    read_lat_xrc: "read_lat" "-c XRC";
    atomic_lat_xrc: "atomic_lat" "-c XRC";
    send_bw_mtu_256: "send_bw" "-m 256 -n 200";
    send_bw_mtu_512: "send_bw" "-m 512 -n 200";
    send_bw_mtu_2048: "send_bw" "-m 2048 -n 200";
    send_bw_mtu_4096: "send_bw" "-m 4096 -n 200";
    write_bw_odd: "write_bw" "-s 12345 -n 500";
    write_bw_one_byte: "write_bw" "-s 1 -n 500";
    write_bw_8_mib: "write_bw" "-s 8388608 -n 20";
    write_bw_post_list: "write_bw" "--post_list 16 -n 320";
    send_bw_receive_post_list: "send_bw" "--recv_post_list 16 -n 320";
    write_bw_duration: "write_bw" "-D 3";
    write_bw_moderation_1: "write_bw" "-Q 1 -n 500";
    write_bw_depth_1: "write_bw" "-t 1 -n 500";
    read_bw_one_outstanding: "read_bw" "-o 1 -n 500";
    write_bw_on_demand: "write_bw" "--odp -n 500";
    read_bw_on_demand: "read_bw" "--odp -n 500";
    send_bw_on_demand: "send_bw" "--odp -n 500";
    send_bw_srq_on_demand: "send_bw" "--odp --use-srq -q 4 -n 500";
    send_bw_ud_on_demand: "send_bw" "--odp -c UD -s 1024 -n 500";
    send_lat_xrc_on_demand: "send_lat" "--odp -c XRC";
    write_lat_on_demand: "write_lat" "--odp";
    write_bw_gbits: "write_bw" "--report_gbits -n 500";
}

send_apis! {
    write_bw_by: "write_bw" "-n 2000";
    write_bw_16_qps_by: "write_bw" "-q 16 -n 500";
    write_bw_bidirectional_by: "write_bw" "-b -n 1000";
    write_bw_inline_by: "write_bw" "-s 64 -I 64";
    write_lat_inline_by: "write_lat" "-s 64 -I 64";
    send_lat_inline_by: "send_lat" "-s 64 -I 64";
    send_bw_inline_by: "send_bw" "-s 64 -I 64";
    write_lat_by: "write_lat" "";
    read_bw_by: "read_bw" "";
    read_lat_by: "read_lat" "";
    send_bw_by: "send_bw" "";
    send_bw_events_by: "send_bw" "-e -n 1000";
    send_lat_by: "send_lat" "";
    atomic_bw_by: "atomic_bw" "";
    atomic_lat_by: "atomic_lat" "";
    send_bw_srq_by: "send_bw" "--use-srq -n 1000";
    send_lat_srq_by: "send_lat" "--use-srq";
    write_bw_uc_by: "write_bw" "-c UC -n 1000";
    write_lat_uc_by: "write_lat" "-c UC";
    send_bw_uc_by: "send_bw" "-c UC -n 1000";
    send_lat_uc_by: "send_lat" "-c UC";
    send_bw_ud_by: "send_bw" "-c UD -s 1024 -n 1000";
    send_lat_ud_by: "send_lat" "-c UD -s 512";
    send_lat_ud_inline_by: "send_lat" "-c UD -s 64 -I 64";
    write_bw_xrc_by: "write_bw" "-c XRC -n 1000";
    write_lat_xrc_by: "write_lat" "-c XRC";
    send_bw_xrc_by: "send_bw" "-c XRC -n 1000";
    read_bw_xrc_by: "read_bw" "-c XRC -n 1000";
    atomic_bw_xrc_by: "atomic_bw" "-c XRC -n 1000";
}

// perftest calibrates its clock anew for each size: all sizes of a tool take seconds.
all_sizes! {
    write_bw_all_sizes: "write_bw" "-n 50" up to 8_388_608;
    read_bw_all_sizes: "read_bw" "-n 50" up to 8_388_608;
    send_bw_all_sizes: "send_bw" "-n 50" up to 8_388_608;
    write_lat_all_sizes: "write_lat" "-n 10" up to 8_388_608;
    #[ignore = "long"]
    read_lat_all_sizes: "read_lat" "-n 10" up to 8_388_608;
    #[ignore = "long"]
    send_lat_all_sizes: "send_lat" "-n 10" up to 8_388_608;
    #[ignore = "long"]
    write_bw_uc_all_sizes: "write_bw" "-c UC -n 50" up to 8_388_608;
    #[ignore = "long"]
    send_bw_uc_all_sizes: "send_bw" "-c UC -n 50" up to 8_388_608;
    #[ignore = "long"]
    write_lat_uc_all_sizes: "write_lat" "-c UC -n 10" up to 8_388_608;
    #[ignore = "long"]
    send_lat_uc_all_sizes: "send_lat" "-c UC -n 10" up to 8_388_608;
    #[ignore = "long"]
    send_bw_ud_all_sizes: "send_bw" "-c UD -n 50" up to 1024;
    #[ignore = "long"]
    send_lat_ud_all_sizes: "send_lat" "-c UD -n 10" up to 1024;
    #[ignore = "long"]
    write_bw_xrc_all_sizes: "write_bw" "-c XRC -n 50" up to 8_388_608;
    #[ignore = "long"]
    read_bw_xrc_all_sizes: "read_bw" "-c XRC -n 50" up to 8_388_608;
    #[ignore = "long"]
    send_bw_xrc_all_sizes: "send_bw" "-c XRC -n 50" up to 8_388_608;
}

/// Options that a tool accepts over a transport.
fn options_of(tool: &str, transport: &str) -> Vec<&'static str> {
    let is_bandwidth = tool.ends_with("_bw");
    let is_send = tool.starts_with("send");
    let has_inline = is_send || tool.starts_with("write");
    let mut options = vec!["-n 200"];
    if is_bandwidth {
        options.extend(["-q 16 -n 100", "-b -n 200"]);
    }
    if !tool.starts_with("write") {
        options.push("-e -n 200");
    }
    if has_inline {
        options.push("-s 64 -I 64 -n 200");
    }
    if is_send && transport == "RC" {
        options.push("--use-srq -n 200");
    }
    options
}

/// Goal: options work in each combination. Method: all combinations, in long mode only.
#[test]
#[ignore = "long"]
fn every_combination() {
    let mut wrong = Vec::new();
    for tool in [
        "write_bw",
        "write_lat",
        "read_bw",
        "read_lat",
        "send_bw",
        "send_lat",
        "atomic_bw",
        "atomic_lat",
    ] {
        let transports: &[&str] = match &tool[..4] {
            "writ" => &["RC", "UC", "XRC"],
            "send" => &["RC", "UC", "UD", "XRC"],
            _ => &["RC", "XRC"],
        };
        for transport in transports {
            for options in options_of(tool, transport) {
                for api in [NEW_API, OLD_API] {
                    let size = if *transport == "UD" && !options.contains("-s") {
                        "-s 1024"
                    } else {
                        ""
                    };
                    let arguments = format!("-c {transport} {options} {size}");
                    let result = catch_unwind(AssertUnwindSafe(|| by_api(tool, &arguments, api)));
                    if result.is_err() {
                        wrong.push(format!("ib_{tool} {arguments}, {api}"));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}
