//! Finds threads of this process that wait in poll(2), epoll(7) or select(2) for a descriptor, in
//! the files of /proc.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;

/// Elements of `struct pollfd` that are looked at.
const MAX_POLLED: u64 = 1024;
/// Bytes of `struct pollfd`; the descriptor is its first member.
const POLLFD_BYTES: usize = 8;
/// Bytes of `fd_set`.
const FD_SET_BYTES: u64 = 128;

/// A system call in which a thread waits.
struct Call {
    number: i64,
    arguments: [u64; 6],
}

/// Returns true if a thread waits for this descriptor in another call than read(2). False also if
/// the kernel does not show the calls of threads.
pub fn wait_for(fd: i32) -> bool {
    let Ok(tasks) = fs::read_dir("/proc/self/task") else {
        return false;
    };
    let calls = tasks
        .flatten()
        .filter_map(|task| parse(&fs::read_to_string(task.path().join("syscall")).ok()?));
    calls.into_iter().any(|call| waits_for(&call, fd))
}

/// Parses a line of /proc/PID/task/TID/syscall: number and arguments, then stack pointer and
/// program counter. A running thread has another text.
fn parse(line: &str) -> Option<Call> {
    let mut words = line.split_whitespace();
    let number = words.next()?.parse().ok()?;
    let mut arguments = [0; 6];
    for argument in &mut arguments {
        *argument = u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok()?;
    }
    Some(Call { number, arguments })
}

fn waits_for(call: &Call, fd: i32) -> bool {
    let [first, second, ..] = call.arguments;
    if POLLS.contains(&call.number) {
        let count = second.min(MAX_POLLED) as usize;
        let polled = memory(first, count * POLLFD_BYTES).unwrap_or_default();
        return polled
            .chunks_exact(POLLFD_BYTES)
            .any(|one| one[..4] == fd.to_ne_bytes());
    }
    if EPOLLS.contains(&call.number) {
        let path = format!("/proc/self/fdinfo/{first}");
        let text = fs::read_to_string(path).unwrap_or_default();
        return text.lines().any(|line| {
            let watched = line.strip_prefix("tfd:");
            let watched = watched.and_then(|rest| rest.split_whitespace().next());
            watched.is_some_and(|watched| watched.parse() == Ok(fd))
        });
    }
    if SELECTS.contains(&call.number) {
        let bytes = first.div_ceil(8).min(FD_SET_BYTES) as usize;
        let set = memory(second, bytes).unwrap_or_default();
        let Ok(fd) = usize::try_from(fd) else {
            return false;
        };
        return set
            .get(fd / 8)
            .is_some_and(|byte| byte & (1 << (fd % 8)) != 0);
    }
    false
}

/// Returns a copy of memory of this process, which may be unmapped meanwhile.
fn memory(address: u64, bytes: usize) -> Option<Vec<u8>> {
    let mut copy = vec![0; bytes];
    let file = File::open("/proc/self/mem").ok()?;
    file.read_exact_at(&mut copy, address).ok()?;
    Some(copy)
}

#[cfg(target_arch = "x86_64")]
const POLLS: &[i64] = &[libc::SYS_poll, libc::SYS_ppoll];
#[cfg(not(target_arch = "x86_64"))]
const POLLS: &[i64] = &[libc::SYS_ppoll];
#[cfg(target_arch = "x86_64")]
const EPOLLS: &[i64] = &[
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
];
#[cfg(not(target_arch = "x86_64"))]
const EPOLLS: &[i64] = &[libc::SYS_epoll_pwait, libc::SYS_epoll_pwait2];
#[cfg(target_arch = "x86_64")]
const SELECTS: &[i64] = &[libc::SYS_select, libc::SYS_pselect6];
#[cfg(not(target_arch = "x86_64"))]
const SELECTS: &[i64] = &[libc::SYS_pselect6];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_parsed_and_running_threads_are_none() {
        let call = parse("7 0x7ffe 0x2 0xffffffff 0x0 0x0 0x0 0x7ffd 0x7f00\n").expect("a call");
        assert_eq!((call.number, call.arguments[1]), (7, 2));
        assert!(parse("running\n").is_none());
    }

    #[test]
    fn polled_descriptors_are_read_from_memory() {
        let polled = [[5_i32, 1], [9, 1]];
        let call = Call {
            number: libc::SYS_ppoll,
            arguments: [polled.as_ptr().expose_provenance() as u64, 2, 0, 0, 0, 0],
        };
        assert!(waits_for(&call, 9));
        assert!(!waits_for(&call, 1));
        let set = [0_u8, 0b10];
        let call = Call {
            number: libc::SYS_pselect6,
            arguments: [16, set.as_ptr().expose_provenance() as u64, 0, 0, 0, 0],
        };
        assert!(waits_for(&call, 9));
        assert!(!waits_for(&call, 8));
    }
}
