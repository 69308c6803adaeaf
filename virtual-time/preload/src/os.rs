//! System calls that rustix does not have, without the C library: it may be this very one that is
//! called, and it changes `errno`.
#![expect(unsafe_code, reason = "system calls")]

use std::arch::asm;

/// Makes a system call; returns what the kernel says: a negative errno on failure.
///
/// # Safety
/// As the call demands.
#[inline]
pub unsafe fn system_call(number: libc::c_long, arguments: [usize; 3]) -> isize {
    let result: isize;
    let [first, second, third] = arguments;
    // SAFETY: by the contract.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") first,
            in("rsi") second,
            in("rdx") third,
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
    let arguments = [clock as usize, (&raw mut time).addr(), 0];
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
