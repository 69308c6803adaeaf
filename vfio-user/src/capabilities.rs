//! What the two sides may ask of each other, as the `VERSION` messages state it.

/// What one side can take. Values that a `VERSION` message leaves out are those of
/// [`Capabilities::UNSTATED`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Most file descriptors in one message.
    pub max_msg_fds: usize,
    /// Most bytes of data in one read or write.
    pub max_data_xfer_size: usize,
    /// Most DMA mappings at a time.
    pub max_dma_maps: usize,
    /// Page sizes that DMA mappings may have, one bit each.
    pub pgsizes: u64,
    /// Takes several posted writes in one message.
    pub write_multiple: bool,
}

impl Capabilities {
    /// What holds when nothing is said.
    pub const UNSTATED: Self = Self {
        max_msg_fds: 1,
        max_data_xfer_size: 1024 * 1024,
        max_dma_maps: 65535,
        pgsizes: 4096,
        write_multiple: false,
    };
}
