//! Records of a function: all traffic at its edges, in a file, and the comparison of two records.
//!
//! - [`mod@format`]: the file. [`recorder`] writes it, [`reader`] reads it.
//! - [`function`]: a function with a recorder at its edges. [`bus`]: the same on the driver's side,
//!   for a card.
//! - [`follow`]: interprets the contract in a record: commands, queues and regions that they
//!   create. [`image`]: the part of host memory that the function has accessed. [`fields`]:
//!   structures of the contract as named fields. [`frames`]: frames as named fields.
//! - [`streams`]: the streams that are compared. [`load`] extracts them from a file. [`compare`]
//!   finds the first difference of each stream.

pub mod bus;
pub mod compare;
mod entries;
pub mod fields;
pub mod follow;
pub mod format;
pub mod frames;
pub mod function;
pub mod image;
pub mod load;
pub mod reader;
pub mod recorder;
pub mod streams;

pub use bus::RecordingBus;
pub use format::{Kind, Source, flags};
pub use function::Recorded;
pub use reader::{Position, ReadError, Reader, Record};
pub use recorder::{Recorder, prepare};
