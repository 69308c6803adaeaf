//! The memory of a client's process, which this process opens itself.
//!
//! If a client sent a descriptor of its memory instead, any process that can connect to its socket
//! would get it. Here the kernel decides as for a debugger: the client must belong to the same
//! user, and must not have more rights than this process (ptrace(2), "Ptrace access mode
//! checking").

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;

use ferroce_linux::peer::{Peer, own_user};
use ferroce_vfio_user::ProcessMemory;

/// Reason why a client's memory is not opened.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// Root may open every process, and would do so for another user, who can name a process of a
    /// third one.
    #[error("the client is of user {client}, this server of user {server}")]
    OtherUser {
        /// User of the client.
        client: u32,
        /// User of this process.
        server: u32,
    },
    /// The process is not the client: the client is in another PID namespace, or has exited.
    #[error("process {0} is not the client: it is in another PID namespace")]
    OtherProcess(u32),
    /// The kernel does not permit it, or has no such process.
    #[error("cannot open the memory of process {process}: {source}")]
    Closed {
        /// The process.
        process: u32,
        /// The error of the system.
        source: io::Error,
    },
}

/// Opens the memory of the process at the other end of `connection`, if its claim is valid.
///
/// # Errors
/// Any [`Refusal`].
pub fn open(connection: BorrowedFd<'_>, claim: &ProcessMemory) -> Result<OwnedFd, Refusal> {
    let process = claim.process;
    let closed = |source| Refusal::Closed { process, source };
    let peer = Peer::of(connection).map_err(closed)?;
    if !peer.is_own_user() {
        return Err(Refusal::OtherUser {
            client: peer.user,
            server: own_user(),
        });
    }
    let path = format!("/proc/{process}/mem");
    let file = OpenOptions::new().read(true).write(true).open(path);
    let file = file.map_err(closed)?;
    // The file stays that process's memory even if the PID is reused later.
    if holds_token(&file, claim) {
        Ok(file.into())
    } else {
        Err(Refusal::OtherProcess(process))
    }
}

fn holds_token(file: &File, claim: &ProcessMemory) -> bool {
    let [mut first, mut second] = [[0; 8]; 2];
    let behind = claim.address.checked_add(8);
    behind.is_some_and(|behind| {
        file.read_exact_at(&mut first, claim.address).is_ok()
            && file.read_exact_at(&mut second, behind).is_ok()
            && [first, second].map(u64::from_ne_bytes) == claim.token
    })
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_process_is_known_by_what_it_has_in_its_memory() {
        let (one, _other) = UnixStream::pair().expect("sockets");
        let token = Box::new([0x1234_5678_9abc_def0_u64, 42]);
        let right = ProcessMemory {
            process: std::process::id(),
            address: std::ptr::from_ref(&*token).addr() as u64,
            token: *token,
        };
        let memory = File::from(open(one.as_fd(), &right).expect("this process"));
        let mut found = [0; 8];
        memory
            .read_exact_at(&mut found, right.address + 8)
            .expect("there");
        assert_eq!(u64::from_ne_bytes(found), 42);
        let wrong = [
            ProcessMemory {
                token: [1, 42],
                ..right
            },
            ProcessMemory {
                address: right.address + 8,
                ..right
            },
            ProcessMemory {
                address: u64::MAX - 3,
                ..right
            },
            ProcessMemory {
                process: std::os::unix::process::parent_id(),
                ..right
            },
            ProcessMemory {
                process: u32::MAX,
                ..right
            },
        ];
        for claim in wrong {
            assert!(open(one.as_fd(), &claim).is_err(), "{claim:?}");
        }
    }
}
