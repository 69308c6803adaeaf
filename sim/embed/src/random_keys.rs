//! Keys and QPNs in an unpredictable order: `ferroce run --random-keys`.
//!
//! A seed reproduces a run. Programs with the same seed still get different numbers, as from
//! different cards: the program's name and the host are hashed into the seed.

use std::collections::hash_map::{DefaultHasher, RandomState};
use std::hash::{BuildHasher, Hash, Hasher};

use ferroce_platform::host::EnvironmentError;
use ferroce_platform::host::variable;

use crate::error::Error;

/// The variable with the user's seed.
pub const VARIABLE: &str = "FERROCE_RANDOM_KEYS";

/// Returns a fresh seed.
pub fn new_seed() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

/// Returns the seed of this process for a device with this MAC address. `None`: keys and QPNs
/// ascend.
///
/// # Errors
/// [`Error::Environment`] if it is not a number.
pub fn seed(mac: [u8; 6]) -> Result<Option<u64>, Error> {
    let Some(text) = variable(VARIABLE) else {
        return Ok(None);
    };
    let seed: u64 = text.parse().map_err(|_| {
        Error::Environment(EnvironmentError {
            name: VARIABLE,
            value: text.clone(),
            reason: "is no number of 64 bits".to_owned(),
        })
    })?;
    let mut hasher = DefaultHasher::new();
    let arguments = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    (seed, mac, arguments).hash(&mut hasher);
    Ok(Some(hasher.finish()))
}
