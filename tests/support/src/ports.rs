//! TCP ports of programs under test.

use std::fs::{self, File};
use std::net::TcpListener;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::sync::Mutex;

use crate::{Process, TIMEOUT, eventually};

/// Ports that test programs listen on. All are below the range from which Linux takes the local
/// port of an outgoing connection: `net.ipv4.ip_local_port_range` begins at 32,768.
const PORTS: Range<u16> = 10_000..32_768;

/// The leases of this process. A lease is a lock, so it always ends with the process.
static LEASES: Mutex<Vec<File>> = Mutex::new(Vec::new());

/// Returns a TCP port that is free now, and that no other test gets until this process ends.
///
/// Test programs run in parallel: without a lease, another test could take a free port between this
/// call and the program's `bind`.
pub fn free_port() -> u16 {
    let directory = std::env::temp_dir().join(format!("ferroce-test-ports-{}", user_id()));
    fs::create_dir_all(&directory).expect("the directory for temporary files can be written");
    // Each process begins at a different port, because a port that was just closed may be in
    // TIME_WAIT.
    let first = std::process::id() as usize * 64 % PORTS.len();
    let mut ports = PORTS.cycle().skip(first).take(PORTS.len());
    let port = ports.find(|port| {
        let lease = File::create(directory.join(port.to_string()));
        lease.is_ok_and(|lease| lock(lease) && is_free(*port))
    });
    port.expect("one of 22,768 ports is free")
}

/// Returns true if no other test has the lease; this process keeps it then.
fn lock(lease: File) -> bool {
    let is_ours = lease.try_lock().is_ok();
    if is_ours {
        let mut leases = LEASES.lock().expect("no panic while the list is held");
        leases.push(lease);
    }
    is_ours
}

/// Returns true if a program could listen on `port` of IPv4 and IPv6.
fn is_free(port: u16) -> bool {
    let of_both = TcpListener::bind(("::", port));
    of_both
        .or_else(|_| TcpListener::bind(("127.0.0.1", port)))
        .is_ok()
}

fn user_id() -> u32 {
    let process = fs::metadata("/proc/self");
    process.expect("Linux has /proc").uid()
}

/// Returns true if a process listens on `port`. Does not connect, because the server would take
/// this for its client.
pub fn is_listening(port: u16) -> bool {
    let wanted = format!(":{port:04X} ");
    ["/proc/net/tcp", "/proc/net/tcp6"].iter().any(|table| {
        let table = fs::read_to_string(table).unwrap_or_default();
        // Fields: index, local address, remote address, state (0A: LISTEN).
        table
            .lines()
            .any(|line| line.contains(&wanted) && line.contains(" 0A "))
    })
}

/// Waits until a process listens on `port`, without connecting to it, or until `server` has ended;
/// in that case the client's error is more useful.
pub fn wait_until_listening(port: u16, server: &mut Process) {
    eventually("the server listens", TIMEOUT, || {
        is_listening(port) || !server.is_running()
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_port_is_handed_out_twice() {
        let ports: BTreeSet<u16> = (0..50).map(|_| free_port()).collect();
        assert_eq!(ports.len(), 50);
        assert!(ports.iter().all(|port| PORTS.contains(port)), "{ports:?}");
    }

    /// A lock belongs to the open file, so this also represents another process.
    #[test]
    fn a_leased_port_is_passed_over() {
        let port = free_port();
        let directory = std::env::temp_dir().join(format!("ferroce-test-ports-{}", user_id()));
        let lease = File::open(directory.join(port.to_string())).expect("its lease");
        assert!(!lock(lease));
    }
}
