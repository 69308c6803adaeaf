//! The thread in which a device is opened.
//!
//! The model of a NIC is a large value, built from large parts: opening it takes 60 KiB of stack,
//! four times as much as any other verb. Some programs open devices on fibers with smaller stacks,
//! which works with a kernel driver. The compiler does not promise to build the parts in place, so
//! a short-lived thread with enough stack opens the device.

use std::panic::resume_unwind;
use std::thread;

use ferroce_platform::host::variable;
use ferroce_platform::os::faults;
use ferroce_platform::os::with_signals_blocked;
use ferroce_timed_client::WORLD_VARIABLE;
use parking_lot::Mutex;

const STACK_BYTES: usize = 512 << 10;

/// Runs `open` in a separate thread. In simulated time it runs in this thread, because the world
/// does not see one thread wait for another. It also runs here if no thread can be created.
pub fn run<T: Send>(open: impl FnOnce() -> T + Send) -> T {
    if variable(WORLD_VARIABLE).is_some() {
        return open();
    }
    // Kept here, so that it is still available if no thread can be created.
    let waiting = Mutex::new(Some(open));
    let opened = thread::scope(|scope| {
        let builder = thread::Builder::new()
            .name("ferroce-open".to_owned())
            .stack_size(STACK_BYTES);
        // Signals are for the program's threads; memory faults are for this library, too.
        let started = with_signals_blocked(|| {
            builder.spawn_scoped(scope, || {
                faults::allow();
                let open = waiting.lock().take();
                open.map(|open| open())
            })
        });
        started
            .ok()
            .and_then(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
    });
    opened.unwrap_or_else(|| {
        let open = waiting.into_inner();
        (open.expect("no thread has taken it"))()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_runs_once_in_another_thread() {
        let here = thread::current().id();
        let mut runs = 0;
        let there = run(|| {
            runs += 1;
            thread::current().id()
        });
        assert_ne!(here, there);
        assert_eq!(runs, 1);
    }
}
