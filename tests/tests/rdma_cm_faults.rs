//! RDMA CM in difficult cases: programs that are killed between two steps, ports in use, many
//! connections, and every use of the device file's descriptor.

use ferroce_tests::{
    Ended, PROCESS_TIMEOUT, Process, Scratch, Signal, executed, expect_commands, free_port,
};

/// `EADDRINUSE` of Linux.
const ADDRESS_IN_USE: i32 = 98;

/// `tests/c/rdma_cm_steps.c`, its fabric and a port.
struct Steps {
    scratch: Scratch,
    program: String,
    port: String,
}

impl Steps {
    fn new() -> Self {
        let scratch = Scratch::new();
        Self {
            program: compile(&scratch, "rdma_cm_steps"),
            port: free_port().to_string(),
            scratch,
        }
    }

    /// Starts a server or a client, which halts at a step; `name` names its output.
    fn start(&self, name: &str, role: &str, halt: &str, count: &str) -> Process {
        self.start_at(&self.port, name, role, halt, count)
    }

    fn start_at(&self, port: &str, name: &str, role: &str, halt: &str, count: &str) -> Process {
        let arguments = [role, "127.0.0.1", port, halt, count];
        let command = self.scratch.run_rdma_cm(&[], &self.program, &arguments);
        Process::start(command, &self.scratch, name, PROCESS_TIMEOUT)
    }

    /// Starts a server of one connection, and waits until it listens.
    fn server(&self, name: &str, halt: &str) -> Process {
        let mut server = self.start(name, "server", halt, "1");
        expect_commands(&mut server, "LISTEN", 1);
        server
    }

    /// Goal: a dead server leaves no resources in use. Method: a new server immediately gets the
    /// port, and serves.
    fn expect_usable(&self) {
        let server = self.server("new-server", "-");
        let client = self.start("new-client", "client", "-", "1");
        for process in [client, server] {
            process.wait().expect_success();
        }
    }
}

/// Compiles a program of `tests/c` with librdmacm.
fn compile(scratch: &Scratch, name: &str) -> String {
    scratch.compile_with(name, &["-Wl,--no-as-needed", "-lrdmacm"])
}

/// Fails the test unless this event was the program's last one.
fn expect_last_event(ended: &Ended, events: &[&str]) {
    let mut lines = ended.output.lines().rev();
    let last = lines.find(|line| line.starts_with("RDMA_CM_EVENT"));
    let is_expected = last.is_some_and(|last| events.iter().any(|event| last.contains(event)));
    assert!(is_expected, "{events:?} {}\n{}", ended.how(), ended.output);
}

/// Kills a process, and waits until the kernel has released its resources.
fn kill(mut process: Process) {
    process.signal(Signal::KILL);
    process.hurry(PROCESS_TIMEOUT);
    let ended = process.wait();
    assert!(!ended.succeeded(), "{}", ended.output);
}

/// Declares one test for each step: the test kills the server there, and its client gets one of the
/// events.
macro_rules! servers_killed {
    ($( $test:ident: at $step:literal, client $halt:literal sees $($event:literal)|+; )*) => {
        mod server_killed {
            $(
                #[test]
                fn $test() {
                    super::server_killed($step, $halt, &[$($event),+]);
                }
            )*
        }
    };
}

servers_killed! {
    before_it_has_read_the_request: at "listening", client "-" sees "REJECTED" | "UNREACHABLE";
    before_it_accepts: at "requested", client "-" sees "REJECTED" | "UNREACHABLE";
    after_it_has_accepted: at "accepted", client "stay" sees "DISCONNECTED";
    when_it_is_connected: at "connected", client "stay" sees "DISCONNECTED";
}

fn server_killed(step: &str, halt: &str, events: &[&str]) {
    let steps = Steps::new();
    let mut server = steps.server("server", step);
    let mut client = steps.start("client", "client", halt, "1");
    expect_commands(&mut client, "CONNECT", 1);
    server.expect_output(&format!("at {step}"));
    if halt == "stay" {
        client.expect_output("RDMA_CM_EVENT_ESTABLISHED");
    }
    kill(server);
    expect_last_event(&client.wait(), events);
    steps.expect_usable();
}

/// Goal: a client that comes after the server's death is refused at once.
#[test]
fn the_port_of_a_killed_server_is_refused() {
    let steps = Steps::new();
    let mut server = steps.server("server", "listening");
    server.expect_output("at listening");
    kill(server);
    let client = steps.start("client", "client", "-", "1").wait();
    expect_last_event(&client, &["REJECTED"]);
    steps.expect_usable();
}

