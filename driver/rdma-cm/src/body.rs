//! The body of a command, and the reply to it.

use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes};

use crate::abi;
use crate::errno::Errno;

/// What the caller writes back into the memory of the program.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reply {
    /// Where: the command's `response`
    pub address: u64,
    /// What, cut to the room that the command has named; empty if there is no response
    pub bytes: Vec<u8>,
}

/// The body of a command, and the room that its response has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Body<'a> {
    pub(crate) input: &'a [u8],
    pub(crate) room: usize,
}

impl<'a> Body<'a> {
    /// Returns the number of a command, and its body.
    ///
    /// # Errors
    ///
    /// EINVAL if it is shorter than its header says, or than the header.
    pub(crate) fn split(bytes: &'a [u8]) -> Result<(u32, Self), Errno> {
        let header = abi::Header::read_from_prefix(bytes);
        let (header, rest) = header.map_err(|_| Errno::EINVAL)?;
        let input = rest.get(..usize::from(header.input));
        let input = input.ok_or(Errno::EINVAL)?;
        let room = usize::from(header.output);
        Ok((header.command, Self { input, room }))
    }

    /// Returns the layout at the start. What follows is of a newer version, and not read: so does
    /// the kernel.
    ///
    /// # Errors
    ///
    /// EINVAL if the body is shorter.
    pub(crate) fn parse<T: FromBytes>(&self) -> Result<T, Errno> {
        let parsed = T::read_from_prefix(self.input);
        parsed.map(|(value, _)| value).map_err(|_| Errno::EINVAL)
    }

    /// Returns the layout at the start, of which an older version has `base_length` bytes; the rest
    /// is zero then.
    ///
    /// # Errors
    ///
    /// EINVAL if the body is shorter than that.
    pub(crate) fn parse_from<T>(&self, base_length: usize) -> Result<T, Errno>
    where
        T: FromBytes + IntoBytes + FromZeros,
    {
        if self.input.len() < base_length {
            return Err(Errno::EINVAL);
        }
        let mut value = T::new_zeroed();
        let bytes = value.as_mut_bytes();
        let length = bytes.len().min(self.input.len());
        bytes[..length].copy_from_slice(&self.input[..length]);
        Ok(value)
    }

    /// Returns an error unless the response has room for that many bytes.
    pub(crate) fn expect_room(&self, length: usize) -> Result<(), Errno> {
        if self.room >= length {
            Ok(())
        } else {
            Err(Errno::ENOSPC)
        }
    }

    /// Returns a response, cut to its room.
    pub(crate) fn reply<T>(&self, address: u64, response: &T) -> Reply
    where
        T: IntoBytes + Immutable + ?Sized,
    {
        let mut bytes = response.as_bytes().to_vec();
        bytes.truncate(self.room);
        Reply { address, bytes }
    }
}
