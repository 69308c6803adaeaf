//! Faults of a device in the midst of traffic, seen from its memory: in process and over vfio-user.

mod command_support;
#[path = "../embed/tests/common/mod.rs"]
mod common;
#[path = "../serve/tests/serve_support/mod.rs"]
mod serve_support;

use std::sync::Arc;

use command_support::ferroce_at;
use common::{BUFFER, Node, Rendezvous, TIMEOUT};
use ferroce_driver::bus::Bus;
use ferroce_driver::{AsyncEvent, CompletionStatus, SendOperation};
use ferroce_embed::address::DeviceAddress;
use ferroce_embed::function::Function;
use ferroce_embed::open::open;
use ferroce_spec::register::{Status, offset};
use ferroce_test_support::eventually;
use serve_support::serve;

/// What the memory holds when the reset is complete.
const AFTER: u8 = 0x55;
/// What the peer writes.
const WRITTEN: u8 = 0xaa;

/// Writes to `target` until that fails.
fn write_until_error(one: &Node, target: &Node) -> CompletionStatus {
    one.fill(WRITTEN);
    loop {
        one.post(SendOperation::RdmaWrite(target.remote()), BUFFER);
        let status = one.wait().status;
        if status != CompletionStatus::Success {
            return status;
        }
    }
}

/// Goal: nothing is written to host memory after a function-level reset is complete. Method: a peer
/// writes without pause; when the registers show that the reset is over, the memory is filled.
fn reset_in_mid_traffic(rendezvous: &Rendezvous, target: &Node, bus: &dyn Bus) {
    let one = Node::new(&rendezvous.options("peer"));
    one.connect(target);
    target.connect(&one);
    let host = &target.host.name;
    let status = std::thread::scope(|scope| {
        let writing = scope.spawn(|| write_until_error(&one, target));
        eventually("the peer writes", TIMEOUT, || target.holds(8, WRITTEN));
        let inject = ["inject", "function-level-reset", "--host", host];
        let (text, success) = ferroce_at(rendezvous, &inject);
        assert!(success, "{text}");
        eventually("the reset", TIMEOUT, || {
            let status = Status::from_bits(bus.read32(offset::status));
            !status.enabled() && status.ready()
        });
        target.fill(AFTER);
        target.expect_reports(&[AsyncEvent::DeviceFatal]);
        writing.join().expect("no panic")
    });
    assert_eq!(status, CompletionStatus::RetryExceededError);
    assert!(
        target.holds(BUFFER, AFTER),
        "it was written after the reset"
    );
}

#[test]
fn a_reset_in_process_is_the_end_of_all_writes() {
    let rendezvous = Rendezvous::new("reset-embedded");
    let function = Function::open_with(&rendezvous.options("target")).expect("a place is free");
    let (bus, host) = (function.bus(), function.host().clone());
    let target = Node::over(Arc::clone(&bus), host, Some(function));
    reset_in_mid_traffic(&rendezvous, &target, &*bus);
}

#[test]
fn a_reset_over_vfio_user_is_the_end_of_all_writes() {
    let rendezvous = Rendezvous::new("reset-served");
    let (_serving, paths) = serve(&rendezvous, "target", 1);
    let bus = open(&DeviceAddress::VfioUser(paths[0].clone())).expect("it is served");
    let host = rendezvous.options("target").host;
    let target = Node::over(Arc::clone(&bus), host, None);
    reset_in_mid_traffic(&rendezvous, &target, &*bus);
}
