//! Converts fixed-size big-endian headers from and to bytes.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::Error;

/// Views the header at the start of `bytes`; `header` is its name for the error.
///
/// It returns a view rather than a copy, because loads from a fresh copy on the stack stall on its
/// stores.
#[inline]
pub(crate) fn view<'a, T>(bytes: &'a [u8], header: &'static str) -> Result<&'a T, Error>
where
    T: FromBytes + KnownLayout + Immutable + Unaligned,
{
    match T::ref_from_prefix(bytes) {
        Ok((value, _)) => Ok(value),
        Err(_) => Err(Error::Truncated {
            header,
            needed: size_of::<T>(),
            available: bytes.len(),
        }),
    }
}

/// Writes `value` to the start of `buffer`.
///
/// # Panics
///
/// If the buffer is shorter than the header; the caller has sized it with `length()`.
#[inline]
pub(crate) fn write<T: IntoBytes + Immutable>(value: &T, buffer: &mut [u8]) {
    buffer[..size_of::<T>()].copy_from_slice(value.as_bytes());
}
