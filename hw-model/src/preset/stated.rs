//! A value as a file states it: `{ value = …, origin = "…", source = "…" }`.

use std::borrow::Cow;

use toml::{Table, Value as Toml};

use super::section::Declaration;
use super::value::Value;
use super::{LONGEST_QUOTE, Origin, PresetError, Provenance, expected, prefix};

/// Where a value is stated.
pub(super) struct Statement<'a> {
    /// The file, for messages.
    pub file: &'a str,
    /// The name of the preset or host profile.
    pub stated_by: &'a str,
    /// The parameter.
    pub key: &'a str,
}

impl Statement<'_> {
    /// Reads the value and its provenance.
    pub fn read(
        &self,
        declaration: &'static Declaration,
        given: &Toml,
    ) -> Result<(Value, Provenance), PresetError> {
        let table = given.as_table();
        let table = table.ok_or_else(|| self.form("is not a table"))?;
        let known = ["value", "origin", "source"];
        if let Some(other) = table.keys().find(|name| !known.contains(&name.as_str())) {
            let other: String = other.chars().take(LONGEST_QUOTE).collect();
            return Err(self.form(&format!("has an unknown '{other}'")));
        }
        let value = table
            .get("value")
            .ok_or_else(|| self.form("has no value"))?;
        let converted = declaration.convert(value);
        let value = self.permitted(declaration, &value.to_string(), converted)?;
        Ok((value, self.provenance(table)?))
    }

    /// Returns the value if it has the right type and is permitted. `text`: as it was given.
    pub fn permitted(
        &self,
        declaration: &'static Declaration,
        text: &str,
        value: Option<Value>,
    ) -> Result<Value, PresetError> {
        let permitted = value.filter(|&value| declaration.range.contains(value));
        permitted.ok_or_else(|| PresetError::Value {
            place: prefix(self.file),
            key: self.key.to_owned(),
            value: text.chars().take(LONGEST_QUOTE).collect(),
            expected: expected(declaration),
        })
    }

    fn provenance(&self, table: &Table) -> Result<Provenance, PresetError> {
        let text = |name: &str| table.get(name).and_then(Toml::as_str).unwrap_or_default();
        let Some(origin) = Origin::parse(text("origin")) else {
            return Err(self.form("has no origin that is known"));
        };
        let source = text("source").trim();
        if source.is_empty() {
            return Err(self.form("has no source"));
        }
        Ok(Provenance {
            origin,
            source: Cow::Owned(source.to_owned()),
            stated_by: Cow::Owned(self.stated_by.to_owned()),
        })
    }

    fn form(&self, reason: &str) -> PresetError {
        PresetError::Form {
            file: self.file.to_owned(),
            key: self.key.to_owned(),
            reason: reason.to_owned(),
        }
    }
}
