//! Programs of other projects that connect with RDMA CM: perftest, qperf, fio, libfabric, UCX.

use ferroce_tests::{
    Ended, PROCESS_TIMEOUT, Process, Scratch, TIMEOUT, executed, free_port, run_pair,
    start_rdma_cm_server, wait_until_listening,
};

use super::{command, with_server};

/// Number of runs of a program whose client knows the port before its server listens.
const ATTEMPTS: usize = 10;

/// perftest's messages if no process listens on the port: for a connection, and for a datagram
/// service.
const REFUSALS: &[&str] = &[
    "RDMA_CM_EVENT_REJECTED; error: 8",
    "RDMA_CM_EVENT_UNREACHABLE; error: 1",
];

/// Declares one test of perftest with `-R` for each line.
macro_rules! perftest {
    ($( $test:ident: $arguments:literal; )*) => {
        mod perftest {
            $(
                #[test]
                fn $test() {
                    super::perftest(concat!($arguments, " -R -F -p PORT"));
                }
            )*
        }
    };
}

/// Runs a pair of perftest. Its server destroys the listener of the first connection and creates
/// one for the second. If the second request arrives in between, the client is refused.
fn perftest(arguments: &str) {
    let client_arguments = format!("{arguments} 127.0.0.1");
    for _ in 0..ATTEMPTS {
        let scratch = Scratch::new();
        let port = free_port();
        let server = command(&scratch, &[], arguments, port);
        let mut server = start_rdma_cm_server(&scratch, server);
        let client = scratch.finish(command(&scratch, &[], &client_arguments, port));
        let is_second = executed(&client.output, "CONNECT") == 2;
        if is_second && REFUSALS.iter().any(|event| client.output.contains(event)) {
            continue;
        }
        let output = client.expect_success();
        assert!(output.contains("#bytes"), "{output}");
        server.hurry(TIMEOUT);
        server.wait().expect_success();
        return;
    }
    panic!("refused {ATTEMPTS} times: {client_arguments}");
}

perftest! {
    write_bw: "ib_write_bw -n 200";
    write_bw_4_queue_pairs: "ib_write_bw -q 4 -n 100";
    write_bw_type_of_service: "ib_write_bw -T 96 -n 100";
    send_lat: "ib_send_lat -n 200";
    read_lat: "ib_read_lat -n 200";
    atomic_bw: "ib_atomic_bw -n 200";
    send_bw_ud: "ib_send_bw -c UD -s 512 -n 200";
}

/// Goal: qperf works over RDMA CM. Method: RC only, because for UC and UD qperf ignores `-cm` and
/// connects by itself, without the global route that RoCE needs. Its client knows the port before
/// its server listens.
#[test]
fn qperf() {
    let scratch = Scratch::new();
    let port = free_port();
    let server = command(&scratch, &[], "qperf -lp PORT", port);
    let mut server = Process::start(server, &scratch, "server", PROCESS_TIMEOUT);
    wait_until_listening(port, &mut server);
    for test in ["rc_bw", "rc_rdma_write_lat", "ver_rc_fetch_add"] {
        let client = format!("qperf -lp PORT -cm 1 -m 4096 -t 1 127.0.0.1 {test}");
        let run = || scratch.finish(command(&scratch, &[], &client, port));
        let is_refused = |ended: &Ended| ended.output.contains("Event rejected");
        let mut attempts = (0..ATTEMPTS).map(|_| run());
        let ended = attempts.find(|ended| !is_refused(ended));
        let output = ended
            .expect("an attempt finds the listener")
            .expect_success();
        assert!(output.contains(" = "), "{output}");
    }
}

/// fio without `--bindname`: version 3.33 uses only the first character of the address. It uses no
/// RNR retries, so the receiver of its sends has a receive for each message.
fn fio(verb: &str) {
    let scratch = Scratch::new();
    let both = "fio --ioengine=rdma --port=PORT --bs=64k --size=4M";
    let server = format!("{both} --name=server --rw=read --iodepth=128");
    let client =
        format!("{both} --name=client --rw=write --iodepth=4 --hostname=127.0.0.1 --verb={verb}");
    let output = with_server(&scratch, &server, &client);
    assert!(output.contains("bw="), "{output}");
}

