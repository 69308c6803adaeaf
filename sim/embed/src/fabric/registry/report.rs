//! Names of the files in which processes publish their state as communication managers.

use std::path::{Path, PathBuf};

const PREFIX: &str = "cm-";
/// Suffix of a file that is being written.
const UNFINISHED: &str = "new";

/// Returns the file of the process at a place. The directory has mode 0700, so no other user can
/// read it.
pub(in super::super) fn path(directory: &Path, place: u8) -> PathBuf {
    directory.join(format!("{PREFIX}{place}"))
}

/// Returns the path at which that file is written before it is renamed.
pub(in super::super) fn unfinished(path: &Path) -> PathBuf {
    path.with_extension(UNFINISHED)
}

/// Returns the place whose file has this name.
pub(super) fn place_of(name: &str) -> Option<u8> {
    let place = name.strip_prefix(PREFIX)?;
    let finished = place.split_once('.').filter(|(_, end)| *end == UNFINISHED);
    finished.map_or(place, |(place, _)| place).parse().ok()
}
