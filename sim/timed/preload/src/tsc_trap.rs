//! The trap of the time stamp counter, a setting of each thread.
//!
//! A new thread or program inherits the trap from the thread that starts it. Other programs cannot
//! handle it: see [`Disarmed`].
#![expect(unsafe_code, reason = "system calls")]

use libc::c_int;

use crate::os::system_call;

/// Gives the calling thread, and the threads that it starts, the world's counter.
pub fn arm() {
    set_mode(libc::PR_TSC_SIGSEGV);
}

/// Gives the calling thread the machine's counter.
pub fn disarm() {
    set_mode(libc::PR_TSC_ENABLE);
}

fn set_mode(mode: c_int) {
    let arguments = [libc::PR_SET_TSC as usize, mode as usize, 0, 0];
    // SAFETY: `PR_SET_TSC` takes no pointers and affects the calling thread. On failure the thread
    // keeps the machine's counter.
    unsafe { system_call(libc::SYS_prctl, arguments) };
}

fn is_armed() -> bool {
    let mut mode: c_int = 0;
    let arguments = [libc::PR_GET_TSC as usize, (&raw mut mode).addr(), 0, 0];
    // SAFETY: `PR_GET_TSC` writes one `int`; `mode` has room for it.
    unsafe { system_call(libc::SYS_prctl, arguments) };
    mode == libc::PR_TSC_SIGSEGV
}

/// While it lives, the calling thread and what it starts have the machine's counter.
#[derive(Debug)]
pub struct Disarmed {
    was_armed: bool,
}

impl Disarmed {
    /// Disarms the thread.
    pub fn new() -> Self {
        let was_armed = is_armed();
        if was_armed {
            disarm();
        }
        Self { was_armed }
    }
}

impl Drop for Disarmed {
    fn drop(&mut self) {
        if self.was_armed {
            arm();
        }
    }
}
