//! System calls that rustix does not have, without the C library: it may be this very one that is
//! called, and it changes `errno`.
#![expect(unsafe_code, reason = "system calls")]

use std::arch::asm;

/// Makes a system call; returns what the kernel says: a negative errno on failure.
///
/// # Safety
/// As the call demands.
#[inline]
pub unsafe fn system_call(number: libc::c_long, arguments: [usize; 4]) -> isize {
    let result: isize;
    let [first, second, third, fourth] = arguments;
    // SAFETY: by the contract.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") first,
            in("rsi") second,
            in("rdx") third,
            in("r10") fourth,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    // SAFETY: by the contract.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") first => result,
            in("x1") second,
            in("x2") third,
            in("x3") fourth,
            options(nostack),
        );
    }
    result
}

/// What a clock of the machine says. The error is an errno.
pub fn clock_gettime(clock: libc::clockid_t) -> Result<libc::timespec, i32> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let arguments = [clock as usize, (&raw mut time).addr(), 0, 0];
    // SAFETY: writes `time`.
    match unsafe { system_call(libc::SYS_clock_gettime, arguments) } {
        0 => Ok(time),
        error => Err(-error as i32),
    }
}

/// Sets `errno`.
pub fn set_errno(errno: i32) {
    // SAFETY: the address is that of the thread's variable.
    unsafe { *libc::__errno_location() = errno };
}

/// Runs something that may change `errno`, which is then as before.
pub fn keeping_errno<T>(run: impl FnOnce() -> T) -> T {
    // SAFETY: the address is that of the thread's variable.
    let before = unsafe { *libc::__errno_location() };
    let result = run();
    set_errno(before);
    result
}

/// As long as it lives no signal interrupts the calling thread.
#[derive(Debug)]
pub struct SignalsBlocked {
    /// The signals that were blocked before, as the kernel has them.
    before: u64,
}

impl SignalsBlocked {
    /// Blocks all.
    pub fn new() -> Self {
        let mut blocked = Self { before: 0 };
        let all = u64::MAX;
        set_mask(&all, &mut blocked.before);
        blocked
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        set_mask(&self.before, &mut 0);
    }
}

fn set_mask(new: &u64, before: &mut u64) {
    let arguments = [
        libc::SIG_SETMASK as usize,
        std::ptr::from_ref(new).addr(),
        std::ptr::from_mut(before).addr(),
        size_of::<u64>(),
    ];
    // SAFETY: concerns the calling thread; reads and writes the two.
    unsafe { system_call(libc::SYS_rt_sigprocmask, arguments) };
}
