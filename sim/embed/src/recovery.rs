//! How the functions of a program recover lost packets: `ferroce run --recovery`.

use ferroce_model::config::RecoveryConfig;
use ferroce_platform::host::{EnvironmentError, variable};

use crate::error::Error;

/// The variable with the mode, one of [`RecoveryConfig::MODES`].
pub const VARIABLE: &str = "FERROCE_RECOVERY";

/// Returns what the user wants of the functions of this process.
///
/// # Errors
/// [`Error::Environment`] if it is no mode.
pub fn from_environment() -> Result<RecoveryConfig, Error> {
    let Some(name) = variable(VARIABLE) else {
        return Ok(RecoveryConfig::GO_BACK_N);
    };
    RecoveryConfig::named(&name).ok_or_else(|| {
        Error::Environment(EnvironmentError {
            name: VARIABLE,
            value: name.clone(),
            reason: format!("is none of {}", RecoveryConfig::MODES.join(", ")),
        })
    })
}
