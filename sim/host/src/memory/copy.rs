//! Copies from the memory of one host to that of another.

use ferroce_model::ports::host::DmaError;

use super::{MemoryMap, copy_across};

/// Bytes that are copied at a time through a buffer.
const BUFFER_BYTES: usize = 4096;

impl MemoryMap {
    /// Copies `length` bytes at `from` of the map `source` to `to`: as a read and a write, but in
    /// one step where both ranges are in one mapping of this process's memory each.
    ///
    /// # Errors
    /// [`DmaError`] if not all is mapped, for reading and for writing. A part may be copied then.
    pub fn copy_from(
        &mut self,
        to: u64,
        source: &mut Self,
        from: u64,
        length: usize,
    ) -> Result<(), DmaError> {
        let places = (source.readable(from, length), self.writable(to, length));
        if let (Ok(read), Ok(written)) = places
            && read.abs_diff(written) >= length
        {
            // What has faulted is read and written again, each with its own reason.
            if copy_across(written, read, length).is_ok() {
                return Ok(());
            }
        }
        in_buffers(length, |at, buffer| {
            source.read(from + at, buffer)?;
            self.write(to + at, buffer)
        })
    }

    /// Copies `length` bytes from `from` to `to`.
    ///
    /// # Errors
    /// As [`Self::copy_from`].
    pub fn copy_within(&mut self, to: u64, from: u64, length: usize) -> Result<(), DmaError> {
        in_buffers(length, |at, buffer| {
            self.read(from + at, buffer)?;
            self.write(to + at, buffer)
        })
    }
}

/// Calls `copy` with a buffer for each part of `length` bytes, and the part's offset.
fn in_buffers(
    length: usize,
    mut copy: impl FnMut(u64, &mut [u8]) -> Result<(), DmaError>,
) -> Result<(), DmaError> {
    let mut buffer = [0; BUFFER_BYTES];
    for at in (0..length).step_by(BUFFER_BYTES) {
        let part = (length - at).min(BUFFER_BYTES);
        copy(at as u64, &mut buffer[..part])?;
    }
    Ok(())
}
