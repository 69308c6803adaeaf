//! The number of a channel.

/// Names a channel: what one `open` of the device file has returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChannelId(pub u32);
