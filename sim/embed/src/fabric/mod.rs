//! The fabric inside one machine: its functions, and the wire between them.

pub mod cm_report;
pub mod directory;
pub mod host_peers;
pub mod registry;
pub mod ring;
pub mod shown_qps;
pub mod spare;
