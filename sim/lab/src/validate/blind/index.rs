//! `tables.toml` of a blind folder: lists the measured tables, and the preset that each is compared
//! with.

use std::ops::Range;

use ferroce_model::preset::Preset;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Folder, INDEX};
use crate::reference::{self, Table, TableError};

/// A measured table, and what it is compared with.
#[derive(Debug)]
pub struct MeasuredTable {
    /// Name of its file.
    pub file: String,
    /// The table; a file can have several.
    pub table: Table,
    /// Card and host.
    pub preset: Preset,
    /// Largest permitted median error of each class of sizes.
    pub tolerance_percent: Option<f64>,
}

const TOP_KEYS: &str = "the keys are `about` and `[[table]]`";
const TABLE_KEYS: &str = "the keys of a table are file, preset and tolerance_percent";

/// Returns the description of the folder, and its tables.
pub(super) fn parse(text: &str, folder: &Folder) -> Result<(String, Vec<MeasuredTable>), String> {
    let index = Index { text, folder };
    let document = DeTable::parse(text).map_err(|error| {
        let at = error.span().unwrap_or(0..0);
        index.error(&at, error.message(), "TOML is expected")
    })?;
    let mut about = String::new();
    let mut tables = Vec::new();
    for (key, value) in document.get_ref() {
        match (key.get_ref().as_ref(), value.get_ref()) {
            ("about", DeValue::String(text)) => text.as_ref().clone_into(&mut about),
            ("table", DeValue::Array(entries)) => {
                for entry in entries.iter() {
                    tables.extend(index.tables(entry)?);
                }
            }
            ("about", _) => return Err(index.error(&value.span(), "about", "a text is expected")),
            ("table", _) => {
                let remedy = "tables stand below lines `[[table]]`";
                return Err(index.error(&value.span(), "table", remedy));
            }
            (other, _) => {
                let problem = format!("key `{other}`");
                return Err(index.error(&key.span(), &problem, TOP_KEYS));
            }
        }
    }
    Ok((about, tables))
}

struct Index<'a> {
    text: &'a str,
    folder: &'a Folder,
}

impl Index<'_> {
    fn error(&self, at: &Range<usize>, problem: &str, remedy: &str) -> String {
        let before = self.text.get(..at.start).unwrap_or("");
        let line = before.matches('\n').count() + 1;
        self.folder
            .error(INDEX, &TableError::new(line, problem, remedy))
    }

    /// Returns the tables of the file that an entry names.
    fn tables(&self, entry: &Spanned<DeValue<'_>>) -> Result<Vec<MeasuredTable>, String> {
        let DeValue::Table(keys) = entry.get_ref() else {
            return Err(self.error(&entry.span(), "an entry that is no table", TABLE_KEYS));
        };
        self.check_keys(keys)?;
        let (file, file_at) = self.required(entry, keys, "file")?;
        let (preset, preset_at) = self.required(entry, keys, "preset")?;
        let loaded = self.folder.preset(&preset).map_err(|error| {
            let remedy = "a built-in preset, or a file of this folder that ends in .toml, \
                          with host profiles behind @";
            self.error(&preset_at, &error, remedy)
        })?;
        let tolerance_percent = self.tolerance(keys)?;
        let path = self.folder.file(&file);
        let text = std::fs::read_to_string(&path).map_err(|error| {
            let problem = format!("file `{file}`: {error}");
            self.error(&file_at, &problem, "a file of this folder is expected")
        })?;
        let tables = reference::parse(&file, &text);
        let tables = tables.map_err(|error| self.folder.error(&file, &error))?;
        let tables = tables.into_iter().map(|table| MeasuredTable {
            file: file.clone(),
            table,
            preset: loaded.clone(),
            tolerance_percent,
        });
        Ok(tables.collect())
    }

    fn check_keys(&self, keys: &DeTable<'_>) -> Result<(), String> {
        let is_known = |key: &str| ["file", "preset", "tolerance_percent"].contains(&key);
        match keys
            .iter()
            .find(|(key, _)| !is_known(key.get_ref().as_ref()))
        {
            None => Ok(()),
            Some((key, _)) => {
                let problem = format!("key `{}`", key.get_ref());
                Err(self.error(&key.span(), &problem, TABLE_KEYS))
            }
        }
    }

    /// Returns a text of an entry, and its place.
    fn required(
        &self,
        entry: &Spanned<DeValue<'_>>,
        keys: &DeTable<'_>,
        name: &str,
    ) -> Result<(String, Range<usize>), String> {
        match keys.get(name).map(|value| (value, value.get_ref())) {
            Some((value, DeValue::String(text))) => Ok((text.to_string(), value.span())),
            Some((value, _)) => Err(self.error(&value.span(), name, "a text is expected")),
            None => {
                let problem = format!("a table without `{name}`");
                Err(self.error(&entry.span(), &problem, TABLE_KEYS))
            }
        }
    }

    fn tolerance(&self, keys: &DeTable<'_>) -> Result<Option<f64>, String> {
        let Some(value) = keys.get("tolerance_percent") else {
            return Ok(None);
        };
        let number: Option<f64> = match value.get_ref() {
            DeValue::Integer(number) => number.as_str().parse().ok(),
            DeValue::Float(number) => number.as_str().parse().ok(),
            _ => None,
        };
        match number.filter(|number| *number >= 0.0) {
            Some(number) => Ok(Some(number)),
            None => Err(self.error(
                &value.span(),
                "tolerance_percent",
                "a number of percent is expected, such as 10",
            )),
        }
    }
}
