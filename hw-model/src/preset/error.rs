//! Reasons why a preset, a parameter or a value is refused.

use thiserror::Error;

/// Reason why a preset is invalid.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum PresetError {
    /// There is neither a built-in preset nor a file of that name.
    #[error("no preset '{name}'{near}; built in are {known}, or give the path of a TOML file")]
    UnknownPreset {
        /// The requested name.
        name: String,
        /// Similar names, as the end of a sentence.
        near: String,
        /// The existing names.
        known: String,
    },
    /// There is neither a built-in host profile nor a file of that name.
    #[error(
        "no host profile '{name}'{near}; built in are {known}, or give the path of a TOML file"
    )]
    UnknownHost {
        /// The requested name.
        name: String,
        /// Similar names, as the end of a sentence.
        near: String,
        /// The existing names.
        known: String,
    },
    /// A file could not be read.
    #[error("{file}: {reason}")]
    Unreadable {
        /// The file.
        file: String,
        /// The error of the operating system.
        reason: String,
    },
    /// A file is not TOML.
    #[error("{file}: not TOML: {reason}")]
    Syntax {
        /// The file.
        file: String,
        /// Where and why.
        reason: String,
    },
    /// There is no parameter of that name.
    #[error("{place}no parameter '{key}'{near}; `ferroce preset show functional` lists all")]
    UnknownKey {
        /// The file, with a colon; empty if there is none.
        place: String,
        /// The name.
        key: String,
        /// Similar names, as the end of a sentence.
        near: String,
    },
    /// The value of a parameter is not permitted.
    #[error("{place}{key} = {value}: must be {expected}")]
    Value {
        /// The file, with a colon; empty if there is none.
        place: String,
        /// The parameter.
        key: String,
        /// The given value.
        value: String,
        /// The expected value.
        expected: String,
    },
    /// A parameter has the wrong form.
    #[error(
        "{file}: {key}: {reason}; write {{ value = …, origin = \"measured\" | \"data sheet\" | \
         \"derived\" | \"design\" | \"guess\", source = \"…\" }}"
    )]
    Form {
        /// The file.
        file: String,
        /// The parameter.
        key: String,
        /// The mistake in it.
        reason: String,
    },
    /// A preset that inherits from none says nothing about a parameter.
    #[error(
        "{file}: {key} is missing ({expected}), and {others} more; give all of them, or \
         `inherits = \"cx5-100g\"` and only the differences"
    )]
    Missing {
        /// The file.
        file: String,
        /// The first parameter that is missing.
        key: String,
        /// The expected value.
        expected: String,
        /// The number of further missing parameters.
        others: usize,
    },
    /// A host profile says something about the card.
    #[error("{file}: {key} belongs to the card; a host profile may set {permitted}")]
    NotOfHost {
        /// The file.
        file: String,
        /// The parameter.
        key: String,
        /// The parameters that it may set.
        permitted: String,
    },
    /// Two values are permitted alone, but not together.
    #[error(
        "{preset}: {wanted} is {wanted_value} {unit}, but {possible} is {possible_value} {unit}: \
         {rule}; change one of them"
    )]
    Contradiction {
        /// The preset.
        preset: String,
        /// The broken rule.
        rule: &'static str,
        /// The parameter that is too large.
        wanted: &'static str,
        /// Its value.
        wanted_value: f64,
        /// The parameter that is too small for it.
        possible: &'static str,
        /// Its value.
        possible_value: f64,
        /// Unit of both.
        unit: &'static str,
    },
    /// An element of a topology has the wrong form, or cannot be where it is.
    #[error("{file}: topology.{element}: {reason}")]
    Topology {
        /// The file.
        file: String,
        /// The element.
        element: String,
        /// The mistake.
        reason: String,
    },
    /// Presets inherit from each other in a circle, or from too many.
    #[error("{file}: inherits through more than {limit} files")]
    TooDeep {
        /// The file.
        file: String,
        /// The allowed depth.
        limit: usize,
    },
}
