//! The control socket: how programs and their threads join a world.
//!
//! The socket is a Unix socket of type `SOCK_SEQPACKET`; each message is [`Message::LENGTH`] bytes.
//! A program sends [`Message::Join`] and receives [`Message::Joined`] with the file of its pages as
//! a descriptor. It sends [`Message::Thread`] for each thread, receives [`Message::ThreadNumber`],
//! and the thread waits on its page. The end of the connection is the end of the program, unless
//! the process lives on and joins again: it has executed another program. The vfio-user socket of
//! the host's card is beside this one: [`card_socket`].
//!
//! A process whose parent is in the world joins on the parent's host. Any number of processes can
//! be on a host; one of them at a time has its card ([`Message::Card`]).

use std::path::{Path, PathBuf};

use crate::host_name::HostName;

/// A message of the control socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message {
    /// A program asks for a host.
    Join {
        /// [`crate::VERSION`].
        version: u32,
        /// The host that it wants. `None`: its parent's, or the first free one.
        host: Option<HostName>,
        /// Which programs may join.
        admission: Admission,
    },
    /// The program asks for the card of its host; the answer is [`Message::Found`] or
    /// [`Message::Refused`].
    Card,
    /// A launcher asks whether a host is free; it does not get the host.
    Find {
        /// [`crate::VERSION`].
        version: u32,
        /// The host. `None`: the first free one.
        host: Option<HostName>,
    },
    /// The host is free.
    Found {
        /// Its number.
        host: u32,
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
    /// A thread outside of the world wakes the threads of its program that wait for an address; the
    /// answer is the same message.
    Wake {
        /// The address.
        address: u64,
    },
    /// A thread outside of the world has done something for which threads of its program may wait
    /// that wait for events; the answer is the same message.
    Notify,
    /// The thread has a page.
    ThreadNumber {
        /// The number of the page.
        number: u32,
    },
}

/// Which programs may join.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// All for which there is a host.
    Any,
    /// Those that belong to the world already: a parent is in it, or the same process was before it
    /// has executed another program.
    Members,
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
    /// The world has no such host.
    #[error("there is no such host: the world has {}", hosts_text(*hosts))]
    NoSuchHost {
        /// Hosts of the world.
        hosts: u32,
    },
    /// The host has no such function.
    #[error("there is no such function: the card of this host has {}", functions_text(*functions))]
    NoSuchFunction {
        /// Functions of the host's card.
        functions: u32,
    },
    /// The host, or the function, has a program.
    #[error("process {pid} is on it")]
    Taken {
        /// Process ID of a program on it.
        pid: u32,
    },
    /// The program is no member of the world, and does not ask for a host.
    #[error("neither its parent nor an earlier program of its process is in the world")]
    NoMember,
    /// No page is free.
    #[error("the program has too many threads")]
    NoThread,
}

impl Refusal {
    /// Returns the number of the reason, and its detail.
    pub fn to_words(self) -> [u32; 2] {
        match self {
            Self::Version => [0, 0],
            Self::NoHost => [1, 0],
            Self::NoThread => [2, 0],
            Self::NoSuchHost { hosts } => [3, hosts],
            Self::NoSuchFunction { functions } => [4, functions],
            Self::Taken { pid } => [5, pid],
            Self::NoMember => [6, 0],
        }
    }

    /// Returns the reason with this number. `None`: there is no such reason.
    pub fn of_words([number, detail]: [u32; 2]) -> Option<Self> {
        Some(match number {
            0 => Self::Version,
            1 => Self::NoHost,
            2 => Self::NoThread,
            3 => Self::NoSuchHost { hosts: detail },
            4 => Self::NoSuchFunction { functions: detail },
            5 => Self::Taken { pid: detail },
            6 => Self::NoMember,
            _ => return None,
        })
    }
}

fn hosts_text(hosts: u32) -> String {
    match hosts {
        0 | 1 => "only n0".to_owned(),
        hosts => format!("n0 to n{}", hosts - 1),
    }
}

fn functions_text(functions: u32) -> String {
    match functions {
        0 | 1 => "only one, without a number".to_owned(),
        functions => format!("0 to {}", functions - 1),
    }
}

impl Message {
    /// Length of a message in bytes.
    pub const LENGTH: usize = 16;

    /// Encodes the message.
    pub fn to_bytes(self) -> [u8; Self::LENGTH] {
        let words: [u32; 4] = match self {
            Self::Join {
                version,
                host,
                admission,
            } => {
                let is_any = u32::from(admission == Admission::Any);
                [1, version, is_any, HostName::to_word(host)]
            }
            Self::Joined { host } => [2, host, 0, 0],
            Self::Refused { reason } => {
                let [reason, detail] = reason.to_words();
                [3, reason, detail, 0]
            }
            Self::Thread { tid } => [4, tid, 0, 0],
            Self::ThreadNumber { number } => [5, number, 0, 0],
            Self::Find { version, host } => [6, version, 0, HostName::to_word(host)],
            Self::Found { host } => [7, host, 0, 0],
            Self::Wake { address } => [8, address as u32, (address >> 32) as u32, 0],
            Self::Notify => [9, 0, 0, 0],
            Self::Card => [10, 0, 0, 0],
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
                host: HostName::of_word(word(3)).ok()?,
                admission: match word(2) {
                    0 => Admission::Members,
                    1 => Admission::Any,
                    _ => return None,
                },
            },
            2 => Self::Joined { host: word(1) },
            3 => Self::Refused {
                reason: Refusal::of_words([word(1), word(2)])?,
            },
            4 => Self::Thread { tid: word(1) },
            5 => Self::ThreadNumber { number: word(1) },
            6 => Self::Find {
                version: word(1),
                host: HostName::of_word(word(3)).ok()?,
            },
            7 => Self::Found { host: word(1) },
            8 => Self::Wake {
                address: u64::from(word(2)) << 32 | u64::from(word(1)),
            },
            9 => Self::Notify,
            10 => Self::Card,
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
        let refused = [
            Refusal::Version,
            Refusal::NoHost,
            Refusal::NoThread,
            Refusal::NoSuchHost { hosts: 9 },
            Refusal::NoSuchFunction { functions: 8 },
            Refusal::Taken { pid: 4711 },
            Refusal::NoMember,
        ];
        let refused = refused.map(|reason| Message::Refused { reason });
        let host = "n8.3".parse().ok();
        let others = [
            Message::Join {
                version: 1,
                host,
                admission: Admission::Any,
            },
            Message::Join {
                version: 1,
                host: None,
                admission: Admission::Members,
            },
            Message::Card,
            Message::Find {
                version: 1,
                host: None,
            },
            Message::Found { host: 11 },
            Message::Joined { host: 3 },
            Message::Thread { tid: 78 },
            Message::ThreadNumber { number: 63 },
            Message::Notify,
            Message::Wake {
                address: 0x7fff_1234_5678,
            },
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
