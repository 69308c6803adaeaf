//! Process limits that cause an errno.

use rustix::process::{Resource, getrlimit};

/// Address space that a device adds to a program, in MiB.
const DEVICE_MIB: u64 = 64;

/// Returns the exhausted resource and the remedy. `None`: the errno is clear enough, or no limit is
/// the cause.
pub fn advice(errno: i32) -> Option<String> {
    match errno {
        libc::EMFILE => Some(of_files(getrlimit(Resource::Nofile).current)),
        libc::ENFILE => Some(
            "the system has as many open files as sysctl fs.file-max allows; raise it, or end what \
             has them open"
                .to_owned(),
        ),
        libc::ENOMEM => Some(of_memory(getrlimit(Resource::As).current)),
        libc::ENOSYS | libc::EPERM => Some(
            "a sandbox perhaps forbids a system call that a device needs (memfd_create, eventfd2, \
             mmap); `strace -f` shows which; allow it"
                .to_owned(),
        ),
        libc::ENOSPC => Some(
            "the file system of the programs' directory is full; set FERROCE_DIR to a directory with \
             room"
                .to_owned(),
        ),
        _ => None,
    }
}

fn of_files(limit: Option<u64>) -> String {
    let limit = limit.map_or_else(|| "no limited number of".to_owned(), |n| n.to_string());
    format!("this process may have {limit} open files (RLIMIT_NOFILE); `ulimit -n` raises that")
}

fn of_memory(limit: Option<u64>) -> String {
    match limit {
        Some(bytes) => format!(
            "this process may have {} MiB of address space (RLIMIT_AS), of which a device takes up to \
             {DEVICE_MIB}; `ulimit -v` raises that",
            bytes >> 20
        ),
        None => "the machine, or this process's control group, has no memory left".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_named_with_their_values() {
        assert!(of_files(Some(7)).contains("7 open files (RLIMIT_NOFILE)"));
        assert!(of_memory(Some(40 << 20)).contains("40 MiB of address space (RLIMIT_AS)"));
        assert!(of_memory(None).contains("no memory left"));
        assert_eq!(advice(libc::EINVAL), None);
    }
}
