//! How a device is brought up.

use crate::command::COMMAND_TIMEOUT;
use std::time::Duration;

/// How long a reset, and enabling after it, may take.
const RESET_TIMEOUT: Duration = Duration::from_secs(5);
/// Completion vectors, unless the configuration says otherwise.
const COMPLETION_VECTORS: u16 = 4;

/// How a device is brought up.
#[derive(Debug, Clone, Copy)]
pub struct DeviceConfig {
    /// How long a command may take.
    pub command_timeout: Duration,
    /// How long a reset, and enabling after it, may take.
    pub reset_timeout: Duration,
    /// Completion vectors, as far as the device has interrupts.
    pub completion_vectors: u16,
    /// Pushes only work requests with an inline payload, which the device then sends without any
    /// DMA read. Else every small one.
    pub push_inline_only: bool,
    /// Seed of the order in which the variants of keys are given; `None`: ascending.
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