#[test]
fn fio_write() {
    fio("write");
}

#[test]
fn fio_read() {
    fio("read");
}

#[test]
fn fio_send() {
    fio("send");
}

/// Values of `FI_VERBS_USE_ODP`.
const PINNED: &str = "0";
const ON_DEMAND: &str = "1";

/// Declares one test of `fi_pingpong` for each line.
macro_rules! libfabric {
    ($( $test:ident: $arguments:literal; )*) => {
        mod libfabric {
            $(
                #[test]
                fn $test() {
                    super::fi_pingpong(&[], $arguments, super::PINNED);
                }
            )*
        }
    };
}

libfabric! {
    messages: "-p verbs -e msg -c -I 20 -S 4096";
    large_messages: "-p verbs -e msg -c -I 5 -S 1000000";
    datagrams: "-p verbs -e dgram -c -I 20 -S 512";
    reliable_datagrams: "-p verbs;ofi_rxm -e rdm -c -I 20 -S 4096";
    tagged: "-p verbs;ofi_rxm -e rdm -c -I 20 -S 4096 -m tagged";
    large_reliable_datagrams: "-p verbs;ofi_rxm -e rdm -c -I 5 -S 1000000";
}

/// Runs `fi_pingpong`, whose two sides find each other over TCP. Switches off libfabric's memory
/// monitor: while it patches libc's `munmap`, the page is not executable, and another thread that
/// calls it at that time ends with SIGSEGV.
fn fi_pingpong(options: &[&str], arguments: &str, on_demand: &str) {
    let scratch = Scratch::new();
    let port = free_port();
    let server = format!("fi_pingpong {arguments} -B PORT");
    let client = format!("fi_pingpong {arguments} -P PORT 127.0.0.1");
    let [server, client] = [server, client].map(|line| {
        let mut command = command(&scratch, options, &line, port);
        command.env("FI_MR_CACHE_MONITOR", "disabled");
        command.env("FI_VERBS_USE_ODP", on_demand);
        command
    });
    let (_, client) = run_pair(&scratch, port, server, client);
    assert!(client.contains("MB/sec"), "{client}");
}

/// Goal: the two sides of a world find each other over TCP by the loopback address; for RDMA CM,
/// too, this address means the other host.
#[test]
fn libfabric_in_simulated_time() {
    for arguments in ["-p verbs -e msg -c -I 5", "-p verbs;ofi_rxm -e rdm -c -I 5"] {
        fi_pingpong(&["--timed", "cx5-100g"], arguments, PINNED);
    }
}

/// Goal: libfabric moves data through regions that are on demand.
#[test]
fn libfabric_on_demand() {
    for arguments in [
        "-p verbs -e msg -c -I 20 -S 1000000",
        "-p verbs;ofi_rxm -e rdm -c -I 20",
    ] {
        fi_pingpong(&[], arguments, ON_DEMAND);
    }
}

/// Goal: UCX connects through RDMA CM and moves data over RC. Method: the client of `io_demo` ends
/// after a number of replies; its server never ends.
#[test]
fn ucx_io_demo() {
    let scratch = Scratch::new();
    let port = free_port();
    let with_ucx = |line: &str| {
        let mut command = command(&scratch, &[], line, port);
        command
            .env("UCX_TLS", "rc_v")
            .env("UCX_SOCKADDR_TLS_PRIORITY", "rdmacm")
            .env("UCX_NET_DEVICES", "ferroce0:1")
            .env("UCX_WARN_UNUSED_ENV_VARS", "n");
        command
    };
    let _server = start_rdma_cm_server(&scratch, with_ucx("io_demo -p PORT -d 4096"));
    let client = with_ucx("io_demo 127.0.0.1 -p PORT -i 20 -d 4096 -v");
    let output = scratch.finish(client).expect_success();
    assert!(!output.contains("ERROR"), "{output}");
}
