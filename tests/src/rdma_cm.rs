//! Pairs of programs that use RDMA CM. Their servers have no TCP port, so the tests follow them by
//! their commands to the device file: the verbs library prints these as diagnostics in the
//! program's output.

use std::process::Command;

use crate::{PROCESS_TIMEOUT, Process, RunningPair, Scratch};

/// The diagnostics that name each command of RDMA CM.
const COMMANDS: &str = "error,ferroce_provider::ffi::rdma_cm=debug";

impl Scratch {
    /// As [`Scratch::run`], with the commands of RDMA CM in the output.
    pub fn run_rdma_cm(&self, options: &[&str], program: &str, arguments: &[&str]) -> Command {
        let mut command = self.run(options, program, arguments);
        command.env("FERROCE_LOG", COMMANDS);
        command
    }
}

/// Waits until a process has executed a command of RDMA CM, `times` times; fails the test if it
/// ends before that.
pub fn expect_commands(process: &mut Process, command: &str, times: usize) {
    let what = format!("{times} commands {command} of RDMA CM");
    process.wait_for_output(&what, |output| {
        (executed(output, command) >= times).then_some(())
    });
}

/// Returns how often a program has executed a command of RDMA CM, according to its output.
pub fn executed(output: &str, command: &str) -> usize {
    let quoted = format!("\"{command}\"");
    let of_this = |line: &&str| line.contains(&quoted) && line.contains("Ok(");
    output.lines().filter(of_this).count()
}

/// Runs a server, and a client as soon as the server listens with RDMA CM; fails the test unless
/// both succeed. Both come from [`Scratch::run_rdma_cm`]. Returns the output of server and client.
pub fn run_rdma_cm_pair(scratch: &Scratch, server: Command, client: Command) -> (String, String) {
    let server = start_rdma_cm_server(scratch, server);
    let client = Process::start(client, scratch, "client", PROCESS_TIMEOUT);
    RunningPair {
        server,
        client,
        scratch,
    }
    .finish()
}

/// Starts a server, and waits until it listens with RDMA CM.
pub fn start_rdma_cm_server(scratch: &Scratch, server: Command) -> Process {
    let mut server = Process::start(server, scratch, "server", PROCESS_TIMEOUT);
    expect_commands(&mut server, "LISTEN", 1);
    server
}
