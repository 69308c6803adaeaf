//! The DMA ports of modules: lines of 64 bytes, read and written in the caller's host memory.

use ferroce_model::dma::Dma;
use ferroce_model::ports::host::{DmaError, Host};

use crate::{LINE, bytes, words};

/// Cycles from a DMA read to its line.
const READ_LATENCY_CYCLES: u64 = 3;

/// A module that reads lines.
pub trait LineReader {
    /// Runs one clock cycle.
    fn cycle(&mut self);
    /// Returns the address that it reads.
    fn read_iova(&self) -> u64;
    /// Offers a line, or withdraws it.
    fn set_line(&mut self, valid: bool, error: bool, line: [u32; LINE / 4]);
}

/// A module that writes lines.
pub trait LineWriter: LineReader {
    /// Returns the address and the line that it writes.
    fn write(&self) -> (u64, [u32; LINE / 4]);
    /// Accepts a write with its result, or ends that.
    fn set_write_result(&mut self, ready: bool, error: bool);
}

/// Implements [`LineReader`] for a Verilated module with ports of these names.
macro_rules! line_reader {
    ($module:ty) => {
        impl $crate::line_port::LineReader for $module {
            fn cycle(&mut self) {
                (**self).cycle();
            }
            fn read_iova(&self) -> u64 {
                self.read_iova()
            }
            fn set_line(&mut self, valid: bool, error: bool, line: [u32; $crate::LINE / 4]) {
                self.set_line_valid(u8::from(valid));
                self.set_line_error(u8::from(error));
                self.set_line_data(line);
            }
        }
    };
}

/// Does the same for [`LineWriter`].
macro_rules! line_writer {
    ($module:ty) => {
        impl $crate::line_port::LineWriter for $module {
            fn write(&self) -> (u64, [u32; $crate::LINE / 4]) {
                (self.write_iova(), self.write_line())
            }
            fn set_write_result(&mut self, ready: bool, error: bool) {
                self.set_write_ready(u8::from(ready));
                self.set_write_error(u8::from(error));
            }
        }
    };
}

pub(crate) use {line_reader, line_writer};

/// Reads the line that a module requests, with `read_ready` set; runs its clock until it has the
/// line.
///
/// # Errors
/// The host's error, after it was passed to the module.
pub fn serve_read<H: Host>(
    rtl: &mut impl LineReader,
    dma: &mut Dma<'_, H>,
) -> Result<(), DmaError> {
    let mut line = [0; LINE];
    let result = dma.read(rtl.read_iova(), &mut line);
    (0..READ_LATENCY_CYCLES).for_each(|_| rtl.cycle());
    rtl.set_line(true, result.is_err(), words(&line, 0));
    rtl.cycle();
    rtl.set_line(false, false, [0; LINE / 4]);
    result
}

/// Writes the line that a module offers; runs its clock until the write is accepted.
///
/// # Errors
/// The host's error, after it was passed to the module.
pub fn serve_write<H: Host>(
    rtl: &mut impl LineWriter,
    dma: &mut Dma<'_, H>,
) -> Result<(), DmaError> {
    let (iova, line) = rtl.write();
    let result = dma.write(iova, &bytes(line));
    rtl.set_write_result(true, result.is_err());
    rtl.cycle();
    rtl.set_write_result(false, false);
    result
}
