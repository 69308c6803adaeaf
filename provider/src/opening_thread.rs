//! The thread in which a device is opened.
//!
//! A NIC of the model is a large value that is built of large values: bringing it up takes 60 KiB
//! of stack, four times as much as any other verb. Programs open devices in fibers with less, which
//! a kernel driver never notices. That the compiler builds each part in its final place is not
//! promised; so the device is opened in a thread that has the room and ends at once.

use std::panic::resume_unwind;
use std::thread;

use ferroce_platform::host::variable;
use ferroce_platform::os::faults;
use ferroce_platform::os::with_signals_blocked;
use ferroce_timed_client::WORLD_VARIABLE;
use parking_lot::Mutex;

const STACK_BYTES: usize = 512 << 10;

/// Runs `open` in a separate thread. In simulated time it runs in this one, as the world does not
/// see that a thread waits for another; so it does if there cannot be another one.
pub fn run<T: Send>(open: impl FnOnce() -> T + Send) -> T {
    if variable(WORLD_VARIABLE).is_some() {
        return open();
    }
    // Kept here, so that it is still there after a thread was refused.
    let waiting = Mutex::new(Some(open));
    let opened = thread::scope(|scope| {
        let builder = thread::Builder::new()
            .name("ferroce-open".to_owned())
            .stack_size(STACK_BYTES);
        // Signals are for the program's threads; faults of memory are this library's as well.
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
