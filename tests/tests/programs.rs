//! Unmodified programs from Debian, each as two processes: what users will do first.

use ferroce_tests::{PROCESS_TIMEOUT, Pair, Process, Scratch};

/// Runs one program alone and returns its output.
fn alone(program: &str, arguments: &[&str]) -> String {
    let scratch = Scratch::new();
    let command = scratch.run(&[], program, arguments);
    Process::start(command, &scratch, "output", PROCESS_TIMEOUT)
        .wait()
        .expect_success()
}

#[test]
fn ibv_devices_lists_the_device() {
    let output = alone("ibv_devices", &[]);
    assert!(output.contains("ferroce0"), "{output}");
}

#[test]
fn ibv_devinfo_shows_an_active_ethernet_port() {
    let output = alone("ibv_devinfo", &["-v"]);
    for expected in ["PORT_ACTIVE (4)", "Ethernet", "RoCE v2", "::ffff:127.0.0.1"] {
        assert!(
            output.contains(expected),
            "{expected} is missing in\n{output}"
        );
    }
}

/// Declares one test for each pair of processes.
macro_rules! pairs {
    ($( $test:ident: $program:literal $arguments:tt, client says $expected:literal; )*) => {
        $(
            #[test]
            fn $test() {
                let pair = Pair { program: $program, arguments: &$arguments, options: &[] };
                let (_, client) = pair.run();
                assert!(client.contains($expected), "{client}");
            }
        )*
    };
}

/// What perftest takes for a ConnectX-5: with that it uses the new send API (`ibv_wr_*`) unless it
/// is told `--use_old_post_send`.
const AS_CONNECTX: &[&str] = &["--part-id", "0x1017"];

/// Declares, for each program of perftest, one test of the new send API and one of the old. All
/// sizes (`-a`) stand in [`pairs`] only: perftest calibrates its clock anew for each of them.
macro_rules! send_apis {
    ($( $test:ident: $program:literal $arguments:tt, client says $expected:literal; )*) => {
        $(
            mod $test {
                use super::{AS_CONNECTX, Pair};

                fn run(arguments: &[&str], api: &str) {
                    let options = AS_CONNECTX;
                    let (_, client) = Pair { program: $program, arguments, options }.run();
                    assert!(client.contains(api), "not {api}:\n{client}");
                    assert!(client.contains($expected), "{client}");
                }

                #[test]
                fn new_send_api() {
                    run(&$arguments, "ibv_wr* API     : ON");
                }

                #[test]
                fn old_post_send() {
                    let arguments = [&$arguments[..], &["--use_old_post_send"]].concat();
                    run(&arguments, "ibv_wr* API     : OFF");
                }
            }
        )*
    };
}

pairs! {
    rc_pingpong: "ibv_rc_pingpong" ["-g", "1"], client says "1000 iters in";
    rc_pingpong_link_local: "ibv_rc_pingpong" ["-g", "0"], client says "1000 iters in";
    rc_pingpong_events: "ibv_rc_pingpong" ["-g", "1", "-e"], client says "1000 iters in";
    rc_pingpong_new_send: "ibv_rc_pingpong" ["-g", "1", "-N"], client says "1000 iters in";
    rc_pingpong_checked: "ibv_rc_pingpong" ["-g", "1", "-c"], client says "1000 iters in";
    rc_pingpong_large:
        "ibv_rc_pingpong" ["-g", "1", "-c", "-s", "1000000", "-n", "200"], client says "200 iters in";
    rc_pingpong_mtu_256: "ibv_rc_pingpong" ["-g", "1", "-c", "-m", "256"], client says "1000 iters in";
    write_bw: "ib_write_bw" ["-F"], client says "65536      5000";
    write_bw_all_sizes: "ib_write_bw" ["-F", "-a", "-n", "100"], client says "8388608    100";
    write_bw_8_qps: "ib_write_bw" ["-F", "-q", "8", "-n", "1000"], client says "65536      8000";
    write_bw_bidirectional: "ib_write_bw" ["-F", "-b", "-n", "1000"], client says "65536      1000";
    write_lat_all_sizes: "ib_write_lat" ["-F", "-a", "-n", "20"], client says "8388608 20";
    read_bw_all_sizes: "ib_read_bw" ["-F", "-a", "-n", "100"], client says "8388608    100";
    read_lat: "ib_read_lat" ["-F"], client says "2       1000";
    read_lat_events: "ib_read_lat" ["-F", "-e"], client says "2       1000";
    send_bw_all_sizes: "ib_send_bw" ["-F", "-a", "-n", "100"], client says "8388608    100";
    send_bw_events: "ib_send_bw" ["-F", "-e", "-n", "1000"], client says "65536      1000";
    send_lat: "ib_send_lat" ["-F"], client says "2       1000";
}

send_apis! {
    write_bw_by: "ib_write_bw" ["-F", "-n", "2000"], client says "65536      2000";
    write_bw_8_qps_by: "ib_write_bw" ["-F", "-q", "8", "-n", "500"], client says "65536      4000";
    write_bw_bidirectional_by:
        "ib_write_bw" ["-F", "-b", "-n", "1000"], client says "65536      1000";
    write_bw_inline_by: "ib_write_bw" ["-F", "-s", "64", "-I", "64"], client says "64         5000";
    write_lat_by: "ib_write_lat" ["-F"], client says "2       1000";
    read_bw_by: "ib_read_bw" ["-F"], client says "65536      1000";
    read_lat_by: "ib_read_lat" ["-F"], client says "2       1000";
    send_bw_by: "ib_send_bw" ["-F"], client says "65536      1000";
    send_bw_events_by: "ib_send_bw" ["-F", "-e", "-n", "1000"], client says "65536      1000";
    send_lat_by: "ib_send_lat" ["-F"], client says "2       1000";
}
