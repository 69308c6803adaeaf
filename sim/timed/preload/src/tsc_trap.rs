//! The trap of the time stamp counter, which each thread has or has not.
//!
//! Threads and programs inherit the trap from the thread that starts them, other programs included,
//! which cannot handle it: [`Disarmed`].
#![expect(unsafe_code, reason = "system calls")]

use libc::c_int;

use crate::os::system_call;

/// Gives the calling thread, and those that it starts, the counter of the world.
pub fn arm() {
    set_mode(libc::PR_TSC_SIGSEGV);
}

/// Gives the calling thread the counter of the machine.
pub fn disarm() {
    set_mode(libc::PR_TSC_ENABLE);
}

fn set_mode(mode: c_int) {
    let arguments = [libc::PR_SET_TSC as usize, mode as usize, 0, 0];
    // SAFETY: `PR_SET_TSC` takes no pointers and affects the calling thread. On failure the counter
    // stays that of the machine.
    unsafe { system_call(libc::SYS_prctl, arguments) };
}

fn is_armed() -> bool {
    let mut mode: c_int = 0;
    let arguments = [libc::PR_GET_TSC as usize, (&raw mut mode).addr(), 0, 0];
    // SAFETY: `PR_GET_TSC` writes one `int`; `mode` has room for it.
    unsafe { system_call(libc::SYS_prctl, arguments) };
    mode == libc::PR_TSC_SIGSEGV
}

/// While it lives, the calling thread and what it starts have the counter of the machine.
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
