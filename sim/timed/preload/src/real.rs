//! libc's functions that this library overrides.
//!
//! They are looked up at the first call. Code of this library calls these, or makes system calls
//! itself (`rustix`), because libc's names lead back here.

#![expect(unsafe_code, reason = "functions of libc, found by name")]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use libc::{
    clockid_t, epoll_event, fd_set, iovec, itimerspec, itimerval, msghdr, nfds_t, pollfd,
    pthread_cond_t, pthread_mutex_t, pthread_t, sem_t, sigevent, sigset_t, size_t, sockaddr,
    socklen_t, ssize_t, timespec, timeval,
};

use crate::next::Next;

/// `timer_t` of libc.
pub type TimerId = *mut c_void;

/// Sets `errno` and returns -1.
#[cold]
pub fn failed(errno: c_int) -> c_int {
    set_errno(errno);
    -1
}

/// Sets the value that [`errno`] returns.
pub fn set_errno(errno: c_int) {
    // SAFETY: `__errno_location` returns the valid address of the calling thread's variable.
    unsafe { *libc::__errno_location() = errno };
}

/// Does the same as [`failed`] for calls that return a number of bytes.
#[cold]
pub fn failed_size(errno: c_int) -> ssize_t {
    failed(errno) as ssize_t
}

/// Returns the error of the last call.
pub fn errno() -> c_int {
    // SAFETY: `__errno_location` returns the valid address of the calling thread's variable.
    unsafe { *libc::__errno_location() }
}

/// Returns a NUL-terminated name as a `CStr`.
const fn name(bytes: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(bytes.as_bytes()) {
        Ok(name) => name,
        Err(_) => c"",
    }
}

