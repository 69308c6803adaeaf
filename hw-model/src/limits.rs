//! Limits of this card that several blocks share.

/// Entries of the GID table.
pub const MAX_GIDS: usize = 256;
/// Base-2 logarithm of the largest send queue in blocks, receive queue in entries and CQ.
pub const LOG_MAX_RING: u8 = 18;
/// WQEs of one queue pair that are flushed in one turn.
pub const FLUSH_PER_TURN: usize = 1024;
