//! Limit of memory that this process may pin: RLIMIT_MEMLOCK, unless it has CAP_IPC_LOCK.

/// Number of CAP_IPC_LOCK in the sets of capabilities (linux/capability.h).
const CAP_IPC_LOCK: u32 = 14;

/// Returns the number of bytes that this process may pin. `None`: no limit.
pub(super) fn limit() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    if has_ipc_lock(&status) {
        return None;
    }
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the kernel writes the structure, which outlives the call.
    let result = unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut limit) };
    (result == 0 && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

/// Returns true if the effective capabilities in the text of /proc/PID/status have CAP_IPC_LOCK.
fn has_ipc_lock(status: &str) -> bool {
    status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|set| u64::from_str_radix(set.trim(), 16).ok())
        .is_some_and(|set| set >> CAP_IPC_LOCK & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_capability_is_read_from_the_effective_set() {
        assert!(has_ipc_lock("CapPrm:\t0\nCapEff:\t000001ffffffffff\n"));
        assert!(has_ipc_lock("CapEff:\t0000000000004000\n"));
        assert!(!has_ipc_lock(
            "CapPrm:\t0000000000004000\nCapEff:\t0000000000003000\n"
        ));
        assert!(!has_ipc_lock("CapEff:\tnothing\n") && !has_ipc_lock(""));
    }
}
