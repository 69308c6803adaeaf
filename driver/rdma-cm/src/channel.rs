//! The number of a channel.

/// Identifies a channel, which is one `open` of the device file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChannelId(pub u32);
