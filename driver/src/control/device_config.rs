//! Configuration of bring-up.

use core::time::Duration;

use crate::control::command::COMMAND_TIMEOUT;

/// Time limit of a reset, and of enabling after it.
const RESET_TIMEOUT: Duration = Duration::from_secs(5);
/// Number of completion vectors, unless the configuration sets another.
const COMPLETION_VECTORS: u16 = 4;

/// Configuration of bring-up.
#[derive(Debug, Clone, Copy)]
pub struct DeviceConfig {
    /// Time limit of a command.
    pub command_timeout: Duration,
    /// Time limit of a reset, and of enabling after it.
    pub reset_timeout: Duration,
    /// Completion vectors, limited to the device's interrupts.
    pub completion_vectors: u16,
    /// True if only work requests with an inline payload are pushed, which the device then sends
    /// without any DMA read. Otherwise every small one is.
    pub push_inline_only: bool,
    /// Seed of the order in which key variants are used; `None`: ascending.
    pub key_seed: Option<u64>,
}

impl Default for DeviceConfig {
    fn default() -> Self {
        Self {
            command_timeout: COMMAND_TIMEOUT,
            reset_timeout: RESET_TIMEOUT,
            completion_vectors: COMPLETION_VECTORS,
            push_inline_only: false,
            key_seed: None,
        }
    }
}
