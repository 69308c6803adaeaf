//! Whose failures the functions of a program show: `ferroce run --personality`.

use ferroce_platform::host::{EnvironmentError, variable};
use ferroce_spec::personality::Personality;

use crate::error::Error;

/// The variable with the personality, one of [`Personality::NAMES`].
pub const VARIABLE: &str = "FERROCE_PERSONALITY";

/// Returns the personality that the user has set for the functions of this process.
///
/// # Errors
/// [`Error::Environment`] if there is no such personality.
pub fn from_environment() -> Result<Personality, Error> {
    let Some(name) = variable(VARIABLE) else {
        return Ok(Personality::FERROCE);
    };
    Personality::named(&name).ok_or_else(|| {
        Error::Environment(EnvironmentError {
            name: VARIABLE,
            value: name.clone(),
            reason: format!("is none of {}", Personality::NAMES.join(", ")),
        })
    })
}
