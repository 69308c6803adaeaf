//! Files of captures.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use crate::os;

/// Mode of a new file: frames of programs are private to the user.
pub const PRIVATE: u32 = 0o600;

/// Creates a file for frames, or truncates an existing file of this user and keeps its mode.
///
/// # Errors
/// The error of the system, or of [`refuse_of_others`].
pub fn create_private(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(PRIVATE)
        .open(path)?;
    refuse_of_others(&file)?;
    if file.metadata()?.is_file() {
        file.set_len(0)?;
    }
    Ok(file)
}

/// Refuses a file of another user, who could read what programs send: its mode is that user's
/// choice. Pipes and devices keep nothing.
///
/// # Errors
/// `PermissionDenied`.
pub fn refuse_of_others(file: &File) -> io::Result<()> {
    let found = file.metadata()?;
    if !found.is_file() || found.uid() == os::user_id() {
        return Ok(());
    }
    let (owner, user) = (found.uid(), os::user_id());
    Err(io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!(
            "it belongs to user {owner}, who could read what this program (user {user}) sends; \
             name a file that does not exist"
        ),
    ))
}
