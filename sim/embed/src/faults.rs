//! Plans of packet faults, from files and from the environment.

use std::fs;

use ferroce_faults::{Plan, PlanError};
use ferroce_platform::host::EnvironmentError;

use crate::error::Error;

/// The variable that names a plan.
pub const VARIABLE: &str = "FERROCE_FAULTS";

/// Reads a plan: an expression if the text has an equals sign, otherwise the path of a TOML file.
///
/// # Errors
/// A message that describes the mistake.
pub fn read(text: &str) -> Result<Plan, String> {
    if text.contains('=') {
        return text.parse().map_err(|error: PlanError| error.to_string());
    }
    let file = fs::read_to_string(text)
        .map_err(|error| format!("neither FAULT=VALUE nor a file: {error}"))?;
    Plan::from_toml(&file).map_err(|error| error.to_string())
}

/// Returns the plan that the environment requests.
///
/// # Errors
/// [`Error::Environment`].
pub fn from_environment() -> Result<Option<Plan>, Error> {
    let value = match std::env::var(VARIABLE) {
        Ok(value) if !value.is_empty() => value,
        _ => return Ok(None),
    };
    read(&value).map(Some).map_err(|reason| {
        Error::Environment(EnvironmentError {
            name: VARIABLE,
            value,
            reason,
        })
    })
}
