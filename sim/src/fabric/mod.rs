//! The fabric inside one machine: who is there, and the wire between them.

pub mod directory;
// port comes with the model
pub mod registry;
pub mod ring;
