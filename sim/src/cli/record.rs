//! The option `--record`: writes all accesses at the boundary of a function to a file.

use std::path::PathBuf;

use clap::Args;

/// The record.
#[derive(Debug, Default, Args)]
pub struct RecordArgument {
    /// Record registers, doorbells, DMA, interrupts and frames of each function that is opened: in
    /// FILE, FILE.1, ... `ferroce trace` shows and compares them. An earlier record there is
    /// replaced
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
}

impl RecordArgument {
    /// Removes an earlier record, and returns the path of the new one.
    ///
    /// # Errors
    /// No file can be created there.
    pub fn prepare(&self) -> Result<Option<PathBuf>, String> {
        let Some(path) = &self.record else {
            return Ok(None);
        };
        let refused = |error| format!("--record {}: {error}", path.display());
        // The program may change its working directory before it opens the device.
        let absolute = std::path::absolute(path).map_err(refused)?;
        ferroce_record::prepare(&absolute).map_err(refused)?;
        Ok(Some(absolute))
    }
}
