//! Writes to regions with relaxed ordering in a random order: `ferroce run --relaxed-order`.

use ferroce_platform::host::EnvironmentError;
use ferroce_platform::host::variable;

use crate::error::Error;

/// The variable with the user's seed.
pub const VARIABLE: &str = "FERROCE_RELAXED_ORDER";

/// Returns the seed of the order. `None`: all writes become visible in order.
///
/// # Errors
/// [`Error::Environment`] if it is not a number.
pub fn from_environment() -> Result<Option<u64>, Error> {
    let Some(text) = variable(VARIABLE) else {
        return Ok(None);
    };
    text.parse().map(Some).map_err(|_| {
        Error::Environment(EnvironmentError {
            name: VARIABLE,
            value: text.clone(),
            reason: "is no number of 64 bits".to_owned(),
        })
    })
}
