//! Limits of this card that several blocks share.

/// Entries of the GID table.
pub const MAX_GIDS: usize = 256;
/// Base-2 logarithm of the largest send queue in blocks, receive queue in entries and CQ.
pub const LOG_MAX_RING: u8 = 18;
/// WQEs of one queue pair that are flushed in one turn.
pub const FLUSH_PER_TURN: usize = 1024;
/// Maximum number of page faults without an answer. Accesses to further pages are put off without
/// an event, and raise it when they come again.
pub const MAX_PAGE_FAULTS: usize = 64;
