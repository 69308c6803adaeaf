//! fork, exec, dlclose, and programs that never close.

use std::process::Command;
use std::time::Duration;

use ferroce_tests::{TIMEOUT, eventually};
use ferroce_verbs_client::bench::{Bench, Service, TARGET};
use ferroce_verbs_client::context::Context;
use ferroce_verbs_client::harness::is_for_one_client;
use ferroce_verbs_client::sys::*;
use ferroce_verbs_client::verbs_tests;
use ferroce_verbs_client::work_request::SendWr;

/// A child process that still runs; dropping this kills it.
struct Child(libc::pid_t);

impl Drop for Child {
    fn drop(&mut self) {
        // SAFETY: our own child, not yet waited for.
        unsafe { libc::kill(self.0, libc::SIGKILL) };
    }
}

/// Runs `body` in a child; fails the test unless it returns in time.
fn in_child(body: impl FnOnce()) {
    // SAFETY: the child ends by `_exit` and runs nothing of the parent's afterwards.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0);
    if pid == 0 {
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
        // SAFETY: ends the child without destructors of the parent's objects.
        unsafe { libc::_exit(if result.is_ok() { 0 } else { 1 }) };
    }
    let mut status = 0;
    let child = Child(pid);
    eventually("the end of the child", TIMEOUT, || {
        // SAFETY: our own child.
        unsafe { libc::waitpid(pid, &mut status, libc::WNOHANG) != 0 }
    });
    std::mem::forget(child);
    assert_eq!(status, 0, "the child's status");
}

/// Completes 50 WRITEs.
fn exchange(bench: &Bench) {
    let pair = bench.pair(Service::Rc);
    let (address, key) = bench.remote(TARGET);
    for id in 0..50 {
        let write = SendWr::new(id, IBV_WR_RDMA_WRITE).sge(bench.sge(0, 4096));
        pair.post(write.remote(address, key));
        bench.send_cq.expect(id, IBV_WC_SUCCESS);
    }
}

verbs_tests! {
    fn fork_init_before_anything_else() {
        // SAFETY: before any memory is registered.
        assert_eq!(unsafe { ibv_fork_init() }, 0);
        // SAFETY: no arguments.
        let status = unsafe { ibv_is_fork_initialized() };
        assert!([IBV_FORK_ENABLED, IBV_FORK_UNNEEDED].contains(&status), "{status}");
        let bench = Bench::new();
        exchange(&bench);
        in_child(|| {});
        exchange(&bench);
    }

    /// A child that uses no objects disturbs nothing, neither while it runs nor when it ends.
    fn a_child_that_uses_nothing() {
        let bench = Bench::new();
        exchange(&bench);
        // A program that sleeps.
        in_child(|| std::thread::sleep(Duration::from_millis(50)));
        exchange(&bench);
    }

    fn a_child_that_execs() {
        let bench = Bench::new();
        exchange(&bench);
        let status = Command::new("true").status().expect("/bin/true");
        assert!(status.success());
        if !is_for_one_client() {
            let output = Command::new("ibv_devices").output().expect("ibv_devices");
            assert!(String::from_utf8_lossy(&output.stdout).contains("ferroce0"));
        }
        exchange(&bench);
    }

    fn a_child_that_opens_its_own_device() {
        if is_for_one_client() {
            return;
        }
        let bench = Bench::new();
        exchange(&bench);
        in_child(|| exchange(&Bench::new()));
        exchange(&bench);
    }

    fn fork_before_the_first_open() {
        in_child(|| exchange(&Bench::new()));
        exchange(&Bench::new());
    }

    /// Traffic in the parent continues while children start and end.
    fn forks_under_load() {
        let bench = Bench::new();
        std::thread::scope(|scope| {
            let traffic = scope.spawn(|| (0..20).for_each(|_| exchange(&bench)));
            while !traffic.is_finished() {
                in_child(|| {});
            }
        });
    }

    /// A program ends without closing anything.
    fn programs_that_never_close() {
        let bench = Bench::new();
        exchange(&bench);
        let _pair = std::mem::ManuallyDrop::new(bench.pair(Service::Rc));
        std::mem::forget(bench);
    }

    fn dlopen_and_dlclose() {
        for _ in 0..3 {
            // SAFETY: a library that is there; every call ends before the next.
            unsafe {
                let library = libc::dlopen(c"libibverbs.so.1".as_ptr(), libc::RTLD_NOW);
                assert!(!library.is_null());
                let name = c"ibv_get_device_list".as_ptr();
                assert!(!libc::dlvsym(library, name, c"IBVERBS_1.1".as_ptr()).is_null());
                assert_eq!(libc::dlclose(library), 0);
            }
        }
        Context::open();
    }
}
