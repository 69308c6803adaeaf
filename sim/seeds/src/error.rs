//! Errors of a run.

use std::fmt;

/// An error as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wrong(pub String);

impl Wrong {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns an error of the driver or the world.
    pub fn of(error: impl fmt::Display) -> Self {
        Self(error.to_string())
    }

    /// Adds the place.
    pub fn at(self, place: impl fmt::Display) -> Self {
        Self(format!("{place}: {}", self.0))
    }
}
