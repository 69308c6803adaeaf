//! Files of measured tables that users name.

use std::fs;

use ferroce_lab::reference::{self, Table};

/// Reads measured tables.
pub fn tables_of_file(file: &str) -> Result<Vec<Table>, String> {
    let text = fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
    let name = file.rsplit('/').next().unwrap_or(file);
    reference::parse(name, &text).map_err(|error| format!("{file}: {error}"))
}

/// Returns the table from which the cost of a post is derived: the first bandwidth table of the
/// file.
pub fn table_of_file(file: &str) -> Result<Table, String> {
    let mut tables = tables_of_file(file)?;
    let place = tables.iter().position(|table| !table.is_latency());
    Ok(tables.swap_remove(place.unwrap_or_default()))
}
