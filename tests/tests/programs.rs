//! rdma-core's own small programs, unmodified: listings, ping-pongs, and the event watcher.

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

/// Declares one test for each ping-pong pair; the client's output must contain `client says`.
macro_rules! pingpongs {
    ($( $test:ident: $program:literal $arguments:literal, client says $expected:literal; )*) => {
        $(
            #[test]
            fn $test() {
                let arguments: Vec<_> = $arguments.split_whitespace().collect();
                let pair = Pair { program: $program, arguments: &arguments, options: &[] };
                let (server, client) = pair.run();
                assert!(client.contains($expected), "{client}");
                for output in [server, client] {
                    assert!(!output.contains("invalid data"), "{output}");
                }
            }
        )*
    };
}

pingpongs! {
    rc_pingpong: "ibv_rc_pingpong" "-g 1", client says "1000 iters in";
    rc_pingpong_link_local: "ibv_rc_pingpong" "-g 0", client says "1000 iters in";
    rc_pingpong_events: "ibv_rc_pingpong" "-g 1 -c -e", client says "1000 iters in";
    rc_pingpong_new_send: "ibv_rc_pingpong" "-g 1 -c -N", client says "1000 iters in";
    rc_pingpong_events_new_send:
        "ibv_rc_pingpong" "-g 1 -c -e -N -s 65536 -n 100", client says "100 iters in";
    rc_pingpong_time_stamps: "ibv_rc_pingpong" "-g 1 -c -t", client says "1000 iters in";
    rc_pingpong_checked: "ibv_rc_pingpong" "-g 1 -c", client says "1000 iters in";
    rc_pingpong_small: "ibv_rc_pingpong" "-g 1 -c -s 1 -n 200", client says "200 iters in";
    rc_pingpong_large: "ibv_rc_pingpong" "-g 1 -c -s 1000001 -n 200", client says "200 iters in";
    rc_pingpong_mtu_256: "ibv_rc_pingpong" "-g 1 -c -m 256", client says "1000 iters in";
    rc_pingpong_mtu_4096:
        "ibv_rc_pingpong" "-g 1 -c -m 4096 -s 100000 -n 100", client says "100 iters in";
    rc_pingpong_device_memory: "ibv_rc_pingpong" "-g 1 -c -j", client says "1000 iters in";
    rc_pingpong_on_demand: "ibv_rc_pingpong" "-g 1 -c -o", client says "1000 iters in";
    rc_pingpong_implicit: "ibv_rc_pingpong" "-g 1 -c -o -O", client says "1000 iters in";
    rc_pingpong_prefetch: "ibv_rc_pingpong" "-g 1 -c -o -P", client says "1000 iters in";
    rc_pingpong_implicit_prefetch:
        "ibv_rc_pingpong" "-g 1 -c -o -O -P -e -N", client says "1000 iters in";
    uc_pingpong: "ibv_uc_pingpong" "-g 1 -c", client says "1000 iters in";
    uc_pingpong_events: "ibv_uc_pingpong" "-g 1 -c -e -s 32768 -n 100", client says "100 iters in";
    ud_pingpong: "ibv_ud_pingpong" "-g 1 -c -s 1024", client says "1000 iters in";
    ud_pingpong_events: "ibv_ud_pingpong" "-g 1 -c -e -s 512", client says "1000 iters in";
    srq_pingpong: "ibv_srq_pingpong" "-g 1 -c", client says "1000 iters in";
    srq_pingpong_events:
        "ibv_srq_pingpong" "-g 1 -c -e -q 4 -s 20000 -n 100", client says "100 iters in";
    srq_pingpong_32_qps: "ibv_srq_pingpong" "-g 1 -c -q 32 -n 50", client says "50 iters in";
    srq_pingpong_on_demand: "ibv_srq_pingpong" "-g 1 -c -o", client says "1000 iters in";
    xsrq_pingpong_on_demand: "ibv_xsrq_pingpong" "-g 1 -o", client says "";
    xsrq_pingpong: "ibv_xsrq_pingpong" "-g 1", client says "";
    xsrq_pingpong_events: "ibv_xsrq_pingpong" "-g 1 -e", client says "";
}

/// Goal: an unmodified watcher sees a fault, but not before it happens. Method: disconnect the
/// cable and connect it again, then let the device die.
#[test]
fn ibv_asyncwatch_sees_injected_faults() {
    let scratch = Scratch::new();
    // Otherwise its output would stay in a pipe's or a file's buffer.
    let line_by_line = ["-oL", "ibv_asyncwatch"];
    let command = scratch.run(&[], "stdbuf", &line_by_line);
    let mut watcher = Process::start(command, &scratch, "watch", PROCESS_TIMEOUT);
    watcher.expect_output("async event FD");
    for (fault, event) in [
        ("port-down", "IBV_EVENT_PORT_ERR"),
        ("port-up", "IBV_EVENT_PORT_ACTIVE"),
        ("device-fatal", "IBV_EVENT_DEVICE_FATAL"),
    ] {
        let output = watcher.output();
        assert!(!output.contains(event), "too early: {output}");
        let pid = watcher.id().to_string();
        let inject = scratch.ferroce(&["inject", fault, "--pid", &pid]);
        scratch.finish(inject).expect_success();
        watcher.expect_output(event);
    }
}
