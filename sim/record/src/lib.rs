//! Records of a function: everything that crosses its edges, in a file, and the comparison of two.
//!
//! - [`mod@format`]: the file. [`recorder`] writes it, [`reader`] reads it.
//! - [`function`]: a function with a recorder at its edges. [`bus`]: the same at the driver's side,
//!   for a card.
//! - [`follow`]: reads the contract in a record: commands, queues and regions that they create.
//!   [`image`]: host memory as the function has seen it. [`fields`]: structures of the contract as
//!   named fields. [`frames`]: frames as named fields.
//! - [`streams`]: what is compared, in streams. [`load`] finds them in a file. [`compare`]: the
//!   first difference of each stream.

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
