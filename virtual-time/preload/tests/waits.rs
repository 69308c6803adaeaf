//! Calls that wait do so in simulated time, exactly.

mod fake_world;

use std::time::{Duration, Instant};

use fake_world::FakeWorld;
use fake_world::run::{Running, alone, compile};

/// Real time in which nothing has slept really.
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
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let keep = |fd: &dyn std::os::fd::AsRawFd| inherit(fd.as_raw_fd());
    let (port_in, port_out) = (keep(&reader), keep(&writer));
    let server = Running::start(&world, &program, &["server", &port_out]);
    let client = Running::start(&world, &program, &["client", &port_in]);
    let (client, server) = (client.finish(), server.finish());
    assert_eq!(client, server, "both know when the connection ended");
}

/// Children get this descriptor. Returns its number.
fn inherit(fd: i32) -> String {
    use std::os::fd::BorrowedFd;
    // SAFETY: the caller holds it.
    #[allow(unsafe_code, reason = "a descriptor by its number")]
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::empty()).expect("a descriptor");
    std::os::fd::AsRawFd::as_raw_fd(&fd).to_string()
}

#[test]
fn alarms_go_off_at_their_times() {
    assert_eq!(alone("alarms", &[]), "well\n");
}

#[test]
fn descriptors_are_waited_for_in_simulated_time() {
    assert_eq!(alone("polls", &[]), "well\n");
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
