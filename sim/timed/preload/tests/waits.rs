//! Calls that wait do so in simulated time, exactly.

mod fake_world;

use std::io::{Read as _, Write as _};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::{Duration, Instant};

use fake_world::FakeWorld;
use fake_world::run::{Running, alone, compile};
use ferroce_test_support::{TIMEOUT, eventually, free_port};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Upper bound of the real time of a test in which no thread really sleeps.
const AT_ONCE: Duration = Duration::from_secs(3);

#[test]
fn sleeps_take_exactly_their_time_and_end_at_once() {
    let begun = Instant::now();
    assert_eq!(alone("sleeps", &[]), "well\n");
    assert!(begun.elapsed() < AT_ONCE, "it has slept really");
}

#[test]
fn programs_talk_over_tcp_in_simulated_time() {
    let program = compile("pingpong");
    let world = FakeWorld::new(2);
    let (mut reader, mut writer) = std::io::pipe().expect("a pipe");
    let (port_in, port_out) = (inherit(reader.as_raw_fd()), inherit(writer.as_raw_fd()));
    let server = Running::start(&world, &program, &["server", &port_out]);
    // The client finds the port at once: a wait for a pipe of this process is not simulated.
    let mut port = [0; 8];
    eventually("the server has a port", TIMEOUT, || {
        let mut polled = [PollFd::new(&reader, PollFlags::IN)];
        poll(&mut polled, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    });
    let length = reader.read(&mut port).expect("a port");
    writer.write_all(&port[..length]).expect("room");
    let client = Running::start(&world, &program, &["client", &port_in]);
    let (client, server) = (client.finish(), server.finish());
    assert_eq!(client, server, "both know when the connection ended");
}

/// Runs a server with two clients. Returns what they have printed.
fn serve(program: &std::path::Path, kind: &str) -> Vec<String> {
    let world = FakeWorld::new(3);
    let port = free_port().to_string();
    let mut running = Vec::new();
    for (number, role) in [kind, "0", "1"].into_iter().enumerate() {
        running.push(Running::start(&world, program, &[role, &port]));
        // The world assigns hosts in the order in which programs join.
        world.await_programs(number + 1);
    }
    running.into_iter().map(Running::finish).collect()
}

#[test]
fn many_connections_are_waited_for_at_a_time() {
    let program = compile("echo");
    for kind in ["poll", "epoll"] {
        let first = serve(&program, kind);
        assert_eq!(first, serve(&program, kind), "{kind}");
    }
}

/// Children get this descriptor. Returns its number.
fn inherit(fd: i32) -> String {
    // SAFETY: the caller keeps the descriptor open.
    #[allow(unsafe_code, reason = "a descriptor by its number")]
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::empty()).expect("a descriptor");
    fd.as_raw_fd().to_string()
}

#[test]
fn alarms_go_off_at_their_times() {
    assert_eq!(alone("alarms", &[]), "well\n");
}

#[test]
fn descriptors_are_waited_for_in_simulated_time() {
    let output = alone("polls", &[]);
    assert!(output.ends_with("well\n"), "{output}");
    // It also waits for what comes from outside of the world.
    assert!(output.contains("repeatable: no"), "{output}");
}

#[test]
fn loops_that_look_at_memory_wait_exactly() {
    let program = compile("spins");
    let ends = [(); 3].map(|()| {
        let world = FakeWorld::new(1);
        Running::start(&world, &program, &["100"]).finish()
    });
    assert!(ends.iter().all(|end| *end == ends[0]), "{ends:?}");
}

#[test]
fn threads_wait_for_one_another() {
    assert_eq!(alone("threads", &[]), "well\n");
}
