//! Recovery from packet loss in the functions of a program: `ferroce run --recovery`.

use ferroce_model::config::RecoveryConfig;
use ferroce_platform::host::{EnvironmentError, variable};

use crate::error::Error;

/// The variable with the mode, one of [`RecoveryConfig::MODES`].
pub const VARIABLE: &str = "FERROCE_RECOVERY";

/// Returns the recovery mode that the user has set for the functions of this process.
///
/// # Errors
/// [`Error::Environment`] if there is no such mode.
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
