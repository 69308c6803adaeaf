//! System calls that rustix does not have. They do not use the C library, because this library may
//! override its function, and because it changes `errno`.
#![expect(unsafe_code, reason = "system calls")]

use std::arch::asm;

/// Makes a system call. Returns the kernel's result: a negative errno on failure.
///
/// # Safety
/// The contract of the call.
#[inline]
pub unsafe fn system_call<const N: usize>(number: libc::c_long, arguments: [usize; N]) -> isize {
    const { assert!(N <= 6, "the kernel takes six arguments") };
    let argument = |place: usize| arguments.get(place).copied().unwrap_or(0);
    let [first, second, third, fourth, fifth, sixth] = [0, 1, 2, 3, 4, 5].map(argument);
    let result: isize;
    // SAFETY: the caller keeps the contract of the call. The instruction changes only the listed
    // registers and memory that the call writes.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") first,
            in("rsi") second,
            in("rdx") third,
            in("r10") fourth,
            in("r8") fifth,
            in("r9") sixth,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    // SAFETY: the caller keeps the contract of the call. The instruction changes only the listed
    // registers and memory that the call writes.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") first => result,
            in("x1") second,
            in("x2") third,
            in("x3") fourth,
            in("x4") fifth,
            in("x5") sixth,
            options(nostack),
        );
    }
    result
}

/// Reads a clock of the machine. The error is an errno.
pub fn clock_gettime(clock: libc::clockid_t) -> Result<libc::timespec, i32> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let arguments = [clock as usize, (&raw mut time).addr(), 0, 0];
    // SAFETY: `clock_gettime` writes one `timespec`; `time` has room for it.
    match unsafe { system_call(libc::SYS_clock_gettime, arguments) } {
        0 => Ok(time),
        error => Err(-error as i32),
    }
}

/// Returns a monotonic time of the machine.
pub fn real_ns() -> u64 {
    const NS_PER_S: u64 = 1_000_000_000;
    let time = clock_gettime(libc::CLOCK_MONOTONIC);
    time.map_or(0, |time| {
        time.tv_sec as u64 * NS_PER_S + time.tv_nsec as u64
    })
}

/// Sets `errno`.
pub fn set_errno(errno: i32) {
    // SAFETY: `__errno_location` returns the valid address of the calling thread's variable.
    unsafe { *libc::__errno_location() = errno };
}

/// Runs `run` and restores `errno` afterwards.
pub fn keeping_errno<T>(run: impl FnOnce() -> T) -> T {
    // SAFETY: `__errno_location` returns the valid address of the calling thread's variable.
    let before = unsafe { *libc::__errno_location() };
    let result = run();
    set_errno(before);
    result
}

/// Blocks signals of the calling thread while it lives.
#[derive(Debug)]
pub struct SignalsBlocked {
    /// The signals that were blocked before, as the kernel has them.
    before: u64,
}

impl SignalsBlocked {
    /// Blocks all signals.
    pub fn new() -> Self {
        Self::also(u64::MAX)
    }

    /// Blocks the signals of this set, of the kernel's form, too.
    pub fn also(set: u64) -> Self {
        let mut blocked = Self { before: 0 };
        change_mask(libc::SIG_BLOCK, set, &mut blocked.before);
        blocked
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        change_mask(libc::SIG_SETMASK, self.before, &mut 0);
    }
}

fn change_mask(how: libc::c_int, set: u64, before: &mut u64) {
    let arguments = [
        how as usize,
        (&raw const set).addr(),
        std::ptr::from_mut(before).addr(),
        size_of::<u64>(),
    ];
    // SAFETY: `rt_sigprocmask` changes the mask of the calling thread, and reads and writes eight
    // bytes at the two locals.
    unsafe { system_call(libc::SYS_rt_sigprocmask, arguments) };
}
