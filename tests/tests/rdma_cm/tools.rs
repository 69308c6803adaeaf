//! rdmacm-utils: librdmacm's own tools.

use ferroce_tests::{PROCESS_TIMEOUT, Process, Scratch, free_port, start_rdma_cm_server};

use super::{command, pair, pair_in, with_server};

/// Declares one test for each pair that ends by itself; the words between them must be in both
/// outputs.
macro_rules! pairs {
    ($( $test:ident: $server:literal, $client:literal, both say $expected:literal; )*) => {
        $(
            #[test]
            fn $test() {
                let (server, client) = pair($server, $client);
                for output in [server, client] {
                    assert!(output.contains($expected), "{output}");
                }
            }
        )*
    };
}

pairs! {
    rping: "rping -s -a 127.0.0.1 -p PORT -C 20 -V -S 100",
        "rping -c -a 127.0.0.1 -p PORT -C 20 -V -S 100", both say "";
    rping_large: "rping -s -a 127.0.0.1 -p PORT -C 5 -V -S 65000",
        "rping -c -a 127.0.0.1 -p PORT -C 5 -V -S 65000", both say "";
    rping_with_a_source: "rping -s -a 127.0.0.1 -p PORT -C 5 -V",
        "rping -c -a 127.0.0.1 -I 127.0.0.1 -p PORT -C 5 -V", both say "";
    rping_creates_its_queue_pairs: "rping -s -q -a 127.0.0.1 -p PORT -C 5 -V",
        "rping -c -q -a 127.0.0.1 -p PORT -C 5 -V", both say "";
    rping_at_any_address: "rping -s -p PORT -C 5 -V",
        "rping -c -a 127.0.0.1 -p PORT -C 5 -V", both say "";
    rping_ipv6: "rping -s -a ::1 -p PORT -C 5 -V", "rping -c -a ::1 -p PORT -C 5 -V", both say "";
    rping_ipv4_at_an_ipv6_wildcard: "rping -s -a ::0 -p PORT -C 5 -V",
        "rping -c -a 127.0.0.1 -p PORT -C 5 -V", both say "";
    ucmatose: "ucmatose -b 127.0.0.1 -p PORT", "ucmatose -s 127.0.0.1 -p PORT",
        both say "return status 0";
    ucmatose_50_connections: "ucmatose -b 127.0.0.1 -p PORT -c 50 -C 5 -S 4000",
        "ucmatose -s 127.0.0.1 -p PORT -c 50 -C 5 -S 4000", both say "return status 0";
    ucmatose_migrates: "ucmatose -b 127.0.0.1 -p PORT -m", "ucmatose -s 127.0.0.1 -p PORT -m",
        both say "return status 0";
    ucmatose_type_of_service: "ucmatose -b 127.0.0.1 -p PORT",
        "ucmatose -s 127.0.0.1 -p PORT -t 96 -a 14", both say "return status 0";
    udaddy: "udaddy -b 127.0.0.1", "udaddy -s 127.0.0.1", both say "return status 0";
    udaddy_10_connections: "udaddy -b 127.0.0.1 -c 10 -C 5 -S 500",
        "udaddy -s 127.0.0.1 -c 10 -C 5 -S 500", both say "return status 0";
    rdma_client: "rdma_server -s 127.0.0.1 -p PORT", "rdma_client -s 127.0.0.1 -p PORT",
        both say "end 0";
    rdma_xclient: "rdma_xserver -p PORT -c r", "rdma_xclient -s 127.0.0.1 -p PORT -c r",
        both say "";
    rdma_xclient_xrc: "rdma_xserver -p PORT -c x", "rdma_xclient -s 127.0.0.1 -p PORT -c x",
        both say "";
}

/// Goal: a client reaches a server on another host of the fabric at that host's address.
#[test]
fn rping_between_two_hosts() {
    let scratch = Scratch::new();
    let a = ["--host", "a", "--address", "192.0.2.1,2001:db8::1"];
    let b = ["--host", "b", "--address", "192.0.2.2,2001:db8::2"];
    for address in ["192.0.2.1", "2001:db8::1"] {
        let server = format!("rping -s -a {address} -p PORT -C 5 -V");
        let client = format!("rping -c -a {address} -p PORT -C 5 -V");
        pair_in(&scratch, (&a, &server), (&b, &client));
    }
}

#[test]
fn rping_serves_five_clients_in_turn() {
    let scratch = Scratch::new();
    let port = free_port();
    let server = "rping -s -P -a 127.0.0.1 -p PORT -V";
    let mut server = start_rdma_cm_server(&scratch, command(&scratch, &[], server, port));
    for _ in 0..5 {
        let client = "rping -c -a 127.0.0.1 -p PORT -C 5 -V";
        scratch
            .finish(command(&scratch, &[], client, port))
            .expect_success();
    }
    assert!(server.is_running(), "{}", server.output());
}

/// Goal: without a listener, a client is refused at once. Method: first no process of the host has
/// a communication manager; then a server for another port has one.
#[test]
fn rping_is_refused_without_a_listener() {
    let scratch = Scratch::new();
    let client = "rping -c -a 127.0.0.1 -p PORT -C 1";
    let refused = || {
        let ended = scratch.finish(command(&scratch, &[], client, free_port()));
        assert!(!ended.expect_end().success(), "{}", ended.output);
        assert!(ended.output.contains("EVENT_REJECTED"), "{}", ended.output);
    };
    refused();
    let server = "rping -s -P -a 127.0.0.1 -p PORT";
    let _server = start_rdma_cm_server(&scratch, command(&scratch, &[], server, free_port()));
    refused();
}

/// Its server never ends.
fn cmtime(connections: u32) {
    let scratch = Scratch::new();
    let server = "cmtime -b 127.0.0.1 -p PORT";
    let client = format!("cmtime -s 127.0.0.1 -p PORT -c {connections}");
    let output = with_server(&scratch, server, &client);
    for step in ["connect", "disconnect", "destroy"] {
        assert!(output.contains(step), "{output}");
    }
}

#[test]
fn cmtime_of_100_connections() {
    cmtime(100);
}

/// Goal: if more datagrams arrive than QP 1 has work requests, they are lost and sent again, but
/// never overrun its CQ; after an overrun the process would receive no datagrams.
#[test]
fn cmtime_of_3000_connections() {
    cmtime(3000);
}

/// Goal: a message to a group reaches the member. Method: `mckey` prints that it has joined when
/// its queue pair is attached.
#[test]
fn mckey_on_both_sides() {
    for address in ["127.0.0.1", "::1"] {
        let scratch = Scratch::new();
        let group = if address == "::1" {
            "ff12::5"
        } else {
            "239.1.2.3"
        };
        // Otherwise its output would stay in a file's buffer.
        let receiver = format!("stdbuf -oL mckey -m {group} -b {address}");
        let receiver = command(&scratch, &[], &receiver, 0);
        let mut receiver = Process::start(receiver, &scratch, "receiver", PROCESS_TIMEOUT);
        receiver.expect_output("joined");
        let sender = format!("mckey -m {group} -b {address} -s");
        let sender = scratch
            .finish(command(&scratch, &[], &sender, 0))
            .expect_success();
        for output in [sender, receiver.wait().expect_success()] {
            assert!(output.contains("return status 0"), "{output}");
        }
    }
}
