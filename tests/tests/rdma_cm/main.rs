//! RDMA CM with programs as Debian ships them, over Debian's librdmacm: its own tools, rsockets,
//! and other programs that connect through it.

mod applications;
mod sockets;
mod storage;
mod tools;

use std::process::Command;

use ferroce_tests::{Scratch, free_port, run_rdma_cm_pair, start_rdma_cm_server};

/// A program and its arguments; `PORT` among them stands for the port of the test.
fn command(scratch: &Scratch, options: &[&str], line: &str, port: u16) -> Command {
    let line = line.replace("PORT", &port.to_string());
    let mut words = line.split_whitespace();
    let program = words.next().expect("a line begins with the program");
    let arguments: Vec<_> = words.collect();
    scratch.run_rdma_cm(options, program, &arguments)
}

/// Runs a server and a client; both have to succeed. Returns their output.
fn pair(server: &str, client: &str) -> (String, String) {
    pair_in(&Scratch::new(), (&[], server), (&[], client))
}

/// As [`pair`], with the caller's scratch directory, and options of `ferroce run` for each.
fn pair_in(
    scratch: &Scratch,
    (of_server, server): (&[&str], &str),
    (of_client, client): (&[&str], &str),
) -> (String, String) {
    let port = free_port();
    let server = command(scratch, of_server, server, port);
    let client = command(scratch, of_client, client, port);
    run_rdma_cm_pair(scratch, server, client)
}

/// Runs a client of a server that never ends. Returns the client's output.
fn with_server(scratch: &Scratch, server: &str, client: &str) -> String {
    let port = free_port();
    let _server = start_rdma_cm_server(scratch, command(scratch, &[], server, port));
    scratch
        .finish(command(scratch, &[], client, port))
        .expect_success()
}
