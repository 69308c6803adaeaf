//! The body of a command, and the reply to it.

use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes};

use crate::abi;
use crate::errno::Errno;

/// A response that the caller writes to the program's memory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reply {
    /// Address: the command's `response`
    pub address: u64,
    /// Content, truncated to the length that the command gives; empty if there is no response
    pub bytes: Vec<u8>,
}

/// The body of a command, and the maximum length of its response.
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
    /// EINVAL if it is shorter than the header, or than the length in the header.
    pub(crate) fn split(bytes: &'a [u8]) -> Result<(u32, Self), Errno> {
        let header = abi::Header::read_from_prefix(bytes);
        let (header, rest) = header.map_err(|_| Errno::EINVAL)?;
        let input = rest.get(..usize::from(header.input));
        let input = input.ok_or(Errno::EINVAL)?;
        let room = usize::from(header.output);
        Ok((header.command, Self { input, room }))
    }

    /// Returns the layout at the start. Further bytes are fields of a newer version and are
    /// ignored, as in the kernel.
    ///
    /// # Errors
    ///
    /// EINVAL if the body is shorter.
    pub(crate) fn parse<T: FromBytes>(&self) -> Result<T, Errno> {
        let parsed = T::read_from_prefix(self.input);
        parsed.map(|(value, _)| value).map_err(|_| Errno::EINVAL)
    }

    /// Returns the layout at the start. In an older version it has only `base_length` bytes; the
    /// other fields are then zero.
    ///
    /// # Errors
    ///
    /// EINVAL if the body is shorter than `base_length`.
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

    /// Returns an error unless the response has room for `length` bytes.
    pub(crate) fn expect_room(&self, length: usize) -> Result<(), Errno> {
        if self.room >= length {
            Ok(())
        } else {
            Err(Errno::ENOSPC)
        }
    }

    /// Returns a response, truncated to its maximum length.
    pub(crate) fn reply<T>(&self, address: u64, response: &T) -> Reply
    where
        T: IntoBytes + Immutable + ?Sized,
    {
        let mut bytes = response.as_bytes().to_vec();
        bytes.truncate(self.room);
        Reply { address, bytes }
    }
}
