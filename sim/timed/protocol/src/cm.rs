//! Commands of RDMA CM, from a program to the agent of its host.
//!
//! The agent, which lives in the world, has the role of the kernel on a real host. A thread writes
//! the bytes of a command to the [`CmMessage`] of its page and waits for
//! [`crate::request::Wait::Cm`]; the reply is in the same place. Events of a channel arrive later:
//! the world counts them in [`crate::page::ProgramPage::cm_events`], and sets [`INTERRUPT`] in the
//! interrupts of the next turn.

use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum number of open channels of a program.
pub const MAX_CHANNELS: usize = 1024;
/// Maximum length of a message: a command with its option, or a reply with its address.
pub const MAX_MESSAGE: usize = 8192;
/// The interrupt bit of RDMA CM: events of channels have arrived. No card has that many vectors.
pub const INTERRUPT: u64 = 1 << 63;

/// Bytes of the address in front of a reply.
pub const ADDRESS_LENGTH: usize = 8;

/// A call of the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CmCall {
    /// Opens a channel. The answer is its number.
    Open,
    /// Closes a channel.
    Close {
        /// The channel.
        channel: u32,
    },
    /// Executes a command. The answer is the length of the message with the reply.
    Command {
        /// The channel.
        channel: u32,
        /// Bytes of the command, at the beginning of the message.
        length: u32,
        /// Bytes of the option after it.
        option_length: u32,
    },
    /// Executes MIGRATE_ID. The answer is as for a command.
    Migrate {
        /// The channel.
        channel: u32,
        /// Bytes of the command, at the beginning of the message.
        length: u32,
        /// The channel of the descriptor that the command names, or the errno of the lookup.
        source: Result<u32, u32>,
    },
}

/// Marks a source or an answer that is an errno.
const FAILED: u64 = 1 << 63;

impl CmCall {
    /// Encodes the call.
    pub fn to_words(self) -> [u64; 4] {
        let lengths = |length: u32, option: u32| u64::from(length) | u64::from(option) << 32;
        match self {
            Self::Open => [0; 4],
            Self::Close { channel } => [1, channel.into(), 0, 0],
            Self::Command {
                channel,
                length,
                option_length,
            } => [2, channel.into(), lengths(length, option_length), 0],
            Self::Migrate {
                channel,
                length,
                source,
            } => [3, channel.into(), length.into(), answer(source)],
        }
    }

    /// Decodes a call. `None`: the words are no call, or a message would be too long.
    pub fn of_words(words: [u64; 4]) -> Option<Self> {
        let channel = u32::try_from(words[1]).ok()?;
        let (length, option_length) = (words[2] as u32, (words[2] >> 32) as u32);
        if u64::from(length) + u64::from(option_length) > MAX_MESSAGE as u64 {
            return None;
        }
        Some(match words[0] {
            0 => Self::Open,
            1 => Self::Close { channel },
            2 => Self::Command {
                channel,
                length,
                option_length,
            },
            3 => Self::Migrate {
                channel,
                length,
                source: result(words[3]),
            },
            _ => return None,
        })
    }
}

/// Encodes an answer: a value, or an errno.
pub fn answer(result: Result<u32, u32>) -> u64 {
    match result {
        Ok(value) => value.into(),
        Err(errno) => FAILED | u64::from(errno),
    }
}

/// Decodes an answer.
pub fn result(answer: u64) -> Result<u32, u32> {
    match answer & FAILED {
        0 => Ok(answer as u32),
        _ => Err(answer as u32),
    }
}

/// Bytes of a command, or of its reply.
#[derive(Debug)]
#[repr(C)]
pub struct CmMessage([AtomicU64; MAX_MESSAGE / 8]);

impl CmMessage {
    /// Writes a message of two parts. Returns false if it is too long.
    pub fn set(&self, first: &[u8], second: &[u8]) -> bool {
        let bytes = [first, second].concat();
        if bytes.len() > MAX_MESSAGE {
            return false;
        }
        for (cell, part) in self.0.iter().zip(bytes.chunks(8)) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            cell.store(u64::from_le_bytes(word), Ordering::Relaxed);
        }
        true
    }

    /// Returns the first bytes of the message, at most [`MAX_MESSAGE`].
    pub fn get(&self, length: usize) -> Vec<u8> {
        let length = length.min(MAX_MESSAGE);
        let words = self.0[..length.div_ceil(8)].iter();
        let words = words.flat_map(|cell| cell.load(Ordering::Relaxed).to_le_bytes());
        words.take(length).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_come_as_they_were_made() {
        let (channel, length) = (7, 300);
        let calls = [
            CmCall::Open,
            CmCall::Close { channel },
            CmCall::Command {
                channel,
                length,
                option_length: 4096,
            },
            CmCall::Migrate {
                channel,
                length,
                source: Ok(u32::MAX),
            },
            CmCall::Migrate {
                channel,
                length,
                source: Err(22),
            },
        ];
        for call in calls {
            assert_eq!(CmCall::of_words(call.to_words()), Some(call));
        }
    }

    #[test]
    fn invalid_words_are_no_call() {
        let most = MAX_MESSAGE as u64;
        assert_eq!(CmCall::of_words([4, 0, 0, 0]), None);
        assert_eq!(CmCall::of_words([2, 1 << 32, 0, 0]), None);
        assert_eq!(CmCall::of_words([2, 0, most | 1 << 32, 0]), None);
        assert!(CmCall::of_words([2, 0, most, 0]).is_some());
    }

    #[test]
    fn a_message_has_the_bytes_of_its_parts() {
        let message = CmMessage([const { AtomicU64::new(0) }; MAX_MESSAGE / 8]);
        assert!(message.set(&[1, 2, 3], &[4; 10]));
        assert_eq!(message.get(13), [1, 2, 3, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4]);
        assert!(message.set(&[5; MAX_MESSAGE], &[]));
        assert_eq!(message.get(MAX_MESSAGE), [5; MAX_MESSAGE]);
        assert!(!message.set(&[5; MAX_MESSAGE], &[6]));
        assert_eq!(message.get(usize::MAX).len(), MAX_MESSAGE);
    }
}