macro_rules! functions {
    ($(fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {$(
        /// Calls libc's function of this name.
        ///
        /// # Safety
        /// The contract of that function.
        #[inline]
        pub unsafe fn $name($($argument: $type),*) -> $result {
            type Function = unsafe extern "C" fn($($type),*) -> $result;
            const NAME: &CStr = name(concat!(stringify!($name), "\0"));
            static NEXT: Next = Next::new(NAME);
            let address = NEXT.address();
            if address.is_null() {
                return failed(libc::ENOSYS) as $result;
            }
            // SAFETY: libc's function of this name has this type, and the caller keeps its
            // contract.
            unsafe { std::mem::transmute::<*mut c_void, Function>(address)($($argument),*) }
        }
    )*};
}

functions! {
    fn connect(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int;
    fn sigaction(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int;
    fn pipe(ends: *mut c_int) -> c_int;
    fn pipe2(ends: *mut c_int, flags: c_int) -> c_int;
    fn socketpair(domain: c_int, kind: c_int, protocol: c_int, ends: *mut c_int) -> c_int;
    fn listen(fd: c_int, backlog: c_int) -> c_int;
    fn accept4(fd: c_int, address: *mut sockaddr, length: *mut socklen_t, flags: c_int) -> c_int;
    fn shutdown(fd: c_int, how: c_int) -> c_int;
    fn close(fd: c_int) -> c_int;
    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int;
    fn eventfd_write(fd: c_int, value: libc::eventfd_t) -> c_int;
    fn read(fd: c_int, buffer: *mut c_void, length: size_t) -> ssize_t;
    fn readv(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t;
    fn recv(fd: c_int, buffer: *mut c_void, length: size_t, flags: c_int) -> ssize_t;
    fn recvfrom(
        fd: c_int,
        buffer: *mut c_void,
        length: size_t,
        flags: c_int,
        address: *mut sockaddr,
        address_length: *mut socklen_t
    ) -> ssize_t;
    fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t;
    fn write(fd: c_int, buffer: *const c_void, length: size_t) -> ssize_t;
    fn writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t;
    fn send(fd: c_int, buffer: *const c_void, length: size_t, flags: c_int) -> ssize_t;
    fn sendto(
        fd: c_int,
        buffer: *const c_void,
        length: size_t,
        flags: c_int,
        address: *const sockaddr,
        address_length: socklen_t
    ) -> ssize_t;
    fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t;
    fn poll(descriptors: *mut pollfd, count: nfds_t, timeout_ms: c_int) -> c_int;
    fn ppoll(
        descriptors: *mut pollfd,
        count: nfds_t,
        timeout: *const timespec,
        mask: *const sigset_t
    ) -> c_int;
    fn select(
        count: c_int,
        read: *mut fd_set,
        write: *mut fd_set,
        except: *mut fd_set,
        timeout: *mut timeval
    ) -> c_int;
    fn pselect(
        count: c_int,
        read: *mut fd_set,
        write: *mut fd_set,
        except: *mut fd_set,
        timeout: *const timespec,
        mask: *const sigset_t
    ) -> c_int;
    fn epoll_wait(fd: c_int, events: *mut epoll_event, count: c_int, timeout_ms: c_int) -> c_int;
    fn epoll_pwait2(
        fd: c_int,
        events: *mut epoll_event,
        count: c_int,
        timeout: *const timespec,
        mask: *const sigset_t
    ) -> c_int;
    fn epoll_pwait(
        fd: c_int,
        events: *mut epoll_event,
        count: c_int,
        timeout_ms: c_int,
        mask: *const sigset_t
    ) -> c_int;
    fn sleep(seconds: c_uint) -> c_uint;
    fn usleep(microseconds: c_uint) -> c_int;
    fn clock_nanosleep(
        clock: clockid_t,
        flags: c_int,
        time: *const timespec,
        rest: *mut timespec
    ) -> c_int;
    fn alarm(seconds: c_uint) -> c_uint;
    fn setitimer(which: c_int, new: *const itimerval, old: *mut itimerval) -> c_int;
    fn getitimer(which: c_int, value: *mut itimerval) -> c_int;
    fn timer_create(clock: clockid_t, event: *mut sigevent, timer: *mut TimerId) -> c_int;
    fn timer_settime(
        timer: TimerId,
        flags: c_int,
        new: *const itimerspec,
        old: *mut itimerspec
    ) -> c_int;
    fn timer_gettime(timer: TimerId, value: *mut itimerspec) -> c_int;
    fn timer_getoverrun(timer: TimerId) -> c_int;
    fn timer_delete(timer: TimerId) -> c_int;
    fn timerfd_create(clock: clockid_t, flags: c_int) -> c_int;
    fn timerfd_settime(
        fd: c_int,
        flags: c_int,
        new: *const itimerspec,
        old: *mut itimerspec
    ) -> c_int;
    fn timerfd_gettime(fd: c_int, value: *mut itimerspec) -> c_int;
    fn sem_wait(semaphore: *mut sem_t) -> c_int;
    fn sem_clockwait(semaphore: *mut sem_t, clock: clockid_t, time: *const timespec) -> c_int;
    fn sem_post(semaphore: *mut sem_t) -> c_int;
    fn pthread_mutex_lock(mutex: *mut pthread_mutex_t) -> c_int;
    fn pthread_mutex_unlock(mutex: *mut pthread_mutex_t) -> c_int;
    fn pthread_cond_signal(condition: *mut pthread_cond_t) -> c_int;
    fn pthread_cond_broadcast(condition: *mut pthread_cond_t) -> c_int;
    fn pthread_spin_unlock(lock: *mut libc::pthread_spinlock_t) -> c_int;
    fn pthread_rwlock_unlock(rwlock: *mut libc::pthread_rwlock_t) -> c_int;
    fn pthread_rwlock_clockrdlock(
        rwlock: *mut libc::pthread_rwlock_t,
        clock: clockid_t,
        time: *const timespec
    ) -> c_int;
    fn pthread_rwlock_clockwrlock(
        rwlock: *mut libc::pthread_rwlock_t,
        clock: clockid_t,
        time: *const timespec
    ) -> c_int;
    fn pthread_mutex_clocklock(
        mutex: *mut pthread_mutex_t,
        clock: clockid_t,
        time: *const timespec
    ) -> c_int;
    fn posix_spawn(
        pid: *mut libc::pid_t,
        path: *const c_char,
        actions: *const c_void,
        attributes: *const c_void,
        arguments: *const *const c_char,
        environment: *const *const c_char
    ) -> c_int;
    fn posix_spawnp(
        pid: *mut libc::pid_t,
        file: *const c_char,
        actions: *const c_void,
        attributes: *const c_void,
        arguments: *const *const c_char,
        environment: *const *const c_char
    ) -> c_int;
    fn wait4(
        pid: libc::pid_t,
        status: *mut c_int,
        options: c_int,
        usage: *mut libc::rusage
    ) -> libc::pid_t;
    fn waitid(
        kind: libc::idtype_t,
        id: libc::id_t,
        information: *mut libc::siginfo_t,
        options: c_int
    ) -> c_int;
    fn system(command: *const c_char) -> c_int;
    fn pclose(file: *mut libc::FILE) -> c_int;
    fn sched_yield() -> c_int;
    fn pthread_spin_lock(lock: *mut libc::pthread_spinlock_t) -> c_int;
    fn pthread_spin_trylock(lock: *mut libc::pthread_spinlock_t) -> c_int;
    fn pthread_mutex_trylock(mutex: *mut pthread_mutex_t) -> c_int;
    fn pthread_rwlock_tryrdlock(rwlock: *mut libc::pthread_rwlock_t) -> c_int;
    fn pthread_rwlock_trywrlock(rwlock: *mut libc::pthread_rwlock_t) -> c_int;
    fn mtx_trylock(mutex: *mut c_void) -> c_int;
    fn sem_trywait(semaphore: *mut sem_t) -> c_int;
    fn pause() -> c_int;
    fn sigsuspend(mask: *const sigset_t) -> c_int;
    fn sigtimedwait(
        set: *const sigset_t,
        information: *mut libc::siginfo_t,
        time: *const timespec
    ) -> c_int;
    fn pthread_kill(thread: pthread_t, signal: c_int) -> c_int;
    fn pthread_sigqueue(thread: pthread_t, signal: c_int, value: *mut c_void) -> c_int;
    fn kill(process: libc::pid_t, signal: c_int) -> c_int;
    fn sigqueue(process: libc::pid_t, signal: c_int, value: *mut c_void) -> c_int;
    fn pthread_rwlock_rdlock(rwlock: *mut libc::pthread_rwlock_t) -> c_int;
    fn pthread_rwlock_wrlock(rwlock: *mut libc::pthread_rwlock_t) -> c_int;
    fn pthread_barrier_wait(barrier: *mut libc::pthread_barrier_t) -> c_int;
    fn pthread_cond_wait(condition: *mut pthread_cond_t, mutex: *mut pthread_mutex_t) -> c_int;
    fn pthread_cond_timedwait(
        condition: *mut pthread_cond_t,
        mutex: *mut pthread_mutex_t,
        time: *const timespec
    ) -> c_int;
    fn pthread_cond_clockwait(
        condition: *mut pthread_cond_t,
        mutex: *mut pthread_mutex_t,
        clock: clockid_t,
        time: *const timespec
    ) -> c_int;
    fn pthread_join(thread: pthread_t, result: *mut *mut c_void) -> c_int;
    fn __read_chk(fd: c_int, buffer: *mut c_void, length: size_t, room: size_t) -> ssize_t;
    fn __poll_chk(
        descriptors: *mut pollfd,
        count: nfds_t,
        timeout_ms: c_int,
        room: size_t
    ) -> c_int;
    fn __ppoll_chk(
        descriptors: *mut pollfd,
        count: nfds_t,
        timeout: *const timespec,
        mask: *const sigset_t,
        room: size_t
    ) -> c_int;
    fn __recv_chk(
        fd: c_int,
        buffer: *mut c_void,
        length: size_t,
        room: size_t,
        flags: c_int
    ) -> ssize_t;
}
