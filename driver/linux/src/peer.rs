//! Credentials of the peer of a UNIX socket.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// The process at the other end, as the kernel recorded it when that process connected or began to
/// listen (unix(7), `SO_PEERCRED`). A process cannot claim another user's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Its ID in this process's PID namespace. `None`: it is in another namespace.
    pub process: Option<u32>,
    /// Its effective user ID.
    pub user: u32,
}

impl Peer {
    /// Returns the peer of a connected socket.
    ///
    /// # Errors
    /// The socket is not a UNIX socket.
    pub fn of(socket: impl AsFd) -> io::Result<Self> {
        let mut credentials = libc::ucred {
            pid: 0,
            uid: 0,
            gid: 0,
        };
        let mut length = size_of::<libc::ucred>() as libc::socklen_t;
        // SAFETY: the kernel writes at most `length` bytes to `credentials`, a structure that is
        // valid for any content.
        let result = unsafe {
            libc::getsockopt(
                socket.as_fd().as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERCRED,
                (&raw mut credentials).cast(),
                &raw mut length,
            )
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        // A closed socket pair, or not a UNIX socket: the kernel returns user -1.
        Ok(Self {
            process: u32::try_from(credentials.pid).ok().filter(|pid| *pid != 0),
            user: credentials.uid,
        })
    }

    /// Returns true if the peer runs as the user of this process.
    pub fn is_own_user(&self) -> bool {
        self.user == own_user()
    }

    /// Returns true if the peer may receive the data that this process gives to a server: it runs
    /// as the same user, or as root, which can read that data anyway.
    pub fn is_trusted(&self) -> bool {
        self.is_own_user() || self.user == ROOT
    }
}

const ROOT: u32 = 0;

/// Returns the effective user of this process.
pub fn own_user() -> u32 {
    // SAFETY: geteuid always succeeds.
    unsafe { libc::geteuid() }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_socket_pair_is_ones_own() {
        let (one, _other) = UnixStream::pair().expect("sockets");
        let peer = Peer::of(&one).expect("a UNIX socket");
        assert_eq!(peer.process, Some(std::process::id()));
        assert!(peer.is_own_user() && peer.is_trusted());
    }

    #[test]
    fn another_user_is_not_trusted() {
        let of_user = |user| Peer {
            process: None,
            user,
        };
        let other = of_user(own_user().wrapping_add(1));
        assert!(!other.is_own_user());
        assert!(of_user(ROOT).is_trusted());
        assert!(!of_user(u32::MAX).is_trusted(), "an unknown user");
    }
}