/// Goal: a server survives the death of its clients. Method: kill clients at each of their steps,
/// then serve one to its end; each connection that has begun ends with an event at the server.
#[test]
fn a_server_outlives_killed_clients() {
    let steps = Steps::new();
    let mut server = steps.start("server", "server", "-", "4");
    expect_commands(&mut server, "LISTEN", 1);
    for step in ["resolved", "routed", "connected", "disconnecting"] {
        let mut client = steps.start(&format!("client-{step}"), "client", step, "1");
        client.expect_output(&format!("at {step}"));
        kill(client);
    }
    let client = steps.start("last-client", "client", "-", "2");
    client.wait().expect_success();
    let output = server.wait().expect_success();
    assert_eq!(output.matches("EVENT_DISCONNECTED").count(), 4, "{output}");
    steps.expect_usable();
}

/// Goal: a server works after a client was killed while its request waited for an answer. Method:
/// the server accepts when the client is dead.
#[test]
fn a_request_of_a_killed_client_is_accepted() {
    let steps = Steps::new();
    let mut server = steps.server("server", "requested");
    let mut client = steps.start("client", "client", "connecting", "1");
    client.expect_output("at connecting");
    server.expect_output("at requested");
    kill(client);
    server.signal(Signal::USR1);
    let events = ["UNREACHABLE", "REJECTED", "CONNECT_ERROR", "DISCONNECTED"];
    let ended = server.wait();
    if executed(&ended.output, "ACCEPT") != 0 {
        expect_last_event(&ended, &events);
    }
    assert!(ended.succeeded(), "{}", ended.output);
    steps.expect_usable();
}

/// Goal: when a device fails, each of its ids gets an event. Method: `ferroce inject` fails the
/// device of one end of a connection. Each end has its own connection, because a server ends when
/// its client has gone, perhaps before its own device fails.
#[test]
fn a_failed_device_is_removed() {
    let steps = Steps::new();
    for fails_at in ["client", "server"] {
        let mut server = steps.server("server", "-");
        let mut client = steps.start("client", "client", "stay", "1");
        server.expect_output("RDMA_CM_EVENT_ESTABLISHED");
        client.expect_output("RDMA_CM_EVENT_ESTABLISHED");
        let (failing, other) = match fails_at {
            "client" => (client, server),
            _ => (server, client),
        };
        let pid = failing.id().to_string();
        let inject = ["inject", "device-fatal", "--pid", &pid];
        let injected = steps.scratch.finish(steps.scratch.ferroce(&inject));
        injected.expect_success();
        expect_last_event(&failing.wait(), &["DEVICE_REMOVAL"]);
        expect_last_event(&other.wait(), &["DISCONNECTED"]);
    }
    steps.expect_usable();
}

/// Goal: only one process of a host can use a port. Method: a second server requests the same port,
/// and then another one; a client connects to each server.
#[test]
fn ports_of_two_processes() {
    let steps = Steps::new();
    let other_port = free_port().to_string();
    let first = steps.server("first", "-");
    let refused = steps.start("refused", "server", "-", "1").wait();
    let expected = format!("bind: errno {}", ADDRESS_IN_USE);
    assert!(refused.output.contains(&expected), "{}", refused.output);
    let mut second = steps.start_at(&other_port, "second", "server", "-", "1");
    expect_commands(&mut second, "LISTEN", 1);
    for (name, port) in [("client-2", &other_port), ("client-1", &steps.port)] {
        let client = steps.start_at(port, name, "client", "-", "1");
        client.wait().expect_success();
    }
    for server in [first, second] {
        server.wait().expect_success();
    }
    steps.expect_usable();
}

/// Goal: 1,000 connections leak nothing. Method: both sides compare their descriptors and memory
/// after 200 connections and at the end.
#[test]
fn a_thousand_connections_leave_nothing() {
    let steps = Steps::new();
    let mut server = steps.start("server", "server", "-", "1000");
    expect_commands(&mut server, "LISTEN", 1);
    let client = steps.start("client", "client", "-", "1000");
    for process in [client, server] {
        let output = process.wait().expect_success();
        assert!(output.ends_with("0 failures\n"), "{output}");
    }
    steps.expect_usable();
}

#[test]
fn a_hundred_connections_at_once() {
    let scratch = Scratch::new();
    let port = free_port().to_string();
    let arguments = ["-p", &port, "-c", "100", "-C", "2", "-S", "100"];
    let side = |option: &str| {
        let arguments = [&[option, "127.0.0.1"], &arguments[..]].concat();
        scratch.run_rdma_cm(&[], "ucmatose", &arguments)
    };
    let (server, client) = ferroce_tests::run_rdma_cm_pair(&scratch, side("-b"), side("-s"));
    for output in [server, client] {
        assert!(output.contains("return status 0"), "{output}");
    }
}

/// Goal: the descriptor behaves like a descriptor of the device file. Method: the checks of
/// `tests/c/rdma_cm_channel.c`.
#[test]
fn the_descriptor_of_the_device_file() {
    let scratch = Scratch::new();
    let program = compile(&scratch, "rdma_cm_channel");
    let port = free_port().to_string();
    let output = scratch.finish(scratch.run(&[], &program, &[&port]));
    let output = output.expect_success();
    assert!(output.ends_with("0 failures\n"), "{output}");
}
