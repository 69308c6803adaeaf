//! The control socket: how programs and their threads join a world.
//!
//! The socket is a Unix socket of type `SOCK_SEQPACKET`; each message is [`Message::LENGTH`] bytes.
//! A program sends [`Message::Join`] and receives [`Message::Joined`] with the file of its pages as
//! a descriptor. It sends [`Message::Thread`] for each thread, receives [`Message::ThreadNumber`],
//! and the thread waits on its page. The end of the connection is the end of the program. The
//! vfio-user socket of the host's card is beside this one: [`card_socket`].

use std::path::{Path, PathBuf};

/// A message of the control socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message {
    /// A program asks for a host.
    Join {
        /// [`crate::VERSION`].
        version: u32,
        /// Process ID of the program.
        pid: u32,
    },
    /// The program has a host; the descriptor of its pages is attached.
    Joined {
        /// The number of the host.
        host: u32,
    },
    /// The program or the thread cannot join.
    Refused {
        /// The reason.
        reason: Refusal,
    },
    /// A thread of the program joins.
    Thread {
        /// Thread ID in the kernel.
        tid: u32,
    },
    /// The thread has a page.
    ThreadNumber {
        /// The number of the page.
        number: u32,
    },
}

/// Reason why a program or a thread cannot join.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The program is of another version of Ferroce.
    #[error("the world is of another version of Ferroce")]
    Version,
    /// Every host has a program.
    #[error("every host of the world has a program already")]
    NoHost,
    /// No page is free.
    #[error("the program has too many threads")]
    NoThread,
}

impl Message {
    /// Length of a message in bytes.
    pub const LENGTH: usize = 12;

    /// Encodes the message.
    pub fn to_bytes(self) -> [u8; Self::LENGTH] {
        let words: [u32; 3] = match self {
            Self::Join { version, pid } => [1, version, pid],
            Self::Joined { host } => [2, host, 0],
            Self::Refused { reason } => [3, reason as u32, 0],
            Self::Thread { tid } => [4, tid, 0],
            Self::ThreadNumber { number } => [5, number, 0],
        };
        let mut bytes = [0; Self::LENGTH];
        for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Decodes a message. Returns `None` for bytes that are not a message.
    pub fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: [u8; Self::LENGTH] = bytes.try_into().ok()?;
        let word = |place: usize| {
            let [a, b, c, d] = [0, 1, 2, 3].map(|offset| bytes[4 * place + offset]);
            u32::from_le_bytes([a, b, c, d])
        };
        Some(match word(0) {
            1 => Self::Join {
                version: word(1),
                pid: word(2),
            },
            2 => Self::Joined { host: word(1) },
            3 => Self::Refused {
                reason: match word(1) {
                    0 => Refusal::Version,
                    1 => Refusal::NoHost,
                    2 => Refusal::NoThread,
                    _ => return None,
                },
            },
            4 => Self::Thread { tid: word(1) },
            5 => Self::ThreadNumber { number: word(1) },
            _ => return None,
        })
    }
}

/// Returns the path of the vfio-user socket of a host's card, beside the control socket.
pub fn card_socket(control: &Path, host: u32) -> PathBuf {
    let mut name = control.as_os_str().to_owned();
    name.push(format!(".nic.{host}"));
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_as_they_were_sent() {
        let refused = [Refusal::Version, Refusal::NoHost, Refusal::NoThread];
        let refused = refused.map(|reason| Message::Refused { reason });
        let others = [
            Message::Join {
                version: 1,
                pid: 77,
            },
            Message::Joined { host: 3 },
            Message::Thread { tid: 78 },
            Message::ThreadNumber { number: 63 },
        ];
        for message in others.into_iter().chain(refused) {
            assert_eq!(Message::of_bytes(&message.to_bytes()), Some(message));
        }
    }

    #[test]
    fn invalid_bytes_are_no_message() {
        assert_eq!(Message::of_bytes(&[0; Message::LENGTH]), None);
        assert_eq!(Message::of_bytes(&[1; Message::LENGTH - 1]), None);
        let mut bytes = Message::Refused {
            reason: Refusal::NoHost,
        }
        .to_bytes();
        bytes[4] = 9;
        assert_eq!(Message::of_bytes(&bytes), None);
    }
}
