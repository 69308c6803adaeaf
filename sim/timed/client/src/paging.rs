//! The kernel's part in page faults of on-demand regions: a thread of the program that sleeps until
//! interrupts, and so runs their handlers when all other threads wait for something else.

use std::sync::Once;
use std::thread::Builder;

use ferroce_linux::eventfds::with_signals_blocked;
use ferroce_timed_protocol::request::Wait;

use crate::library::Library;

/// Starts the thread, once in a process. It ends with the world.
pub(crate) fn start(library: Library) {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        let sleep = move || {
            while !library.has_ended() {
                library.wait(&Wait::OnInterrupt { wake_up_ps: 0 });
            }
        };
        let thread = Builder::new().name("ferroce-paging".to_owned());
        if let Err(error) = with_signals_blocked(|| thread.spawn(sleep)) {
            tracing::warn!(%error, "page faults wait until the program calls verbs");
        }
    });
}
