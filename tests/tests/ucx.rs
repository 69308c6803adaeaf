//! UCX as Debian ships it: its verbs transports, alone and below its protocols.

use ferroce_tests::{Scratch, free_port, run_pair, ucx_without_mpi};

/// UCX 1.18 prints this with `rc_verbs` on every device when it closes an endpoint, because this
/// transport has no remote flush.
const OWN_ERRORS: &[&str] = &["flush(remote) is not supported", "error during flush"];

/// Runs `ucx_perftest` as two processes; `both` are options of server and client, `client` are
/// options of the client only.
fn run(transport: Option<&str>, both: &str, client: &str) {
    run_with(&[], transport, both, client);
}

/// As [`run`], with options of `ferroce run`.
fn run_with(options: &[&str], transport: Option<&str>, both: &str, client: &str) {
    let scratch = Scratch::new();
    let port = free_port();
    let both = format!("-p {port} {} {both}", ucx_without_mpi(&scratch).join(" "));
    let arguments: Vec<_> = both.split_whitespace().collect();
    let mut server = scratch.run(options, "ucx_perftest", &arguments);
    let client = format!("127.0.0.1 {both} {client}");
    let arguments: Vec<_> = client.split_whitespace().collect();
    let mut client = scratch.run(options, "ucx_perftest", &arguments);
    for command in [&mut server, &mut client] {
        command
            .env("UCX_WARN_UNUSED_ENV_VARS", "n")
            .env("UCX_NET_DEVICES", "ferroce0:1");
        if let Some(transport) = transport {
            command.env("UCX_TLS", transport);
        }
    }
    let (_, output) = run_pair(&scratch, port, server, client);
    assert!(output.contains("Final:"), "{output}");
    let complaint = output.lines().find(|line| {
        let complains = line.contains("ERROR") || line.contains("WARN");
        complains && !OWN_ERRORS.iter().any(|own| line.contains(own))
    });
    assert_eq!(complaint, None, "{output}");
}

#[test]
fn ucx_info_lists_the_transports() {
    let scratch = Scratch::new();
    let info = scratch.run(&[], "ucx_info", &["-d"]);
    let output = scratch.finish(info).expect_success();
    for expected in [
        "Transport: rc_verbs",
        "Transport: ud_verbs",
        "Device: ferroce0:1",
    ] {
        assert!(
            output.contains(expected),
            "{expected} is missing in\n{output}"
        );
    }
}

#[test]
fn ucx_chooses_rc_verbs_for_an_endpoint() {
    let scratch = Scratch::new();
    let mut info = scratch.run(&[], "ucx_info", &["-e", "-u", "tar"]);
    info.env("UCX_TLS", "rc_v,self")
        .env("UCX_NET_DEVICES", "ferroce0:1");
    let output = scratch.finish(info).expect_success();
    assert!(output.contains("rc_verbs"), "{output}");
}

/// Declares one test of UCP for each line, over both transports.
macro_rules! protocols {
    ($( $(#[$meta:meta])* $test:ident: $arguments:literal; )*) => {
        $(
            mod $test {
                $(#[$meta])*
                #[test]
                fn over_rc() {
                    super::run(Some("rc_v"), "", concat!("-w 50 -t ", $arguments));
                }

                $(#[$meta])*
                #[test]
                fn over_ud() {
                    super::run(Some("ud_v"), "", concat!("-w 50 -t ", $arguments));
                }
            }
        )*
    };
}

protocols! {
    tag_lat: "tag_lat -n 1000 -s 64";
    tag_bw: "tag_bw -n 1000 -s 64";
    #[ignore = "long"]
    tag_sync_lat: "tag_sync_lat -n 1000 -s 64";
    #[ignore = "long"]
    stream_bw: "stream_bw -n 1000 -s 64";
    am_lat: "ucp_am_lat -n 1000 -s 64";
    #[ignore = "long"]
    am_bw: "ucp_am_bw -n 1000 -s 64";
    #[ignore = "long"]
    put_lat: "ucp_put_lat -n 1000 -s 64";
    get: "ucp_get -n 1000 -s 64";
    tag_bw_1_mib: "tag_bw -n 20 -s 1048576";
    put_bw_64_kib: "ucp_put_bw -n 200 -s 65536";
    get_64_kib: "ucp_get -n 200 -s 65536";
}

/// Declares one test of UCP over RC.
macro_rules! atomics {
    ($( $(#[$meta:meta])* $test:ident; )*) => {
        $(
            $(#[$meta])*
            #[test]
            fn $test() {
                let client = concat!("-w 50 -n 500 -s 8 -t ", stringify!($test));
                run(Some("rc_v"), "", client);
            }
        )*
    };
}

atomics! {
    ucp_fadd;
    ucp_cswap;
    #[ignore = "long"]
    ucp_add;
    #[ignore = "long"]
    ucp_swap;
}

/// Declares one test of the lower layer, UCT.
macro_rules! transports {
    ($( $test:ident: $transport:literal $arguments:literal; )*) => {
        $(
            #[test]
            fn $test() {
                let both = concat!("-d ferroce0:1 -x ", $transport);
                run(None, both, concat!("-w 20 -t ", $arguments));
            }
        )*
    };
}

transports! {
    rc_verbs_am_lat: "rc_verbs" "am_lat -n 1000 -s 8 -D short";
    rc_verbs_am_bw: "rc_verbs" "am_bw -n 1000 -s 2000 -D bcopy";
    rc_verbs_put_bw: "rc_verbs" "put_bw -n 500 -s 32768 -D zcopy";
    rc_verbs_get: "rc_verbs" "get -n 500 -s 32768 -D zcopy";
    rc_verbs_fadd: "rc_verbs" "fadd -n 500";
    rc_verbs_cswap: "rc_verbs" "cswap -n 500";
    ud_verbs_am_lat: "ud_verbs" "am_lat -n 1000 -s 8 -D short";
    ud_verbs_am_bw: "ud_verbs" "am_bw -n 1000 -s 2000 -D bcopy";
}

/// Returns true if this `ucx_perftest` initialises MPI, as Debian 13's does with any options: in
/// simulated time `MPI_Finalize` waits forever for a thread that it has cancelled.
fn ends_with_mpi() -> bool {
    let has_mpi = !ucx_without_mpi(&Scratch::new()).is_empty();
    if has_mpi {
        eprintln!("not tested: pthread_cancel in simulated time (README, \"Not yet\")");
    }
    has_mpi
}

/// Declares one test of UCP in simulated time for each line: UCX has a thread for asynchronous
/// events that takes locks of its progress engine.
macro_rules! timed {
    ($( $test:ident: $transport:literal $arguments:literal; )*) => {
        mod timed {
            $(
                #[test]
                fn $test() {
                    if super::ends_with_mpi() {
                        return;
                    }
                    let options = ["--timed", "cx5-100g"];
                    let client = concat!("-w 20 -t ", $arguments);
                    super::run_with(&options, Some($transport), "", client);
                }
            )*
        }
    };
}

timed! {
    rc_tag_lat: "rc_v" "tag_lat -n 500 -s 64";
    rc_tag_bw: "rc_v" "tag_bw -n 500 -s 64";
    rc_put_lat: "rc_v" "ucp_put_lat -n 500 -s 64";
    rc_get: "rc_v" "ucp_get -n 500 -s 64";
    ud_tag_lat: "ud_v" "tag_lat -n 500 -s 64";
    ud_tag_bw: "ud_v" "tag_bw -n 500 -s 64";
}
