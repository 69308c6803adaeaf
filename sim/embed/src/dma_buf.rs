//! Files that count as dma-bufs: `ferroce run --dma-buf`.

use ferroce_platform::host::{EnvironmentError, variable};

use crate::error::Error;

/// The variable with the name of [`Stand`].
pub const VARIABLE: &str = "FERROCE_DMA_BUF";

/// Whether memory files stand for dma-bufs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Stand {
    /// Only dma-bufs are dma-bufs, as for the kernel.
    #[default]
    Kernel,
    /// Memory files (memfd_create(2)) are accepted, too: for tests without a device that exports
    /// dma-bufs.
    Memfd,
}

impl Stand {
    /// The names, as the user writes them.
    pub const NAMES: [&str; 2] = ["kernel", "memfd"];

    /// Returns the value with this name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "kernel" => Some(Self::Kernel),
            "memfd" => Some(Self::Memfd),
            _ => None,
        }
    }
}

/// Returns what the user has set for this process.
///
/// # Errors
/// [`Error::Environment`] if there is no such name.
pub fn from_environment() -> Result<Stand, Error> {
    let Some(name) = variable(VARIABLE) else {
        return Ok(Stand::default());
    };
    Stand::named(&name).ok_or_else(|| {
        Error::Environment(EnvironmentError {
            name: VARIABLE,
            value: name.clone(),
            reason: format!("is none of {}", Stand::NAMES.join(", ")),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_has_a_value() {
        let known = Stand::NAMES.map(|name| Stand::named(name).is_some());
        assert_eq!(known, [true; 2]);
        assert_eq!(Stand::named("memfds"), None);
    }
}
